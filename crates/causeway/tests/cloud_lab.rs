//! What we rely on of Neutron and Keystone, seen on the real ones; and that the harness does what it says.
#![cfg(feature = "sandbox")]

mod cloud;

use std::time::{Duration, Instant};

use cloud::{Api, Credential, Keystone, Neutron, PATIENCE, Proxy, Rule, Settings, User};
use hyper::Method;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The Neutron that most of these tests share. Everybody is an administrator there.
async fn neutron() -> &'static Neutron {
    static NEUTRON: OnceCell<Neutron> = OnceCell::const_new();
    NEUTRON.get_or_init(|| Neutron::start(Settings::default())).await
}

fn id(object: &Value) -> &str {
    object["id"].as_str().unwrap_or_else(|| panic!("{object}"))
}

fn pools(start: &str, end: &str) -> Value {
    json!([{ "start": start, "end": end }])
}

async fn revision(api: &Api, path: &str) -> u64 {
    let object = api.get(&format!("{path}?fields=revision_number")).await.ok();
    let mut parts = object.as_object().into_iter().flatten();
    parts.find_map(|(_, object)| object["revision_number"].as_u64()).unwrap_or_else(|| panic!("{object}"))
}

#[tokio::test]
async fn a_revision_guards_networks_and_subnets_but_not_tags() {
    let api = neutron().await.api();
    // Tags are put in a second request.
    let said = api.post("networks", json!({ "network": { "tags": ["a"] } })).await;
    assert_eq!(said.refused(400, "HTTPBadRequest"), "Attribute 'tags' not allowed in POST");
    let network = api.create("network", json!({ "name": "guarded" })).await;
    assert_eq!(
        (&network["revision_number"], &network["mtu"], &network["tags"]),
        (&json!(1), &json!(1450), &json!([]))
    );
    let path = format!("networks/{}", id(&network));
    let tags = format!("{path}/tags");
    assert_eq!(api.put(&tags, json!({ "tags": ["b", "a"] })).await.ok(), json!({ "tags": ["b", "a"] }));
    assert_eq!(revision(&api, &path).await, 2);

    // What changes nothing is no revision.
    api.put(&tags, json!({ "tags": ["a", "b"] })).await.ok();
    api.put(&path, json!({ "network": { "name": "guarded" } })).await.ok();
    assert_eq!(revision(&api, &path).await, 2);
    api.put_at(&path, 2, json!({ "network": { "description": "x" } })).await.ok();
    let stale = api.put_at(&path, 2, json!({ "network": { "description": "y" } })).await;
    let message = stale.refused(412, "RevisionNumberConstraintFailed");
    assert_eq!(message, "Constrained to 2, but current revision is 3");

    // Tags know no revisions: to ask for one, even the right one, is an error of the server's own.
    api.put_at(&tags, 3, json!({ "tags": [] })).await.refused(500, "HTTPInternalServerError");
    // So are tags for a network that is gone, where anything else is not found.
    let nowhere = "networks/00000000-0000-0000-0000-000000000000";
    api.put(&format!("{nowhere}/tags"), json!({ "tags": [] })).await.refused(500, "HTTPInternalServerError");
    let message = api.delete(nowhere).await.refused(404, "NetworkNotFound");
    assert_eq!(message, "Network 00000000-0000-0000-0000-000000000000 could not be found.");

    // A subnet's coming, change and going are its network's revisions too.
    let subnet = api
        .create("subnet", json!({ "network_id": id(&network), "ip_version": 4, "cidr": "10.0.0.0/24" }))
        .await;
    assert_eq!(subnet["revision_number"], 0);
    assert_eq!(revision(&api, &path).await, 4);
    let inside = format!("subnets/{}", id(&subnet));
    api.put(&inside, json!({ "subnet": { "name": "x" } })).await.ok();
    assert_eq!((revision(&api, &path).await, revision(&api, &inside).await), (5, 1));
    // Of pools and name servers alone it takes no notice.
    api.put(&inside, json!({ "subnet": { "allocation_pools": pools("10.0.0.9", "10.0.0.20") } })).await.ok();
    api.put(&inside, json!({ "subnet": { "dns_nameservers": ["9.9.9.9"] } })).await.ok();
    assert_eq!(revision(&api, &inside).await, 1);
}

