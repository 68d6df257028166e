//! Paths as the protocol has them: strings, absolute, of the peer's system.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::{Deserializer, Serializer};

use super::declare::serde_by_shape;
use super::shape::{Fault, Read, Shape};

/// A path of the peer. It may be of another system than this one, so it is kept as the string it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AcpPath(String);

impl AcpPath {
    /// The path as it goes over the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path as this system reads it.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// Whether the path is absolute on Unix (`/..`), on Windows (`C:\..`, `C:/..`) or as a UNC path
    /// (`\\host\..`), whatever this system is.
    pub fn is_absolute(&self) -> bool {
        match self.0.as_bytes() {
            [b'/', ..] | [b'\\', b'\\', ..] => true,
            [drive, b':', b'/' | b'\\', ..] => drive.is_ascii_alphabetic(),
            _ => false,
        }
    }

    /// Refuses a path that is not absolute.
    ///
    /// # Errors
    /// When [`AcpPath::is_absolute`] is false.
    pub fn require_absolute(&self, member: &str) -> Result<(), Fault> {
        if self.is_absolute() { Ok(()) } else { Err(Fault::expected("an absolute path").inside(member)) }
    }
}

impl fmt::Debug for AcpPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for AcpPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Deref for AcpPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<Path> for AcpPath {
    fn as_ref(&self) -> &Path {
        self.as_path()
    }
}

impl From<&str> for AcpPath {
    fn from(path: &str) -> Self {
        Self(path.to_owned())
    }
}

impl From<String> for AcpPath {
    fn from(path: String) -> Self {
        Self(path)
    }
}

impl TryFrom<PathBuf> for AcpPath {
    type Error = PathBuf;

    /// Gives the path back when it is not Unicode: the protocol has no form for it.
    fn try_from(path: PathBuf) -> Result<Self, PathBuf> {
        path.into_os_string().into_string().map(Self).map_err(PathBuf::from)
    }
}

serde_by_shape!(AcpPath);

impl Shape for AcpPath {
    const EXPECTED: &'static str = "a path";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        Ok(String::read(deserializer)?.map(Self))
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
