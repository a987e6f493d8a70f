//! OVN's two databases and its `ovn-northd`, in a folder and on sockets of their own. Nothing of OVN's that this machine may
//! run besides is asked or changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tempfile::TempDir;
use tokio::process::{Child, Command};

const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);
const SCHEMAS: &str = "/usr/share/ovn";

/// A running OVN without any chassis. Its processes end with it.
pub(crate) struct Ovn {
    processes: Vec<Child>,
    folder: TempDir,
}

/// A row of the northbound database by its table and uuid, with all that it says.
pub(crate) type Rows = BTreeMap<(String, String), String>;

impl Ovn {
    pub(crate) async fn start() -> Ovn {
        let folder = tempfile::Builder::new().prefix("causeway-ovn-").tempdir().expect("a folder");
        let mut ovn = Ovn { processes: Vec::new(), folder };
        for name in ["nb", "sb"] {
            let file = ovn.path(&format!("{name}.db"));
            let schema = format!("{SCHEMAS}/ovn-{name}.ovsschema");
            assert!(Path::new(&schema).exists(), "there is no {schema}: `hack/setup.sh ovn` installs it");
            ovn.run("ovsdb-tool", &["create", &text(&file), &schema]).await;
            let remote = format!("--remote=p{}", ovn.socket(name));
            ovn.daemon("ovsdb-server", name, &[&text(&file), &remote]);
        }
        for name in ["nb", "sb"] {
            ovn.listens(name).await;
        }
        let databases =
            [format!("--ovnnb-db={}", ovn.socket("nb")), format!("--ovnsb-db={}", ovn.socket("sb"))];
        ovn.daemon("ovn-northd", "northd", &[&databases[0], &databases[1]]);
        // Waits until ovn-northd has seen the database as it is.
        ovn.nbctl(&["--wait=sb", "sync"]).await;
        ovn
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self, database: &str) -> String {
        format!("unix:{}", text(&self.path(&format!("{database}.sock"))))
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).kill_on_drop(true);
        command.env("OVN_RUNDIR", self.folder.path()).env("OVS_RUNDIR", self.folder.path());
        command
    }

    fn daemon(&mut self, program: &str, name: &str, args: &[&str]) {
        let control = format!("--unixctl={}", text(&self.path(&format!("{name}.ctl"))));
        let mut command = self.command(program, args);
        command.args([control.as_str(), "-vconsole:off"]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}; see `make ovn`"));
        self.processes.push(child);
    }

    async fn listens(&self, database: &str) {
        let (socket, start) = (self.path(&format!("{database}.sock")), Instant::now());
        while !socket.exists() {
            assert!(start.elapsed() < PATIENCE, "{} does not come", socket.display());
            tokio::time::sleep(POLL).await;
        }
    }

    async fn run(&self, program: &str, args: &[&str]) -> String {
        let ended = tokio::time::timeout(PATIENCE, self.command(program, args).output()).await;
        let output = ended.unwrap_or_else(|_| panic!("{program} {args:?} does not end"));
        let output = output.unwrap_or_else(|error| panic!("{program}: {error}; see `make ovn`"));
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{program} {args:?}: {}", said(&output.stderr));
        said(&output.stdout)
    }

    /// Runs `ovn-nbctl`, which must succeed.
    pub(crate) async fn nbctl(&self, args: &[&str]) -> String {
        let database = format!("--db={}", self.socket("nb"));
        self.run("ovn-nbctl", &[&[database.as_str()], args].concat()).await
    }

    /// Every row of the northbound database, but for the one that counts how often somebody waited. A router's list of its
    /// routes says nothing that the routes do not.
    pub(crate) async fn rows(&self) -> Rows {
        let socket = self.socket("nb");
        let dump = self.run("ovsdb-client", &["-f", "json", "dump", &socket, "OVN_Northbound"]).await;
        let tables = serde_json::Deserializer::from_str(&dump).into_iter::<Value>();
        let tables: Vec<Value> = tables.map(|table| table.expect("a table")).collect();
        tables.iter().filter(|table| table["caption"] != "NB_Global table").flat_map(rows_of).collect()
    }

    /// What `ovn-northd` made of it: all logical flows.
    pub(crate) async fn flows(&self) -> BTreeSet<String> {
        self.nbctl(&["--wait=sb", "sync"]).await;
        let database = format!("--db={}", self.socket("sb"));
        let flows = self.run("ovn-sbctl", &[&database, "dump-flows"]).await;
        flows.lines().map(|line| line.trim().to_owned()).filter(|line| line.starts_with("table=")).collect()
    }

    /// Ends its processes and sees that they are gone.
    pub(crate) async fn end(mut self) {
        for process in &mut self.processes {
            assert_eq!(process.try_wait().expect("its state"), None, "it ran until now");
            process.kill().await.expect("it ends");
        }
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path in text").to_owned()
}

fn rows_of(table: &Value) -> Vec<((String, String), String)> {
    let name = table["caption"].as_str().expect("its name").trim_end_matches(" table").to_owned();
    let headings: Vec<&str> =
        table["headings"].as_array().expect("headings").iter().filter_map(Value::as_str).collect();
    let row = |cells: &Value| {
        let cells = cells.as_array().expect("cells");
        let mut row: Map<String, Value> =
            headings.iter().map(|it| (*it).to_owned()).zip(cells.iter().cloned()).collect();
        let uuid = row.remove("_uuid").expect("an id").to_string();
        row.remove("static_routes");
        ((name.clone(), uuid), Value::Object(row).to_string())
    };
    table["data"].as_array().expect("rows").iter().map(row).collect()
}
