//! Typed messages by method: decoding a frame's params, and which result belongs to which request.

use serde_json::value::RawValue;

use crate::Error;
use crate::method_table;
use crate::types::*;

use super::MethodId;

/// The params of a request: which method they belong to and what answers them.
pub trait Request: Shape + Send + Sync + 'static {
    /// The method.
    const METHOD: MethodId;

    /// What answers it.
    type Response: Shape + Send + Sync + 'static;
}

/// The params of a notification.
pub trait Notification: Shape + Send + Sync + 'static {
    /// The method.
    const METHOD: MethodId;
}

impl Notification for CancelNotification {
    const METHOD: MethodId = MethodId::CancelSession;
}

impl Notification for DetachNotification {
    const METHOD: MethodId = MethodId::DetachSession;
}

impl Notification for CancelRequestNotification {
    const METHOD: MethodId = MethodId::CancelRequest;
}

/// Rules beyond the members' types. A type with rules of its own has a `validate` of its own, which the
/// compiler prefers.
trait NoRules {
    fn validate(&self) -> Result<(), Fault> {
        Ok(())
    }
}

impl<T: Shape> NoRules for T {}

/// Params that are left out are an empty object.
fn params<T: Shape>(raw: Option<&RawValue>) -> Result<T, Fault> {
    raw.map_or_else(|| decode("{}"), decode_raw)
}

macro_rules! requests {
    ($(#[$meta:meta])* $name:ident { $( $id:ident = $wire:literal $call:ident($params:ident) -> $result:ident; )* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum $name {
            $( #[doc = concat!("`", $wire, "`.")] $id($params), )*
        }

        impl $name {
            /// Decodes the params of `method` and checks them. `None` when the method is not one of these.
            ///
            /// # Errors
            /// -32602 with the way to the member that is missing or wrong.
            pub fn decode(method: MethodId, raw: Option<&RawValue>) -> Option<Result<Self, Error>> {
                Some(match method {
                    $( MethodId::$id => params::<$params>(raw)
                        .and_then(|params| params.validate().map(|()| Self::$id(params)))
                        .map_err(|fault| Error::invalid_params(&fault)), )*
                    _ => return None,
                })
            }

            /// The method.
            pub fn method(&self) -> MethodId {
                match self {
                    $( Self::$id(_) => MethodId::$id, )*
                }
            }
        }
    };
}

macro_rules! notifications {
    ($(#[$meta:meta])* $name:ident { $( $id:ident = $wire:literal($params:ident); )* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum $name {
            $( #[doc = concat!("`", $wire, "`.")] $id($params), )*
        }

        impl $name {
            /// Decodes the params of `method`. `None` when the method is not one of these.
            ///
            /// # Errors
            /// The member that is missing or wrong; a notification is never answered, so this is for a count
            /// or a log.
            pub fn decode(method: MethodId, raw: Option<&RawValue>) -> Option<Result<Self, Fault>> {
                Some(match method {
                    $( MethodId::$id => params::<$params>(raw).map(Self::$id), )*
                    _ => return None,
                })
            }

            /// The method.
            pub fn method(&self) -> MethodId {
                match self {
                    $( Self::$id(_) => MethodId::$id, )*
                }
            }
        }
    };
}

macro_rules! typed {
    (
        agent_requests { $( $aid:ident = $awire:literal $acall:ident($aparams:ident) -> $aresult:ident; )* }
        client_requests { $( $cid:ident = $cwire:literal $ccall:ident($cparams:ident) -> $cresult:ident; )* }
        agent_notifications { $( $anid:ident = $anwire:literal $ancall:ident($anparams:ident); )* }
        client_notifications { $( $cnid:ident = $cnwire:literal $cncall:ident($cnparams:ident); )* }
    ) => {
        requests! {
            /// A request that an agent handles.
            #[expect(clippy::large_enum_variant, reason = "the large one is initialize, once per connection")]
            RequestToAgent { $( $aid = $awire $acall($aparams) -> $aresult; )* }
        }

        requests! {
            /// A request that a client handles.
            RequestToClient { $( $cid = $cwire $ccall($cparams) -> $cresult; )* }
        }

        notifications! {
            /// A notification for an agent.
            NotificationToAgent {
                $( $anid = $anwire($anparams); )*
                CancelSession = "session/cancel"(CancelNotification);
                DetachSession = "_pintle/session.detach"(DetachNotification);
                CancelRequest = "$/cancel_request"(CancelRequestNotification);
            }
        }

        notifications! {
            /// A notification for a client.
            NotificationToClient {
                $( $cnid = $cnwire($cnparams); )*
                CancelRequest = "$/cancel_request"(CancelRequestNotification);
            }
        }

        $( request! { $aid $aparams $aresult } )*
        $( request! { $cid $cparams $cresult } )*
        $( notification! { $cnid $cnparams } )*
    };
}

macro_rules! request {
    // The durable load has the types of the ordinary one; its callers name the method.
    (LoadDurableSession $params:ident $result:ident) => {};
    ($id:ident $params:ident $result:ident) => {
        impl Request for $params {
            const METHOD: MethodId = MethodId::$id;

            type Response = $result;
        }
    };
}

macro_rules! notification {
    ($id:ident $params:ident) => {
        impl Notification for $params {
            const METHOD: MethodId = MethodId::$id;
        }
    };
}

method_table!(typed);
