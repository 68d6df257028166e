//! The loop of a supervisor: the one place that starts, restarts and stops its children.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::end::{Ended, Event, StartError};
use super::policy::{Limits, Restart, Window};
use super::spec::{BoxFuture, ChildCx, ChildSpec, ConnectionParts, SpecsFn, Start, WorkerFn};
use super::subtree::{Names, Subtree};
use crate::acp::{Closed, ServeError, TASKS_GRACE};

/// How long a child that was dropped may take to reach its next await. One that blocks its thread never does, and nobody
/// waits for it any longer.
const ABORT_GRACE: Duration = Duration::from_secs(1);
/// Children that can be up at the same moment without waiting for the loop.
const READY_HELD: usize = 16;

/// What the owner of the outermost supervisor wants.
pub(super) enum Command {
    Add { child: Box<ChildSpec>, reply: Reply },
    Stop { id: Arc<str>, reply: oneshot::Sender<Option<Subtree>> },
}

type Reply = oneshot::Sender<Result<Subtree, StartError>>;
type Owner = oneshot::Sender<Result<(), StartError>>;

/// One supervisor with its children.
pub(super) struct Tree {
    root: Subtree,
    /// The ids on the way here, each with `/` behind it; empty for the outermost.
    path: String,
    limits: Limits,
    names: Arc<Names>,
    events: broadcast::Sender<Event>,
    slots: Vec<Slot>,
    tasks: JoinSet<Ended>,
    window: Window,
    next_key: u64,
    /// Why everything is being stopped, once it is.
    ending: Option<Ended>,
    /// Why a child of the first ones did not start.
    not_started: Option<StartError>,
}

struct Slot {
    /// Tells its ready signals from those of others.
    key: u64,
    subtree: Subtree,
    significant: bool,
    shutdown: Option<Duration>,
    again: Again,
    restarts: u32,
    state: State,
    /// Who waits for it to be up.
    waiting: Option<Reply>,
}

/// What is needed to start a child again.
#[derive(Clone)]
enum Again {
    Never,
    Worker(Restart, WorkerFn),
    Supervisor(Restart, Limits, SpecsFn),
}

enum State {
    Starting {
        task: Task,
        deadline: Instant,
    },
    Running(Task),
    /// It ended, and is started again then.
    Waiting {
        due: Instant,
    },
    /// It was asked to end; it is dropped then.
    Stopping {
        task: Task,
        deadline: Option<Instant>,
    },
    /// It was dropped; it is given up then.
    Dropped {
        task: Task,
        deadline: Instant,
    },
}

struct Task {
    abort: AbortHandle,
    stop: CancellationToken,
}

impl Tree {
    pub(super) fn new(root: Subtree, limits: Limits, names: Arc<Names>, events: broadcast::Sender<Event>) -> Self {
        Self {
            root,
            path: String::new(),
            limits,
            names,
            events,
            slots: Vec::new(),
            tasks: JoinSet::new(),
            window: Window::default(),
            next_key: 0,
            ending: None,
            not_started: None,
        }
    }

    /// Runs until everything has ended; `up` is told when the first children are up.
    pub(super) async fn run_outermost(
        self,
        first: VecDeque<ChildSpec>,
        commands: mpsc::Receiver<Command>,
        stop: CancellationToken,
        up: Owner,
    ) {
        let told = Told(self.root.clone());
        let (ready, ended) = self.run(first, Some(commands), stop, Up::Owner(up)).await;
        told.0.set_ended(ended);
        if let Some((owner, error)) = ready {
            // Nobody waits any more where the owner has gone.
            let _ = owner.send(Err(error));
        }
    }

