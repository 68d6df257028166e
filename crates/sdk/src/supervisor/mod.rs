//! Supervision: whatever a host runs ends with its owner, and no end is silent.
//!
//! A [`Supervisor`] starts children in order, starts those again that may be, stops them in the reverse order, and ends
//! them all when it is dropped. Its children are connections, workers and further supervisors; each is one tokio task, and
//! what that task owns (handlers, a carrier, a child process) goes with it. The chapter
//! [`guide::supervision`](crate::guide::supervision) tells the whole story.
//!
//! ```
//! use pintle_sdk::acp::{Agent, Client};
//! use pintle_sdk::supervisor::{ChildSpec, Limits, Supervisor, connection};
//! use pintle_sdk::transport::memory;
//!
//! struct Echo;
//! impl Agent for Echo {}
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (editor, transport) = memory();
//! let host = Supervisor::start(Limits::default(), [ChildSpec::agent(|()| Echo, transport).id("echo")]).await?;
//! let subtree = host.subtree("echo").expect("it was just started");
//! assert!(connection(&subtree).is_some());
//!
//! drop(editor); // the peer goes away: told, and not started again
//! println!("the agent's connection ended: {}", subtree.ended().await);
//! assert!(connection(&subtree).is_none());
//! host.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod end;
mod policy;
mod spec;
mod subtree;
mod tree;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use end::{Ended, Event, NoSuchChild, StartError};
pub use policy::{Limits, Restart};
pub use spec::{ChildCx, ChildSpec};
pub use subtree::{ChildKind, Subtree, connection};

use subtree::Names;
use tree::{Command, Tree};

/// Orders that wait until the supervisor gets to them; who has more waits.
const COMMANDS_HELD: usize = 16;
/// Events that wait for one who takes them; older ones are then lost, and counted.
const EVENTS_HELD: usize = 256;

/// The owner of a tree of children.
///
/// Dropping it drops every child at its next await, and with it handlers, connections and child processes; so does
/// the end of the runtime. [`Supervisor::shutdown`] is the way that lets them wind down.
pub struct Supervisor {
    root: Subtree,
    names: Arc<Names>,
    commands: mpsc::Sender<Command>,
    events: broadcast::WeakSender<Event>,
    /// Has been there from the start.
    first_events: Mutex<Option<broadcast::Receiver<Event>>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Supervisor {
    /// Starts the children one after the other, each when the one before is up. Needs a tokio runtime.
    ///
    /// Cancel safe: if the future is dropped, so are the children.
    ///
    /// # Errors
    /// [`StartError`] of the first that does not start; those before it have been stopped then.
    pub async fn start(limits: Limits, children: impl IntoIterator<Item = ChildSpec>) -> Result<Self, StartError> {
        let root = Subtree::new("supervisor".into(), None, ChildKind::Supervisor);
        let names = Arc::new(Names::default());
        let (commands, orders) = mpsc::channel(COMMANDS_HELD);
        let events = broadcast::Sender::new(EVENTS_HELD);
        let stop = CancellationToken::new();
        let (up, started) = oneshot::channel();
        let children: VecDeque<_> = children.into_iter().collect();
        let (weak, first_events) = (events.downgrade(), Mutex::new(Some(events.subscribe())));
        let tree = Tree::new(root.clone(), limits, names.clone(), events);
        let task = tokio::spawn(tree.run_outermost(children, orders, stop.clone(), up));
        let this = Self { root, names, commands, events: weak, first_events, stop, task };
        match started.await {
            Ok(Ok(())) => Ok(this),
            Ok(Err(error)) => {
                this.wait().await;
                Err(error)
            }
            // Only a runtime that ends drops the loop here.
            Err(_) => Err(StartError::SupervisorEnded { id: this.root.inner.id.clone() }),
        }
    }

    /// Starts one more child and waits until it is up.
    ///
    /// Not cancel safe: if the future is dropped, the child may start or not; [`Supervisor::subtree`] tells.
    ///
    /// # Errors
    /// [`StartError`]; then there is no such child.
    pub async fn add(&self, child: ChildSpec) -> Result<Subtree, StartError> {
        let id = child.id.clone();
        let (reply, answer) = oneshot::channel();
        let ended = StartError::SupervisorEnded { id };
        if self.commands.send(Command::Add { child: Box::new(child), reply }).await.is_err() {
            return Err(ended);
        }
        answer.await.unwrap_or(Err(ended))
    }

    /// Stops one child for good, and waits until it has ended: at most for its shutdown limit.
    ///
    /// # Errors
    /// [`NoSuchChild`]: this supervisor itself has none with this id.
    pub async fn stop_child(&self, id: &str) -> Result<Ended, NoSuchChild> {
        let missing = NoSuchChild { id: id.into() };
        let (reply, answer) = oneshot::channel();
        if self.commands.send(Command::Stop { id: id.into(), reply }).await.is_err() {
            return Err(missing);
        }
        match answer.await {
            Ok(Some(subtree)) => Ok(subtree.ended().await),
            _ => Err(missing),
        }
    }

    /// The child with this id.
    #[must_use]
    pub fn subtree(&self, id: &str) -> Option<Subtree> {
        self.root.child(id)
    }

    /// The child with this name, however deep below this supervisor.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Subtree> {
        self.names.find(name)
    }

    /// This supervisor itself as a subtree.
    #[must_use]
    pub fn root(&self) -> &Subtree {
        &self.root
    }

    /// What happens here and in the supervisors below. The first caller gets everything from the start, the others what
    /// happens from now on.
    #[must_use]
    pub fn events(&self) -> Events {
        if let Some(first) = self.first_events.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Events(first);
        }
        // Without a sender the supervisor has ended, and so have its events.
        Events(self.events.upgrade().map_or_else(|| broadcast::Sender::new(1).subscribe(), |events| events.subscribe()))
    }

    /// Waits until the supervisor ends: by [`Supervisor::shutdown`] elsewhere, with a significant child, or because children
    /// failed too often. Cancel safe.
    pub async fn wait(&self) -> Ended {
        self.root.ended().await
    }

    /// Begins to stop: every child in the reverse order of their start, each when the one behind it has ended.
    /// [`Supervisor::wait`] tells the end.
    pub fn begin_shutdown(&self) {
        self.stop.cancel();
    }

    /// Stops every child in the reverse order of their start, each when the one behind it has ended, and waits for the last.
    ///
    /// If the future is dropped, what is left is dropped with it.
    pub async fn shutdown(self) -> Ended {
        self.begin_shutdown();
        self.wait().await
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor").field("children", &self.root.children()).finish_non_exhaustive()
    }
}

/// What happens below a supervisor, in order.
#[derive(Debug)]
pub struct Events(broadcast::Receiver<Event>);

impl Events {
    /// The next event; `None` when the supervisor has ended and nothing is left. One who takes them too slowly is told how
    /// many were lost. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(Event::Missed { count }),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
