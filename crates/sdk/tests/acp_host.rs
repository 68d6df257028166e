//! The parts of a client's side, and the host made of them.
//!
//! Over 600 lines because the parts share one scripted agent and its scratch directory.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pintle_sdk::acp::host::{Elicit, FileLimits, Files, Host, HostError, Permissions, TerminalConfig, Terminals};
use pintle_sdk::acp::permission::Approve;
use pintle_sdk::acp::types::*;
use pintle_sdk::acp::{Agent, Client, ClientConnection, Ctx, Error, PromptError, RequestError, Turn, connect, serve};
use pintle_sdk::process::Environment;
use pintle_sdk::transport::memory;
use serde_json::{Value, json};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("root")).expect("a directory");
        Self { dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root").canonicalize().expect("it is there")
    }

    fn path(&self, name: &str) -> String {
        self.root().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.root().join(name), content).expect("a file");
        self.path(name)
    }

    fn files(&self, limits: FileLimits) -> Files {
        Files::below([self.root()], false, limits).expect("the root opens")
    }

    fn terminals(&self, change: impl FnOnce(&mut TerminalConfig)) -> Terminals {
        let mut config = TerminalConfig::new(self.root());
        config.env.set("PATH", "/usr/bin:/bin");
        change(&mut config);
        Terminals::new(config)
    }
}

fn reason(error: &Error) -> (i64, String) {
    let data: Value = error.data.as_ref().and_then(|data| serde_json::from_str(data.get()).ok()).unwrap_or_default();
    (error.code.get(), data["reason"].as_str().unwrap_or_default().to_owned())
}

// Files.

/// R-195 without its gap (G-14): `line` and `limit` count, each alone or together; lines keep their endings.
#[tokio::test]
async fn lines_of_a_file_are_read() {
    let place = Place::new();
    let path = place.put("a", "one\r\ntwo\nthree");
    let files = place.files(FileLimits::default());
    let check = async |line: Option<u32>, limit: Option<u32>, expected: &str| {
        let mut request = ReadTextFileRequest::new("s1", path.as_str());
        (request.line, request.limit) = (line, limit);
        let read = files.read(request).await.expect("readable").content;
        assert_eq!(read, expected, "{line:?} {limit:?}");
    };
    check(None, None, "one\r\ntwo\nthree").await;
    check(Some(2), None, "two\nthree").await;
    check(None, Some(2), "one\r\ntwo\n").await;
    check(Some(2), Some(1), "two\n").await;
    check(Some(3), Some(9), "three").await;
    check(Some(4), None, "").await;
    check(Some(u32::MAX), Some(u32::MAX), "").await;
    check(None, Some(0), "").await;
}

/// every refusal has its code and its reason, and none hangs.
#[tokio::test]
async fn what_is_no_text_of_the_client_is_refused() {
    let place = Place::new();
    let outside = place.dir.path().join("secret");
    fs::write(&outside, "secret").expect("a file");
    std::os::unix::fs::symlink(&outside, place.root().join("link")).expect("a link");
    let fifo = place.root().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
    place.put("latin1", b"caf\xe9");
    place.put("large", "x".repeat(101));
    let mut limits = FileLimits::default();
    (limits.max_read_bytes, limits.max_write_bytes) = (100, 100);
    let files = place.files(limits);
    let check = async |path: String, code: i64, expected: &str| {
        let read = files.read(ReadTextFileRequest::new("s1", path.as_str())).await.expect_err("refused");
        assert_eq!(reason(&read), (code, expected.to_owned()), "{path}");
    };
    check("/etc/hostname".into(), -32602, "path_traversal").await;
    check(place.path("../secret"), -32602, "path_traversal").await;
    check("relative".into(), -32602, "relative_path").await;
    check(place.path("link"), -32602, "symlink_escape").await;
    check(place.path("fifo"), -32602, "not_a_file").await;
    check(place.path(""), -32602, "not_a_file").await;
    check(place.path("latin1"), -32602, "not_utf8").await;
    check(place.path("large"), -32602, "too_large").await;
    check(place.path("latin1/below"), -32603, "not a directory").await;
    let missing = files.read(ReadTextFileRequest::new("s1", place.path("none"))).await.expect_err("nothing there");
    assert_eq!(missing, Error::resource_not_found(&place.path("none")));

    let write = async |path: String, text: String| {
        files.write(WriteTextFileRequest::new("s1", path, text)).await.map_err(|error| reason(&error))
    };
    assert_eq!(write(place.path("link"), "x".into()).await, Err((-32602, "symlink_escape".into())));
    assert_eq!(write(place.path("new"), "x".repeat(101)).await, Err((-32602, "too_large".into())));
    assert!(write(place.path("deep/new"), "x".repeat(100)).await.is_ok());
    assert_eq!(fs::read_to_string(&outside).expect("it is there"), "secret");
}

