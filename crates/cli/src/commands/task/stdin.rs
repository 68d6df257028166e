//! Standard input with a bound on bytes and on time, without a thread (A11).

use std::io;
use std::time::Duration;

/// What was read.
#[derive(Debug)]
pub(super) struct Input {
    /// The bytes, at most one more than the limit.
    pub(super) bytes: Vec<u8>,
}

/// A writer that has sent a whole object but keeps its end open is given this much time to add something.
#[cfg(unix)]
const AFTER_OBJECT_MS: u64 = 100;

/// At least this much is asked for at once; a prompt's input is smaller.
#[cfg(unix)]
const CHUNK_BYTES: usize = 2048;

/// Reads to the end of standard input, to one byte past `limit_bytes`, or until `wait` is over, whichever comes first.
///
/// A host that never closes the pipe costs at most `wait`, and what it has written by then is used.
#[cfg(unix)]
pub(super) fn read(limit_bytes: usize, wait: Duration) -> io::Result<Input> {
    use std::time::Instant;

    use rustix::buffer::spare_capacity;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    // Not `std::io::stdin`, whose buffer is of no use here; and no buffer on the stack, whose untouched pages cost a fault
    // each: together a tenth of the time of a hook that has nothing to do.
    let stdin = rustix::stdio::stdin();
    let deadline = Instant::now() + wait;
    let mut bytes = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || bytes.len() > limit_bytes {
            break;
        }
        let looks_whole = bytes.trim_ascii_end().ends_with(b"}");
        let short = Duration::from_millis(AFTER_OBJECT_MS).min(left);
        let this_wait = if looks_whole { short } else { left };
        let timeout = Timespec {
            tv_sec: i64::try_from(this_wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: this_wait.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) if looks_whole && is_whole(&bytes) => break,
            Ok(0) => continue,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        bytes.reserve(CHUNK_BYTES);
        match rustix::io::read(stdin, spare_capacity(&mut bytes)) {
            Ok(0) => break,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(limit_bytes.saturating_add(1));
    Ok(Input { bytes })
}

/// Without `poll(2)` on pipes, reading waits for the end; the host's time-out bounds it.
#[cfg(not(unix))]
pub(super) fn read(limit_bytes: usize, _wait: Duration) -> io::Result<Input> {
    use std::io::Read;

    let mut bytes = Vec::new();
    let limit = u64::try_from(limit_bytes).unwrap_or(u64::MAX).saturating_add(1);
    io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    Ok(Input { bytes })
}

#[cfg(unix)]
fn is_whole(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    pintle_wire::scan(bytes, pintle_wire::Profile::Acp, pintle_wire::ScanLimits::DEPTH_ONLY).is_ok()
}
