//! What is watched over at every write of a controller: it writes its own, and nothing else.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use causeway_core::vpc::exchange::{LOCAL_CLUSTER, ORIGIN};
use causeway_core::vpc::objects::TUNNEL_FINALIZER;
use serde_json::Value;

use crate::asked::Asked;
use crate::replica::Who;
use crate::site::{ENDS, LEASES, RECORDS, TUNNELS};
use crate::world::{Place, World, id};

/// A write that was carried out.
pub(crate) struct Write<'a> {
    pub(crate) who: &'a Who,
    pub(crate) place: Place,
    pub(crate) asked: &'a Asked,
}

/// Looks at what a write has changed.
pub(crate) fn look_at(world: &World, write: &Write<'_>, before: Option<&Value>, after: Option<&Value>) {
    let verdict = match (write.asked.kind, write.place) {
        (Some(TUNNELS), Place::Cluster(_)) => tunnel(world, write, before, after),
        (Some(RECORDS), Place::Cluster(_)) => record_at_home(write, before, after),
        (Some(RECORDS | ENDS), Place::Broker) => at_the_broker(write, before, after),
        (Some(LEASES), _) => lease(write, before),
        _ => Err("this is nothing that it may write".to_owned()),
    };
    if let Err(why) = verdict {
        let Asked { method, path, .. } = write.asked;
        world.violate(format!("{} at {}: {method} {path}: {why}", write.who.name, write.place));
    }
}

fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["labels"][name].as_str()
}

fn check(holds: bool, why: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}

pub(crate) fn finalizers(object: &Value) -> BTreeSet<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Of a tunnel the status and our own finalizer are ours.
fn tunnel(
    world: &World,
    write: &Write<'_>,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Result<(), String> {
    let before = before.ok_or("a tunnel is not its to make")?;
    let Some(after) = after else {
        return check(
            before["metadata"].get("deletionTimestamp").is_some(),
            "a tunnel went that nobody had deleted",
        )
        .and_then(|()| match write.who.is_misled() {
            true => Ok(()),
            false => nothing_left(world, write.who.cluster, before),
        });
    };
    for part in ["labels", "annotations"] {
        check(before["metadata"][part] == after["metadata"][part], &format!("its {part} are another's"))?;
    }
    check(before["spec"] == after["spec"], "its spec is another's")?;
    let others = |object| -> BTreeSet<String> {
        finalizers(object).into_iter().filter(|it| *it != TUNNEL_FINALIZER).map(Into::into).collect()
    };
    check(others(before) == others(after), "a finalizer of another was touched")
}

/// An object goes when nothing is left of what it made.
pub(crate) fn nothing_left(world: &World, cluster: usize, tunnel: &Value) -> Result<(), String> {
    let metadata = &tunnel["metadata"];
    let key = format!(
        "{}/{}",
        metadata["namespace"].as_str().unwrap_or(""),
        metadata["name"].as_str().unwrap_or("")
    );
    let key = key.parse().map_err(|_| "a tunnel without a name".to_owned())?;
    let pods = world.pods();
    for pod in pods.iter().filter(|pod| pod.cluster == cluster && !pod.excused.load(Ordering::Relaxed)) {
        let holding = pod.memory.have().holding();
        check(!holding.includes(&key), &format!("{key} went while {} still held something of it", pod.name))?;
    }
    Ok(())
}

/// At home a record is of a gateway of ours, or was brought from elsewhere.
fn record_at_home(write: &Write<'_>, before: Option<&Value>, after: Option<&Value>) -> Result<(), String> {
    let us = id(write.who.cluster);
    for object in before.into_iter().chain(after) {
        let is_own = label(object, ORIGIN).is_none() && label(object, LOCAL_CLUSTER) == Some(us);
        let is_brought = label(object, ORIGIN).is_some_and(|origin| origin != us);
        check(is_own || is_brought, "it is neither a record of a gateway of ours nor one that was brought")?;
    }
    check(
        before.is_none()
            || after.is_none()
            || before.map(|it| label(it, ORIGIN)) == after.map(|it| label(it, ORIGIN)),
        "a record changed hands",
    )
}

/// At the broker we write what we originated.
fn at_the_broker(write: &Write<'_>, before: Option<&Value>, after: Option<&Value>) -> Result<(), String> {
    let us = id(write.who.cluster);
    for object in before.into_iter().chain(after) {
        check(label(object, ORIGIN) == Some(us), "it is not of this cluster's origin")?;
    }
    Ok(())
}

/// Of leases: the election's at home, and the claim to our id at the broker.
fn lease(write: &Write<'_>, before: Option<&Value>) -> Result<(), String> {
    match write.place {
        Place::Cluster(_) => check(write.asked.name == "causeway-controller", "another's lease"),
        Place::Broker => {
            let us = id(write.who.cluster);
            check(before.is_none_or(|lease| label(lease, ORIGIN) == Some(us)), "another's claim")
        }
    }
}
