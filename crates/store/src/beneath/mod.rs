//! Files below one directory, opened by paths that somebody else chose.
//!
//! There is no check that could be true no longer when the file is opened: the path is walked one component at a time,
//! each opened from the one before it and none of them followed when it is a symbolic link. The text of a link is read
//! and walked in its place, counted, and must not lead out; so a link that is swapped in between gains nothing. What is
//! opened in the end is a regular file, and a FIFO or a device is never waited for, nor even opened.
//!
//! A write leaves the old content or the new, never a mixture, and keeps the file's mode. What cannot be replaced without
//! losing something (a file with several names, of another owner, in a directory that takes no new file) is written in
//! place.
//!
//! Where the system has no way to do this without a race, there is no way at all: every call fails as unsupported.

#[cfg(unix)]
mod file;
#[cfg(all(test, unix))]
mod tests;
#[cfg(not(unix))]
mod unsupported;
#[cfg(unix)]
mod walk;

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    path::{Component, Path, PathBuf},
};

#[cfg(unix)]
use self::file as os;
#[cfg(not(unix))]
use self::unsupported as os;

/// Links that one path may lead through.
pub const MAX_LINKS: usize = 40;

/// A directory that paths are confined to.
#[derive(Debug)]
pub struct Beneath {
    /// As the caller spelled it and as the system resolves it: a peer may name either.
    roots: [PathBuf; 2],
    dir: os::Dir,
    rerooted: bool,
}

/// Why a path below the directory was not opened. The text completes "failed to ..." and has no file content in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeneathError {
    /// The path is not absolute.
    #[error("use the path: it is not absolute")]
    Relative,
    /// The path itself leads out of the directory.
    #[error("use the path: it is outside the working directory")]
    Outside,
    /// A symbolic link on the path leads out of the directory.
    #[error("use the path: a symbolic link leads out of the working directory")]
    LinkOutside,
    /// There are too many symbolic links on the path, or they go round in a circle.
    #[error("use the path: it leads through more than {limit} symbolic links")]
    TooManyLinks {
        /// The most that are followed.
        limit: usize,
    },
    /// What is there is no regular file.
    #[error("use the path: it is not a regular file")]
    NotAFile,
    /// The file is larger than the reader accepts.
    #[error("read the file: it has more than {limit_bytes} bytes")]
    TooLarge {
        /// The most that the reader accepts.
        limit_bytes: usize,
    },
    /// The operating system refused.
    #[error("{action} the file")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl BeneathError {
    fn io<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { action, source: source.into() }
    }

    /// True when there is nothing at the path.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// True when the path is refused for where it leads, whatever is there.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        matches!(self, Self::Relative | Self::Outside | Self::LinkOutside | Self::TooManyLinks { .. })
    }

    /// A stable word for peers and reports.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Relative => "relative_path",
            Self::Outside => "path_traversal",
            Self::LinkOutside => "symlink_escape",
            Self::TooManyLinks { .. } => "too_many_symlinks",
            Self::NotAFile => "not_a_file",
            Self::TooLarge { .. } => "too_large",
            Self::Io { .. } => "io",
        }
    }
}

impl Beneath {
    /// Confines paths to `root`, an absolute path of a directory. Paths must be absolute and lie inside it.
    ///
    /// # Errors
    /// [`BeneathError::Relative`], or [`BeneathError::Io`] when the directory cannot be opened.
    pub fn open(root: &Path) -> Result<Self, BeneathError> {
        if !root.is_absolute() {
            return Err(BeneathError::Relative);
        }
        let resolved = root.canonicalize().map_err(BeneathError::io("open the directory of"))?;
        let dir = os::open_root(&resolved).map_err(BeneathError::io("open the directory of"))?;
        Ok(Self { roots: [plain(root), resolved], dir, rerooted: false })
    }

    /// Reads every path as if the directory were the root of the file system, relative ones too: `/etc/passwd` is
    /// `etc/passwd` below it. The protocol's own reading is the default.
    #[must_use]
    pub fn rerooted(mut self) -> Self {
        self.rerooted = true;
        self
    }

    /// The directory, as the system resolves it.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.roots[1]
    }

    /// Whether the path, by its text alone, lies inside. Where it truly leads is only known when it is opened.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.inside(path).is_ok()
    }

    /// Opens a regular file to read.
    ///
    /// # Errors
    /// [`BeneathError`].
    pub fn open_file(&self, path: &Path) -> Result<File, BeneathError> {
        os::open(self, &self.names(path)?)
    }

    /// Reads a whole file of at most `limit_bytes`.
    ///
    /// # Errors
    /// [`BeneathError`].
    pub fn read(&self, path: &Path, limit_bytes: usize) -> Result<Vec<u8>, BeneathError> {
        let file = self.open_file(path)?;
        let mut bytes = Vec::new();
        let limit = u64::try_from(limit_bytes).unwrap_or(u64::MAX).saturating_add(1);
        io::Read::read_to_end(&mut io::Read::take(file, limit), &mut bytes).map_err(BeneathError::io("read"))?;
        if bytes.len() > limit_bytes { Err(BeneathError::TooLarge { limit_bytes }) } else { Ok(bytes) }
    }

    /// Writes a file: it and the directories above it are made when they are missing, and one that is there keeps its
    /// mode. Readers see the old content or the new, and so does the next start of the system.
    ///
    /// # Errors
    /// [`BeneathError`]; the old content stands, unless it had to be written in place.
    pub fn write(&self, path: &Path, content: &[u8]) -> Result<(), BeneathError> {
        os::write(self, &self.names(path)?, content)
    }

    /// The components behind the directory; at least one.
    fn names(&self, path: &Path) -> Result<Vec<OsString>, BeneathError> {
        let names = self.inside(path)?;
        if names.is_empty() { Err(BeneathError::NotAFile) } else { Ok(names) }
    }

    /// The components behind the directory, by the text of the path alone.
    fn inside(&self, path: &Path) -> Result<Vec<OsString>, BeneathError> {
        if self.rerooted {
            return names_below(path.components());
        }
        if !path.is_absolute() {
            return Err(BeneathError::Relative);
        }
        let path = plain(path);
        let rest = self.roots.iter().find_map(|root| path.strip_prefix(root).ok()).ok_or(BeneathError::Outside)?;
        names_below(rest.components())
    }

    /// What is behind the directory in the absolute target of a link, if that lies inside.
    #[cfg(unix)]
    fn behind_root<'a>(&self, target: &'a Path) -> Option<&'a Path> {
        self.roots.iter().find_map(|root| target.strip_prefix(root).ok())
    }
}

/// An absolute path without `.` and `..`, by its text alone; what would lead above the root stays at it.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// The names of a path below the directory. A path that leads above it, if only on the way, is outside.
fn names_below<'a>(components: impl Iterator<Item = Component<'a>>) -> Result<Vec<OsString>, BeneathError> {
    let mut names: Vec<&OsStr> = Vec::new();
    for component in components {
        match component {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop().ok_or(BeneathError::Outside)?;
            }
            Component::CurDir | Component::RootDir => {}
            Component::Prefix(_) => return Err(BeneathError::Outside),
        }
    }
    Ok(names.into_iter().map(OsStr::to_owned).collect())
}
