//! Bad input to `pintle check`: each has its exit code and a message that names the place.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::user::{PINTLE, User};

/// The built-in agent, where an agent may stand.
const MOCK: [&str; 4] = ["--", PINTLE, "mock", "agent"];

/// A scenario in order, to which a test does something.
const GOOD: &str = r#"schema = "pintle.scenario.v1"
id = "mine"
title = "Mine"

[[step]]
do = "initialize"

[[requirement]]
id = "MINE-X-001"
level = "must"
area = "mine"
title = "t"
spec = "-"
why = "w"
assert = ["steps.initialize.ok"]
"#;

const MANIFEST: &str = r#"schema = "pintle.pack.v1"
name = "mine"
version = "1.0.0"
title = "Mine"
spec_revision = "-"
protocol_version = 1
"#;

impl User {
    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    /// Writes a file and gives its path back.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, content).expect("a file");
        self.text(name)
    }

    /// `pintle check` is refused as wrong usage, with these words on standard error and nothing on standard output.
    fn refused(&self, options: &[&str], words: &[&str]) {
        let ended = self.run(&[&["check"], options].concat());
        assert_eq!(ended.code, Some(2), "{options:?}\n{}\n{}", ended.stdout, ended.stderr);
        assert_eq!(ended.stdout, "", "{options:?}");
        for word in words {
            assert!(ended.stderr.contains(word), "{options:?}: no `{word}` in\n{}", ended.stderr);
        }
    }

    /// The good scenario with one change is refused at a line of its file.
    fn refused_scenario(&self, from: &str, to: &str, line: usize, words: &[&str]) {
        assert!(GOOD.contains(from), "{from}");
        let path = self.file("mine.toml", GOOD.replacen(from, to, 1));
        let place = format!("mine.toml:{line}");
        self.refused(&[&["--pack", &path][..], &MOCK].concat(), &[&[place.as_str()][..], words].concat());
    }
}

#[test]
fn bad_toml_has_file_and_line() {
    let user = User::new();
    user.refused_scenario("title = \"Mine\"", "title = \"Mine", 3, &[]);
    user.refused_scenario("title = \"Mine\"", "title = 3", 3, &[]);
    user.refused_scenario("id = \"mine\"", "id = \"mine\"\nid = \"mine\"", 3, &["duplicate"]);
    user.refused_scenario("do = \"initialize\"", "do = \"initialise\"", 6, &["initialise", "initialize"]);
    user.refused_scenario("do = \"initialize\"", "do = \"initialize\"\nwat = 1", 7, &["wat"]);
    user.refused_scenario("do = \"initialize\"", "do = \"wait\"\nfor = \"reply\"\nof = \"nobody\"", 6, &["nobody"]);
    user.refused_scenario("level = \"must\"", "level = \"most\"", 10, &["most"]);
    for (step, line, words) in [
        ("do = \"prompt\"\ntext = \"say ${nope}\"", 10, &["`${nope}`", "`text`", "`blocks`"][..]),
        ("do = \"prompt\"\nblocks = [{ type = \"text\", text = \"${nope}\" }]", 10, &["`nope`"]),
        ("do = \"prompt\"\nprompt = \"short\"\nmeta = { a = \"${nope}\" }", 10, &["`nope`"]),
        ("do = \"new_session\"\nas = \"other\"\nmcp_servers = [{ name = \"${nope}\" }]", 10, &["`nope`"]),
        ("do = \"respond\"\nmethod = \"x\"\nresult_json = \"\\\"${nope}\\\"\"", 10, &["`nope`"]),
    ] {
        let steps = format!("do = \"initialize\"\n[[step]]\ndo = \"new_session\"\n[[step]]\n{step}");
        user.refused_scenario("do = \"initialize\"", &steps, line, words);
    }
    user.refused_scenario("schema = \"pintle.scenario.v1\"", "schema = \"pintle.scenario.v2\"", 1, &["v2"]);
}

