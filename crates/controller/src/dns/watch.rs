//! Watches of the cluster: what is seen of objects becomes events of the state.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use causeway_api::dns::workload::{Deployment, Service};
use causeway_api::dns::{LooseForward, parse};
use causeway_api::vpc::foreign::kube_ovn;
use causeway_core::dns::vpc_dns::COREFILE;
use causeway_core::dns::{Corefile, Event, Sight};
use causeway_core::room::Change;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio_util::sync::CancellationToken;

use super::{Dns, KUBE_SYSTEM};
use crate::follow::{Interruption, Seen, Watch};
use crate::found::{by_key, by_name};
use crate::sources::{Feed, Sources};

/// The cluster's own DNS.
const KUBE_DNS: &str = "kube-dns";
/// Where kube-ovn is configured how to make DNS servers.
const CONFIG: &str = "vpc-dns-config";

/// Starts all watches of the room.
pub(super) fn start(room: &Arc<Dns>, sources: &mut Sources<'_, Dns>) {
    let client = || room.house.client.clone();
    let forwards = Watch::<LooseForward>::new(Api::all(client()));
    sources.watch("vpcdnsforwards", forwards, by_key(parse::forward), |change, _| Event::Forwards(change));
    let dnses = Watch::<kube_ovn::VpcDns>::new(Api::all(client()));
    sources.watch("vpc-dnses", dnses, by_name(parse::vpc_dns), |change, _| Event::VpcDnses(change));
    let deployments = Watch::<Deployment>::new(Api::namespaced(client(), KUBE_SYSTEM));
    sources.watch("deployments", deployments, by_name(parse::deployment), |change, _| {
        Event::Deployments(change)
    });

    let service = Watch::<Service>::new(Api::namespaced(client(), KUBE_SYSTEM)).named(KUBE_DNS);
    let address = by_name(|service| Some(parse::address(service)));
    sources.watch("services", service, address, |change, _| {
        Event::KubeDns(known(change, || format!("Service {KUBE_SYSTEM}/{KUBE_DNS} is not there")))
    });
    let subnet = Watch::<kube_ovn::Subnet>::new(Api::all(client())).named(parse::DEFAULT_SUBNET);
    let gateway = by_name(|subnet| Some(parse::gateway(subnet)));
    sources.watch("subnets", subnet, gateway, |change, _| {
        Event::Gateway(known(change, || format!("Subnet {} is not there", parse::DEFAULT_SUBNET)))
    });

    let config = Watch::<ConfigMap>::new(Api::namespaced(client(), KUBE_SYSTEM)).named(CONFIG);
    sources
        .watch("configuration", config, by_name(parse::provider), |change, _| Event::Provider(only(change)));
    let usual = Watch::<ConfigMap>::new(Api::namespaced(client(), KUBE_SYSTEM)).named(COREFILE);
    sources.watch("corefile", usual, by_name(parse::corefile), |change, _| {
        Event::Corefile(COREFILE.into(), Sight::Seen(only(change)))
    });
    sources.beside("corefiles", |feed| follow_others(feed, room.clone()));
}

/// The object of a watch on one name, or that there is none.
fn only<V>(change: Change<String, V>) -> Option<V> {
    match change {
        Change::Put(_, object) => Some(object),
        Change::Gone(_) => None,
        Change::Reset(objects) => objects.into_values().next(),
    }
}

fn known(
    change: Change<String, Result<Ipv4Addr, String>>,
    missing: impl Fn() -> String,
) -> Result<Ipv4Addr, String> {
    only(change).unwrap_or_else(|| Err(missing()))
}

/// Follows each ConfigMap that a VpcDns or a forward names, by that name: the right to read all of them is not needed.
async fn follow_others(feed: Feed<Dns>, room: Arc<Dns>) {
    let mut wanted = room.followed.subscribe();
    let mut ends: BTreeMap<String, CancellationToken> = BTreeMap::new();
    let mut follows = FuturesUnordered::new();
    loop {
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                let names = wanted.borrow_and_update().clone();
                ends.retain(|name, end| {
                    let is_kept = names.contains(name);
                    if !is_kept {
                        end.cancel();
                    }
                    is_kept
                });
                for name in names {
                    if !ends.contains_key(&name) {
                        let end = CancellationToken::new();
                        ends.insert(name.clone(), end.clone());
                        follows.push(follow(feed.clone(), room.clone(), name, end));
                    }
                }
            }
            Some(()) = follows.next() => {}
        }
    }
}

async fn follow(feed: Feed<Dns>, room: Arc<Dns>, name: String, end: CancellationToken) {
    let watch = Watch::<ConfigMap>::new(Api::namespaced(room.house.client.clone(), KUBE_SYSTEM)).named(&name);
    let tell = |seen: Result<Seen<String, Corefile>, Interruption>| {
        let sight = match seen {
            Ok(Seen::All { objects, .. }) => Sight::Seen(objects.into_values().next()),
            Ok(Seen::Put(_, object, _)) => Sight::Seen(Some(object)),
            Ok(Seen::Gone(..)) => Sight::Seen(None),
            Ok(Seen::Forbidden(why)) => Sight::Forbidden(why),
            // What is known stays.
            Ok(Seen::Missing) | Err(_) => return,
        };
        feed.tell(Event::Corefile(name.clone(), sight));
    };
    end.run_until_cancelled(watch.follow(feed.pace(), by_name(parse::corefile), tell)).await;
    feed.tell(Event::Corefile(name.clone(), Sight::Unseen));
}
