//! What neither std nor rustix offers: signal masks, dispositions and a descriptor for signals, forks, namespaces. The one
//! module of this crate that may be unsafe.

#![expect(
    unsafe_code,
    reason = "signal masks, signalfd, fork, namespaces and tokio's registration of descriptors have no safe wrapper"
)]

use std::{
    ffi::CStr,
    io, mem,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    process::Command,
    ptr,
    sync::{Mutex, Once, PoisonError},
};

use rustix::fs::OFlags;
use rustix::process::Pid;
use tokio::io::{Interest, unix::AsyncFd};

use crate::process::Exit;

/// Signals that a keeper takes from a descriptor: a child changed, or somebody asks the keeper to go.
const TAKEN: [libc::c_int; 5] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// Signals of this process, readable from a descriptor instead of being delivered.
#[derive(Debug)]
pub(crate) struct Signals(OwnedFd);

/// What [`Signals::drain`] found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    /// One of TERM, INT, HUP, QUIT arrived.
    pub(crate) asked_to_go: bool,
}

impl Signals {
    /// Blocks the signals that a keeper takes, and opens a descriptor for them. Call it in a process of one thread.
    pub(crate) fn take() -> io::Result<Self> {
        let set = signal_set(&TAKEN);
        // SAFETY: `set` is initialised and outlives the call; the old mask is not asked for.
        check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) })?;
        // SAFETY: `set` is initialised; -1 asks for a new descriptor.
        let fd = check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) })?;
        // SAFETY: signalfd has just returned this descriptor, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Empties the descriptor.
    pub(crate) fn drain(&self) -> Drained {
        let mut drained = Drained::default();
        loop {
            let mut info = mem::MaybeUninit::<libc::signalfd_siginfo>::uninit();
            let size = size_of::<libc::signalfd_siginfo>();
            // SAFETY: the buffer has `size` writable bytes and outlives the call.
            let got = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
            if usize::try_from(got) != Ok(size) {
                return drained;
            }
            // SAFETY: the kernel has filled the whole of it.
            let signo = unsafe { info.assume_init() }.ssi_signo;
            drained.asked_to_go |= signo != libc::SIGCHLD.cast_unsigned();
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A descriptor whose readiness to be read can be awaited.
pub(crate) fn watch_readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open for as long as it lives, always gives the same number, and the `AsyncFd` takes it.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(io::Error::from)
}

/// A descriptor whose readiness can be awaited. It comes back where the kernel cannot poll it, as with a regular file.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> Result<AsyncFd<OwnedFd>, (OwnedFd, io::Error)> {
    // SAFETY: an `OwnedFd` is open for as long as it lives, always gives the same number, and the `AsyncFd` takes it.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(|refused| refused.into_parts())
}

/// Descriptors whose mode is to be given back if the process exits while they are in use.
static CHANGED_MODES: Mutex<Vec<(RawFd, libc::c_int)>> = Mutex::new(Vec::new());

/// Gives a descriptor its mode back when the process exits (by `exit`, or by returning from `main`) before
/// [`forget_at_exit`].
pub(crate) fn restore_at_exit(fd: &OwnedFd, flags: OFlags) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function takes nothing, returns nothing and cannot unwind. If it cannot be registered, the mode is
        // given back on drop only.
        unsafe { libc::atexit(restore_modes) };
    });
    let flags = libc::c_int::try_from(flags.bits()).unwrap_or(0);
    CHANGED_MODES.lock().unwrap_or_else(PoisonError::into_inner).push((fd.as_raw_fd(), flags));
}

/// The descriptor is about to be closed.
pub(crate) fn forget_at_exit(fd: RawFd) {
    CHANGED_MODES.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| *other != fd);
}

extern "C" fn restore_modes() {
    // Another thread may be in the middle of it, and will not come back.
    if let Ok(modes) = CHANGED_MODES.try_lock() {
        for (fd, flags) in modes.iter() {
            // SAFETY: changing the mode of a number touches no memory; whoever closes one of these takes it out before.
            unsafe { libc::fcntl(*fd, libc::F_SETFL, *flags) };
        }
    }
}

/// A child that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) pid: libc::pid_t,
    pub(crate) exit: Exit,
}

/// Whether a look at an ended child takes it out of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// It stays, and its number with it.
    Peek,
    /// Its number is free for others from here on.
    Reap,
}

