//! What an agent does in a turn besides talking: tool calls, and the client's files and terminals.

use std::fmt;

use pintle_acp::permission::Decision;
use pintle_acp::types::{
    AcpPath, CreateTerminalRequest, Diff, KillTerminalRequest, PermissionOption, ReadTextFileRequest,
    ReleaseTerminalRequest, TerminalContent, TerminalId, TerminalOutputRequest, TerminalOutputResponse, ToolCall,
    ToolCallContent, ToolCallId, ToolCallStatus, ToolCallUpdate, WaitForTerminalExitRequest,
    WaitForTerminalExitResponse, WriteTextFileRequest,
};
use pintle_acp::{Error, UpdateError};

use super::connection::RequestError;
use super::turn::Turn;

impl Turn {
    /// Announces a tool call and returns its further life. Its status is `pending` unless it says otherwise.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn start_tool(&self, call: ToolCall) -> Result<ToolRun, UpdateError> {
        let (id, content) = (call.tool_call_id.clone(), call.content.to_vec());
        self.tool_call(call).await?;
        Ok(ToolRun { turn: self.clone(), id, content, ended: false })
    }

    /// Reads a text file of the client, unsaved changes included.
    ///
    /// # Errors
    /// The client did not advertise it, or there is no such text.
    pub async fn read_text_file(&self, path: impl Into<AcpPath>) -> Result<String, RequestError> {
        let request = ReadTextFileRequest::new(self.session_id().clone(), path.into());
        Ok(self.request(request).await?.content)
    }

    /// Reads some lines of a text file of the client: at most `limit`, from line number `line`, which counts from 1.
    ///
    /// # Errors
    /// The client did not advertise it, or there is no such text.
    pub async fn read_text_lines(
        &self,
        path: impl Into<AcpPath>,
        line: Option<u32>,
        limit: Option<u32>,
    ) -> Result<String, RequestError> {
        let mut request = ReadTextFileRequest::new(self.session_id().clone(), path.into());
        (request.line, request.limit) = (line, limit);
        Ok(self.request(request).await?.content)
    }

    /// Writes a text file of the client, as a whole.
    ///
    /// # Errors
    /// The client did not advertise it, or refuses.
    pub async fn write_text_file(
        &self,
        path: impl Into<AcpPath>,
        content: impl Into<String>,
    ) -> Result<(), RequestError> {
        let request = WriteTextFileRequest::new(self.session_id().clone(), path.into(), content.into());
        self.request(request).await.map(|_| ())
    }

    /// Runs a command in a terminal of the client. The request's session is replaced by the turn's.
    ///
    /// # Errors
    /// The client did not advertise it, or the command cannot be run.
    pub async fn run_command(&self, mut command: CreateTerminalRequest) -> Result<TurnTerminal, RequestError> {
        command.session_id = self.session_id().clone();
        let id = self.request(command).await?.terminal_id;
        Ok(TurnTerminal { turn: self.clone(), id, released: false })
    }
}

/// A tool call from its announcement to its end. One that is dropped without an end is told as failed, so that no client
/// shows it as running for ever.
#[must_use = "a tool call that is dropped has failed"]
pub struct ToolRun {
    turn: Turn,
    id: ToolCallId,
    /// All of it: an update replaces the list as a whole.
    content: Vec<ToolCallContent>,
    ended: bool,
}

impl ToolRun {
    /// Its id.
    pub fn id(&self) -> &ToolCallId {
        &self.id
    }

    /// Asks the user whether it may go on; fails closed, as [`Turn::ask_permission`] does.
    ///
    /// # Errors
    /// Two of the options have the same id.
    pub async fn ask(&self, options: impl IntoIterator<Item = PermissionOption>) -> Result<Decision, Error> {
        self.turn.ask_permission(ToolCallUpdate::new(self.id.clone()), options).await
    }

