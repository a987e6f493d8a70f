//! One cluster, as people and programs see it: a client, `kubectl`, and commands in pods.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, AttachedProcess, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::sandbox::tails;

/// How long anything may take that should take a second or two.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(25);

/// A cluster of a sandbox.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// `cluster1`, `broker`, …
    pub(crate) name: String,
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    folder: PathBuf,
}

/// What a command printed, and how it ended.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Asserts that it succeeded, and gives what it printed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Asserts that it failed with these words on stderr.
    #[track_caller]
    pub(crate) fn refused(self, words: &[&str]) {
        assert_ne!(self.code, 0, "it was accepted: {self:?}");
        for part in words {
            assert!(self.err.contains(part), "expected {part:?} in: {}", self.err);
        }
    }
}

impl Cluster {
    pub(super) async fn open(folder: &Path, name: &str) -> Cluster {
        // Several tests of one process get here first; one provider is as good as another.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = folder.join(format!("{name}.kubeconfig"));
        let client = connect(&kubeconfig).await;
        Cluster { name: name.into(), client, kubeconfig, folder: folder.into() }
    }

    /// Looks until `look` gives a value; at the deadline says what was awaited, what was seen last and
    /// what the logs say.
    #[track_caller]
    pub(crate) fn until<T>(
        &self,
        what: &str,
        patience: Duration,
        look: impl AsyncFnMut() -> Result<T, String>,
    ) -> impl Future<Output = T> {
        let place = std::panic::Location::caller();
        let mut look = look;
        async move {
            let start = Instant::now();
            loop {
                match look().await {
                    Ok(value) => return value,
                    Err(seen) if start.elapsed() > patience => panic!(
                        "{place}: waited {patience:?} on {} for: {what}\nlast seen: {seen}\n{}",
                        self.name,
                        tails(&self.folder)
                    ),
                    Err(_) => tokio::time::sleep(POLL).await,
                }
            }
        }
    }

    pub(super) async fn pods_run(&self) {
        let pods: Api<Pod> = Api::all(self.client.clone());
        self.until("all four pods run", PATIENCE, async || {
            let all = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let runs = |pod: &&Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
            let running: Vec<String> = all.iter().filter(runs).map(Pod::name_any).collect();
            if running.len() == 4 { Ok(()) } else { Err(format!("{running:?}")) }
        })
        .await;
    }

    /// Runs `kubectl` with these arguments.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> Said {
        self.kubectl_with(args, "").await
    }

    /// Runs `kubectl` with text on its input.
    pub(crate) async fn kubectl_with(&self, args: &[&str], input: &str) -> Said {
        let mut command = Command::new("kubectl");
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", self.folder.join("logs"));
        run(command, args, input).await
    }

    /// `kubectl apply` of a manifest in YAML or JSON.
    pub(crate) async fn apply(&self, manifest: &str) -> Said {
        self.kubectl_with(&["apply", "-f", "-"], manifest).await
    }

    /// Runs this project's own program with this cluster's kubeconfig.
    pub(crate) async fn causeway(&self, args: &[&str]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
        command.env("KUBECONFIG", &self.kubeconfig);
        run(command, args, "").await
    }

    /// Starts a command in a pod; dropping it ends the command.
    pub(crate) async fn start(&self, namespace: &str, pod: &str, argv: &[&str]) -> AttachedProcess {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let how = AttachParams::default().stdin(true).stdout(true).stderr(true);
        pods.exec(pod, argv.to_vec(), &how).await.expect("the command starts")
    }

    /// Runs a command in a pod to its end.
    pub(crate) async fn exec(&self, namespace: &str, pod: &str, argv: &[&str]) -> Said {
        finish(self.start(namespace, pod, argv).await).await
    }

    /// Runs a script in the pod of a gateway.
    pub(crate) async fn in_gateway(&self, gateway: &str, script: &str) -> Said {
        self.exec("kube-system", &gateway_pod(gateway), &["bash", "-c", script]).await
    }

    /// Runs a script in the workload that speaks first.
    pub(crate) async fn in_client(&self, script: &str) -> Said {
        self.exec("ns1", "client", &["bash", "-c", script]).await
    }

    /// Switches faults of commands in a gateway on; an empty text switches them off.
    pub(crate) async fn fault(&self, gateway: &str, fault: &str) {
        let fault = if fault.is_empty() { Value::Null } else { json!(fault) };
        let patch = json!({"metadata": {"annotations": {"sandbox.causeway/exec": fault}}});
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "kube-system");
        let patched = pods.patch(&gateway_pod(gateway), &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("the annotation is set");
    }

    /// The kubeconfig that this cluster's controller uses: where there are rights, it has its own.
    pub(crate) fn controller_kubeconfig(&self) -> PathBuf {
        let own = self.folder.join(format!("{}.controller.kubeconfig", self.name));
        if own.exists() { own } else { self.kubeconfig.clone() }
    }

    /// A client with the rights of this cluster's controller.
    pub(crate) async fn as_the_controller(&self) -> Client {
        connect(&self.controller_kubeconfig()).await
    }

    /// Everything that this cluster's controller has logged up to now.
    pub(crate) fn log(&self) -> String {
        let file = self.folder.join("logs").join(format!("{}-controller.log", self.name));
        std::fs::read_to_string(file).unwrap_or_default()
    }
}

async fn connect(kubeconfig: &Path) -> Client {
    let config = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a usable kubeconfig")).expect("a client")
}

/// The name of a gateway's only pod.
pub(crate) fn gateway_pod(gateway: &str) -> String {
    format!("vpc-nat-gw-{gateway}-0")
}

/// Waits for a command in a pod, which gets no input any more.
pub(crate) async fn finish(mut process: AttachedProcess) -> Said {
    let status = process.take_status().expect("a status");
    drop(process.stdin());
    let (mut out, mut err) = (String::new(), String::new());
    let (mut stdout, mut stderr) = (process.stdout().expect("stdout"), process.stderr().expect("stderr"));
    let (_, _, status) =
        tokio::join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err), status);
    let status = status.expect("the command ended");
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let code = causes.filter(|cause| cause.reason.as_deref() == Some("ExitCode"));
    let code = code.filter_map(|cause| cause.message.as_ref()?.parse().ok()).next();
    let success = status.status.as_deref() == Some("Success");
    err += status.message.as_deref().unwrap_or_default();
    Said { code: if success { 0 } else { code.unwrap_or(-1) }, out, err }
}

async fn run(mut command: Command, args: &[&str], input: &str) -> Said {
    command.args(args).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("it was piped");
    let feed = async move {
        // A command that does not read its input closes it early.
        let _ = stdin.write_all(input.as_bytes()).await;
    };
    let both = async { tokio::join!(feed, child.wait_with_output()).1 };
    let ended = tokio::time::timeout(2 * PATIENCE, both).await;
    let output = ended.unwrap_or_else(|_| panic!("{args:?} did not end")).expect("its output");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}