    async fn run(
        mut self,
        mut first: VecDeque<ChildSpec>,
        mut commands: Option<mpsc::Receiver<Command>>,
        stop: CancellationToken,
        up: Up,
    ) -> (Option<(Owner, StartError)>, Ended) {
        let (ready_sender, mut ready) = mpsc::channel(READY_HELD);
        let mut up = Some(up);
        loop {
            while self.ending.is_none() && !self.slots.iter().any(Slot::is_starting) {
                let Some(child) = first.pop_front() else {
                    if let Some(up) = up.take_if(|_| self.not_started.is_none()) {
                        up.tell().await;
                    }
                    break;
                };
                self.add(child, None, &ready_sender);
            }
            if self.ending.is_some() && self.stop_last() {
                break;
            }
            let deadline = self.slots.iter().filter_map(Slot::deadline).min();
            tokio::select! {
                biased;
                () = stop.cancelled(), if self.ending.is_none() => self.ending = Some(Ended::Stopped),
                Some(key) = ready.recv() => self.is_up(key),
                Some(Err(ended) | Ok(ended)) = join(&mut self.tasks), if !self.tasks.is_empty() => {
                    self.task_ended(ended.0, ended.1);
                }
                command = next(&mut commands) => match command {
                    Some(command) => self.command(command, &ready_sender),
                    None => commands = None,
                },
                () = at(deadline) => self.handle_timeout(tokio::time::Instant::now().into_std(), &ready_sender),
            }
        }
        let ended = self.ending.take().unwrap_or(Ended::Stopped);
        let failed = match (up, self.not_started.take()) {
            (Some(Up::Owner(owner)), Some(error)) => Some((owner, error)),
            _ => None,
        };
        (failed, ended)
    }

    fn command(&mut self, command: Command, ready: &mpsc::Sender<u64>) {
        match command {
            Command::Add { child, reply } if self.ending.is_some() => {
                let _ = reply.send(Err(StartError::SupervisorEnded { id: child.id }));
            }
            Command::Add { child, reply } => self.add(*child, Some(reply), ready),
            Command::Stop { id, reply } => {
                let slot = self.slots.iter().position(|slot| slot.subtree.id() == &*id);
                let subtree = slot.map(|index| self.slots[index].subtree.clone());
                if let Some(index) = slot {
                    self.begin_stop(index);
                }
                let _ = reply.send(subtree);
            }
        }
    }

    /// A new child. One that cannot be is told to who asked, or ends the supervisor that it was to begin with.
    fn add(&mut self, child: ChildSpec, waiting: Option<Reply>, ready: &mpsc::Sender<u64>) {
        let subtree = Subtree::new(child.id.clone(), child.name.clone(), child.kind());
        let id = child.id.clone();
        let refused = if self.slots.len() >= self.limits.max_children {
            Some(StartError::Full { id, limit: self.limits.max_children })
        } else if self.slots.iter().any(|slot| slot.subtree.id() == &*id) {
            Some(StartError::IdTaken { id })
        } else if !self.names.register(&subtree) {
            Some(StartError::NameTaken { id, name: child.name.unwrap_or_default() })
        } else {
            None
        };
        if let Some(error) = refused {
            return self.refuse(error, waiting);
        }
        self.root.children_now().push(subtree.clone());
        let key = self.next_key;
        self.next_key += 1;
        let (task, again) = match child.start {
            Start::Connection(start) => {
                let (stop, ready, at) = (CancellationToken::new(), ready.clone(), subtree.clone());
                let child = connection_child(move || start(()), at, stop.clone(), ready, key);
                (Task { abort: self.tasks.spawn(child), stop }, Again::Never)
            }
            Start::Worker(restart, work) => {
                let again = Again::Worker(restart, work);
                (self.spawn(&again, &subtree, key, 0, ready), again)
            }
            Start::Supervisor(restart, limits, specs) => {
                let again = Again::Supervisor(restart, limits, specs);
                (self.spawn(&again, &subtree, key, 0, ready), again)
            }
        };
        self.slots.push(Slot {
            key,
            subtree,
            significant: child.significant,
            shutdown: child.shutdown,
            state: self.begun(task, &again),
            again,
            restarts: 0,
            waiting,
        });
        if !self.slots.last().is_some_and(Slot::is_starting) {
            self.is_up(key);
        }
    }

