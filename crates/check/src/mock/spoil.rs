//! What a fault does to the lines that pass between a right agent and its client.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use pintle_sdk::transport::{Direction, Verdict};
use pintle_wire::{Profile, ScanLimits, scan};
use serde_json::{Value, json};

use super::ears::Ears;
use super::fault::Fault;

/// How long an agent that exits early still has for the lines that it wrote.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long a turn runs on that nobody wants any more; the pack calls two seconds of it running on.
const RUNS_ON: Duration = Duration::from_millis(2_500);
/// A turn with more updates than this streamed a lot.
const FLOOD_UPDATES: u64 = 1_000;
/// In the ids of requests that a fault makes up, so that their answers can be told.
const OWN_ID: &str = "pintle-fault";

pub(super) struct Spoiler {
    fault: Fault,
    die: Arc<dyn Fn() + Send + Sync>,
    /// Requests of the client that are not answered: id as text, to what was asked.
    asked: HashMap<String, Asked>,
    /// Requests of the agent that are not answered: id as text, to the method.
    calls: HashMap<String, String>,
    sessions: Vec<String>,
    cancelled: HashSet<String>,
    /// Sessions that were cancelled while a permission request was open.
    cancelled_asking: HashSet<String>,
    offered: Value,
    version: Value,
    held: Vec<u8>,
    begun: bool,
    wedged: bool,
    ears: Ears,
    /// Sessions that were cancelled while nothing ran.
    cancelled_idle: HashSet<String>,
    /// Sessions that were cancelled before the first update of their turn.
    cancelled_early: HashSet<String>,
    closed: HashSet<String>,
    deleted: HashSet<String>,
    own: u64,
}

/// One request of the client.
struct Asked {
    method: String,
    session: Option<String>,
    params: Value,
    updates: u64,
}

impl Spoiler {
    pub(super) fn new(fault: Fault, die: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self {
            fault,
            die,
            asked: HashMap::new(),
            calls: HashMap::new(),
            sessions: Vec::new(),
            cancelled: HashSet::new(),
            cancelled_asking: HashSet::new(),
            offered: Value::Null,
            version: Value::Null,
            held: Vec::new(),
            begun: false,
            wedged: false,
            ears: Ears::new(fault),
            cancelled_idle: HashSet::new(),
            cancelled_early: HashSet::new(),
            closed: HashSet::new(),
            deleted: HashSet::new(),
            own: 0,
        }
    }

    pub(super) fn judge(&mut self, direction: Direction, line: &[u8]) -> Verdict {
        let message = scan(line, Profile::Acp, ScanLimits::ACP).ok().and_then(|text| text.decode::<Value>().ok());
        if direction == Direction::In {
            let expected = message.as_ref().and_then(|message| message.get("id")).is_some_and(|id| {
                let id = id.to_string();
                self.calls.contains_key(&id) || id.contains(OWN_ID)
            });
            if !self.ears.hear(line, message.as_ref(), expected) {
                return nothing();
            }
        }
        let Some(message) = message else { return Verdict::Pass };
        match direction {
            Direction::In => self.incoming(message),
            Direction::Out => self.outgoing(message),
        }
    }

    // ------------------------------------------------------------------------------------------- from the client

    fn incoming(&mut self, message: Value) -> Verdict {
        let method = text(&message, "/method");
        let id = message.get("id").map(Value::to_string);
        let session = text(&message, "/params/sessionId");
        match (method, id) {
            (Some(method), Some(id)) => self.asked_for(&method, id, session, message),
            (Some(method), None) => self.notified(&method, session, message),
            (None, Some(id)) => self.answered(&id, &message),
            (None, None) => Verdict::Pass,
        }
    }

