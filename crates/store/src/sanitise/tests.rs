use base64::{Engine, engine::general_purpose::STANDARD};
use proptest::prelude::*;

use super::*;

const CANARY: &str = "hunter2-correct-horse";

fn sanitiser() -> Sanitiser {
    Sanitiser::new([CANARY])
}

fn check(input: &str, expected: &str) {
    let sanitised = sanitiser().line(input.as_bytes());
    assert_eq!(sanitised.to_text(), expected);
    assert_eq!(sanitised.redactions().is_empty(), input == expected, "{input}");
    if sanitised.shape() == Shape::Json {
        let limits = ScanLimits { max_bytes: usize::MAX, max_depth: MAX_DEPTH };
        scan(sanitised.bytes(), Profile::Acp, limits).expect("it is JSON still");
    }
}

#[test]
fn what_is_not_secret_stays_byte_for_byte() {
    for line in [
        r#"{ "jsonrpc":"2.0" ,"id" : 1,"method":"session/prompt","params":{"sessionId":"a\u0062c","prompt":[]}}"#,
        r#"{"token":null,"password":"","secret":true,"cookie":{},"usage":{"input_tokens":12,"max_tokens":5}}"#,
        r#"{"_meta":{"progressToken":7},"n":1.50e3,"e":"\ud83d\ude00"}"#,
        r#"["git clone ssh://git@example.org/x", "a task-force-of-more-than-twenty-people", "error: expected token: `;`"]"#,
        "12",
        "not json at all: 5 = 5",
    ] {
        check(line, line);
    }
}

