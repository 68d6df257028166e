use super::super::TargetRole;
use super::*;
use crate::Agent;

/// An agent that reads comments, commas at the end and whatever else.
const LENIENT: Dialect = Dialect::of(Agent::Opencode, TargetRole::Mcp);

#[track_caller]
fn check(before: &str, edit: impl FnOnce(&mut JsonDoc) -> Result<(), EditError>, after: &str) {
    let mut doc = JsonDoc::parse(before.as_bytes(), LENIENT).expect("parses");
    edit(&mut doc).expect("edits");
    assert_eq!(doc.text(), after);
}

fn group() -> Json {
    Json::map([("hooks", Json::List(vec![Json::map([("type", Json::text("command"))])]))])
}

#[test]
fn an_empty_file_gets_the_usual_layout() {
    let after = "{\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [\n          {\n            \
                 \"type\": \"command\"\n          }\n        ]\n      }\n    ]\n  }\n}\n";
    check("", |doc| doc.push(&["hooks", "Stop"], &group()), after);
    check("{}\n", |doc| doc.push(&["hooks", "Stop"], &group()), after);
}

#[test]
fn tabs_carriage_returns_and_a_missing_last_newline_stay() {
    check(
        "{\r\n\t\"b\": 1,\r\n\t\"a\": [\r\n\t\t1\r\n\t]\r\n}",
        |doc| doc.push(&["a"], &Json::map([("x", Json::number(2))])),
        "{\r\n\t\"b\": 1,\r\n\t\"a\": [\r\n\t\t1,\r\n\t\t{\r\n\t\t\t\"x\": 2\r\n\t\t}\r\n\t]\r\n}",
    );
}

