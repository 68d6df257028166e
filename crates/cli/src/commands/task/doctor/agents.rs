//! What is installed for an agent, and whether the agent runs it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pintle_pointer::Agent;
use pintle_pointer::install::{
    Host, Installed, Presence, SETTINGS_MAX_BYTES, Setup, Target, TargetRole, TrustStatus, codex_trust_entries,
    codex_trust_status, hooks_switch, installed_server,
};
use pintle_store::{RealFs, settings};

use super::super::child;
use super::finding::{Finding, Report};
use super::publish;
use super::root_of;
use super::weak::{spots, version_in};
use crate::commands::task::install::Surroundings;

/// How long an agent may take to say its version.
const VERSION_WAIT: Duration = Duration::from_secs(10);
/// How long our own program may take for it.
const OWN_VERSION_WAIT: Duration = Duration::from_secs(5);

/// Settings of a project that an agent reads beside the user's, below the current directory.
const PROJECT_HOOKS: [(Agent, &str); 7] = [
    (Agent::Codex, ".codex/hooks.json"),
    (Agent::Claude, ".claude/settings.json"),
    (Agent::Claude, ".claude/settings.local.json"),
    (Agent::Gemini, ".gemini/settings.json"),
    (Agent::Qwen, ".qwen/settings.json"),
    (Agent::Cursor, ".cursor/hooks.json"),
    (Agent::Copilot, ".github/hooks/pintle-task.json"),
];

/// Looks at one agent. `asked` says that the user named it, so that nothing installed is a fault.
pub(super) fn check(
    host: Host,
    surroundings: &Surroundings,
    program: &str,
    asked: bool,
    root: Option<&Path>,
    report: &mut Report,
) {
    let agent = host.agent();
    let version = check_version(host, surroundings, report);
    let probe = surroundings.setup(agent, program, false, true, true);
    let targets = probe.targets(&surroundings.dirs);
    let Some(hooks) = targets.iter().find(|target| matches!(target.role, TargetRole::Hooks | TargetRole::Plugin))
    else {
        return;
    };
    let Some((installed, bytes)) = read_installed(agent, hooks, asked, report) else { return };
    let setup = Setup {
        program: installed.program.clone(),
        strict: installed.strict,
        mcp: installed.mcp,
        exec_form: installed.exec_form,
        ..probe
    };
    check_presence(&setup, surroundings, report);
    if let Some(switch) = hooks_switch(agent, &bytes) {
        report.add(
            Finding::fail(agent, "hooks_off", format!("`{}` switches every hook off ({switch})", hooks.path.display()))
                .step(format!("take {switch} out of that file")),
        );
    }
    let runs = check_program(agent, &installed.program, program, report);
    if agent == Agent::Codex {
        check_trust(&hooks.path, &bytes, surroundings, report);
        if runs_another_pointer(&bytes) {
            report.add(
                Finding::warn(
                    agent,
                    "other_pointer",
                    format!("`{}` also runs the hooks of another task pointer", hooks.path.display()),
                )
                .step("uninstall one of the two: the model is told of two records, and their locks do not know each other"),
            );
        }
    }
    let server = check_server(&setup, surroundings, report);
    if agent == Agent::Codex && server.is_none() {
        check_sandbox(surroundings, report);
    }
    for text in spots(agent, version) {
        report.add(Finding::note(agent, "weak_spot", text));
    }
    match root_of(root, Some(agent)) {
        Ok(root) if runs => publish::check(agent, &root, &installed.program, server.as_deref(), report),
        Ok(_) => {}
        Err(error) => report.add(Finding::fail(agent, "root", error.message())),
    }
}

/// What only shows in two settings files at once.
pub(super) fn check_together(hosts: &[Host], surroundings: &Surroundings, report: &mut Report) {
    let has = |agent: Agent| {
        let setup = surroundings.setup(agent, "pintle", false, true, true);
        let targets = setup.targets(&surroundings.dirs);
        let bytes = targets.first().and_then(|target| read(&target.path).ok().flatten());
        bytes.is_some_and(|bytes| Installed::in_hooks(agent, &bytes).is_ok_and(|found| found.is_some()))
    };
    if has(Agent::Cursor) && has(Agent::Claude) {
        report.add(Finding::note(
            "agents",
            "double_registration",
            "Cursor also runs Claude Code's hooks; ours notice it and answer once",
        ));
    }
    let Ok(here) = std::env::current_dir() else { return };
    for (agent, name) in PROJECT_HOOKS {
        let path = here.join(name);
        let ours = read(&path).ok().flatten().and_then(|bytes| Installed::in_hooks(agent, &bytes).ok().flatten());
        let user_too = hosts.iter().any(|host| host.agent() == agent && has(agent));
        if ours.is_some() && user_too && !is_users(&path, agent, surroundings) {
            report.add(
                Finding::warn(
                    "agents",
                    "double_registration",
                    format!("`{}` runs our hook a second time for {agent}", path.display()),
                )
                .step("keep one of the two"),
            );
        }
    }
}

