//! The first process of a PID namespace: between the keeper and a target that has one of its own.
//!
//! It exists because the first process of a namespace is special: signals that it does not handle do not reach it, and
//! orphans become its children. A target should be neither. The namespace ends with it, which the kernel sees to, and it
//! ends with its keeper: whatever happens to the keeper, nothing in the namespace outlives it.
//!
//! It is made by two forks, because who leaves a namespace cannot come back: the first child leaves and makes the second,
//! which is the first process of the new namespace. Then the one in between ends. Where any of this is not allowed,
//! nothing has happened to the keeper, which starts the target without.

use std::{
    fs,
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::fd::AsFd,
    process::Child,
    time::Instant,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, WaitId, WaitIdOptions, WaitOptions, getgid, getuid, waitid, waitpid},
};

use super::order::{Refusal, Spawner};
use crate::{
    process::{
        Exit, Measure,
        applied::Applied,
        protocol::{Stage, Status},
    },
    sys::{self, Forked, Look, Signals},
};

/// The keeper's side of it.
#[derive(Debug)]
pub(super) struct Init {
    /// Nobody but the keeper has this; when it is closed, the namespace ends.
    _lifeline: PipeWriter,
    said: PipeReader,
}

/// What came of the attempt.
pub(super) enum Begun {
    /// The target runs in a namespace, below [`Init`].
    Running(Init, Vec<Measure>),
    /// The target was refused, with or without namespaces.
    Refused(Refusal),
    /// There are no namespaces to be had. Nothing has been started, and the spawner is as it was.
    NoNamespaces(String),
}

impl Init {
    /// Starts the target in namespaces of its own.
    pub(super) fn begin(spawner: &mut Option<Spawner>) -> Begun {
        match fork_into(spawner) {
            Ok((init, Some(Status::Started { applied, .. }))) => Begun::Running(init, applied.measures),
            Ok((_, Some(Status::Refused { stage, errno }))) => Begun::Refused(Refusal { stage, errno }),
            Ok((_, Some(Status::NoNamespaces { why }))) => Begun::NoNamespaces(why),
            Ok(_) => Begun::NoNamespaces("their first process said nothing".to_owned()),
            Err(error) => Begun::NoNamespaces(format!("fork: {error}")),
        }
    }

    /// How the target ended, if that was what it had to say. `None` at its own end.
    pub(super) fn listen(&mut self) -> Option<Exit> {
        match read_status(&mut self.said) {
            Some(Status::Exited { code, signal }) => code.map(Exit::Code).or(signal.map(Exit::Signal)),
            _ => None,
        }
    }
}

impl AsFd for Init {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.said.as_fd()
    }
}

fn fork_into(spawner: &mut Option<Spawner>) -> io::Result<(Init, Option<Status>)> {
    let (mut said, say) = io::pipe()?;
    let (line, lifeline) = io::pipe()?;
    match sys::fork()? {
        Forked::Child => {
            drop((said, lifeline));
            // Not its result but what it said tells the keeper.
            let _ = leave(spawner, line, say);
            sys::exit_now(0)
        }
        Forked::Parent(between) => {
            drop((line, say));
            rustix::io::retry_on_intr(|| waitpid(Some(between), WaitOptions::empty()))?;
            let first = read_status(&mut said);
            Ok((Init { _lifeline: lifeline, said }, first))
        }
    }
}

/// One line and nothing behind it: whoever waits for the pipe would never learn of what was taken out of it too early, such
/// as the end of a target that has ended at once.
fn read_status(said: &mut PipeReader) -> Option<Status> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        said.read_exact(&mut byte).ok()?;
        match byte {
            [b'\n'] => return serde_json::from_slice(&line).ok(),
            [byte] => line.push(byte),
        }
    }
}

fn say(pipe: &mut PipeWriter, status: &Status) {
    if let Ok(mut line) = serde_json::to_vec(status) {
        line.push(b'\n');
        let _ = pipe.write_all(&line);
    }
}

/// The process in between: leaves its namespaces and forks the first process of the new one.
fn leave(spawner: &mut Option<Spawner>, line: PipeReader, mut pipe: PipeWriter) -> io::Result<()> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let mapped = sys::own_user_and_pid_namespace().and_then(|()| {
        // Without this a group map may not be written by an ordinary user.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
    });
    if let Err(error) = mapped {
        say(&mut pipe, &Status::NoNamespaces { why: format!("user and PID namespace: {error}") });
        return Ok(());
    }
    match sys::fork() {
        Ok(Forked::Parent(_)) => Ok(()),
        Ok(Forked::Child) => {
            be_first(spawner, &line, pipe);
            sys::exit_now(0)
        }
        Err(error) => {
            say(&mut pipe, &Status::NoNamespaces { why: format!("fork into a PID namespace: {error}") });
            Ok(())
        }
    }
}

/// The life of the first process. When it returns, the namespace ends.
fn be_first(spawner: &mut Option<Spawner>, line: &PipeReader, mut pipe: PipeWriter) {
    if let Err(error) = sys::own_proc() {
        say(&mut pipe, &Status::NoNamespaces { why: format!("`/proc` of a PID namespace: {error}") });
        return;
    }
    let Some(spawner) = spawner.take() else { return };
    let (target, measures) = match spawner.spawn(Ok(())) {
        Ok(spawned) => spawned,
        Err(Refusal { stage, errno }) => return say(&mut pipe, &Status::Refused { stage, errno }),
    };
    let signals = match Signals::take() {
        Ok(signals) => signals,
        Err(error) => {
            return say(&mut pipe, &Status::Refused { stage: Stage::Setup, errno: error.raw_os_error() });
        }
    };
    say(&mut pipe, &Status::Started { pid: target.id(), applied: Applied { measures } });
    watch(&target, &signals, line, &mut pipe);
}

/// Waits for the keeper's end. Tells how the target ends, and reaps whoever is orphaned; but not the target, whose number
/// must stay its own until its group was signalled, and nobody after it.
fn watch(target: &Child, signals: &Signals, line: &PipeReader, pipe: &mut PipeWriter) {
    let mut ended: Option<Instant> = None;
    loop {
        while ended.is_none()
            && let Ok(Some(dead)) = sys::ended_child(Look::Peek)
        {
            if dead.pid.cast_unsigned() == target.id() {
                ended = Some(Instant::now());
                say(pipe, &Status::exited(dead.exit));
            } else if let Some(pid) = Pid::from_raw(dead.pid) {
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
        }
        let mut fds = [PollFd::new(signals, PollFlags::IN), PollFd::new(line, PollFlags::IN)];
        let _ = poll(&mut fds, None);
        if !fds[1].revents().is_empty() {
            return;
        }
        // Nobody inside can ask it to go, and outside there are other ways.
        signals.drain();
    }
}

#[cfg(test)]
mod tests {
    use rustix::time::Timespec;

    use super::*;

    /// A target that ends at once is told of in the same moment as its start. Its end must stay where it is waited for.
    #[test]
    fn what_comes_behind_a_status_stays_in_the_pipe() {
        let (mut said, mut pipe) = io::pipe().expect("a pipe");
        say(&mut pipe, &Status::NoNamespaces { why: "first".into() });
        say(&mut pipe, &Status::exited(Exit::Code(3)));
        assert!(matches!(read_status(&mut said), Some(Status::NoNamespaces { why }) if why == "first"));
        let mut fds = [PollFd::new(&said, PollFlags::IN)];
        assert_eq!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("poll"), 1);
        assert!(matches!(read_status(&mut said), Some(Status::Exited { code: Some(3), .. })));
        drop(pipe);
        assert!(read_status(&mut said).is_none());
    }
}
