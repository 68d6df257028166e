use std::path::Path;

use super::super::{Dirs, Host, Setup, codex_trust_entries};
use super::*;
use crate::Shell;

fn dirs() -> Dirs {
    Dirs::from_lookup("/home/u".into(), |_| None)
}

fn setup(agent: Agent) -> Setup {
    Setup {
        agent,
        program: "/opt/my tools/pintle".into(),
        shell: Shell::Posix,
        exec_form: true,
        strict: false,
        mcp: true,
        rules: true,
    }
}

fn target(agent: Agent, role: TargetRole) -> Target {
    let targets = setup(agent).targets(&dirs());
    targets.into_iter().find(|target| target.role == role).expect("the agent has such a file")
}

fn edited(result: Result<Edited, EditError>) -> String {
    let bytes = result.expect("edits").bytes.expect("something is left");
    String::from_utf8(bytes).expect("UTF-8")
}

fn every_target() -> Vec<Target> {
    Host::ALL.iter().flat_map(|host| setup(host.agent()).targets(&dirs())).collect()
}

#[test]
fn a_new_file_is_made_read_back_and_removed_for_every_agent() {
    for target in every_target() {
        let path = target.path.display();
        let installed = edited(target.install(None));
        assert_eq!(target.presence(Some(installed.as_bytes())), Ok(Presence::Present), "{path}");
        assert_eq!(edited(target.install(Some(installed.as_bytes()))), installed, "{path}: idempotent");
        assert_eq!(target.presence(None), Ok(Presence::Missing), "{path}");
        let gone = target.uninstall(installed.as_bytes(), Origin::Missing).expect("uninstalls");
        assert_eq!(gone.bytes, None, "{path}: nothing of it is left");
    }
}