/// A child that has ended, any one, without waiting. `Ok(None)` where none has; an error where there is no child at all.
///
/// (rustix's `waitid` does not tell which child it was.)
pub(crate) fn ended_child(look: Look) -> io::Result<Option<Dead>> {
    let options = libc::WEXITED | libc::WNOHANG | if look == Look::Peek { libc::WNOWAIT } else { 0 };
    let mut info = mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: `info` has room for what the kernel writes and outlives the call.
    check(unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) })?;
    // SAFETY: all zeros is a valid value, and the kernel has written over it where a child has ended.
    let info = unsafe { info.assume_init() };
    // SAFETY: the fields of a child's end are the ones that waitid fills; zeros otherwise.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return Ok(None);
    }
    let exit = if info.si_code == libc::CLD_EXITED { Exit::Code(status) } else { Exit::Signal(status) };
    Ok(Some(Dead { pid, exit }))
}

/// Gives back what a parent may have taken away: no signal blocked, none ignored. A program started from a shell's
/// background job, or by a thread with a mask, would pass both on to its children.
///
/// SIGPIPE stays ignored here (std's `Command` gives it back to the child).
pub(crate) fn reset_signals() -> io::Result<()> {
    let none = signal_set(&[]);
    // SAFETY: `none` is initialised and outlives the call; the old mask is not asked for.
    check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()) })?;
    for signo in 1..=libc::SIGRTMAX() {
        if !matches!(signo, libc::SIGPIPE | libc::SIGKILL | libc::SIGSTOP | libc::SIGSEGV | libc::SIGBUS) {
            // SAFETY: the default action is not a function of ours. An invalid number is refused without effect.
            unsafe { libc::signal(signo, libc::SIG_DFL) };
        }
    }
    Ok(())
}

/// Closes every descriptor from 3 on: what the parent leaked must not reach the child.
///
/// # Safety
/// Nothing in this process may own a descriptor from 3 on: call it first thing in `main`, with one thread.
pub(crate) unsafe fn close_inherited() -> io::Result<()> {
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd >= 3)
        .collect();
    for fd in open {
        // SAFETY: by this function's contract nobody owns it. The listing's own descriptor is closed by now: closing it
        // again is refused.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

/// Which of the two processes this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forked {
    Child,
    Parent(Pid),
}

/// Forks this process, which must have one thread.
pub(crate) fn fork() -> io::Result<Forked> {
    one_thread()?;
    // SAFETY: with one thread there is no lock that another one could hold in the child, which goes on as this process.
    let pid = check(unsafe { libc::fork() })?;
    Ok(Pid::from_raw(pid).map_or(Forked::Child, Forked::Parent))
}

/// Lets `prepare` run in the child between its fork and its exec. This process must have one thread.
pub(crate) fn before_exec(
    command: &mut Command,
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    one_thread()?;
    // SAFETY: with one thread there is no lock that another one could hold in the child, so it may do what a fork may do.
    unsafe { command.pre_exec(prepare) };
    Ok(())
}

fn one_thread() -> io::Result<()> {
    if std::fs::read_dir("/proc/self/task")?.count() == 1 {
        Ok(())
    } else {
        Err(io::Error::other("a process with threads cannot be forked"))
    }
}

/// Ends this process at once: no destructor runs, and nothing that its parent has buffered is written twice.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: it takes no pointer and does not return.
    unsafe { libc::_exit(code) }
}

/// Puts this process into a user namespace of its own, and the processes that it starts into a PID namespace of theirs.
pub(crate) fn own_user_and_pid_namespace() -> io::Result<()> {
    // SAFETY: no pointer is passed, and what is unshared is no memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) }).map(drop)
}

/// Gives this process a `/proc` that shows its own PID namespace, in a mount namespace of its own.
pub(crate) fn own_proc() -> io::Result<()> {
    // SAFETY: no pointer is passed, and what is unshared is no memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWIPC) })?;
    mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE)?;
    mount(Some(c"proc"), c"/proc", Some(c"proc"), libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC)
}

fn mount(source: Option<&CStr>, target: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: the strings end in NUL and outlive the call; there is no data.
    check(unsafe { libc::mount(pointer(source), target.as_ptr(), pointer(kind), flags, ptr::null()) }).map(drop)
}

fn signal_set(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set that it is given; sigaddset changes an initialised one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signo in signals {
            libc::sigaddset(set.as_mut_ptr(), *signo);
        }
        set.assume_init()
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
