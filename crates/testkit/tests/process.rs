//! Inv-6: no child outlives its owner, whatever the child does and however the owner ends. With real processes.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pintle_sdk::process::{
    Descendants, Exit, Isolation, Ladder, Launch, NoIsolation, Outcome, Process, Program, Shim, Signal, SpawnError,
    Stderr,
};
use pintle_testkit::deaths::Watched;
use pintle_testkit::family::{self, FAMILY, FAMILY_SIZE, Family, all_end, member};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const CHILD: &str = env!("CARGO_BIN_EXE_fake-child");
const OWNER: &str = env!("CARGO_BIN_EXE_fake-owner");

/// So that a failing test ends.
const LIMIT: Duration = Duration::from_secs(30);

fn launch(script: &str) -> Launch {
    let mut launch = Launch::new(Program::at(CHILD).expect("the fake child"));
    launch.args = script.split_whitespace().map(Into::into).collect();
    launch.shim = Shim::Path(KEEPER.into());
    launch
}

fn test<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, body).await.expect("in time") })
}

/// Reads `count` lines `NAME PID`.
async fn pids(process: &mut Process, count: usize) -> Family {
    let mut lines = tokio::io::BufReader::new(process.take_stdout().expect("stdout")).lines();
    let mut found = Family::new();
    while found.len() < count {
        let line = lines.next_line().await.expect("stdout").expect("more lines");
        found.extend([member(&line)]);
    }
    found
}

async fn output(mut process: Process) -> (String, Outcome) {
    let mut stdout = process.take_stdout().expect("stdout");
    let mut text = String::new();
    stdout.read_to_string(&mut text).await.expect("stdout");
    (text, process.shut_down(Ladder::default()).await)
}

#[test]
fn inv_6_dropping_a_process_kills_the_whole_family() {
    test(async {
        let mut process = Process::spawn(launch(&format!("{FAMILY} hold"))).await.expect("spawn");
        let family = pids(&mut process, FAMILY_SIZE).await;
        assert!(family.values().all(Watched::is_alive));
        assert_eq!(process.id(), family["child"].pid());
        drop(process);
        // Without giving the runtime a turn: the keeper needs nothing from us.
        all_end(&family);
    });
}

fn owner_ends(end: &str, kill: bool) {
    family::owner_ends(OWNER, KEEPER, CHILD, end, kill);
}

#[test]
fn inv_6_nothing_survives_a_killed_owner() {
    owner_ends("hold", true);
}

#[test]
fn inv_6_nothing_survives_a_panic() {
    owner_ends("panic", false);
}

#[test]
fn inv_6_nothing_survives_an_exit_without_drop() {
    owner_ends("exit", false);
}

#[test]
fn inv_6_nothing_survives_a_leaked_process_or_a_dead_runtime() {
    owner_ends("forget", false);
    owner_ends("return", false);
}

#[test]
fn inv_6_a_killed_keeper_takes_the_group_with_it() {
    test(async {
        let mut process = Process::spawn(launch("pid child spawn [ pid member hold ] hold")).await.expect("spawn");
        let family = pids(&mut process, 2).await;
        let keeper = parent_of(process.id());
        assert!(Command::new("kill").args(["-KILL", &keeper.to_string()]).status().expect("kill").success());
        let outcome = process.gone().await;
        assert_eq!((outcome.exit, outcome.descendants), (None, Descendants::Unknown));
        all_end(&family);
    });
}

fn parent_of(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let (_, fields) = stat.rsplit_once(") ").expect("fields");
    fields.split(' ').nth(1).expect("ppid").parse().expect("a pid")
}

#[test]
fn a_chase_of_short_lived_sessions_is_caught() {
    test(async {
        let mut process = Process::spawn(launch("spawn [ chase 2000 ] pid child hold")).await.expect("spawn");
        let family = pids(&mut process, 1).await;
        process.kill();
        let outcome = process.gone().await;
        assert_eq!(outcome.survivors, []);
        all_end(&family);
    });
}

