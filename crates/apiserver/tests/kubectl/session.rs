//! A person at a terminal: `kubectl` with a namespace, a discovery cache and a definition of their own.
//! What a session made is deleted when the test ends, also when it fails.

use std::{panic::AssertUnwindSafe, process::Stdio, time::Duration};

use futures::FutureExt;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::cluster::Cluster;

const DEADLINE: Duration = Duration::from_secs(60);

/// Runs a test with a session of its own; a `kubectl` to run it with must be there.
pub(crate) async fn session(body: impl AsyncFnOnce(&Session)) {
    let found = Command::new("kubectl").args(["version", "--client"]).output().await;
    let found = found.is_ok_and(|output| output.status.success());
    assert!(found, "kubectl is not on the PATH; `hack/setup.sh kubectl` gets one");
    let cache = tempfile::tempdir().expect("a folder for kubectl's cache");
    let since = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
    let session = Session { ns: format!("kubectl-{since:x}"), cache };
    session.apply(&namespace(&session.ns)).await;
    let outcome = AssertUnwindSafe(body(&session)).catch_unwind().await;
    for (kind, name) in [("crd", format!("widgets.{}", session.group())), ("namespace", session.ns.clone())] {
        session.run(&["delete", kind, &name, "--wait=false", "--ignore-not-found"], "").await;
    }
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// A namespace's manifest.
pub(crate) fn namespace(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

pub(crate) struct Session {
    pub(crate) ns: String,
    cache: tempfile::TempDir,
}

/// What one command printed.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Asserts that the output has a line with these words, in this order and apart by blanks.
    #[track_caller]
    pub(crate) fn row(&self, words: &[&str]) {
        let mut rows = self.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert!(rows.any(|row| row.starts_with(words)), "no row {words:?} in:\n{}", self.out);
    }

    #[track_caller]
    pub(crate) fn says(&self, parts: &[&str]) {
        for part in parts {
            let all = format!("{}{}", self.out, self.err);
            assert!(all.contains(part), "expected {part:?} in:\n{all}");
        }
    }
}

impl Session {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.env("KUBECONFIG", &Cluster::get().kubeconfig_path).env("HOME", self.cache.path());
        command.args(["--namespace", &self.ns]).args(args).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command with text on its input.
    pub(crate) async fn run(&self, args: &[&str], input: &str) -> Said {
        let mut child = self.command(args).spawn().expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("it was piped");
        let feed = async {
            // A command that does not read its input closes it early.
            let _ = stdin.write_all(input.as_bytes()).await;
            drop(stdin);
        };
        let both = async { tokio::join!(feed, child.wait_with_output()).1.expect("its output") };
        let output = match tokio::time::timeout(DEADLINE, both).await {
            Ok(output) => output,
            Err(_) => panic!("kubectl {args:?} took longer than {DEADLINE:?}"),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said {
            ok: output.status.success(),
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Runs a command that must succeed.
    pub(crate) async fn ok(&self, args: &[&str]) -> Said {
        let said = self.run(args, "").await;
        assert!(said.ok, "kubectl {args:?}: {said:?}");
        said
    }

    /// Runs a command that must fail.
    pub(crate) async fn fails(&self, args: &[&str]) -> Said {
        let said = self.run(args, "").await;
        assert!(!said.ok, "kubectl {args:?}: {said:?}");
        said
    }

    /// Applies a manifest, which must succeed.
    pub(crate) async fn apply(&self, manifest: &str) -> Said {
        let said = self.run(&["apply", "-f", "-"], manifest).await;
        assert!(said.ok, "{said:?}\n{manifest}");
        said
    }

    /// Repeats a command until it succeeds and its output is as wanted.
    pub(crate) async fn until(&self, args: &[&str], wanted: impl Fn(&Said) -> bool) -> Said {
        let attempts = async {
            loop {
                let said = self.run(args, "").await;
                if said.ok && wanted(&said) {
                    return said;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        match tokio::time::timeout(DEADLINE, attempts).await {
            Ok(said) => said,
            Err(_) => panic!("kubectl {args:?} did not come round: {:?}", self.run(args, "").await),
        }
    }

    /// Starts a command that prints as things happen.
    pub(crate) fn follow(&self, args: &[&str]) -> Follow {
        let mut child = self.command(args).spawn().expect("kubectl starts");
        let out = child.stdout.take().expect("it was piped");
        Follow { _child: child, lines: BufReader::new(out).lines() }
    }

    /// The group of this session's definition.
    pub(crate) fn group(&self) -> String {
        format!("{}.example.com", self.ns)
    }

    /// Defines kind `Widget` and waits until it can be used; returns the full resource name.
    pub(crate) async fn define(&self) -> String {
        let group = self.group();
        self.apply(&WIDGETS.replace("GROUP", &group)).await.says(&["created"]);
        let (name, crd) = (format!("widgets.{group}"), format!("crd/widgets.{group}"));
        self.ok(&["wait", "--for=condition=Established", "--timeout=30s", &crd])
            .await
            .says(&["condition met"]);
        self.until(&["get", &name], |_| true).await;
        name
    }

    /// A manifest of a widget.
    pub(crate) fn widget(&self, name: &str, spec: &str) -> String {
        format!("apiVersion: {}/v1\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {spec}\n", self.group())
    }
}

/// A command that goes on.
pub(crate) struct Follow {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follow {
    /// Reads up to a line whose words start like this.
    pub(crate) async fn row(&mut self, words: &[&str]) {
        let mut seen = Vec::new();
        let reading = async {
            while let Some(line) = self.lines.next_line().await.expect("readable output") {
                if line.split_whitespace().collect::<Vec<_>>().starts_with(words) {
                    return;
                }
                seen.push(line);
            }
            panic!("ended before {words:?}");
        };
        let found = tokio::time::timeout(DEADLINE, reading).await.is_ok();
        assert!(found, "no row {words:?} in {seen:#?}");
    }
}

const WIDGETS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wdg]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Peer, type: string, jsonPath: .spec.peer, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: A thing for tests.
        properties:
          spec:
            type: object
            description: What the widget should be.
            properties:
              size: {type: integer, minimum: 1, description: How large it is.}
              peer: {type: string, default: nobody, description: The other end.}
          status:
            type: object
            properties:
              conditions:
                type: array
                items:
                  type: object
                  properties:
                    type: {type: string}
                    status: {type: string}
                    reason: {type: string}
                    message: {type: string}
"#;