    fn refuse(&mut self, error: StartError, waiting: Option<Reply>) {
        match waiting {
            Some(reply) => drop(reply.send(Err(error))),
            None => {
                self.ending.get_or_insert_with(|| Ended::Failed(Arc::new(error.clone())));
                self.not_started.get_or_insert(error);
            }
        }
    }

    fn spawn(&mut self, again: &Again, subtree: &Subtree, key: u64, restarts: u32, ready: &mpsc::Sender<u64>) -> Task {
        let stop = CancellationToken::new();
        let child: BoxFuture<Ended> = match again {
            Again::Never => Box::pin(std::future::ready(Ended::Done)),
            Again::Worker(_, work) => {
                let (work, cx) = (work.clone(), ChildCx::new(stop.clone(), restarts));
                Box::pin(async move { work(cx).await.map_or_else(Ended::Failed, |()| Ended::Done) })
            }
            Again::Supervisor(_, limits, specs) => {
                let mut tree = Self::new(subtree.clone(), *limits, self.names.clone(), self.events.clone());
                tree.path = format!("{}{}/", self.path, subtree.id());
                supervisor_child(tree, specs.clone(), stop.clone(), Up::Parent(ready.clone(), key))
            }
        };
        Task { abort: self.tasks.spawn(child), stop }
    }

    /// The state of a child whose task was just spawned: a worker is up at once.
    fn begun(&self, task: Task, again: &Again) -> State {
        if matches!(again, Again::Worker(..)) {
            return State::Running(task);
        }
        // Supervisors below bound the start of their own children, one by one.
        let far = Duration::from_secs(365 * 24 * 60 * 60);
        let limit = if matches!(again, Again::Never) { self.limits.start_timeout } else { far };
        State::Starting { task, deadline: now() + limit }
    }

