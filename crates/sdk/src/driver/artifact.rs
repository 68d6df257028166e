//! The file that a driver says it is.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pintle_driver::Digest;
use pintle_wire::DigestBuilder;

/// A driver's artifact: the file whose digest the driver must declare, as it was when it was looked at.
///
/// It is hashed once. Whether it is still the same is seen by its device, inode, size and time of change, and it is hashed
/// again only when one of those differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    path: PathBuf,
    digest: Digest,
    identity: Identity,
}

impl Artifact {
    /// Looks at a file and hashes it, which blocks for as long as reading it takes.
    ///
    /// # Errors
    /// When it cannot be read, or was written to meanwhile.
    pub fn measure(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let file = File::open(&path)?;
        let identity = Identity::of(&file.metadata()?);
        let digest = digest_of(file)?;
        if Identity::of(&std::fs::metadata(&path)?) != identity {
            return Err(io::Error::other("it changed while it was read"));
        }
        Ok(Self { path, digest, identity })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its digest.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Whether the file has the same content as when it was measured.
    ///
    /// # Errors
    /// When it cannot be read any more.
    pub fn is_unchanged(&self) -> io::Result<bool> {
        if Identity::of(&std::fs::metadata(&self.path)?) == self.identity {
            return Ok(true);
        }
        Ok(artifact_digest(&self.path)? == self.digest)
    }
}

/// The digest of a driver's artifact, read in pieces.
///
/// # Errors
/// When the file cannot be read.
pub fn artifact_digest(path: &Path) -> io::Result<Digest> {
    digest_of(File::open(path)?)
}

fn digest_of(mut file: File) -> io::Result<Digest> {
    let mut digest = DigestBuilder::new();
    let mut piece = vec![0; 256 << 10];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(digest.finish()),
            Ok(count) => digest.update(piece.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What changes when a file is replaced or written to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of the last write and of the last change of its inode, which a program cannot set back.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(meta: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_until_its_content_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("driver");
        std::fs::write(&path, "one").expect("a file");
        let artifact = Artifact::measure(&path).expect("a digest");
        assert_eq!(artifact.digest(), Digest::of(b"one"));
        assert!(artifact.is_unchanged().expect("it is there"));
        // The same content in another file is the same artifact.
        std::fs::write(dir.path().join("copy"), "one").expect("a file");
        std::fs::rename(dir.path().join("copy"), &path).expect("rename");
        assert!(artifact.is_unchanged().expect("it is there"));
        // One of the same size, with its time of writing set back, is not.
        let modified = std::fs::metadata(&path).and_then(|meta| meta.modified()).expect("its time");
        std::fs::write(&path, "two").expect("a file");
        File::options().write(true).open(&path).and_then(|file| file.set_modified(modified)).expect("its time");
        assert!(!artifact.is_unchanged().expect("it is there"));
        std::fs::remove_file(&path).expect("remove");
        assert!(artifact.is_unchanged().is_err());
    }
}
