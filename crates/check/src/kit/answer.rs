//! What comes back from a driver beside Core's events.

use pintle_sdk::driver::{InstanceId, RpcError};
use pintle_sdk::process::Exit;

use super::stop::{Step, Stop};

/// The answer to a request that the kit made past Core's session.
#[derive(Debug)]
pub(super) enum Answer {
    /// A result, as its text.
    Result(Box<str>),
    /// An error.
    Error(RpcError),
}

/// How a process ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) exit: Option<Exit>,
    /// It had to be told by a signal.
    pub(super) signalled: bool,
}

/// A refusal, in words.
pub(super) fn refusal(error: &RpcError) -> String {
    format!("driver refused it ({})", error.data.class)
}

/// A fresh id.
pub(super) fn new_id() -> Step<InstanceId> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| Stop::Environment("get randomness".to_owned()))?;
    let millis = jiff::Timestamp::now().as_millisecond();
    InstanceId::new(millis, random).map_err(|error| Stop::Environment(error.to_string()))
}
