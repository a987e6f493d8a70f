//! What the tests of the room share: a small cluster, and a server that takes every edit.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use causeway_core::ObjectKey;
use causeway_core::dns::annotation::{Entry, Routes};
use causeway_core::dns::deployment::{Edit, Field, Script, Want, plan};
use causeway_core::dns::forward::FINALIZER;
use causeway_core::dns::status::{self, Finalizer, Task};
use causeway_core::dns::vpc_dns::COREFILE;
use causeway_core::dns::{
    Corefile, Deployment, Event, Forward, ForwardStatus, Route, Scope, Sight, State, VpcDns,
};
use causeway_core::room::{Change, State as _};

pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
pub(crate) const STOCK: &str = ".:53 {\n    errors\n    forward . /etc/resolv.conf\n}\n";
pub(crate) const ROW: &str = "ip -4 route add 10.96.0.1 via 10.244.0.1 dev net1;";
const PROVIDER: &str = "ovn-nad.default.ovn";

pub(crate) fn route() -> Route {
    Route { to: SERVER, via: GATEWAY }
}

/// A Deployment of kube-ovn up to 1.12.
pub(crate) fn with_script(script: &str) -> Deployment {
    let words = ["sh", "-c", script].map(str::to_owned).to_vec();
    let script = Some(Ok(Script { field: Field::Command, words, at: 2 }));
    Deployment { script, providers: [PROVIDER.into()].into(), ..Deployment::default() }
}

/// One of kube-ovn from 1.13 on.
pub(crate) fn with_list(text: Option<&str>) -> Deployment {
    let key = format!("{PROVIDER}.kubernetes.io/routes");
    let routes = text.map(|text| (key, read(text))).into_iter().collect();
    Deployment { routes, providers: [PROVIDER.into()].into(), ..Deployment::default() }
}

/// A list as the border reads it, for texts that are as simple as those of these tests.
fn read(text: &str) -> Routes {
    let inside = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let Some(inside) = inside else { return Routes::Unreadable("no list".into()) };
    let field = |entry: &str, name: &str| {
        let value = entry
            .split_once(&format!("\"{name}\""))
            .map(|(_, rest)| rest.split('"').nth(1).unwrap_or_default());
        value.unwrap_or_default().to_owned()
    };
    let entries = inside.split('}').filter(|entry| entry.contains('{'));
    let entries = entries.map(|entry| Entry { dst: field(entry, "dst"), gw: field(entry, "gw") }).collect();
    Routes::List { text: text.into(), entries }
}

/// A Deployment after whatever follows for it.
pub(crate) fn after(before: &Deployment, want: Want) -> Deployment {
    let mut after = before.clone();
    if let Some(edit) = plan(before, want, None).edit {
        carry_out(&mut after, edit);
    }
    after
}

fn carry_out(deployment: &mut Deployment, edit: Edit) {
    if let (Some(text), Some(Ok(script))) = (edit.script, &mut deployment.script) {
        script.words = script.with(&text);
    }
    for (key, text) in edit.annotations {
        match text {
            Some(text) => deployment.routes.insert(key, read(&text)),
            None => deployment.routes.remove(&key),
        };
    }
    if let Some(record) = edit.record {
        deployment.has_record = record.is_some();
        deployment.record = record;
    }
    deployment.has_copy &= !edit.drop_copy;
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns1", name).expect("a key")
}

pub(crate) fn dns(vpc: &str, active: bool) -> VpcDns {
    VpcDns { vpc: vpc.into(), active, corefile: COREFILE.into() }
}

pub(crate) fn forward(name: &str, vpc: &str) -> Forward {
    Forward {
        key: key(name),
        uid: name.into(),
        resource_version: "1".into(),
        generation: 1,
        deleting: false,
        finalizers: Vec::new(),
        abandon: false,
        vpc: Ok(vpc.into()),
        status: ForwardStatus::default(),
    }
}

/// A cluster: what is in it, and what the room knows of that.
pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) forwards: BTreeMap<ObjectKey, Forward>,
    pub(crate) dnses: BTreeMap<String, VpcDns>,
    pub(crate) deployments: BTreeMap<String, Deployment>,
    pub(crate) corefiles: BTreeMap<String, String>,
    /// What was written, in words.
    pub(crate) writes: Vec<String>,
    version: u64,
}

impl World {
    /// With a VPC `a` that has a DNS server `one`, and all that it needs.
    pub(crate) fn new() -> Self {
        let mut world = Self::bare();
        world.dns("one", Some(dns("a", true)));
        world.deployment("vpc-dns-one", Some(with_script(ROW)));
        world.corefile(COREFILE, Some(STOCK));
        world.tell(Event::KubeDns(Ok(SERVER)));
        world.tell(Event::Gateway(Ok(GATEWAY)));
        world
    }

    /// With nothing; all of it listed.
    pub(crate) fn bare() -> Self {
        let mut world = Self {
            state: State::default(),
            forwards: BTreeMap::new(),
            dnses: BTreeMap::new(),
            deployments: BTreeMap::new(),
            corefiles: BTreeMap::new(),
            writes: Vec::new(),
            version: 1,
        };
        world.list();
        world
    }

    /// Lists everything anew.
    pub(crate) fn list(&mut self) {
        self.tell(Event::Forwards(Change::Reset(self.forwards.clone())));
        self.tell(Event::VpcDnses(Change::Reset(self.dnses.clone())));
        self.tell(Event::Deployments(Change::Reset(self.deployments.clone())));
        for name in self.state.followed().into_iter().chain([COREFILE.into()]) {
            self.see_corefile(&name);
        }
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.state.apply(event);
    }

    fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(crate) fn dns(&mut self, name: &str, dns: Option<VpcDns>) {
        let change = match dns {
            Some(dns) => {
                self.dnses.insert(name.into(), dns.clone());
                Change::Put(name.to_owned(), dns)
            }
            None => {
                self.dnses.remove(name);
                Change::Gone(name.to_owned())
            }
        };
        self.tell(Event::VpcDnses(change));
    }

    pub(crate) fn deployment(&mut self, name: &str, deployment: Option<Deployment>) {
        let change = match deployment {
            Some(mut deployment) => {
                deployment.resource_version = self.next();
                self.deployments.insert(name.into(), deployment.clone());
                Change::Put(name.to_owned(), deployment)
            }
            None => {
                self.deployments.remove(name);
                Change::Gone(name.to_owned())
            }
        };
        self.tell(Event::Deployments(change));
    }

    pub(crate) fn corefile(&mut self, name: &str, text: Option<&str>) {
        match text {
            Some(text) => drop(self.corefiles.insert(name.into(), text.into())),
            None => drop(self.corefiles.remove(name)),
        }
        if name == COREFILE || self.state.followed().contains(name) {
            self.see_corefile(name);
        }
    }

    fn see_corefile(&mut self, name: &str) {
        let resource_version = self.next();
        let text = self.corefiles.get(name).cloned();
        let seen = text.map(|text| Corefile { resource_version, deleting: false, text: Some(text) });
        self.tell(Event::Corefile(name.into(), Sight::Seen(seen)));
    }

    /// Creates or changes a forward.
    pub(crate) fn put(&mut self, mut forward: Forward) {
        forward.resource_version = self.next();
        self.forwards.insert(forward.key.clone(), forward.clone());
        self.tell(Event::Forwards(Change::Put(forward.key.clone(), forward)));
    }

    pub(crate) fn change(&mut self, name: &str, change: impl FnOnce(&mut Forward)) {
        let mut forward = self.forwards.get(&key(name)).expect("it is there").clone();
        change(&mut forward);
        self.put(forward);
    }

    /// Asks for the deletion of a forward.
    pub(crate) fn delete(&mut self, name: &str) {
        self.change(name, |forward| forward.deleting = true);
        self.reap();
    }

    fn reap(&mut self) {
        let gone: Vec<ObjectKey> = self
            .forwards
            .values()
            .filter(|it| it.deleting && it.finalizers.is_empty())
            .map(|it| it.key.clone())
            .collect();
        for key in gone {
            self.forwards.remove(&key);
            self.tell(Event::Forwards(Change::Gone(key)));
        }
    }

    /// Looks at the ConfigMaps that are to be followed and forgets the others; whether that was news.
    fn follow(&mut self) -> bool {
        let followed = self.state.followed();
        let mut is_news = false;
        for name in self.corefiles.keys().cloned().chain(followed.clone()).collect::<Vec<_>>() {
            let is_seen = *self.state.corefile(&name) != Sight::Unseen;
            if followed.contains(&name) && !is_seen {
                self.see_corefile(&name);
                is_news = true;
            } else if name != COREFILE && is_seen && !followed.contains(&name) {
                self.tell(Event::Corefile(name, Sight::Unseen));
                is_news = true;
            }
        }
        is_news
    }

    /// Does what a worker does for a scope; whether it wrote anything.
    pub(crate) fn handle(&mut self, scope: &Scope) -> bool {
        match scope {
            Scope::Follow => self.follow(),
            Scope::Corefile(name) => {
                let Some(text) = self.state.corefile_plan(name).and_then(|plan| plan.text) else {
                    return false;
                };
                self.corefiles.insert(name.clone(), text);
                self.see_corefile(name);
                self.writes.push(scope.to_string());
                true
            }
            Scope::Deployment(name) => {
                let Some(edit) = self.state.deployment_plan(name).and_then(|plan| plan.edit) else {
                    return false;
                };
                let mut deployment = self.deployments[name].clone();
                carry_out(&mut deployment, edit);
                self.deployment(name, Some(deployment));
                self.writes.push(scope.to_string());
                true
            }
            Scope::Forward(key) => self.write(key),
        }
    }

    fn write(&mut self, key: &ObjectKey) -> bool {
        let Some(Task { finalizer, status }) = status::forward(&self.state, key) else { return false };
        let mut forward = self.forwards[key].clone();
        match finalizer {
            Finalizer::Add => forward.finalizers.push(FINALIZER.into()),
            Finalizer::Remove => forward.finalizers.retain(|it| it != FINALIZER),
            Finalizer::Leave => match status.filter(|status| *status != forward.status) {
                Some(status) => forward.status = status,
                None => return false,
            },
        }
        self.put(forward);
        self.reap();
        self.writes.push(format!("VpcDnsForward {key}"));
        true
    }

    /// Handles everything until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100 {
            let mut wrote = false;
            for scope in self.state.everything() {
                wrote |= self.handle(&scope);
            }
            if !wrote {
                return;
            }
        }
        panic!("it does not come to rest: {:#?}", self.writes);
    }

    /// The reason of a forward's readiness.
    pub(crate) fn reason(&self, name: &str) -> String {
        let forward = self.forwards.get(&key(name)).expect("it is there");
        let ready = forward.status.conditions.get(status::READY).expect("it says something");
        ready.reason.clone()
    }

    pub(crate) fn script(&self, name: &str) -> String {
        script(&self.deployments[name])
    }
}

/// The script of a Deployment.
pub(crate) fn script(deployment: &Deployment) -> String {
    deployment.script.as_ref().expect("a container").as_ref().expect("a script").text().to_owned()
}
