//! Bounds and times of a connection.

use std::time::Duration;

/// Bounds and times of one connection. Every queue, table, line and wait of it is bounded by a field here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Longest line accepted, without its ending. A longer one is drained to its end and answered -32700 once.
    pub max_line_bytes: usize,
    /// Requests of the peer that may be unanswered at a time. One more is answered -32603 "server busy".
    pub max_inflight_requests: usize,
    /// Bytes of params of the peer's unanswered requests. A request that would go past it is answered -32603 "server busy",
    /// unless it is the only one.
    pub max_inflight_bytes: usize,
    /// Longest id of a request of the peer, as it is spelled. A longer one is answered -32600 with id null, since ids are
    /// kept and echoed. Session ids that a peer makes up are bounded alike: longer ones are not opened (-32602), and no
    /// updates are kept for them.
    pub max_id_bytes: usize,
    /// Our own requests that may be unanswered at a time. One more is refused locally.
    pub max_outbound_requests: usize,
    /// Frames kept while `initialize` is being answered. One more request is answered -32603 "server busy", one more
    /// notification is dropped and counted.
    pub max_held_frames: usize,
    /// Bytes of params of those frames, answered and counted alike; one frame is kept whatever its size.
    pub max_held_bytes: usize,
    /// Sessions that may be open at a time on an agent's connection.
    pub max_sessions: usize,
    /// Prompts kept for a session that is still being loaded or resumed.
    pub max_waiting_prompts_per_session: usize,
    /// Bytes of calls (updates, notifications, requests) that wait to be written before the next sender is told "full".
    pub max_call_backlog_bytes: usize,
    /// Bytes of replies that wait to be written before nothing more is read: a peer that does not read its answers gets
    /// no more of them.
    pub max_reply_backlog_bytes: usize,
    /// Bytes of the peer's answers that nobody has taken yet: a request whose answer finds no room, and is not the only
    /// one, ends as "no room" instead. Kept by the runtime around the ends, which hand answers over at once.
    pub max_untaken_answer_bytes: usize,
    /// Updates of one `session/new` that wait for its reply, because the client does not know the id before.
    pub max_updates_after_reply: usize,
    /// How long a cancelled turn may take to wind down before it is stopped.
    pub cancel_backstop: Duration,
    /// How long a session may be without a turn before it is closed; none by default.
    pub session_idle_timeout: Option<Duration>,
    /// On the client: updates kept for one session whose id is not known yet.
    pub max_early_updates_per_session: usize,
    /// On the client: sessions whose id is not known yet and for which updates are kept.
    pub max_early_sessions: usize,
    /// On the client: bytes of all of those updates.
    pub max_early_bytes: usize,
    /// Whether a frame must say `"jsonrpc":"2.0"`. Off, a frame without that member is read as if it had it.
    pub require_jsonrpc: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_line_bytes: 64 * 1024 * 1024,
            max_inflight_requests: 1000,
            max_inflight_bytes: 256 * 1024 * 1024,
            max_id_bytes: 4096,
            max_outbound_requests: 4096,
            max_held_frames: 256,
            max_held_bytes: 16 * 1024 * 1024,
            max_sessions: 4096,
            max_waiting_prompts_per_session: 16,
            max_call_backlog_bytes: 128 * 1024,
            max_reply_backlog_bytes: 4 * 1024 * 1024,
            max_untaken_answer_bytes: 256 * 1024 * 1024,
            max_updates_after_reply: 256,
            cancel_backstop: Duration::from_secs(30),
            session_idle_timeout: None,
            max_early_updates_per_session: 256,
            max_early_sessions: 64,
            max_early_bytes: 4 * 1024 * 1024,
            require_jsonrpc: true,
        }
    }
}

/// How long requests wait for an answer, where the caller names no other time.
pub mod timeouts {
    use std::time::Duration;

    /// `initialize`: an agent that its launcher has to fetch first may need most of it.
    pub const INITIALIZE: Duration = Duration::from_secs(60);
    /// `session/new`, `session/load`, `session/resume`: an agent starts its tool servers, and may replay a long history.
    pub const OPEN_SESSION: Duration = Duration::from_secs(300);
    /// `session/list`, `session/close`, `session/delete`, `session/set_mode`, `session/set_config_option`, `logout`.
    pub const CONTROL: Duration = Duration::from_secs(60);
    /// `authenticate`: a person logs in.
    pub const AUTHENTICATE: Duration = Duration::from_secs(600);
    /// `session/request_permission`: a person has to decide.
    pub const PERMISSION: Duration = Duration::from_secs(600);
    /// `fs/*` and `terminal/*`, but for [`TERMINAL_EXIT`].
    pub const CALLBACK: Duration = Duration::from_secs(30);
    /// `terminal/wait_for_exit`.
    pub const TERMINAL_EXIT: Duration = Duration::from_secs(30 * 60);
}
