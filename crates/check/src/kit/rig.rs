//! The driver under test, and how each session starts it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use pintle_sdk::driver::{HelloResult, Permission};
use pintle_sdk::process::{Environment, Ladder, Program, Shim};
use pintle_wire::Digest;

use super::catalog::{ALWAYS, DriverRequirement, id};
use super::heard::Heard;

/// The largest input that the kit hands over, in bytes.
pub const MAX_KIT_INPUT_BYTES: usize = 16 << 20;

/// Bytes of one session beyond which a driver is called a flood.
pub const DEFAULT_MAX_SESSION_BYTES: u64 = 256 << 20;

/// An operation that the kit may ask for.
#[derive(Debug, Clone)]
pub struct KitOperation {
    /// One of the driver's declared operations.
    pub name: String,
    /// Its exact input, at most [`MAX_KIT_INPUT_BYTES`].
    pub input: Vec<u8>,
}

/// What to try, and with what.
#[derive(Debug)]
pub struct KitRequest {
    /// The driver's program.
    pub program: Program,
    /// Its arguments, without argv 0.
    pub args: Vec<OsString>,
    /// What it sees of the environment; HOME, TMPDIR and the data stream are set for each session.
    pub env: Environment,
    /// Its keeper. Without one there is no companion stream, and what it leaves behind is not seen.
    pub shim: Shim,
    /// Requirement ids; all when empty.
    pub cases: Vec<String>,
    /// Digest of the driver's artifact, if it is known.
    pub artifact: Option<Digest>,
    /// An operation that ends on its own, soon.
    pub operation: Option<KitOperation>,
    /// An operation that goes on until it is cancelled.
    pub lasting: Option<KitOperation>,
    /// How long a request may stay unanswered.
    pub answer: Duration,
    /// How long an operation that ends on its own may take.
    pub invocation: Duration,
    /// How long a cancelled operation may take to end.
    pub cancel: Duration,
    /// How the driver is brought to its end.
    pub ladder: Ladder,
    /// Bytes of standard output and of the data stream that one session may bring;
    /// [`DEFAULT_MAX_SESSION_BYTES`] unless the operations need more.
    pub max_session_bytes: u64,
    /// An existing directory for the private directories of the sessions.
    pub scratch: PathBuf,
}

/// The request, and what the driver has said of itself in an earlier session.
pub(crate) struct Rig {
    pub(super) request: KitRequest,
    pub(super) hello: Option<HelloResult>,
    pub(super) heard: Heard,
}

impl Rig {
    pub(super) fn new(request: KitRequest) -> Self {
        Self { request, hello: None, heard: Heard::default() }
    }

    pub(super) fn learn(&mut self, hello: HelloResult) {
        self.hello.get_or_insert(hello);
    }

    /// Whether this requirement is tried in sessions of its own, now.
    pub(super) fn wants(&self, requirement: &DriverRequirement) -> bool {
        requirement.kind != ALWAYS && (self.chosen(requirement) || self.leads_to_chosen(requirement))
    }

    /// Whether it stands in the report although it has no session of its own.
    pub(super) fn shows(&self, requirement: &DriverRequirement) -> bool {
        self.request.cases.is_empty() || self.chosen(requirement)
    }

    fn chosen(&self, requirement: &DriverRequirement) -> bool {
        let cases = &self.request.cases;
        cases.is_empty() || cases.iter().any(|case| case == requirement.id)
    }

    /// What a chosen requirement depends on is tried as well: without it the chosen one says nothing. What is watched in
    /// every session needs one to be watched in.
    fn leads_to_chosen(&self, requirement: &DriverRequirement) -> bool {
        let is_hello = requirement.id == id::HELLO;
        let mut chosen = super::catalog::REQUIREMENTS.iter().filter(|other| self.chosen(other));
        chosen.any(|other| other.depends.contains(&requirement.id) || is_hello && other.kind == ALWAYS)
    }

    /// Whether the driver asks for companion streams.
    pub(super) fn wants_streams(&self) -> bool {
        self.hello.as_ref().is_some_and(|hello| {
            hello.requested_permissions.iter().any(|permission| permission.as_str() == Permission::COMPANION_STREAM)
        })
    }

    /// Everything that the driver asked for, as far as it may be approved here.
    pub(super) fn approvable(&self, hello: &HelloResult) -> Vec<Permission> {
        let keeper = self.request.shim != Shim::None;
        hello
            .requested_permissions
            .iter()
            .filter(|permission| keeper || permission.as_str() != Permission::COMPANION_STREAM)
            .cloned()
            .collect()
    }
}
