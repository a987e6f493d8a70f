//! The packet's way from end to end: facts in, what is said of each hop out, up to the first that is broken.

use causeway_core::Truth;
use causeway_core::vpc::ends::{PEER_AGREES, SEVERAL_ENDS};
use causeway_core::vpc::filter::Packets;
use causeway_core::vpc::objects::{self, Peer};
use causeway_core::vpc::{TunnelKind, UNDERLAY_LINK};
use causeway_datapath::vpc::{Answers, Echo};

use super::facts::{End, Facts, Far};
use super::finding::{Finding, Hop, up_to_the_first_broken};
use super::hops::{self, seen, unlooked_at};
use super::said;

/// Walks.
pub(super) fn walk(facts: &Facts) -> Vec<Finding> {
    let (near, far) = (&facts.near, seen_far(facts));
    let here = [hops::object(near), hops::record(near, far), hops::gateway(near), hops::link(near)];
    // Of the peer's gateway also what lets it answer through the tunnel, before that is asked for.
    let there = far.map(|far| {
        [
            hops::object(far),
            hops::record(far, Some(near)),
            hops::gateway(far),
            hops::link(far),
            hops::forward(far),
        ]
    });
    let between = [peer(facts), underlay(near), hops::mtu(near), far.and_then(hops::mtu), path(near)];
    let through = [hops::nat(near), hops::forward(near), hops::vpc(near)];
    let beyond = far.map(|far| [hops::vpc(far), hops::nat(far)]);
    let hops = here.into_iter().chain(there.into_iter().flatten()).chain(between).chain(through);
    let hops = hops.chain(beyond.into_iter().flatten()).chain([behind(facts)]);
    up_to_the_first_broken(hops.flatten().chain(said::otherwise(facts)))
}

pub(super) fn seen_far(facts: &Facts) -> Option<&End> {
    match &facts.far {
        Far::Seen(far) => Some(far),
        Far::NotGiven | Far::NoneBack { .. } => None,
    }
}

/// Whether both ends mean the same tunnel.
fn peer(facts: &Facts) -> Option<Finding> {
    let near = &facts.near;
    let spec = near.tunnel.spec.as_ref().ok()?;
    let cluster = match &facts.far {
        Far::Seen(far) => &far.cluster,
        Far::NoneBack { cluster, .. } => cluster,
        Far::NotGiven => &near.cluster,
    };
    let same = format!("{} at both ends", hops::kind(spec.kind));
    let finding = Finding::ok(Hop::Peer, cluster, same, "");
    let far = match &facts.far {
        Far::Seen(far) => far,
        Far::NoneBack { cluster, to } => {
            let (from, remedy) = match to {
                objects::Far::Gateway(Peer { cluster: own, gateway }) => (
                    "gateway",
                    format!("create the other half in {cluster}: clusterId {own}, gatewayName {gateway}"),
                ),
                objects::Far::Vpc { cluster: own, vpc } => (
                    "VPC",
                    format!("create the other half in {cluster}: remoteCluster {own}, remoteVpc {vpc}"),
                ),
            };
            let found = format!("no tunnel of {cluster} leads from that {from} to {to}");
            return Some(finding.broken(found, remedy));
        }
        Far::NotGiven => return Some(by_conditions(near, finding)),
    };
    let theirs = far.tunnel.spec.as_ref().ok()?;
    let found = format!("{}: {}, {}", far.tunnel.key, hops::kind(theirs.kind), theirs.address);
    let mismatch = match (spec.kind, theirs.kind) {
        (a, b) if a != b => match (a, b) {
            (TunnelKind::Vxlan { .. }, TunnelKind::Vxlan { .. }) => {
                Some("give both the same labels vid and vx-port")
            }
            _ => Some("give both the same spec.type"),
        },
        _ if spec.address.address() == theirs.address.address() => {
            Some("give each end an interfaceAddr of its own, of one net")
        }
        _ if spec.address.network() != theirs.address.network() => {
            Some("choose both interfaceAddr of one net")
        }
        _ => None,
    };
    if let Some(remedy) = mismatch {
        let expected = format!(
            "{}, not {}, of {}",
            hops::kind(spec.kind),
            spec.address.address(),
            spec.address.network()
        );
        return Some(Finding { expected, ..finding }.broken(found, remedy));
    }
    Some(Finding { found, ..finding })
}

