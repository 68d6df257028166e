//! Receiving the order and its descriptors, and starting the target.

use std::{
    io::{self, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command},
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};

use super::{Abilities, confine::Confinement};
use crate::{
    process::{
        Measure, Sandbox,
        named_pipe::{FileId, open_end},
        protocol::{MAX_EXTRA_FDS, MAX_ORDER_BYTES, Order, OrderError, Stage},
    },
    sys,
};

/// Descriptors 3 and up, held so that nothing else gets those numbers before the target's own go there.
#[derive(Debug)]
pub(super) struct Reserved(Vec<OwnedFd>);

impl Reserved {
    /// Call it while nothing is open from 3 on.
    pub(super) fn new(any: impl AsFd) -> io::Result<Self> {
        let mut held = Vec::with_capacity(MAX_EXTRA_FDS);
        for _ in 0..MAX_EXTRA_FDS {
            held.push(fcntl_dupfd_cloexec(&any, 3)?);
        }
        Ok(Self(held))
    }

    /// Puts `extra` at 3, 4 and so on, to be inherited.
    fn place(mut self, extra: Vec<OwnedFd>) -> io::Result<Vec<OwnedFd>> {
        self.0.truncate(extra.len());
        for ((number, slot), fd) in (3..).zip(&mut self.0).zip(extra) {
            if slot.as_raw_fd() != number {
                return Err(io::Error::other("a descriptor that must be free is taken"));
            }
            rustix::io::dup2(&fd, slot)?;
            fcntl_setfd(&*slot, FdFlags::empty())?;
        }
        Ok(self.0)
    }
}

/// An order with the descriptors that came with it.
#[derive(Debug)]
pub(super) struct Received {
    order: Order,
    stdio: [OwnedFd; 3],
    extra: Vec<OwnedFd>,
}

/// Why there is no target.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) stage: Stage,
    pub(super) errno: Option<i32>,
}

impl Refusal {
    pub(super) fn at(stage: Stage, error: &io::Error) -> Self {
        Self { stage, errno: error.raw_os_error() }
    }
}

/// Reads the order. `Ok(None)` when the owner is gone before it was complete.
pub(super) fn receive(control: &mut UnixStream) -> Result<Option<Received>, Refusal> {
    let mut fds = Vec::new();
    let mut length = [0; 4];
    let got = receive_with_fds(control, &mut length, &mut fds).map_err(|error| Refusal::at(Stage::Order, &error))?;
    if got == 0 || !read_whole(control, &mut length[got..])? {
        return Ok(None);
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_ORDER_BYTES {
        return Err(Refusal { stage: Stage::Order, errno: None });
    }
    let mut bytes = vec![0; length];
    if !read_whole(control, &mut bytes)? {
        return Ok(None);
    }
    let order = Order::decode(&bytes).map_err(|error| Refusal {
        stage: if error == OrderError::Version { Stage::Version } else { Stage::Order },
        errno: None,
    })?;
    if fds.len() != 3 + order.extra_fds {
        return Err(Refusal { stage: Stage::Order, errno: None });
    }
    let mut extra = fds.split_off(3);
    if let Some((path, file)) = &order.named_pipe {
        let end = writing_end(path, *file).map_err(|error| Refusal::at(Stage::Setup, &error))?;
        extra.insert(0, end);
        if extra.len() > MAX_EXTRA_FDS {
            return Err(Refusal { stage: Stage::Order, errno: None });
        }
    }
    let stdio = fds.try_into().map_err(|_| Refusal { stage: Stage::Order, errno: None })?;
    Ok(Some(Received { order, stdio, extra }))
}

impl Received {
    pub(super) fn settle_ms(&self) -> u64 {
        self.order.settle_ms
    }

    pub(super) fn sandbox(&self) -> Option<&Sandbox> {
        self.order.sandbox.as_ref()
    }
}

/// All that it takes to start the target, once.
#[derive(Debug)]
pub(super) struct Spawner {
    pub(super) received: Received,
    pub(super) reserved: Reserved,
    pub(super) abilities: Abilities,
    /// The file by which the target joins the control group that counts it.
    pub(super) join: Option<PathBuf>,
}

impl Spawner {
    /// Starts the target, in a process group of its own, and says what it is kept from. Every descriptor that came with
    /// the order is closed here when this returns, so that the target's pipes end with the target.
    ///
    /// `namespaces` says whether this process is in namespaces that are made for the target, or why not.
    pub(super) fn spawn(self, namespaces: Result<(), String>) -> Result<(Child, Vec<Measure>), Refusal> {
        let setup = |error: io::Error| Refusal::at(Stage::Setup, &error);
        let Received { order, stdio: [stdin, stdout, stderr], extra } = self.received;
        let _inherited = self.reserved.place(extra).map_err(setup)?;
        let mut command = Command::new(&order.program);
        command.arg0(&order.arg0).args(&order.args).env_clear().envs(order.env).process_group(0);
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        if let Some(cwd) = &order.cwd {
            if let Err(error) = look_into(cwd) {
                return Err(Refusal::at(Stage::Cwd, &error));
            }
            command.current_dir(cwd);
        }
        let mut said = None;
        if let Some(sandbox) = order.sandbox {
            let confinement = Confinement {
                sandbox,
                program: order.program,
                join: self.join,
                namespaces,
                landlock_abi: self.abilities.landlock_abi,
            };
            let (reader, mut writer) = io::pipe().map_err(setup)?;
            let confine = move || {
                let measures = serde_json::to_vec(&confinement.apply()).map_err(io::Error::other)?;
                writer.write_all(&measures)
            };
            sys::before_exec(&mut command, confine).map_err(setup)?;
            said = Some(reader);
        }
        let child = command.spawn().map_err(|error| Refusal::at(Stage::Exec, &error))?;
        // The writing end goes with the command; the child's was closed by its exec.
        drop(command);
        let mut text = Vec::new();
        let measures = match said {
            Some(mut reader) => reader.read_to_end(&mut text).and_then(|_| Ok(serde_json::from_slice(&text)?)),
            None => Ok(Vec::new()),
        };
        // What nothing is known of is not enforced; the caller says so.
        Ok((child, measures.unwrap_or_default()))
    }
}

/// The end that the target writes to. Its owner reads from it already, so this does not wait; the target's writes do.
fn writing_end(path: &Path, file: FileId) -> io::Result<OwnedFd> {
    let end = open_end(path, file, OFlags::WRONLY)?;
    fcntl_setfl(&end, fcntl_getfl(&end)? - OFlags::NONBLOCK)?;
    std::fs::remove_file(path)?;
    Ok(end)
}

/// Tells a missing working directory from a missing program, which the error of `posix_spawn` does not.
fn look_into(cwd: &Path) -> io::Result<()> {
    if std::fs::metadata(cwd)?.is_dir() { Ok(()) } else { Err(rustix::io::Errno::NOTDIR.into()) }
}

fn receive_with_fds(control: &UnixStream, buf: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3 + MAX_EXTRA_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| {
        recvmsg(control, &mut [IoSliceMut::new(buf)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    Ok(got.bytes)
}

fn read_whole(control: &mut UnixStream, buf: &mut [u8]) -> Result<bool, Refusal> {
    match control.read_exact(buf) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            Ok(false)
        }
        Err(error) => Err(Refusal::at(Stage::Order, &error)),
    }
}
