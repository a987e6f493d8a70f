//! Watched objects → the few fields that [`super::workloads`] decides from.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::watcher::Event;

use super::addresses::{Gateway, Role};
use super::pod_status;
use super::workloads::{PodView, SetStatus, SetView};

/// Another value of this annotation reboots the pod: same object, empty namespace.
pub(super) const REBOOT: &str = "sandbox.causeway/reboot";

/// The objects of one watch; nothing until the first list is complete.
#[derive(Debug)]
pub(super) struct Listed<K, V> {
    complete: Option<BTreeMap<K, V>>,
    relist: BTreeMap<K, V>,
}

impl<K, V> Default for Listed<K, V> {
    fn default() -> Self {
        Listed { complete: None, relist: BTreeMap::new() }
    }
}

impl<K: Ord, V> Listed<K, V> {
    pub(super) fn get(&self) -> Option<&BTreeMap<K, V>> {
        self.complete.as_ref()
    }

    /// Takes an event in. Objects that `view` does not know are none of ours.
    pub(super) fn take<T>(&mut self, event: Event<T>, view: impl Fn(&T) -> Option<(K, V)>) {
        match event {
            Event::Init => self.relist.clear(),
            Event::InitApply(object) => self.relist.extend(view(&object)),
            Event::InitDone => self.complete = Some(std::mem::take(&mut self.relist)),
            Event::Apply(object) => {
                if let Some(all) = &mut self.complete {
                    all.extend(view(&object));
                }
            }
            Event::Delete(object) => {
                if let (Some(all), Some((key, _))) = (&mut self.complete, view(&object)) {
                    all.remove(&key);
                }
            }
        }
    }
}

/// A gateway's StatefulSet.
pub(super) fn set(set: &StatefulSet) -> Option<(Gateway, SetView)> {
    let gateway = Gateway::ALL.into_iter().find(|gateway| set.name_any() == gateway.workload())?;
    let spec = set.spec.as_ref();
    let status = set.status.as_ref();
    let template = spec.and_then(|spec| spec.template.metadata.clone()).unwrap_or_default();
    let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let view = SetView {
        uid: set.uid().unwrap_or_default(),
        wanted: replicas > 0 && set.metadata.deletion_timestamp.is_none(),
        generation: set.metadata.generation.unwrap_or_default(),
        status: SetStatus {
            observed_generation: status.and_then(|s| s.observed_generation).unwrap_or_default(),
            replicas: status.map(|s| s.replicas).unwrap_or_default(),
            ready: status.and_then(|s| s.available_replicas).unwrap_or_default(),
        },
        labels: template.labels.unwrap_or_default(),
        annotations: template.annotations.unwrap_or_default(),
    };
    Some((gateway, view))
}

/// One of the sandbox's pods.
pub(super) fn pod(pod: &Pod) -> Option<(Role, PodView)> {
    let role = Role::of(&pod.namespace()?, &pod.name_any())?;
    let view = PodView {
        uid: pod.uid().unwrap_or_default(),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        bound: pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()),
        boot: pod.annotations().get(REBOOT).cloned(),
        reported: pod_status::started(pod),
        restarts: pod_status::restarts(pod),
    };
    Some((role, view))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("ns1".into());
        pod.metadata.name = Some(name.into());
        pod
    }

    #[test]
    fn nothing_is_known_before_the_first_list_is_complete() {
        let mut pods = Listed::default();
        pods.take(Event::Init, pod);
        pods.take(Event::InitApply(named("client")), pod);
        assert!(pods.get().is_none());
        pods.take(Event::InitDone, pod);
        assert_eq!(pods.get().map(BTreeMap::len), Some(1));
    }

    #[test]
    fn a_relist_forgets_what_vanished_meanwhile() {
        let mut pods = Listed::default();
        for event in [Event::Init, Event::InitApply(named("client")), Event::InitDone] {
            pods.take(event, pod);
        }
        for event in [Event::Init, Event::InitApply(named("server")), Event::InitDone] {
            pods.take(event, pod);
        }
        let known: Vec<Role> = pods.get().into_iter().flat_map(BTreeMap::keys).copied().collect();
        assert_eq!(known, [Role::Server]);
    }

    #[test]
    fn foreign_pods_are_none_of_ours() {
        let mut pods = Listed::default();
        for event in [Event::Init, Event::InitDone, Event::Apply(named("somebody-elses"))] {
            pods.take(event, pod);
        }
        assert_eq!(pods.get().map(BTreeMap::len), Some(0));
    }
}