#[tokio::test]
async fn tags_have_limits() {
    let api = neutron().await.api();
    let network = api.create("network", json!({ "name": "tagged" })).await;
    let tags = format!("networks/{}/tags", id(&network));
    api.put(&tags, json!({ "tags": ["x".repeat(255), "a,b", "a/b", "c=d e"] })).await.ok();
    api.put(&tags, json!({ "tags": ["x".repeat(256)] })).await.refused(400, "InvalidInput");
    api.put(&tags, json!({ "tags": ["x", "x"] })).await.refused(400, "InvalidInput");
    let many: Vec<_> = (0..51).map(|number| number.to_string()).collect();
    let message = api.put(&tags, json!({ "tags": many })).await.refused(400, "BadRequest");
    assert_eq!(message, "Bad networks request: The number of tags exceed the per-resource limit of 50.");
}

#[tokio::test]
async fn lists_are_filtered_and_come_in_pages() {
    let neutron = neutron().await;
    let api = neutron.api();
    let named = |name: &str| json!({ "name": name, "description": "of the filters' test" });
    // Several are created in one request, all or none.
    let bulk = json!({ "networks": [named("f1"), named("f2"), named("f3")] });
    let made = api.post("networks", bulk).await.ok();
    let made = made["networks"].as_array().expect("a list");
    let bad = json!({ "networks": [named("f4"), { "mtu": "x" }] });
    api.post("networks", bad).await.refused(400, "InvalidInput");
    for (network, tags) in made.iter().zip([json!(["f-a", "f-b"]), json!(["f-b"]), json!(["f-c"])]) {
        api.put(&format!("networks/{}/tags", id(network)), json!({ "tags": tags })).await.ok();
    }
    let network = id(&made[0]);
    let described =
        json!({ "network_id": network, "ip_version": 4, "cidr": "10.0.0.0/24", "description": "f s" });
    api.create("subnet", described).await;

    let names = async |query: &str| {
        let found =
            api.list(&format!("networks?sort_key=name&sort_dir=asc&fields=name&fields=id&{query}")).await;
        found
            .iter()
            .map(|network| network["name"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("description=of%20the%20filters'%20test").await, ["f1", "f2", "f3"]);
    assert_eq!(names("tags=f-b").await, ["f1", "f2"]);
    assert_eq!(names("tags=f-a,f-b").await, ["f1"]);
    assert_eq!(names("tags-any=f-a,f-c").await, ["f1", "f3"]);
    assert_eq!(names("name=f2&name=f3").await, ["f2", "f3"]);
    assert_eq!(api.list("subnets?description=f%20s&fields=cidr").await, [json!({ "cidr": "10.0.0.0/24" })]);
    // Fields that are not repeated are a field that nothing has.
    assert_eq!(api.list("networks?name=f1&fields=id,name").await, [json!({})]);
    let message = api.get("networks?nonsense=1").await.refused(400, "HTTPBadRequest");
    assert_eq!(message, "['nonsense'] is invalid attribute for filtering");

    // A page that is full has a next one, even if that is empty. Behind the proxy the link leads past it.
    let proxy = Proxy::start(&neutron.url()).await;
    let mut path = "networks?description=of%20the%20filters'%20test&fields=name&limit=3".to_owned();
    let mut pages = Vec::new();
    loop {
        let page = proxy.api("v2.0").get(&path).await.ok();
        pages.push(page["networks"].as_array().expect("a list").len());
        let links = page["networks_links"].as_array().expect("links");
        let Some(next) = links.iter().find(|link| link["rel"] == "next") else { break };
        let href = next["href"].as_str().expect("a link");
        path = href.strip_prefix(&format!("{}/v2.0/", neutron.url())).expect("the server's own host").into();
        assert!(path.contains("limit=3") && path.contains(&format!("marker={}", last_id(made))), "{path}");
    }
    assert_eq!(pages, [3, 0]);
    let gone = "networks?limit=1&marker=00000000-0000-0000-0000-000000000000";
    api.get(gone).await.refused(404, "NetworkNotFound");
}

/// Pages are in the order of ids.
fn last_id(networks: &[Value]) -> &str {
    networks.iter().map(id).max().expect("there are some")
}

#[tokio::test]
async fn subnets_have_defaults_and_move_their_gateway_only_out_of_the_pool() {
    let api = neutron().await.api();
    let network = api.create("network", json!({ "name": "subnets" })).await;
    let subnet = async |more: Value| {
        let mut subnet = json!({ "network_id": id(&network) });
        subnet.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
        api.post("subnets", json!({ "subnet": subnet })).await
    };
    let made = subnet(json!({ "ip_version": 4, "cidr": "10.1.0.7/24" })).await.ok();
    let made = &made["subnet"];
    assert_eq!((&made["cidr"], &made["gateway_ip"]), (&json!("10.1.0.0/24"), &json!("10.1.0.1")));
    assert_eq!(made["allocation_pools"], pools("10.1.0.2", "10.1.0.254"));
    assert_eq!((&made["enable_dhcp"], &made["dns_nameservers"]), (&json!(true), &json!([])));
    let bare = subnet(json!({ "ip_version": 4, "cidr": "10.2.0.0/24", "gateway_ip": null })).await.ok();
    assert_eq!(bare["subnet"]["allocation_pools"], pools("10.2.0.1", "10.2.0.254"));
    // The gateway is the address that ends in zeros, which an IPv6 router's every link has.
    let six = subnet(json!({ "ip_version": 6, "cidr": "FD00:1:0::/64" })).await.ok();
    let six = &six["subnet"];
    assert_eq!((&six["cidr"], &six["gateway_ip"]), (&json!("fd00:1::/64"), &json!("fd00:1::")));
    assert_eq!(six["allocation_pools"], pools("fd00:1::1", "fd00:1::ffff:ffff:ffff:ffff"));
    assert_eq!(
        (&six["ipv6_ra_mode"], &six["ipv6_address_mode"], &six["enable_dhcp"]),
        (&Value::Null, &Value::Null, &json!(true))
    );

    let message =
        subnet(json!({ "ip_version": 4, "cidr": "10.1.0.128/25" })).await.refused(400, "InvalidInput");
    assert!(message.ends_with("overlaps with another subnet."), "{message}");
    let path = format!("subnets/{}", id(made));
    let message =
        api.put(&path, json!({ "subnet": { "cidr": "10.3.0.0/24" } })).await.refused(400, "HTTPBadRequest");
    assert_eq!(message, "Cannot update read-only attribute cidr");
    let gateway = api.put(&path, json!({ "subnet": { "gateway_ip": "10.1.0.254" } })).await;
    let message = gateway.refused(409, "GatewayConflictWithAllocationPools");
    assert_eq!(message, "Gateway ip 10.1.0.254 conflicts with allocation pool 10.1.0.2-10.1.0.254.");
    let both = json!({ "gateway_ip": "10.1.0.254", "allocation_pools": pools("10.1.0.1", "10.1.0.253") });
    let moved = api.put(&path, json!({ "subnet": both })).await.ok();
    assert_eq!(moved["subnet"]["gateway_ip"], "10.1.0.254");
    // Pools do not follow.
    let none = api.put(&path, json!({ "subnet": { "gateway_ip": null } })).await.ok();
    assert_eq!(none["subnet"]["allocation_pools"], pools("10.1.0.1", "10.1.0.253"));
}

#[tokio::test]
async fn what_is_in_use_stays_and_what_exceeds_a_quota_does_not_come() {
    let api = neutron().await.api();
    let network = api.create("network", json!({ "name": "used" })).await;
    let subnet = api
        .create("subnet", json!({ "network_id": id(&network), "ip_version": 4, "cidr": "10.0.0.0/24" }))
        .await;
    let port = api.occupy(id(&network)).await;
    let path = format!("networks/{}", id(&network));
    let message = api.delete(&path).await.refused(409, "NetworkInUse");
    assert_eq!(
        message,
        format!(
            "Unable to complete operation on network {}. There are one or more ports still in use on the network, \
             id for these ports is: {port}.",
            id(&network)
        )
    );
    api.delete(&format!("subnets/{}", id(&subnet))).await.refused(409, "SubnetInUse");
    api.delete(&format!("ports/{port}")).await.ok();
    // A network takes its subnets with it.
    api.delete(&path).await.ok();
    api.get(&format!("subnets/{}", id(&subnet))).await.refused(404, "SubnetNotFound");

    api.set_quota("small", "network", 1).await;
    let small = json!({ "network": { "name": "small", "project_id": "small" } });
    // A name is no key.
    let again = json!({ "network": { "name": "small" } });
    api.post("networks", small.clone()).await.ok();
    api.post("networks", again).await.ok();
    let message = api.post("networks", small).await.refused(409, "OverQuota");
    assert_eq!(message, "Quota exceeded for resources: ['network'].");
}

/// One Neutron with a Keystone for all of this: they take long to start.
#[tokio::test]
async fn with_a_keystone() {
    let settings = Settings { vnis: 1..=2, page: Some(1), ..Settings::default() };
    let (mut keystone, mut neutron) = Keystone::start_with_neutron(3600, settings).await;
    a_password_gives_a_token_with_a_catalog(&keystone, &neutron).await;
    projects_and_roles_have_bounds(&keystone, &neutron).await;
    vnis_run_out_and_lists_have_pages_unasked(&keystone, &neutron).await;
    an_application_credential_comes_and_goes(&keystone, &neutron).await;
    what_a_server_has_outlives_it(&keystone, &mut neutron).await;

    // Without Keystone a token that Neutron does not know yet is answered with 503, and not in JSON.
    let token = keystone.token(User::Member).await;
    keystone.stop();
    let answer = neutron.api().with_token(&token).get("networks").await;
    assert!(answer.status == 503 && answer.body.is_string(), "{answer:?}");
    keystone.set_token_seconds(3);
    keystone.start_again().await;
    a_token_expires(&keystone, &neutron).await;
}

/// Neutron's API for somebody.
async fn api_as(user: User, keystone: &Keystone, neutron: &Neutron) -> Api {
    neutron.api().with_token(&keystone.token(user).await)
}

/// What both say to whoever has no good token.
fn unauthorized() -> Value {
    let message = "The request you have made requires authentication.";
    json!({ "code": 401, "title": "Unauthorized", "message": message })
}

async fn a_password_gives_a_token_with_a_catalog(keystone: &Keystone, neutron: &Neutron) {
    let said = keystone.log_in(User::Member, User::PASSWORD).await;
    let catalog = said.body["token"]["catalog"].as_array().expect("a catalog");
    let network = catalog.iter().find(|service| service["type"] == "network").expect("Neutron");
    assert!(network["endpoints"].as_array().is_some_and(|all| {
        all.len() == 3 && all.iter().all(|one| one["url"] == neutron.url() && one["region"] == "RegionOne")
    }));
    let refused = keystone.log_in(User::Member, "wrong").await;
    assert_eq!((refused.status, &refused.body["error"]), (401, &unauthorized()));
}

async fn a_token_expires(keystone: &Keystone, neutron: &Neutron) {
    let api = api_as(User::Member, keystone, neutron).await;
    let begun = Instant::now();
    let expired = loop {
        let answer = api.get("networks?fields=id").await;
        if answer.status != 200 {
            break answer;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not expire");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!((expired.status, &expired.body["error"]), (401, &unauthorized()));
    let challenge = format!("Keystone uri=\"{}\"", keystone.url());
    assert_eq!(expired.header("www-authenticate"), Some(challenge.as_str()));
}

async fn projects_and_roles_have_bounds(keystone: &Keystone, neutron: &Neutron) {
    let member = api_as(User::Member, keystone, neutron).await;
    let own = member.create("network", json!({ "name": "a member's" })).await;
    // Only an administrator sees how a network is made.
    assert_eq!(own.get("provider:segmentation_id"), None);
    let reader = api_as(User::Reader, keystone, neutron).await;
    assert_eq!(id(&reader.list("networks?fields=id").await[0]), id(&own));
    let renamed = reader.put(&format!("networks/{}", id(&own)), json!({ "network": { "name": "x" } })).await;
    let message = renamed.refused(403, "PolicyNotAuthorized");
    assert_eq!(message, "rule:update_network is disallowed by policy");
    // What is another project's is not there.
    let admin = api_as(User::Admin, keystone, neutron).await;
    let foreign = admin.create("network", json!({ "name": "the administrator's" })).await;
    let member = api_as(User::Member, keystone, neutron).await;
    member.delete(&format!("networks/{}", id(&foreign))).await.refused(404, "NetworkNotFound");
}

async fn vnis_run_out_and_lists_have_pages_unasked(keystone: &Keystone, neutron: &Neutron) {
    let admin = api_as(User::Admin, keystone, neutron).await;
    // A 503 that is nothing to wait for.
    let third = admin.post("networks", json!({ "network": { "name": "third" } })).await;
    let message = third.refused(503, "NoNetworkAvailable");
    assert_eq!(message, "Unable to create the network. No project network is available for allocation.");
    let page = admin.get("networks?limit=0").await.ok();
    assert_eq!(page["networks"].as_array().map(Vec::len), Some(1));
    assert_eq!(page["networks_links"][0]["rel"], "next");
}

async fn an_application_credential_comes_and_goes(keystone: &Keystone, neutron: &Neutron) {
    let credential = keystone.credential(User::Member, "lab").await;
    let token = keystone.log_in_with(&credential).await.token();
    assert_eq!(neutron.api().with_token(&token).list("networks?fields=id").await.len(), 1);
    let wrong = Credential { secret: "wrong".into(), ..credential.clone() };
    assert_eq!(keystone.log_in_with(&wrong).await.status, 401);
    keystone.revoke(User::Member, &credential).await;
    // Not 401, as for a password that is no longer right.
    let gone = keystone.log_in_with(&credential).await;
    let message = format!("Could not find Application Credential: {}.", credential.id);
    assert_eq!((gone.status, &gone.body["error"]["message"]), (404, &json!(message)));
}

async fn what_a_server_has_outlives_it(keystone: &Keystone, neutron: &mut Neutron) {
    neutron.stop();
    let api = api_as(User::Member, keystone, neutron).await;
    api.ask(Method::GET, "networks", &[], None).await.expect_err("nobody is there");
    neutron.start_again().await;
    let api = api_as(User::Member, keystone, neutron).await;
    assert_eq!(api.list("networks?fields=name").await, [json!({ "name": "a member's" })]);
}

#[tokio::test]
async fn the_proxy_fails_as_it_is_told() {
    let neutron = neutron().await;
    let proxy = Proxy::start_with_tls(&neutron.url()).await;
    assert!(proxy.url().starts_with("https://127.0.0.1:") && proxy.authority().contains("BEGIN CERTIFICATE"));
    let api = proxy.api("v2.0");
    let networks = "/v2.0/networks";
    let create = async |name: &str| {
        let body = json!({ "network": { "name": name } });
        api.ask(Method::POST, "networks", &[], Some(body)).await.map(|answer| answer.status)
    };
    let made = async |name: &str| neutron.api().list(&format!("networks?name={name}")).await.len();

    proxy.tell(Rule::on(Method::POST, networks).after(1).times(1).answer(429, "").header("retry-after", "7"));
    assert_eq!(create("p1").await, Ok(201));
    let busy = api.post("networks", json!({})).await;
    assert_eq!((busy.status, busy.header("retry-after")), (429, Some("7")));
    assert_eq!(create("p2").await, Ok(201));
    let kept = proxy.requests();
    let seen: Vec<_> =
        kept.iter().map(|request| (request.path.as_str(), request.server, request.answer)).collect();
    let created = (networks, Some(201), Some(201));
    assert_eq!(seen, [created, (networks, None, Some(429)), created]);
    assert_eq!(kept[0].body["network"]["name"], "p1");

    // Whoever asked cannot tell these apart.
    proxy.tell(Rule::on(Method::POST, networks).times(1).cut_before());
    proxy.tell(Rule::on(Method::POST, networks).times(1).cut_after());
    create("p3").await.expect_err("it was cut");
    assert_eq!(made("p3").await, 0);
    create("p3").await.expect_err("it was cut");
    assert_eq!(made("p3").await, 1);
    assert_eq!(
        proxy.requests().last().map(|request| (request.server, request.answer)),
        Some((Some(201), None))
    );

    proxy.forget();
    proxy.tell(Rule::on(Method::GET, networks).times(1).delay(Duration::from_millis(300)));
    let begun = Instant::now();
    api.get("networks?fields=id&limit=1").await.ok();
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(proxy.count(&Method::GET, networks), 1);

    let series = async || {
        proxy.pass();
        proxy.tell(Rule::on_any("/v2.0/").at_random(7, 400).answer(500, "{}"));
        let mut failed = Vec::new();
        for _ in 0..10 {
            failed.push(api.get("networks?fields=id&limit=1").await.status == 500);
        }
        failed
    };
    let failed = series().await;
    assert!(failed.contains(&true) && failed.contains(&false), "{failed:?}");
    assert_eq!(series().await, failed, "one seed, one series");
    proxy.pass();

    proxy.set_gone(true);
    create("p4").await.expect_err("it is gone");
    proxy.set_gone(false);
    assert_eq!(create("p4").await, Ok(201));
}