#[test]
fn members_with_sensitive_names_lose_their_value_whole() {
    check(r#"{"a":1,"apiKey":"x","b":2}"#, r#"{"a":1,"apiKey":"[redacted:member]","b":2}"#);
    check(
        r#"{"Authorization" : ["a",{"b":"Bearer abcdefgh12345678"}] }"#,
        r#"{"Authorization" : "[redacted:member]" }"#,
    );
    check(r#"{"pass\u0077ord":1234}"#, r#"{"pass\u0077ord":"[redacted:member]"}"#);
    check(
        r#"{"env":[{"name":"OPENAI_API_KEY","value":"v"},{"value":"w","name":"X-Api-Key"},{"name":"PATH","value":"/bin"}]}"#,
        r#"{"env":[{"name":"OPENAI_API_KEY","value":"[redacted:pair]"},{"value":"[redacted:pair]","name":"X-Api-Key"},{"name":"PATH","value":"/bin"}]}"#,
    );
}

#[test]
fn json_in_a_string_is_json() {
    check(
        r#"{"text":"{\"jsonrpc\":\"2.0\",\"token\":\"x\",\"ok\":\"a\\nb\"}\n"}"#,
        r#"{"text":"{\"jsonrpc\":\"2.0\",\"token\":\"[redacted:member]\",\"ok\":\"a\\nb\"}\n"}"#,
    );
    check(
        r#"{"text":"[\"{\\\"password\\\":\\\"x\\\"}\"]"}"#,
        r#"{"text":"[\"{\\\"password\\\":\\\"[redacted:member]\\\"}\"]"}"#,
    );
}

#[test]
fn text_that_looks_like_a_secret_is_replaced_in_strings_names_and_garbage() {
    let github = format!("ghp_{}", "a1".repeat(18));
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P";
    check(&format!("token is {github}."), "token is [redacted:service_token].");
    check(&format!(r#"{{"{github}":1}}"#), r#"{"[redacted:service_token]":1}"#);
    check(&format!("see {jwt}, please"), "see [redacted:jwt], please");
    check("key AKIAIOSFODNN7EXAMPLE", "key [redacted:aws_key_id]");
    check("curl -H 'authorization: Basic abc def'", "curl -H 'authorization: [redacted:assignment]'");
    check("sent bearer abcdefgh12 to", "sent bearer [redacted:bearer_token] to");
    check(
        "https://u:p@example.org/?api_key=abc&x=1#access_token=q",
        "https://[redacted:url_userinfo]@example.org/?api_key=[redacted:assignment]&x=1#access_token=[redacted:assignment]",
    );
    check(
        "agent --api-key=abc --name=x DB_PASSWORD='a b'",
        "agent --api-key=[redacted:assignment] --name=x DB_PASSWORD='[redacted:assignment]'",
    );
    check(
        "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----\nb",
        "a\n[redacted:private_key]\nb",
    );
    check("a -----BEGIN PRIVATE KEY----- MIIE", "a [redacted:private_key]");
    check(
        r#"{"k":"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"}"#,
        r#"{"k":"[redacted:private_key]\n"}"#,
    );
    check("-----BEGIN CERTIFICATE----- MIIE", "-----BEGIN CERTIFICATE----- MIIE");
}

#[test]
fn a_canary_is_found_in_every_form() {
    let percent = CANARY.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let escaped = CANARY.bytes().map(|byte| format!("\\u{byte:04x}")).collect::<String>();
    let hex = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let base64 = STANDARD.encode(format!("user:{CANARY}!"));
    for form in
        [CANARY, &percent, &escaped, &hex, &base64, &percent.replace('%', "%25"), &escaped.replace('\\', "\\\\")]
    {
        let json = format!(r#"{{"a":"<{form}>"}}"#);
        let expected = r#"{"a":"<[redacted:canary]>"}"#;
        assert_eq!(sanitiser().line(json.as_bytes()).to_text(), expected, "{form}");
        check(&format!("say <{form}>"), "say <[redacted:canary]>");
    }
    check(&format!(r#"{{"{escaped}":1}}"#), r#"{"[redacted:canary]":1}"#);
}

#[test]
fn a_report_counts_rules_and_says_nothing_of_the_secrets() {
    let sanitised = sanitiser().line(format!(r#"{{"token":"a","api_key":"b","x":"{CANARY}"}}"#).as_bytes());
    let report = serde_json::to_string(sanitised.redactions()).expect("a map");
    assert_eq!(report, r#"{"member":2,"canary":1}"#);
    let mut sum = Redactions::default();
    sum.add(sanitised.redactions());
    sum.add(sanitised.redactions());
    assert_eq!(sum.iter().collect::<Vec<_>>(), [(Rule::Member, 4), (Rule::Canary, 2)]);
    assert!(!format!("{sanitised:?} {:?}", sanitiser()).contains("hunter2"));
}

#[test]
fn short_canaries_and_those_inside_a_marker_are_left_out() {
    let sanitiser = Sanitiser::new(["short", "redacted", "", CANARY]);
    assert_eq!(sanitiser.ignored_canaries(), 2);
    assert_eq!(sanitiser.line(b"short redacted").to_text(), "short redacted");
}

#[test]
fn garbage_is_kept_up_to_its_bound_and_the_rest_counted() {
    let garbage = "x".repeat(KEPT_GARBAGE_BYTES + 10);
    let kept = sanitiser().line(garbage.as_bytes());
    assert_eq!(kept.to_text(), format!("{}[10 bytes omitted]", "x".repeat(KEPT_GARBAGE_BYTES)));
    assert_eq!(kept.shape(), Shape::Bytes);
    // A secret on the edge is replaced before the cut.
    let edge = format!("{}{CANARY}", "x".repeat(KEPT_GARBAGE_BYTES - 5));
    assert!(!sanitiser().line(edge.as_bytes()).to_text().contains("hunte"));
    assert_eq!(sanitiser().line(b"\xff\xfe{").bytes(), b"\xff\xfe{");
}

#[test]
fn a_value_of_ours_is_canonical_also_where_a_name_was_replaced() {
    let value = serde_json::json!({ CANARY: 1, "z": 2, "Z": { "password": "x" } });
    let sanitised = sanitiser().value(&value).expect("canonical");
    assert_eq!(sanitised.to_text(), r#"{"Z":{"password":"[redacted:member]"},"[redacted:canary]":1,"z":2}"#);
}

/// Text in which canaries stand in all forms, in the middle of whatever.
fn with_canaries() -> impl Strategy<Value = String> {
    let form = prop_oneof![
        Just(CANARY.to_owned()),
        Just(CANARY.bytes().map(|byte| format!("%{byte:02x}")).collect()),
        Just(CANARY.bytes().map(|byte| format!("\\u{byte:04X}")).collect()),
        (0_usize..3).prop_map(|n| STANDARD.encode(format!("{}{CANARY}", "x".repeat(n)))),
        "[ -~]{0,12}",
        Just("\n".to_owned()),
        Just("api_key=".to_owned()),
        Just("\u{e9}".to_owned()),
    ];
    prop::collection::vec(form, 0..8).prop_map(|parts| parts.concat())
}

fn json_with_canaries() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i32>().prop_map(Into::into),
        with_canaries().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map(prop_oneof![with_canaries(), "name|value|token"], inner.clone(), 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            inner.prop_map(|value| value.to_string().into()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// No canary survives, in any form, and JSON stays JSON.
    #[test]
    fn no_canary_survives(value in json_with_canaries(), text in with_canaries()) {
        let sanitiser = sanitiser();
        let json = sanitiser.line(value.to_string().as_bytes());
        prop_assert_eq!(json.shape(), Shape::Json);
        let limits = ScanLimits { max_bytes: usize::MAX, max_depth: MAX_DEPTH };
        prop_assert!(scan(json.bytes(), Profile::Acp, limits).is_ok());
        let text = sanitiser.text(text.as_bytes(), usize::MAX);
        for bytes in [json.bytes(), text.bytes()] {
            prop_assert!(sanitiser.canaries.find(bytes).is_empty());
            prop_assert!(memchr::memmem::find(bytes, CANARY.as_bytes()).is_none());
        }
    }

    /// Whatever the bytes, it ends and does not panic.
    #[test]
    fn any_bytes_pass(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = sanitiser().line(&bytes);
        let _ = json::find(&Canaries::default(), &bytes, 2);
    }
}
