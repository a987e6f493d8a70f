//! The hops of one end, each judged by what its cluster and its gateway were seen to hold.

use causeway_core::vpc::action::SourceNat;
use causeway_core::vpc::objects::Ends;
use causeway_core::vpc::outcome::Hindrance;
use causeway_core::vpc::status::CLEANUP_BLOCKED;
use causeway_core::vpc::{Action, LAN_LINK, LinkKind, Problem, TunnelKind, UNDERLAY_LINK};

use super::facts::{End, Held, Leader, Role, Unlooked, Wanted};
use super::finding::{Finding, Hop};
use super::reasons::trouble;

/// The object of the tunnel.
pub(super) fn object(end: &End) -> Option<Finding> {
    let tunnel = &end.tunnel;
    let what = match &tunnel.spec {
        Ok(spec) => {
            let ends = match &spec.ends {
                Ends::ByGateway { gateway, peer } => format!("from {gateway} to {peer}"),
                Ends::ByVpc { local, cluster, remote } => format!("from {local} to {cluster}/{remote}"),
            };
            format!("{}, {}, {ends}", kind(spec.kind), spec.address)
        }
        Err(_) => String::new(),
    };
    let finding = Finding::ok(Hop::Object, &end.cluster, "a tunnel that can be built", what);
    if tunnel.deleting {
        let blocked = tunnel.status.conditions.get(CLEANUP_BLOCKED).filter(|it| it.is_true());
        let why = blocked.map(|it| format!(": {}", it.message)).unwrap_or_default();
        return Some(finding.broken(format!("it is being deleted{why}"), "create it again once it is gone"));
    }
    Some(trouble(end, &finding).unwrap_or(finding))
}

/// What the peer published of itself, as it arrived here; `far` is what the peer itself was seen to have.
pub(super) fn record(end: &End, far: Option<&End>) -> Option<Finding> {
    let peer = end.tunnel.spec.as_ref().ok()?.ends.far().named();
    let finding = Finding::ok(Hop::Record, &end.cluster, format!("an address and a range of {peer}"), "");
    if let Some(finding) = trouble(end, &finding) {
        return Some(finding);
    }
    let want = &end.want.as_ref()?.tunnel;
    let found = format!("{} with {} behind it", want.remote, want.remote_range);
    let theirs = far.and_then(|far| Some((far, &far.want.as_ref()?.tunnel)));
    Some(match theirs {
        Some((far, own)) if (own.local, own.own) != (want.remote, want.remote_range) => {
            let finding =
                Finding { expected: format!("{} with {} behind it", own.local, own.own), ..finding };
            let remedy = format!(
                "the record is old: do the controllers of {} and {} run, does the broker answer them?",
                end.cluster, far.cluster
            );
            finding.broken(found, remedy)
        }
        _ => Finding { found, ..finding },
    })
}

/// The gateway's pod, and whether commands can be run in it.
pub(super) fn gateway(end: &End) -> Option<Finding> {
    let name = match (&end.tunnel.spec.as_ref().ok()?.ends, &end.role) {
        (Ends::ByGateway { gateway, .. }, _) => format!("gateway {gateway}"),
        (Ends::ByVpc { local, .. }, None) => format!("a main gateway of VPC {local}"),
        (Ends::ByVpc { local, .. }, Some(role)) => format!("main gateway {} of VPC {local}", role.main),
    };
    let finding = Finding::ok(Hop::Gateway, &end.cluster, format!("{name} that runs commands"), "");
    if let Some(finding) = trouble(end, &finding) {
        return Some(finding);
    }
    if let Some(found) = end.role.as_ref().and_then(waits_for_another) {
        return Some(finding.broken(found, repair(end)));
    }
    let pod = end.pod.as_ref()?;
    Some(match end.held.as_ref()? {
        Ok(_) => Finding { found: format!("pod {pod}{}", stood_by(end)), ..finding },
        Err(unlooked) => unlooked_at(finding, unlooked),
    })
}

/// Who would take over.
fn stood_by(end: &End) -> String {
    let standbys = end.role.iter().flat_map(|role| &role.standbys).map(ToString::to_string);
    match standbys.collect::<Vec<_>>().join(", ") {
        names if names.is_empty() => String::new(),
        names => format!("; {names} would take over"),
    }
}

/// The main gateway of a VPC is one that cannot be, and another one should be.
fn waits_for_another(Role { vpc, main, recorded, unfit, .. }: &Role) -> Option<String> {
    if recorded.as_ref() == Some(main) {
        return None;
    }
    let Some(recorded) = recorded else {
        return Some(format!("no record names the main gateway of VPC {vpc} yet"));
    };
    let why = unfit.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    Some(format!("the record of VPC {vpc} names {recorded}{why}, and not {main}"))
}

