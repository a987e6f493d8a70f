//! Each step, and each way in which it is refused.

use causeway_core::networks::plan::SubnetChange;
use serde_json::json;

use super::*;

#[tokio::test]
async fn a_network_with_a_subnet_is_made_changed_seen_and_deleted() {
    let (neutron, home) = (at(&neutron().await.url()), home("steps"));
    let network = made(&neutron, &home, "apps/a").await;
    assert_eq!((network.name.as_deref(), &network.description), (Some("apps/a"), &home.description()));
    let id = network.id.clone();
    tagged(&neutron, &id, home.tags("u")).await;

    let change = |name: Option<&str>, revision| Step::ChangeNetwork {
        id: id.clone(),
        revision,
        name: name.map(str::to_owned),
        description: None,
    };
    let held = all(&neutron, &home).await.remove(0);
    let Ok(Seen::Network(renamed)) = neutron.apply(&change(Some("apps/ä & b"), held.revision)).await else {
        panic!("not renamed")
    };
    assert_eq!((renamed.name.as_deref(), &renamed.tags), (Some("apps/ä & b"), &home.tags("u")));
    assert!(renamed.revision > held.revision);
    let stale = neutron.apply(&change(Some("apps/c"), held.revision)).await;
    assert!(matches!(&stale, Err(Trouble::Stale(words)) if words.contains("current revision")), "{stale:?}");

    let subnet = given_subnet(&neutron, &home, &id, spec("10.1.0.0/24")).await;
    let tags = Step::TagSubnet { network: id.clone(), id: subnet.clone(), tags: home.tags("u") };
    let seen = neutron.apply(&tags).await;
    assert_eq!(seen, Ok(Seen::SubnetTags(id.clone(), subnet.clone(), home.tags("u"))));

    let held = all(&neutron, &home).await.remove(0);
    let known = &held.subnets[&subnet];
    assert_eq!((known.cidr.to_string(), &known.tags), ("10.1.0.0/24".to_owned(), &home.tags("u")));
    assert_eq!(known.gateway, Some("10.1.0.1".parse().expect("an address")));

    let gateway = "10.1.0.9".parse().expect("an address");
    let pools = causeway_core::networks::pools::all_but(known.cidr, gateway);
    let change = SubnetChange {
        name: Some("other".into()),
        gateway: Some(gateway),
        pools: Some(pools.clone()),
        ..SubnetChange::default()
    };
    let step =
        Step::ChangeSubnet { network: id.clone(), id: subnet.clone(), revision: known.revision, change };
    let Ok(Seen::Subnet(_, _, changed)) = neutron.apply(&step).await else { panic!("not changed") };
    assert_eq!((changed.gateway, changed.pools), (Some(gateway), pools));
    assert_eq!(changed.description, home.description(), "what was not to change is as it was");
    let stale = neutron.apply(&step).await;
    assert!(matches!(stale, Err(Trouble::Stale(_))), "{stale:?}");

    let delete = |revision| Step::DeleteSubnet { network: id.clone(), id: subnet.clone(), revision };
    let stale = neutron.apply(&delete(known.revision)).await;
    assert!(matches!(stale, Err(Trouble::Stale(_))), "what was changed since is not deleted: {stale:?}");
    let drop = delete(changed.revision);
    for _ in 0..2 {
        assert_eq!(neutron.apply(&drop).await, Ok(Seen::SubnetGone(id.clone(), subnet.clone())));
    }
    for _ in 0..2 {
        let gone = neutron.apply(&Step::DeleteNetwork { id: id.clone(), revision: None }).await;
        assert_eq!(gone, Ok(Seen::Gone(id.clone())), "gone already is as good");
    }
    assert_eq!(all(&neutron, &home).await, []);
}

#[tokio::test]
async fn an_ipv6_subnet_has_the_gateway_that_it_should_have() {
    let (neutron, home) = (at(&neutron().await.url()), home("six"));
    let network = made(&neutron, &home, "a").await;
    given_subnet(&neutron, &home, &network.id, spec("fd00:7::/64")).await;
    let held = all(&neutron, &home).await.remove(0);
    let subnet = held.subnets.values().next().expect("a subnet");
    assert_eq!(subnet.gateway, Some("fd00:7::1".parse().expect("an address")));
}

