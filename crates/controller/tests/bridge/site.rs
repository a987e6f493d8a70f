//! A machine in a network namespace, hosts in others, and networks that are brought about the way the room does it.

use std::collections::BTreeSet;

use causeway_controller::networks::bridge::{Bridge, Options};
use causeway_controller::networks::provider::NetworkProvider;
use causeway_core::networks::cloud::{Cloud, Clue};
use causeway_core::networks::plan::{Goal, Want, plan};
use causeway_core::networks::{Held, Home, Look, NetworkSpec, Seen, Step, Todo, Trouble};
use causeway_datapath::networks::mark::link_name;

use crate::net::{Netns, prerequisites};

/// More steps than any network needs.
const MOST: usize = 20;

pub(crate) struct Site {
    pub(crate) machine: Netns,
    pub(crate) home: Home,
    pub(crate) provider: Bridge,
}

pub(crate) fn home() -> Home {
    Home::new(Some("east"), "0fa3b1c2-0000-4000-8000-000000000001")
}

impl Site {
    pub(crate) fn new(nat: bool) -> Self {
        if let Some(why) = prerequisites(&[("nft", &["--version"]), ("ping", &["-V"])]) {
            panic!("{why}");
        }
        let machine = Netns::new();
        machine.sh("ip link set lo up");
        let provider = provider(&machine, nat);
        Self { machine, home: home(), provider }
    }

    /// The same machine, after the process that worked on it ended.
    pub(crate) fn restart(&mut self, nat: bool) {
        self.provider = provider(&self.machine, nat);
    }

    pub(crate) async fn look(&self, look: Look) -> Vec<Held> {
        self.provider.look(&self.home, &look).await.expect("a look")
    }

    pub(crate) async fn apply(&self, step: Step) -> Result<Seen, Trouble> {
        self.provider.apply(&step).await
    }

    /// Steps until nothing is left to do; then a fresh look must leave nothing to do either. What was done, by verbs.
    pub(crate) async fn converge(&self, want: &Want) -> Result<Vec<&'static str>, Trouble> {
        let done = self.work(want).await?;
        assert_eq!(self.work(want).await?, Vec::<&str>::new(), "after {done:?}");
        Ok(done)
    }

    async fn work(&self, want: &Want) -> Result<Vec<&'static str>, Trouble> {
        let mut cloud = Cloud::default();
        cloud.list(0, self.provider.look(&self.home, &Look::All).await?);
        let (mut looked, mut done) = (false, Vec::new());
        for _ in 0..MOST {
            let have: Vec<Held> = cloud.iter().cloned().collect();
            match plan(&self.home, want, &have.iter().collect::<Vec<_>>(), looked) {
                Todo::Nothing => return Ok(done),
                Todo::Look => {
                    let ids: BTreeSet<String> = match &want.goal {
                        Goal::Present { adopt, .. } => adopt.iter().cloned().collect(),
                        _ => BTreeSet::new(),
                    };
                    let clue = Clue { uid: want.uid.clone(), name: want.name.clone(), ids };
                    cloud.find(&BTreeSet::new(), self.provider.look(&self.home, &Look::One(clue)).await?);
                    looked = true;
                }
                Todo::Step(step) => {
                    done.push(step.verb());
                    cloud.take_in(self.provider.apply(&step).await?);
                }
                Todo::Stuck(stuck) => panic!("{stuck}"),
            }
        }
        panic!("no end: {done:?}")
    }

    /// The rules of ours, if there are any.
    pub(crate) fn table(&self) -> Option<String> {
        let (found, text) = self.machine.try_sh("nft list table inet causeway-networks");
        found.then_some(text)
    }

    /// A host on a network.
    pub(crate) fn host(&self, uid: &str, port: &str, address: &str, gateway: &str) -> Netns {
        let host = Netns::new();
        self.machine.sh(&format!(
            "ip link add {port} type veth peer name eth0 netns {}; ip link set {port} master {} up",
            host.pid(),
            link_name(uid)
        ));
        let nodad = if address.contains(':') { "nodad" } else { "" };
        host.sh(&format!(
            "ip link set lo up; ip link set eth0 up; ip addr add {address} dev eth0 {nodad}
             ip route add default via {gateway}"
        ));
        host
    }
}

fn provider(machine: &Netns, nat: bool) -> Bridge {
    let namespace = Some(format!("/proc/{}/ns/net", machine.pid()).into());
    let within = ["10.0.0.0/8", "fc00::/7"].map(|range| range.parse().expect("a range"));
    Bridge::new(Options { namespace, nat, within: within.into() })
}

pub(crate) fn want(uid: &str, cidr: &str, gateway: &str) -> Want {
    let spec = NetworkSpec::parse(cidr, Some(gateway)).expect("a spec");
    let goal = Goal::Present { spec, may_replace: false, adopt: None, known: None };
    Want { uid: uid.into(), name: format!("ns1/{uid}"), subnet: None, goal }
}

pub(crate) fn absent(uid: &str) -> Want {
    Want { uid: uid.into(), name: format!("ns1/{uid}"), subnet: None, goal: Goal::Absent }
}

pub(crate) fn released(uid: &str) -> Want {
    Want { goal: Goal::Released { known: None }, ..absent(uid) }
}

/// Whether somebody answers; the first question may wait for a neighbour's address.
pub(crate) fn reaches(from: &Netns, address: &str) -> bool {
    from.try_sh(&format!("ping -q -c 1 -w 5 {address}")).0
}

/// Whether nobody answers, for as long as anybody who could would take.
pub(crate) fn reaches_not(from: &Netns, address: &str) -> bool {
    !from.try_sh(&format!("ping -q -c 3 -i 0.2 -w 1 {address}")).0
}
