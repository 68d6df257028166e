//! Versions, identity, permissions.

use pintle_sdk::driver::{ErrorClass, FreeValue, HelloResult, VersionRange, decode_free_value, negotiate};
use serde_json::{Value, json};

use super::refused;
use crate::kit::Trial;
use crate::kit::answer::Answer;
use crate::kit::stop::{Step, Stop};

fn range(minimum: &str, maximum: &str) -> Option<Value> {
    Some(json!({"core_version_range": {"minimum": minimum, "maximum": maximum}}))
}

pub(super) async fn hello(trial: &Trial<'_>) -> Step<()> {
    let session = trial.greeted().await?;
    session.end().await.map(|_| ())
}

pub(super) async fn foreign_range(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.started().await?;
    let answer = session.ask("driver.hello", range("7.0.0", "8.0.0")).await?;
    refused(&answer, "a range from 7.0.0 to 8.0.0", &[ErrorClass::UnsupportedRpcVersion])?;
    session.end().await.map(|_| ())
}

pub(super) async fn wide_range(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.started().await?;
    match session.ask("driver.hello", range("1.0.0", "9.9.9")).await? {
        Answer::Error(error) => {
            Err(Stop::unmet(format!("a range from 1.0.0 to 9.9.9 was refused ({})", error.data.class)))
        }
        Answer::Result(text) => {
            let hello = FreeValue::parse(text.as_bytes()).and_then(|value| decode_free_value::<HelloResult>(&value));
            let hello = hello.map_err(|error| Stop::unmet(format!("the result is not valid: {error}")))?;
            negotiate(&VersionRange::new("1.0.0", "9.9.9"), &hello.driver_version_range)
                .map_err(|error| Stop::unmet(error.to_string()))?;
            session.end().await.map(|_| ())
        }
    }
}

pub(super) async fn wrong_ranges(trial: &Trial<'_>) -> Step<()> {
    let classes = [ErrorClass::UnsupportedRpcVersion, ErrorClass::InvalidRequest];
    for (minimum, maximum) in [("1.0.0", "0.9.0"), ("one", "two"), ("", "1.0.0")] {
        let mut session = trial.started().await?;
        let answer = session.ask("driver.hello", range(minimum, maximum)).await?;
        refused(&answer, &format!("a range from `{minimum}` to `{maximum}`"), &classes)?;
        session.end().await?;
    }
    Ok(())
}

pub(super) async fn twice(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let answer = session.ask("driver.hello", range("1.0.0", "1.0.0")).await?;
    refused(&answer, "a second driver.hello", &[ErrorClass::InvalidState])?;
    session.still_usable().await?;
    session.end().await.map(|_| ())
}

pub(super) async fn artifact(trial: &Trial<'_>) -> Step<()> {
    let Some(expected) = trial.rig.request.artifact else {
        return Err(Stop::NotExercised("the driver's file is not known"));
    };
    let session = trial.greeted().await?;
    let declared = trial.transcript.borrow().hello.as_ref().map(|hello| hello.identity.artifact_digest);
    session.end().await?;
    match declared {
        Some(declared) if declared == expected => Ok(()),
        Some(declared) => Err(Stop::unmet(format!("the driver declares {declared}, its file has {expected}"))),
        None => Err(Stop::NotExercised("there was no handshake")),
    }
}

/// Core's session refuses what is accepted beyond what was approved, so approving less is the whole trial.
pub(super) async fn accepted(trial: &Trial<'_>) -> Step<()> {
    let mut session = trial.greeted().await?;
    let wanted = trial.rig.hello.as_ref().map(|hello| trial.rig.approvable(hello)).unwrap_or_default();
    if wanted.is_empty() {
        session.end().await?;
        return Err(Stop::NotExercised("the driver requests no permission"));
    }
    for approved in [Vec::new(), wanted.iter().take(1).cloned().collect()] {
        match session.prepare(approved).await {
            // A driver that cannot do without may say so.
            Ok(_) | Err(Stop::Breaks { id: crate::kit::catalog::id::PREPARE, .. }) => {}
            Err(stop) => return Err(stop),
        }
        session.end().await?;
        session = trial.greeted().await?;
    }
    session.end().await.map(|_| ())
}
