//! Which run is meant.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pintle_store::RealFs;
use pintle_store::evidence::{ArchiveError, ArchiveLimits, FindError, Places, ReadError, StoredRun, find_run, unpack};
use pintle_store::home::{Home, HomeVars};
use tempfile::TempDir;

use crate::error::CommandError;
use crate::exit::Exit;

/// A run that was found, and what must live as long as it is read.
#[derive(Debug)]
pub(crate) struct Located {
    /// The run.
    pub(crate) stored: StoredRun,
    // An archive is unpacked here.
    _scratch: Option<TempDir>,
}

/// Why a run cannot be used. `verify` tells the second and third apart from the first.
#[derive(Debug, thiserror::Error)]
pub(super) enum LocateError {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("make a directory to unpack `{}` in", archive.display())]
    Scratch {
        archive: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl Located {
    /// The run that `which` means: `latest`, an id, the beginning of one, the path of a directory or of a zip; among those
    /// below `from`, or in the home.
    pub(crate) fn find(which: &str, from: Option<&Path>) -> Result<Self, CommandError> {
        // A path needs no home.
        let places = places(from).unwrap_or_else(|_| Places::below(Path::new("/nonexistent")));
        Self::among(which, &places).map_err(|error| {
            let refused = CommandError::caused(Exit::Usage, "run", &error);
            match error {
                LocateError::Find(_) => refused.hint("`pintle evidence list` shows the runs"),
                _ => refused,
            }
        })
    }

    pub(super) fn among(which: &str, places: &Places) -> Result<Self, LocateError> {
        let archive = Path::new(which);
        let dir = match find_run(&RealFs, places, which) {
            Ok(dir) => dir,
            Err(FindError::NoRuns { .. } | FindError::NotFound { .. }) if archive.is_file() => {
                return Self::unpacked(archive);
            }
            // What a check was given as `--out`.
            Err(FindError::NoRuns { .. } | FindError::NotFound { .. }) if archive.join("runs").is_dir() => {
                find_run(&RealFs, &Places::below(&absolute(archive)), "latest")?
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { stored: StoredRun::open(Arc::new(RealFs), &dir)?, _scratch: None })
    }

    fn unpacked(archive: &Path) -> Result<Self, LocateError> {
        let failed = |source| LocateError::Scratch { archive: archive.to_owned(), source };
        // The user may have named it by a link; the archive itself is opened as a plain file.
        let archive = archive.canonicalize().map_err(failed)?;
        let scratch = tempfile::Builder::new()
            .prefix("pintle-run-")
            .tempdir()
            .map_err(|source| LocateError::Scratch { archive: archive.clone(), source })?;
        let dir = unpack(&RealFs, &archive, scratch.path(), ArchiveLimits::default())?;
        Ok(Self { stored: StoredRun::open(Arc::new(RealFs), &dir)?, _scratch: Some(scratch) })
    }
}

/// The path from the root; as it is where there is no current directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Where runs are.
pub(super) fn places(from: Option<&Path>) -> Result<Places, CommandError> {
    match from {
        Some(dir) => {
            let dir = std::path::absolute(dir)
                .map_err(|e| CommandError::usage(format!("use the directory `{}`: {e}", dir.display())))?;
            Ok(Places::below(&dir))
        }
        None => {
            let home = Home::resolve(&HomeVars::from_lookup(|name| std::env::var_os(name)));
            Ok(Places::of(&home.map_err(|error| CommandError::caused(Exit::Usage, "home", &error))?))
        }
    }
}
