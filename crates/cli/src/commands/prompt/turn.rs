//! One turn with an agent: start it, shake hands, open a session, prompt, watch, end it.

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use pintle_sdk::acp::host::{Host, Permissions, TerminalConfig, TerminalView};
use pintle_sdk::acp::permission::Approve;
use pintle_sdk::acp::types::{
    AuthMethod, AuthMethodId, AuthenticateRequest, ClientCapabilities, ClientSessionCapabilities, Implementation,
    InitializeResponse, LoadSessionRequest, Marker, NewSessionRequest, PromptRequest, PromptResponse,
    ResumeSessionRequest, SessionId, SessionNotification, StopReason, decode,
};
use pintle_sdk::acp::{ClientConnection, ErrorCode, PromptError, RequestError, SendError, TurnStream, connect};
use pintle_sdk::process::{Environment, Ladder, Launch, Process, Program, Shim};
use pintle_sdk::transport;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::said::{Ears, Words};
use super::show::{Answered, Human, lines};
use crate::commands::stop::{self, Stop};
use crate::error::{CommandError, chain};
use crate::exit::Exit;

/// How long a cancelled turn may take to end before the agent is ended.
const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// How long an agent whose output has ended may take to say how it ended.
const EXIT_GRACE: Duration = Duration::from_secs(1);
/// Answers of the policy that wait to be shown; more are not shown.
const MAX_ANSWERED: usize = 64;
/// Lines of the agent's standard error that are shown when something went wrong.
const MAX_STDERR_LINES: usize = 20;

/// Everything that the command line says.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) text: String,
    pub(super) session: Option<SessionId>,
    pub(super) auth: Option<String>,
    pub(super) approve: Approve,
    pub(super) cwd: PathBuf,
    pub(super) json: bool,
    pub(super) start_limit: Duration,
    pub(super) turn_limit: Option<Duration>,
    /// How what the agent says of itself is shown.
    pub(super) words: Words,
    pub(super) program: Program,
    pub(super) args: Vec<OsString>,
    pub(super) env: Environment,
    pub(super) shim: Shim,
}

/// Runs the turn. Whatever comes of it, the agent and everything that it started are gone when this returns.
pub(super) async fn run(order: Order, stop: Stop) -> Result<Exit, CommandError> {
    let (answered, mut answers) = mpsc::channel(MAX_ANSWERED);
    let host = host(&order, answered)?;
    let terminals = host.terminal_view();

    let mut launch = Launch::new(order.program.clone());
    launch.args.clone_from(&order.args);
    launch.env = order.env.clone();
    launch.shim = order.shim.clone();
    let mut child = transport::child(launch)
        .await
        .map_err(|e| CommandError::new(Exit::NotStarted, e.class(), format!("start the agent: {}", chain(&e))))?;
    let Some(mut process) = child.take_process() else {
        return Err(CommandError::new(Exit::NotStarted, "agent", "start the agent: it has no streams"));
    };
    let ears = Ears::default();
    let connection = connect(host, ears.on(child))
        .map_err(|e| CommandError::new(Exit::NotStarted, "agent", format!("talk to the agent: {}", chain(&e))))?;

    let mut done = tokio::select! {
        biased;
        () = stop.kill.cancelled() => Err(interrupted()),
        done = talk(&order, &connection, &ears, &mut answers, terminals, &stop) => done,
    };
    if let Err(error) = &mut done
        && !error.is_broken_pipe()
    {
        let said = how_it_ended(&mut process, &order.words).await;
        *error = std::mem::replace(error, interrupted()).hint_all(said);
    }
    end(connection, process, &stop).await;
    done
}

fn host(order: &Order, answered: mpsc::Sender<Answered>) -> Result<Host, CommandError> {
    let approve = order.approve;
    let permissions = Permissions::ask(move |request| {
        let answer = approve.answer(&request);
        // Who does not keep up with reading misses some of these lines, and nothing else.
        let _ = answered.try_send(Answered::new(&request, &answer));
        async move { answer }
    });
    let mut session = ClientSessionCapabilities::new();
    session.notices = Some(Marker::new());
    session.compaction = Some(Marker::new());
    let understands = ClientCapabilities::new().session(session).plan(Marker::new());
    let mut host = Host::builder()
        .info(Implementation::new("pintle-prompt", env!("CARGO_PKG_VERSION")))
        .root(&order.cwd)
        .understands(understands)
        .permissions(permissions);
    // What is offered may be used without asking, so it follows what would be permitted.
    if approve != Approve::None {
        host = host.read_files();
    }
    if approve == Approve::All {
        let mut terminals = TerminalConfig::new(&order.cwd);
        terminals.env = order.env.clone();
        // There is a pipe where a terminal would be.
        terminals.env.set("TERM", "dumb");
        terminals.shim = order.shim.clone();
        host = host.write_files().terminals(terminals);
    }
    host.build().map_err(|e| CommandError::usage(chain(&e).trim_start_matches("failed to ")))
}