/// A range of a file that is larger than what may be answered is found without reading it all into memory.
#[tokio::test]
async fn a_range_of_a_large_file_is_read() {
    let place = Place::new();
    let text: String = (1..=10_000).map(|n| format!("line {n}\n")).collect();
    let path = place.put("log", text);
    let mut limits = FileLimits::default();
    (limits.max_read_bytes, limits.max_skip_bytes) = (1000, 80_000);
    let files = place.files(limits);
    let read = async |line: u32, limit: u32| {
        let request = ReadTextFileRequest::new("s1", path.as_str()).line(line).limit(limit);
        files.read(request).await.map(|response| response.content).map_err(|error| reason(&error).1)
    };
    assert_eq!(read(5000, 2).await.as_deref(), Ok("line 5000\nline 5001\n"));
    assert_eq!(read(5000, 200).await, Err("too_large".to_owned()));
    assert_eq!(read(9999, 1).await, Err("too_large".to_owned()), "it is too far into the file");
}

/// With re-rooting, paths are those of a system whose root the directory is.
#[tokio::test]
async fn a_root_can_be_the_root_of_all() {
    let place = Place::new();
    place.put("passwd", "mine");
    let files = Files::below([place.root()], true, FileLimits::default()).expect("the root opens");
    let read = files.read(ReadTextFileRequest::new("s1", "/passwd")).await.expect("readable");
    assert_eq!(read.content, "mine");
}

// Terminals.

