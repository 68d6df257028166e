//! The functions that packs have beside CEL's own.

use std::sync::Arc;

use ::cel::objects::Key;
use ::cel::{Context, ExecutionError, Value};

use super::evaluate::EvalError;
use super::value::{TraceValues, get};

type Text = Arc<String>;

pub(super) fn register(context: &mut Context<'_, '_>, trace: &TraceValues) -> Result<(), EvalError> {
    let (keys, values) = (Arc::clone(&trace.entries), Arc::clone(&trace.values));
    let declared =
        |result: Result<(), ::cel::DeclarationError>| result.map_err(|error| EvalError::Unavailable(error.to_string()));
    declared(context.add_function("frames", move |dir: Text, method: Text| -> Value {
        let selected = keys
            .iter()
            .zip(values.iter())
            .filter(|(key, _)| {
                key.dir.is_some_and(|of| dir.as_str() == "*" || of.as_str() == dir.as_str())
                    && method_matches(&key.method, &method)
            })
            .map(|(_, value)| value.clone())
            .collect();
        Value::List(Arc::new(selected))
    }))?;
    let (keys, values) = (Arc::clone(&trace.entries), Arc::clone(&trace.values));
    declared(context.add_function("reply_to", move |entry: Value| -> Result<Value, ExecutionError> {
        let Some(index) = position(&entry, "reply_to")? else { return Ok(Value::Null) };
        let answer = keys.get(index).and_then(|key| key.answered).and_then(|at| values.get(at));
        Ok(answer.cloned().unwrap_or(Value::Null))
    }))?;
    declared(context.add_function("before", |a: Value, b: Value| -> Result<Value, ExecutionError> {
        Ok(Value::Bool(match (position(&a, "before")?, position(&b, "before")?) {
            (Some(a), Some(b)) => a < b,
            _ => false,
        }))
    }))?;
    declared(context.add_function("index", |entry: Value| -> Result<Value, ExecutionError> {
        let index = position(&entry, "index")?;
        Ok(Value::Int(index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1)))
    }))?;
    declared(context.add_function("get", |value: Value, path: Text| -> Value { get(&value, &path) }))?;
    declared(context.add_function("items", |value: Value, path: Text| -> Value {
        match get(&value, &path) {
            list @ Value::List(_) => list,
            _ => Value::List(Arc::default()),
        }
    }))
}

fn method_matches(method: &str, wanted: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(prefix) => method.starts_with(prefix),
        None => method == wanted,
    }
}

/// The entry's index; `None` for null.
fn position(entry: &Value, function: &str) -> Result<Option<usize>, ExecutionError> {
    match entry {
        Value::Null => Ok(None),
        Value::Map(map) => match map.map.get(&Key::from("i")) {
            Some(Value::Int(index)) => Ok(usize::try_from(*index).ok()),
            _ => Err(ExecutionError::function_error(function, "the argument is not an entry")),
        },
        _ => Err(ExecutionError::function_error(function, "the argument is not an entry")),
    }
}
