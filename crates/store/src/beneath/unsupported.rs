//! Systems without a race-free way to stay below a directory.

use std::{ffi::OsString, fs::File, io, path::Path};

use super::{Beneath, BeneathError};

#[derive(Debug)]
pub(super) struct Dir;

pub(super) fn open_root(_root: &Path) -> io::Result<Dir> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn open(_beneath: &Beneath, _names: &[OsString]) -> Result<File, BeneathError> {
    Err(BeneathError::Io { action: "open", source: io::ErrorKind::Unsupported.into() })
}

pub(super) fn write(_beneath: &Beneath, _names: &[OsString], _content: &[u8]) -> Result<(), BeneathError> {
    Err(BeneathError::Io { action: "write", source: io::ErrorKind::Unsupported.into() })
}
