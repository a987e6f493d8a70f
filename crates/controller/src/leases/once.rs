//! Answers without running: what would change on this node, and how all of ours goes.

use std::io;
use std::time::Duration;

use anyhow::Context;
use causeway_api::leases::{NETWORK_UNAVAILABLE, NodeObject, announce, seen, subnet_env};
use causeway_core::Family;
use causeway_core::leases::state::{Event, State};
use causeway_core::leases::{Holding, Plan, Step, clean, plan};
use causeway_core::room::{Change, State as _};
use causeway_datapath::leases::Kernel;
use causeway_datapath::leases::traffic::{self, Trouble};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::Options;
use super::kernel::observe;
use super::links::{again, detect};
use crate::found::Found;
use crate::local::Here;

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
        let interface = again(|| detect(&mut kernel, family, &options.selection, None))?;
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
        let (file, env) = (&options.subnet_file, subnet_env(&announcement, options.given.masquerade));
        if std::fs::read_to_string(file).ok().as_ref() != Some(&env) {
            words.push(format!("would write {}", file.display()));
        }
        if options.set_condition && !own.is_available {
            words.push(format!("would set the node's condition {NETWORK_UNAVAILABLE} to False"));
        }
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

/// What was taken away, and what could not be, in words.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// What is gone.
    pub done: Vec<String>,
    /// What is left, and why.
    pub failed: Vec<String>,
}

/// Takes away all that has our mark.
pub async fn clean_up() -> anyhow::Result<Cleaned> {
    let mut kernel = Kernel::open()?;
    let mut cleaned = Cleaned::default();
    for family in Family::ALL {
        let (done, failed) = clean_family(&mut kernel, family)?;
        cleaned.done.extend(done);
        cleaned.failed.extend(failed);
    }
    match traffic::remove(&Here).await {
        Ok(done) => cleaned.done.extend(done),
        Err(Trouble::Partly { changed, failed }) => {
            cleaned.done.extend(changed);
            cleaned.failed.extend(failed);
        }
        Err(trouble) => cleaned.failed.push(trouble.to_string()),
    }
    if !cleaned.done.is_empty() {
        // An agent that runs has put it back by then.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut is_back =
            |family| Ok::<_, io::Error>(!clean(&again(|| kernel.observe(family, None))?).steps.is_empty());
        let back: Vec<bool> = Family::ALL.into_iter().map(&mut is_back).collect::<Result<_, _>>()?;
        if back.contains(&true) {
            cleaned
                .failed
                .push("it is back already: an agent of ours runs on this node; end it first".into());
        }
    }
    Ok(cleaned)
}

/// The same of one family, without what is done with packets.
pub(super) fn clean_family(kernel: &mut Kernel, family: Family) -> io::Result<(Vec<String>, Vec<String>)> {
    let have = again(|| kernel.observe(family, None))?;
    let planned = clean(&have);
    let failures = kernel.apply(family, &planned, &have)?;
    let failed = |step: &Step| failures.iter().any(|failure| failure.step == *step);
    let done = planned.steps.iter().filter(|step| !failed(step)).map(|step| format!("{family}: {step}"));
    let failures = failures.iter().map(|failure| format!("{family}: {}: {}", failure.step, failure.error));
    Ok((done.collect(), failures.collect()))
}
