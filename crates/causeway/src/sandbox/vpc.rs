//! `Vpc.spec.staticRoutes` → the VPC router's kernel routes, as kube-ovn does it with OVN.
//!
//! Routes of protocol `static` in the router's namespace are the VPC's; whatever the object says
//! at the moment replaces them. Put before drop, so a moved next hop leaves no gap.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use causeway_controller::words::describe;
use futures::TryStreamExt;
use ipnet::Ipv4Net;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::addresses::VPC;
use super::netns::NamespaceError;
use super::tools;
use super::topology::{Fabric, Routes};

const RETRY: Duration = Duration::from_millis(250);

/// Keeps the router's routes as the object says, until dropped.
pub(super) async fn keep_routes(client: Client, fabric: Arc<Fabric>) -> anyhow::Result<()> {
    let kind = GroupVersionKind::gvk("kubeovn.io", "v1", "Vpc");
    let resource = ApiResource::from_gvk_with_plural(&kind, "vpcs");
    let api = Api::<DynamicObject>::all_with(client, &resource);
    let only = watcher::Config::default().fields(&format!("metadata.name={VPC}"));
    let mut events = std::pin::pin!(watcher(api.clone(), only).default_backoff());
    let (mut want, mut done) = (Routes::new(), true);
    loop {
        tokio::select! {
            event = events.try_next() => match event {
                Ok(Some(watcher::Event::Apply(vpc) | watcher::Event::InitApply(vpc))) => {
                    (want, done) = (wanted(&vpc.data), false);
                    fill_policies(&api, &vpc).await;
                }
                Ok(Some(watcher::Event::Delete(_))) => (want, done) = (Routes::new(), false),
                Ok(Some(watcher::Event::Init | watcher::Event::InitDone)) => {}
                Ok(None) => anyhow::bail!("the watch of the VPC ended"),
                Err(error) => tracing::warn!(cluster = %fabric.cluster(), error = describe(&error), "watching the VPC"),
            },
            () = tokio::time::sleep(RETRY), if !done => {}
        }
        if !done {
            done = match carry_out(&fabric, &want).await {
                Ok(()) => true,
                Err(error) => {
                    tracing::warn!(cluster = %fabric.cluster(), %error, "the VPC's routes; trying again");
                    fabric.led().send_replace(Routes::new());
                    false
                }
            };
        }
    }
}

/// kube-ovn fills in a route's policy where the user gave none, guarded by the version it saw;
/// whoever writes routes at the same moment gets a conflict, here as there.
async fn fill_policies(api: &Api<DynamicObject>, vpc: &DynamicObject) {
    let Some(routes) = with_policies(&vpc.data) else { return };
    let patch = json!({
        "metadata": {"resourceVersion": vpc.metadata.resource_version}, "spec": {"staticRoutes": routes},
    });
    // Refused means that there is a newer object: its event brings us back.
    let _ = api.patch(VPC, &PatchParams::default(), &Patch::Merge(patch)).await;
}

/// The routes with every policy filled in, if one was missing.
fn with_policies(vpc: &Value) -> Option<Value> {
    let mut routes = vpc.pointer("/spec/staticRoutes")?.clone();
    let mut filled = false;
    for route in routes.as_array_mut()?.iter_mut().filter_map(Value::as_object_mut) {
        if route.get("policy").and_then(Value::as_str).unwrap_or_default().is_empty() {
            route.insert("policy".into(), json!("policyDst"));
            filled = true;
        }
    }
    filled.then_some(routes)
}

/// The routes an object asks for. Like OVN, a later entry for the same range wins; entries that
/// route by source are not for this router.
fn wanted(vpc: &Value) -> Routes {
    let entries = vpc.pointer("/spec/staticRoutes").and_then(Value::as_array);
    entries.into_iter().flatten().filter_map(route).collect()
}

fn route(entry: &Value) -> Option<(Ipv4Net, Ipv4Addr)> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    if text("policy").is_some_and(|policy| policy == "policySrc") {
        return None;
    }
    let cidr = text("cidr")?;
    let range = cidr.parse::<Ipv4Net>().or_else(|_| cidr.parse::<Ipv4Addr>().map(Ipv4Net::from)).ok()?;
    Some((range.trunc(), text("nextHopIP")?.parse().ok()?))
}

