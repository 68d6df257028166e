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
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};

use super::{
    ShimError,
    order::{self, Refusal, Reserved},
    tree::{self, Descendant},
};
use crate::{
    process::{
        Exit,
        protocol::{Command, MAX_NAMED, Stage, Status},
    },
    sys::{self, Look, Signals},
};

/// How long we try to kill what does not die: a process stuck in the kernel may never.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// How often the tree is looked at while we wait for deaths that nobody announces (a grandchild's, to its own parent).
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// From this round of killing on, the tree is stopped before it is killed: it forks faster than we list.
const FREEZE_FROM_ROUND: u32 = 4;

/// How many listings a stopped tree may take until it shows nothing new.
const MAX_FREEZE_PASSES: u32 = 64;

pub(super) fn run() -> Result<(), ShimError> {
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

    match start(&mut control, reserved) {
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

fn start(control: &mut UnixStream, reserved: Reserved) -> Result<Option<Keeper>, Refusal> {
    let Some(received) = order::receive(control)? else { return Ok(None) };
    let setup = |error: Errno| Refusal::at(Stage::Setup, &error.into());
    // A new session, so that a terminal's Ctrl-C reaches the owner, which decides, and not the target behind its back.
    // It fails only for the leader of a group, who has no terminal signals to fear that the owner did not choose.
    let _ = rustix::process::setsid();
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).map_err(setup)?;
    let settle = Duration::from_millis(received.settle_ms());
    let child = received.spawn(reserved)?;
    let target = Pid::from_child(&child);
    let mut keeper = Keeper {
        control: control.try_clone().map_err(|error| Refusal::at(Stage::Setup, &error))?,
        signals: None,
        own,
        target,
        settle,
        exit_seen: None,
        target_reaped: false,
        over: false,
    };
    // From here on the target runs, and the keeper's drop kills it.
    keeper.signals = Some(Signals::take().map_err(|error| Refusal::at(Stage::Setup, &error))?);
    keeper.say(&Status::Started { pid: raw(target) });
    // A directory that the owner wants to remove should not be held by us.
    let _ = rustix::process::chdir("/");
    Ok(Some(keeper))
}

struct Keeper {
    control: UnixStream,
    signals: Option<Signals>,
    own: Pid,
    target: Pid,
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
        found.retain(|descendant| descendant.pid != self.target);
        Some(found)
    }

    /// Reaps whoever was orphaned to us and has ended. The target is looked at, told and left as it is.
    fn reap_adopted(&mut self) {
        // A dead target would be found again and again: from then on its siblings wait for `kill_all`.
        while self.exit_seen.is_none() {
            let Ok(Some(dead)) = sys::ended_child(Look::Peek) else { return };
            if dead.pid == self.target.as_raw_pid() {
                self.exit_seen = Some(Instant::now());
                self.say_exited(dead.exit);
            } else if let Some(pid) = Pid::from_raw(dead.pid) {
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
        }
    }

    fn wait(&self) -> Wake {
        let timeout = self.exit_seen.map(|since| self.settle.saturating_sub(since.elapsed()).min(LOOK_AGAIN));
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
        let mut fds = Vec::with_capacity(2);
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
                    if self.exit_seen.is_none() {
                        self.exit_seen = Some(Instant::now());
                        self.say_exited(dead.exit);
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // There is no child at all.
                Err(_) => return true,
            }
        }
    }

    fn say_exited(&self, exit: Exit) {
        self.say(&match exit {
            Exit::Code(code) => Status::Exited { code: Some(code), signal: None },
            Exit::Signal(signal) => Status::Exited { code: None, signal: Some(signal) },
        });
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
