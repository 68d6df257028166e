//! The rows.

use super::gate::{self, Gate};
use super::{Kind, Layer, Method, Side};

/// Calls `$with! { .. }` with every row of the method table, so that other crates can derive from it.
///
/// The rows come in five groups, each a list in table order:
///
/// ```text
/// agent_requests { Id = "wire" callback(Params) -> Result; .. }
/// client_requests { .. }
/// agent_notifications { Id = "wire" callback(Params); .. }
/// client_notifications { .. }
/// ```
///
/// Only rows with a callback are in it: what the connection handles itself is nobody's trait method.
#[macro_export]
macro_rules! method_table {
    ($with:path) => {
        $with! {
            agent_requests {
                Initialize = "initialize" initialize(InitializeRequest) -> InitializeResponse;
                Authenticate = "authenticate" authenticate(AuthenticateRequest) -> AuthenticateResponse;
                Logout = "logout" logout(LogoutRequest) -> LogoutResponse;
                NewSession = "session/new" new_session(NewSessionRequest) -> NewSessionResponse;
                LoadSession = "session/load" load_session(LoadSessionRequest) -> LoadSessionResponse;
                ResumeSession = "session/resume" resume_session(ResumeSessionRequest) -> ResumeSessionResponse;
                ListSessions = "session/list" list_sessions(ListSessionsRequest) -> ListSessionsResponse;
                CloseSession = "session/close" close_session(CloseSessionRequest) -> CloseSessionResponse;
                DeleteSession = "session/delete" delete_session(DeleteSessionRequest) -> DeleteSessionResponse;
                SetSessionMode = "session/set_mode" set_session_mode(SetSessionModeRequest) -> SetSessionModeResponse;
                SetSessionConfigOption = "session/set_config_option" set_session_config_option(SetSessionConfigOptionRequest) -> SetSessionConfigOptionResponse;
                Prompt = "session/prompt" prompt(PromptRequest) -> PromptResponse;
                LoadDurableSession = "_pintle/session.load" load_durable_session(LoadSessionRequest) -> LoadSessionResponse;
                SteerSession = "_pintle/session.steer" steer_session(SteerRequest) -> SteerResponse;
            }
            client_requests {
                RequestPermission = "session/request_permission" request_permission(RequestPermissionRequest) -> RequestPermissionResponse;
                ReadTextFile = "fs/read_text_file" read_text_file(ReadTextFileRequest) -> ReadTextFileResponse;
                WriteTextFile = "fs/write_text_file" write_text_file(WriteTextFileRequest) -> WriteTextFileResponse;
                CreateTerminal = "terminal/create" create_terminal(CreateTerminalRequest) -> CreateTerminalResponse;
                TerminalOutput = "terminal/output" terminal_output(TerminalOutputRequest) -> TerminalOutputResponse;
                WaitForTerminalExit = "terminal/wait_for_exit" wait_for_terminal_exit(WaitForTerminalExitRequest) -> WaitForTerminalExitResponse;
                KillTerminal = "terminal/kill" kill_terminal(KillTerminalRequest) -> KillTerminalResponse;
                ReleaseTerminal = "terminal/release" release_terminal(ReleaseTerminalRequest) -> ReleaseTerminalResponse;
                CreateElicitation = "elicitation/create" create_elicitation(CreateElicitationRequest) -> CreateElicitationResponse;
            }
            agent_notifications {}
            client_notifications {
                SessionUpdate = "session/update" session_update(SessionNotification);
                CompleteElicitation = "elicitation/complete" complete_elicitation(CompleteElicitationNotification);
                SessionRecord = "_pintle/session.record" session_record(SessionRecordNotification);
                SessionCaughtUp = "_pintle/session.caught_up" session_caught_up(CaughtUpNotification);
                SessionLagged = "_pintle/session.lagged" session_lagged(LaggedNotification);
                SessionClosed = "_pintle/session.closed" session_closed(ClosedNotification);
            }
        }
    };
}