/// In the home itself the project's file is the user's.
fn is_users(path: &Path, agent: Agent, surroundings: &Surroundings) -> bool {
    let setup = surroundings.setup(agent, "pintle", false, false, false);
    setup.targets(&surroundings.dirs).iter().any(|target| target.path == path)
}

fn check_version(host: Host, surroundings: &Surroundings, report: &mut Report) -> Option<[u64; 3]> {
    let agent = host.agent();
    let Some(program) = host.programs().iter().find_map(|name| surroundings.on_path(name)) else {
        report.add(Finding::note(agent, "agent_program", "its settings are here, its program is not on PATH"));
        return None;
    };
    let said = child::run(Command::new(&program).arg("--version"), "", VERSION_WAIT);
    let version = said.ok().and_then(|ran| version_in(&ran.stdout));
    match version {
        Some([major, minor, patch]) => {
            let text = format!("{agent} {major}.{minor}.{patch}");
            report.add(Finding::ok(agent, "agent_version", text).with("path", program.display().to_string()));
        }
        None => report.add(Finding::note(
            agent,
            "agent_version",
            format!("`{}` does not say its version", program.display()),
        )),
    }
    version
}

/// The hooks of ours with the bytes of their file; without any, the finding is made here.
fn read_installed(agent: Agent, hooks: &Target, asked: bool, report: &mut Report) -> Option<(Installed, Vec<u8>)> {
    let install = format!("pintle task install --agent {agent}");
    let bytes = match read(&hooks.path) {
        Ok(bytes) => bytes.unwrap_or_default(),
        Err(why) => {
            report.add(Finding::fail(agent, "settings", why));
            return None;
        }
    };
    match Installed::in_hooks(agent, &bytes) {
        Ok(Some(installed)) => Some((installed, bytes)),
        Ok(None) => {
            let text = "nothing of pintle is installed";
            report.add(if asked {
                Finding::fail(agent, "not_installed", text).step(install)
            } else {
                Finding::note(agent, "not_installed", text).step(install)
            });
            None
        }
        Err(error) => {
            let text = format!("`{}`: {error}", hooks.path.display());
            report.add(
                Finding::fail(agent, error.fault().code(), text).step("repair the file by hand: the agent drops it"),
            );
            None
        }
    }
}

fn check_presence(setup: &Setup, surroundings: &Surroundings, report: &mut Report) {
    let agent = setup.agent;
    for target in setup.targets(&surroundings.dirs) {
        let role = target.role.as_str();
        let path = target.path.display();
        let presence = read(&target.path).map(|bytes| target.presence(bytes.as_deref()));
        let finding = match presence {
            Ok(Ok(Presence::Present)) => Finding::ok(agent, "installed", format!("{role} in `{path}`")),
            Ok(Ok(Presence::Missing)) if target.role == TargetRole::Rules => {
                Finding::note(agent, "no_rules", format!("`{path}` does not teach the model to publish"))
                    .step(format!("pintle task install --agent {agent}"))
            }
            Ok(Ok(Presence::Missing)) => Finding::fail(agent, "not_installed", format!("{role} missing in `{path}`"))
                .step(format!("pintle task install --agent {agent}")),
            Ok(Ok(Presence::Different)) => {
                Finding::warn(agent, "differs", format!("{role} in `{path}` are not as this version installs them"))
                    .step(format!("pintle task install --agent {agent}"))
            }
            Ok(Err(error)) => Finding::fail(agent, error.fault().code(), format!("`{path}`: {error}")),
            Err(why) => Finding::fail(agent, "settings", why),
        };
        report.add(finding.with("role", role).with("path", path.to_string()));
    }
}

/// Whether the installed program is there, can run, and is of this version.
fn check_program(agent: Agent, installed: &str, own: &str, report: &mut Report) -> bool {
    let step = format!("pintle task install --agent {agent}");
    if !Path::new(installed).is_file() && Path::new(installed).components().count() > 1 {
        let text = format!("the hook runs `{installed}`, which is not there");
        report.add(Finding::fail(agent, "program_missing", text).step(step));
        return false;
    }
    match child::run(Command::new(installed).arg("--version"), "", OWN_VERSION_WAIT) {
        Ok(ran) if ran.code == Some(0) => {
            // The name, then the version; what a version is made of may stand behind them.
            let version = ran.stdout.split_whitespace().nth(1).unwrap_or_default().to_owned();
            let same = version == env!("CARGO_PKG_VERSION");
            let text = format!("the hook runs `{installed}`, version {version}");
            report.add(if same {
                Finding::ok(agent, "program", text)
            } else {
                Finding::warn(agent, "program_version", format!("{text}; this is {}", env!("CARGO_PKG_VERSION")))
                    .step(format!("install one of the two; `{own}` is this one"))
            });
            true
        }
        Ok(ran) => {
            let text = format!("the hook runs `{installed}`, which ends with {:?}", ran.code);
            report.add(Finding::fail(agent, "program_broken", text).step(step));
            false
        }
        Err(error) => {
            let text = format!("the hook runs `{installed}`, which cannot be run: {error}");
            report.add(Finding::fail(agent, "program_broken", text).step(step));
            false
        }
    }
}

