//! Texts that reach the evidence in pieces: the agent's standard error, and messages that come in chunks.
//!
//! A secret that is cut by such a border stands in none of the pieces as a whole. So the pieces of a text are looked at
//! together before any of them is kept.

use pintle_store::Sanitised;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::evidence::ObservationRecord;
use crate::observation::kind;

/// Which text a piece belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TextKey {
    /// What the agent writes to its standard error.
    Stderr,
    /// A message of a session: who says it, in which session, of which kind.
    Message { dir: String, session: String, update: String },
}

/// As much of a `session/update` with a text chunk as is needed to find the text in it.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(rename = "sessionId")]
    session: String,
    #[serde(borrow)]
    update: Update<'a>,
}

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(rename = "sessionUpdate")]
    kind: String,
    #[serde(borrow)]
    content: Content<'a>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

impl TextKey {
    /// Which text an observation has a piece of, and the piece.
    pub(super) fn of(record: &ObservationRecord) -> Option<(Self, String)> {
        let payload = record.payload.as_ref()?;
        let text = payload.get("text")?.as_str()?;
        match record.kind.as_str() {
            kind::AGENT_STDERR => Some((Self::Stderr, text.to_owned())),
            // A chunk names itself one, and most lines are none: a look at the text spares a parse of each.
            kind::ACP_FRAME if text.contains("_chunk") => {
                let frame: Frame<'_> = serde_json::from_str(text).ok()?;
                let piece: String = serde_json::from_str(frame.params.update.content.text.get()).ok()?;
                let dir = payload.get("dir")?.as_str()?.to_owned();
                let Params { session, update } = frame.params;
                let key = Self::Message { dir, session, update: update.kind };
                key.is_chunk().then_some((key, piece))
            }
            _ => None,
        }
    }

    /// Whether bytes were left out between this piece and the one before it.
    pub(super) fn follows_gap(&self, record: &ObservationRecord) -> bool {
        let dropped = record.payload.as_ref().and_then(|payload| payload.get("dropped_bytes"));
        *self == Self::Stderr && dropped.and_then(Value::as_u64).is_some_and(|bytes| bytes > 0)
    }

    fn is_chunk(&self) -> bool {
        matches!(self, Self::Message { update, .. } if update.ends_with("_chunk"))
    }

    /// Puts the text back into its observation, if anything was replaced in it. The rest of a frame stays byte for byte.
    pub(super) fn put(&self, record: &mut ObservationRecord, text: &Sanitised) -> Result<(), &'static str> {
        const LOST: &str = "failed to record an observation: its text could not be put back";
        let Some(place) = record.payload.as_mut().and_then(|payload| payload.get_mut("text")) else {
            return Err(LOST);
        };
        let Value::String(old) = place else { return Err(LOST) };
        match self {
            Self::Stderr => *old = text.to_text().into_owned(),
            Self::Message { .. } => {
                let Ok(frame) = serde_json::from_str::<Frame<'_>>(old) else { return Err(LOST) };
                let literal = frame.params.update.content.text.get();
                let same = serde_json::from_str::<String>(literal).is_ok_and(|old| old == text.to_text());
                if same {
                    return Ok(());
                }
                let start = literal.as_ptr().addr().checked_sub(old.as_ptr().addr()).ok_or(LOST)?;
                let end = start + literal.len();
                let (Some(before), Some(after)) = (old.get(..start), old.get(end..)) else { return Err(LOST) };
                let new = Value::String(text.to_text().into_owned());
                *place = Value::String(format!("{before}{new}{after}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pintle_store::Sanitiser;
    use serde_json::json;

    use super::*;

    const SECRET: &str = "s3cr3t-Canary-0123456789";

    fn record(kind: &str, payload: Value) -> ObservationRecord {
        ObservationRecord {
            scenario: "s".into(),
            sequence: 1,
            kind: kind.into(),
            monotonic_ns: 1,
            payload: Some(payload),
        }
    }

    fn chunk(text: &str) -> ObservationRecord {
        // Spelled as no serialiser of ours would.
        let line = format!(
            "{{ \"method\":\"session/update\", \"jsonrpc\":\"2.0\",\"params\":{{\"sessionId\":\"s1\", \"update\": \
             {{\"content\":{{\"type\":\"text\",\"text\": {} }},\"sessionUpdate\":\"agent_message_chunk\"}}}} }}",
            json!(text)
        );
        record(kind::ACP_FRAME, json!({"dir": "in", "line": 1, "t_ns": 1, "text": line}))
    }

    fn texts(records: Vec<ObservationRecord>) -> Vec<String> {
        let sanitiser = Sanitiser::new([SECRET]);
        let mut redactor = sanitiser.pieces();
        for record in records {
            let (key, text) = TextKey::of(&record).expect("a piece of a text");
            assert!(redactor.push((key, record), text.as_bytes()).is_empty());
        }
        let put = |((key, mut record), text): ((TextKey, ObservationRecord), Sanitised)| {
            key.put(&mut record, &text).expect("it is put back");
            record.payload.expect("a payload")["text"].as_str().expect("text").to_owned()
        };
        redactor.finish().into_iter().map(put).collect()
    }

    #[test]
    fn a_secret_in_the_chunks_of_a_message_is_replaced_and_the_rest_of_each_frame_stays() {
        let before = [chunk("it is s3cr"), chunk("3t-Can"), chunk("ary-0123456789 \"indeed\"")];
        let spelled = |record: &ObservationRecord| record.payload.as_ref().expect("a payload")["text"].clone();
        let originals: Vec<String> =
            before.iter().map(|record| spelled(record).as_str().expect("text").to_owned()).collect();
        let after = texts(before.into());
        let with =
            |original: &str, old: &str, new: &str| original.replace(&json!(old).to_string(), &json!(new).to_string());
        assert_eq!(after[0], with(&originals[0], "it is s3cr", "it is [redacted:canary]"));
        assert_eq!(after[1], with(&originals[1], "3t-Can", ""));
        assert_eq!(after[2], with(&originals[2], "ary-0123456789 \"indeed\"", " \"indeed\""));
    }

    #[test]
    fn chunks_without_a_secret_and_other_frames_are_left_alone() {
        let untouched = chunk("nothing here");
        let line = untouched.payload.as_ref().expect("a payload")["text"].as_str().expect("text").to_owned();
        assert_eq!(texts(vec![untouched]), [line]);
        for text in ["{\"method\":\"x_chunk\"}", "not json _chunk", "{}"] {
            assert!(TextKey::of(&record(kind::ACP_FRAME, json!({"dir": "in", "text": text}))).is_none());
        }
    }

    #[test]
    fn a_secret_in_two_pieces_of_standard_error_is_replaced() {
        let pieces = ["token s3cr3t-Ca", "nary-0123456789\n"];
        let pieces = pieces.map(|text| record(kind::AGENT_STDERR, json!({"t_ns": 1, "text": text})));
        assert_eq!(texts(pieces.into()), ["token [redacted:canary]", "\n"]);
    }
}
