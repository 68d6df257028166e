//! The recorder over a disk with faults.

use std::time::Duration;

use bytes::Bytes;
use pintle_testkit::faulty::FaultyFs;

use super::super::row::Frame;
use super::*;

const PATH: &str = "/disk/t.ndjson";

fn start() -> Start {
    Start {
        schema: super::super::row::SCHEMA.to_owned(),
        pintle: "0.0.0".to_owned(),
        started: "2026-01-01T00:00:00Z".to_owned(),
        argv: vec!["agent".to_owned(), "--api-key=sk-ant-REDACTME0123456789abcdef".to_owned()],
        cwd: "/".to_owned(),
        pid: 1,
        redacted: true,
    }
}

fn disk() -> FaultyFs {
    let fs = FaultyFs::new();
    fsx::ensure_dir(&fs, Path::new("/disk")).expect("made");
    fs
}

/// Everything in the queue, recorded on `fs`.
fn recorded(fs: &FaultyFs, items: impl IntoIterator<Item = What>, sanitiser: Option<Sanitiser>) -> Recorded {
    let queue = Queue::default();
    for (t_ns, what) in (1..).zip(items) {
        match what {
            What::Bytes(dir, bytes) => queue.push_bytes(t_ns, dir, bytes),
            other => queue.push_rare(t_ns, other),
        }
    }
    queue.close();
    let rest = record(&queue, Sink::open(fs, Path::new(PATH), 7).expect("opened"), &start(), sanitiser);
    rest.finish(&queue, in_an_hour())
}

fn in_an_hour() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

fn rows(fs: &FaultyFs) -> Vec<Row> {
    let text = fsx::read_bounded(fs, Path::new(PATH), 1 << 30).expect("readable");
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.ends_with('\n'), "the last row is whole");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn to_agent(bytes: &'static [u8]) -> What {
    What::Bytes(Dir::ToAgent, Bytes::from_static(bytes))
}

fn frames(rows: &[Row]) -> Vec<&Frame> {
    rows.iter().filter_map(|row| if let Row::Frame(frame) = row { Some(frame) } else { None }).collect()
}

#[test]
fn lines_become_rows_whatever_their_bytes() {
    let fs = disk();
    let told = recorded(
        &fs,
        [
            to_agent(b"{\"jsonrpc\":\"2.0\",\"met"),
            to_agent(b"hod\":\"_a/b\"}\r\n\n\xff\xfe\nend"),
            What::Eof(Dir::ToAgent),
            What::Exit(Some(Exit::Signal(9))),
        ],
        None,
    );
    assert_eq!((told.unwritten, told.error.is_none()), (0, true));
    let rows = rows(&fs);
    let kept: Vec<_> = frames(&rows).iter().map(|f| (f.t_ns, f.text.as_deref(), f.base64.as_deref())).collect();
    assert_eq!(
        kept,
        [
            (2, Some("{\"jsonrpc\":\"2.0\",\"method\":\"_a/b\"}"), None),
            (2, Some(""), None),
            (2, None, Some("//4=")),
            (3, Some("end"), None)
        ]
    );
    assert!(rows.contains(&Row::Exit { t_ns: 4, code: None, signal: Some(9) }));
    let Some(Row::End(end)) = rows.last() else { panic!("no end") };
    assert_eq!(end.lines[&Dir::ToAgent], 4);
    assert_eq!(end.faults["garbage"], 2);
    assert_eq!(end.faults["unterminated"], 1);
}

/// Inv-8: secrets do not reach the file, be they in a frame, in garbage or on the command line.
#[test]
fn inv_8_secrets_are_replaced_before_anything_is_written() {
    let fs = disk();
    let sanitiser = Sanitiser::new(["canary-value-1"]);
    recorded(
        &fs,
        [
            to_agent(b"{\"jsonrpc\":\"2.0\",\"method\":\"_a/b\",\"params\":{\"apiKey\":\"hunter2hunter2\"}}\n"),
            to_agent(b"log: canary-value-1\n"),
        ],
        Some(sanitiser),
    );
    let text = String::from_utf8(fsx::read_bounded(&fs, Path::new(PATH), 1 << 30).expect("readable")).expect("UTF-8");
    for secret in ["hunter2", "canary-value", "REDACTME"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(frames(&rows(&fs))[0].redactions["member"], 1);
}

/// Inv-9: a full disk costs rows, which are counted; the file stays readable, and goes on when there is room again.
#[test]
fn inv_9_a_full_disk_leaves_whole_rows() {
    let fs = disk();
    fs.set_capacity_bytes(2_000);
    let line = Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"_a/{}\"}}\n", "b".repeat(300)));
    let sink = Sink::open(&fs, Path::new(PATH), 7).expect("opened");
    let queue = std::sync::Arc::new(Queue::default());
    let recorder = {
        let queue = queue.clone();
        std::thread::spawn(move || record(&queue, sink, &start(), None).finish(&queue, in_an_hour()))
    };
    for t_ns in 0..100 {
        queue.push_bytes(t_ns, Dir::ToAgent, line.clone());
    }
    queue.close();
    let told = recorder.join().expect("no panic");
    assert!(told.unwritten > 0);
    assert_eq!(told.error.expect("why").kind(), io::ErrorKind::StorageFull);
    assert!(matches!(rows(&fs)[0], Row::Start(_)), "whole rows, from the first on");
}

