//! What a driver is kept from where the kernel can do less: no namespaces, no control groups, an older Landlock or none.
//! What still holds is tried, and what does not is said to.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "what a machine lacks by itself is said aloud")]

use std::net::TcpListener;

use pintle_sdk::driver::{Core, CoreError, ErrorClass, Permission};
use pintle_sdk::process::{Aspect, Enforcement, Exceeded};
use pintle_testkit::deaths::{Watched, descendants};
use pintle_testkit::drivers::{LIMIT, Place, attempts, prepared, test};

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const DRIVER: &str = env!("CARGO_BIN_EXE_fake-driver");

/// A keeper, and what of a driver's isolation can hold at most with it.
struct Lesser {
    name: &'static str,
    paths: Enforcement,
    outside: Enforcement,
    ports: bool,
}

use Enforcement::{Enforced, NotEnforced, Partly};

const LESSER: [Lesser; 7] = [
    lesser("keeper.no-namespaces.no-groups", Enforced, Enforced, true),
    lesser("keeper.no-namespaces.no-groups.landlock-5", Enforced, NotEnforced, true),
    lesser("keeper.no-namespaces.no-groups.landlock-4", Partly, NotEnforced, true),
    lesser("keeper.no-namespaces.no-groups.landlock-3", Partly, NotEnforced, false),
    lesser("keeper.no-namespaces.no-groups.landlock-2", Partly, NotEnforced, false),
    lesser("keeper.no-namespaces.no-groups.landlock-1", Partly, NotEnforced, false),
    lesser("keeper.no-namespaces.no-groups.landlock-0", NotEnforced, NotEnforced, false),
];

const fn lesser(name: &'static str, paths: Enforcement, outside: Enforcement, ports: bool) -> Lesser {
    Lesser { name, paths, outside, ports }
}

impl Lesser {
    fn place(&self) -> Place {
        Place::with_lesser_keeper(DRIVER, KEEPER, self.name)
    }
}

fn state(core: &Core, aspect: Aspect) -> (Enforcement, String) {
    let measure = core.applied().get(aspect).expect("every aspect is recorded");
    (measure.state, measure.how.clone())
}

/// Whether this kernel has Landlock at the level that the tests know, so that what is taken away is all that is missing.
async fn kernel_is_new() -> bool {
    let place = Place::new(DRIVER, KEEPER);
    let core = prepared(place.launch(""), &[]).await;
    let (outside, how) = state(&core, Aspect::Outside);
    if outside != Enforced {
        println!("NOT ENFORCED HERE: outside: {how}");
    }
    outside == Enforced
}

/// Section 4: `Applied` says what was truly enforced.
#[test]
fn what_a_lesser_kernel_enforces_is_said() {
    test(async {
        let new = kernel_is_new().await;
        for keeper in &LESSER {
            let place = keeper.place();
            let core = prepared(place.launch(""), &[]).await;
            for (aspect, expected) in [
                (Aspect::Lifetime, Enforced),
                (Aspect::Memory, Enforced),
                (Aspect::Namespaces, NotEnforced),
                (Aspect::Processes, Partly),
                (Aspect::Network, Enforced),
                (Aspect::Paths, keeper.paths),
                (Aspect::Outside, keeper.outside),
            ] {
                let (state, how) = state(&core, aspect);
                let of_landlock = matches!(aspect, Aspect::Paths | Aspect::Outside);
                if new || !of_landlock {
                    assert_eq!(state, expected, "{}: {aspect:?}: {how}", keeper.name);
                }
                assert!(!how.is_empty());
            }
            assert!(core.applied().lacking().count() > 0, "{}: a required sandbox is refused", keeper.name);
        }
    });
}

