//! What the loader refuses, and where it says that it is.

use std::path::Path;

use pintle_store::RealFs;

use super::load::{PackFile, embedded_with_expressions};
use super::{Level, LoadError, Pack, parse_scenario};

const HEAD: &str = "schema = \"pintle.scenario.v1\"\nid = \"a\"\ntitle = \"t\"\n\n";
const STEP: &str = "[[step]]\ndo = \"initialize\"\n\n";
const REQUIREMENT: &str =
    "[[requirement]]\nid = \"MY-A-001\"\nlevel = \"must\"\narea = \"a\"\ntitle = \"t\"\nspec = \"-\"\nwhy = \"w\"\n";

/// Checks the message, which begins with file and line.
fn refused(text: &str, expected: &str) {
    let error = parse_scenario("my.toml", text).expect_err(text);
    assert_eq!(error.to_string(), expected, "{text}");
    assert_eq!(error.class(), "bad_pack");
}

fn refused_step(step: &str, expected: &str) {
    refused(&format!("{HEAD}{STEP}[[step]]\ndo = \"new_session\"\n\n[[step]]\n{step}\n"), expected);
}

fn refused_requirement(members: &str, expected: &str) {
    refused(&format!("{HEAD}{STEP}{REQUIREMENT}{members}\n"), expected);
}

#[test]
fn the_built_in_pack_and_all_its_expressions_are_sound() {
    let pack = embedded_with_expressions().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(pack.manifest.name, "acp-v1");
    assert!(pack.requirements().count() >= 45, "issue 2, part 5");
    let silent =
        pack.requirements().filter(|(_, requirement)| requirement.level == Level::Must && requirement.spec == "-");
    assert_eq!(silent.count(), 0, "a must needs a place in the specification");
}

#[test]
fn what_is_not_a_scenario_is_refused_with_its_line() {
    refused("x = ", "my.toml:1: string values must be quoted, expected literal string");
    refused(
        "schema = \"pintle.scenario.v2\"\nid = \"a\"\ntitle = \"t\"\n[[step]]\ndo = \"initialize\"\n",
        "my.toml:1: schema must be \"pintle.scenario.v1\", not \"pintle.scenario.v2\"",
    );
    refused(HEAD, "my.toml:1: a scenario needs at least one [[step]]");
    refused(
        &HEAD.replace("\"a\"", "\"A b\""),
        "my.toml:2: the scenario id `A b` must be lower-case words joined by `-`",
    );
    refused(
        &format!("{HEAD}{STEP}[callback]\n"),
        "my.toml:8: unknown field `callback`, expected one of `schema`, `id`, `title`, `client_capabilities`, `callbacks`, `timeouts_ms`",
    );
    refused(&format!("{HEAD}step = 1\n"), "my.toml:5: `step` must be an array of tables, written as [[step]]");
    refused(
        &format!("{HEAD}{STEP}[timeouts_ms]\nprompt = 700000\n"),
        "my.toml:8: 700000 ms is longer than the limit of 600000 ms",
    );
}

