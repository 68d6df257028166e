//! `pintle task hook`: the path that runs at every prompt. No runtime, no thread, no file beyond those of the session.

use std::env;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pintle_pointer::hook::{
    Failure, HOOK_INPUT_MAX_BYTES, HookEvent, HookInput, HookOutcome, HookSurroundings, HostOutput, OnError, Policy,
    render, render_error,
};
use pintle_pointer::{
    Agent, Answer, CONTEXT_ROOM_FOR_PATHS_BYTES, Event, Form, Meta, Moment, Observed, Publisher, PublisherCommand,
    SessionId, Shell, Start, Status, context, decide, deliver, prompt_key,
};
use pintle_store::RealFs;
use pintle_store::pointer::{
    HOOK_LOCK_WAIT, LockedSession, PointerError, PointerStore, current_terminal, fresh, host_name, is_alive,
    now_unix_seconds,
};

use super::{roots, stdin};
use crate::error::CommandError;
use crate::exit::Exit;

/// How long the host may take to write its input. With the wait for the lock this stays below the five seconds after
/// which an installed hook is ended.
const HOOK_STDIN_WAIT: Duration = Duration::from_secs(2);
/// A session with fewer prompts is not reminded to publish: a question and its answer need no task.
const NUDGE_AFTER_PROMPTS: u64 = 3;

/// What an installation writes behind `task hook`.
#[derive(Debug, Default, Args)]
pub(crate) struct HookArgs {
    /// Whose hook this is; default: generic, shaped like Claude Code's.
    #[arg(long, value_name = "AGENT")]
    pub(super) agent: Option<Agent>,
    /// The state root; default: as for every command.
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
    /// What a failure does to a prompt: block it, or warn and let it pass.
    #[arg(long, value_enum, default_value_t)]
    pub(super) on_error: OnErrorArg,
    /// Block prompts with exit code 2, as the published protocol does, and not with JSON alone.
    #[arg(long)]
    pub(super) compat_exit2: bool,
    /// The MCP tools are installed: contexts name them and not the shell command.
    #[arg(long)]
    pub(super) mcp: bool,
    /// The event, for input that does not name it.
    #[arg(long, value_name = "NAME")]
    pub(super) event: Option<String>,
}

/// [`OnError`] as a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OnErrorArg {
    /// Block the prompt.
    #[default]
    Block,
    /// Warn and go on.
    Open,
}

/// Answers one hook call.
pub(super) fn hook(args: &HookArgs, program: &OsStr) -> Result<Exit, CommandError> {
    let output = answer(args, program);
    // A reader that is gone is no fault of ours and must not change the exit code: the state is written already.
    if !output.stdout.is_empty() {
        let _ = std::io::stdout().lock().write_all(output.stdout.as_bytes());
    }
    if !output.stderr.is_empty() {
        let _ = writeln!(std::io::stderr().lock(), "{}", output.stderr);
    }
    Ok(match output.exit.code() {
        0 => Exit::Ok,
        2 => super::REFUSED,
        _ => Exit::Failed,
    })
}

fn answer(args: &HookArgs, program: &OsStr) -> HostOutput {
    super::panic_if_asked("hook");
    let agent = args.agent.unwrap_or(Agent::Generic);
    let bytes = stdin::read(HOOK_INPUT_MAX_BYTES, HOOK_STDIN_WAIT).map(|input| input.bytes).unwrap_or_default();
    let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let surroundings =
        HookSurroundings { claude_code: set("CLAUDECODE"), cursor: set("CURSOR_VERSION"), copilot: set("COPILOT_CLI") };
    let input = match HookInput::parse(agent, &bytes, args.event.as_deref(), surroundings) {
        Ok(input) => input,
        Err(error) => return render_error(&error),
    };
    let on_error = match args.on_error {
        OnErrorArg::Block => OnError::Block,
        OnErrorArg::Open => OnError::Open,
    };
    let policy = Policy { on_error, compat_exit2: args.compat_exit2 };
    let outcome = match input.event {
        HookEvent::PreCompact | HookEvent::Quiet => HookOutcome::Silent,
        _ => match roots::root_of(args.root.as_deref(), args.agent) {
            Ok(root) => {
                let store = PointerStore::new(&RealFs, root);
                Call { agent, input: &input, policy, store: &store, mcp: args.mcp, program }.outcome()
            }
            Err(error) => {
                let failure = Failure { code: pintle_pointer::Code::StateIo, message: error.message().to_owned() };
                policy.outcome(input.event, &input.session_id, &failure, false)
            }
        },
    };
    render(agent, &input, &outcome, policy)
}

