//! How far a switch got, as the VPC's record says.

use causeway_core::GatewayName;
use causeway_core::vpc::exchange::Record;

/// How far a switch got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is not granted yet.
    Asked,
    /// It is, and routes are still to be moved.
    Moving,
    /// All has moved that should.
    Done,
    /// It was granted, and another one is the main one since.
    Overtaken(Option<GatewayName>),
}

/// Reads it.
pub(super) fn of(record: Option<&Record>, wish: &str, to: &GatewayName) -> Progress {
    let Some(record) = record.filter(|record| record.switched.as_deref() == Some(wish)) else {
        return Progress::Asked;
    };
    match (record.gateway.as_ref() == Some(to), record.moving.is_empty()) {
        (false, _) => Progress::Overtaken(record.gateway.clone()),
        (true, false) => Progress::Moving,
        (true, true) => Progress::Done,
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::vpc::parse;
    use serde_json::json;

    use super::*;

    fn record(gateway: &str, switched: Option<&str>, moving: Option<&str>) -> Record {
        let object = json!({
            "apiVersion": "kubeovn.ustc.io/v1", "kind": "GatewayExIp", "spec": {},
            "metadata": {
                "name": "v.c1", "namespace": "kube-system",
                "labels": { "localGateway": gateway, "localCluster": "c1", "localVpc": "v" },
                "annotations": { "causeway/switched": switched, "causeway/moving-from": moving },
            },
        });
        let mut object = object;
        let annotations = object["metadata"]["annotations"].as_object_mut().expect("annotations");
        annotations.retain(|_, value| !value.is_null());
        parse::record(&serde_json::from_value(object).expect("a record")).expect("a key")
    }

    #[test]
    fn a_switch_is_done_when_this_very_wish_is_granted_and_nothing_is_left_to_move() {
        let to: GatewayName = "gw2".parse().expect("a name");
        let of = |record: Option<Record>| of(record.as_ref(), "gw2 now", &to);
        assert_eq!(of(None), Progress::Asked);
        assert_eq!(of(Some(record("gw2", Some("gw2 before"), None))), Progress::Asked, "an earlier wish");
        let moving = record("gw2", Some("gw2 now"), Some("10.0.1.254/tunnels"));
        assert_eq!(of(Some(moving)), Progress::Moving);
        assert_eq!(of(Some(record("gw2", Some("gw2 now"), None))), Progress::Done);
        let lost = of(Some(record("gw1", Some("gw2 now"), None)));
        assert_eq!(lost, Progress::Overtaken("gw1".parse().ok()), "it was lost right after");
    }
}
