//! Segment sizes are fitted by one rule for all tunnels where the gateway can, and by one for each where it cannot.

mod lab;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use causeway_core::vpc::outcome::{judge, refused_now};
use causeway_core::vpc::{
    Have, NatRule, Plan, Refused, Trouble, TunnelKind, Variant, Visit, Want, plan_after,
};
use causeway_datapath::vpc::{Applied, Commands, Datapath};
use lab::net::transfer;
use lab::want::{VXLAN, add, demo};
use lab::{BOTH, Lab, Local, iptables, joined, observed, require};

/// A folder whose iptables-restore of a variant refuses rules that hold a word; the rest is found where it always is.
fn without(word: &str, variant: Variant) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let name = format!("{}-restore", iptables(variant));
    let script = format!(
        "#!/bin/bash\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\ninput=$(cat)\n\
         # Tables before the one that it cannot load are committed.\n\
         if [[ $input == *' {word} '* ]]; then\n\
           [[ $input != *'*nat'* ]] || printf '%s\\n' \"${{input%%$'\\n*mangle'*}}\" | {name} \"$@\"\n\
           echo \"{name}: Couldn't load match \\`{word}': No such file or directory\" >&2; exit 2\n\
         fi\nprintf '%s\\n' \"$input\" | {name} \"$@\"\n"
    );
    std::fs::write(dir.path().join(&name), script).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path().join(&name), mode).expect("executable");
    dir
}

/// A gateway of the lab with such tools.
fn gateway(lab: &Lab, side: usize, tools: &tempfile::TempDir) -> Commands<Local> {
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", tools.path().display());
    Commands::new(Local { path: Some(path.into()), ..lab.gateways[side].runner() })
}

/// A visit as the controller makes it: apply, and once more if what the gateway refused asks for something else.
async fn visit(datapath: &impl Datapath, want: &Want, refused: &Refused) -> (Plan, Visit, Have) {
    let carry_out = async |plan: &Plan| {
        let Applied { listing, failures } = datapath.apply(plan, None).await.expect("applied");
        let explain = |error: causeway_datapath::vpc::StepError| Trouble::CommandFailed(error.to_string());
        let failures: BTreeMap<usize, Trouble> =
            failures.into_iter().map(|(at, error)| (at, explain(error))).collect();
        (failures, listing.have)
    };
    let mut plan = plan_after(refused, want, &observed(datapath).await);
    let (mut failures, mut have) = carry_out(&plan).await;
    let again = plan_after(&refused_now(&plan, &failures, &have), want, &have);
    if again.has_news_since(&plan) {
        (failures, have) = carry_out(&again).await;
        plan = again;
    }
    let visit = judge(want, &plan, &failures, &have);
    (plan, visit, have)
}

/// How many rules of ours fit segment sizes: for all, and for one tunnel each.
fn clamps(have: &Have) -> (usize, usize) {
    let rules = have.nat.forward.values().flatten();
    let shared = rules.clone().filter(|rule| matches!(rule, NatRule::Shared { .. }));
    (shared.count(), rules.filter(|rule| rule.owner().is_some()).count())
}

fn two_tunnels(side: u8) -> Want {
    let mut want = demo(side, VXLAN);
    add(&mut want, "far", 1, TunnelKind::Vxlan { vni: 201, port: 4789 });
    want
}

/// What arrives over TCP although nobody hears that packets are too large.
fn arrives(lab: &Lab) -> usize {
    let server = SocketAddrV4::new([242, 1, 1, 20].into(), 7001);
    transfer(&lab.workloads[0], &lab.workloads[1], server, 200_000)
}

#[tokio::test]
async fn a_gateway_that_cannot_match_by_group_gets_a_rule_for_each_tunnel() {
    require(&[]);
    for variant in BOTH {
        let lab = Lab::new(variant);
        for workload in &lab.workloads {
            workload.sh("iptables-nft -A INPUT -p icmp -j DROP");
        }
        let tools = without("devgroup", variant);
        for side in 0..2_u8 {
            let datapath = gateway(&lab, side.into(), &tools);
            let want = two_tunnels(side);
            let (plan, visit, have) = visit(&datapath, &want, &Refused::default()).await;
            assert!(plan.clamps_each && visit.clamps_each);
            assert!(visit.tunnels.values().all(|(_, trouble)| trouble.is_none()), "{visit:?}");
            assert_eq!((visit.unclamped.len(), clamps(&have)), (0, (0, 2)));
            // The next visit knows, and asks for nothing.
            let refused = Refused { shared_clamp: true, ..Refused::default() };
            assert_eq!(plan_after(&refused, &want, &have).steps, []);
        }
        assert_eq!(arrives(&lab), 200_000);
        // The gateway gets another kernel, or another image: one rule takes the place of all.
        let (_, visit, have) = self::visit(&lab.datapath(0), &two_tunnels(0), &Refused::default()).await;
        assert_eq!((visit.unclamped.len(), visit.clamps_each, clamps(&have)), (0, false, (1, 0)));
        assert_eq!(arrives(&lab), 200_000);
    }
}

#[tokio::test]
async fn a_gateway_that_cannot_fit_segment_sizes_at_all_has_its_tunnels_up() {
    require(&[]);
    for variant in BOTH {
        let lab = Lab::new(variant);
        let tools = without("TCPMSS", variant);
        for side in 0..2_u8 {
            let (_, visit, have) =
                visit(&gateway(&lab, side.into(), &tools), &two_tunnels(side), &Refused::default()).await;
            assert!(visit.tunnels.values().all(|(_, trouble)| trouble.is_none()), "{visit:?}");
            assert_eq!((visit.unclamped.len(), clamps(&have)), (2, (0, 0)));
            assert!(visit.unclamped.values().all(|why| why.contains("TCPMSS")), "{:?}", visit.unclamped);
        }
        lab.assert_crosses();
    }
}

#[tokio::test]
async fn the_one_rule_goes_with_the_last_tunnel_and_old_ones_go_once_it_stands() {
    require(&[]);
    for variant in BOTH {
        let lab = joined(variant).await;
        let ipt = iptables(variant);
        lab.gateways[0].sh(&format!(
            "{ipt} -t mangle -F FORWARD
             {ipt} -t mangle -A FORWARD -o demo -p tcp -m tcp --tcp-flags SYN,RST SYN -m comment --comment causeway:ns1/demo -j TCPMSS --clamp-mss-to-pmtu"
        ));
        let (plan, have) = lab.converge(0, &demo(0, VXLAN)).await;
        assert_eq!((plan.steps.len(), clamps(&have)), (2, (1, 0)), "{plan:?}");
        let (_, have) = lab.converge(0, &Want::default()).await;
        assert_eq!(clamps(&have), (0, 0));
    }
}