/// Codex lists a hook that is not trusted, and does not run it.
fn check_trust(hooks: &Path, bytes: &[u8], surroundings: &Surroundings, report: &mut Report) {
    let agent = Agent::Codex;
    let config =
        read(&Host::of(agent).map(|host| host.config_dir(&surroundings.dirs)).unwrap_or_default().join("config.toml"));
    let config = config.ok().flatten().unwrap_or_default();
    // Codex may know the file by its real path.
    let real = hooks.canonicalize().unwrap_or_else(|_| hooks.to_path_buf());
    let mut paths = vec![hooks.to_path_buf()];
    if real != hooks {
        paths.push(real);
    }
    let by_path: Vec<_> = paths.iter().filter_map(|path| codex_trust_entries(path, bytes).ok()).collect();
    let Some(first) = by_path.first() else { return };
    for at in 0..first.len() {
        let candidates = by_path.iter().filter_map(|entries| entries.get(at));
        let known = candidates.filter_map(|entry| Some((entry, codex_trust_status(&config, entry).ok()?)));
        let Some((entry, status)) = known.max_by_key(|(_, status)| *status != TrustStatus::Untrusted) else { continue };
        let text = format!("the hook for {} is {}", entry.event, status.as_str());
        let finding = match status {
            TrustStatus::Trusted => Finding::ok(agent, "trusted", text),
            TrustStatus::Untrusted | TrustStatus::Modified => {
                let code = if status == TrustStatus::Untrusted { "untrusted" } else { "modified" };
                Finding::fail(agent, code, text).step("start codex, open /hooks and trust the pintle hooks")
            }
            TrustStatus::Disabled => {
                Finding::fail(agent, "disabled", text).step("start codex, open /hooks and switch the pintle hooks on")
            }
        };
        report.add(finding.with("key", entry.key.as_str()).with("hash", entry.hash.as_str()));
    }
}

/// Whether a command in the hooks is that of the published protocol's own install, which lives in `task-pointer`.
fn runs_another_pointer(hooks: &[u8]) -> bool {
    fn any_command(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Array(items) => items.iter().any(any_command),
            serde_json::Value::Object(members) => members.iter().any(|(name, value)| {
                let is_command = matches!(name.as_str(), "command" | "commandWindows");
                let named = value.as_str().is_some_and(|text| {
                    text.split(['/', '\\']).any(|part| part == "task-pointer") && !text.contains(" task hook --agent ")
                });
                (is_command && named) || any_command(value)
            }),
            _ => false,
        }
    }
    serde_json::from_slice(hooks).is_ok_and(|value: serde_json::Value| any_command(&value))
}

/// The registered MCP server, if it is there.
fn check_server(setup: &Setup, surroundings: &Surroundings, report: &mut Report) -> Option<Vec<String>> {
    let with_server = Setup { mcp: true, ..setup.clone() };
    let targets = with_server.targets(&surroundings.dirs);
    let path = targets.iter().find(|target| target.role == TargetRole::Mcp).or_else(|| targets.first())?.path.clone();
    let bytes = read(&path).ok().flatten()?;
    match installed_server(setup.agent, &bytes) {
        Ok(Some(command)) => Some(command),
        Ok(None) if setup.mcp => {
            let text = format!("contexts name the MCP tools, but `{}` registers no server", path.display());
            report.add(
                Finding::fail(setup.agent, "no_server", text)
                    .step(format!("pintle task install --agent {}", setup.agent)),
            );
            None
        }
        Ok(None) | Err(_) => None,
    }
}

/// Without the MCP server the model publishes by a command, which Codex's sandbox keeps from writing outside the project.
fn check_sandbox(surroundings: &Surroundings, report: &mut Report) {
    let dir = Host::of(Agent::Codex).map(|host| host.config_dir(&surroundings.dirs)).unwrap_or_default();
    let config = read(&dir.join("config.toml")).ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&config).into_owned();
    let open = text
        .lines()
        .map(str::trim_start)
        .any(|line| line.starts_with("sandbox_mode") && line.contains("danger-full-access"));
    if !open {
        report.add(
            Finding::fail(
                Agent::Codex,
                "sandbox",
                "the sandbox keeps the publish command from writing the state, and no MCP server is registered",
            )
            .step("pintle task install --agent codex (without --no-mcp)"),
        );
    }
}

/// A settings file; `None` where there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    settings::read(&RealFs, path, SETTINGS_MAX_BYTES)
        .map(|settings| settings.bytes)
        .map_err(|error| crate::error::chain(&error))
}
