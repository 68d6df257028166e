//! The way around Core: bytes as they are, requests that Core would not make, and the secrets that must not come back.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pintle_sdk::driver::{CoreEvent, Id};
use pintle_sdk::process::NamedPipe;
use pintle_wire::to_canonical;
use serde_json::{Value, json};

use super::Session;
use crate::kit::answer::Answer;
use crate::kit::catalog::id;
use crate::kit::pipes::Feed;
use crate::kit::stop::{Step, Stop};

impl Session<'_> {
    /// Writes bytes as they are.
    pub(in crate::kit) fn write(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.transcript.borrow_mut().sent(bytes.strip_suffix(b"\n").unwrap_or(&bytes));
        if self.out.is_empty() {
            self.out = bytes;
        } else {
            let mut out = BytesMut::from(std::mem::take(&mut self.out));
            out.extend_from_slice(&bytes);
            self.out = out.freeze();
        }
    }

    /// Waits until everything was written, or the driver has closed its input.
    pub(in crate::kit) async fn written(&mut self) -> Step<()> {
        let until = self.clock.now() + self.rig.request.answer;
        while !self.out.is_empty() {
            if !self.turn(until).await? {
                return Err(Stop::breaks(id::ANSWERS, "driver does not read its standard input"));
            }
        }
        Ok(())
    }

    /// Answers to this id are the kit's, not Core's.
    pub(in crate::kit) fn expect(&mut self, id: Id) {
        self.open.push(id);
    }

    /// A request as canonical text with its LF.
    pub(in crate::kit) fn request(id: &Id, method: &str, params: Option<Value>) -> Step<Vec<u8>> {
        let id = match id {
            Id::Int(number) => json!(number),
            Id::Str(text) => json!(text),
        };
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if let (Some(object), Some(params)) = (request.as_object_mut(), params) {
            object.insert("params".to_owned(), params);
        }
        let mut line = to_canonical(&request).map_err(|error| Stop::Environment(error.to_string()))?;
        line.push(b'\n');
        Ok(line)
    }

    /// Makes a request past Core's session and waits for its answer.
    pub(in crate::kit) async fn ask(&mut self, method: &str, params: Option<Value>) -> Step<Answer> {
        let id = Id::Str(format!("kit-{}", self.open.len()).into());
        let line = Self::request(&id, method, params)?;
        self.expect(id.clone());
        self.write(line);
        self.answer(&id, method).await
    }

    /// Waits for the answer to an expected id.
    pub(in crate::kit) async fn answer(&mut self, id: &Id, what: &str) -> Step<Answer> {
        let until = self.clock.now() + self.rig.request.answer;
        loop {
            if let Some(at) = self.answers.iter().position(|(found, _)| found == id) {
                return match self.answers.remove(at) {
                    Some((_, answer)) => Ok(answer),
                    None => Err(Stop::silent(what)),
                };
            }
            if let Some(at) = self.events.iter().position(|event| matches!(event, CoreEvent::Fault(_)))
                && let Some(CoreEvent::Fault(fault)) = self.events.remove(at)
            {
                return Err(Stop::fault(&fault, self.core.state()));
            }
            if !self.turn(until).await? {
                return Err(Stop::silent(what));
            }
        }
    }

    /// Whether an expected id was answered so far, and how.
    pub(in crate::kit) fn answered(&mut self, id: &Id) -> Option<Answer> {
        let at = self.answers.iter().position(|(found, _)| found == id)?;
        self.answers.remove(at).map(|(_, answer)| answer)
    }

    /// Shows that the driver still answers; what it had to say to what was written before has come by then.
    pub(in crate::kit) async fn still_usable(&mut self) -> Step<()> {
        match self.ask("driver.capabilities", None).await {
            Ok(Answer::Result(_)) => Ok(()),
            Ok(Answer::Error(error)) => {
                Err(Stop::unmet(format!("afterwards driver.capabilities was refused ({})", error.data.class)))
            }
            Err(Stop::Breaks { id: id::ANSWERS | id::STAYS, detail }) => {
                Err(Stop::unmet(format!("afterwards {detail}")))
            }
            Err(stop) => Err(stop),
        }
    }

    /// A fresh text that must never come back.
    pub(in crate::kit) fn secret(&mut self) -> Step<String> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|_| Stop::Environment("get randomness".to_owned()))?;
        let secret: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        self.hide(secret.clone());
        Ok(secret)
    }

    fn hide(&mut self, secret: String) {
        let mut transcript = self.transcript.borrow_mut();
        transcript.hide(&secret);
        transcript.heard.secrets += 1;
        self.secrets.push(secret);
    }

    /// Makes the input of an invocation and returns its handle.
    pub(in crate::kit) fn input(&mut self, bytes: &[u8]) -> Step<String> {
        self.inputs += 1;
        let path = self.work.path().join(format!("input-{}", self.inputs));
        let pipe = NamedPipe::make(&path).map_err(|error| Stop::Environment(format!("make an input: {error}")))?;
        let handle = path.to_string_lossy().into_owned();
        self.hide(handle.clone());
        self.feeds.retain(|feed| !feed.is_done());
        self.feeds.push(Feed::new(pipe, Bytes::copy_from_slice(bytes)));
        Ok(handle)
    }

    /// Stops taking what the driver writes, for as long as it takes it to notice.
    pub(in crate::kit) async fn pause_reading(&mut self, pause: Duration) -> Step<()> {
        self.reading = false;
        let until = self.clock.now() + pause;
        while self.turn(until).await? {}
        self.reading = true;
        Ok(())
    }

    /// Closes the driver's standard input.
    pub(in crate::kit) fn close_input(&mut self) {
        self.stdin = None;
    }
}
