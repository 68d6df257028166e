//! What a driver is kept from: what holds is tried, what does not hold must say so.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "what does not hold here is said aloud")]

use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;

use pintle_sdk::driver::{Core, DriverLaunch, ErrorClass, Permission, RECORDER_VARIABLE, RecorderConfig};
use pintle_sdk::process::{Aspect, Enforcement, Shim};
use pintle_testkit::drivers::{Place, attempts, plan, prepared, test};

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const DRIVER: &str = env!("CARGO_BIN_EXE_fake-driver");

fn place() -> Place {
    Place::new(DRIVER, KEEPER)
}

/// Whether an aspect holds here. If not, the test says so aloud, and the evidence must say why.
fn holds(core: &Core, aspect: Aspect) -> bool {
    let measure = core.applied().get(aspect).expect("every aspect is recorded");
    let holds = matches!(measure.state, Enforcement::Enforced | Enforcement::Partly);
    if !holds {
        println!("NOT ENFORCED HERE: {}: {}", aspect.as_str(), measure.how);
        assert!(!measure.how.is_empty(), "{aspect:?} does not say why it does not hold");
    }
    holds
}

fn granted(launch: &mut DriverLaunch, grants: &[&str]) {
    launch.rules.grants = grants.iter().map(|name| Permission::new(*name)).collect();
}

/// Lets a driver try, and compares what came of it with what should. `Ok(())` where it is allowed.
async fn check(core: &mut Core, aspect: Aspect, number: u8, tried: &[(&str, &str, bool)]) {
    let names: Vec<_> = tried.iter().map(|(name, about, _)| (*name, *about)).collect();
    let outcomes = attempts(core, number, &names).await.expect("the driver lives");
    if !holds(core, aspect) {
        return;
    }
    for ((name, about, allowed), outcome) in tried.iter().zip(outcomes) {
        assert_eq!(outcome.is_ok(), *allowed, "{name} {about}: {outcome:?}");
    }
}

#[test]
fn every_aspect_of_a_drivers_isolation_is_recorded() {
    test(async {
        let place = place();
        let core = prepared(place.launch(""), &[]).await;
        let applied = core.applied();
        assert_eq!(applied.measures.iter().map(|measure| measure.aspect).collect::<Vec<_>>(), Aspect::ALL);
        for measure in &applied.measures {
            assert_ne!(measure.state, Enforcement::NotWanted, "{measure:?}");
            assert!(!measure.wanted.is_empty() && !measure.how.is_empty(), "{measure:?}");
        }
        // What no kernel since 2.6.24 lacks.
        for aspect in [Aspect::Lifetime, Aspect::Memory, Aspect::FileSize, Aspect::OpenFiles, Aspect::CoreDumps] {
            assert_eq!(applied.get(aspect).map(|measure| measure.state), Some(Enforcement::Enforced));
        }
        let text = serde_json::to_string(applied).expect("JSON");
        assert_eq!(&serde_json::from_str::<pintle_sdk::process::Applied>(&text).expect("it reads back"), applied);
        println!("{}", serde_json::to_string_pretty(applied).expect("JSON"));
    });
}

#[test]
fn files_outside_cannot_be_read_changed_or_run() {
    test(async {
        let place = place();
        let secret = place.base.path().join("secret");
        std::fs::write(&secret, "outside").expect("a file");
        let secret = secret.to_str().expect("UTF-8");
        let beside = place.base.path().join("new");
        let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
        let environ = format!("/proc/{}/environ", std::process::id());
        let mut core = prepared(place.launch(""), &[]).await;
        let tried = [
            ("read", secret, false),
            ("truncate", secret, false),
            ("remove", secret, false),
            ("link", secret, false),
            ("write", secret, false),
            ("write", beside.to_str().expect("UTF-8"), false),
            ("list", place.base.path().to_str().expect("UTF-8"), false),
            ("list", home.as_str(), false),
            ("list", "/", false),
            ("read", "/etc/shadow", false),
            ("read", environ.as_str(), false),
            ("exec-copy", DRIVER, false),
            // And what it needs.
            ("write", "tmp/mine", true),
            ("read", "tmp/mine", true),
            ("list", ".", true),
            ("read", "/etc/nsswitch.conf", std::path::Path::new("/etc/nsswitch.conf").exists()),
            ("exec", "/bin/true", true),
            ("read", "/dev/urandom-is-not-tried-because-it-has-no-end", false),
            ("write", "/dev/null", true),
        ];
        check(&mut core, Aspect::Paths, 1, &tried).await;
        assert_eq!(std::fs::read_to_string(secret).expect("it is there"), "outside");
    });
}

