//! A child in a job object, on Windows.

use std::{
    io,
    os::windows::{io::AsHandle, process::CommandExt},
    process::{Child, Command},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{
    applied::{Applied, Aspect, Enforcement, Measure},
    error::{SpawnError, exec_error},
    launch::Launch,
    outcome::{Descendants, Exit, Found},
    progress::{Gone, Progress, Started},
    sandbox::Sandbox,
    signal::Signal,
    streams::Streams,
};
use crate::sys::{self, Job};

/// How often the job is looked at while what the child started has its settle time.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A child that is in a job object of its own. Dropping it ends everything in the job.
#[derive(Debug)]
pub(super) struct InJob {
    job: Arc<Job>,
    pid: u32,
}

impl InJob {
    /// The child is made without running, put into the job, and only then let go: nothing that it starts can be outside.
    pub(super) fn spawn(launch: Launch, streams: Streams) -> Result<Started<Self>, SpawnError> {
        let program = launch.program.path().to_owned();
        let mut command = Command::new(&program);
        command.args(&launch.args).env_clear().envs(launch.env.iter()).creation_flags(sys::SUSPENDED_IN_NEW_GROUP);
        command.stdin(streams.stdin).stdout(streams.stdout).stderr(streams.stderr);
        if let Some(cwd) = launch.cwd {
            match std::fs::metadata(&cwd) {
                Ok(meta) if meta.is_dir() => command.current_dir(&cwd),
                Ok(_) => {
                    return Err(SpawnError::Cwd { path: cwd, source: io::ErrorKind::NotADirectory.into() });
                }
                Err(source) => return Err(SpawnError::Cwd { path: cwd, source }),
            };
        }
        let job = Arc::new(Job::new().map_err(|source| SpawnError::Exec { program: program.clone(), source })?);
        let mut child = command.spawn().map_err(|source| exec_error(program.clone(), source))?;
        let pid = child.id();
        if let Err(source) = job.assign(child.as_handle()).and_then(|()| sys::resume(pid)) {
            // It has not run, so it has started nothing.
            let _ = child.kill();
            let _ = child.wait();
            return Err(SpawnError::Exec { program, source });
        }
        let (progress, receiver) = watch::channel(Progress::default());
        tokio::spawn(supervise(child, Arc::downgrade(&job), launch.settle, progress));
        let applied = in_job(launch.sandbox.as_ref());
        Ok(Started { pid, applied, progress: receiver, handle: Self { job, pid } })
    }

    pub(super) fn signal(&self, signal: Signal) {
        match signal {
            Signal::Kill => self.job.terminate(),
            Signal::Stop | Signal::Continue => {}
            Signal::Interrupt | Signal::Term | Signal::Hangup | Signal::Quit | Signal::User1 | Signal::User2 => {
                sys::ctrl_break(self.pid);
            }
        }
    }
}

impl Drop for InJob {
    fn drop(&mut self) {
        self.job.terminate();
    }
}

/// What a job object enforces: that all end together.
fn in_job(sandbox: Option<&Sandbox>) -> Applied {
    let mut applied = Applied::none(sandbox, "not done on this system");
    let lifetime = "all that it starts ends with it";
    applied.put(Measure::new(Aspect::Lifetime, lifetime, Enforcement::Enforced, "job object"));
    applied
}

/// The job's owner may drop it at any time, upon which everything in it ends and the child with it.
async fn supervise(child: Child, job: std::sync::Weak<Job>, settle: Duration, progress: watch::Sender<Progress>) {
    let exit = ended(child).await;
    progress.send_modify(|progress| progress.exit = exit);
    let since = Instant::now();
    let left = loop {
        let Some(left) = job.upgrade().and_then(|job| job.processes().ok()) else { break None };
        if left.is_empty() || since.elapsed() >= settle {
            break Some(left);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    };
    if let Some(job) = job.upgrade() {
        job.terminate();
    }
    let descendants = left.map_or(Descendants::Unknown, |pids| Descendants::Counted {
        count: u32::try_from(pids.len()).unwrap_or(u32::MAX),
        named: pids.into_iter().map(|pid| Found { pid, name: String::new() }).collect(),
    });
    progress.send_modify(|progress| progress.gone = Some(Gone { descendants, survivors: Vec::new() }));
}

/// A process handle is waited for by a thread of the runtime's pool; there is no readiness for it.
async fn ended(mut child: Child) -> Option<Exit> {
    let waited = tokio::task::spawn_blocking(move || child.wait()).await;
    waited.ok()?.ok()?.code().map(Exit::Code)
}
