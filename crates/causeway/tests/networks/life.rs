//! The life of a network, from its manifest to its end.

use serde_json::{Value, json};

use crate::site::{Site, text};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/networks/network.yaml");

/// The one network and the one subnet of an object.
async fn only(site: &Site, name: &str) -> (Value, Value) {
    let (networks, subnets) = site.made_for(name).await;
    let [network] = &networks[..] else { panic!("{networks:#?}") };
    let [subnet] = &subnets[..] else { panic!("{subnets:#?}") };
    (network.clone(), subnet.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_becomes_a_network_that_says_whose_it_is() {
    let site = Site::new().await;
    let _controller = site.controller();
    let manifest = std::fs::read_to_string(SAMPLE).expect("the sample");
    let object: Value = serde_saphyr::from_str(&manifest).expect("YAML");
    assert_eq!(object["metadata"]["name"], "example-network");
    let made = site.try_create("example-network", object["spec"].clone()).await.expect("it is created");

    let status = site.ready("example-network").await;
    site.has_exactly_one("example-network").await;
    let (network, subnet) = only(&site, "example-network").await;
    let object = made.metadata.uid.expect("a uid");
    let tags =
        ["causeway", &*format!("causeway-cluster={}", site.uid), &*format!("causeway-home={}", site.uid)];
    let mut tags: Vec<_> = tags.map(str::to_owned).into();
    tags.push(format!("causeway-uid={object}"));
    for it in [&network, &subnet] {
        assert_eq!(text(it, "name"), "default/example-network");
        assert_eq!(text(it, "description"), site.mark());
        let mut its: Vec<String> = serde_json::from_value(it["tags"].clone()).expect("tags");
        its.sort();
        tags.sort();
        assert_eq!(its, tags);
    }
    assert_eq!(text(&subnet, "cidr"), "192.168.0.0/16");
    assert_eq!(text(&subnet, "gateway_ip"), "192.168.0.1");

    let said = |field: &str| text(&status, field);
    assert_eq!(
        (said("provider"), said("cidr"), said("gateway")),
        ("neutron".into(), text(&subnet, "cidr"), text(&subnet, "gateway_ip"))
    );
    assert_eq!(status["observedGeneration"], json!(1));
    assert!(status["lastSyncTime"].is_string(), "{status}");
    site.says("example-network", "Progressing", "False", "AtRest").await;
    let note = site.event("example-network", "Synced", "is as declared").await;
    assert!(note.contains(&text(&network, "id")) && note.contains(&text(&subnet, "id")), "{note}");

    site.delete("example-network").await;
    site.gone("example-network").await;
    site.has_none("example-network").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_moves_in_place_and_an_ipv6_network_has_its_first_host_address() {
    let site = Site::new().await;
    let _controller = site.controller();
    site.create("six", "fd00:7::/64").await;
    site.create("four", "10.4.0.0/24").await;
    let six = site.ready("six").await;
    assert_eq!(text(&six, "gateway"), "fd00:7::1");
    assert_eq!(only(&site, "six").await.1["gateway_ip"], "fd00:7::1");

    site.ready("four").await;
    let before = only(&site, "four").await;
    // In the middle of what is given out.
    site.patch("four", json!({ "spec": { "gateway": "10.4.0.77" } })).await;
    let status = site.ready("four").await;
    let after = only(&site, "four").await;
    assert_eq!(text(&status, "gateway"), "10.4.0.77");
    assert_eq!((&after.0["id"], &after.1["id"]), (&before.0["id"], &before.1["id"]), "nothing was replaced");
    assert_eq!(text(&after.1, "gateway_ip"), "10.4.0.77");
    let reasons: Vec<_> = site.events("four").await.into_iter().map(|(reason, _)| reason).collect();
    assert!(!reasons.contains(&"DriftRepaired".to_owned()), "it was asked for: {reasons:?}");
    // The address is given to nobody.
    let pools = after.1["allocation_pools"].to_string();
    assert!(pools.contains("10.4.0.76") && pools.contains("10.4.0.78"), "{pools}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_range_replaces_the_subnet_only_where_that_is_allowed() {
    let site = Site::new().await;
    let _controller = site.controller();
    site.create("moving", "10.5.0.0/24").await;
    site.ready("moving").await;
    let first = only(&site, "moving").await;

    site.patch("moving", json!({ "spec": { "cidr": "10.6.0.0/24" } })).await;
    let why = site.says("moving", "Ready", "False", "ReplacementNotAllowed").await;
    assert!(why.contains("10.5.0.0/24") && why.contains("causeway/allow-replace=true"), "{why}");
    site.event("moving", "ReplacementNotAllowed", "10.6.0.0/24").await;
    assert_eq!(only(&site, "moving").await, first, "nothing was touched");

    site.annotate("moving", "causeway/allow-replace", "true").await;
    let status = site.ready("moving").await;
    let second = only(&site, "moving").await;
    assert_eq!(
        (text(&status, "cidr"), text(&second.1, "cidr")),
        ("10.6.0.0/24".into(), "10.6.0.0/24".into())
    );
    assert_eq!(second.0["id"], first.0["id"]);
    assert_ne!(second.1["id"], first.1["id"]);

    // Twice as large: the two share addresses, and Neutron does not have both at once.
    site.patch("moving", json!({ "spec": { "cidr": "10.6.0.0/23" } })).await;
    site.ready("moving").await;
    site.has_exactly_one("moving").await;
    assert_eq!(text(&only(&site, "moving").await.1, "cidr"), "10.6.0.0/23");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_while_nobody_looked_is_deleted_later() {
    let site = Site::new().await;
    let mut controller = site.controller();
    for (name, cidr) in [("asked", "10.7.0.0/24"), ("forced", "10.8.0.0/24"), ("stays", "10.9.0.0/24")] {
        site.create(name, cidr).await;
    }
    for name in ["asked", "forced", "stays"] {
        site.ready(name).await;
    }
    controller.kill();
    site.delete("asked").await;
    site.patch("forced", json!({ "metadata": { "finalizers": [] } })).await;
    site.delete("forced").await;
    assert!(site.get("forced").await.is_none() && site.get("asked").await.is_some());

    site.proxy.forget();
    controller.start_again();
    site.gone("asked").await;
    site.has_none("asked").await;
    site.until("the orphan is swept", async || match &site.made_for("forced").await.0[..] {
        [] => Ok(()),
        left => Err(format!("{left:?}")),
    })
    .await;
    site.has_none("forced").await;
    site.has_exactly_one("stays").await;
    // Not at the first look: that may have been wrong.
    let requests = site.proxy.requests();
    let deletions = requests.iter().filter(|it| it.method == hyper::Method::DELETE);
    let orphan = deletions.max_by_key(|it| it.at).expect("a deletion").at;
    let first_mark_lists =
        requests.iter().filter(|it| it.at < orphan && it.path.starts_with("/v2.0/subnets?"));
    assert!(first_mark_lists.count() >= 4, "two looks, with two lists of subnets each");
}
