//! The companion stream, rule by rule: each is broken once by a mutant of a stream that keeps it, and 1 GiB goes through.
//!
//! | rule of the data plane | mutant |
//! | --- | --- |
//! | a header length of 1 to 4096, big endian | 0; 4097; little endian |
//! | the header is strict JSON in canonical form, with these members | a blank; members in another order; a member more, less, twice; not JSON; not UTF-8 |
//! | `length` is the payload's, at most the frame limit | one byte more than there is, and the next frame is read out of step; over the limit; negative; a fraction |
//! | `stream_id` has 1 to 256 bytes | empty; 257 |
//! | invocation and attempt are the active ones | another invocation; another attempt; none is active |
//! | sequence from 0, contiguous | from 1; a gap; back; twice |
//! | one final frame, nothing after it | a frame after it; two final frames; none |
//! | a named stream is final, a stream with data is named, within the grace after the last data | no final frame; no name; a name without data |
//! | a stream that still comes in has until the invocation's deadline, or the cancel's and the grace | a stream that trickles |
//! | budgets per stream and per invocation | one byte over each; one stream over |
//! | the stream ends between frames | cut at every byte |
//! | needs the permission `companion-stream` | data without it; a name without it |

use std::time::Duration;

use bytes::Bytes;
use pintle_driver::{
    CoreConfig, CoreEvent, DataFrameHeader, Digest, ErrorClass, Fault, Life, StreamFault, StreamLimits,
};
use pintle_wire::{SafeU64, encode_data_frame, encode_data_header};
use serde_json::{Value, json};

use crate::pair::{Pair, id};

const COMPANION: &[&str] = &["companion-stream"];
const GRACE: Duration = Duration::from_secs(1);

fn limits() -> StreamLimits {
    StreamLimits { max_streams: 3, max_stream_bytes: 20, max_invocation_bytes: 30 }
}

fn invoking() -> Pair {
    let config = CoreConfig { stream_limits: limits(), max_data_frame_bytes: 16, ..CoreConfig::default() };
    Pair::invoking(config, COMPANION)
}

fn header(stream_id: &str, sequence: u64, length: usize, is_final: bool) -> DataFrameHeader {
    DataFrameHeader {
        attempt_id: id(101),
        is_final,
        invocation_id: id(1),
        length: length as u32,
        sequence: SafeU64::new(sequence).expect("a sequence"),
        stream_id: stream_id.to_owned(),
    }
}

fn frame(stream_id: &str, sequence: u64, payload: &[u8], is_final: bool) -> Vec<u8> {
    let mut out = Vec::new();
    encode_data_frame(&header(stream_id, sequence, payload.len(), is_final), payload, usize::MAX, &mut out)
        .expect("a frame");
    out
}

/// A frame whose header text is what `change` makes of a good one.
fn mutant(change: impl FnOnce(String) -> String) -> Vec<u8> {
    let text = serde_json::to_string(&header("a", 0, 1, true)).expect("JSON");
    raw(change(text).as_bytes(), b"x")
}

fn raw(header: &[u8], payload: &[u8]) -> Vec<u8> {
    [&(header.len() as u32).to_be_bytes()[..], header, payload].concat()
}

fn named(pair: &mut Pair, stream_id: &str) {
    let frame = json!({"jsonrpc":"2.0","method":"driver.observation","params":{"invocation_id":id(1),
        "attempt_id":id(101),"sequence":1,"kind":"k","monotonic_ns":0,"data_stream":{"stream_id":stream_id}}});
    control(pair, &frame);
}

fn completed(pair: &mut Pair, last: Option<u64>) {
    let mut frame = json!({"jsonrpc":"2.0","method":"driver.completed","params":
        {"invocation_id":id(1),"attempt_id":id(101),"status":"completed","summary_digest":Digest::of(b"")}});
    if let Some(last) = last {
        frame["params"]["last_sequence"] = json!(last);
    }
    control(pair, &frame);
}

fn control(pair: &mut Pair, frame: &Value) {
    pair.core.feed(pair.now, format!("{frame}\n"));
}

fn class(pair: &mut Pair) -> Option<ErrorClass> {
    while let Some(event) = pair.core.poll_event() {
        if let CoreEvent::Fault(fault) = event {
            assert_eq!(pair.core.life(), &Life::Dead(fault.clone()), "a fault ends the invocation");
            return Some(fault.class());
        }
    }
    None
}

