//! The entries that prove an outcome.

use crate::observation::Direction;
use crate::trace::{Entry, EntryKind, Trace};

/// Most entries that are shown for one requirement.
pub const EVIDENCE_MAX: usize = 8;
/// Longest excerpt, in bytes.
const EXCERPT_MAX_BYTES: usize = 512;

/// An entry of a trace, cut for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Position in the trace.
    pub index: usize,
    /// What it is.
    pub kind: EntryKind,
    /// Who wrote it, for frames.
    pub dir: Option<Direction>,
    /// Line number in its direction, for frames.
    pub line: Option<u64>,
    /// Milliseconds since the scenario began.
    pub t_ms: f64,
    /// Name of the step that sent it; may be empty.
    pub step: String,
    /// What it says, on one line.
    pub excerpt: String,
    /// What is wrong with the line; may be empty.
    pub fault: String,
}

impl Evidence {
    fn of(entry: &Entry) -> Self {
        let is_frame = matches!(entry.kind, EntryKind::Frame | EntryKind::Flood);
        Self {
            index: entry.i,
            kind: entry.kind,
            dir: entry.dir,
            line: is_frame.then_some(entry.line),
            t_ms: entry.t_ms,
            step: entry.name.clone(),
            excerpt: excerpt(entry),
            fault: match entry.fault_detail.as_str() {
                "" => entry.fault.clone(),
                detail => format!("{}: {detail}", entry.fault),
            },
        }
    }
}

/// Entries as evidence, in order and without repetition; the second value counts those left out.
pub(super) fn collect(trace: &Trace, mut indices: Vec<usize>) -> (Vec<Evidence>, usize) {
    indices.sort_unstable();
    indices.dedup();
    let omitted = indices.len().saturating_sub(EVIDENCE_MAX);
    let shown = indices.iter().take(EVIDENCE_MAX).filter_map(|index| trace.entries.get(*index));
    (shown.map(Evidence::of).collect(), omitted)
}

/// Names of the steps that an expression refers to, in the order in which they stand.
pub(super) fn named_steps<'a>(expression: &'a str, trace: &Trace) -> Vec<&'a str> {
    let mut names = Vec::new();
    for part in expression.split("steps").skip(1) {
        let name = match part.as_bytes() {
            [b'.', ..] => part[1..].split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next(),
            [b'[', quote @ (b'\'' | b'"'), ..] => part[2..].split(char::from(*quote)).next(),
            _ => None,
        };
        if let Some(name) = name
            && trace.steps.contains_key(name)
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// The frames of the steps that an expression refers to.
pub(super) fn frames_of_steps(expression: &str, trace: &Trace) -> Vec<usize> {
    let steps = named_steps(expression, trace).into_iter().filter_map(|name| trace.steps.get(name));
    steps.flat_map(|step| [step.frame, step.reply]).flatten().collect()
}

fn excerpt(entry: &Entry) -> String {
    let mut text: String = entry
        .text
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect();
    let cut = text.len() > EXCERPT_MAX_BYTES;
    if cut {
        let mut end = EXCERPT_MAX_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    if (cut || entry.size > entry.text.len() as u64) && matches!(entry.kind, EntryKind::Frame) {
        text.push_str(&format!(".. ({} bytes)", entry.size));
    }
    text
}
