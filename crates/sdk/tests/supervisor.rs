//! Supervision in virtual time: restarts, order and limits of stopping, and that nothing goes on when its owner is gone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_sdk::acp::types::{InitializeRequest, NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse};
use pintle_sdk::acp::types::{ProtocolVersion, Raw};
use pintle_sdk::acp::{
    Agent, Client, ClientConnection, Closed, Connection, Ctx, Error, RawJson, RequestError, Turn, connect,
};
use pintle_sdk::supervisor::{
    ChildCx, ChildKind, ChildSpec, Ended, Event, Events, Limits, Restart, StartError, Subtree, Supervisor, connection,
};
use pintle_sdk::transport::{Memory, memory};
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Tells what it was made of; panics in its prompts.
struct Named(&'static str);

impl Agent for Named {
    async fn new_session(&self, _: NewSessionRequest, _: &Ctx) -> Result<NewSessionResponse, Error> {
        Ok(NewSessionResponse::new("s1"))
    }

    async fn prompt(&self, _: PromptRequest, _: &Turn) -> Result<PromptResponse, Error> {
        panic!("in a turn")
    }

    async fn ext_request(&self, method: &str, _: Option<RawJson>, _: &Ctx) -> Result<Raw, Error> {
        match method {
            "_t/never" => std::future::pending().await,
            _ => Ok(Raw::parse(format!("\"{}\"", self.0)).expect("JSON")),
        }
    }
}

/// Never gets ready.
struct Stuck;

impl Agent for Stuck {
    async fn init(&self, _: &Ctx) -> Result<(), Error> {
        std::future::pending().await
    }
}

/// Will not.
struct Refusing;

impl Agent for Refusing {
    async fn init(&self, _: &Ctx) -> Result<(), Error> {
        Err(Error::internal_error())
    }
}

struct Editor;

impl Client for Editor {}

fn agent(id: &str) -> (Memory, ChildSpec) {
    let (ours, theirs) = memory();
    (ours, ChildSpec::agent(Named, theirs).handler_arg("made of this").id(id))
}

type Log = Arc<Mutex<Vec<String>>>;

fn log(log: &Log, line: impl Into<String>) {
    log.lock().expect("no panic while held").push(line.into());
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().expect("no panic while held"))
}

/// A worker that ends when it is asked to, and takes `seconds` for it.
fn worker(id: &'static str, seconds: u64, ends: &Log) -> ChildSpec {
    let ends = ends.clone();
    ChildSpec::worker(id, Restart::Permanent, move |cx: ChildCx| {
        let ends = ends.clone();
        async move {
            cx.stopping().await;
            tokio::time::sleep(Duration::from_secs(seconds)).await; // virtual time
            log(&ends, id);
            Ok::<_, std::io::Error>(())
        }
    })
}

async fn start(children: impl IntoIterator<Item = ChildSpec>) -> Supervisor {
    Supervisor::start(Limits::default(), children).await.expect("all children start")
}

/// The events from now on.
async fn events_now(host: &Supervisor) -> Events {
    settle().await;
    drop(host.events());
    host.events()
}

/// The next event, in words.
async fn event(events: &mut Events) -> String {
    match events.next().await {
        Some(Event::Started { path, restarts }) => format!("{path} started {restarts}"),
        Some(Event::Restarting { path, ended, after }) => format!("{path} {ended}, again in {after:?}"),
        Some(Event::Ended { path, ended }) => format!("{path} {ended}"),
        Some(Event::Missed { count }) => format!("missed {count}"),
        Some(_) => "unknown".to_owned(),
        None => "no more".to_owned(),
    }
}

/// Lets everything run that can, without time passing.
async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// the connection is found in its subtree, by id and by name, and its handler was made of its argument;
/// anything else has none.
#[tokio::test(start_paused = true)]
async fn r_242_the_connection_of_a_subtree_is_found() {
    let (ours, spec) = agent("echo");
    let host = start([spec.name("the echo"), worker("w", 0, &Log::default())]).await;
    let subtree = host.subtree("echo").expect("by id");
    assert_eq!((subtree.id(), subtree.name(), subtree.kind()), ("echo", Some("the echo"), ChildKind::Connection));
    assert_eq!(host.find("the echo").expect("by name").id(), "echo");
    assert!(connection(&subtree).is_some());
    assert!(connection(&host.subtree("w").expect("the worker")).is_none());
    assert!(connection(host.root()).is_none(), "the host's own supervisor is one level too high");
    assert!(host.subtree("the echo").is_none() && host.find("echo").is_none());

    let editor = connect(Editor, ours).expect("memory opens");
    editor.initialize().await.expect("answered");
    assert_eq!(editor.ext_request("_t/name", &()).await.expect("answered").as_str(), "\"made of this\"");
    host.shutdown().await;
    assert!(connection(&subtree).is_none());
}

