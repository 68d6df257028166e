//! The method table: its consistency, its introspection, its gates.

use std::collections::BTreeSet;

use pintle_acp::{Kind, Layer, METHODS, Method, MethodId, Side, callbacks};

/// What is wrong with a table; nothing for a good one.
fn violations(rows: &[Method]) -> Vec<String> {
    let mut found = Vec::new();
    let mut wires = BTreeSet::new();
    let mut names = BTreeSet::new();
    for row in rows {
        let sides = if row.side == Side::Both { vec!["Agent", "Client"] } else { vec![side_name(row.side)] };
        for side in sides {
            for wire in [Some(row.wire), row.alias].into_iter().flatten() {
                if !wires.insert((side, wire)) {
                    found.push(format!("{wire} twice for {side}"));
                }
            }
            if let Some(name) = row.callback
                && !names.insert((side, name))
            {
                found.push(format!("callback {name} twice for {side}"));
            }
        }
        if (row.kind == Kind::Notification) != row.result.is_none() {
            found.push(format!("{}: a notification has no result, a request has one", row.wire));
        }
        if (row.layer == Layer::App) != row.callback.is_some() {
            found.push(format!("{}: a callback is for the app layer", row.wire));
        }
        if row.wire.starts_with('_') != row.alias.is_some() || row.wire.starts_with('_') != row.since.is_none() {
            found.push(format!("{}: vendor rows, and only they, have another spelling and no age", row.wire));
        }
        if row.wire.starts_with('_') && !row.wire.starts_with("_pintle/") {
            found.push(format!("{}: vendor rows begin with _pintle/", row.wire));
        }
        if row.alias.is_some_and(|alias| !alias.starts_with("_raxol/")) {
            found.push(format!("{}: the other spelling begins with _raxol/", row.wire));
        }
        if row.wire.starts_with("$/") != (row.layer == Layer::Protocol) {
            found.push(format!("{}: $/ is for the protocol layer", row.wire));
        }
        if let Some(gate) = row.gate {
            let first = gate.path.split('.').next().expect("a path");
            let known: &[&str] = match gate.side() {
                Side::Agent => &["loadSession", "promptCapabilities", "mcpCapabilities", "sessionCapabilities", "auth"],
                _ => &["fs", "terminal", "session", "subagents", "plan", "auth", "elicitation"],
            };
            // A request waits for the capability of the side that handles it.
            if !known.contains(&first) || gate.side() != row.side {
                found.push(format!("{}: {} is not a capability of the handling side", row.wire, gate.path));
            }
        }
    }
    found
}

fn side_name(side: Side) -> &'static str {
    match side {
        Side::Agent => "Agent",
        Side::Client => "Client",
        Side::Both => "Both",
    }
}

///
#[test]
fn r_002_the_table_is_consistent() {
    assert_eq!(violations(METHODS), Vec::<String>::new());
}

/// each rule notices a table that breaks it.
#[test]
fn r_002_each_rule_can_fail() {
    let check = |change: fn(&mut Method), expected: &str| {
        let mut rows = METHODS.to_vec();
        let row = rows.iter_mut().find(|row| row.id == MethodId::Prompt).expect("prompt");
        change(row);
        let found = violations(&rows);
        assert!(found.iter().any(|violation| violation.contains(expected)), "{expected}: {found:?}");
    };
    check(|row| row.wire = "session/new", "session/new twice for Agent");
    check(|row| row.callback = Some("new_session"), "callback new_session twice");
    check(|row| row.result = None, "a request has one");
    check(|row| row.kind = Kind::Notification, "a notification has no result");
    check(|row| row.layer = Layer::SessionControl, "a callback is for the app layer");
    check(|row| row.callback = None, "a callback is for the app layer");
    check(|row| row.wire = "_mine/prompt", "begin with _pintle/");
    check(|row| row.alias = Some("_other/x"), "the other spelling begins with _raxol/");
    check(|row| row.wire = "$/prompt", "is for the protocol layer");
    check(|row| row.gate = MethodId::CreateTerminal.method().gate, "is not a capability of the handling side");
}

/// the core rows are the stable methods of protocol version 1: 13 and 11 and `$/cancel_request`.
#[test]
fn r_004_the_core_rows_are_the_protocols_own() {
    let wires = |side: Side| -> Vec<&str> {
        METHODS.iter().filter(|row| row.side == side && row.alias.is_none()).map(|row| row.wire).collect()
    };
    assert_eq!(
        wires(Side::Agent),
        [
            "initialize",
            "authenticate",
            "logout",
            "session/new",
            "session/load",
            "session/resume",
            "session/list",
            "session/close",
            "session/delete",
            "session/set_mode",
            "session/set_config_option",
            "session/prompt",
            "session/cancel",
        ]
    );
    assert_eq!(
        wires(Side::Client),
        [
            "session/request_permission",
            "fs/read_text_file",
            "fs/write_text_file",
            "terminal/create",
            "terminal/output",
            "terminal/wait_for_exit",
            "terminal/kill",
            "terminal/release",
            "elicitation/create",
            "session/update",
            "elicitation/complete",
        ]
    );
    assert_eq!(wires(Side::Both), ["$/cancel_request"]);
    assert!(METHODS.iter().all(|row| row.protocol_version == 1));
}