#[test]
fn shutting_standard_input_down_closes_it() {
    test(async {
        let mut process = Process::spawn(launch("copy 1 exit 0")).await.expect("spawn");
        let mut stdin = process.take_stdin().expect("stdin");
        stdin.write_all(b"to the end").await.expect("write");
        stdin.shutdown().await.expect("close");
        let (text, outcome) = output(process).await;
        assert_eq!((text.as_str(), outcome.exit), ("to the end", Some(Exit::Code(0))));
        assert_eq!(stdin.write(b"x").await.expect_err("closed").kind(), std::io::ErrorKind::BrokenPipe);
    });
}

async fn check_exit(script: &str, expected: Exit) {
    let (_, outcome) = output(Process::spawn(launch(script)).await.expect("spawn")).await;
    assert_eq!(outcome.exit, Some(expected), "{script}");
    assert_eq!(outcome.descendants, Descendants::Counted { count: 0, named: Vec::new() }, "{script}");
    assert_eq!((outcome.survivors, outcome.isolation), (Vec::new(), Isolation::Keeper));
}

#[test]
fn the_exit_is_told_as_it_was() {
    test(async {
        check_exit("exit 0", Exit::Code(0)).await;
        check_exit("exit 7", Exit::Code(7)).await;
        check_exit("abort", Exit::Signal(6)).await;
        check_exit("mumble {\"jsonrpc\":\"2.0\",\"id\" abort", Exit::Signal(6)).await;
    });
}

#[test]
fn a_child_that_dies_inside_a_frame_leaves_the_bytes_that_it_wrote() {
    test(async {
        let (text, outcome) =
            output(Process::spawn(launch("say one mumble {\"id\": exit 3")).await.expect("spawn")).await;
        assert_eq!((text.as_str(), outcome.exit), ("one\n{\"id\":", Some(Exit::Code(3))));
    });
}

#[test]
fn what_a_child_leaves_behind_is_counted_named_and_killed() {
    test(async {
        let script = "spawn [ setsid pid a hold ] spawn [ pid b hold ] until-eof exit 0";
        let mut process = Process::spawn(launch(script)).await.expect("spawn");
        let family = pids(&mut process, 2).await;
        let outcome = process.shut_down(Ladder::default()).await;
        assert_eq!(outcome.exit, Some(Exit::Code(0)));
        let Descendants::Counted { count, named } = outcome.descendants else { panic!("nobody looked") };
        let mut found: Vec<u32> = named.iter().map(|found| found.pid).collect();
        let mut expected: Vec<u32> = family.values().map(Watched::pid).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!((count, found), (2, expected));
        assert!(named.iter().all(|found| found.name == "fake-child"), "{named:?}");
        all_end(&family);
    });
}

#[test]
fn a_helper_that_ends_with_its_pipe_is_not_left_behind() {
    test(async {
        // The helper lives when the child ends, and ends since that closes its standard input.
        let mut launch = launch("spawn [ setsid pid helper until-eof exit 0 ] until-eof exit 0");
        launch.settle = LIMIT;
        let mut process = Process::spawn(launch).await.expect("spawn");
        let family = pids(&mut process, 1).await;
        let outcome = process.shut_down(Ladder::default()).await;
        assert_eq!(outcome.descendants, Descendants::Counted { count: 0, named: Vec::new() });
        all_end(&family);
    });
}

#[test]
fn the_ladder_goes_as_far_as_it_must() {
    let quick =
        Ladder { close_grace: Duration::from_millis(50), term_grace: Duration::from_millis(50), ..Ladder::default() };
    let patient = Ladder { close_grace: LIMIT, term_grace: LIMIT, ..Ladder::default() };
    let until_term = Ladder { close_grace: Duration::ZERO, ..patient };
    for (script, ladder, expected) in [
        ("pid child until-eof exit 4", patient, Exit::Code(4)),
        ("pid child hold", until_term, Exit::Signal(15)),
        ("ignore-term pid child hold", quick, Exit::Signal(9)),
    ] {
        test(async {
            let mut process = Process::spawn(launch(script)).await.expect("spawn");
            let family = pids(&mut process, 1).await;
            assert_eq!(process.shut_down(ladder).await.exit, Some(expected), "{script}");
            all_end(&family);
        });
    }
}

