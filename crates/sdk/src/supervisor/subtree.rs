//! Handles of what runs below a supervisor, and where they are found.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::end::Ended;
use crate::acp::Connection;

/// What a child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChildKind {
    /// One connection, with its sessions, handlers and carrier.
    Connection,
    /// A future of the host's.
    Worker,
    /// A supervisor, with children of its own.
    Supervisor,
}

/// A child of a [`Supervisor`](super::Supervisor) with everything below it. Cheap to clone; it keeps nothing alive, and goes
/// on telling how the child ended when that is gone.
#[derive(Clone)]
pub struct Subtree {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) id: Arc<str>,
    pub(super) name: Option<Arc<str>>,
    pub(super) kind: ChildKind,
    connection: Mutex<Option<Connection>>,
    children: Mutex<Vec<Subtree>>,
    ended: watch::Sender<Option<Ended>>,
}

impl Subtree {
    pub(super) fn new(id: Arc<str>, name: Option<Arc<str>>, kind: ChildKind) -> Self {
        Self {
            inner: Arc::new(Inner {
                id,
                name,
                kind,
                connection: Mutex::default(),
                children: Mutex::default(),
                ended: watch::Sender::new(None),
            }),
        }
    }

    /// Its id, by which its supervisor knows it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Its name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.inner.name.as_deref()
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> ChildKind {
        self.inner.kind
    }

    /// Its own child with this id, where it is a supervisor.
    #[must_use]
    pub fn child(&self, id: &str) -> Option<Self> {
        self.children_now().iter().find(|child| child.id() == id).cloned()
    }

    /// Its children in the order in which they were started, where it is a supervisor.
    #[must_use]
    pub fn children(&self) -> Vec<Self> {
        self.children_now().clone()
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn try_ended(&self) -> Option<Ended> {
        self.inner.ended.borrow().clone()
    }

    /// Waits for its end, for good: restarts in between are not ends. Cancel safe.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.inner.ended.subscribe();
        match ended.wait_for(Option::is_some).await.map(|ended| ended.clone()) {
            Ok(Some(ended)) => ended,
            // The sender lives in what this holds.
            _ => Ended::Killed,
        }
    }

    pub(super) fn set_connection(&self, connection: Option<Connection>) {
        *self.inner.connection.lock().unwrap_or_else(PoisonError::into_inner) = connection;
    }

    /// The first end counts.
    pub(super) fn set_ended(&self, ended: Ended) {
        self.set_connection(None);
        self.inner.ended.send_if_modified(|now| {
            let first = now.is_none();
            now.get_or_insert(ended);
            first
        });
    }

    pub(super) fn children_now(&self) -> MutexGuard<'_, Vec<Self>> {
        self.inner.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Subtree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subtree")
            .field("id", &self.inner.id)
            .field("name", &self.inner.name)
            .field("kind", &self.inner.kind)
            .field("ended", &self.try_ended())
            .finish_non_exhaustive()
    }
}

/// The connection of a subtree.
///
/// `None` for a connection that is over, for a worker, and for a supervisor, be it one with a single connection below it:
/// ask for the child first ([`Subtree::child`]).
#[must_use]
pub fn connection(subtree: &Subtree) -> Option<Connection> {
    let connection = subtree.inner.connection.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
    connection.close_reason().is_none().then_some(connection)
}

/// The names below one outermost supervisor, however deep.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<HashMap<Arc<str>, Subtree>>);

impl Names {
    pub(super) fn find(&self, name: &str) -> Option<Subtree> {
        self.lock().get(name).cloned()
    }

    /// Gives the child its name; false if another has it.
    pub(super) fn register(&self, child: &Subtree) -> bool {
        let Some(name) = child.inner.name.clone() else { return true };
        let mut names = self.lock();
        let free = !names.contains_key(&name);
        if free {
            names.insert(name, child.clone());
        }
        free
    }

    pub(super) fn release(&self, child: &Subtree) {
        if let Some(name) = &child.inner.name {
            let mut names = self.lock();
            if names.get(name).is_some_and(|held| Arc::ptr_eq(&held.inner, &child.inner)) {
                names.remove(name);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Subtree>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
