//! What a look brings, and what it costs.

use cloud::{Proxy, Rule};
use hyper::Method;
use serde_json::json;

use super::*;

fn names(held: &[Held]) -> Vec<&str> {
    let mut names: Vec<_> = held.iter().filter_map(|held| held.name.as_deref()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn all_that_has_a_mark_of_ours_is_seen_and_nothing_else() {
    let server = neutron().await;
    let (neutron, home) = (at(&server.url()), home("marks"));
    let id = made(&neutron, &home, "both").await.id;
    tagged(&neutron, &id, home.tags("u")).await;
    made(&neutron, &home, "unfinished").await;
    let adopted = server.api().create("network", json!({"name": "adopted"})).await;
    tagged(&neutron, adopted["id"].as_str().expect("an id"), home.tags("v")).await;
    made(&neutron, &super::home("marks-of-others"), "others").await;
    server.api().create("network", json!({"name": "nobodys"})).await;
    assert_eq!(names(&all(&neutron, &home).await), ["adopted", "both", "unfinished"]);
}

#[tokio::test]
async fn a_foreign_subnet_in_our_network_is_seen() {
    let server = neutron().await;
    let (neutron, home) = (at(&server.url()), home("foreign"));
    let id = made(&neutron, &home, "a").await.id;
    given_subnet(&neutron, &home, &id, spec("10.1.0.0/24")).await;
    let body = json!({"network_id": id, "ip_version": 4, "cidr": "10.2.0.0/24", "gateway_ip": null});
    let foreign = server.api().create("subnet", body).await;
    let foreign = foreign["id"].as_str().expect("an id");
    for look in [Look::All, clue("u", "a", &[])] {
        let held = neutron.look(&home, &look).await.expect("a look").remove(0);
        assert_eq!(held.subnets.len(), 2);
        assert_eq!((held.subnets[foreign].gateway, &*held.subnets[foreign].description), (None, ""));
    }
}

#[tokio::test]
async fn one_objects_network_is_found_by_its_tag_by_its_name_and_by_its_id() {
    let server = neutron().await;
    let (neutron, home) = (at(&server.url()), home("one"));
    let tagged_id = made(&neutron, &home, "renamed").await.id;
    tagged(&neutron, &tagged_id, home.tags("u1")).await;
    made(&neutron, &home, "a b&c").await;
    made(&neutron, &home, "another").await;
    let nobodys = server.api().create("network", json!({"name": "nobodys"})).await;
    let id = nobodys["id"].as_str().expect("an id");
    let look = async |look: Look| neutron.look(&home, &look).await.expect("a look");
    assert_eq!(names(&look(clue("u1", "x", &[])).await), ["renamed"]);
    assert_eq!(names(&look(clue("u2", "a b&c", &[])).await), ["a b&c"]);
    assert_eq!(names(&look(clue("u1", "a b&c", &[id])).await), ["a b&c", "nobodys", "renamed"]);
    let odd = ["", "a&name=another", "../../v3", "no-such", &"x".repeat(9999)];
    assert_eq!(names(&look(clue("u2", "x", &odd)).await), Vec::<&str>::new());
}

#[tokio::test]
async fn an_unchanged_cloud_costs_five_lists() {
    let proxy = Proxy::start(&neutron().await.url()).await;
    let (neutron, home) = (at(&proxy.url()), home("cost"));
    for name in ["a", "b", "c", "d"] {
        let id = made(&neutron, &home, name).await.id;
        given_subnet(&neutron, &home, &id, spec("10.1.0.0/24")).await;
    }
    proxy.forget();
    assert_eq!(all(&neutron, &home).await.len(), 4);
    assert_eq!(proxy.requests().len(), 5);
    proxy.forget();
    // Without an id of its own nobody else can go by it.
    neutron.look(&Home::new(None, "cost"), &Look::All).await.expect("a look");
    assert_eq!(proxy.requests().len(), 4);
    proxy.forget();
    let one = neutron.look(&home, &clue("u", "b", &[])).await.expect("a look");
    assert_eq!((names(&one), one[0].subnets.len()), (vec!["b"], 1));
    assert_eq!(proxy.requests().len(), 3);
}

#[tokio::test]
async fn pages_are_followed_whatever_links_say_and_again_when_one_is_lost() {
    let server = cloud::Neutron::start(Settings { page: Some(2), ..Settings::default() }).await;
    let proxy = Proxy::start(&server.url()).await;
    let (neutron, home) = (at(&proxy.url()), home("pages"));
    for number in 0..7 {
        let id = made(&neutron, &home, &format!("n{number}")).await.id;
        tagged(&neutron, &id, home.tags("u")).await;
        for cidr in ["10.1.0.0/24", "10.2.0.0/24"] {
            given_subnet(&neutron, &home, &id, spec(cidr)).await;
        }
    }
    let before = all(&neutron, &home).await;
    assert_eq!((before.len(), before.iter().map(|held| held.subnets.len()).sum::<usize>()), (7, 14));

    // The last one of the first page is deleted before the second is asked for.
    let gone =
        json!({"NeutronError": {"type": "NetworkNotFound", "message": "gone", "detail": ""}}).to_string();
    let lost = || {
        Rule::on(Method::GET, "/v2.0/networks?limit=500&tags=causeway-home")
            .after(1)
            .answer(404, gone.clone())
    };
    proxy.tell(lost().times(1));
    assert_eq!(all(&neutron, &home).await, before);
    proxy.pass();
    proxy.tell(lost());
    let result = neutron.look(&home, &Look::All).await;
    assert!(matches!(result, Err(Trouble::Refused(_))), "a list without its first page is none: {result:?}");
}

#[tokio::test]
async fn what_a_server_adds_because_it_ignores_filters_is_left_out() {
    let proxy = Proxy::start(&neutron().await.url()).await;
    let (neutron, home) = (at(&proxy.url()), home("ignored"));
    let network = |id: &str, tags: BTreeSet<String>| json!({"id": id, "name": id, "description": "", "tags": tags, "subnets": []});
    let rows = [network("n1", BTreeSet::new()), network("n2", home.tags("u"))];
    proxy.tell(Rule::on(Method::GET, "/v2.0/networks").answer(200, json!({"networks": rows}).to_string()));
    assert_eq!(names(&all(&neutron, &home).await), ["n2"]);
    let one = neutron.look(&home, &clue("w", "n1", &[])).await.expect("a look");
    assert_eq!(names(&one), Vec::<&str>::new());
}
