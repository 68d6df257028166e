//! `pintle prompt`: one turn in the terminal, streamed.

mod said;
mod show;
mod text;
mod turn;

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pintle_sdk::acp::permission::Approve;
use pintle_sdk::acp::types::SessionId;
use pintle_sdk::process::{Environment, Program, Shim};

use self::turn::Order;
use super::check::{environment, seconds, session_directory, this_program};
use super::stop::Stop;
use crate::config;
use crate::error::CommandError;
use crate::exit::Exit;

pub(crate) use self::said::Words;

/// Seconds that the agent may take to answer `initialize` when nobody says otherwise.
const START_LIMIT_MS: u64 = 10_000;
/// The longest prompt from standard input, in bytes.
const MAX_PROMPT_BYTES: u64 = 16 * 1024 * 1024;

/// What `pintle prompt` is told.
#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// What to say to the agent; `-` reads it from standard input.
    #[arg(value_name = "TEXT")]
    text: String,
    /// Go on with this session of the agent's. It is resumed, or loaded where the agent cannot resume.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// What the agent may do: nothing; read files, search and think; everything. Default: reads, and none when standard
    /// output is no terminal. What is refused is refused by the kind of the tool call, and file access and terminals are
    /// offered only as far as this goes.
    #[arg(long, value_enum)]
    approve: Option<ApproveArg>,
    /// Working directory of the session. Default: the current one.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Give the agent this environment variable, with this value or the one it has here. Repeatable.
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Authenticate with this method of the agent's first.
    #[arg(long, value_name = "METHOD")]
    auth: Option<String>,
    /// What standard output gets: the agent's answer as text, with all else on standard error; or one JSON object a line.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// Seconds that the agent may take to answer its first request. Default: 10.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    startup_timeout: Option<u64>,
    /// Seconds that the turn may take before it is cancelled. Default: as long as it wants.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<u64>,
    /// The agent and its arguments. Default: the project's command from .config/pintle.toml.
    #[arg(last = true, value_name = "AGENT")]
    agent: Vec<OsString>,
}

/// `--approve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ApproveArg {
    None,
    Reads,
    All,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Human,
    Json,
}

impl PromptArgs {
    /// Whether errors are wanted as JSON.
    pub(crate) fn json(&self) -> bool {
        self.format == Format::Json
    }
}

/// Runs it.
pub(crate) fn run(args: &PromptArgs) -> Result<Exit, CommandError> {
    let order = order(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| CommandError::caused(Exit::Failed, "runtime", &e))?;
    let stop = Stop::default();
    // The first signal cancels the turn, the second kills the agent.
    runtime.spawn(stop.clone().watch());
    let done = runtime.block_on(turn::run(order, stop));
    // A file on a drive that does not answer must not hold up the end.
    runtime.shutdown_background();
    done
}

fn order(args: &PromptArgs) -> Result<Order, CommandError> {
    let current =
        std::env::current_dir().map_err(|e| CommandError::usage(format!("find the current directory: {e}")))?;
    let mut base = current.clone();
    let mut named = Vec::new();
    let mut command = args.agent.clone();
    if command.is_empty() {
        if std::env::args_os().any(|arg| arg == "--") {
            return Err(no_agent("prompt an agent: there is nothing after `--`"));
        }
        let project = config::find(&current).map_err(|error| CommandError::caused(Exit::Usage, "config", &error))?;
        let project = project.filter(|project| !project.config.command.is_empty());
        let project = project.ok_or_else(|| no_agent("prompt an agent: none is named"))?;
        base = project.root;
        command = project.config.command.into_iter().map(OsString::from).collect();
        named = project.config.env;
    }
    let Some((name, rest)) = command.split_first() else {
        return Err(no_agent("prompt an agent: none is named"));
    };
    let path = std::env::var_os("PATH");
    let program = Program::find(name, path.as_deref(), &base)
        .map_err(|e| CommandError::new(Exit::NotStarted, "not_found", crate::error::chain(&e)))?;
    let (env, canaries) = environment(named.iter().chain(&args.env))?;
    let approve = match args.approve {
        Some(ApproveArg::None) => Approve::None,
        Some(ApproveArg::Reads) => Approve::Reads,
        Some(ApproveArg::All) => Approve::All,
        None if std::io::stdout().is_terminal() => Approve::Reads,
        None => Approve::None,
    };
    let cwd = session_directory(args.cwd.as_deref().unwrap_or(&current))?;
    if cwd.to_str().is_none() {
        let message = format!("use `{}` as working directory: the protocol has UTF-8 paths only", cwd.display());
        return Err(CommandError::usage(message));
    }
    Ok(Order {
        text: prompt_text(&args.text)?,
        session: args.session.as_deref().map(SessionId::from),
        auth: args.auth.clone(),
        approve,
        cwd,
        json: args.json(),
        start_limit: Duration::from_millis(args.startup_timeout.unwrap_or(START_LIMIT_MS)),
        turn_limit: args.timeout.map(Duration::from_millis),
        words: Words::new(canaries),
        program,
        args: rest.to_vec(),
        env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect::<Environment>(),
        shim: Shim::Path(this_program()?),
    })
}

fn no_agent(message: &str) -> CommandError {
    CommandError::usage(message).hint("name the agent: pintle prompt \"TEXT\" -- my-agent --acp")
}

/// The prompt itself, or what standard input has for it.
fn prompt_text(given: &str) -> Result<String, CommandError> {
    let text = if given == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .take(MAX_PROMPT_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| CommandError::usage(format!("read the prompt from standard input: {e}")))?;
        if bytes.len() as u64 > MAX_PROMPT_BYTES {
            return Err(CommandError::usage(format!(
                "read the prompt from standard input: it has more than {MAX_PROMPT_BYTES} bytes"
            )));
        }
        String::from_utf8(bytes)
            .map_err(|_| CommandError::usage("read the prompt from standard input: it is not UTF-8 text"))?
    } else {
        given.to_owned()
    };
    if text.trim().is_empty() { Err(CommandError::usage("prompt the agent: the prompt is empty")) } else { Ok(text) }
}
