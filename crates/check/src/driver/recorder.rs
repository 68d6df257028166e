//! From lines to observations, in bounded space whatever the agent says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::exec::{Content, Frame, nanos};
use super::input::Limits;
use crate::observation::{AcpFrame, AcpOmitted, FRAME_BASE64_MAX_BYTES, FRAME_TEXT_MAX_BYTES, Observation};

/// Frames beyond [`Limits::max_frames`] that are reported all the same because they ask or answer something.
const NOTABLE_FRAMES: u32 = 1_500;

/// Frames that may travel by companion stream; Core takes 1024 streams in an invocation unless it says otherwise.
const MAX_STREAMS: u32 = 1_000;

/// Bytes beyond [`Limits::max_record_bytes`] for short frames that ask or answer something: an answer must not be lost
/// because much was streamed before it.
const NOTABLE_RECORD_BYTES: u64 = 16 * 1024 * 1024;

/// What a scenario reports, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// An observation.
    Observation(Observation),
    /// The whole content of a companion stream; the observation that names it comes next.
    Stream {
        /// Unique in the invocation.
        id: String,
        /// The line.
        bytes: Bytes,
    },
}

/// Keeps the count.
#[derive(Debug)]
pub(crate) struct Recorder {
    limits: Limits,
    /// Core takes companion streams.
    streams: bool,
    frames: u32,
    bytes: u64,
    streams_used: u32,
    omitted: Option<AcpOmitted>,
}

impl Recorder {
    /// A recorder; `streams` says whether long frames may travel by companion stream.
    pub(crate) fn new(limits: Limits, streams: bool) -> Self {
        Self { limits, streams, frames: 0, bytes: 0, streams_used: 0, omitted: None }
    }

    /// Reports a frame, or counts it among those that are summed up.
    pub(crate) fn frame(&mut self, frame: Frame, report: &mut impl FnMut(Report)) {
        let over = self.frames >= self.limits.max_frames;
        let kept = frame.notable && self.frames < self.limits.max_frames.saturating_add(NOTABLE_FRAMES);
        if over && !kept {
            return self.omit(&frame, report);
        }
        self.flush(report);
        self.frames += 1;
        let mut observed = AcpFrame {
            dir: frame.dir,
            line: frame.line,
            t_ns: nanos(frame.at),
            text: None,
            base64: None,
            stream_id: None,
            over_long_bytes: None,
            unterminated: frame.unterminated,
            step: frame.step,
            name: frame.name,
        };
        match frame.content {
            Content::OverLong(bytes) => observed.over_long_bytes = Some(bytes),
            Content::Whole(bytes) => self.content(bytes, frame.notable, &mut observed, report),
        }
        report(Report::Observation(Observation::Frame(observed)));
    }

    /// Reports the sum of what was omitted so far, if anything was.
    pub(crate) fn flush(&mut self, report: &mut impl FnMut(Report)) {
        if let Some(omitted) = self.omitted.take() {
            report(Report::Observation(Observation::Omitted(omitted)));
        }
    }

    fn content(&mut self, bytes: Bytes, notable: bool, observed: &mut AcpFrame, report: &mut impl FnMut(Report)) {
        let size = bytes.len();
        let reserve = if notable && size <= FRAME_TEXT_MAX_BYTES { NOTABLE_RECORD_BYTES } else { 0 };
        if self.bytes.saturating_add(size as u64) > self.limits.max_record_bytes.saturating_add(reserve) {
            observed.over_long_bytes = Some(size as u64);
            return;
        }
        let text = std::str::from_utf8(&bytes);
        match text {
            Ok(text) if size <= FRAME_TEXT_MAX_BYTES => observed.text = Some(text.to_owned()),
            Err(_) if size <= FRAME_BASE64_MAX_BYTES => observed.base64 = Some(STANDARD.encode(&bytes)),
            _ if self.streams && self.streams_used < MAX_STREAMS => {
                self.streams_used += 1;
                let id = format!("frame-{}", self.streams_used);
                observed.stream_id = Some(id.clone());
                report(Report::Stream { id, bytes });
            }
            _ => {
                observed.over_long_bytes = Some(size as u64);
                return;
            }
        }
        self.bytes += size as u64;
    }

