//! From arguments, project configuration and environment to a request.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pintle_check::cel::WorkerConfig;
use pintle_check::pack::{DEFAULT_PACK, LoadError, Pack};
use pintle_check::report::Report;
use pintle_check::run::{AgentIsolation, AgentUnderTest, CheckRequest, DriverCommand, Secrets, Waits};
use pintle_sdk::process::{Environment, PrivateDir, Program, Shim};
use pintle_store::home::{Home, HomeError, HomeVars};
use pintle_store::sanitise::{Canary, is_sensitive_name};
use pintle_store::{RealFs, fsx};
use pintle_wire::{Profile, ScanLimits, scan};

use super::{CheckArgs, output};
use crate::commands::cel;
use crate::commands::driver::DriverLine;
use crate::config::{self, Project};
use crate::error::CommandError;
use crate::exit::Exit;

/// Largest baseline report, in bytes.
const MAX_BASELINE_BYTES: usize = 64 * 1024 * 1024;
/// Most agents at once when nobody says how many.
const DEMO_JOBS: usize = 4;

/// The project's configuration, if the current directory lies in a project that has one.
pub(super) fn project() -> Result<Option<Project>, CommandError> {
    config::find(&current_dir()?).map_err(|error| CommandError::caused(Exit::Usage, "config", &error))
}

/// The pack that is meant.
pub(super) fn pack(args: &CheckArgs, project: Option<&Project>) -> Result<Pack, CommandError> {
    let configured = project.and_then(|project| {
        let wanted = project.config.pack.clone()?;
        let below = project.root.join(&wanted);
        Some(if below.exists() { below.to_string_lossy().into_owned() } else { wanted })
    });
    let wanted = args.pack.clone().or(configured);
    load_pack(wanted.as_deref().unwrap_or(DEFAULT_PACK))
}

/// Texts of the project for prompts that the pack does not have: a slip, which would leave the pack's own text in place.
pub(super) fn unknown_prompts(args: &CheckArgs, project: Option<&Project>, pack: &Pack) -> Result<(), CommandError> {
    let Some(project) = project else { return Ok(()) };
    let known = &pack.manifest.prompts;
    let Some(name) = project.config.prompts.keys().find(|name| !known.contains_key(*name)) else { return Ok(()) };
    let line = project.prompt_lines.get(name).copied().unwrap_or(1);
    let file = project.file();
    let what = format!("`{}`, line {line}: the pack {} has no prompt `{name}`", file.display(), pack.manifest.name);
    let has = format!("it has {}", known.keys().map(String::as_str).collect::<Vec<_>>().join(", "));
    if args.pack.is_some() {
        // The texts were written for the project's own pack.
        output::note(&format!("warning: {what}; {has}"));
        return Ok(());
    }
    Err(CommandError::new(Exit::Usage, "config", format!("understand {what}")).hint(has))
}

/// A pack by the name or path that a user gave.
pub(super) fn load_pack(wanted: &str) -> Result<Pack, CommandError> {
    Pack::select(&RealFs, wanted).map_err(|error| {
        let refused = CommandError::new(
            Exit::Usage,
            error.class(),
            format!("load the pack `{wanted}`: {}", crate::error::chain(&error)),
        );
        refused.hint("`pintle check --list` shows what is in a pack")
    })
}

/// A case that the pack does not have.
pub(super) fn unknown_case(error: &LoadError) -> CommandError {
    CommandError::new(Exit::Usage, error.class(), format!("select the cases: {error}"))
        .hint("`pintle check --list` shows their ids")
}

/// The report that the result is compared with.
pub(super) fn baseline(args: &CheckArgs, project: Option<&Project>) -> Result<Option<Report>, CommandError> {
    if args.no_baseline {
        return Ok(None);
    }
    if let Some(path) = &args.judging.baseline {
        return read_baseline(path).map(Some);
    }
    let Some((project, path)) = project.and_then(|project| Some((project, project.config.baseline.as_ref()?))) else {
        return Ok(None);
    };
    read_baseline(&project.root.join(path)).map(Some).map_err(|error| {
        let file = project.file();
        error.hint(format!("`{}` names it as the baseline; --no-baseline does without it", file.display()))
    })
}

/// A report from a file.
pub(super) fn read_baseline(path: &Path) -> Result<Report, CommandError> {
    let bytes = fsx::read_bounded(&RealFs, path, MAX_BASELINE_BYTES).map_err(|error| {
        let refused = CommandError::caused(Exit::Usage, "baseline", &error);
        let make = format!("pintle check --no-baseline --format json -- my-agent --acp >{}", path.display());
        if error.kind() == std::io::ErrorKind::NotFound { refused.hint(format!("make one: {make}")) } else { refused }
    })?;
    let refused = |error: &dyn std::fmt::Display| {
        let message = format!("read the baseline `{}`: it is no report of pintle: {error}", path.display());
        CommandError::new(Exit::Usage, "baseline", message)
    };
    // What the agent said of itself stands in it, as deep as it said it.
    let text = scan(&bytes, Profile::Acp, ScanLimits::DEPTH_ONLY).map_err(|error| refused(&error))?;
    text.decode().map_err(|error| refused(&error))
}

