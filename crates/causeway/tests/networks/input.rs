//! What people write, also what makes no sense.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::site::{Site, condition};

/// Specs that the definition refuses, and the words it does that with.
fn refused() -> Vec<(Value, &'static str)> {
    let both = |cidr: &str, gateway: &str| json!({ "cidr": cidr, "gateway": gateway });
    let no_range = "cidr is not a range of addresses, like 192.168.0.0/16 or fd00:7::/64";
    let bits = "cidr has bits after its prefix; use the range it lies in";
    let prefix = "cidr has a prefix that leaves no room for hosts, or is half the world";
    let special = "cidr is of nobody, loopback, link-local, multicast or reserved, which no network can have";
    vec![
        (json!({}), "spec.cidr"),
        (json!({ "cidr": "" }), "spec.cidr"),
        (json!({ "cidr": 10 }), "spec.cidr"),
        (json!({ "cidr": "ten" }), no_range),
        (json!({ "cidr": "10.0.0.0" }), no_range),
        (json!({ "cidr": "10.0.0.0/33" }), no_range),
        (json!({ "cidr": "10.0.0.1/24" }), bits),
        (json!({ "cidr": "fd00::1/64" }), bits),
        (json!({ "cidr": "10.0.0.0/7" }), prefix),
        (json!({ "cidr": "10.0.0.0/31" }), prefix),
        (json!({ "cidr": "fd00::/127" }), prefix),
        (json!({ "cidr": "127.0.0.0/8" }), special),
        (json!({ "cidr": "169.254.0.0/16" }), special),
        (json!({ "cidr": "224.0.0.0/8" }), special),
        (json!({ "cidr": "0.0.0.0/8" }), special),
        (json!({ "cidr": "fe80::/64" }), special),
        (json!({ "cidr": "ff02::/64" }), special),
        (both("10.0.0.0/24", "one"), "gateway is not an address, like 192.168.0.1 or fd00:7::1"),
        (both("10.0.0.0/24", "fd00::1"), "gateway is an address of another family than cidr"),
        (both("10.0.0.0/24", "10.0.1.1"), "gateway is outside of cidr"),
        (both("10.0.0.0/24", "10.0.0.0"), "gateway is the first address of cidr, which no host can have"),
        (both("fd00::/64", "fd00::"), "gateway is the first address of cidr, which no host can have"),
        (
            both("10.0.0.0/24", "10.0.0.255"),
            "gateway is the broadcast address of cidr, which no host can have",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_in_words() {
    let site = Site::new().await;
    for (spec, words) in refused() {
        let answer = site.try_create("bad", spec.clone()).await;
        let Err(kube::Error::Api(status)) = answer else { panic!("{spec} was taken") };
        assert_eq!(status.code, 422, "{spec}: {status:?}");
        assert!(status.message.contains(words), "{spec}: {}", status.message);
    }
    // And so is a change.
    site.create("good", "10.80.0.0/24").await;
    let patch = Patch::Merge(json!({ "spec": { "gateway": "10.81.0.1" } }));
    let answer = site.networks().patch("good", &PatchParams::default(), &patch).await;
    let Err(kube::Error::Api(status)) = answer else { panic!("it was taken") };
    assert_eq!(status.code, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_share_addresses_the_older_is_made_and_the_other_follows_when_it_can() {
    let site = Site::new().await;
    let namespaces: kube::Api<Namespace> = kube::Api::all(site.client.clone());
    let elsewhere =
        serde_json::from_value(json!({ "metadata": { "name": "elsewhere" } })).expect("an object");
    namespaces.create(&PostParams::default(), &elsewhere).await.expect("a namespace");
    site.create("a-older", "10.82.0.0/16").await;
    // Ages are in whole seconds; of two of one second the first by name is the older.
    site.create("b-younger", "10.82.7.0/24").await;
    let other = site
        .try_create_object("elsewhere", json!({ "name": "other" }), json!({ "cidr": "10.82.7.0/24" }))
        .await;
    other.expect("it is created");
    let controller = site.controller();
    site.ready("a-older").await;
    let why = site.says("b-younger", "Ready", "False", "Overlap").await;
    assert!(why.contains("10.82.0.0/16 of Network default/a-older, which is older"), "{why}");
    site.event("b-younger", "Overlap", "which is older").await;
    site.has_none("b-younger").await;
    site.until("another namespace may have it", async || {
        let object = site.networks_in("elsewhere").get("other").await.expect("it is there");
        let said = condition(&object.status, "Ready");
        if said.as_ref().is_some_and(|said| said.status == "True") {
            Ok(())
        } else {
            Err(format!("{said:?}"))
        }
    })
    .await;
    site.delete("a-older").await;
    site.ready("b-younger").await;
    site.has_exactly_one("b-younger").await;
    drop(controller);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_rule_can_see_is_told_in_the_condition_and_what_is_there_stays() {
    let site = Site::new().await;
    let _controller = site.controller();
    site.create("broken-later", "10.83.0.0/24").await;
    let before = site.ready("broken-later").await;
    let held = site.made_for("broken-later").await;

    // The definition of another, older one: anything goes.
    let definitions: kube::Api<CustomResourceDefinition> = kube::Api::all(site.client.clone());
    let loose = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let patch =
        json!([{ "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": loose }]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).expect("a patch"));
    let patched = definitions.patch("networks.samplecrd.k8s.io", &PatchParams::default(), &patch).await;
    patched.expect("a looser definition");
    site.patch("broken-later", json!({ "spec": { "cidr": "everything" } })).await;
    let why = site.says("broken-later", "Ready", "False", "Invalid").await;
    assert!(why.contains("cidr `everything` is not a range of addresses"), "{why}");
    site.event("broken-later", "Invalid", "everything").await;
    assert_eq!(site.made_for("broken-later").await, held);
    assert_eq!(site.status("broken-later").await["networkId"], before["networkId"]);
    site.patch("broken-later", json!({ "spec": { "cidr": "10.83.0.0/24" } })).await;
    site.ready("broken-later").await;
    assert_eq!(site.made_for("broken-later").await, held);
    // Broken again, it can be deleted.
    site.patch("broken-later", json!({ "spec": null })).await;
    site.delete("broken-later").await;
    site.gone("broken-later").await;
    site.has_none("broken-later").await;

    // Neutron takes names of 255 characters.
    let long = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(60)].join(".");
    site.create(&long, "10.84.0.0/24").await;
    let why = site.says(&long, "Ready", "False", "Invalid").await;
    assert!(why.contains("255"), "{why}");
    site.delete(&long).await;
    site.gone(&long).await;
}

#[test]
fn flags_that_make_no_sense_end_the_program_with_a_sentence() {
    for (flags, why) in [
        (
            &["--provider", "neutron", "--neutron-url", "http://127.0.0.1:1", "--bridge-nat"][..],
            "--bridge-nat is for --provider bridge",
        ),
        (
            &["--provider", "bridge", "--neutron-url", "http://127.0.0.1:1"],
            "--neutron-url is for --provider neutron",
        ),
        (
            &["--provider", "bridge", "--bridge-namespace", "/nowhere/net"],
            "--bridge-namespace /nowhere/net: No such file",
        ),
        (&["--provider", "bridge", "--bridge-within", "ten"], "--bridge-within"),
        (
            &["--provider", "bridge", "--master", "ftp://127.0.0.1:1"],
            "it is not the address of a server, like https://",
        ),
        (
            &["--provider", "bridge", "--master", "127.0.0.1:1"],
            "it is not the address of a server, like https://",
        ),
        (&["--provider", "cloud9"], "[possible values: neutron, bridge]"),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_causeway"));
        command.args(["controller", "--enable", "networks", "--log-format", "text"]).args(flags);
        let output = command.env_clear().output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{flags:?}: {said}");
    }
}
