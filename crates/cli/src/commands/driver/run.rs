//! `pintle driver run`: one operation of one driver, its observations as NDJSON.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use pintle_sdk::driver::{
    CompletedParams, Core, CoreError, Digest, DriverLaunch, Ended, ErrorClass, HelloResult, InstanceId, Invoke,
    MAX_INPUT_BYTES, Observed, Permission, Plan, TerminalStatus, artifact_digest,
};
use pintle_sdk::process::{Environment, Shim};
use pintle_store::{RealFs, fsx};
use serde_json::{Value, json};

use super::command::DriverLine;
use crate::commands::check::{current_dir, now_ms, scratch, seconds, this_program};
use crate::commands::prompt::Words;
use crate::commands::stop::{self, Stop};
use crate::error::{CommandError, chain};
use crate::exit::Exit;

/// Lines of the driver's standard error that are shown when something went wrong.
const MAX_STDERR_LINES: usize = 5;

/// What `pintle driver run` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The driver: a command line, split by the shell's word rules.
    #[arg(long, value_name = "CMD")]
    driver: String,
    /// One of the operations that the driver declares.
    #[arg(long, value_name = "NAME")]
    operation: String,
    /// The exact input, at most 64 MiB; `-` for standard input. Default: empty.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Approve this permission too, if the driver asks for it; `all` for every one. Repeatable. Without it, those are
    /// approved that open nothing of this machine: temporary-home, temporary-git-repo, ephemeral-input, bounded-stderr,
    /// companion-stream. `pintle driver acp` needs target-exec and target-environment as well.
    #[arg(long, value_name = "NAME")]
    approve: Vec<String>,
    /// A path that the driver may read and run, beside the system's and its own program: the other files that it is made
    /// of. Repeatable.
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// Refuse a driver whose declared artifact is not this file.
    #[arg(long, value_name = "FILE")]
    driver_artifact: Option<PathBuf>,
    /// Seconds that the operation may take before it is cancelled.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    timeout: u64,
    /// Seconds that a cancelled operation may take to end before the driver is killed.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    cancel_timeout: u64,
}

pub(super) fn run(args: &Args) -> Result<Exit, CommandError> {
    let scratch = scratch()?;
    let current = current_dir()?;
    let line = DriverLine::split(&args.driver, &current)?;
    let input = input(args)?;
    let env = Environment::driver_allowlist(std::env::vars_os());
    let mut launch = DriverLaunch::new(line.program, env, Shim::Path(this_program()?), scratch.path());
    launch.args = line.args;
    launch.session.verify_summary = true;
    launch.rules.grants = grants(&args.approve)?;
    launch.rules.target_home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    launch.rules.read = args.read.iter().map(|path| current.join(path)).collect();
    if let Some(file) = &args.driver_artifact {
        let file = current.join(file);
        let digest = artifact_digest(&file).map_err(|error| {
            CommandError::new(Exit::Usage, "artifact", format!("read the driver's file `{}`: {error}", file.display()))
        })?;
        launch.session.expected_artifact = Some(digest);
    }
    let (runtime, stop) = stop::runtime()?;
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = stop.kill.cancelled() => Err(interrupted()),
            done = carry_out(args, launch, input, &stop) => done,
        }
    })
}

fn interrupted() -> CommandError {
    stop::interrupted(Exit::Failed, "carry out the operation")
}

/// What a driver may have without being asked about: nothing of this machine is opened by it.
const HARMLESS: [&str; 5] = [
    Permission::TEMPORARY_HOME,
    Permission::TEMPORARY_GIT_REPO,
    Permission::EPHEMERAL_INPUT,
    Permission::BOUNDED_STDERR,
    Permission::COMPANION_STREAM,
];

fn grants(approve: &[String]) -> Result<Vec<Permission>, CommandError> {
    if approve.iter().any(|name| name == "all") {
        return Ok(Permission::KNOWN.map(Permission::from).to_vec());
    }
    let mut grants = HARMLESS.map(Permission::from).to_vec();
    for name in approve {
        let permission = Permission::new(name.as_str());
        if !permission.is_known() {
            return Err(CommandError::usage(format!("approve the permission `{name}`: it is not known"))
                .hint(format!("known are {}, and names that begin with x-", Permission::KNOWN.join(", "))));
        }
        if !grants.contains(&permission) {
            grants.push(permission);
        }
    }
    Ok(grants)
}