fn create(command: &str, args: &[&str]) -> CreateTerminalRequest {
    CreateTerminalRequest::new("s1", command).args(args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
}

async fn ends(terminals: &Terminals, id: &TerminalId) -> (Option<u32>, Option<String>) {
    let ended = terminals.wait_for_exit(&WaitForTerminalExitRequest::new("s1", id.clone())).await.expect("known");
    (ended.exit_code, ended.signal)
}

fn shown(terminals: &Terminals, id: &TerminalId) -> (String, bool) {
    let output = terminals.output(&TerminalOutputRequest::new("s1", id.clone())).expect("known");
    (output.output, output.truncated)
}

/// output, truncation and the exit status, for any number of callers.
#[tokio::test]
async fn a_command_runs_and_its_end_is_told() {
    let place = Place::new();
    let terminals = place.terminals(|_| {});
    let check = async |request: CreateTerminalRequest, output: &str, truncated: bool, code: u32| {
        let id = terminals.create(request).await.expect("it runs").terminal_id;
        assert_eq!(ends(&terminals, &id).await, (Some(code), None));
        assert_eq!(shown(&terminals, &id), (output.to_owned(), truncated));
    };
    check(create("printf", &["a b"]), "a b", false, 0).await;
    check(create("sh", &["-c", "echo out; echo err >&2; echo out; exit 3"]), "out\nerr\nout\n", false, 3).await;
    check(create("pwd", &[]), &format!("{}\n", place.root().display()), false, 0).await;
    check(create("pwd", &[]).cwd("/"), "/\n", false, 0).await;
    check(create("printf", &["a\u{e9}\u{e9}"]).output_byte_limit(3u64), "\u{e9}", true, 0).await;
    let variable = EnvVariable::new("GREETING", "hello");
    check(create("sh", &["-c", "printf \"$GREETING\""]).env(vec![variable]), "hello", false, 0).await;
    // A line of shell, as many agents send it.
    check(create("echo one && echo two | tr a-z A-Z", &[]), "one\nTWO\n", false, 0).await;
    // There is nobody who could type.
    check(create("cat", &[]), "", false, 0).await;
}

#[tokio::test]
async fn what_cannot_run_is_refused() {
    let place = Place::new();
    place.put("data", "no program");
    let terminals = place.terminals(|config| config.max_terminals = 1);
    let check = async |request: CreateTerminalRequest, code: i64, expected: &str| {
        let refused = terminals.create(request).await.expect_err("refused");
        assert_eq!(reason(&refused), (code, expected.to_owned()));
    };
    check(create("no-such-program", &[]), -32602, "not_found").await;
    check(create("no such program", &["x"]), -32602, "not_found").await;
    check(create("./data", &[]), -32602, "not_executable").await;
    check(create("pwd", &[]).cwd("/nowhere"), -32602, "cwd").await;
    check(create("pwd", &[]).env(vec![EnvVariable::new("A=B", "x")]), -32602, "env").await;
    // Those left no trace; one is allowed.
    let id = terminals.create(create("sleep", &["600"])).await.expect("it runs").terminal_id;
    check(create("pwd", &[]), -32603, "too many terminals").await;
    terminals.release(&ReleaseTerminalRequest::new("s1", id)).await.expect("known");
    terminals.create(create("pwd", &[])).await.expect("there is room again");
}

/// The process behind a terminal whose command prints its own id first, and that of a child in its group.
async fn pids(terminals: &Terminals, id: &TerminalId) -> Vec<rustix::process::Pid> {
    loop {
        let (output, _) = shown(terminals, id);
        if output.lines().count() >= 2 && output.ends_with('\n') {
            return output
                .lines()
                .map(|pid| rustix::process::Pid::from_raw(pid.parse().expect("a number")).expect("a pid"))
                .collect();
        }
        tokio::task::yield_now().await;
    }
}

const PARENT_AND_CHILD: [&str; 2] = ["-c", "sleep 600 & echo $$; echo $!; wait"];

/// Processes of a killed group may wait a moment for their new parent to reap them.
async fn all_gone(pids: &[rustix::process::Pid]) {
    for pid in pids {
        let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
        let runs = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        while runs() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_kill_ends_the_command_and_all_that_it_started() {
    let place = Place::new();
    let terminals = Arc::new(place.terminals(|_| {}));
    let id = terminals.create(create("sh", &PARENT_AND_CHILD)).await.expect("it runs").terminal_id;
    let pids = pids(&terminals, &id).await;
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let (terminals, id) = (terminals.clone(), id.clone());
            tokio::spawn(async move { ends(&terminals, &id).await })
        })
        .collect();
    terminals.kill(&KillTerminalRequest::new("s1", id.clone())).await.expect("known");
    all_gone(&pids).await;
    for waiter in waiters {
        assert_eq!(waiter.await.expect("no panic"), (None, Some("SIGKILL".to_owned())));
    }
    // The terminal stays, and a second kill is nothing.
    assert_eq!(shown(&terminals, &id).0.lines().count(), 2);
    terminals.kill(&KillTerminalRequest::new("s1", id.clone())).await.expect("still known");
    terminals.release(&ReleaseTerminalRequest::new("s1", id.clone())).await.expect("still known");
    let gone = terminals.output(&TerminalOutputRequest::new("s1", id)).expect_err("released");
    assert_eq!(gone.code.get(), -32002);
}

#[tokio::test]
async fn terminals_end_with_their_session_and_their_owner() {
    let place = Place::new();
    let terminals = place.terminals(|_| {});
    let mine = terminals.create(create("sh", &PARENT_AND_CHILD)).await.expect("it runs").terminal_id;
    let mut other = create("sh", &PARENT_AND_CHILD);
    other.session_id = "s2".into();
    let other = terminals.create(other).await.expect("it runs").terminal_id;
    // Another session's terminal is not found.
    assert!(terminals.output(&TerminalOutputRequest::new("s1", other)).is_err());
    let pids_of_mine = pids(&terminals, &mine).await;
    assert_eq!(terminals.len(), 2);
    terminals.end_session(&"s1".into());
    all_gone(&pids_of_mine).await;
    assert_eq!(terminals.len(), 1);

    let last = terminals.create(create("sh", &PARENT_AND_CHILD)).await.expect("it runs").terminal_id;
    let pids_of_last = pids(&terminals, &last).await;
    let view = terminals.view();
    assert!(view.snapshot(&last).is_some());
    drop(terminals);
    all_gone(&pids_of_last).await;
    assert!(view.snapshot(&last).is_none());
}

/// A command that prints for ever costs its limit and no more, and does not hold up anybody.
#[tokio::test]
async fn endless_output_is_bounded() {
    let place = Place::new();
    let terminals = place.terminals(|config| config.max_output_bytes = 1000);
    let id = terminals.create(create("yes", &[]).output_byte_limit(u64::MAX)).await.expect("it runs").terminal_id;
    while !shown(&terminals, &id).1 {
        tokio::task::yield_now().await;
    }
    assert!(shown(&terminals, &id).0.len() <= 1000);
    terminals.release(&ReleaseTerminalRequest::new("s1", id)).await.expect("known");
}

// The host.

/// An agent that does in a turn what the prompt says, with the helpers of `Turn`.
struct Worker;

impl Agent for Worker {
    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities::new().session_capabilities(SessionCapabilities::new().close(Marker::new()))
    }

    async fn new_session(&self, _: NewSessionRequest, _: &Ctx) -> Result<NewSessionResponse, Error> {
        Ok(NewSessionResponse::new("s1"))
    }

    async fn close_session(&self, _: CloseSessionRequest, _: &Ctx) -> Result<CloseSessionResponse, Error> {
        Ok(CloseSessionResponse::new())
    }

    async fn prompt(&self, request: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
        let text = request.text();
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let said = match word {
            "edit" => edit(turn, rest).await?,
            "drop" => {
                drop(turn.start_tool(ToolCall::new("c1", "Never ends")).await?);
                String::new()
            }
            "start" => {
                let terminal = turn.run_command(create("sh", &PARENT_AND_CHILD)).await?;
                let id = terminal.id().to_string();
                // Not given back, as a careless agent would.
                std::mem::forget(terminal);
                id
            }
            "ask" => {
                let mut call = ToolCall::new("c1", "Look");
                call.kind = ToolKind::Read;
                let tool = turn.start_tool(call).await?;
                let decision = tool.ask(options()).await?;
                tool.complete().await?;
                decision.to_string()
            }
            "form" => elicit(turn, ElicitationForm::new(ElicitationSchema::new()).session_id("s1").into()).await,
            "page" => {
                let said = elicit(turn, ElicitationUrl::new("e1", "https://example.com").session_id("s1").into()).await;
                for id in ["unknown", "e1", "e1"] {
                    // Refused here where pages are not offered.
                    let _ = turn.notify(CompleteElicitationNotification::new(id)).await;
                }
                said
            }
            // Without asking whether it is offered, as a careless agent would.
            "call" => match turn.ext_request("_unknown", &json!({})).await {
                Err(RequestError::Peer(error)) => error.code.get().to_string(),
                other => format!("{other:?}"),
            },
            _ => "nothing".to_owned(),
        };
        if !said.is_empty() {
            turn.agent_text(said).await?;
        }
        Ok(PromptResponse::end_turn())
    }
}

