//! Files below one directory, opened by paths that somebody else chose.
//!
//! The check and the open are one step: on Linux the kernel resolves the path and refuses to leave the directory
//! (`openat2` with `RESOLVE_BENEATH`), elsewhere each component is opened from the one before it and none may be a
//! symbolic link. So a link that is swapped in between gains nothing. Only regular files are opened, and a FIFO or a
//! device is never waited for.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

/// A directory that paths are confined to.
#[derive(Debug)]
pub struct Beneath {
    /// As the caller spelled it and as the system resolves it: a peer may name either.
    roots: [PathBuf; 2],
    dir: os::Dir,
}

/// Why a path below the directory was not opened. The text completes "failed to ..." and has no file content in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeneathError {
    /// The path is not absolute.
    #[error("use the path: it is not absolute")]
    Relative,
    /// The path, or a link on its way, leads out of the directory.
    #[error("use the path: it is outside the working directory")]
    Outside,
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
    fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }

    /// True when there is nothing at the path.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl Beneath {
    /// Confines paths to `root`, an absolute path of a directory.
    ///
    /// # Errors
    /// [`BeneathError::Relative`], or [`BeneathError::Io`] when the directory cannot be opened.
    pub fn open(root: &Path) -> Result<Self, BeneathError> {
        if !root.is_absolute() {
            return Err(BeneathError::Relative);
        }
        let resolved = root.canonicalize().map_err(BeneathError::io("open the directory of"))?;
        let dir = os::open_root(&resolved).map_err(BeneathError::io("open the directory of"))?;
        Ok(Self { roots: [root.to_owned(), resolved], dir })
    }

    /// Reads a whole file of at most `limit_bytes`.
    ///
    /// # Errors
    /// [`BeneathError`].
    pub fn read(&self, path: &Path, limit_bytes: usize) -> Result<Vec<u8>, BeneathError> {
        let file = os::open_file(&self.dir, self.relative(path)?, os::Access::Read)?;
        let mut bytes = Vec::new();
        let limit = u64::try_from(limit_bytes).unwrap_or(u64::MAX).saturating_add(1);
        io::Read::read_to_end(&mut io::Read::take(file, limit), &mut bytes).map_err(BeneathError::io("read"))?;
        if bytes.len() > limit_bytes { Err(BeneathError::TooLarge { limit_bytes }) } else { Ok(bytes) }
    }

    /// Writes a file; it is made when it is missing, its directory is not. There is no promise about a crash: the file
    /// is the peer's, and it sees what any editor's plain save would leave.
    ///
    /// # Errors
    /// [`BeneathError`].
    pub fn write(&self, path: &Path, content: &[u8]) -> Result<(), BeneathError> {
        let mut file = os::open_file(&self.dir, self.relative(path)?, os::Access::Write)?;
        file.set_len(0).map_err(BeneathError::io("write"))?;
        io::Write::write_all(&mut file, content).map_err(BeneathError::io("write"))
    }

    /// The part of an absolute path behind the directory, without `.` and never with `..`.
    fn relative<'a>(&self, path: &'a Path) -> Result<&'a Path, BeneathError> {
        if !path.is_absolute() {
            return Err(BeneathError::Relative);
        }
        if path.components().any(|component| component == Component::ParentDir) {
            return Err(BeneathError::Outside);
        }
        let rest = self.roots.iter().find_map(|root| path.strip_prefix(root).ok()).ok_or(BeneathError::Outside)?;
        if rest.as_os_str().is_empty() { Err(BeneathError::NotAFile) } else { Ok(rest) }
    }
}

#[cfg(unix)]
mod os {
    use std::{fs::File, io, os::fd::OwnedFd, path::Path};

    use rustix::fs::{CWD, Mode, OFlags, openat};

    use super::BeneathError;

    pub(super) type Dir = OwnedFd;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Access {
        Read,
        Write,
    }

    /// What a new file may be at most; the process's mask takes bits away.
    const NEW_FILE_MODE: Mode = Mode::from_raw_mode(0o666);