    fn is_up(&mut self, key: u64) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.key == key) else { return };
        match std::mem::replace(&mut slot.state, State::Waiting { due: now() }) {
            State::Starting { task, .. } | State::Running(task) => slot.state = State::Running(task),
            other => {
                slot.state = other;
                return;
            }
        }
        if let Some(reply) = slot.waiting.take() {
            let _ = reply.send(Ok(slot.subtree.clone()));
        }
        let (path, restarts) = (slot.path(&self.path), slot.restarts);
        tracing::debug!(child = %path, restarts, "child is up");
        let _ = self.events.send(Event::Started { path, restarts });
    }

    fn task_ended(&mut self, task: tokio::task::Id, ended: Ended) {
        let Some(index) = self.slots.iter().position(|slot| slot.task() == Some(task)) else { return };
        let slot = &mut self.slots[index];
        let restart = match &slot.again {
            Again::Never => None,
            Again::Worker(restart, _) | Again::Supervisor(restart, ..) => Some(*restart),
        };
        match slot.state {
            State::Stopping { .. } | State::Dropped { .. } => {
                let ended = if matches!(ended, Ended::Done) { Ended::Stopped } else { ended };
                self.remove(index, ended);
            }
            State::Starting { .. } if slot.restarts == 0 => {
                let error = StartError::Ended { id: slot.subtree.inner.id.clone(), ended: ended.clone() };
                let waiting = slot.waiting.take();
                self.remove(index, ended);
                self.refuse(error, waiting);
            }
            _ if self.ending.is_none() && restart.is_some_and(|restart| restart.applies(ended.is_good())) => {
                self.restart_later(index, ended);
            }
            _ => self.remove(index, ended),
        }
    }

    fn restart_later(&mut self, index: usize, ended: Ended) {
        let (now, slot) = (now(), &mut self.slots[index]);
        let path = slot.path(&self.path);
        let Some(after) = self.window.admit(now, slot.key, &self.limits) else {
            let id = slot.subtree.inner.id.clone();
            let (max_restarts, period) = (self.limits.max_restarts, self.limits.period);
            tracing::warn!(child = %path, max_restarts, "children failed too often: the supervisor gives up");
            self.remove(index, ended.clone());
            self.ending = Some(Ended::GaveUp { id, end: Box::new(ended), max_restarts, period });
            return;
        };
        slot.restarts = slot.restarts.saturating_add(1);
        slot.state = State::Waiting { due: now + after };
        tracing::warn!(child = %path, %ended, after_ms = after.as_millis(), "child will be started again");
        let _ = self.events.send(Event::Restarting { path, ended, after });
    }

    fn handle_timeout(&mut self, now: Instant, ready: &mpsc::Sender<u64>) {
        let mut index = 0;
        while index < self.slots.len() {
            if self.slots[index].deadline().is_none_or(|deadline| deadline > now) {
                index += 1;
                continue;
            }
            let slot = &mut self.slots[index];
            match std::mem::replace(&mut slot.state, State::Waiting { due: now }) {
                State::Waiting { .. } => {
                    let (again, subtree, key, restarts) =
                        (slot.again.clone(), slot.subtree.clone(), slot.key, slot.restarts);
                    subtree.children_now().clear();
                    let task = self.spawn(&again, &subtree, key, restarts, ready);
                    self.slots[index].state = self.begun(task, &again);
                    if !self.slots[index].is_starting() {
                        self.is_up(key);
                    }
                }
                State::Starting { task, .. } => {
                    task.abort.abort();
                    slot.state = State::Dropped { task, deadline: now + ABORT_GRACE };
                    let limit_ms = u64::try_from(self.limits.start_timeout.as_millis()).unwrap_or(u64::MAX);
                    let error = StartError::TimedOut { id: slot.subtree.inner.id.clone(), limit_ms };
                    let waiting = slot.waiting.take();
                    self.refuse(error, waiting);
                }
                State::Running(task) => slot.state = State::Running(task),
                State::Stopping { task, .. } => {
                    task.abort.abort();
                    slot.state = State::Dropped { task, deadline: now + ABORT_GRACE };
                }
                State::Dropped { .. } => {
                    self.remove(index, Ended::Killed);
                    continue;
                }
            }
            index += 1;
        }
    }

    /// Goes on with stopping everything, last child first; true when nothing is left.
    fn stop_last(&mut self) -> bool {
        loop {
            let Some(slot) = self.slots.last() else { return true };
            match slot.state {
                State::Stopping { .. } | State::Dropped { .. } => return false,
                _ => self.begin_stop(self.slots.len() - 1),
            }
        }
    }

    fn begin_stop(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let deadline = slot.shutdown.map(|limit| now() + limit);
        match std::mem::replace(&mut slot.state, State::Waiting { due: now() }) {
            State::Starting { task, .. } | State::Running(task) => {
                task.stop.cancel();
                slot.state = State::Stopping { task, deadline };
            }
            State::Waiting { .. } => self.remove(index, Ended::Stopped),
            other => slot.state = other,
        }
    }

    /// The child is gone for good, and whoever looks is told.
    fn remove(&mut self, index: usize, ended: Ended) {
        let mut slot = self.slots.remove(index);
        let path = slot.path(&self.path);
        self.root.children_now().retain(|child| !Arc::ptr_eq(&child.inner, &slot.subtree.inner));
        self.names.release(&slot.subtree);
        if let Some(reply) = slot.waiting.take() {
            let id = slot.subtree.inner.id.clone();
            let _ = reply.send(Err(StartError::Ended { id, ended: ended.clone() }));
        }
        if ended.is_good() {
            tracing::debug!(child = %path, %ended, "child ended");
        } else {
            tracing::warn!(child = %path, %ended, "child ended");
        }
        if slot.significant && self.ending.is_none() {
            let id = slot.subtree.inner.id.clone();
            self.ending = Some(Ended::SignificantChild { id, end: Box::new(ended.clone()) });
        }
        slot.subtree.set_ended(ended.clone());
        let _ = self.events.send(Event::Ended { path, ended });
    }
}

