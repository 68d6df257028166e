//! The sidecar `meta.json` (A8): what makes lists and short contexts possible. No part of the protocol; losing it loses
//! convenience and nothing else, so it is read leniently and written without waiting for the disk.

use pintle_wire::{Digest, Profile, ScanLimits};
use serde::{Deserialize, Serialize};

use crate::state::Observed;

/// The largest sidecar that is read.
pub const META_MAX_BYTES: usize = 32 * 1024;
/// How many terminals a sidecar remembers; the one that was quiet longest goes first.
pub const TERMINALS_MAX: usize = 8;
/// Longer paths and names are not remembered.
const FIELD_MAX_BYTES: usize = 4096;
const META_MAX_DEPTH: usize = 8;

/// What is remembered about a session beside its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Where the agent works.
    pub cwd: Option<String>,
    /// The adapter that serves the session.
    pub agent: Option<String>,
    /// The name of the machine.
    pub host: Option<String>,
    /// Seconds since 1970 of the first event.
    pub first_used_unix_s: i64,
    /// Seconds since 1970 of the last event.
    pub last_used_unix_s: i64,
    /// User prompts so far.
    pub prompts: u64,
    /// The last full delivery.
    pub delivered: Option<Delivered>,
    /// The processes that drive the session, as far as they were seen.
    pub terminals: Vec<Terminal>,
    /// The digest of the prompt that was blocked because the state is corrupt; the same prompt passes the next time (A6).
    pub blocked_prompt: Option<String>,
    /// The model was reminded to publish; once is enough (A3).
    pub nudged: bool,
    /// A task has been published here.
    pub published: bool,
    /// The user was told that two terminals share the session.
    pub shared_warned: bool,
    /// The user was told that the file system has no locks (item 17).
    pub lock_warned: bool,
    /// The machine that sent the record, when it came by `task send`; such a task waits to be adopted (A9).
    pub sent_by: Option<String>,
}

/// What the model was last told in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// The digest of the text, or `none`.
    pub text: String,
    /// The generation of that block.
    pub generation: String,
    /// The revision of that block, which short forms point to.
    pub revision: u64,
    /// Contexts given with a prompt since then.
    pub prompts_since: u32,
}

/// A process that drives a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// Its process id.
    pub pid: u32,
    /// When it started, in the unit of the system; tells a new process of the same id apart.
    pub started: u64,
    /// Seconds since 1970 of its last event.
    pub last_used_unix_s: i64,
}

impl Terminal {
    /// Whether both are the same process.
    pub const fn is(&self, other: &Self) -> bool {
        self.pid == other.pid && self.started == other.started
    }
}

impl Meta {
    /// Reads a sidecar; anything unreadable counts as an empty one.
    pub fn decode(bytes: &[u8]) -> Self {
        let limits = ScanLimits { max_bytes: META_MAX_BYTES, max_depth: META_MAX_DEPTH };
        let mut meta: Self =
            pintle_wire::scan(bytes, Profile::Acp, limits).ok().and_then(|text| text.decode().ok()).unwrap_or_default();
        meta.terminals.truncate(TERMINALS_MAX);
        meta
    }

    /// The sidecar as one line of JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Notes an event: when, where, in which process. Returns whether the process is new to the session.
    pub fn touch(&mut self, now_unix_seconds: i64, cwd: Option<&str>, terminal: Option<Terminal>) -> bool {
        if self.first_used_unix_s == 0 {
            self.first_used_unix_s = now_unix_seconds;
        }
        self.last_used_unix_s = now_unix_seconds;
        if let Some(cwd) = cwd.filter(|cwd| cwd.len() <= FIELD_MAX_BYTES) {
            self.cwd = Some(cwd.to_owned());
        }
        // Without a process id every event counts as the same process from the first on.
        let Some(terminal) = terminal else { return self.terminals.is_empty() && self.delivered.is_none() };
        if let Some(known) = self.terminals.iter_mut().find(|known| known.is(&terminal)) {
            known.last_used_unix_s = now_unix_seconds;
            return false;
        }
        if self.terminals.len() >= TERMINALS_MAX {
            let quietest = self
                .terminals
                .iter()
                .enumerate()
                .min_by_key(|(_, known)| known.last_used_unix_s)
                .map(|(index, _)| index);
            if let Some(index) = quietest {
                self.terminals.swap_remove(index);
            }
        }
        self.terminals.push(terminal);
        true
    }

    /// Whether writing this over `before` is worth it: times alone are noted once a minute.
    pub fn differs_noticeably(&self, before: &Self) -> bool {
        const SAME_USE_S: i64 = 60;
        let timeless = |meta: &Self| {
            let mut meta = meta.clone();
            meta.last_used_unix_s = 0;
            meta.terminals.iter_mut().for_each(|terminal| terminal.last_used_unix_s = 0);
            meta
        };
        self.last_used_unix_s - before.last_used_unix_s >= SAME_USE_S || timeless(self) != timeless(before)
    }

    /// Whether another process that is still alive drives the session, and the user does not know it yet. Forgets the
    /// dead ones.
    pub fn warn_of_company(&mut self, own: Option<Terminal>, is_alive: impl Fn(&Terminal) -> bool) -> bool {
        let Some(own) = own else { return false };
        self.terminals.retain(|known| known.is(&own) || is_alive(known));
        let company = self.terminals.len() > 1;
        if !company {
            self.shared_warned = false;
            return false;
        }
        !std::mem::replace(&mut self.shared_warned, true)
    }
}

/// The key under which a delivery is remembered: the text's digest, or `none`.
pub fn text_key(observed: &Observed) -> String {
    observed.task().map_or_else(|| "none".to_owned(), |task| task.text.digest().to_string())
}

/// The digest of a prompt, for [`Meta::blocked_prompt`]: the prompt itself is never stored.
pub fn prompt_key(prompt: &str) -> String {
    Digest::of(prompt.as_bytes()).to_string()
}
