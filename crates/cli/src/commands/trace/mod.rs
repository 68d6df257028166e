//! `pintle trace`: what editor and agent really say to each other, recorded and looked at as it passes.

#[cfg(unix)]
mod blocks;
mod lines;
mod lint;
mod queue;
mod record;
#[cfg(unix)]
mod relay;
mod row;
mod show;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::error::CommandError;

/// Relay an agent's standard input and output unchanged, and record both directions.
///
/// Put it before the agent's command in an editor's settings: `pintle trace -- AGENT ARGS..`. The exit code is the
/// agent's, 128 and the signal's number if it died of one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    command: Option<TraceCommand>,
    /// Write the recording here, behind what is there; by default a new file below the state directory.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Record everything as it is, secrets too.
    #[arg(long)]
    no_redact: bool,
    /// The agent's command line.
    #[arg(last = true, required = true, value_name = "AGENT")]
    agent: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Show a recording.
    Show(show::ShowArgs),
}

/// Runs it. What comes back is the exit code.
pub(crate) fn run(args: &TraceArgs) -> Result<u8, CommandError> {
    match &args.command {
        Some(TraceCommand::Show(show)) => show::run(show).map(|exit| exit as u8),
        #[cfg(unix)]
        None => agent::run(args),
        #[cfg(not(unix))]
        None => Err(CommandError::new(crate::exit::Exit::Failed, "platform", "trace an agent: not on this system yet")),
    }
}

/// Whether its errors are to be JSON.
pub(crate) fn json(args: &TraceArgs) -> bool {
    matches!(&args.command, Some(TraceCommand::Show(show)) if show.json())
}

/// Where recordings are kept that were not told where to be.
fn traces_dir() -> Result<PathBuf, pintle_store::home::HomeError> {
    use pintle_store::home::{Home, HomeVars};
    Home::resolve(&HomeVars::from_lookup(|name| std::env::var_os(name))).map(|home| home.root().join("traces"))
}

#[cfg(unix)]
mod agent {
    use std::path::PathBuf;
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::{Duration, Instant};

    use anstream::eprintln;
    use pintle_sdk::process::{
        Environment, Exit as AgentExit, Launch, Program, ProgramError, Shim, SpawnError, Stderr,
    };
    use pintle_store::RealFs;
    use pintle_store::sanitise::Sanitiser;

    use super::blocks::Spare;
    use super::record::{Recorded, Rest, Sink, prune, record};
    use super::relay::{RelayError, Tap, relay};
    use super::row::{SCHEMA, Start};
    use super::{TraceArgs, queue::Queue, traces_dir};
    use crate::error::{CommandError, chain};
    use crate::exit::Exit;

