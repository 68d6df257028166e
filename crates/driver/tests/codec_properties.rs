//! What must hold for every frame: encoding is canonical, decoding what was encoded gives the same message, and neither
//! depends on how the bytes arrive.

use pintle_driver::{
    Call, CancelParams, Decoder, ErrorClass, ErrorData, FreeValue, Id, InstanceId, Message, Notification,
    ObservationParams, Outcome, Response, RpcError, decode_control_frame, encode_control_frame,
};
use pintle_wire::canonicalize_bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..=1 << 53).prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn ids() -> impl Strategy<Value = Id> {
    prop_oneof![(-(1_i64 << 53)..=1 << 53).prop_map(Id::Int), ".{0,12}".prop_map(Id::from)]
}

fn instance_ids() -> impl Strategy<Value = InstanceId> {
    (0_i64..1 << 48, any::<[u8; 16]>()).prop_map(|(millis, random)| InstanceId::new(millis, random).expect("an id"))
}

fn messages() -> impl Strategy<Value = Message> {
    let free = || values().prop_map(|value| FreeValue::from_serialize(&value).expect("it has a canonical form"));
    let observation =
        (instance_ids(), instance_ids(), 0_u64..=1 << 53, ".{1,10}", 0_u64..=1 << 53, prop::option::of(free()))
            .prop_map(|(invocation_id, attempt_id, sequence, kind, monotonic_ns, payload)| {
                Message::Notification(Notification::Observation(ObservationParams {
                    invocation_id,
                    attempt_id,
                    sequence,
                    kind: kind.into(),
                    monotonic_ns,
                    payload,
                    data_stream: None,
                }))
            });
    let cancel =
        (ids(), instance_ids(), ".{1,10}", 1_u64..=1 << 53).prop_map(|(id, invocation_id, reason, deadline)| {
            let params = CancelParams { invocation_id, reason: reason.into(), deadline_millis: deadline };
            Message::request(id, Call::Cancel(params))
        });
    let result =
        (ids(), free()).prop_map(|(id, result)| Message::Response(Response { id, outcome: Outcome::Result(result) }));
    let error = (ids(), -(1_i64 << 53)..=1 << 53, ".{1,10}", 0_usize..10, prop::option::of(free())).prop_map(
        |(id, code, message, class, details)| {
            let data = ErrorData { class: ErrorClass::ALL[class], details };
            Message::error(id, RpcError { code, message: message.into(), data })
        },
    );
    prop_oneof![observation, cancel, result, error]
}

proptest! {
    #[test]
    fn what_is_encoded_is_canonical_and_decodes_to_the_same_message(message in messages()) {
        let frame = encode_control_frame(&message).expect("it validates");
        let line = frame.strip_suffix(b"\n").expect("a frame ends in LF");
        prop_assert_eq!(&canonicalize_bytes(line).expect("it is strict"), line);
        let decoded = decode_control_frame(&frame).expect("it decodes");
        prop_assert_eq!(encode_control_frame(&decoded).expect("it encodes"), &frame[..]);
        prop_assert_eq!(decoded.kind(), message.kind());
        prop_assert_eq!(decoded.id(), message.id());
    }

    #[test]
    fn chunks_do_not_matter(messages in prop::collection::vec(messages(), 1..6), cuts in prop::collection::vec(1_usize..40, 1..60)) {
        let mut bytes = Vec::new();
        for message in &messages {
            bytes.extend(encode_control_frame(message).expect("it validates"));
        }
        let mut decoder = Decoder::new();
        let mut decoded = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            let (piece, later) = rest.split_at((*cut).min(rest.len()));
            decoder.feed(piece.to_vec());
            decoded.extend(std::iter::from_fn(|| decoder.decode()));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert!(decoder.finish().is_none());
        let again: Vec<u8> = decoded
            .iter()
            .flat_map(|frame| encode_control_frame(frame.as_ref().expect("it decodes")).expect("it encodes"))
            .collect();
        prop_assert_eq!(again, bytes);
    }

    /// Mutations of a good frame are refused or give a message that encodes; nothing panics.
    #[test]
    fn mutated_frames_never_surprise(message in messages(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut frame = encode_control_frame(&message).expect("it validates");
        let at = at.index(frame.len());
        frame[at] = byte;
        if let Ok(decoded) = decode_control_frame(&frame) {
            prop_assert!(encode_control_frame(&decoded).is_ok());
        }
    }
}

#[test]
fn free_values_keep_their_text_next_to_their_canonical_form() {
    let frame = br#"{"jsonrpc":"2.0","id":1,"result":{"b":9007199254740993,"a":1.50,"c":"\u0041"}}"#;
    let Ok(Message::Response(Response { outcome: Outcome::Result(result), .. })) = decode_control_frame(frame) else {
        panic!("a response with a result")
    };
    assert_eq!(result.as_str(), r#"{"b":9007199254740993,"a":1.50,"c":"\u0041"}"#);
    assert_eq!(result.canonical().as_deref(), Ok(&br#"{"a":1.5,"b":9007199254740992,"c":"A"}"#[..]));
    assert_eq!(result.decode::<Value>().expect("JSON"), json!({"a": 1.5, "b": 9_007_199_254_740_993_u64, "c": "A"}));
}

#[test]
fn secrets_and_free_values_do_not_print() {
    let frame = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"driver.prepare","params":{{"resolved_plan_digest":"{}","capability_token":"hunter2","approved_permissions":[]}}}}"#,
        pintle_driver::Digest::of(b"plan")
    );
    let message = decode_control_frame(frame.as_bytes()).expect("it decodes");
    assert!(!format!("{message:?}").contains("hunter2"));
    let response = decode_control_frame(br#"{"jsonrpc":"2.0","id":1,"result":"hunter2"}"#).expect("it decodes");
    assert!(!format!("{response:?}").contains("hunter2"));
}
