//! Core with a fake driver, as the tests of drivers need it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pintle_sdk::driver::{
    Core, CoreError, DriverLaunch, InstanceId, Invoke, ObservationParams, Observed, Permission, Plan, Run,
};
use pintle_sdk::process::{Environment, Program, Shim};
use pintle_wire::Digest;
use serde_json::Value;
use tempfile::TempDir;

/// So that a failing test ends.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test, on one thread.
pub fn test<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, body).await.expect("in time") })
}

/// A scratch directory, and the programs that a driver takes.
#[derive(Debug)]
pub struct Place {
    /// Work directories are made here.
    pub base: TempDir,
    driver: PathBuf,
    keeper: PathBuf,
    _links: Option<TempDir>,
}

impl Place {
    /// With the driver and the keeper at these paths.
    #[must_use]
    pub fn new(driver: &str, keeper: &str) -> Self {
        Self {
            base: tempfile::tempdir().expect("a scratch directory"),
            driver: driver.into(),
            keeper: keeper.into(),
            _links: None,
        }
    }

    /// With a keeper that can do less than its kernel, as `name` says: words between dots, of which `no-namespaces`,
    /// `no-groups` and `landlock-N` (the highest ABI, 0 for none) mean something.
    #[cfg(unix)]
    #[must_use]
    pub fn with_lesser_keeper(driver: &str, keeper: &str, name: &str) -> Self {
        let links = tempfile::tempdir().expect("a directory");
        let link = links.path().join(name);
        std::os::unix::fs::symlink(keeper, &link).expect("a link");
        Self { keeper: link, _links: Some(links), ..Self::new(driver, keeper) }
    }

    /// The driver, told to behave as `fault` says.
    #[must_use]
    pub fn launch(&self, fault: &str) -> DriverLaunch {
        let env = Environment::driver_allowlist([("PATH".into(), "/usr/bin".into()), ("SECRET".into(), "x".into())]);
        let program = Program::at(&self.driver).expect("the fake driver");
        let mut launch = DriverLaunch::new(program, env, Shim::Path(self.keeper.clone()), self.base.path());
        launch.args = vec![fault.into()];
        launch.session.verify_summary = true;
        launch
    }

    /// What lies where work directories are made.
    #[must_use]
    pub fn left(&self) -> Vec<PathBuf> {
        list(self.base.path())
    }
}

fn list(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Starts and prepares a driver with these permissions.
pub async fn prepared(launch: DriverLaunch, permissions: &[&str]) -> Core {
    let mut core = Core::start(launch).await.expect("the driver starts");
    core.prepare(plan(permissions)).await.expect("the driver prepares");
    core
}

/// A plan that approves these permissions.
#[must_use]
pub fn plan(permissions: &[&str]) -> Plan {
    let approved = permissions.iter().map(|name| Permission::new(*name)).collect();
    Plan { digest: Digest::of(b"plan"), approved, fixtures: Vec::new() }
}

/// An invocation, by its number in the session.
#[must_use]
pub fn invoke(number: u8, operation: &str, input: &[u8]) -> Invoke {
    let id = |random| InstanceId::new(1_700_000_000_000, [random; 16]).expect("an id");
    Invoke {
        invocation_id: id(number),
        attempt_id: id(number.wrapping_add(100)),
        operation: operation.into(),
        input: input.to_vec(),
        deadline: LIMIT,
        cancel_grace: Duration::from_millis(200),
    }
}

/// Everything that an invocation brings.
#[derive(Debug, Default)]
pub struct All {
    /// Its observations.
    pub observations: Vec<ObservationParams>,
    /// The bytes of its companion streams.
    pub data: Vec<u8>,
    /// How many streams came to their end.
    pub streams_ended: usize,
}

impl All {
    /// Takes all of an invocation.
    ///
    /// # Errors
    /// Those of [`Run::next`].
    pub async fn of(run: &mut Run<'_>) -> Result<Self, CoreError> {
        let mut all = Self::default();
        while let Some(observed) = run.next().await? {
            match observed {
                Observed::Observation(params) => all.observations.push(params),
                Observed::Data { bytes, is_final, .. } => {
                    all.data.extend_from_slice(&bytes);
                    all.streams_ended += usize::from(is_final);
                }
            }
        }
        Ok(all)
    }

    /// The payload of an observation.
    #[must_use]
    pub fn payload(&self, index: usize) -> Value {
        let payload = self.observations[index].payload.as_ref().expect("a payload");
        payload.decode().expect("a payload is JSON")
    }
}

/// Lets the fake driver make these attempts, each a name and what it is about, as invocation `number`. Returns what came of
/// each.
///
/// # Errors
/// Those of [`Run::next`].
pub async fn attempts(
    core: &mut Core,
    number: u8,
    attempts: &[(&str, &str)],
) -> Result<Vec<Result<String, String>>, CoreError> {
    let input = serde_json::to_vec(attempts).expect("attempts are JSON");
    let mut run = core.invoke(invoke(number, "escape", &input))?;
    let all = All::of(&mut run).await?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let outcomes = (0..all.observations.len()).map(|index| {
        let payload = all.payload(index);
        text(&payload["ok"]).ok_or_else(|| text(&payload["error"]).expect("one of both"))
    });
    Ok(outcomes.collect())
}
