//! `testdata/acp/*.json` as far as they are about types and the method table.

use pintle_acp::types::*;
use pintle_acp::{Error, ErrorCode, Kind, Layer, METHODS, Method, MethodId, Side};
use serde_json::{Value, json};

macro_rules! vectors {
    ($file:literal) => {
        serde_json::from_str::<Value>(include_str!(concat!("../../../../testdata/acp/", $file))).expect("JSON")
    };
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

/// against method_table.json. Ours differs where design section 4 says so: the vendor names
/// are `_pintle/..` (the file's are the other spelling), what has no row there has one here, and the gates
/// that could never open do.
#[test]
fn r_001_method_table() {
    for row in list(&vectors!("method_table.json")["rows"]) {
        let wire = row["wire"].as_str().expect("a name");
        let ours = MethodId::from_wire(wire).unwrap_or_else(|| panic!("{wire}")).method();
        let side = match row["handled_by"].as_str() {
            Some("agent") => Side::Agent,
            Some("client") => Side::Client,
            _ => Side::Both,
        };
        assert_eq!(ours.side, side, "{wire}");
        assert_eq!(ours.kind == Kind::Request, row["kind"] == "request", "{wire}");
        assert_eq!(ours.params, row["params"].as_str(), "{wire}");
        assert_eq!(ours.result, row["result"].as_str(), "{wire}");
        let layer = match row["layer"].as_str().expect("a layer") {
            "protocol" => Layer::Protocol,
            "session_control" => Layer::SessionControl,
            _ if wire.ends_with("session.detach") => Layer::SessionControl,
            _ => Layer::App,
        };
        assert_eq!(ours.layer, layer, "{wire}");
        let callback = match (row["callback"].as_str(), wire) {
            (_, "_raxol/session.load") => Some("load_durable_session"),
            (_, "_raxol/session.steer") => Some("steer_session"),
            (_, "_raxol/session.record") => Some("session_record"),
            (_, "_raxol/session.caught_up") => Some("session_caught_up"),
            (_, "_raxol/session.lagged") => Some("session_lagged"),
            (_, "_raxol/session.closed") => Some("session_closed"),
            (_, "logout") => Some("logout"),
            (callback, _) => callback,
        };
        assert_eq!(ours.callback, callback, "{wire}");
        let gate = row["capability_gate"].as_str().map(|gate| match wire {
            "logout" => "agent.auth.logout".to_owned(),
            _ => gate.split(' ').next().expect("a path").to_owned(),
        });
        let our_gate =
            ours.gate.map(|gate| format!("{}.{}", if side == Side::Agent { "agent" } else { "client" }, gate.path));
        assert_eq!(our_gate, gate, "{wire}");
    }
    let elicitation = METHODS.iter().filter(|row| row.wire.starts_with("elicitation/")).count();
    assert_eq!(list(&vectors!("method_table.json")["rows"]).len() + elicitation, METHODS.len());
}

/// gates look at what the handling side advertised, and at nothing else.
#[test]
fn r_120_capability_gate() {
    for vector in list(&vectors!("capability_gate.json")["gate_vectors"]) {
        for wire in list(&vector["methods"]) {
            let wire = wire.as_str().expect("a name");
            let Some(id) = MethodId::from_wire(wire) else {
                // what is not in the table is no matter for a gate.
                assert_eq!(vector["negotiated"], true);
                continue;
            };
            let snapshot = vector["snapshot"].to_string();
            let advertised: Option<Capabilities> = match (&vector["snapshot"], id.method().side) {
                (Value::Null, _) => None,
                (_, Side::Client) => Some(decode::<ClientCapabilities>(&snapshot).expect("lenient").into()),
                _ => Some(decode::<AgentCapabilities>(&snapshot).expect("lenient").into()),
            };
            let negotiated = id.method().is_negotiated(advertised.as_ref());
            assert_eq!(Value::from(negotiated), vector["negotiated"], "{wire} {snapshot}");
        }
    }
}

/// only `true` is true; anything else is no, is kept, and is told.
#[test]
fn r_122_boolean_strictness() {
    for row in list(&vectors!("capability_gate.json")["boolean_strictness"]) {
        let field = row["field"].as_str().expect("a path");
        let mut json = row["wire_value"].clone();
        for name in field.rsplit('.') {
            json = json!({ name: json });
        }
        let capabilities: AgentCapabilities = decode(&json.to_string()).expect("lenient");
        let read = match field {
            "promptCapabilities.image" => capabilities.prompt_capabilities.image,
            "promptCapabilities.audio" => capabilities.prompt_capabilities.audio,
            "promptCapabilities.embeddedContext" => capabilities.prompt_capabilities.embedded_context,
            "mcpCapabilities.http" => capabilities.mcp_capabilities.http,
            "mcpCapabilities.sse" => capabilities.mcp_capabilities.sse,
            "loadSession" => capabilities.load_session,
            // Not a capability of the protocol.
            "sessionCapabilities.modes" => false,
            other => panic!("no such field: {other}"),
        };
        assert_eq!(Value::from(read), row["decodes_to"], "{field}");
        assert_eq!(serde_json::to_value(&capabilities).expect("writable"), json, "{field} is kept");
        assert_eq!(inspect(&capabilities).is_empty(), read, "{field} is told");
    }
}

/// Inv-6, Inv-18: ids come back byte for byte; other types are no ids.
#[test]
fn r_030_request_ids() {
    let vectors = vectors!("request_ids.json");
    for id in list(&vectors["echo_byte_exact"]) {
        let id = id.to_string();
        let read: RequestId = decode(&id).expect("an id");
        assert_eq!(serde_json::to_string(&read).expect("writable"), id);
    }
    for pair in list(&vectors["distinct_in_flight_pairs"]) {
        let [a, b] = [&pair[0], &pair[1]].map(|id| decode::<RequestId>(&id.to_string()).expect("an id"));
        assert_ne!(a, b);
    }
    for id in list(&vectors["invalid_id_types"]).iter().chain([&Value::Null, &json!(9_223_372_036_854_775_808_u64)]) {
        assert!(decode::<RequestId>(&id.to_string()).is_err(), "{id}");
    }
}

/// R-020, as overruled by design section 4: an integer from 0 to 65535, no string is a version, and the
/// answer to what is not spoken is our own.
#[test]
fn r_020_protocol_version() {
    let vectors = vectors!("protocol_version.json");
    for row in list(&vectors["strict"]).iter().chain(list(&vectors["tolerant_handshake"])) {
        let read = decode::<ProtocolVersion>(&row["in"].to_string());
        let expected = if row["in"].is_string() { None } else { row["ok"].as_u64() };
        assert_eq!(read.ok().map(|version| u64::from(version.get())), expected, "{row}");
    }
    assert_eq!(ProtocolVersion::new(999).answer(), ProtocolVersion::V1);
    assert_eq!(ProtocolVersion::new(0).answer(), ProtocolVersion::V1);
    assert_eq!(ProtocolVersion::V1.answer(), ProtocolVersion::V1);
}

/// G-04: every update, stop reason and option kind of the file is known.
#[test]
fn r_212_session_update_variants() {
    let vectors = vectors!("session_update_variants.json");
    for tag in list(&vectors["official"]) {
        assert!(SessionUpdate::TAGS.contains(&tag.as_str().expect("a tag")), "{tag}");
    }
    assert_eq!(json!(StopReason::WORDS), vectors["stop_reasons"]);
    assert_eq!(json!(PermissionOptionKind::WORDS), vectors["permission_option_kinds"]);
}

/// as far as params go: which of the frames' params are refused, with which code.
#[test]
fn r_075_jsonrpc_errors() {
    for case in list(&vectors!("jsonrpc_errors.json")["cases"]) {
        let send = &case["send"];
        let (Some(wire), Some(frame)) = (send["method"].as_str(), list(&case["expect_frames"]).first()) else {
            continue;
        };
        let method = Method::find(Side::Agent, wire).filter(|method| method.kind == Kind::Request);
        match frame["code"].as_i64() {
            Some(-32601) => {
                assert_eq!(method, None, "{wire}");
                if let Some(data) = frame.get("data") {
                    let error = Error::method_not_found(wire);
                    assert_eq!(error.data.expect("data").get(), data.to_string());
                }
            }
            Some(-32602) => {
                let raw = Raw::from(send["params"].clone());
                let decoded = pintle_acp::RequestToAgent::decode(method.expect("known").id, Some(raw.as_raw_value()));
                let error = decoded.expect("a request").expect_err("refused");
                assert_eq!(error.code, ErrorCode::InvalidParams, "{case}");
            }
            _ => {}
        }
    }
}

/// I8, G-09: only an answer that selects an offered option of an allowing kind allows.
#[test]
fn r_171_permission_outcomes() {
    let ask = RequestPermissionRequest::new(
        "s",
        ToolCallUpdate::new("t"),
        vec![
            PermissionOption::new("opt-1", "Yes", PermissionOptionKind::AllowOnce),
            PermissionOption::new("opt-2", "No", PermissionOptionKind::RejectOnce),
            PermissionOption::new("opt-3", "Soon", PermissionOptionKind::from("_allow_later")),
        ],
    );
    let check = |result: Value, expected: bool| {
        let outcome = decode::<RequestPermissionResponse>(&result.to_string()).map(|response| response.outcome);
        assert_eq!(outcome.is_ok_and(|outcome| ask.allows(&outcome)), expected, "{result}");
    };
    let selected = |id: &str| json!({"outcome": {"outcome": "selected", "optionId": id}});
    for row in list(&vectors!("permission_outcomes.json")["rows"]) {
        if row["ask_result"] == "response outcome=selected optionId=opt-1" {
            check(selected("opt-1"), row["agent_sees"] == "selected(opt-1)");
        } else {
            assert_eq!(row["agent_sees"], "cancelled");
        }
    }
    check(selected("opt-2"), false);
    check(selected("opt-3"), false);
    check(selected("opt-4"), false);
    check(json!({"outcome": {"outcome": "cancelled"}}), false);
    check(json!({"outcome": {"outcome": "_allowed"}}), false);
    check(json!({"outcome": "selected"}), false);
    check(json!({}), false);
}

/// R-280, G-18: what a steer request is.
#[test]
fn r_280_steer_requests() {
    for row in list(&vectors!("steer.json")["request_decode"]) {
        let read = decode::<SteerRequest>(&row["params"].to_string());
        assert_eq!(Value::from(read.is_ok()), row["ok"], "{row}");
    }
}