#[test]
fn nothing_outside_is_touched_with_any_level_of_landlock() {
    test(async {
        for keeper in &LESSER {
            let place = keeper.place();
            let secret = place.base.path().join("secret");
            std::fs::write(&secret, "outside").expect("a file");
            let secret = secret.to_str().expect("UTF-8");
            let beside = place.base.path().join("new");
            let mut core = prepared(place.launch(""), &[]).await;
            let tried = [
                ("read", secret),
                ("truncate", secret),
                ("remove", secret),
                ("link", secret),
                ("write", beside.to_str().expect("UTF-8")),
                ("list", "/"),
                ("read", "/etc/shadow"),
                ("exec-copy", DRIVER),
            ];
            let holds = state(&core, Aspect::Paths).0 != NotEnforced;
            let tried = if holds { &tried[..] } else { &tried[..1] };
            for ((name, about), outcome) in
                tried.iter().zip(attempts(&mut core, 1, tried).await.expect("the driver lives"))
            {
                // Without Landlock it can, and the evidence has said so.
                assert_eq!(outcome.is_err(), holds, "{}: {name} {about}: {outcome:?}", keeper.name);
            }
            let allowed = [("write", "tmp/mine"), ("read", "tmp/mine"), ("exec", "/bin/true"), ("write", "/dev/null")];
            let outcomes = attempts(&mut core, 2, &allowed).await.expect("the driver lives");
            assert!(outcomes.iter().all(Result::is_ok), "{}: {outcomes:?}", keeper.name);
            assert_eq!(std::fs::read_to_string(secret).expect("it is there"), "outside");
        }
    });
}

#[test]
fn no_network_does_not_depend_on_the_kernel_and_ports_do() {
    test(async {
        let new = kernel_is_new().await;
        let bind = || TcpListener::bind("127.0.0.1:0").expect("a server");
        let (open, closed) = (bind(), bind());
        let address = |server: &TcpListener| server.local_addr().expect("its address");
        let closed = address(&closed).to_string();
        for keeper in &LESSER {
            let place = keeper.place();
            let mut core = prepared(place.launch(""), &[]).await;
            let tried =
                [("tcp", closed.as_str()), ("udp", "127.0.0.1:9"), ("netlink", ""), ("io_uring", ""), ("mptcp", "")];
            let outcomes = attempts(&mut core, 1, &tried).await.expect("the driver lives");
            assert!(outcomes.iter().all(Result::is_err), "{}: {outcomes:?}", keeper.name);

            let mut launch = place.launch("wide");
            launch.rules.grants = vec![Permission::from(Permission::TARGET_ONLY_NETWORK)];
            launch.rules.ports = vec![address(&open).port()];
            let mut core = prepared(launch, &[Permission::TARGET_ONLY_NETWORK]).await;
            let (network, how) = state(&core, Aspect::Network);
            if new {
                assert_eq!(network != NotEnforced, keeper.ports, "{}: {how}", keeper.name);
            }
            let to = address(&open).to_string();
            let outcomes = attempts(&mut core, 1, &[("tcp", &to), ("tcp", &closed), ("mptcp", "")]).await;
            let outcomes = outcomes.expect("the driver lives");
            assert!(outcomes[0].is_ok() && outcomes[2].is_err(), "{}: {outcomes:?}", keeper.name);
            assert_eq!(outcomes[1].is_err(), network != NotEnforced, "{}: {outcomes:?}", keeper.name);
        }
    });
}

/// Inv-6 where only the keeper, and neither namespace nor control group, holds a driver's family together.
#[test]
fn without_namespaces_nothing_outlives_a_driver_either() {
    test(async {
        let place = LESSER[6].place();
        for ending in ["kill", "shutdown", "drop"] {
            let mut core = prepared(place.launch(""), &[]).await;
            let tried = [("detach", "hold"), ("fork", "2"), ("detach", "write")];
            let outcomes = attempts(&mut core, 1, &tried).await.expect("the driver lives");
            assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
            let keeper = pintle_testkit::deaths::parent_of(core.id()).expect("a keeper");
            let family: Vec<Watched> = descendants(keeper).into_iter().map(Watched::new).collect();
            assert!(family.len() >= 5, "the driver and four more: {}", family.len());
            let survivors = match ending {
                "kill" => core.kill().await.outcome.survivors,
                "shutdown" => core.shutdown().await.outcome.survivors,
                _ => {
                    drop(core);
                    Vec::new()
                }
            };
            assert_eq!(survivors, [], "{ending}");
            for process in &family {
                assert!(process.ends_within(LIMIT), "{ending}: {} lives on", process.pid());
            }
        }
    });
}

#[test]
fn without_a_control_group_processes_are_counted() {
    test(async {
        let place = LESSER[0].place();
        let mut launch = place.launch("");
        launch.rules.limits.processes = Some(8);
        let mut core = prepared(launch, &[]).await;
        assert!(state(&core, Aspect::Processes).1.contains("counted"));
        let error = attempts(&mut core, 1, &[("fork", "40"), ("hold", "")]).await.expect_err("it takes too much");
        assert!(matches!(error, CoreError::Exceeded(Exceeded::Processes)), "{error}");
        assert_eq!(error.class(), ErrorClass::BudgetExceeded);
    });
}