impl Drop for Tree {
    /// Whoever drops a supervisor ends its children, and those who look at them are told.
    fn drop(&mut self) {
        for slot in std::mem::take(&mut self.slots) {
            self.names.release(&slot.subtree);
            slot.subtree.set_ended(Ended::Killed);
        }
        self.root.children_now().clear();
    }
}

impl Slot {
    fn is_starting(&self) -> bool {
        matches!(self.state, State::Starting { .. })
    }

    fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Starting { deadline, .. } | State::Dropped { deadline, .. } => Some(deadline),
            State::Stopping { deadline, .. } => deadline,
            State::Waiting { due } => Some(due),
            State::Running(_) => None,
        }
    }

    fn task(&self) -> Option<tokio::task::Id> {
        match &self.state {
            State::Starting { task, .. }
            | State::Running(task)
            | State::Stopping { task, .. }
            | State::Dropped { task, .. } => Some(task.abort.id()),
            State::Waiting { .. } => None,
        }
    }

    fn path(&self, above: &str) -> Arc<str> {
        format!("{above}{}", self.subtree.id()).into()
    }
}

/// Who is told that the first children are up.
enum Up {
    Owner(Owner),
    Parent(mpsc::Sender<u64>, u64),
}

impl Up {
    async fn tell(self) {
        match self {
            // Without an owner this task is about to be dropped.
            Self::Owner(owner) => drop(owner.send(Ok(()))),
            Self::Parent(ready, key) => drop(ready.send(key).await),
        }
    }
}

/// Tells the end of the outermost supervisor also when its loop is dropped.
struct Told(Subtree);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.set_ended(Ended::Killed);
    }
}

/// A supervisor as a child. Its type is written out, since it contains itself.
fn supervisor_child(tree: Tree, specs: SpecsFn, stop: CancellationToken, up: Up) -> BoxFuture<Ended> {
    Box::pin(async move {
        let children = specs().into();
        tree.run(children, None, stop, up).await.1
    })
}

/// A connection as a child: up when its carrier is open and its handler ready, closed when it is to stop.
async fn connection_child(
    start: impl FnOnce() -> BoxFuture<Result<ConnectionParts, ServeError>> + Send + 'static,
    subtree: Subtree,
    stop: CancellationToken,
    ready: mpsc::Sender<u64>,
    key: u64,
) -> Ended {
    let started = tokio::select! {
        started = start() => started,
        () = stop.cancelled() => return Ended::Stopped,
    };
    let (connection, run) = match started {
        Ok(started) => started,
        Err(error) => return Ended::Failed(Arc::new(error)),
    };
    subtree.set_connection(Some(connection.clone()));
    // The loop that takes it owns this task.
    let _ = ready.send(key).await;
    let mut run = pin!(run);
    let result = tokio::select! {
        result = &mut run => result,
        () = stop.cancelled() => {
            connection.close();
            run.await
        }
    };
    subtree.set_connection(None);
    // The handlers were told to stop; one that never yields must not hold up the end of the rest.
    let _ = timeout(TASKS_GRACE, connection.tasks_ended()).await;
    match result {
        Ok(Closed::Locally) if stop.is_cancelled() => Ended::Stopped,
        Ok(closed) => Ended::Connection(closed),
        Err(error) => Ended::Failed(Arc::new(ServeError::Transport(error))),
    }
}

type TaskEnd = (tokio::task::Id, Ended);

/// The next child task that ended.
async fn join(tasks: &mut JoinSet<Ended>) -> Option<Result<TaskEnd, TaskEnd>> {
    let ended = tasks.join_next_with_id().await?;
    Some(ended.map_err(|error: JoinError| (error.id(), if error.is_panic() { Ended::Panicked } else { Ended::Killed })))
}

async fn next(commands: &mut Option<mpsc::Receiver<Command>>) -> Option<Command> {
    match commands {
        Some(commands) => commands.recv().await,
        None => std::future::pending().await,
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// The runtime's clock, which tests can stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
