//! The StatefulSet controller and the kubelet of one cluster.
//!
//! Watch events → what is known of each pod and its set → [`plan`] → steps. Each pod has a worker
//! of its own, which is woken only by what concerns that pod and alone starts and stops it. A
//! failed step is tried again from what is true then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_controller::words::describe;
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::addresses::{Role, SYSTEM};
use super::echo::Echo;
use super::kubeovn;
use super::pod_status;
use super::running::{RunningPod, RunningPods};
use super::topology::Fabric;
use super::views::{self, Listed};
use super::workloads::{Life, Scene, SetStatus, Sets, Step, plan};

const RETRY: Duration = Duration::from_millis(250);

/// What is known of each pod; nothing until the first lists are complete.
type Known = BTreeMap<Role, watch::Sender<Option<Scene>>>;

/// Plays the StatefulSet controller and the kubelet of one cluster.
pub(super) struct Kubelet {
    client: Client,
    fabric: Arc<Fabric>,
    running: RunningPods,
    sets: Sets,
}

impl Kubelet {
    pub(super) fn new(client: Client, fabric: Arc<Fabric>, running: RunningPods, sets: Sets) -> Kubelet {
        Kubelet { client, fabric, running, sets }
    }

    /// Works until dropped; an error means that a watch ended for good.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let known: Known = Role::ALL.into_iter().map(|role| (role, watch::Sender::new(None))).collect();
        let workers = join_all(known.iter().map(|(role, news)| self.work(*role, news.subscribe())));
        tokio::select! {
            ended = self.listen(&known) => ended,
            _ = workers => anyhow::bail!("the kubelet's workers ended"),
        }
    }

    /// Watches, and passes on what changed for each pod.
    async fn listen(&self, known: &Known) -> anyhow::Result<()> {
        let sets = Api::<StatefulSet>::namespaced(self.client.clone(), SYSTEM);
        let gateways = watcher::Config::default().labels("ovn.kubernetes.io/vpc-nat-gw=true");
        let mut set_events = watcher(sets, gateways).default_backoff().boxed();
        let pods = Api::<Pod>::all(self.client.clone());
        let mut pod_events = watcher(pods, watcher::Config::default()).default_backoff().boxed();
        let (mut sets, mut pods) = (Listed::default(), Listed::default());
        loop {
            tokio::select! {
                event = set_events.try_next() => note(event, &mut sets, views::set)?,
                event = pod_events.try_next() => note(event, &mut pods, views::pod)?,
            }
            // Nothing is decided before both lists are complete.
            let (Some(sets), Some(pods)) = (sets.get(), pods.get()) else { continue };
            for (role, news) in known {
                let set = match role {
                    Role::Gateway(gateway) => sets.get(gateway).cloned(),
                    Role::Client | Role::Server => None,
                };
                let scene = Some(Scene { set, pod: pods.get(role).cloned(), life: None });
                news.send_if_modified(|last| {
                    *last != scene && {
                        *last = scene;
                        true
                    }
                });
            }
        }
    }

    /// Does what is to be done about one pod, whenever something is.
    async fn work(&self, role: Role, mut news: watch::Receiver<Option<Scene>>) {
        while news.changed().await.is_ok() {
            let mut done = false;
            while !done {
                let seen = news.borrow_and_update().clone();
                let Some(scene) = seen else { break };
                done = self.settle(role, scene).await;
                if !done {
                    // News that came meanwhile is read on the next round anyway.
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Carries out what is to be done right now; false when something failed.
    async fn settle(&self, role: Role, mut scene: Scene) -> bool {
        scene.life = self.life(role);
        for step in plan(self.sets, role, &scene) {
            tracing::debug!(cluster = %self.fabric.cluster(), pod = role.short(), ?step, "kubelet");
            if let Err(error) = self.carry_out(role, &scene, step).await {
                let error = describe(error.as_ref());
                tracing::warn!(cluster = %self.fabric.cluster(), pod = role.short(), error, "trying again");
                return false;
            }
        }
        true
    }

    fn life(&self, role: Role) -> Option<Life> {
        let pod = self.running.get(role)?;
        Some(Life { uid: pod.uid.clone(), boot: pod.boot.clone(), started: pod.started.clone() })
    }

    async fn carry_out(&self, role: Role, scene: &Scene, step: Step) -> anyhow::Result<()> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), role.namespace());
        match step {
            Step::Stop => self.stop(role).await,
            Step::Release { uid } => delete(&pods, role, uid, Some(0)).await,
            Step::Delete { uid } => delete(&pods, role, uid, None).await,
            Step::Create => self.create(&pods, scene, role).await,
            Step::Bind => self.bind(&pods, role).await,
            Step::Start { uid, boot } => {
                self.start(role, uid, boot).await?;
                self.report(&pods, scene, role).await
            }
            Step::Report => self.report(&pods, scene, role).await,
            Step::TellSet(status) => self.tell_set(role, status).await,
        }
    }

    async fn stop(&self, role: Role) -> anyhow::Result<()> {
        let Some(pod) = self.running.remove(role) else { return Ok(()) };
        let cut = self.fabric.unplug(&pod.net).await;
        pod.end();
        // A half-cut pod is not tried again: its namespace goes with its last user anyway.
        if let Err(error) = cut {
            tracing::warn!(cluster = %self.fabric.cluster(), pod = role.short(), %error, "unplugging");
        }
        Ok(())
    }

    async fn start(&self, role: Role, uid: String, boot: Option<String>) -> anyhow::Result<()> {
        let net = self.fabric.plug(role).await?;
        let echo = match role {
            Role::Server => Some(Echo::start(&net.namespace, self.fabric.cluster().server_global()).await?),
            Role::Client | Role::Gateway(_) => None,
        };
        let started = pod_status::now();
        let mark = format!("{uid}-{}", boot.as_deref().unwrap_or("first"));
        let ended = CancellationToken::new();
        self.running.insert(RunningPod { uid, boot, started, mark, net, echo, ended });
        Ok(())
    }

    async fn create(&self, pods: &Api<Pod>, scene: &Scene, role: Role) -> anyhow::Result<()> {
        let pod = kubeovn::pod(self.fabric.cluster(), role, scene.set.as_ref());
        let pod = serde_json::from_value(pod)?;
        match pods.create(&PostParams::default(), &pod).await {
            // Made by an earlier step whose event is still on its way.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            made => made.map(drop).context("creating the pod"),
        }
    }

    async fn bind(&self, pods: &Api<Pod>, role: Role) -> anyhow::Result<()> {
        let cluster = self.fabric.cluster();
        let patch =
            Patch::Merge(json!({"metadata": {"annotations": kubeovn::own_annotations(cluster, role)}}));
        let name = role.pod();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": cluster.node()},
        });
        let bound = async {
            pods.patch_metadata(&name, &PatchParams::default(), &patch).await?;
            pods.create_subresource::<_, Value>("binding", &name, &PostParams::default(), &binding).await
        };
        match bound.await {
            // Deleted meanwhile, or bound by an earlier step whose event is still on its way.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            bound => bound.map(drop).context("binding the pod"),
        }
    }

    async fn report(&self, pods: &Api<Pod>, scene: &Scene, role: Role) -> anyhow::Result<()> {
        let Some(running) = self.running.get(role) else { return Ok(()) };
        let restarts = match &scene.pod {
            Some(pod) if pod.reported.is_some() => pod.restarts + 1,
            _ => 0,
        };
        let patch = Patch::Merge(json!({
            "metadata": {"uid": running.uid}, "status": pod_status::running(&running, restarts),
        }));
        match pods.patch_status(&role.pod(), &PatchParams::default(), &patch).await {
            // Replaced or deleted meanwhile: its event brings us back.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            reported => reported.map(drop).context("writing the pod's status"),
        }
    }

    async fn tell_set(&self, role: Role, status: SetStatus) -> anyhow::Result<()> {
        let Role::Gateway(gateway) = role else { return Ok(()) };
        let sets = Api::<StatefulSet>::namespaced(self.client.clone(), SYSTEM);
        let patch = Patch::Merge(json!({"status": {
            "observedGeneration": status.observed_generation,
            "replicas": status.replicas,
            "currentReplicas": status.replicas,
            "updatedReplicas": status.replicas,
            "readyReplicas": status.ready,
            "availableReplicas": status.ready,
        }}));
        match sets.patch_status(&gateway.workload(), &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            reported => reported.map(drop).context("writing the StatefulSet's status"),
        }
    }
}

async fn delete(pods: &Api<Pod>, role: Role, uid: String, grace: Option<u32>) -> anyhow::Result<()> {
    let preconditions = Some(Preconditions { uid: Some(uid), resource_version: None });
    let how = DeleteParams { grace_period_seconds: grace, preconditions, ..DeleteParams::default() };
    match pods.delete(&role.pod(), &how).await {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        gone => gone.map(drop).context("deleting the pod"),
    }
}

/// Takes one watch event in. A watch repairs itself; only its end is an error.
fn note<T, K: Ord, V>(
    event: Result<Option<Event<T>>, watcher::Error>,
    listed: &mut Listed<K, V>,
    view: impl Fn(&T) -> Option<(K, V)>,
) -> anyhow::Result<()> {
    match event {
        Ok(Some(event)) => listed.take(event, view),
        Ok(None) => anyhow::bail!("a watch of the kubelet ended"),
        Err(error) => tracing::warn!(error = describe(&error), "a watch of the kubelet"),
    }
    Ok(())
}