fn options() -> [PermissionOption; 2] {
    // The one that rejects comes first: whoever chose by position would be wrong.
    [
        PermissionOption::new("a", "No", PermissionOptionKind::RejectOnce),
        PermissionOption::new("b", "Yes", PermissionOptionKind::AllowOnce),
    ]
}

/// A tool call through its whole life: permission, a file read and written, a diff, a command.
async fn edit(turn: &Turn, path: &str) -> Result<String, Error> {
    let mut call = ToolCall::new("c1", "Edit");
    call.kind = ToolKind::Edit;
    let mut tool = turn.start_tool(call).await?;
    if !tool.ask(options()).await?.is_allowed() {
        tool.fail().await?;
        return Ok("not allowed".to_owned());
    }
    tool.running().await?;
    let old = turn.read_text_file(path).await?;
    assert_eq!(turn.read_text_lines(path, Some(2), Some(1)).await?, "two\n");
    let new = old.to_uppercase();
    turn.write_text_file(path, new.as_str()).await?;
    tool.diff(path, Some(old), new).await?;
    let terminal = turn.run_command(CreateTerminalRequest::new("ignored", "cat").args(vec![path.to_owned()])).await?;
    tool.show(&terminal).await?;
    let ended = terminal.wait().await?;
    let output = terminal.output().await?;
    terminal.release().await?;
    tool.add(ContentBlock::text("checked")).await?;
    tool.complete().await?;
    Ok(format!("{:?} {}", ended.exit_code, output.output))
}

