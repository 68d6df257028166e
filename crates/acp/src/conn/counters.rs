//! What happened on a connection, as numbers.

/// Who can cause what a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CounterClass {
    /// Ordinary traffic.
    Traffic,
    /// Only a peer that does not do as the protocol says, or is late.
    Peer,
    /// More work than there is room or time for.
    Load,
    /// Only the program that uses the connection: a fault of ours, or of its handlers.
    Program,
}

/// The one list of counters. One that is not here does not exist.
macro_rules! counters {
    ($( $(#[$doc:meta])* $name:ident: $class:ident, )*) => {
        /// Things that a connection counts and nobody is told of otherwise.
        ///
        /// They are plain numbers: who wants to know asks, and nothing is sent anywhere.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $( $(#[$doc])* pub $name: u64, )*
        }

        impl Counters {
            /// Every counter: its name, who can cause it, and its number.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, CounterClass, u64)> {
                [$( (stringify!($name), CounterClass::$class, self.$name) ),*].into_iter()
            }
        }
    };
}

counters! {
    /// Frames received, of any kind; the newest receive sequence number.
    frames_in: Traffic,
    /// Frames handed over for writing.
    frames_out: Traffic,
    /// Lines that are not strict JSON, or are too long.
    parse_error: Peer,
    /// JSON that is not a JSON-RPC message.
    invalid_frame: Peer,
    /// Escapes of half a surrogate pair that were read as U+FFFD.
    lone_surrogates: Peer,
    /// Requests whose id was already in flight, dropped without a frame.
    duplicate_inflight_id: Peer,
    /// Responses to nothing that is open: late, repeated, or never asked.
    late_response: Peer,
    /// Frames of a response's shape that cannot be read as one.
    malformed_response: Peer,
    /// Notifications that nobody takes: unknown, undecodable, or sent before the handshake.
    dropped_notification: Peer,
    /// Notifications that found no room.
    shed_notification: Load,
    /// Requests that were answered "server busy".
    shed_request: Load,
    /// Answers that found no room because those before them had not been taken.
    shed_answer: Load,
    /// Updates for a session of which the client never learnt, dropped for want of room.
    dropped_early_update: Load,
    /// Sessions closed because nothing happened on them.
    idle_session_reaped: Load,
    /// Turns that ended well, had something to say to, and sent no update.
    zero_update_turn: Program,
    /// Empty text chunks that were refused.
    empty_chunk_rejected: Program,
    /// Handlers that panicked.
    handler_panic: Program,
    /// Replies that were dropped instead of given.
    dropped_reply: Program,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// the reference's events, by the class that they have there, are all counted, and in that class.
    #[test]
    fn r_291_every_event_has_its_counter_and_class() {
        use CounterClass::{Load, Peer, Program, Traffic};
        let counters = Counters { dropped_reply: 3, ..Counters::default() };
        let of = |class| -> Vec<_> {
            counters.iter().filter(|(_, listed, _)| *listed == class).map(|(name, ..)| name).collect()
        };
        assert_eq!(of(Traffic), ["frames_in", "frames_out"]);
        assert_eq!(
            of(Peer),
            [
                "parse_error",
                "invalid_frame",
                "lone_surrogates",
                "duplicate_inflight_id",
                "late_response",
                "malformed_response",
                "dropped_notification"
            ]
        );
        assert_eq!(
            of(Load),
            ["shed_notification", "shed_request", "shed_answer", "dropped_early_update", "idle_session_reaped"]
        );
        assert_eq!(of(Program), ["zero_update_turn", "empty_chunk_rejected", "handler_panic", "dropped_reply"]);
        assert_eq!(counters.iter().map(|(.., number)| number).sum::<u64>(), 3);
    }
}
