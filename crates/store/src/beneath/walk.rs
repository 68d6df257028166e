//! The walk: from the directory to the place of a file, without following anything.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Component, Path},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, mkdirat, openat, readlinkat, statat},
    io::Errno,
};

use super::{Beneath, BeneathError, MAX_LINKS};

/// Directories that one walk opens at most, whatever its links say.
const MAX_STEPS: usize = 4096;
/// What a new directory may be at most; the process's mask takes bits away.
const NEW_DIR_MODE: Mode = Mode::from_raw_mode(0o777);

/// A name in a directory that is held open. It was no symbolic link when it was looked at.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) dir: OwnedFd,
    pub(super) name: OsString,
    /// What was there.
    pub(super) found: Option<Stat>,
}

/// Whether directories that are missing are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Fail,
    Make,
}

/// A step of the walk. `Up` comes from links only; from a path it was taken out before.
#[derive(Debug)]
enum Step {
    Down(OsString),
    Up,
}

/// Walks `names` below the directory.
pub(super) fn walk(beneath: &Beneath, names: &[OsString], missing: Missing) -> Result<Place, BeneathError> {
    let mut walk = Walk {
        beneath,
        missing,
        behind: Vec::new(),
        here: None,
        ahead: names.iter().cloned().map(Step::Down).collect(),
        links: 0,
        steps: 0,
    };
    loop {
        match walk.ahead.pop_front() {
            None => return Err(BeneathError::NotAFile),
            Some(Step::Up) => {
                walk.behind.pop().ok_or(BeneathError::LinkOutside)?;
                walk.here = None;
            }
            Some(Step::Down(name)) if walk.ahead.is_empty() => {
                if let Some(place) = walk.arrive(name)? {
                    return Ok(place);
                }
            }
            Some(Step::Down(name)) => walk.enter(name)?,
        }
    }
}

struct Walk<'a> {
    beneath: &'a Beneath,
    missing: Missing,
    /// The names of the directories from the root to where the walk is; no link among them.
    behind: Vec<OsString>,
    /// The last of them, while it is held open; `None` is to be opened again, or the root.
    here: Option<OwnedFd>,
    ahead: VecDeque<Step>,
    links: usize,
    steps: usize,
}

impl Walk<'_> {
    /// Goes into a directory, or reads the link that is in its place.
    fn enter(&mut self, name: OsString) -> Result<(), BeneathError> {
        self.come_back()?;
        match self.open_dir(&name) {
            Ok(dir) => {
                self.here = Some(dir);
                self.behind.push(name);
                Ok(())
            }
            Err(Errno::NOTDIR | Errno::LOOP) => match self.link(&name) {
                Some(target) => self.turn(&target),
                None => Err(BeneathError::io("open")(Errno::NOTDIR)),
            },
            Err(Errno::NOENT) if self.missing == Missing::Make => {
                match mkdirat(self.at(), &name, NEW_DIR_MODE) {
                    // Somebody else was faster: that is looked at like any other.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(BeneathError::io("make the directory of")(errno)),
                }
                self.step()?;
                self.ahead.push_front(Step::Down(name));
                Ok(())
            }
            Err(errno) => Err(BeneathError::io("open")(errno)),
        }
    }

    /// Looks at the last name. `None` when it was a link, whose target is ahead now.
    fn arrive(&mut self, name: OsString) -> Result<Option<Place>, BeneathError> {
        self.come_back()?;
        let found = match statat(self.at(), &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(BeneathError::io("look at")(errno)),
        };
        if found.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink) {
            match self.link(&name) {
                Some(target) => self.turn(&target)?,
                // It was swapped for something else since.
                None => {
                    self.count_link()?;
                    self.ahead.push_front(Step::Down(name));
                }
            }
            return Ok(None);
        }
        let dir = match self.here.take() {
            Some(dir) => dir,
            None => self.beneath.dir.try_clone().map_err(BeneathError::io("open the directory of"))?,
        };
        Ok(Some(Place { dir, name, found }))
    }

    /// Puts the target of a link ahead.
    fn turn(&mut self, target: &Path) -> Result<(), BeneathError> {
        self.count_link()?;
        if is_foreign(target) {
            return Err(BeneathError::LinkOutside);
        }
        let mut rest = target;
        if target.is_absolute() {
            rest = self.beneath.behind_root(target).ok_or(BeneathError::LinkOutside)?;
            self.behind.clear();
            self.here = None;
        }
        for component in rest.components().rev() {
            match component {
                Component::Normal(name) => self.ahead.push_front(Step::Down(name.to_owned())),
                Component::ParentDir => self.ahead.push_front(Step::Up),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        Ok(())
    }

    /// Opens the directory that the walk is in again, from the root. Never through its own `..`, which may have been
    /// moved to anywhere.
    fn come_back(&mut self) -> Result<(), BeneathError> {
        if self.here.is_some() || self.behind.is_empty() {
            return Ok(());
        }
        for name in std::mem::take(&mut self.behind) {
            self.step()?;
            // A link now was none before: somebody is swapping, and gets no second try.
            let dir = self.open_dir(&name).map_err(BeneathError::io("open"))?;
            self.here = Some(dir);
            self.behind.push(name);
        }
        Ok(())
    }

    fn open_dir(&mut self, name: &OsStr) -> Result<OwnedFd, Errno> {
        self.step().map_err(|_| Errno::LOOP)?;
        openat(self.at(), name, DIR_FLAGS, Mode::empty())
    }

    fn link(&self, name: &OsStr) -> Option<std::path::PathBuf> {
        let target = readlinkat(self.at(), name, Vec::new()).ok()?;
        Some(OsStr::from_bytes(target.as_bytes()).into())
    }

    fn at(&self) -> &OwnedFd {
        self.here.as_ref().unwrap_or(&self.beneath.dir)
    }

    fn count_link(&mut self) -> Result<(), BeneathError> {
        self.links += 1;
        if self.links > MAX_LINKS { Err(BeneathError::TooManyLinks { limit: MAX_LINKS }) } else { Ok(()) }
    }

    fn step(&mut self) -> Result<(), BeneathError> {
        self.steps += 1;
        if self.steps > MAX_STEPS { Err(BeneathError::TooManyLinks { limit: MAX_LINKS }) } else { Ok(()) }
    }
}

/// To go through a directory it need not be readable.
#[cfg(target_os = "linux")]
const DIR_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const DIR_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A target that is absolute on Windows (`c:/..`, `\\host\..`). The same folder may be open there as well, so it is taken
/// for what it says on every system.
fn is_foreign(target: &Path) -> bool {
    match target.as_os_str().as_bytes() {
        [b'\\', b'\\', ..] => true,
        [drive, b':', b'/' | b'\\', ..] => drive.is_ascii_alphabetic(),
        _ => false,
    }
}
