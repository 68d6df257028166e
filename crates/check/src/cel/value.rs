//! JSON and traces as CEL values.

use std::collections::HashMap;
use std::sync::Arc;

use ::cel::Value;
use ::cel::objects::{Key, Map};
use serde_json::Value as Json;

use super::types::{DESCENDANTS, ENTRY, EXIT, Record, STEP, TIMEOUTS};
use crate::observation::Direction;
use crate::trace::{Entry, Shape, StepFacts, Trace};

/// The variables of an expression, and the entries that functions work on.
pub(super) struct TraceValues {
    pub(super) variables: Vec<(&'static str, Value)>,
    pub(super) entries: Arc<Vec<FrameKey>>,
    pub(super) values: Arc<Vec<Value>>,
}

/// What `frames` selects by.
pub(super) struct FrameKey {
    pub(super) dir: Option<Direction>,
    pub(super) method: String,
    pub(super) answered: Option<usize>,
}

pub(super) fn trace_values(trace: &Trace) -> TraceValues {
    let values: Arc<Vec<Value>> = Arc::new(trace.entries.iter().map(entry_value).collect());
    let entries = trace
        .entries
        .iter()
        .map(|entry| FrameKey {
            dir: entry.dir.filter(|_| entry.kind == crate::trace::EntryKind::Frame),
            method: entry.method().to_owned(),
            answered: entry.answered,
        })
        .collect();
    let steps = trace
        .steps
        .iter()
        .map(|(name, facts)| (Key::from(name.clone()), step_value(name, facts, trace, &values)))
        .collect();
    let caps = match trace.caps() {
        Json::Object(_) => json_value(trace.caps()),
        _ => json_value(&Json::Object(serde_json::Map::new())),
    };
    let exit = &trace.exit;
    let timeouts = &trace.timeouts;
    let int = |value: u64| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
    let variables = vec![
        ("trace", Value::List(Arc::clone(&values))),
        ("steps", map(steps)),
        ("init", json_value(&trace.init)),
        ("caps", caps),
        (
            "exit",
            record(
                &EXIT,
                vec![
                    Value::Bool(exit.known),
                    optional_int(exit.code),
                    optional_int(exit.signal),
                    string(&exit.phase),
                    Value::Float(exit.t_ms),
                    Value::Float(exit.after_close_ms),
                ],
            ),
        ),
        (
            "descendants",
            record(
                &DESCENDANTS,
                vec![
                    Value::Bool(trace.descendants.known),
                    Value::Int(i64::from(trace.descendants.count)),
                    Value::List(Arc::new(trace.descendants.names.iter().map(|name| string(name)).collect())),
                ],
            ),
        ),
        (
            "timeouts",
            record(
                &TIMEOUTS,
                vec![
                    int(timeouts.start),
                    int(timeouts.request),
                    int(timeouts.prompt),
                    int(timeouts.quiet),
                    int(timeouts.close_grace),
                    int(timeouts.term_grace),
                ],
            ),
        ),
        ("offered", json_value(&Json::Object(trace.offered.clone()))),
    ];
    TraceValues { variables, entries: Arc::new(entries), values }
}

fn entry_value(entry: &Entry) -> Value {
    let index = |at: Option<usize>| Value::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1));
    record(
        &ENTRY,
        vec![
            index(Some(entry.i)),
            Value::Float(entry.t_ms),
            string(entry.kind.as_str()),
            string(entry.dir.map_or("", Direction::as_str)),
            Value::Int(i64::try_from(entry.line).unwrap_or(i64::MAX)),
            string(&entry.text),
            Value::Int(i64::try_from(entry.size).unwrap_or(i64::MAX)),
            json_value(&entry.json),
            Value::Bool(entry.valid),
            string(&entry.fault),
            string(entry.method()),
            json_value(entry.id()),
            string(&entry.session),
            Value::Bool(entry.session_known),
            string(entry.update()),
            Value::Bool(entry.shape == Shape::Request),
            Value::Bool(entry.shape == Shape::Notification),
            Value::Bool(entry.shape == Shape::Response),
            index(entry.answers),
            index(entry.answered),
            Value::Int(entry.step.map_or(-1, i64::from)),
            string(&entry.name),
            string(&entry.status),
            Value::Bool(entry.unterminated),
            Value::Int(i64::from(entry.lone_surrogates)),
            Value::Int(i64::try_from(entry.count).unwrap_or(i64::MAX)),
        ],
    )
}

