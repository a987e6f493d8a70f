//! From a traffic router to Envoy's route configuration.

use prost::{Message, Name};

use super::convert::type_url;
use super::rule::{Cluster, Destination, HttpRoute, Refusal, RequestMatch, Router, StringMatch};
use super::wire::Any;
use super::wire::envoy::config::core::v3::TypedExtensionConfig;
use super::wire::envoy::config::route::v3::{
    ClusterSpecifierPlugin, HeaderMatcher, QueryParameterMatcher, Route, RouteAction, RouteConfiguration,
    RouteMatch, VirtualHost, WeightedCluster, header_matcher::HeaderMatchSpecifier,
    query_parameter_matcher::QueryParameterMatchSpecifier, route::Action, route_action::ClusterSpecifier,
    route_match::PathSpecifier, weighted_cluster::ClusterWeight,
};
use super::wire::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher, string_matcher::MatchPattern};
use super::wire::router::v1::ClusterFallbackConfigClusterConfig;

/// The plugin that data planes know to have a fallback.
const FALLBACK: &str = "envoy.router.cluster_specifier_plugin.cluster_fallback";

/// The configuration. Both names are the object's: clients take the service from it.
pub(super) fn configuration(
    namespace: &str,
    name: &str,
    router: &Router,
) -> Result<RouteConfiguration, Refusal> {
    // Whoever gets one without a host, or with weights of nothing, refuses it as a whole.
    if router.hosts.is_empty() {
        return Err(Refusal::new("spec.hosts", "there is no host"));
    }
    let mut routes = Vec::new();
    for (at, http) in router.http.iter().enumerate() {
        let action = action(namespace, &format!("spec.http[{at}].route"), http)?;
        // Entries are alternatives; without any, all requests match.
        let all = [RequestMatch::default()];
        let matches = if http.matches.is_empty() { &all[..] } else { &http.matches };
        routes.extend(matches.iter().map(|request| Route {
            r#match: Some(route_match(request)),
            action: Some(Action::Route(action.clone())),
        }));
    }
    let domains = router.hosts.iter().map(|host| qualified(namespace, host)).collect();
    Ok(RouteConfiguration {
        name: name.into(),
        virtual_hosts: vec![VirtualHost { name: name.into(), domains, routes }],
    })
}

/// A host by its full name. One with a dot is full already, and so is a wildcard.
fn qualified(namespace: &str, host: &str) -> String {
    if host.contains(['.', '*']) { host.into() } else { format!("{host}.{namespace}.svc.cluster.local") }
}

fn cluster_name(namespace: &str, Cluster { host, subset }: &Cluster) -> String {
    format!("outbound||{subset}|{}", qualified(namespace, host))
}

fn action(namespace: &str, field: &str, http: &HttpRoute) -> Result<RouteAction, Refusal> {
    let name = |cluster: &Cluster| cluster_name(namespace, cluster);
    let specifier = match &http.destinations[..] {
        [] => return Err(Refusal::new(field, "there is no destination")),
        [Destination { to, fallback: None, .. }] => ClusterSpecifier::Cluster(name(to)),
        [Destination { to, fallback: Some(fallback), .. }] => {
            ClusterSpecifier::InlineClusterSpecifierPlugin(with_fallback(name(to), name(fallback)))
        }
        several => {
            let mut clusters = Vec::new();
            for (at, Destination { to, fallback, weight }) in several.iter().enumerate() {
                let field = format!("{field}[{at}]");
                if fallback.is_some() {
                    let why = "a fallback cannot be carried beside other destinations";
                    return Err(Refusal::new(format!("{field}.destination.fallback"), why));
                }
                let Some(weight) = *weight else {
                    return Err(Refusal::new(
                        format!("{field}.weight"),
                        "of several destinations each needs one",
                    ));
                };
                clusters.push(ClusterWeight { name: name(to), weight: Some(weight) });
            }
            let sum: u64 =
                clusters.iter().filter_map(|cluster: &ClusterWeight| cluster.weight).map(u64::from).sum();
            if sum == 0 {
                return Err(Refusal::new(field, "the weights add up to nothing"));
            }
            if sum > u32::MAX.into() {
                return Err(Refusal::new(field, "the weights add up to more than can be carried"));
            }
            ClusterSpecifier::WeightedClusters(WeightedCluster { clusters })
        }
    };
    Ok(RouteAction { cluster_specifier: Some(specifier) })
}

fn with_fallback(routing_cluster: String, fallback_cluster: String) -> ClusterSpecifierPlugin {
    let config = ClusterFallbackConfigClusterConfig { routing_cluster, fallback_cluster };
    let type_url = type_url(&ClusterFallbackConfigClusterConfig::full_name());
    let typed_config = Some(Any { type_url, value: config.encode_to_vec() });
    ClusterSpecifierPlugin { extension: Some(TypedExtensionConfig { name: FALLBACK.into(), typed_config }) }
}

fn route_match(request: &RequestMatch) -> RouteMatch {
    let path = match &request.uri {
        None => PathSpecifier::Prefix("/".into()),
        Some(StringMatch::Exact(text)) => PathSpecifier::Path(text.clone()),
        Some(StringMatch::Prefix(text)) => PathSpecifier::Prefix(text.clone()),
        Some(StringMatch::Regex(text)) => PathSpecifier::SafeRegex(regex(text)),
    };
    RouteMatch {
        path_specifier: Some(path),
        headers: request.headers.iter().map(|(name, text)| header(name, text)).collect(),
        query_parameters: request.query_params.iter().map(|(name, text)| query(name, text)).collect(),
    }
}

fn header(name: &str, text: &StringMatch) -> HeaderMatcher {
    let specifier = match text {
        StringMatch::Exact(text) => HeaderMatchSpecifier::ExactMatch(text.clone()),
        StringMatch::Prefix(text) => HeaderMatchSpecifier::PrefixMatch(text.clone()),
        StringMatch::Regex(text) => HeaderMatchSpecifier::SafeRegexMatch(regex(text)),
    };
    HeaderMatcher { name: name.into(), header_match_specifier: Some(specifier) }
}

fn query(name: &str, text: &StringMatch) -> QueryParameterMatcher {
    let pattern = match text {
        StringMatch::Exact(text) => MatchPattern::Exact(text.clone()),
        StringMatch::Prefix(text) => MatchPattern::Prefix(text.clone()),
        StringMatch::Regex(text) => MatchPattern::SafeRegex(regex(text)),
    };
    let matcher = StringMatcher { match_pattern: Some(pattern) };
    QueryParameterMatcher {
        name: name.into(),
        query_parameter_match_specifier: Some(QueryParameterMatchSpecifier::StringMatch(matcher)),
    }
}

fn regex(text: &str) -> RegexMatcher {
    RegexMatcher { regex: text.into() }
}
