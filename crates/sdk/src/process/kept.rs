//! The owner's side of a keeper.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command as StdCommand, Stdio},
    sync::{Mutex, PoisonError},
};

use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    process::{Pid, PidfdFlags, kill_process_group, pidfd_open},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

use super::{
    error::{SpawnError, exec_error},
    launch::Launch,
    named_pipe::NamedPipe,
    outcome::{Descendants, Exit},
    progress::{Gone, Progress, Started},
    protocol::{Command, MAX_EXTRA_FDS, MAX_STATUS_BYTES, Order, OrderError, Stage, Status},
    signal::Signal,
    streams::Streams,
};
use crate::{shim, sys};

/// A child behind a keeper. Dropping it closes our direction of the keeper's socket, at once and without the runtime,
/// upon which the keeper kills all there is.
#[derive(Debug)]
pub(super) struct Kept {
    commands: OwnedWriteHalf,
}

impl Kept {
    pub(super) async fn spawn(launch: Launch, shim: PathBuf, streams: Streams) -> Result<Started<Self>, SpawnError> {
        let program = launch.program.path().to_owned();
        let cwd = launch.cwd.clone();
        let (order, extra, named_pipe) = order_of(launch)?;
        let keeper_error = |source| SpawnError::Keeper { shim: shim.clone(), source };

        let (ours, theirs) = StdUnixStream::pair().map_err(|source| SpawnError::Pipe { source })?;
        ours.set_nonblocking(true).map_err(|source| SpawnError::Pipe { source })?;
        // Said before anybody listens: the keeper finds its order when it starts, and does not wait for us again.
        let said = give_order(&ours, &order, &streams, &extra).map_err(|source| SpawnError::Pipe { source })?;
        drop((streams, extra));
        let keeper = Keeper::start(&shim, theirs).map_err(keeper_error)?;
        let stream = UnixStream::from_std(ours).map_err(keeper_error)?;
        let (statuses, mut commands) = stream.into_split();
        // The rest of one that is larger than the socket holds. A write fails where the keeper gave up; then it may have
        // said why.
        let _ = commands.write_all(&order[said..]).await;
        let mut statuses = Statuses::new(statuses);
        let (pid, applied) = match statuses.next().await {
            Some(Status::Started { pid, applied }) => (pid, applied),
            Some(Status::Refused { stage, errno }) => {
                let source = errno.map_or_else(|| io::Error::other("no reason given"), io::Error::from_raw_os_error);
                return Err(match (stage, cwd) {
                    (Stage::Exec, _) => exec_error(program, source),
                    (Stage::Cwd, Some(path)) => SpawnError::Cwd { path, source },
                    (Stage::Version, _) => SpawnError::NotAKeeper { shim },
                    (Stage::Order | Stage::Setup | Stage::Cwd, _) => SpawnError::Keeper { shim, source },
                });
            }
            _ => return Err(SpawnError::NotAKeeper { shim }),
        };
        // The keeper has opened it.
        drop(named_pipe);
        let target = Target::hold(pid);
        let (progress, receiver) = watch::channel(Progress::default());
        tokio::spawn(supervise(statuses, keeper, target, progress));
        Ok(Started { pid, applied, progress: receiver, handle: Self { commands } })
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.say(Command::Signal(u8::try_from(signal.to_rustix().as_raw()).unwrap_or(0)));
    }

    pub(super) fn kill(&self) {
        self.say(Command::Kill);
    }

    /// Two bytes into an empty socket: they always fit, unless the keeper is gone or stuck, when nothing helps.
    fn say(&self, command: Command) {
        let _ = self.commands.try_write(&command.encode());
    }
}

/// The order, the descriptors that go with it, and the FIFO that the keeper opens.
type Parts = (Vec<u8>, Vec<OwnedFd>, Option<NamedPipe>);

fn order_of(launch: Launch) -> Result<Parts, SpawnError> {
    let program = launch.program.path().to_owned();
    let refuse = |reason| SpawnError::Order { program: program.clone(), reason };
    if launch.extra_fds.len() + usize::from(launch.named_pipe.is_some()) > MAX_EXTRA_FDS {
        return Err(refuse("there are more than 8 extra descriptors"));
    }
    let order = Order {
        arg0: launch.program.name().to_owned(),
        program: program.clone(),
        args: launch.args,
        env: launch.env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        cwd: launch.cwd,
        settle_ms: u64::try_from(launch.settle.as_millis()).unwrap_or(u64::MAX),
        named_pipe: launch.named_pipe.as_ref().map(|pipe| (pipe.path().to_owned(), pipe.file())),
        extra_fds: launch.extra_fds.len(),
        sandbox: launch.sandbox,
    };
    let bytes = order.encode().map_err(|error| match error {
        OrderError::TooLarge => refuse("they have more than 4 MiB"),
        OrderError::Nul => refuse("there is a NUL byte in them"),
        OrderError::Header | OrderError::Version | OrderError::Strings => refuse("they cannot be written down"),
    })?;
    Ok((bytes, launch.extra_fds, launch.named_pipe))
}

