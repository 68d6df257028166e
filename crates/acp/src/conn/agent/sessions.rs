//! The life of a session on the agent's end: opened, loaded, its mode set, closed.

use std::time::Instant;

use serde::Deserialize;

use super::super::RawJson;
use super::super::core::refusal;
use super::super::encode::Reply;
use super::super::inbound::MethodName;
use super::super::inflight::{RequestKey, Role};
use super::AgentEnd;
use crate::Error;
use crate::session::{Phase as SessionPhase, RxSeq, SessionKey, Waiting};

impl<W> AgentEnd<W> {
    pub(super) fn open_session(
        &mut self,
        now: Instant,
        rx: RxSeq,
        key: RequestKey,
        method: MethodName,
        params: Option<RawJson>,
    ) {
        let Some(id) = self.session_of(key, params.as_ref()) else { return };
        let session = match self.sessions.key(&id) {
            Some(session) => {
                if let Some(session) = self.sessions.get_mut(session)
                    && let SessionPhase::Opening(count) = &mut session.phase
                {
                    *count += 1;
                }
                session
            }
            None if id.len() > self.core.config.max_id_bytes => {
                return self.refuse(key, &refusal::params("sessionId", "too long"));
            }
            None if self.sessions.len() + self.creating >= self.core.config.max_sessions => {
                return self.too_many_sessions(key);
            }
            None => match self.sessions.open(now, &id, SessionPhase::Opening(1)) {
                Some(session) => session,
                None => return,
            },
        };
        self.set_role(key, Role::OpenSession(session));
        self.event_request(key, rx, method, params, Some(id));
    }

    /// A close cancels the running turn as `session/cancel` would; prompts behind it find no session.
    pub(super) fn close_session(
        &mut self,
        now: Instant,
        rx: RxSeq,
        key: RequestKey,
        method: MethodName,
        params: Option<RawJson>,
    ) {
        let Some(id) = self.session_of(key, params.as_ref()) else { return };
        let Some(session) = self.sessions.key(&id) else {
            return self.refuse(key, &refusal::unknown_session(&id));
        };
        self.cancel_session(now, rx, session);
        match self.sessions.get_mut(session).map(|session| &mut session.phase) {
            Some(SessionPhase::Closing(count)) => *count += 1,
            Some(phase @ SessionPhase::Open) => *phase = SessionPhase::Closing(1),
            _ => return self.refuse(key, &refusal::unknown_session(&id)),
        }
        self.set_role(key, Role::CloseSession(session));
        self.event_request(key, rx, method, params, Some(id));
    }

    /// a mode is one that the session offers; a session without modes has none to set.
    pub(super) fn set_mode(&mut self, rx: RxSeq, key: RequestKey, method: MethodName, params: Option<RawJson>) {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "sessionId")]
            session_id: Box<str>,
            #[serde(rename = "modeId")]
            mode_id: Box<str>,
        }
        let Some(wanted) = params.as_ref().and_then(|params| params.decode_lax::<Params>()) else {
            return self.refuse(key, &refusal::params("sessionId, modeId", "expected strings"));
        };
        let Some(session) = self.open_key(&wanted.session_id).and_then(|key| self.sessions.get(key)) else {
            return self.refuse(key, &refusal::unknown_session(&wanted.session_id));
        };
        match &session.modes {
            None => self.refuse(key, &refusal::params("modeId", "the session has no modes")),
            Some(modes) if !modes.contains(&wanted.mode_id) => {
                self.refuse(key, &refusal::params("modeId", "the session has no such mode"));
            }
            Some(_) => {
                let id = session.id.clone();
                self.event_request(key, rx, method, params, Some(id));
            }
        }
    }

    pub(super) fn session_created(&mut self, now: Instant, key: RequestKey, reply: &Reply) {
        self.creating = self.creating.saturating_sub(1);
        let Some(result) = reply.result() else {
            self.core.answer(key, reply);
            return;
        };
        let created = Created::read(&result);
        let session = created.id.as_deref().and_then(|id| self.sessions.open(now, id, SessionPhase::Open));
        let Some(session) = session else {
            // No id, or the id of a session that is open: the handler's fault, and not the client's business.
            self.core.answer(key, &Reply::error(&Error::internal_error()));
            return;
        };
        if let Some(session) = self.sessions.get_mut(session) {
            session.modes = created.modes;
        }
        self.sessions.touched(now, session);
        let updates = self.core.answer(key, reply).map(|entry| entry.after_reply).unwrap_or_default();
        for update in &updates {
            self.core.out.notification(update);
        }
    }

    pub(super) fn session_opened(&mut self, now: Instant, key: RequestKey, session: SessionKey, reply: &Reply) {
        self.core.answer(key, reply);
        let Some(entry) = self.sessions.get_mut(session) else { return };
        if let Some(result) = reply.result() {
            let created = Created::read(&result);
            if created.modes.is_some() {
                entry.modes = created.modes;
            }
        }
        match (&mut entry.phase, reply.is_ok()) {
            (SessionPhase::Opening(_), true) => {
                entry.phase = SessionPhase::Open;
                let waiting = std::mem::take(&mut entry.waiting);
                self.sessions.touched(now, session);
                for Waiting { rx, prompt: (key, params) } in waiting {
                    self.begin_turn(now, rx, session, key, params);
                }
            }
            (SessionPhase::Opening(count), false) if *count > 1 => *count -= 1,
            (SessionPhase::Opening(_), false) => {
                // Never opened: nobody needs to hear that it closed.
                if let Some(entry) = self.sessions.remove(session) {
                    for Waiting { prompt: (key, _), .. } in entry.waiting {
                        self.refuse(key, &refusal::unknown_session(&entry.id));
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn session_closed(&mut self, session: SessionKey, closed: bool) {
        let Some(entry) = self.sessions.get_mut(session) else { return };
        match (&mut entry.phase, closed) {
            (_, true) if entry.turns.is_idle() => self.remove_session(session, false),
            (phase, true) => *phase = SessionPhase::Doomed,
            (SessionPhase::Closing(count), false) if *count > 1 => *count -= 1,
            (phase @ SessionPhase::Closing(_), false) => *phase = SessionPhase::Open,
            _ => {}
        }
    }
}

/// What the connection needs to know of a session that was created, loaded or resumed.
struct Created {
    id: Option<Box<str>>,
    modes: Option<Vec<Box<str>>>,
}

impl Created {
    fn read(result: &RawJson) -> Self {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(rename = "sessionId", default)]
            session_id: Option<Box<str>>,
            #[serde(default)]
            modes: Option<Modes>,
        }
        #[derive(Deserialize)]
        struct Modes {
            #[serde(rename = "availableModes", default)]
            available: Vec<Mode>,
        }
        #[derive(Deserialize)]
        struct Mode {
            id: Box<str>,
        }
        match result.decode_lax::<Option<Answer>>().flatten() {
            Some(answer) => Self {
                id: answer.session_id,
                modes: answer.modes.map(|modes| modes.available.into_iter().map(|mode| mode.id).collect()),
            },
            None => Self { id: None, modes: None },
        }
    }
}
