//! Either end of a connection, where the loop and the handles do not care which.

use std::sync::Arc;
use std::time::Instant;

use pintle_acp::{
    AgentEnd, AgentEvent, Call, ClientEnd, ClientEvent, Counters, OutId, Output, Reply, ReplyToken, SendError,
    UpdateError,
};

use super::link::{State, Waiter};
use super::stream::Sink;

#[derive(Debug)]
pub(crate) enum End {
    Agent(Box<AgentEnd<Waiter>>),
    Client(Box<ClientEnd<Waiter>>),
}

/// An event of either end.
pub(crate) enum Event {
    Agent(AgentEvent<Waiter>),
    /// With the sink of the turn that an update belongs to.
    Client(ClientEvent<Waiter>, Option<Arc<Sink>>),
}

/// The same call on whichever end it is.
macro_rules! either {
    ($end:expr, $it:ident => $call:expr) => {
        match $end {
            End::Agent($it) => $call,
            End::Client($it) => $call,
        }
    };
}

impl End {
    pub(crate) fn request(
        &mut self,
        call: &Call,
        deadline: Option<Instant>,
        waiter: Waiter,
    ) -> Result<OutId, SendError> {
        either!(self, end => end.request(call, deadline, waiter)).map_err(|(error, _)| error)
    }

    pub(crate) fn notify(&mut self, call: &Call) -> Result<(), SendError> {
        either!(self, end => end.notify(call))
    }

    pub(crate) fn cancel_request(&mut self, id: OutId) {
        drop(either!(self, end => end.cancel_request(id)));
    }

    pub(crate) fn reply(&mut self, now: Instant, token: ReplyToken, reply: &Reply) {
        match self {
            Self::Agent(end) => end.reply(now, token, reply),
            Self::Client(end) => end.reply(token, reply),
        }
    }

    pub(crate) fn close(&mut self, now: Instant) {
        match self {
            Self::Agent(end) => end.close(now),
            Self::Client(end) => end.close(),
        }
    }

    /// Bytes of calls that still wait after `bytes` were written.
    pub(crate) fn wrote(&mut self, bytes: usize) -> usize {
        either!(self, end => {
            end.wrote(bytes);
            end.backlog_bytes().0
        })
    }

    /// The agent's end; a turn or session handle of an agent exists on no other.
    pub(crate) fn agent(&mut self) -> Result<&mut AgentEnd<Waiter>, UpdateError> {
        match self {
            Self::Agent(end) => Ok(end),
            Self::Client(_) => Err(SendError::Closed.into()),
        }
    }

    /// The client's end; a turn stream exists on no other.
    pub(crate) fn client(&mut self) -> Result<&mut ClientEnd<Waiter>, SendError> {
        match self {
            Self::Client(end) => Ok(end),
            Self::Agent(_) => Err(SendError::Closed),
        }
    }

    pub(crate) fn is_client(&self) -> bool {
        matches!(self, Self::Client(_))
    }

    pub(crate) fn is_idle(&self) -> bool {
        either!(self, end => end.backlog_bytes().1 == 0)
    }

    /// Bytes that wait to be written, if nobody waits for any of them: notifications alone.
    pub(crate) fn unawaited_bytes(&self) -> Option<usize> {
        either!(self, end => end.unawaited_bytes())
    }

    pub(crate) fn peer_offers(&self, method: &str) -> bool {
        either!(self, end => end.peer_offers(method))
    }

    pub(crate) fn is_initialized(&self) -> bool {
        either!(self, end => end.is_initialized())
    }

    pub(crate) fn counters(&self) -> Counters {
        either!(self, end => end.counters())
    }

    pub(crate) fn count_handler_panic(&mut self) {
        either!(self, end => end.count_handler_panic());
    }

    pub(crate) fn count_dropped_notification(&mut self) {
        either!(self, end => end.count_dropped_notification());
    }

    pub(crate) fn count_shed_notification(&mut self) {
        either!(self, end => end.count_shed_notification());
    }

    pub(crate) fn count_shed_answer(&mut self) {
        either!(self, end => end.count_shed_answer());
    }

    // The five verbs.

    pub(crate) fn feed(&mut self, now: Instant, bytes: &[u8]) {
        either!(self, end => end.feed(now, bytes));
    }

    pub(crate) fn eof(&mut self, now: Instant) {
        either!(self, end => end.eof(now));
    }

    pub(crate) fn lost(&mut self) {
        either!(self, end => end.lost());
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        either!(self, end => end.poll_output())
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        either!(self, end => end.poll_timeout())
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        either!(self, end => end.handle_timeout(now));
    }

    pub(crate) fn wants_input(&self) -> bool {
        either!(self, end => end.wants_input())
    }
}

impl State {
    /// Everything that happened since the last call.
    pub(crate) fn events(&mut self, now: Instant, into: &mut Vec<Event>) {
        match &mut self.end {
            End::Agent(end) => {
                end.reap(now);
                into.extend(std::iter::from_fn(|| end.poll_event()).map(Event::Agent));
            }
            End::Client(end) => {
                end.reap();
                while let Some(event) = end.poll_event() {
                    let mut sink = None;
                    match &event {
                        ClientEvent::Update { delivery: Some(delivery), .. } => {
                            sink = self.sinks.get(&delivery.prompt).cloned();
                        }
                        ClientEvent::Outcome { waiter: Waiter::Stream(ended), .. } => {
                            self.sinks.retain(|_, sink| !Arc::ptr_eq(sink, ended));
                        }
                        _ => {}
                    }
                    into.push(Event::Client(event, sink));
                }
            }
        }
    }
}
