//! How each requirement is tried. One function per requirement, in its own sessions.

mod at_once;
mod cancelling;
mod frames;
mod handshake;
mod invocations;
mod lifecycle;

use pintle_sdk::driver::{ErrorClass, Permission};

use super::Trial;
use super::answer::Answer;
use super::catalog::id;
use super::session::Session;
use super::stop::{Step, Stop};

/// Tries one requirement.
pub(super) async fn run(requirement: &str, trial: &Trial<'_>) -> Step<()> {
    match requirement {
        id::HELLO => handshake::hello(trial).await,
        "DRV-HELLO-002" => handshake::foreign_range(trial).await,
        "DRV-HELLO-003" => handshake::wide_range(trial).await,
        "DRV-HELLO-004" => handshake::wrong_ranges(trial).await,
        "DRV-HELLO-005" => handshake::twice(trial).await,
        id::ARTIFACT => handshake::artifact(trial).await,
        "DRV-FRAME-001" => frames::ids(trial).await,
        "DRV-FRAME-002" => frames::carriage_return(trial).await,
        "DRV-FRAME-003" => frames::byte_by_byte(trial).await,
        "DRV-FRAME-004" => frames::pipelined(trial).await,
        "DRV-FRAME-005" => frames::largest(trial).await,
        "DRV-FRAME-006" => frames::too_large(trial).await,
        "DRV-FRAME-007" => frames::no_json(trial).await,
        "DRV-FRAME-008" => frames::blank(trial).await,
        "DRV-FRAME-009" => frames::no_utf8(trial).await,
        "DRV-FRAME-010" => frames::deep(trial).await,
        "DRV-FRAME-011" => frames::batch(trial).await,
        "DRV-FRAME-012" => frames::twice_named(trial).await,
        "DRV-FRAME-013" => frames::other_version(trial).await,
        "DRV-FRAME-014" => frames::wrong_ids(trial).await,
        "DRV-FRAME-015" => frames::unknown_method(trial).await,
        "DRV-FRAME-016" => frames::unknown_members(trial).await,
        "DRV-FRAME-017" => frames::null_params(trial).await,
        "DRV-FRAME-018" => frames::without_id(trial).await,
        "DRV-FRAME-019" => frames::without_ending(trial).await,
        id::ACCEPTED => handshake::accepted(trial).await,
        id::PREPARE => lifecycle::prepare(trial).await,
        "DRV-LIFE-002" => lifecycle::wrong_plans(trial).await,
        id::CAPABILITIES => lifecycle::capabilities(trial).await,
        id::RESET => lifecycle::reset(trial).await,
        "DRV-LIFE-005" => lifecycle::too_early(trial).await,
        "DRV-LIFE-006" => lifecycle::prepare_twice(trial).await,
        "DRV-LIFE-007" => lifecycle::idle_cancel(trial).await,
        id::SHUTDOWN => lifecycle::shutdown(trial).await,
        "DRV-LIFE-009" => lifecycle::after_shutdown(trial).await,
        "DRV-LIFE-010" => lifecycle::end_of_input(trial).await,
        "DRV-LIFE-011" => lifecycle::half_a_frame(trial).await,
        id::INVOKE => invocations::invoke(trial).await,
        "DRV-INVOKE-002" => invocations::undeclared(trial).await,
        "DRV-INVOKE-003" => invocations::wrong_params(trial).await,
        "DRV-INVOKE-004" => invocations::in_a_row(trial).await,
        "DRV-INVOKE-005" => invocations::used_id(trial).await,
        "DRV-INVOKE-006" => invocations::after_reset(trial).await,
        "DRV-INVOKE-007" => invocations::slow_reader(trial).await,
        "DRV-INVOKE-008" => invocations::second(trial).await,
        "DRV-INVOKE-009" => invocations::others_meanwhile(trial).await,
        "DRV-INVOKE-010" => invocations::end_of_input(trial).await,
        id::CANCEL => cancelling::cancel(trial).await,
        "DRV-CANCEL-002" => cancelling::status(trial).await,
        "DRV-CANCEL-003" => cancelling::twice(trial).await,
        "DRV-CANCEL-004" => cancelling::another(trial).await,
        "DRV-CANCEL-005" => cancelling::and_on(trial).await,
        "DRV-CONC-001" => at_once::declared(trial).await,
        id::AT_ONCE => at_once::as_many_as_declared(trial).await,
        "DRV-CONC-003" => at_once::one_more(trial).await,
        "DRV-CONC-004" => at_once::active_id(trial).await,
        "DRV-CONC-005" => at_once::cancel_one(trial).await,
        "DRV-CONC-006" => at_once::not_in_the_way(trial).await,
        "DRV-CONC-007" => at_once::until_the_last(trial).await,
        _ => Err(Stop::NotExercised("it is watched in every session")),
    }
}

impl Trial<'_> {
    /// A driver that was just started.
    async fn started(&self) -> Step<Session<'_>> {
        Session::start(self.rig, &self.transcript).await
    }

    /// A driver after the handshake.
    async fn greeted(&self) -> Step<Session<'_>> {
        let mut session = self.started().await?;
        session.hello().await?;
        Ok(session)
    }

    /// A driver that is ready for an invocation.
    async fn prepared(&self) -> Step<Session<'_>> {
        let mut session = self.started().await?;
        session.ready().await?;
        Ok(session)
    }
}

/// The answer must be a refusal of one of these classes.
fn refused(answer: &Answer, what: &str, classes: &[ErrorClass]) -> Step<()> {
    match answer {
        Answer::Error(error) if classes.contains(&error.data.class) => Ok(()),
        Answer::Error(error) => {
            let wanted: Vec<&str> = classes.iter().map(|class| class.as_str()).collect();
            Err(Stop::unmet(format!("{what} was refused as {}, not as {}", error.data.class, wanted.join(" or "))))
        }
        Answer::Result(_) => Err(Stop::unmet(format!("{what} was accepted"))),
    }
}

/// Names of permissions, as they stand in params.
fn names(permissions: &[Permission]) -> Vec<&str> {
    permissions.iter().map(Permission::as_str).collect()
}
