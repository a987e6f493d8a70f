//! A cluster as the sandbox has it: VPC `test-vpc-1` with gateways gw1 and gw2, and two peers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use causeway_core::condition::Condition;
use causeway_core::vpc::compile::{self, GatewayTask};
use causeway_core::vpc::exchange::{
    LAN_IP, MOVING, RECORD_NAMESPACE, Record, RecordObject, RecordTask, SWITCHED, SWITCHED_FROM,
};
use causeway_core::vpc::mains::{self, Moving, Step};
use causeway_core::vpc::member::{Member, Renewal};
use causeway_core::vpc::naming::{copy_name, home_name, vpc_home_name};
use causeway_core::vpc::objects::{
    Ends, GatewayPod, ListedRoute, NodeHealth, Peer, PodRef, StaticRoute, TUNNEL_FINALIZER, Tunnel,
    TunnelSpec, Vpc, Workload,
};
use causeway_core::vpc::outcome::judge;
use causeway_core::vpc::status::{self, Finalizer, READY, TunnelStatus};
use causeway_core::vpc::{
    Answer, Change, Event, Given, Have, LINK_GROUP, Link, Near, Outcome, Probed, Scope, State, Trouble,
    TunnelKind, Want, model, plan,
};
use causeway_core::{GatewayName, ObjectKey};

/// Our VPC.
pub(crate) const VPC: &str = "test-vpc-1";

/// The state and what its gateways hold.
pub(crate) struct World {
    pub(crate) state: State,
    gateways: BTreeMap<String, Have>,
    records: BTreeMap<ObjectKey, Record>,
    vpc: Vpc,
}

fn moving(text: &str) -> Vec<Moving> {
    text.split(',').map(|text| text.parse().expect("what is still to be moved")).collect()
}

pub(crate) fn key(text: &str) -> ObjectKey {
    text.parse().expect("namespace/name")
}

fn peer(text: &str) -> Peer {
    let (cluster, gateway) = text.split_once('/').expect("cluster/gateway");
    Peer { cluster: cluster.parse().expect("id"), gateway: gateway.parse().expect("name") }
}

/// Gives a tunnel another kind and peer.
pub(crate) fn set(tunnel: &mut Tunnel, kind: TunnelKind, to: &str) {
    let spec = tunnel.spec.as_mut().expect("valid");
    spec.kind = kind;
    if let Ends::ByGateway { peer: end, .. } = &mut spec.ends {
        *end = peer(to);
    }
}

/// Puts a tunnel on another gateway.
pub(crate) fn on_gateway(tunnel: &mut Tunnel, name: &str) {
    if let Ok(TunnelSpec { ends: Ends::ByGateway { gateway, .. }, .. }) = &mut tunnel.spec {
        *gateway = name.parse().expect("name");
    }
}

/// A link of ours, changed.
pub(crate) fn link(change: &dyn Fn(&mut Link)) -> Link {
    let mut link = Link { group: LINK_GROUP, up: true, ..Link::default() };
    change(&mut link);
    link
}

