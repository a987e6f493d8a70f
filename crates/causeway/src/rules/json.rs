//! Messages as JSON: fields by the names that protobuf's JSON gives them, enums by theirs, numbers as numbers.

use causeway_core::rules::wire::Any;
use causeway_core::rules::wire::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use causeway_core::rules::wire::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use causeway_core::rules::wire::envoy::config::route::v3::route::Action;
use causeway_core::rules::wire::envoy::config::route::v3::route_action::ClusterSpecifier;
use causeway_core::rules::wire::envoy::config::route::v3::route_match::PathSpecifier;
use causeway_core::rules::wire::envoy::config::route::v3::{
    ClusterSpecifierPlugin, HeaderMatcher, QueryParameterMatcher, Route, RouteAction, RouteMatch, VirtualHost,
};
use causeway_core::rules::wire::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use causeway_core::rules::wire::fault_tolerance::v1::{CircuitBreakerStrategy, FaultToleranceRule};
use causeway_core::rules::wire::router::v1::ClusterFallbackConfigClusterConfig;
use prost::Message as _;
use serde_json::{Map, Value, json};

use super::decode::Message;

/// A rule.
pub(super) fn rule(message: &Message) -> Value {
    match message {
        Message::Tolerance(rule) => tolerance(rule),
        Message::RateLimit(rule) => json!({
            "name": rule.name,
            "metricType": rule.metric_type().as_str_name(),
            "limitMode": rule.limit_mode().as_str_name(),
            "threshold": rule.threshold,
            "statDuration": rule.stat_duration,
            "statDurationTimeUnit": rule.stat_duration_time_unit().as_str_name(),
        }),
        Message::Throttling(rule) => json!({
            "name": rule.name,
            "minIntervalMillisOfRequests": rule.min_interval_millis_of_requests,
            "queueTimeoutMillis": rule.queue_timeout_millis,
        }),
        Message::ConcurrencyLimit(rule) => json!({
            "name": rule.name,
            "limitMode": rule.limit_mode().as_str_name(),
            "maxConcurrency": rule.max_concurrency,
        }),
        Message::CircuitBreaker(rule) => breaker(rule),
        Message::Routes(rule) => json!({
            "name": rule.name,
            "virtualHosts": rule.virtual_hosts.iter().map(host).collect::<Vec<_>>(),
        }),
    }
}

fn tolerance(rule: &FaultToleranceRule) -> Value {
    let targets = rule.targets.iter().map(|it| json!({ "targetResourceName": it.target_resource_name }));
    let strategies = rule.strategies.iter().map(|it| json!({ "name": it.name, "kind": it.kind }));
    let mut fields = Map::new();
    fields.insert("targets".into(), targets.collect());
    fields.insert("strategies".into(), strategies.collect());
    if let Some(action) = &rule.action {
        fields.insert("action".into(), json!({ "name": action.name, "kind": action.kind }));
    }
    Value::Object(fields)
}

fn breaker(rule: &CircuitBreakerStrategy) -> Value {
    let mut fields = json!({
        "name": rule.name,
        "strategy": rule.strategy().as_str_name(),
        "triggerRatio": rule.trigger_ratio,
        "statDuration": rule.stat_duration,
        "statDurationTimeUnit": rule.stat_duration_time_unit().as_str_name(),
        "recoveryTimeout": rule.recovery_timeout,
        "recoveryTimeoutTimeUnit": rule.recovery_timeout_time_unit().as_str_name(),
        "minRequestAmount": rule.min_request_amount,
    });
    if let Some(slow) = &rule.slow_condition {
        fields["slowCondition"] = json!({ "maxAllowedRtMillis": slow.max_allowed_rt_millis });
    }
    if rule.error_condition.is_some() {
        fields["errorCondition"] = json!({});
    }
    fields
}

fn host(host: &VirtualHost) -> Value {
    let routes: Vec<Value> = host.routes.iter().map(route).collect();
    json!({ "name": host.name, "domains": host.domains, "routes": routes })
}

