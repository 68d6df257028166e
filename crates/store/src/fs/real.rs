//! The operating system's files.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::Path,
    time::SystemTime,
};

use super::{DirEntry, FileKind, Fs, FsFile, LockKind, Metadata, OpenHow, Owner};

/// The operating system's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

impl Fs for RealFs {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Box<dyn FsFile>> {
        let mut options = OpenOptions::new();
        match how {
            OpenHow::Read => options.read(true),
            OpenHow::CreateNew { mode } => os::mode(options.read(true).write(true).create_new(true), mode),
            OpenHow::Append { mode } => os::mode(options.read(true).append(true).create(true), mode),
            OpenHow::Lock { mode } => os::mode(options.read(true).write(true).create(true).truncate(false), mode),
        };
        let file = os::no_follow(&mut options).open(path)?;
        if !matches!(how, OpenHow::CreateNew { .. }) && !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Box::new(RealFile(file)))
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        os::create_dir(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        os::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        os::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        os::sync_dir(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        Ok(describe(&fs::metadata(path)?))
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        Ok(describe(&fs::symlink_metadata(path)?))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        fs::read_dir(path)?
            .map(|entry| {
                let entry = entry?;
                Ok(DirEntry { kind: kind_of(entry.file_type()?), name: entry.file_name() })
            })
            .collect()
    }
}

#[derive(Debug)]
struct RealFile(File);

impl FsFile for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        os::read_at(&self.0, buf, offset)
    }

    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn sync_all(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn begin_write_back(&mut self, offset: u64, len_bytes: u64) {
        os::begin_write_back(&self.0, offset, len_bytes);
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn set_access(&mut self, mode: u32, owner: Option<Owner>) -> io::Result<()> {
        os::set_access(&self.0, mode, owner)
    }

    fn metadata(&self) -> io::Result<Metadata> {
        Ok(describe(&self.0.metadata()?))
    }

    fn try_lock(&self, kind: LockKind) -> io::Result<bool> {
        let taken = match kind {
            LockKind::Shared => self.0.try_lock_shared(),
            LockKind::Exclusive => self.0.try_lock(),
        };
        match taken {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn describe(meta: &fs::Metadata) -> Metadata {
    let (mode, links, id, owner) = os::identity(meta);
    Metadata {
        kind: kind_of(meta.file_type()),
        len_bytes: meta.len(),
        mode,
        links,
        // Every system that we support keeps this time; the epoch stands for one that does not.
        modified: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        id,
        owner,
    }
}

fn kind_of(file_type: fs::FileType) -> FileKind {
    if file_type.is_symlink() {
        FileKind::Symlink
    } else if file_type.is_file() {
        FileKind::File
    } else if file_type.is_dir() {
        FileKind::Dir
    } else {
        FileKind::Other
    }
}

#[cfg(unix)]
mod os {
    use std::{
        fs::{self, DirBuilder, File, OpenOptions},
        io,
        os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        path::Path,
    };

    use rustix::fs::OFlags;

    use crate::fs::{FileId, Owner};

    pub(super) fn mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
        options.mode(mode)
    }

    /// `O_NONBLOCK` changes nothing for a regular file, and keeps an open of a FIFO that somebody put there from
    /// waiting for its other end.
    pub(super) fn no_follow(options: &mut OpenOptions) -> &mut OpenOptions {
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
    }

    pub(super) fn create_dir(path: &Path, mode: u32) -> io::Result<()> {
        DirBuilder::new().mode(mode).create(path)
    }

    pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    pub(super) fn remove_file(path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
        match File::open(path)?.sync_all() {
            // Some file systems have nothing to do for a directory, and say it with this error.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other,
        }
    }

    pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(buf, offset)
    }

    /// The advice makes Linux begin to write the pages. It also lets go of those that are written, which are not many yet.
    #[cfg(target_os = "linux")]
    pub(super) fn begin_write_back(file: &File, offset: u64, len_bytes: u64) {
        if let Some(len_bytes) = std::num::NonZeroU64::new(len_bytes) {
            // A file system that does not know it writes at the sync, as ever.
            let _ = rustix::fs::fadvise(file, offset, Some(len_bytes), rustix::fs::Advice::DontNeed);
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn begin_write_back(_file: &File, _offset: u64, _len_bytes: u64) {}

    pub(super) fn identity(meta: &fs::Metadata) -> (u32, u64, Option<FileId>, Option<Owner>) {
        let id = FileId { device: meta.dev(), inode: meta.ino() };
        (meta.mode() & 0o777, meta.nlink(), Some(id), Some(Owner { user: meta.uid(), group: meta.gid() }))
    }

    pub(super) fn set_access(file: &File, mode: u32, owner: Option<Owner>) -> io::Result<()> {
        let (now, _, _, has) = identity(&file.metadata()?);
        // The owner first: giving a file away may take bits from it.
        if let Some(owner) = owner.filter(|owner| has != Some(*owner)) {
            std::os::unix::fs::fchown(file, Some(owner.user), Some(owner.group))?;
        }
        if now != mode || owner.is_some() {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }
}

#[cfg(windows)]
mod os {
    use std::{
        fs::{self, File, OpenOptions},
        io,
        os::windows::fs::{FileExt, OpenOptionsExt},
        path::Path,
        thread,
        time::Duration,
    };

    use crate::fs::{FileId, Owner};

    const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
    const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
    const ERROR_ACCESS_DENIED: i32 = 5;
    const ERROR_SHARING_VIOLATION: i32 = 32;

    /// A virus scanner holds a new file for some tens of milliseconds; the pauses add up to half a second.
    const RENAME_PAUSES_MS: [u64; 8] = [1, 2, 5, 12, 30, 75, 125, 250];

    /// The permission bit of [`identity`] without which a file is read-only here.
    const OWNER_WRITES: u32 = 0o200;

    pub(super) fn mode(options: &mut OpenOptions, _mode: u32) -> &mut OpenOptions {
        options
    }

    pub(super) fn no_follow(options: &mut OpenOptions) -> &mut OpenOptions {
        options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
    }

    pub(super) fn create_dir(path: &Path, _mode: u32) -> io::Result<()> {
        fs::create_dir(path)
    }

    /// No file is renamed over a read-only one here, as it is elsewhere, where the directory decides. So the old file loses
    /// the attribute first, and gets it back if it stays. A crash in between leaves the old content without it.
    pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
        let was_read_only = is_read_only(to) && set_read_only(to, false).is_ok();
        let renamed = rename_patiently(from, to);
        if was_read_only && renamed.is_err() {
            // The failure that is reported is the one that counts.
            let _ = set_read_only(to, true);
        }
        renamed
    }

    fn rename_patiently(from: &Path, to: &Path) -> io::Result<()> {
        for pause_ms in RENAME_PAUSES_MS {
            match fs::rename(from, to) {
                Err(error) if matches!(error.raw_os_error(), Some(ERROR_ACCESS_DENIED | ERROR_SHARING_VIOLATION)) => {
                    thread::sleep(Duration::from_millis(pause_ms));
                }
                other => return other,
            }
        }
        fs::rename(from, to)
    }

    /// A read-only file is removed as any other; see [`rename`].
    pub(super) fn remove_file(path: &Path) -> io::Result<()> {
        let was_read_only = is_read_only(path) && set_read_only(path, false).is_ok();
        let removed = fs::remove_file(path);
        if was_read_only && removed.is_err() {
            let _ = set_read_only(path, true);
        }
        removed
    }

    /// A directory has the attribute too, where it means something else.
    fn is_read_only(path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().readonly())
    }

    fn set_read_only(path: &Path, read_only: bool) -> io::Result<()> {
        let mut permissions = fs::symlink_metadata(path)?.permissions();
        permissions.set_readonly(read_only);
        fs::set_permissions(path, permissions)
    }

    pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
        let dir = OpenOptions::new().read(true).write(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?;
        match dir.sync_all() {
            // File systems other than NTFS refuse to flush a directory. They have no more to offer.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            other => other,
        }
    }

    pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        file.seek_read(buf, offset)
    }

    pub(super) fn begin_write_back(_file: &File, _offset: u64, _len_bytes: u64) {}

    pub(super) fn identity(meta: &fs::Metadata) -> (u32, u64, Option<FileId>, Option<Owner>) {
        let owner_reads = 0o400;
        (if meta.permissions().readonly() { owner_reads } else { owner_reads | OWNER_WRITES }, 1, None, None)
    }

    /// Of the bits there is one here, the read-only attribute, and [`identity`] names no owner. Who may do what is said by
    /// the access control list, which a new file has from its directory.
    pub(super) fn set_access(file: &File, mode: u32, _owner: Option<Owner>) -> io::Result<()> {
        let mut permissions = file.metadata()?.permissions();
        let read_only = mode & OWNER_WRITES == 0;
        if permissions.readonly() != read_only {
            permissions.set_readonly(read_only);
            file.set_permissions(permissions)?;
        }
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn scratch() -> tempfile::TempDir {
        tempfile::tempdir().expect("scratch directory")
    }

    #[test]
    fn a_fifo_or_a_link_is_refused_at_once() {
        let dir = scratch();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("mkfifo");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("elsewhere", &link).expect("symlink");
        for path in [&fifo, &link, &dir.path().to_path_buf()] {
            for how in [OpenHow::Read, OpenHow::Append { mode: 0o600 }, OpenHow::Lock { mode: 0o600 }] {
                assert!(RealFs.open(path, how).is_err(), "{path:?} {how:?}");
            }
        }
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn files_and_directories_are_private() {
        let dir = scratch();
        RealFs.create_dir(&dir.path().join("d"), 0o700).expect("mkdir");
        drop(RealFs.open(&dir.path().join("f"), OpenHow::CreateNew { mode: 0o600 }).expect("create"));
        assert_eq!(RealFs.symlink_metadata(&dir.path().join("d")).expect("stat").mode, 0o700);
        let meta = RealFs.symlink_metadata(&dir.path().join("f")).expect("stat");
        assert_eq!((meta.mode, meta.kind, meta.links), (0o600, FileKind::File, 1));
    }

    #[test]
    fn a_lock_goes_away_with_its_file() {
        let dir = scratch();
        let path = dir.path().join("lock");
        let how = OpenHow::Lock { mode: 0o600 };
        let first = RealFs.open(&path, how).expect("open");
        let second = RealFs.open(&path, how).expect("open");
        assert!(first.try_lock(LockKind::Exclusive).expect("lock"));
        assert!(!second.try_lock(LockKind::Exclusive).expect("lock"));
        assert!(!second.try_lock(LockKind::Shared).expect("lock"));
        drop(first);
        assert!(second.try_lock(LockKind::Exclusive).expect("lock"));
    }
}
