//! The nodes, converted as they arrive: of each only its leases are kept.

use std::sync::Arc;

use causeway_api::leases::{NodeObject, seen};
use causeway_core::leases::Seen;
use causeway_core::leases::state::Event;
use kube::{Api, ResourceExt};

use super::Leases;
use crate::follow::Watch;
use crate::found::Found;
use crate::sources::Sources;

/// Nodes are large objects: of a page of them all are held for a moment.
const PAGE: u32 = 100;

pub(super) fn start(room: &Arc<Leases>, sources: &mut Sources<'_, Leases>) {
    let api: Api<Found<NodeObject>> = Api::all(room.house.client.clone());
    let watch = Watch::new(api).compact(NodeObject::from_protobuf).pages_of(PAGE).spread(room.options.spread);
    let (prefix, own) = (room.options.prefix.clone(), room.options.given.name.clone());
    let convert = move |object: &Found<NodeObject>| -> (String, Option<Seen>) {
        let seen = object.0.as_ref().ok().map(|object| seen(&prefix, &own, object));
        // One that has no part in the network is nobody's business.
        (object.name_any(), seen.filter(|seen| *seen != Seen::default()))
    };
    sources.watch("nodes", watch, convert, |change, _| Event::Nodes(change));
}
