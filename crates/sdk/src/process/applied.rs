//! What the kernel really enforced of a sandbox.

use serde::{Deserialize, Serialize};

use super::sandbox::{Network, Paths, Sandbox};

/// What was enforced on a child, aspect by aspect: the evidence of its isolation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Applied {
    /// One for each [`Aspect`], in their order.
    pub measures: Vec<Measure>,
}

/// One aspect of a child's isolation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Which.
    pub aspect: Aspect,
    /// What was asked for.
    pub wanted: String,
    /// Whether it holds.
    pub state: Enforcement,
    /// By what it is enforced, and with what exceptions; or why it is not.
    pub how: String,
}

/// What can be enforced on a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// All that it starts ends with it.
    Lifetime,
    /// User and PID namespaces, no capabilities.
    Namespaces,
    /// Memory of a process.
    Memory,
    /// Size of a file.
    FileSize,
    /// Descriptors of a process.
    OpenFiles,
    /// Core dumps.
    CoreDumps,
    /// Number of processes.
    Processes,
    /// Size of the work folder.
    Folder,
    /// Files.
    Paths,
    /// Network.
    Network,
    /// Signals to processes outside, and their abstract Unix sockets.
    Outside,
}

impl Aspect {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Lifetime,
        Self::Namespaces,
        Self::Memory,
        Self::FileSize,
        Self::OpenFiles,
        Self::CoreDumps,
        Self::Processes,
        Self::Folder,
        Self::Paths,
        Self::Network,
        Self::Outside,
    ];

    /// Its spelling in evidence.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lifetime => "lifetime",
            Self::Namespaces => "namespaces",
            Self::Memory => "memory",
            Self::FileSize => "file_size",
            Self::OpenFiles => "open_files",
            Self::CoreDumps => "core_dumps",
            Self::Processes => "processes",
            Self::Folder => "folder",
            Self::Paths => "paths",
            Self::Network => "network",
            Self::Outside => "outside",
        }
    }
}

/// Whether a measure holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// The kernel enforces it.
    Enforced,
    /// It is enforced with exceptions that [`Measure::how`] names, or by looking now and then.
    Partly,
    /// It was wanted and does not hold.
    NotEnforced,
    /// It was not wanted.
    NotWanted,
}

impl Measure {
    pub(crate) fn new(aspect: Aspect, wanted: impl Into<String>, state: Enforcement, how: impl Into<String>) -> Self {
        Self { aspect, wanted: wanted.into(), state, how: how.into() }
    }

    /// What was wanted, with the outcome of enforcing it.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(aspect: Aspect, wanted: impl Into<String>, done: Result<&str, String>) -> Self {
        match done {
            Ok(how) => Self::new(aspect, wanted, Enforcement::Enforced, how),
            Err(why) => Self::new(aspect, wanted, Enforcement::NotEnforced, why),
        }
    }

    /// Whether it was wanted and does not hold, not even with exceptions.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.state == Enforcement::NotEnforced
    }
}

