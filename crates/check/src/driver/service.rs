//! The driver as a Driver RPC peer: hello, permissions, exact input, observations.

use std::sync::atomic::{AtomicBool, Ordering};

use pintle_sdk::driver::{
    Capabilities, Driver, DriverIdentity, ErrorClass, HelloResult, InputError, Invocation, InvokeParams, ObserveError,
    Permission, PrepareParams, RpcError, TerminalStatus, VersionRange,
};
use pintle_sdk::process::Shim;
use pintle_wire::{DecodeError, Digest, JsonError, MAX_DEPTH, Profile, ScanLimits, scan};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::agent::{AgentError, Ending, REPORT_QUEUE, carry_out};
use super::input::{INPUT_MAX_BYTES, INPUT_SCHEMA, Input};
use super::recorder::Report;
use crate::observation::Observation;
use crate::pack::Step;

/// The operation that carries out a scenario.
pub const SCENARIO_OPERATION: &str = "acp.scenario.v1";
/// What stands before a step's kind in the list of operations.
pub const STEP_OPERATION_PREFIX: &str = "acp.step.";
/// Kind of the observation that opens a companion stream; the `acp.frame` behind it names the stream.
pub const STREAM_KIND: &str = "acp.stream";
/// Kind of the observation that says why an invocation ended as errored: `{"message"}`.
pub const ERROR_KIND: &str = "driver.error";

/// Without these no scenario can be carried out.
const NEEDED: [&str; 3] = [Permission::EPHEMERAL_INPUT, Permission::TARGET_EXEC, Permission::TARGET_ENVIRONMENT];
/// With these it is done better.
const WANTED: [&str; 6] = [
    Permission::TARGET_HOME,
    Permission::TARGET_ONLY_NETWORK,
    Permission::RECORDER_SOCKET,
    Permission::TEMPORARY_HOME,
    Permission::BOUNDED_STDERR,
    Permission::COMPANION_STREAM,
];

/// The built-in scenario driver.
#[derive(Debug)]
pub struct AcpDriver {
    artifact: Digest,
    shim: Shim,
    has_data_stream: bool,
    streams: AtomicBool,
}