/// What the two ends told each other, where only one can be seen.
fn by_conditions(near: &End, finding: Finding) -> Finding {
    match near.tunnel.status.conditions.get(PEER_AGREES) {
        Some(said) if said.status == Truth::False => {
            finding.broken(&said.message, "make both ends agree: the message names what differs")
        }
        Some(said) if said.status == Truth::True => Finding { found: said.message.clone(), ..finding },
        other => {
            let remedy = "give the peer's kubeconfig or context too: --kubeconfig twice, or --context a,b";
            let said = other.filter(|it| it.reason == SEVERAL_ENDS).map(|it| it.message.as_str());
            finding.unseen(said.unwrap_or("the other end was not looked at"), remedy)
        }
    }
}

/// Whether anything comes back through the tunnel, and if not, how far packets get.
fn underlay(near: &End) -> Option<Finding> {
    let (wanted, held) = seen(near)?;
    let (link, remote) = (&wanted.link, wanted.tunnel.remote);
    let finding =
        Finding::ok(Hop::Underlay, &near.cluster, format!("an answer from {remote} through {link}"), "");
    let Some(outside) = held.have.links.get(UNDERLAY_LINK) else {
        return Some(
            finding.broken(
                format!("the gateway has no {UNDERLAY_LINK}"),
                "look at the gateway's external subnet",
            ),
        );
    };
    if !outside.up {
        return Some(finding.broken(
            format!("{UNDERLAY_LINK} of the gateway is down"),
            "find out who took it down; bring it up",
        ));
    }
    if !outside.addresses.iter().any(|it| it.address() == wanted.tunnel.local) {
        let found =
            format!("{UNDERLAY_LINK} of the gateway does not have the address {}", wanted.tunnel.local);
        return Some(finding.broken(found, "look at kube-ovn's log: it gives the gateway its address"));
    }
    let answers = match near.answers.as_ref()? {
        Ok(answers) => answers,
        Err(unlooked) => return Some(unlooked_at(finding, unlooked)),
    };
    let has_ping = answers.outside != Echo::Unasked;
    Some(match (answers.neighbour, &answers.gateway) {
        (Some(true), _) | (_, Echo::Answered(_) | Echo::Exceeded(_)) => {
            Finding { found: round_trip(answers), ..finding }
        }
        _ if !has_ping => finding.unseen("the gateway's image has no ping", "use kube-ovn's image"),
        (Some(false), _) | (None, _) => silent(near, answers, finding),
    })
}

fn round_trip(answers: &Answers) -> String {
    match &answers.outside {
        Echo::Answered(micros) => {
            format!("it answers; outside of it after {}.{:03} ms", micros / 1000, micros % 1000)
        }
        _ => "it answers".into(),
    }
}

/// Nothing comes back through the tunnel.
fn silent(near: &End, answers: &Answers, finding: Finding) -> Finding {
    let Some((wanted, held)) = seen(near) else { return finding };
    let (outer, remote) = match wanted.tunnel.kind {
        TunnelKind::Vxlan { port, .. } => (format!("UDP port {port}"), wanted.tunnel.remote),
        TunnelKind::Gre => ("protocol 47".into(), wanted.tunnel.remote),
    };
    if held.have.links.get(UNDERLAY_LINK).is_some_and(|link| link.arp_off) {
        return finding.broken(
            format!("{UNDERLAY_LINK} has ARP switched off, as kube-ovn 1.12 leaves it until the gateway's first EIP"),
            "give the gateway an IptablesEIP",
        );
    }
    let arriving = Packets { from: UNDERLAY_LINK, to: None, source: None, destination: None, protocol: None };
    if let Some(rule) = held.have.nat.stops("INPUT", arriving) {
        return finding
            .broken(format!("the gateway drops what arrives: `{rule}`"), "remove that rule in the gateway");
    }
    match &answers.outside {
        Echo::Answered(_) => finding.broken(
            format!("nothing through the tunnel, while {remote} itself answers pings"),
            format!(
                "is {outer} let through in both directions, does the other end stand (same type, VNI and port, proxy_arp on, a route into its VPC)?"
            ),
        ),
        Echo::Refused(why) => finding.broken(
            format!("no way to {remote} at all: {why}"),
            format!("mend the network between the gateways: is {remote} right and up, are both in one net or routed?"),
        ),
        _ => finding.broken(
            format!("neither a ping of {remote} nor anything through the tunnel is answered"),
            format!("is the peer's gateway up, and {outer} let through between the two in both directions?"),
        ),
    }
}

