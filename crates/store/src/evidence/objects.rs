//! Objects by digest, each written once.
//!
//! An object gets its name when its content is durable, by a hard link, which replaces nothing: whoever sees the name sees
//! the whole. A file system without hard links gets a rename, which can only replace a file by one of equal content.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

use pintle_wire::{Digest, DigestBuilder};

use super::{EvidenceError, ObjectRef, ReadError, hashing::Hashing};
use crate::{
    atomic::{self, ReplaceOptions},
    fs::{FileKind, Fs, FsFile, OpenHow},
    fsx::{self, FsError},
    sanitise::Sanitised,
};

/// The largest object.
pub const MAX_OBJECT_BYTES: usize = 256 * 1024 * 1024;

/// The largest object that comes in pieces. It is read in pieces too.
pub const MAX_STREAMED_OBJECT_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// A longer object is hashed on a thread of its own.
const HASHED_HERE_BYTES: u64 = 1024 * 1024;

/// So much of a long object is on its way to the disk at a time, beside the writing of the next part: its sync at the end would
/// take as long as everything before it.
const WRITE_BACK_BYTES: u64 = 8 * 1024 * 1024;

/// How much of an object is looked at at once when it is checked.
const CHUNK_BYTES: usize = 256 * 1024;

/// The objects below one directory.
#[derive(Debug, Clone)]
pub struct Objects {
    dir: PathBuf,
    /// Those that are known to be durable, with their lengths.
    known: HashMap<Digest, u64>,
}

impl Objects {
    /// The objects below `dir`, which need not exist.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, known: HashMap::new() }
    }

    /// Where an object is.
    #[must_use]
    pub fn path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        let (first, rest) = hex.split_at(2);
        self.dir.join("sha256").join(first).join(rest)
    }

    /// Puts an object, if it is not there, and returns its digest. It is durable then.
    ///
    /// # Errors
    /// [`EvidenceError`]; nothing is left under the object's name that is not the object.
    pub fn put(&mut self, fs: &dyn Fs, content: &Sanitised) -> Result<Digest, EvidenceError> {
        let bytes = content.bytes();
        if bytes.len() > MAX_OBJECT_BYTES {
            return Err(EvidenceError::TooLarge { bytes: bytes.len(), limit_bytes: MAX_OBJECT_BYTES });
        }
        let digest = Digest::of(bytes);
        if self.known.contains_key(&digest) {
            return Ok(digest);
        }
        let path = self.path(&digest);
        fsx::ensure_dir(fs, fsx::parent(&path))?;
        match fsx::symlink_metadata(fs, &path)? {
            // Another run's. It may be as young as not to be durable; its name is synced below.
            Some(meta)
                if meta.kind == FileKind::File
                    && meta.len_bytes == bytes.len() as u64
                    && Digest::of(&fsx::read_bounded(fs, &path, bytes.len())?) == digest => {}
            // What a damaged disk left under the name is not the object.
            Some(_) => atomic::replace(fs, &path, bytes)?,
            None => self.link_in(fs, &path, bytes)?,
        }
        fsx::sync_parent(fs, &path)?;
        self.known.insert(digest, bytes.len() as u64);
        Ok(digest)
    }

    fn link_in(&self, fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Result<(), EvidenceError> {
        let temp = atomic::write_temp(fs, path, bytes, ReplaceOptions::default())?;
        match fsx::hard_link(fs, &temp, path) {
            Err(error) if is_without_links(&error) => {
                return fsx::rename(fs, &temp, path).map_err(|error| {
                    atomic::discard(fs, &temp);
                    error.into()
                });
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                atomic::discard(fs, &temp);
                return Err(error.into());
            }
            // Another run was as fast; its content is the same.
            _ => {}
        }
        atomic::discard(fs, &temp);
        Ok(())
    }

    /// Begins an object that comes in pieces, of which nobody holds all.
    ///
    /// # Errors
    /// [`EvidenceError`].
    pub fn begin(&self, fs: &dyn Fs) -> Result<ObjectWriter, EvidenceError> {
        let dir = self.dir.join("sha256");
        fsx::ensure_dir(fs, &dir)?;
        let path = atomic::temp_path(&dir.join("object"))?;
        let file = fsx::open(fs, &path, OpenHow::CreateNew { mode: fsx::FILE_MODE })?;
        Ok(ObjectWriter { file, path, digest: Hashing::default(), bytes: 0, on_its_way: 0 })
    }

    /// Ends an object that came in pieces, and returns its digest. It is durable then.
    ///
    /// # Errors
    /// [`EvidenceError`]; nothing is left under the object's name that is not the object.
    pub fn finish(&mut self, fs: &dyn Fs, writer: ObjectWriter) -> Result<Digest, EvidenceError> {
        let ObjectWriter { mut file, path: temp, digest, bytes, .. } = writer;
        let digest = digest.finish();
        let placed = fsx::sync_all(file.as_mut(), &temp).map_err(EvidenceError::from).and_then(|()| {
            let path = self.path(&digest);
            fsx::ensure_dir(fs, fsx::parent(&path))?;
            match fsx::symlink_metadata(fs, &path)? {
                Some(meta) if meta.kind == FileKind::File && meta.len_bytes == bytes => atomic::discard(fs, &temp),
                _ => fsx::rename(fs, &temp, &path)?,
            }
            Ok(fsx::sync_parent(fs, &path)?)
        });
        if let Err(error) = placed {
            atomic::discard(fs, &temp);
            return Err(error);
        }
        self.known.insert(digest, bytes);
        Ok(digest)
    }

    /// The content of an object, looked at whether it has its digest.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn get(&self, fs: &dyn Fs, digest: &Digest) -> Result<Vec<u8>, ReadError> {
        let path = self.path(digest);
        let bytes = match fsx::read_bounded(fs, &path, MAX_OBJECT_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ReadError::NoObject { digest: *digest, path });
            }
            Err(error) => return Err(error.into()),
        };
        if Digest::of(&bytes) == *digest { Ok(bytes) } else { Err(ReadError::Object { digest: *digest, path }) }
    }

    /// Looks at an object of any size, whether it has its digest, and returns its length.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn check(&self, fs: &dyn Fs, digest: &Digest) -> Result<u64, ReadError> {
        let path = self.path(digest);
        let file = match fsx::open(fs, &path, OpenHow::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ReadError::NoObject { digest: *digest, path });
            }
            Err(error) => return Err(error.into()),
        };
        let (mut found, mut at) = (DigestBuilder::new(), 0);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let got = fsx::read_at(file.as_ref(), &path, &mut chunk, at)?;
            if got == 0 {
                break;
            }
            found.update(&chunk[..got]);
            at += got as u64;
        }
        if found.finish() == *digest { Ok(at) } else { Err(ReadError::Object { digest: *digest, path }) }
    }

    /// Those that were put through this value, by digest.
    pub(super) fn refs(&self) -> Vec<ObjectRef> {
        let mut refs: Vec<_> =
            self.known.iter().map(|(digest, bytes)| ObjectRef { bytes: *bytes, digest: *digest }).collect();
        refs.sort_by(|a, b| a.digest.as_bytes().cmp(b.digest.as_bytes()));
        refs
    }
}