    fn asked_for(&mut self, method: &str, id: String, session: Option<String>, mut message: Value) -> Verdict {
        if method == "initialize" {
            self.offered = message.pointer("/params/clientCapabilities").cloned().unwrap_or(Value::Null);
            self.version = message.pointer("/params/protocolVersion").cloned().unwrap_or(Value::Null);
        }
        if self.wedged && (method == "session/prompt" || self.fault == Fault::ExtNotificationFatal) {
            return nothing();
        }
        if self.fault == Fault::OtherTurnLost
            && method == "session/prompt"
            && self.asked.values().any(|asked| asked.method == "session/prompt" && asked.session != session)
        {
            return nothing();
        }
        if let (Fault::CloseLosesTurn, "session/close", Some(session)) = (self.fault, method, &session) {
            self.closed.insert(session.clone());
        }
        let params = message.get("params").cloned().unwrap_or(Value::Null);
        self.asked.insert(id, Asked { method: method.to_owned(), session, params, updates: 0 });
        if self.fault == Fault::ListIgnoresCwd && method == "session/list" {
            if let Some(params) = message.get_mut("params").and_then(Value::as_object_mut) {
                params.remove("cwd");
            }
            return line(&message);
        }
        Verdict::Pass
    }

    fn notified(&mut self, method: &str, session: Option<String>, mut message: Value) -> Verdict {
        if method == "session/cancel" {
            return self.cancel(session.unwrap_or_default(), message);
        }
        if method.starts_with('_') {
            match self.fault {
                // As a request with a null id, which is answered.
                Fault::NotificationAnswered => {
                    message["id"] = Value::Null;
                    return line(&message);
                }
                Fault::ExtNotificationFatal => self.wedged = true,
                _ => {}
            }
        }
        Verdict::Pass
    }

    fn cancel(&mut self, session: String, mut message: Value) -> Verdict {
        let running = self.asked.values().find(|asked| asked.is_prompt_of(&session));
        let early = running.is_some_and(|asked| asked.updates == 0);
        let runs = running.is_some();
        match self.fault {
            Fault::CancelIgnored => return nothing(),
            Fault::EarlyCancelLost if early => return nothing(),
            Fault::EarlyCancelWedged if early => self.wedged = true,
            Fault::EarlyCancelRunsOn if early => {
                self.cancelled_early.insert(session.clone());
            }
            Fault::CancelWedged if runs && !early => self.wedged = true,
            Fault::CancelAnswered => {
                let mut both = bytes(&message);
                message["id"] = Value::Null;
                both.extend(bytes(&message));
                return Verdict::Replace(both);
            }
            Fault::CancelWrongSession => {
                if let Some(other) = self.sessions.iter().find(|other| **other != session) {
                    message["params"]["sessionId"] = json!(other);
                    return line(&message);
                }
            }
            _ => {}
        }
        if !runs {
            self.cancelled_idle.insert(session.clone());
        }
        if self.calls.values().any(|method| method == "session/request_permission") {
            self.cancelled_asking.insert(session.clone());
        }
        self.cancelled.insert(session);
        Verdict::Pass
    }

    fn answered(&mut self, id: &str, message: &Value) -> Verdict {
        if id.contains(OWN_ID) {
            return nothing();
        }
        let method = self.calls.remove(id).unwrap_or_default();
        let uses_client = method.starts_with("fs/") || method.starts_with("terminal/");
        let chosen = text(message, "/result/outcome/optionId").unwrap_or_default();
        let lost = match self.fault {
            Fault::CallbackHang => uses_client,
            Fault::RefusalHang => uses_client && message.get("error").is_some(),
            Fault::PermissionAllowedHang => matches!(chosen.as_str(), "yes" | "always"),
            Fault::PermissionRejectedHang => matches!(chosen.as_str(), "no" | "never"),
            _ => false,
        };
        if lost { nothing() } else { Verdict::Pass }
    }

    // --------------------------------------------------------------------------------------------- from the agent