async fn elicit(turn: &Turn, mode: ElicitationMode) -> String {
    match turn.request(CreateElicitationRequest::new("?", mode)).await {
        Ok(response) => match response.action {
            ElicitationAction::Accept(_) => "accepted".to_owned(),
            ElicitationAction::Decline(_) => "declined".to_owned(),
            ElicitationAction::Cancel(_) => "closed".to_owned(),
            other => format!("{other:?}"),
        },
        Err(error) => error.to_string(),
    }
}

async fn connected(host: impl Client) -> ClientConnection {
    let (ours, theirs) = memory();
    tokio::spawn(serve(Worker, theirs));
    let agent = connect(host, ours).expect("memory opens");
    agent.initialize().await.expect("an answer");
    agent.request(NewSessionRequest::new("/")).await.expect("a session");
    agent
}

/// The updates of a turn, and the text among them.
async fn turn(agent: &ClientConnection, text: &str) -> (Vec<SessionUpdate>, String) {
    let turn = agent.prompt(PromptRequest::new("s1", vec![text.into()])).await;
    let turn = turn.unwrap_or_else(|error: PromptError| panic!("{text}: {error}"));
    let updates: Vec<SessionUpdate> = turn.updates.into_iter().map(|update| update.update).collect();
    let text = updates.iter().filter_map(|update| update.chunk()?.content.as_text()).collect();
    (updates, text)
}

fn everything(place: &Place, permissions: impl Into<Permissions>) -> Host {
    let mut terminals = TerminalConfig::new(place.root());
    terminals.env = [("PATH".into(), "/usr/bin:/bin".into())].into_iter().collect::<Environment>();
    Host::builder()
        .root(place.root())
        .read_files()
        .write_files()
        .terminals(terminals)
        .permissions(permissions)
        .build()
        .expect("the root opens")
}

