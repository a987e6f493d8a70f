//! Whatever is wrong with the way to a cluster is said in one line, with what to do.

use std::time::Duration;

use causeway_apiserver::{Fault, Match, Switch};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use super::site::{Said, Site, tunnel};

/// One line on stderr with these words and nothing of how Rust sees it, and exit code 2.
#[track_caller]
fn assert_said(said: &Said, words: &[&str]) {
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said:?}");
    assert!(said.err.starts_with("error: ") && said.err.lines().count() == 1, "{said:?}");
    for odd in ["Status {", "Some(", "Error(", "os error", "\\\""] {
        assert!(!said.err.contains(odd), "{odd} in: {said:?}");
    }
    for part in words {
        assert!(said.err.contains(part), "{part} in: {said:?}");
    }
}

/// What is said with a kubeconfig that differs.
async fn with(site: &Site, change: impl Fn(&str) -> String) -> Said {
    let path = site.write("changed", &change(&site.server.kubeconfig()));
    site.status_with(path, &[]).await
}

/// A line of a kubeconfig with another value.
fn replaced(config: &str, field: &str, value: &str) -> String {
    let line = |line: &str| match line.split_once(&format!("{field}: ")) {
        Some((before, _)) => format!("{before}{field}: {value}\n"),
        None => format!("{line}\n"),
    };
    config.lines().map(line).collect()
}

#[tokio::test]
async fn what_a_server_answers_is_put_in_a_sentence() {
    let site = Site::with_tunnels("one").await;
    site.put("ns1", tunnel("demo")).await;
    let said = with(&site, |config| replaced(config, "token", "wrong")).await;
    let words = ["does not accept the credentials of the kubeconfig (401 Unauthorized)", "log in again"];
    assert_said(&said, &words);

    let fault = |code: u16, resource: &str| {
        let refuse = Switch::Refuse { code, percent: 100, retry_after_seconds: 0 };
        let matching = Match { resources: vec![resource.into()], ..Match::default() };
        site.server.faults().set(vec![Fault::new(refuse).on(matching)]).expect("a fault");
    };
    fault(403, "vpcnattunnels");
    let said = site.status(&[]).await;
    assert_said(
        &said,
        &["refuses that (403): vpcnattunnels", "is forbidden", "-n NAME asks for one namespace"],
    );
    let said = site.status(&["-n", "ns1"]).await;
    assert_said(&said, &["in the namespace \"ns1\""]);
    assert!(!said.err.contains("-n NAME"), "{said:?}");
    fault(503, "nodes");
    assert_said(&site.status(&[]).await, &["cannot answer at the moment (503)", "try again"]);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_named_with_the_reason() {
    let site = Site::with_tunnels("one").await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let elsewhere = async |server: &str| with(&site, |config| replaced(config, "server", server)).await;
    let said = elsewhere(&format!("https://{free}")).await;
    assert_said(
        &said,
        &[&format!("nothing listens at https://{free} (connection refused)"), "is the cluster running"],
    );
    let said = elsewhere("https://no-such-host.invalid:6443").await;
    assert_said(&said, &["there is no host no-such-host.invalid that this machine knows of"]);
    let plain = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = plain.local_addr().expect("bound");
    // It lasts as long as the process: each connection is answered, and none is cut off.
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = plain.accept() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            open.push(stream);
        }
    });
    let said = elsewhere(&format!("https://{address}")).await;
    assert_said(&said, &["does not speak TLS"]);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_trusted_is_told_from_other_trouble() {
    let (one, other) = (Site::with_tunnels("one").await, Site::with_tunnels("other").await);
    let config = other.server.kubeconfig();
    let line = config.lines().find(|line| line.contains("certificate-authority-data"));
    let authority = line.and_then(|line| line.split_once(": ")).expect("an authority").1;
    let said = with(&one, |config| replaced(config, "certificate-authority-data", authority)).await;
    assert_said(&said, &["the certificate of https://127.0.0.1:", "certificate-authority"]);
    let named = one.server.kubeconfig().replace(
        "certificate-authority-data",
        "tls-server-name: nobody.invalid\n    certificate-authority-data",
    );
    let said = with(&one, |_| named.clone()).await;
    assert_said(&said, &["is for another name", "tls-server-name"]);
    let said = with(&one, |config| replaced(config, "certificate-authority-data", "e30=")).await;
    assert_eq!(said.code, Some(2), "{said:?}");
    let lost = one
        .server
        .kubeconfig()
        .replace("certificate-authority-data: ", "certificate-authority: /no/such/ca.pem # ");
    let said = with(&one, |_| lost.clone()).await;
    assert_said(&said, &["context `one` names a certificate-authority that cannot be read: /no/such/ca.pem"]);
}