#[test]
fn processes_outside_cannot_be_reached() {
    test(async {
        let place = place();
        let own = std::process::id().to_string();
        let mut core = prepared(place.launch(""), &[]).await;
        let keeper = pintle_testkit::deaths::parent_of(core.id()).expect("a keeper").to_string();
        check(&mut core, Aspect::Outside, 1, &[("signal", &own, false), ("signal", &keeper, false)]).await;
        check(&mut core, Aspect::Namespaces, 2, &[("mount", "home", false), ("limit", "", false)]).await;
        let seen = attempts(&mut core, 3, &[("processes", "")]).await.expect("the driver lives");
        if holds(&core, Aspect::Namespaces) {
            assert_eq!(seen, [Ok("2".to_owned())], "it sees itself and the first process of its namespace");
        }
    });
}

#[test]
fn without_a_grant_there_is_no_network() {
    test(async {
        let place = place();
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a server");
        let tcp = tcp.local_addr().expect("its address").to_string();
        let mut core = prepared(place.launch(""), &[]).await;
        let tried = [
            ("tcp", tcp.as_str(), false),
            ("udp", "127.0.0.1:9", false),
            ("netlink", "", false),
            ("raw", "", false),
            ("mptcp", "", false),
            ("io_uring", "", false),
            ("pair", "", true),
        ];
        check(&mut core, Aspect::Network, 1, &tried).await;
    });
}

/// The sentence of SECURITY.md about Unix sockets is true, or this fails and it can be made stronger.
#[test]
fn unix_sockets_of_the_same_user_can_still_be_reached() {
    test(async {
        let place = place();
        let path = place.base.path().join("outside.sock");
        let _listener = UnixListener::bind(&path).expect("a socket");
        let mut core = prepared(place.launch(""), &[]).await;
        let outcome =
            attempts(&mut core, 1, &[("unix", path.to_str().expect("UTF-8"))]).await.expect("the driver lives");
        assert_eq!(outcome, [Ok(String::new())]);
    });
}

#[test]
fn ports_that_were_granted_can_be_connected_to_and_no_others() {
    test(async {
        let place = place();
        let bind = || TcpListener::bind("127.0.0.1:0").expect("a server");
        let (open, closed) = (bind(), bind());
        let address = |server: &TcpListener| server.local_addr().expect("its address");
        let mut launch = place.launch("wide");
        granted(&mut launch, &["target-only-network"]);
        launch.rules.ports = vec![address(&open).port()];
        let mut core = prepared(launch, &["target-only-network"]).await;
        let measure = core.applied().get(Aspect::Network).expect("a measure");
        assert!(measure.wanted.contains("any address"), "{measure:?}");
        let (open, closed) = (address(&open).to_string(), address(&closed).to_string());
        let tried = [
            ("tcp", open.as_str(), true),
            ("tcp", closed.as_str(), false),
            ("udp", "127.0.0.1:9", false),
            ("mptcp", "", false),
            ("raw", "", false),
            ("io_uring", "", false),
        ];
        check(&mut core, Aspect::Network, 1, &tried).await;

        let udp = UdpSocket::bind("127.0.0.1:0").expect("a server").local_addr().expect("its address").to_string();
        let mut launch = place.launch("wide");
        granted(&mut launch, &["target-only-network"]);
        launch.rules.ports = vec![53];
        let mut core = prepared(launch, &["target-only-network"]).await;
        check(&mut core, Aspect::Network, 1, &[("udp", &udp, true), ("tcp", &open, false), ("mptcp", "", false)]).await;
    });
}

