//! A FIFO whose name is only there until its other end is open.
//!
//! A name can be opened by whoever may enter its directory. So the name lies in a directory that is its user's alone, the
//! file is looked at when it is opened (a FIFO, the one that was made, no link), and the name goes with the opening. What is
//! left, against processes of the same user that are not confined: until then such a one can open the name, too.

use std::{
    fs::{self, File, Metadata},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use tokio::net::unix::pipe;

/// A FIFO that somebody else opens by its name. Its name goes when this is dropped, if it has not gone before.
///
/// In [`Launch::named_pipe`](super::Launch::named_pipe) it is opened by the keeper, for the child to write to: its owner
/// never has the end that it waits for the closing of.
#[derive(Debug)]
pub struct NamedPipe {
    path: PathBuf,
    file: FileId,
}

/// Which file it is, whatever stands under its name by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileId {
    fn of(meta: &Metadata) -> io::Result<Self> {
        if meta.file_type().is_fifo() {
            Ok(Self { device: meta.dev(), inode: meta.ino() })
        } else {
            Err(io::Error::other("there is something else than a FIFO under its name"))
        }
    }
}

impl NamedPipe {
    /// Makes a FIFO, mode 0600, at a path that is not taken, and opens its reading end. Until the other end is open, a read
    /// from it is an end of file. Needs a tokio runtime with IO.
    ///
    /// # Errors
    /// When it cannot be made, or is not what it was made as when it is opened.
    pub fn receiver(path: impl Into<PathBuf>) -> io::Result<(Self, pipe::Receiver)> {
        let made = Self::make(path)?;
        let end = open_end(&made.path, made.file, OFlags::RDONLY)?;
        Ok((made, pipe::Receiver::from_owned_fd(end)?))
    }

    /// Makes a FIFO, mode 0600, at a path that is not taken. Both of its ends are opened later.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        make_fifo(&path)?;
        let file = fs::symlink_metadata(&path).and_then(|meta| FileId::of(&meta))?;
        Ok(Self { path, file })
    }

    /// Opens the writing end; `None` while nobody has it open for reading. Needs a tokio runtime with IO.
    ///
    /// # Errors
    /// When it is not there any more, or something else stands under its name.
    pub fn sender(&self) -> io::Result<Option<pipe::Sender>> {
        match open_end(&self.path, self.file, OFlags::WRONLY) {
            Ok(end) => pipe::Sender::from_owned_fd(end).map(Some),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> FileId {
        self.file
    }
}

impl Drop for NamedPipe {
    fn drop(&mut self) {
        // It lies in a directory that is removed as a whole; this only shortens the time in which it has a name.
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens one end of a FIFO without waiting for the other, if it is the file that it should be.
pub(crate) fn open_end(path: &Path, file: FileId, end: OFlags) -> io::Result<OwnedFd> {
    let flags = end | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if FileId::of(&opened.metadata()?)? == file {
        Ok(opened.into())
    } else {
        Err(io::Error::other("another FIFO has taken its name"))
    }
}

/// Makes a FIFO that its owner may open.
#[cfg(not(target_vendor = "apple"))]
fn make_fifo(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(io::Error::from)
}

#[cfg(target_vendor = "apple")]
use crate::sys::make_fifo;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn within_a_runtime(body: impl FnOnce(&Path)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let _guard = runtime.enter();
        let dir = tempfile::tempdir().expect("a directory");
        body(dir.path());
    }

    #[test]
    fn a_fifo_is_its_users_alone_and_its_name_goes() {
        within_a_runtime(|dir| {
            let path = dir.join("p");
            let (pipe, _receiver) = NamedPipe::receiver(&path).expect("a FIFO");
            let meta = fs::symlink_metadata(&path).expect("it has a name");
            assert_eq!((meta.file_type().is_fifo(), meta.permissions().mode() & 0o777), (true, 0o600));
            assert!(NamedPipe::make(&path).is_err(), "what is there is not taken for ours");
            assert!(pipe.sender().expect("its other end").is_some());
            drop(pipe);
            assert!(!path.exists());
        });
    }

    #[test]
    fn an_end_that_nobody_reads_is_not_there_yet() {
        within_a_runtime(|dir| {
            let pipe = NamedPipe::make(dir.join("p")).expect("a FIFO");
            assert!(pipe.sender().expect("no reader is no error").is_none());
        });
    }

    /// What somebody puts in its place is not opened: a link to it, a link to another file, another FIFO, a file.
    #[test]
    fn what_takes_its_place_is_refused() {
        within_a_runtime(|dir| {
            let (path, aside) = (dir.join("p"), dir.join("aside"));
            let (pipe, _receiver) = NamedPipe::receiver(&path).expect("a FIFO");
            fs::rename(&path, &aside).expect("it can be moved");
            assert!(pipe.sender().is_err(), "nothing is there");
            symlink(&aside, &path).expect("a link");
            assert!(pipe.sender().is_err(), "a link to it");
            fs::remove_file(&path).expect("the link goes");
            let (other, _other_receiver) = NamedPipe::receiver(&path).expect("another FIFO");
            assert!(pipe.sender().is_err(), "another FIFO");
            drop(other);
            fs::write(&path, "").expect("a file");
            assert!(pipe.sender().is_err(), "a file");
        });
    }
}