async fn talk(
    order: &Order,
    agent: &ClientConnection,
    ears: &Ears,
    answers: &mut mpsc::Receiver<Answered>,
    terminals: Option<TerminalView>,
    stop: &Stop,
) -> Result<Exit, CommandError> {
    let words = &order.words;
    let started = unless(&stop.cancel, timeout(order.start_limit, agent.initialize_within(None))).await?;
    let hello = match started {
        Ok(Ok(hello)) => hello,
        Ok(Err(error)) => return Err(with_noise(not_started(&error, words), ears, words)),
        Err(_) => return Err(too_late(order.start_limit, ears, words)),
    };
    ears.close();
    if let Some(method) = &order.auth {
        let method = AuthMethodId::from(method.as_str());
        let login = agent.request(AuthenticateRequest::new(method));
        unless(&stop.cancel, login).await?.map_err(|error| refused("log in", &error, &hello, words))?;
    }
    let opened = unless(&stop.cancel, open(order, agent, &hello)).await?;
    let session = opened?;

    let mut show = if order.json { None } else { Some(Human::new(terminals)) };
    if order.json {
        lines::session(&session, &hello, order.approve)?;
    }
    let prompt = PromptRequest::new(session.clone(), vec![order.text.as_str().into()]);
    let turn = agent.prompt_stream(prompt).await.map_err(|error| refused("prompt the agent", &error, &hello, words))?;
    let response = match watch(turn, order, answers, show.as_mut(), stop).await? {
        Ok(response) => response,
        Err(error) => {
            if let Some(show) = &mut show {
                show.finish()?;
            }
            return Err(match &error {
                PromptError::Request(error) => refused("finish the turn", error, &hello, words),
                error => {
                    let why = words.one_line(&error.to_string());
                    CommandError::new(Exit::Failed, "turn", format!("finish the turn: {why}"))
                }
            });
        }
    };
    let can_go_on =
        hello.agent_capabilities.load_session || hello.agent_capabilities.session_capabilities.resume.is_some();
    match &mut show {
        Some(show) => show.end(&session, &response, can_go_on)?,
        None => lines::end(&session, &response)?,
    }
    Ok(if response.stop_reason == StopReason::EndTurn { Exit::Ok } else { Exit::Failed })
}

/// Opens the session that is wanted, or a new one.
async fn open(order: &Order, agent: &ClientConnection, hello: &InitializeResponse) -> Result<SessionId, CommandError> {
    let cwd = order.cwd.to_string_lossy().into_owned();
    let Some(id) = &order.session else {
        let made = agent.request(NewSessionRequest::new(cwd)).await;
        return made
            .map(|made| made.session_id)
            .map_err(|error| refused("open a session", &error, hello, &order.words));
    };
    let failed = |error: RequestError| refused("open the session again", &error, hello, &order.words);
    // A resumed session is the same without the replay, which nobody would look at here.
    if hello.agent_capabilities.session_capabilities.resume.is_some() {
        agent.request(ResumeSessionRequest::new(id.clone(), cwd)).await.map_err(failed)?;
    } else if hello.agent_capabilities.load_session {
        agent.request(LoadSessionRequest::new(id.clone(), cwd)).await.map_err(failed)?;
    } else {
        let message = "open the session again: the agent can neither resume nor load sessions";
        return Err(CommandError::new(Exit::Failed, "not_advertised", message));
    }
    Ok(id.clone())
}

/// Shows the turn until it ends.
async fn watch(
    mut turn: TurnStream,
    order: &Order,
    answers: &mut mpsc::Receiver<Answered>,
    mut show: Option<&mut Human>,
    stop: &Stop,
) -> Result<Result<PromptResponse, PromptError>, CommandError> {
    let mut deadline = order.turn_limit.map(|limit| Instant::now() + limit);
    let mut cancelled = None;
    loop {
        // Said and shown one after the other: a reader that is slow slows the agent down.
        tokio::select! {
            biased;
            () = stop.cancel.cancelled(), if cancelled.is_none() => {
                turn.cancel();
                cancelled = Some("it was interrupted");
                deadline = Some(Instant::now() + CANCEL_GRACE);
                if let Some(show) = show.as_mut() {
                    show.note("cancelling the turn; once more kills the agent");
                }
            }
            () = until(deadline) => {
                if let Some(why) = cancelled {
                    let message = format!("finish the turn: {why}, and the agent does not end it");
                    return Err(CommandError::new(Exit::Failed, "cancelled", message));
                }
                turn.cancel();
                cancelled = Some("its time is over");
                deadline = Some(Instant::now() + CANCEL_GRACE);
                if let Some(show) = show.as_mut() {
                    show.note("the time of the turn is over, it is being cancelled");
                }
            }
            more = turn.next_raw() => {
                let since = Instant::now();
                // An answer comes before everything that the agent did because of it.
                while let Ok(answered) = answers.try_recv() {
                    answered_for(&mut show, answered)?;
                }
                let Some(params) = more else { break };
                match &mut show {
                    None => lines::update(params.as_str())?,
                    // What cannot be read is no update; `--format json` shows it.
                    Some(show) => if let Ok(update) = decode::<SessionNotification>(params.as_str()) {
                        show.update(update.update)?;
                    },
                }
                // A reader of ours that is slow takes nothing of the agent's time.
                deadline = deadline.map(|deadline| deadline + since.elapsed());
            },
            Some(answered) = answers.recv() => answered_for(&mut show, answered)?,
        }
    }
    Ok(turn.finish().await)
}