/// These bytes, in pieces of every size, end the session with this class.
fn check(what: &str, bytes: &[u8], expected: ErrorClass) {
    for piece in [1, 7, bytes.len()] {
        let mut pair = invoking();
        for piece in bytes.chunks(piece.max(1)) {
            pair.core.feed_data(pair.now, piece.to_vec());
        }
        assert_eq!(class(&mut pair), Some(expected), "{what} in pieces of {piece}");
    }
}

/// What every mutant below is a mutant of.
#[test]
fn a_stream_that_keeps_every_rule() {
    let mut pair = invoking();
    pair.core.feed_data(pair.now, [frame("a", 0, b"one", false), frame("a", 1, b"", true)].concat());
    named(&mut pair, "a");
    completed(&mut pair, Some(1));
    assert_eq!(class(&mut pair), None);
    assert_eq!(pair.core.life(), &Life::Alive);
}

#[test]
fn header_mutants() {
    let malformed = ErrorClass::MalformedObservation;
    check("an empty header", &raw(b"", b""), malformed);
    check("a header that is too long", &4097_u32.to_be_bytes(), malformed);
    let good = frame("a", 0, b"x", true);
    let mut little = good.clone();
    little[..4].reverse();
    check("a little-endian length", &little, malformed);
    check("a blank in it", &mutant(|text| text.replace(":true", ": true")), malformed);
    check("another order", &mutant(|text| reordered(&text)), malformed);
    check("a member more", &mutant(|text| text.replace("\"final\"", "\"extra\":1,\"final\"")), malformed);
    check("a member less", &mutant(|text| text.replace("\"sequence\":0,", "")), malformed);
    check("a member twice", &mutant(|text| text.replace("\"length\":1", "\"length\":1,\"length\":1")), malformed);
    check("an escape that is not needed", &mutant(|text| text.replace("\"a\"", "\"\\u0061\"")), malformed);
    check("not JSON", &raw(b"header", b"x"), malformed);
    check("not UTF-8", &raw(b"{\"\xff\":1}", b"x"), malformed);
    check("a negative length", &mutant(|text| text.replace("\"length\":1", "\"length\":-1")), malformed);
    check("a fraction", &mutant(|text| text.replace("\"length\":1", "\"length\":1.5")), malformed);
    check(
        "a length that is too small",
        &[mutant(|text| text.replace("\"length\":1", "\"length\":0")), good].concat(),
        malformed,
    );
    check("no stream id", &mutant(|text| text.replace("\"a\"", "\"\"")), malformed);
    let long = mutant(|text| text.replace("\"a\"", &format!("\"{}\"", "a".repeat(257))));
    check("a stream id that is too long", &long, malformed);
    check("over the frame limit", &frame("a", 0, &[0; 17], true), ErrorClass::BudgetExceeded);
}

fn reordered(text: &str) -> String {
    let inner = text.trim_start_matches('{').trim_end_matches('}');
    let (first, rest) = inner.split_once(',').expect("members");
    format!("{{{rest},{first}}}")
}

#[test]
fn identity_and_order_mutants() {
    let malformed = ErrorClass::MalformedObservation;
    check("another invocation", &mutant(|text| text.replace(&id(1).to_string(), &id(2).to_string())), malformed);
    check("another attempt", &mutant(|text| text.replace(&id(101).to_string(), &id(102).to_string())), malformed);
    let frames = |frames: &[(u64, bool)]| -> Vec<u8> {
        frames.iter().flat_map(|(sequence, is_final)| frame("a", *sequence, b"x", *is_final)).collect()
    };
    for (what, sequences) in [
        ("from one", &[(1, false)][..]),
        ("a gap", &[(0, false), (2, false)]),
        ("back", &[(0, false), (1, false), (0, false)]),
        ("twice", &[(0, false), (0, false)]),
        ("a frame after the final one", &[(0, true), (1, false)]),
        ("two final frames", &[(0, true), (1, true)]),
    ] {
        check(what, &frames(sequences), malformed);
    }
    let mut pair = Pair::prepared(CoreConfig::default(), COMPANION);
    pair.core.feed_data(pair.now, frame("a", 0, b"x", true));
    assert_eq!(class(&mut pair), Some(malformed), "no invocation is active");
}

