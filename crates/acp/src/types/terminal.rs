//! Terminals of the client: `terminal/*`.

use super::declare::object;
use super::ids::{SessionId, TerminalId};
use super::mcp::EnvVariable;
use super::path::AcpPath;
use super::shape::Fault;

object! {
    /// Starts a command; the reply comes at once, with the terminal's id.
    pub struct CreateTerminalRequest, "a terminal/create request", new(session_id: SessionId, command: String) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The program.
        req command: String = "command",
        /// Its arguments.
        def_strict args: Vec<String> = "args",
        /// Variables to add to its environment.
        def_strict env: Vec<EnvVariable> = "env",
        /// Its working directory; absolute.
        opt_strict cwd: AcpPath = "cwd",
        /// How many bytes of output to keep; the oldest go first, at a character boundary.
        opt_strict output_byte_limit: u64 = "outputByteLimit",
    }
}

impl CreateTerminalRequest {
    /// Checks that the working directory, if there is one, is absolute.
    ///
    /// # Errors
    /// When it is not; the answer to the peer is -32602.
    pub fn validate(&self) -> Result<(), Fault> {
        self.cwd.as_ref().map_or(Ok(()), |cwd| cwd.require_absolute("cwd"))
    }
}

object! {
    /// The command runs.
    pub struct CreateTerminalResponse, "a terminal/create response", new(terminal_id: TerminalId) {
        /// The terminal; it must be released in the end.
        req terminal_id: TerminalId = "terminalId",
    }
}

object! {
    /// Asks for the output so far.
    pub struct TerminalOutputRequest, "a terminal/output request", new(session_id: SessionId, terminal_id: TerminalId) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The terminal.
        req terminal_id: TerminalId = "terminalId",
    }
}

object! {
    /// The output so far.
    pub struct TerminalOutputResponse, "a terminal/output response", new(output: String, truncated: bool) {
        /// What is kept of it.
        req output: String = "output",
        /// Whether something was dropped.
        req truncated: bool = "truncated",
        /// How the command ended, if it did.
        opt exit_status: TerminalExitStatus = "exitStatus",
    }
}

object! {
    /// How a command ended.
    #[derive(Default)]
    pub struct TerminalExitStatus, "an exit status", new() {
        /// Its exit code.
        opt exit_code: u32 = "exitCode",
        /// The signal that ended it.
        opt signal: String = "signal",
    }
}

object! {
    /// Waits for the command to end.
    pub struct WaitForTerminalExitRequest, "a terminal/wait_for_exit request",
        new(session_id: SessionId, terminal_id: TerminalId) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The terminal.
        req terminal_id: TerminalId = "terminalId",
    }
}

object! {
    /// The command ended.
    #[derive(Default)]
    pub struct WaitForTerminalExitResponse, "a terminal/wait_for_exit response", new() {
        /// Its exit code.
        opt exit_code: u32 = "exitCode",
        /// The signal that ended it.
        opt signal: String = "signal",
    }
}

object! {
    /// Kills the command; the terminal stays readable.
    pub struct KillTerminalRequest, "a terminal/kill request", new(session_id: SessionId, terminal_id: TerminalId) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The terminal.
        req terminal_id: TerminalId = "terminalId",
    }
}

object! {
    /// The command is killed.
    #[derive(Default)]
    pub struct KillTerminalResponse, "a terminal/kill response", new() {}
}

object! {
    /// Frees the terminal; kills the command if it still runs.
    pub struct ReleaseTerminalRequest, "a terminal/release request",
        new(session_id: SessionId, terminal_id: TerminalId) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The terminal; its id is not valid from here on.
        req terminal_id: TerminalId = "terminalId",
    }
}

object! {
    /// The terminal is gone.
    #[derive(Default)]
    pub struct ReleaseTerminalResponse, "a terminal/release response", new() {}
}
