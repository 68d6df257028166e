//! `pintle driver check`: the conformance kit.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pintle_check::driver::AgentSpec;
use pintle_check::kit::{
    self, DEFAULT_MAX_SESSION_BYTES, DriverReport, KitError, KitOperation, KitProgress, KitRequest,
    MAX_KIT_INPUT_BYTES, REQUIREMENTS, check_driver, scenario_operations,
};
use pintle_check::report::TerminalStyle;
use pintle_sdk::driver::artifact_digest;
use pintle_sdk::process::{Environment, Ladder, Program, Shim};
use pintle_store::{RealFs, fsx};

use super::command::DriverLine;
use crate::commands::check::{FailOnArg, Format, current_dir, scratch, seconds, terminal_width, this_program};
use crate::commands::stop;
use crate::error::CommandError;
use crate::exit::Exit;

/// What `pintle driver check` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this requirement, with what it depends on. Repeatable.
    #[arg(long = "case", value_name = "ID")]
    cases: Vec<String>,
    /// List the requirements and do nothing else.
    #[arg(long)]
    list: bool,
    /// An operation of the driver that ends on its own. Without it invocations are not tried, but for a driver of ACP
    /// scenarios, which gets a small one with the built-in agent.
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// The exact input of --operation. Default: empty.
    #[arg(long, value_name = "FILE", requires = "operation")]
    input: Option<PathBuf>,
    /// An operation of the driver that goes on until it is cancelled.
    #[arg(long, value_name = "NAME")]
    lasting_operation: Option<String>,
    /// The exact input of --lasting-operation. Default: empty.
    #[arg(long, value_name = "FILE", requires = "lasting_operation")]
    lasting_input: Option<PathBuf>,
    /// The file whose digest the driver should declare. Default: its last argument that is a file, else its program.
    #[arg(long, value_name = "FILE")]
    driver_artifact: Option<PathBuf>,
    /// Seconds that any answer may take.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    timeout: u64,
    /// Seconds that --operation may take.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    invocation_timeout: u64,
    /// What makes a driver nonconformant: a failed must, or also a should that is not met.
    #[arg(long, value_enum, default_value_t = FailOnArg::Must)]
    fail_on: FailOnArg,
    /// What standard output gets: a table, or one JSON object.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// The driver and its arguments. Default: the built-in driver of ACP scenarios.
    #[arg(last = true, value_name = "DRIVER")]
    driver: Vec<OsString>,
}

impl Args {
    pub(super) fn json(&self) -> bool {
        self.format == Format::Json
    }
}

pub(super) fn run(args: &Args) -> Result<Exit, CommandError> {
    if args.list {
        return list(args.json());
    }
    let scratch = scratch()?;
    let request = request(args, scratch.path())?;
    let (runtime, stop) = stop::runtime()?;
    let mut line = ProgressLine { enabled: std::io::stderr().is_terminal(), shown: false };
    let report = runtime.block_on(async {
        tokio::select! {
            biased;
            () = stop.cancel.cancelled() => None,
            report = check_driver(request, args.fail_on.into(), |step| line.show(step)) => Some(report),
        }
    });
    line.clear();
    let report = report.ok_or_else(|| stop::interrupted(Exit::Inconclusive, "check the driver"))?;
    let report = report.map_err(|error| refused(&error))?;
    print(args, &report)?;
    Ok(match report.verdict.as_str() {
        "conformant" => Exit::Ok,
        "nonconformant" => Exit::Failed,
        _ => Exit::Inconclusive,
    })
}

fn refused(error: &KitError) -> CommandError {
    match error {
        KitError::UnknownCase(_) => {
            CommandError::caused(Exit::Usage, "case", error).hint("`pintle driver check --list` shows the requirements")
        }
        _ => CommandError::caused(Exit::NotStarted, "driver", error),
    }
}