/// a side's inbound rows are its own and those of both; the other side's are not found.
#[test]
fn r_005_rows_of_a_side() {
    for row in METHODS {
        for side in [Side::Agent, Side::Client] {
            let expected = row.side == side || row.side == Side::Both;
            assert_eq!(Method::of(side).any(|found| found.id == row.id), expected, "{} {side:?}", row.wire);
            for wire in [Some(row.wire), row.alias].into_iter().flatten() {
                assert_eq!(Method::find(side, wire).map(|found| found.id), expected.then_some(row.id), "{wire}");
            }
        }
    }
    assert_eq!(Method::find(Side::Agent, "fs/read_text_file"), None);
    assert_eq!(Method::find(Side::Agent, ""), None);
    assert_eq!(Method::find(Side::Agent, "not/a/real/method"), None);
}

/// a key finds its own row, and a name finds its key.
#[test]
fn r_007_keys_and_rows_agree() {
    for row in METHODS {
        assert_eq!(row.id.method(), row);
        assert_eq!(MethodId::from_wire(row.wire), Some(row.id));
        assert_eq!(row.alias.and_then(MethodId::from_wire), row.alias.map(|_| row.id));
    }
}

/// the handlers can be listed, in table order, with their number of arguments.
#[test]
fn r_008_callbacks() {
    let listed = |side| -> Vec<(&str, u8, &str)> {
        callbacks(side).into_iter().map(|callback| (callback.name, callback.arity, callback.wire)).collect()
    };
    assert_eq!(
        listed(Side::Agent),
        [
            ("initialize", 2, "initialize"),
            ("authenticate", 2, "authenticate"),
            ("logout", 1, "logout"),
            ("new_session", 2, "session/new"),
            ("load_session", 2, "session/load"),
            ("resume_session", 2, "session/resume"),
            ("list_sessions", 2, "session/list"),
            ("close_session", 2, "session/close"),
            ("delete_session", 2, "session/delete"),
            ("set_session_mode", 2, "session/set_mode"),
            ("set_session_config_option", 2, "session/set_config_option"),
            ("prompt", 2, "session/prompt"),
            ("load_durable_session", 2, "_pintle/session.load"),
            ("steer_session", 2, "_pintle/session.steer"),
        ]
    );
    assert!(callbacks(Side::Agent).iter().all(|callback| callback.kind == Kind::Request));
    assert_eq!(
        listed(Side::Client).into_iter().map(|(name, ..)| name).collect::<Vec<_>>(),
        [
            "request_permission",
            "read_text_file",
            "write_text_file",
            "create_terminal",
            "terminal_output",
            "wait_for_terminal_exit",
            "kill_terminal",
            "release_terminal",
            "create_elicitation",
            "session_update",
            "complete_elicitation",
            "session_record",
            "session_caught_up",
            "session_lagged",
            "session_closed",
        ]
    );
}

/// R-130, design section 4: both spellings of a vendor method are one method; other extensions have no row.
#[test]
fn r_130_vendor_spellings() {
    for name in ["load", "steer", "detach"] {
        let ours = Method::find(Side::Agent, &format!("_pintle/session.{name}"));
        assert!(ours.is_some());
        assert_eq!(ours, Method::find(Side::Agent, &format!("_raxol/session.{name}")));
    }
    for name in ["record", "caught_up", "lagged", "closed"] {
        let ours = Method::find(Side::Client, &format!("_pintle/session.{name}"));
        assert!(ours.is_some());
        assert_eq!(ours, Method::find(Side::Client, &format!("_raxol/session.{name}")));
    }
    assert_eq!(Method::find(Side::Agent, "_vendor/unregistered"), None);
    assert!(Method::is_extension("_vendor/unregistered"));
    assert!(!Method::is_extension("session/new"));
}

/// `docs/acp-methods.md` is this table and nothing else.
#[test]
fn r_001_the_documented_table() {
    let mut expected = String::from(
        "# ACP methods\n\n\
         The method table of `pintle-acp` (`METHODS`), as a test writes it. *Gate* is what the handling side must have\n\
         advertised; *since* the month by which the method was stable. Methods of ours have a second spelling.\n\n\
         | method | handled by | kind | handler | params | result | gate | since |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let code = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), |text| format!("`{text}`"));
    for row in METHODS {
        let wire = match row.alias {
            Some(alias) => format!("`{}`, `{alias}`", row.wire),
            None => format!("`{}`", row.wire),
        };
        let (side, kind) = (side_name(row.side).to_lowercase(), format!("{:?}", row.kind).to_lowercase());
        let handler = row.callback.map_or_else(|| "the connection".to_owned(), |name| format!("`{name}`"));
        let gate = code(row.gate.map(|gate| gate.path));
        let (params, result, since) = (code(row.params), code(row.result), row.since.unwrap_or("-"));
        expected += &format!("| {wire} | {side} | {kind} | {handler} | {params} | {result} | {gate} | {since} |\n");
    }
    let documented = include_str!("../../../../docs/acp-methods.md");
    assert!(documented == expected, "docs/acp-methods.md is not:\n{expected}");
}