#[test]
fn the_recorder_is_the_only_way_out() {
    test(async {
        let place = place();
        let server = TcpListener::bind("127.0.0.1:0").expect("a server").local_addr().expect("its address").to_string();
        let mut launch = place.launch("wide");
        granted(&mut launch, &["recorder-socket"]);
        launch.recorder = Some(RecorderConfig::new(Vec::new()));
        let mut core = prepared(launch, &["recorder-socket"]).await;
        check(&mut core, Aspect::Network, 1, &[("unix", "recorder.sock", true), ("tcp", &server, false)]).await;
        let mut run = core.invoke(pintle_testkit::drivers::invoke(2, "environment", b"")).expect("an invocation");
        let all = pintle_testkit::drivers::All::of(&mut run).await.expect("it ends well");
        let names = all.payload(0)["names"].to_string();
        assert!(names.contains(RECORDER_VARIABLE), "{names}");
    });
}

/// A child has no more than its parent, so a driver that starts the agent under test is as free as that must be.
#[test]
fn with_a_target_nothing_is_enforced_and_the_evidence_says_why() {
    test(async {
        let place = place();
        let server = TcpListener::bind("127.0.0.1:0").expect("a server");
        let server_address = server.local_addr().expect("its address").to_string();
        let file = place.base.path().join("project");
        std::fs::write(&file, "outside").expect("a file");
        let mut launch = place.launch("wide");
        granted(&mut launch, &["target-exec", "target-home", "target-environment"]);
        let mut core = prepared(launch, &["target-exec", "target-home", "target-environment"]).await;
        for aspect in [Aspect::Paths, Aspect::Network, Aspect::Namespaces, Aspect::Memory, Aspect::Outside] {
            let measure = core.applied().get(aspect).expect("a measure");
            assert_eq!(measure.state, Enforcement::NotWanted);
            assert!(measure.how.contains("target-exec"), "{measure:?}");
        }
        let lifetime = core.applied().get(Aspect::Lifetime).expect("a measure");
        assert_eq!(lifetime.state, Enforcement::Enforced);
        assert!(core.applied().lacking().count() > 0);
        let file = file.to_str().expect("UTF-8");
        let tried = [("tcp", server_address.as_str()), ("read", file), ("write", file), ("exec-copy", DRIVER)];
        let outcomes = attempts(&mut core, 1, &tried).await.expect("the driver lives");
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    });
}

#[test]
fn a_target_can_be_kept_from_the_same_as_its_driver() {
    test(async {
        let place = place();
        let project = place.base.path().join("project");
        std::fs::create_dir(&project).expect("a directory");
        let new = project.join("new");
        let mut launch = place.launch("wide");
        granted(&mut launch, &["target-exec", "target-environment"]);
        launch.rules.confine_target = true;
        launch.rules.write = vec![project];
        let mut core = prepared(launch, &["target-exec", "target-environment"]).await;
        let new = new.to_str().expect("UTF-8");
        check(&mut core, Aspect::Paths, 1, &[("write", new, true), ("exec-copy", DRIVER, false)]).await;
        check(&mut core, Aspect::Network, 2, &[("raw", "", false)]).await;
    });
}

#[test]
fn what_a_driver_was_not_started_for_cannot_be_approved() {
    test(async {
        for permission in ["target-exec", "target-home", "target-only-network", "recorder-socket"] {
            let place = place();
            let mut core = Core::start(place.launch("wide")).await.expect("the driver starts");
            let error = core.prepare(plan(&[permission])).await.expect_err("it was not granted");
            assert_eq!(error.class(), ErrorClass::PermissionDenied, "{permission}");
            // Nothing was sent: the session goes on with less.
            core.prepare(plan(&["target-environment"])).await.expect("that changes nothing in the kernel");
        }
    });
}

#[test]
fn without_a_keeper_nothing_is_enforced_and_the_evidence_says_so() {
    test(async {
        let place = place();
        let mut launch = place.launch("");
        launch.shim = Shim::None;
        let core = Core::start(launch).await.expect("the driver starts");
        assert_eq!(core.applied().lacking().count(), Aspect::ALL.len());
        let network = core.applied().get(Aspect::Network).expect("a measure");
        assert_eq!((network.wanted.as_str(), network.state), ("none", Enforcement::NotEnforced));
        assert!(network.how.contains("no `pintle` binary"), "{}", network.how);
    });
}