/// Exactly what is switched on is advertised.
#[test]
fn what_is_switched_on_is_advertised() {
    let place = Place::new();
    let check = |host: Host, expected: Value| {
        let capabilities = serde_json::to_value(Client::capabilities(&host)).expect("JSON");
        let part = |name: &str| capabilities.get(name).cloned().unwrap_or_default();
        let is = |value: &Value| value.as_bool() == Some(true);
        let found = json!([
            is(&part("fs")["readTextFile"]),
            is(&part("fs")["writeTextFile"]),
            is(&part("terminal")),
            part("elicitation")["form"].is_object(),
            part("elicitation")["url"].is_object(),
        ]);
        assert_eq!(found, expected, "{capabilities}");
    };
    let builder = || Host::builder().root(place.root());
    check(builder().build().expect("fine"), json!([false, false, false, false, false]));
    check(builder().read_files().build().expect("fine"), json!([true, false, false, false, false]));
    check(builder().write_files().build().expect("fine"), json!([false, true, false, false, false]));
    check(builder().forms(Elicit::Decline).build().expect("fine"), json!([false, false, false, true, false]));
    check(builder().pages(Elicit::Cancel).build().expect("fine"), json!([false, false, false, false, true]));
    check(everything(&place, Approve::None), json!([true, true, true, false, false]));
    let understands = ClientCapabilities::new().terminal(true).plan(Marker::new());
    check(builder().understands(understands).build().expect("fine"), json!([false, false, false, false, false]));
    assert!(matches!(Host::builder().read_files().build(), Err(HostError::NoRoot)));
    let nowhere = Host::builder().root("/nowhere").read_files().build();
    assert!(matches!(nowhere, Err(HostError::Root { .. })));
}

#[tokio::test]
async fn a_tool_call_lives_through_the_whole_host() {
    let place = Place::new();
    let path = place.put("a", "one\ntwo\n");
    let agent = connected(everything(&place, Approve::All)).await;
    let (updates, said) = turn(&agent, &format!("edit {path}")).await;
    assert_eq!(said, "Some(0) ONE\nTWO\n");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "ONE\nTWO\n");
    let mut call = None;
    let mut statuses = Vec::new();
    for update in updates {
        match update {
            SessionUpdate::ToolCall(new) => call = Some(*new),
            SessionUpdate::ToolCallUpdate(update) => call.as_mut().expect("announced first").apply(*update),
            _ => continue,
        }
        statuses.extend(call.as_ref().map(|call: &ToolCall| call.status.clone()));
    }
    let call = call.expect("a tool call");
    assert_eq!(statuses.first(), Some(&ToolCallStatus::Pending));
    assert_eq!(call.status, ToolCallStatus::Completed);
    assert!(statuses.contains(&ToolCallStatus::InProgress));
    assert!(
        matches!(&call.content[..], [ToolCallContent::Diff(diff), ToolCallContent::Terminal(_), ToolCallContent::Content(_)]
            if diff.old_text.as_deref() == Some("one\ntwo\n") && diff.new_text == "ONE\nTWO\n"),
        "{:?}",
        call.content
    );
    let agent = connected(everything(&place, Approve::None)).await;
    assert_eq!(turn(&agent, &format!("edit {path}")).await.1, "not allowed");
}

/// The permission request leaves out the kind that the tool call was announced with; an option is chosen by its kind.
#[tokio::test]
async fn permissions_go_by_kind() {
    let check = async |permissions: Permissions, expected: &str| {
        let agent = connected(Host::builder().permissions(permissions).build().expect("fine")).await;
        assert_eq!(turn(&agent, "ask").await.1, expected);
    };
    check(Approve::None.into(), "rejected").await;
    check(Approve::Reads.into(), "allowed").await;
    check(Approve::All.into(), "allowed").await;
    check(Permissions::default(), "rejected").await;
    let seen = Arc::new(Mutex::new(None));
    let note = seen.clone();
    let ask = Permissions::ask(move |request| {
        *note.lock().expect("not poisoned") = request.tool_call.kind;
        async { RequestPermissionResponse::selected("b") }
    });
    check(ask, "allowed").await;
    assert_eq!(*seen.lock().expect("not poisoned"), Some(ToolKind::Read));
    let wrong = Permissions::ask(|_| async { RequestPermissionResponse::selected("never offered") });
    check(wrong, "cancelled by the client").await;
    check(Permissions::ask(|_| async { panic!("no answer") }), "answered with an error").await;
}

