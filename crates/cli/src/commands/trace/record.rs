//! The recorder: turns what passed into rows and writes them. It runs on a thread of its own, so that neither it nor the
//! disk below it is ever waited for.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pintle_sdk::process::Exit;
use pintle_store::sanitise::Sanitiser;
use pintle_store::{Fs, FsError, FsFile, LockKind, OpenHow, Sanitised, fsx};

use super::lines::{HEAD_BYTES, Lines, TracedLine};
use super::lint::{self, Linter, Looked};
use super::queue::{Queue, Seen, What};
use super::row::{Content, Dir, End, Fault, FrameRow, Row, Start};

/// Most bytes of one trace file. An editor may run for weeks.
pub(super) const FILE_BYTES: u64 = 1024 * 1024 * 1024;
/// Rows are handed to the disk when this much has gathered, or nothing more waits.
const WRITE_BYTES: usize = 256 * 1024;

/// Where rows go.
#[derive(Debug)]
pub(super) struct Sink {
    file: Box<dyn FsFile>,
    path: PathBuf,
    /// The length up to which whole rows stand.
    good_bytes: u64,
    /// Rows that could not be written since the last that could.
    unwritten: u64,
    all_unwritten: u64,
    full: bool,
    error: Option<FsError>,
}

/// How the recording went.
#[derive(Debug)]
pub(super) struct Recorded {
    /// Rows that are missing in the file.
    pub(super) unwritten: u64,
    /// Why.
    pub(super) error: Option<FsError>,
}

impl Sink {
    /// Opens `path` to append to, mode 0600 where it is new. While another trace writes there, a name beside it is used.
    pub(super) fn open(fs: &dyn Fs, path: &Path, pid: u32) -> Result<Self, FsError> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fsx::ensure_dir(fs, parent)?;
        }
        let file = fsx::open(fs, path, OpenHow::Append { mode: 0o600 })?;
        // Where the file system cannot lock, the file is ours to use: two at once are rare, and rows stay whole.
        if let Ok(false) = file.try_lock(LockKind::Exclusive) {
            let mut other = path.to_owned().into_os_string();
            other.push(format!(".{pid}"));
            let other = PathBuf::from(other);
            return Self::over(fsx::open(fs, &other, OpenHow::Append { mode: 0o600 })?, other);
        }
        Self::over(file, path.to_owned())
    }

    fn over(file: Box<dyn FsFile>, path: PathBuf) -> Result<Self, FsError> {
        let good_bytes = match file.metadata() {
            Ok(metadata) => metadata.len_bytes,
            Err(source) => return Err(FsError::Io { action: pintle_store::FsAction::Open, path, source }),
        };
        Ok(Self { file, path, good_bytes, unwritten: 0, all_unwritten: 0, full: false, error: None })
    }

    /// The file, as it was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes whole rows. On an error what is left of them is taken back, so that the file stays readable, and the next
    /// call tries again: a disk may be emptied.
    fn write(&mut self, rows: &[u8], count: u64) {
        if self.full || count == 0 {
            return;
        }
        let mut bytes = Cow::Borrowed(rows);
        let mut told = 0;
        if self.unwritten > 0 {
            let mut with_note = encoded(&Row::Unwritten { rows: self.unwritten });
            with_note.extend_from_slice(rows);
            bytes = Cow::Owned(with_note);
            told = self.unwritten;
        }
        if self.good_bytes + bytes.len() as u64 > FILE_BYTES {
            self.full = true;
            bytes = Cow::Owned(encoded(&Row::Limit { bytes: FILE_BYTES }));
        }
        match fsx::write_all(&mut *self.file, &self.path, &bytes) {
            Ok(()) => {
                self.good_bytes += bytes.len() as u64;
                self.unwritten -= told;
            }
            Err(error) => {
                // If this fails too, the torn row is told by whoever reads the file.
                let _ = fsx::set_len(&mut *self.file, &self.path, self.good_bytes);
                self.unwritten += count;
                self.all_unwritten += count;
                self.error.get_or_insert(error);
            }
        }
    }
}

