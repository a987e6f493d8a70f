//! What is gathered of one cluster, file by file.

use std::io::{self, Write};
use std::time::Duration;

use causeway_api::dns::LooseForward;
use causeway_api::networks::LooseNetwork;
use causeway_api::rules::resource;
use causeway_api::vpc::foreign::{kube_ovn, submariner};
use causeway_api::vpc::parse::{GATEWAY_CONTAINER, GATEWAY_LABEL};
use causeway_api::vpc::{GatewayExIp, LooseTunnel};
use causeway_controller::vpc::exec::PodExec;
use causeway_core::ObjectKey;
use causeway_core::rules::Kind;
use causeway_datapath::Run;
use http::Request;
use kube::Resource;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::archive::{Archive, file_name};
use super::scrub;
use crate::clusters::{Cluster, Listed, Trouble, is_nobody_there, list};

/// What a gateway is asked for.
const LISTING: &str = include_str!("gateway.sh");
/// How much of a log is kept of its last 20,000 lines.
const LOG: usize = 10_000_000;
/// Where the controller serves its metrics.
const METRICS_PORT: u16 = 8080;

/// A cluster whose things are gathered.
pub(super) struct Collector<'a, W: Write> {
    pub(super) archive: &'a mut Archive<W>,
    pub(super) cluster: Cluster,
    /// The longest that one request or command may take.
    pub(super) limit: Duration,
    /// Its folder in the archive.
    pub(super) folder: String,
    /// Where the controller runs.
    pub(super) namespace: &'a str,
    /// What could not be had, and why.
    pub(super) missed: &'a mut Vec<String>,
}

/// Why something could not be had.
enum Unhad {
    /// That alone.
    This(String),
    /// Nobody is there to answer, so that nothing else can be had either.
    Anything(Trouble),
}

impl Unhad {
    /// Said of one thing, whose silence need not be the server's.
    fn of_this(self) -> Self {
        match self {
            Self::This(why) => Self::This(why),
            Self::Anything(trouble) => Self::This(trouble.to_string()),
        }
    }
}

/// What ends the gathering of a cluster.
enum End {
    NobodyThere(Trouble),
    Unwritten(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Unwritten(error)
    }
}

