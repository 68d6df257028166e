//! How Core starts a driver, and where the driver lives.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pintle_driver::{CoreConfig, Digest, ObjectRef};
use pintle_store::{OpenHow, RealFs, fsx};
use pintle_wire::DigestBuilder;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::host::CoreError;
use crate::process::{Environment, Ladder, Program, Shim};

/// Everything about a driver that is chosen before it starts.
#[derive(Debug)]
pub struct DriverLaunch {
    /// The driver's program.
    pub program: Program,
    /// Its arguments, without argv 0.
    pub args: Vec<OsString>,
    /// Its environment. HOME, TMPDIR and the data stream's variable are set by Core.
    pub env: Environment,
    /// The keeper. Without one there is no companion stream.
    pub shim: Shim,
    /// The directory that the private work directory is made in; it must exist.
    pub work_base: PathBuf,
    /// How the session behaves.
    pub session: CoreConfig,
    /// How the driver is brought to its end.
    pub ladder: Ladder,
}

impl DriverLaunch {
    /// `program` with the allowlist of `env` and the defaults of the rest.
    pub fn new(program: Program, env: Environment, shim: Shim, work_base: impl Into<PathBuf>) -> Self {
        Self {
            program,
            args: Vec::new(),
            env,
            shim,
            work_base: work_base.into(),
            session: CoreConfig::default(),
            ladder: Ladder::default(),
        }
    }
}

/// An object that a driver finds in its work directory.
#[derive(Debug, Clone)]
pub struct Fixture {
    /// What it is, as in [`ObjectRef::kind`].
    pub kind: Box<str>,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The private directory of one driver, mode 0700. It is removed with everything in it when it is dropped.
#[derive(Debug)]
pub(crate) struct WorkDir {
    dir: TempDir,
    inputs: u64,
}

impl WorkDir {
    /// Makes the directory with `home` and `tmp` in it.
    pub(crate) fn create(base: &Path) -> Result<Self, CoreError> {
        let dir = tempfile::Builder::new().prefix("driver-").tempdir_in(base);
        let dir = dir.map_err(|source| CoreError::Work { path: base.to_owned(), source })?;
        for name in ["home", "tmp", "fixtures"] {
            fsx::create_dir(&RealFs, &dir.path().join(name))?;
        }
        Ok(Self { dir, inputs: 0 })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Sets what the driver finds its directories by.
    pub(crate) fn describe(&self, env: &mut Environment) {
        env.set("HOME", self.path().join("home"));
        env.set("TMPDIR", self.path().join("tmp"));
    }

    /// Makes the FIFO of the next exact input.
    pub(crate) fn input(&mut self) -> Result<PathBuf, CoreError> {
        self.inputs += 1;
        let path = self.path().join(format!("input-{}", self.inputs));
        make_fifo(&path).map_err(|source| CoreError::Work { path: path.clone(), source })?;
        Ok(path)
    }

    /// Puts an object where the driver looks for it.
    pub(crate) fn fixture(&self, fixture: &Fixture) -> Result<ObjectRef, CoreError> {
        let digest = Digest::of(&fixture.bytes);
        let path = self.path().join("fixtures").join(digest.hex());
        let mut file = fsx::open(&RealFs, &path, OpenHow::CreateNew { mode: 0o600 })?;
        fsx::write_all(&mut *file, &path, &fixture.bytes)?;
        Ok(ObjectRef { kind: fixture.kind.clone(), instance_id: None, content_digest: digest })
    }
}

fn make_fifo(path: &Path) -> io::Result<()> {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(io::Error::from)
}

/// The digest of a driver's artifact, read in pieces.
///
/// # Errors
/// When the file cannot be read.
pub fn artifact_digest(path: &Path) -> io::Result<Digest> {
    let mut file = File::open(path)?;
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
