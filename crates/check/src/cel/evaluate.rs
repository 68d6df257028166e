//! Evaluation: one interface, and the implementation that runs in this process.

use std::collections::HashMap;
use std::sync::Arc;

use ::cel::common::ast::IdedExpr;
use ::cel::{Context, Env, ExecutionError, Value};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::functions;
use super::parse::parse;
use super::value;
use crate::trace::Trace;

/// Longest text that an expression may give, in bytes; the rest is cut.
pub const MAX_TEXT_BYTES: usize = 1024;

/// Most parsed expressions that are kept: the requirements of every scenario are asked again for each trace.
const MAX_EXPRESSIONS: usize = 2048;

/// What an expression must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    /// A boolean.
    Bool,
    /// Anything, rendered as text for people.
    Text,
    /// An entry of the trace, or a list of them, or null.
    Entries,
}

/// What an expression gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A boolean.
    Bool(bool),
    /// Text, cut at [`MAX_TEXT_BYTES`].
    Text(String),
    /// Indices of entries.
    Entries(Vec<usize>),
}

/// Why an expression has no value. Always a fault of the pack or of the harness.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The evaluator refused it.
    #[error("the expression cannot be evaluated: {0}")]
    Runtime(String),
    /// It gave something else than it was meant to.
    #[error("the expression gave {found}")]
    WrongType {
        /// What it gave.
        found: String,
    },
    /// It ran into the deadline.
    #[error("the expression took longer than {deadline_ms} ms")]
    Deadline {
        /// The deadline in milliseconds.
        deadline_ms: u64,
    },
    /// The process that evaluated it died.
    #[error("the process that evaluated the expression died")]
    Crashed,
    /// There is no process to evaluate it.
    #[error("the process that evaluates expressions cannot be used: {0}")]
    Unavailable(String),
}

/// Something that evaluates expressions over one trace at a time.
pub trait Evaluator {
    /// Makes `trace` the one that [`ask`](Self::ask) is about.
    ///
    /// # Errors
    /// The trace cannot be handed to where expressions are evaluated.
    fn load(&mut self, trace: &Arc<Trace>) -> Result<(), EvalError>;

    /// Evaluates one expression.
    ///
    /// # Errors
    /// [`EvalError`]; the evaluator stays usable.
    fn ask(&mut self, expression: &str, want: Want) -> Result<Answer, EvalError>;
}

/// Evaluates in this process, without a deadline. For tests, and for the inside of the worker.
pub struct InProcess {
    env: Arc<Env>,
    context: Option<Context<'static, 'static>>,
    expressions: HashMap<String, IdedExpr>,
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}

impl Default for InProcess {
    fn default() -> Self {
        Self { env: Arc::new(Env::stdlib()), context: None, expressions: HashMap::new() }
    }
}

impl Evaluator for InProcess {
    fn load(&mut self, trace: &Arc<Trace>) -> Result<(), EvalError> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        let values = value::trace_values(trace);
        functions::register(&mut context, &values)?;
        for (name, value) in values.variables {
            context.add_variable_from_value(name, value);
        }
        self.context = Some(context);
        Ok(())
    }

    fn ask(&mut self, expression: &str, want: Want) -> Result<Answer, EvalError> {
        let Some(context) = &self.context else {
            return Err(EvalError::Unavailable("no trace is loaded".to_owned()));
        };
        if !self.expressions.contains_key(expression) {
            let parsed = parse(expression).map_err(|error| EvalError::Runtime(error.to_string()))?;
            if self.expressions.len() >= MAX_EXPRESSIONS {
                self.expressions.clear();
            }
            self.expressions.insert(expression.to_owned(), parsed);
        }
        let Some(parsed) = self.expressions.get(expression) else {
            return Err(EvalError::Crashed);
        };
        let value = Value::resolve(parsed, context).map_err(|error| EvalError::Runtime(describe(&error)))?;
        answer(&value, want)
    }
}

/// The error without the values that it is about, which are the agent's.
fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("there is no member `{}`", cut(key.to_string(), 64)),
        ExecutionError::NoSuchOverload(overload) => {
            format!("`{}` cannot be applied to ({})", overload.function(), overload.argument_types().join(", "))
        }
        ExecutionError::UndeclaredReference(name) => format!("there is no `{}`", cut(name.to_string(), 64)),
        ExecutionError::FunctionError { function, message } => format!("`{function}`: {message}"),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "division by zero".to_owned(),
        ExecutionError::Overflow(operator, ..) => format!("`{operator}` overflows"),
        ExecutionError::IndexOutOfBounds(_) => "the index is out of bounds".to_owned(),
        ExecutionError::ValuesNotComparable(..) => "the values cannot be compared".to_owned(),
        _ => "the values do not fit the expression".to_owned(),
    }
}

fn answer(value: &Value, want: Want) -> Result<Answer, EvalError> {
    match (want, value) {
        (Want::Bool, Value::Bool(value)) => Ok(Answer::Bool(*value)),
        (Want::Text, value) => Ok(Answer::Text(cut(value::text(value), MAX_TEXT_BYTES))),
        (Want::Entries, Value::Null) => Ok(Answer::Entries(Vec::new())),
        (Want::Entries, Value::List(list)) => list
            .iter()
            .filter(|item| **item != Value::Null)
            .map(value::entry_index)
            .collect::<Option<Vec<_>>>()
            .map(Answer::Entries)
            .ok_or_else(|| wrong_type(value)),
        (Want::Entries, value) => {
            value::entry_index(value).map(|index| Answer::Entries(vec![index])).ok_or_else(|| wrong_type(value))
        }
        (_, value) => Err(wrong_type(value)),
    }
}

fn wrong_type(value: &Value) -> EvalError {
    EvalError::WrongType { found: value.type_of().to_string() }
}

/// Cuts at a character boundary.
pub(super) fn cut(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        let mut end = max_bytes;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("..");
    }
    text
}