/// a connection that is lost is told to whoever looks, in three ways, and is not started again.
#[tokio::test(start_paused = true)]
async fn r_240_a_lost_connection_is_told_and_never_restarted() {
    let (ours, spec) = agent("echo");
    let host = start([spec, worker("other", 0, &Log::default())]).await;
    let mut events = events_now(&host).await;
    let subtree = host.subtree("echo").expect("started");
    let link = connection(&subtree).expect("a connection");
    drop(ours);
    assert!(matches!(subtree.ended().await, Ended::Connection(Closed::ByPeer)));
    assert_eq!(event(&mut events).await, "echo closed by the peer");
    assert_eq!(link.closed().await, Closed::ByPeer);
    tokio::time::advance(Duration::from_secs(3600)).await;
    settle().await;
    assert!(host.subtree("echo").is_none() && connection(&subtree).is_none());
    assert!(host.subtree("other").is_some(), "the others go on");
    host.shutdown().await;
    assert_eq!(event(&mut events).await, "other stopped");
    assert_eq!(event(&mut events).await, "no more");
}

/// R-241, G-22: what goes wrong in a session is answered, and the connection lives on.
#[tokio::test(start_paused = true)]
async fn r_241_a_crash_in_a_session_leaves_the_connection_alive() {
    let (ours, spec) = agent("echo");
    let host = start([spec]).await;
    let editor = connect(Editor, ours).expect("memory opens");
    editor.initialize().await.expect("answered");
    editor.request(NewSessionRequest::new("/")).await.expect("a session");
    let crashed = editor.request(PromptRequest::new("s1", vec!["x".into()])).await;
    assert!(matches!(crashed, Err(RequestError::Peer(error)) if error.code.get() == -32603));
    assert!(connection(&host.subtree("echo").expect("alive")).is_some());
    assert_eq!(editor.ext_request("_t/name", &()).await.expect("answered").as_str(), "\"made of this\"");
}

/// A client's connection is supervised alike.
#[tokio::test(start_paused = true)]
async fn a_clients_connection_is_a_subtree_too() {
    let (ours, theirs) = memory();
    let host = start([ChildSpec::client(|()| Editor, theirs), ChildSpec::agent(|()| Named("x"), ours)]).await;
    let client = connection(&host.subtree("client").expect("by its usual id")).expect("a connection");
    client.request(InitializeRequest::new(ProtocolVersion::LATEST)).await.expect("answered");
    assert!(client.is_initialized());
    assert!(host.stop_child("client").await.expect("it is there").is_good());
    assert_eq!(client.closed().await, Closed::Locally);
    let agent = host.root().child("agent");
    if let Some(agent) = agent {
        assert!(matches!(agent.ended().await, Ended::Connection(Closed::ByPeer)));
    }
    assert!(host.stop_child("client").await.is_err(), "it is gone");
}

async fn ends_at_once(restart: Restart, cx: ChildCx, how: &str, starts: Log) -> Result<(), std::io::Error> {
    log(&starts, format!("{restart:?} {}", cx.restarts()));
    match how {
        "done" => Ok(()),
        "error" => Err(std::io::ErrorKind::Other.into()),
        _ => panic!("as told"),
    }
}

/// What a worker that ends in this way does under each policy, in an hour.
async fn check_restart(how: &'static str, restart: Restart, expected_starts: usize, expected_end: &str) {
    let starts = Log::default();
    let log = starts.clone();
    let spec = ChildSpec::worker("w", restart, move |cx| ends_at_once(restart, cx, how, log.clone()));
    let host = start([spec]).await;
    let mut events = host.events();
    tokio::time::sleep(Duration::from_secs(3600)).await; // virtual time
    assert_eq!(taken(&starts).len(), expected_starts, "{restart:?} {how}");
    let mut told = Vec::new();
    while let Some(event) = events.next().await {
        if let Event::Ended { path, ended } = event {
            told.push(format!("{path} {ended}"));
            break;
        }
    }
    assert!(told.len() == 1 && told[0].starts_with(&format!("w {expected_end}")), "{told:?}");
}

/// the three policies, and the bound on restarts.
#[tokio::test(start_paused = true)]
async fn workers_are_restarted_as_their_policy_says() {
    let bound = 1 + Limits::default().max_restarts as usize;
    check_restart("done", Restart::Permanent, bound, "done").await;
    check_restart("error", Restart::Permanent, bound, "failed").await;
    check_restart("done", Restart::Transient, 1, "done").await;
    check_restart("error", Restart::Transient, bound, "failed").await;
    check_restart("panic", Restart::Transient, bound, "panicked").await;
    check_restart("panic", Restart::Temporary, 1, "panicked").await;
}