/// One call and what it works with.
struct Call<'a> {
    agent: Agent,
    input: &'a HookInput,
    policy: Policy,
    store: &'a PointerStore<'a>,
    mcp: bool,
    program: &'a OsStr,
}

impl Call<'_> {
    fn outcome(&self) -> HookOutcome {
        match self.input.event {
            HookEvent::Prompt => self.write(Event::Prompt),
            HookEvent::SessionStart(start) if !self.agent.takes_start_context() => self.start_without_context(start),
            HookEvent::SessionStart(Start::Clear) => self.write(Event::SessionStart(Start::Clear)),
            HookEvent::SessionStart(start) => self.read(Event::SessionStart(start)),
            HookEvent::MachinePrompt => self.read(Event::MachinePrompt),
            HookEvent::Stop { already_continued: false } => self.nudge().unwrap_or(HookOutcome::Silent),
            HookEvent::Stop { already_continued: true } | HookEvent::PreCompact | HookEvent::Quiet => {
                HookOutcome::Silent
            }
        }
    }

    /// A start whose context would do harm: a clear makes its fence, anything else waits for the prompt, which then meets
    /// a process that nothing was told yet.
    fn start_without_context(&self, start: Start) -> HookOutcome {
        if start != Start::Clear {
            return HookOutcome::Silent;
        }
        let applied = self.store.lock(self.session(), HOOK_LOCK_WAIT);
        match applied.and_then(|mut locked| locked.apply(Event::SessionStart(start), fresh()?)) {
            Ok(answer) => self.refused(&answer),
            Err(error) => self.failed(&error),
        }
    }

    /// An event that moves the revision: under the lock, with the sidecar.
    fn write(&self, event: Event<'_>) -> HookOutcome {
        let applied = self.store.lock(self.session(), HOOK_LOCK_WAIT).and_then(|mut locked| {
            let answer = locked.apply(event, fresh()?)?;
            super::panic_if_asked("hook, written");
            Ok((answer, locked))
        });
        match applied {
            Ok((Answer::Context, locked)) => {
                let mut meta = locked.meta();
                let outcome = self.deliver(locked.observed(), locked.is_lock_degraded(), &mut meta);
                // Only convenience is lost with it.
                let _ = locked.save_meta(&meta);
                outcome
            }
            Ok((Answer::Block(refusal), locked)) => self.blocked(&Failure::from(&refusal), &locked),
            Ok((answer, _)) => self.refused(&answer),
            Err(error) => self.failed(&error),
        }
    }

    /// An event that only reads. Nobody waits for a lock here: the record is whole at any time, and the sidecar is
    /// written only if that costs no wait.
    fn read(&self, event: Event<'_>) -> HookOutcome {
        match self.store.try_lock_existing(self.session()) {
            Ok(Some(locked)) => {
                let before = locked.meta();
                let mut meta = before.clone();
                let outcome = self.answer_read(locked.observed(), event, locked.is_lock_degraded(), &mut meta);
                if meta.differs_noticeably(&before) {
                    let _ = locked.save_meta(&meta);
                }
                outcome
            }
            Ok(None) | Err(_) => match self.store.observe(self.session()) {
                Ok(observed) => self.answer_read(&observed, event, false, &mut self.store.meta(self.session())),
                Err(error) => self.failed(&error),
            },
        }
    }

    fn answer_read(&self, observed: &Observed, event: Event<'_>, degraded: bool, meta: &mut Meta) -> HookOutcome {
        let unused = pintle_pointer::Fresh { now_unix_seconds: 0, random: [0; 16] };
        match decide(self.session(), observed, event, unused).answer {
            Answer::Context => self.deliver(observed, degraded, meta),
            other => self.refused(&other),
        }
    }

    /// The block for what is stored, in the form that this moment asks for. `degraded` says that a lock file stood in for
    /// a lock.
    fn deliver(&self, observed: &Observed, degraded: bool, meta: &mut Meta) -> HookOutcome {
        let now = now_unix_seconds();
        let terminal = current_terminal(now);
        let new_process = meta.touch(now, self.input.cwd.as_deref(), terminal);
        meta.agent = Some(self.agent.to_string());
        meta.host.get_or_insert_with(host_name);
        let moment = match self.input.event {
            HookEvent::Prompt => {
                meta.prompts = meta.prompts.saturating_add(1);
                Moment::Prompt { new_process }
            }
            HookEvent::MachinePrompt => Moment::Prompt { new_process },
            _ => Moment::Start,
        };
        let publisher = self.publisher();
        let full = context::full(self.session(), observed, &publisher);
        let text = match deliver(self.agent, moment, observed, full.len(), meta) {
            Form::Full => full,
            Form::Short { since } => context::short(self.session(), observed, &publisher, since),
        };
        let mut warnings = Vec::new();
        if meta.warn_of_company(terminal, is_alive) {
            warnings.push(format!(
                "task pointer: another terminal works on session {}; the later prompt of either wins",
                self.session()
            ));
        }
        if degraded && !std::mem::replace(&mut meta.lock_warned, true) {
            warnings.push(degraded_lock(self.store.root()));
        }
        let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
        HookOutcome::Context { text, warning }
    }

    /// A prompt on a record that cannot be read. Which prompt was blocked is remembered, so that under the open policy
    /// the same one passes the next time; if it cannot be remembered, this one passes.
    fn blocked(&self, failure: &Failure, locked: &LockedSession<'_>) -> HookOutcome {
        let key = prompt_key(self.input.prompt.as_deref().unwrap_or_default());
        let mut meta = locked.meta();
        let mut repeated = meta.blocked_prompt.as_deref() == Some(key.as_str());
        if !repeated {
            meta.blocked_prompt = Some(key);
            repeated = locked.save_meta(&meta).is_err();
        }
        self.policy.outcome(self.input.event, self.session(), failure, repeated)
    }

    fn refused(&self, answer: &Answer) -> HookOutcome {
        match answer {
            Answer::Block(refusal)
            | Answer::UnknownRecovery(refusal)
            | Answer::RecoveryRequired(refusal)
            | Answer::Refused(refusal) => {
                self.policy.outcome(self.input.event, self.session(), &Failure::from(refusal), false)
            }
            Answer::Silent | Answer::Context | Answer::Published => HookOutcome::Silent,
        }
    }

    fn failed(&self, error: &PointerError) -> HookOutcome {
        let failure = Failure { code: error.code(), message: error.full_message() };
        self.policy.outcome(self.input.event, self.session(), &failure, false)
    }

    /// One reminder per session to a model that works without ever having published (A3). Any doubt means none.
    fn nudge(&self) -> Option<HookOutcome> {
        let locked = self.store.try_lock_existing(self.session()).ok()??;
        let mut meta = locked.meta();
        let cleared = locked.observed().pointer().map(pintle_pointer::Pointer::status) == Some(Status::Cleared);
        if !cleared || meta.nudged || meta.published || meta.prompts < NUDGE_AFTER_PROMPTS {
            return None;
        }
        meta.nudged = true;
        locked.save_meta(&meta).ok()?;
        let block = context::full(self.session(), locked.observed(), &self.publisher());
        let reason = format!(
            "No task is recorded for this session, so a compaction would lose it. If work is left, publish goal and next \
             step now; if none is, just finish.\n{block}"
        );
        Some(HookOutcome::Nudge { reason })
    }

    fn publisher(&self) -> Publisher {
        if self.mcp {
            return Publisher::Tool;
        }
        let program = installed_path(self.program);
        let program = program.as_deref().and_then(Path::to_str);
        let root = self.store.root().to_str();
        let long = program.map_or(0, str::len) + root.map_or(0, str::len) > CONTEXT_ROOM_FOR_PATHS_BYTES;
        // Looked up only where the path is long enough to be worth shortening.
        let on_path = if long { name_on_path(program) } else { None };
        let shell = if cfg!(windows) { Shell::Windows } else { Shell::Posix };
        Publisher::Command(PublisherCommand::new(program, on_path.as_deref(), root, self.agent, shell))
    }

    const fn session(&self) -> &SessionId {
        &self.input.session_id
    }
}

/// What a user must know where the locks are not the kernel's (item 17).
pub(super) fn degraded_lock(root: &Path) -> String {
    format!(
        "task pointer: the file system of `{}` has no locks; lock files stand in, which are weaker when a process dies: \
         move it with PINTLE_POINTER_HOME",
        root.display()
    )
}

/// The program by the path under which it was started, never resolved (A2). A relative one is not trusted: the current
/// directory is the project's.
fn installed_path(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.is_absolute() {
        return Some(path.to_path_buf());
    }
    if path.components().count() == 1
        && let Some(found) = find_on_path(path)
    {
        return Some(found);
    }
    env::current_exe().ok()
}

/// The bare name, if looking it up finds this very path.
fn name_on_path(program: Option<&str>) -> Option<String> {
    let program = Path::new(program?);
    let name = program.file_name()?;
    (find_on_path(Path::new(name)).as_deref() == Some(program)).then(|| name.to_string_lossy().into_owned())
}

fn find_on_path(name: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
#[path = "hook_tests.rs"]
mod tests;
