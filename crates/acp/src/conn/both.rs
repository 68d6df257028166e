//! What both ends can be asked and told alike.

use super::core::Phase;
use super::{AgentEnd, ClientEnd, Counters};
use crate::types::Capabilities;

macro_rules! both_ends {
    ($( $end:ident raises $closed:literal; )+) => { $(
        impl<W> $end<W> {
            /// True while the owner should go on reading: the peer takes the answers that it gets.
            pub fn wants_input(&self) -> bool {
                self.core.wants_input()
            }

            /// Bytes of calls that wait to be written, and of everything that does.
            pub fn backlog_bytes(&self) -> (usize, usize) {
                (self.core.out.call_bytes(), self.core.out.pending_bytes())
            }

            /// Bytes that wait to be written, if all of them are notifications that the application has sent: nobody waits
            /// for those, so that they may leave together with the next.
            pub fn unawaited_bytes(&self) -> Option<usize> {
                self.core.out.unawaited_bytes()
            }

            #[doc = concat!("True once [`", $closed, "`](super::", $closed, ") was raised.")]
            pub fn is_closed(&self) -> bool {
                self.core.phase == Phase::Closed
            }

            /// True if the peer advertised what `method` needs, or it needs nothing.
            pub fn peer_offers(&self, method: &str) -> bool {
                self.core.theirs.allows(method)
            }

            /// What the peer advertised; nothing before the handshake.
            pub fn peer_capabilities(&self) -> Option<&Capabilities> {
                self.core.theirs.capabilities()
            }

            /// What happened so far, as numbers.
            pub fn counters(&self) -> Counters {
                self.core.counters
            }

            /// Counts a handler's panic, which the connection does not see itself.
            pub fn count_handler_panic(&mut self) {
                self.core.counters.handler_panic += 1;
            }

            /// Counts a notification that found no room before its handler.
            pub fn count_shed_notification(&mut self) {
                self.core.counters.shed_notification += 1;
            }

            /// Counts an answer that found no room before whoever asked had taken those before it.
            pub fn count_shed_answer(&mut self) {
                self.core.counters.shed_answer += 1;
            }

            /// Counts a notification that nobody takes, or that could not be decoded.
            pub fn count_dropped_notification(&mut self) {
                self.core.counters.dropped_notification += 1;
            }
        }
    )+ };
}

both_ends! {
    AgentEnd raises "AgentEvent::Closed";
    ClientEnd raises "ClientEvent::Closed";
}
