//! What bridges are to a plan.

use std::collections::BTreeSet;

use causeway_core::networks::mark::is_ours;
use causeway_core::networks::{Held, HeldSubnet, Home, Look};
use causeway_core::{Cidr, Family};
use causeway_datapath::networks::mark::{Group, link_name};
use causeway_datapath::networks::settings::forwarding;
use causeway_datapath::networks::{Bridge, Links};

/// What is wrong with what all bridges share.
#[derive(Debug, Default)]
pub(super) struct Flaws {
    /// The bridges whose part of the rules is not what it should be.
    pub(super) rules: BTreeSet<String>,
    /// Nothing of these families is forwarded, though it should be.
    pub(super) forwarding: Vec<Family>,
}

/// Everything that was looked for.
pub(super) fn found(home: &Home, look: &Look, links: &Links, nat: bool, flaws: &Flaws) -> Vec<Held> {
    let bridges = links.bridges.iter().filter(|(name, bridge)| is_meant(home, look, name, bridge));
    bridges.map(|(name, bridge)| held(home, look, name, bridge, broken(name, links, nat, flaws))).collect()
}

fn is_meant(home: &Home, look: &Look, name: &str, bridge: &Bridge) -> bool {
    match look {
        Look::All => {
            bridge.tags.contains(&home.home_tag())
                || bridge.tags.contains(&home.cluster_tag())
                || is_half_marked(home, bridge)
        }
        Look::One(clue) => {
            let made_for_it = name == link_name(&clue.uid) && is_half_marked(home, bridge);
            let its = bridge.tags.contains(&Home::object_tag(&clue.uid));
            its || made_for_it || clue.ids.contains(name)
        }
    }
}

fn uid(bridge: &Bridge) -> Option<&str> {
    let start = Home::object_tag("");
    bridge.tags.iter().find_map(|tag| tag.strip_prefix(start.as_str()))
}

/// Whether its group says that we made it, and its alias lacks some of our tags: it was never marked, or somebody took them
/// away. Where a tag says that it is another's, it is.
fn is_half_marked(home: &Home, bridge: &Bridge) -> bool {
    let tags = home.tags(uid(bridge).unwrap_or_default());
    let is_contradicted = bridge.tags.iter().any(|tag| is_ours(tag) && !tags.contains(tag));
    bridge.group.is_of(home) && !is_contradicted && !tags.is_subset(&bridge.tags)
}

fn held(home: &Home, look: &Look, name: &str, bridge: &Bridge, broken: Option<String>) -> Held {
    let half = is_half_marked(home, bridge);
    // For whom it was made is told by its own name, which follows from a uid that only a look for one object knows.
    let made_for = match look {
        Look::One(clue) if name == link_name(&clue.uid) => clue.name.clone(),
        Look::One(_) | Look::All => String::new(),
    };
    let description = if half { home.description() } else { String::new() };
    Held {
        id: name.to_owned(),
        name: (half && uid(bridge).is_none()).then_some(made_for),
        subnets: bridge.ranges().into_iter().map(|range| named(bridge, range, &description)).collect(),
        description,
        broken,
        ..plain(name, bridge)
    }
}

/// A bridge by its tags alone; of its subnets nothing is said.
pub(super) fn plain(name: &str, bridge: &Bridge) -> Held {
    Held { id: name.to_owned(), tags: bridge.tags.clone(), ..Held::default() }
}

fn named(bridge: &Bridge, range: Cidr, description: &str) -> (String, HeldSubnet) {
    let subnet = HeldSubnet { description: description.to_owned(), ..subnet(bridge, range) };
    (range.to_string(), subnet)
}

/// All addresses of a bridge in one range. Of several none is the gateway: so the one that should be is set, and the others
/// go. A crash while a gateway is moved leaves two.
pub(super) fn subnet(bridge: &Bridge, range: Cidr) -> HeldSubnet {
    let mut addresses = bridge.addresses_of(range);
    let gateway = addresses.next().filter(|_| addresses.next().is_none()).map(|address| address.addr());
    HeldSubnet {
        name: None,
        description: String::new(),
        tags: bridge.tags.clone(),
        revision: None,
        cidr: range,
        gateway,
        pools: Vec::new(),
    }
}

/// The group that a bridge with these tags should have; none where they name no cluster.
pub(super) fn group(bridge: &Bridge, nat: bool) -> Option<Group> {
    Home::of(&bridge.tags).map(|home| Group::new(&home.description(), nat))
}

/// What is not in order of a bridge that is marked.
pub(super) fn broken(name: &str, links: &Links, nat: bool, flaws: &Flaws) -> Option<String> {
    let bridge = links.bridges.get(name)?;
    let group = group(bridge, nat)?;
    let mut broken = Vec::new();
    if !bridge.up {
        broken.push("it is down".to_owned());
    }
    if !bridge.plain {
        broken.push("it takes part in the spanning tree protocol".to_owned());
    }
    if bridge.group != group {
        broken.push(format!("its group is {}, not {}", bridge.group.0, group.0));
    }
    if flaws.rules.contains(name) {
        broken.push("the rules that keep it apart from others are not what they should be".to_owned());
    }
    let overlaps =
        bridge.ranges().into_iter().filter_map(|range| Some((range, links.overlap(range, bridge.index)?)));
    broken.extend(overlaps.map(|(range, (_, other))| {
        format!("another link has an address in {other}, which shares addresses with {range}")
    }));
    let families: Vec<Family> = bridge.ranges().into_iter().map(Cidr::family).collect();
    let off = flaws.forwarding.iter().filter(|family| nat && families.contains(family));
    broken.extend(off.map(|family| format!("{} is 0", forwarding(*family))));
    (!broken.is_empty()).then(|| broken.join(", "))
}
