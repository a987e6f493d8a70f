//! What the server says it was asked for: `apiserver_request_total` of its metrics. A watch and an exec are counted
//! when they end, so monitors are not.

use causeway_apiserver::RequestCount;
use kube::Client;
use kube::api::GetParams;
use kube::core::Request;

const METRIC: &str = "apiserver_request_total{";
/// What nobody but the controller and we ask for; the server has business of its own in the rest.
const OURS: [&str; 4] = ["vpcnattunnels", "gatewayexips", "events", "pods"];

pub(super) async fn read(client: &Client) -> anyhow::Result<Vec<RequestCount>> {
    let text = client.request_text(Request::new("").get("metrics", &GetParams::default())?).await?;
    Ok(text.lines().filter_map(parse).filter(is_ours).collect())
}

/// We make pods and list them; commands in them are the controller's.
fn is_ours(count: &RequestCount) -> bool {
    OURS.contains(&count.resource.as_str()) && (count.resource != "pods" || count.subresource == "exec")
}

/// `apiserver_request_total{code="201",…,resource="pods",…,verb="POST",version="v1"} 20`
fn parse(line: &str) -> Option<RequestCount> {
    let (labels, count) = line.strip_prefix(METRIC)?.rsplit_once("} ")?;
    let label = |name: &str| {
        let (_, behind) = labels.split_once(&format!("{name}=\""))?;
        behind.split_once('"').map(|(value, _)| value)
    };
    Some(RequestCount {
        verb: verb(label("verb")?),
        // `resource` is the end of `subresource` too, which comes later.
        resource: label("resource")?.into(),
        subresource: label("subresource")?.into(),
        code: label("code")?.parse().ok()?,
        count: count.trim().parse::<f64>().ok()? as u64,
    })
}

fn verb(method: &str) -> String {
    match method {
        "POST" => "create".into(),
        "PUT" => "update".into(),
        "APPLY" => "patch".into(),
        other => other.to_lowercase(),
    }
}
