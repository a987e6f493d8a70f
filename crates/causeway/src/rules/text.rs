//! Messages in words.

use causeway_core::rules::wire::common::v1::TimeUnit;
use causeway_core::rules::wire::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use causeway_core::rules::wire::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use causeway_core::rules::wire::envoy::config::route::v3::route::Action;
use causeway_core::rules::wire::envoy::config::route::v3::route_action::ClusterSpecifier;
use causeway_core::rules::wire::envoy::config::route::v3::route_match::PathSpecifier;
use causeway_core::rules::wire::envoy::config::route::v3::{
    HeaderMatcher, QueryParameterMatcher, Route, RouteAction, RouteConfiguration, RouteMatch,
};
use causeway_core::rules::wire::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use causeway_core::rules::wire::fault_tolerance::v1::circuit_breaker_strategy::Strategy;
use causeway_core::rules::wire::fault_tolerance::v1::{
    CircuitBreakerStrategy, FaultToleranceRule, concurrency_limit_strategy, rate_limit_strategy,
};

use super::decode::Message;
use super::json::fallback;

/// A rule, in one line or more.
pub(crate) fn rule(message: &Message) -> Vec<String> {
    let lines = match message {
        Message::Tolerance(rule) => vec![tolerance(rule)],
        Message::RateLimit(rule) => {
            let mode = match rule.limit_mode() {
                rate_limit_strategy::LimitMode::ModeUnknown => "unknown mode",
                rate_limit_strategy::LimitMode::ModeLocal => "each process",
                rate_limit_strategy::LimitMode::ModeGlobal => "all processes together",
            };
            let time = span(rule.stat_duration.into(), rule.stat_duration_time_unit());
            vec![format!("{}: {} requests in {time}, {mode}", rule.name, rule.threshold)]
        }
        Message::Throttling(rule) => {
            let (every, wait) = (rule.min_interval_millis_of_requests, rule.queue_timeout_millis);
            vec![format!("{}: a request every {every} ms, waiting {wait} ms at most", rule.name)]
        }
        Message::ConcurrencyLimit(rule) => {
            let mode = match rule.limit_mode() {
                concurrency_limit_strategy::LimitMode::ModeUnknown => "unknown mode",
                concurrency_limit_strategy::LimitMode::ModeLocal => "each process",
                concurrency_limit_strategy::LimitMode::ModeGlobal => "all processes together",
            };
            vec![format!("{}: {} requests at once, {mode}", rule.name, rule.max_concurrency)]
        }
        Message::CircuitBreaker(rule) => vec![breaker(rule)],
        Message::Routes(rule) => routes(rule),
    };
    lines.iter().map(|line| plain(line)).collect()
}

/// Without what would move a terminal's cursor.
pub(crate) fn plain(text: &str) -> String {
    let safe = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    text.chars().map(safe).collect()
}

fn span(count: i64, unit: TimeUnit) -> String {
    let unit = match unit {
        TimeUnit::Unknown => "of no unit",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Second => "s",
        TimeUnit::Minute => "min",
        TimeUnit::Hour => "h",
        TimeUnit::Day => "d",
    };
    format!("{count} {unit}")
}

fn tolerance(rule: &FaultToleranceRule) -> String {
    let targets: Vec<&str> = rule.targets.iter().map(|it| it.target_resource_name.as_str()).collect();
    let strategies: Vec<String> =
        rule.strategies.iter().map(|it| format!("{} {}", it.kind, it.name)).collect();
    let action = rule.action.as_ref().map(|it| format!(", then {} {}", it.kind, it.name));
    format!("{}: {}{}", targets.join(", "), strategies.join(", "), action.unwrap_or_default())
}

