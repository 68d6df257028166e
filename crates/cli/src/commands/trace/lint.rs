//! What the protocol does not allow, found as frames pass. It sees both directions in the order in which they passed, and
//! judges nobody: a fault here is a note beside the frame.
//!
//! Everything it remembers is bounded. Where it could not see everything, it says nothing that depends on it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use pintle_acp::types::*;
use pintle_acp::{Kind as MethodKind, Method, MethodId, NotificationToAgent, NotificationToClient, Side};
use pintle_acp::{RequestToAgent, RequestToClient, TextUpdate};
use pintle_store::{Sanitised, Sanitiser, sanitise::KEPT_GARBAGE_BYTES};
use pintle_wire::{
    Envelope, EnvelopeError, Id, IdField, JsonError, Kind, Malformed, Profile, ScanLimits, Text, VersionRule, scan,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::row::{Dir, Fault, Unanswered};

/// Requests of one direction, and sessions, that are remembered; more make it silent about the rules that need them.
const MAX_REMEMBERED: usize = 4096;
/// Answered ids of one direction that are remembered, to tell a second answer from one to nothing.
const MAX_ANSWERED: usize = 1024;
/// How much of a name of a peer's stands in a message.
const NAME_CHARS: usize = 64;

/// A line that was looked at, once for everybody who wants to know what it is.
pub(super) enum Looked<'a> {
    Blank,
    /// What nearly every line is.
    Update(TextUpdate<'a>),
    Json(Text<'a>),
    Garbage(JsonError),
}

impl<'a> Looked<'a> {
    pub(super) fn at(line: &'a [u8]) -> Self {
        if line.is_empty() {
            return Self::Blank;
        }
        if let Some(update) = TextUpdate::scan(line).filter(|_| line.len() <= ScanLimits::ACP.max_bytes) {
            return Self::Update(update);
        }
        scan(line, Profile::Acp, ScanLimits::ACP).map_or_else(Self::Garbage, Self::Json)
    }

    /// What is kept of the line; `None` if it is kept as it is.
    pub(super) fn sanitised(&self, line: &[u8], sanitiser: &Sanitiser) -> Option<Sanitised> {
        match self {
            Self::Blank => None,
            Self::Update(update) if sanitiser.passes(update.as_str()) => None,
            Self::Update(_) => Some(sanitiser.line(line)),
            Self::Json(text) => Some(sanitiser.json(text)),
            Self::Garbage(_) => Some(sanitiser.text(line, KEPT_GARBAGE_BYTES)),
        }
    }
}

/// Both directions of one connection.
#[derive(Debug, Default)]
pub(super) struct Linter {
    /// Open requests by the direction in which they travelled.
    open: [HashMap<Id, Open>; 2],
    answered: [VecDeque<Id>; 2],
    sessions: HashMap<Box<str>, Session>,
    agent: Option<Capabilities>,
    client: Option<Capabilities>,
    initialize_seen: bool,
    initialized: bool,
    /// Something was not seen, or did not fit: the tables cannot be trusted.
    uncertain: bool,
}

#[derive(Debug)]
struct Open {
    method: Box<str>,
    id: Option<MethodId>,
    session: Option<Box<str>>,
}

#[derive(Debug, Default)]
struct Session {
    turn_is_open: bool,
    had_a_turn: bool,
    is_loading: bool,
}

impl Linter {
    /// Bytes were not seen.
    pub(super) fn lost(&mut self) {
        self.uncertain = true;
    }

    /// What is wrong with one line. A blank line is nothing.
    pub(super) fn line(&mut self, dir: Dir, line: &Looked<'_>) -> Vec<Fault> {
        let mut faults = Faults(Vec::new());
        match line {
            Looked::Blank => {}
            Looked::Update(update) => {
                if !self.text_update(dir, update, &mut faults) {
                    let scanned = scan(update.as_str().as_bytes(), Profile::Acp, ScanLimits::ACP);
                    self.scanned(dir, scanned.as_ref(), &mut faults);
                }
            }
            Looked::Json(text) => self.scanned(dir, Ok(text), &mut faults),
            Looked::Garbage(error) => self.scanned(dir, Err(error), &mut faults),
        }
        faults.0
    }

    fn scanned(&mut self, dir: Dir, line: Result<&Text<'_>, &JsonError>, faults: &mut Faults) {
        match line.map(Envelope::parse) {
            Err(error) => faults.add("garbage", format!("not strict JSON: {error}")),
            Ok(Ok(envelope)) => self.envelope(dir, &envelope, faults),
            Ok(Err(EnvelopeError::Batch)) => faults.add("batch", "ACP has no batches"),
            Ok(Err(EnvelopeError::Scalar)) => faults.add("not_an_object", "a message is an object"),
        }
    }

    /// The same for a piece of text in the usual form, of which only the session has to be known. False if there is more to
    /// say of it.
    fn text_update(&mut self, dir: Dir, update: &TextUpdate<'_>, faults: &mut Faults) -> bool {
        let (Dir::FromAgent, Some(session), Some(tag)) = (dir, update.session(), update.kind()) else { return false };
        self.gate(dir, MethodId::SessionUpdate.method(), faults);
        self.update_of(session, tag, faults);
        true
    }

    /// Requests that nobody answered.
    pub(super) fn unanswered(&self) -> Vec<Unanswered> {
        let mut found: Vec<Unanswered> = Dir::BOTH
            .into_iter()
            .flat_map(|dir| {
                self.open[dir as usize].iter().map(move |(id, open)| Unanswered {
                    dir,
                    method: shortened(&open.method).into_owned(),
                    id: shortened(&id.to_string()).into_owned(),
                })
            })
            .collect();
        found.sort();
        found.truncate(MAX_ANSWERED);
        found
    }

    fn envelope(&mut self, dir: Dir, envelope: &Envelope<'_>, faults: &mut Faults) {
        let mut kind = envelope.kind(VersionRule::Required);
        if let Kind::Malformed(Malformed::Version | Malformed::ResponseVersion) = kind {
            faults.add("wrong_jsonrpc", "jsonrpc is missing or not \"2.0\"");
            kind = envelope.kind(VersionRule::Ignored);
        }
        match kind {
            Kind::Request => self.request(dir, envelope, faults),
            Kind::Notification => self.notification(dir, envelope, faults),
            Kind::Response => self.response(dir, envelope, faults),
            // This is how garbage is answered.
            Kind::Malformed(Malformed::ResponseId)
                if matches!(envelope.id, IdField::Null { .. }) && envelope.error.is_some() => {}
            Kind::Malformed(malformed @ (Malformed::Id | Malformed::ResponseId)) => {
                faults.add("bad_id", malformed.to_string());
            }
            Kind::Malformed(malformed) => faults.add("not_a_message", malformed.to_string()),
        }
    }

    fn request(&mut self, dir: Dir, envelope: &Envelope<'_>, faults: &mut Faults) {
        let (Some(method), Some(id)) = (envelope.method.as_deref(), envelope.id.id()) else { return };
        let row = known(dir, method, MethodKind::Request, faults);
        if let Some(row) = row {
            self.request_rules(dir, row, envelope.params, faults);
        }
        let session = envelope.params.and_then(session_of);
        if self.open[dir as usize].contains_key(&id) {
            faults.add("duplicate_id", format!("a request with id {} is still open", shortened(&id.to_string())));
            return;
        }
        if self.open[dir as usize].len() >= MAX_REMEMBERED {
            self.uncertain = true;
            return;
        }
        let open = Open { method: method.into(), id: row.map(|row| row.id), session };
        self.open[dir as usize].insert(id, open);
    }

    fn request_rules(&mut self, dir: Dir, row: &Method, params: Option<&RawValue>, faults: &mut Faults) {
        if row.id == MethodId::Initialize {
            if self.initialized && !self.uncertain {
                faults.add("initialize_twice", "the handshake is over");
            }
            self.initialize_seen = true;
            self.client = params.and_then(client_capabilities);
        } else if !(self.initialized || self.uncertain || dir == Dir::ToAgent && self.initialize_seen) {
            faults.add("before_initialize", format!("{} before the handshake", row.wire));
        }
        self.gate(dir, row, faults);
        let decoded = match dir {
            Dir::ToAgent => RequestToAgent::decode(row.id, params).map(|decoded| decoded.map(drop)),
            Dir::FromAgent => RequestToClient::decode(row.id, params).map(|decoded| decoded.map(drop)),
        };
        if let Some(Err(error)) = decoded {
            faults.add("bad_params", format!("{}: {}", row.wire, reason(&error)));
        }
        let Some(session) = params.and_then(session_of) else { return };
        match row.id {
            MethodId::LoadSession | MethodId::ResumeSession | MethodId::LoadDurableSession => {
                let loading = row.id != MethodId::ResumeSession;
                if let Some(session) = self.session(&session) {
                    session.is_loading = loading;
                }
            }
            // One that is not there is deleted already.
            MethodId::DeleteSession => {}
            MethodId::Prompt => {
                self.require_session(&session, faults);
                if let Some(session) = self.session(&session) {
                    let busy = std::mem::replace(&mut session.turn_is_open, true);
                    session.had_a_turn = true;
                    if busy && !self.uncertain {
                        faults.add("prompt_while_busy", "the prompt before is not answered yet");
                    }
                }
            }
            _ => self.require_session(&session, faults),
        }
    }

    fn notification(&mut self, dir: Dir, envelope: &Envelope<'_>, faults: &mut Faults) {
        let Some(method) = envelope.method.as_deref() else { return };
        let Some(row) = known(dir, method, MethodKind::Notification, faults) else { return };
        self.gate(dir, row, faults);
        let decoded = match dir {
            Dir::ToAgent => NotificationToAgent::decode(row.id, envelope.params).map(|decoded| decoded.map(drop)),
            Dir::FromAgent => NotificationToClient::decode(row.id, envelope.params).map(|decoded| decoded.map(drop)),
        };
        if let Some(Err(fault)) = decoded {
            faults.add("bad_params", format!("{}: {}: {}", row.wire, fault.path(), fault.reason()));
        }
        match row.id {
            MethodId::SessionUpdate => self.update(envelope.params, faults),
            MethodId::CancelSession => {
                if let Some(session) = envelope.params.and_then(session_of) {
                    self.require_session(&session, faults);
                }
            }
            _ => {}
        }
    }

    fn update(&mut self, params: Option<&RawValue>, faults: &mut Faults) {
        let Some(named) = params.and_then(|raw| serde_json::from_str::<UpdateNames<'_>>(raw.get()).ok()) else {
            return;
        };
        if let Some(child) = named.update.child.as_deref().filter(|_| named.update.tag == "subagent_update") {
            self.session(child);
        }
        self.update_of(&named.session_id, &named.update.tag, faults);
    }

    fn update_of(&mut self, session: &str, tag: &str, faults: &mut Faults) {
        if self.uncertain {
            return;
        }
        let Some(session) = self.sessions.get(session) else { return self.require_session(session, faults) };
        let belongs_to_a_turn =
            matches!(tag, "agent_message_chunk" | "agent_thought_chunk" | "tool_call" | "tool_call_update" | "plan");
        if belongs_to_a_turn && !session.turn_is_open && !session.is_loading {
            if session.had_a_turn {
                faults.add("update_after_reply", format!("{tag} after the answer to its prompt"));
            } else {
                faults.add("update_outside_turn", format!("{tag} without a prompt"));
            }
        }
    }

    fn response(&mut self, dir: Dir, envelope: &Envelope<'_>, faults: &mut Faults) {
        let Some(id) = envelope.id.id() else { return };
        if envelope.result.is_some() && envelope.error.is_some() {
            faults.add("result_and_error", "a response has either");
        }
        let asked = dir.other() as usize;
        let Some(open) = self.open[asked].remove(&id) else {
            if !self.uncertain {
                let shown = id.to_string();
                let shown = shortened(&shown);
                if self.answered[asked].contains(&id) {
                    faults.add("second_reply", format!("the request with id {shown} has been answered"));
                } else {
                    faults.add("reply_without_request", format!("no request with id {shown} is open"));
                }
            }
            return;
        };
        self.answered[asked].push_back(id);
        if self.answered[asked].len() > MAX_ANSWERED {
            self.answered[asked].pop_front();
        }
        if let Some(error) = envelope.error {
            if let Err(fault) = decode_raw::<pintle_acp::Error>(error) {
                faults.add("bad_error", format!("{}: {}", fault.path(), fault.reason()));
            }
        } else if let (Some(result), Some(method)) = (envelope.result, open.id)
            && let Err(fault) = check_result(method, result)
        {
            faults.add("bad_result", format!("{}: {}: {}", method.wire(), fault.path(), fault.reason()));
        }
        self.answer_rules(&open, envelope.result.filter(|_| envelope.error.is_none()));
    }

    /// What an answer changes.
    fn answer_rules(&mut self, open: &Open, result: Option<&RawValue>) {
        let session = open.session.as_deref();
        match (open.id, result) {
            (Some(MethodId::Initialize), Some(result)) => {
                self.initialized = true;
                let response = decode_result::<InitializeResponse>(result).ok();
                self.agent = Some(Capabilities::Agent(response.map(|r| r.agent_capabilities).unwrap_or_default()));
            }
            (Some(MethodId::NewSession), Some(result)) => {
                if let Some(session) = session_of(result) {
                    self.session(&session);
                }
            }
            (Some(MethodId::Prompt), _) => {
                // Another prompt of the session may be open where a client sent two.
                let still = self.open[Dir::ToAgent as usize]
                    .values()
                    .any(|other| other.id == Some(MethodId::Prompt) && other.session == open.session);
                if let Some(session) = session.and_then(|session| self.sessions.get_mut(session)) {
                    session.turn_is_open = still;
                }
            }
            (Some(MethodId::LoadSession | MethodId::LoadDurableSession), _) => {
                if let Some(session) = session.and_then(|session| self.sessions.get_mut(session)) {
                    session.is_loading = false;
                }
            }
            (Some(MethodId::CloseSession | MethodId::DeleteSession), Some(_)) => {
                session.map(|session| self.sessions.remove(session));
            }
            _ => {}
        }
    }

    /// Whether the side that is asked has said that it can.
    fn gate(&self, dir: Dir, row: &Method, faults: &mut Faults) {
        let advertised = match dir {
            Dir::ToAgent => self.agent.as_ref(),
            Dir::FromAgent => self.client.as_ref(),
        };
        if !self.initialized || self.uncertain || row.is_negotiated(advertised) {
            return;
        }
        let capability = row.gate.map_or("", |gate| gate.path);
        let (code, who) = match dir {
            Dir::ToAgent => ("undeclared_agent_method", "agent"),
            Dir::FromAgent => ("undeclared_client_method", "client"),
        };
        faults.add(code, format!("{}: the {who} has not declared {capability}", row.wire));
    }

    fn require_session(&self, session: &str, faults: &mut Faults) {
        if !self.uncertain && !self.sessions.contains_key(session) {
            faults.add("unknown_session", "no session/new, load or resume has named this session");
        }
    }

    /// A session that is known from here on.
    fn session(&mut self, session: &str) -> Option<&mut Session> {
        if !self.sessions.contains_key(session) {
            if self.sessions.len() >= MAX_REMEMBERED {
                self.uncertain = true;
                return None;
            }
            self.sessions.insert(session.into(), Session::default());
        }
        self.sessions.get_mut(session)
    }
}

struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, code: &'static str, message: impl Into<String>) {
        self.0.push(Fault { code: Cow::Borrowed(code), message: message.into() });
    }
}