/// Lines for `ip -batch`; none when all is as it should be.
fn plan(want: &Routes, have: &Routes) -> Vec<String> {
    let changed = want.iter().filter(|(range, via)| have.get(range) != Some(via));
    let put = changed.map(|(range, via)| format!("route replace {range} via {via} proto static"));
    let stale = have.keys().filter(|range| !want.contains_key(range));
    put.chain(stale.map(|range| format!("route delete {range} proto static"))).collect()
}

/// What was put last is there unless somebody else was at it. So changes are made at once, because packets wait for them,
/// and the look that makes sure comes afterwards.
async fn carry_out(fabric: &Fabric, want: &Routes) -> Result<(), NamespaceError> {
    let known = fabric.led().borrow().clone();
    put(fabric, &plan(want, &known)).await?;
    fabric.led().send_replace(want.clone());
    let mut show = tools::command("ip");
    show.args(["-4", "-json", "route", "show", "proto", "static"]);
    let have = observed(&fabric.router().checked(show, "").await?);
    put(fabric, &plan(want, &have)).await
}

async fn put(fabric: &Fabric, lines: &[String]) -> Result<(), NamespaceError> {
    if lines.is_empty() {
        return Ok(());
    }
    tracing::debug!(cluster = %fabric.cluster(), ?lines, "the VPC's routes");
    fabric.router().ip(lines).await
}

fn observed(json: &str) -> Routes {
    let entries: Vec<Value> = serde_json::from_str(json).unwrap_or_default();
    let parse = |entry: &Value| {
        let dst = entry.get("dst")?.as_str()?;
        let range = dst.parse::<Ipv4Net>().or_else(|_| dst.parse::<Ipv4Addr>().map(Ipv4Net::from)).ok()?;
        Some((range, entry.get("gateway")?.as_str()?.parse().ok()?))
    };
    entries.iter().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vpc(routes: Value) -> Value {
        json!({"spec": {"staticRoutes": routes}})
    }

    #[test]
    fn a_moved_next_hop_is_one_replacement() {
        let old = wanted(&vpc(json!([{"cidr": "242.1.0.0/16", "nextHopIP": "10.0.1.254"}])));
        let new = wanted(&vpc(json!([{"cidr": "242.1.0.0/16", "nextHopIP": "10.0.1.253"}])));
        assert_eq!(plan(&new, &old), ["route replace 242.1.0.0/16 via 10.0.1.253 proto static"]);
        assert!(plan(&new, &new).is_empty());
    }

    #[test]
    fn a_route_that_left_the_object_is_dropped_last() {
        let old = wanted(&vpc(json!([{"cidr": "242.1.0.0/16", "nextHopIP": "10.0.1.254"}])));
        let new = wanted(&vpc(json!([{"cidr": "242.2.0.0/16", "nextHopIP": "10.0.1.254"}])));
        let lines = plan(&new, &old);
        assert_eq!(lines.last().map(String::as_str), Some("route delete 242.1.0.0/16 proto static"));
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn what_is_no_route_by_destination_is_left_out() {
        let routes = wanted(&vpc(json!([
            {"cidr": "10.0.1.0/24", "nextHopIP": "10.0.1.254", "policy": "policySrc"},
            {"cidr": "nonsense", "nextHopIP": "10.0.1.254"},
            {"cidr": "8.8.8.8", "nextHopIP": "10.0.1.253", "policy": "policyDst"},
        ])));
        assert_eq!(routes.len(), 1);
        assert!(routes.contains_key(&"8.8.8.8/32".parse().expect("a range")));
    }

    #[test]
    fn a_missing_policy_is_filled_in_once() {
        let routes = json!([{"cidr": "242.1.0.0/16", "nextHopIP": "10.0.1.254"}]);
        let filled = with_policies(&vpc(routes)).expect("one was missing");
        assert_eq!(filled[0]["policy"], "policyDst");
        assert_eq!(with_policies(&vpc(filled)), None);
    }

    #[test]
    fn routes_are_read_as_ip_prints_them() {
        let text = r#"[{"dst":"242.1.0.0/16","gateway":"10.0.1.254","dev":"lan","flags":[]}]"#;
        let want = wanted(&vpc(json!([{"cidr": "242.1.0.0/16", "nextHopIP": "10.0.1.254"}])));
        assert_eq!(observed(text), want);
        assert!(observed("").is_empty());
    }
}