#[test]
fn a_file_of_one_line_stays_one_line() {
    check(
        r#"{"a":1,"hooks":{"Stop":[{"hooks":[]}]}}"#,
        |doc| doc.push(&["hooks", "Stop"], &group()),
        r#"{"a":1,"hooks":{"Stop":[{"hooks":[]},{"hooks":[{"type":"command"}]}]}}"#,
    );
    check(r#"{"a": 1}"#, |doc| doc.set(&["b", "c"], &Json::text("x")), r#"{"a": 1,"b": {"c": "x"}}"#);
}

#[test]
fn odd_spacing_and_member_order_of_others_stay() {
    let before = "{ \"z\" : [ 1 ,2 ],\n\n   \"a\":{\"k\" :null} }\n";
    check(
        before,
        |doc| doc.set(&["a", "n"], &Json::bool(true)),
        "{ \"z\" : [ 1 ,2 ],\n\n   \"a\":{\"k\" :null, \"n\": true} }\n",
    );
}

#[test]
fn what_was_added_is_removed_without_a_trace() {
    for before in
        ["{}\n", "{\n  \"a\": 1\n}\n", "{\"a\":[1,2]}", "{\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t{}\n\t\t]\n\t}\n}\n"]
    {
        let mut doc = JsonDoc::parse(before.as_bytes(), LENIENT).expect("parses");
        doc.set(&["new", "deep"], &group()).expect("sets");
        doc.push(&["list"], &group()).expect("pushes");
        doc.remove(&[Step::Member("list")]).expect("removes");
        doc.remove(&[Step::Member("new")]).expect("removes");
        assert_eq!(doc.text(), before);
    }
}

#[test]
fn the_first_of_several_goes_with_its_comma() {
    check(
        "[]".replace("[]", "{\"a\": [1, 2, 3]}").as_str(),
        |doc| doc.remove(&[Step::Member("a"), Step::Item(0)]),
        "{\"a\": [2, 3]}",
    );
    check("{\"a\": 1, \"b\": 2}", |doc| doc.remove(&[Step::Member("a")]), "{\"b\": 2}");
    check("{\"a\": 1}", |doc| doc.remove(&[Step::Member("nothing")]), "{\"a\": 1}");
}

#[test]
fn setting_the_same_value_changes_no_byte() {
    let before = "{\"a\" : { \"b\":[ 1 ] } }";
    check(before, |doc| doc.set(&["a"], &Json::map([("b", Json::List(vec![Json::number(1)]))])), before);
}

#[test]
fn names_and_strings_with_escapes_are_met_and_written() {
    check(
        r#"{"\u0061": 1}"#,
        |doc| doc.set(&["a"], &Json::text("C:\\x \"y\"\n\u{e9}")),
        "{\"\\u0061\": \"C:\\\\x \\\"y\\\"\\n\u{e9}\"}",
    );
}

#[test]
fn a_file_that_the_agent_would_drop_is_refused_and_named() {
    let check = |bytes: &[u8], fault: EditFault, code: &str| {
        let error = JsonDoc::parse(bytes, Dialect::of(Agent::Codex, TargetRole::Hooks)).expect_err("refused");
        assert_eq!(error.fault(), fault);
        assert_eq!(error.fault().code(), code);
    };
    check(b"\xef\xbb\xbf{}", EditFault::Bom, "JSON_BOM");
    check(b"{\n  // mine\n  \"a\": 1\n}", EditFault::Comment, "JSON_COMMENT");
    check(b"{\"hooks\":{},\"hooks\":{}}", EditFault::DuplicateKey, "JSON_DUPLICATE_KEY");
    check(b"{\"a\":1", EditFault::Syntax, "JSON_SYNTAX");
    check(b"{\"hooks\":{},}", EditFault::TrailingComma, "JSON_TRAILING_COMMA");
    check(b"{\"mine\":1}", EditFault::RootMember, "JSON_ROOT_MEMBER");
    check(b"[]", EditFault::NotAnObject, "JSON_ROOT");
    check(b"{\"a\":\"\xff\"}", EditFault::Encoding, "JSON_ENCODING");
}

#[test]
fn a_value_of_another_shape_on_the_way_is_not_overwritten() {
    let mut doc = JsonDoc::parse(b"{\"hooks\": []}", LENIENT).expect("parses");
    assert_eq!(doc.push(&["hooks", "Stop"], &group()).expect_err("refused").fault(), EditFault::Schema);
    let mut doc = JsonDoc::parse(b"{\"hooks\": {\"Stop\": {}}}", LENIENT).expect("parses");
    assert_eq!(doc.push(&["hooks", "Stop"], &group()).expect_err("refused").fault(), EditFault::Schema);
    assert_eq!(doc.text(), "{\"hooks\": {\"Stop\": {}}}");
}

#[test]
fn comments_stay_where_they_are() {
    let set = |doc: &mut JsonDoc| doc.set(&["ours"], &Json::number(2));
    check("{ // mine\n}", set, "{ // mine\n  \"ours\": 2\n}");
    check("{\n  \"a\": 1 // of a\n}", set, "{\n  \"a\": 1, // of a\n  \"ours\": 2\n}");
    check("{\n  \"a\": 1, // of a\n}", set, "{\n  \"a\": 1, // of a\n  \"ours\": 2,\n}");
    check("{\"a\": 1 /* of a */}", set, "{\"a\": 1, /* of a */\n\"ours\": 2}");
    let remove = |doc: &mut JsonDoc| doc.remove(&[Step::Member("ours")]);
    for without in ["{ // mine\n}", "{\n  \"a\": 1 // of a\n}", "{\n  \"a\": 1, // of a\n}"] {
        let mut doc = JsonDoc::parse(without.as_bytes(), LENIENT).expect("parses");
        set(&mut doc).expect("sets");
        check(doc.text(), remove, without);
    }
    check("{ // mine\n \"ours\": 2, \"b\": 3 }", remove, "{ // mine\n \"b\": 3 }");
    check("{\"ours\": 2, // of b\n\"b\": 3}", remove, "{ // of b\n\"b\": 3}");
}

#[test]
fn a_byte_order_mark_stays_where_the_agent_reads_one() {
    let mut doc = JsonDoc::parse(b"\xef\xbb\xbf{}\n", LENIENT).expect("parses");
    doc.set(&["a"], &Json::number(1)).expect("sets");
    assert_eq!(doc.to_bytes(), b"\xef\xbb\xbf{\n  \"a\": 1\n}\n");
}

/// Of two members of one name JavaScript sees the last.
#[test]
fn the_last_of_two_names_counts() {
    check(r#"{"a":{"x":1},"a":{}}"#, |doc| doc.set(&["a", "y"], &Json::number(2)), r#"{"a":{"x":1},"a":{"y":2}}"#);
}