#[test]
fn bad_cel_has_file_and_line() {
    let user = User::new();
    user.refused_scenario("\"steps.initialize.ok\"", "\"steps.initialize.ok &&\"", 15, &["assert"]);
    user.refused_scenario("\"steps.initialize.ok\"", "\"steps.nobody.ok\"", 15, &["nobody"]);
    user.refused_scenario("\"steps.initialize.ok\"", "\"nonsense\"", 15, &["nonsense"]);
    user.refused_scenario("\"steps.initialize.ok\"", "\"steps.initialize.t_ms\"", 15, &["bool"]);
    user.refused_scenario("\"steps.initialize.ok\"", "\n  \"true\",\n  \"1 +\",\n", 17, &["assert"]);
}

#[test]
fn a_pack_that_is_none_is_named() {
    let user = User::new();
    user.file("lonely/pack.toml", MANIFEST);
    user.file("headless/mine.toml", GOOD);
    for name in ["pack.toml", "a.toml", "b.toml"] {
        user.file(&format!("twins/{name}"), if name == "pack.toml" { MANIFEST } else { GOOD });
    }
    let latin = user.file("latin.toml", b"id = \"caf\xe9\"");
    let (lonely, headless, twins) = (user.text("lonely"), user.text("headless"), user.text("twins"));
    let missing = user.text("missing.toml");
    for (pack, words) in [
        (lonely.as_str(), &[lonely.as_str(), "no scenario file"][..]),
        (&headless, &[&headless, "no pack.toml"]),
        (&twins, &["b.toml:2", "a.toml:2", "mine"]),
        (&missing, &[&missing]),
        (&latin, &[&latin, "UTF-8"]),
        ("acp-v2", &["`acp-v2`", "acp-v1"]),
        ("acp-v1@2", &["acp-v1", "2"]),
    ] {
        user.refused(&[&["--pack", pack][..], &MOCK].concat(), words);
    }
}

#[test]
fn wrong_options_are_named() {
    let user = User::new();
    for (options, words) in [
        (&["--case", "basic"][..], &["`basic`", "`basics`"][..]),
        (&["--jobs", "0"], &["--jobs"]),
        (&["--jobs", "65"], &["--jobs"]),
        (&["--fail-on", "may"], &["--fail-on", "may"]),
        (&["--format", "xml"], &["--format", "xml"]),
        (&["--startup-timeout=-1"], &["--startup-timeout"]),
        (&["--timeout", "soon"], &["--timeout", "soon"]),
        (&["--env", "=x"], &["variable"]),
        (&["--nope"], &["--nope"]),
    ] {
        user.refused(&[options, &MOCK].concat(), words);
    }
    user.refused(&["--"], &["nothing after `--`"]);
}

#[test]
fn a_baseline_that_is_none_is_named_with_the_place() {
    let user = User::new();
    for (path, words) in [
        (user.text("missing.json"), &["missing.json"][..]),
        (user.file("cut.json", "{\"schema\":"), &["cut.json", "line 1"]),
        (user.file("other.json", "{\"schema\":\"x\"}"), &["other.json", "no report of pintle"]),
        (user.file("twice.json", "{\"schema\":\"x\",\n\"schema\":\"x\"}"), &["twice.json", "line 2"]),
    ] {
        user.refused(&[&["--baseline", &path][..], &MOCK].concat(), words);
    }
}

#[test]
fn an_agent_that_cannot_be_started_is_5_and_named() {
    let user = User::new();
    let plain = user.file("plain", "#!/bin/sh\n");
    let lost = user.file("lost", "#!/no/such/interpreter\n");
    fs::set_permissions(&lost, fs::Permissions::from_mode(0o755)).expect("a mode");
    let folder = user.text("cwd");
    for agent in ["pintle-no-such-agent", "./no-such-agent", &plain, &lost, &folder] {
        let ended = user.run(&["check", "--case", "version-string", "--", agent]);
        assert_eq!(ended.code, Some(5), "{agent}\n{}\n{}", ended.stdout, ended.stderr);
        for word in [agent.trim_start_matches("./"), "did not start"] {
            assert!(ended.stdout.contains(word), "{agent}: no `{word}` in\n{}", ended.stdout);
        }
    }
}

