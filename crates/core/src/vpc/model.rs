//! A gateway in memory: what the kernel and iptables do with a step, as far as we rely on it.
//!
//! The planner's properties are stated against it, and it is the datapath of tests that are about the
//! loop and not about Linux.

use super::MARK;
use super::action::{Action, LOOSE, clamp_spec, shared_clamp_spec};
use super::have::{Have, Link, LinkKind, NatRule, Route};
use crate::names::HostAddr;

/// What a link starts with: the kernel's defaults.
fn fresh(kind: LinkKind, mtu: Option<u32>) -> Link {
    Link { kind: Some(kind), rp_filter: 0, proxy_delay: 800, mtu: mtu.unwrap_or(1400), ..Link::default() }
}

/// Does one step, or says what the kernel would say.
pub fn apply(have: &mut Have, action: &Action) -> Result<(), String> {
    match action {
        Action::LinkAdd { link, want, mac, group, mtu } => {
            let clash = |other: &Link| other.kind.as_ref().is_some_and(|kind| same_identity(kind, want));
            if have.links.contains_key(link.as_str()) || have.links.values().any(clash) {
                return Err("File exists".into());
            }
            let link_made = Link { mac: *mac, group: *group, ..fresh(want.clone(), *mtu) };
            have.links.insert(link.to_string(), link_made);
        }
        Action::LinkAlias { link, owner } => {
            find(have, link.as_str())?.alias = Some(format!("{MARK}{owner}"));
        }
        Action::LinkGroup { link, group } => find(have, link.as_str())?.group = *group,
        Action::LinkRemote { link, remote } => {
            let link = find(have, link.as_str())?;
            link.kind = link.kind.as_ref().map(|kind| kind.leading_to(Some(*remote)));
        }
        Action::NoIpv6 { link } => drop(find(have, link.as_str())?),
        Action::LinkMtu { link, mtu } => find(have, link.as_str())?.mtu = *mtu,
        Action::LinkArp { link } => find(have, link.as_str())?.arp_off = false,
        Action::LinkMac { link, mac } => find(have, link.as_str())?.mac = Some(*mac),
        Action::LinkUp { link } => find(have, link.as_str())?.up = true,
        Action::LinkFree { link } | Action::LinkDel { link } => {
            have.links.remove(link).ok_or("Cannot find device")?;
            have.routes.retain(|route| route.dev.as_ref() != Some(link));
        }
        Action::ProxyDelay { link } => find(have, link.as_str())?.proxy_delay = 0,
        Action::ProxyArp { link, on } => find(have, link.as_str())?.proxy_arp = *on,
        Action::LooseFilter { link } => find(have, link.as_str())?.rp_filter = LOOSE,
        Action::Promote { link } => find(have, link.as_str())?.promotes = true,
        Action::AddrPut { link, address } => {
            let addresses = &mut find(have, link.as_str())?.addresses;
            if !addresses.contains(address) {
                addresses.push(*address);
            }
        }
        Action::AddrDel { link, address } => {
            let from = find(have, link.as_str())?;
            if !from.addresses.contains(address) {
                return Err("Cannot assign requested address".into());
            }
            take_address(from, *address);
            if from.addresses.is_empty() {
                have.routes.retain(|route| route.dev.as_deref() != Some(link.as_str()));
            }
        }
        Action::RoutePut { route, replace } => put_route(have, route, *replace)?,
        Action::RouteDel { route } => {
            let before = have.routes.len();
            have.routes.retain(|r| r != route);
            if have.routes.len() == before {
                return Err("No such process".into());
            }
        }
        Action::Forward => have.forwarding = true,
        // Flows are not part of what a gateway holds.
        Action::ForgetAstray { .. } | Action::ForgetLeft { .. } => {}
        Action::NatDel { variant, spec } => {
            remove_rule(have.nat.postrouting.get_mut(variant), spec)?;
        }
        Action::ClampDel { variant, spec } => remove_rule(have.nat.forward.get_mut(variant), spec)?,
        Action::ClampAll { variant } => {
            let rule = NatRule::Shared { spec: shared_clamp_spec() };
            have.nat.forward.entry(*variant).or_default().insert(0, rule);
        }
        Action::ClampInsert { variant, owner, link } => {
            let rule = NatRule::Ours { owner: owner.clone(), spec: clamp_spec(owner, link.as_str()) };
            have.nat.forward.entry(*variant).or_default().insert(0, rule);
        }
        Action::NatInsert { variant, rule } => {
            let rule = NatRule::Ours { owner: rule.owner.clone(), spec: rule.to_string() };
            have.nat.postrouting.entry(*variant).or_default().insert(0, rule);
        }
    }
    Ok(())
}

fn find<'a>(have: &'a mut Have, link: &str) -> Result<&'a mut Link, String> {
    have.links.get_mut(link).ok_or_else(|| format!("Cannot find device \"{link}\""))
}

fn remove_rule(rules: Option<&mut Vec<NatRule>>, spec: &str) -> Result<(), String> {
    let rules = rules.ok_or("iptables not found")?;
    let at = rules.iter().position(|rule| rule.our_spec() == Some(spec));
    rules.remove(at.ok_or("Bad rule")?);
    Ok(())
}

/// A primary address takes the others of its network along, unless the link promotes the next of them.
fn take_address(link: &mut Link, address: HostAddr) {
    let network = address.network();
    let primary = link.addresses.iter().find(|a| a.network() == network) == Some(&address);
    let promotes = link.promotes;
    link.addresses.retain(|a| *a != address && (promotes || !primary || a.network() != network));
}

fn put_route(have: &mut Have, route: &Route, replace: bool) -> Result<(), String> {
    let same = |r: &Route| r.range == route.range && r.metric == route.metric;
    if !replace && have.routes.iter().any(same) {
        return Err("File exists".into());
    }
    if route.dev.as_ref().is_some_and(|dev| have.links.get(dev).is_none_or(|link| !link.up)) {
        return Err("Network is down".into());
    }
    have.routes.retain(|r| !same(r));
    have.routes.push(route.clone());
    Ok(())
}

fn same_identity(a: &LinkKind, b: &LinkKind) -> bool {
    match (a, b) {
        (LinkKind::Vxlan { vni, port, .. }, LinkKind::Vxlan { vni: v, port: p, .. }) => (vni, port) == (v, p),
        (LinkKind::Gre { local, remote, keyed, .. }, LinkKind::Gre { local: l, remote: r, keyed: k, .. }) => {
            (local, remote, keyed) == (l, r, k)
        }
        (LinkKind::Vxlan { .. }, LinkKind::Gre { .. }) | (LinkKind::Gre { .. }, LinkKind::Vxlan { .. }) => {
            false
        }
    }
}