pub(super) fn unlooked_at(finding: Finding, unlooked: &Unlooked) -> Finding {
    if unlooked.is_ours {
        return finding.unseen(&unlooked.message, "use an account that may create and get pods/exec there");
    }
    finding.broken(
        &unlooked.message,
        "the controller cannot either: look at the kubelet, the node and the pod's image",
    )
}

/// The tunnel's link.
pub(super) fn link(end: &End) -> Option<Finding> {
    let (wanted, held) = seen(end)?;
    let Wanted { link, tunnel, .. } = wanted;
    let expected =
        format!("{link}: {}, {} to {}, {}", kind(tunnel.kind), tunnel.local, tunnel.remote, tunnel.address);
    let finding = Finding::ok(Hop::Link, &end.cluster, expected, "up");
    match &held.problem {
        Some(Problem::NameTaken { link }) => {
            let found = format!("link {link}, which is not Causeway's, stands in the way");
            return Some(
                finding.broken(found, "remove that link in the gateway, or name the tunnel otherwise"),
            );
        }
        Some(Problem::Overlap { what, with }) => {
            let found = format!("{what} shares addresses with {with}");
            return Some(
                finding
                    .broken(found, "correct the peer's globalnet or address, or the tunnel's interfaceAddr"),
            );
        }
        Some(Problem::RouteTaken { .. }) | None => {}
    }
    let missing =
        left(held, |action| !is_nat(action) && !is_way(action) && !is_length(action) && !is_flow(action));
    if missing.is_empty() {
        return Some(finding);
    }
    let found = match held.have.links.get(link.as_str()) {
        None => "there is no such link".to_owned(),
        Some(there) => match &there.kind {
            Some(kind) if held.steps.iter().any(|step| matches!(step, Action::LinkAdd { .. })) => {
                described(kind)
            }
            _ if !there.up => "it is down".to_owned(),
            _ => format!("not as it should be: {}", missing.join(", ")),
        },
    };
    Some(finding.broken(found, repair(end)))
}

/// How long packets may be on the link.
pub(super) fn mtu(end: &End) -> Option<Finding> {
    let (wanted, held) = seen(end)?;
    let has = held.have.links.get(wanted.link.as_str())?;
    let outside = held.have.links.get(UNDERLAY_LINK)?.mtu;
    let kind = has.kind.as_ref()?;
    let expected = outside.saturating_sub(kind.overhead());
    let finding = Finding::ok(
        Hop::Mtu,
        &end.cluster,
        format!("{expected} bytes on {}: {outside} on {UNDERLAY_LINK} less {}", wanted.link, kind.overhead()),
        format!("{} bytes", has.mtu),
    );
    if held.steps.iter().any(|step| matches!(step, Action::LinkMtu { .. })) {
        let found = finding.found.clone();
        return Some(finding.broken(found, repair(end)));
    }
    let unfitted = left(held, Action::is_clamp);
    if !unfitted.is_empty() {
        let found =
            format!("{}; TCP's segments are not fitted to it: {}", finding.found, unfitted.join(", "));
        return Some(Finding { found, ..finding });
    }
    Some(finding)
}

/// The rule that gives packets a source that leads back.
pub(super) fn nat(end: &End) -> Option<Finding> {
    let (wanted, held) = seen(end)?;
    let rule = SourceNat::of(&wanted.link, &wanted.tunnel).to_string();
    let first =
        format!("first in POSTROUTING: SNAT of {} to {}", wanted.tunnel.remote_range, wanted.tunnel.egress);
    let finding = Finding::ok(Hop::Nat, &end.cluster, first, "it stands there");
    if left(held, is_nat).is_empty() {
        return Some(finding);
    }
    let rules = held.have.nat.postrouting.get(&held.have.nat.active).map(Vec::as_slice).unwrap_or_default();
    let place = rules.iter().position(|it| it.our_spec() == Some(&rule));
    let found = match place {
        Some(place) => {
            format!("the rule stands at place {}, behind others that may catch packets first", place + 1)
        }
        None => format!("no such rule among the {} of POSTROUTING", rules.len()),
    };
    Some(finding.broken(found, repair(end)))
}

