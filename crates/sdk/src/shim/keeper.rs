//! The keeper's life: set up, start the target, watch, kill, reap, report.

use std::{
    io::{self, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::FileType,
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid},
};

use super::{
    Abilities, ShimError,
    init::{Begun, Init},
    meter::Meter,
    order::{self, Refusal, Reserved, Spawner},
    tree::{self, Descendant},
};
use crate::{
    process::{
        Applied, Aspect, Exceeded, Exit, Measure, Sandbox,
        protocol::{Command, MAX_NAMED, Stage, Status},
    },
    sys::{self, Look, Signals},
};

/// How long we try to kill what does not die: a process stuck in the kernel may never.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// How long the first process of a namespace may take to tell how a target ended that was just killed.
const TELL_LIMIT: Duration = Duration::from_millis(500);

/// How often the tree is looked at while we wait for deaths that nobody announces (a grandchild's, to its own parent).
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// From this round of killing on, the tree is stopped before it is killed: it forks faster than we list.
const FREEZE_FROM_ROUND: u32 = 4;

/// How many listings a stopped tree may take until it shows nothing new.
const MAX_FREEZE_PASSES: u32 = 64;

pub(super) fn run(abilities: Abilities) -> Result<(), ShimError> {
    let setup = |source: io::Error| ShimError::Setup { source };
    let is_socket =
        rustix::fs::fstat(io::stdin()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket);
    if !is_socket {
        return Err(ShimError::NotStartedByOwner);
    }
    #[expect(unsafe_code, reason = "the shim is the whole of this process, as its documentation demands")]
    // SAFETY: this is the first thing that the process does, so nothing in it owns a descriptor from 3 on.
    unsafe { sys::close_inherited() }.map_err(setup)?;
    sys::reset_signals().map_err(setup)?;
    let reserved = Reserved::new(io::stdin()).map_err(setup)?;
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().map_err(setup)?);

    match start(&mut control, reserved, abilities) {
        Ok(Some(keeper)) => {
            keeper.keep();
            Ok(())
        }
        Ok(None) => Err(ShimError::OwnerGone),
        Err(refusal) => {
            say(&control, &Status::Refused { stage: refusal.stage, errno: refusal.errno });
            Ok(())
        }
    }
}

fn start(control: &mut UnixStream, reserved: Reserved, abilities: Abilities) -> Result<Option<Keeper>, Refusal> {
    let Some(received) = order::receive(control)? else { return Ok(None) };
    let setup = |error: Errno| Refusal::at(Stage::Setup, &error.into());
    // A new session, so that a terminal's Ctrl-C reaches the owner, which decides, and not the target behind its back.
    // It fails only for the leader of a group, who has no terminal signals to fear that the owner did not choose.
    let _ = rustix::process::setsid();
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).map_err(setup)?;
    let settle = Duration::from_millis(received.settle_ms());
    let sandbox = received.sandbox().cloned();
    let mut meter = Meter::new(sandbox.as_ref(), abilities.control_groups);
    let below = begin(Spawner { join: meter.join(), received, reserved, abilities }, sandbox.as_ref())?;
    let mut applied = Applied { measures: below.measures };
    if let Some(sandbox) = &sandbox {
        meter.correct(sandbox, &mut applied.measures);
    }
    applied.put(Measure::of(Aspect::Lifetime, "all that it starts ends with it", Ok("keeper, a subreaper")));
    applied.complete(sandbox.as_ref(), "nothing is known of it");
    let mut keeper = Keeper {
        control: control.try_clone().map_err(|error| Refusal::at(Stage::Setup, &error))?,
        signals: None,
        own,
        target: below.target,
        init: below.init,
        meter,
        limits_files: sandbox.is_some_and(|sandbox| sandbox.limits.file_bytes.is_some()),
        settle,
        exit_seen: None,
        target_reaped: false,
        over: false,
    };
    // From here on the target runs, and the keeper's drop kills it.
    keeper.signals = Some(Signals::take().map_err(|error| Refusal::at(Stage::Setup, &error))?);
    keeper.say(&Status::Started { pid: raw(keeper.target), applied });
    // A directory that the owner wants to remove should not be held by us.
    let _ = rustix::process::chdir("/");
    Ok(Some(keeper))
}

/// What was started.
struct Below {
    target: Pid,
    init: Option<(Pid, Init)>,
    measures: Vec<Measure>,
}