/// Reads the queue until it is closed. What is left then is for [`Rest::finish`].
pub(super) fn record(queue: &Queue, sink: Sink, start: &Start, sanitiser: Option<Sanitiser>) -> Rest {
    let mut recorder = Recorder {
        sink,
        sanitiser,
        rows: Vec::new(),
        count: 0,
        linter: Linter::default(),
        lines: [Lines::default(), Lines::default()],
        line_numbers: [0; 2],
        end: End::default(),
    };
    recorder.begin(start);
    recorder.flush();
    while let Some(mut items) = queue.take() {
        while let Some(seen) = items.pop_front() {
            recorder.seen(seen);
            if queue.is_closed() {
                return Rest { recorder, items };
            }
        }
        recorder.flush();
    }
    Rest { recorder, items: VecDeque::new() }
}

/// A recording of which the end is missing.
pub(super) struct Rest {
    recorder: Recorder,
    items: VecDeque<Seen>,
}

impl Rest {
    /// Records what was taken from the queue and what is left in it, and the last row. For what is not reached in time
    /// there is a row that says how much it was.
    pub(super) fn finish(mut self, queue: &Queue, until: Instant) -> Recorded {
        self.items.append(&mut queue.rest());
        let mut lost = [0; 2];
        for seen in self.items {
            match seen.what {
                What::Bytes(dir, bytes) if Instant::now() >= until => lost[dir as usize] += bytes.len() as u64,
                what => {
                    for dir in Dir::BOTH {
                        let bytes = std::mem::take(&mut lost[dir as usize]);
                        if bytes > 0 {
                            self.recorder.seen(Seen { t_ns: seen.t_ns, what: What::Lost(dir, bytes) });
                        }
                    }
                    self.recorder.seen(Seen { t_ns: seen.t_ns, what });
                }
            }
        }
        self.recorder.finish(lost);
        Recorded { unwritten: self.recorder.sink.all_unwritten, error: self.recorder.sink.error }
    }
}

struct Recorder {
    sink: Sink,
    sanitiser: Option<Sanitiser>,
    rows: Vec<u8>,
    /// Rows in `rows`.
    count: u64,
    linter: Linter,
    lines: [Lines; 2],
    line_numbers: [u64; 2],
    end: End,
}

impl Recorder {
    fn begin(&mut self, start: &Start) {
        let row = Row::Start(start.clone());
        match self.sanitiser.as_ref().map(|sanitiser| sanitiser.value(&row)) {
            // Arguments may be secret, also those of programs that we do not know.
            Some(Ok(sanitised)) => {
                self.rows.extend_from_slice(sanitised.bytes());
                self.rows.push(b'\n');
                self.count += 1;
            }
            Some(Err(_)) => {}
            None => self.row(&row),
        }
    }

    fn seen(&mut self, Seen { t_ns, what }: Seen) {
        self.end.t_ns = t_ns;
        match what {
            What::Bytes(dir, bytes) => {
                *self.end.bytes.entry(dir).or_default() += bytes.len() as u64;
                let mut lines = std::mem::take(&mut self.lines[dir as usize]);
                lines.push(&bytes, |line| self.line(t_ns, dir, &line));
                self.lines[dir as usize] = lines;
            }
            What::Lost(dir, bytes) => {
                *self.end.bytes.entry(dir).or_default() += bytes;
                self.lines[dir as usize].lose();
                self.linter.lost();
                self.row(&Row::Lost { t_ns, dir, bytes });
            }
            What::Eof(dir) => {
                let mut lines = std::mem::take(&mut self.lines[dir as usize]);
                lines.finish(|line| self.line(t_ns, dir, &line));
                self.lines[dir as usize] = lines;
                self.row(&Row::Eof { t_ns, dir });
            }
            What::Refused(dir) => self.row(&Row::Refused { t_ns, dir }),
            What::Exit(exit) => {
                let (code, signal) = match exit {
                    Some(Exit::Code(code)) => (Some(code), None),
                    Some(Exit::Signal(signal)) => (None, Some(signal)),
                    _ => (None, None),
                };
                self.row(&Row::Exit { t_ns, code, signal });
            }
        }
        if self.rows.len() >= WRITE_BYTES {
            self.flush();
        }
    }