    fn omit(&mut self, frame: &Frame, report: &mut impl FnMut(Report)) {
        if self.omitted.as_ref().is_some_and(|omitted| omitted.dir != frame.dir) {
            self.flush(report);
        }
        let bytes = match &frame.content {
            Content::Whole(bytes) => bytes.len() as u64,
            Content::OverLong(bytes) => *bytes,
        };
        let omitted = self.omitted.get_or_insert_with(|| AcpOmitted {
            dir: frame.dir,
            first_line: frame.line,
            last_line: frame.line,
            count: 0,
            bytes: 0,
            first_t_ns: nanos(frame.at),
            t_ns: 0,
        });
        omitted.last_line = frame.line;
        omitted.count += 1;
        omitted.bytes += bytes;
        omitted.t_ns = nanos(frame.at);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::observation::Direction;

    fn frame(line: u64, content: impl Into<Bytes>, notable: bool) -> Frame {
        Frame {
            dir: Direction::In,
            line,
            at: Duration::from_nanos(line),
            content: Content::Whole(content.into()),
            unterminated: false,
            step: None,
            name: None,
            notable,
        }
    }

    fn record(recorder: &mut Recorder, frame: Frame) -> Vec<Report> {
        let mut reports = Vec::new();
        recorder.frame(frame, &mut |report| reports.push(report));
        reports
    }

    fn only_frame(reports: &[Report]) -> &AcpFrame {
        match reports {
            [.., Report::Observation(Observation::Frame(frame))] => frame,
            other => panic!("no frame at the end of {other:?}"),
        }
    }

    #[test]
    fn content_travels_as_text_base64_or_stream() {
        let mut recorder = Recorder::new(Limits::default(), true);
        let text = record(&mut recorder, frame(1, "{}", true));
        assert_eq!(only_frame(&text).text.as_deref(), Some("{}"));
        let bytes = record(&mut recorder, frame(2, &b"\xff"[..], true));
        assert_eq!(only_frame(&bytes).base64.as_deref(), Some("/w=="));
        let long = record(&mut recorder, frame(3, vec![b'a'; FRAME_TEXT_MAX_BYTES + 1], true));
        assert_eq!(only_frame(&long).stream_id.as_deref(), Some("frame-1"));
        assert!(matches!(&long[0], Report::Stream { id, bytes } if id == "frame-1" && bytes.len() == 65_537));
    }

    #[test]
    fn without_a_companion_stream_only_the_length_is_kept() {
        let mut recorder = Recorder::new(Limits::default(), false);
        let long = record(&mut recorder, frame(1, vec![0xff; FRAME_BASE64_MAX_BYTES + 1], true));
        assert_eq!(only_frame(&long).over_long_bytes, Some(49_153));
    }

    #[test]
    fn a_flood_is_summed_up_but_an_answer_in_it_is_kept() {
        let limits = Limits { max_frames: 2, ..Limits::default() };
        let mut recorder = Recorder::new(limits, true);
        for line in 1..=2 {
            assert_eq!(record(&mut recorder, frame(line, "n", false)).len(), 1);
        }
        for line in 3..=102 {
            assert_eq!(record(&mut recorder, frame(line, "nn", false)), [], "line {line}");
        }
        let reports = record(&mut recorder, frame(103, "reply", true));
        let sum = AcpOmitted {
            dir: Direction::In,
            first_line: 3,
            last_line: 102,
            count: 100,
            bytes: 200,
            first_t_ns: 3,
            t_ns: 102,
        };
        assert_eq!(reports[0], Report::Observation(Observation::Omitted(sum)));
        assert_eq!(only_frame(&reports).line, 103);
    }

    #[test]
    fn a_flood_of_answers_is_bounded_too() {
        let limits = Limits { max_frames: 10, ..Limits::default() };
        let mut recorder = Recorder::new(limits, true);
        let kept: usize = (1..=5_000).map(|line| record(&mut recorder, frame(line, "r", true)).len()).sum();
        assert_eq!(kept, 10 + NOTABLE_FRAMES as usize);
    }

    #[test]
    fn beyond_the_byte_budget_only_lengths_are_kept() {
        let limits = Limits { max_record_bytes: 10, ..Limits::default() };
        let mut recorder = Recorder::new(limits, true);
        assert!(only_frame(&record(&mut recorder, frame(1, "12345678", false))).text.is_some());
        assert_eq!(only_frame(&record(&mut recorder, frame(2, "12345678", false))).over_long_bytes, Some(8));
        let answer = record(&mut recorder, frame(3, "12345678", true));
        assert!(only_frame(&answer).text.is_some(), "a short answer is kept all the same");
        let long = vec![b'a'; FRAME_TEXT_MAX_BYTES + 1];
        assert_eq!(only_frame(&record(&mut recorder, frame(4, long, true))).over_long_bytes, Some(65_537));
    }
}
