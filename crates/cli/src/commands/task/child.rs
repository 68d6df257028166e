//! Programs that a doctor or an install starts: bounded in time and output, and gone afterwards.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// The most that is read of a child's output, in bytes.
const OUTPUT_MAX_BYTES: u64 = 1 << 20;
/// Lines that may wait to be looked at.
const LINES_WAITING: usize = 64;

/// What a program said.
pub(super) struct Ran {
    /// Its standard output.
    pub(super) stdout: String,
    /// Its exit code; `None` for a signal.
    pub(super) code: Option<i32>,
}

/// Runs a program to its end.
pub(super) fn run(command: &mut Command, input: &str, wait: Duration) -> io::Result<Ran> {
    let mut talk = Talk::start(command, wait)?;
    talk.write(input)?;
    talk.close_input();
    let mut stdout = String::new();
    while let Some(line) = talk.line()? {
        stdout.push_str(&line);
        stdout.push('\n');
    }
    let code = talk.wait_for_exit()?;
    Ok(Ran { stdout, code })
}

/// A program that is spoken to line by line. Dropping it ends it.
pub(super) struct Talk {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<io::Result<String>>,
    deadline: Instant,
}

impl Talk {
    /// Starts it; all that follows must be over within `wait`.
    pub(super) fn start(command: &mut Command, wait: Duration) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut child = command.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (send, lines) = sync_channel(LINES_WAITING);
        if let Some(output) = output {
            thread::spawn(move || {
                for line in BufReader::new(output.take(OUTPUT_MAX_BYTES)).split(b'\n') {
                    let line = line.map(|line| String::from_utf8_lossy(&line).into_owned());
                    if send.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Self { child, input, lines, deadline: Instant::now() + wait })
    }

    /// Says something; a program that does not listen any more says why in another way.
    pub(super) fn write(&mut self, text: &str) -> io::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        match input.write_all(text.as_bytes()).and_then(|()| input.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn close_input(&mut self) {
        self.input = None;
    }

    /// The next line; `None` at the end of its output.
    pub(super) fn line(&self) -> io::Result<Option<String>> {
        match self.lines.recv_timeout(self.left()) {
            Ok(line) => line.map(Some),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Its exit code, once it has ended.
    pub(super) fn wait_for_exit(&mut self) -> io::Result<Option<i32>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            if self.left().is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(Duration::from_millis(5).min(self.left()));
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        #[cfg(unix)]
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
