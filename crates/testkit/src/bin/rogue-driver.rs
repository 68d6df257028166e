//! A driver that keeps to the protocol but for one thing: `rogue-driver FAULT`. Without a fault it keeps to all of it.
//!
//! It is written against the protocol's page and shares no code with the library's driver, so that the two check each
//! other. With a fault that starts with `many` it takes three invocations at once; `many` alone is no fault. Operations: `soon` observes three times and ends, `lasting` goes on until it is cancelled.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::ExitCode;
use std::time::Instant;

use pintle_driver::{Digest, decode_control_frame};
use pintle_wire::{Profile, ScanLimits, scan, to_canonical};
use serde_json::{Value, json};

/// The bound of a frame in bytes.
const MAX_FRAME_BYTES: usize = 1 << 20;

struct Rogue {
    fault: String,
    state: State,
    began: Instant,
    out: io::Stdout,
    active: Vec<Active>,
    /// Whether the one operation that has to wait for another one was asked for.
    delayed: Option<Value>,
    used: Vec<String>,
    approved: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Hello,
    Prepared,
    Shutdown,
}

struct Active {
    invocation: Value,
    attempt: Value,
    sequence: u64,
    frames: Vec<u8>,
}

impl Active {
    fn params(&self) -> Value {
        json!({"invocation_id": self.invocation, "attempt_id": self.attempt})
    }
}

type Answer = Result<Value, &'static str>;

fn main() -> ExitCode {
    let fault = std::env::args().nth(1).unwrap_or_default();
    let mut rogue = Rogue {
        fault,
        state: State::New,
        began: Instant::now(),
        out: io::stdout(),
        active: Vec::new(),
        delayed: None,
        used: Vec::new(),
        approved: Vec::new(),
    };
    if rogue.is("says-nothing") {
        // Until its input ends.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        return ExitCode::SUCCESS;
    }
    if rogue.is("stray-print") {
        let _ = writeln!(rogue.out, "rogue driver 1.0 is ready");
    }
    let mut stdin = BufReader::new(io::stdin().lock());
    loop {
        match frame(&mut stdin, rogue.is("small-frames")) {
            None => break,
            Some(Err(_)) if rogue.is("dies-of-bad-lines") => return ExitCode::FAILURE,
            Some(Err(())) => {}
            Some(Ok(line)) if rogue.is("answers-batches") && line.starts_with(b"[") => {
                let batch: Value = serde_json::from_slice(&line).unwrap_or_default();
                if let Some(request) = batch.get(0).cloned() {
                    rogue.take(&request);
                }
            }
            Some(Ok(line)) => rogue.line(&line),
        }
        if rogue.state == State::Shutdown && !rogue.is("works-on") {
            if rogue.is("exit-code") {
                return ExitCode::from(3);
            }
            if rogue.is("stays-behind") {
                leave_a_child();
            }
            return ExitCode::SUCCESS;
        }
    }
    if rogue.is("ignores-the-end") {
        std::thread::park();
    }
    ExitCode::SUCCESS
}