#[test]
fn a_wrong_step_is_refused_with_its_line() {
    refused_step(
        "method = \"x\"",
        "my.toml:12: a step needs `do`, one of initialize, authenticate, request, notify, new_session, prompt, cancel, cancel_request, respond, raw, wait, close_stdin, signal, pause_reading, resume_reading",
    );
    refused_step(
        "as = \"x\"\ndo = \"jump\"",
        "my.toml:13: there is no step kind `jump`; there are initialize, authenticate, request, notify, new_session, prompt, cancel, cancel_request, respond, raw, wait, close_stdin, signal, pause_reading, resume_reading",
    );
    refused_step(
        "do = \"prompt\"\ntext = \"x\"\n\ntxt = \"y\"",
        "my.toml:15: unknown field `txt`, expected one of `as`, `session`, `prompt`, `text`, `blocks`, `pad_bytes`, `meta`, `wait`, `timeout_ms`, `optional`, `needs`",
    );
    refused_step(
        "do = \"prompt\"\ntext = \"x\"\nwait = 1",
        "my.toml:14: invalid type: integer `1`, expected a boolean",
    );
    refused_step("do = \"prompt\"", "my.toml:12: `prompt` needs exactly one of `prompt`, `text` and `blocks`");
    refused_step(
        "do = \"prompt\"\nsession = \"other\"\ntext = \"x\"",
        "my.toml:12: no session is named `other` here; there are session",
    );
    refused_step(
        "do = \"prompt\"\nprompt = \"nap\"",
        "my.toml:12: no prompt is named `nap` here; there are callbacks, flood, long, permission, short, updates",
    );
    refused_step(
        "do = \"wait\"\nfor = \"reply\"",
        "my.toml:12: `wait` needs `of`, the name of the request, for `for = \"reply\"`",
    );
    refused_step(
        "do = \"wait\"\nfor = \"reply\"\nof = \"turn\"",
        "my.toml:12: no request is named `turn` here; there are initialize, session",
    );
    refused_step("do = \"wait\"\nfor = \"call\"", "my.toml:12: `wait` needs `method` for `for = \"call\"`");
    refused_step("do = \"new_session\"", "my.toml:12: the name `session` is already used in my.toml:9");
    refused_step(
        "do = \"raw\"\nas = \"1x\"\ntext = \"x\"",
        "my.toml:12: the name `1x` must be a letter, then letters, digits and `_`, at most 64",
    );
    refused_step("do = \"raw\"\nbase64 = \"?\"", "my.toml:12: `base64` is not standard base64 with padding");
    refused_step(
        "do = \"raw\"\nrepeat = { unit = \"0123456789abcdef\", count = 5000000 }",
        "my.toml:12: the step writes 80000000 bytes, more than 67108864",
    );
    refused_step(
        "do = \"request\"\nmethod = \"x\"\nid = \"{\"",
        "my.toml:12: `id` is not JSON: EOF while parsing an object at line 1 column 1",
    );
    refused_step(
        "do = \"request\"\nmethod = \"x\"\nparams = { a = \"${sesion}\" }",
        "my.toml:12: no variable is named `sesion` here; there are session",
    );
    refused_step(
        "do = \"request\"\nmethod = \"x\"\nparams = { a = 2020-01-01 }",
        "my.toml:14: a date cannot be sent as JSON; write a string",
    );
    refused_step(
        "do = \"respond\"\nmethod = \"fs/read_text_file\"\noutcome = \"cancelled\"",
        "my.toml:12: `respond` needs `method = \"session/request_permission\"` for `outcome`",
    );
    refused_step(
        "do = \"wait\"\nfor = \"quiet\"\nneeds = [\"a..b\"]",
        "my.toml:12: the capability path `a..b` must be member names joined by `.`, as agentCapabilities.loadSession",
    );
}

#[test]
fn a_wrong_requirement_is_refused_with_its_line() {
    refused_requirement("assert = []", "my.toml:15: a requirement needs at least one expression in `assert`");
    refused_requirement(
        "assert = [\"true\"]\ndepends = [\n  \"MY-B-001\",\n]",
        "my.toml:17: no requirement is named `MY-B-001` here",
    );
    refused_requirement(
        "assert = [\"true\"]\ndepends = [\"MY-A-001\"]",
        "my.toml:16: `MY-A-001` depends on itself, by way of MY-A-001",
    );
    refused(
        &format!("{HEAD}{STEP}{REQUIREMENT}assert = [\"true\"]\n{REQUIREMENT}assert = [\"true\"]\n"),
        "my.toml:17: the requirement id `MY-A-001` is already used in my.toml:9",
    );
    refused(
        &format!("{HEAD}{STEP}{}assert = [\"true\"]\n", REQUIREMENT.replace("must", "shall")),
        "my.toml:10: unknown variant `shall`, expected one of `must`, `should`, `may`, `info`",
    );
    refused(
        &format!("{HEAD}{STEP}{}assert = [\"true\"]\n", REQUIREMENT.replace("why = \"w\"\n", "")),
        "my.toml:8: missing field `why`",
    );
}

#[test]
fn a_wrong_expression_is_refused_with_its_own_line() {
    refused_requirement(
        "assert = [\n  \"steps.initialize.sent\",\n  \"steps.initialise.sent\",\n]",
        "my.toml:17: in `assert`: no step of this scenario is named `initialise`",
    );
    refused_requirement(
        "exercised = \"steps.initialize.replies\"\nassert = [\"true\"]",
        "my.toml:15: in `exercised`: the expression must be bool, not int",
    );
    refused_requirement(
        "assert = ['''\n  steps.initialize.sent &&\n  exit.known &&\n  exit.cod == 0\n''']",
        "my.toml:18: in `assert`: exit has no field `cod`",
    );
    refused_requirement(
        "assert = [\"true\"]\nshow = \"steps.initialize\"",
        "my.toml:16: in `show`: the expression must be an entry or a list of entries, not step",
    );
    let long = "true && ".repeat(65);
    refused_requirement(
        &format!("assert = [\"{long}true\"]"),
        "my.toml:15: in `assert`: the expression has more than 64 operators",
    );
}

