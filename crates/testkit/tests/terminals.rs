//! The terminals of a client, with a keeper: whatever a command started goes with it, however far it went; what it printed
//! and how it ended is told. With real processes.

#![cfg(target_os = "linux")]

use std::time::Duration;

use pintle_sdk::acp::host::{TerminalConfig, Terminals};
use pintle_sdk::acp::types::{
    CreateTerminalRequest, KillTerminalRequest, ReleaseTerminalRequest, TerminalExitStatus, TerminalId,
    TerminalOutputRequest, TerminalOutputResponse, WaitForTerminalExitRequest,
};
use pintle_sdk::process::Shim;
use pintle_testkit::deaths::Watched;
use pintle_testkit::family::{FAMILY, FAMILY_SIZE, Family, all_end, member};

const CHILD: &str = env!("CARGO_BIN_EXE_fake-child");
/// So that a failing test ends.
const LIMIT: Duration = Duration::from_secs(30);

fn test<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, body).await.expect("in time") })
}

fn terminals() -> Terminals {
    let mut config = TerminalConfig::new("/");
    config.env.set("PATH", "/usr/bin:/bin");
    config.shim = Shim::Path(env!("CARGO_BIN_EXE_fake-keeper").into());
    Terminals::new(config)
}

async fn run(terminals: &Terminals, command: &str, args: &[&str], limit_bytes: Option<u64>) -> TerminalId {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let mut request = CreateTerminalRequest::new("s1", command).args(args);
    request.output_byte_limit = limit_bytes;
    terminals.create(request).await.expect("it runs").terminal_id
}

async fn family(terminals: &Terminals, end: &str) -> (TerminalId, Family) {
    let script = format!("{FAMILY} {end}");
    let id = run(terminals, CHILD, &script.split_whitespace().collect::<Vec<_>>(), None).await;
    loop {
        let text = output(terminals, &id).output;
        if text.lines().count() == FAMILY_SIZE && text.ends_with('\n') {
            return (id, text.lines().map(member).collect());
        }
        tokio::task::yield_now().await;
    }
}

fn output(terminals: &Terminals, id: &TerminalId) -> TerminalOutputResponse {
    terminals.output(&TerminalOutputRequest::new("s1", id.clone())).expect("known")
}

async fn ended(terminals: &Terminals, id: &TerminalId) -> TerminalExitStatus {
    let response = terminals.wait_for_exit(&WaitForTerminalExitRequest::new("s1", id.clone())).await.expect("known");
    let mut status = TerminalExitStatus::new();
    (status.exit_code, status.signal) = (response.exit_code, response.signal);
    status
}

fn killed() -> TerminalExitStatus {
    TerminalExitStatus::new().signal("SIGKILL")
}

/// Inv-6, R-200: a kill takes the whole family, in its group or out of it; the terminal stays with its output and its end.
#[test]
fn a_kill_takes_everybody_and_leaves_the_output() {
    test(async {
        let terminals = terminals();
        let (id, family) = family(&terminals, "hold").await;
        assert!(family.values().all(Watched::is_alive));
        terminals.kill(&KillTerminalRequest::new("s1", id.clone())).await.expect("known");
        all_end(&family);
        assert_eq!(ended(&terminals, &id).await, killed());
        let after = output(&terminals, &id);
        assert_eq!((after.output.lines().count(), after.truncated), (FAMILY_SIZE, false));
        assert_eq!(after.exit_status, Some(killed()));
        terminals.release(&ReleaseTerminalRequest::new("s1", id.clone())).await.expect("known");
        let gone = terminals.output(&TerminalOutputRequest::new("s1", id)).expect_err("released");
        assert_eq!(gone.code.get(), -32002);
    });
}

/// Inv-6: so do a release, the end of the session, and the end of the terminals themselves.
#[test]
fn inv_6_no_command_outlives_its_terminal() {
    test(async {
        let terminals = terminals();
        let (id, released) = family(&terminals, "hold").await;
        terminals.release(&ReleaseTerminalRequest::new("s1", id)).await.expect("known");
        all_end(&released);

        let (_, of_session) = family(&terminals, "hold").await;
        terminals.end_session(&"s1".into());
        tokio::task::yield_now().await;
        assert!(terminals.is_empty());
        while of_session.values().any(Watched::is_alive) {
            tokio::task::yield_now().await;
        }

        let (_, dropped) = family(&terminals, "hold").await;
        drop(terminals);
        tokio::task::yield_now().await;
        all_end(&dropped);
    });
}

/// Inv-6: what a command leaves behind has a moment, and then goes too; the command's own end is told as it was.
#[test]
fn what_a_command_leaves_behind_is_ended() {
    test(async {
        let terminals = terminals();
        let (id, family) = family(&terminals, "exit 3").await;
        assert_eq!(ended(&terminals, &id).await, TerminalExitStatus::new().exit_code(3u32));
        while family.values().any(Watched::is_alive) {
            tokio::task::yield_now().await;
        }
        assert_eq!(output(&terminals, &id).output.lines().count(), FAMILY_SIZE);
    });
}

/// what was printed is there after the end, cut between two characters, and told to be cut; the exit status is
/// a code or a signal.
#[test]
fn output_and_exit_status_are_told_after_the_end() {
    test(async {
        let terminals = terminals();
        let check = async |script: &str, limit: Option<u64>, text: &str, truncated: bool, end: TerminalExitStatus| {
            let id = run(&terminals, "sh", &["-c", script], limit).await;
            assert_eq!(ended(&terminals, &id).await, end, "{script}");
            let found = output(&terminals, &id);
            assert_eq!((found.output.as_str(), found.truncated), (text, truncated), "{script}");
            assert_eq!(found.exit_status, Some(end), "{script}");
        };
        let code = |code: u32| TerminalExitStatus::new().exit_code(code);
        check("echo out; echo err >&2; exit 3", None, "out\nerr\n", false, code(3)).await;
        check("printf 'a\u{e9}\u{e9}'", Some(3), "\u{e9}", true, code(0)).await;
        check("printf 'a\u{e9}\u{e9}'", Some(4), "\u{e9}\u{e9}", true, code(0)).await;
        check("printf 'a\u{e9}\u{e9}'", Some(5), "a\u{e9}\u{e9}", false, code(0)).await;
        check("printf x; kill -TERM $$", Some(0), "", true, TerminalExitStatus::new().signal("SIGTERM")).await;
        check("kill -9 $$", None, "", false, killed()).await;
    });
}
