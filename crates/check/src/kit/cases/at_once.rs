//! Several invocations at once.

use pintle_sdk::driver::{ErrorClass, InstanceId, MAX_CONCURRENT_INVOCATIONS, TerminalStatus};
use serde_json::json;

use super::invocations::{lasting, operation};
use super::lifecycle::invocation;
use super::refused;
use crate::kit::Trial;
use crate::kit::catalog::id;
use crate::kit::session::Session;
use crate::kit::stop::{Step, Stop};

/// Invocations that are started at once, at most: enough to tell, and few enough for a small machine.
const MAX_TRIED: usize = 8;

pub(super) async fn declared(trial: &Trial<'_>) -> Step<()> {
    let session = trial.greeted().await?;
    session.end().await?;
    let Some(hello) = &trial.rig.hello else { return Err(Stop::NotExercised("the driver said nothing of itself")) };
    let (concurrency, max) = (hello.capabilities.concurrency, hello.capabilities.max_concurrency);
    match (concurrency, max) {
        (true, 0 | 1) => Err(Stop::unmet(format!("concurrency is declared with a max_concurrency of {max}"))),
        (false, 2..) => Err(Stop::unmet(format!("max_concurrency is {max}, and concurrency is not declared"))),
        _ => Ok(()),
    }
}

/// How many invocations the driver says it takes, if it is more than one.
fn limit(trial: &Trial<'_>) -> Step<usize> {
    let capabilities = trial.rig.hello.as_ref().map(|hello| &hello.capabilities);
    match capabilities.map(|capabilities| (capabilities.max_active_invocations(), capabilities.cancellation)) {
        Some((2.., false)) => Err(Stop::NotExercised("the driver cannot cancel what is started")),
        Some((limit @ 2.., true)) => Ok(limit),
        _ => Err(Stop::NotAdvertised),
    }
}

/// So many invocations that go on; each of them was taken.
async fn begun<'a>(trial: &'a Trial<'_>, count: usize) -> Step<(Session<'a>, Vec<InstanceId>)> {
    let operation = lasting(trial)?;
    let mut session = trial.prepared().await?;
    let mut ids = Vec::new();
    for at in 0..count {
        ids.push(session.invoke(operation)?);
        session.taken().await.map_err(|stop| match stop {
            Stop::Breaks { id: id::INVOKE, detail } if at > 0 => Stop::breaks(id::AT_ONCE, detail),
            stop => stop,
        })?;
    }
    Ok((session, ids))
}

/// Cancels every one of them, and waits for their ends.
async fn end_all(session: &mut Session<'_>, trial: &Trial<'_>, ids: &[InstanceId]) -> Step<()> {
    for invocation_id in ids {
        session.cancel_one(*invocation_id, trial.rig.request.cancel)?;
    }
    for invocation_id in ids {
        if !session.has_ended(invocation_id) {
            session.completed_one(*invocation_id, trial.rig.request.cancel).await?;
        }
    }
    Ok(())
}

pub(super) async fn as_many_as_declared(trial: &Trial<'_>) -> Step<()> {
    let (mut session, ids) = begun(trial, limit(trial)?.min(MAX_TRIED)).await?;
    end_all(&mut session, trial, &ids).await?;
    session.close().await
}

pub(super) async fn one_more(trial: &Trial<'_>) -> Step<()> {
    let limit = limit(trial)?;
    if limit > MAX_TRIED || limit == MAX_CONCURRENT_INVOCATIONS {
        return Err(Stop::NotExercised("the driver declares more invocations at once than are tried"));
    }
    let (mut session, ids) = begun(trial, limit).await?;
    let params = invocation(&mut session, &lasting(trial)?.name)?;
    let answer = session.ask("driver.invoke", Some(params)).await?;
    refused(&answer, "one invocation more than declared", &[ErrorClass::InvalidState])?;
    end_all(&mut session, trial, &ids).await?;
    session.close().await
}

pub(super) async fn active_id(trial: &Trial<'_>) -> Step<()> {
    limit(trial)?;
    let (mut session, ids) = begun(trial, 1).await?;
    let mut params = invocation(&mut session, &lasting(trial)?.name)?;
    params["invocation_id"] = json!(ids.first().map(ToString::to_string));
    let answer = session.ask("driver.invoke", Some(params)).await?;
    refused(&answer, "the id of an active invocation", &[ErrorClass::InvalidRequest])?;
    end_all(&mut session, trial, &ids).await?;
    session.close().await
}

pub(super) async fn cancel_one(trial: &Trial<'_>) -> Step<()> {
    limit(trial)?;
    let (mut session, ids) = begun(trial, 2).await?;
    let [first, second] = ids[..] else { return Err(Stop::NotExercised("there are no two invocations")) };
    session.cancel_one(first, trial.rig.request.cancel)?;
    session.completed_one(first, trial.rig.request.cancel).await?;
    // The other one is active, as long as the session is not idle.
    let answer = session.ask("driver.capabilities", None).await?;
    if session.has_ended(&second) {
        return Err(Stop::unmet("the other invocation ended as well"));
    }
    refused(&answer, "driver.capabilities after one of two invocations was cancelled", &[ErrorClass::InvalidState])?;
    end_all(&mut session, trial, &[second]).await?;
    session.close().await
}

pub(super) async fn not_in_the_way(trial: &Trial<'_>) -> Step<()> {
    limit(trial)?;
    let short = operation(trial)?;
    let (mut session, ids) = begun(trial, 1).await?;
    let invocation_id = session.invoke(short)?;
    let ended = session.completed_one(invocation_id, trial.rig.request.invocation).await;
    match ended {
        Ok(completed) if completed.status == TerminalStatus::Completed => {}
        Ok(completed) => return Err(Stop::unmet(format!("it ended as {}", completed.status.as_str()))),
        Err(Stop::Breaks { id: id::INVOKE, detail }) => return Err(Stop::Unmet(detail)),
        Err(stop) => return Err(stop),
    }
    end_all(&mut session, trial, &ids).await?;
    session.close().await
}

pub(super) async fn until_the_last(trial: &Trial<'_>) -> Step<()> {
    limit(trial)?;
    let (mut session, ids) = begun(trial, 2).await?;
    let [first, second] = ids[..] else { return Err(Stop::NotExercised("there are no two invocations")) };
    end_all(&mut session, trial, &[first]).await?;
    for method in ["driver.reset", "driver.shutdown"] {
        let answer = session.ask(method, None).await?;
        refused(&answer, &format!("{method} while an invocation is active"), &[ErrorClass::InvalidState])?;
    }
    end_all(&mut session, trial, &[second]).await?;
    session.close().await
}
