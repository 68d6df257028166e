//! Files of the client, unsaved changes included: `fs/read_text_file`, `fs/write_text_file`.

use super::declare::object;
use super::ids::SessionId;
use super::path::AcpPath;
use super::shape::Fault;

object! {
    /// Reads a text file, as a whole or a range of lines.
    pub struct ReadTextFileRequest, "an fs/read_text_file request", new(session_id: SessionId, path: AcpPath) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The file; absolute.
        req path: AcpPath = "path",
        /// The first line, from 1.
        opt_strict line: u32 = "line",
        /// How many lines at most.
        opt_strict limit: u32 = "limit",
    }
}

object! {
    /// What is in the file.
    pub struct ReadTextFileResponse, "an fs/read_text_file response", new(content: String) {
        /// The text.
        req content: String = "content",
    }
}

object! {
    /// Writes a text file; creates it if it is not there.
    pub struct WriteTextFileRequest, "an fs/write_text_file request",
        new(session_id: SessionId, path: AcpPath, content: String) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The file; absolute.
        req path: AcpPath = "path",
        /// The text.
        req content: String = "content",
    }
}

object! {
    /// The file is written. Older clients answer `null`.
    #[derive(Default)]
    pub struct WriteTextFileResponse, "an fs/write_text_file response", new() {}
}

impl ReadTextFileRequest {
    /// Checks that the path is absolute and that lines are counted from 1.
    ///
    /// # Errors
    /// The first member that breaks the rule; the answer to the peer is -32602.
    pub fn validate(&self) -> Result<(), Fault> {
        self.path.require_absolute("path")?;
        if self.line == Some(0) {
            return Err(Fault::expected("a line number from 1").inside("line"));
        }
        Ok(())
    }
}

impl WriteTextFileRequest {
    /// Checks that the path is absolute.
    ///
    /// # Errors
    /// When it is not; the answer to the peer is -32602.
    pub fn validate(&self) -> Result<(), Fault> {
        self.path.require_absolute("path")
    }
}
