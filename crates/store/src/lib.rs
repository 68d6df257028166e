//! Files that survive a crash: the [`Fs`] seam, atomic replace, locks, the sanitiser, evidence runs and the pointer store.
//!
//! Everything here is synchronous. Whatever durability depends on goes through [`Fs`], so that a test can put a disk
//! beneath it that loses unsynced writes, tears them, runs full or dies after any operation. This crate reads no
//! environment and prints nothing: its caller passes the values of the variables ([`home::HomeVars`]) and reports errors.
//!
//! | module | what it promises |
//! | --- | --- |
//! | [`atomic`] | a file has its old content or its new content, whatever happens in between |
//! | [`lock`] | one holder per lock file; a dead holder's lock is free |
//! | [`beneath`] | a path that a peer chose cannot leave a directory |
//! | [`mod@pointer`] | a task pointer is the old record or the new one, and its writers take turns |
//! | [`evidence`] | what a run recorded can be judged again, and shows when it was touched |
//! | [`sanitise`] | what is kept has passed the sanitiser |
//! | [`home`] | where things are kept |
//! | [`place`] | what file system a directory is on, and what endangers it there |
//! | [`settings`] | edits of other programs' files: all or none, with a backup |

pub mod atomic;
pub mod beneath;
pub mod evidence;
mod fs;
pub mod fsx;
pub mod home;
pub mod lock;
pub mod place;
pub mod pointer;
pub mod sanitise;
pub mod settings;

pub use evidence::{EvidenceRun, StoredRun};
pub use fs::{DirEntry, FileId, FileKind, Fs, FsFile, LockKind, Metadata, OpenHow, Owner, RealFs};
pub use fsx::{FsAction, FsError};
pub use sanitise::{Sanitised, Sanitiser};