#[test]
fn packs_are_found_by_name_version_and_path() {
    let fails = |wanted: &str| Pack::select(&RealFs, wanted).expect_err(wanted);
    assert!(Pack::select(&RealFs, "acp-v1@1").is_ok() && Pack::select(&RealFs, "acp-v1@1.0.0").is_ok());
    assert_eq!(fails("acp-v1@2").to_string(), "pack `acp-v1` has version 1.0.0, not 2");
    assert_eq!(
        fails("acp-v9").to_string(),
        "there is no pack `acp-v9`; built in: acp-v1; a pack of your own is named by its path"
    );
    assert!(matches!(fails("no/such/pack.toml"), LoadError::Read { .. }));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packs/acp-v1");
    let loaded = Pack::load(&RealFs, &folder).expect("the folder of the built-in pack is a pack");
    let built_in = Pack::embedded().expect("it loads");
    assert_eq!((loaded.manifest, loaded.scenarios), (built_in.manifest, built_in.scenarios));
    let empty = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert!(
        Pack::load(&RealFs, &empty).expect_err("no pack").to_string().ends_with("src: the folder has no pack.toml")
    );
}

#[test]
fn cases_are_selected_with_what_they_depend_on() {
    let pack = Pack::embedded().expect("it loads");
    let select = |ids: &[&str]| {
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        let chosen = pack.select_cases(&ids).map_err(|error| error.to_string())?;
        Ok::<_, String>(chosen.into_iter().map(|scenario| scenario.id.clone()).collect::<Vec<_>>())
    };
    assert_eq!(select(&[]).expect("all").len(), pack.scenarios.len());
    assert_eq!(select(&["version"]), Ok(vec!["version".to_owned()]));
    assert_eq!(select(&["ACP-CANCEL-001"]), Ok(vec!["basics".to_owned(), "cancel".to_owned()]));
    assert_eq!(
        select(&["ACP-CANCEL-0O1"]),
        Err("pack `acp-v1` has no scenario or requirement `ACP-CANCEL-0O1`; did you mean `ACP-CANCEL-001`?".to_owned())
    );
    assert_eq!(
        select(&["zzzzzzzzzzzz"]),
        Err("pack `acp-v1` has no scenario or requirement `zzzzzzzzzzzz`".to_owned())
    );
}

/// The example of `docs/packs.md` is a pack.
#[test]
fn the_documented_example_loads() {
    let text = include_str!("../../../../docs/packs.md");
    let start = text.find("```toml\n").expect("an example") + "```toml\n".len();
    let end = start + text[start..].find("```").expect("its end");
    let scenario = parse_scenario("second-prompt.toml", &text[start..end]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((scenario.id.as_str(), scenario.requirements.len()), ("second-prompt", 1));
}

/// A plan has the text of each prompt, a project's own words first.
#[test]
fn a_plan_has_its_prompts() {
    let pack = Pack::embedded().expect("it loads");
    let basics = pack.scenarios.iter().find(|scenario| scenario.id == "basics").expect("it is there");
    let text = |overrides| {
        let plan = basics.plan(&pack.manifest, &overrides);
        serde_json::to_value(&plan.steps[4]).expect("JSON")["text"].as_str().expect("text").to_owned()
    };
    assert_eq!(text([("short".to_owned(), "echo hi".to_owned())].into()), "echo hi");
    let own = text([].into());
    assert_eq!(pack.manifest.command_for(&own), Some("echo ready"));
}

#[test]
fn a_pack_with_two_files_of_one_id_is_refused() {
    let manifest = "schema = \"pintle.pack.v1\"\nname = \"p\"\nversion = \"1.0.0\"\ntitle = \"t\"\nspec_revision = \"r\"\nprotocol_version = 1\n";
    let scenario = format!("{HEAD}{STEP}");
    let files = [
        PackFile { name: "p/pack.toml", text: manifest },
        PackFile { name: "p/a.toml", text: &scenario },
        PackFile { name: "p/b.toml", text: &scenario },
    ];
    let error = Pack::assemble("p", &files, true).expect_err("two of one id");
    assert_eq!(error.to_string(), "p/b.toml:2: the scenario id `a` is already used in p/a.toml:2");
}