/// Each restart waits twice as long as the one before; one too many ends the supervisor, its other children in order.
#[tokio::test(start_paused = true)]
async fn restarts_back_off_and_too_many_end_everything() {
    let (starts, ends) = (Log::default(), Log::default());
    let begin = Instant::now();
    let starts_of = starts.clone();
    let failing = ChildSpec::worker("failing", Restart::Transient, move |_| {
        let starts = starts_of.clone();
        async move {
            log(&starts, begin.elapsed().as_millis().to_string());
            Err::<(), std::io::Error>(std::io::ErrorKind::Other.into())
        }
    });
    let host = start([worker("a", 1, &ends), failing, worker("b", 1, &ends)]).await;
    let ended = host.wait().await;
    assert_eq!(taken(&starts), ["0", "100", "300", "700", "1500", "3100"]);
    assert!(matches!(&ended, Ended::GaveUp { id, max_restarts: 5, .. } if &**id == "failing"), "{ended}");
    assert!(!ended.is_good());
    assert_eq!(taken(&ends), ["b", "a"]);
    let refused = host.add(worker("late", 0, &ends)).await;
    assert!(matches!(refused, Err(StartError::SupervisorEnded { .. })));
}

/// Children stop one after the other, the last first; one that does not is dropped at its limit.
#[tokio::test(start_paused = true)]
async fn stopping_goes_backwards_and_has_limits() {
    let ends = Log::default();
    let deaf = worker("deaf", 3600, &ends).shutdown(Duration::from_secs(7));
    let host = start([worker("a", 2, &ends), deaf, worker("c", 1, &ends)]).await;
    let deaf = host.subtree("deaf").expect("started");
    let begin = Instant::now();
    assert!(matches!(host.shutdown().await, Ended::Stopped));
    assert_eq!(taken(&ends), ["c", "a"]);
    assert!(matches!(deaf.ended().await, Ended::Killed));
    assert_eq!(begin.elapsed().as_secs(), 1 + 7 + 2);
}

