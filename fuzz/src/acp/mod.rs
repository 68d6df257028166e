//! Both ends of an ACP connection, under whatever a peer sends and whatever their application does in between.
//!
//! An input is a script, line by line. A line that begins with `!` is an action of the application (or of time, or of the
//! carrier), named by the letter behind it; every other line is sent by the peer, with its line feed, unless it ends in a
//! backslash. Lines that make no sense do nothing, so that every input is a script.
//!
//! Each script is played twice with other chunk sizes, and must come out the same.

mod agent;
mod client;
mod side;
mod watch;

pub use agent::acp_agent;
pub use client::acp_client;
pub use side::End;

use pintle_acp::Config;
use std::time::{Duration, Instant};

/// One step of a script.
enum Step<'a> {
    /// The peer sends bytes.
    Bytes(Vec<u8>),
    /// The application acts; `rest` is what stands behind the letter.
    Act { what: u8, rest: &'a [u8] },
}

fn steps(input: &[u8]) -> impl Iterator<Item = Step<'_>> {
    input.split(|byte| *byte == b'\n').map(|line| match line {
        [b'!', what, rest @ ..] => Step::Act { what: *what, rest },
        [bytes @ .., b'\\'] => Step::Bytes(bytes.to_vec()),
        bytes => Step::Bytes([bytes, b"\n"].concat()),
    })
}

/// Small bounds, so that short scripts reach them.
fn config() -> Config {
    let mut config = Config::default();
    config.max_line_bytes = 4096;
    config.max_inflight_requests = 6;
    config.max_inflight_bytes = 3000;
    config.max_outbound_requests = 5;
    config.max_id_bytes = 64;
    config.max_held_frames = 4;
    config.max_held_bytes = 400;
    config.max_sessions = 3;
    config.max_waiting_prompts_per_session = 2;
    config.max_call_backlog_bytes = 2000;
    config.max_reply_backlog_bytes = 2000;
    config.max_updates_after_reply = 2;
    config.session_idle_timeout = Some(Duration::from_secs(50));
    config.max_early_updates_per_session = 3;
    config.max_early_sessions = 2;
    config.max_early_bytes = 500;
    config
}

/// A time to count from. The ends look at no clock, so any will do.
fn epoch() -> Instant {
    Instant::now()
}

/// Sizes of chunks, from a seed: 1 to 64 bytes, or all at once for seed 0.
struct Chunks(u32);

impl Chunks {
    fn next(&mut self, left: usize) -> usize {
        if self.0 == 0 {
            return left;
        }
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) | 1;
        ((self.0 >> 26) as usize + 1).min(left)
    }
}

/// A number of seconds, from the first digit of an action.
fn seconds(rest: &[u8]) -> Duration {
    Duration::from_secs(
        rest.first().filter(|digit| digit.is_ascii_digit()).map_or(1, |digit| u64::from(digit - b'0') * 10),
    )
}

/// The rest of an action as JSON, or `or`.
fn json_or(rest: &[u8], or: &'static str) -> serde_json::Value {
    serde_json::from_slice(rest).or_else(|_| serde_json::from_str(or)).unwrap_or_default()
}
