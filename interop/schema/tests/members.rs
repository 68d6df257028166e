//! Every member and every kind of value that the official JSON Schema has is known to ours: the schema is turned
//! into messages that have everything, and ours must find nothing in them that it does not know.

use pintle_acp::types::Finding;
use pintle_interop_schema::pairs;
use serde_json::{Map, Value, json};

/// More than the deepest type needs; a schema that refers to itself would go on for ever.
const MAX_DEPTH: usize = 24;

/// Messages that meet a schema: all members, every branch of every union at least once.
struct Maker<'a> {
    root: &'a Value,
}

impl Maker<'_> {
    fn make(&self, schema: &Value, depth: usize) -> Vec<Value> {
        assert!(depth < MAX_DEPTH, "the schema refers to itself");
        let depth = depth + 1;
        if let Some(value) = schema.get("const") {
            return vec![value.clone()];
        }
        if let Some(values) = schema["enum"].as_array() {
            return values.clone();
        }
        let mut found = self.by_type(schema, depth);
        // Members of what is referred to, of `allOf` and of a branch stand beside those of the schema itself.
        if let Some(reference) = schema["$ref"].as_str() {
            let pointer = reference.strip_prefix('#').expect("a reference into the same document");
            found = merge(&found, &self.make(self.root.pointer(pointer).expect("what is referred to"), depth));
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            found = merge(&found, &self.make(part, depth));
        }
        for union in ["oneOf", "anyOf"] {
            if let Some(branches) = schema[union].as_array() {
                let made: Vec<Value> = branches
                    .iter()
                    .filter(|branch| branch["type"] != "null")
                    .flat_map(|branch| self.make(branch, depth))
                    .collect();
                found = merge(&found, &made);
            }
        }
        found
    }

    fn by_type(&self, schema: &Value, depth: usize) -> Vec<Value> {
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().find(|kind| **kind != "null").and_then(Value::as_str),
            kind => kind.as_str(),
        };
        match kind {
            Some("string") => vec![json!("x")],
            Some("integer") => vec![json!(7)],
            Some("number") => vec![json!(0.5)],
            Some("boolean") => vec![json!(true)],
            Some("array") => {
                // One list with every kind of item.
                vec![Value::Array(self.make(&schema["items"], depth))]
            }
            Some("object") => self.object(schema, depth),
            None if schema.get("properties").is_some() => self.object(schema, depth),
            // Anything goes, or it is said in allOf, oneOf or anyOf.
            _ => vec![Value::Null],
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Vec<Value> {
        let mut first = Map::new();
        let mut others: Vec<(String, Vec<Value>)> = Vec::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let mut made = self.make(property, depth);
            first.insert(name.clone(), made.remove(0));
            others.push((name.clone(), made));
        }
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            for (i, value) in self.make(values, depth).into_iter().enumerate() {
                first.insert(format!("key{i}"), value);
            }
        }
        let mut all = vec![Value::Object(first.clone())];
        for (name, values) in others {
            for value in values {
                let mut next = first.clone();
                next.insert(name.clone(), value);
                all.push(Value::Object(next));
            }
        }
        all
    }
}

/// Every left value with every right one laid over it; `null` stands for a schema that says nothing.
fn merge(left: &[Value], right: &[Value]) -> Vec<Value> {
    let mut merged = Vec::new();
    for left in left {
        for right in right {
            merged.push(match (left, right) {
                (Value::Object(left), Value::Object(right)) => {
                    let mut both = left.clone();
                    both.extend(right.clone());
                    Value::Object(both)
                }
                (left, Value::Null) => left.clone(),
                (_, right) => right.clone(),
            });
        }
    }
    merged
}

/// Absolute paths and versions have rules that the schema does not tell.
fn with_rules(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(with_rules),
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), &mut *value) {
                    ("cwd" | "path", Value::String(path)) => *path = "/x".to_owned(),
                    ("additionalDirectories", Value::Array(paths)) => *paths = vec![json!("/x")],
                    ("options", Value::Array(options)) => {
                        for (i, option) in options.iter_mut().enumerate() {
                            if option.get("optionId").is_some() {
                                option["optionId"] = json!(format!("o{i}"));
                            }
                            with_rules(option);
                        }
                    }
                    (_, value) => with_rules(value),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn ours_knows_every_member_of_the_official_schema() {
    let mut made = 0;
    let mut complaints = Vec::new();
    for pair in pairs() {
        let schema = (pair.schema)();
        for mut message in (Maker { root: &schema }).make(&schema, 0) {
            with_rules(&mut message);
            made += 1;
            let official = (pair.official)(&message);
            match ((pair.ours)(&message), official) {
                (Ok(ours), _) => {
                    // `x` stands for any string, so an unknown value says nothing here; an unknown member does.
                    for finding in ours.findings {
                        if !matches!(finding, Finding::UnknownValue { .. }) {
                            complaints.push(format!("{}: {finding:?}\n  {message}", pair.name));
                        }
                    }
                    if ours.written != message {
                        complaints.push(format!("{}: lost\n  {message}\n  {}", pair.name, ours.written));
                    }
                }
                // What the official type refuses is the maker's fault, not ours.
                (Err(fault), Ok(_)) => complaints.push(format!("{}: {fault}\n  {message}", pair.name)),
                (Err(_), Err(_)) => made -= 1,
            }
        }
    }
    let shown = &complaints[..complaints.len().min(10)];
    assert!(complaints.is_empty(), "{} of {made}\n{}", complaints.len(), shown.join("\n"));
    assert!(made >= 150, "{made} messages were made");
}
