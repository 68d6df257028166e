//! A child without a keeper: its process group is all that is supervised.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::sync::watch;

use super::{
    applied::Applied,
    error::{SpawnError, exec_error},
    launch::Launch,
    outcome::{Descendants, Exit, NoIsolation},
    progress::{Gone, Progress, Started},
    signal::Signal,
    streams::Streams,
};

/// A child that is the leader of its own process group. Dropping it kills the group.
#[derive(Debug)]
pub(super) struct Bare(Arc<Group>);

#[derive(Debug)]
struct Group {
    id: Pid,
    /// Taken when it is reaped: until then the group's number is the child's own.
    child: Mutex<Option<Child>>,
}

impl Bare {
    pub(super) fn spawn(launch: Launch, streams: Streams) -> Result<Started<Self>, SpawnError> {
        let program = launch.program.path().to_owned();
        if !launch.extra_fds.is_empty() || launch.named_pipe.is_some() {
            return Err(SpawnError::NeedsKeeper { program });
        }
        let mut command = Command::new(&program);
        command.arg0(launch.program.name()).args(&launch.args).env_clear().envs(launch.env.iter()).process_group(0);
        command.stdin(streams.stdin).stdout(streams.stdout).stderr(streams.stderr);
        if let Some(cwd) = launch.cwd {
            let meta = std::fs::metadata(&cwd);
            match meta.and_then(|meta| if meta.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }) {
                Ok(()) => command.current_dir(&cwd),
                Err(source) => return Err(SpawnError::Cwd { path: cwd, source }),
            };
        }
        let child = command.spawn().map_err(|source| exec_error(program, source))?;
        let group = Arc::new(Group { id: Pid::from_child(&child), child: Mutex::new(Some(child)) });
        let (progress, receiver) = watch::channel(Progress::default());
        let pid = group.id.as_raw_nonzero().get().cast_unsigned();
        tokio::spawn(supervise(Arc::clone(&group), progress));
        let why = if cfg!(target_os = "linux") { NoIsolation::NoShim } else { NoIsolation::Platform };
        let applied = Applied::none(launch.sandbox.as_ref(), &why.to_string());
        Ok(Started { pid, applied, progress: receiver, handle: Self(group) })
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.0.signal(signal);
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.0.signal(Signal::Kill);
    }
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: Signal) {
        if self.lock().is_some() {
            let _ = kill_process_group(self.id, signal.to_rustix());
        }
    }

    /// Signals the group, then reaps its leader: in that order, and with the number held in between.
    fn finish(&self) -> Option<Exit> {
        let mut child = self.lock();
        let _ = kill_process_group(self.id, rustix::process::Signal::KILL);
        let status = child.as_mut()?.try_wait().ok()?;
        *child = None;
        status.map(exit_of)
    }
}

async fn supervise(group: Arc<Group>, progress: watch::Sender<Progress>) {
    ended(group.id).await;
    let exit = group.finish();
    progress.send_modify(|progress| {
        progress.exit = exit;
        progress.gone = Some(Gone { descendants: Descendants::Unknown, survivors: Vec::new() });
    });
}

/// Waits until the child has ended, and leaves it in the process table.
#[cfg(target_os = "linux")]
async fn ended(pid: Pid) {
    use rustix::process::{PidfdFlags, pidfd_open};

    let held = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from);
    match held.and_then(crate::sys::watch_readable) {
        Ok(held) => {
            let _ = held.readable().await;
        }
        Err(_) => ended_blocking(pid).await,
    }
}

#[cfg(not(target_os = "linux"))]
async fn ended(pid: Pid) {
    ended_blocking(pid).await;
}

/// Where there is no descriptor for a process: a thread that waits.
async fn ended_blocking(pid: Pid) {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let wait = move || rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), look)).is_ok();
    let _ = tokio::task::spawn_blocking(wait).await;
}

fn exit_of(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(0),
    }
}
