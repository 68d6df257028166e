//! Each fault found where it is, and none where there is none.

use proptest::prelude::*;

use super::*;

/// A conversation, one frame a line: `>` to the agent, `<` from it. Behind `!` stand the codes that the frame gets.
fn check(conversation: &str) {
    let mut linter = Linter::default();
    for line in conversation.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (frame, expected) = line.split_once(" ! ").unwrap_or((line, ""));
        let (dir, frame) = match frame.split_at(2) {
            ("> ", frame) => (Dir::ToAgent, frame),
            ("< ", frame) => (Dir::FromAgent, frame),
            other => panic!("no direction in {other:?}"),
        };
        let found: Vec<String> =
            linter.line(dir, &Looked::at(frame.as_bytes())).into_iter().map(|fault| fault.code.into_owned()).collect();
        assert_eq!(found.join(" "), expected, "{line}");
    }
}

/// The handshake, one session `s` and a turn of it that is open, with id 3.
const TURN: &str = r#"
    > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true}}}}
    < {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}
    > {"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}
    < {"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}
    > {"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
"#;

fn after_turn_began(more: &str) {
    check(&format!("{TURN}\n{more}"));
}

#[test]
fn a_good_conversation_has_no_fault() {
    after_turn_began(
        r#"
        < {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}
        < {"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/a"}}
        > {"jsonrpc":"2.0","id":1,"result":{"content":"x"}}
        > {"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}
        < {"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}
        < {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"available_commands_update","availableCommands":[]}}}
        > {"jsonrpc":"2.0","id":4,"method":"_vendor/thing","params":[1]}
        < {"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"Method not found"}}
        > {"jsonrpc":"2.0","method":"_vendor/note"}
        "#,
    );
}

/// A client may send on before the answer to `initialize`; the agent holds it.
#[test]
fn what_is_sent_behind_initialize_is_no_fault() {
    check(
        r#"
        > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}
        > {"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}
        < {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}
        > {"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":1}} ! initialize_twice
        "#,
    );
    check(
        r#"
        > {"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}} ! before_initialize
        < {"jsonrpc":"2.0","id":1,"method":"terminal/create","params":{"sessionId":"s","command":"x"}} ! before_initialize unknown_session
        "#,
    );
}

#[test]
fn lines_that_are_no_message() {
    check(
        r#"
        < Welcome to the agent! ! garbage
        < {"a":1,"a":2} ! garbage
        < [{"jsonrpc":"2.0","method":"_a/b"}] ! batch
        < 7 ! not_an_object
        < {"jsonrpc":"2.0"} ! not_a_message
        < {"jsonrpc":"2.0","id":1,"method":7} ! not_a_message
        < {"jsonrpc":"2.0","id":null,"method":"_a/b"} ! bad_id
        < {"jsonrpc":"2.0","id":1.5,"result":{}} ! bad_id
        < {"method":"_a/b"} ! wrong_jsonrpc
        < {"jsonrpc":"1.0","id":9,"method":"_a/b"} ! wrong_jsonrpc
        > {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}
        "#,
    );
}

#[test]
fn methods_are_looked_up() {
    after_turn_began(
        r#"
        > {"jsonrpc":"2.0","id":8,"method":"session/fly","params":{}} ! unknown_method
        > {"jsonrpc":"2.0","method":"fly"} ! unknown_method
        < {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}} ! wrong_side
        > {"jsonrpc":"2.0","id":9,"method":"session/cancel","params":{"sessionId":"s"}} ! notification_with_id
        > {"jsonrpc":"2.0","method":"session/list","params":{}} ! request_without_id
        < {"jsonrpc":"2.0","id":2,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/a","content":""}} ! undeclared_client_method
        < {"jsonrpc":"2.0","id":3,"method":"terminal/create","params":{"sessionId":"s","command":"x"}} ! undeclared_client_method
        > {"jsonrpc":"2.0","id":10,"method":"session/list","params":{}} ! undeclared_agent_method
        "#,
    );
}

#[test]
fn members_that_are_missing_or_wrong() {
    after_turn_began(
        r#"
        > {"jsonrpc":"2.0","id":8,"method":"session/new","params":{"mcpServers":[]}} ! bad_params
        < {"jsonrpc":"2.0","id":8,"result":{}} ! bad_result
        > {"jsonrpc":"2.0","id":9,"method":"session/new","params":{"cwd":"relative","mcpServers":[]}} ! bad_params
        < {"jsonrpc":"2.0","id":9,"error":{"message":"no code"}} ! bad_error
        < {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}} ! bad_params
        < {"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"},"error":{"code":1,"message":"m"}} ! result_and_error
        "#,
    );
}

#[test]
fn ids_are_paired() {
    after_turn_began(
        r#"
        > {"jsonrpc":"2.0","id":3,"method":"_a/b"} ! duplicate_id
        > {"jsonrpc":"2.0","id":"3","method":"_a/b"}
        < {"jsonrpc":"2.0","id":"3","result":null}
        < {"jsonrpc":"2.0","id":"3","result":null} ! second_reply
        < {"jsonrpc":"2.0","id":77,"result":null} ! reply_without_request
        > {"jsonrpc":"2.0","id":3,"result":null} ! reply_without_request
        < {"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}
        "#,
    );
}

#[test]
fn updates_belong_to_a_session_and_a_turn() {
    let chunk = |session: &str, codes: &str| {
        format!(
            r#"< {{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"x"}}}}}}}}{codes}"#
        )
    };
    after_turn_began(&[
        chunk("s", ""),
        chunk("other", " ! unknown_session"),
        r#"> {"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}} ! prompt_while_busy"#.to_owned(),
        r#"< {"jsonrpc":"2.0","id":4,"error":{"code":-32600,"message":"busy"}}"#.to_owned(),
        chunk("s", ""),
        r#"< {"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#.to_owned(),
        chunk("s", " ! update_after_reply"),
        r#"> {"jsonrpc":"2.0","id":5,"method":"session/load","params":{"sessionId":"old","cwd":"/","mcpServers":[]}}"#.to_owned(),
        chunk("old", ""),
        r#"< {"jsonrpc":"2.0","id":5,"result":{}}"#.to_owned(),
        chunk("old", " ! update_outside_turn"),
        r#"> {"jsonrpc":"2.0","id":6,"method":"session/prompt","params":{"sessionId":"gone","prompt":[]}} ! unknown_session"#.to_owned(),
    ].join("\n"));
}

/// What was not seen is not blamed on anybody.
#[test]
fn after_a_loss_nothing_is_said_that_depends_on_it() {
    let mut linter = Linter::default();
    linter.lost();
    let reply = br#"{"jsonrpc":"2.0","id":1,"result":null}"#;
    assert_eq!(linter.line(Dir::FromAgent, &Looked::at(reply)), []);
    let update = br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[]}}}"#;
    assert_eq!(linter.line(Dir::FromAgent, &Looked::at(update)), []);
    assert_eq!(linter.line(Dir::FromAgent, &Looked::at(b"x"))[0].code, "garbage");
}