/// A process that outlives this one until somebody ends it.
fn leave_a_child() {
    use std::process::{Command, Stdio};
    let child = Command::new("/bin/sh")
        .args(["-c", "exec sleep 600"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    drop(child);
}

/// The next line, an over-long one as an error.
fn frame(stdin: &mut impl BufRead, small: bool) -> Option<Result<Vec<u8>, ()>> {
    let mut line = Vec::new();
    let limit = if small { 64 << 10 } else { MAX_FRAME_BYTES } + 2;
    let read = stdin.take(limit as u64 + 1).read_until(b'\n', &mut line).ok()?;
    if read == 0 {
        return None;
    }
    if line.len() > limit && line.last() != Some(&b'\n') {
        loop {
            let mut rest = Vec::new();
            let read = stdin.take(1 << 16).read_until(b'\n', &mut rest).ok()?;
            if read == 0 || rest.last() == Some(&b'\n') {
                return Some(Err(()));
            }
        }
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    if line.len() > limit - 2 { Some(Err(())) } else { Some(Ok(line)) }
}

impl Rogue {
    fn is(&self, fault: &str) -> bool {
        self.fault == fault
    }

    fn line(&mut self, line: &[u8]) {
        let lenient = self.is("duplicate-names") || self.is("any-version") || self.is("any-id");
        let parsed: Result<Value, ()> = if lenient {
            serde_json::from_slice(line).map_err(|_| ())
        } else {
            let limits = ScanLimits { max_bytes: MAX_FRAME_BYTES, max_depth: 256 };
            scan(line, Profile::DriverRpc, limits).map_err(|_| ()).and_then(|text| text.decode().map_err(|_| ()))
        };
        let Ok(request) = parsed else {
            assert!(!self.is("dies-of-bad-lines"), "cannot read that");
            return;
        };
        self.take(&request);
    }

    fn take(&mut self, request: &Value) {
        let id = request.get("id").cloned();
        let version = request.get("jsonrpc").and_then(Value::as_str) == Some("2.0") || self.is("any-version");
        let known = request.as_object().is_some_and(|members| {
            members.keys().all(|name| matches!(name.as_str(), "jsonrpc" | "id" | "method" | "params"))
        });
        let usable = id.as_ref().is_some_and(|id| id.is_string() || id.is_i64() || self.is("any-id"));
        let Some(id) = id.filter(|_| usable) else {
            if self.is("answers-notifications") {
                self.write(&json!({"jsonrpc": "2.0", "id": "none", "result": {}}));
            }
            return;
        };
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
        let answer = if !version {
            Err("unsupported_rpc_version")
        } else if !known && !self.is("any-member") || request.get("params").is_some_and(|params| !params.is_object()) {
            Err("invalid_request")
        } else {
            self.call(method, request.get("params").unwrap_or(&Value::Null))
        };
        if self.is("silent-capabilities") && method == "driver.capabilities" {
            return;
        }
        let id = if self.is("ids-as-strings") { json!(id.to_string().trim_matches('"')) } else { id };
        match answer {
            Ok(result) => {
                let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
                self.write(&response);
                if self.is("answers-twice") && method == "driver.prepare" {
                    self.write(&response);
                }
                self.after(method, request.get("params").unwrap_or(&Value::Null));
            }
            Err(class) => {
                let mut data = json!({"class": class});
                if self.is("long-details") {
                    data["details"] = json!("d".repeat(20_000));
                }
                self.write(&json!({
                    "jsonrpc": "2.0", "id": id,
                    "error": {"code": -32000, "message": "the rogue driver refuses", "data": data},
                }));
            }
        }
    }

    fn call(&mut self, method: &str, params: &Value) -> Answer {
        let whole = |names: &[&str]| {
            let Some(object) = params.as_object() else { return names.is_empty() };
            object.keys().all(|name| names.contains(&name.as_str()) || self.is("any-member"))
        };
        let active = !self.active.is_empty() && !self.is("mixes-invocations");
        match method {
            "driver.hello" => {
                if self.state != State::New && !self.is("hello-again") {
                    return Err("invalid_state");
                }
                let range = &params["core_version_range"];
                let bound = |name: &str| semver(range[name].as_str().unwrap_or_default());
                let (Some(minimum), Some(maximum)) = (bound("minimum"), bound("maximum")) else {
                    return Err("invalid_request");
                };
                let meets = minimum <= [1, 0, 0] && [1, 0, 0] <= maximum;
                if !meets && !self.is("any-range") {
                    return Err("unsupported_rpc_version");
                }
                if self.is("exact-range") && minimum != maximum {
                    return Err("unsupported_rpc_version");
                }
                self.state = State::Hello;
                Ok(self.hello())
            }
            "driver.prepare" => {
                if !decodes("driver.prepare", params) && !self.is("any-plan") {
                    return Err("invalid_request");
                }
                if self.state != State::Hello && !(self.is("prepare-again") && self.state == State::Prepared) {
                    return Err("invalid_state");
                }
                let approved = params["approved_permissions"].as_array().cloned().unwrap_or_default();
                self.approved = approved.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
                self.state = State::Prepared;
                let accepted =
                    if self.is("takes-permissions") { json!(["ephemeral-input", "x-more"]) } else { json!(approved) };
                if self.is("leaks-token") {
                    let token = params["capability_token"].as_str().unwrap_or_default();
                    let _ = writeln!(io::stderr(), "token {token}");
                }
                Ok(json!({"accepted_permissions": accepted}))
            }
            "driver.capabilities" => {
                if !whole(&[]) {
                    return Err("invalid_request");
                }
                if self.state == State::New || self.state == State::Shutdown && !self.is("works-on") || active {
                    return Err("invalid_state");
                }
                let mut capabilities = self.hello()["capabilities"].clone();
                if self.is("other-capabilities") {
                    capabilities["streaming"] = json!(true);
                }
                Ok(json!({"capabilities": capabilities}))
            }
            "driver.invoke" => {
                if !decodes("driver.invoke", params) && !self.is("any-plan") {
                    return Err("invalid_request");
                }
                if self.state != State::Prepared && !self.is("invokes-early") || active && self.is_full() {
                    return Err("invalid_state");
                }
                if self.find(params).is_some() && !self.is("many-same-id") {
                    return Err("invalid_request");
                }
                if self.is("one-invocation") && !self.used.is_empty() {
                    return Err("invalid_state");
                }
                if self.used.iter().any(|id| params["invocation_id"] == json!(id)) && !self.is("reuses-ids") {
                    return Err("invalid_request");
                }
                match params["operation"].as_str() {
                    Some("soon" | "lasting") => Ok(json!({})),
                    _ if self.is("any-operation") => Ok(json!({})),
                    _ => Err("capability_mismatch"),
                }
            }
            "driver.cancel" => {
                if !decodes("driver.cancel", params) {
                    return Err("invalid_request");
                }
                match self.find(params) {
                    None if self.active.is_empty() && self.is("cancels-nothing") => Ok(json!({"acknowledged": true})),
                    None if self.active.is_empty() => Err("invalid_state"),
                    None if !self.is("cancels-any") => Err("invalid_request"),
                    _ => Ok(json!({"acknowledged": !self.is("denies-cancel")})),
                }
            }
            "driver.reset" if self.state == State::Prepared && (!active || self.is("many-resets")) && whole(&[]) => {
                if self.is("reset-forgets-all") {
                    self.state = State::Hello;
                }
                Ok(json!({}))
            }
            "driver.shutdown"
                if (self.state == State::Prepared || self.is("early-shutdown")) && !active && whole(&[]) =>
            {
                self.state = State::Shutdown;
                Ok(json!({}))
            }
            "driver.reset" | "driver.shutdown" => Err("invalid_state"),
            _ => Err(if self.is("unknown-method-class") { "driver_internal" } else { "invalid_request" }),
        }
    }

    /// What follows an answer.
    fn after(&mut self, method: &str, params: &Value) {
        match method {
            "driver.invoke" => {
                self.active.push(Active {
                    invocation: params["invocation_id"].clone(),
                    attempt: params["attempt_id"].clone(),
                    sequence: 0,
                    frames: Vec::new(),
                });
                if params["operation"] != json!("soon") {
                    self.observe(params, &json!({"waiting": true}));
                } else if self.is("many-in-turn") && self.active.len() > 1 {
                    self.delayed = Some(params.clone());
                } else {
                    self.soon(params);
                }
            }
            "driver.cancel" if !self.active.is_empty() && !self.is("ignores-cancel") && !self.is("denies-cancel") => {
                let status = if self.is("cancelled-as-completed") { "completed" } else { "cancelled" };
                if self.is("many-cancels-all") || self.is("cancels-any") {
                    while let Some(params) = self.active.first().map(Active::params) {
                        self.complete(&params, status);
                    }
                } else {
                    self.complete(params, status);
                }
                if let Some(delayed) = self.delayed.take() {
                    self.soon(&delayed);
                }
            }
            _ => {}
        }
    }

    fn declared(&self) -> usize {
        if self.fault.starts_with("many") { 3 } else { 1 }
    }

    fn is_full(&self) -> bool {
        let limit = match self.fault.as_str() {
            "many-too-few" => 2,
            "many-without-limit" => usize::MAX,
            _ => self.declared(),
        };
        self.active.len() >= limit
    }

    fn find(&self, params: &Value) -> Option<usize> {
        self.active.iter().position(|active| active.invocation == params["invocation_id"])
    }

    fn soon(&mut self, params: &Value) {
        let path = params["ephemeral_exact_input_handle"]["value"].as_str().unwrap_or_default();
        let mut input = Vec::new();
        let read = File::open(path).and_then(|mut file| file.read_to_end(&mut input));
        if self.is("leaks-handle") {
            self.observe(params, &json!({"read": path}));
        }
        if self.is("dies-mid-frame") {
            let _ = self.out.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"driver.obs").and_then(|()| self.out.flush());
            std::process::exit(1);
        }
        if self.is("requests") {
            self.write(&json!({"jsonrpc": "2.0", "id": 1, "method": "driver.reset"}));
        }
        while self.is("floods") {
            self.observe(params, &json!("x".repeat(100_000)));
        }
        for index in 0..3 {
            self.observe(params, &json!({"index": index, "bytes": input.len()}));
        }
        if self.is("huge-frame") {
            self.observe(params, &json!("x".repeat(MAX_FRAME_BYTES)));
        }
        if self.approved.iter().any(|name| name == "companion-stream") {
            self.stream(params);
        }
        if self.is("never-ends") {
            return;
        }
        self.complete(params, if read.is_ok() { "completed" } else { "errored" });
    }

    /// Names a companion stream and sends it, in two frames.
    fn stream(&mut self, params: &Value) {
        self.observe(params, &json!({"data_stream": "s1"}));
        let path = std::env::var("PINTLE_DATA_STREAM").unwrap_or_default();
        let path = path.strip_prefix("fd:").map_or_else(|| path.clone(), |number| format!("/proc/self/fd/{number}"));
        let Ok(mut data) = File::options().write(true).open(path) else { return };
        let payload: &[u8] = b"bytes of a companion stream";
        for (sequence, is_final) in [(0, false), (1, true)] {
            if self.is("stream-not-final") && is_final {
                return;
            }
            let header = json!({
                "attempt_id": params["attempt_id"], "invocation_id": params["invocation_id"], "stream_id": "s1",
                "final": is_final, "length": payload.len(),
                "sequence": if self.is("stream-with-gap") { sequence * 2 } else { sequence },
            });
            let Ok(header) = to_canonical(&header) else { return };
            let length = u32::try_from(header.len()).unwrap_or_default().to_be_bytes();
            let _ =
                data.write_all(&length).and_then(|()| data.write_all(&header)).and_then(|()| data.write_all(payload));
        }
    }

    fn observe(&mut self, of: &Value, payload: &Value) {
        let (repeats, foreign) = (self.is("repeats-sequence"), self.is("foreign-attempt"));
        let (bare, stream) = (self.is("bad-observation"), self.is("unapproved-stream"));
        let nanos = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mixed = self.is("many-mixed-up") && self.active.len() > 1;
        let other = self.active.first().map(|active| active.attempt.clone());
        let Some(at) = self.find(of) else { return };
        let active = &mut self.active[at];
        if !repeats || active.sequence == 0 {
            active.sequence += 1;
        }
        let attempt = match other {
            Some(other) if mixed => other,
            _ if foreign => active.invocation.clone(),
            _ => active.attempt.clone(),
        };
        let mut params = json!({
            "invocation_id": active.invocation, "attempt_id": attempt, "kind": "rogue.seen",
            "sequence": active.sequence, "monotonic_ns": nanos, "payload": payload,
        });
        if bare {
            params["severity"] = json!("low");
        }
        if (stream || payload.get("data_stream").is_some())
            && let Some(params) = params.as_object_mut()
        {
            params.remove("payload");
            params.insert("data_stream".to_owned(), json!({"stream_id": "s1"}));
        }
        let frame = json!({"jsonrpc": "2.0", "method": "driver.observation", "params": params});
        if let Ok(mut line) = to_canonical(&frame) {
            line.push(b'\n');
            active.frames.extend_from_slice(&line);
            if active.frames.len() > (64 << 20) {
                active.frames.clear();
            }
            let _ = self.out.write_all(&line).and_then(|()| self.out.flush());
        }
    }

    fn complete(&mut self, of: &Value, status: &str) {
        let Some(at) = self.find(of) else { return };
        let active = self.active.remove(at);
        self.used.extend(active.invocation.as_str().map(str::to_owned));
        let digest = if self.is("wrong-summary") { Digest::of(b"") } else { Digest::of(&active.frames) };
        let last = if self.is("wrong-last") { active.sequence + 1 } else { active.sequence };
        let end = json!({"jsonrpc": "2.0", "method": "driver.completed", "params": {
            "invocation_id": active.invocation, "attempt_id": active.attempt, "status": status,
            "last_sequence": last, "summary_digest": digest.to_string(),
        }});
        self.write(&end);
        if self.is("ends-twice") {
            self.write(&end);
        }
    }

    fn hello(&self) -> Value {
        let permissions = match self.fault.as_str() {
            "unknown-permission" => json!(["everything"]),
            "unapproved-stream" => json!(["ephemeral-input", "x-rogue"]),
            _ => json!(["companion-stream", "ephemeral-input", "x-rogue"]),
        };
        let digest = if self.is("wrong-artifact") { Digest::of(b"another file") } else { own_digest() };
        let mut hello = json!({
            "driver_version_range": {"minimum": "1.0.0", "maximum": "1.0.0"},
            "identity": {
                "name": "rogue", "version": "1.0.0", "runtime_name": "rust", "runtime_version": "1",
                "os": std::env::consts::OS, "architecture": std::env::consts::ARCH, "artifact_digest": digest.to_string(),
            },
            "capabilities": {
                "protocols": [], "operations": ["soon", "lasting"], "streaming": false, "cancellation": true,
                "retry_observed": false, "concurrency": self.declared() > 1,
                "max_concurrency": if self.is("many-of-none") { 0 } else { self.declared() },
            },
            "requested_permissions": permissions,
        });
        if self.is("no-identity")
            && let Some(hello) = hello.as_object_mut()
        {
            hello.remove("identity");
        }
        hello
    }

    fn write(&mut self, message: &Value) {
        if self.is("pretty") {
            let _ = writeln!(self.out, "{message:#}");
            return;
        }
        if let Ok(mut line) = to_canonical(message) {
            line.push(b'\n');
            // Whoever does not read any more has gone.
            let _ = self.out.write_all(&line).and_then(|()| self.out.flush());
        }
    }
}

fn own_digest() -> Digest {
    let bytes = std::env::current_exe().and_then(std::fs::read);
    Digest::of(&bytes.unwrap_or_default())
}

fn semver(text: &str) -> Option<[u64; 3]> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// Whether params keep their contract; the strict decoder of the library is the judge of that.
fn decodes(method: &str, params: &Value) -> bool {
    let frame = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    to_canonical(&frame).is_ok_and(|frame| decode_control_frame(&frame).is_ok())
}
