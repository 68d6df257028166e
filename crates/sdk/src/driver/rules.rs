//! What a driver is kept from, out of what Core may permit it.

use std::path::PathBuf;

use pintle_driver::{Permission, PermissionError};

use crate::process::{Network, Paths, ResourceLimits, Sandbox};

/// What a driver is kept from. It is fixed before the driver starts, so it follows from [`grants`](Self::grants): what Core
/// may approve later, and not what it does approve.
///
/// A driver without any grant sees the system's own files, its work directory and nothing else, and talks to nobody. With
/// the grant `target-exec` it starts the agent under test as its child, and a child can have no more than its parent:
/// unless [`confine_target`](Self::confine_target) is set, nothing is then enforced on either but their lifetime and the
/// size of the work directory.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DriverRules {
    /// Permissions that Core may approve. `target-exec`, `target-home`, `target-only-network` and `recorder-socket` are
    /// refused at `driver.prepare` if they are not among these; the others change nothing that the kernel enforces.
    pub grants: Vec<Permission>,
    /// With `target-exec`: the target is kept from the same things as the driver.
    pub confine_target: bool,
    /// Memory, sizes, counts.
    pub limits: ResourceLimits,
    /// TCP ports that can be connected to, with `target-only-network`.
    pub ports: Vec<u16>,
    /// Paths to read and run, beside the system's and the driver's own program.
    pub read: Vec<PathBuf>,
    /// Paths to read and write, beside the work directory.
    pub write: Vec<PathBuf>,
    /// The user's home, to read and write with `target-home`.
    pub target_home: Option<PathBuf>,
}

/// Grants that are about what the kernel enforces.
const ENFORCED: [&str; 4] =
    [Permission::TARGET_EXEC, Permission::TARGET_HOME, Permission::TARGET_ONLY_NETWORK, Permission::RECORDER_SOCKET];

impl Default for DriverRules {
    fn default() -> Self {
        Self {
            grants: Vec::new(),
            confine_target: false,
            limits: ResourceLimits::driver(),
            ports: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            target_home: None,
        }
    }
}

impl DriverRules {
    /// Whether Core may approve `name`.
    pub fn grants(&self, name: &str) -> bool {
        self.grants.iter().any(|granted| granted.as_str() == name)
    }

    /// Whether driver and target are as free as their user.
    pub(crate) fn is_free(&self) -> bool {
        self.grants(Permission::TARGET_EXEC) && !self.confine_target
    }

    /// Checks that nothing is approved that the driver was not started for.
    pub(crate) fn check(&self, approved: &[Permission]) -> Result<(), PermissionError> {
        let beyond =
            |permission: &Permission| ENFORCED.contains(&permission.as_str()) && !self.grants(permission.as_str());
        match approved.iter().position(beyond) {
            Some(index) => Err(PermissionError::Exceeds { list: "approved", wider: "granted", index }),
            None => Ok(()),
        }
    }

    /// The sandbox of a driver whose work directory is `folder`. `programs` are the files that it is made of.
    pub(crate) fn sandbox(&self, folder: PathBuf, programs: Vec<PathBuf>) -> Sandbox {
        let mut sandbox = Sandbox { folder: Some(folder), limits: self.limits, ..Sandbox::default() };
        if self.is_free() {
            // What the target inherits must be what its user has. The folder is the driver's alone.
            sandbox.limits = ResourceLimits { folder_bytes: self.limits.folder_bytes, ..ResourceLimits::default() };
            return sandbox;
        }
        let home = self.target_home.iter().filter(|_| self.grants(Permission::TARGET_HOME));
        sandbox.paths = Paths::Listed {
            read: programs.into_iter().chain(self.read.iter().cloned()).collect(),
            write: self.write.iter().chain(home).cloned().collect(),
        };
        sandbox.network = if self.grants(Permission::TARGET_ONLY_NETWORK) {
            Network::Ports(self.ports.clone())
        } else if self.grants(Permission::RECORDER_SOCKET) {
            Network::Recorder
        } else {
            Network::None
        };
        // In a namespace of its own a user's home would be full of strangers' files.
        sandbox.private_namespaces = !self.grants(Permission::TARGET_HOME);
        sandbox
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(grants: &[&str]) -> DriverRules {
        DriverRules { grants: grants.iter().map(|name| Permission::new(*name)).collect(), ..DriverRules::default() }
    }

    fn sandbox(rules: &DriverRules) -> Sandbox {
        rules.sandbox("/work".into(), vec!["/driver".into()])
    }

    #[test]
    fn without_grants_nothing_is_open() {
        let sandbox = sandbox(&rules(&["companion-stream", "target-environment"]));
        assert_eq!(sandbox.network, Network::None);
        assert_eq!(sandbox.paths, Paths::Listed { read: vec!["/driver".into()], write: Vec::new() });
        assert!(sandbox.private_namespaces);
    }

    #[test]
    fn a_target_takes_away_all_that_it_would_inherit() {
        let mut rules = rules(&["target-exec", "target-home"]);
        rules.target_home = Some("/home".into());
        let free = sandbox(&rules);
        assert_eq!((free.network, free.paths, free.private_namespaces), (Network::Open, Paths::Open, false));
        assert_eq!(free.limits, ResourceLimits { folder_bytes: Some(1 << 30), ..ResourceLimits::default() });
        rules.confine_target = true;
        let confined = sandbox(&rules);
        assert_eq!(confined.network, Network::None);
        assert_eq!(confined.paths, Paths::Listed { read: vec!["/driver".into()], write: vec!["/home".into()] });
    }

    #[test]
    fn network_follows_its_grant() {
        let mut ports = rules(&["target-only-network", "recorder-socket"]);
        ports.ports = vec![443];
        assert_eq!(sandbox(&ports).network, Network::Ports(vec![443]));
        assert_eq!(sandbox(&rules(&["recorder-socket"])).network, Network::Recorder);
    }

    #[test]
    fn what_was_not_granted_cannot_be_approved() {
        let approved = |names: &[&str]| names.iter().map(|name| Permission::new(*name)).collect::<Vec<_>>();
        let rules = rules(&["target-exec"]);
        assert_eq!(rules.check(&approved(&["companion-stream", "target-exec", "x-mine"])), Ok(()));
        let refused = rules.check(&approved(&["target-exec", "target-home"]));
        assert_eq!(refused, Err(PermissionError::Exceeds { list: "approved", wider: "granted", index: 1 }));
    }
}
