//! Invocations: what is carried out, what is refused meanwhile, and their end.

use std::time::Duration;

use pintle_sdk::driver::{ErrorClass, TerminalStatus};
use serde_json::json;

use super::lifecycle::{by_itself, invocation};
use super::refused;
use crate::kit::Trial;
use crate::kit::answer::new_id;
use crate::kit::catalog::id;
use crate::kit::rig::KitOperation;
use crate::kit::session::Session;
use crate::kit::stop::{Step, Stop};

/// How long a Core that reads late does not read.
const PAUSE: Duration = Duration::from_millis(300);

/// The operation that ends on its own.
pub(super) fn operation<'a>(trial: &'a Trial<'_>) -> Step<&'a KitOperation> {
    declared(trial, trial.rig.request.operation.as_ref(), "no operation is given to try invocations with")
}

/// The operation that goes on until it is cancelled.
pub(super) fn lasting<'a>(trial: &'a Trial<'_>) -> Step<&'a KitOperation> {
    let none = "no operation is given that goes on until it is cancelled";
    declared(trial, trial.rig.request.lasting.as_ref(), none)
}

fn declared<'a>(trial: &Trial<'_>, operation: Option<&'a KitOperation>, none: &'static str) -> Step<&'a KitOperation> {
    let operation = operation.ok_or(Stop::NotExercised(none))?;
    let known = trial
        .rig
        .hello
        .as_ref()
        .is_none_or(|hello| hello.capabilities.operations.iter().any(|declared| **declared == *operation.name));
    if known { Ok(operation) } else { Err(Stop::NotAdvertised) }
}

async fn carry_out(session: &mut Session<'_>, trial: &Trial<'_>) -> Step<()> {
    session.invoke(operation(trial)?)?;
    let completed = session.completed(trial.rig.request.invocation).await?;
    match completed.status {
        TerminalStatus::Completed => Ok(()),
        status => Err(Stop::breaks(id::INVOKE, format!("the operation ended as {}", status.as_str()))),
    }
}

pub(super) async fn invoke(trial: &Trial<'_>) -> Step<()> {
    operation(trial)?;
    let mut session = trial.prepared().await?;
    carry_out(&mut session, trial).await?;
    session.close().await
}

pub(super) async fn undeclared(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.prepared().await?;
    let params = invocation(&mut session, "x.kit.undeclared")?;
    let answer = session.ask("driver.invoke", Some(params)).await?;
    refused(&answer, "an operation that is not declared", &[ErrorClass::CapabilityMismatch])?;
    session.still_usable().await?;
    session.end().await.map(|_| ())
}

pub(super) async fn wrong_params(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.prepared().await?;
    let declared = trial.rig.hello.as_ref().and_then(|hello| hello.capabilities.operations.first().cloned());
    let whole = invocation(&mut session, declared.as_deref().unwrap_or("x.kit.none"))?;
    for (member, value, what) in [
        ("invocation_id", json!("latest"), "an invocation id that is none"),
        ("attempt_id", json!("01890A5D-AC96-774B-BCCE-B302099A8057"), "an attempt id in capitals"),
        ("operation", json!(""), "an empty operation"),
        ("ephemeral_exact_input_handle", json!({"kind": "file", "value": "x"}), "an input of no known kind"),
        ("ephemeral_exact_input_handle", json!({"kind": "pipe", "value": ""}), "an empty input handle"),
    ] {
        let mut params = whole.clone();
        params[member] = value;
        let answer = session.ask("driver.invoke", Some(params)).await?;
        refused(&answer, what, &[ErrorClass::InvalidRequest])?;
    }
    session.still_usable().await?;
    session.end().await.map(|_| ())
}

pub(super) async fn in_a_row(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.prepared().await?;
    for _ in 0..3 {
        carry_out(&mut session, trial).await.map_err(own)?;
    }
    session.close().await
}

/// What fails the second time although it succeeded once is what is tried here.
fn own(stop: Stop) -> Stop {
    match stop {
        Stop::Breaks { id: id::INVOKE, detail } => Stop::Unmet(detail),
        stop => stop,
    }
}

pub(super) async fn used_id(trial: &Trial<'_>) -> Step<()> {
    let operation = operation(trial)?;
    let mut session = trial.prepared().await?;
    let used = session.invoke(operation)?;
    session.completed(trial.rig.request.invocation).await?;
    let mut params = invocation(&mut session, &operation.name)?;
    params["invocation_id"] = json!(used.to_string());
    let answer = session.ask("driver.invoke", Some(params)).await?;
    refused(&answer, "an invocation id that was completed", &[ErrorClass::InvalidRequest])?;
    session.close().await
}

pub(super) async fn after_reset(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.prepared().await?;
    session.reset().await?;
    carry_out(&mut session, trial).await.map_err(own)?;
    session.reset().await?;
    carry_out(&mut session, trial).await.map_err(own)?;
    session.close().await
}

pub(super) async fn slow_reader(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.prepared().await?;
    session.invoke(operation(trial)?)?;
    session.pause_reading(PAUSE).await?;
    session.completed(trial.rig.request.invocation).await.map_err(own)?;
    session.close().await
}

/// A driver with an invocation that goes on.
pub(super) async fn active<'a>(trial: &'a Trial<'_>) -> Step<Session<'a>> {
    let operation = lasting(trial)?;
    let mut session = trial.prepared().await?;
    session.invoke(operation)?;
    session.taken().await?;
    Ok(session)
}

pub(super) async fn second(trial: &Trial<'_>) -> Step<()> {
    if trial.rig.hello.as_ref().is_some_and(|hello| hello.capabilities.max_active_invocations() > 1) {
        return Err(Stop::NotExercised("the driver declares concurrency"));
    }
    let mut session = active(trial).await?;
    let params = invocation(&mut session, &lasting(trial)?.name)?;
    let answer = session.ask("driver.invoke", Some(params)).await?;
    refused(&answer, "a second invocation", &[ErrorClass::InvalidState])?;
    session.end().await.map(|_| ())
}

pub(super) async fn others_meanwhile(trial: &Trial<'_>) -> Step<()> {
    let mut session = active(trial).await?;
    let token = session.secret()?;
    let plan = json!({
        "approved_permissions": [], "capability_token": token, "resolved_plan_digest": format!("sha256:{:064}", 1),
    });
    for (method, params) in [
        ("driver.capabilities", None),
        ("driver.reset", None),
        ("driver.prepare", Some(plan)),
        ("driver.shutdown", None),
    ] {
        let answer = session.ask(method, params).await?;
        refused(&answer, &format!("{method} during an invocation"), &[ErrorClass::InvalidState])?;
    }
    session.end().await.map(|_| ())
}

pub(super) async fn end_of_input(trial: &Trial<'_>) -> Step<()> {
    let session = active(trial).await?;
    by_itself(&session.end().await?)
}

/// An id that is not that of the active invocation.
pub(super) fn other_id() -> Step<String> {
    Ok(new_id()?.to_string())
}
