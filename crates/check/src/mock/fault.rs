use std::fmt;
use std::str::FromStr;

/// One row of the table of faults.
#[derive(Clone, Copy, Debug)]
pub struct FaultInfo {
    /// Which fault.
    pub fault: Fault,
    /// Its name on the command line.
    pub name: &'static str,
    /// What the agent does wrong.
    pub what: &'static str,
    /// The requirements of the pack `acp-v1` that fail or warn for it, and no others do.
    pub fails: &'static [&'static str],
}

macro_rules! faults {
    ($($variant:ident $name:literal $what:literal [$($id:literal),* $(,)?];)+) => {
        /// A named departure from right behaviour.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Fault { $(#[doc = $what] $variant,)+ }

        /// Every fault, with the requirements that it breaks.
        pub const FAULTS: &[FaultInfo] = &[$(FaultInfo {
            fault: Fault::$variant, name: $name, what: $what, fails: &[$($id),*],
        },)+];
    };
}

faults! {
    InitError "init-error" "Answers initialize with an error." ["ACP-INIT-001", "ACP-INIT-003"];
    VersionWrong "version-wrong" "Answers protocol version 1 with 2." ["ACP-INIT-002"];
    VersionEcho "version-echo" "Echoes whatever protocol version it is asked for." ["ACP-INIT-003"];
    VersionString "version-string" "Answers with the protocol version as a string." ["ACP-INIT-001", "ACP-INIT-003"];
    TerminalAuth "terminal-auth" "Offers a terminal login to a client that cannot do it." ["ACP-AUTH-002"];
    SessionError "session-error" "Answers session/new with an error." ["ACP-SESSION-001", "ACP-PROMPT-002"];
    SessionEmptyId "session-empty-id" "Gives sessions an empty id." ["ACP-SESSION-001", "ACP-PROMPT-002"];
    SessionSameId "session-same-id" "Gives every session the same id." ["ACP-SESSION-002", "ACP-PROMPT-002", "ACP-SESSION-501"];
    ModeUnknown "mode-unknown" "Is in a mode that it does not list." ["ACP-MODES-001"];
    ModeError "mode-error" "Refuses to switch to a mode that it lists." ["ACP-MODES-002"];
    ConfigBadValue "config-bad-value" "Has an option whose value it does not list." ["ACP-CONFIG-001"];
    ConfigBoolean "config-boolean" "Sends a boolean option to a client that does not know them." ["ACP-CONFIG-003", "ACP-CONFIG-002"];
    ConfigPartial "config-partial" "Answers a changed option without the list of options." ["ACP-CONFIG-002"];
    PromptUnanswered "prompt-unanswered" "Never answers a prompt." ["ACP-PROMPT-001", "ACP-PERM-503"];
    StopReasonUnknown "stop-reason-unknown" "Ends turns for a reason that the protocol does not have." ["ACP-PROMPT-001", "ACP-PERM-506"];
    ExitEarly "exit-early" "Exits after its first turn." ["ACP-SHUTDOWN-503"];
    UpdateUnknownSession "update-unknown-session" "Sends updates about a session that nobody opened." ["ACP-PROMPT-002", "ACP-PROMPT-507"];
    UpdateNoKind "update-no-kind" "Sends updates without their kind." ["ACP-PROMPT-002"];
    ChunkNoType "chunk-no-type" "Sends message chunks whose content has no type." ["ACP-PROMPT-502"];
    ToolCallNoId "tool-call-no-id" "Sends tool calls without an id." ["ACP-PROMPT-503"];
    PlanNotAList "plan-not-a-list" "Sends a plan that is no list." ["ACP-PROMPT-505"];
    CrossTalk "cross-talk" "Sends the updates of every turn to its first session." ["ACP-PROMPT-507"];
    StdoutNoise "stdout-noise" "Writes a log line to standard output." ["ACP-TRANSPORT-001"];
    StdoutLatin1 "stdout-latin1" "Writes a line that is not UTF-8." ["ACP-TRANSPORT-002"];
    FloodLost "flood-lost" "Loses the answer to a turn that streamed a lot." ["ACP-TRANSPORT-514"];
    ResultAndError "result-and-error" "Answers a prompt with a result and an error." ["ACP-JSONRPC-002", "ACP-PERM-505", "ACP-PROMPT-001"];
    AnswerTwice "answer-twice" "Answers a prompt twice." ["ACP-JSONRPC-501", "ACP-CANCEL-502"];
    IdMangled "id-mangled" "Answers a negative id with a positive one." ["ACP-JSONRPC-001"];
    NotificationAnswered "notification-answered" "Answers notifications that it does not know." ["ACP-JSONRPC-003"];
    ExtUnanswered "ext-unanswered" "Never answers a request with an underscore method." ["ACP-EXT-001", "ACP-JSONRPC-001", "ACP-JSONRPC-005"];
    ExtNotificationFatal "ext-notification-fatal" "Stops answering after a notification with an underscore method." ["ACP-EXT-502", "ACP-JSONRPC-505"];
    UsesFs "uses-fs" "Reads a file through a client that did not offer it." ["ACP-CLIENTCAP-001"];
    UsesTerminal "uses-terminal" "Opens a terminal in a client that did not offer it." ["ACP-CLIENTCAP-002"];
    UsesElicitation "uses-elicitation" "Asks a form of a client that did not offer it." ["ACP-CLIENTCAP-003"];
    FsRelativePath "fs-relative-path" "Names files by relative paths." ["ACP-CLIENT-501"];
    CallWrongSession "call-wrong-session" "Calls the client for a session that nobody opened." ["ACP-CLIENT-502"];
    TerminalAfterRelease "terminal-after-release" "Asks for the output of a terminal that it released." ["ACP-CLIENT-504"];
    TerminalRelativeCwd "terminal-relative-cwd" "Opens a terminal in a relative folder." ["ACP-CLIENT-505"];
    CallbackHang "callback-hang" "Never sees the answers of the client's methods." ["ACP-CLIENT-506", "ACP-CLIENT-507"];
    RefusalHang "refusal-hang" "Hangs when a method of the client fails." ["ACP-CLIENT-507"];
    CancelIgnored "cancel-ignored" "Ignores a cancel." ["ACP-CANCEL-001", "ACP-CANCEL-506", "ACP-PERM-506"];
    CancelLateUpdate "cancel-late-update" "Goes on sending after a cancelled turn was answered." ["ACP-CANCEL-002"];
    CancelError "cancel-error" "Answers a cancelled prompt with an error." ["ACP-CANCEL-501", "ACP-CANCEL-001", "ACP-PERM-506"];
    CancelTwice "cancel-twice" "Answers a cancelled prompt twice." ["ACP-CANCEL-502", "ACP-JSONRPC-501"];
    CancelAnswered "cancel-answered" "Answers the cancel itself." ["ACP-CANCEL-503"];
    CancelWedged "cancel-wedged" "Answers no prompt after a cancel." ["ACP-CANCEL-001", "ACP-CANCEL-504"];
    EarlyCancelLost "early-cancel-lost" "Never answers a prompt that is cancelled before its first update." ["ACP-CANCEL-506"];
    EarlyCancelWedged "early-cancel-wedged" "Answers no prompt after a cancel that came before the first update." ["ACP-CANCEL-508"];
    CancelWrongSession "cancel-wrong-session" "Cancels another session than the one named." ["ACP-CANCEL-509", "ACP-PERM-506"];
    RefusesImage "refuses-image" "Refuses the images that it advertises." ["ACP-PROMPTCAP-001"];
    RefusesAudio "refuses-audio" "Refuses the audio that it advertises." ["ACP-PROMPTCAP-002"];
    RefusesEmbedded "refuses-embedded" "Refuses the embedded context that it advertises." ["ACP-PROMPTCAP-003"];
    PermissionBadKind "permission-bad-kind" "Asks for permission with a kind of option that nobody knows." ["ACP-PERM-501"];
    PermissionAllowedHang "permission-allowed-hang" "Hangs after permission was given." ["ACP-PERM-503", "ACP-CLIENT-506"];
    PermissionRejectedHang "permission-rejected-hang" "Hangs after permission was refused." ["ACP-PERM-504"];
    PermissionCancelEnds "permission-cancel-ends" "Ends a turn normally that was cancelled while permission was open." ["ACP-PERM-506"];
    ListNoList "list-no-list" "Lists sessions as an object." ["ACP-LIST-001"];
    ListIgnoresCwd "list-ignores-cwd" "Lists the sessions of every folder." ["ACP-LIST-002"];
    LoadError "load-error" "Cannot load a session although it says so." ["ACP-LOAD-001"];
    LoadReplaysLate "load-replays-late" "Replays the history after it has answered session/load." ["ACP-LOAD-002", "ACP-LOAD-501"];
    ResumeError "resume-error" "Cannot resume a session although it says so." ["ACP-RESUME-001"];
    ResumeReplays "resume-replays" "Replays the history on session/resume." ["ACP-RESUME-002"];
    DirectoriesError "directories-error" "Refuses the additional directories that it advertises." ["ACP-ADDDIRS-001", "ACP-PROMPT-002"];
    CloseError "close-error" "Cannot close a session although it says so." ["ACP-CLOSE-001"];
    DeleteError "delete-error" "Cannot delete a session although it says so." ["ACP-DELETE-001"];
    IgnoresEof "ignores-eof" "Stays when its standard input is closed." ["ACP-SHUTDOWN-001"];
    LeavesChild "leaves-child" "Leaves a process behind." ["ACP-SHUTDOWN-501"];
    InfoNoVersion "info-no-version" "Tells its name and no version." ["ACP-INIT-004"];
    CapabilityText "capability-text" "Advertises a capability by a word where true belongs." ["ACP-INIT-501"];
    AuthSameId "auth-same-id" "Offers two ways to log in under one id." ["ACP-AUTH-001"];
    LateUpdate "late-update" "Goes on sending after it has answered." ["ACP-PROMPT-501"];
    TerminalKept "terminal-kept" "Never releases a terminal." ["ACP-CLIENT-503"];
    IdleCancelKept "idle-cancel-kept" "Cancels the next prompt for a cancel that came while nothing ran." ["ACP-CANCEL-505"];
    RefusesLink "refuses-link" "Refuses links to resources." ["ACP-PROMPT-003"];
    RefusesMeta "refuses-meta" "Refuses what carries _meta." ["ACP-META-001"];
    Utf8Fatal "utf8-fatal" "Loses the request behind a line that is not UTF-8." ["ACP-TRANSPORT-510"];
    GarbageFatal "garbage-fatal" "Loses the request behind a line that is not JSON." ["ACP-TRANSPORT-507", "ACP-TRANSPORT-513"];
    BlankFatal "blank-fatal" "Loses the request behind a blank line." ["ACP-TRANSPORT-508"];
    EnvelopeFatal "envelope-fatal" "Loses the request behind an object that is no message." ["ACP-TRANSPORT-509"];
    BadIdFatal "bad-id-fatal" "Loses the request behind one that is malformed." ["ACP-JSONRPC-506"];
    BatchFatal "batch-fatal" "Loses the request behind a batch." ["ACP-BATCH-501"];
    StrayFatal "stray-fatal" "Loses the request behind an answer that nobody asked for." ["ACP-JSONRPC-503"];
    LongLineLost "long-line-lost" "Loses lines of more than 100 kB." ["ACP-TRANSPORT-511"];
    HugeLineLost "huge-line-lost" "Loses lines of more than 500 kB." ["ACP-TRANSPORT-512"];
    BigIdRounded "big-id-rounded" "Rounds the ids that a double cannot hold." ["ACP-JSONRPC-502"];
    UnknownMethodCode "unknown-method-code" "Answers an unknown method with an internal error." ["ACP-JSONRPC-004"];
    ExtCode "ext-code" "Answers an unknown underscore method with an internal error." ["ACP-EXT-501"];
    DuplicateName "duplicate-name" "Writes a member twice." ["ACP-TRANSPORT-503"];
    LoneSurrogate "lone-surrogate" "Cuts a character in the middle of its escape." ["ACP-TRANSPORT-505"];
    ErrorLines "error-lines" "Puts a stack trace into the message of an error." ["ACP-ERROR-001"];
    ToolCallUnannounced "tool-call-unannounced" "Updates a tool call that it never announced." ["ACP-PROMPT-504"];
    ToolStatusUnknown "tool-status-unknown" "Gives tool calls a status that the protocol does not have." ["ACP-PROMPT-506"];
    PermissionSameId "permission-same-id" "Gives two options of a question the same id." ["ACP-PERM-502"];
    RefusedCompletes "refused-completes" "Completes what was refused." ["ACP-PERM-507"];
    PermissionBlocks "permission-blocks" "Opens no session while a question is open." ["ACP-PERM-508", "ACP-PROMPT-002"];
    CloseLosesTurn "close-loses-turn" "Never answers the prompt of a session that was closed." ["ACP-CLOSE-002"];
    AuthUnasked "auth-unasked" "Wants a login before it opens a session, and offers none." ["ACP-AUTH-005", "ACP-PROMPT-002"];
    EarlyCancelRunsOn "early-cancel-runs-on" "Runs on after a cancel that came before the first update." ["ACP-CANCEL-507"];
    OtherTurnLost "other-turn-lost" "Loses a prompt while a turn runs in another session." ["ACP-SESSION-503"];
    LastLineTorn "last-line-torn" "Ends its last line without a line feed." ["ACP-TRANSPORT-504"];
    DeleteTwiceError "delete-twice-error" "Refuses to delete a session that is gone." ["ACP-DELETE-002"];
}

impl Fault {
    /// Its row.
    pub fn info(self) -> &'static FaultInfo {
        // The table is made by the same macro as the enum, in the same order.
        &FAULTS[self as usize]
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)
    }
}

/// A name that no fault has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no fault has that name; `pintle mock agent --list-faults` shows them")]
pub struct UnknownFault;

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(name: &str) -> Result<Self, UnknownFault> {
        FAULTS.iter().find(|row| row.name == name).map(|row| row.fault).ok_or(UnknownFault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lead_back() {
        let mut seen = std::collections::BTreeSet::new();
        for row in FAULTS {
            assert!(seen.insert(row.name), "{} twice", row.name);
            assert_eq!(row.name.parse(), Ok(row.fault));
            assert_eq!(row.fault.info().name, row.name);
            assert!(!row.fails.is_empty(), "{} breaks nothing", row.name);
        }
        assert_eq!("no-such-fault".parse::<Fault>(), Err(UnknownFault));
    }
}
