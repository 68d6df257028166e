//! Paths, TCP ports and the world outside, by Landlock.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort, RestrictSelfAttr,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

use crate::process::{Aspect, Enforcement, Measure, Network, Paths, Sandbox, applied::wanted};

/// The newest level whose effects the tests have seen. An older kernel does what it can of it.
const LEVEL: ABI = ABI::V6;

/// What every program needs to be run.
const SYSTEM: [&str; 9] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"];

/// What programs look up, and may not run. Of `/etc` nothing that holds a secret, and not the whole.
const LOOKED_UP: [&str; 30] = [
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/run/systemd/resolve",
    "/usr/share/zoneinfo",
];

/// Devices that are no hardware.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What Landlock enforces of this process.
#[derive(Debug)]
pub(super) struct Landlocked {
    /// By which level, and with what exceptions; or why not.
    paths: Result<(Enforcement, String), String>,
    pub(super) ports: Result<String, String>,
    outside: Result<String, String>,
}

/// Restricts this process as the sandbox has it.
pub(super) fn restrict(sandbox: &Sandbox, program: &Path, most: u32) -> Landlocked {
    let ports = if let Network::Ports(ports) = &sandbox.network { Some(ports.as_slice()) } else { None };
    if sandbox.paths == Paths::Open && ports.is_none() {
        let unwanted = || Err("not wanted".to_owned());
        return Landlocked { paths: Err("not wanted".to_owned()), ports: unwanted(), outside: unwanted() };
    }
    let Some(level) = level(most) else { return Landlocked::missing("this keeper uses no Landlock") };
    match enforce(sandbox, program, ports, level) {
        Ok(status) => Landlocked::at(at_most(status, level)),
        Err(error) => {
            let failed = || Err(format!("Landlock: {error}"));
            Landlocked { paths: Err(format!("Landlock: {error}")), ports: failed(), outside: failed() }
        }
    }
}

/// [`LEVEL`], or a lower one that is the highest allowed.
fn level(most: u32) -> Option<ABI> {
    let level = match most {
        0 => return None,
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => LEVEL,
    };
    Some(level)
}

/// What a kernel of this level would have said.
fn at_most(status: LandlockStatus, level: ABI) -> LandlockStatus {
    match status {
        LandlockStatus::Available { effective_abi, .. } if level < LEVEL => {
            LandlockStatus::Available { effective_abi: effective_abi.min(level), kernel_abi: None }
        }
        status => status,
    }
}

