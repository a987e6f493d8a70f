//! What the StatefulSet controller and the kubelet should do next, as values.
//!
//! Objects seen and pods running go in, steps come out; nothing here waits or remembers. The same
//! steps come out whether a change was seen as it happened or found on a fresh list.

use std::collections::BTreeMap;

use super::addresses::Role;

/// Who makes and deletes the pods of StatefulSets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sets {
    /// We do; there is nobody else.
    Ours,
    /// The cluster's own controller manager. We only bind them to the node, for which it has nobody.
    Theirs,
}

/// A gateway's StatefulSet as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SetView {
    pub(super) uid: String,
    /// Whether its one pod should exist. Every further replica would need an address of its own.
    pub(super) wanted: bool,
    pub(super) generation: i64,
    pub(super) status: SetStatus,
    /// Labels and annotations its pods get.
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
}

/// The numbers in a StatefulSet's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SetStatus {
    pub(super) observed_generation: i64,
    pub(super) replicas: i32,
    pub(super) ready: i32,
}

/// A pod object as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodView {
    pub(super) uid: String,
    pub(super) deleting: bool,
    /// Whether it has a node.
    pub(super) bound: bool,
    /// See [`super::running::RunningPod::boot`].
    pub(super) boot: Option<String>,
    /// Start time of the life that its status reports.
    pub(super) reported: Option<String>,
    /// How often its status says it was restarted.
    pub(super) restarts: i32,
}

/// A pod that runs, whatever its object says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) uid: String,
    pub(super) boot: Option<String>,
    pub(super) started: String,
}

/// Everything that a decision about one pod is made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scene {
    /// The StatefulSet it belongs to.
    pub(super) set: Option<SetView>,
    pub(super) pod: Option<PodView>,
    pub(super) life: Option<Life>,
}

/// One thing to do about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// End its processes and cut its cables.
    Stop,
    /// It has stopped: let its object go.
    Release { uid: String },
    /// Its set does not want it any more.
    Delete { uid: String },
    /// Make its object.
    Create,
    /// Give it its addresses and a node, as kube-ovn and the scheduler would.
    Bind,
    /// Run it for this object.
    Start { uid: String, boot: Option<String> },
    /// Say in its status that it runs.
    Report,
    /// Bring its set's status up to date.
    TellSet(SetStatus),
}

/// The steps for one pod, to be done in order.
pub(super) fn plan(sets: Sets, role: Role, scene: &Scene) -> Vec<Step> {
    let Scene { set, pod, life } = scene;
    let theirs = sets == Sets::Theirs && matches!(role, Role::Gateway(_));
    let wanted = if theirs { pod.is_some() } else { wanted(role, set.as_ref()) };
    let alive = pod.as_ref().filter(|pod| !pod.deleting);
    let fits = |pod: &PodView, life: &Life| pod.uid == life.uid && pod.boot == life.boot;
    let current = alive.zip(life.as_ref()).filter(|(pod, life)| fits(pod, life));
    let mut steps = Vec::new();
    if life.is_some() && current.is_none() {
        steps.push(Step::Stop);
    }
    match (pod, wanted) {
        (Some(pod), _) if pod.deleting => steps.push(Step::Release { uid: pod.uid.clone() }),
        (Some(pod), true) if !pod.bound => steps.push(Step::Bind),
        (Some(pod), false) => steps.push(Step::Delete { uid: pod.uid.clone() }),
        (Some(pod), true) if current.is_none() => {
            steps.push(Step::Start { uid: pod.uid.clone(), boot: pod.boot.clone() });
        }
        (None, true) => steps.push(Step::Create),
        (Some(_), true) | (None, false) => {}
    }
    let reported = |(pod, life): (&PodView, &Life)| pod.reported.as_ref() == Some(&life.started);
    if current.is_some_and(|pair| !reported(pair)) {
        steps.push(Step::Report);
    }
    if let Some(set) = set.as_ref().filter(|_| !theirs) {
        let status = SetStatus {
            observed_generation: set.generation,
            replicas: i32::from(pod.is_some()),
            ready: i32::from(current.is_some_and(reported)),
        };
        if status != set.status {
            steps.push(Step::TellSet(status));
        }
    }
    steps
}