    /// What shells and their like answer for a program that is not there, and for one that cannot be run.
    const NOT_FOUND: u8 = 127;
    const NOT_RUNNABLE: u8 = 126;
    /// Recordings that are kept where nobody said where they should be.
    const KEPT_TRACES: usize = 100;
    /// How long the rest of the recording may take when everything else is over.
    const FINISH_GRACE: Duration = Duration::from_secs(2);
    /// What the last row may take beyond that.
    const LAST_ROW_GRACE: Duration = Duration::from_millis(500);
    /// How much the recorder gives way to the relay, and to whoever talks through it.
    #[cfg(target_os = "linux")]
    const RECORDER_NICE: i32 = 19;
    /// Names of variables whose values are secret, by their ending.
    const SECRET_ENDINGS: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];

    pub(super) fn run(args: &TraceArgs) -> Result<u8, CommandError> {
        let launch = match launch(args) {
            Ok(launch) => launch,
            Err(error) => {
                let code = if matches!(error, ProgramError::NotFound { .. } | ProgramError::NotOnPath { .. }) {
                    NOT_FOUND
                } else {
                    NOT_RUNNABLE
                };
                return Ok(not_started(code, &error));
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| CommandError::new(Exit::Failed, "runtime", format!("start the runtime: {e}")))?;
        let recording = Recording::start(args);
        let (queue, spare) =
            recording.as_ref().map(|recording| (recording.queue.clone(), recording.spare.clone())).unzip();
        let tap = Tap { queue, spare: spare.unwrap_or_default(), start: Instant::now() };
        let relayed = runtime.block_on(relay(launch, tap));
        if let Some(recording) = recording {
            recording.finish();
        }
        // What is left waits for standard input, and nothing else.
        runtime.shutdown_background();
        match relayed {
            Ok(Some(AgentExit::Code(code))) => Ok(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
            Ok(Some(AgentExit::Signal(signal))) => Ok(u8::try_from(128 + (signal & 0x7f)).unwrap_or(u8::MAX)),
            Ok(_) => {
                eprintln!("pintle trace: failed to learn how the agent ended");
                Ok(Exit::Failed as u8)
            }
            Err(RelayError::Spawn(error)) => {
                let missing = matches!(error, SpawnError::Program(_));
                Ok(not_started(if missing { NOT_FOUND } else { NOT_RUNNABLE }, &error))
            }
            Err(error) => Err(CommandError::caused(Exit::Failed, "relay", &error)),
        }
    }

    fn not_started(code: u8, error: &dyn std::error::Error) -> u8 {
        eprintln!("pintle trace: failed to {}", chain(error));
        code
    }

    /// The agent as the editor would have started it: our environment, our directory, our standard error.
    fn launch(args: &TraceArgs) -> Result<Launch, ProgramError> {
        let path = std::env::var_os("PATH");
        let current = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let (name, rest) = args.agent.split_first().ok_or(ProgramError::Empty)?;
        let mut launch = Launch::new(Program::find(name, path.as_deref(), &current)?);
        launch.args = rest.to_vec();
        launch.env = Environment::from_iter(std::env::vars_os());
        launch.stderr = Stderr::Inherit;
        launch.shim = std::env::current_exe().map_or(Shim::None, Shim::Path);
        Ok(launch)
    }

    /// The recorder on its thread.
    struct Recording {
        queue: Arc<Queue>,
        /// Memory for the relay, made while nothing passes.
        spare: Arc<Spare>,
        rest: mpsc::Receiver<Rest>,
        path: PathBuf,
    }

    impl Recording {
        /// Opens the file and starts the thread. What stands in the way is told, and then nothing is recorded: the agent is
        /// what the editor wants.
        fn start(args: &TraceArgs) -> Option<Self> {
            let tell = |error: &dyn std::error::Error| {
                eprintln!("pintle trace: failed to record, and goes on without: {}", chain(error));
            };
            let pid = std::process::id();
            let started = jiff::Timestamp::now();
            let path = match &args.out {
                Some(path) => path.clone(),
                None => {
                    let dir = traces_dir().inspect_err(|error| tell(error)).ok()?;
                    // One too many is no reason not to record.
                    let _ = prune(&RealFs, &dir, KEPT_TRACES - 1);
                    dir.join(format!("{}-{pid}.ndjson", started.strftime("%Y%m%dT%H%M%S%3fZ")))
                }
            };
            let sink = Sink::open(&RealFs, &path, pid).inspect_err(|error| tell(error)).ok()?;
            let path = sink.path().to_owned();
            let start = Start {
                schema: SCHEMA.to_owned(),
                pintle: env!("CARGO_PKG_VERSION").to_owned(),
                started: started.to_string(),
                argv: args.agent.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
                cwd: std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default(),
                pid,
                redacted: !args.no_redact,
            };
            let sanitiser = (!args.no_redact).then(|| Sanitiser::new(secrets()));
            let queue = Arc::new(Queue::default());
            let (sender, rest) = mpsc::sync_channel(1);
            let spare = Arc::new(Spare::default());
            // Apart from the recorder, which a busy machine would keep waiting for it. Without it a flood only takes longer.
            let (watched, filled) = (queue.clone(), spare.clone());
            let _ = thread::Builder::new().name("memory".to_owned()).spawn(move || {
                give_way();
                filled.fill(|| watched.is_closed());
            });
            let reader = queue.clone();
            let thread = thread::Builder::new().name("recorder".to_owned()).spawn(move || {
                give_way();
                // Nobody waits for it any more where it took too long.
                let _ = sender.send(record(&reader, sink, &start, sanitiser));
            });
            thread.inspect_err(|error| tell(error)).ok()?;
            Some(Self { queue, spare, rest, path })
        }

        /// Waits for the rest of it, not for ever, and tells what is missing.
        ///
        /// The rest is written on another thread: the recorder's own has given way for good, and now somebody waits for it.
        fn finish(self) {
            let Self { queue, rest, path, .. } = self;
            let path = path.display();
            queue.close();
            let until = Instant::now() + FINISH_GRACE;
            let (sender, done) = mpsc::sync_channel(1);
            let thread = thread::Builder::new().name("finisher".to_owned()).spawn(move || {
                if let Ok(rest) = rest.recv() {
                    let _ = sender.send(rest.finish(&queue, until));
                }
            });
            if let Err(error) = thread {
                eprintln!("pintle trace: failed to finish `{path}`: {error}");
                return;
            }
            match done.recv_timeout(FINISH_GRACE + LAST_ROW_GRACE) {
                Ok(Recorded { error: Some(error), unwritten }) => {
                    eprintln!("pintle trace: failed to {}: {unwritten} rows are missing in `{path}`", chain(&error));
                }
                Ok(_) => {}
                Err(_) => eprintln!("pintle trace: failed to finish `{path}` in time: its end is missing"),
            }
        }
    }

    /// Lowers the priority of the calling thread, where threads have one of their own. Without it the recording is as good,
    /// and only the relay somewhat slower.
    fn give_way() {
        #[cfg(target_os = "linux")]
        let _ = rustix::process::nice(RECORDER_NICE);
    }

    /// Values of our environment, which the agent inherits, that must not be kept.
    fn secrets() -> Vec<Vec<u8>> {
        std::env::vars_os()
            .filter(|(name, _)| {
                let name = name.to_string_lossy().to_ascii_uppercase();
                SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
            })
            .map(|(_, value)| value.into_encoded_bytes())
            .collect()
    }
}