    fn line(&mut self, t_ns: u64, dir: Dir, line: &TracedLine<'_>) {
        self.line_numbers[dir as usize] += 1;
        let looked = (!line.is_cut()).then(|| Looked::at(line.bytes));
        let mut faults = match &looked {
            Some(looked) => self.linter.line(dir, looked),
            None => {
                // It may be a legal message, and even open a request.
                self.linter.lost();
                match line.len > pintle_wire::MAX_ACP_LINE_BYTES as u64 {
                    true => vec![fault("line_too_long", "over the 64 MiB that a line of ACP may have here")],
                    false => Vec::new(),
                }
            }
        };
        if line.unterminated {
            faults.push(fault("unterminated", "the stream ended before its line did"));
        }
        lint::count(&mut self.end.faults, &faults);
        let sanitised = self.sanitiser.as_ref().and_then(|sanitiser| match &looked {
            Some(looked) => looked.sanitised(line.bytes, sanitiser),
            None => Some(sanitiser.beginning(line.bytes, HEAD_BYTES)),
        });
        if let Some(sanitiser) = &self.sanitiser {
            for fault in &mut faults {
                fault.message = sanitiser.text(fault.message.as_bytes(), HEAD_BYTES).to_text().into_owned();
            }
        }
        // Of a line that is cut there is more than is recorded.
        let raw = if line.is_cut() { &line.bytes[..line.bytes.len().min(HEAD_BYTES)] } else { line.bytes };
        let kept = sanitised.as_ref().map_or(raw, Sanitised::bytes);
        let content = match &looked {
            // Known to be UTF-8.
            Some(Looked::Update(update)) if sanitised.is_none() => Content::Text(update.as_str()),
            _ => str::from_utf8(kept).map_or_else(|_| Content::Base64(BASE64.encode(kept)), Content::Text),
        };
        let redactions = sanitised.iter().flat_map(|sanitised| sanitised.redactions().iter());
        let row = FrameRow {
            t_ns,
            dir,
            line: self.line_numbers[dir as usize],
            len: line.len,
            content,
            cut: line.is_cut(),
            unterminated: line.unterminated,
            redactions: &redactions.map(|(rule, count)| (rule.id().to_owned(), count)).collect(),
            faults: &faults,
        };
        row.write(&mut self.rows);
        self.count += 1;
    }

    fn finish(&mut self, lost: [u64; 2]) {
        for dir in Dir::BOTH {
            if lost[dir as usize] > 0 {
                self.seen(Seen { t_ns: self.end.t_ns, what: What::Lost(dir, lost[dir as usize]) });
            }
        }
        let lines = Dir::BOTH.map(|dir| (dir, self.line_numbers[dir as usize]));
        self.end.lines = lines.into();
        self.end.unanswered = self.linter.unanswered();
        let end = std::mem::take(&mut self.end);
        self.row(&Row::End(end));
        self.flush();
    }

    fn row(&mut self, row: &Row) {
        self.rows.extend_from_slice(&encoded(row));
        self.count += 1;
    }

    fn flush(&mut self) {
        self.sink.write(&self.rows, std::mem::take(&mut self.count));
        self.rows.clear();
        if self.rows.capacity() > 4 * WRITE_BYTES {
            self.rows = Vec::new();
        }
    }
}

fn fault(code: &'static str, message: &str) -> Fault {
    Fault { code: Cow::Borrowed(code), message: message.to_owned() }
}

/// One line. A row of ours always has one: strings, numbers and maps of strings.
fn encoded(row: &Row) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(row).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Removes the oldest traces beyond `keep` from the directory that we keep them in. One that is being written stays.
pub(super) fn prune(fs: &dyn Fs, dir: &Path, keep: usize) -> Result<(), FsError> {
    let mut names: Vec<_> = match fsx::read_dir(fs, dir) {
        Ok(entries) => entries.into_iter().map(|entry| entry.name).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    names.retain(|name| name.to_string_lossy().ends_with(".ndjson"));
    names.sort();
    let surplus = names.len().saturating_sub(keep);
    for name in &names[..surplus] {
        let path = dir.join(name);
        let is_free = fsx::open(fs, &path, OpenHow::Lock { mode: 0o600 })?.try_lock(LockKind::Exclusive);
        if is_free.unwrap_or(false) {
            fsx::remove_file(fs, &path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
