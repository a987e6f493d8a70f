//! The bytes of a traffic router: Envoy's route configuration, by its table of fields.

use causeway_core::rules::rule::{Cluster, Destination, HttpRoute, RequestMatch, Router, StringMatch};
use causeway_core::rules::{Rule, convert};

use crate::protobuf::{any, inner, message, number, text};

fn to(host: &str, subset: &str) -> Cluster {
    Cluster { host: host.into(), subset: subset.into() }
}

fn destination(host: &str, subset: &str) -> Destination {
    Destination { to: to(host, subset), ..Destination::default() }
}

fn weighted(host: &str, subset: &str, weight: u32) -> Destination {
    Destination { weight: Some(weight), ..destination(host, subset) }
}

fn exact(text: &str) -> StringMatch {
    StringMatch::Exact(text.into())
}

fn prefix(text: &str) -> StringMatch {
    StringMatch::Prefix(text.into())
}

fn regex(text: &str) -> StringMatch {
    StringMatch::Regex(text.into())
}

fn uri(uri: StringMatch) -> RequestMatch {
    RequestMatch { uri: Some(uri), ..RequestMatch::default() }
}

/// A router of one route.
fn router(hosts: &[&str], matches: Vec<RequestMatch>, destinations: Vec<Destination>) -> Rule {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    Rule::Router(Router { hosts, http: vec![HttpRoute { matches, destinations }] })
}

fn converted(rule: &Rule) -> Vec<u8> {
    convert::message("default", "mine", rule).expect("it can be carried").value
}

/// The configuration of the router `mine`, with these domains and routes.
fn configuration(domains: &[&str], routes: &[Vec<u8>]) -> Vec<u8> {
    let domains = domains.iter().flat_map(|domain| text(2, domain)).collect();
    message([text(1, "mine"), inner(2, [text(1, "mine"), domains, routes.concat()])])
}

const REVIEWS: &str = "reviews.default.svc.cluster.local";
const V1: &str = "outbound||v1|reviews.default.svc.cluster.local";
const V2: &str = "outbound||v2|reviews.default.svc.cluster.local";

/// The router of one destination, with what matches.
fn matching(matches: Vec<RequestMatch>) -> Vec<u8> {
    converted(&router(&["reviews"], matches, vec![destination("reviews", "v1")]))
}

/// That, by hand: one route for each match.
fn matched<const N: usize>(matches: [Vec<u8>; N]) -> Vec<u8> {
    let route = |fields: Vec<u8>| inner(3, [inner(1, [fields]), inner(2, [text(1, V1)])]);
    configuration(&[REVIEWS], &matches.map(route))
}

/// The router of all requests, with its destinations.
fn leading(destinations: Vec<Destination>) -> Vec<u8> {
    converted(&router(&["reviews"], vec![], destinations))
}

/// That, by hand: with this route action.
fn led(action: Vec<u8>) -> Vec<u8> {
    configuration(&[REVIEWS], &[inner(3, [inner(1, [text(1, "/")]), inner(2, [action])])])
}

#[test]
fn without_a_match_everything_is_routed() {
    assert_eq!(matching(vec![]), matched([text(1, "/")]));
    assert_eq!(
        matching(vec![RequestMatch::default()]),
        matched([text(1, "/")]),
        "nor with one that says nothing"
    );
}

#[test]
fn a_path_is_exact_a_prefix_or_an_expression() {
    assert_eq!(matching(vec![uri(prefix("/api"))]), matched([text(1, "/api")]));
    assert_eq!(matching(vec![uri(exact("/api"))]), matched([text(2, "/api")]));
    assert_eq!(matching(vec![uri(regex("/a.*"))]), matched([inner(10, [text(2, "/a.*")])]));
}

#[test]
fn entries_are_alternatives_and_each_is_a_route() {
    let matches = vec![uri(exact("/a")), uri(prefix("/b")), RequestMatch::default()];
    assert_eq!(matching(matches), matched([text(2, "/a"), text(1, "/b"), text(1, "/")]));
}

#[test]
fn headers_are_exact_a_prefix_or_an_expression() {
    let headers = [("x-a", exact("1")), ("x-b", prefix("2")), ("x-c", regex("3+")), ("x-d", exact(""))];
    let headers = headers.map(|(name, value)| (name.to_owned(), value)).into();
    let fields = message([
        text(1, "/"),
        inner(6, [text(1, "x-a"), text(4, "1")]),
        inner(6, [text(1, "x-b"), text(9, "2")]),
        inner(6, [text(1, "x-c"), inner(11, [text(2, "3+")])]),
        inner(6, [text(1, "x-d"), text(4, "")]),
    ]);
    assert_eq!(matching(vec![RequestMatch { headers, ..RequestMatch::default() }]), matched([fields]));
}

#[test]
fn query_parameters_are_exact_a_prefix_or_an_expression() {
    let query_params = [("a", exact("1")), ("b", prefix("2")), ("c", regex("3+"))];
    let query_params = query_params.map(|(name, value)| (name.to_owned(), value)).into();
    let fields = message([
        text(1, "/"),
        inner(7, [text(1, "a"), inner(5, [text(1, "1")])]),
        inner(7, [text(1, "b"), inner(5, [text(2, "2")])]),
        inner(7, [text(1, "c"), inner(5, [inner(5, [text(2, "3+")])])]),
    ]);
    assert_eq!(matching(vec![RequestMatch { query_params, ..RequestMatch::default() }]), matched([fields]));
}

