//! What a driver author implements.

use std::future::{Future, ready};

use pintle_driver::{HelloResult, InvokeParams, Permission, PrepareParams, RpcError, TerminalStatus};

use super::invocation::Invocation;

/// A driver: it executes and observes, it never judges.
///
/// The handshake, capability queries and the receipt of a cancel are answered by [`serve`](super::serve). Handlers run as
/// tasks of their own, so a slow one holds nothing up. A handler that panics answers `driver_internal`; an invocation that
/// panics ends as errored.
pub trait Driver: Send + Sync + 'static {
    /// Who the driver is, what it can do and what it needs. Asked once, at the start.
    fn hello(&self) -> HelloResult;

    /// Core proposes a plan. Returns the permissions to take, which must be among those approved.
    ///
    /// By default all of them are taken.
    fn prepare(&self, plan: PrepareParams) -> impl Future<Output = Result<Vec<Permission>, RpcError>> + Send {
        ready(Ok(plan.approved_permissions))
    }

    /// Decides whether an invocation is taken, before anything is observed. It must return at once.
    ///
    /// By default every declared operation is.
    ///
    /// # Errors
    /// Refuses the invocation.
    fn accept(&self, params: &InvokeParams) -> Result<(), RpcError> {
        let _ = params;
        Ok(())
    }

    /// Runs one invocation to its end and says how it ended.
    ///
    /// A driver that declares concurrency has up to [`max_concurrency`](pintle_driver::Capabilities::max_concurrency) of
    /// these run at once, each in a task of its own; any other has one. They share the queue to Core: one that writes a lot
    /// slows the others down and cannot fill memory.
    ///
    /// When [`Invocation::cancelled`] resolves, the invocation must end within the deadline given there, or the driver is
    /// killed.
    fn invoke(&self, invocation: Invocation) -> impl Future<Output = TerminalStatus> + Send;

    /// Forgets prepared session data. By default there is none.
    fn reset(&self) -> impl Future<Output = Result<(), RpcError>> + Send {
        ready(Ok(()))
    }

    /// The session ends; the answer is sent afterwards. By default there is nothing to do.
    fn shutdown(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }
}
