//! What kind of place a directory is: the file system beneath it, and whether something copies it elsewhere.

use std::path::{Path, PathBuf};

/// Where a directory lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory without links, or the nearest one above it that exists.
    pub resolved: PathBuf,
    /// The file system by its name in the system's mount table; `None` where the system does not tell.
    pub file_system: Option<String>,
    /// What about the place endangers locks or takes files elsewhere.
    pub hazard: Option<Hazard>,
}

/// Why a place is a bad one for files that are locked and replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hazard {
    /// A network file system: locks and renames are only as good as its server.
    Network,
    /// A folder that a service copies to other machines, each with its own locks.
    CloudFolder,
    /// Memory: gone with the machine.
    Memory,
}

impl Hazard {
    /// The sentence for a person.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Network => "a network file system, on which locks are only as good as its server",
            Self::CloudFolder => "a folder that is copied to other machines, where no lock of this one counts",
            Self::Memory => "a file system in memory: everything is gone with the next start of the machine",
        }
    }
}

/// Looks at the place of a directory, which need not exist yet.
#[must_use]
pub fn look_at(dir: &Path) -> Place {
    let resolved = dir
        .ancestors()
        .find_map(|above| {
            let real = above.canonicalize().ok()?;
            Some(real.join(dir.strip_prefix(above).unwrap_or(Path::new(""))))
        })
        .unwrap_or_else(|| dir.to_owned());
    let file_system = file_system(&resolved);
    let hazard = if file_system.as_deref().is_some_and(is_network) {
        Some(Hazard::Network)
    } else if is_cloud_folder(&resolved) {
        Some(Hazard::CloudFolder)
    } else if file_system.as_deref().is_some_and(|name| matches!(name, "tmpfs" | "ramfs")) {
        Some(Hazard::Memory)
    } else {
        None
    };
    Place { resolved, file_system, hazard }
}

#[cfg(target_os = "linux")]
fn file_system(resolved: &Path) -> Option<String> {
    of_mounts(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, resolved)
}

/// Not told by an interface that we use.
#[cfg(not(target_os = "linux"))]
fn file_system(_resolved: &Path) -> Option<String> {
    None
}

/// The type of the deepest mount above a path; of two at one point, the later one covers the earlier.
#[cfg(any(target_os = "linux", test))]
fn of_mounts(table: &str, resolved: &Path) -> Option<String> {
    let mounts = table.lines().filter_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let point = unescape(head.split(' ').nth(4)?);
        Some((point, tail.split(' ').next()?.to_owned()))
    });
    let above = mounts.filter(|(point, _)| resolved.starts_with(point));
    above.max_by_key(|(point, _)| Path::new(point).components().count()).map(|(_, name)| name)
}

/// The mount table writes blanks and backslashes as three octal digits.
#[cfg(any(target_os = "linux", test))]
fn unescape(field: &str) -> String {
    let mut out = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

fn is_network(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "ceph",
        "glusterfs",
        "lustre",
        "afs",
        "beegfs",
        "ocfs2",
        "gfs2",
        "davfs",
    ];
    const FUSE: [&str; 9] = ["sshfs", "rclone", "s3fs", "gcsfuse", "glusterfs", "ceph", "davfs2", "smbnetfs", "goofys"];
    NAMES.contains(&name) || name.strip_prefix("fuse.").is_some_and(|name| FUSE.contains(&name))
}

fn is_cloud_folder(resolved: &Path) -> bool {
    const NAMES: [&str; 8] = [
        "Dropbox",
        "Google Drive",
        "GoogleDrive",
        "iCloud Drive",
        "Mobile Documents",
        "CloudStorage",
        "Nextcloud",
        "pCloudDrive",
    ];
    resolved.components().filter_map(|part| part.as_os_str().to_str()).any(|part| {
        // OneDrive folders carry the organisation behind a dash.
        NAMES.contains(&part) || part == "OneDrive" || part.starts_with("OneDrive - ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_decides() {
        let table = "22 1 8:1 / / rw - ext4 /dev/a rw\n\
                     30 22 0:40 / /home\\040dir/u rw,nosuid shared:1 - nfs4 host:/u rw\n\
                     31 22 0:41 / /home rw - xfs /dev/b rw\n";
        let check = |path: &str, expected: &str| {
            assert_eq!(of_mounts(table, Path::new(path)).as_deref(), Some(expected), "{path}");
        };
        check("/home dir/u/state", "nfs4");
        check("/home/u", "xfs");
        check("/homely", "ext4");
        assert_eq!(of_mounts("", Path::new("/")), None);
    }

    #[test]
    fn hazards_are_known_by_name() {
        assert!(is_network("nfs4") && is_network("fuse.sshfs") && !is_network("ext4") && !is_network("fuse.portal"));
        assert!(is_cloud_folder(Path::new("/u/OneDrive - Firm/x")) && is_cloud_folder(Path::new("/u/Dropbox")));
        assert!(!is_cloud_folder(Path::new("/u/onedrive/x")));
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_is_not_there_yet_is_looked_at_by_the_one_above() {
        let dir = tempfile::tempdir().expect("scratch directory");
        let real = dir.path().canonicalize().expect("exists");
        std::os::unix::fs::symlink(&real, dir.path().join("link")).expect("links");
        let place = look_at(&dir.path().join("link/a/b"));
        assert_eq!(place.resolved, real.join("a/b"));
    }
}
