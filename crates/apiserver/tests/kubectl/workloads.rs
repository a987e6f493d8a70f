//! Built-in kinds from the command line: storage, scale, exec, namespaces.

use crate::{
    cluster::{Cluster, say},
    ours::FORBIDDEN,
    session::{Session, namespace, session},
};

fn workload(kind: &str, extra: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: w}}\nspec:\n  replicas: 0\n  {extra}\n  \
         selector: {{matchLabels: {{app: w}}}}\n  template:\n    metadata: {{labels: {{app: w}}}}\n    \
         spec: {{containers: [{{name: main, image: example.com/none}}]}}\n"
    )
}

#[tokio::test]
async fn scale_changes_the_replicas_of_a_workload() {
    session(async |k: &Session| {
        for (kind, name, extra) in
            [("StatefulSet", "sts/w", "serviceName: w"), ("Deployment", "deploy/w", "paused: false")]
        {
            k.apply(&workload(kind, extra)).await.says(&["created"]);
            k.ok(&["scale", name, "--replicas=2"]).await.says(&["scaled"]);
            k.ok(&["get", name]).await.row(&["w", "0/2"]);
            k.fails(&["scale", name, "--current-replicas=7", "--replicas=1"])
                .await
                .says(&["Expected replicas to be 7"]);
            k.ok(&["scale", name, "--replicas=0"]).await;
            k.ok(&["get", name, "-o", "jsonpath={.spec.replicas} {.metadata.generation}"])
                .await
                .says(&["0 3"]);
        }
    })
    .await;
}

const SIMPLE: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1", b: "2"}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {a: "1"}
"#;