/// A private directory for what is gone after the check.
pub(crate) fn scratch() -> Result<PrivateDir, CommandError> {
    let base = std::env::temp_dir();
    let failed = |e: std::io::Error| {
        let message = format!("make a directory in `{}`: {e}", base.display());
        CommandError::new(Exit::Inconclusive, "scratch", message).hint("TMPDIR says where to make it")
    };
    // Agents compare paths: they get the one that the system itself would print.
    let base = base.canonicalize().map_err(failed)?;
    PrivateDir::create(&base, "pintle-scratch-").map_err(failed)
}

/// Where state is kept.
pub(super) fn home() -> Result<Home, HomeError> {
    Home::resolve(&HomeVars::from_lookup(|name| std::env::var_os(name)))
}

/// The time, for the age of old runs.
pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// The request.
pub(super) fn build(
    args: &CheckArgs,
    project: Option<Project>,
    pack: Pack,
    scratch: &Path,
) -> Result<CheckRequest, CommandError> {
    let this = this_program()?;
    let current = current_dir()?;
    let (root, config) =
        project.map_or_else(|| (current.clone(), Default::default()), |project| (project.root, project.config));
    let (argv, cwd, demo) = if !args.agent.is_empty() {
        (words(&args.agent)?, current.clone(), false)
    } else if !config.command.is_empty() {
        (config.command, root, false)
    } else {
        (vec![utf8(this.as_os_str())?, "mock".to_owned(), "agent".to_owned()], current.clone(), true)
    };
    let (env, mut canaries) = environment(config.env.iter().chain(&args.env))?;
    canaries.extend(secrets(&args.secrets)?);
    let session_cwd = args.cwd.as_ref().map(|path| directory(path)).transpose()?;
    let isolation = args.isolate_agent.as_ref().map(|network| AgentIsolation {
        network: network.clone(),
        read: program_files(&argv, &cwd, env.get("PATH").map(String::as_str)),
    });
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = match args.jobs {
        Some(jobs) => usize::from(jobs),
        None if demo => processors.min(DEMO_JOBS),
        // Agents share their home directory, and a model's rate limit: together they may fail where one alone does not.
        None => 1,
    };
    Ok(CheckRequest {
        pack,
        cases: args.cases.clone(),
        prompts: config.prompts,
        agent: AgentUnderTest { argv, cwd, env, session_cwd, auth: args.auth.clone(), demo, isolation },
        driver: driver(args, &this, &current)?,
        waits: Waits { start_ms: args.startup_timeout, reply_ms: args.timeout },
        jobs,
        scratch: scratch.to_owned(),
        secrets: Secrets::new(canaries),
        evaluator: evaluator(this),
    })
}

/// Assertions are evaluated in a process of their own.
pub(super) fn evaluator(this: PathBuf) -> WorkerConfig {
    WorkerConfig::new(vec![this.into(), cel::ARG.into()])
}

/// This program's own file.
pub(crate) fn this_program() -> Result<PathBuf, CommandError> {
    std::env::current_exe()
        .map_err(|e| CommandError::new(Exit::Inconclusive, "program", format!("find the file of this program: {e}")))
}

pub(crate) fn current_dir() -> Result<PathBuf, CommandError> {
    std::env::current_dir().map_err(|e| CommandError::usage(format!("find the current directory: {e}")))
}

fn driver(args: &CheckArgs, this: &Path, current: &Path) -> Result<DriverCommand, CommandError> {
    let env = Environment::driver_allowlist(std::env::vars_os());
    let require_sandbox = args.require_sandbox;
    let shim = Shim::Path(this.to_owned());
    let failed = |error: &dyn std::error::Error| CommandError::caused(Exit::Usage, "driver", error);
    let Some(line) = &args.driver else {
        let program = Program::at(this).map_err(|error| failed(&error))?;
        let args = vec!["driver".into(), "acp".into()];
        return Ok(DriverCommand { program, args, env, shim, artifact: this.to_owned(), require_sandbox });
    };
    let DriverLine { program, args: arguments, artifact } = DriverLine::split(line, current)?;
    let artifact = args.driver_artifact.as_ref().map_or(artifact, |path| current.join(path));
    Ok(DriverCommand { program, args: arguments, env, shim, artifact, require_sandbox })
}

