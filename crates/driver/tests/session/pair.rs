//! Two sessions, the wires between them and a clock that only the test moves.

use std::time::{Duration, Instant};

use pintle_driver::{
    Capabilities, CoreConfig, CoreEvent, CoreSession, Digest, DriverConfig, DriverEvent, DriverIdentity, DriverSession,
    ExactInputHandle, FixtureRefs, HelloResult, InputKind, InstanceId, InvokeParams, Output, Permission, PrepareParams,
    Secret, supported_versions,
};

#[expect(clippy::disallowed_methods, reason = "an Instant has no other beginning; the tests only add to it")]
pub(crate) fn epoch() -> Instant {
    Instant::now()
}

pub(crate) fn id(number: u8) -> InstanceId {
    InstanceId::new(1_700_000_000_000, [number; 16]).expect("an id")
}

pub(crate) fn hello_result() -> HelloResult {
    HelloResult {
        driver_version_range: supported_versions(),
        identity: DriverIdentity {
            name: "test".into(),
            version: "1.0.0".into(),
            sdk_name: None,
            sdk_version: None,
            client_name: None,
            client_version: None,
            runtime_name: "rust".into(),
            runtime_version: "1".into(),
            os: "linux".into(),
            architecture: "x86_64".into(),
            artifact_digest: Digest::of(b"artifact"),
            lockfile_digest: None,
        },
        capabilities: Capabilities { operations: vec!["run".into()], cancellation: true, ..Capabilities::default() },
        requested_permissions: permissions(&["companion-stream", "ephemeral-input", "x-test"]),
    }
}

pub(crate) fn permissions(names: &[&str]) -> Vec<Permission> {
    names.iter().map(|name| Permission::new(*name)).collect()
}

pub(crate) fn prepare_params(approved: &[&str]) -> PrepareParams {
    PrepareParams {
        resolved_plan_digest: Digest::of(b"plan"),
        capability_token: Secret::new("token"),
        fixture_refs: FixtureRefs::Absent,
        approved_permissions: permissions(approved),
    }
}

pub(crate) fn invoke_params(number: u8, operation: &str) -> InvokeParams {
    InvokeParams {
        invocation_id: id(number),
        attempt_id: id(number.wrapping_add(100)),
        operation: operation.into(),
        input: ExactInputHandle { kind: InputKind::Pipe, value: Secret::new("/w/input-1") },
    }
}

/// Two connected sessions. What one writes the other reads in the same moment, in pieces of `chunk` bytes.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) core: CoreSession,
    pub(crate) driver: DriverSession,
    pub(crate) core_events: Vec<CoreEvent>,
    pub(crate) driver_events: Vec<DriverEvent>,
    pub(crate) chunk: usize,
    closed: bool,
}

impl Pair {
    pub(crate) fn new(config: CoreConfig) -> Self {
        Self::with_driver(config, DriverConfig::new(hello_result()))
    }

    pub(crate) fn with_driver(config: CoreConfig, driver: DriverConfig) -> Self {
        Self {
            now: epoch(),
            core: CoreSession::new(config),
            driver: DriverSession::new(driver).expect("the hello result validates"),
            core_events: Vec::new(),
            driver_events: Vec::new(),
            chunk: 13,
            closed: false,
        }
    }

    /// After hello and prepare.
    pub(crate) fn prepared(config: CoreConfig, approved: &[&str]) -> Self {
        Self::prepared_with(config, DriverConfig::new(hello_result()), approved)
    }

    fn prepared_with(config: CoreConfig, driver: DriverConfig, approved: &[&str]) -> Self {
        let mut pair = Self::with_driver(config, driver);
        pair.core.hello(pair.now).expect("hello");
        pair.drive();
        pair.core.prepare(pair.now, prepare_params(approved)).expect("prepare");
        pair.drive();
        pair.driver.accept_prepare(permissions(approved)).expect("accept");
        pair.drive();
        pair.core_events.clear();
        pair.driver_events.clear();
        pair
    }

    /// In the middle of an invocation.
    pub(crate) fn invoking(config: CoreConfig, approved: &[&str]) -> Self {
        Self::invoking_with(config, DriverConfig::new(hello_result()), approved)
    }

    /// The same, with a driver's end of its own kind.
    pub(crate) fn invoking_with(config: CoreConfig, driver: DriverConfig, approved: &[&str]) -> Self {
        let mut pair = Self::prepared_with(config, driver, approved);
        pair.core.invoke(pair.now, invoke_params(1, "run")).expect("invoke");
        pair.drive();
        pair.driver.accept_invoke(id(1)).expect("accept");
        pair.drive();
        pair.core_events.clear();
        pair.driver_events.clear();
        pair
    }

    /// Moves bytes both ways until nobody has anything to say.
    pub(crate) fn drive(&mut self) {
        loop {
            let mut moved = false;
            while let Some(output) = self.core.poll_output() {
                moved = true;
                match output {
                    Output::Control(bytes) => {
                        for piece in bytes.chunks(self.chunk) {
                            self.driver.feed(self.now, piece.to_vec());
                        }
                    }
                    Output::Close => self.driver.eof(self.now),
                    Output::Data(_) => panic!("core has no data stream"),
                }
            }
            while let Some(output) = self.driver.poll_output() {
                moved = true;
                match output {
                    Output::Control(bytes) => {
                        for piece in bytes.chunks(self.chunk) {
                            self.core.feed(self.now, piece.to_vec());
                        }
                    }
                    Output::Data(bytes) => {
                        for piece in bytes.chunks(self.chunk) {
                            self.core.feed_data(self.now, piece.to_vec());
                        }
                    }
                    Output::Close => self.closed = true,
                }
            }
            if std::mem::take(&mut self.closed) {
                self.core.eof(self.now);
                self.core.eof_data(self.now);
            }
            self.core_events.extend(std::iter::from_fn(|| self.core.poll_event()));
            self.driver_events.extend(std::iter::from_fn(|| self.driver.poll_event()));
            if !moved {
                return;
            }
        }
    }

    /// Moves the clock to Core's next deadline, which must be `wait` from now.
    pub(crate) fn wait(&mut self, wait: Duration) {
        assert_eq!(self.core.poll_timeout().map(|deadline| deadline - self.now), Some(wait));
        self.now += wait;
        self.core.handle_timeout(self.now);
        self.drive();
    }
}
