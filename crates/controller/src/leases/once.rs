//! Answers without running: what would change on this node, and how all of ours goes.

use anyhow::Context;
use causeway_api::leases::{NodeObject, announce, seen};
use causeway_core::Family;
use causeway_core::leases::state::{Event, State};
use causeway_core::leases::{Holding, Plan, clean, plan};
use causeway_core::room::{Change, State as _};
use causeway_datapath::leases::{Kernel, traffic};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::Options;
use super::kernel::observe;
use super::links::{again, detect};
use super::traffic::Here;
use crate::found::Found;

/// Nodes of a page.
const PAGE: u32 = 100;

/// What the agent would change on this node, and what it would refuse or wait for, in words. Nothing is changed.
pub async fn would_change(client: &Client, options: &Options) -> anyhow::Result<Vec<String>> {
    let mut state = State::new(options.given.clone());
    list(client, options, &mut state).await?;
    let mut kernel = Kernel::open().context("the kernel cannot be asked")?;
    let mut words = Vec::new();
    let families: Vec<Family> = state.networks().iter().map(|network| network.range.family()).collect();
    for family in families {
        let interface = again(|| detect(&mut kernel, family, &options.selection))?;
        state.apply(Event::Interface(family, interface));
        let (want, admitted) = match state.want(family) {
            Ok(wanted) => wanted,
            Err(why) => {
                words.push(format!("{family}: would wait: {why}"));
                continue;
            }
        };
        let refused = admitted
            .refused
            .iter()
            .map(|(node, why)| format!("{family}: would not reach node {node}: {why}"));
        words.extend(refused);
        let Plan { steps, contested } = plan(&want, &observe(&mut kernel, family, &want)?);
        words.extend(steps.iter().map(|step| format!("{family}: would {step}")));
        words.extend(
            contested.iter().map(|range| format!("{family}: would leave {range} to somebody else's route")),
        );
        state.apply(Event::Held(family, Ok(Holding::default())));
    }
    if let Ok(want) = state.traffic() {
        match traffic::would(&Here, &want).await {
            Ok(changes) => words.extend(changes.iter().map(|change| format!("would {change}"))),
            Err(trouble) => words.push(format!("would fail: {trouble}")),
        }
    }
    if let (Ok(announcement), Some(own)) = (state.announcement(), state.own()) {
        let changes = announce(&options.prefix, &announcement, &own.announced);
        words.extend(changes.iter().map(|(name, value)| format!("would annotate the node: {name}={value}")));
    }
    Ok(words)
}

async fn list(client: &Client, options: &Options, state: &mut State) -> anyhow::Result<()> {
    let nodes: Api<Found<NodeObject>> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = nodes.list(&params).await.context("listing nodes")?;
        for object in page.items.iter().filter_map(|object| object.0.as_ref().ok()) {
            let seen = seen(&options.prefix, &options.given.name, object);
            state.apply(Event::Nodes(Change::Put(object.name_any(), seen)));
        }
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(());
        }
    }
}

/// Takes away all that has our mark, and says what that was.
pub async fn clean_up() -> anyhow::Result<Vec<String>> {
    let mut kernel = Kernel::open()?;
    let mut words = Vec::new();
    for family in Family::ALL {
        let have = again(|| kernel.observe(family, None))?;
        let planned = clean(&have);
        let failures = kernel.apply(family, &planned, &have)?;
        words.extend(planned.steps.iter().map(|step| format!("{family}: {step}")));
        words.extend(failures.iter().map(|failure| format!("{family}: {}: {}", failure.step, failure.error)));
    }
    words.extend(traffic::remove(&Here).await?);
    Ok(words)
}