/// A question that is open when the turn is cancelled is answered "cancelled", and whoever was asked is not waited for.
#[tokio::test]
async fn a_cancel_closes_open_questions() {
    let (asked, mut question) = tokio::sync::mpsc::channel(1);
    let ask = Permissions::ask(move |_| {
        let asked = asked.clone();
        async move {
            asked.send(()).await.expect("the test listens");
            std::future::pending().await
        }
    });
    let agent = connected(Host::builder().permissions(ask).build().expect("fine")).await;
    let stream = agent.prompt_stream(PromptRequest::new("s1", vec!["ask".into()])).await.expect("sent");
    question.recv().await.expect("a question");
    stream.cancel();
    assert_eq!(stream.finish().await.expect("an answer").stop_reason, StopReason::Cancelled);
}

#[tokio::test]
async fn elicitations_are_answered_as_far_as_they_are_offered() {
    let check = async |host: Host, prompt: &str, expected: &str| {
        let agent = connected(host).await;
        let said = turn(&agent, prompt).await.1;
        assert!(said.contains(expected), "{prompt}: {said}");
    };
    let forms = |elicit| Host::builder().forms(elicit).build().expect("fine");
    check(forms(Elicit::default()), "form", "declined").await;
    check(forms(Elicit::Cancel), "form", "closed").await;
    let fill =
        Elicit::ask(|_| async { ElicitationAction::accept([("name".into(), ElicitationContentValue::Integer(1))]) });
    check(forms(fill), "form", "accepted").await;
    // Forms are offered, pages are not.
    check(forms(Elicit::Decline), "page", "-32602").await;
    check(Host::builder().build().expect("fine"), "form", "did not advertise").await;

    let done = Arc::new(Mutex::new(Vec::new()));
    let note = done.clone();
    let host = Host::builder()
        .pages(Elicit::ask(|_| async { ElicitationAction::accept([]) }))
        .on_page_done(move |id| note.lock().expect("not poisoned").push(id.to_string()))
        .build()
        .expect("fine");
    check(host, "page", "accepted").await;
    assert_eq!(*done.lock().expect("not poisoned"), ["e1"], "once, and none that was not opened");
}

/// A tool call that nobody ends is told as failed before the turn is over.
#[tokio::test]
async fn a_dropped_tool_call_has_failed() {
    let agent = connected(Host::builder().build().expect("fine")).await;
    let (updates, _) = turn(&agent, "drop").await;
    let last = updates.last().expect("updates");
    let SessionUpdate::ToolCallUpdate(update) = last else { panic!("{last:?}") };
    assert_eq!(update.status, Some(ToolCallStatus::Failed));
}

#[tokio::test]
async fn terminals_end_when_the_session_is_closed_and_when_the_connection_is() {
    for close in [true, false] {
        let place = Place::new();
        let host = everything(&place, Approve::All);
        let view = host.terminal_view().expect("switched on");
        let agent = connected(host).await;
        let id = TerminalId::from(turn(&agent, "start").await.1);
        let pids = loop {
            let output = view.snapshot(&id).expect("it is open").output;
            if output.lines().count() == 2 && output.ends_with('\n') {
                break output;
            }
            tokio::task::yield_now().await;
        };
        let pids: Vec<_> = pids
            .lines()
            .map(|pid| rustix::process::Pid::from_raw(pid.parse().expect("a number")).expect("a pid"))
            .collect();
        if close {
            agent.request(CloseSessionRequest::new("s1")).await.expect("closed");
        } else {
            drop(agent);
        }
        all_gone(&pids).await;
    }
}

/// What was not advertised is not answered, whatever the agent tries; what no table has goes to the extension hook.
#[tokio::test]
async fn what_is_not_offered_is_not_answered() {
    let agent = connected(Host::builder().build().expect("fine")).await;
    assert_eq!(turn(&agent, "call").await.1, "-32601");
}
