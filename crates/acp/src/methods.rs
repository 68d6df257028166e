//! The method table: the one place where a wire method is tied to its side, kind, types, gate and layer.
//!
//! [`METHODS`], [`MethodId`], the typed enums ([`RequestToAgent`] and its siblings), [`Request`] and
//! [`Notification`] and [`callbacks`] all come from one list of rows; so may the traits of other crates, by
//! way of [`method_table!`](crate::method_table).

mod calls;
mod gate;
mod rows;

pub use calls::{Notification, NotificationToAgent, NotificationToClient, Request, RequestToAgent, RequestToClient};
pub use gate::Gate;
pub use rows::{METHODS, MethodId};

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Method {
    /// The row's key.
    pub id: MethodId,
    /// The name on the wire.
    pub wire: &'static str,
    /// Another spelling that is answered alike.
    pub alias: Option<&'static str>,
    /// Who handles it.
    pub side: Side,
    /// Whether it is answered.
    pub kind: Kind,
    /// The handler's name; none where the connection handles it itself.
    pub callback: Option<&'static str>,
    /// The type of `params`; none where a handler gets none.
    pub params: Option<&'static str>,
    /// The type of `result`; none for notifications.
    pub result: Option<&'static str>,
    /// What the handling side must have advertised.
    pub gate: Option<Gate>,
    /// Who handles it within a side.
    pub layer: Layer,
    /// The month by which it was stable, `YYYY-MM`; none for vendor methods.
    pub since: Option<&'static str>,
    /// The protocol version that it belongs to.
    pub protocol_version: u16,
}

/// Who handles a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The agent; the client sends it.
    Agent,
    /// The client; the agent sends it.
    Client,
    /// Either.
    Both,
}

impl Side {
    /// Whether a connection of side `self` handles methods of `side`.
    pub const fn handles(self, side: Self) -> bool {
        matches!((self, side), (_, Self::Both) | (Self::Agent, Self::Agent) | (Self::Client, Self::Client))
    }

    /// The other end of the connection.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::Agent => Self::Client,
            Self::Client => Self::Agent,
            Self::Both => Self::Both,
        }
    }
}

/// Whether a method is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It has an id and is answered exactly once.
    Request,
    /// It has no id and is never answered.
    Notification,
}

/// Who handles a method within a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
    /// The author's handler.
    App,
    /// The connection, for the session that is named.
    SessionControl,
    /// The connection itself.
    Protocol,
}

impl Method {
    /// The row of a method that `side` handles. The alias finds it too. Of the other side's methods, and of
    /// what is not in the table, there is none.
    pub fn find(side: Side, wire: &str) -> Option<&'static Self> {
        MethodId::from_wire(wire).map(MethodId::method).filter(|method| side.handles(method.side))
    }

    /// Whether `wire` is an extension: any name that begins with `_`, whether there is a row for it or not.
    pub fn is_extension(wire: &str) -> bool {
        wire.starts_with('_')
    }

    /// The rows of the methods that `side` handles, in table order.
    pub fn of(side: Side) -> impl Iterator<Item = &'static Self> {
        METHODS.iter().filter(move |method| side.handles(method.side))
    }
}

/// A handler that an author may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Callback {
    /// Its name.
    pub name: &'static str,
    /// How many arguments it takes: the params, where there are any, and the context.
    pub arity: u8,
    /// The method that it handles.
    pub wire: &'static str,
    /// Whether its return is an answer.
    pub kind: Kind,
}

/// The handlers of a side, in table order. `init` and the two extension hooks stand beside the table.
pub fn callbacks(side: Side) -> Vec<Callback> {
    Method::of(side)
        .filter_map(|method| {
            let arity = if method.params.is_some() { 2 } else { 1 };
            method.callback.map(|name| Callback { name, arity, wire: method.wire, kind: method.kind })
        })
        .collect()
}
