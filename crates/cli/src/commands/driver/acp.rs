//! `pintle driver acp`: the built-in driver that carries out ACP scenarios.

use std::path::Path;

use pintle_check::driver::AcpDriver;
use pintle_sdk::driver::{Channels, DATA_FRAME_MAX_VARIABLE, DATA_STREAM_VARIABLE, ServeError, serve};
use pintle_sdk::process::Shim;
use pintle_store::fsx::{self, FsError};
use pintle_store::{OpenHow, RealFs};
use pintle_wire::{Digest, DigestBuilder};

use crate::error::CommandError;
use crate::exit::Exit;

/// Runs it.
pub(super) fn run() -> Result<Exit, CommandError> {
    let failed = |error: &dyn std::error::Error| CommandError::caused(Exit::Failed, "driver", error);
    let program = std::env::current_exe().map_err(|e| failed(&e))?;
    let artifact = digest_of(&program).map_err(|e| failed(&e))?;
    let data_stream = std::env::var(DATA_STREAM_VARIABLE).ok();
    let frame_max = std::env::var(DATA_FRAME_MAX_VARIABLE).ok();
    let driver = AcpDriver::new(artifact, Shim::Path(program), data_stream.is_some());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| failed(&e))?;
    let served = runtime.block_on(async {
        let channels = Channels::stdio(data_stream.as_deref())
            .and_then(|channels| channels.with_max_data_frame(frame_max.as_deref()))
            .map_err(|source| ServeError::Io { what: "take over standard input and output", source })?;
        serve(driver, channels).await
    });
    match served {
        Ok(()) => Ok(Exit::Ok),
        // Core was killed or has given up; what this driver started is gone with it.
        Err(ServeError::CoreGone) => Ok(Exit::Failed),
        Err(error) => Err(failed(&error).hint("this command is started by `pintle check`, with pipes as its streams")),
    }
}

/// The digest of a file of any size.
fn digest_of(path: &Path) -> Result<Digest, FsError> {
    const CHUNK_BYTES: usize = 1 << 20;
    let file = fsx::open(&RealFs, path, OpenHow::Read)?;
    let mut digest = DigestBuilder::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let got = fsx::read_at(file.as_ref(), path, &mut chunk, offset)?;
        if got == 0 {
            return Ok(digest.finish());
        }
        digest.update(&chunk[..got]);
        offset += got as u64;
    }
}
