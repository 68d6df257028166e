//! What can be wrong with an expression.

use thiserror::Error;

use super::bounds::{MAX_COMPREHENSION_DEPTH, MAX_EXPRESSION_BYTES, MAX_NESTING, MAX_OPERATORS, MAX_SELECTIONS};
use super::types::{FUNCTIONS, VARIABLES};

/// An expression that a pack may not contain.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{problem}")]
pub struct ExpressionError {
    /// Line inside the expression, from 0.
    pub line: usize,
    /// What is wrong.
    pub problem: Problem,
}

impl ExpressionError {
    pub(super) fn new(line: usize, problem: Problem) -> Self {
        Self { line, problem }
    }
}

/// What can be wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// Over [`MAX_EXPRESSION_BYTES`].
    #[error("the expression has {bytes} bytes, more than {MAX_EXPRESSION_BYTES}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Over [`MAX_OPERATORS`].
    #[error("the expression has more than {MAX_OPERATORS} operators")]
    TooManyOperators,
    /// Over [`MAX_NESTING`].
    #[error("the expression nests deeper than {MAX_NESTING}")]
    TooDeep,
    /// Over [`MAX_SELECTIONS`].
    #[error("the expression has more than {MAX_SELECTIONS} field selections")]
    TooManySelections,
    /// Over [`MAX_COMPREHENSION_DEPTH`].
    #[error("all, exists, filter and map nest deeper than {MAX_COMPREHENSION_DEPTH}")]
    ComprehensionsTooDeep,
    /// Not CEL.
    #[error("syntax: {0}")]
    Syntax(String),
    /// A name that no variable has.
    #[error("there is no variable `{0}`; there are {known}", known = known_variables())]
    UnknownVariable(String),
    /// A name that no function has.
    #[error("there is no function `{0}`; beside CEL's own there are {known}", known = known_functions())]
    UnknownFunction(String),
    /// A field that a record does not have.
    #[error("{record} has no field `{field}`")]
    UnknownField {
        /// The record.
        record: &'static str,
        /// The field.
        field: String,
    },
    /// A step that the scenario does not name.
    #[error("no step of this scenario is named `{0}`")]
    UnknownStep(String),
    /// Wrong number of arguments.
    #[error("`{function}` takes {expected} argument(s), not {found}")]
    Arity {
        /// The function.
        function: String,
        /// What it takes.
        expected: usize,
        /// What it was given.
        found: usize,
    },
    /// Operand or argument of the wrong type.
    #[error("{place} must be {expected}, not {found}")]
    Type {
        /// Where.
        place: String,
        /// What is needed.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// Comparison of things that are never equal.
    #[error("a {left} is never equal to a {right}")]
    NeverEqual {
        /// Type of the left side.
        left: String,
        /// Type of the right side.
        right: String,
    },
    /// CEL that packs do not use: messages, literal keys that are not strings.
    #[error("{0} cannot be used here")]
    Unsupported(&'static str),
}

fn known_variables() -> String {
    let names: Vec<_> = VARIABLES.iter().map(|variable| variable.name).collect();
    names.join(", ")
}

fn known_functions() -> String {
    let names: Vec<_> = FUNCTIONS.iter().map(|function| function.name).collect();
    names.join(", ")
}
