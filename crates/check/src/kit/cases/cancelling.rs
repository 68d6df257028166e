//! Cancellation.

use pintle_sdk::driver::{CoreEvent, ErrorClass, TerminalStatus};
use serde_json::json;

use super::invocations::{active, lasting, operation, other_id};
use super::refused;
use crate::kit::Trial;
use crate::kit::catalog::id;
use crate::kit::session::Session;
use crate::kit::stop::{Step, Stop};

/// An active invocation of a driver that can cancel.
async fn cancellable<'a>(trial: &'a Trial<'_>) -> Step<Session<'a>> {
    if !trial.rig.hello.as_ref().is_none_or(|hello| hello.capabilities.cancellation) {
        return Err(Stop::NotAdvertised);
    }
    lasting(trial)?;
    active(trial).await
}

/// Cancels, so many times, and follows it to the end: how the invocation ended.
///
/// The end may overtake a second cancel, which is then refused rightly.
async fn cancelled(session: &mut Session<'_>, trial: &Trial<'_>, times: usize) -> Step<TerminalStatus> {
    for _ in 0..times {
        session.cancel(trial.rig.request.cancel)?;
    }
    let (mut answers, mut status) = (0, None);
    loop {
        match session.event().await? {
            CoreEvent::CancelAcknowledged { acknowledged: true, .. } => answers += 1,
            CoreEvent::CancelAcknowledged { acknowledged: false, .. } => {
                return Err(Stop::breaks(id::CANCEL, "the answer to driver.cancel says that it was not taken"));
            }
            CoreEvent::Refused { error, .. } if answers > 0 && error.data.class == ErrorClass::InvalidState => {
                answers += 1;
            }
            CoreEvent::Refused { error, .. } => {
                return Err(Stop::breaks(id::CANCEL, format!("driver.cancel was refused ({})", error.data.class)));
            }
            CoreEvent::Completed(completed) => status = Some(completed.status),
            _ => {}
        }
        if let Some(status) = status.filter(|_| answers >= times) {
            return Ok(status);
        }
    }
}

pub(super) async fn cancel(trial: &Trial<'_>) -> Step<()> {
    let mut session = cancellable(trial).await?;
    cancelled(&mut session, trial, 1).await?;
    session.close().await
}

pub(super) async fn status(trial: &Trial<'_>) -> Step<()> {
    let mut session = cancellable(trial).await?;
    let status = cancelled(&mut session, trial, 1).await?;
    session.close().await?;
    match status {
        TerminalStatus::Cancelled => Ok(()),
        other => Err(Stop::unmet(format!("the status is {}", other.as_str()))),
    }
}

pub(super) async fn twice(trial: &Trial<'_>) -> Step<()> {
    let mut session = cancellable(trial).await?;
    match cancelled(&mut session, trial, 2).await {
        Ok(_) => session.close().await,
        Err(Stop::Breaks { id: id::CANCEL, detail }) => Err(Stop::Unmet(detail)),
        Err(stop) => Err(stop),
    }
}

pub(super) async fn another(trial: &Trial<'_>) -> Step<()> {
    let mut session = cancellable(trial).await?;
    let params = json!({"deadline_millis": 1000, "invocation_id": other_id()?, "reason": "another one"});
    let answer = session.ask("driver.cancel", Some(params)).await?;
    refused(&answer, "driver.cancel of another invocation", &[ErrorClass::InvalidRequest])?;
    // It goes on, so it can still be cancelled.
    cancelled(&mut session, trial, 1).await?;
    session.close().await
}

pub(super) async fn and_on(trial: &Trial<'_>) -> Step<()> {
    let operation = operation(trial)?;
    let mut session = cancellable(trial).await?;
    cancelled(&mut session, trial, 1).await?;
    session.invoke(operation)?;
    match session.completed(trial.rig.request.invocation).await {
        Ok(completed) if completed.status == TerminalStatus::Completed => session.close().await,
        Ok(completed) => Err(Stop::unmet(format!("it ended as {}", completed.status.as_str()))),
        Err(Stop::Breaks { id: id::INVOKE, detail }) => Err(Stop::Unmet(detail)),
        Err(stop) => Err(stop),
    }
}