/// What an isolated agent must see of itself: its program, the files on its command line, and the directories of both but
/// for the user's own and those above it.
fn program_files(argv: &[String], cwd: &Path, path: Option<&str>) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let program = argv.first().and_then(|name| Program::find(name, path.map(OsStr::new), cwd).ok());
    let arguments = argv.iter().skip(1).map(|word| cwd.join(word)).filter(|path| path.is_file());
    let files = program.map(|program| program.path().to_owned()).into_iter().chain(arguments);
    let mut seen = Vec::new();
    for file in files {
        // A link is followed: what is beside the file that it leads to belongs to the program.
        let real = file.canonicalize().unwrap_or_else(|_| file.clone());
        let folder = real.parent().filter(|folder| home.as_ref().is_none_or(|home| !home.starts_with(folder)));
        seen.extend(folder.map(Path::to_owned));
        seen.extend([file, real]);
    }
    seen
}

/// The agent's environment, and the values in it that must not be kept.
pub(crate) fn environment<'a>(
    named: impl Iterator<Item = &'a String>,
) -> Result<(BTreeMap<String, String>, Vec<Canary>), CommandError> {
    let allowed = Environment::agent_allowlist(std::env::vars_os());
    // A value that is not UTF-8 cannot travel in the driver's input; such a variable is left out.
    let mut env: BTreeMap<String, String> = allowed
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
        .collect();
    let mut canaries = Vec::new();
    for given in named {
        let (name, value) = name_and_value(given, "env")?;
        if name.is_empty() || name.contains('\0') || value.contains('\0') {
            return Err(CommandError::usage(format!("set the variable `{name}` for the agent: it has no usable name")));
        }
        let is_secret = names_a_secret(name);
        let canary = if is_secret { Canary::secret(value.clone()) } else { Canary::setting(value.clone()) };
        if is_secret && let Some(weakness) = canary.weakness() {
            output::note(&format!("warning: the value of {name} is not looked for in the evidence: {weakness}"));
        }
        canaries.push(canary);
        env.insert(name.to_owned(), value);
    }
    Ok((env, canaries))
}

/// Names that say of a variable what no list of exact names can hold: `KEY`, `SIGNING_KEY`, `DB_PASS`.
fn names_a_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let says = ["SECRET", "TOKEN", "PASS", "CREDENTIAL"].iter().any(|word| upper.contains(word));
    says || upper.ends_with("KEY") || is_sensitive_name(name)
}

/// Values that the user says are secret. One that cannot be looked for is refused, since it would not be protected.
fn secrets(given: &[String]) -> Result<Vec<Canary>, CommandError> {
    let mut canaries = Vec::new();
    for given in given {
        let (name, value) = name_and_value(given, "secret")?;
        let canary = Canary::secret(value);
        if let Some(weakness) = canary.weakness() {
            let refused = CommandError::usage(format!("keep {name} out of the evidence: {weakness}"));
            return Err(refused.hint("a value is looked for from 8 characters on, or from 4 if they are of two kinds"));
        }
        canaries.push(canary);
    }
    Ok(canaries)
}

/// `NAME=VALUE`, or `NAME` with the value that it has here.
fn name_and_value<'a>(given: &'a str, option: &str) -> Result<(&'a str, String), CommandError> {
    match given.split_once('=') {
        Some((name, value)) => Ok((name, value.to_owned())),
        None => Ok((given, value_of(given, option)?)),
    }
}

fn value_of(name: &str, option: &str) -> Result<String, CommandError> {
    match std::env::var(name) {
        Ok(value) => Ok(value),
        Err(std::env::VarError::NotPresent) => {
            let refused = CommandError::usage(format!("use the variable `{name}`: it is not set here"));
            Err(refused.hint(format!("set it, or give its value: --{option} {name}=VALUE")))
        }
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(CommandError::usage(format!("use the variable `{name}`: its value is not UTF-8")))
        }
    }
}

/// An existing directory, as the system itself would print it.
pub(crate) fn directory(path: &Path) -> Result<PathBuf, CommandError> {
    let refused = |why: &dyn std::fmt::Display| {
        CommandError::usage(format!("use `{}` as working directory: {why}", path.display()))
    };
    let path = path.canonicalize().map_err(|e| refused(&e))?;
    if path.is_dir() { Ok(path) } else { Err(refused(&"it is not a directory")) }
}

fn words(words: &[OsString]) -> Result<Vec<String>, CommandError> {
    words.iter().map(|word| utf8(word)).collect()
}

fn utf8(word: &OsStr) -> Result<String, CommandError> {
    let refused = || CommandError::usage(format!("pass `{}` to the driver: it is not UTF-8", word.display()));
    word.to_str().map(str::to_owned).ok_or_else(refused)
}
