//! The client's files: `fs/read_text_file` and `fs/write_text_file` below directories that the client chose.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pintle_acp::types::{
    AcpPath, ReadTextFileRequest, ReadTextFileResponse, WriteTextFileRequest, WriteTextFileResponse,
};
use pintle_acp::{Error, ErrorCode};
use pintle_store::beneath::{Beneath, BeneathError};
use serde_json::json;
use tokio::sync::Semaphore;

/// Read from a file at a time.
const READ_BYTES: usize = 64 * 1024;

/// What the files of a client may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileLimits {
    /// Most that one read answers. 10 MiB by default.
    pub max_read_bytes: usize,
    /// Most that one write takes. 10 MiB by default.
    pub max_write_bytes: usize,
    /// Most that is passed over on the way to the first line that is wanted. 1 GiB by default.
    pub max_skip_bytes: u64,
    /// Reads and writes that go on at a time; others wait. 4 by default.
    pub max_concurrent: usize,
    /// How long one may take, with its waiting, before it is answered with an error: a network drive that does not answer
    /// holds up nobody else. 20 s by default.
    pub timeout: Duration,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            max_read_bytes: 10 * 1024 * 1024,
            max_write_bytes: 10 * 1024 * 1024,
            max_skip_bytes: 1024 * 1024 * 1024,
            max_concurrent: 4,
            timeout: Duration::from_secs(20),
        }
    }
}

/// Text files below a few directories, for an agent.
///
/// A path must be absolute and lead to a regular file below one of the directories; no link gets it out
/// ([`pintle_store::beneath`]). All work is done on the blocking pool, a bounded number of files at a time, so that a slow
/// disk holds up neither the connection nor another session. Clones share directories and bounds.
///
/// Errors for the agent: -32602 with `{reason, path}` for a path that is refused (`path_traversal`, `symlink_escape`,
/// `too_many_symlinks`), for what is no regular file (`not_a_file`), no UTF-8 (`not_utf8`) or too large (`too_large`);
/// -32002 for what is not there; -32603 with the system's reason for everything else.
#[derive(Debug, Clone)]
pub struct Files {
    inner: Arc<Inner>,
    permits: Arc<Semaphore>,
}

#[derive(Debug)]
struct Inner {
    roots: Vec<Beneath>,
    limits: FileLimits,
}

impl Files {
    /// Confines an agent to `roots`, absolute paths of directories that are there. With `rerooted`, the first of them is
    /// the root of every path, as if there were nothing above it.
    ///
    /// # Errors
    /// The directory that cannot be used, and why.
    pub fn below(
        roots: impl IntoIterator<Item = PathBuf>,
        rerooted: bool,
        limits: FileLimits,
    ) -> Result<Self, (PathBuf, BeneathError)> {
        let open = |root: PathBuf| match Beneath::open(&root) {
            Ok(beneath) if rerooted => Ok(beneath.rerooted()),
            Ok(beneath) => Ok(beneath),
            Err(error) => Err((root, error)),
        };
        let roots = roots.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let permits = Arc::new(Semaphore::new(limits.max_concurrent.clamp(1, Semaphore::MAX_PERMITS)));
        Ok(Self { inner: Arc::new(Inner { roots, limits }), permits })
    }

    /// Reads a text file, or `limit` lines from line number `line`, which counts from 1; each of the two may be given
    /// without the other. Lines keep their endings. Behind the last line there is nothing, which is no error.
    ///
    /// # Errors
    /// What the agent is told.
    pub async fn read(&self, request: ReadTextFileRequest) -> Result<ReadTextFileResponse, Error> {
        let ReadTextFileRequest { path, line, limit, .. } = request;
        self.run(move |files| files.read(&path, line, limit)).await.map(ReadTextFileResponse::new)
    }

    /// Writes a text file, as a whole: readers see the old text or the new. The file and the directories above it are made
    /// when they are missing; a file that is there keeps its mode.
    ///
    /// # Errors
    /// What the agent is told.
    pub async fn write(&self, request: WriteTextFileRequest) -> Result<WriteTextFileResponse, Error> {
        let WriteTextFileRequest { path, content, .. } = request;
        self.run(move |files| files.write(&path, &content)).await.map(|()| WriteTextFileResponse::new())
    }

    /// Runs `work` where it may block. A caller that went away does not stop what has begun, which keeps its permit.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let in_time = tokio::time::timeout(self.inner.limits.timeout, async {
            let permit = self.permits.clone().acquire_owned().await.map_err(|_| Error::internal_error())?;
            let inner = self.inner.clone();
            let done = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                work(&inner)
            });
            done.await.unwrap_or_else(|_| Err(Error::internal_error()))
        });
        in_time.await.unwrap_or_else(|_| Err(failed("timed out")))
    }
}

