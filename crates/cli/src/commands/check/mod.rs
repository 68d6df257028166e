//! `pintle check`: does this agent behave as real clients expect?

mod output;
mod progress;
mod request;
mod stored;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use pintle_check::judge::FailOn;
use pintle_check::run::{AgentNetwork, CheckError, EvidencePlace, check};
use pintle_store::RealFs;
use pintle_store::evidence::{KeepLimits, Places, gc};
use tokio_util::sync::CancellationToken;

use self::output::{Files, Place};
use self::progress::ProgressLine;
use crate::error::CommandError;
use crate::exit::Exit;

pub(crate) use self::output::terminal_width;
pub(crate) use self::progress::Signals;
pub(crate) use self::request::{
    current_dir, directory as session_directory, environment, now_ms, scratch, this_program,
};
pub(crate) use self::stored::{JudgeArgs, run as run_judge};

/// What `pintle check` is told.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The conformance pack: a built-in name, NAME@VERSION, or the path of a folder or a scenario file.
    #[arg(long, value_name = "PACK")]
    pack: Option<String>,
    /// Only this scenario or requirement, with what it depends on. Repeatable.
    #[arg(long = "case", value_name = "ID")]
    cases: Vec<String>,
    /// List the pack's scenarios and requirements and do nothing else.
    #[arg(long)]
    list: bool,
    /// Another driver in place of the built-in one: a command line, split by the shell's word rules.
    #[arg(long, value_name = "CMD")]
    driver: Option<String>,
    /// The file that the driver must declare as its artifact. Default: the last word of its command line that is a file.
    #[arg(long, value_name = "FILE", requires = "driver")]
    driver_artifact: Option<PathBuf>,
    /// Keep the agent from all but the system's files, its own program, the working directory and a private HOME, and from
    /// the network: `none`, `ports:N,..` for TCP to these ports, or `recorder:HOST:PORT,..` for a proxy on the Unix socket
    /// that PINTLE_RECORDER names, which connects to these and keeps what was said.
    #[arg(
        long,
        value_name = "NETWORK",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "none",
        value_parser = network
    )]
    isolate_agent: Option<AgentNetwork>,
    /// Check nothing if any part of the isolation cannot be enforced here. Without --isolate-agent that is always so: an
    /// agent that is as free as you are makes its driver so.
    #[arg(long)]
    require_sandbox: bool,
    /// Give the agent this environment variable, with this value or the one it has here. Its value is replaced wherever it
    /// would stand in the evidence. Repeatable.
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// A secret, by the name of a variable of this environment or with its value, that must not stand in anything that is
    /// kept. The agent does not get it. Repeatable.
    #[arg(long = "secret", value_name = "NAME[=VALUE]")]
    secrets: Vec<String>,
    /// Authenticate with this method of the agent's before sessions are made.
    #[arg(long, value_name = "METHOD")]
    auth: Option<String>,
    /// Working directory of the sessions. Default: a fresh one for each scenario.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Write every report format and the evidence into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    judging: Judging,
    /// Compare with no earlier report, also where the project names one.
    #[arg(long, conflicts_with = "baseline")]
    no_baseline: bool,
    /// Drivers, and so agents, that run at once. Default: 1, or one per processor for the built-in agent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: Option<u8>,
    /// Seconds that the agent may take to answer its first request. Default: the pack's, 10.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    startup_timeout: Option<u64>,
    /// Seconds that any later reply may take. Default: the pack's, 10 for requests and 60 for prompts.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<u64>,
    /// The agent and its arguments. Default: the project's command from .config/pintle.toml, else the built-in agent.
    #[arg(last = true, value_name = "AGENT")]
    agent: Vec<std::ffi::OsString>,
}

/// How a judgement is made and shown.
#[derive(Debug, Args)]
pub(crate) struct Judging {
    /// What makes an agent nonconformant: a failed must, or also a should that is not met.
    #[arg(long, value_enum, default_value_t = FailOnArg::Must)]
    fail_on: FailOnArg,
    /// An earlier JSON report, of --format json or `report.json` of --out: only what is worse than there fails.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// What standard output gets: a table, or one JSON object.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

/// `--fail-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOnArg {
    Must,
    Should,
}

impl From<FailOnArg> for FailOn {
    fn from(arg: FailOnArg) -> Self {
        match arg {
            FailOnArg::Must => Self::Must,
            FailOnArg::Should => Self::Should,
        }
    }
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Human,
    Json,
}

impl CheckArgs {
    /// Whether errors are wanted as JSON.
    pub(crate) fn json(&self) -> bool {
        self.judging.format == Format::Json
    }
}

