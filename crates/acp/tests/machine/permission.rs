//! What an answer to a permission request comes to, and what a policy answers.

use pintle_acp::permission::{Approve, Decision, NoDecision};
use pintle_acp::types::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest, ToolCallUpdate,
    ToolKind,
};
use pintle_acp::{ClientEvent, Error, Outcome, RawJson};
use serde_json::{Value, json};

use crate::pair::{Client, vectors};

/// A result as it comes from the wire.
fn result(value: &Value) -> Outcome {
    let mut client = Client::with_session();
    let id = client.ask("_agent/thing", json!({})).expect("sent");
    client.send(json!({ "jsonrpc": "2.0", "id": id.get(), "result": value }));
    match client.events.pop() {
        Some(ClientEvent::Outcome { outcome, .. }) => outcome,
        other => panic!("{other:?}"),
    }
}

fn options() -> Vec<PermissionOption> {
    vec![
        PermissionOption::new("opt-1", "Allow", PermissionOptionKind::AllowOnce),
        PermissionOption::new("always", "Always", PermissionOptionKind::AllowAlways),
        PermissionOption::new("no", "No", PermissionOptionKind::RejectOnce),
        PermissionOption::new("never", "Never", PermissionOptionKind::RejectAlways),
        PermissionOption::new(
            "odd",
            "Odd",
            serde_json::from_value::<PermissionOptionKind>(json!("allow_twice")).expect("kept"),
        ),
    ]
}

/// I8: every row of `permission_outcomes.json`, and what the original let through (G-09).
#[test]
fn only_an_offered_yes_is_a_yes_i8() {
    let rows = vectors("permission_outcomes");
    for row in rows["rows"].as_array().expect("rows") {
        let asked = row["ask_result"].as_str().expect("a row");
        let outcome = match asked {
            "response outcome=selected optionId=opt-1" => {
                result(&json!({ "outcome": { "outcome": "selected", "optionId": "opt-1" } }))
            }
            "response outcome=cancelled" => result(&json!({ "outcome": { "outcome": "cancelled" } })),
            "error response -32603" => Outcome::Error(Error::internal_error()),
            text if text.starts_with("error response -32601") => Outcome::Error(Error::method_not_found("m")),
            "result fails typed decode" => result(&json!({ "outcome": "yes" })),
            "timeout" => Outcome::TimedOut,
            "connection closed" => Outcome::Closed,
            "turn cancelled while parked" => Outcome::TurnCancelled,
            // These never get an outcome: the turn machine and the connection refuse to send.
            text if text.starts_with("ask issued while") || text == "could not be submitted" => continue,
            other => panic!("the vectors have a new row: {other}"),
        };
        let allowed = row["agent_sees"] != "cancelled";
        assert_eq!(Decision::judge(&options(), &outcome).is_allowed(), allowed, "{asked}");
    }
}

/// and G-09: the id has to be one that was offered, and its kind decides. R-174: "always" is told to whoever asked,
/// and remembered by nobody here.
#[test]
fn the_kind_of_the_chosen_option_decides_r172() {
    fn check(option: &str, expected: &str) {
        let outcome = result(&json!({ "outcome": { "outcome": "selected", "optionId": option } }));
        let decision = Decision::judge(&options(), &outcome);
        let shown = match &decision {
            Decision::Allowed(choice) => format!("allowed, always {}", choice.always),
            Decision::Rejected(choice) => format!("rejected, always {}", choice.always),
            Decision::Cancelled(why) => format!("{why:?}"),
        };
        assert_eq!(shown, expected, "{option}");
    }
    check("opt-1", "allowed, always false");
    check("always", "allowed, always true");
    check("no", "rejected, always false");
    check("never", "rejected, always true");
    check("odd", "UnknownKind");
    check("forged", "NotOffered");
    check("", "NotOffered");
}

/// A yes to nothing that was offered is no yes, whatever the answer looks like.
#[test]
fn garbage_is_never_a_yes() {
    for value in
        [json!(null), json!({}), json!({ "outcome": { "outcome": "granted", "optionId": "opt-1" } }), json!([])]
    {
        let decision = Decision::judge(&options(), &result(&value));
        assert_eq!(decision, Decision::Cancelled(NoDecision::Undecodable), "{value}");
    }
    let _ = RawJson::null();
}

/// A policy chooses by kind, never by position, and says "cancelled" where nothing fits.
#[test]
fn a_policy_answers_by_kind() {
    fn check(policy: Approve, kind: Option<ToolKind>, options: Vec<PermissionOption>, expected: Option<&str>) {
        let mut call = ToolCallUpdate::new("c");
        call.kind = kind;
        let request = RequestPermissionRequest::new("s", call, options);
        let chosen = match policy.answer(&request).outcome {
            RequestPermissionOutcome::Selected(selected) => Some(selected.option_id.as_str().to_owned()),
            _ => None,
        };
        assert_eq!(chosen.as_deref(), expected, "{policy:?} {:?}", request.tool_call.kind);
    }
    check(Approve::All, None, options(), Some("opt-1"));
    check(Approve::None, Some(ToolKind::Read), options(), Some("no"));
    check(Approve::Reads, Some(ToolKind::Read), options(), Some("opt-1"));
    check(Approve::Reads, Some(ToolKind::Edit), options(), Some("no"));
    check(Approve::Reads, None, options(), Some("no"));
    check(Approve::All, None, options().split_off(1), Some("always"));
    check(Approve::All, None, options().split_off(2), None);
    check(Approve::None, None, options()[..2].to_vec(), None);
    let mut reversed = options();
    reversed.reverse();
    check(Approve::All, None, reversed, Some("opt-1"));
}