    fn outgoing(&mut self, message: Value) -> Verdict {
        let mut before = Vec::new();
        if !self.begun && self.fault == Fault::StdoutNoise {
            before.extend_from_slice(b"agent: starting up\n");
        }
        self.begun = true;
        let whole = if before.is_empty() { Vec::new() } else { bytes(&message) };
        let verdict = match (text(&message, "/method"), message.get("id").map(Value::to_string)) {
            (Some(method), Some(id)) => self.call(&method, id, message),
            (Some(method), None) if method == "session/update" => self.update(message),
            (None, Some(id)) => self.reply(&id, message),
            _ => Verdict::Pass,
        };
        match verdict {
            Verdict::Replace(after) if !before.is_empty() => Verdict::Replace([before, after].concat()),
            Verdict::Pass if !before.is_empty() => Verdict::Replace([before, whole].concat()),
            other => other,
        }
    }

    fn call(&mut self, method: &str, id: String, mut message: Value) -> Verdict {
        self.calls.insert(id, method.to_owned());
        let uses_client = method.starts_with("fs/") || method.starts_with("terminal/");
        match self.fault {
            Fault::FsRelativePath if method.starts_with("fs/") => message["params"]["path"] = json!("pintle-check.txt"),
            Fault::CallWrongSession if uses_client => message["params"]["sessionId"] = json!("no-such-session"),
            Fault::TerminalRelativeCwd if method == "terminal/create" => message["params"]["cwd"] = json!("."),
            Fault::PermissionBadKind if method == "session/request_permission" => {
                message["params"]["options"][0]["kind"] = json!("allow_perhaps");
            }
            Fault::PermissionSameId if method == "session/request_permission" => {
                message["params"]["options"][1]["optionId"] = message["params"]["options"][0]["optionId"].clone();
            }
            // The client answers it, and the agent takes that for the answer to its release.
            Fault::TerminalKept if method == "terminal/release" => message["method"] = json!("terminal/output"),
            Fault::TerminalAfterRelease if method == "terminal/release" => {
                let more = self.made_up("terminal/output", message["params"].clone());
                return Verdict::Replace([bytes(&message), bytes(&more)].concat());
            }
            _ => return Verdict::Pass,
        }
        line(&message)
    }

    fn update(&mut self, mut message: Value) -> Verdict {
        let session = text(&message, "/params/sessionId").unwrap_or_default();
        let kind = text(&message, "/params/update/sessionUpdate").unwrap_or_default();
        let chunk = kind.ends_with("_chunk");
        let mut first = false;
        if let Some(turn) = self.asked.values_mut().find(|asked| asked.is_prompt_of(&session)) {
            turn.updates += 1;
            first = turn.updates == 1;
        }
        let loading = self.asked.values().any(|asked| asked.method == "session/load");
        let update = &mut message["params"]["update"];
        match self.fault {
            Fault::UpdateUnknownSession if chunk => message["params"]["sessionId"] = json!("no-such-session"),
            Fault::UpdateNoKind if chunk => {
                update.as_object_mut().map(|members| members.remove("sessionUpdate"));
            }
            Fault::ChunkNoType if chunk => {
                update["content"].as_object_mut().map(|members| members.remove("type"));
            }
            Fault::ToolCallNoId if kind.starts_with("tool_call") => {
                update.as_object_mut().map(|members| members.remove("toolCallId"));
            }
            Fault::ToolCallUnannounced if chunk && first => {
                let session = &message["params"]["sessionId"];
                let update =
                    json!({ "sessionUpdate": "tool_call_update", "toolCallId": "ghost", "status": "completed" });
                let ghost = json!({
                    "jsonrpc": "2.0",
                    "method": "session/update",
                    "params": { "sessionId": session, "update": update },
                });
                return Verdict::Replace([bytes(&ghost), bytes(&message)].concat());
            }
            Fault::ToolStatusUnknown if update.get("status").is_some() => update["status"] = json!("done"),
            Fault::RefusedCompletes if update["status"] == json!("failed") => update["status"] = json!("completed"),
            Fault::DuplicateName if first => {
                let text = message.to_string();
                let twice = text.strip_prefix('{').map(|rest| format!("{{\"jsonrpc\":\"2.0\",{rest}\n"));
                return twice.map_or(Verdict::Pass, |twice| Verdict::Replace(twice.into_bytes()));
            }
            Fault::LoneSurrogate if chunk && first => {
                update["content"]["text"] = json!("@half@");
                return Verdict::Replace(
                    String::from_utf8_lossy(&bytes(&message)).replace("@half@", "\\ud83d").into_bytes(),
                );
            }
            Fault::PlanNotAList if kind == "plan" => update["entries"] = json!("later"),
            Fault::CrossTalk if chunk => {
                if let Some(first) = self.sessions.first() {
                    message["params"]["sessionId"] = json!(first);
                }
            }
            Fault::LoadReplaysLate if loading => {
                self.held.extend(bytes(&message));
                return nothing();
            }
            Fault::StdoutLatin1 if first => {
                let odd = b"{\"jsonrpc\":\"2.0\",\"method\":\"_pintle/note\",\"params\":{\"word\":\"caf\xe9\"}}\n";
                return Verdict::Replace([bytes(&message), odd.to_vec()].concat());
            }
            Fault::UsesFs | Fault::UsesTerminal | Fault::UsesElicitation if first => {
                let Some(call) = self.unasked(&session) else { return Verdict::Pass };
                return Verdict::Replace([bytes(&message), bytes(&call)].concat());
            }
            _ => return Verdict::Pass,
        }
        line(&message)
    }

