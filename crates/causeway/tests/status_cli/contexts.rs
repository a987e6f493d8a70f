//! Which clusters are meant.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::site::{Site, condition, finish, tunnel};

fn listed(paths: &[&Path]) -> OsString {
    std::env::join_paths(paths).expect("a list")
}

fn listed_with_comma(paths: &[&Path]) -> OsString {
    paths.iter().map(|path| path.as_os_str()).collect::<Vec<_>>().join(OsStr::new(","))
}

/// Two clusters, each with a tunnel of its name.
async fn two() -> (Site, Site) {
    let (east, west) = (Site::with_tunnels("east").await, Site::with_tunnels("west").await);
    east.put("ns1", tunnel("of-east")).await;
    west.put("ns1", tunnel("of-west")).await;
    (east, west)
}

#[tokio::test]
async fn files_of_the_variable_are_merged_as_kubectl_merges_them() {
    let (east, west) = two().await;
    let missing = east.folder().join("missing");
    let both = listed(&[&missing, &east.kubeconfig(), &west.kubeconfig()]);
    let said = east.status_with(&both, &[]).await;
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
    assert!(said.out.contains("ns1/of-east") && !said.out.contains("of-west"), "the first file's: {said:?}");
    let said = east.status_with(&both, &["--context", "west"]).await;
    assert!(said.out.contains("ns1/of-west") && !said.out.contains("CLUSTER"), "{said:?}");
    let said = east.status_with(listed(&[&west.kubeconfig(), &east.kubeconfig()]), &[]).await;
    assert!(said.out.contains("ns1/of-west"), "{said:?}");
    // A file that is named is the only one.
    let mut command = east.command(&["status", "--context", "west"]);
    command.env("KUBECONFIG", &both).arg("--kubeconfig").arg(east.kubeconfig());
    let said = finish(command).await;
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("there is no context `west` in ") && said.err.contains("there is: east"),
        "{said:?}"
    );
}

#[tokio::test]
async fn nothing_in_the_variable_is_no_variable() {
    let (east, _) = two().await;
    std::fs::create_dir(east.folder().join(".kube")).expect("a folder");
    std::fs::copy(east.kubeconfig(), east.folder().join(".kube").join("config")).expect("copied");
    for nothing in ["", ":"] {
        let said = east.status_with(nothing, &[]).await;
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{nothing:?}: {said:?}");
        assert!(said.out.contains("ns1/of-east"), "{said:?}");
    }
    // The controller and `causeway rules` go by the same; here there is no pod to be asked, and nobody to be.
    let said = finish({
        let mut command = east.command(&["rules", "clients"]);
        command.env("KUBECONFIG", "");
        command
    })
    .await;
    assert!(said.err.contains("there is no pod app=multi-vpc-controller-manager"), "{said:?}");
    let home = tempfile::tempdir().expect("a folder");
    for command in [&["controller"][..], &["rules", "clients"], &["rules", "watch", "--app", "a"]] {
        let mut started = east.command(command);
        let said = finish({
            started.env("KUBECONFIG", "").env("HOME", home.path());
            started
        })
        .await;
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains("there is no kubeconfig, and this is no pod"), "{said:?}");
    }
}

#[tokio::test]
async fn several_contexts_are_one_table_in_which_clusters_are_named() {
    let (east, west) = two().await;
    let stranger = Site::named("stranger", Vec::new()).await;
    let all = listed(&[&east.kubeconfig(), &west.kubeconfig(), &stranger.kubeconfig()]);
    for asked in [&["--context", "west,east"][..], &["--context", "west", "--context", "east"]] {
        let said = east.status_with(&all, asked).await;
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines.len(), 3, "{said:?}");
        assert!(lines[0].starts_with("CLUSTER  TUNNEL") && lines[1].starts_with("west"), "{said:?}");
        assert_eq!(said.row("east")[..3], ["east", "ns1/of-east", "yes"]);
    }
    let said = east.status_with(&all, &["--all-contexts"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.row("west")[1], "ns1/of-west");
    assert_eq!(said.err, "left out, since nothing of Causeway's is there: stranger\n");
    // Who is asked for by name should have something.
    let said = east.status_with(&all, &["--context", "east,stranger"]).await;
    assert_eq!(said.code, Some(2));
    assert!(said.err.starts_with("error: stranger: nothing of Causeway's can be seen here"), "{said:?}");
    assert_eq!(said.row("east")[1], "ns1/of-east", "the other is shown all the same");
    let said = east.status_with(&all, &["--context", "east,nowhere"]).await;
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert!(said.err.contains("there is no context `nowhere`"), "{said:?}");
}

