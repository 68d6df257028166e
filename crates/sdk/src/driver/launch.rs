//! How Core starts a driver, and where the driver lives.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use pintle_driver::{CoreConfig, Digest, InputKind, ObjectRef};
use pintle_store::{OpenHow, RealFs, fsx};
use tokio::net::unix::pipe;

use super::artifact::Artifact;
use super::error::CoreError;
use super::memory::MAX_MEMORY_INPUTS;
use super::recorder::RecorderConfig;
use super::rules::DriverRules;
use crate::process::{Environment, Ladder, NamedPipe, PrivateDir, Program, Shim};

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
    /// What the driver is kept from; without a keeper, nothing is enforced.
    pub rules: DriverRules,
    /// The file whose digest the driver must declare. It is compared before the driver starts and after it has ended.
    pub artifact: Option<Artifact>,
    /// How exact inputs are handed over: [`InputKind::Pipe`] unless changed. [`InputKind::Memfd`] takes a keeper.
    pub input: InputKind,
    /// With [`InputKind::Memfd`]: how many invocations there can be, at most [`MAX_MEMORY_INPUTS`](super::MAX_MEMORY_INPUTS),
    /// which is the default. A driver inherits its inputs at its start.
    pub memory_inputs: usize,
    /// The recorder, which is there with the grant `recorder-socket`.
    pub recorder: Option<RecorderConfig>,
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
            rules: DriverRules::default(),
            artifact: None,
            input: InputKind::Pipe,
            memory_inputs: MAX_MEMORY_INPUTS,
            recorder: None,
        }
    }

    /// The files that the driver is made of, as far as the command line shows: the keeper (which a driver may use for its
    /// own children), the artifact, arguments that are files. The program itself is always among what it may run.
    pub(crate) fn programs(&self) -> Vec<PathBuf> {
        let arguments = self.args.iter().map(PathBuf::from).filter(|path| path.is_absolute() && path.is_file());
        let shim = if let Shim::Path(path) = &self.shim { Some(path.clone()) } else { None };
        arguments.chain(shim).chain(self.artifact.as_ref().map(|artifact| artifact.path().to_owned())).collect()
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
    dir: PrivateDir,
    inputs: u64,
}

impl WorkDir {
    /// Makes the directory with `home`, `tmp` and `fixtures` in it.
    pub(crate) fn create(base: &Path) -> Result<Self, CoreError> {
        let dir = PrivateDir::create(base, "driver-");
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

    /// Makes the FIFO of the companion streams, `data.fifo`, and opens Core's end. The keeper opens the driver's, so that
    /// there is an end of file once the driver and all that inherited the descriptor are gone.
    pub(crate) fn data_stream(&self) -> io::Result<(NamedPipe, pipe::Receiver)> {
        NamedPipe::receiver(self.path().join("data.fifo"))
    }

    /// Where the channel of the next exact input goes.
    pub(crate) fn next_input(&mut self) -> PathBuf {
        self.inputs += 1;
        self.path().join(format!("input-{}", self.inputs))
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