impl Applied {
    /// The measure of an aspect.
    #[must_use]
    pub fn get(&self, aspect: Aspect) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.aspect == aspect)
    }

    /// Aspects that do not hold, whether they were wanted or not. A driver with none of these is isolated as far as
    /// `SECURITY.md` promises anything.
    pub fn lacking(&self) -> impl Iterator<Item = &Measure> {
        self.measures.iter().filter(|measure| !matches!(measure.state, Enforcement::Enforced | Enforcement::Partly))
    }

    /// What there is without a keeper: nothing of what was wanted.
    pub(crate) fn none(sandbox: Option<&Sandbox>, why: &str) -> Self {
        let mut applied = Self::default();
        applied.complete(sandbox, why);
        applied.put(Measure::new(Aspect::Lifetime, "all that it starts ends with it", Enforcement::NotEnforced, why));
        applied
    }

    /// Replaces or adds the measure of an aspect.
    pub(crate) fn put(&mut self, measure: Measure) {
        self.measures.retain(|known| known.aspect != measure.aspect);
        self.measures.push(measure);
        self.measures.sort_by_key(|measure| measure.aspect);
    }

    /// Adds what nobody has said anything about: not wanted, or not enforced because of `why`.
    pub(crate) fn complete(&mut self, sandbox: Option<&Sandbox>, why: &str) {
        for aspect in Aspect::ALL {
            if self.get(aspect).is_some() {
                continue;
            }
            self.put(match sandbox.and_then(|sandbox| wanted(sandbox, aspect)) {
                Some(wanted) => Measure::new(aspect, wanted, Enforcement::NotEnforced, why),
                None => Measure::new(aspect, "", Enforcement::NotWanted, ""),
            });
        }
    }

    /// Says why the aspects that were not wanted are not.
    pub(crate) fn explain_not_wanted(&mut self, why: &str) {
        for measure in &mut self.measures {
            if measure.state == Enforcement::NotWanted && measure.how.is_empty() {
                why.clone_into(&mut measure.how);
            }
        }
    }
}

/// What a sandbox asks for in one aspect.
pub(crate) fn wanted(sandbox: &Sandbox, aspect: Aspect) -> Option<String> {
    let limits = &sandbox.limits;
    let bytes = |bytes: u64| format!("at most {bytes} bytes");
    match aspect {
        Aspect::Lifetime => Some("all that it starts ends with it".to_owned()),
        Aspect::Namespaces => {
            sandbox.private_namespaces.then(|| "user and PID namespaces of its own, no capabilities".to_owned())
        }
        Aspect::Memory => limits.memory_bytes.map(bytes),
        Aspect::FileSize => limits.file_bytes.map(bytes),
        Aspect::OpenFiles => limits.open_files.map(|count| format!("at most {count}")),
        Aspect::CoreDumps => limits.no_core_dumps.then(|| "none".to_owned()),
        Aspect::Processes => limits.processes.map(|count| format!("at most {count}")),
        Aspect::Folder => limits.folder_bytes.filter(|_| sandbox.folder.is_some()).map(bytes),
        Aspect::Paths => match &sandbox.paths {
            Paths::Open => None,
            Paths::Listed { read, write } => {
                let list = |paths: &[std::path::PathBuf]| {
                    paths.iter().map(|path| format!(", `{}`", path.display())).collect::<String>()
                };
                Some(format!("read: system files{}; write: its folder{}", list(read), list(write)))
            }
        },
        Aspect::Network => match &sandbox.network {
            Network::Open => None,
            Network::None => Some("none".to_owned()),
            Network::Ports(ports) => Some(format!(
                "TCP to the ports {}, any address",
                ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
            )),
            Network::Recorder => Some("none but the recorder's socket".to_owned()),
        },
        Aspect::Outside => {
            (sandbox.paths != Paths::Open).then(|| "no signal to and no abstract socket of others".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sandbox::ResourceLimits;

    #[test]
    fn every_aspect_has_a_measure_and_its_spelling() {
        let mut sandbox = Sandbox { limits: ResourceLimits::driver(), ..Sandbox::default() };
        sandbox.network = Network::Ports(vec![1, 2]);
        let applied = Applied::none(Some(&sandbox), "no keeper");
        assert_eq!(applied.measures.iter().map(|measure| measure.aspect).collect::<Vec<_>>(), Aspect::ALL);
        let network = applied.get(Aspect::Network).expect("a measure");
        assert_eq!(
            (network.wanted.as_str(), network.state, network.how.as_str()),
            ("TCP to the ports 1, 2, any address", Enforcement::NotEnforced, "no keeper")
        );
        assert_eq!(applied.get(Aspect::Paths).map(|measure| measure.state), Some(Enforcement::NotWanted));
        assert_eq!(applied.lacking().count(), Aspect::ALL.len());
        for aspect in Aspect::ALL {
            assert_eq!(serde_json::to_value(aspect).expect("a word"), aspect.as_str());
        }
    }
}