    pub(super) fn open_root(root: &Path) -> io::Result<Dir> {
        Ok(openat(CWD, root, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    }

    pub(super) fn open_file(dir: &Dir, path: &Path, access: Access) -> Result<File, BeneathError> {
        let how = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::WRONLY | OFlags::CREATE,
        };
        let flags = how | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mode = if access == Access::Write { NEW_FILE_MODE } else { Mode::empty() };
        let file = File::from(resolve(dir, path, flags, mode).map_err(refusal)?);
        let is_file = file.metadata().map_err(BeneathError::io("look at"))?.is_file();
        if is_file { Ok(file) } else { Err(BeneathError::NotAFile) }
    }

    #[cfg(target_os = "linux")]
    fn resolve(dir: &Dir, path: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        use rustix::fs::{ResolveFlags, openat2};
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        // EAGAIN: something was renamed while the kernel looked.
        for _ in 0..16 {
            match openat2(dir, path, flags, mode, inside) {
                Err(rustix::io::Errno::AGAIN) => {}
                Err(rustix::io::Errno::NOSYS) => return walk(dir, path, flags, mode),
                result => return result,
            }
        }
        Err(rustix::io::Errno::XDEV)
    }

    #[cfg(not(target_os = "linux"))]
    fn resolve(dir: &Dir, path: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        walk(dir, path, flags, mode)
    }

    /// Component by component, no symbolic link anywhere.
    pub(super) fn walk(dir: &Dir, path: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let mut at: Option<OwnedFd> = None;
        let mut components = path.components().peekable();
        while let Some(component) = components.next() {
            let from = at.as_ref().unwrap_or(dir);
            let name = component.as_os_str();
            if components.peek().is_none() {
                return openat(from, name, flags | OFlags::NOFOLLOW, mode);
            }
            let step = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            at = Some(openat(from, name, step, Mode::empty())?);
        }
        Err(rustix::io::Errno::ISDIR)
    }

    fn refusal(errno: rustix::io::Errno) -> BeneathError {
        match errno {
            rustix::io::Errno::XDEV | rustix::io::Errno::LOOP => BeneathError::Outside,
            // A FIFO without a reader, a socket, a directory.
            rustix::io::Errno::NXIO | rustix::io::Errno::ISDIR => BeneathError::NotAFile,
            errno => BeneathError::Io { action: "open", source: errno.into() },
        }
    }
}

#[cfg(not(unix))]
mod os {
    use std::{fs::File, io, path::Path};

    use super::BeneathError;

    #[derive(Debug)]
    pub(super) struct Dir;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Access {
        Read,
        Write,
    }

    /// There is no race-free way yet, so there is no way.
    pub(super) fn open_root(_root: &Path) -> io::Result<Dir> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn open_file(_dir: &Dir, _path: &Path, _access: Access) -> Result<File, BeneathError> {
        Err(BeneathError::Io { action: "open", source: io::ErrorKind::Unsupported.into() })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::{Mode, OFlags};

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        beneath: Beneath,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("sub")).expect("directories");
        fs::write(root.join("sub/a"), "inside").expect("a file");
        fs::write(dir.path().join("secret"), "outside").expect("a file");
        symlink("../secret", root.join("out")).expect("a link");
        symlink("..", root.join("up")).expect("a link");
        symlink("sub/a", root.join("in")).expect("a link");
        let beneath = Beneath::open(&root).expect("the root opens");
        Place { dir, beneath }
    }

    fn check(path: &str, expected: Result<&str, &str>) {
        let place = place();
        let path = Path::new(path);
        let full = if path.is_absolute() { path.to_owned() } else { place.dir.path().join("root").join(path) };
        let read = place.beneath.read(&full, 100);
        let read = read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| error.to_string());
        assert_eq!(read.as_deref().map_err(String::as_str), expected, "{}", path.display());
    }

    #[test]
    fn paths_inside_are_read() {
        check("sub/a", Ok("inside"));
        check("./sub/./a", Ok("inside"));
        #[cfg(target_os = "linux")]
        check("in", Ok("inside"));
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        for path in ["out", "up/secret", "sub/../../secret", "/etc/hostname", "sub/../sub/a"] {
            check(path, Err("use the path: it is outside the working directory"));
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        check("sub", Err("use the path: it is not a regular file"));
        check("", Err("use the path: it is not a regular file"));
        check("none", Err("open the file"));
    }

    #[test]
    fn a_fifo_is_not_waited_for() {
        let place = place();
        let fifo = place.dir.path().join("root/fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("a FIFO");
        assert!(matches!(place.beneath.read(&fifo, 10), Err(BeneathError::NotAFile)));
        assert!(matches!(place.beneath.write(&fifo, b"x"), Err(BeneathError::NotAFile)));
    }

    #[test]
    fn a_write_makes_or_replaces_the_content_and_never_escapes() {
        let place = place();
        let root = place.dir.path().join("root");
        place.beneath.write(&root.join("new"), b"content").expect("a new file");
        place.beneath.write(&root.join("new"), b"x").expect("the same file");
        assert_eq!(fs::read(root.join("new")).expect("it is there"), b"x");
        assert!(matches!(place.beneath.write(&root.join("out"), b"x"), Err(BeneathError::Outside)));
        assert_eq!(fs::read(place.dir.path().join("secret")).expect("it is there"), b"outside");
        assert!(place.beneath.write(&root.join("no/dir"), b"x").expect_err("no such directory").is_not_found());
    }

    #[test]
    fn a_file_over_the_limit_is_not_read() {
        let place = place();
        let path = place.dir.path().join("root/sub/a");
        assert!(matches!(place.beneath.read(&path, 5), Err(BeneathError::TooLarge { limit_bytes: 5 })));
        assert_eq!(place.beneath.read(&path, 6).expect("just fits").len(), 6);
    }

    /// What systems without `openat2` do.
    #[test]
    fn the_walk_follows_no_link_at_all() {
        let place = place();
        let open = |path: &str| os::walk(&place.beneath.dir, Path::new(path), OFlags::RDONLY, Mode::empty());
        assert!(open("sub/a").is_ok());
        for path in ["in", "out", "up/secret", "up"] {
            assert!(open(path).is_err(), "{path}");
        }
    }
}