/// Runs it.
pub(crate) fn run(args: &CheckArgs) -> Result<Exit, CommandError> {
    if args.agent.is_empty() && std::env::args_os().any(|arg| arg == "--") {
        return Err(CommandError::usage("check an agent: there is nothing after `--`")
            .hint("name the agent: pintle check -- my-agent --acp"));
    }
    let project = request::project()?;
    let pack = request::pack(args, project.as_ref())?;
    pack.select_cases(&args.cases).map_err(|error| request::unknown_case(&error))?;
    if args.list {
        output::list(&pack, args.judging.format)?;
        return Ok(Exit::Ok);
    }
    request::unknown_prompts(args, project.as_ref(), &pack)?;
    let baseline = request::baseline(args, project.as_ref())?;
    let scratch = scratch()?;
    let place = place(args)?;
    let fail_on = args.judging.fail_on.into();
    let request = request::build(args, project, pack, scratch.path())?;
    let places = place.as_ref().map(|place| place.places.clone());
    output::try_places(&args.files, args.out.as_deref())?;
    if request.agent.demo {
        output::note("no agent is named, so the built-in one is checked: pintle check -- YOUR-AGENT checks yours");
    }

    let cancel = CancellationToken::new();
    let mut line = ProgressLine::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| CommandError::caused(Exit::Inconclusive, "runtime", &e))?;
    let checking = check(request, fail_on, place, |step| line.show(&step), cancel.clone());
    let checked = runtime.block_on(async {
        tokio::select! {
            checked = checking => Some(checked),
            () = interrupted_twice(&cancel) => None,
        }
    });
    line.clear();
    // Drivers that still run are killed with the runtime, and their agents with them.
    drop(runtime);
    let Some(checked) = checked else {
        return Err(CommandError::new(Exit::Inconclusive, "interrupted", "finish the check: it was interrupted twice"));
    };
    let mut checked = checked.map_err(|error| refusal(&error, args.out.is_some()))?;
    if let Some(baseline) = &baseline {
        checked.report = checked.report.compared(baseline, fail_on);
    }
    if args.out.is_none()
        && let Some(places) = places
    {
        // Old runs are nobody's business here: what cannot be removed now is removed another time.
        let _kept = gc(&RealFs, &places, now_ms(), KeepLimits::default());
    }
    let place = Place { run: checked.run.as_deref(), out: args.out.as_deref() };
    output::show(&checked.report, place, &args.files, args.judging.format)?;
    Ok(output::exit(&checked.report))
}

/// Where evidence goes: below `--out`, which must work, else into the user's home for state, if there is one.
fn place(args: &CheckArgs) -> Result<Option<EvidencePlace>, CommandError> {
    let fs = Arc::new(RealFs);
    if let Some(out) = &args.out {
        let out = std::path::absolute(out)
            .map_err(|e| CommandError::usage(format!("use the directory `{}`: {e}", out.display())))?;
        return Ok(Some(EvidencePlace { fs, places: Places::below(&out), required: true }));
    }
    Ok(match request::home() {
        Ok(home) => Some(EvidencePlace { fs, places: Places::of(&home), required: false }),
        Err(error) => {
            output::note(&format!("no evidence is kept: failed to {error}"));
            None
        }
    })
}

fn refusal(error: &CheckError, out: bool) -> CommandError {
    match error {
        CheckError::Pack(error) => request::unknown_case(error),
        CheckError::Evidence(_) if out => CommandError::caused(Exit::Usage, "evidence", error),
        CheckError::Artifact { .. } => CommandError::caused(Exit::Usage, "driver", error),
        _ => CommandError::caused(Exit::Inconclusive, "check", error),
    }
}

/// The first signal asks the check to stop; resolves at the second.
async fn interrupted_twice(cancel: &CancellationToken) {
    let Some(mut signals) = Signals::new() else { return std::future::pending().await };
    signals.next().await;
    output::note("stopping: the agents are closed down; once more kills them");
    cancel.cancel();
    signals.next().await;
}

/// Seconds of a command line, in milliseconds.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    const MAX_SECONDS: f64 = 86_400.0;
    let seconds: f64 = text.parse().map_err(|_| "it is not a number of seconds".to_owned())?;
    if seconds > 0.0 && seconds <= MAX_SECONDS {
        Ok((seconds * 1000.0).ceil() as u64)
    } else {
        Err(format!("it must be above 0 and at most {MAX_SECONDS}"))
    }
}

fn network(text: &str) -> Result<AgentNetwork, String> {
    if text == "none" {
        return Ok(AgentNetwork::None);
    }
    if text == "recorder" {
        return Ok(AgentNetwork::Recorder(Vec::new()));
    }
    let port = |text: &str| text.parse().ok().filter(|port| *port != 0);
    let parsed = if let Some(ports) = text.strip_prefix("ports:") {
        ports.split(',').map(port).collect::<Option<_>>().map(AgentNetwork::Ports)
    } else {
        let host_and_port = |text: &str| {
            let (host, at) = text.rsplit_once(':')?;
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let host = bare.unwrap_or(host);
            let well_formed = !host.is_empty() && (bare.is_some() || !host.contains(':'));
            Some((host.to_owned(), port(at)?)).filter(|_| well_formed)
        };
        let hosts = text.strip_prefix("recorder:");
        hosts.and_then(|hosts| hosts.split(',').map(host_and_port).collect::<Option<_>>()).map(AgentNetwork::Recorder)
    };
    parsed.ok_or_else(|| "it is neither `none` nor `ports:N,..` nor `recorder:HOST:PORT,..`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_none_or_ports_or_the_recorder() {
        assert_eq!(network("none"), Ok(AgentNetwork::None));
        assert_eq!(network("ports:443,8080"), Ok(AgentNetwork::Ports(vec![443, 8080])));
        assert_eq!(network("recorder"), Ok(AgentNetwork::Recorder(Vec::new())));
        let hosts = vec![("example.com".to_owned(), 443), ("::1".to_owned(), 80)];
        assert_eq!(network("recorder:example.com:443,[::1]:80"), Ok(AgentNetwork::Recorder(hosts)));
        let bad = ["", "ports:", "ports:x", "ports:0", "ports:443,", "ports:65536", "all"];
        for bad in
            bad.into_iter().chain(["recorder:", "recorder:a", "recorder::443", "recorder:a:0", "recorder:::1:80"])
        {
            assert!(network(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn seconds_become_milliseconds() {
        assert_eq!(seconds("10"), Ok(10_000));
        assert_eq!(seconds("0.25"), Ok(250));
        for bad in ["0", "-1", "x", "inf", "NaN", "1e9"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