fn enforce(
    sandbox: &Sandbox,
    program: &Path,
    ports: Option<&[u16]>,
    level: ABI,
) -> Result<LandlockStatus, RulesetError> {
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let has_paths = matches!(sandbox.paths, Paths::Listed { .. });
    if has_paths {
        ruleset = ruleset.handle_access(AccessFs::from_all(level))?;
        // Nothing is asked for that the level does not have: to ask for nothing would be an error.
        if let scope = Scope::from_all(level)
            && !scope.is_empty()
        {
            ruleset = ruleset.scope(scope)?;
        }
    }
    let handled = AccessNet::from_all(level);
    let ports = ports.filter(|_| !handled.is_empty());
    if ports.is_some() {
        ruleset = ruleset.handle_access(handled)?;
    }
    if !matches!(sandbox.paths, Paths::Listed { .. }) && ports.is_none() {
        return Ok(LandlockStatus::Available { effective_abi: level, kernel_abi: None });
    }
    let mut created = ruleset.create()?.log_subdomains(false)?;
    if let Paths::Listed { read, write } = &sandbox.paths {
        created = allow(created, (sandbox, program), read, write, level)?;
    }
    for port in ports.unwrap_or_default() {
        created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    Ok(created.restrict_self()?.landlock)
}

/// A path that is not there allows nothing.
fn allow(
    ruleset: RulesetCreated,
    (sandbox, program): (&Sandbox, &Path),
    read: &[PathBuf],
    write: &[PathBuf],
    level: ABI,
) -> Result<RulesetCreated, RulesetError> {
    let run = AccessFs::from_read(level);
    let look_up = run & !BitFlags::from(AccessFs::Execute);
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
    // What a child has written it does not run.
    let change = AccessFs::from_all(level) & !(devices | AccessFs::Execute);
    let written = write.iter().chain(&sandbox.folder);
    ruleset
        .add_rules(path_beneath_rules(SYSTEM, run))?
        .add_rules(path_beneath_rules([program], run))?
        .add_rules(path_beneath_rules(read, run))?
        .add_rules(path_beneath_rules(LOOKED_UP, look_up))?
        .add_rules(path_beneath_rules(DEVICES, AccessFs::ReadFile | AccessFs::WriteFile))?
        .add_rules(path_beneath_rules(written, change))
}

impl Landlocked {
    fn at(status: LandlockStatus) -> Self {
        let (abi, level) = match status {
            LandlockStatus::Available { effective_abi, kernel_abi } => {
                let kernel = kernel_abi.unwrap_or(effective_abi as i32);
                (effective_abi, format!("Landlock ABI {kernel}"))
            }
            LandlockStatus::NotEnabled => return Self::missing("Landlock is not enabled in this kernel"),
            LandlockStatus::NotImplemented => return Self::missing("this kernel has no Landlock"),
        };
        let lacks = |what: &str| Err(format!("{level} cannot do it: {what}"));
        let paths = match abi {
            ABI::V1 | ABI::V2 => (Enforcement::Partly, format!("{level}, which lets any file be truncated")),
            ABI::V3 | ABI::V4 => (Enforcement::Partly, format!("{level}, which lets devices be controlled")),
            _ => (Enforcement::Enforced, level.clone()),
        };
        Self {
            paths: Ok(paths),
            ports: if abi >= ABI::V4 { Ok(level.clone()) } else { lacks("ports take ABI 4") },
            outside: if abi >= ABI::V6 { Ok(level.clone()) } else { lacks("it takes ABI 6") },
        }
    }

    fn missing(why: &str) -> Self {
        Self { paths: Err(why.to_owned()), ports: Err(why.to_owned()), outside: Err(why.to_owned()) }
    }

    pub(super) fn measures(self, sandbox: &Sandbox) -> Vec<Measure> {
        let mut measures = Vec::new();
        if let Some(wanted) = wanted(sandbox, Aspect::Paths) {
            let (state, how) = self.paths.unwrap_or_else(|why| (Enforcement::NotEnforced, why));
            measures.push(Measure::new(Aspect::Paths, wanted, state, how));
        }
        if let Some(wanted) = wanted(sandbox, Aspect::Outside) {
            measures.push(Measure::of(Aspect::Outside, wanted, self.outside.as_deref().map_err(Clone::clone)));
        }
        measures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the evidence says on kernels that the tests do not run on.
    #[test]
    fn an_older_kernel_is_told_as_what_it_is() {
        let paths = Paths::Listed { read: Vec::new(), write: Vec::new() };
        let sandbox = Sandbox { paths, ..Sandbox::default() };
        use Enforcement::{Enforced, NotEnforced, Partly};
        let check = |status, paths, outside, ports: bool| {
            let landlocked = Landlocked::at(status);
            assert_eq!(landlocked.ports.is_ok(), ports, "{status:?}");
            let measures = landlocked.measures(&sandbox);
            assert_eq!(
                measures.iter().map(|measure| measure.state).collect::<Vec<_>>(),
                [paths, outside],
                "{status:?}"
            );
            assert!(measures.iter().all(|measure| !measure.how.is_empty()));
        };
        let available = |effective_abi| LandlockStatus::Available { effective_abi, kernel_abi: None };
        check(available(ABI::V1), Partly, NotEnforced, false);
        check(available(ABI::V3), Partly, NotEnforced, false);
        check(available(ABI::V4), Partly, NotEnforced, true);
        check(available(ABI::V5), Enforced, NotEnforced, true);
        check(available(ABI::V6), Enforced, Enforced, true);
        check(LandlockStatus::NotEnabled, NotEnforced, NotEnforced, false);
        check(LandlockStatus::NotImplemented, NotEnforced, NotEnforced, false);
    }
}