fn route(route: &Route) -> Value {
    let mut fields = Map::new();
    if let Some(it) = &route.r#match {
        fields.insert("match".into(), request(it));
    }
    if let Some(Action::Route(it)) = &route.action {
        fields.insert("route".into(), action(it));
    }
    Value::Object(fields)
}

fn request(request: &RouteMatch) -> Value {
    let mut fields = Map::new();
    match &request.path_specifier {
        Some(PathSpecifier::Prefix(text)) => drop(fields.insert("prefix".into(), json!(text))),
        Some(PathSpecifier::Path(text)) => drop(fields.insert("path".into(), json!(text))),
        Some(PathSpecifier::SafeRegex(regex)) => {
            fields.insert("safeRegex".into(), json!({ "regex": regex.regex }));
        }
        None => {}
    }
    if !request.headers.is_empty() {
        fields.insert("headers".into(), request.headers.iter().map(header).collect());
    }
    if !request.query_parameters.is_empty() {
        fields.insert("queryParameters".into(), request.query_parameters.iter().map(query).collect());
    }
    Value::Object(fields)
}

fn header(header: &HeaderMatcher) -> Value {
    match &header.header_match_specifier {
        Some(HeaderMatchSpecifier::ExactMatch(text)) => json!({ "name": header.name, "exactMatch": text }),
        Some(HeaderMatchSpecifier::PrefixMatch(text)) => json!({ "name": header.name, "prefixMatch": text }),
        Some(HeaderMatchSpecifier::SafeRegexMatch(regex)) => {
            json!({ "name": header.name, "safeRegexMatch": { "regex": regex.regex } })
        }
        None => json!({ "name": header.name }),
    }
}

fn query(query: &QueryParameterMatcher) -> Value {
    let Some(QueryParameterMatchSpecifier::StringMatch(text)) = &query.query_parameter_match_specifier else {
        return json!({ "name": query.name });
    };
    let text = match &text.match_pattern {
        Some(MatchPattern::Exact(text)) => json!({ "exact": text }),
        Some(MatchPattern::Prefix(text)) => json!({ "prefix": text }),
        Some(MatchPattern::SafeRegex(regex)) => json!({ "safeRegex": { "regex": regex.regex } }),
        None => json!({}),
    };
    json!({ "name": query.name, "stringMatch": text })
}

fn action(action: &RouteAction) -> Value {
    match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) => json!({ "cluster": name }),
        Some(ClusterSpecifier::WeightedClusters(weighted)) => {
            let clusters = weighted.clusters.iter().map(|it| json!({ "name": it.name, "weight": it.weight }));
            json!({ "weightedClusters": { "clusters": clusters.collect::<Vec<_>>() } })
        }
        Some(ClusterSpecifier::InlineClusterSpecifierPlugin(plugin)) => {
            json!({ "inlineClusterSpecifierPlugin": { "extension": extension(plugin) } })
        }
        None => json!({}),
    }
}

fn extension(plugin: &ClusterSpecifierPlugin) -> Value {
    let Some(extension) = &plugin.extension else { return json!({}) };
    let config = extension.typed_config.as_ref().map(|any| match fallback(any) {
        Some(config) => json!({ "@type": any.type_url, "RoutingCluster": config.routing_cluster,
                                "FallbackCluster": config.fallback_cluster }),
        None => json!({ "@type": any.type_url }),
    });
    json!({ "name": extension.name, "typedConfig": config })
}

/// What a plugin's configuration says, if it is the one for fallbacks.
pub(super) fn fallback(any: &Any) -> Option<ClusterFallbackConfigClusterConfig> {
    use prost::Name;
    let (_, name) = any.type_url.rsplit_once('/')?;
    let is_known = name == ClusterFallbackConfigClusterConfig::full_name();
    is_known.then(|| ClusterFallbackConfigClusterConfig::decode(any.value.as_slice()).ok()).flatten()
}