/// Why an invocation ended as errored. It becomes an observation, so it names no path, payload or secret.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("read the exact input: {0}")]
    Input(#[from] InputError),
    #[error("understand the exact input: {0}")]
    Json(#[from] JsonError),
    #[error("understand the exact input: {0}")]
    Decode(#[from] DecodeError),
    #[error("understand the exact input: its schema is not {INPUT_SCHEMA}")]
    Schema,
    #[error("{0}")]
    Agent(#[from] AgentError),
    #[error("{0}")]
    Observe(#[from] ObserveError),
}

impl AcpDriver {
    /// The driver. `artifact` is the digest of the program that it is part of, `shim` keeps the agents that it starts,
    /// `has_data_stream` says whether Core gave it a companion data stream.
    pub fn new(artifact: Digest, shim: Shim, has_data_stream: bool) -> Self {
        Self { artifact, shim, has_data_stream, streams: AtomicBool::new(false) }
    }

    async fn scenario(&self, invocation: &Invocation) -> Result<Ending, Fault> {
        let bytes = invocation.input().await?;
        let limits = ScanLimits { max_bytes: INPUT_MAX_BYTES, max_depth: MAX_DEPTH };
        let input: Input = scan(&bytes, Profile::DriverRpc, limits)?.decode()?;
        if input.schema != INPUT_SCHEMA {
            return Err(Fault::Schema);
        }
        let (sender, receiver) = mpsc::channel(REPORT_QUEUE);
        let cancel = CancellationToken::new();
        let streams = self.streams.load(Ordering::Relaxed);
        let driving = carry_out(input, self.shim.clone(), streams, &cancel, sender);
        let cancelling = async {
            let _reason_and_deadline = invocation.cancelled().await;
            cancel.cancel();
            std::future::pending::<()>().await;
        };
        // The sender goes with the scenario, and the reports end with the sender.
        tokio::select! {
            (ended, reported) = async { tokio::join!(driving, report(invocation, receiver)) } => {
                reported?;
                Ok(ended?)
            }
            () = cancelling => unreachable!("it never ends"),
        }
    }
}

impl Driver for AcpDriver {
    fn hello(&self) -> HelloResult {
        let steps = Step::KINDS.iter().map(|kind| format!("{STEP_OPERATION_PREFIX}{kind}").into());
        let version = env!("CARGO_PKG_VERSION");
        HelloResult {
            driver_version_range: VersionRange::new("1.0.0", "1.0.0"),
            identity: DriverIdentity {
                name: "pintle-acp".into(),
                version: version.into(),
                sdk_name: Some("pintle-sdk".into()),
                sdk_version: Some(version.into()),
                client_name: Some("pintle".into()),
                client_version: Some(version.into()),
                runtime_name: "rust".into(),
                runtime_version: env!("CARGO_PKG_RUST_VERSION").into(),
                os: std::env::consts::OS.into(),
                architecture: std::env::consts::ARCH.into(),
                artifact_digest: self.artifact,
                lockfile_digest: None,
            },
            capabilities: Capabilities {
                protocols: vec!["acp.v1".into()],
                operations: std::iter::once(SCENARIO_OPERATION.into()).chain(steps).collect(),
                streaming: true,
                cancellation: true,
                retry_observed: false,
                concurrency: false,
                max_concurrency: 1,
            },
            requested_permissions: NEEDED.into_iter().chain(WANTED).map(Permission::from).collect(),
        }
    }

    async fn prepare(&self, plan: PrepareParams) -> Result<Vec<Permission>, RpcError> {
        let approved = |name: &str| plan.approved_permissions.iter().any(|permission| permission.as_str() == name);
        let missing: Vec<&str> = NEEDED.into_iter().filter(|name| !approved(name)).collect();
        if !missing.is_empty() {
            let message = format!("a scenario cannot be carried out without {}", missing.join(" and "));
            return Err(RpcError::new(ErrorClass::PermissionDenied, message));
        }
        let streams = self.has_data_stream && approved(Permission::COMPANION_STREAM);
        self.streams.store(streams, Ordering::Relaxed);
        let taken = |permission: &Permission| permission.as_str() != Permission::COMPANION_STREAM || streams;
        Ok(plan.approved_permissions.into_iter().filter(taken).collect())
    }

    fn accept(&self, params: &InvokeParams) -> Result<(), RpcError> {
        if &*params.operation == SCENARIO_OPERATION {
            return Ok(());
        }
        let message = format!("the only operation that can be invoked is {SCENARIO_OPERATION}");
        Err(RpcError::new(ErrorClass::CapabilityMismatch, message))
    }

    async fn invoke(&self, invocation: Invocation) -> TerminalStatus {
        match self.scenario(&invocation).await {
            Ok(Ending::Completed) => TerminalStatus::Completed,
            Ok(Ending::Cancelled) => TerminalStatus::Cancelled,
            Err(fault) => {
                // If not even this can be said, the status alone must do.
                let _said = invocation.observe(ERROR_KIND, &json!({"message": format!("failed to {fault}")})).await;
                TerminalStatus::Errored
            }
        }
    }
}

/// Passes reports on in their order. The stream's id is the session's choice, so the frame that names it is told.
async fn report(invocation: &Invocation, mut reports: mpsc::Receiver<Report>) -> Result<(), ObserveError> {
    let mut renamed = None;
    while let Some(report) = reports.recv().await {
        match report {
            Report::Stream { bytes, .. } => {
                let mut stream = invocation.observe_stream(STREAM_KIND).await?;
                stream.write(&bytes).await?;
                renamed = Some(stream.id().to_owned());
                stream.finish().await?;
            }
            Report::Observation(Observation::Frame(mut frame)) => {
                if frame.stream_id.is_some() {
                    frame.stream_id = renamed.take();
                }
                observe(invocation, &Observation::Frame(frame)).await?;
            }
            Report::Observation(observation) => observe(invocation, &observation).await?,
        }
    }
    Ok(())
}

async fn observe(invocation: &Invocation, observation: &Observation) -> Result<(), ObserveError> {
    let kind = observation.kind();
    match observation {
        Observation::Start(payload) => invocation.observe(kind, payload).await,
        Observation::Frame(payload) => invocation.observe(kind, payload).await,
        Observation::Omitted(payload) => invocation.observe(kind, payload).await,
        Observation::Stderr(payload) => invocation.observe(kind, payload).await,
        Observation::Exit(payload) => invocation.observe(kind, payload).await,
        Observation::Descendants(payload) => invocation.observe(kind, payload).await,
        Observation::Step(payload) => invocation.observe(kind, payload).await,
    }
    .map(|_sequence| ())
}