/// The row of a method that may be sent this way and in this form; extensions have none.
fn known(dir: Dir, method: &str, kind: MethodKind, faults: &mut Faults) -> Option<&'static Method> {
    let side = match dir {
        Dir::ToAgent => Side::Agent,
        Dir::FromAgent => Side::Client,
    };
    let Some(row) = MethodId::from_wire(method).map(MethodId::method) else {
        if !Method::is_extension(method) {
            faults.add("unknown_method", format!("`{}` is not in the protocol", shortened(method)));
        }
        return None;
    };
    if !side.handles(row.side) {
        let who = if side == Side::Agent { "client" } else { "agent" };
        faults.add("wrong_side", format!("{} is for the {who}", row.wire));
        return None;
    }
    if row.kind != kind {
        match kind {
            MethodKind::Request => faults.add("notification_with_id", format!("{} has no answer", row.wire)),
            MethodKind::Notification => faults.add("request_without_id", format!("{} needs an id", row.wire)),
        }
        return None;
    }
    Some(row)
}

/// What refused the params: the way to the member, and why.
fn reason(error: &pintle_acp::Error) -> String {
    let value = serde_json::to_value(error).unwrap_or_default();
    let (path, reason) = (&value["data"]["path"], &value["data"]["reason"]);
    match (path.as_str(), reason.as_str()) {
        (Some(path), Some(reason)) => format!("{path}: {reason}"),
        _ => error.to_string(),
    }
}

