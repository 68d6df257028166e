use super::super::TargetRole;
use super::*;
use crate::Agent;

/// Every kind of file that some agent takes and another drops whole, with what each does (found out by running them).
const KINDS: [(&str, &str, EditFault); 8] = [
    ("byte order mark", "\u{feff}{\"hooks\":{}}", EditFault::Bom),
    ("line comment", "{ // c\n\"hooks\":{}}", EditFault::Comment),
    ("block comment", "{ /* c */\"hooks\":{}}", EditFault::Comment),
    ("trailing comma", "{\"hooks\":{},}", EditFault::TrailingComma),
    ("name twice", "{\"hooks\":{},\"hooks\":{}}", EditFault::DuplicateKey),
    ("lone surrogate", "{\"hooks\":{\"x\":\"\\ud800\"}}", EditFault::LoneSurrogate),
    ("huge number", "{\"hooks\":{\"x\":1e400}}", EditFault::HugeNumber),
    ("depth 200", "", EditFault::TooDeep),
];

#[test]
fn each_agent_takes_what_it_takes() {
    use super::super::json_edit::JsonDoc;
    let deep = format!("{{\"hooks\":{{\"x\":{}{}}}}}", "[".repeat(198), "]".repeat(198));
    let check = |agent, role, taken: [bool; 8]| {
        for ((name, text, fault), taken) in KINDS.into_iter().zip(taken) {
            let text = if text.is_empty() { &deep } else { text };
            let found = JsonDoc::parse(text.as_bytes(), Dialect::of(agent, role)).map(drop).map_err(|e| e.fault());
            assert_eq!(found, if taken { Ok(()) } else { Err(fault) }, "{agent} {role:?}: {name}");
        }
    };
    let (yes, no) = (true, false);
    check(Agent::Codex, TargetRole::Hooks, [no, no, no, no, no, no, yes, no]);
    check(Agent::Claude, TargetRole::Hooks, [yes, no, no, no, yes, yes, yes, yes]);
    check(Agent::Claude, TargetRole::Mcp, [yes, no, no, no, yes, yes, yes, yes]);
    check(Agent::Gemini, TargetRole::Hooks, [no, yes, yes, no, yes, yes, yes, yes]);
    check(Agent::Qwen, TargetRole::Hooks, [yes, yes, yes, no, yes, yes, yes, yes]);
    check(Agent::Copilot, TargetRole::Hooks, [no, no, no, no, yes, no, no, no]);
    check(Agent::Copilot, TargetRole::Mcp, [yes, yes, yes, yes, yes, no, yes, no]);
    check(Agent::Cursor, TargetRole::Hooks, [no, no, no, no, yes, yes, yes, yes]);
    check(Agent::Opencode, TargetRole::Mcp, [yes; 8]);
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    let lenient = Dialect::of(Agent::Opencode, TargetRole::Mcp);
    let check = |text: &str, place: &str| {
        let error = Tree::read(text, &lenient).expect_err("refused");
        assert_eq!(error.fault(), EditFault::Syntax, "{text:?}");
        assert!(error.to_string().ends_with(place), "{text:?}: {error}");
    };
    check("{\n\"a\":1", "(line 2, column 6)");
    check("{\"a\":01}", "(line 1, column 6)");
    check("{\"a\":1.}", "(line 1, column 6)");
    check("{\"a\" 1}", "(line 1, column 6)");
    check("{\"a\":[1}", "(line 1, column 8)");
    check("{\"a\":tru}", "(line 1, column 6)");
    check("{\"a\":\"\t\"}", "(line 1, column 7)");
    check("{\"a\":\"\\x\"}", "(line 1, column 7)");
    check("{\"a\":\"\\u12g4\"}", "(line 1, column 7)");
    check("{\"a\":\"x}", "(line 1, column 6)");
    check("{,}", "(line 1, column 2)");
    check("{} {}", "(line 1, column 4)");
    check("{} /* x", "(line 1, column 4)");
    check("", "(line 1, column 1)");
}

#[test]
fn any_depth_is_read_or_refused_without_the_stack() {
    let lenient = Dialect::of(Agent::Opencode, TargetRole::Mcp);
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Tree::read(&nested(500), &lenient).is_ok());
    assert_eq!(Tree::read(&nested(501), &lenient).expect_err("refused").fault(), EditFault::TooDeep);
    assert_eq!(Tree::read(&"[".repeat(1 << 20), &lenient).expect_err("refused").fault(), EditFault::TooDeep);
}

#[test]
fn strings_with_half_a_pair_can_be_looked_at() {
    assert_eq!(unescape(r#""a\ud800b""#), "a\u{fffd}b");
    assert_eq!(unescape(r#""\ud83d\ude00""#), "\u{1f600}");
}

#[test]
fn squeezing_leaves_tokens_and_comments() {
    let check = |text: &str, expected: &str| assert_eq!(squeezed(text), expected);
    check("{ \"a b\" : 1 ,\r\n [ ] }", "{\"a b\":1,[]}");
    check("{ // c  \n 1 /* d  e */ }", "{// c\n1/* d  e */}");
    check("\"\\\" \" \" x\"", "\"\\\" \"\" x\"");
}