/// Of two members of one name agents take the last, and so do we: what stands in a dead one is neither ours nor alive.
#[test]
fn a_name_that_stands_twice_is_read_as_the_agent_reads_it() {
    let hooks = target(Agent::Claude, TargetRole::Hooks);
    let ours = r#"{"type":"command","command":"/p task hook --agent claude"}"#;
    let mine = r#"{"type":"command","command":"mine"}"#;
    let twice = format!(r#"{{"hooks":{{"UserPromptSubmit":[{{"hooks":[{ours}],"hooks":[{mine}]}}]}}}}"#);
    let installed = edited(hooks.install(Some(twice.as_bytes())));
    assert!(installed.contains(&twice[..twice.len() - 3]), "{installed}");
    assert_eq!(edited(hooks.uninstall(installed.as_bytes(), Origin::Unknown)), twice);
    let dressed = r#"{"hooks":{"Stop":[{"hooks":[{"command":"/p task hook --agent claude","command":"mine"}]}]}}"#;
    assert_eq!(edited(hooks.uninstall(dressed.as_bytes(), Origin::Unknown)), dressed);
    // Our leaving brings no dead one to life.
    let hidden = format!(r#"{{"hooks":{{"Stop":[{{"hooks":[{mine}]}}]}},"hooks":{{"Stop":[{{"hooks":[{ours}]}}]}}}}"#);
    let left = edited(hooks.uninstall(hidden.as_bytes(), Origin::Unknown));
    assert_eq!(left, format!(r#"{{"hooks":{{"Stop":[{{"hooks":[{mine}]}}]}},"hooks":{{}}}}"#));
    let servers = r#"{"mcpServers":{"pintle-task":{"command":"/old"},"pintle-task":{"command":"/p"}}}"#;
    let left = edited(target(Agent::Claude, TargetRole::Mcp).uninstall(servers.as_bytes(), Origin::Unknown));
    assert!(!left.contains("pintle-task"), "{left}");
}

#[test]
fn a_users_own_settings_come_back_byte_for_byte() {
    let json = "{\r\n\t\"hooks\": {\r\n\t\t\"Stop\": [{ \"hooks\": [ {\"type\":\"command\",\
                \"command\":\"mine\"} ] }],\r\n\t\t\"SessionStart\": [\r\n\t\t\t{ \"hooks\": [] , \"matcher\":\"x\"}\
                \r\n\t\t]\r\n\t}\r\n}";
    for target in every_target().iter().filter(|target| target.is_json()) {
        let path = target.path.display();
        let installed = edited(target.install(Some(json.as_bytes())));
        assert!(installed.contains("pintle"), "{path}");
        assert_eq!(edited(target.uninstall(installed.as_bytes(), Origin::Content(json.as_bytes()))), json, "{path}");
        let mut back = edited(target.uninstall(installed.as_bytes(), Origin::Unknown));
        if let Some(Change::Header { .. }) = target.changes.first() {
            // A member that the format asks for stays where nobody knows whether it is ours.
            back = back.replace(",\r\n\t\"version\": 1", "");
        }
        assert_eq!(back, json, "{path}");
    }
}

#[test]
fn an_empty_file_is_empty_again() {
    for target in every_target().iter().filter(|target| target.is_json()) {
        for empty in ["", "\n", " \r\n"] {
            assert_eq!(target.presence(Some(empty.as_bytes())), Ok(Presence::Missing));
            let installed = edited(target.install(Some(empty.as_bytes())));
            assert_eq!(edited(target.uninstall(installed.as_bytes(), Origin::Content(empty.as_bytes()))), empty);
        }
    }
}

/// What was there before we came and is empty without us stays; what we brought goes, whatever the user added since.
#[test]
fn empty_containers_of_the_user_stay() {
    let check = |agent, before: &str, edit: (&str, &str), after: &str| {
        let target = target(agent, TargetRole::Hooks);
        let installed = edited(target.install(Some(before.as_bytes())));
        let origin = Origin::Content(before.as_bytes());
        assert_eq!(edited(target.uninstall(installed.as_bytes(), origin)), before);
        let since = installed.replacen(edit.0, edit.1, 1);
        assert_ne!(since, installed);
        assert_eq!(edited(target.uninstall(since.as_bytes(), origin)), after);
    };
    check(
        Agent::Claude,
        "{\"hooks\": {\"Stop\": []}, \"permissions\": {\"allow\": [ ]}}",
        ("{\"hooks\"", "{\"new\": 1, \"hooks\""),
        "{\"new\": 1, \"hooks\": {\"Stop\": []}, \"permissions\": {\"allow\": []}}",
    );
    check(
        Agent::Codex,
        "{\"hooks\": {\"Stop\": [{\"hooks\": []}]}}",
        ("{\"hooks\"", "{\"description\": \"x\", \"hooks\""),
        "{\"description\": \"x\", \"hooks\": {\"Stop\": [{\"hooks\": []}]}}",
    );
    // A rule that the user had given before is the user's.
    let allowed = "{\"permissions\": {\"allow\": [\"mcp__pintle-task__task_get\"]}}";
    check(
        Agent::Claude,
        allowed,
        ("{\"permissions\"", "{\"new\": 1, \"permissions\""),
        &allowed.replacen('{', "{\"new\": 1, ", 1),
    );
}

/// Ask 7: positional trust keys of the user's own hooks do not move, neither by installing nor by uninstalling.
#[test]
fn the_users_own_hooks_keep_their_places() {
    let target = target(Agent::Codex, TargetRole::Hooks);
    let own = "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"a\"}]}]}}";
    let installed = edited(target.install(Some(own.as_bytes())));
    let with_more = installed.replace(
        "task hook --agent codex --on-error open --mcp\",\"timeout\":5}]}]",
        "task hook --agent codex --on-error open --mcp\",\"timeout\":5}]},{\"hooks\":[{\"type\":\"command\",\"command\":\"b\"}]}]",
    );
    assert_ne!(with_more, installed);
    let left = edited(target.uninstall(with_more.as_bytes(), Origin::Unknown));
    let doc = JsonDoc::parse(left.as_bytes(), target.dialect()).expect("parses");
    let stop = doc.value(&[Step::Member("hooks"), Step::Member("Stop")]).expect("stays");
    let commands: Vec<Option<&str>> = stop
        .as_list()
        .expect("list")
        .iter()
        .map(|group| group.get("hooks").and_then(Json::as_list).and_then(<[Json]>::first))
        .map(|handler| handler.and_then(|handler| handler.get("command")).and_then(Json::as_text))
        .collect();
    assert_eq!(commands, [Some("a"), None, Some("b")], "an empty group keeps the place of ours");
    let again = edited(target.install(Some(left.as_bytes())));
    assert_eq!(again, with_more, "and installing again takes that place");
}

#[test]
fn an_upgrade_edits_in_place_and_keeps_the_trust_key() {
    let old = "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"/old/pintle task hook --agent codex\"}]},\
               {\"hooks\":[{\"type\":\"command\",\"command\":\"b\"}]}]}}";
    let target = target(Agent::Codex, TargetRole::Hooks);
    assert_eq!(target.presence(Some(old.as_bytes())), Ok(Presence::Different));
    let keys = |text: &str| -> Vec<String> {
        let entries = codex_trust_entries(Path::new("/h"), text.as_bytes()).expect("reads");
        entries.into_iter().filter(|entry| entry.event == "Stop").map(|entry| entry.key).collect()
    };
    let new = edited(target.install(Some(old.as_bytes())));
    assert_eq!(keys(old), keys(&new));
    assert!(!new.contains("/old/pintle"), "{new}");
}

#[test]
fn another_agents_hook_command_is_not_ours() {
    let json = "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"/p task hook --agent codexx\"},\
                {\"type\":\"command\",\"command\":\"echo task hook\"}]}]}}";
    let target = target(Agent::Codex, TargetRole::Hooks);
    assert_eq!(target.presence(Some(json.as_bytes())), Ok(Presence::Missing));
    assert_eq!(edited(target.uninstall(json.as_bytes(), Origin::Unknown)), json);
}

/// Ask 35: every entry says how long the agent waits, in the agent's own unit.
#[test]
fn every_hook_has_a_timeout_in_the_agents_own_unit() {
    let check = |agent: Agent, member: &str, expected: u64| {
        for change in setup(agent).targets(&dirs()).into_iter().flat_map(|target| target.changes) {
            if let Change::Hook { event, handler, .. } = change {
                assert_eq!(handler.get(member), Some(&Json::number(expected)), "{agent} {event}");
            }
        }
    };
    check(Agent::Codex, "timeout", 5);
    check(Agent::Claude, "timeout", 5);
    check(Agent::Gemini, "timeout", 5000);
    check(Agent::Qwen, "timeout", 5000);
    check(Agent::Copilot, "timeoutSec", 5);
    check(Agent::Cursor, "timeout", 5);
}

/// Ask 6: a matcher misses the source that comes next.
#[test]
fn no_hook_has_a_matcher() {
    for target in every_target() {
        assert!(!edited(target.install(None)).contains("matcher"), "{}", target.path.display());
    }
}

#[test]
fn the_failure_policy_and_the_tool_stand_in_the_command() {
    let mut setup = setup(Agent::Codex);
    assert_eq!(setup.hook_command(), "'/opt/my tools/pintle' task hook --agent codex --on-error open --mcp");
    setup.strict = true;
    setup.mcp = false;
    assert_eq!(setup.hook_command(), "'/opt/my tools/pintle' task hook --agent codex");
    setup.shell = Shell::Windows;
    setup.program = "C:\\tools\\pintle.exe".into();
    assert_eq!(setup.hook_command(), "C:/tools/pintle.exe task hook --agent codex");
}

/// Ask 11: a path that cmd and both PowerShells cannot be told of alike is refused, not installed to fail.
#[test]
fn a_path_with_a_blank_cannot_be_spelled_for_the_shells_of_windows() {
    let check = |agent, shell, program: &str, exec_form, expected| {
        let setup = Setup { program: program.into(), shell, exec_form, ..setup(agent) };
        assert_eq!(setup.is_program_spellable(), expected, "{agent} {program}");
    };
    check(Agent::Codex, Shell::Windows, "C:\\tools\\pintle.exe", false, true);
    check(Agent::Codex, Shell::Windows, "C:\\PROGRA~1\\pintle.exe", false, true);
    check(Agent::Codex, Shell::Windows, "C:\\Program Files\\pintle.exe", false, false);
    check(Agent::Gemini, Shell::Windows, "C:\\a&b\\pintle.exe", false, false);
    check(Agent::Claude, Shell::Windows, "C:\\Program Files\\pintle.exe", true, true);
    check(Agent::Claude, Shell::Windows, "C:\\Program Files\\pintle.exe", false, false);
    check(Agent::Copilot, Shell::Windows, "C:\\Program Files\\pintle.exe", false, true);
    check(Agent::Codex, Shell::Posix, "/opt/my tools/pintle", false, true);
}

#[test]
fn a_hooks_member_of_another_shape_is_refused_with_its_name() {
    let target = target(Agent::Codex, TargetRole::Hooks);
    for (json, member) in [("{\"hooks\":[]}", "hooks"), ("{\"hooks\":{\"Stop\":{}}}", "Stop")] {
        let error = target.install(Some(json.as_bytes())).expect_err("refused");
        assert_eq!(error.fault(), EditFault::Schema);
        assert!(error.to_string().contains(&format!("`{member}`")), "{error}");
    }
}

#[test]
fn handlers_behind_ours_in_one_group_are_reported() {
    let json = "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"/p task hook --agent codex\"},\
                {\"type\":\"command\",\"command\":\"b\"}]}]}}";
    let left = target(Agent::Codex, TargetRole::Hooks).uninstall(json.as_bytes(), Origin::Unknown).expect("uninstalls");
    assert_eq!(left.notes, [Note::HandlersMovedUp]);
}
