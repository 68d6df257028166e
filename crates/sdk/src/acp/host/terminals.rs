//! The client's terminals: `terminal/*`.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pintle_acp::types::{
    CreateTerminalRequest, CreateTerminalResponse, KillTerminalRequest, KillTerminalResponse, ReleaseTerminalRequest,
    ReleaseTerminalResponse, SessionId, TerminalId, TerminalOutputRequest, TerminalOutputResponse,
    WaitForTerminalExitRequest, WaitForTerminalExitResponse,
};
use pintle_acp::{Error, ErrorCode};
use serde_json::json;

use super::terminal::{Terminal, TerminalSnapshot};
use crate::process::{Environment, Launch, Process, Program, ProgramError, Shim, SpawnError, Stderr};

/// How the commands of an agent are run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TerminalConfig {
    /// The environment of commands; the agent adds to it. PATH in it is where programs are looked up. Empty by default.
    pub env: Environment,
    /// Where a command runs that names no directory. Absolute.
    pub cwd: PathBuf,
    /// The keeper, without which only the process group of a command is killed. None by default.
    pub shim: Shim,
    /// What runs a command that is a line of shell: one without arguments that names no program and has blanks or shell
    /// characters in it. Agents send such lines. `/bin/sh` by default; `None` refuses them.
    pub shell: Option<PathBuf>,
    /// Terminals that may be open at a time. 64 by default.
    pub max_terminals: usize,
    /// Output that is kept of a command where the agent names no limit. 1 MiB by default.
    pub default_output_bytes: usize,
    /// Output that is kept of a command at most, whatever limit the agent names. 8 MiB by default.
    pub max_output_bytes: usize,
    /// How long what a command started may go on after the command itself has ended. 500 ms by default.
    pub settle: Duration,
}

impl TerminalConfig {
    /// Commands in `cwd`, with an empty environment.
    #[must_use]
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self {
            env: Environment::empty(),
            cwd: cwd.into(),
            shim: Shim::None,
            shell: cfg!(unix).then(|| "/bin/sh".into()),
            max_terminals: 64,
            default_output_bytes: 1024 * 1024,
            max_output_bytes: 8 * 1024 * 1024,
            settle: Duration::from_millis(500),
        }
    }
}

/// The commands that run for an agent, by terminal id.
///
/// A command's standard output and standard error are one stream, in the order in which they were written; its standard
/// input is empty. Whatever a command starts is killed with it: when the terminal is killed or released, when its session
/// ends ([`Terminals::end_session`]), and when this is dropped. A terminal belongs to its session: by another it is not
/// found.
#[derive(Debug)]
pub struct Terminals {
    registry: Arc<Registry>,
}

#[derive(Debug)]
struct Registry {
    config: TerminalConfig,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: HashMap<TerminalId, Arc<Terminal>>,
    /// Commands that are being started.
    starting: usize,
    made: u64,
}

impl Terminals {
    /// No terminals yet.
    #[must_use]
    pub fn new(config: TerminalConfig) -> Self {
        Self { registry: Arc::new(Registry { config, state: Mutex::default() }) }
    }

    /// Starts a command.
    ///
    /// Cancel safe: dropped before it is ready, no command runs.
    ///
    /// # Errors
    /// -32602 with a reason for what cannot be run (`not_found`, `not_executable`, `cwd`, `env`), -32603 "Server busy" when
    /// there are too many terminals.
    pub async fn create(&self, request: CreateTerminalRequest) -> Result<CreateTerminalResponse, Error> {
        let room = Room::take(&self.registry)?;
        let config = self.registry.config.clone();
        let limit_bytes = match request.output_byte_limit {
            Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX).min(config.max_output_bytes),
            None => config.default_output_bytes,
        };
        let session = request.session_id.clone();
        let settle = config.settle;
        // Looking for a program may wait for a disk.
        let prepared = tokio::task::spawn_blocking(move || prepare(&config, request));
        let launch = prepared.await.map_err(|_| Error::internal_error())??;
        let process = Process::spawn(launch).await.map_err(|error| refusal(&error))?;
        let terminal = Terminal::watch(session, process, limit_bytes, settle);
        Ok(CreateTerminalResponse::new(room.fill(terminal)))
    }

    /// What the command printed so far.
    ///
    /// # Errors
    /// There is no such terminal in this session: -32002.
    pub fn output(&self, request: &TerminalOutputRequest) -> Result<TerminalOutputResponse, Error> {
        let terminal = self.registry.find(&request.session_id, &request.terminal_id)?;
        let TerminalSnapshot { output, truncated, exit_status } = terminal.snapshot();
        let mut response = TerminalOutputResponse::new(output, truncated);
        response.exit_status = exit_status;
        Ok(response)
    }

    /// Waits for the command to end, or for its terminal to be killed or released.
    ///
    /// # Errors
    /// There is no such terminal in this session: -32002.
    pub async fn wait_for_exit(
        &self,
        request: &WaitForTerminalExitRequest,
    ) -> Result<WaitForTerminalExitResponse, Error> {
        let terminal = self.registry.find(&request.session_id, &request.terminal_id)?;
        let status = terminal.ended().await;
        let mut response = WaitForTerminalExitResponse::new();
        (response.exit_code, response.signal) = (status.exit_code, status.signal);
        Ok(response)
    }

    /// Kills the command and all that it started. The terminal and its output stay.
    ///
    /// # Errors
    /// There is no such terminal in this session: -32002.
    pub async fn kill(&self, request: &KillTerminalRequest) -> Result<KillTerminalResponse, Error> {
        self.registry.find(&request.session_id, &request.terminal_id)?.kill().await;
        Ok(KillTerminalResponse::new())
    }

    /// Kills the command if it still runs, and forgets the terminal: from here on its id means nothing.
    ///
    /// # Errors
    /// There is no such terminal in this session: -32002.
    pub async fn release(&self, request: &ReleaseTerminalRequest) -> Result<ReleaseTerminalResponse, Error> {
        let terminal = self.registry.find(&request.session_id, &request.terminal_id)?;
        self.registry.lock().open.remove(&request.terminal_id);
        terminal.kill().await;
        Ok(ReleaseTerminalResponse::new())
    }

    /// Ends all terminals of a session.
    pub fn end_session(&self, session: &SessionId) {
        let mut ended = Vec::new();
        self.registry.lock().open.retain(|_, terminal| {
            let stays = terminal.session() != session;
            if !stays {
                ended.push(terminal.clone());
            }
            stays
        });
        for terminal in ended {
            // Somebody may wait for its end and so keep it.
            tokio::spawn(async move { terminal.kill().await });
        }
    }

    /// Terminals that are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.registry.lock().open.len()
    }

    /// True if none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// For whoever shows terminals to a person.
    #[must_use]
    pub fn view(&self) -> TerminalView {
        TerminalView { registry: Arc::downgrade(&self.registry) }
    }
}

