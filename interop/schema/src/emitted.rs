//! Frames that went over a wire, against the JSON Schema that the protocol's authors publish: the envelope, the params by
//! method, the result by the method that it answers.

use std::collections::{BTreeMap, HashMap};

use jsonschema::Validator;
use serde_json::{Value, json};

/// Kinds of updates that are stable in the official crate and still among the unstable ones of the published schema.
const NEWER_UPDATES: [&str; 5] =
    ["plan_update", "plan_removed", "subagent_update", "session_message", "session_message_chunk"];

/// Which end sent a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum From {
    /// The client.
    Client,
    /// The agent.
    Agent,
}

impl From {
    fn other(self) -> Self {
        match self {
            Self::Client => Self::Agent,
            Self::Agent => Self::Client,
        }
    }
}

/// One schema, by method.
pub struct Schema {
    root: Value,
    /// Names of definitions: of the params, and of the result of a request.
    methods: HashMap<String, [Option<String>; 2]>,
    validators: HashMap<String, Validator>,
}

impl Schema {
    /// Takes a document with `$defs`, in which `x-method` says what belongs to which method.
    ///
    /// # Errors
    /// The document has no definitions, or none of them names a method.
    pub fn new(root: Value) -> Result<Self, String> {
        let definitions = root["$defs"].as_object().ok_or("the schema has no $defs")?;
        let mut methods: HashMap<String, [Option<String>; 2]> = HashMap::new();
        for (name, definition) in definitions {
            if let Some(method) = definition["x-method"].as_str() {
                let place = usize::from(name.ends_with("Response"));
                methods.entry(method.to_owned()).or_default()[place] = Some(name.clone());
            }
        }
        if methods.is_empty() {
            return Err("no definition of the schema names its method".to_owned());
        }
        Ok(Self { root, methods, validators: HashMap::new() })
    }

    /// What is wrong with `value` as the definition `name`.
    fn faults(&mut self, name: &str, value: &Value) -> Result<(), String> {
        if !self.validators.contains_key(name) {
            let document = json!({
                "$schema": self.root["$schema"],
                "$ref": format!("#/$defs/{name}"),
                "$defs": self.root["$defs"],
            });
            let validator = jsonschema::validator_for(&document).map_err(|e| format!("{name}: no schema: {e}"))?;
            self.validators.insert(name.to_owned(), validator);
        }
        let faults: Vec<String> =
            self.validators[name].iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        if faults.is_empty() { Ok(()) } else { Err(format!("as {name}: {}", faults.join("; "))) }
    }

    fn definition(&self, method: &str, of_result: bool) -> Result<String, String> {
        let found = self.methods.get(method).and_then(|names| names[usize::from(of_result)].clone());
        found.ok_or_else(|| format!("`{method}` has no {} in the schema", if of_result { "result" } else { "params" }))
    }
}

/// Looks at the frames of one connection, in their order.
pub struct Checker {
    stable: Schema,
    newer: Schema,
    /// Requests that are open: who asked, the id as JSON, the method.
    open: HashMap<(From, String), String>,
    /// How often each kind of frame was found in order.
    pub seen: BTreeMap<String, usize>,
}

impl Checker {
    /// `newer` is asked where the other one is known to be behind.
    pub fn new(stable: Schema, newer: Schema) -> Self {
        Self { stable, newer, open: HashMap::new(), seen: BTreeMap::new() }
    }

    /// Another connection begins.
    pub fn begin(&mut self) {
        self.open.clear();
    }

    /// Looks at one frame.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn frame(&mut self, from: From, message: &Value) -> Result<(), String> {
        if message["jsonrpc"] != "2.0" {
            return Err("`jsonrpc` is not \"2.0\"".to_owned());
        }
        let kind = match message.get("method") {
            Some(method) => self.call(from, method, message)?,
            None => self.answer(from, message)?,
        };
        *self.seen.entry(kind).or_default() += 1;
        Ok(())
    }

    fn call(&mut self, from: From, method: &Value, message: &Value) -> Result<String, String> {
        let method = method.as_str().ok_or("`method` is no string")?;
        if let Some(id) = message.get("id") {
            self.stable.faults("RequestId", id)?;
            if self.open.insert((from, id.to_string()), method.to_owned()).is_some() {
                return Err(format!("id {id} is in use"));
            }
        }
        if method.starts_with('_') {
            return Ok("an extension method".to_owned());
        }
        let none = json!({});
        let params = message.get("params").unwrap_or(&none);
        let update = params["update"]["sessionUpdate"].as_str().unwrap_or_default();
        let schema = if NEWER_UPDATES.contains(&update) { &mut self.newer } else { &mut self.stable };
        let definition = schema.definition(method, false)?;
        schema.faults(&definition, params)?;
        Ok(if method == "session/update" { format!("{method} {update}") } else { method.to_owned() })
    }

    fn answer(&mut self, from: From, message: &Value) -> Result<String, String> {
        let id = message.get("id").ok_or("neither a method nor an id")?;
        let asked = self.open.remove(&(from.other(), id.to_string()));
        match (message.get("result"), message.get("error")) {
            (Some(result), None) => {
                let method = asked.ok_or_else(|| format!("id {id} answers nothing that was asked"))?;
                if method.starts_with('_') {
                    return Ok("a result of an extension method".to_owned());
                }
                let definition = self.stable.definition(&method, true)?;
                self.stable.faults(&definition, result).map_err(|fault| format!("result of `{method}` {fault}"))?;
                Ok(format!("result of {method}"))
            }
            (None, Some(error)) => {
                if asked.is_none() && !id.is_null() {
                    return Err(format!("id {id} answers nothing that was asked"));
                }
                self.stable.faults("Error", error)?;
                Ok(format!("error {}", error["code"]))
            }
            _ => Err("not exactly one of `result` and `error`".to_owned()),
        }
    }
}