fn step_value(name: &str, facts: &StepFacts, trace: &Trace, values: &[Value]) -> Value {
    let entry = |at: Option<usize>| at.and_then(|at| values.get(at)).cloned().unwrap_or(Value::Null);
    let reply = facts.reply.and_then(|at| trace.entries.get(at));
    let member = |name: &str| reply.and_then(|entry| entry.json.get(name)).cloned().unwrap_or(Json::Null);
    let error = member("error");
    record(
        &STEP,
        vec![
            string(name),
            string(&facts.kind),
            string(&facts.status),
            Value::Bool(facts.sent),
            Value::Bool(reply.is_some()),
            Value::Bool(reply.is_some_and(|entry| entry.json.get("result").is_some() && error.is_null())),
            Value::Bool(!error.is_null()),
            Value::Bool(error.get("code").and_then(Json::as_i64) == Some(-32000)),
            Value::Int(i64::try_from(facts.replies).unwrap_or(i64::MAX)),
            Value::Float(facts.t_ms),
            Value::Float(facts.end_ms),
            entry(facts.frame),
            entry(facts.reply),
            json_value(&member("result")),
            json_value(&error),
            string(&facts.session),
        ],
    )
}

/// A record with its fields in the order of its declaration.
fn record(of: &Record, values: Vec<Value>) -> Value {
    debug_assert_eq!(of.fields.len(), values.len(), "{}", of.name);
    map(of.fields.iter().zip(values).map(|(field, value)| (Key::from(field.name), value)).collect())
}

fn map(members: HashMap<Key, Value>) -> Value {
    Value::Map(Map { map: Arc::new(members) })
}

fn string(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}

fn optional_int(value: Option<i32>) -> Value {
    value.map_or(Value::Null, |value| Value::Int(i64::from(value)))
}

/// JSON as a CEL value: integers stay integers where they fit.
pub(super) fn json_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::Int(value),
            (None, Some(value)) => Value::UInt(value),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => string(text),
        Json::Array(items) => Value::List(Arc::new(items.iter().map(json_value).collect())),
        Json::Object(members) => {
            map(members.iter().map(|(name, value)| (Key::from(name.as_str()), json_value(value))).collect())
        }
    }
}

/// The index of an entry, if the value is one.
pub(super) fn entry_index(value: &Value) -> Option<usize> {
    let Value::Map(map) = value else { return None };
    if !map.map.contains_key(&Key::from("lone_surrogates")) {
        return None;
    }
    match map.map.get(&Key::from("i")) {
        Some(Value::Int(index)) => usize::try_from(*index).ok(),
        _ => None,
    }
}

/// A value as people read it: a string without quotes, anything else as compact JSON with sorted members.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.as_ref().clone(),
        other => json(other).to_string(),
    }
}

fn json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::UInt(value) => Json::from(*value),
        Value::Float(value) => Json::from(*value),
        Value::String(text) => Json::String(text.as_ref().clone()),
        Value::List(items) => Json::Array(items.iter().map(json).collect()),
        Value::Map(map) => Json::Object(map.map.iter().map(|(key, value)| (key.to_string(), json(value))).collect()),
        other => Json::String(other.type_of().to_string()),
    }
}

/// The value at a path of member names and array indices joined by `.`, or null.
pub(super) fn get(value: &Value, path: &str) -> Value {
    let mut at = value;
    for part in path.split('.') {
        let next = match at {
            Value::Map(map) => map.map.get(&Key::from(part)),
            Value::List(items) => part.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => return Value::Null,
        }
    }
    at.clone()
}