/// The first characters of what a peer chose.
fn shortened(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(NAME_CHARS) {
        Some((at, _)) => Cow::Owned(format!("{}..", &name[..at])),
        None => Cow::Borrowed(name),
    }
}

#[derive(Deserialize)]
struct SessionName<'a> {
    #[serde(rename = "sessionId", borrow)]
    session_id: Cow<'a, str>,
}

fn session_of(raw: &RawValue) -> Option<Box<str>> {
    serde_json::from_str::<SessionName<'_>>(raw.get()).ok().map(|named| named.session_id.into())
}

#[derive(Deserialize)]
struct UpdateNames<'a> {
    #[serde(rename = "sessionId", borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    update: UpdateTag<'a>,
}

#[derive(Deserialize)]
struct UpdateTag<'a> {
    #[serde(rename = "sessionUpdate", borrow)]
    tag: Cow<'a, str>,
    /// In an update about a session below.
    #[serde(rename = "sessionId", borrow, default)]
    child: Option<Cow<'a, str>>,
}

fn client_capabilities(params: &RawValue) -> Option<Capabilities> {
    let request = decode_raw::<InitializeRequest>(params).ok()?;
    Some(Capabilities::Client(request.client_capabilities))
}

macro_rules! results {
    (
        agent_requests { $( $aid:ident = $awire:literal $acall:ident($aparams:ident) -> $aresult:ident; )* }
        client_requests { $( $cid:ident = $cwire:literal $ccall:ident($cparams:ident) -> $cresult:ident; )* }
        agent_notifications { $( $anid:ident = $anwire:literal $ancall:ident($anparams:ident); )* }
        client_notifications { $( $cnid:ident = $cnwire:literal $cncall:ident($cnparams:ident); )* }
    ) => {
        /// Whether a result is what its method returns.
        fn check_result(method: MethodId, raw: &RawValue) -> Result<(), pintle_acp::types::Fault> {
            match method {
                $( MethodId::$aid => decode_result::<$aresult>(raw).map(drop), )*
                $( MethodId::$cid => decode_result::<$cresult>(raw).map(drop), )*
                _ => Ok(()),
            }
        }
    };
}

pintle_acp::method_table!(results);

/// How often each fault was found, by its code.
pub(super) fn count(counts: &mut BTreeMap<String, u64>, faults: &[Fault]) {
    if faults.is_empty() {
        return;
    }
    let codes: HashSet<&str> = faults.iter().map(|fault| &*fault.code).collect();
    for code in codes {
        *counts.entry(code.to_owned()).or_default() += 1;
    }
}

#[cfg(test)]
#[path = "lint_tests.rs"]
mod tests;
