//! The JSON Schemas of the two wire shapes, made from the constants of the codecs (A14).
//!
//! A schema counts characters where the protocol counts bytes, and cannot compare members of different states, so it
//! accepts a little more than the codecs do: a text of few characters but more than 8192 bytes, a day that its month does
//! not have, and `3.0` where the codecs want `3`. The tests hold the rest together.

use crate::ids::{REVISION_MAX, SESSION_ID_MAX_CHARS};
use crate::text::TEXT_MAX_BYTES;

const GENERATION: &str = "^g-[0-9a-f]{32}$";
const TASK_ID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";
const UPDATED_AT: &str =
    "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$";

/// The schema of a state file.
pub fn state_schema() -> String {
    let session_id = session_id();
    format!(
        r#"{{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "Task pointer, state v3",
  "type": "object",
  "additionalProperties": false,
  "required": ["schema_version", "session_id", "generation", "revision", "status", "task_id", "pointer_text", "updated_at"],
  "properties": {{
    "schema_version": {{ "const": 3 }},
    "session_id": {session_id},
    "generation": {{ "type": "string", "pattern": "{GENERATION}" }},
    "revision": {{ "type": "integer", "minimum": 1, "maximum": {REVISION_MAX} }},
    "status": {{ "enum": ["CLEAN", "DIRTY", "CLEARED"] }},
    "task_id": {{ "type": ["string", "null"], "pattern": "{TASK_ID}" }},
    "pointer_text": {{ "type": ["string", "null"], "minLength": 1 }},
    "updated_at": {{ "type": "string", "pattern": "{UPDATED_AT}" }}
  }},
  {task}
}}
"#,
        task = task_follows_status("status"),
    )
}

/// The schema of a publish request.
pub fn publish_request_schema() -> String {
    let session_id = session_id();
    format!(
        r#"{{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "Task pointer, publish request v3",
  "type": "object",
  "additionalProperties": false,
  "required": ["schema_version", "session_id", "expected_generation", "expected_revision", "task_id", "target_status", "pointer_text"],
  "properties": {{
    "schema_version": {{ "const": 3 }},
    "session_id": {session_id},
    "expected_generation": {{ "anyOf": [{{ "type": "string", "pattern": "{GENERATION}" }}, {{ "enum": ["ABSENT", "LEGACY_V2"] }}] }},
    "expected_revision": {{ "type": "integer", "minimum": 0, "maximum": {REVISION_MAX} }},
    "task_id": {{ "type": ["string", "null"], "pattern": "{TASK_ID}" }},
    "target_status": {{ "enum": ["CLEAN", "DIRTY", "CLEARED"] }},
    "pointer_text": {{ "type": ["string", "null"], "pattern": "\\S", "not": {{ "type": "string", "pattern": "[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f]" }} }}
  }},
  "allOf": [
    {{
      "if": {{ "required": ["expected_generation"], "properties": {{ "expected_generation": {{ "const": "ABSENT" }} }} }},
      "then": {{ "properties": {{ "expected_revision": {{ "const": 0 }} }} }},
      "else": {{ "properties": {{ "expected_revision": {{ "minimum": 1 }} }} }}
    }}
  ],
  {task}
}}
"#,
        task = task_follows_status("target_status"),
    )
}

fn session_id() -> String {
    format!(r#"{{ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{{0,{}}}$" }}"#, SESSION_ID_MAX_CHARS - 1)
}

/// CLEARED has neither id nor text, the others have both. The text's length is bounded here, where it is a string:
/// before normalisation a text may be twice as long.
fn task_follows_status(status: &str) -> String {
    let max = TEXT_MAX_BYTES * 2;
    format!(
        r#""if": {{ "required": ["{status}"], "properties": {{ "{status}": {{ "const": "CLEARED" }} }} }},
  "then": {{ "properties": {{ "task_id": {{ "type": "null" }}, "pointer_text": {{ "type": "null" }} }} }},
  "else": {{ "properties": {{ "task_id": {{ "type": "string" }}, "pointer_text": {{ "type": "string", "maxLength": {max} }} }} }}"#
    )
}
