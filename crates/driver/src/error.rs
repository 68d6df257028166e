//! What can be wrong with a frame or a step, each with its class and stage.

use pintle_wire::{CanonError, JsonError, JsonErrorClass};

use crate::class::ErrorClass;
use crate::codec::{DEFAULT_MAX_DATA_FRAME_BYTES, MAX_CONTROL_FRAME_BYTES};
use crate::machine::{Event, MAX_INVOCATIONS_PER_SESSION, State};
use crate::method::Method;

/// Why a frame, a contract or a step of the lifecycle was refused.
///
/// [`class`](Self::class) is the stable taxonomy of the protocol, [`stage`](Self::stage) says how far the check came.
/// The text never repeats what the peer sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// Nothing is left of the line once its ending is removed.
    #[error("empty control frame")]
    EmptyControlFrame,
    /// A line feed or carriage return inside of the frame.
    #[error("control frame is more than one line: line break at byte {offset}")]
    MultilineControlFrame {
        /// Where the line break is.
        offset: usize,
    },
    /// More than [`MAX_CONTROL_FRAME_BYTES`].
    #[error("control frame has {bytes} bytes, the limit is {MAX_CONTROL_FRAME_BYTES}")]
    ControlFrameTooLarge {
        /// The size that was seen, without the line ending.
        bytes: u64,
    },
    /// More than the data plane's frame limit.
    #[error("data frame payload has {bytes} bytes, the limit is {DEFAULT_MAX_DATA_FRAME_BYTES}")]
    DataFrameTooLarge {
        /// The size that was announced.
        bytes: u64,
    },
    /// A size that is no size, such as a negative one.
    #[error("frame size is negative or beyond 64 bits")]
    InvalidSize,
    /// The strict scan refused the text.
    #[error("not strict JSON: {0}")]
    Json(#[source] JsonError),
    /// A value has no canonical form.
    #[error("no canonical form: {0}")]
    Canonical(#[source] CanonError),
    /// Canonical bytes that are no UTF-8, which no writer makes.
    #[error("canonical form is not UTF-8")]
    NotText,
    /// A frame that is no object: a batch or a scalar.
    #[error("control frame is not an object")]
    NotObject,
    /// An envelope with an unknown member, or a member of the wrong type.
    #[error("envelope: {0}")]
    Envelope(#[source] ContractError),
    /// `jsonrpc` is not `2.0`.
    #[error("jsonrpc is not 2.0")]
    Version,
    /// A combination of members that is neither request, notification nor response.
    #[error("envelope: {0}")]
    Members(&'static str),
    /// A method that is not in the table.
    #[error("unknown method")]
    UnknownMethod,
    /// `params` that are neither object nor array.
    #[error("params are neither object nor array")]
    ParamsContainer,
    /// A missing, superfluous or malformed id.
    #[error("id {0}")]
    Id(&'static str),
    /// An error object without message, data or a known class.
    #[error("error object: {0}")]
    ErrorObject(#[source] ContractError),
    /// Params that break the contract of their method.
    #[error("params of {method}: {error}")]
    Params {
        /// Whose params.
        method: Method,
        /// What is wrong.
        #[source]
        error: ContractError,
    },
    /// A result, or another document outside of a frame, that breaks its contract.
    #[error("{0}")]
    Contract(#[source] ContractError),
    /// A free value that an application could not read into its type.
    #[error("value does not have the expected shape at line {line}, column {column}")]
    FreeValueShape {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A step that the state does not allow.
    #[error("{event} in state {state}")]
    State {
        /// The step.
        event: Event,
        /// The state it met.
        state: State,
    },
    /// A response was given to the machine, which cannot know what it answers.
    #[error("a response has no place in the lifecycle machine")]
    ResponseApplied,
    /// An invocation or attempt id other than the active one.
    #[error("{event} names another invocation or attempt than the active one")]
    Identity {
        /// The step.
        event: Event,
    },
    /// An invocation id that this session has already completed.
    #[error("invocation id was used before in this session")]
    InvocationIdUsed,
    /// More invocations than one session may complete.
    #[error("the session has completed its {MAX_INVOCATIONS_PER_SESSION} invocations")]
    TooManyInvocations,
    /// A sequence that is not greater than the one before.
    #[error("sequence {sequence} does not follow {last}")]
    Sequence {
        /// The sequence that was received.
        sequence: u64,
        /// The greatest one before it.
        last: u64,
    },
    /// A `last_sequence` that is not the last one observed.
    #[error("last_sequence does not match what was observed")]
    LastSequence,
}

impl ProtocolError {
    pub(crate) fn json(error: JsonError) -> Self {
        Self::Json(error)
    }

    pub(crate) const fn wrong_state(method: Method, state: State) -> Self {
        Self::State { event: Event::of(method), state }
    }

    /// The stable class.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::ControlFrameTooLarge { .. } | Self::DataFrameTooLarge { .. } | Self::TooManyInvocations => {
                ErrorClass::BudgetExceeded
            }
            Self::Json(error) if error.class == JsonErrorClass::TooLarge => ErrorClass::BudgetExceeded,
            Self::Version => ErrorClass::UnsupportedRpcVersion,
            Self::Params { method, .. } => method.params_class(),
            Self::State { .. } => ErrorClass::InvalidState,
            Self::Identity { event: Event::RequestCancel } => ErrorClass::InvalidRequest,
            Self::Identity { .. } | Self::Sequence { .. } | Self::LastSequence => ErrorClass::MalformedObservation,
            Self::Contract(ContractError { problem: Problem::OverLimit { .. }, .. }) => ErrorClass::BudgetExceeded,
            _ => ErrorClass::InvalidRequest,
        }
    }

    /// How far the check came; the labels of `pintle driver explain`.
    pub fn stage(&self) -> &'static str {
        match self {
            Self::EmptyControlFrame => "empty",
            Self::MultilineControlFrame { .. } => "line_break",
            Self::ControlFrameTooLarge { .. } | Self::DataFrameTooLarge { .. } => "too_large",
            Self::InvalidSize => "negative",
            Self::Json(error) => json_stage(error.class),
            Self::Canonical(_) | Self::NotText => "canonical",
            Self::NotObject => "not_object",
            Self::Envelope(_) => "envelope_shape",
            Self::Version => "version",
            Self::Members(_) => "envelope_members",
            Self::UnknownMethod => "unknown_method",
            Self::ParamsContainer => "params_container",
            Self::Id(_) => "id",
            Self::ErrorObject(_) => "error_object",
            Self::Params { error, .. } | Self::Contract(error) => error.stage(),
            Self::FreeValueShape { .. } => "value_shape",
            Self::State { .. } => "state",
            Self::ResponseApplied => "response",
            Self::Identity { .. } | Self::InvocationIdUsed | Self::TooManyInvocations => "identity",
            Self::Sequence { .. } | Self::LastSequence => "sequence",
        }
    }
}

fn json_stage(class: JsonErrorClass) -> &'static str {
    match class {
        JsonErrorClass::TooLarge => "too_large",
        JsonErrorClass::Encoding => "json:utf8",
        JsonErrorClass::TooDeep => "json:depth",
        JsonErrorClass::DuplicateName => "json:duplicate_key",
        JsonErrorClass::NumberRange => "json:number_range",
        JsonErrorClass::Surrogate => "json:surrogate",
        _ => "json:syntax",
    }
}

/// What is wrong with one document against its contract: the object it is in, the member, the problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{problem}", self.member, if self.member.is_empty() { "" } else { " " })]
pub struct ContractError {
    /// The member, as a path of names; empty for the document itself.
    pub member: &'static str,
    /// What is wrong with it.
    pub problem: Problem,
}

impl ContractError {
    pub(crate) const fn new(member: &'static str, problem: Problem) -> Self {
        Self { member, problem }
    }

    /// `params_shape` if the types do not fit, `params_value` if a value does not.
    pub const fn stage(&self) -> &'static str {
        match self.problem {
            Problem::UnknownMember { .. } | Problem::Null | Problem::Expected(_) => "params_shape",
            Problem::Missing if self.member.is_empty() => "params_missing",
            _ => "params_value",
        }
    }
}

/// The problem of a [`ContractError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is required and absent.
    #[error("is missing")]
    Missing,
    /// It is null where a value is wanted.
    #[error("is null")]
    Null,
    /// It has a member that the contract does not know. Names are case-sensitive.
    #[error("has an unknown member at byte {offset}")]
    UnknownMember {
        /// Byte offset of the name in the document.
        offset: usize,
    },
    /// It is not of the wanted JSON type.
    #[error("is not {0}")]
    Expected(&'static str),
    /// It is empty, or blank where only blanks would be left.
    #[error("is empty")]
    Empty,
    /// It has the right type and a wrong value.
    #[error("is not {0}")]
    Invalid(&'static str),
    /// Two members exclude each other, or go together and do not.
    #[error("{0}")]
    Combination(&'static str),
    /// It is larger than its limit.
    #[error("is over its limit of {limit}")]
    OverLimit {
        /// The limit, in the unit of the member.
        limit: u64,
    },
}