    /// It runs.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn running(&self) -> Result<(), UpdateError> {
        self.change(|update| update.status = Some(ToolCallStatus::InProgress)).await
    }

    /// Changes anything else about it.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn change(&self, change: impl FnOnce(&mut ToolCallUpdate)) -> Result<(), UpdateError> {
        let mut update = ToolCallUpdate::new(self.id.clone());
        change(&mut update);
        self.turn.tool_call_update(update).await
    }

    /// Adds something that it produced: text or another content block, a diff, a terminal.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn add(&mut self, content: impl Into<ToolCallContent>) -> Result<(), UpdateError> {
        self.content.push(content.into());
        let content = self.content.clone().into();
        self.change(|update| update.content = Some(content)).await
    }

    /// Adds a change of a file: `None` for what was in a file that is new.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn diff(
        &mut self,
        path: impl Into<AcpPath>,
        old: Option<String>,
        new: impl Into<String>,
    ) -> Result<(), UpdateError> {
        let mut diff = Diff::new(path.into(), new.into());
        diff.old_text = old;
        self.add(diff).await
    }

    /// Shows a terminal in it, live.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn show(&mut self, terminal: &TurnTerminal) -> Result<(), UpdateError> {
        self.add(TerminalContent::new(terminal.id.clone())).await
    }

    /// It is done.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn complete(self) -> Result<(), UpdateError> {
        self.end(ToolCallStatus::Completed).await
    }

    /// It failed.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn fail(self) -> Result<(), UpdateError> {
        self.end(ToolCallStatus::Failed).await
    }

    async fn end(mut self, status: ToolCallStatus) -> Result<(), UpdateError> {
        self.change(|update| update.status = Some(status)).await?;
        self.ended = true;
        Ok(())
    }
}

impl Drop for ToolRun {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut update = ToolCallUpdate::new(self.id.clone());
        update.status = Some(ToolCallStatus::Failed);
        if self.turn.try_update(update.clone()).is_err() && tokio::runtime::Handle::try_current().is_ok() {
            // There may be no room now. As a part of the turn it still comes before the turn's end; if that has come,
            // there is nobody to tell.
            let turn = self.turn.clone();
            let _ = self.turn.spawn(async move {
                let _ = turn.update(update).await;
            });
        }
    }
}

impl fmt::Debug for ToolRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRun").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A command in a terminal of the client. It is released in the end, as the protocol asks: by [`TurnTerminal::release`],
/// or when this is dropped.
pub struct TurnTerminal {
    turn: Turn,
    id: TerminalId,
    released: bool,
}

impl TurnTerminal {
    /// Its id.
    pub fn id(&self) -> &TerminalId {
        &self.id
    }

    /// What the command printed so far.
    ///
    /// # Errors
    /// The client does not answer with it.
    pub async fn output(&self) -> Result<TerminalOutputResponse, RequestError> {
        self.turn.request(TerminalOutputRequest::new(self.turn.session_id().clone(), self.id.clone())).await
    }

    /// Waits for the command's end, at most half an hour.
    ///
    /// # Errors
    /// The client does not answer with it.
    pub async fn wait(&self) -> Result<WaitForTerminalExitResponse, RequestError> {
        self.turn.request(WaitForTerminalExitRequest::new(self.turn.session_id().clone(), self.id.clone())).await
    }

    /// Kills the command; the terminal and its output stay.
    ///
    /// # Errors
    /// The client does not do it.
    pub async fn kill(&self) -> Result<(), RequestError> {
        let kill = KillTerminalRequest::new(self.turn.session_id().clone(), self.id.clone());
        self.turn.request(kill).await.map(|_| ())
    }

    /// Kills the command if it still runs, and gives the terminal back.
    ///
    /// # Errors
    /// The client does not do it.
    pub async fn release(mut self) -> Result<(), RequestError> {
        let release = self.release_request();
        self.turn.request(release).await?;
        self.released = true;
        Ok(())
    }

    fn release_request(&self) -> ReleaseTerminalRequest {
        ReleaseTerminalRequest::new(self.turn.session_id().clone(), self.id.clone())
    }
}

impl Drop for TurnTerminal {
    fn drop(&mut self) {
        if !self.released && tokio::runtime::Handle::try_current().is_ok() {
            let (connection, release) = (self.turn.connection().clone(), self.release_request());
            // Not a part of the turn, which may be over. Whether it worked, nobody is there to hear.
            self.turn.connection().link().tasks.spawn(async move {
                let _ = connection.request(release).await;
            });
        }
    }
}

impl fmt::Debug for TurnTerminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnTerminal").field("id", &self.id).finish_non_exhaustive()
    }
}
