//! What a visit repaired is reported once, to whom it concerns, and nothing else is called a repair.

use std::collections::BTreeMap;

use causeway_core::names::ObjectKey;
use causeway_core::vpc::outcome::{Repairs, judge, refused_before, repairs};
use causeway_core::vpc::{
    EgressRange, Have, Inbound, Link, Outcome, Plan, Refused, TunnelKind, TunnelWant, Variant, Want, model,
    plan_after,
};

fn tunnel(n: u8) -> TunnelWant {
    TunnelWant {
        owner: ObjectKey::new("ns1", &format!("t{n}")).expect("a name"),
        kind: TunnelKind::Vxlan { vni: n.into(), port: 4789 },
        local: [172, 50, 16, 11].into(),
        remote: [172, 50, 16, 100 + n].into(),
        address: format!("10.100.{n}.1/24").parse().expect("an address"),
        remote_range: format!("243.{n}.0.0/16").parse().expect("a range"),
        egress: EgressRange { first: [242, 0, 0, 1].into(), last: [242, 0, 0, 8].into() },
        own: "242.0.0.0/16".parse().expect("a range"),
        seat: Default::default(),
    }
}

fn want(tunnels: &[u8]) -> Want {
    let inbound = Inbound { range: "242.0.0.0/16".parse().expect("a range"), via: [10, 0, 1, 1].into() };
    let named = |n: &u8| (format!("t{n}").parse().expect("a name"), tunnel(*n));
    Want { tunnels: tunnels.iter().map(named).collect(), inbound: Some(inbound), ..Want::default() }
}

/// A gateway that is visited.
struct Gateway {
    have: Have,
    last: Option<Outcome>,
}

impl Gateway {
    /// One that holds this much.
    fn holding(want: &Want) -> Self {
        let up = || Link { up: true, ..Link::default() };
        let links = ["eth0", "net1"].map(|name| (name.to_owned(), up())).into();
        let mut gateway = Self { have: Have { links, ..Have::default() }, last: None };
        gateway.have.nat.forward.insert(Variant::Nft, Vec::new());
        assert_eq!(gateway.visit(want), Repairs::default(), "what is new is no repair");
        gateway
    }

    fn visit(&mut self, want: &Want) -> Repairs {
        self.visit_after(&refused_before(self.last.as_ref(), "u1"), want)
    }

    fn visit_after(&mut self, refused: &Refused, want: &Want) -> Repairs {
        let planned: Plan = plan_after(refused, want, &self.have);
        for step in &planned.steps {
            model::apply(&mut self.have, &step.action).expect("it works");
        }
        let visit = judge(want, &planned, &BTreeMap::new(), &self.have);
        let repaired = repairs(self.last.as_ref(), "u1", want, &planned, &visit);
        self.last = Some(Outcome { pod_uid: "u1".into(), revision: 1, asked: 0, result: Ok(visit) });
        repaired
    }

    fn cut(&mut self, link: &str) {
        self.have.links.remove(link);
        self.have.routes.retain(|route| route.dev.as_deref() != Some(link));
    }
}

fn key(n: u8) -> ObjectKey {
    tunnel(n).owner
}

#[test]
fn deleting_one_tunnel_is_no_repair_of_the_others() {
    let mut gateway = Gateway::holding(&want(&[1, 2, 3]));
    assert_eq!(gateway.visit(&want(&[2, 3])), Repairs::default());
    assert_eq!(gateway.visit(&want(&[])), Repairs::default(), "nor is deleting the last");
    assert!(!gateway.have.holding().anything);
}

#[test]
fn a_repair_is_reported_to_its_tunnel_alone() {
    let mut gateway = Gateway::holding(&want(&[1, 2, 3]));
    gateway.cut("t2");
    let repaired = gateway.visit(&want(&[1, 2, 3]));
    assert_eq!(repaired.tunnels.keys().collect::<Vec<_>>(), [&key(2)]);
    assert_eq!(repaired.tunnels[&key(2)], "link t2 and all of it");
    assert_eq!(repaired.gateway, None);
}

#[test]
fn what_all_tunnels_share_is_reported_once_for_the_gateway() {
    let all: Vec<u8> = (1..100).collect();
    let mut gateway = Gateway::holding(&want(&all));
    gateway.have.forwarding = false;
    gateway.have.routes.retain(|route| route.via.is_none());
    gateway.have.nat.forward.values_mut().for_each(Vec::clear);
    let repaired = gateway.visit(&want(&all));
    let said = "ip_forward, route 242.0.0.0/16 via 10.0.1.1 dev eth0, segment size rule";
    assert_eq!(repaired, Repairs { gateway: Some(said.into()), ..Repairs::default() });
}

#[test]
fn another_way_in_is_news_and_no_repair() {
    let mut gateway = Gateway::holding(&want(&[1]));
    let mut moved = want(&[1]);
    moved.inbound.as_mut().expect("a way in").via = [10, 0, 1, 2].into();
    assert_eq!(gateway.visit(&moved), Repairs::default());
}

#[test]
fn a_tunnel_that_changed_or_is_new_is_news_beside_one_that_was_repaired() {
    let mut gateway = Gateway::holding(&want(&[1, 2]));
    gateway.cut("t1");
    gateway.cut("t2");
    let mut next = want(&[1, 2, 3]);
    next.tunnels.get_mut(&"t2".parse().expect("a name")).expect("a tunnel").remote = [172, 50, 16, 9].into();
    assert_eq!(gateway.visit(&next).tunnels.keys().collect::<Vec<_>>(), [&key(1)]);
}

#[test]
fn an_address_that_somebody_added_is_a_repair_of_its_tunnel() {
    let mut gateway = Gateway::holding(&want(&[1, 2]));
    let odd = "10.100.1.77/24".parse().expect("an address");
    gateway.have.links.get_mut("t1").expect("the link").addresses.push(odd);
    let repaired = gateway.visit(&want(&[1, 2]));
    assert_eq!(repaired.tunnels.keys().collect::<Vec<_>>(), [&key(1)]);
    assert!(repaired.tunnels[&key(1)].contains("stale address 10.100.1.77/24 of t1"));
}

#[test]
fn going_from_one_segment_size_rule_to_many_and_back_is_no_repair() {
    let mut gateway = Gateway::holding(&want(&[1, 2]));
    let refused = Refused { shared_clamp: true, ..Refused::default() };
    assert_eq!(gateway.visit_after(&refused, &want(&[1, 2])), Repairs::default());
    gateway.have.nat.forward.values_mut().for_each(Vec::clear);
    let repaired = gateway.visit(&want(&[1, 2]));
    assert_eq!(repaired.tunnels[&key(2)], "segment size rule for t2", "but its loss is");
    assert_eq!(gateway.visit_after(&Refused::default(), &want(&[1, 2])), Repairs::default());
}