/// What the rows of [`method_table!`] say, and beside it what only this crate needs: rows without a callback,
/// gates, layers, ages, other spellings.
macro_rules! rows {
    (
        agent_requests { $( $aid:ident = $awire:literal $acall:ident($aparams:ident) -> $aresult:ident; )* }
        client_requests { $( $cid:ident = $cwire:literal $ccall:ident($cparams:ident) -> $cresult:ident; )* }
        agent_notifications { $( $anid:ident = $anwire:literal $ancall:ident($anparams:ident); )* }
        client_notifications { $( $cnid:ident = $cnwire:literal $cncall:ident($cnparams:ident); )* }
    ) => {
        /// The key of a row of [`METHODS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum MethodId {
            $( #[doc = concat!("`", $awire, "`, handled by the agent.")] $aid, )*
            $( #[doc = concat!("`", $cwire, "`, handled by the client.")] $cid, )*
            $( #[doc = concat!("`", $anwire, "`, handled by the agent.")] $anid, )*
            $( #[doc = concat!("`", $cnwire, "`, handled by the client.")] $cnid, )*
            /// `session/cancel`, handled by the agent's connection.
            CancelSession,
            /// `_pintle/session.detach`, handled by the agent's connection.
            DetachSession,
            /// `$/cancel_request`, handled by either connection.
            CancelRequest,
        }

        /// Every method of protocol version 1, and Pintle's own.
        pub const METHODS: &[Method] = &[
            $( row(MethodId::$aid, $awire, Side::Agent, Kind::Request, Some(stringify!($acall)), stringify!($aparams), Some(stringify!($aresult))), )*
            $( row(MethodId::$cid, $cwire, Side::Client, Kind::Request, Some(stringify!($ccall)), stringify!($cparams), Some(stringify!($cresult))), )*
            $( row(MethodId::$anid, $anwire, Side::Agent, Kind::Notification, Some(stringify!($ancall)), stringify!($anparams), None), )*
            $( row(MethodId::$cnid, $cnwire, Side::Client, Kind::Notification, Some(stringify!($cncall)), stringify!($cnparams), None), )*
            row(MethodId::CancelSession, "session/cancel", Side::Agent, Kind::Notification, None, "CancelNotification", None),
            row(MethodId::DetachSession, "_pintle/session.detach", Side::Agent, Kind::Notification, None, "DetachNotification", None),
            row(MethodId::CancelRequest, "$/cancel_request", Side::Both, Kind::Notification, None, "CancelRequestNotification", None),
        ];

        impl MethodId {
            /// The key of a name on the wire, in either spelling.
            pub fn from_wire(wire: &str) -> Option<Self> {
                // What is sent most, and what no row can have, need no look at the table.
                if wire == "session/update" {
                    return Some(Self::SessionUpdate);
                }
                let is_foreign = wire.starts_with('_') && !OWN_PREFIXES.iter().any(|prefix| wire.starts_with(prefix));
                if is_foreign {
                    return None;
                }
                Some(match wire {
                    $( $awire => Self::$aid, )*
                    $( $cwire => Self::$cid, )*
                    $( $anwire => Self::$anid, )*
                    $( $cnwire => Self::$cnid, )*
                    "session/cancel" => Self::CancelSession,
                    "_pintle/session.detach" => Self::DetachSession,
                    "$/cancel_request" => Self::CancelRequest,
                    _ if wire.starts_with(ALIAS_PREFIX) => {
                        return METHODS.iter().find(|method| method.alias == Some(wire)).map(|method| method.id);
                    }
                    _ => return None,
                })
            }
        }
    };
}

method_table!(rows);

impl MethodId {
    /// The row.
    pub const fn method(self) -> &'static Method {
        &METHODS[self as usize]
    }

    /// The name on the wire.
    pub const fn wire(self) -> &'static str {
        self.method().wire
    }
}

const fn row(
    id: MethodId,
    wire: &'static str,
    side: Side,
    kind: Kind,
    callback: Option<&'static str>,
    params: &'static str,
    result: Option<&'static str>,
) -> Method {
    // `logout` has nothing to tell but `_meta`, so its handler takes the context only (R-006).
    let params = if matches!(id, MethodId::Logout) { None } else { Some(params) };
    let alias = alias(id);
    Method {
        id,
        wire,
        alias,
        side,
        kind,
        callback,
        params,
        result,
        gate: gate(id),
        layer: match id {
            MethodId::CancelSession | MethodId::DetachSession => Layer::SessionControl,
            MethodId::CancelRequest => Layer::Protocol,
            _ => Layer::App,
        },
        since: if alias.is_some() { None } else { Some(since(id)) },
        protocol_version: 1,
    }
}

/// What every alias begins with.
const ALIAS_PREFIX: &str = "_raxol/session.";
/// What every name in the table begins with that begins with `_`.
const OWN_PREFIXES: [&str; 2] = ["_pintle/session.", ALIAS_PREFIX];

const fn alias(id: MethodId) -> Option<&'static str> {
    Some(match id {
        MethodId::LoadDurableSession => "_raxol/session.load",
        MethodId::SteerSession => "_raxol/session.steer",
        MethodId::SessionRecord => "_raxol/session.record",
        MethodId::SessionCaughtUp => "_raxol/session.caught_up",
        MethodId::SessionLagged => "_raxol/session.lagged",
        MethodId::SessionClosed => "_raxol/session.closed",
        MethodId::DetachSession => "_raxol/session.detach",
        _ => return None,
    })
}

const fn gate(id: MethodId) -> Option<Gate> {
    Some(match id {
        MethodId::LoadSession => gate::LOAD_SESSION,
        MethodId::ResumeSession => gate::RESUME,
        MethodId::ListSessions => gate::LIST,
        MethodId::CloseSession => gate::CLOSE,
        MethodId::DeleteSession => gate::DELETE,
        MethodId::Logout => gate::LOGOUT,
        MethodId::ReadTextFile => gate::FS_READ,
        MethodId::WriteTextFile => gate::FS_WRITE,
        MethodId::CreateTerminal
        | MethodId::TerminalOutput
        | MethodId::WaitForTerminalExit
        | MethodId::KillTerminal
        | MethodId::ReleaseTerminal => gate::TERMINAL,
        MethodId::CreateElicitation => gate::ELICITATION,
        MethodId::CompleteElicitation => gate::ELICITATION_URL,
        _ => return None,
    })
}

/// The month by which a method was stable, from the protocol's announcements and schema releases.
const fn since(id: MethodId) -> &'static str {
    match id {
        MethodId::SetSessionConfigOption => "2026-02",
        MethodId::ListSessions => "2026-03",
        MethodId::ResumeSession | MethodId::CloseSession => "2026-04",
        MethodId::DeleteSession | MethodId::Logout => "2026-06",
        MethodId::CancelRequest => "2026-07",
        MethodId::CreateElicitation | MethodId::CompleteElicitation => "2026-08",
        _ => "2025-10",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The short cuts find what the table has: every name in both of its spellings, and nothing that only looks like one.
    #[test]
    fn names_are_found_in_both_spellings() {
        for method in METHODS {
            for wire in [Some(method.wire), method.alias].into_iter().flatten() {
                assert_eq!(MethodId::from_wire(wire), Some(method.id), "{wire}");
                assert_eq!(MethodId::from_wire(&format!("{wire}_")), None);
                assert_eq!(MethodId::from_wire(&format!("_{wire}")), None);
                assert_eq!(MethodId::from_wire(&wire[1..]), None);
            }
        }
    }
}