fn input(args: &Args) -> Result<Vec<u8>, CommandError> {
    let max = usize::try_from(MAX_INPUT_BYTES).unwrap_or(usize::MAX);
    match args.input.as_deref() {
        None => Ok(Vec::new()),
        Some(path) if path.as_os_str() == "-" => {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut io::Read::take(io::stdin().lock(), MAX_INPUT_BYTES + 1), &mut bytes)
                .map_err(|error| CommandError::usage(format!("read standard input: {error}")))?;
            if bytes.len() > max {
                return Err(CommandError::usage(format!("read standard input: it is longer than {max} bytes")));
            }
            Ok(bytes)
        }
        Some(path) => fsx::read_bounded(&RealFs, path, max).map_err(|error| {
            let refused = CommandError::caused(Exit::Usage, "input", &error);
            let is_pipe = std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
            if is_pipe { refused.hint("`--input -` reads standard input, whatever it is") } else { refused }
        }),
    }
}

async fn carry_out(args: &Args, launch: DriverLaunch, input: Vec<u8>, stop: &Stop) -> Result<Exit, CommandError> {
    let started = tokio::select! {
        biased;
        () = stop.cancel.cancelled() => return Err(interrupted()),
        started = Core::start(launch) => started,
    };
    let mut core = started.map_err(|failed| {
        let exit = if failed.error.is_drivers() { Exit::Inconclusive } else { Exit::NotStarted };
        with_stderr(told(exit, &failed.error), failed.ended.as_deref())
    })?;
    let mut out = Rows(BufWriter::new(io::stdout().lock()));
    let ran = observe(args, &mut core, input, &mut out, stop).await;
    match ran {
        Ok(Some(completed)) => {
            let ended = core.shutdown().await;
            out.row(&json!({"completed": {
                "status": completed.status.as_str(),
                "last_sequence": completed.last_sequence,
                "summary_digest": completed.summary_digest.to_string(),
            }}))?;
            if let Some(error) = &ended.error {
                return Err(with_stderr(told(Exit::Inconclusive, error), Some(&ended)));
            }
            Ok(if completed.status == TerminalStatus::Completed { Exit::Ok } else { Exit::Failed })
        }
        Ok(None) => Err(CommandError::new(Exit::Inconclusive, "driver", "follow the invocation: it did not end")),
        Err(Failure::Output(error)) => Err(error.into()),
        Err(Failure::Core(error)) => {
            let refused = matches!(error, CoreError::Refused { .. } | CoreError::Command(_));
            let approvals = to_approve(&error, core.driver(), &granted(args));
            let ended = if refused { core.shutdown().await } else { core.kill().await };
            let exit = if refused { Exit::Failed } else { Exit::Inconclusive };
            Err(with_stderr(told(exit, &error).hint_all(approvals), Some(&ended)))
        }
        Err(Failure::Interrupted) => {
            core.kill().await;
            Err(interrupted())
        }
        Err(Failure::Id) => {
            Err(CommandError::new(Exit::Inconclusive, "id", "make an id: the system gave no randomness"))
        }
    }
}

enum Failure {
    Core(CoreError),
    Output(io::Error),
    /// The driver cannot cancel.
    Interrupted,
    Id,
}

async fn observe(
    args: &Args,
    core: &mut Core,
    input: Vec<u8>,
    out: &mut Rows,
    stop: &Stop,
) -> Result<Option<CompletedParams>, Failure> {
    let requested = core.driver().map(|hello| hello.requested_permissions.clone()).unwrap_or_default();
    let approves = granted(args);
    let approved: Vec<Permission> = requested.into_iter().filter(|name| approves(name)).collect();
    let digest = Digest::of(&input);
    core.prepare(Plan { digest, approved, fixtures: Vec::new() }).await.map_err(Failure::Core)?;
    let invoke = Invoke {
        invocation_id: new_id().ok_or(Failure::Id)?,
        attempt_id: new_id().ok_or(Failure::Id)?,
        operation: args.operation.as_str().into(),
        input,
        deadline: Duration::from_millis(args.timeout),
        cancel_grace: Duration::from_millis(args.cancel_timeout),
    };
    let mut run = core.invoke(invoke).map_err(Failure::Core)?;
    let cancel_grace = Duration::from_millis(args.cancel_timeout);
    let mut asked = false;
    loop {
        let observed = tokio::select! {
            biased;
            () = stop.cancel.cancelled(), if !asked => {
                asked = true;
                run.cancel("interrupted", cancel_grace).map_err(|_| Failure::Interrupted)?;
                continue;
            }
            observed = run.next() => observed.map_err(Failure::Core)?,
        };
        match observed {
            Some(observed) => out.row(&row(&observed)).map_err(Failure::Output)?,
            None => return Ok(run.completed().cloned()),
        }
    }
}