fn request(args: &Args, scratch: &Path) -> Result<KitRequest, CommandError> {
    let this = this_program()?;
    let current = current_dir()?;
    let line = if args.driver.is_empty() {
        let program = Program::at(&this).map_err(|error| CommandError::caused(Exit::Inconclusive, "driver", &error))?;
        DriverLine { program, args: vec!["driver".into(), "acp".into()], artifact: this.clone() }
    } else {
        DriverLine::find(&args.driver, &current)?
    };
    let artifact = args.driver_artifact.as_ref().map_or(line.artifact, |file| current.join(file));
    let artifact = artifact_digest(&artifact).map_err(|error| {
        CommandError::new(Exit::Usage, "artifact", format!("read the driver's file `{}`: {error}", artifact.display()))
    })?;
    let session = scratch.join("session");
    fsx::create_dir(&RealFs, &session).map_err(|error| CommandError::caused(Exit::Inconclusive, "scratch", &error))?;
    let (mut operation, mut lasting) = (None, None);
    if args.operation.is_none() && args.lasting_operation.is_none() {
        let agent = mock_agent(&this, &session)?;
        let [soon, long] = scenario_operations(&agent)
            .map_err(|error| CommandError::caused(Exit::Inconclusive, "operation", &error))?;
        (operation, lasting) = (Some(soon), Some(long));
    }
    if let Some(name) = &args.operation {
        operation = Some(KitOperation { name: name.clone(), input: input(args.input.as_deref())? });
    }
    if let Some(name) = &args.lasting_operation {
        lasting = Some(KitOperation { name: name.clone(), input: input(args.lasting_input.as_deref())? });
    }
    Ok(KitRequest {
        program: line.program,
        args: line.args,
        env: Environment::driver_allowlist(std::env::vars_os()),
        shim: Shim::Path(this),
        cases: args.cases.clone(),
        artifact: Some(artifact),
        operation,
        lasting,
        answer: Duration::from_millis(args.timeout),
        invocation: Duration::from_millis(args.invocation_timeout),
        cancel: Duration::from_millis(args.timeout),
        ladder: Ladder::default(),
        max_session_bytes: DEFAULT_MAX_SESSION_BYTES,
        scratch: scratch.to_owned(),
    })
}

/// The agent that a scenario driver is tried with.
fn mock_agent(this: &Path, session: &Path) -> Result<AgentSpec, CommandError> {
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            CommandError::new(
                Exit::Inconclusive,
                "path",
                format!("pass `{}` to the driver: it is not UTF-8", path.display()),
            )
        })
    };
    let env = Environment::agent_allowlist(std::env::vars_os());
    let env = env.iter().filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())));
    Ok(AgentSpec {
        argv: vec![text(this)?, "mock".to_owned(), "agent".to_owned()],
        cwd: text(session)?,
        env: env.collect(),
        session_cwd: text(session)?,
    })
}

fn input(path: Option<&Path>) -> Result<Vec<u8>, CommandError> {
    match path {
        Some(path) => fsx::read_bounded(&RealFs, path, MAX_KIT_INPUT_BYTES)
            .map_err(|error| CommandError::caused(Exit::Usage, "input", &error)),
        None => Ok(Vec::new()),
    }
}

fn print(args: &Args, report: &DriverReport) -> Result<(), CommandError> {
    let mut out = anstream::stdout().lock();
    match args.format {
        Format::Json => {
            let bytes = pintle_wire::to_canonical(report)
                .map_err(|error| CommandError::caused(Exit::Inconclusive, "report", &error))?;
            out.write_all(&bytes)?;
            out.write_all(b"\n")?;
        }
        Format::Human => {
            let style = TerminalStyle { color: true, width: terminal_width() };
            out.write_all(kit::terminal(report, style).as_bytes())?;
        }
    }
    Ok(out.flush()?)
}

fn list(json: bool) -> Result<Exit, CommandError> {
    let mut out = std::io::stdout().lock();
    for requirement in REQUIREMENTS {
        let level = requirement.level.as_str();
        if json {
            let row = serde_json::json!({
                "id": requirement.id, "level": level, "title": requirement.title, "spec": requirement.spec,
                "why": requirement.why, "depends": requirement.depends,
            });
            writeln!(out, "{row}")?;
        } else {
            writeln!(out, "{:<15}  {level:<6}  {}", requirement.id, requirement.title)?;
        }
    }
    Ok(Exit::Ok)
}

/// One line on standard error that is written over again; nothing when that is no terminal.
struct ProgressLine {
    enabled: bool,
    shown: bool,
}

impl ProgressLine {
    fn show(&mut self, step: KitProgress) {
        let KitProgress::Trying { id, done, of } = step;
        if self.enabled {
            self.write(&format!("\r\x1b[K{done}/{of}  {id}"));
            self.shown = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            self.write("\r\x1b[K");
        }
    }

    fn write(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        // A terminal that is gone needs no progress.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}