/// What the gateway does with packets between the VPC and the tunnel.
pub(super) fn forward(end: &End) -> Option<Finding> {
    let (wanted, held) = seen(end)?;
    let (link, range) = (&wanted.link, wanted.tunnel.remote_range);
    let back = wanted.inbound.map(|way| format!(", {} via {}", way.range, way.via)).unwrap_or_default();
    let finding = Finding::ok(
        Hop::Forward,
        &end.cluster,
        format!("forwarding, {range} into {link}{back}"),
        "all of it",
    );
    if let Some(Problem::RouteTaken { range, route }) = &held.problem {
        let found = format!("a route to {range} that is not Causeway's: {route}");
        return Some(finding.broken(found, "remove that route in the gateway"));
    }
    if !held.have.forwarding {
        return Some(finding.broken("net.ipv4.ip_forward is 0", repair(end)));
    }
    let missing = left(held, is_way);
    if !missing.is_empty() {
        return Some(finding.broken(format!("not there: {}", missing.join(", ")), repair(end)));
    }
    Some(match &held.hindrance {
        Some(Hindrance::Led(route)) => {
            let found = format!("a route to a part of that which is not Causeway's: {route}");
            finding.broken(found, "remove that route in the gateway")
        }
        Some(Hindrance::Stopped { from, to, by }) => {
            let remedy = format!(
                "this is nothing of Causeway's: in the gateway let it pass ({}), or remove what drops it",
                format_args!("iptables -I FORWARD -i {from} -o {to} -j ACCEPT")
            );
            finding.broken(format!("all from {from} to {to} is dropped by `{by}`"), remedy)
        }
        None => match end.answers.as_ref().and_then(|answers| answers.as_ref().ok()?.way.as_deref()) {
            Some(by) if by != link.as_str() => {
                let whither = if by.is_empty() { "nowhere".into() } else { format!("by {by}") };
                let found = format!("packets from {LAN_LINK} to {range} go {whither}");
                finding.broken(found, "look at `ip rule` in the gateway, and at the tables that it names")
            }
            _ => finding,
        },
    })
}

/// The way from the VPC's workloads to the gateway.
pub(super) fn vpc(end: &End) -> Option<Finding> {
    let want = &end.want.as_ref()?.tunnel;
    let range = want.remote_range;
    let finding = Finding::ok(Hop::Vpc, &end.cluster, format!("a static route of the VPC for {range}"), "");
    Some(match &end.routed {
        Some((vpc, lan, true)) => Finding { found: format!("Vpc {vpc} leads it to {lan}"), ..finding },
        Some((vpc, lan, false)) => finding.broken(
            format!("no static route of Vpc {vpc} leads {range} to {lan}, this gateway's address there"),
            format!("add {{cidr: {range}, nextHopIP: {lan}}} to spec.staticRoutes of Vpc {vpc}"),
        ),
        None => finding.unseen(
            "the gateway's VPC, its address there or the Vpc object is not known",
            "check VpcNatGateway.spec.vpc and spec.lanIp",
        ),
    })
}

/// The wanted and the found, where the gateway was looked at.
pub(super) fn seen(end: &End) -> Option<(&Wanted, &Held)> {
    end.want.as_ref().zip(end.held.as_ref()?.as_ref().ok())
}

/// What a controller would do, of one sort.
fn left(held: &Held, is_it: impl Fn(&Action) -> bool) -> Vec<String> {
    held.steps.iter().filter(|step| is_it(step)).map(ToString::to_string).collect()
}

fn is_nat(action: &Action) -> bool {
    matches!(action, Action::NatInsert { .. } | Action::NatDel { .. })
}

fn is_way(action: &Action) -> bool {
    matches!(action, Action::Forward | Action::RoutePut { .. } | Action::RouteDel { .. })
}

fn is_length(action: &Action) -> bool {
    action.is_clamp() || matches!(action, Action::LinkMtu { .. })
}

/// What is done beside something else, and says nothing by itself.
fn is_flow(action: &Action) -> bool {
    matches!(action, Action::ForgetAstray { .. } | Action::ForgetLeft { .. })
}

/// What to do about something that a controller puts right.
pub(super) fn repair(end: &End) -> String {
    let cluster = &end.cluster;
    match &end.leader {
        Leader::Leads => format!(
            "the controller of {cluster} puts this right within seconds; if it stays, the tunnel's conditions and the log say why"
        ),
        Leader::Nobody(why) => format!("{why}: start the controller of {cluster}, which puts this right"),
        Leader::Unknown => format!("the controller of {cluster} puts this right while it runs: does it?"),
    }
}

pub(super) fn kind(kind: TunnelKind) -> String {
    match kind {
        TunnelKind::Vxlan { vni, port } => format!("vxlan {vni} on port {port}"),
        TunnelKind::Gre => "gre".into(),
    }
}

pub(super) fn described(kind: &LinkKind) -> String {
    let end =
        |address: &Option<std::net::Ipv4Addr>| address.map_or_else(|| "any".into(), |it| it.to_string());
    match kind {
        LinkKind::Vxlan { vni, port, local, remote, .. } => {
            format!("vxlan {vni} on port {port}, {} to {}", end(local), end(remote))
        }
        LinkKind::Gre { local, remote, .. } => format!("gre, {} to {}", end(local), end(remote)),
    }
}
