//! Assertions: CEL expressions over a trace, checked when a pack is loaded and evaluated where they can do no harm.
//!
//! [`check`] bounds an expression (length, operators, nesting), then resolves every name and type in it against the
//! published fields of the trace. [`Evaluator`] is the one interface of evaluation: [`Worker`] runs expressions in a
//! child process that is killed at the deadline and started again after a crash, [`InProcess`] runs them here.
//! An expression that cannot be evaluated is a fault of the harness, never of the agent.

mod bounds;
mod calls;
mod check;
mod error;
mod evaluate;
mod functions;
mod parse;
mod types;
mod value;
mod worker;

pub use bounds::{MAX_COMPREHENSION_DEPTH, MAX_EXPRESSION_BYTES, MAX_NESTING, MAX_OPERATORS, MAX_SELECTIONS};
pub use check::{Scope, check};
pub use error::{ExpressionError, Problem};
pub use evaluate::{Answer, EvalError, Evaluator, InProcess, MAX_TEXT_BYTES, Want};
pub use types::{FUNCTIONS, Field, Function, RECORDS, Record, Ty, VARIABLES, Variable};
pub use worker::{ServeError, Worker, WorkerConfig, serve};