#[test]
fn budget_mutants() {
    let over = ErrorClass::BudgetExceeded;
    check(
        "a byte over the stream's budget",
        &[frame("a", 0, &[0; 16], false), frame("a", 1, &[0; 5], true)].concat(),
        over,
    );
    let both: Vec<u8> = [frame("a", 0, &[0; 16], true), frame("b", 0, &[0; 15], true)].concat();
    check("a byte over the invocation's budget", &both, over);
    let many: Vec<u8> = ["a", "b", "c", "d"].iter().flat_map(|id| frame(id, 0, b"", true)).collect();
    check("a stream too many", &many, over);
    let mut pair = invoking();
    pair.core.feed_data(pair.now, [frame("a", 0, &[0; 16], false), frame("a", 1, &[0; 4], true)].concat());
    assert_eq!(class(&mut pair), None, "exactly the budget is fine");
}

#[test]
fn settlement_mutants() {
    type Part = fn(&mut Pair);
    let data: Part = |pair| pair.core.feed_data(pair.now, frame("a", 0, b"x", true));
    let open: Part = |pair| pair.core.feed_data(pair.now, frame("a", 0, b"x", false));
    let name: Part = |pair| named(pair, "a");
    for (what, parts, last, fault) in [
        ("no final frame", &[name, open][..], Some(1), StreamFault::NotFinal),
        ("no name", &[data], None, StreamFault::NotNamed),
        ("a name without data", &[name], Some(1), StreamFault::NotFinal),
    ] {
        let mut pair = invoking();
        parts.iter().for_each(|part| part(&mut pair));
        completed(&mut pair, last);
        assert_eq!(pair.core.life(), &Life::Alive, "{what}: the grace has not passed");
        pair.wait(GRACE);
        assert_eq!(pair.core.life(), &Life::Dead(Fault::Stream(fault)), "{what}");
    }
}

/// Completed with a stream that is named and open.
fn ending(config: CoreConfig, cancel: Option<Duration>) -> Pair {
    let mut pair = Pair::invoking(config, COMPANION);
    named(&mut pair, "a");
    if let Some(deadline) = cancel {
        pair.core.cancel(pair.now, id(1), "enough", deadline).expect("it is active");
    }
    completed(&mut pair, Some(1));
    while pair.core.poll_output().is_some() || pair.core.poll_event().is_some() {}
    pair
}

fn has_completed(pair: &mut Pair) -> bool {
    std::iter::from_fn(|| pair.core.poll_event()).any(|event| matches!(event, CoreEvent::Completed(_)))
}

/// The grace is for silence: a Core that reads slowly, and a driver that has much to write, are in time as long as something
/// comes. What was there to be read when time had passed was in time as well.
#[test]
fn the_grace_begins_anew_with_each_piece_of_data() {
    let mut pair = ending(CoreConfig::default(), None);
    let bytes: Vec<u8> = (0..40).flat_map(|sequence| frame("a", sequence, &[7; 50], sequence == 39)).collect();
    let pieces: Vec<&[u8]> = bytes.chunks(33).collect();
    for (at, piece) in pieces.iter().enumerate() {
        pair.now += GRACE - Duration::from_millis(1);
        pair.core.handle_timeout(pair.now);
        assert_eq!(pair.core.life(), &Life::Alive, "piece {at}");
        pair.core.feed_data(pair.now, piece.to_vec());
        assert_eq!(has_completed(&mut pair), at + 1 == pieces.len(), "piece {at}");
    }

    let mut late = ending(CoreConfig::default(), None);
    late.now += Duration::from_secs(3600);
    late.core.feed_data(late.now, frame("a", 0, b"x", true));
    assert!(has_completed(&mut late), "it was read before time passed for the session");

    let mut empty = ending(CoreConfig::default(), None);
    empty.core.feed_data(empty.now + GRACE, Bytes::new());
    empty.wait(GRACE);
    assert_eq!(empty.core.life(), &Life::Dead(Fault::Stream(StreamFault::NotFinal)), "nothing is no data");
}