/// An object in the making. One that is dropped leaves a temporary file, which the next collection takes away.
#[derive(Debug)]
pub struct ObjectWriter {
    file: Box<dyn FsFile>,
    path: PathBuf,
    digest: Hashing,
    bytes: u64,
    /// Bytes that the system was asked to begin to write.
    on_its_way: u64,
}

impl ObjectWriter {
    /// Writes the next piece.
    ///
    /// # Errors
    /// [`EvidenceError`], also for an object that gets larger than [`MAX_STREAMED_OBJECT_BYTES`].
    pub fn write(&mut self, piece: Sanitised) -> Result<(), EvidenceError> {
        let bytes = piece.into_bytes();
        let sum = self.bytes + bytes.len() as u64;
        if sum > MAX_STREAMED_OBJECT_BYTES {
            let bytes = usize::try_from(sum).unwrap_or(usize::MAX);
            return Err(EvidenceError::TooLarge { bytes, limit_bytes: MAX_STREAMED_OBJECT_BYTES as usize });
        }
        fsx::write_all(self.file.as_mut(), &self.path, &bytes)?;
        if sum > HASHED_HERE_BYTES {
            self.digest.move_aside();
        }
        self.digest.update(bytes);
        self.bytes = sum;
        if sum - self.on_its_way >= WRITE_BACK_BYTES {
            self.file.begin_write_back(self.on_its_way, sum - self.on_its_way);
            self.on_its_way = sum;
        }
        Ok(())
    }
}

fn is_without_links(error: &FsError) -> bool {
    match error {
        FsError::Io { source, .. } => {
            matches!(
                source.kind(),
                io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied | io::ErrorKind::TooManyLinks
            )
        }
        FsError::TooLarge { .. } | FsError::NotADirectory { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::{
        fs::{LockKind, Metadata, Owner},
        sanitise::Sanitiser,
    };

    /// A file that knows how long it is, and what was asked to be written.
    #[derive(Debug, Default)]
    struct Noting {
        len_bytes: u64,
        asked: Arc<Mutex<Vec<(u64, u64)>>>,
    }

    impl FsFile for Noting {
        fn read_at(&self, _buf: &mut [u8], _offset: u64) -> io::Result<usize> {
            Ok(0)
        }

        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.len_bytes += buf.len() as u64;
            Ok(buf.len())
        }

        fn sync_all(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn sync_data(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn begin_write_back(&mut self, offset: u64, len_bytes: u64) {
            assert!(offset + len_bytes <= self.len_bytes, "it was written before");
            self.asked.lock().expect("nobody panicked").push((offset, len_bytes));
        }

        fn set_len(&mut self, _len: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn set_access(&mut self, _mode: u32, _owner: Option<Owner>) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn metadata(&self) -> io::Result<Metadata> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn try_lock(&self, _kind: LockKind) -> io::Result<bool> {
            Ok(true)
        }
    }

    #[test]
    fn a_long_object_is_on_its_way_to_the_disk_while_it_is_written() {
        let asked = Arc::default();
        let file = Box::new(Noting { asked: Arc::clone(&asked), ..Noting::default() });
        let mut writer =
            ObjectWriter { file, path: PathBuf::new(), digest: Hashing::default(), bytes: 0, on_its_way: 0 };
        let piece = Sanitiser::default().text(&[b'x'; 3 << 20], usize::MAX);
        for _ in 0..20 {
            writer.write(piece.clone()).expect("it is written");
        }
        let asked = asked.lock().expect("nobody panicked");
        assert_eq!(asked.len(), 6, "{asked:?}");
        assert!(asked.windows(2).all(|two| two[0].0 + two[0].1 == two[1].0), "each byte once, in order: {asked:?}");
    }
}