/// A kind to list: its file, its path, and which of its objects.
type Wanted = (&'static str, String, ListParams);

impl<W: Write> Collector<'_, W> {
    /// Everything, up to the first request that nobody is there to answer: each of the others would wait as long. Says why
    /// it was given up, if so.
    pub(super) async fn collect(&mut self) -> io::Result<Option<Trouble>> {
        writeln!(io::stderr(), "{}: asking {}", self.folder, self.cluster.server)?;
        match self.everything().await {
            Ok(()) => Ok(None),
            Err(End::Unwritten(error)) => Err(error),
            Err(End::NobodyThere(trouble)) => {
                self.missed.push(scrub::text(&format!("{}: given up: {trouble}", self.folder)));
                writeln!(io::stderr(), "{}: given up, nobody answers there", self.folder)?;
                Ok(Some(trouble))
            }
        }
    }

    async fn everything(&mut self) -> Result<(), End> {
        self.version().await?;
        for (file, path, params) in self.wanted() {
            let objects = self.list(file, &path, params).await?;
            for pod in objects.iter().filter(|_| file == "gateway-pods").filter_map(key) {
                self.gateway(&pod).await?;
            }
            for pod in objects.iter().filter(|_| file == "controller-pods").filter_map(key) {
                self.controller(&pod).await?;
            }
            if file == "controller-pods" && objects.is_empty() {
                let why = format!(
                    "no pod runs in namespace {}; --controller-namespace names another",
                    self.namespace
                );
                self.missed.push(format!("{}: logs and metrics: {why}", self.folder));
            }
        }
        Ok(())
    }

    /// Never Secrets, whatever their names.
    fn wanted(&self) -> Vec<Wanted> {
        let all = ListParams::default;
        let gateways = || all().labels(GATEWAY_LABEL);
        let ours = format!("/namespaces/{}", self.namespace);
        let named = |name: &str| all().fields(&format!("metadata.name={name}"));
        let about = |kind: &str| all().fields(&format!("involvedObject.kind={kind}"));
        let mut wanted = vec![
            ("vpcnattunnels", LooseTunnel::url_path(&(), None), all()),
            ("gatewayexips", GatewayExIp::url_path(&(), None), all()),
            ("vpcdnsforwards", LooseForward::url_path(&(), None), all()),
            ("networks", LooseNetwork::url_path(&(), None), all()),
            ("vpcs", kube_ovn::Vpc::url_path(&(), None), all()),
            ("subnets", kube_ovn::Subnet::url_path(&(), None), all()),
            ("vpc-nat-gateways", kube_ovn::VpcNatGateway::url_path(&(), None), all()),
            ("vpc-dnses", kube_ovn::VpcDns::url_path(&(), None), all()),
            ("iptables-eips", kube_ovn::IptablesEIP::url_path(&(), None), all()),
            ("submariner-clusters", submariner::Cluster::url_path(&(), None), all()),
            ("clusterglobalegressips", submariner::ClusterGlobalEgressIP::url_path(&(), None), all()),
            ("servicediscoveries", submariner::ServiceDiscovery::url_path(&(), None), all()),
            ("gateway-statefulsets", "/apis/apps/v1/statefulsets".into(), gateways()),
            ("gateway-deployments", "/apis/apps/v1/deployments".into(), gateways()),
            ("gateway-pods", "/api/v1/pods".into(), gateways()),
            (
                "gateway-config",
                "/api/v1/namespaces/kube-system/configmaps".into(),
                named("ovn-vpc-nat-config"),
            ),
            (
                "vpc-dns-corefile",
                "/api/v1/namespaces/kube-system/configmaps".into(),
                named("vpc-dns-corefile"),
            ),
            ("controller-deployments", format!("/apis/apps/v1{ours}/deployments"), all()),
            ("controller-pods", format!("/api/v1{ours}/pods"), all()),
            ("controller-events", format!("/api/v1{ours}/events"), all()),
            ("leases", "/apis/coordination.k8s.io/v1/leases".into(), named("causeway-controller")),
            ("nodes", "/api/v1/nodes".into(), all()),
            ("tunnel-events", "/api/v1/events".into(), about("VpcNatTunnel")),
            ("forward-events", "/api/v1/events".into(), about("VpcDnsForward")),
            ("network-events", "/api/v1/events".into(), about("Network")),
        ];
        for kind in Kind::ALL {
            let resource = resource(kind);
            let path = format!("/apis/{}/{}", resource.api_version, resource.plural);
            wanted.push((kind.plural(), path, all()));
        }
        wanted
    }

    async fn version(&mut self) -> Result<(), End> {
        let server = self.get("/version").await;
        let server = server.and_then(|text| {
            serde_json::from_str::<Value>(&text).map_err(|error| Unhad::This(error.to_string()))
        });
        let server = self.or_note("the server's version", server)?.unwrap_or_default();
        let versions = json!({ "causeway": env!("CARGO_PKG_VERSION"), "server": server });
        Ok(self.add("versions.json", &format!("{versions:#}\n"))?)
    }

    /// The objects of a kind, in a file of their own; gives them as they are.
    async fn list(&mut self, file: &str, path: &str, params: ListParams) -> Result<Vec<Value>, End> {
        let listed = match self.in_time(list(&self.cluster.client, path, params)).await {
            Ok(Listed::Objects(objects)) => Ok(objects),
            // A kind that is not installed is no loss.
            Ok(Listed::Missing) => return Ok(Vec::new()),
            Ok(Listed::Forbidden(why)) => Err(Unhad::This(why)),
            Err(unhad) => Err(unhad),
        };
        let Some(objects) = self.or_note(file, listed)? else { return Ok(Vec::new()) };
        let mut scrubbed = objects.clone();
        scrubbed.iter_mut().for_each(scrub::object);
        let text = serde_json::to_string_pretty(&scrubbed).map_err(io::Error::other)?;
        self.add(&format!("objects/{file}.json"), &(text + "\n"))?;
        writeln!(io::stderr(), "{}: {} {file}", self.folder, objects.len())?;
        Ok(objects)
    }

    async fn gateway(&mut self, pod: &ObjectKey) -> Result<(), End> {
        let exec = PodExec::of(&self.cluster.client, pod, Some(GATEWAY_CONTAINER), self.limit);
        let said = exec.run(&["bash", "-c", LISTING, "causeway-gather"], b"").await;
        let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let said = said.map_err(|error| Unhad::This(error.to_string()));
        let Some(said) = self.or_note(&format!("what gateway {pod} holds"), said)? else { return Ok(()) };
        writeln!(io::stderr(), "{}: gateway {pod}", self.folder)?;
        Ok(self.add(&format!("gateways/{}.txt", file_name(pod.name())), &scrub::text(&said))?)
    }

    async fn controller(&mut self, pod: &ObjectKey) -> Result<(), End> {
        let (namespace, name) = (pod.namespace(), pod.name());
        let at = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        for (file, path) in [
            (format!("logs/{}.log", file_name(name)), format!("{at}/log?limitBytes={LOG}&tailLines=20000")),
            (
                format!("logs/{}.previous.log", file_name(name)),
                format!("{at}/log?previous=true&limitBytes={LOG}&tailLines=20000"),
            ),
            (
                format!("metrics/{}.txt", file_name(name)),
                format!("/api/v1/namespaces/{namespace}/pods/{name}:{METRICS_PORT}/proxy/metrics"),
            ),
        ] {
            // What is asked for there comes from the node or the pod.
            let text = self.get(&path).await.map_err(Unhad::of_this);
            // Who never restarted has no log of before.
            if let (true, Err(_)) = (file.ends_with(".previous.log"), &text) {
                continue;
            }
            if let Some(text) = self.or_note(&format!("{file} of pod {pod}"), text)? {
                writeln!(io::stderr(), "{}: {file}", self.folder)?;
                self.add(&file, &scrub::text(&text))?;
            }
        }
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<String, Unhad> {
        let request = Request::get(path).body(Vec::new()).map_err(|error| Unhad::This(error.to_string()))?;
        self.in_time(self.cluster.client.request_text(request)).await
    }

    async fn in_time<T>(&self, answer: impl Future<Output = kube::Result<T>>) -> Result<T, Unhad> {
        let server = &self.cluster.server;
        match timeout(self.limit, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) if is_nobody_there(&error) => {
                Err(Unhad::Anything(Trouble::of_server(&error, server)))
            }
            Ok(Err(error)) => Err(Unhad::This(Trouble::of_server(&error, server).to_string())),
            Err(_) => Err(Unhad::Anything(Trouble::of_silence(server, self.limit))),
        }
    }

    fn or_note<T>(&mut self, what: &str, had: Result<T, Unhad>) -> Result<Option<T>, End> {
        match had {
            Ok(had) => Ok(Some(had)),
            Err(Unhad::Anything(trouble)) => Err(End::NobodyThere(trouble)),
            Err(Unhad::This(why)) => {
                self.missed.push(scrub::text(&format!("{}: {what}: {why}", self.folder)));
                Ok(None)
            }
        }
    }

    fn add(&mut self, file: &str, text: &str) -> io::Result<()> {
        self.archive.add(&format!("{}/{file}", self.folder), text.as_bytes())
    }
}

fn key(object: &Value) -> Option<ObjectKey> {
    let meta = &object["metadata"];
    ObjectKey::new(meta["namespace"].as_str()?, meta["name"].as_str()?).ok()
}
