//! The Agent Client Protocol: method table, lossless types, connection, session and turn, without IO.

mod error;
mod methods;
pub mod types;

pub use error::{Error, ErrorCode};
pub use methods::{
    Callback, Gate, Kind, Layer, METHODS, Method, MethodId, Notification, NotificationToAgent, NotificationToClient,
    Request, RequestToAgent, RequestToClient, Side, callbacks,
};