/// Whether packets as long as the gateway may send them reach the peer.
fn path(near: &End) -> Option<Finding> {
    let (wanted, held) = seen(near)?;
    let answers = near.answers.as_ref()?.as_ref().ok()?;
    let mtu = held.have.links.get(UNDERLAY_LINK)?.mtu;
    let expected = format!("packets of {mtu} bytes reach {}", wanted.tunnel.remote);
    let finding = Finding::ok(Hop::Mtu, &near.cluster, expected, "they do");
    let remedy =
        "lower the MTU of net1 at both gateways to what the network between them carries: tunnels follow it";
    match (&answers.outside, &answers.full) {
        (_, Echo::TooLong(Some(fits))) => Some(finding.broken(format!("only {fits} bytes do"), remedy)),
        (_, Echo::TooLong(None)) | (Echo::Answered(_), Echo::Silent) => {
            Some(finding.broken("short ones do, long ones do not", remedy))
        }
        (_, Echo::Answered(_)) => Some(finding),
        (Echo::Unasked, _) => Some(finding.unseen("the gateway's image has no ping", "use kube-ovn's image")),
        // Who does not answer pings at all cannot be asked.
        _ => Some(finding.unseen(
            "the peer answers no pings outside of the tunnel",
            "let ICMP echo through between gateways",
        )),
    }
}

/// What answers from behind the peer.
fn behind(facts: &Facts) -> Option<Finding> {
    let near = &facts.near;
    let (wanted, _) = seen(near)?;
    let answers = near.answers.as_ref()?.as_ref().ok()?;
    let range = wanted.tunnel.remote_range;
    let cluster = seen_far(facts).map_or_else(|| facts.peer_cluster(), |far| far.cluster.clone());
    let gateway = match &answers.gateway {
        Echo::Exceeded(by) => format!("the peer's gateway answers as {by}"),
        Echo::Answered(_) => "it answers".into(),
        _ => String::new(),
    };
    let Some(target) = facts.target else {
        let finding = Finding::ok(
            Hop::Far,
            &cluster,
            format!("the peer passes on what is for {range}"),
            gateway.clone(),
        );
        return Some(match (&answers.gateway, &answers.router) {
            (_, Echo::Answered(_)) => Finding { found: "an address there answers".into(), ..finding },
            (_, Echo::Exceeded(by)) => Finding { found: format!("{by} behind the peer's gateway answers"), ..finding },
            _ if !gateway.is_empty() && did_answer(near) => finding.broken(
                format!("{gateway}, and nobody behind it, who did before"),
                "there: does FORWARD let packets pass, in iptables and nft, and does the VPC lead them back to the gateway?",
            ),
            // That it answers itself does not prove that it passes anything on.
            _ if !gateway.is_empty() => finding.unseen(
                format!("{gateway}, and nobody behind it; routers need not"),
                "--to ADDRESS asks somebody behind it",
            ),
            (Echo::Unasked, _) => finding.unseen("the gateway's image has no ping", "use kube-ovn's image"),
            _ => finding.broken(
                "the peer's gateway has a link, and passes nothing on or answers nothing",
                "there: is ip_forward on, do routes lead to its VPC and back into the tunnel? give its context too",
            ),
        });
    };
    let finding = Finding::ok(Hop::Far, &cluster, format!("{target} answers"), "it does");
    Some(match (&answers.target, &answers.router, &answers.gateway) {
        (Echo::Answered(micros), ..) => {
            Finding { found: format!("after {}.{:03} ms", micros / 1000, micros % 1000), ..finding }
        }
        (Echo::Unasked, ..) => finding.unseen("the gateway's image has no ping", "use kube-ovn's image"),
        (_, Echo::Exceeded(by), _) => finding.broken(
            format!("{by}, the router behind the peer's gateway, is the last that answers"),
            format!("is {target} somebody's, does its cluster lead it there, does a policy drop pings?"),
        ),
        _ if !gateway.is_empty() => finding.broken(
            format!("{gateway}, and nobody behind it"),
            format!("there: does FORWARD let it pass, does the VPC lead {target} to somebody, and {} back to the gateway?", wanted.tunnel.own),
        ),
        _ => finding.broken("the peer's gateway has a link, and passes nothing on or answers nothing",
            "there: is ip_forward on, do routes lead to its VPC and back into the tunnel?"),
    })
}

/// Whether what lies behind the peer has answered the gateway before.
fn did_answer(near: &End) -> bool {
    near.tunnel.status.answered_behind
}

impl Facts {
    /// What the peer's cluster is called, where it was not looked at.
    pub(super) fn peer_cluster(&self) -> String {
        use causeway_core::vpc::objects::Ends;
        match self.near.tunnel.spec.as_ref().map(|spec| &spec.ends) {
            Ok(Ends::ByGateway { peer, .. }) => peer.cluster.to_string(),
            Ok(Ends::ByVpc { cluster, .. }) => cluster.to_string(),
            Err(_) => String::new(),
        }
    }
}