#[test]
fn all_of_one_entry_must_hold() {
    let request = RequestMatch {
        uri: Some(regex("/a.*")),
        headers: vec![("x-a".into(), exact("1"))],
        query_params: vec![("q".into(), exact("2"))],
    };
    // The path comes first, whichever form it has: a choice stands where the first of its fields would.
    let fields = message([
        inner(10, [text(2, "/a.*")]),
        inner(6, [text(1, "x-a"), text(4, "1")]),
        inner(7, [text(1, "q"), inner(5, [text(1, "2")])]),
    ]);
    assert_eq!(matching(vec![request]), matched([fields]));
}

#[test]
fn one_destination_is_a_cluster_and_its_weight_means_nothing() {
    assert_eq!(leading(vec![destination("reviews", "v1")]), led(text(1, V1)));
    assert_eq!(leading(vec![weighted("reviews", "v1", 100)]), led(text(1, V1)));
    let whole = text(1, "outbound|||reviews.default.svc.cluster.local");
    assert_eq!(leading(vec![destination("reviews", "")]), led(whole), "without a subset");
}

#[test]
fn several_destinations_have_weights() {
    let destinations =
        vec![weighted("reviews", "v1", 90), weighted("reviews", "v2", 300), weighted("b.c", "", 0)];
    let clusters = inner(
        3,
        [
            inner(1, [text(1, V1), inner(2, [number(1, 90)])]),
            inner(1, [text(1, V2), inner(2, [number(1, 300)])]),
            inner(1, [text(1, "outbound|||b.c"), inner(2, [])]),
        ],
    );
    assert_eq!(leading(destinations), led(clusters));
}

#[test]
fn a_fallback_is_a_plugin_within_the_route() {
    let with_fallback = Destination { fallback: Some(to("b.c", "")), ..destination("reviews", "v1") };
    let config = message([text(1, V1), text(2, "outbound|||b.c")]);
    let typed = any(2, "io.opensergo.proto.router.v1.ClusterFallbackConfig_ClusterConfig", &config);
    let extension = [text(1, "envoy.router.cluster_specifier_plugin.cluster_fallback"), typed];
    let plugin = inner(39, [inner(1, extension)]);
    assert_eq!(leading(vec![with_fallback]), led(plugin));
}

#[test]
fn hosts_are_called_by_their_full_names() {
    let hosts = ["reviews", "a.b", "*", "*.foo.com", "x.other.svc.cluster.local"];
    let rule = router(&hosts, vec![], vec![destination("reviews", "v1")]);
    let route = inner(3, [inner(1, [text(1, "/")]), inner(2, [text(1, V1)])]);
    let domains = [REVIEWS, "a.b", "*", "*.foo.com", "x.other.svc.cluster.local"];
    assert_eq!(converted(&rule), configuration(&domains, &[route]));
    let elsewhere = convert::message("prod", "mine", &rule).expect("it can be carried").value;
    let has = |name: &str| elsewhere.windows(name.len()).any(|part| part == name.as_bytes());
    assert!(has("reviews.prod.svc.cluster.local") && has("outbound||v1|reviews.prod.svc.cluster.local"));
}

#[test]
fn routes_keep_their_order() {
    let route = |matches, host: &str| HttpRoute { matches, destinations: vec![destination(host, "")] };
    let http = vec![route(vec![uri(exact("/z"))], "z.z"), route(vec![], "a.a")];
    let by_hand = |path, host| inner(3, [inner(1, [path]), inner(2, [text(1, host)])]);
    let routes = [by_hand(text(2, "/z"), "outbound|||z.z"), by_hand(text(1, "/"), "outbound|||a.a")];
    let rule = Rule::Router(Router { hosts: vec!["*".into()], http });
    assert_eq!(converted(&rule), configuration(&["*"], &routes));
}

#[test]
fn what_cannot_be_carried_is_named() {
    let fallback = Destination { fallback: Some(to("b", "")), ..weighted("a", "", 1) };
    let refused = [
        (vec![], "spec.http[0].route"),
        (vec![destination("a", ""), weighted("b", "", 1)], "spec.http[0].route[0].weight"),
        (vec![weighted("b", "", 1), fallback], "spec.http[0].route[1].destination.fallback"),
        (vec![weighted("a", "", 0), weighted("b", "", 0)], "spec.http[0].route"),
        (vec![weighted("a", "", u32::MAX), weighted("b", "", 1)], "spec.http[0].route"),
    ];
    for (destinations, field) in refused {
        let rule = router(&["a"], vec![], destinations);
        let refusal = convert::message("default", "mine", &rule).expect_err(field);
        assert_eq!(refusal.field, field);
    }
    let nobodys = router(&[], vec![], vec![destination("a", "")]);
    assert_eq!(convert::message("default", "mine", &nobodys).expect_err("no host").field, "spec.hosts");
}