    /// A call that the client did not offer; none where it did.
    fn unasked(&mut self, session: &str) -> Option<Value> {
        let offers = |pointer: &str| self.offered.pointer(pointer).is_some_and(|value| *value != json!(false));
        let (method, params) = match self.fault {
            Fault::UsesFs if !offers("/fs/readTextFile") => {
                ("fs/read_text_file", json!({ "sessionId": session, "path": "/pintle-check.txt" }))
            }
            Fault::UsesTerminal if !offers("/terminal") => {
                ("terminal/create", json!({ "sessionId": session, "command": "echo" }))
            }
            Fault::UsesElicitation if !offers("/elicitation") => {
                let schema = json!({ "type": "object", "properties": {} });
                let form =
                    json!({ "sessionId": session, "mode": "form", "message": "Name?", "requestedSchema": schema });
                ("elicitation/create", form)
            }
            _ => return None,
        };
        Some(self.made_up(method, params))
    }

    fn made_up(&mut self, method: &str, params: Value) -> Value {
        self.own += 1;
        json!({ "jsonrpc": "2.0", "id": format!("{OWN_ID}-{}", self.own), "method": method, "params": params })
    }

    fn reply(&mut self, id: &str, mut message: Value) -> Verdict {
        let Some(asked) = self.asked.remove(id) else { return Verdict::Pass };
        if self.fault == Fault::IdMangled
            && let Some(number) = message["id"].as_i64().filter(|number| *number < 0)
        {
            message["id"] = json!(-number);
            return line(&message);
        }
        if self.fault == Fault::ExtUnanswered && asked.method.starts_with('_') {
            return nothing();
        }
        if self.fault == Fault::BigIdRounded
            && let Some(number) = message["id"].as_i64()
            && number.unsigned_abs() > 1 << 53
        {
            message["id"] = json!(number as f64 as i64);
            return line(&message);
        }
        if let Some(error) = message.get_mut("error") {
            let unknown = error["code"] == json!(-32601);
            let extension = asked.method.starts_with('_');
            match self.fault {
                Fault::ErrorLines => error["message"] = json!("it went wrong\n  at main"),
                Fault::UnknownMethodCode if unknown && !extension => error["code"] = json!(-32603),
                Fault::ExtCode if unknown && extension => error["code"] = json!(-32603),
                // What the agent refuses, it refuses right.
                _ => return Verdict::Pass,
            }
            return line(&message);
        }
        match asked.method.as_str() {
            "initialize" => self.reply_to_initialize(message),
            "session/new" => self.reply_to_new(&asked, message),
            "session/prompt" => self.reply_to_prompt(&asked, message),
            "session/load" if !self.held.is_empty() => {
                let mut both = bytes(&message);
                both.append(&mut self.held);
                Verdict::Replace(both)
            }
            method => {
                match (self.fault, method) {
                    (Fault::LoadError, "session/load")
                    | (Fault::ResumeError, "session/resume")
                    | (Fault::CloseError, "session/close")
                    | (Fault::DeleteError, "session/delete")
                    | (Fault::ModeError, "session/set_mode") => fail(&mut message),
                    (Fault::DeleteTwiceError, "session/delete") => {
                        if self.deleted.insert(asked.session.clone().unwrap_or_default()) {
                            return Verdict::Pass;
                        }
                        fail(&mut message);
                    }
                    (Fault::ListNoList, "session/list") => message["result"]["sessions"] = json!({}),
                    (Fault::ConfigPartial, "session/set_config_option") => {
                        message["result"]["configOptions"] = json!([]);
                    }
                    (Fault::ResumeReplays, "session/resume") => {
                        let replay = chunk(asked.session.as_deref().unwrap_or_default(), "once more");
                        return Verdict::Replace([bytes(&replay), bytes(&message)].concat());
                    }
                    _ => return Verdict::Pass,
                }
                line(&message)
            }
        }
    }