/// A pod of a gateway, ready.
pub(crate) fn pod(gateway: &str, name: &str, lan: u8, outside: u8) -> GatewayPod {
    let provider = "ovn-vpc-external-network.kube-system".to_string();
    GatewayPod {
        pod: PodRef { key: key(&format!("kube-system/{name}")), uid: name.into() },
        gateway: gateway.parse().expect("name"),
        created: 1,
        phase: "Running".into(),
        ready: true,
        deleting: false,
        node: Some("n1".into()),
        lan: Some([10, 0, 1, lan].into()),
        external: [(provider, [172, 50, 16, outside].into())].into(),
        router: Some([10, 0, 1, 1].into()),
        vpc: Some("test-vpc-1".into()),
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::given(Given::default())
    }

    /// The same with what people give by flag.
    pub(crate) fn given(given: Given) -> Self {
        let mut state = State::new(given);
        state.apply(Event::Tunnels(Change::Reset(BTreeMap::new())));
        state.apply(Event::Identity(Some("cluster1".parse())));
        state.apply(Event::Joining("submariner-k8s-broker".into()));
        state.apply(Event::Uid("ours".into()));
        state
            .apply(Event::Globalnets(Change::Put("cluster1".into(), "242.0.0.0/16".parse().expect("range"))));
        state.apply(Event::Egress((1..=8).map(|n| Ipv4Addr::new(242, 0, 0, n)).collect()));
        state.apply(Event::Nodes(Change::Put("n1".into(), NodeHealth::Ready)));
        let route =
            StaticRoute { range: "242.1.0.0/16".parse().expect("range"), next_hop: [10, 0, 1, 254].into() };
        let listed = ListedRoute { range: Some(route.range), next_hop: Some(route.next_hop), shared: false };
        let vpc = Vpc {
            routes: [route].into(),
            listed: vec![listed],
            namespaces: ["ns1".into()].into(),
            resource_version: "1".into(),
            switch: None,
            annotated: false,
        };
        state.apply(Event::Vpcs(Change::Put(VPC.into(), vpc.clone())));
        let mut world = Self { state, gateways: BTreeMap::new(), records: BTreeMap::new(), vpc };
        world.gateway("gw1", 254, 11);
        world.gateway("gw2", 253, 12);
        world.record("cluster2/gw1", "172.50.16.21", "242.1.0.0/16");
        world.record("cluster2/gw2", "172.50.16.22", "242.1.0.0/16");
        world.record("cluster3/gw1", "172.50.16.31", "242.2.0.0/16");
        world.members(&[("cluster1", "ours"), ("cluster2", "theirs")]);
        world
    }

    /// The broker's first full list: nothing is there.
    pub(crate) fn empty_broker(&mut self) {
        self.state.apply(Event::Copies(Change::Reset(BTreeMap::new())));
    }

    fn gateway(&mut self, name: &str, lan: u8, outside: u8) {
        let gateway: GatewayName = name.parse().expect("name");
        let workload = Workload { gateway: gateway.clone(), ready: true, subnet: None, replicated: false };
        self.state.apply(Event::StatefulSets(Change::Put(name.into(), workload)));
        let mut pod = pod(name, &format!("vpc-nat-gw-{name}-0"), lan, outside);
        pod.pod.uid = "u1".into();
        self.state.apply(Event::Pods(Change::Put(pod.pod.key.clone(), pod)));
        let mut have = Have::default();
        have.links.insert("eth0".into(), link(&|link| link.group = 0));
        have.nat.postrouting.insert(have.nat.active, Vec::new());
        self.gateways.insert(name.into(), have);
    }

    /// Puts a vxlan tunnel from our VPC to the VPC of that name in cluster2.
    pub(crate) fn vpc_tunnel(&mut self, name: &str) {
        let remote = Peer { cluster: "cluster2".parse().expect("id"), gateway: "gw1".parse().expect("name") };
        let mut record = Self::facts(
            "cluster2/gw1",
            RECORD_NAMESPACE,
            &vpc_home_name(VPC, &remote.cluster),
            "172.50.16.21",
            "242.1.0.0/16",
        );
        record.vpc = Some(VPC.into());
        self.put_record(record);
        self.tunnel(name, |tunnel| {
            tunnel.spec.as_mut().expect("valid").ends =
                Ends::ByVpc { local: VPC.into(), cluster: remote.cluster.clone(), remote: VPC.into() };
        });
    }

    /// Changes our VPC's object.
    pub(crate) fn change_vpc(&mut self, change: impl FnOnce(&mut Vpc)) {
        change(&mut self.vpc);
        self.vpc.routes = self
            .vpc
            .listed
            .iter()
            .filter_map(|it| Some(StaticRoute { range: it.range?, next_hop: it.next_hop? }))
            .collect();
        self.state.apply(Event::Vpcs(Change::Put(VPC.into(), self.vpc.clone())));
    }

    /// Changes a gateway's pod.
    pub(crate) fn change_pod(&mut self, gateway: &str, change: impl FnOnce(&mut GatewayPod)) {
        let (lan, outside) = if gateway == "gw1" { (254, 11) } else { (253, 12) };
        let mut pod = pod(gateway, &format!("vpc-nat-gw-{gateway}-0"), lan, outside);
        pod.pod.uid = "u1".into();
        change(&mut pod);
        self.state.apply(Event::Pods(Change::Put(pod.pod.key.clone(), pod)));
    }

    /// A gateway is deleted, workload and all.
    pub(crate) fn delete_gateway(&mut self, gateway: &str) {
        self.state.apply(Event::StatefulSets(Change::Gone(gateway.into())));
        self.state.apply(Event::Pods(Change::Gone(key(&format!("kube-system/vpc-nat-gw-{gateway}-0")))));
    }

    /// One write about our VPC, as a leader would make it; whether there was any.
    pub(crate) fn step(&mut self) -> Step {
        let step = mains::step(&self.state, VPC);
        match &step {
            Step::Nothing => {}
            Step::Record(RecordTask::Create(object) | RecordTask::Update { object, .. }) => {
                self.take_in(object);
            }
            Step::Record(RecordTask::Delete(key, _)) => self.forget_record(&key.to_string()),
            Step::Record(RecordTask::Nothing) => unreachable!("nothing is no record"),
            Step::Routes(task) => {
                assert_eq!(task.version, self.vpc.resource_version, "the version that it was decided on");
                self.change_vpc(|vpc| {
                    task.places.iter().for_each(|place| vpc.listed[*place].next_hop = Some(task.to));
                    vpc.resource_version += "1";
                });
            }
        }
        step
    }

    /// All that is to be written about our VPC.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10 {
            if self.step() == Step::Nothing {
                return;
            }
        }
        panic!("what is written about the VPC never ends");
    }

    /// The gateway that our VPC's record names, and the next hops of its routes.
    pub(crate) fn main(&self) -> (Option<String>, Vec<String>) {
        let record = self.records.get(&key(&format!("kube-system/{VPC}.cluster1")));
        let hops = self.vpc.listed.iter().filter_map(|route| route.next_hop).map(|hop| hop.to_string());
        (record.and_then(|record| record.gateway.as_ref()).map(ToString::to_string), hops.collect())
    }

    /// Puts a vxlan tunnel from gw1 to cluster2/gw1, changed; gives what that touches.
    pub(crate) fn tunnel(&mut self, name: &str, change: impl Fn(&mut Tunnel)) -> BTreeSet<Scope> {
        let key = key(name);
        let spec = TunnelSpec {
            link: key.name().parse().expect("a link name"),
            kind: TunnelKind::Vxlan { vni: 100, port: 4789 },
            address: "10.100.0.1/24".parse().expect("address"),
            ends: Ends::ByGateway { gateway: "gw1".parse().expect("name"), peer: peer("cluster2/gw1") },
        };
        let mut tunnel = Tunnel {
            key: key.clone(),
            uid: "u".into(),
            resource_version: "1".into(),
            generation: 1,
            created: 5,
            deleting: false,
            finalizers: vec![TUNNEL_FINALIZER.into()],
            abandon: false,
            spec: Ok(spec),
            status: TunnelStatus::default(),
        };
        change(&mut tunnel);
        self.state.apply(Event::Tunnels(Change::Put(key, tunnel)))
    }

    /// Asks for a tunnel's deletion.
    pub(crate) fn delete(&mut self, name: &str) {
        let mut tunnel = self.state.tunnel(&key(name)).expect("a tunnel").clone();
        tunnel.deleting = true;
        self.state.apply(Event::Tunnels(Change::Put(key(name), tunnel)));
    }

    /// Takes an imported record in.
    pub(crate) fn record(&mut self, of: &str, address: &str, range: &str) {
        let name = home_name(Some(&"cluster1".parse().expect("id")), &peer(of));
        self.put_record(Self::facts(of, RECORD_NAMESPACE, &name, address, range));
    }

    /// Takes the claims at the broker in: cluster and uid.
    pub(crate) fn members(&mut self, claims: &[(&str, &str)]) {
        let member = |(cluster, uid): &(&str, &str)| {
            let member = Member { cluster: cluster.parse().expect("id"), uid: (*uid).into() };
            (member.name(), Renewal { member, renewed: 0, lasts: 360, read: 0 })
        };
        self.state.apply(Event::Members(Change::Reset(claims.iter().map(member).collect())));
    }

    /// Takes a copy at the broker in.
    pub(crate) fn copy(&mut self, of: &str, address: &str) {
        self.copy_from(RECORD_NAMESPACE, of, address);
    }

    /// The same of a record that is in another namespace at home.
    pub(crate) fn copy_from(&mut self, namespace: &str, of: &str, address: &str) {
        // Each cluster has a range of its own.
        let number = peer(of).cluster.as_str().bytes().fold(9u8, u8::wrapping_add);
        let range = format!("242.{number}.0.0/16");
        let mut copy = Self::facts(of, "submariner-k8s-broker", &copy_name(&peer(of)), address, &range);
        copy.origin_namespace = Some(namespace.into());
        self.state.apply(Event::Copies(Change::Put(copy.key.name().into(), copy)));
    }

    fn facts(of: &str, namespace: &str, name: &str, address: &str, range: &str) -> Record {
        let Peer { cluster, gateway } = peer(of);
        Record {
            key: ObjectKey::new(namespace, name).expect("a key"),
            resource_version: "1".into(),
            external_ip: address.into(),
            globalnet: range.into(),
            vpc: None,
            gateway: Some(gateway),
            origin: Some(cluster.clone()),
            cluster: Some(cluster),
            origin_namespace: Some(RECORD_NAMESPACE.into()),
            deleting: false,
            unreadable: None,
            lan: None,
            moving: Vec::new(),
            switched: None,
            switched_from: None,
        }
    }

    /// What a watch says after a record was written.
    pub(crate) fn take_in(&mut self, object: &RecordObject) {
        let label = |name: &str| object.labels.get(name).cloned();
        let record = Record {
            key: object.key.clone(),
            resource_version: "2".into(),
            external_ip: object.external_ip.clone(),
            globalnet: object.globalnet.clone(),
            vpc: label("localVpc"),
            gateway: label("localGateway").and_then(|name| name.parse().ok()),
            cluster: label("localCluster").and_then(|name| name.parse().ok()),
            origin: label("submariner-io/clusterID").and_then(|name| name.parse().ok()),
            origin_namespace: label("submariner-io/originatingNamespace"),
            deleting: false,
            unreadable: None,
            lan: object.annotations.get(LAN_IP).and_then(|text| text.parse().ok()),
            moving: object.annotations.get(MOVING).map(|text| moving(text)).unwrap_or_default(),
            switched: object.annotations.get(SWITCHED).cloned(),
            switched_from: object.annotations.get(SWITCHED_FROM).and_then(|text| text.parse().ok()),
        };
        self.put_record(record);
    }

    /// Changes a record.
    pub(crate) fn change_record(&mut self, name: &str, change: impl Fn(&mut Record)) {
        let mut record = self.records[&key(name)].clone();
        change(&mut record);
        self.put_record(record);
    }

    fn put_record(&mut self, record: Record) {
        self.records.insert(record.key.clone(), record.clone());
        self.state.apply(Event::Records(Change::Put(record.key.clone(), record)));
    }

    /// Visits a gateway: everything works there, and all peers answer.
    pub(crate) fn visit(&mut self, name: &str) {
        let Some(task) = compile::gateway(&self.state, &name.parse().expect("name")) else { return };
        self.finish(name, self.state.revision(), &task);
    }

    /// Visits a gateway: everything works there, and nobody was asked.
    pub(crate) fn build(&mut self, name: &str) {
        self.build_under(0, name);
    }

    /// The same as the change of a number.
    pub(crate) fn build_under(&mut self, asked: u64, name: &str) {
        let task = compile::gateway(&self.state, &name.parse().expect("name")).expect("a task");
        self.carry_out(name, self.state.revision(), asked, &task);
    }

    /// Changes what a gateway holds that is not ours.
    pub(crate) fn gateway_has(&mut self, name: &str, change: impl FnOnce(&mut Have)) {
        change(self.gateways.get_mut(name).expect("a gateway"));
    }

    /// The gateway's pod is another one, which holds nothing.
    pub(crate) fn new_pod(&mut self, name: &str) {
        let have = self.gateways.get_mut(name).expect("a gateway");
        have.links.retain(|_, link| link.group == 0);
        have.routes.clear();
        have.nat.postrouting.values_mut().for_each(Vec::clear);
        let outside = if name == "gw1" { (254, 11) } else { (253, 12) };
        let mut pod = pod(name, &format!("vpc-nat-gw-{name}-0"), outside.0, outside.1);
        pod.pod.uid = "u2".into();
        self.state.apply(Event::Pods(Change::Put(pod.pod.key.clone(), pod)));
    }

    /// Changes a tunnel's object.
    pub(crate) fn change(&mut self, name: &str, change: impl FnOnce(&mut Tunnel)) {
        let mut tunnel = self.state.tunnel(&key(name)).expect("a tunnel").clone();
        change(&mut tunnel);
        self.state.apply(Event::Tunnels(Change::Put(key(name), tunnel)));
    }

    /// Writes a tunnel's status, if there is anything to say.
    pub(crate) fn write(&mut self, name: &str) {
        if let Some(status) = self.status(name) {
            self.change(name, |tunnel| tunnel.status = status);
        }
    }

    /// A record is gone.
    pub(crate) fn forget_record(&mut self, name: &str) {
        self.records.remove(&key(name));
        self.state.apply(Event::Records(Change::Gone(key(name))));
    }

    /// The rest of a visit that was compiled at a revision.
    pub(crate) fn finish(&mut self, name: &str, revision: u64, task: &GatewayTask) {
        self.carry_out(name, revision, 0, task);
        self.probe(name, Near::Answered(Some(800)), None);
    }

    fn carry_out(&mut self, name: &str, revision: u64, asked: u64, task: &GatewayTask) {
        let have = self.gateways.get_mut(name).expect("a gateway");
        let planned = plan(&task.want, have);
        for step in &planned.steps {
            model::apply(have, &step.action).expect("a gateway that works");
        }
        let result = Ok(judge(&task.want, &planned, &BTreeMap::new(), have));
        let outcome = Outcome { pod_uid: task.pod.uid.clone(), revision, asked, result };
        self.state.apply(Event::Outcome(name.parse().expect("name"), outcome));
    }

    /// The peers of all links of a gateway are asked once.
    pub(crate) fn probe(&mut self, name: &str, near: Near, far: Option<bool>) -> BTreeSet<Scope> {
        self.probe_under(0, name, near, far)
    }

    /// The same when so many changes had been announced.
    pub(crate) fn probe_under(
        &mut self,
        asked: u64,
        name: &str,
        near: Near,
        far: Option<bool>,
    ) -> BTreeSet<Scope> {
        let gateway: GatewayName = name.parse().expect("name");
        let Some(task) = compile::gateway(&self.state, &gateway) else { return BTreeSet::new() };
        let links = self.gateways[name].links.keys();
        let answer = |link: &String| Answer { link: link.clone(), near, far, astray: None };
        let (pod_uid, answers) = (task.pod.uid, links.map(answer).collect());
        self.state.apply(Event::Probed(gateway, Probed { pod_uid, asked, answers }))
    }

    /// A visit that failed as a whole.
    pub(crate) fn fail(&mut self, name: &str, trouble: Trouble) {
        let outcome =
            Outcome { pod_uid: "u1".into(), revision: self.state.revision(), asked: 0, result: Err(trouble) };
        self.state.apply(Event::Outcome(name.parse().expect("name"), outcome));
    }

    pub(crate) fn have(&self, gateway: &str) -> Have {
        self.gateways[gateway].clone()
    }

    pub(crate) fn want(&self, gateway: &str) -> Want {
        compile::gateway(&self.state, &gateway.parse().expect("name")).expect("a running gateway").want
    }

    pub(crate) fn status(&self, name: &str) -> Option<TunnelStatus> {
        status::tunnel(&self.state, &key(name))?.status
    }

    pub(crate) fn finalizer(&self, name: &str) -> Finalizer {
        status::tunnel(&self.state, &key(name)).expect("a tunnel").finalizer
    }

    /// A condition of a tunnel, as its status should have it.
    pub(crate) fn condition(&self, name: &str, kind: &str) -> Option<Condition> {
        let written = || self.state.tunnel(&key(name)).map(|tunnel| tunnel.status.clone());
        self.status(name).or_else(written)?.conditions.get(kind).cloned()
    }

    pub(crate) fn reason(&self, name: &str) -> String {
        let status = self.status(name);
        let ready = status.as_ref().and_then(|status| status.conditions.get(READY));
        ready.map(|ready| ready.reason.clone()).unwrap_or_default()
    }
}
