//! The bytes of the transport protocol, by its table of fields.

use causeway_core::rules::wire::transport::v1::{
    ControlPlaneDesc, DataWithVersion, Status, SubscribeLabelKv, SubscribeOpType, SubscribeRequest,
    SubscribeRequestTarget, SubscribeResponse,
};
use causeway_core::rules::wire::{Any, DESCRIPTORS};
use prost::Message as _;
use prost_types::FileDescriptorSet;

use crate::protobuf::{any, bytes, inner, message, number, text};

#[test]
fn a_request_is_read() {
    let request = message([
        inner(
            1,
            [
                text(1, "default"),
                text(2, "foo-app"),
                inner(3, [text(1, "zone"), text(2, "a")]),
                inner(3, [text(1, "tier"), text(2, "web")]),
                text(4, "fault-tolerance.opensergo.io/v1alpha1/RateLimitStrategy"),
                text(4, "traffic.opensergo.io/v1alpha1/TrafficRouter"),
            ],
        ),
        number(2, 1),
        any(4, "some.Attachment", b"xyz"),
        text(6, "client-1"),
        text(7, "42"),
    ]);
    let label = |key: &str, value: &str| SubscribeLabelKv { key: key.into(), value: value.into() };
    let target = SubscribeRequestTarget {
        namespace: "default".into(),
        app: "foo-app".into(),
        labels: vec![label("zone", "a"), label("tier", "web")],
        kinds: vec![
            "fault-tolerance.opensergo.io/v1alpha1/RateLimitStrategy".into(),
            "traffic.opensergo.io/v1alpha1/TrafficRouter".into(),
        ],
    };
    let attachment = Any { type_url: "type.googleapis.com/some.Attachment".into(), value: b"xyz".to_vec() };
    let expected = SubscribeRequest {
        target: Some(target),
        op_type: SubscribeOpType::Unsubscribe.into(),
        response_ack: String::new(),
        attachments: vec![attachment],
        status: None,
        identifier: "client-1".into(),
        request_id: "42".into(),
    };
    assert_eq!(SubscribeRequest::decode(&request[..]), Ok(expected));
}

#[test]
fn an_answer_is_read() {
    let status = [number(1, 4007), text(2, "handler failed"), any(3, "some.Detail", b"d")];
    let answer = message([text(3, "ACK"), inner(5, status), text(7, "7-12")]);
    let read = SubscribeRequest::decode(&answer[..]).expect("it is an answer");
    assert_eq!((read.response_ack.as_str(), read.request_id.as_str()), ("ACK", "7-12"));
    let status = read.status.expect("it has one");
    assert_eq!((status.code, status.message.as_str(), status.details.len()), (4007, "handler failed", 1));
    assert_eq!(read.op_type, i32::from(SubscribeOpType::Subscribe), "which is zero, and not sent");
    let nack = SubscribeRequest::decode(&text(3, "NACK")[..]).expect("it is an answer");
    assert_eq!((nack.response_ack.as_str(), nack.status), ("NACK", None));
}

#[test]
fn a_response_is_written() {
    let rule = Any { type_url: "type.googleapis.com/some.Rule".into(), value: b"rule".to_vec() };
    let response = SubscribeResponse {
        status: Some(Status { code: 200, message: "Get and send rule success".into(), details: vec![] }),
        ack: String::new(),
        namespace: "default".into(),
        app: "foo-app".into(),
        kind: "traffic.opensergo.io/v1alpha1/TrafficRouter".into(),
        data_with_version: Some(DataWithVersion { data: vec![rule], version: 1 << 40 }),
        control_plane: Some(ControlPlaneDesc { identifier: "osg-host".into() }),
        response_id: "7-12".into(),
    };
    let by_hand = message([
        inner(1, [number(1, 200), text(2, "Get and send rule success")]),
        text(3, "default"),
        text(4, "foo-app"),
        text(5, "traffic.opensergo.io/v1alpha1/TrafficRouter"),
        inner(6, [any(1, "some.Rule", b"rule"), number(2, 1 << 40)]),
        inner(7, [text(1, "osg-host")]),
        text(8, "7-12"),
    ]);
    assert_eq!(response.encode_to_vec(), by_hand);
}

#[test]
fn a_refusal_is_written() {
    let detail = Any { type_url: "t".into(), value: b"d".to_vec() };
    let response = SubscribeResponse {
        status: Some(Status { code: 4002, message: "Request is invalid".into(), details: vec![detail] }),
        ack: "NACK".into(),
        response_id: "42".into(),
        ..SubscribeResponse::default()
    };
    let detail = inner(3, [text(1, "t"), bytes(2, b"d")]);
    let by_hand = message([
        inner(1, [number(1, 4002), text(2, "Request is invalid"), detail]),
        text(2, "NACK"),
        text(8, "42"),
    ]);
    assert_eq!(response.encode_to_vec(), by_hand);
}

#[test]
fn the_service_is_called_as_clients_call_it() {
    let files = FileDescriptorSet::decode(DESCRIPTORS).expect("definitions");
    let transport = files.file.iter().find(|file| file.package() == "io.opensergo.proto.transport.v1");
    let [service] = &transport.expect("its file").service[..] else { panic!("there is one service") };
    let [method] = &service.method[..] else { panic!("it has one method") };
    assert_eq!((service.name(), method.name()), ("OpenSergoUniversalTransportService", "SubscribeConfig"));
    assert!(method.client_streaming() && method.server_streaming(), "both sides send many");
    let package = ".io.opensergo.proto.transport.v1.";
    assert_eq!(method.input_type(), format!("{package}SubscribeRequest"));
    assert_eq!(method.output_type(), format!("{package}SubscribeResponse"));
}