    fn reply_to_initialize(&self, mut message: Value) -> Verdict {
        match self.fault {
            Fault::InitError => fail(&mut message),
            Fault::VersionWrong if self.version == json!(1) => message["result"]["protocolVersion"] = json!(2),
            Fault::InfoNoVersion => message["result"]["agentInfo"] = json!({ "name": "nameless" }),
            Fault::CapabilityText => {
                message["result"]["agentCapabilities"]["mcpCapabilities"] = json!({ "http": "yes" });
            }
            Fault::AuthUnasked => message["result"]["authMethods"] = json!([]),
            Fault::AuthSameId => {
                if let Some(methods) = message["result"]["authMethods"].as_array_mut()
                    && let Some(first) = methods.first().cloned()
                {
                    methods.push(first);
                }
            }
            Fault::VersionEcho => message["result"]["protocolVersion"] = self.version.clone(),
            Fault::VersionString => message["result"]["protocolVersion"] = json!("1"),
            Fault::TerminalAuth => {
                let login = json!({ "id": "shell", "name": "Log in in a shell", "type": "terminal" });
                if let Some(methods) = message["result"]["authMethods"].as_array_mut() {
                    methods.push(login);
                }
            }
            _ => return Verdict::Pass,
        }
        line(&message)
    }

    fn reply_to_new(&mut self, asked: &Asked, mut message: Value) -> Verdict {
        self.sessions.extend(text(&message, "/result/sessionId"));
        let asking = self.calls.values().any(|method| method == "session/request_permission");
        if self.fault == Fault::PermissionBlocks && asking {
            return nothing();
        }
        let result = &mut message["result"];
        match self.fault {
            Fault::SessionError => fail(&mut message),
            Fault::AuthUnasked => {
                fail(&mut message);
                message["error"] = json!({ "code": -32000, "message": "Log in first" });
            }
            Fault::SessionEmptyId => result["sessionId"] = json!(""),
            Fault::SessionSameId => result["sessionId"] = json!(self.sessions.first()),
            Fault::ModeUnknown => result["modes"]["currentModeId"] = json!("gone"),
            Fault::ConfigBadValue => result["configOptions"][0]["currentValue"] = json!("gone"),
            Fault::ConfigBoolean => {
                let option = json!({ "id": "loud", "name": "Loud", "type": "boolean", "currentValue": true });
                if let Some(options) = result["configOptions"].as_array_mut() {
                    options.push(option);
                }
            }
            Fault::DirectoriesError if asked.params.get("additionalDirectories").is_some() => fail(&mut message),
            _ => return Verdict::Pass,
        }
        line(&message)
    }