impl Inner {
    fn root(&self, path: &Path) -> Result<&Beneath, BeneathError> {
        // The longest is the nearest, should one lie inside another.
        let inside = self.roots.iter().filter(|root| root.contains(path));
        inside.max_by_key(|root| root.root().as_os_str().len()).ok_or(if path.is_absolute() {
            BeneathError::Outside
        } else {
            BeneathError::Relative
        })
    }

    fn read(&self, path: &AcpPath, line: Option<u32>, limit: Option<u32>) -> Result<String, Error> {
        let open = |path: &Path| self.root(path)?.open_file(path);
        let file = open(path.as_path()).map_err(|error| refusal(path, &error))?;
        let mut wanted = Wanted { limits: &self.limits, line, limit };
        let text = wanted.lines_of(file).map_err(|unread| match unread {
            Unread::TooLarge { limit_bytes } => refusal(path, &BeneathError::TooLarge { limit_bytes }),
            Unread::Io(error) => failed(&error.kind().to_string()),
        })?;
        String::from_utf8(text).map_err(|_| refused(path, "not_utf8"))
    }

    fn write(&self, path: &AcpPath, content: &str) -> Result<(), Error> {
        if content.len() > self.limits.max_write_bytes {
            return Err(refused(path, "too_large"));
        }
        let write = |path: &Path| self.root(path)?.write(path, content.as_bytes());
        write(path.as_path()).map_err(|error| refusal(path, &error))
    }
}

/// Which lines of a file are wanted.
struct Wanted<'a> {
    limits: &'a FileLimits,
    line: Option<u32>,
    limit: Option<u32>,
}

enum Unread {
    TooLarge { limit_bytes: usize },
    Io(io::Error),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Wanted<'_> {
    fn lines_of(&mut self, file: File) -> Result<Vec<u8>, Unread> {
        let limit_bytes = self.limits.max_read_bytes;
        if self.line.is_none() && self.limit.is_none() && file.metadata()?.len() > limit_bytes as u64 {
            return Err(Unread::TooLarge { limit_bytes });
        }
        let mut reader = BufReader::with_capacity(READ_BYTES, file);
        self.skip(&mut reader)?;
        let mut text = Vec::new();
        let mut lines = self.limit;
        while lines != Some(0) {
            let available = fill(&mut reader)?;
            if available.is_empty() {
                break;
            }
            let (taken, ended) = match (lines, available.iter().position(|byte| *byte == b'\n')) {
                (Some(_), Some(end)) => (end + 1, true),
                _ => (available.len(), false),
            };
            if text.len() + taken > limit_bytes {
                return Err(Unread::TooLarge { limit_bytes });
            }
            text.extend_from_slice(&available[..taken]);
            reader.consume(taken);
            if ended {
                lines = lines.map(|lines| lines - 1);
            }
        }
        Ok(text)
    }

    /// Passes over the lines before the first one that is wanted.
    fn skip(&self, reader: &mut BufReader<File>) -> Result<(), Unread> {
        let mut lines = self.line.unwrap_or(1).saturating_sub(1);
        let mut skipped = 0;
        while lines > 0 {
            let available = fill(reader)?;
            if available.is_empty() {
                break;
            }
            let taken = match available.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    lines -= 1;
                    end + 1
                }
                None => available.len(),
            };
            reader.consume(taken);
            skipped += taken as u64;
            if skipped > self.limits.max_skip_bytes {
                return Err(Unread::TooLarge {
                    limit_bytes: usize::try_from(self.limits.max_skip_bytes).unwrap_or(usize::MAX),
                });
            }
        }
        Ok(())
    }
}

fn fill(reader: &mut BufReader<File>) -> io::Result<&[u8]> {
    // Looked at twice, since a borrow that is returned from a loop cannot be retried.
    while let Err(error) = reader.fill_buf() {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    reader.fill_buf()
}

fn refusal(path: &AcpPath, error: &BeneathError) -> Error {
    match error {
        error if error.is_not_found() => Error::resource_not_found(path.as_str()),
        BeneathError::Io { source, .. } => failed(&source.kind().to_string()),
        error => refused(path, error.class()),
    }
}

fn refused(path: &AcpPath, reason: &str) -> Error {
    Error::from(ErrorCode::InvalidParams).data(json!({ "reason": reason, "path": path.as_str() }))
}

fn failed(reason: &str) -> Error {
    Error::from(ErrorCode::InternalError).data(json!({ "reason": reason }))
}