#[test]
fn a_flood_of_stderr_is_drained_bounded_and_flagged() {
    test(async {
        let (text, outcome, captured) = {
            let process = Process::spawn(launch("flood-stderr 20000000 say done exit 0")).await.expect("spawn");
            let mut stderr = process.stderr().expect("captured");
            let (text, outcome) = output(process).await;
            (text, outcome, stderr.closed().await)
        };
        assert_eq!((text.as_str(), outcome.exit), ("done\n", Some(Exit::Code(0))));
        assert_eq!((captured.total_bytes, captured.head.len(), captured.tail.len()), (20_000_000, 65_536, 65_536));
        assert!(captured.is_truncated());
    });
}

#[test]
fn a_child_has_the_environment_directory_and_descriptors_that_were_passed_and_no_others() {
    test(async {
        let dir = tempfile::tempdir().expect("scratch directory");
        let mut launch = launch("env cwd fds");
        launch.env = [("B", "two words"), ("A", "1=2")].map(|(n, v)| (n.into(), v.into())).into_iter().collect();
        launch.cwd = Some(dir.path().canonicalize().expect("path"));
        let (text, _) = output(Process::spawn(launch).await.expect("spawn")).await;
        let cwd = dir.path().canonicalize().expect("path");
        assert_eq!(text, format!("A=1=2\nB=two words\n{}\nfds []\n", cwd.display()));
    });
}

#[test]
fn an_order_larger_than_the_socket_arrives_whole() {
    test(async {
        let mut launch = launch("env");
        launch.env = (0..8).map(|n| (format!("V{n}").into(), "x".repeat(100_000).into())).collect();
        let (text, outcome) = output(Process::spawn(launch).await.expect("spawn")).await;
        assert_eq!((text.len(), outcome.exit), (8 * 100_004, Some(Exit::Code(0))));
    });
}

#[test]
fn extra_descriptors_are_3_and_4() {
    test(async {
        let (mut three, theirs) = std::io::pipe().expect("pipe");
        let (mut four, theirs_too) = std::io::pipe().expect("pipe");
        let mut launch = launch("fds copy 4");
        launch.extra_fds = vec![theirs.into(), theirs_too.into()];
        let mut process = Process::spawn(launch).await.expect("spawn");
        let mut stdin = process.take_stdin().expect("stdin");
        stdin.write_all(b"through four").await.expect("write");
        drop(stdin);
        let (text, _) = output(process).await;
        assert_eq!(text, "fds [3, 4]\n");
        let (mut from_three, mut from_four) = (String::new(), String::new());
        // Both end: the keeper keeps no copy.
        three.read_to_string(&mut from_three).expect("read");
        four.read_to_string(&mut from_four).expect("read");
        assert_eq!((from_three.as_str(), from_four.as_str()), ("", "through four"));
    });
}

async fn refused(launch: Launch) -> SpawnError {
    Process::spawn(launch).await.expect_err("it is refused")
}

