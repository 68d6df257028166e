//! `pintle driver explain`: one row per frame.

use std::io::{self, BufWriter, Read, StdoutLock, Write};

use pintle_driver::{
    Decoder, Digest, Id, Machine, Message, MessageKind, ProtocolError, State, decode_control_frame,
    encode_control_frame,
};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::error::CommandError;
use crate::exit::Exit;

/// Canonical texts above this are replaced by their length and digest.
const MAX_CANONICAL_BYTES: usize = 64 << 10;

/// The most that `--frame` reads. It is above the frame bound, because a line break far behind still decides the class.
const FRAME_INPUT_MAX_BYTES: u64 = 64 << 20;

/// Bytes that one read takes at most.
const READ_BYTES: usize = 64 << 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Take the whole of standard input as one frame, with or without its line ending.
    #[arg(long)]
    frame: bool,
    /// Apply each accepted frame to one fresh lifecycle machine; rows gain its state, a last row says what is active.
    #[arg(long)]
    machine: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, CommandError> {
    let mut explainer =
        Explainer { out: BufWriter::new(io::stdout().lock()), line: 0, machine: args.machine.then(Machine::new) };
    if args.frame {
        let mut frame = Vec::new();
        io::stdin().lock().take(FRAME_INPUT_MAX_BYTES).read_to_end(&mut frame).map_err(|error| unread(&error))?;
        explainer.row(decode_control_frame(&frame))?;
    } else {
        explain_stream(&mut explainer)?;
    }
    if let Some(machine) = &explainer.machine {
        explainer.print(&serde_json::json!({"active": machine.active()}))?;
    }
    explainer.out.flush()?;
    Ok(Exit::Ok)
}

/// Rows appear as soon as their frames are complete, so that a live stream can be watched.
fn explain_stream(explainer: &mut Explainer) -> Result<(), CommandError> {
    let mut decoder = Decoder::new();
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = match stdin.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unread(&error)),
        };
        decoder.feed(buffer.get(..read).unwrap_or_default().to_vec());
        while let Some(frame) = decoder.decode() {
            explainer.row(frame)?;
        }
        explainer.out.flush()?;
    }
    while let Some(frame) = decoder.finish() {
        explainer.row(frame)?;
    }
    Ok(())
}

struct Explainer {
    out: BufWriter<StdoutLock<'static>>,
    line: u64,
    machine: Option<Machine>,
}

impl Explainer {
    fn row(&mut self, frame: Result<Message, ProtocolError>) -> Result<(), CommandError> {
        self.line += 1;
        let (verdict, state) = match &mut self.machine {
            None => (Verdict::of(frame), None),
            Some(machine) => {
                let verdict = match frame {
                    Ok(message) => match machine.apply(&message) {
                        Ok(()) => Verdict::accepted(&message),
                        Err(error) => Verdict::Refused { error, stage: Some("machine") },
                    },
                    Err(error) => Verdict::Refused { error, stage: None },
                };
                (verdict, Some(machine.state()))
            }
        };
        self.print(&Row { line: self.line, verdict, state })
    }

    fn print(&mut self, row: &impl Serialize) -> Result<(), CommandError> {
        serde_json::to_writer(&mut self.out, row).map_err(io::Error::from)?;
        self.out.write_all(b"\n")?;
        Ok(())
    }
}

fn unread(error: &io::Error) -> CommandError {
    CommandError::new(Exit::Failed, "input", format!("read standard input: {error}"))
}

struct Row {
    line: u64,
    verdict: Verdict,
    state: Option<State>,
}

enum Verdict {
    Accepted {
        kind: MessageKind,
        method: Option<&'static str>,
        id: Option<Id>,
        canonical: Result<String, ProtocolError>,
    },
    Refused {
        error: ProtocolError,
        stage: Option<&'static str>,
    },
}

impl Verdict {
    fn of(frame: Result<Message, ProtocolError>) -> Self {
        match frame {
            Ok(message) => Self::accepted(&message),
            Err(error) => Self::Refused { error, stage: None },
        }
    }

    fn accepted(message: &Message) -> Self {
        let canonical = encode_control_frame(message).map(|frame| {
            let frame = frame.strip_suffix(b"\n").unwrap_or(&frame);
            String::from_utf8_lossy(frame).into_owned()
        });
        Self::Accepted {
            kind: message.kind(),
            method: message.method().map(|method| method.as_str()),
            id: message.id().cloned(),
            canonical,
        }
    }
}

/// Members in the documented order, absent ones left out.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("line", &self.line)?;
        match &self.verdict {
            Verdict::Accepted { kind, method, id, canonical } => {
                row.serialize_entry("ok", &true)?;
                row.serialize_entry("kind", kind.as_str())?;
                if let Some(method) = method {
                    row.serialize_entry("method", method)?;
                }
                if let Some(id) = id {
                    row.serialize_entry("id", id)?;
                }
                match canonical {
                    Ok(text) if text.len() <= MAX_CANONICAL_BYTES => row.serialize_entry("canonical", text)?,
                    Ok(text) => {
                        row.serialize_entry("canonical_len", &text.len())?;
                        row.serialize_entry("canonical_sha256", &Digest::of(text.as_bytes()).hex())?;
                    }
                    // The frame is fine as it came, but its canonical form is over the frame bound.
                    Err(error) => row.serialize_entry("canonical_error", &Reason(error))?,
                }
            }
            Verdict::Refused { error, stage } => {
                row.serialize_entry("ok", &false)?;
                row.serialize_entry("class", &error.class())?;
                row.serialize_entry("stage", stage.unwrap_or(error.stage()))?;
                row.serialize_entry("message", &error.to_string())?;
            }
        }
        if let Some(state) = self.state {
            row.serialize_entry("state", &state)?;
        }
        row.end()
    }
}

struct Reason<'a>(&'a ProtocolError);

impl Serialize for Reason<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut reason = serializer.serialize_map(Some(3))?;
        reason.serialize_entry("class", &self.0.class())?;
        reason.serialize_entry("stage", self.0.stage())?;
        reason.serialize_entry("message", &self.0.to_string())?;
        reason.end()
    }
}