/// A look at the terminals of a client, which it does not keep alive.
#[derive(Debug, Clone)]
pub struct TerminalView {
    registry: Weak<Registry>,
}

impl TerminalView {
    /// What a terminal shows now; `None` once it is released.
    #[must_use]
    pub fn snapshot(&self, terminal: &TerminalId) -> Option<TerminalSnapshot> {
        let registry = self.registry.upgrade()?;
        let terminal = registry.lock().open.get(terminal).cloned()?;
        Some(terminal.snapshot())
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, session: &SessionId, id: &TerminalId) -> Result<Arc<Terminal>, Error> {
        let found = self.lock().open.get(id).filter(|terminal| terminal.session() == session).cloned();
        found.ok_or_else(|| Error::from(ErrorCode::ResourceNotFound).data(json!({ "terminalId": id.as_str() })))
    }
}

/// A place for one more terminal, given back unless it is filled.
struct Room<'a> {
    registry: &'a Registry,
}

impl<'a> Room<'a> {
    fn take(registry: &'a Registry) -> Result<Self, Error> {
        let mut state = registry.lock();
        let limit = registry.config.max_terminals;
        if state.open.len() + state.starting >= limit {
            let data = json!({ "reason": "too many terminals", "limit": limit });
            return Err(Error::new(ErrorCode::InternalError, "Server busy").data(data));
        }
        state.starting += 1;
        Ok(Self { registry })
    }

    fn fill(self, terminal: Terminal) -> TerminalId {
        let mut state = self.registry.lock();
        state.made += 1;
        let id = TerminalId::from(format!("terminal-{}", state.made));
        state.open.insert(id.clone(), Arc::new(terminal));
        id
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.registry.lock().starting -= 1;
    }
}

fn prepare(config: &TerminalConfig, request: CreateTerminalRequest) -> Result<Launch, Error> {
    let cwd = request.cwd.as_ref().map_or(config.cwd.as_path(), |cwd| cwd.as_path()).to_owned();
    let mut env = config.env.clone();
    for variable in &request.env {
        if variable.name.is_empty() || variable.name.contains(['=', '\0']) || variable.value.contains('\0') {
            return Err(refused("env", &variable.name));
        }
        env.set(&variable.name, &variable.value);
    }
    let (program, args) = match find(&env, &cwd, &request.command) {
        Ok(program) => (program, request.args.into_iter().map(Into::into).collect()),
        Err(error) => match &config.shell {
            Some(shell) if request.args.is_empty() && is_shell(&request.command) => {
                let shell = Program::at(shell).map_err(|error| refusal(&error.into()))?;
                (shell, vec!["-c".into(), request.command.into()])
            }
            _ => return Err(refusal(&error.into())),
        },
    };
    let mut launch = Launch::new(program);
    launch.args = args;
    launch.env = env;
    launch.cwd = Some(cwd);
    launch.stderr = Stderr::Stdout;
    launch.shim = config.shim.clone();
    launch.settle = config.settle;
    Ok(launch)
}

fn find(env: &Environment, cwd: &Path, command: &str) -> Result<Program, ProgramError> {
    if !cwd.is_absolute() {
        return Err(ProgramError::Io { path: cwd.to_owned(), source: io::ErrorKind::InvalidInput.into() });
    }
    Program::find(command, env.get("PATH"), cwd)
}

/// Whether a command that is no program can be meant for a shell.
fn is_shell(command: &str) -> bool {
    command.contains(|c: char| c.is_whitespace() || "|&;<>()$`\\\"'*?[#~=%{!".contains(c))
}

fn refusal(error: &SpawnError) -> Error {
    match error {
        SpawnError::Program(_)
        | SpawnError::Exec { .. }
        | SpawnError::Interpreter { .. }
        | SpawnError::Cwd { .. }
        | SpawnError::Order { .. } => refused(error.class(), &format!("failed to {error}")),
        _ => Error::from(ErrorCode::InternalError).data(json!({ "reason": error.class() })),
    }
}

fn refused(reason: &str, what: &str) -> Error {
    Error::from(ErrorCode::InvalidParams).data(json!({ "reason": reason, "detail": what }))
}