#[tokio::test]
async fn simple_objects_are_created_listed_described_and_deleted() {
    session(async |k: &Session| {
        k.apply(SIMPLE).await.says(&["configmap/settings created", "secret/hidden created"]);
        k.apply(SIMPLE.split("---").next().unwrap()).await.says(&["configmap/settings unchanged"]);
        k.ok(&["get", "cm", "settings"]).await.row(&["settings", "2"]);
        k.ok(&["describe", "cm", "settings"]).await.says(&["Data\n====", "a:\n----\n1"]);
        k.ok(&["get", "secret", "hidden"]).await.row(&["hidden", "Opaque", "1"]);
        let again = k.run(&["create", "-f", "-"], SIMPLE).await;
        assert!(!again.ok, "{again:?}");
        again.says(&[r#"configmaps "settings" already exists"#]);
        let named = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: some-}\n";
        let said = k.run(&["create", "-f", "-"], named).await;
        assert!(said.ok && said.out.starts_with("configmap/some-"), "{said:?}");
        k.ok(&["delete", "cm", "settings"]).await.says(&[r#"configmap "settings" deleted"#]);
        k.ok(&["get", "ns", &k.ns]).await.row(&[&k.ns, "Active"]);
        k.ok(&["get", "--raw", "/readyz"]).await.says(&["ok"]);
        k.ok(&["version"]).await.says(&["Server Version: v1."]);
    })
    .await;
}

#[tokio::test]
async fn create_takes_a_noun_and_speaks_protobuf() {
    session(async |k: &Session| {
        k.ok(&["create", "configmap", "typed", "--from-literal=a=1", "--from-literal=b=2"])
            .await
            .says(&["created"]);
        k.ok(&["get", "cm", "typed", "-o", "jsonpath={.data}"]).await.says(&[r#"{"a":"1","b":"2"}"#]);
        k.ok(&["create", "secret", "generic", "hidden", "--from-literal=a=1"]).await;
        k.ok(&["get", "secret", "hidden", "-o", "jsonpath={.type} {.data.a}"]).await.says(&["Opaque MQ=="]);
        k.ok(&["create", "serviceaccount", "robot"]).await.says(&["created"]);
        k.ok(&["create", "deployment", "d", "--image=example.com/none", "--replicas=0"])
            .await
            .says(&["created"]);
        let shown = "jsonpath={.spec.template.spec.containers[0].image} {.spec.selector.matchLabels.app}";
        k.ok(&["get", "deploy", "d", "-o", shown]).await.says(&["example.com/none d"]);
        let other = format!("{}-2", k.ns);
        k.ok(&["create", "namespace", &other]).await.says(&["created"]);
        k.ok(&["delete", "namespace", &other, "--wait=false"]).await;
        k.fails(&["create", "configmap", "typed"]).await.says(&[r#"configmaps "typed" already exists"#]);
    })
    .await;
}

/// A Pod on a node of its own, running.
async fn running_pod(k: &Session, kubelet: &str) {
    let (ip, port) = kubelet.rsplit_once(':').expect("ip:port");
    let node = &k.ns;
    k.apply(&format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {node}}}\n")).await;
    let status = format!(
        r#"{{"status":{{"addresses":[{{"type":"InternalIP","address":"{ip}"}}],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":{port}}}}}}}}}"#
    );
    k.ok(&["patch", "node", node, "--subresource=status", "--type=merge", "-p", &status]).await;
    k.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  nodeName: {node}\n  \
         terminationGracePeriodSeconds: 0\n  automountServiceAccountToken: false\n  containers:\n  \
         - {{name: main, image: example.com/none}}\n"
    ))
    .await;
    let status = r#"{"status":{"phase":"Running","podIP":"10.9.8.7","containerStatuses":[{"name":"main","ready":true,"restartCount":0,"image":"i","imageID":"i","state":{"running":{}}}]}}"#;
    k.ok(&["patch", "pod", "p", "--subresource=status", "--type=merge", "-p", status]).await;
}

#[tokio::test]
async fn pods_are_listed_as_people_know_them() {
    session(async |k: &Session| {
        running_pod(k, "127.0.0.1:10250").await;
        let said = k.ok(&["get", "pods"]).await;
        said.row(&["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
        said.row(&["p", "1/1", "Running", "0"]);
        let said = k.ok(&["get", "pods", "-o", "wide"]).await;
        said.says(&["10.9.8.7", &k.ns]);
        k.ok(&["describe", "pod", "p"]).await.says(&["Name:", "Status:", "Running", "10.9.8.7"]);
        k.ok(&["delete", "pod", "p"]).await.says(&[r#"pod "p" deleted"#]);
        k.ok(&["delete", "node", &k.ns]).await;
    })
    .await;
}

#[tokio::test]
async fn exec_runs_a_command_with_input_and_passes_its_exit_code() {
    let kubelet = std::env::var("API_SUITE_KUBELET").ok();
    if !Cluster::get().ours && kubelet.is_none() {
        return say("not applicable to this server: kubectl exec: no kubelet, see API_SUITE_KUBELET");
    }
    session(async |k: &Session| {
        running_pod(k, kubelet.as_deref().unwrap_or("127.0.0.1:10250")).await;
        let said = k.ok(&["exec", "p", "--", "sh", "-c", "echo out; echo err >&2"]).await;
        assert_eq!(said.out, "out\n");
        // A hurried kubectl may log a frame that came before it listened ("Unknown stream id").
        assert!(said.err.ends_with("err\n"), "{said:?}");
        let said = k.run(&["exec", "-i", "p", "--", "cat"], "through and back").await;
        assert_eq!((said.ok, said.out.as_str()), (true, "through and back"), "{said:?}");
        let said = k.fails(&["exec", "p", "--", "sh", "-c", "exit 7"]).await;
        assert_eq!(said.code, Some(7));
        said.says(&["command terminated with exit code 7"]);
        k.fails(&["exec", "p", "-c", "other", "--", "id"])
            .await
            .says(&["container other is not valid for pod p"]);
        k.fails(&["exec", "none", "--", "id"]).await.says(&[r#"pods "none" not found"#]);
        k.ok(&["delete", "pod/p", &format!("node/{}", k.ns)]).await;
    })
    .await;
}

#[tokio::test]
async fn exec_shows_why_a_command_is_refused() {
    if !Cluster::get().ours {
        return say("not applicable to this server: kubectl exec: it has no command that is refused");
    }
    session(async |k: &Session| {
        running_pod(k, "127.0.0.1:10250").await;
        // Newer versions of kubectl (1.37, not 1.32) show the sentence and not the reason before it.
        k.fails(&["exec", "p", "--", FORBIDDEN]).await.says(&["this command is not for you"]);
        k.ok(&["delete", "pod/p", &format!("node/{}", k.ns)]).await;
    })
    .await;
}

#[tokio::test]
async fn a_deleted_namespace_is_gone_with_its_contents() {
    session(async |k: &Session| {
        let name = format!("{}-2", k.ns);
        let inside =
            format!("kind: ConfigMap\napiVersion: v1\nmetadata: {{name: inside, namespace: {name}}}\n");
        k.apply(&namespace(&name)).await;
        let said = k.run(&["-n", &name, "apply", "-f", "-"], &inside).await;
        assert!(said.ok, "{said:?}");
        k.ok(&["delete", "namespace", &name, "--timeout=50s"]).await.says(&["deleted"]);
        k.fails(&["get", "namespace", &name]).await.says(&["NotFound"]);
        k.fails(&["-n", &name, "get", "configmap", "inside"]).await.says(&["NotFound"]);
    })
    .await;
}

#[tokio::test]
async fn a_stranger_is_turned_away() {
    session(async |k: &Session| {
        let said = k.fails(&["--token=wrong", "get", "configmaps"]).await;
        said.says(&["You must be logged in to the server"]);
    })
    .await;
}

#[tokio::test]
async fn faults_and_the_audit_are_switched_with_raw_requests() {
    if !Cluster::get().ours {
        return say("not applicable to this server: it has no faults to switch on");
    }
    session(async |k: &Session| {
        let fault = r#"{"switch":{"delay":{"ms":1}},"match":{"user":"nobody"}}"#;
        let said = k.run(&["create", "--raw", "/faults", "-f", "-"], fault).await;
        assert!(said.ok, "{said:?}");
        k.ok(&["get", "--raw", "/faults"]).await.says(&["delay", "nobody"]);
        let said = k.run(&["create", "--raw", "/faults", "-f", "-"], r#"{"switch":"melt"}"#).await;
        assert!(!said.ok, "{said:?}");
        said.says(&["melt"]);
        k.ok(&["delete", "--raw", "/faults"]).await;
        assert_eq!(k.ok(&["get", "--raw", "/faults"]).await.out.trim(), "[]");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit");
        let to = format!(r#"{{"file":{file:?}}}"#);
        assert!(k.run(&["create", "--raw", "/audit", "-f", "-"], &to).await.ok);
        k.ok(&["create", "configmap", "audited"]).await;
        k.ok(&["delete", "--raw", "/audit"]).await;
        let text = std::fs::read_to_string(&file).expect("the audit");
        let line = text.lines().find(|line| line.contains("audited")).expect("a line about the map");
        for part in [r#""verb":"create""#, r#""fieldManager":"kubectl-create""#, "kubectl/", r#""code":201"#]
        {
            assert!(line.contains(part), "{part} in {line}");
        }
    })
    .await;
}

/// The words of a template in its Deployment.
const TEMPLATE: &str =
    "jsonpath={.spec.template.spec.containers[*].image} {.spec.template.spec.containers[0].env[*].name}";

#[tokio::test]
async fn a_workload_is_applied_again_and_changed_by_set_and_rollout() {
    session(async |k: &Session| {
        let manifest = workload("Deployment", "minReadySeconds: 3");
        k.apply(&manifest).await.says(&["created"]);
        k.apply(&manifest).await.says(&["unchanged"]);
        let second = manifest.replace(
            "containers: [{name: main, image: example.com/none}]",
            "containers: [{name: main, image: 'example.com/none:2'}, {name: side, image: example.com/side}]",
        );
        assert_ne!(second, manifest);
        k.apply(&second).await.says(&["configured"]);
        k.ok(&["set", "image", "deploy/w", "side=example.com/side:3"]).await.says(&["image updated"]);
        k.ok(&["set", "env", "deploy/w", "-c", "main", "A=1", "B=2"]).await.says(&["env updated"]);
        k.ok(&["set", "env", "deploy/w", "-c", "main", "A-"]).await.says(&["env updated"]);
        let said = k.ok(&["get", "deploy/w", "-o", TEMPLATE]).await;
        assert_eq!(said.out.trim(), "example.com/none:2 example.com/side:3 B");
        k.ok(&["rollout", "restart", "deploy/w"]).await.says(&["restarted"]);
        let stamp = "jsonpath={.spec.template.metadata.annotations}";
        k.ok(&["get", "deploy/w", "-o", stamp]).await.says(&["restartedAt"]);
        // What others added stays, what the manifest no longer has goes.
        k.apply(&manifest).await.says(&["configured"]);
        let said = k.ok(&["get", "deploy/w", "-o", TEMPLATE]).await;
        assert_eq!(said.out.trim(), "example.com/none B");
    })
    .await;
}

#[tokio::test]
async fn simple_objects_are_labelled_annotated_patched_and_applied_again() {
    session(async |k: &Session| {
        let manifest = SIMPLE.split("---").next().unwrap();
        k.apply(manifest).await.says(&["created"]);
        k.ok(&["label", "cm", "settings", "color=blue"]).await.says(&["labeled"]);
        k.ok(&["annotate", "cm", "settings", "note=well"]).await.says(&["annotated"]);
        k.fails(&["label", "cm", "settings", "color=red"]).await.says(&["already has a value"]);
        k.ok(&["label", "cm", "settings", "color=red", "--overwrite"]).await.says(&["labeled"]);
        k.ok(&["patch", "cm", "settings", "-p", r#"{"data":{"c":"3"}}"#]).await.says(&["patched"]);
        k.apply(&manifest.replace(r#"a: "1", b: "2""#, r#"a: "9""#)).await.says(&["configured"]);
        let said = k.ok(&["get", "cm", "settings", "-o", "jsonpath={.data} {.metadata.labels}"]).await;
        assert_eq!(said.out, r#"{"a":"9","c":"3"} {"color":"red"}"#);
        k.ok(&["label", "cm", "settings", "color-"]).await.says(&["unlabeled"]);
        k.ok(&["patch", "cm", "settings", "--type=json", "-p", r#"[{"op":"remove","path":"/data/c"}]"#])
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_on_the_server_changes_nothing() {
    session(async |k: &Session| {
        let manifest = SIMPLE.split("---").next().unwrap();
        let said = k.run(&["apply", "--dry-run=server", "-f", "-"], manifest).await;
        assert!(said.ok, "{said:?}");
        said.says(&["configmap/settings created (server dry run)"]);
        k.fails(&["get", "cm", "settings"]).await.says(&["NotFound"]);
        k.apply(manifest).await;
        k.ok(&["delete", "cm", "settings", "--dry-run=server"]).await.says(&["deleted", "server dry run"]);
        k.ok(&["label", "cm", "settings", "a=b", "--dry-run=server"]).await.says(&["labeled"]);
        let said = k.run(&["diff", "-f", "-"], &manifest.replace(r#"a: "1""#, r#"a: "9""#)).await;
        assert_eq!(said.code, Some(1), "{said:?}");
        said.says(&[r#"-  a: "1""#, r#"+  a: "9""#]);
        k.ok(&["get", "cm", "settings", "-o", "jsonpath={.data.a}{.metadata.labels}"]).await.says(&["1"]);
    })
    .await;
}

#[tokio::test]
async fn lists_come_in_chunks_and_the_servers_own_service_is_listed() {
    session(async |k: &Session| {
        for name in ["one", "two", "three"] {
            k.ok(&["create", "configmap", name]).await;
        }
        let said = k.ok(&["get", "cm", "--chunk-size=1"]).await;
        for name in ["one", "two", "three"] {
            said.row(&[name, "0"]);
        }
        let said = k.ok(&["get", "svc", "-n", "default"]).await;
        said.row(&["kubernetes", "ClusterIP", "10.96.0.1", "<none>", "443/TCP"]);
        k.ok(&["delete", "cm", "--all"]).await.says(&[r#"configmap "one" deleted"#]);
    })
    .await;
}