fn answered_for(show: &mut Option<&mut Human>, answered: Answered) -> io::Result<()> {
    match show {
        Some(show) => show.answered(answered),
        None => return lines::answered(&answered),
    }
    Ok(())
}

/// Brings the agent to its end: it sees its input close, and is killed if it stays or the user is in a hurry.
async fn end(connection: ClientConnection, mut process: Process, stop: &Stop) {
    let in_order = async {
        // A carrier that failed is closed as well.
        let _ = timeout(CANCEL_GRACE, connection.shut_down()).await;
        process.shut_down(Ladder::default()).await;
    };
    let killed = tokio::select! {
        biased;
        () = stop.kill.cancelled() => true,
        () = in_order => false,
    };
    if killed {
        process.kill();
        let _ = timeout(CANCEL_GRACE, process.gone()).await;
    }
}

/// Why an agent that went away did so, as hints.
async fn how_it_ended(process: &mut Process, words: &Words) -> Vec<String> {
    let mut said = Vec::new();
    let exit = timeout(EXIT_GRACE, process.exited()).await.ok().flatten();
    if let Some(exit) = exit {
        said.push(format!("the agent ended with {exit}"));
    }
    if let Some(mut stderr) = process.stderr() {
        if exit.is_some() {
            // The last of it may still be on its way.
            let _ = timeout(EXIT_GRACE, stderr.closed()).await;
        }
        let last = words.last_lines(&stderr.snapshot(), MAX_STDERR_LINES);
        if !last.is_empty() {
            said.push(format!("its standard error ends with:\n    {}", last.join("\n    ")));
        }
    }
    said
}

async fn unless<T>(cancel: &CancellationToken, work: impl Future<Output = T>) -> Result<T, CommandError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(interrupted()),
        done = work => Ok(done),
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn interrupted() -> CommandError {
    stop::interrupted(Exit::Failed, "finish the turn")
}

fn not_started(error: &RequestError, words: &Words) -> CommandError {
    let (class, why) = match error {
        RequestError::Closed | RequestError::Send(SendError::Closed) => {
            ("closed", "it went away before it had answered `initialize`".to_owned())
        }
        RequestError::Version { .. } => ("version", words.one_line(&error.to_string())),
        error => ("initialize", format!("`initialize` failed: {}", words.one_line(&error.to_string()))),
    };
    CommandError::new(Exit::NotStarted, class, format!("start the agent: {why}"))
}

/// An agent that wrote what is no message has another fault than being slow.
fn too_late(limit: Duration, ears: &Ears, words: &Words) -> CommandError {
    let late = format!("it did not answer `initialize` within {} s", limit.as_secs_f64());
    if ears.noise(words).is_none() {
        return CommandError::new(Exit::NotStarted, "timeout", format!("start the agent: {late}"))
            .hint("give it more time with --startup-timeout");
    }
    let message = format!("start the agent: {late}, and what it wrote on standard output is no JSON-RPC");
    with_noise(CommandError::new(Exit::NotStarted, "not_json_rpc", message), ears, words)
}

/// Adds what the agent wrote in place of messages.
fn with_noise(error: CommandError, ears: &Ears, words: &Words) -> CommandError {
    let Some(line) = ears.noise(words) else { return error };
    error
        .hint(format!("the first line on its standard output that is no JSON-RPC: {line}"))
        .hint("an ACP agent writes messages there and nothing else; many need an argument for it, such as --acp")
}

fn refused(what: &str, error: &RequestError, hello: &InitializeResponse, words: &Words) -> CommandError {
    match error {
        RequestError::Peer(error) if error.code == ErrorCode::AuthRequired => {
            let message = format!("{what}: the agent wants authentication first");
            let wanted = CommandError::new(Exit::AuthRequired, "auth_required", message);
            wanted
                .hint_all(hello.auth_methods.iter().filter_map(|method| how_to_log_in(method, words)).collect())
                .hint("variables that the agent needs, such as a key, are passed with --env NAME")
        }
        RequestError::Closed | RequestError::Send(SendError::Closed) => {
            CommandError::new(Exit::Failed, "closed", format!("{what}: the agent went away"))
        }
        error => CommandError::new(Exit::Failed, "agent", format!("{what}: {}", words.one_line(&error.to_string()))),
    }
}

fn how_to_log_in(method: &AuthMethod, words: &Words) -> Option<String> {
    let id = words.one_line(method.id()?.as_str());
    Some(match method {
        AuthMethod::Terminal(terminal) => {
            let args = words.one_line(&terminal.args.join(" "));
            format!("{id}: run the agent yourself with `{args}`")
        }
        _ => format!("--auth {id} logs in by the agent's own method"),
    })
}