#[tokio::test]
async fn without_a_definition_the_command_that_installs_it_is_named() {
    let site = Site::named("one", Vec::new()).await;
    assert_said(
        &site.status(&[]).await,
        &["VpcNatTunnel is not installed", "causeway crds | kubectl apply -f -"],
    );
    let said = site.status(&["--all-contexts"]).await;
    assert_said(&said, &["VpcNatTunnel is not installed"]);
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_named_with_what_is_wrong() {
    let site = Site::with_tunnels("one").await;
    let folder = site.folder().display().to_string();
    let file = async |path: &str| {
        let mut command = site.command(&["status", "--kubeconfig", path]);
        command.current_dir(site.folder());
        super::site::finish(command).await
    };
    assert_said(&file("missing").await, &["cannot read missing: there is no such file"]);
    assert_said(&file(&folder).await, &[&format!("cannot read {folder}: ")]);
    site.write("odd", "clusters: 7\n");
    assert_said(&file("odd").await, &["odd is no kubeconfig: "]);
    site.write("garbled", "{ : [\n");
    assert_said(&file("garbled").await, &["garbled is no kubeconfig: "]);
    std::fs::write(site.folder().join("binary"), [0xff, 0x00, 0xfe]).expect("written");
    assert_said(&file("binary").await, &["cannot read binary: "]);
    site.write("empty", "");
    assert_said(&file("empty").await, &["no context is the current one in empty", "--context (none)"]);
    let config = site.server.kubeconfig();
    site.write("dangling", &config.replace("cluster: \"one\"", "cluster: \"two\""));
    assert_said(
        &file("dangling").await,
        &["context `one` names the cluster `two`, of which there is nothing in"],
    );
    site.write("no-current", &config.replace("current-context: \"one\"", "current-context: \"\""));
    assert_said(&file("no-current").await, &["no context is the current one", "--context (one)"]);
    let plugin = "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, \
                  args: [-c, 'echo token has expired >&2; exit 3'], interactiveMode: Never} #";
    site.write("plugin", &config.replace("token:", plugin));
    assert_said(
        &file("plugin").await,
        &["error: the kubeconfig's command for credentials failed (exit status: 3): token has expired"],
    );
    let said = site.status_with(site.folder().join("nothing"), &[]).await;
    assert_said(&said, &["none of the files in the variable KUBECONFIG exists"]);
}

#[tokio::test]
async fn rules_say_the_same_in_one_line() {
    let site = Site::with_tunnels("one").await;
    let wrong = site.write("wrong", &replaced(&site.server.kubeconfig(), "token", "wrong"));
    for command in [&["rules", "clients"][..], &["rules", "watch", "--app", "a", "--once"]] {
        let mut command = site.command(command);
        command.arg("--kubeconfig").arg(&wrong);
        let said = super::site::finish(command).await;
        assert_eq!((said.code, said.err.lines().count()), (Some(1), 1), "{said:?}");
        assert!(said.err.contains("does not accept the credentials"), "{said:?}");
        assert!(!said.err.contains("Status {"), "{said:?}");
    }
}

#[tokio::test]
async fn the_log_of_a_controller_has_a_servers_words_and_no_struct() {
    let site = Site::named("one", causeway_api::rules::crds()).await;
    let refuse = Switch::Refuse { code: 403, percent: 100, retry_after_seconds: 0 };
    let leases = Match { resources: vec!["leases".into()], ..Match::default() };
    site.server.faults().set(vec![Fault::new(refuse).on(leases)]).expect("a fault");
    let anywhere = "127.0.0.1:0";
    let mut command = site.command(&["controller", "--enable", "rules", "--listen", anywhere]);
    command.args(["--rules-listen", anywhere, "--rules-clients-listen", anywhere, "--log-format", "text"]);
    command.arg("--kubeconfig").arg(site.kubeconfig()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let warned = async {
        loop {
            let line = lines.next_line().await.expect("readable").expect("it runs");
            assert!(!line.contains("Status {"), "{line}");
            if line.contains("this replica's lease could not be renewed") {
                return line;
            }
        }
    };
    let line = timeout(Duration::from_secs(30), warned).await.expect("in time");
    assert!(line.contains("WARN") && line.contains("is forbidden: User"), "{line}");
}
