//! What a gateway with thousands of tunnels costs to plan and to judge. Measured, not asserted:
//! `cargo test --release -p causeway-core --test scale -- --ignored --nocapture`

#![allow(clippy::print_stdout)] // a measurement is printed

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Instant;

use causeway_core::names::ObjectKey;
use causeway_core::vpc::outcome::{judge, refused_now, repairs};
use causeway_core::vpc::{
    EgressRange, Have, Inbound, Link, Outcome, Plan, TunnelKind, TunnelWant, Want, model, plan,
};

fn want(tunnels: u32) -> Want {
    let tunnel = |n: u32| {
        let tunnel = TunnelWant {
            owner: ObjectKey::new("ns1", &format!("t{n}")).expect("a key"),
            kind: TunnelKind::Vxlan { vni: 100 + n, port: 4789 },
            local: [172, 50, 16, 11].into(),
            remote: Ipv4Addr::from(0xac33_0000 + n),
            address: format!("{}/30", Ipv4Addr::from(0x0a64_0001 + 4 * n)).parse().expect("an address"),
            remote_range: format!("{}/24", Ipv4Addr::from(0xf300_0000 + 256 * n)).parse().expect("a range"),
            egress: EgressRange { first: [242, 0, 0, 1].into(), last: [242, 0, 0, 8].into() },
            own: "242.0.0.0/16".parse().expect("a range"),
            seat: Default::default(),
        };
        (format!("t{n}").parse().expect("a name"), tunnel)
    };
    let inbound = Inbound { range: "242.0.0.0/16".parse().expect("a range"), via: [10, 0, 1, 1].into() };
    Want { tunnels: (0..tunnels).map(tunnel).collect(), inbound: Some(inbound), ..Want::default() }
}

fn made(want: &Want) -> Have {
    let up = || Link { up: true, ..Link::default() };
    let mut have = Have { links: ["eth0", "net1"].map(|name| (name.into(), up())).into(), ..Have::default() };
    for step in plan(want, &have).steps {
        model::apply(&mut have, &step.action).expect("it works");
    }
    have
}

fn timed<T>(what: &str, tunnels: u32, work: impl Fn() -> T) -> T {
    let rounds = 5;
    let start = Instant::now();
    let mut last = work();
    for _ in 1..rounds {
        last = work();
    }
    let each = start.elapsed().as_secs_f64() * 1000.0 / f64::from(rounds);
    println!("{tunnels:>6} tunnels: {what:<36} {each:>8.2} ms");
    last
}

#[test]
#[ignore = "a measurement"]
fn planning_and_judging_by_the_number_of_tunnels() {
    for tunnels in [100, 1000, 5000] {
        let want = want(tunnels);
        let nothing = Have::default();
        let full = made(&want);
        let mut one_short = full.clone();
        one_short.links.remove("t7");
        let none = BTreeMap::new();
        let first = timed("plan from nothing", tunnels, || plan(&want, &nothing));
        assert_eq!(timed("plan with all there", tunnels, || plan(&want, &full)), Plan::default());
        let repair = timed("plan with one link missing", tunnels, || plan(&want, &one_short));
        let visit = timed("judge after all was made", tunnels, || judge(&want, &first, &none, &full));
        timed("judge after nothing worked", tunnels, || judge(&want, &first, &none, &nothing));
        let outcome = Outcome { pod_uid: "u".into(), revision: 1, asked: 0, result: Ok(visit.clone()) };
        timed("repairs", tunnels, || repairs(Some(&outcome), "u", &want, &repair, &visit));
        timed("news since, and what was refused", tunnels, || {
            (first.has_news_since(&first), refused_now(&first, &none, &full))
        });
        timed("remove all", tunnels, || plan(&Want::default(), &full));
    }
}
