//! Opening and replacing the file at a place that was walked to.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, RawMode, Stat, Uid, fchmod, fchown, openat, renameat, unlinkat},
    io::Errno,
};

use super::{
    Beneath, BeneathError,
    walk::{Missing, Place, walk},
};

pub(super) type Dir = OwnedFd;

/// What a new file may be at most; the process's mask takes bits away.
const NEW_FILE_MODE: Mode = Mode::from_raw_mode(0o666);
/// The bits of an old file that its replacement gets. A set-id bit is not handed on, as no write would.
const KEPT_MODE: RawMode = 0o777;
/// Whatever is opened is not waited for and becomes no terminal of ours.
const QUIET: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// How often a path is walked again because what was at its end was swapped meanwhile.
const MAX_TRIES: usize = 8;

pub(super) fn open_root(root: &Path) -> io::Result<Dir> {
    Ok(openat(CWD, root, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

pub(super) fn open(beneath: &Beneath, names: &[OsString]) -> Result<File, BeneathError> {
    again(|| {
        let place = walk(beneath, names, Missing::Fail)?;
        match place.found {
            None => Err(BeneathError::io("open")(Errno::NOENT)),
            Some(stat) if !is_file(&stat) => Err(BeneathError::NotAFile),
            Some(_) => place.open(OFlags::RDONLY).map(Some),
        }
        .or_else(swapped)
    })
}

pub(super) fn write(beneath: &Beneath, names: &[OsString], content: &[u8]) -> Result<(), BeneathError> {
    again(|| {
        let place = walk(beneath, names, Missing::Make)?;
        match place.found {
            None => place.create(content),
            Some(stat) if is_file(&stat) => place.replace(content),
            Some(_) => Err(BeneathError::NotAFile),
        }
        .map(Some)
        .or_else(swapped)
    })
}

/// Walks again when what was found was something else by the time it was opened.
fn again<T>(mut attempt: impl FnMut() -> Result<Option<T>, BeneathError>) -> Result<T, BeneathError> {
    for _ in 0..MAX_TRIES {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
    }
    Err(BeneathError::LinkOutside)
}

/// A link in place of a file, a file in place of none: it was swapped between the look and the open.
fn swapped<T>(error: BeneathError) -> Result<Option<T>, BeneathError> {
    match &error {
        BeneathError::Io { source, .. }
            if [Errno::LOOP, Errno::EXIST].iter().any(|errno| source.raw_os_error() == Some(errno.raw_os_error())) =>
        {
            Ok(None)
        }
        _ => Err(error),
    }
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

impl Place {
    fn open(&self, how: OFlags) -> Result<File, BeneathError> {
        let opened = openat(&self.dir, &self.name, how | QUIET, Mode::empty());
        let file = File::from(opened.map_err(|errno| match errno {
            // A FIFO that nobody reads, a socket, a directory to write.
            Errno::NXIO | Errno::ISDIR => BeneathError::NotAFile,
            errno => BeneathError::io("open")(errno),
        })?);
        let is_file = file.metadata().map_err(BeneathError::io("look at"))?.is_file();
        if is_file { Ok(file) } else { Err(BeneathError::NotAFile) }
    }

    /// A file that was not there. It gets its name when it is whole.
    fn create(&self, content: &[u8]) -> Result<(), BeneathError> {
        match self.temporary(content, NEW_FILE_MODE) {
            Ok(temporary) => temporary.take_the_place_of(self).map_err(BeneathError::io("write")),
            Err(errno) => Err(BeneathError::io("write")(errno)),
        }
    }

    /// A file that is there. Opening it first asks the system whether it may be written at all.
    fn replace(&self, content: &[u8]) -> Result<(), BeneathError> {
        let old = self.open(OFlags::WRONLY)?;
        let stat = rustix::fs::fstat(&old).map_err(BeneathError::io("look at"))?;
        if stat.st_nlink > 1 {
            return in_place(&old, content);
        }
        let Ok(temporary) = self.temporary(content, Mode::RUSR | Mode::WUSR) else { return in_place(&old, content) };
        let mode = Mode::from_raw_mode(stat.st_mode & KEPT_MODE);
        if temporary.becomes(&stat, mode).is_err() {
            return in_place(&old, content);
        }
        match temporary.take_the_place_of(self) {
            Ok(()) => Ok(()),
            // A mount point of its own, or a system that does not rename over an open file.
            Err(_) => in_place(&old, content),
        }
    }

    /// A new file beside this one with the content, durable. The name says whose it is, should it be left behind.
    fn temporary(&self, content: &[u8], mode: Mode) -> Result<Temporary<'_>, io::Error> {
        let random = getrandom::u64().map_err(|_| io::ErrorKind::Other)?;
        let name = format!(".pintle-{random:016x}.tmp").into();
        let file = openat(&self.dir, &name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | QUIET, mode)?;
        let temporary = Temporary { dir: &self.dir, name, file: file.into(), renamed: false };
        (&temporary.file).write_all(content)?;
        temporary.file.sync_data()?;
        Ok(temporary)
    }
}

/// A file under a name that nobody knows; it goes away unless it gets another.
struct Temporary<'a> {
    dir: &'a OwnedFd,
    name: OsString,
    file: File,
    renamed: bool,
}

impl Temporary<'_> {
    /// Takes over owner and mode of another file.
    fn becomes(&self, stat: &Stat, mode: Mode) -> Result<(), Errno> {
        let own = rustix::fs::fstat(&self.file)?;
        if (own.st_uid, own.st_gid) != (stat.st_uid, stat.st_gid) {
            fchown(&self.file, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))?;
        }
        fchmod(&self.file, mode)
    }

    fn take_the_place_of(mut self, place: &Place) -> Result<(), Errno> {
        // A rename replaces a link itself, never what it points to; a directory it does not replace.
        renameat(self.dir, &self.name, &place.dir, &place.name)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // What cannot be removed stays as a crash would leave it.
            let _ = unlinkat(self.dir, &self.name, AtFlags::empty());
        }
    }
}

fn in_place(mut file: &File, content: &[u8]) -> Result<(), BeneathError> {
    file.set_len(0).map_err(BeneathError::io("write"))?;
    file.write_all(content).map_err(BeneathError::io("write"))
}
