//! The order of a session, and its end.

use pintle_sdk::driver::ErrorClass;
use pintle_sdk::process::Exit;
use serde_json::{Value, json};

use super::{names, refused};
use crate::kit::Trial;
use crate::kit::answer::{Answer, Ended, new_id};
use crate::kit::catalog::id;
use crate::kit::session::Session;
use crate::kit::stop::{Step, Stop};

fn digest() -> String {
    format!("sha256:{:064}", 1)
}

fn plan(session: &mut Session<'_>, permissions: &[&str]) -> Step<Value> {
    Ok(json!({
        "approved_permissions": permissions,
        "capability_token": session.secret()?,
        "resolved_plan_digest": digest(),
    }))
}

/// `driver.invoke` of an operation by name, with an input that nobody feeds for long.
pub(super) fn invocation(session: &mut Session<'_>, operation: &str) -> Step<Value> {
    Ok(json!({
        "attempt_id": new_id()?.to_string(),
        "ephemeral_exact_input_handle": {"kind": "pipe", "value": session.input(b"{}")?},
        "invocation_id": new_id()?.to_string(),
        "operation": operation,
    }))
}

pub(super) fn cancellation() -> Step<Value> {
    Ok(json!({"deadline_millis": 1000, "invocation_id": new_id()?.to_string(), "reason": "the kit tries it"}))
}

pub(super) async fn prepare(trial: &Trial<'_>) -> Step<()> {
    let session = trial.prepared().await?;
    session.end().await.map(|_| ())
}

pub(super) async fn wrong_plans(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let whole = plan(&mut session, &[])?;
    let mut wrong = vec![(None, "no params")];
    for (member, value, what) in [
        ("capability_token", json!(""), "an empty token"),
        ("capability_token", json!(7), "a token that is no string"),
        ("resolved_plan_digest", json!("sha256:12"), "a digest that is none"),
        ("approved_permissions", json!("all"), "permissions that are no list"),
        ("fixture_refs", json!([{"kind": "fixture", "content_digest": "x"}]), "a fixture that is none"),
    ] {
        let mut params = whole.clone();
        params[member] = value;
        wrong.push((Some(params), what));
    }
    for (params, what) in wrong {
        let answer = session.ask("driver.prepare", params).await?;
        refused(&answer, &format!("a plan with {what}"), &[ErrorClass::InvalidRequest])?;
    }
    // Nothing has changed: the right plan is still possible.
    let wanted = trial.rig.hello.as_ref().map(|hello| trial.rig.approvable(hello)).unwrap_or_default();
    match session.prepare(wanted).await {
        Ok(_) => session.end().await.map(|_| ()),
        Err(Stop::Breaks { id: id::PREPARE, detail }) => Err(Stop::unmet(format!("afterwards, {detail}"))),
        Err(stop) => Err(stop),
    }
}

pub(super) async fn capabilities(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.prepared().await?;
    let said = trial.transcript.borrow().hello.as_ref().map(|hello| hello.capabilities.clone());
    let now = session.capabilities().await?;
    if said.is_some_and(|said| said != now) {
        return Err(Stop::unmet("the capabilities are not those of driver.hello"));
    }
    session.end().await.map(|_| ())
}

pub(super) async fn reset(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.prepared().await?;
    session.reset().await?;
    session.reset().await?;
    session.still_usable().await?;
    session.end().await.map(|_| ())
}

pub(super) async fn too_early(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.started().await?;
    let answer = session.ask("driver.capabilities", None).await?;
    refused(&answer, "driver.capabilities before driver.hello", &[ErrorClass::InvalidState])?;
    let params = plan(&mut session, &[])?;
    let answer = session.ask("driver.prepare", Some(params)).await?;
    refused(&answer, "driver.prepare before driver.hello", &[ErrorClass::InvalidState])?;
    session.hello().await?;
    for method in ["driver.reset", "driver.shutdown"] {
        let answer = session.ask(method, None).await?;
        refused(&answer, &format!("{method} before driver.prepare"), &[ErrorClass::InvalidState])?;
    }
    let operation = trial.rig.hello.as_ref().and_then(|hello| hello.capabilities.operations.first().cloned());
    let params = invocation(&mut session, operation.as_deref().unwrap_or("x.kit.none"))?;
    let answer = session.ask("driver.invoke", Some(params)).await?;
    refused(&answer, "driver.invoke before driver.prepare", &[ErrorClass::InvalidState])?;
    session.still_usable().await?;
    session.end().await.map(|_| ())
}

pub(super) async fn prepare_twice(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.prepared().await?;
    let wanted = trial.rig.hello.as_ref().map(|hello| trial.rig.approvable(hello)).unwrap_or_default();
    let params = plan(&mut session, &names(&wanted))?;
    let answer = session.ask("driver.prepare", Some(params)).await?;
    refused(&answer, "a second driver.prepare", &[ErrorClass::InvalidState])?;
    session.end().await.map(|_| ())
}

pub(super) async fn idle_cancel(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.prepared().await?;
    let answer = session.ask("driver.cancel", Some(cancellation()?)).await?;
    refused(&answer, "driver.cancel without an invocation", &[ErrorClass::InvalidState])?;
    session.still_usable().await?;
    session.end().await.map(|_| ())
}

pub(super) async fn shutdown(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.prepared().await?;
    match session.ask("driver.shutdown", None).await? {
        Answer::Result(_) => {}
        Answer::Error(error) => return Err(Stop::unmet(format!("it was refused ({})", error.data.class))),
    }
    let ended = session.end().await?;
    by_itself(&ended)?;
    match ended.exit {
        Some(Exit::Code(0)) => Ok(()),
        Some(exit) => Err(Stop::unmet(format!("the driver ended with {exit}"))),
        None => Err(Stop::Environment("how the driver ended was lost".to_owned())),
    }
}

pub(super) fn by_itself(ended: &Ended) -> Step<()> {
    if ended.signalled { Err(Stop::unmet("the driver had to be killed")) } else { Ok(()) }
}

pub(super) async fn after_shutdown(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.prepared().await?;
    let Answer::Result(_) = session.ask("driver.shutdown", None).await? else {
        return Err(Stop::breaks(id::SHUTDOWN, "driver.shutdown was refused"));
    };
    match session.ask("driver.capabilities", None).await {
        Ok(answer) => refused(&answer, "driver.capabilities after driver.shutdown", &[ErrorClass::InvalidState])?,
        // It has ended, as it may.
        Err(Stop::Breaks { id: id::STAYS | id::ANSWERS, .. }) => {}
        Err(stop) => return Err(stop),
    }
    session.end().await.map(|_| ())
}

pub(super) async fn end_of_input(trial: &Trial<'_>) -> Step<()> {
    for prepared in [false, true] {
        let session = if prepared { trial.prepared().await? } else { trial.greeted().await? };
        by_itself(&session.end().await?)?;
    }
    Ok(())
}

pub(super) async fn half_a_frame(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    session.write(&b"{\"jsonrpc\":\"2.0\",\"id\":\"half\",\"method\":\"driver.cap"[..]);
    session.written().await?;
    by_itself(&session.end().await?)
}