#[tokio::test]
async fn several_kubeconfigs_are_several_clusters_each_by_its_current_context() {
    let (east, west) = two().await;
    let (one, other) = (east.kubeconfig(), west.kubeconfig());
    let as_list = listed_with_comma(&[&one, &other]);
    let run = async |files: &[&OsStr], more: &[&str]| {
        let mut command = east.command(&["status"]);
        for file in files {
            command.arg("--kubeconfig").arg(file);
        }
        finish({
            command.args(more);
            command
        })
        .await
    };
    for files in [&[one.as_os_str(), other.as_os_str()][..], &[&as_list]] {
        let said = run(files, &[]).await;
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
        assert_eq!(said.row("east")[..3], ["east", "ns1/of-east", "yes"]);
        assert_eq!(said.row("west")[..3], ["west", "ns1/of-west", "yes"]);
    }
    // Two clusters may be called alike in files of their own, and are told apart by them.
    let renamed = std::fs::read_to_string(&other).expect("a file").replace("west", "east");
    let namesake = west.write("of-west.kubeconfig", &renamed);
    let said = run(&[one.as_os_str(), namesake.as_os_str()], &[]).await;
    assert_eq!(said.row("ns1/of-east")[0], "east (config)", "{said:?}");
    assert_eq!(said.row("ns1/of-west")[0], "east (of-west.kubeconfig)", "{said:?}");
    let said = run(&[one.as_os_str(), other.as_os_str()], &["--context", "east"]).await;
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("the current context of each is used: leave --context out"), "{said:?}");
    let said = run(&[one.as_os_str(), other.as_os_str()], &["--all-contexts"]).await;
    assert_eq!((said.code, said.row("west")[1]), (Some(0), "ns1/of-west"), "{said:?}");
    let said = run(&[one.as_os_str(), OsStr::new("/nowhere")], &[]).await;
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("/nowhere: there is no such file"), "{said:?}");
    // A comma may be a part of a name.
    let odd = east.write("a,b", &std::fs::read_to_string(&one).expect("a file"));
    let said = run(&[odd.as_os_str()], &[]).await;
    assert!(said.out.contains("ns1/of-east"), "{said:?}");
}

#[tokio::test]
async fn what_should_be_known_of_a_tunnel_that_is_up_is_said() {
    let site = Site::with_tunnels("east").await;
    let conditions = [
        condition("Ready", "True", "Up", "vxlan leads to 242.1.0.0/16 through gw1"),
        condition("PeerAgrees", "False", "PeerMismatch", "this end is VXLAN 101, cluster2/gw9 says 100"),
        condition("LastKnown", "True", "PeerUnknown", "the tunnel goes on with what was last known"),
    ];
    let mut odd = tunnel("odd");
    odd["status"]["conditions"] = serde_json::json!(conditions);
    site.put("ns1", odd).await;
    let said = site.status(&[]).await;
    assert_eq!((said.code, said.row("ns1/odd")[1]), (Some(0), "yes"), "{said:?}");
    for why in
        ["PeerMismatch: this end is VXLAN 101, cluster2/gw9 says 100", "PeerUnknown: the tunnel goes on"]
    {
        assert!(said.out.contains(why), "{said:?}");
    }
    let document = site.status(&["-o", "json"]).await.document();
    assert_eq!(document["tunnels"][0]["warnings"][0]["reason"], "PeerMismatch", "{document}");
}

#[tokio::test]
async fn one_that_does_not_answer_does_not_hide_the_others() {
    let (east, west) = two().await;
    let both = listed(&[&east.kubeconfig(), &west.kubeconfig()]);
    west.server.shutdown().await;
    let said = east.status_with(&both, &["--all-contexts", "-o", "json"]).await;
    assert_eq!(said.code, Some(2), "{said:?}");
    let document = said.document();
    assert_eq!(document["tunnels"][0]["name"], "of-east");
    assert_eq!(
        (document["ready"].as_bool(), &document["errors"][0]["cluster"]),
        (Some(false), &"west".into())
    );
    assert!(said.err.starts_with("error: west: nothing listens at https://127.0.0.1:"), "{said:?}");
}

#[tokio::test]
async fn a_namespace_alone_is_shown_without_the_nodes() {
    let (east, _) = two().await;
    east.put("ns2", tunnel("other")).await;
    let annotations = serde_json::json!({ "flannel.alpha.coreos.com/kube-subnet-manager": "true" });
    let node = serde_json::json!({ "apiVersion": "v1", "kind": "Node",
                                   "metadata": { "name": "worker1", "annotations": annotations } });
    east.put("", node).await;
    let said = east.status(&["-n", "ns2"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("ns2/other") && !said.out.contains("of-east"), "{said:?}");
    assert!(!said.out.contains("worker1"), "{said:?}");
    for everywhere in [&["-A"][..], &[]] {
        let said = east.status(everywhere).await;
        assert_eq!(said.code, Some(1), "the node announces nothing: {said:?}");
        assert!(["ns2/other", "ns1/of-east", "worker1"].iter().all(|it| said.out.contains(it)), "{said:?}");
    }
    let said = east.status(&["-n", "empty"]).await;
    assert_eq!(said.out, "no tunnels in namespace empty; samples/tunnel.yaml shows how to declare one\n");
    assert_eq!(east.status(&["-n", "No Name"]).await.code, Some(2));
    assert_eq!(east.status(&["-n", "a", "-A"]).await.code, Some(2));
}
