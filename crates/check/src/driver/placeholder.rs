//! `${..}` in the strings of a step.
//!
//! What a name means is the caller's business: session names, `cwd`, `id:NAME`, `reply:NAME/json/pointer`. In a JSON
//! value, a string that is nothing but one placeholder becomes the value itself, so that `"${id:turn}"` can be a
//! number; inside a longer string the value's text is put in. `$${` is a plain `${`.

use serde_json::{Map, Value};

/// What placeholders are looked up in.
pub(crate) trait Lookup {
    /// The value of the placeholder `name`, without its `${` and `}`.
    fn get(&self, name: &str) -> Option<Value>;
}

/// Fills every placeholder in the strings of `value`; `Err` is the name of the first one that has no value.
pub(crate) fn fill(value: &Value, scope: &impl Lookup) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => match lone(text) {
            Some(name) => scope.get(name).ok_or_else(|| name.to_owned())?,
            None => Value::String(replace(text, scope, |value| match value {
                Value::String(text) => text,
                other => other.to_string(),
            })?),
        },
        Value::Array(items) => Value::Array(items.iter().map(|item| fill(item, scope)).collect::<Result<_, _>>()?),
        Value::Object(members) => {
            let filled = members.iter().map(|(name, member)| Ok((name.clone(), fill(member, scope)?)));
            Value::Object(filled.collect::<Result<Map<_, _>, String>>()?)
        }
        other => other.clone(),
    })
}

/// Fills the placeholders of a text that is JSON, or is meant to look like it: the text of a string is escaped, so
/// that it fits between the quotes that stand around the placeholder.
pub(crate) fn fill_json_text(text: &str, scope: &impl Lookup) -> Result<String, String> {
    replace(text, scope, |value| {
        let json = value.to_string();
        match value {
            Value::String(_) => json[1..json.len() - 1].to_owned(),
            _ => json,
        }
    })
}

fn lone(text: &str) -> Option<&str> {
    text.strip_prefix("${")?.strip_suffix('}').filter(|name| !name.contains('}'))
}

fn replace(text: &str, scope: &impl Lookup, spell: impl Fn(Value) -> String) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            filled.push_str(&rest[..at - 1]);
            filled.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        let after = &rest[at + 2..];
        let Some(end) = after.find('}') else { break };
        filled.push_str(&rest[..at]);
        filled.push_str(&spell(scope.get(&after[..end]).ok_or_else(|| after[..end].to_owned())?));
        rest = &after[end + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Fixed;

    impl Lookup for Fixed {
        fn get(&self, name: &str) -> Option<Value> {
            match name {
                "session" => Some(json!("s\"1")),
                "id:turn" => Some(json!(7)),
                "cwd" => Some(json!("/w")),
                _ => None,
            }
        }
    }

    fn check(input: Value, expected: Result<Value, &str>) {
        assert_eq!(fill(&input, &Fixed), expected.map_err(str::to_owned), "{input}");
    }

    #[test]
    fn placeholders_are_filled_at_every_depth() {
        check(
            json!({"sessionId": "${session}", "a": [{"b": "${cwd}/x"}]}),
            Ok(json!({"sessionId": "s\"1", "a": [{"b": "/w/x"}]})),
        );
    }

    #[test]
    fn a_lone_placeholder_keeps_its_type_and_an_inner_one_is_text() {
        check(json!("${id:turn}"), Ok(json!(7)));
        check(json!("id ${id:turn} of ${cwd}"), Ok(json!("id 7 of /w")));
    }

    #[test]
    fn an_unknown_placeholder_is_named() {
        check(json!(["${nope}"]), Err("nope"));
        check(json!("x ${id:other} y"), Err("id:other"));
    }

    #[test]
    fn escapes_and_open_braces_stay() {
        check(json!("$${session} ${"), Ok(json!("${session} ${")));
        check(json!("a $ b {} $${x"), Ok(json!("a $ b {} ${x")));
    }

    #[test]
    fn json_text_gets_escaped_strings_and_bare_numbers() {
        let text = r#"{"id":${id:turn},"sessionId":"${session}"}"#;
        let filled = fill_json_text(text, &Fixed).expect("both have values");
        assert_eq!(filled, r#"{"id":7,"sessionId":"s\"1"}"#);
    }
}
