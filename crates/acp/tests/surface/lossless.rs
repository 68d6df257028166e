//! Nothing that a peer writes is lost, whatever it is: every type gives every JSON value back.

use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::corpus::{cases, same};
use crate::registry::probes;

/// JSON of any kind, with the protocol's own names mixed in.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9f64).prop_map(Value::from),
        "[a-z_]{0,8}".prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((name(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "_meta",
            "annotations",
            "configOptions",
            "content",
            "currentValue",
            "cwd",
            "entries",
            "fs",
            "kind",
            "mcpServers",
            "messageId",
            "mode",
            "options",
            "outcome",
            "resource",
            "sessionId",
            "sessionUpdate",
            "state",
            "status",
            "text",
            "title",
            "type",
            "update",
            "value",
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,6}",
        ".{1,6}",
    ]
}

#[derive(Debug, Clone)]
struct Mutation {
    place: prop::sample::Index,
    name: String,
    value: Value,
    what: u8,
}

fn mutation() -> impl Strategy<Value = Mutation> {
    (any::<prop::sample::Index>(), name(), any_json(), 0u8..4).prop_map(|(place, name, value, what)| Mutation {
        place,
        name,
        value,
        what,
    })
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Changes the value at the n-th place, counted in depth-first order.
fn mutate(value: &mut Value, n: &mut usize, mutation: &Mutation) {
    if *n == 0 {
        *n = usize::MAX;
        match (mutation.what, &mut *value) {
            (0, Value::Object(members)) => {
                members.insert(mutation.name.clone(), mutation.value.clone());
            }
            (1, Value::Object(members)) if !members.is_empty() => {
                let at = mutation.place.index(members.len());
                let name = members.keys().nth(at).expect("within").clone();
                members.remove(&name);
            }
            (2, Value::Array(items)) => items.push(mutation.value.clone()),
            _ => *value = mutation.value.clone(),
        }
        return;
    }
    *n = n.wrapping_sub(1);
    match value {
        Value::Array(items) => {
            for item in items {
                if *n == usize::MAX {
                    return;
                }
                mutate(item, n, mutation);
            }
        }
        Value::Object(members) => {
            for item in members.values_mut() {
                if *n == usize::MAX {
                    return;
                }
                mutate(item, n, mutation);
            }
        }
        _ => {}
    }
}

/// Writes members in an order that `turn` decides, so that a tag may stand anywhere, and with breaks between
/// tokens where `breaks` asks for them.
fn write(value: &Value, turn: usize, breaks: bool, out: &mut String) {
    let gap = if breaks { "\r\n " } else { "" };
    match value {
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                out.push_str(gap);
                write(item, turn, breaks, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for i in 0..members.len() {
                let (name, item) = members.iter().nth((i + turn) % members.len()).expect("within");
                out.push_str(if i == 0 { "" } else { "," });
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                out.push_str(gap);
                write(item, turn, breaks, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// a valid message with up to four things changed anywhere in it.
    #[test]
    fn r_040_changed_messages(
        which in any::<prop::sample::Index>(),
        mutations in proptest::collection::vec(mutation(), 0..4),
        turn in 0usize..7,
        breaks in any::<bool>(),
    ) {
        let cases = cases();
        let case = &cases[which.index(cases.len())];
        let mut json = case.json.clone();
        for mutation in &mutations {
            let mut n = mutation.place.index(count(&json));
            mutate(&mut json, &mut n, mutation);
        }
        let mut text = String::new();
        write(&json, turn, breaks, &mut text);
        let reading = (crate::registry::probe(&case.as_type).read)(&text);
        prop_assert!(!reading.back.contains(['\n', '\r']), "a frame is one line: {}", reading.back);
        let back: Value = serde_json::from_str(&reading.back).expect("JSON");
        prop_assert!(same(&back, &json), "{}:\n{json}\n{back}", case.name);
    }

    /// any value at all, as any type.
    #[test]
    fn r_210_any_value(which in any::<prop::sample::Index>(), json in any_json(), turn in 0usize..7) {
        let probes = probes();
        let probe = &probes[which.index(probes.len())];
        let mut text = String::new();
        write(&json, turn, false, &mut text);
        let reading = (probe.read)(&text);
        let back: Value = serde_json::from_str(&reading.back).expect("JSON");
        prop_assert!(same(&back, &json), "{}:\n{json}\n{back}", probe.name);
    }
}
