//! What a person sees while a check runs, and what stops it.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use pintle_check::run::Progress;

/// How often a check says where it is when nobody sees a line that is written over.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// One line on standard error that is written over again. When standard error is no terminal, a line of its own every
/// [`LOG_INTERVAL`], so that a log shows that a long check goes on.
#[derive(Debug)]
pub(super) struct ProgressLine {
    shown: bool,
    enabled: bool,
    running: Vec<String>,
    done: Option<(usize, usize)>,
    told: Instant,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        Self {
            shown: false,
            enabled: std::io::stderr().is_terminal(),
            running: Vec::new(),
            done: None,
            told: Instant::now(),
        }
    }

    pub(super) fn show(&mut self, step: &Progress) {
        match step {
            Progress::Started { scenario } => self.running.push(scenario.clone()),
            Progress::Ended { scenario, done, of } => {
                self.running.retain(|running| running != scenario);
                self.done = Some((*done, *of));
            }
            Progress::Judging => self.running = vec!["judging".to_owned()],
        }
        if self.enabled {
            let count = self.done.map(|(done, of)| format!("{done}/{of}  ")).unwrap_or_default();
            self.write(&format!("\r\x1b[K{count}{}", self.running.join("  ")));
            self.shown = true;
        } else if let (Some((done, of)), Progress::Ended { .. }) = (self.done, step)
            && self.told.elapsed() >= LOG_INTERVAL
        {
            self.write(&format!("{done} of {of} scenarios done\n"));
            self.told = Instant::now();
        }
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if self.shown {
            self.write("\r\x1b[K");
            self.shown = false;
        }
    }

    fn write(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        // A terminal that is gone needs no progress.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}

/// The signals that ask a check to stop.
#[cfg(unix)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Takes them over; `None` if the system refuses, and then they do what they always do.
    pub(crate) fn new() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Some(Self {
            interrupt: signal(SignalKind::interrupt()).ok()?,
            terminate: signal(SignalKind::terminate()).ok()?,
            hang_up: signal(SignalKind::hangup()).ok()?,
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// The signals that ask a check to stop.
#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Takes them over.
    pub(crate) fn new() -> Option<Self> {
        Some(Self)
    }

    pub(crate) async fn next(&mut self) {
        // An error means that nobody can press it.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
