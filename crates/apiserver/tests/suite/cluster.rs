//! Which cluster the tests talk to: the one of `$KUBECONFIG`, or a server of ours started once per
//! test process, on a thread and runtime of its own so that it outlives every test's runtime.
//! Everything after this file sees only a kubeconfig.

use std::{
    io::Write,
    path::PathBuf,
    sync::{OnceLock, mpsc},
};

use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use crate::ours;

/// A cluster to test, as a client would get it.
pub(crate) struct Cluster {
    /// How to reach it.
    pub(crate) kubeconfig: Kubeconfig,
    /// The same as a value for the environment variable `KUBECONFIG`.
    #[allow(dead_code, reason = "for those who start other programs")]
    pub(crate) kubeconfig_path: PathBuf,
    /// Whether it is our own server.
    pub(crate) ours: bool,
}

impl Cluster {
    /// The cluster of this test run.
    pub(crate) fn get() -> &'static Cluster {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(|| match Kubeconfig::from_env().expect("KUBECONFIG is readable") {
            Some(kubeconfig) => Cluster {
                kubeconfig,
                kubeconfig_path: std::env::var_os("KUBECONFIG").expect("it was just read").into(),
                ours: false,
            },
            None => start_ours(),
        })
    }

    /// Client configuration for this cluster.
    pub(crate) async fn config(&self) -> Config {
        config_of(self.kubeconfig.clone()).await
    }
}

/// Client configuration from a kubeconfig's current context.
pub(crate) async fn config_of(kubeconfig: Kubeconfig) -> Config {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.expect("the kubeconfig is usable");
    // kube-apiserver 1.37 compresses a streamed list flush by flush, one gzip member each; the client's
    // decompression stops at the first.
    config.disable_compression = true;
    config
}

/// Says something past the test runner's capture: a test that did not apply must not look as if it
/// had proved something.
pub(crate) fn say(text: &str) {
    let line = format!("{text}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("stderr is open");
}

fn start_ours() -> Cluster {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime for the server");
        runtime.block_on(async {
            let server = ours::start(ours::HISTORY).await;
            sender.send(server.kubeconfig()).expect("the first test waits for this");
            std::future::pending::<()>().await;
        });
    });
    let text = receiver.recv().expect("the server starts");
    let kubeconfig_path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kubeconfig-{}", std::process::id()));
    std::fs::write(&kubeconfig_path, &text).expect("the kubeconfig can be written");
    Cluster {
        kubeconfig: Kubeconfig::from_yaml(&text).expect("our kubeconfig parses"),
        kubeconfig_path,
        ours: true,
    }
}