/// Starts the target, in namespaces of its own if it should have them and they are to be had.
fn begin(spawner: Spawner, sandbox: Option<&Sandbox>) -> Result<Below, Refusal> {
    let mut namespaces = Ok(());
    let mut spawner = Some(spawner);
    let wanted = sandbox.is_some_and(|sandbox| sandbox.private_namespaces);
    if wanted && spawner.as_ref().is_some_and(|spawner| !spawner.abilities.namespaces) {
        namespaces = Err("this keeper makes none".to_owned());
    } else if wanted {
        match Init::begin(&mut spawner) {
            Begun::Running(init, measures) => {
                // The one in between is reaped, so this is the only child; and the target is the first one of that.
                let first = |of| tree::children(of).ok().and_then(|children| children.first().copied());
                let pids = first(rustix::process::getpid()).and_then(|init| Some((init, first(init)?)));
                let lost = Refusal { stage: Stage::Setup, errno: Some(Errno::SRCH.raw_os_error()) };
                let (pid, target) = pids.ok_or(lost)?;
                return Ok(Below { target, init: Some((pid, init)), measures });
            }
            Begun::Refused(refusal) => return Err(refusal),
            Begun::NoNamespaces(why) => namespaces = Err(why),
        }
    }
    let Some(spawner) = spawner else { return Err(Refusal { stage: Stage::Setup, errno: None }) };
    let (child, measures) = spawner.spawn(namespaces)?;
    Ok(Below { target: Pid::from_child(&child), init: None, measures })
}

struct Keeper {
    control: UnixStream,
    signals: Option<Signals>,
    own: Pid,
    target: Pid,
    /// The process between us and the target, if the target has namespaces of its own.
    init: Option<(Pid, Init)>,
    meter: Meter,
    /// Whether a signal for a file that grew too large means our limit.
    limits_files: bool,
    settle: Duration,
    /// When the target was found dead, by its own doing.
    exit_seen: Option<Instant>,
    target_reaped: bool,
    over: bool,
}

/// What woke the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    Command(Command),
    OwnerGone,
    /// A child changed, somebody sent a harmless byte, or the time is over.
    Look,
}

impl Keeper {
    fn keep(mut self) {
        let mut exceeded = None;
        let named = loop {
            self.reap_adopted();
            if let Some(since) = self.exit_seen {
                let left = self.descendants();
                let settled = self.settle.checked_sub(since.elapsed()).filter(|time| !time.is_zero());
                match (left, settled) {
                    (Some(left), _) if left.is_empty() => break Some(left),
                    (Some(_), Some(_)) => {}
                    (left, _) => break left,
                }
            }
            exceeded = self.meter_says();
            if exceeded.is_some() {
                break None;
            }
            match self.wait() {
                Wake::Look => {}
                // The group's number is the target's, which is not reaped before `kill_all`.
                Wake::Command(Command::Signal(signo)) => {
                    if let Some(signal) = Signal::from_named_raw(i32::from(signo)) {
                        let _ = kill_process_group(self.target, signal);
                    }
                }
                Wake::Command(Command::Kill) | Wake::OwnerGone => break None,
            }
        };
        let survivors = self.kill_all();
        // One that ended before its excess was seen has exceeded its bound all the same.
        if let Some(what) = exceeded.or_else(|| self.meter.last_look()) {
            self.say(&Status::Exceeded { what });
        }
        let checked = named.is_some();
        let named = named.unwrap_or_default();
        self.say(&Status::Gone {
            checked,
            count: u32::try_from(named.len()).unwrap_or(u32::MAX),
            descendants: named.iter().take(MAX_NAMED).map(Descendant::found).collect(),
            survivors: survivors.iter().take(MAX_NAMED).map(Descendant::found).collect(),
        });
        self.over = true;
    }

    /// Everything alive below us but the target; `None` where nothing can tell.
    fn descendants(&self) -> Option<Vec<Descendant>> {
        let mut found = tree::descendants(self.own).ok()?;
        let init = self.init.as_ref().map(|(pid, _)| *pid);
        found.retain(|descendant| descendant.pid != self.target && Some(descendant.pid) != init);
        Some(found)
    }

    fn meter_says(&mut self) -> Option<Exceeded> {
        let (own, beside) = (self.own, usize::from(self.init.is_some()));
        self.meter.look(|| tree::descendants(own).map_or(0, |found| found.len().saturating_sub(beside)))
    }

