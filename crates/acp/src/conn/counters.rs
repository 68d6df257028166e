//! What happened on a connection, as numbers.

/// Things that a connection counts and nobody is told of otherwise.
///
/// Everything here is the peer's doing or the load's, but for the last group: those can only be a fault of the program
/// that uses the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Frames received, of any kind; the newest receive sequence number.
    pub frames_in: u64,
    /// Frames handed over for writing.
    pub frames_out: u64,
    /// Lines that are not strict JSON, or are too long.
    pub parse_error: u64,
    /// JSON that is not a JSON-RPC message.
    pub invalid_frame: u64,
    /// Escapes of half a surrogate pair that were read as U+FFFD.
    pub lone_surrogates: u64,
    /// Requests whose id was already in flight, dropped without a frame.
    pub duplicate_inflight_id: u64,
    /// Responses to nothing that is open: late, repeated, or never asked.
    pub late_response: u64,
    /// Frames of a response's shape that cannot be read as one.
    pub malformed_response: u64,
    /// Notifications that nobody takes: unknown, undecodable, or sent before the handshake.
    pub dropped_notification: u64,
    /// Notifications that found no room.
    pub shed_notification: u64,
    /// Requests that were answered "server busy".
    pub shed_request: u64,
    /// Updates for a session of which the client never learnt, dropped for want of room.
    pub dropped_early_update: u64,
    /// Sessions closed because nothing happened on them.
    pub idle_session_reaped: u64,
    /// Turns that ended well, had something to say to, and sent no update.
    pub zero_update_turn: u64,
    /// Empty text chunks that were refused.
    pub empty_chunk_rejected: u64,
    /// Handlers that panicked.
    pub handler_panic: u64,
    /// Replies that were dropped instead of given.
    pub dropped_reply: u64,
}