/// Inv-5 of the house: what it remembers is bounded, whatever a peer sends.
#[test]
fn the_tables_are_bounded() {
    let mut linter = Linter::default();
    for id in 0..2 * MAX_REMEMBERED {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"_a/b"}}"#);
        linter.line(Dir::ToAgent, &Looked::at(line.as_bytes()));
    }
    assert_eq!(linter.open[Dir::ToAgent as usize].len(), MAX_REMEMBERED);
    assert!(linter.uncertain);
    assert_eq!(linter.unanswered().len(), MAX_ANSWERED);
}

/// A name of a peer's is cut, at a character.
#[test]
fn names_are_shortened() {
    let long = "\u{e9}".repeat(200);
    assert_eq!(shortened(&long), format!("{}..", "\u{e9}".repeat(NAME_CHARS)));
}

proptest! {
    /// A piece of text in the usual form gets the same faults whether it is looked at the short way or as any other frame.
    #[test]
    fn the_usual_form_is_judged_as_any_other(
        states in 0_usize..4,
        to_agent in any::<bool>(),
        session in "s|t|s\\\\u0041|s\\\\n",
        tag in "agent_message_chunk|agent_thought_chunk|user_message_chunk|plan|x",
        text in r#"([a-z :=]|\\n|\\"|\\u00e9|\\ud83d){0,20}"#,
        message in prop::option::of("m1|m\\\\n"),
    ) {
        let mut linter = Linter::default();
        // Nothing, the handshake, a session, a turn; then a loss.
        let lines: Vec<&str> = TURN.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        for line in &lines[..[0, 2, 4, 5][states]] {
            let dir = if line.starts_with('>') { Dir::ToAgent } else { Dir::FromAgent };
            linter.line(dir, &Looked::at(&line.as_bytes()[2..]));
        }
        let dir = if to_agent { Dir::ToAgent } else { Dir::FromAgent };
        let message = message.map(|id| format!(r#","messageId":"{id}""#)).unwrap_or_default();
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"{tag}","content":{{"type":"text","text":"{text}"}}{message}}}}}}}"#
        );
        for lost in [false, true] {
            linter.uncertain = lost;
            let short = linter.line(dir, &Looked::at(line.as_bytes()));
            let mut long = Faults(Vec::new());
            linter.scanned(dir, scan(line.as_bytes(), Profile::Acp, ScanLimits::ACP).as_ref(), &mut long);
            prop_assert_eq!(short, long.0, "{}", line);
        }
    }
}