#[test]
fn what_cannot_be_started_is_told_by_its_reason() {
    test(async {
        let dir = tempfile::tempdir().expect("scratch directory");
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/no/such/interpreter\n").expect("write");
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("chmod");
        let garbage = dir.path().join("garbage");
        std::fs::write(&garbage, [0_u8; 64]).expect("write");
        std::fs::set_permissions(&garbage, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("chmod");

        for shim in [Shim::Path(KEEPER.into()), Shim::None] {
            let at = |path: &Path| {
                let mut launch = Launch::new(Program::at(path).expect("it is executable"));
                launch.shim = shim.clone();
                launch
            };
            assert!(matches!(refused(at(&script)).await, SpawnError::Interpreter { .. }));
            assert!(matches!(refused(at(&garbage)).await, SpawnError::Exec { .. }));
            let mut launch = at(Path::new(CHILD));
            launch.cwd = Some(dir.path().join("missing"));
            assert!(matches!(refused(launch).await, SpawnError::Cwd { .. }));
            let mut launch = at(Path::new(CHILD));
            launch.args = vec!["a\0b".into()];
            assert!(matches!(refused(launch).await, SpawnError::Order { .. } | SpawnError::Exec { .. }));
        }
        let mut launch = launch("exit 0");
        launch.shim = Shim::Path("/bin/true".into());
        assert!(matches!(refused(launch).await, SpawnError::NotAKeeper { .. }));
        let mut launch = self::launch("exit 0");
        launch.shim = Shim::Path(dir.path().join("missing"));
        assert!(matches!(refused(launch).await, SpawnError::Keeper { .. }));
        let mut launch = self::launch("exit 0");
        launch.shim = Shim::None;
        launch.extra_fds = vec![std::io::pipe().expect("pipe").1.into()];
        assert!(matches!(refused(launch).await, SpawnError::NeedsKeeper { .. }));
    });
}

#[test]
fn a_keeper_that_somebody_types_by_hand_says_no() {
    let status = Command::new(KEEPER).arg("__exec").stdin(Stdio::null()).status().expect("run");
    assert_eq!(status.code(), Some(2));
}

#[test]
fn without_a_keeper_the_group_is_killed_and_the_lack_is_told() {
    test(async {
        let mut launch = launch("pid child spawn [ pid member hold ] hold");
        launch.shim = Shim::None;
        let mut process = Process::spawn(launch).await.expect("spawn");
        assert_eq!(process.isolation(), &Isolation::None { reason: NoIsolation::NoShim });
        let family = pids(&mut process, 2).await;
        drop(process);
        all_end(&family);

        let mut launch = self::launch("exit 5");
        launch.shim = Shim::None;
        let (_, outcome) = output(Process::spawn(launch).await.expect("spawn")).await;
        assert_eq!((outcome.exit, outcome.descendants), (Some(Exit::Code(5)), Descendants::Unknown));
    });
}

#[test]
fn signals_reach_the_group_and_stderr_goes_where_it_is_told() {
    test(async {
        let mut launch = launch("pid child spawn [ pid member hold ] hold");
        launch.stderr = Stderr::Null;
        let mut process = Process::spawn(launch).await.expect("spawn");
        assert!(process.stderr().is_none());
        let family = pids(&mut process, 2).await;
        process.signal(Signal::Interrupt);
        all_end(&family);
        assert_eq!(process.gone().await.exit, Some(Exit::Signal(2)));

        let mut launch = self::launch("flood-stderr 10 exit 0");
        launch.stderr = Stderr::Piped;
        let mut process = Process::spawn(launch).await.expect("spawn");
        let mut text = String::new();
        process.take_stderr().expect("piped").read_to_string(&mut text).await.expect("stderr");
        assert_eq!(text, "xxxxxxxxxx");
    });
}

/// A shell's background job has SIGINT ignored, a thread may have signals blocked: a child must have neither.
#[test]
fn a_child_starts_with_every_signal_at_its_default() {
    let script = format!("trap '' INT TERM CHLD; exec {OWNER} hold {KEEPER} {CHILD} pid child hold");
    let mut owner = Command::new("/bin/sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("owner");
    let mut line = String::new();
    BufReader::new(owner.stdout.take().expect("stdout")).read_line(&mut line).expect("stdout");
    let pid: u32 = line.trim().strip_prefix("child ").expect("its pid").parse().expect("a pid");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let child = Watched::new(pid);
    owner.kill().expect("kill");
    owner.wait().expect("wait");
    for field in ["SigIgn:", "SigBlk:"] {
        let mask = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field").trim();
        // Rust's own runtime ignores SIGPIPE (13) in the fake child; 32 and 33 belong to the C library.
        let others = !(1 << 12 | 1 << 31 | 1 << 32);
        assert_eq!(u64::from_str_radix(mask, 16).expect("hex") & others, 0, "{field} {mask}");
    }
    assert!(child.ends_within(LIMIT));
}