#[tokio::test]
async fn what_is_in_use_stays() {
    let server = neutron().await;
    let (neutron, home) = (at(&server.url()), home("used"));
    let id = made(&neutron, &home, "a").await.id;
    let subnet = given_subnet(&neutron, &home, &id, spec("10.1.0.0/24")).await;
    server.api().occupy(&id).await;
    let steps = [
        Step::DeleteSubnet { network: id.clone(), id: subnet, revision: None },
        Step::DeleteNetwork { id: id.clone(), revision: None },
    ];
    for step in steps {
        let used = neutron.apply(&step).await;
        assert!(matches!(used, Err(Trouble::InUse(_))), "{used:?}");
    }
}

#[tokio::test]
async fn what_is_gone_is_missing() {
    let (neutron, home) = (at(&neutron().await.url()), home("gone"));
    let (id, network) = ("00000000-0000-0000-0000-000000000000".to_owned(), String::new());
    let description = home.description();
    let change = SubnetChange { name: Some("b".into()), ..SubnetChange::default() };
    let steps = [
        Step::TagNetwork { id: id.clone(), tags: home.tags("u") },
        Step::TagSubnet { network: network.clone(), id: id.clone(), tags: home.tags("u") },
        Step::ChangeNetwork { id: id.clone(), revision: Some(1), name: Some("b".into()), description: None },
        Step::ChangeSubnet { network, id: id.clone(), revision: None, change },
        Step::CreateSubnet { network: id, name: "a".into(), description, spec: spec("10.1.0.0/24") },
    ];
    for step in steps {
        let missing = neutron.apply(&step).await;
        assert!(matches!(missing, Err(Trouble::Missing(_))), "{step}: {missing:?}");
    }
}

#[tokio::test]
async fn what_makes_no_sense_to_neutron_is_refused_in_its_words() {
    let (neutron, home) = (at(&neutron().await.url()), home("refused"));
    let network = made(&neutron, &home, "a").await.id;
    given_subnet(&neutron, &home, &network, spec("10.1.0.0/24")).await;
    let step = Step::CreateSubnet {
        network,
        name: "b".into(),
        description: home.description(),
        spec: spec("10.1.0.0/16"),
    };
    let Err(Trouble::Refused(words)) = neutron.apply(&step).await else { panic!("not refused") };
    assert!(words.contains("overlaps with another subnet."), "{words}");
}

#[tokio::test]
async fn quotas_and_the_last_of_the_segments_are_told_apart_from_outages() {
    let settings = Settings { subnets: Some(1), vnis: 1..=2, ..Settings::default() };
    let server = cloud::Neutron::start(settings).await;
    let (neutron, home) = (at(&server.url()), home("quota"));
    let network = made(&neutron, &home, "a").await.id;
    made(&neutron, &home, "b").await;
    let Err(Trouble::Quota(words)) = neutron.apply(&create(&home, "c")).await else { panic!("a third") };
    assert!(words.starts_with("Unable to create the network."), "{words}");
    given_subnet(&neutron, &home, &network, spec("10.1.0.0/24")).await;
    let step = Step::CreateSubnet {
        network,
        name: "b".into(),
        description: home.description(),
        spec: spec("10.2.0.0/24"),
    };
    let Err(Trouble::Quota(words)) = neutron.apply(&step).await else { panic!("a second") };
    assert!(words.starts_with("Quota exceeded for resources: ['subnet']."), "{words}");
}

#[tokio::test]
async fn no_more_is_sent_than_should_change() {
    let proxy = cloud::Proxy::start(&neutron().await.url()).await;
    let (neutron, home) = (at(&proxy.url()), home("sent"));
    let network = made(&neutron, &home, "a").await;
    let step = Step::ChangeNetwork {
        id: network.id.clone(),
        revision: network.revision,
        name: None,
        description: Some(String::new()),
    };
    neutron.apply(&step).await.expect("changed");
    let sent = proxy.requests();
    assert_eq!(sent[0].body, json!({"network": {"name": "a", "description": home.description()}}));
    assert_eq!(sent[1].body, json!({"network": {"description": ""}}));
    assert_eq!(sent[1].headers["if-match"], "revision_number=1");
}