/// Workload pods are kept alive for as long as the sandbox runs.
fn wanted(role: Role, set: Option<&SetView>) -> bool {
    match role {
        Role::Gateway(_) => set.is_some_and(|set| set.wanted),
        Role::Client | Role::Server => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::addresses::Gateway;
    use super::*;

    const GW: Role = Role::Gateway(Gateway::Gw1);

    fn set(wanted: bool, replicas: i32, ready: i32) -> SetView {
        let status = SetStatus { observed_generation: 1, replicas, ready };
        SetView { uid: "set".into(), wanted, generation: 1, status, ..SetView::default() }
    }

    fn pod(uid: &str, reported: Option<&str>) -> PodView {
        PodView { uid: uid.into(), bound: true, reported: reported.map(Into::into), ..PodView::default() }
    }

    fn life(uid: &str) -> Life {
        Life { uid: uid.into(), boot: None, started: format!("start of {uid}") }
    }

    /// As everywhere but on a given server.
    fn plan(role: Role, scene: &Scene) -> Vec<Step> {
        super::plan(Sets::Ours, role, scene)
    }

    fn scene(set: SetView, pod: Option<PodView>, life: Option<Life>) -> Scene {
        Scene { set: Some(set), pod, life }
    }

    fn start(uid: &str) -> Step {
        Step::Start { uid: uid.into(), boot: None }
    }

    fn count(replicas: i32, ready: i32) -> Step {
        Step::TellSet(SetStatus { observed_generation: 1, replicas, ready })
    }

    #[test]
    fn a_pod_that_runs_and_is_reported_needs_nothing() {
        let reported = pod("a", Some("start of a"));
        assert_eq!(plan(GW, &scene(set(true, 1, 1), Some(reported), Some(life("a")))), []);
    }

    #[test]
    fn a_new_set_gets_a_pod_then_a_namespace_then_a_status() {
        assert_eq!(plan(GW, &scene(set(true, 0, 0), None, None)), [Step::Create]);
        let created = Some(pod("a", None));
        assert_eq!(plan(GW, &scene(set(true, 0, 0), created.clone(), None)), [start("a"), count(1, 0)]);
        assert_eq!(plan(GW, &scene(set(true, 1, 0), created, Some(life("a")))), [Step::Report]);
        let reported = Some(pod("a", Some("start of a")));
        assert_eq!(plan(GW, &scene(set(true, 1, 0), reported, Some(life("a")))), [count(1, 1)]);
    }

    #[test]
    fn a_set_scaled_to_zero_loses_its_pod_and_then_says_so() {
        let reported = Some(pod("a", Some("start of a")));
        let delete = Step::Delete { uid: "a".into() };
        assert_eq!(plan(GW, &scene(set(false, 1, 1), reported, Some(life("a")))), [delete]);
        assert_eq!(plan(GW, &scene(set(false, 1, 1), None, Some(life("a")))), [Step::Stop, count(0, 0)]);
    }

    #[test]
    fn a_pod_replaced_behind_our_back_is_stopped_and_started_anew() {
        let steps = plan(GW, &scene(set(true, 1, 1), Some(pod("b", None)), Some(life("a"))));
        assert_eq!(steps, [Step::Stop, start("b"), count(1, 0)]);
    }

    #[test]
    fn a_terminating_pod_is_stopped_before_its_object_is_let_go() {
        let dying = PodView { deleting: true, ..pod("a", Some("start of a")) };
        let steps = plan(GW, &scene(set(true, 1, 1), Some(dying), Some(life("a"))));
        assert_eq!(steps, [Step::Stop, Step::Release { uid: "a".into() }, count(1, 0)]);
    }

    #[test]
    fn a_reboot_keeps_the_object_and_loses_the_life() {
        let rebooted = PodView { boot: Some("1".into()), ..pod("a", Some("start of a")) };
        let steps = plan(GW, &scene(set(true, 1, 1), Some(rebooted), Some(life("a"))));
        let again = Step::Start { uid: "a".into(), boot: Some("1".into()) };
        assert_eq!(steps, [Step::Stop, again, count(1, 0)]);
    }

    #[test]
    fn pods_of_a_controller_manager_are_bound_and_run_but_neither_made_nor_counted() {
        let theirs = |scene: &Scene| super::plan(Sets::Theirs, GW, scene);
        assert_eq!(theirs(&scene(set(true, 0, 0), None, None)), []);
        let unbound = PodView { bound: false, ..pod("a", None) };
        assert_eq!(theirs(&scene(set(true, 0, 0), Some(unbound), None)), [Step::Bind]);
        assert_eq!(theirs(&scene(set(true, 0, 0), Some(pod("a", None)), None)), [start("a")]);
        assert_eq!(theirs(&scene(set(false, 1, 1), Some(pod("a", None)), Some(life("a")))), [Step::Report]);
        let dying = PodView { deleting: true, ..pod("a", Some("start of a")) };
        let steps = theirs(&Scene { set: None, pod: Some(dying), life: Some(life("a")) });
        assert_eq!(steps, [Step::Stop, Step::Release { uid: "a".into() }]);
        assert_eq!(super::plan(Sets::Theirs, Role::Client, &Scene::default()), [Step::Create]);
    }

    #[test]
    fn workloads_are_always_wanted_and_a_gateway_without_set_is_not() {
        assert_eq!(plan(Role::Client, &Scene::default()), [Step::Create]);
        assert_eq!(plan(GW, &Scene::default()), []);
    }
}