/// Inv-10: what is not recorded in the time that is left is told as its number of bytes, in its place; what ended is told.
#[test]
fn inv_10_what_is_not_reached_in_time_is_counted() {
    let fs = disk();
    let queue = Queue::default();
    queue.push_bytes(1, Dir::ToAgent, Bytes::from_static(b"one\n"));
    queue.push_bytes(2, Dir::FromAgent, Bytes::from_static(b"two\n"));
    queue.push_bytes(3, Dir::ToAgent, Bytes::from_static(b"three\n"));
    queue.push_rare(4, What::Eof(Dir::ToAgent));
    queue.push_bytes(5, Dir::FromAgent, Bytes::from_static(b"four\n"));
    queue.close();
    let rest = record(&queue, Sink::open(&fs, Path::new(PATH), 7).expect("opened"), &start(), None);
    assert_eq!(rest.finish(&queue, Instant::now()).unwritten, 0);
    let rows = rows(&fs);
    let lost = |row: &Row| match row {
        Row::Lost { dir, bytes, .. } => Some((*dir, *bytes)),
        _ => None,
    };
    assert_eq!(lost(&rows[1]), Some((Dir::ToAgent, 10)));
    assert_eq!(lost(&rows[2]), Some((Dir::FromAgent, 4)));
    assert!(matches!(rows[3], Row::Eof { .. }));
    assert_eq!(lost(&rows[4]), Some((Dir::FromAgent, 5)));
    assert!(matches!(rows[5], Row::End(_)));
}

/// A disk that fails once costs what was to be written then, and says so in its place.
#[test]
fn inv_9_a_disk_that_fails_once_loses_and_tells_those_rows() {
    let fs = disk();
    let mut sink = Sink::open(&fs, Path::new(PATH), 7).expect("opened");
    sink.write(b"{\"type\":\"unwritten\",\"rows\":0}\n", 1);
    fs.fail_at(fs.ops() + 1, io::ErrorKind::StorageFull);
    sink.write(b"lost\n", 3);
    sink.write(b"{\"type\":\"unwritten\",\"rows\":0}\n", 1);
    assert_eq!(rows(&fs), [0, 3, 0].map(|rows| Row::Unwritten { rows }));
    assert_eq!((sink.unwritten, sink.all_unwritten), (0, 3));
}

/// Two traces at once to one file: the second goes beside it.
#[test]
fn a_file_has_one_writer() {
    let fs = disk();
    let first = Sink::open(&fs, Path::new(PATH), 7).expect("opened");
    let second = Sink::open(&fs, Path::new(PATH), 8).expect("opened");
    assert_eq!(first.path(), Path::new(PATH));
    assert_eq!(second.path(), Path::new("/disk/t.ndjson.8"));
}

#[test]
fn old_traces_go_but_not_the_one_that_is_being_written() {
    let fs = disk();
    let path = |n: u32| PathBuf::from(format!("/disk/{n}.ndjson"));
    let held = Sink::open(&fs, &path(1), 7).expect("opened");
    for n in 2..=5 {
        drop(Sink::open(&fs, &path(n), 7).expect("opened"));
    }
    prune(&fs, Path::new("/disk"), 2).expect("pruned");
    let left: Vec<_> = fsx::read_dir(&fs, Path::new("/disk")).expect("listed").into_iter().map(|e| e.name).collect();
    assert_eq!(left, ["1.ndjson", "4.ndjson", "5.ndjson"]);
    drop(held);
    prune(&fs, Path::new("/nowhere"), 2).expect("nothing to do");
}
