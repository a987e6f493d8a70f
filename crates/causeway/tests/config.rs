//! The controller's config file: what is wrong with it is one line that names the file and the place, before anything starts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Runs the controller with a file of this text; it must end by itself.
fn controller(folder: &TempDir, text: &[u8], flags: &[&str]) -> (PathBuf, Output) {
    let path = folder.path().join("controller.yaml");
    std::fs::write(&path, text).expect("written");
    let output = run(&path, flags);
    (path, output)
}

fn run(path: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
    command.arg("controller").arg("--config").arg(path).args(flags);
    command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST").env("HOME", "/nonexistent");
    command.output().expect("it runs")
}

fn refused(folder: &TempDir, text: &[u8], flags: &[&str], words: &str) {
    let (path, output) = controller(folder, text, flags);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "as for a flag that makes no sense: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with(&format!("error: --config {}: ", path.display())), "{said}");
    assert!(said.contains(words), "{words:?} in: {said}");
}

#[test]
fn each_mistake_is_one_line_that_names_the_file_and_the_place() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, words) in [
        ("clusterId: a\nworker: 1\n", "line 2: unknown key `worker`"),
        ("cluster-id: a\n", "line 1: unknown key `cluster-id`: write clusterId"),
        ("config: other.yaml\n", "line 1: unknown key `config`"),
        ("exitWithParent: true\n", "unknown key"),
        ("workers: [1]\n", "line 1: workers takes one value, and this is a list"),
        ("enable: {vpc: true}\n", "line 1: enable takes a value or a list of values, and this is a mapping"),
        ("workers:\n", "line 1: workers has no value"),
        ("workers: 0\n", "line 1: workers: `0`: 0 is not in 1..=65535"),
        ("workers: many\n", "line 1: workers: `many`: "),
        ("workers: 1\nworkers: 2\n", "line 2: duplicate"),
        ("enable: [vpc, all]\n", "line 1: enable: `all` is none of: vpc, "),
        ("restrictNamespaces: maybe\n", "line 1: restrictNamespaces: `maybe` is none of: true, false"),
        ("\n\nclusterId: Not An Id\n", "line 3: clusterId: `Not An Id`: "),
        ("globalnetCidr: 242.0.0.0/33\n", "line 1: globalnetCidr: "),
        ("egressIps: [242.0.0.1, 242.0.0.999]\n", "line 1: egressIps: `242.0.0.999`: "),
        ("leaseDuration: 2d\n", "line 1: leaseDuration: `2d`: use a time from 1s to 1h"),
        ("listen: localhost\n", "line 1: listen: `localhost`: use an address and a port"),
        ("- vpc\n", "line 1: "),
        ("clusterId: a: b\n", "line 1: "),
        ("clusterId: [\n", ""),
    ] {
        refused(&folder, text.as_bytes(), &[], words);
    }
    refused(&folder, b"clusterId: \xff\xfe\n", &[], "it is no text in UTF-8");
    refused(&folder, &vec![b'#'; 2 << 20], &[], "it is larger than");
}

#[test]
fn what_does_not_go_together_is_named_by_key_and_line_wherever_it_was_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = b"globalnetCidr: 242.0.0.0/16\negressIps: [242.1.0.1]\n";
    refused(
        &folder,
        text,
        &[],
        "242.1.0.1 of egressIps (line 2) is not within globalnetCidr (line 1) 242.0.0.0/16",
    );
    refused(
        &folder,
        b"globalnetCidr: 242.0.0.0/16\n",
        &["--egress-ips", "242.1.0.1"],
        "242.1.0.1 of --egress-ips is not within globalnetCidr (line 1)",
    );
    refused(&folder, b"rulesTlsCert: a.pem\n", &[], "--rules-tls-key");
    refused(
        &folder,
        b"enable: rules\nlisten: :10246\n",
        &[],
        "listen (line 2) and --rules-listen both listen on port 10246",
    );
    // By flags alone it is refused as flags are.
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
    command.args(["controller", "--globalnet-cidr", "242.0.0.0/16", "--egress-ips", "242.1.0.1"]);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("242.1.0.1 of --egress-ips is not within --globalnet-cidr"), "{said}");
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_reason() {
    for (path, words) in [("/nonexistent/controller.yaml", "no such file"), ("/tmp", "directory")] {
        let output = run(Path::new(path), &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(path) && said.to_lowercase().contains(words), "{said}");
    }
}

#[test]
fn a_flag_and_a_variable_win_over_the_file_which_still_has_to_make_sense() {
    let folder = tempfile::tempdir().expect("a folder");
    // Both would be refused together; the flag takes the place of what the file says.
    let text = b"globalnetCidr: 242.0.0.0/16\negressIps: [242.1.0.1]\nkubeconfig: /nonexistent\n";
    let (_, output) = controller(&folder, text, &["--egress-ips", "242.0.0.1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "it gets as far as the cluster: {said}");
    assert!(said.contains("/nonexistent"), "{said}");
    refused(&folder, b"workers: none\n", &["--workers", "3"], "line 1: workers: `none`: ");
    let (path, _) = controller(&folder, b"execTimeout: 5\nkubeconfig: /nonexistent\n", &[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
    command.args(["controller", "--config"]).arg(path).env("CAUSEWAY_EXEC_TIMEOUT", "7");
    assert_eq!(command.output().expect("it runs").status.code(), Some(1));
}

#[test]
fn the_sample_has_every_flag_and_makes_sense() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/controller.yaml");
    let text = std::fs::read_to_string(&sample).expect("the sample");
    let help = Command::new(env!("CARGO_BIN_EXE_causeway")).args(["controller", "--help"]).output();
    let help = String::from_utf8(help.expect("it runs").stdout).expect("text");
    let flags =
        help.lines().filter_map(|line| line.trim().strip_prefix("--").or(line.trim().strip_prefix("-h, --")));
    let flags: Vec<&str> = flags.filter_map(|line| line.split([' ', '[', '=']).next()).collect();
    assert!(flags.len() > 30, "{flags:?}");
    for flag in flags.iter().filter(|flag| !["config", "help", "version"].contains(flag)) {
        let mut words = flag.split('-');
        let key = words.next().unwrap_or_default().to_owned();
        let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
        let key = words.fold(key, |key, word| key + &capital(word));
        let is_there =
            text.lines().any(|line| line.trim_start_matches(['#', ' ']).starts_with(&format!("{key}:")));
        assert!(is_there, "{key} is not in the sample");
    }
    // What is commented out makes sense too.
    let folder = tempfile::tempdir().expect("a folder");
    let whole: String = text
        .lines()
        .map(|line| {
            line.strip_prefix("#").filter(|rest| !rest.starts_with(' ')).unwrap_or(line).to_owned() + "\n"
        })
        .collect();
    for text in [text, whole] {
        let (_, output) = controller(&folder, text.as_bytes(), &["--kubeconfig", "/nonexistent"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "it gets as far as the cluster: {said}");
    }
}
