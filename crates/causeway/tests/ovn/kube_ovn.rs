//! kube-ovn's part: a `Vpc`'s static routes become those of an OVN router.
//!
//! As kube-ovn's controller does it: of what the router has and the object does not ask for, each is deleted; then what is
//! missing is added, each in a transaction of its own. A route is known by its table, policy, range and next hop. One without
//! ECMP takes the place of any other of its range.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::TryStreamExt;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::database::Ovn;

/// What a route is known by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    table: String,
    policy: &'static str,
    range: String,
    hop: String,
}

impl Key {
    /// Of a route as the object has it.
    fn of(route: &Value) -> Key {
        let policy = if route["policy"] == "policySrc" { "src-ip" } else { "dst-ip" };
        Key::read(route, policy, ["routeTable", "cidr", "nextHopIP"])
    }

    /// Of a route as the router has it.
    fn of_row(row: &Value) -> Key {
        let policy = if row["policy"] == "src-ip" { "src-ip" } else { "dst-ip" };
        Key::read(row, policy, ["route_table", "ip_prefix", "nexthop"])
    }

    fn read(from: &Value, policy: &'static str, names: [&str; 3]) -> Key {
        let [table, range, hop] = names.map(|name| from[name].as_str().unwrap_or_default().to_owned());
        Key { table, policy, range, hop }
    }

    fn command(&self, verb: &str, more: &[&str], router: &str) -> Vec<String> {
        let table = format!("--route-table={}", self.table);
        let policy = format!("--policy={}", self.policy);
        let mut words: Vec<&str> = more.to_vec();
        words.extend([table.as_str(), &policy, verb, router, &self.range, &self.hop]);
        words.into_iter().map(str::to_owned).collect()
    }
}

/// The calls of `ovn-nbctl` that make the router's routes those of the object.
fn calls(router: &str, have: &BTreeSet<Key>, want: &[Value]) -> Vec<Vec<String>> {
    let wanted: BTreeSet<Key> = want.iter().map(Key::of).collect();
    let stale = have.difference(&wanted).map(|key| key.command("lr-route-del", &[], router));
    let missing = want.iter().filter(|route| !have.contains(&Key::of(route)));
    let add = |route: &Value| {
        let is_shared = route["ecmpMode"].as_str().is_some_and(|mode| !mode.is_empty());
        let how = if is_shared { "--ecmp-symmetric-reply" } else { "--may-exist" };
        Key::of(route).command("lr-route-add", &[how], router)
    };
    stale.chain(missing.map(add)).collect()
}

/// Carries every version of a `Vpc` that it sees over to OVN; ends when dropped.
pub(crate) struct KubeOvn {
    calls: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl KubeOvn {
    pub(crate) fn start(client: Client, vpc: &'static str, ovn: Arc<Ovn>) -> KubeOvn {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let kind = GroupVersionKind::gvk("kubeovn.io", "v1", "Vpc");
        let vpcs = Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, "vpcs"));
        let task = tokio::spawn(follow(vpcs, vpc, ovn, calls.clone()));
        KubeOvn { calls, task }
    }

    /// What it changed since this was asked last.
    pub(crate) fn changes(&self) -> Vec<String> {
        assert!(!self.task.is_finished(), "it follows the object");
        std::mem::take(&mut *self.calls.lock().expect("nobody failed"))
    }

    /// Ends it.
    pub(crate) async fn end(self) {
        self.task.abort();
        assert!(self.task.await.expect_err("it runs until then").is_cancelled());
    }
}

async fn follow(vpcs: Api<DynamicObject>, name: &'static str, ovn: Arc<Ovn>, made: Arc<Mutex<Vec<String>>>) {
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut objects = std::pin::pin!(watcher(vpcs, only).default_backoff().applied_objects());
    while let Some(vpc) = objects.try_next().await.expect("the watch goes on") {
        let routes = vpc.data.pointer("/spec/staticRoutes").and_then(Value::as_array);
        for call in calls(name, &held(&ovn).await, routes.map(Vec::as_slice).unwrap_or_default()) {
            let words: Vec<&str> = call.iter().map(String::as_str).collect();
            ovn.nbctl(&words).await;
            made.lock().expect("nobody failed").push(call.join(" "));
        }
    }
}

async fn held(ovn: &Ovn) -> BTreeSet<Key> {
    let rows = ovn.rows().await;
    let routes = rows.iter().filter(|((table, _), _)| table == "Logical_Router_Static_Route");
    routes.map(|(_, row)| Key::of_row(&serde_json::from_str(row).expect("a row"))).collect()
}
