//! What a child is kept from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a child may use of the machine. A keeper sets it up before the child's first instruction, and whatever the child
/// starts inherits it. Each part is enforced as far as the kernel can; [`Applied`](super::Applied) says how far that was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sandbox {
    /// Memory, sizes, counts.
    pub limits: ResourceLimits,
    /// Which part of the file system it sees.
    pub paths: Paths,
    /// Whom it can talk to.
    pub network: Network,
    /// It gets user and PID namespaces of its own, and no capability in any other.
    pub private_namespaces: bool,
    /// The folder that it works in. It may be written to, and [`ResourceLimits::folder_bytes`] is about it.
    pub folder: Option<PathBuf>,
}

/// Bounds of what a child uses. `None` leaves what this process has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ResourceLimits {
    /// Writable private memory of each process, in bytes. An allocation beyond it fails.
    pub memory_bytes: Option<u64>,
    /// Size of each file that is written, in bytes. A write beyond it ends the process.
    pub file_bytes: Option<u64>,
    /// Open descriptors of each process.
    pub open_files: Option<u64>,
    /// Processes at a time, the child and all that it started. Where a control group counts, threads count too. One more
    /// ends them all.
    pub processes: Option<u32>,
    /// What lies in the folder, in bytes, looked at now and then. More ends them all.
    pub folder_bytes: Option<u64>,
    /// No core dumps.
    pub no_core_dumps: bool,
}

impl ResourceLimits {
    /// What a driver gets: 4 GiB of memory per process, 1 GiB per file and in the folder, 1024 descriptors, 256 processes
    /// and threads, no core dumps.
    #[must_use]
    pub fn driver() -> Self {
        Self {
            memory_bytes: Some(4 << 30),
            file_bytes: Some(1 << 30),
            open_files: Some(1024),
            processes: Some(256),
            folder_bytes: Some(1 << 30),
            no_core_dumps: true,
        }
    }
}

/// Which part of the file system a child sees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Paths {
    /// All that its user may see.
    #[default]
    Open,
    /// The system's own files to read and run, the folder to read and write, and these.
    Listed {
        /// To read and run, with everything below.
        read: Vec<PathBuf>,
        /// To read and write, with everything below.
        write: Vec<PathBuf>,
    },
}

/// Whom a child can talk to. Unix sockets are not network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Network {
    /// Everybody.
    #[default]
    Open,
    /// Nobody: no socket of any family but Unix can be made.
    None,
    /// Whoever listens on these TCP ports, at any address. UDP only if 53 is among them, for names, and then to any port.
    Ports(Vec<u16>),
    /// Nobody but the recorder, a proxy of Core's on a Unix socket.
    Recorder,
}

/// A bound that was exceeded, upon which everything was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exceeded {
    /// [`ResourceLimits::processes`].
    Processes,
    /// [`ResourceLimits::folder_bytes`].
    FolderBytes,
    /// [`ResourceLimits::file_bytes`].
    FileBytes,
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Processes => "number of processes",
            Self::FolderBytes => "size of the work folder",
            Self::FileBytes => "size of a file",
        })
    }
}
