//! The seam between the store and the disk.

mod real;

use std::{ffi::OsString, fmt, io, path::Path, time::SystemTime};

pub use real::RealFs;

/// Every file operation that durability depends on.
///
/// [`RealFs`] is the operating system's; the other implementor is the faulty disk of the test kit. Errors are the
/// operating system's own; [`crate::fsx`] wraps each call and adds what was attempted and on which path.
///
/// No method follows a symbolic link in the last component of a path except [`Fs::metadata`].
pub trait Fs: fmt::Debug + Send + Sync {
    /// Opens a regular file. Anything else at that path (a directory, a FIFO, a device, a symbolic link) is an error and
    /// the call does not block on it.
    ///
    /// # Errors
    /// The operating system's, and `InvalidInput` for what is not a regular file.
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Box<dyn FsFile>>;

    /// Creates one directory with `mode` (ignored on Windows); its parent must exist.
    ///
    /// # Errors
    /// The operating system's; `AlreadyExists` if anything is at that path.
    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()>;

    /// Renames a file, replacing what is at `to`. Observers see the old file or the new one.
    ///
    /// # Errors
    /// The operating system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name; never replaces.
    ///
    /// # Errors
    /// The operating system's; `AlreadyExists` if anything is at `to`.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name of a file.
    ///
    /// # Errors
    /// The operating system's.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// The operating system's.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable: after it returns, every create, rename and remove in that directory
    /// survives a power loss.
    ///
    /// # Errors
    /// The operating system's.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// What is at `path`, symbolic links followed.
    ///
    /// # Errors
    /// The operating system's.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// What is at `path`, the last component not followed.
    ///
    /// # Errors
    /// The operating system's.
    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// The names in a directory, in no order.
    ///
    /// # Errors
    /// The operating system's.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
}

/// An open regular file of an [`Fs`].
pub trait FsFile: fmt::Debug + Send {
    /// Reads at an offset, without moving the write position; 0 at the end of the file.
    ///
    /// # Errors
    /// The operating system's; `Interrupted` may be tried again.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some of `buf` at the write position: behind the last write, or at the end for [`OpenHow::Append`].
    ///
    /// # Errors
    /// The operating system's; `Interrupted` may be tried again.
    fn write(&mut self, buf: &[u8]) -> io::Result<usize>;

    /// Makes content and metadata durable. After an error nothing may be assumed of what was written since the last
    /// success, and trying again proves nothing: the kernel may have dropped the pages.
    ///
    /// # Errors
    /// The operating system's.
    fn sync_all(&mut self) -> io::Result<()>;

    /// Makes the content durable, with the length but not the times. Errors as [`FsFile::sync_all`].
    ///
    /// # Errors
    /// The operating system's.
    fn sync_data(&mut self) -> io::Result<()>;

    /// Lets the system begin to write what is in this part of the file, so that a later sync has less to wait for. A hint: it
    /// promises nothing, and does nothing where the system takes no such hint.
    fn begin_write_back(&mut self, _offset: u64, _len_bytes: u64) {}

    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// The operating system's.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Gives the file exactly these permission bits, whatever the umask, and this owner where one is named.
    ///
    /// On Windows the bits come down to one, the owner's right to write: without it the file gets the read-only attribute.
    /// The owner is whoever runs this, and the access control list is the one that the directory hands down.
    ///
    /// # Errors
    /// The operating system's; only a privileged user gives files away.
    fn set_access(&mut self, mode: u32, owner: Option<Owner>) -> io::Result<()>;

    /// What this file is now, whatever its name.
    ///
    /// # Errors
    /// The operating system's.
    fn metadata(&self) -> io::Result<Metadata>;

    /// Takes an advisory lock if nobody holds one that conflicts: `Ok(false)` means that somebody does. The lock goes
    /// away with this value, and with the process.
    ///
    /// # Errors
    /// The operating system's; `Unsupported` or "no locks available" where the file system cannot lock.
    fn try_lock(&self, kind: LockKind) -> io::Result<bool>;
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenHow {
    /// To read; it must exist.
    Read,
    /// To write and read; it must not exist. `mode` as in `open(2)`.
    CreateNew {
        /// Permission bits, before the umask; ignored on Windows.
        mode: u32,
    },
    /// To append and read; created where it is missing.
    Append {
        /// Permission bits of a new file, before the umask; ignored on Windows.
        mode: u32,
    },
    /// To lock: read and write, created where it is missing, never cut.
    Lock {
        /// Permission bits of a new file, before the umask; ignored on Windows.
        mode: u32,
    },
}

/// The two kinds of advisory lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// Any number of holders, none of them exclusive.
    Shared,
    /// One holder.
    Exclusive,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// File, directory, symbolic link or something else.
    pub kind: FileKind,
    /// Length in bytes; meaningful for files.
    pub len_bytes: u64,
    /// The nine permission bits; 0o600 or 0o400 on Windows, by the read-only attribute.
    pub mode: u32,
    /// How many names it has; 1 on Windows.
    pub links: u64,
    /// When its content last changed, by the file system's clock.
    pub modified: SystemTime,
    /// Which file it is, where the system can tell.
    pub id: Option<FileId>,
    /// Whose it is, where files have numbers for that.
    pub owner: Option<Owner>,
}

/// The user and the group that a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
}

/// The kinds of things at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link, or another reparse point on Windows.
    Symlink,
    /// A FIFO, socket, device or what else there may be.
    Other,
}

/// Tells two files apart while both exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The device that the file is on.
    pub device: u64,
    /// The file's number on that device.
    pub inode: u64,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without its directory.
    pub name: OsString,
    /// What it names, not followed.
    pub kind: FileKind,
}