/// A driver that trickles holds nothing open: the deadline of the invocation, that of a cancel, and the budget of bytes end it.
#[test]
fn a_stream_that_trickles_comes_to_an_end() {
    let step = GRACE / 2;
    let trickle = |pair: &mut Pair, from: u64, count: u64| {
        for sequence in from..from + count {
            pair.core.feed_data(pair.now, frame("a", sequence, b"x", false));
            pair.now += step;
            pair.core.handle_timeout(pair.now);
        }
    };
    let dead = Life::Dead(Fault::Stream(StreamFault::NotFinal));

    let mut pair = ending(CoreConfig::default(), None);
    trickle(&mut pair, 0, 20);
    assert_eq!(pair.core.life(), &Life::Alive);
    assert!(pair.core.limit_streams(pair.now, &id(1), 3 * step));
    assert!(pair.core.limit_streams(pair.now, &id(1), 30 * step), "the earliest moment holds");
    assert!(!pair.core.limit_streams(pair.now, &id(2), Duration::ZERO), "no such invocation");
    trickle(&mut pair, 20, 2);
    assert_eq!(pair.core.life(), &Life::Alive);
    trickle(&mut pair, 22, 1);
    assert_eq!(pair.core.life(), &dead, "the invocation's deadline");

    let mut pair = ending(CoreConfig::default(), Some(4 * step));
    trickle(&mut pair, 0, 5);
    assert_eq!(pair.core.life(), &Life::Alive, "the cancel's deadline and the grace");
    trickle(&mut pair, 5, 1);
    assert_eq!(pair.core.life(), &dead, "the cancel's deadline");

    let mut pair = ending(CoreConfig { stream_limits: limits(), ..CoreConfig::default() }, None);
    trickle(&mut pair, 0, 21);
    assert_eq!(class(&mut pair), Some(ErrorClass::BudgetExceeded), "the budget");

    let mut pair = Pair::invoking(CoreConfig::default(), COMPANION);
    assert!(!pair.core.limit_streams(pair.now, &id(1), Duration::ZERO), "it is not completed");
}

/// A data stream that ends inside a frame, wherever.
#[test]
fn a_stream_that_is_cut_anywhere() {
    let whole = frame("a", 0, b"payload", true);
    for cut in 1..whole.len() {
        let mut pair = invoking();
        pair.core.feed_data(pair.now, whole[..cut].to_vec());
        pair.core.eof_data(pair.now);
        assert_eq!(class(&mut pair), Some(ErrorClass::MalformedObservation), "cut at {cut}");
    }
}

#[test]
fn permission_mutants() {
    let denied = Some(ErrorClass::PermissionDenied);
    let mut pair = Pair::invoking(CoreConfig::default(), &[]);
    pair.core.feed_data(pair.now, frame("a", 0, b"x", true));
    assert_eq!(class(&mut pair), denied);
    let mut pair = Pair::invoking(CoreConfig::default(), &[]);
    named(&mut pair, "a");
    assert_eq!(class(&mut pair), denied);
}

/// 1 GiB in frames of 256 KiB, one payload shared by all. What comes out is slices of what went in; nothing is kept.
#[test]
fn a_gibibyte_goes_through_in_bounded_memory() {
    const FRAME_BYTES: usize = 256 << 10;
    const FRAMES: u64 = (1 << 30) / FRAME_BYTES as u64;
    let limits = StreamLimits { max_stream_bytes: 1 << 30, ..StreamLimits::default() };
    let mut pair = Pair::invoking(CoreConfig { stream_limits: limits, ..CoreConfig::default() }, COMPANION);
    named(&mut pair, "a");
    let payload = Bytes::from(vec![b'x'; FRAME_BYTES]);
    let inside = payload.as_ptr_range();
    let (mut bytes, mut most_events, mut copied) = (0, 0, 0);
    for sequence in 0..FRAMES {
        let mut head = Vec::new();
        let header = header("a", sequence, FRAME_BYTES, sequence + 1 == FRAMES);
        encode_data_header(&header, FRAME_BYTES, &mut head).expect("a header");
        let mut events = 0;
        // A payload arrives in two reads, the first of them with the header.
        for chunk in [Bytes::from(head), payload.slice(..100_000), payload.slice(100_000..)] {
            pair.core.feed_data(pair.now, chunk);
            while let Some(event) = pair.core.poll_event() {
                events += 1;
                if let CoreEvent::Data { bytes: piece, .. } = event {
                    copied += usize::from(!inside.contains(&piece.as_ptr()));
                    bytes += piece.len() as u64;
                }
            }
        }
        most_events = most_events.max(events);
    }
    assert_eq!((bytes, copied), (1 << 30, 0), "every payload byte is the one that was fed");
    assert!(most_events <= 3, "{most_events} events at once");
    completed(&mut pair, Some(1));
    assert!(matches!(pair.core.poll_event(), Some(CoreEvent::Completed(_))));
    let report = pair.core.budget().work;
    assert_eq!(report.used.get(pintle_driver::Resource::ArtifactBytes), 1 << 30);
}
