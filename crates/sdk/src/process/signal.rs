//! Signals, by the names that every system has.

/// The signals that a child may be sent.
///
/// Windows has two of them: [`Signal::Kill`], and Ctrl-Break for all the others but [`Signal::Stop`] and
/// [`Signal::Continue`], which do nothing there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Term,
    /// SIGHUP.
    Hangup,
    /// SIGQUIT.
    Quit,
    /// SIGUSR1.
    User1,
    /// SIGUSR2.
    User2,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Continue,
    /// SIGKILL, to the group only; see [`Process::kill`](super::Process::kill) for all.
    Kill,
}

impl Signal {
    #[cfg(unix)]
    pub(super) fn to_rustix(self) -> rustix::process::Signal {
        use rustix::process::Signal as Named;
        match self {
            Self::Interrupt => Named::INT,
            Self::Term => Named::TERM,
            Self::Hangup => Named::HUP,
            Self::Quit => Named::QUIT,
            Self::User1 => Named::USR1,
            Self::User2 => Named::USR2,
            Self::Stop => Named::STOP,
            Self::Continue => Named::CONT,
            Self::Kill => Named::KILL,
        }
    }
}