    /// Reaps whoever was orphaned to us and has ended. The target is looked at, told and left as it is.
    fn reap_adopted(&mut self) {
        if self.init.is_some() {
            self.ask_init(Some(Duration::ZERO));
        }
        // A dead target would be found again and again: from then on its siblings wait for `kill_all`.
        while self.exit_seen.is_none() {
            let Ok(Some(dead)) = sys::ended_child(Look::Peek) else { return };
            if dead.pid == self.target.as_raw_pid() {
                self.exited(Some(dead.exit));
            } else if self.init.as_ref().is_some_and(|(init, _)| dead.pid == init.as_raw_pid()) {
                // The namespace is over, and how the target ended is lost.
                self.exited(None);
            } else if let Some(pid) = Pid::from_raw(dead.pid) {
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
        }
    }

    /// Takes note of how the target ended, once.
    fn exited(&mut self, exit: Option<Exit>) {
        if self.exit_seen.is_some() {
            return;
        }
        self.exit_seen = Some(Instant::now());
        let Some(exit) = exit else { return };
        if self.limits_files && exit == Exit::Signal(Signal::XFSZ.as_raw()) {
            self.say(&Status::Exceeded { what: Exceeded::FileBytes });
        }
        self.say(&Status::exited(exit));
    }

    /// Hears how the target ended from the process that is its parent, if it has ended within `limit`.
    fn ask_init(&mut self, limit: Option<Duration>) {
        let Some((_, init)) = &mut self.init else { return };
        let timeout = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let told = poll(&mut [PollFd::new(init, PollFlags::IN)], timeout.as_ref()).is_ok_and(|count| count > 0);
        if self.exit_seen.is_none() && told {
            let exit = init.listen();
            self.exited(exit);
        }
    }

    fn wait(&self) -> Wake {
        let settling = self.exit_seen.map(|since| self.settle.saturating_sub(since.elapsed()).min(LOOK_AGAIN));
        let timeout = settling.into_iter().chain(self.meter.next_look()).min();
        let ready = self.poll(true, timeout);
        if self.drain_signals() {
            return Wake::OwnerGone;
        }
        if !ready {
            return Wake::Look;
        }
        let mut bytes = [0; 2];
        match (&self.control).read_exact(&mut bytes) {
            Ok(()) => Command::decode(bytes).map_or(Wake::Look, Wake::Command),
            Err(_) => Wake::OwnerGone,
        }
    }

    /// Waits for a signal or, if asked, for the owner. Says whether the owner has something.
    fn poll(&self, owner: bool, timeout: Option<Duration>) -> bool {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds = Vec::with_capacity(4);
        if let Some((_, init)) = self.init.as_ref().filter(|_| self.exit_seen.is_none()) {
            fds.push(PollFd::new(init, PollFlags::IN));
        }
        if let Some(group) = self.meter.group() {
            fds.push(PollFd::new(group, PollFlags::PRI));
        }
        if let Some(signals) = &self.signals {
            fds.push(PollFd::new(signals, PollFlags::IN));
        }
        if owner {
            fds.push(PollFd::new(&self.control, PollFlags::IN));
        }
        let ready = poll(&mut fds, timeout.as_ref()).is_ok_and(|count| count > 0);
        ready && owner && fds.last().is_some_and(|fd| !fd.revents().is_empty())
    }

    fn drain_signals(&self) -> bool {
        self.signals.as_ref().is_some_and(|signals| signals.drain().asked_to_go)
    }

    /// Kills the group and all below, and reaps. Returns what would not die.
    fn kill_all(&mut self) -> Vec<Descendant> {
        let start = Instant::now();
        let mut round = 0;
        loop {
            round += 1;
            if !self.target_reaped {
                let _ = kill_process_group(self.target, Signal::KILL);
            }
            if self.init.is_some() {
                self.kill_namespace();
            }
            if round >= FREEZE_FROM_ROUND {
                self.freeze();
            }
            let living = tree::descendants(self.own).unwrap_or_default();
            for descendant in &living {
                descendant.signal(Signal::KILL);
            }
            if self.reap_all() {
                return Vec::new();
            }
            if start.elapsed() >= KILL_LIMIT {
                return tree::descendants(self.own).unwrap_or(living);
            }
            self.poll(false, Some(LOOK_AGAIN));
            self.drain_signals();
        }
    }

    /// Ends the namespace of the target, once its own end was told or will not be.
    fn kill_namespace(&mut self) {
        if self.exit_seen.is_none() {
            self.ask_init(Some(TELL_LIMIT));
        }
        // Not reaped before the loop behind this is done, so the number is its own.
        if let Some((init, _)) = &self.init {
            let _ = kill_process(*init, Signal::KILL);
        }
    }

    /// Stops the whole tree, so that it cannot fork while it is listed.
    fn freeze(&self) {
        let mut stopped = 0;
        for _ in 0..MAX_FREEZE_PASSES {
            let living = tree::descendants(self.own).unwrap_or_default();
            for descendant in &living {
                descendant.signal(Signal::STOP);
            }
            if living.len() <= stopped {
                return;
            }
            stopped = living.len();
        }
    }

    /// Reaps every child that has ended. Only called when the target's group has just been signalled. Says whether none
    /// is left.
    fn reap_all(&mut self) -> bool {
        loop {
            match sys::ended_child(Look::Reap) {
                Ok(Some(dead)) if dead.pid == self.target.as_raw_pid() => {
                    self.target_reaped = true;
                    self.exited(Some(dead.exit));
                }
                Ok(Some(dead)) if self.init.as_ref().is_some_and(|(init, _)| dead.pid == init.as_raw_pid()) => {
                    // The kernel ends a namespace before its first process can be reaped: the target is reaped, too.
                    self.target_reaped = true;
                    self.init = None;
                }
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // There is no child at all.
                Err(_) => return true,
            }
        }
    }

    fn say(&self, status: &Status) {
        say(&self.control, status);
    }
}

impl Drop for Keeper {
    /// A keeper that stops half-way, by an error or a panic, leaves nothing behind either.
    fn drop(&mut self) {
        if !self.over {
            self.kill_all();
        }
    }
}

/// Says something to the owner. Whether it still listens changes nothing.
fn say(mut control: &UnixStream, status: &Status) {
    if let Ok(mut line) = serde_json::to_vec(status) {
        line.push(b'\n');
        let _ = control.write_all(&line);
    }
}

fn raw(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().cast_unsigned()
}
