//! A task on its way to another machine or from another program (A9).

use pintle_wire::{Profile, RootKind, ScanLimits};
use serde::Deserialize;
use thiserror::Error;

use crate::ids::{SessionId, TaskId};
use crate::json::Object;
use crate::state::{Pointer, State, Status, Task, nullable};
use crate::text::PointerText;
use crate::{Generation, Revision, wire_input};

/// The schema name of a record.
pub const RECORD_SCHEMA: &str = "pintle.task.v1";
/// The largest record that is read.
pub const RECORD_MAX_BYTES: usize = 64 * 1024;

const RECORD_MAX_DEPTH: usize = 2;

/// A task as `task send` puts it on the wire: one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// The session that it comes from.
    pub session_id: SessionId,
    /// The generation that it had there.
    pub generation: Generation,
    /// The revision that it had there.
    pub revision: Revision,
    /// CLEAN or DIRTY.
    pub status: Status,
    /// The task.
    pub task: Task,
    /// The agent that worked on it.
    pub agent: Option<String>,
    /// Where it worked.
    pub cwd: Option<String>,
    /// The machine.
    pub host: Option<String>,
}

/// Bytes are not a task record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("read a task record: {0}")]
pub struct RecordError(&'static str);

impl TaskRecord {
    /// The record of a state; `None` when it has no task.
    pub fn of(state: &State) -> Option<Self> {
        Some(Self {
            session_id: state.session_id.clone(),
            generation: state.generation.clone(),
            revision: state.revision,
            status: state.pointer.status(),
            task: state.pointer.task()?.clone(),
            agent: None,
            cwd: None,
            host: None,
        })
    }

    /// The record's pointer.
    pub fn pointer(&self) -> Pointer {
        match self.status {
            Status::Dirty => Pointer::Dirty(self.task.clone()),
            Status::Clean | Status::Cleared => Pointer::Clean(self.task.clone()),
        }
    }

    /// One line of JSON, without its LF.
    pub fn to_json(&self) -> String {
        Object::new()
            .string("schema", RECORD_SCHEMA)
            .string("session_id", self.session_id.as_str())
            .string("generation", self.generation.as_str())
            .number("revision", self.revision.get())
            .string("status", self.status.as_str())
            .string("task_id", self.task.id.as_str())
            .string("pointer_text", self.task.text.as_str())
            .nullable("agent", self.agent.as_deref())
            .nullable("cwd", self.cwd.as_deref())
            .nullable("host", self.host.as_deref())
            .finish()
    }

    /// Reads a record, strictly.
    ///
    /// # Errors
    /// [`RecordError`], which never repeats content.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let limits = ScanLimits { max_bytes: RECORD_MAX_BYTES, max_depth: RECORD_MAX_DEPTH };
        let text = pintle_wire::scan(wire_input::without_bom(bytes), Profile::DriverRpc, limits)
            .map_err(|_| RecordError("it is not strict JSON of at most 64 KiB"))?;
        if text.root() != RootKind::Object {
            return Err(RecordError("it is not an object"));
        }
        let fields: Fields =
            text.decode().map_err(|_| RecordError("a member is missing, unknown or of the wrong type"))?;
        if fields.schema != RECORD_SCHEMA {
            return Err(RecordError("schema is not pintle.task.v1"));
        }
        Ok(Self {
            session_id: fields.session_id.parse().map_err(|_| RecordError("session_id"))?,
            generation: fields.generation.parse().map_err(|_| RecordError("generation"))?,
            revision: Revision::new(fields.revision).map_err(|_| RecordError("revision"))?,
            status: Status::parse(&fields.status)
                .filter(|status| *status != Status::Cleared)
                .ok_or(RecordError("status is not CLEAN or DIRTY"))?,
            task: Task {
                id: fields.task_id.parse::<TaskId>().map_err(|_| RecordError("task_id"))?,
                text: PointerText::publish(&fields.pointer_text).map_err(|_| RecordError("pointer_text"))?,
            },
            agent: fields.agent,
            cwd: fields.cwd,
            host: fields.host,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    schema: String,
    session_id: String,
    generation: String,
    revision: u64,
    status: String,
    task_id: String,
    pointer_text: String,
    #[serde(deserialize_with = "nullable")]
    agent: Option<String>,
    #[serde(deserialize_with = "nullable")]
    cwd: Option<String>,
    #[serde(deserialize_with = "nullable")]
    host: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_round_trips_and_is_strict() {
        let record = TaskRecord {
            session_id: "s".parse().expect("id"),
            generation: Generation::from_random([1; 16]),
            revision: Revision::FIRST,
            status: Status::Dirty,
            task: Task { id: TaskId::from_random([2; 16]), text: PointerText::publish("goal\nnext").expect("legal") },
            agent: Some("codex".into()),
            cwd: None,
            host: Some("desk".into()),
        };
        let line = record.to_json();
        assert!(!line.contains('\n'));
        assert_eq!(TaskRecord::decode(line.as_bytes()), Ok(record));
        for bad in
            [line.replace("DIRTY", "CLEARED"), line.replace("v1", "v2"), line.replace("\"cwd\":null,", ""), "[]".into()]
        {
            assert!(TaskRecord::decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
