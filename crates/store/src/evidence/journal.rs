//! `journal.ndjson`: records in order, each bound to the one before.
//!
//! A line is `{"kind":K,"prev":D,"seq":N,"value":V}` in canonical form, with `seq` from 1, contiguous, and `prev` the
//! digest of the line before without its LF; before the first line stands the run's id.

use std::path::{Path, PathBuf};

use pintle_wire::{Digest, InstanceId, MAX_DEPTH, Profile, ScanLimits, scan};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{EvidenceError, JournalEnd};
use crate::{
    fs::{Fs, FsFile, OpenHow},
    fsx,
    sanitise::{Sanitised, Shape},
};

/// The longest line of a journal, with its LF. What is larger goes into an object.
pub const MAX_RECORD_BYTES: usize = 2 * 1024 * 1024;

/// What is kept in memory before it is handed to the operating system.
const BUFFER_BYTES: usize = 64 * 1024;

/// A journal that is being written.
#[derive(Debug)]
pub(super) struct Journal {
    file: Box<dyn FsFile>,
    path: PathBuf,
    buffer: Vec<u8>,
    end: JournalEnd,
}

impl Journal {
    pub(super) fn create(fs: &dyn Fs, path: PathBuf, id: InstanceId) -> Result<Self, EvidenceError> {
        let file = fsx::open(fs, &path, OpenHow::CreateNew { mode: fsx::FILE_MODE })?;
        Ok(Self { file, path, buffer: Vec::new(), end: JournalEnd { bytes: 0, last: start(id), records: 0 } })
    }

    /// Appends a record and returns its number. It is in memory until the buffer is full or synced.
    pub(super) fn append(&mut self, kind: &str, value: &Sanitised) -> Result<u64, EvidenceError> {
        check_name(kind)?;
        let refuse = || EvidenceError::Value { kind: kind.to_owned() };
        let canonical;
        let value = match value.shape() {
            Shape::Bytes => return Err(refuse()),
            Shape::Json if value.is_canonical() => value.bytes(),
            Shape::Json => {
                canonical = pintle_wire::canonicalize_bytes(value.bytes()).map_err(|_| refuse())?;
                &canonical
            }
        };
        let seq = self.end.records + 1;
        let head = format!(r#"{{"kind":"{kind}","prev":"{}","seq":{seq},"value":"#, self.end.last);
        let bytes = head.len() + value.len() + 2;
        if bytes > MAX_RECORD_BYTES {
            return Err(EvidenceError::TooLarge { bytes, limit_bytes: MAX_RECORD_BYTES });
        }
        let line = self.buffer.len();
        self.buffer.extend_from_slice(head.as_bytes());
        self.buffer.extend_from_slice(value);
        self.buffer.push(b'}');
        let last = Digest::of(&self.buffer[line..]);
        self.buffer.push(b'\n');
        self.end = JournalEnd { bytes: self.end.bytes + bytes as u64, last, records: seq };
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(seq)
    }

    pub(super) fn flush(&mut self) -> Result<(), EvidenceError> {
        let written = fsx::write_all(self.file.as_mut(), &self.path, &self.buffer);
        // Gone even on an error: to write it again behind a part of itself would only do damage.
        self.buffer.clear();
        Ok(written?)
    }

    pub(super) fn sync(&mut self) -> Result<(), EvidenceError> {
        self.flush()?;
        Ok(fsx::sync_data(self.file.as_mut(), &self.path)?)
    }

    pub(super) fn end(&self) -> JournalEnd {
        self.end
    }
}

/// One record of a journal.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its number, from 1.
    pub seq: u64,
    /// Its kind.
    pub kind: String,
    /// Its value, as it stands there.
    pub value: Box<RawValue>,
}

/// How a journal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// With a whole record.
    Whole,
    /// With bytes that are no record: the run was interrupted while it wrote. The records before are as they were written.
    Torn {
        /// How many bytes.
        bytes: u64,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    kind: String,
    prev: Digest,
    seq: u64,
    value: Box<RawValue>,
}

/// Follows the chain of a journal.
#[derive(Debug)]
pub(super) struct Chain {
    last: Digest,
    records: u64,
}

impl Chain {
    pub(super) fn new(id: InstanceId) -> Self {
        Self { last: start(id), records: 0 }
    }

    /// The record in a line (without LF), if it is the next one.
    pub(super) fn next(&mut self, line: &[u8]) -> Option<Record> {
        let limits = ScanLimits { max_bytes: MAX_RECORD_BYTES, max_depth: MAX_DEPTH };
        let text = scan(line, Profile::DriverRpc, limits).ok()?;
        let Line { kind, prev, seq, value } = text.decode().ok()?;
        if prev != self.last || seq != self.records + 1 {
            return None;
        }
        self.last = Digest::of(line);
        self.records = seq;
        Some(Record { seq, kind, value })
    }

    /// What a line says of itself: its number and the digest of the line before.
    pub(super) fn claims(line: &[u8]) -> Option<(u64, Digest)> {
        let limits = ScanLimits { max_bytes: MAX_RECORD_BYTES, max_depth: MAX_DEPTH };
        let Line { prev, seq, .. } = scan(line, Profile::DriverRpc, limits).ok()?.decode().ok()?;
        Some((seq, prev))
    }

    /// The digest that the next line must name.
    pub(super) fn last(&self) -> Digest {
        self.last
    }

    pub(super) fn end(&self, bytes: u64) -> JournalEnd {
        JournalEnd { bytes, last: self.last, records: self.records }
    }
}

/// Names of kinds and files.
pub(super) fn check_name(name: &str) -> Result<(), EvidenceError> {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    if (1..=64).contains(&name.len()) && name.bytes().all(known) && !name.starts_with('.') {
        Ok(())
    } else {
        Err(EvidenceError::Name { name: name.chars().take(80).collect() })
    }
}

pub(super) fn path_in(run: &Path) -> PathBuf {
    run.join(super::JOURNAL)
}

fn start(id: InstanceId) -> Digest {
    Digest::of(id.to_string().as_bytes())
}
