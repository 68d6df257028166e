//! The Agent Client Protocol: method table, lossless types, connection, session and turn, without IO.

mod conn;
mod error;
mod methods;
pub mod permission;
mod session;
pub mod types;

pub use conn::{
    AgentEnd, AgentEvent, Call, ClientEnd, ClientEvent, Closed, Config, CounterClass, Counters, Delivery, EncodeError,
    OutId, Outcome, Output, PeerNotification, PeerRequest, RawJson, Reply, ReplyToken, RequestKey, SendError,
    TurnToken, UpdateError, timeouts,
};
pub use error::{Error, ErrorCode};
pub use methods::{
    Callback, Gate, Kind, Layer, METHODS, Method, MethodId, Notification, NotificationToAgent, NotificationToClient,
    Request, RequestToAgent, RequestToClient, Side, callbacks,
};
pub use session::{Begin, Effect, Ending, RxSeq, TurnKey, TurnMachine, TurnOver};
