//! What a child is kept from, set up between its fork and its exec, in the child itself: what is done here cannot be
//! undone, neither by the child nor by what it starts.

mod landlock;
mod seccomp;

use std::{fs, io, path::PathBuf};

use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::{
        CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
        set_capabilities,
    },
};

use self::landlock::Landlocked;
use crate::process::{Aspect, Enforcement, Measure, Network, Sandbox, applied::wanted};

/// Everything that a child needs to confine itself.
#[derive(Debug)]
pub(super) struct Confinement {
    pub(super) sandbox: Sandbox,
    /// The program that is to be run, which must be readable.
    pub(super) program: PathBuf,
    /// The file by which a process joins the control group that counts.
    pub(super) join: Option<PathBuf>,
    /// Whether the child is in namespaces of its own, or why not.
    pub(super) namespaces: Result<(), String>,
    /// The highest level of Landlock to make use of.
    pub(super) landlock_abi: u32,
}

impl Confinement {
    /// Confines this process, as far as the kernel can, and says how far that is.
    ///
    /// Nothing that fails here stops the child: whoever insists on a measure looks at what is said.
    pub(super) fn apply(&self) -> Vec<Measure> {
        let limits = &self.sandbox.limits;
        let mut done = Vec::new();
        let mut say = |aspect, outcome: Result<&str, String>| {
            if let Some(wanted) = wanted(&self.sandbox, aspect) {
                done.push(Measure::of(aspect, wanted, outcome));
            }
        };
        if let Some(bytes) = limits.memory_bytes {
            say(Aspect::Memory, limit(Resource::Data, bytes).map(|()| "RLIMIT_DATA, each process by itself"));
        }
        if let Some(bytes) = limits.file_bytes {
            say(Aspect::FileSize, limit(Resource::Fsize, bytes).map(|()| "RLIMIT_FSIZE"));
        }
        if let Some(count) = limits.open_files {
            say(Aspect::OpenFiles, limit(Resource::Nofile, count).map(|()| "RLIMIT_NOFILE"));
        }
        if limits.no_core_dumps {
            say(Aspect::CoreDumps, limit(Resource::Core, 0).map(|()| "RLIMIT_CORE"));
        }
        if let Some(join) = &self.join {
            let joined = fs::write(join, "0").map_err(|error| format!("join the control group: {error}"));
            say(Aspect::Processes, joined.map(|()| "control group, which counts threads too"));
        }
        done.extend(self.namespaces());
        // The filter comes last: what is done before it needs system calls, what comes behind it is only the exec.
        let landlocked = landlock::restrict(&self.sandbox, &self.program, self.landlock_abi);
        let filtered = seccomp::restrict(&self.sandbox.network);
        done.extend(self.network(&landlocked, filtered));
        done.extend(landlocked.measures(&self.sandbox));
        done
    }

    fn namespaces(&self) -> Option<Measure> {
        let wanted = wanted(&self.sandbox, Aspect::Namespaces)?;
        let dropped = drop_capabilities();
        let (state, how) = match (&self.namespaces, dropped) {
            (Ok(()), Ok(())) => {
                (Enforcement::Enforced, "namespaces: user, PID, mount, IPC; no capabilities".to_owned())
            }
            (Ok(()), Err(error)) => (
                Enforcement::Partly,
                format!("namespaces: user, PID, mount, IPC; capabilities within them kept: {error}"),
            ),
            (Err(why), Ok(())) => (Enforcement::NotEnforced, format!("no namespaces: {why}; no capabilities")),
            (Err(why), Err(error)) => {
                (Enforcement::NotEnforced, format!("no namespaces: {why}; capabilities: {error}"))
            }
        };
        Some(Measure::new(Aspect::Namespaces, wanted, state, how))
    }

    fn network(&self, landlocked: &Landlocked, filtered: Result<(), String>) -> Option<Measure> {
        let wanted = wanted(&self.sandbox, Aspect::Network)?;
        let (state, how) = match (&self.sandbox.network, filtered, &landlocked.ports) {
            (_, Err(error), _) => (Enforcement::NotEnforced, error),
            (Network::Ports(_), Ok(()), Err(error)) => (Enforcement::NotEnforced, error.clone()),
            (Network::Ports(ports), Ok(()), Ok(level)) => {
                let how = format!("seccomp: no other kind of socket, no io_uring; {level}: TCP connect, no bind");
                if ports.contains(&seccomp::DNS_PORT) {
                    (Enforcement::Partly, format!("{how}; UDP to any port, because names are asked for"))
                } else {
                    (Enforcement::Enforced, how)
                }
            }
            (Network::Open | Network::None | Network::Recorder, Ok(()), _) => {
                (Enforcement::Enforced, "seccomp: sockets of the Unix family only, no io_uring".to_owned())
            }
        };
        Some(Measure::new(Aspect::Network, wanted, state, how))
    }
}

/// Lowers a limit for good. One that is lower already stays.
fn limit(resource: Resource, value: u64) -> Result<(), String> {
    let value = getrlimit(resource).maximum.map_or(value, |maximum| maximum.min(value));
    setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) }).map_err(|error| error.to_string())
}

/// Leaves no capability to this process after its exec, whoever its user is.
fn drop_capabilities() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // One that this kernel does not have.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            // Who may not drop them has none to keep: an exec gives them to the superuser only.
            Err(rustix::io::Errno::PERM) if !rustix::process::geteuid().is_root() => break,
            Err(error) => return Err(error.into()),
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}
