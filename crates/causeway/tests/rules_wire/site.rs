//! A cluster with the six kinds of rules, and its controllers as processes.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use causeway_api::rules::resource;
use causeway_apiserver::{Config, Server};
use causeway_core::rules::Kind;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take that should take a second or two.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Waits until something is there; says at the deadline what was seen last.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(start.elapsed() < PATIENCE, "waited for: {what}\nlast seen: {seen}"),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The root of this project.
pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A cluster.
pub(crate) struct Site {
    folder: TempDir,
    server: Server,
    client: Client,
}

impl Site {
    pub(crate) async fn set_up() -> Self {
        // Several tests of one process get here first; one provider is as good as another.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::Builder::new().prefix("causeway-rules-").tempdir().expect("a folder");
        let server = Server::start(Config::default()).await.expect("an API server");
        let config = Kubeconfig::from_yaml(&server.kubeconfig()).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.expect("a usable kubeconfig")).expect("a client");
        let site = Self { folder, server, client };
        site.define().await;
        site
    }

    async fn define(&self) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for crd in causeway_api::rules::crds() {
            crds.create(&PostParams::default(), &crd).await.expect("a definition");
        }
        for kind in Kind::ALL {
            until("the kind is served", async || {
                self.api(kind).list(&Default::default()).await.map(drop).map_err(|error| error.to_string())
            })
            .await;
        }
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "default", &resource(kind))
    }

    /// Creates a rule of the app `foo`.
    pub(crate) async fn create(&self, kind: Kind, name: &str, spec: Value) {
        let resource = resource(kind);
        let object = json!({ "apiVersion": resource.api_version, "kind": resource.kind,
                             "metadata": { "name": name, "labels": { "app": "foo" } }, "spec": spec });
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        self.api(kind).create(&PostParams::default(), &object).await.expect("it is created");
    }

    /// Creates a rate limit, which is the simplest rule.
    pub(crate) async fn limit(&self, name: &str, threshold: u32) {
        let spec = json!({ "metricType": "RequestAmount", "limitMode": "Local", "threshold": threshold,
                           "statDurationSeconds": 1 });
        self.create(Kind::RateLimitStrategy, name, spec).await;
    }

    pub(crate) async fn patch(&self, kind: Kind, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.api(kind).patch(name, &PatchParams::default(), &patch).await.expect("it is patched");
    }

    pub(crate) async fn set_threshold(&self, name: &str, threshold: u32) {
        self.patch(Kind::RateLimitStrategy, name, json!({ "threshold": threshold })).await;
    }

    pub(crate) async fn delete(&self, kind: Kind, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.expect("it is deleted");
    }

    /// Writes something that is no rule: a list that is made afterwards has a higher version.
    pub(crate) async fn raise_versions(&self, name: &str) {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let map: ConfigMap =
            serde_json::from_value(json!({ "metadata": { "name": name } })).expect("a ConfigMap");
        maps.create(&PostParams::default(), &map).await.expect("it is created");
    }

    /// Waits until a rule says how many run it, refused it and have not answered; gives its status.
    pub(crate) async fn says(&self, kind: Kind, name: &str, counts: [u32; 3]) -> Value {
        until(&format!("{kind} {name} says acked, failed, pending: {counts:?}"), async || {
            let object = self.api(kind).get(name).await.map_err(|error| error.to_string())?;
            let status = object.data["status"].clone();
            let said = ["acked", "failed", "pending"].map(|count| status[count].as_u64().unwrap_or_default());
            if said == counts.map(u64::from) { Ok(status) } else { Err(status.to_string()) }
        })
        .await
    }

    /// Starts a replica that listens where it is told, and waits until data planes can connect.
    pub(crate) async fn replica(&self, name: &str, listen: SocketAddr) -> Replica {
        let kubeconfig = self.folder.path().join(format!("{name}.kubeconfig"));
        std::fs::write(&kubeconfig, self.server.kubeconfig_as(name)).expect("a kubeconfig is written");
        let log = self.folder.path().join(format!("{name}.log"));
        let mut replica = Replica { name: name.into(), kubeconfig, log, listen, child: None };
        replica.start().await;
        replica
    }

    /// The same on any port.
    pub(crate) async fn replica_anywhere(&self, name: &str) -> Replica {
        self.replica(name, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }
}

/// A controller. Dropping it kills it.
pub(crate) struct Replica {
    name: String,
    kubeconfig: PathBuf,
    log: PathBuf,
    listen: SocketAddr,
    child: Option<Child>,
}

impl Replica {
    /// Starts it, also again after its end, on the port that it had.
    pub(crate) async fn start(&mut self) {
        assert!(self.child.is_none(), "{} runs", self.name);
        let log = OpenOptions::new().create(true).append(true).open(&self.log).expect("a log");
        let begins = usize::try_from(log.metadata().expect("its length").len()).expect("a length");
        let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
        command.args(["controller", "--enable", "rules", "--exit-with-parent", "--kubeconfig"]);
        command.arg(&self.kubeconfig).args(["--identity", &self.name]);
        command.args(["--listen", "127.0.0.1:0", "--rules-clients-listen", "127.0.0.1:0"]);
        command.args(["--rules-listen", &self.listen.to_string()]);
        command.args(["--lease-namespace", "default", "--lease-duration", "2s"]);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log);
        let mut child = command.spawn().expect("the controller starts");
        self.listen = until(&format!("{} serves", self.name), async || {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let ended = child.try_wait().expect("its state");
            assert!(ended.is_none(), "{} ended: {ended:?}\n{text}", self.name);
            listening(&text[begins..]).ok_or(text)
        })
        .await;
        self.child = Some(child);
    }

    /// Where data planes find it.
    pub(crate) fn address(&self) -> String {
        self.listen.to_string()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().expect("it runs").id();
        kill(Pid::from_raw(pid.cast_signed()), signal).expect("it runs");
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it runs");
        until(&format!("{} ends", self.name), async || {
            child.try_wait().expect("its state").ok_or_else(|| "it runs".to_owned())
        })
        .await
    }

    /// Ends it by a signal.
    pub(crate) async fn end(&mut self, signal: Signal) {
        self.signal(signal);
        self.ended().await;
    }
}

/// Where it listens, by its log.
fn listening(log: &str) -> Option<SocketAddr> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut open = lines.filter(|line| line["message"] == "data planes may connect");
    open.find_map(|line| line["address"].as_str()?.parse().ok())
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