/// One child can be stopped while the others go on, and its id and name are free then.
#[tokio::test(start_paused = true)]
async fn a_child_is_stopped_alone_and_its_names_are_free_again() {
    let ends = Log::default();
    let host = start([worker("a", 1, &ends).name("n"), worker("b", 1, &ends)]).await;
    let taken_id = host.add(worker("a", 0, &ends)).await;
    assert!(matches!(taken_id, Err(StartError::IdTaken { .. })));
    let taken_name = host.add(worker("c", 0, &ends).name("n")).await;
    assert!(matches!(taken_name, Err(StartError::NameTaken { .. })));
    assert!(matches!(host.stop_child("a").await, Ok(Ended::Stopped)));
    host.add(worker("a", 0, &ends).name("n")).await.expect("both are free");
    assert_eq!(host.root().children().iter().map(Subtree::id).collect::<Vec<_>>(), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_children_is_bounded() {
    let mut limits = Limits::default();
    limits.max_children = 1;
    let host = Supervisor::start(limits, [worker("a", 0, &Log::default())]).await.expect("starts");
    let full = host.add(worker("b", 0, &Log::default())).await;
    assert!(matches!(full, Err(StartError::Full { limit: 1, .. })));
}

/// an agent that refuses is a start that failed; those before it are stopped.
#[tokio::test(start_paused = true)]
async fn a_child_that_does_not_start_stops_those_before_it() {
    let ends = Log::default();
    for (spec, word) in [
        (ChildSpec::agent(|()| Refusing, memory().1), "refused"),
        (ChildSpec::agent(|()| Stuck, memory().1), "not up within 30000 ms"),
    ] {
        let begin = Handle::current().metrics().num_alive_tasks();
        let error = Supervisor::start(Limits::default(), [worker("first", 0, &ends), spec]).await.expect_err(word);
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(taken(&ends), ["first"]);
        settle().await;
        assert_eq!(Handle::current().metrics().num_alive_tasks(), begin);
    }
}

/// A supervisor below gives up: its parent starts it again, with its children; names are found through all levels.
#[tokio::test(start_paused = true)]
async fn supervisors_nest() {
    let starts = Log::default();
    let log_of = starts.clone();
    let mut inner = Limits::default();
    inner.max_restarts = 0;
    let below = ChildSpec::supervisor("below", Restart::Transient, inner, move || {
        let (starts, stable) = (log_of.clone(), Log::default());
        let failing = ChildSpec::worker("failing", Restart::Transient, move |_| {
            let starts = starts.clone();
            async move {
                log(&starts, "start");
                tokio::time::sleep(Duration::from_secs(100)).await; // virtual time
                Err::<(), std::io::Error>(std::io::ErrorKind::Other.into())
            }
        });
        vec![worker("deep", 0, &stable).name("deep down"), failing]
    });
    let host = start([below]).await;
    let mut events = events_now(&host).await;
    let first = host.find("deep down").expect("through the levels");
    assert_eq!(host.subtree("below").expect("by id").child("deep").expect("by id").id(), "deep");
    for expected in ["below/failing failed", "below/deep stopped", "below gave up after 0 restarts"] {
        let told = event(&mut events).await;
        assert!(told.starts_with(expected), "{told}");
    }
    assert!(matches!(first.ended().await, Ended::Stopped));
    for expected in ["below/deep started 0", "below/failing started 0", "below started 1"] {
        assert_eq!(event(&mut events).await, expected);
    }
    assert!(host.find("deep down").is_some_and(|again| again.try_ended().is_none()));
    assert_eq!(taken(&starts).len(), 2);
    host.shutdown().await;
}

/// what depends on a connection ends with it where its host says so.
#[tokio::test(start_paused = true)]
async fn a_significant_child_takes_its_supervisor_with_it() {
    let ends = Log::default();
    let (ours, spec) = agent("echo");
    let host = start([worker("w", 0, &ends), spec.significant()]).await;
    drop(ours);
    let ended = host.wait().await;
    assert!(matches!(&ended, Ended::SignificantChild { id, .. } if &**id == "echo"), "{ended}");
    assert!(ended.is_good(), "the peer closed its end");
    assert_eq!(taken(&ends), ["w"]);
}

/// One who takes events too slowly is told how many were lost; nothing waits for it.
#[tokio::test(start_paused = true)]
async fn lost_events_are_counted() {
    let host = start([]).await;
    let mut events = events_now(&host).await;
    for _ in 0..200 {
        host.add(worker("w", 0, &Log::default())).await.expect("starts");
        host.stop_child("w").await.expect("stops");
    }
    assert_eq!(event(&mut events).await, format!("missed {}", 400 - 256));
    assert_eq!(event(&mut events).await, "w started 0");
}

/// A host with all kinds of children, busy: an open request in each direction.
async fn busy_host() -> (Supervisor, ClientConnection, tokio::task::JoinHandle<()>) {
    let (ours, spec) = agent("echo");
    let below = ChildSpec::supervisor("below", Restart::Permanent, Limits::default(), || {
        vec![worker("deep", 3600, &Log::default())]
    });
    let host = start([spec, worker("w", 3600, &Log::default()), below]).await;
    let editor = connect(Editor, ours).expect("memory opens");
    editor.initialize().await.expect("answered");
    let open = Connection::clone(&editor);
    let waiter = tokio::spawn(async move {
        assert!(matches!(open.ext_request("_t/never", &()).await, Err(RequestError::Closed)));
    });
    settle().await;
    (host, editor, waiter)
}

/// Inv-6: dropping a supervisor leaves no task of its own behind, and everybody who waits is told.
#[tokio::test(start_paused = true)]
async fn inv_6_no_task_outlives_a_dropped_supervisor() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (host, editor, waiter) = busy_host().await;
    assert!(Handle::current().metrics().num_alive_tasks() > before + 5);
    let subtrees = host.root().children();
    assert_eq!(subtrees.len(), 3);
    drop(host);
    for subtree in &subtrees {
        assert!(matches!(subtree.ended().await, Ended::Killed), "{subtree:?}");
    }
    waiter.await.expect("told");
    drop(editor);
    settle().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
}

/// Inv-6: the same when the owner panics.
#[tokio::test(start_paused = true)]
async fn inv_6_no_task_outlives_an_owner_that_panics() {
    let before = Handle::current().metrics().num_alive_tasks();
    let owner = tokio::spawn(async {
        let (_host, editor, waiter) = busy_host().await;
        let watched = Connection::clone(&editor);
        tokio::spawn(async move { drop((waiter.await, editor)) });
        settle().await;
        drop(watched);
        panic!("as told")
    });
    assert!(owner.await.expect_err("it panics").is_panic());
    settle().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
}

/// Inv-6: and when it is told to stop.
#[tokio::test(start_paused = true)]
async fn inv_6_no_task_outlives_a_shutdown() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (host, editor, waiter) = busy_host().await;
    let ended = host.shutdown().await;
    assert!(ended.is_good(), "{ended}");
    waiter.await.expect("told");
    drop(editor);
    settle().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
}
