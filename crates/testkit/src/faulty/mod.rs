//! A disk that fails: what was not synced may be lost or torn, any operation may be the last one or may fail.
//!
//! [`FaultyFs`] is an [`pintle_store::Fs`] in memory. It keeps two views of each file and each directory: what processes
//! see, and what is certain to be there after a power loss. A sweep runs the same program again and again, with the
//! crash one operation later each time, and looks at what [`FaultyFs::reboot`] leaves.
//!
//! What the model holds against its user, because real file systems do:
//!
//! * a write that was not synced may survive, be lost, or survive in its first part, each on its own: a hole where a
//!   lost write was reads as zeros;
//! * a name is durable by the sync of its directory, not by the sync of the file; unsynced names may survive or not;
//! * after a failed sync the pages are clean but were never written, so that a second sync succeeds and proves nothing;
//! * locks die with the machine.

mod disk;

use std::{
    fmt, io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pintle_store::{DirEntry, Fs, FsFile, LockKind, Metadata, OpenHow, Owner};

use disk::{Disk, InodeId};

/// A file system in memory with faults on order. Clones are the same disk.
#[derive(Clone)]
pub struct FaultyFs(Arc<Mutex<State>>);

struct State {
    disk: Disk,
    trace: Vec<Op>,
    /// The machine dies when this many operations have been done.
    crash_after: Option<u64>,
    /// These operations (counted from 1) fail without effect.
    fail_at: Option<(u64, io::ErrorKind)>,
    crashed: bool,
    next_handle: u64,
}

/// One operation that reached the disk, as [`FaultyFs::trace`] tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// `open`, `create`, `write`, `sync`, `rename` and so on: the method's name.
    pub name: &'static str,
    /// The path that it was given; for a file's operations, the path that the file was opened by.
    pub path: String,
}

/// What survives of the things that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All of it.
    Nothing,
    /// None of it.
    Everything,
    /// Each unsynced write and name by the throw of a die with this seed; writes may be torn.
    Dice(u64),
}

impl Default for FaultyFs {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FaultyFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyFs").field("ops", &self.ops()).finish_non_exhaustive()
    }
}

impl FaultyFs {
    /// An empty disk with the directory `/` and no faults on order.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Disk::new())
    }

    fn with(disk: Disk) -> Self {
        Self(Arc::new(Mutex::new(State {
            disk,
            trace: Vec::new(),
            crash_after: None,
            fail_at: None,
            crashed: false,
            next_handle: 0,
        })))
    }

    /// How many operations have been done or refused so far. Reads count, closing and `metadata` do not.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.lock().trace.len() as u64
    }

    /// What was done so far, in order.
    #[must_use]
    pub fn trace(&self) -> Vec<Op> {
        self.lock().trace.clone()
    }

    /// The machine dies behind operation `count` from the start of this disk: that operation has its effect, but its
    /// caller never hears of it, and everything later fails.
    pub fn crash_after(&self, count: u64) {
        self.lock().crash_after = Some(count);
    }

    /// Whether the ordered crash has happened.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.lock().crashed
    }

    /// Operation `count` (from 1, from the start of this disk) fails with `kind` and has no effect; those around it work.
    pub fn fail_at(&self, count: u64, kind: io::ErrorKind) {
        self.lock().fail_at = Some((count, kind));
    }

    /// The disk is full when its files have this many bytes in all; a write that does not fit is cut, and one of which
    /// nothing fits fails.
    pub fn set_capacity_bytes(&self, capacity: usize) {
        self.lock().disk.capacity_bytes = Some(capacity);
    }

    /// Damages a file behind everyone's back: the byte at `offset` is inverted, in both views.
    pub fn corrupt(&self, path: &Path, offset: usize) {
        self.lock().disk.corrupt(path, offset);
    }

    /// The disk as the next boot finds it. This one stays as it is, so that one crash can be looked at with many dice.
    #[must_use]
    pub fn reboot(&self, loss: Loss) -> Self {
        Self::with(self.lock().disk.after_crash(loss))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation, lets the faults on order happen, and does it.
    fn act<T>(&self, name: &'static str, path: &Path, act: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.lock();
        if state.crashed {
            return Err(io::Error::other("the machine is down"));
        }
        state.trace.push(Op { name, path: path.display().to_string() });
        let count = state.trace.len() as u64;
        if let Some((at, kind)) = state.fail_at
            && at == count
        {
            if name == "sync" {
                state.disk.forget_dirty_pages(path);
            }
            return Err(kind.into());
        }
        let result = act(&mut state.disk);
        if state.crash_after.is_some_and(|after| count >= after) {
            state.crashed = true;
            return Err(io::Error::other("the machine went down"));
        }
        result
    }
}

impl Fs for FaultyFs {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Box<dyn FsFile>> {
        let name = if matches!(how, OpenHow::CreateNew { .. }) { "create" } else { "open" };
        let inode = self.act(name, path, |disk| disk.open(path, how))?;
        let mut state = self.lock();
        state.next_handle += 1;
        Ok(Box::new(FaultyFile {
            fs: self.clone(),
            inode,
            handle: state.next_handle,
            path: path.to_owned(),
            position: 0,
            appends: matches!(how, OpenHow::Append { .. }),
            writes: !matches!(how, OpenHow::Read),
        }))
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.act("create_dir", path, |disk| disk.create_dir(path, mode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.act("rename", to, |disk| disk.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.act("link", to, |disk| disk.hard_link(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.act("remove", path, |disk| disk.remove_file(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.act("remove_dir", path, |disk| disk.remove_dir(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.act("sync_dir", path, |disk| disk.sync_dir(path))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.symlink_metadata(path)
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        let state = self.lock();
        if state.crashed { Err(io::Error::other("the machine is down")) } else { state.disk.metadata_at(path) }
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.act("read_dir", path, |disk| disk.read_dir(path))
    }
}

#[derive(Debug)]
struct FaultyFile {
    fs: FaultyFs,
    inode: InodeId,
    handle: u64,
    path: std::path::PathBuf,
    position: usize,
    appends: bool,
    writes: bool,
}

impl FsFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.fs.act("read", &self.path, |disk| Ok(disk.read_at(self.inode, buf, offset)))
    }

    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if !self.writes {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let at = (!self.appends).then_some(self.position);
        let written = self.fs.act("write", &self.path, |disk| disk.write(self.inode, at, buf))?;
        self.position += written;
        Ok(written)
    }

    fn sync_all(&mut self) -> io::Result<()> {
        self.fs.act("sync", &self.path, |disk| {
            disk.sync(self.inode);
            Ok(())
        })
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.sync_all()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.fs.act("set_len", &self.path, |disk| disk.set_len(self.inode, len))
    }

    fn set_access(&mut self, mode: u32, _owner: Option<Owner>) -> io::Result<()> {
        self.fs.act("set_access", &self.path, |disk| {
            disk.set_mode(self.inode, mode);
            Ok(())
        })
    }

    fn metadata(&self) -> io::Result<Metadata> {
        Ok(self.fs.lock().disk.metadata(self.inode))
    }

    fn try_lock(&self, kind: LockKind) -> io::Result<bool> {
        self.fs.act("lock", &self.path, |disk| Ok(disk.try_lock(self.inode, self.handle, kind)))
    }
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        self.fs.lock().disk.unlock(self.inode, self.handle);
    }
}