fn breaker(rule: &CircuitBreakerStrategy) -> String {
    let what = match (rule.strategy(), &rule.slow_condition) {
        (Strategy::SlowRequestRatio, Some(slow)) => format!("take over {} ms", slow.max_allowed_rt_millis),
        (Strategy::SlowRequestRatio, None) => "are slow".into(),
        (Strategy::ErrorRequestRatio, _) => "fail".into(),
        (Strategy::Unknown, _) => "are as an unknown strategy says".into(),
    };
    let pause = span(rule.recovery_timeout.into(), rule.recovery_timeout_time_unit());
    let time = span(rule.stat_duration, rule.stat_duration_time_unit());
    // A hundredth of a percent is as fine as anybody means it.
    let (ratio, least) = ((rule.trigger_ratio * 10_000.0).round() / 100.0, rule.min_request_amount);
    format!("{}: none for {pause} when {ratio}% of at least {least} requests in {time} {what}", rule.name)
}

fn routes(rule: &RouteConfiguration) -> Vec<String> {
    let hosts = rule.virtual_hosts.iter();
    let mut lines = Vec::new();
    for host in hosts {
        lines.push(format!("{}: {}", rule.name, host.domains.join(", ")));
        lines.extend(host.routes.iter().map(|it| format!("  {}", route(it))));
    }
    if lines.is_empty() {
        lines.push(format!("{}: no host", rule.name));
    }
    lines
}

fn route(route: &Route) -> String {
    let request = route.r#match.as_ref().map_or_else(|| "any request".into(), request);
    let action = match &route.action {
        Some(Action::Route(it)) => action(it),
        None => "nowhere".into(),
    };
    format!("{request} → {action}")
}

fn request(request: &RouteMatch) -> String {
    let path = match &request.path_specifier {
        Some(PathSpecifier::Prefix(text)) => format!("path {text}*"),
        Some(PathSpecifier::Path(text)) => format!("path {text}"),
        Some(PathSpecifier::SafeRegex(regex)) => format!("path ~ {}", regex.regex),
        None => "any path".into(),
    };
    let parts = request.headers.iter().map(header).chain(request.query_parameters.iter().map(query));
    std::iter::once(path).chain(parts).collect::<Vec<_>>().join(", ")
}

fn header(header: &HeaderMatcher) -> String {
    let value = match &header.header_match_specifier {
        Some(HeaderMatchSpecifier::ExactMatch(text)) => format!("= {text}"),
        Some(HeaderMatchSpecifier::PrefixMatch(text)) => format!("= {text}*"),
        Some(HeaderMatchSpecifier::SafeRegexMatch(regex)) => format!("~ {}", regex.regex),
        None => "is there".into(),
    };
    format!("header {} {value}", header.name)
}

fn query(query: &QueryParameterMatcher) -> String {
    let pattern = query.query_parameter_match_specifier.as_ref();
    let pattern = pattern.and_then(|QueryParameterMatchSpecifier::StringMatch(it)| it.match_pattern.as_ref());
    let value = match pattern {
        Some(MatchPattern::Exact(text)) => format!("= {text}"),
        Some(MatchPattern::Prefix(text)) => format!("= {text}*"),
        Some(MatchPattern::SafeRegex(regex)) => format!("~ {}", regex.regex),
        None => "is there".into(),
    };
    format!("query {} {value}", query.name)
}

fn action(action: &RouteAction) -> String {
    match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) => name.clone(),
        Some(ClusterSpecifier::WeightedClusters(weighted)) => {
            let weighted = weighted.clusters.iter();
            let parts = weighted.map(|it| format!("{} ({})", it.name, it.weight.unwrap_or_default()));
            parts.collect::<Vec<_>>().join(", ")
        }
        Some(ClusterSpecifier::InlineClusterSpecifierPlugin(plugin)) => {
            let extension = plugin.extension.as_ref();
            let config = extension.and_then(|it| it.typed_config.as_ref()).and_then(fallback);
            match config {
                Some(it) => format!("{}, else {}", it.routing_cluster, it.fallback_cluster),
                None => format!("as plugin {} says", extension.map_or("?", |it| it.name.as_str())),
            }
        }
        None => "nowhere".into(),
    }
}
