//! What most drivers say of themselves.

use std::io;

use pintle_driver::{Capabilities, DriverIdentity, HelloResult, Permission, supported_versions};

use super::artifact::artifact_digest;

/// The answer to `driver.hello` of a driver that is this program: its name and version, the digest of its own file, this
/// system. It takes its input and can be cancelled; a caller adds operations, and changes what differs.
///
/// # Errors
/// When the program's own file cannot be read.
pub fn describe(name: &str, version: &str, operations: &[&str]) -> io::Result<HelloResult> {
    Ok(HelloResult {
        driver_version_range: supported_versions(),
        identity: DriverIdentity {
            name: name.into(),
            version: version.into(),
            sdk_name: Some("pintle-sdk".into()),
            sdk_version: Some(env!("CARGO_PKG_VERSION").into()),
            client_name: None,
            client_version: None,
            runtime_name: "native".into(),
            runtime_version: version.into(),
            os: std::env::consts::OS.into(),
            architecture: std::env::consts::ARCH.into(),
            artifact_digest: artifact_digest(&std::env::current_exe()?)?,
            lockfile_digest: None,
        },
        capabilities: Capabilities {
            operations: operations.iter().map(|name| (*name).into()).collect(),
            streaming: true,
            cancellation: true,
            ..Capabilities::default()
        },
        requested_permissions: vec![Permission::from(Permission::EPHEMERAL_INPUT)],
    })
}
