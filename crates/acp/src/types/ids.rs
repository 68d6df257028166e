//! Identifiers. Each is a string that only its maker understands; a clone shares the text.

use serde::{Deserializer, Serialize, Serializer};

use super::declare::ids;
use super::shape::{Read, Shape, Token};

ids! {
    /// A conversation; the agent makes it, the client echoes it.
    pub struct SessionId;

    /// A message in a transcript: chunks with the same id belong together.
    pub struct MessageId;

    /// A tool call, unique within its session.
    pub struct ToolCallId;

    /// A terminal that the client runs for the agent.
    pub struct TerminalId;

    /// One of the choices that a permission request offers.
    pub struct PermissionOptionId;

    /// A way to authenticate, from `initialize`.
    pub struct AuthMethodId;

    /// A session mode.
    pub struct SessionModeId;

    /// A configuration option of a session.
    pub struct SessionConfigId;

    /// A value of a `select` configuration option.
    pub struct SessionConfigValueId;

    /// A group of values of a `select` configuration option.
    pub struct SessionConfigGroupId;

    /// A plan that can be updated and removed.
    pub struct PlanId;

    /// One compaction of the context.
    pub struct CompactionId;

    /// An out-of-band elicitation.
    pub struct ElicitationId;
}

/// The id of a request: an integer that fits 64 bits, or a string. `1` and `"1"` are two ids.
pub use pintle_wire::Id as RequestId;

impl Shape for RequestId {
    const EXPECTED: &'static str = "an integer or a string";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        Ok(match Token::read(deserializer)? {
            Token::Int(id) => Ok(Self::Int(id)),
            Token::Str(id) => Ok(Self::Str(id.into())),
            other => other.refuse(Self::EXPECTED),
        })
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }
}