/// One observation, or a piece of a companion stream.
fn row(observed: &Observed) -> Value {
    match observed {
        Observed::Observation(params) => {
            let mut row = json!({
                "kind": params.kind, "sequence": params.sequence, "monotonic_ns": params.monotonic_ns,
            });
            // A payload keeps its own text where serde_json can hold it, else it is shown as that text.
            if let Some(payload) = &params.payload {
                row["payload"] = payload.decode().unwrap_or_else(|_| json!({"text": payload.as_str()}));
            }
            if let Some(stream) = &params.data_stream {
                row["data_stream"] = json!(stream.stream_id);
            }
            row
        }
        Observed::Data { stream_id, bytes, is_final } => {
            let mut row = json!({"stream": stream_id, "bytes": bytes.len(), "final": is_final});
            match std::str::from_utf8(bytes) {
                Ok(text) => row["text"] = json!(text),
                Err(_) => row["hex"] = json!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
            }
            row
        }
    }
}

fn new_id() -> Option<InstanceId> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    InstanceId::new(now_ms(), random).ok()
}

/// Whether a permission is approved by the command line.
fn granted(args: &Args) -> impl Fn(&Permission) -> bool {
    let all = args.approve.iter().any(|name| name == "all");
    let grants = grants(&args.approve).unwrap_or_default();
    move |permission| all || grants.contains(permission)
}

/// What to add where a driver refuses to work without more permissions: those that it names, else all that it asked for
/// and did not get.
fn to_approve(error: &CoreError, hello: Option<&HelloResult>, granted: &dyn Fn(&Permission) -> bool) -> Vec<String> {
    let CoreError::Refused { error, .. } = error else { return Vec::new() };
    if error.data.class != ErrorClass::PermissionDenied {
        return Vec::new();
    }
    let requested = hello.map(|hello| hello.requested_permissions.as_slice()).unwrap_or_default();
    let missing: Vec<&str> = requested.iter().filter(|name| !granted(name)).map(Permission::as_str).collect();
    let is_named = |name: &&str| error.message.split([' ', ',', '`']).any(|word| word == *name);
    let named: Vec<&str> = missing.iter().copied().filter(is_named).collect();
    let wanted = if named.is_empty() { missing } else { named };
    if wanted.is_empty() {
        return Vec::new();
    }
    let options: Vec<String> = wanted.iter().map(|name| format!("--approve {name}")).collect();
    vec![format!("add {}", options.join(" "))]
}

fn told(exit: Exit, error: &CoreError) -> CommandError {
    let class = error.class();
    let behind = format!(" ({class})");
    let words = chain(error);
    // A refusal names its class itself.
    let words = words.strip_suffix(&behind).unwrap_or(&words);
    CommandError::new(exit, class.as_str(), format!("run the operation: {words}{behind}"))
}

/// What the driver wrote to standard error is often the reason. Secrets that it wrote there are replaced.
fn with_stderr(error: CommandError, ended: Option<&Ended>) -> CommandError {
    let Some(ended) = ended else { return error };
    let last = Words::new(Vec::new()).last_lines(&ended.stderr, MAX_STDERR_LINES);
    error.hint_all(last.into_iter().map(|line| format!("the driver wrote: {line}")).collect())
}

/// NDJSON that is flushed row by row, so that a long run can be watched.
struct Rows(BufWriter<io::StdoutLock<'static>>);

impl Rows {
    fn row(&mut self, row: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, row).map_err(io::Error::from)?;
        self.0.write_all(b"\n")?;
        self.0.flush()
    }
}