/// Sends the descriptors with as much of the order as the fresh socket takes, and says how much that was.
fn give_order(socket: &StdUnixStream, order: &[u8], streams: &Streams, extra: &[OwnedFd]) -> io::Result<usize> {
    let mut fds: Vec<BorrowedFd<'_>> = vec![streams.stdin.as_fd(), streams.stdout.as_fd(), streams.stderr.as_fd()];
    fds.extend(extra.iter().map(AsFd::as_fd));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3 + MAX_EXTRA_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    Ok(sendmsg(socket, &[IoSlice::new(order)], &mut ancillary, SendFlags::NOSIGNAL)?)
}

/// What the keeper says, line by line.
#[derive(Debug)]
struct Statuses {
    source: BufReader<OwnedReadHalf>,
    line: Vec<u8>,
}

impl Statuses {
    fn new(source: OwnedReadHalf) -> Self {
        Self { source: BufReader::new(source), line: Vec::new() }
    }

    /// `None` at the end, and for what no keeper says.
    async fn next(&mut self) -> Option<Status> {
        self.line.clear();
        let mut bounded = (&mut self.source).take(MAX_STATUS_BYTES as u64);
        bounded.read_until(b'\n', &mut self.line).await.ok()?;
        serde_json::from_slice(self.line.strip_suffix(b"\n")?).ok()
    }
}

async fn supervise(mut statuses: Statuses, keeper: Keeper, target: Target, progress: watch::Sender<Progress>) {
    let mut gone = None;
    while let Some(status) = statuses.next().await {
        match status {
            Status::Exited { code, signal } => {
                let exit = code.map(Exit::Code).or(signal.map(Exit::Signal));
                progress.send_modify(|progress| progress.exit = exit);
            }
            Status::Exceeded { what } => progress.send_modify(|progress| progress.exceeded = Some(what)),
            Status::Gone { checked, count, descendants, survivors } => {
                let descendants =
                    if checked { Descendants::Counted { count, named: descendants } } else { Descendants::Unknown };
                gone = Some(Gone { descendants, survivors });
                break;
            }
            Status::Started { .. } | Status::Refused { .. } | Status::NoNamespaces { .. } => {}
        }
    }
    let gone = gone.unwrap_or_else(|| {
        // The keeper was killed. What is left of its work is to kill the group, if that is still the child's.
        target.kill_group();
        Gone { descendants: Descendants::Unknown, survivors: Vec::new() }
    });
    keeper.reap().await;
    progress.send_modify(|progress| progress.gone = Some(gone));
}

/// The child itself, held by a descriptor for the case that its keeper is killed: while the descriptor says that the
/// process lives, its number and its group's are its own.
#[derive(Debug)]
struct Target {
    pid: Option<Pid>,
    held: Option<OwnedFd>,
}

impl Target {
    fn hold(pid: u32) -> Self {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Self { pid, held: pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) }
    }

    fn kill_group(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        if let (Some(pid), Some(held)) = (self.pid, &self.held) {
            let mut fds = [PollFd::new(held, PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut fds, Some(&now)) == Ok(0) {
                let _ = kill_process_group(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// The keeper's own process, which is our child and must be reaped.
#[derive(Debug)]
struct Keeper(Option<Child>);

/// Keepers whose supervising task went away with its runtime. They end by themselves; the next spawn reaps them.
static LEFT: Mutex<Vec<Child>> = Mutex::new(Vec::new());

impl Keeper {
    /// Nothing of the order is on its command line or in its environment, where others could read it.
    fn start(shim: &Path, socket: StdUnixStream) -> io::Result<Self> {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        let mut command = StdCommand::new(shim);
        command.arg(shim::ARG).env_clear();
        command.stdin(OwnedFd::from(socket)).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(|child| Self(Some(child)))
    }

    /// Waits for a keeper that has said its last word.
    async fn reap(mut self) {
        let Some(child) = &mut self.0 else { return };
        if matches!(child.try_wait(), Ok(None))
            && let Ok(held) = pidfd_open(Pid::from_child(child), PidfdFlags::empty())
            && let Ok(held) = sys::watch_readable(held)
        {
            let _ = held.readable().await;
        }
        if !matches!(child.try_wait(), Ok(None)) {
            self.0 = None;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take()
            && matches!(child.try_wait(), Ok(None))
        {
            LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        }
    }
}
