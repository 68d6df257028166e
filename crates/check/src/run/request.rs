//! What to check, and with what.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use pintle_sdk::process::{Environment, Program, Shim};
use pintle_store::sanitise::Canary;

use crate::cel::WorkerConfig;
use crate::pack::Pack;

/// Most drivers that run at once.
pub const MAX_JOBS: usize = 64;

/// Everything that one check needs. Nothing in it is read from the environment of this process.
#[derive(Debug)]
pub struct CheckRequest {
    /// The requirements.
    pub pack: Pack,
    /// Scenario or requirement ids; all when empty.
    pub cases: Vec<String>,
    /// Prompts of the project, by the keys of the pack's table.
    pub prompts: BTreeMap<String, String>,
    /// The program under test.
    pub agent: AgentUnderTest,
    /// The driver that carries the scenarios out.
    pub driver: DriverCommand,
    /// Waits that the user chose.
    pub waits: Waits,
    /// Drivers that run at once, 1 to [`MAX_JOBS`].
    pub jobs: usize,
    /// Directory for what is gone afterwards: the drivers' work directories, the sessions' working directories.
    pub scratch: PathBuf,
    /// Values that must not stand in any evidence.
    pub secrets: Secrets,
    /// How assertions are evaluated.
    pub evaluator: WorkerConfig,
}

/// The agent under test.
#[derive(Clone)]
pub struct AgentUnderTest {
    /// Program and arguments, never empty.
    pub argv: Vec<String>,
    /// Where it is started, absolute.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// `cwd` of the sessions; a fresh directory for each scenario when there is none.
    pub session_cwd: Option<PathBuf>,
    /// `methodId` for the `authenticate` steps of the scenarios.
    pub auth: Option<String>,
    /// It is the built-in one, because the user named none.
    pub demo: bool,
    /// What it is kept from; without it, it runs as its user does.
    pub isolation: Option<AgentIsolation>,
}

/// An agent that is kept from the same things as its driver, with a private HOME and TMPDIR.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentIsolation {
    /// Whom it may talk to.
    pub network: AgentNetwork,
    /// Paths that it may read and run, beside the system's: its own program.
    pub read: Vec<PathBuf>,
}

/// Whom an isolated agent may talk to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AgentNetwork {
    /// Nobody.
    #[default]
    None,
    /// Whoever listens on these TCP ports, at any address.
    Ports(Vec<u16>),
    /// Nobody but the recorder, a proxy on a Unix socket that connects to these hosts and ports only, and whose exchanges
    /// stand in the evidence. The variable `PINTLE_RECORDER` names the socket.
    Recorder(Vec<(String, u16)>),
}

impl fmt::Debug for AgentUnderTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentUnderTest")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("session_cwd", &self.session_cwd)
            .field("auth", &self.auth)
            .field("demo", &self.demo)
            .field("isolation", &self.isolation)
            .finish()
    }
}

/// The driver.
#[derive(Clone, Debug)]
pub struct DriverCommand {
    /// Its program.
    pub program: Program,
    /// Its arguments, without argv 0.
    pub args: Vec<OsString>,
    /// What it sees of the environment.
    pub env: Environment,
    /// Its keeper.
    pub shim: Shim,
    /// The file whose digest it must report as its own.
    pub artifact: PathBuf,
    /// A driver of which anything cannot be enforced is not used.
    pub require_sandbox: bool,
}

/// Waits that replace those of the pack, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// From spawn to the reply of the first `initialize`.
    pub start_ms: Option<u64>,
    /// From any other request to its reply, prompts included.
    pub reply_ms: Option<u64>,
}

/// Values that must not be kept. They print as their number.
#[derive(Clone, Default)]
pub struct Secrets(Vec<Canary>);

impl Secrets {
    /// The values.
    pub fn new(values: Vec<Canary>) -> Self {
        Self(values)
    }

    /// For the sanitiser, and nobody else.
    pub(super) fn expose(&self) -> impl Iterator<Item = Canary> + '_ {
        self.0.iter().cloned()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} redacted]", self.0.len())
    }
}