/// A check may take minutes: what its reports need is tried first.
#[test]
fn a_report_that_cannot_be_written_is_told_before_an_agent_starts() {
    let user = User::new();
    let in_the_way = user.file("file", "");
    let started = user.text("started");
    let agent = ["--case", "version-string", "--", "/bin/sh", "-c", "echo >\"$0\"", &started];
    let folder = user.text("cwd");
    for option in ["--junit", "--sarif", "--html", "--md"] {
        let missing = user.text("missing/report");
        let below = format!("{in_the_way}/report");
        for (path, words) in [
            (missing.as_str(), "the directory must be there"),
            (&below, "Not a directory"),
            (&folder, "no plain file"),
            ("/dev/null", "no plain file"),
        ] {
            user.refused(&[&[option, path][..], &agent].concat(), &[words, &format!("`{path}` for {option}")]);
        }
    }
    user.refused(&[&["--out", &in_the_way][..], &agent].concat(), &[&format!("`{in_the_way}` for --out")]);
    assert!(!user.path("started").exists(), "the agent was started");
    assert_eq!(fs::read_dir(user.path("cwd")).expect("a directory").count(), 1, "nothing is left behind but .git");
}

/// What was found is shown before it is said that a file could not be written.
#[test]
fn a_report_that_cannot_be_written_any_more_is_2_and_the_result_is_shown() {
    let user = User::new();
    let path = user.file("reports/old", "").replace("old", "new");
    let script = "rm -rf \"$0\"; exec \"$@\"";
    let agent = ["--", "/bin/sh", "-c", script, &user.text("reports"), PINTLE, "mock", "agent"];
    let ended = user.run(&[&["check", "--case", "version-string", "--md", &path][..], &agent].concat());
    ended.assert_told(2, &[&format!("`{path}` for --md: No such file")]);
    assert!(ended.stdout.contains("conformant") && !ended.stderr.contains(".tmp-"), "{}", ended.stderr);
}

#[test]
fn a_run_that_is_none_is_2_and_named() {
    let user = User::new();
    assert_eq!(user.run(&["judge", "latest"]).code, Some(2));
    let ended = user.run(&["judge", "0190"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("0190"), "{}", ended.stderr);

    let checked = user.run(&[&["check", "--case", "version-string"][..], &MOCK].concat());
    assert_eq!(checked.code, Some(0), "{}\n{}", checked.stdout, checked.stderr);
    let mut runs = fs::read_dir(user.path("state/runs")).expect("runs").flatten();
    let journal = runs.find(|run| run.path().is_dir()).expect("a run").path().join("journal.ndjson");
    let whole = fs::read_to_string(&journal).expect("a journal");
    fs::write(&journal, whole.replacen("acp.frame", "acp.frume", 1)).expect("writes");
    let ended = user.run(&["judge", "latest"]);
    assert_eq!(ended.code, Some(2), "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("journal"), "{}", ended.stderr);
}

#[test]
fn a_project_file_that_is_wrong_has_its_line() {
    let user = User::new();
    for (content, words) in [
        ("command = [\"x\"\n", &["pintle.toml", "line"][..]),
        ("command = 3\n", &["pintle.toml", "line 1"]),
        ("\n\ncomand = []\n", &["pintle.toml", "line 3", "comand"]),
        ("pack = \"nope\"\n", &["`nope`"]),
        ("[prompts]\nlong = \"x\"\nnope = \"x\"\n", &["pintle.toml`, line 3", "`nope`", "it has", "long", "short"]),
        ("baseline = \"no.json\"\n", &["no.json", "pintle.toml` names it", "make one: pintle check --no-baseline"]),
    ] {
        user.file("cwd/.config/pintle.toml", content);
        user.refused(&[], words);
    }
    // How to make the one that is missing works.
    let ended = user.run(&[&["check", "--no-baseline", "--case", "version-string"][..], &MOCK].concat());
    ended.assert(0, &["conformant"]);
}