    fn reply_to_prompt(&mut self, asked: &Asked, mut message: Value) -> Verdict {
        let session = asked.session.clone().unwrap_or_default();
        let cancelled = text(&message, "/result/stopReason").as_deref() == Some("cancelled");
        let was_cancelled = self.cancelled.remove(&session) && cancelled;
        let asked_then = self.cancelled_asking.remove(&session);
        let idle = self.cancelled_idle.remove(&session);
        let has = |kind: &str| {
            let blocks = asked.params.get("prompt").and_then(Value::as_array);
            blocks.is_some_and(|blocks| blocks.iter().any(|block| block["type"] == json!(kind)))
        };
        match self.fault {
            Fault::PromptUnanswered => return nothing(),
            Fault::FloodLost if asked.updates > FLOOD_UPDATES => return nothing(),
            Fault::StopReasonUnknown => message["result"]["stopReason"] = json!("finished"),
            Fault::ResultAndError => message["error"] = json!({ "code": -32603, "message": "both" }),
            Fault::AnswerTwice => return Verdict::Replace(bytes(&message).repeat(2)),
            // What streamed a lot may still be on its way to a client that reads slowly.
            Fault::ExitEarly if asked.updates <= FLOOD_UPDATES => {
                let die = self.die.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(LAST_WORDS).await;
                    die();
                });
                return Verdict::Pass;
            }
            Fault::CancelTwice if was_cancelled => return Verdict::Replace(bytes(&message).repeat(2)),
            Fault::CancelError if was_cancelled => fail(&mut message),
            Fault::CancelLateUpdate if was_cancelled => {
                let late = chunk(&session, "one more word");
                return Verdict::Replace([bytes(&message), bytes(&late)].concat());
            }
            Fault::PermissionCancelEnds if was_cancelled && asked_then => {
                message["result"]["stopReason"] = json!("end_turn");
            }
            // Everything else waits with it, as in an agent that looks for a cancel between two steps of its work.
            Fault::EarlyCancelRunsOn if self.cancelled_early.remove(&session) => {
                std::thread::sleep(RUNS_ON);
                message["result"]["stopReason"] = json!("end_turn");
            }
            Fault::IdleCancelKept if idle => message["result"]["stopReason"] = json!("cancelled"),
            Fault::CloseLosesTurn if self.closed.contains(&session) => return nothing(),
            Fault::LateUpdate if !cancelled => {
                let late = chunk(&session, "one more word");
                return Verdict::Replace([bytes(&message), bytes(&late)].concat());
            }
            Fault::RefusesLink if has("resource_link") => fail(&mut message),
            Fault::RefusesMeta if asked.params.get("_meta").is_some() => fail(&mut message),
            Fault::RefusesImage if has("image") => fail(&mut message),
            Fault::RefusesAudio if has("audio") => fail(&mut message),
            Fault::RefusesEmbedded if has("resource") => fail(&mut message),
            _ => return Verdict::Pass,
        }
        line(&message)
    }
}

impl Asked {
    fn is_prompt_of(&self, session: &str) -> bool {
        self.method == "session/prompt" && self.session.as_deref() == Some(session)
    }
}

fn chunk(session: &str, words: &str) -> Value {
    let content = json!({ "type": "text", "text": words });
    let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update } })
}

/// Turns a response into an error.
fn fail(message: &mut Value) {
    if let Some(members) = message.as_object_mut() {
        members.remove("result");
        members.insert("error".to_owned(), json!({ "code": -32603, "message": "Internal error" }));
    }
}

fn text(message: &Value, pointer: &str) -> Option<String> {
    message.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

fn bytes(message: &Value) -> Vec<u8> {
    let mut bytes = message.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

fn line(message: &Value) -> Verdict {
    Verdict::Replace(bytes(message))
}

fn nothing() -> Verdict {
    Verdict::Replace(Vec::new())
}
