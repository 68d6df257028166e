//! Codex runs a hook only when the user has trusted exactly it. Here the hash is computed offline, and what
//! `config.toml` says is compared with it; nothing here ever writes trust.

use std::path::Path;

use pintle_wire::{Digest, to_canonical};
use serde_json::{Map, Value};

use super::change::{HookShape, TargetRole, places};
use super::dialect::Dialect;
use super::error::EditError;
use super::json_edit::{Json, JsonDoc, Step};
use super::toml_file;
use crate::Agent;

/// Codex's own default of a handler's time-out.
const DEFAULT_TIMEOUT_S: u64 = 600;

/// The events that we install for Codex: the name in the file, the label in trust keys, whether a matcher applies.
const EVENTS: [(&str, &str, bool); 4] = [
    ("UserPromptSubmit", "user_prompt_submit", false),
    ("PreCompact", "pre_compact", true),
    ("SessionStart", "session_start", true),
    ("Stop", "stop", false),
];

/// One hook of ours as Codex's trust sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustEntry {
    /// The event.
    pub event: &'static str,
    /// The key in `[hooks.state]`.
    pub key: String,
    /// The hash that `trusted_hash` must equal.
    pub hash: String,
}

/// What Codex does with a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustStatus {
    /// It runs.
    Trusted,
    /// It was never trusted: listed, and not run.
    Untrusted,
    /// It was trusted and has changed since: not run.
    Modified,
    /// The user switched it off.
    Disabled,
}

impl TrustStatus {
    /// The word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Untrusted => "untrusted",
            Self::Modified => "modified",
            Self::Disabled => "disabled",
        }
    }
}

/// Our hooks in a `hooks.json` at `path`, with their keys and hashes.
///
/// # Errors
/// [`EditError`] where the file cannot be read as JSON.
pub fn codex_trust_entries(path: &Path, hooks_json: &[u8]) -> Result<Vec<TrustEntry>, EditError> {
    let doc = JsonDoc::parse(hooks_json, Dialect::of(Agent::Codex, TargetRole::Hooks))?;
    let mut entries = Vec::new();
    for (event, label, has_matcher) in EVENTS {
        let groups = doc
            .value(&[Step::Member("hooks"), Step::Member(event)])
            .and_then(|groups| groups.as_list().map(<[Json]>::to_vec))
            .unwrap_or_default();
        for (at, inner) in places(&groups, HookShape::Grouped, Agent::Codex) {
            let Some(inner) = inner else { continue };
            let Some(handler) = groups[at].get("hooks").and_then(Json::as_list).and_then(|list| list.get(inner)) else {
                continue;
            };
            let matcher = groups[at].get("matcher").and_then(Json::as_text).filter(|_| has_matcher);
            entries.push(TrustEntry {
                event,
                key: format!("{}:{label}:{at}:{inner}", path.display()),
                hash: hash(label, matcher, handler),
            });
        }
    }
    Ok(entries)
}

/// What `config.toml` says of one of our hooks.
///
/// # Errors
/// [`EditError`] where the file is not TOML.
pub fn codex_trust_status(config_toml: &[u8], entry: &TrustEntry) -> Result<TrustStatus, EditError> {
    let doc = toml_file::parse(config_toml)?;
    let state = doc.get("hooks").and_then(|hooks| hooks.get("state")).and_then(|state| state.get(&entry.key));
    let Some(state) = state else { return Ok(TrustStatus::Untrusted) };
    if state.get("enabled").and_then(toml_edit::Item::as_bool) == Some(false) {
        return Ok(TrustStatus::Disabled);
    }
    Ok(match state.get("trusted_hash").and_then(toml_edit::Item::as_str) {
        Some(hash) if hash == entry.hash => TrustStatus::Trusted,
        Some(_) => TrustStatus::Modified,
        None => TrustStatus::Untrusted,
    })
}

/// SHA-256 over the canonical form of what Codex runs, its defaults filled in.
fn hash(label: &str, matcher: Option<&str>, handler: &Json) -> String {
    let number = |name| match handler.get(name) {
        Some(Json::Plain(text)) => text.parse::<u64>().ok(),
        _ => None,
    };
    let timeout = number("timeout").unwrap_or(DEFAULT_TIMEOUT_S).max(1);
    let mut hook = Map::new();
    hook.insert("type".into(), "command".into());
    let command = if cfg!(windows) {
        handler.get("commandWindows").or_else(|| handler.get("command"))
    } else {
        handler.get("command")
    };
    hook.insert("command".into(), command.and_then(Json::as_text).unwrap_or_default().into());
    hook.insert("timeout".into(), timeout.into());
    hook.insert("async".into(), Value::Bool(handler.get("async") == Some(&Json::bool(true))));
    if let Some(message) = handler.get("statusMessage").and_then(Json::as_text) {
        hook.insert("statusMessage".into(), message.into());
    }
    if let Some(limit) = number("additionalContextLimit") {
        hook.insert("additionalContextLimit".into(), limit.into());
    }
    let mut whole = Map::new();
    whole.insert("event_name".into(), label.into());
    if let Some(matcher) = matcher {
        whole.insert("matcher".into(), matcher.into());
    }
    whole.insert("hooks".into(), Value::Array(vec![Value::Object(hook)]));
    // Whole numbers in range are all that it holds, so the canonical form exists.
    to_canonical(&Value::Object(whole)).map(|bytes| Digest::of(&bytes).to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recipe's own example (hooks.md, section 2).
    #[test]
    fn the_hash_is_the_one_that_codex_computes() {
        let handler = Json::map([("type", Json::text("command")), ("command", Json::text("true"))]);
        assert_eq!(
            hash("session_start", Some("startup|resume"), &handler),
            "sha256:f1438b4e49909c9aa6ce9b767e398be76a6ad773d2f4847674aeb3a05f2e2d3e"
        );
    }

    #[test]
    fn keys_count_the_groups_of_others_and_the_status_follows_the_hash() {
        let hooks = br#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"mine"}]},
            {"hooks":[{"type":"command","command":"/opt/pintle task hook --agent codex","timeout":5}]}]}}"#;
        let entries = codex_trust_entries(Path::new("/h/hooks.json"), hooks).expect("reads");
        let [entry] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!(entry.key, "/h/hooks.json:stop:1:0");
        let status = |toml: String| codex_trust_status(toml.as_bytes(), entry).expect("reads");
        let table = format!("[hooks.state.\"{}\"]\n", entry.key);
        assert_eq!(status(String::new()), TrustStatus::Untrusted);
        assert_eq!(status(format!("{table}trusted_hash = \"{}\"\n", entry.hash)), TrustStatus::Trusted);
        assert_eq!(status(format!("{table}trusted_hash = \"sha256:00\"\n")), TrustStatus::Modified);
        assert_eq!(
            status(format!("{table}trusted_hash = \"{}\"\nenabled = false\n", entry.hash)),
            TrustStatus::Disabled
        );
    }
}
