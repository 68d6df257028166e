//! The wire's share of the Driver RPC vectors: line ending, size, strict JSON, canonical form, framing, digests and ids. The
//! typed share is in `pintle-driver`.

use bytes::Bytes;
use pintle_testkit::vectors::{Vector, assert_canonical, driver_vectors, unhex};
use pintle_wire::{
    DEFAULT_MAX_DATA_FRAME_BYTES, Digest, Envelope, Framer, Id, InstanceId, JsonErrorClass, Kind, Line, LineError,
    MAX_ACP_LINE_BYTES, MAX_CONTROL_FRAME_BYTES, Malformed, Profile, RequestTable, RootKind, ScanLimits, VersionRule,
    canonicalize, canonicalize_bytes, parse_integer, scan, strip_line_ending,
};
use serde_json::Value;

/// What the wire says of one frame, in the words of the vectors' stages.
fn frame_stage(frame: &[u8]) -> Result<Vec<u8>, &'static str> {
    let line = strip_line_ending(frame).map_err(|error| match error {
        LineError::Empty => "empty",
        LineError::LineBreak { .. } => "line_break",
    })?;
    let text = scan(line, Profile::DriverRpc, ScanLimits::CONTROL).map_err(|error| match error.class {
        JsonErrorClass::TooLarge => "too_large",
        JsonErrorClass::Encoding => "json:utf8",
        JsonErrorClass::TooDeep => "json:depth",
        JsonErrorClass::DuplicateName => "json:duplicate_key",
        JsonErrorClass::NumberRange => "json:number_range",
        JsonErrorClass::Surrogate => "json:surrogate",
        _ => "json:syntax",
    })?;
    if text.root() != RootKind::Object {
        return Err("not_object");
    }
    Ok(canonicalize(&text).expect("no lone surrogates"))
}

/// Whether a stage is one that the wire decides.
fn is_wire_stage(stage: &str) -> bool {
    matches!(stage, "empty" | "line_break" | "too_large" | "not_object") || stage.starts_with("json:")
}

/// Our words for a stage of the vectors: the recorded ones tell some syntax errors apart that we do not, and name the part
/// that found a surrogate error.
fn our_word(stage: &str) -> &str {
    match stage {
        "json:trailing" => "json:syntax",
        "json:canonicalizer" => "json:surrogate",
        stage => stage,
    }
}

/// Cases that the wire must refuse though the recorded verdict accepts: lone surrogates (Q5, Q6).
fn wire_refuses(vector: &Vector) -> bool {
    vector.recommends_refusal()
        && matches!(vector.quirk.as_deref(), Some("surrogate_escape_pair_replaced" | "canonicalizer_desync"))
}

#[test]
fn decode_has_the_syntax_that_the_vectors_want() {
    let (mut accepted, mut refused) = (0, 0);
    for vector in driver_vectors("decode") {
        let got = frame_stage(&vector.bytes());
        match vector.stage() {
            _ if wire_refuses(&vector) => assert_eq!(got, Err("json:surrogate"), "{}", vector.id),
            Some(stage) if is_wire_stage(stage) => {
                refused += 1;
                // Two names that are lone surrogates: the recorded verdict folds both to U+FFFD before it looks at either.
                let stage = if vector.id == "surrogate-022" { "json:surrogate" } else { our_word(stage) };
                assert_eq!(got.map(|_| ()), Err(stage), "{}", vector.id);
            }
            // Refused by what the members mean.
            Some(_) => assert!(got.is_ok(), "{}: {got:?}", vector.id),
            None => {
                let canonical = got.unwrap_or_else(|stage| panic!("{} is refused at {stage}", vector.id));
                accepted += 1;
                if vector.expect.get("reencode_error").is_some() {
                    assert!(canonical.len() > MAX_CONTROL_FRAME_BYTES, "{}", vector.id);
                } else if vector.quirk.is_none() {
                    vector.assert_canonical(&canonical);
                }
            }
        }
    }
    assert!(accepted > 150 && refused > 100, "{accepted} accepted, {refused} refused");
}

#[test]
fn canonicalize_matches() {
    for vector in driver_vectors("canonicalize") {
        let got = canonicalize_bytes(&vector.bytes());
        match vector.quirk.as_deref() {
            Some("surrogate_escape_pair_replaced" | "canonicalizer_desync") => assert!(got.is_err(), "{}", vector.id),
            // Q7: white space around a number or a literal is legal.
            Some("top_level_scalar_whitespace") => {
                assert_eq!(got.as_deref(), Ok(vector.bytes().trim_ascii()), "{}", vector.id);
            }
            Some(quirk) => panic!("{}: no rule for the quirk {quirk}", vector.id),
            None if vector.ok() => {
                vector.assert_canonical(&got.unwrap_or_else(|error| panic!("{}: {error}", vector.id)))
            }
            None => assert!(got.is_err(), "{}: accepted", vector.id),
        }
    }
}

/// Stages of a stream, with every byte fed alone or all at once.
fn stream_stages(stream: &[u8], chunk: usize) -> Vec<Result<Vec<u8>, &'static str>> {
    let mut framer = Framer::new(MAX_CONTROL_FRAME_BYTES);
    let mut stages = Vec::new();
    let mut take = |line| {
        stages.push(match line {
            Line::Complete(line) => frame_stage(&line),
            Line::TooLong { .. } => Err("too_large"),
            Line::Blank => Err("empty"),
        });
    };
    for piece in stream.chunks(chunk.max(1)) {
        framer.feed(Bytes::copy_from_slice(piece));
        while let Some(line) = framer.next() {
            take(line);
        }
    }
    while let Some(line) = framer.finish() {
        take(line);
    }
    stages
}

#[test]
fn stream_frames_are_those_of_the_vectors_whatever_the_chunks() {
    for vector in driver_vectors("stream") {
        let stream = vector.bytes();
        let events = vector.expect["events"].as_array().expect("events");
        let (end, events) = events.split_last().expect("an end");
        assert_eq!(end["eof"], true, "{}", vector.id);
        for chunk in [stream.len(), 1, 4093] {
            // Byte by byte is slow for megabytes, and the framer's own tests do that.
            if chunk == 1 && stream.len() > 1 << 16 {
                continue;
            }
            let stages = stream_stages(&stream, chunk);
            assert_eq!(stages.len(), events.len(), "{} in chunks of {chunk}", vector.id);
            for (event, got) in events.iter().zip(stages) {
                match event["stage"].as_str() {
                    Some(stage) if is_wire_stage(stage) => {
                        assert_eq!(got.map(|_| ()), Err(our_word(stage)), "{}", vector.id)
                    }
                    Some(_) => assert!(got.is_ok(), "{}", vector.id),
                    None => assert_canonical(&vector.id, event, &got.expect("accepted")),
                }
            }
        }
    }
}

#[test]
fn sizes_are_bounded_as_the_vectors_want() {
    for vector in driver_vectors("size") {
        let bound = match vector.input["plane"].as_str() {
            Some("control") => MAX_CONTROL_FRAME_BYTES,
            Some("data") => DEFAULT_MAX_DATA_FRAME_BYTES,
            plane => panic!("{}: plane {plane:?}", vector.id),
        };
        // A negative size cannot be said here.
        let Some(size) = vector.input["size"].as_u64() else { continue };
        assert_eq!(size <= bound as u64, vector.ok(), "{}", vector.id);
    }
}

#[test]
fn encode_prints_free_values_canonically() {
    for vector in driver_vectors("encode") {
        for member in ["params_raw", "result_raw"] {
            let Some(raw) = vector.input[member].as_str() else { continue };
            let canonical = canonicalize_bytes(raw.as_bytes());
            if vector.ok() {
                let canonical = String::from_utf8(canonical.expect("strict")).expect("UTF-8");
                let whole = vector.expect["canonical"].as_str().expect("a short case");
                assert!(whole.contains(&canonical), "{}: {canonical} is not in {whole}", vector.id);
            } else if vector.stage() == Some("other") {
                assert!(canonical.is_err(), "{}", vector.id);
            }
        }
        if let (Some(id), true) = (vector.input["id_raw"].as_str(), vector.ok())
            && !id.starts_with('"')
        {
            let whole = vector.expect["canonical"].as_str().expect("a short case");
            let id = parse_integer(id).expect("an integer");
            assert!(whole.contains(&format!("\"id\":{id},")), "{}", vector.id);
        }
    }
}

#[test]
fn integers_of_ids_are_exact_however_they_are_spelled() {
    let mut seen = 0;
    for vector in driver_vectors("decode") {
        let (Some(raw), Some("number_rewritten_before_id_check" | "lossy_integer")) =
            (id_text(&vector), vector.quirk.as_deref())
        else {
            continue;
        };
        seen += 1;
        if vector.recommends_refusal() {
            assert!(parse_integer(&raw).is_err(), "{}: {raw}", vector.id);
        } else {
            let id = parse_integer(&raw).map(|id| id.to_string());
            assert_eq!(id.as_deref().ok(), vector.expect["id_raw"].as_str(), "{}: {raw}", vector.id);
        }
    }
    assert!(seen >= 10, "{seen} cases");
}

/// The text of a numeric id.
fn id_text(vector: &Vector) -> Option<String> {
    let frame = vector.bytes();
    let text = std::str::from_utf8(&frame).ok()?;
    let id = text.split_once("\"id\":")?.1.split([',', '}']).next()?;
    id.starts_with(|first: char| first == '-' || first.is_ascii_digit()).then(|| id.to_owned())
}

#[test]
fn digests_and_instance_ids_are_those_of_the_vectors() {
    for vector in driver_vectors("digest") {
        let text = vector.input.as_str().expect("a string");
        assert_eq!(text.parse::<Digest>().is_ok(), vector.ok(), "{}", vector.id);
    }
    for vector in driver_vectors("instance_id") {
        let text = vector.input.as_str().expect("a string");
        assert_eq!(text.parse::<InstanceId>().is_ok(), vector.ok(), "{}", vector.id);
    }
    for vector in driver_vectors("digest_of_bytes") {
        assert_eq!(
            Some(Digest::of(&vector.bytes()).to_string().as_str()),
            vector.expect["digest"].as_str(),
            "{}",
            vector.id
        );
    }
    for vector in driver_vectors("instance_id_new") {
        let millis = vector.input["millis"].as_i64().expect("an integer");
        let random = unhex(vector.input["random_hex"].as_str().expect("a string"));
        // Too little randomness cannot be said here.
        let Ok(random) = random.try_into() else {
            assert!(!vector.ok(), "{}", vector.id);
            continue;
        };
        let id = InstanceId::new(millis, random).map(|id| id.to_string());
        assert_eq!(id.as_deref().ok(), vector.expect["instance_id"].as_str(), "{}", vector.id);
        assert_eq!(id.is_ok(), vector.ok(), "{}", vector.id);
    }
}

/// The framing cases of ACP: lines that come out of chunks, blank ones skipped.
#[test]
fn acp_framing_is_that_of_the_vectors_r220() {
    let vectors: Value = serde_json::from_str(include_str!("../../../testdata/acp/framing.json")).expect("JSON");
    let mut seen = 0;
    for case in vectors["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().expect("a name");
        let Some(chunks) = case["chunks"].as_array() else { continue };
        let limit = case["max"].as_u64().map_or(MAX_ACP_LINE_BYTES, |limit| limit as usize);
        let mut framer = Framer::new(limit);
        let mut lines = Vec::new();
        for chunk in chunks {
            framer.feed_slice(chunk.as_str().expect("text").as_bytes());
            lines.extend(std::iter::from_fn(|| framer.next()));
        }
        let ended_early = lines.len();
        lines.extend(std::iter::from_fn(|| framer.finish()));
        lines.retain(|line| *line != Line::Blank);

        if name == "eof_without_newline" {
            // Our choice: the last line counts (G-13).
            assert_eq!((ended_early, lines.len()), (0, 1), "{name}");
            continue;
        }
        let expected: Vec<&Value> = match case["frames_per_push"].as_array() {
            Some(pushes) => pushes.iter().flat_map(|frames| frames.as_array().expect("frames")).collect(),
            None => case["frames"].as_array().expect("frames").iter().collect(),
        };
        assert_eq!(lines.len(), expected.len(), "{name}");
        for (line, expected) in lines.iter().zip(expected) {
            match (line, expected.as_str()) {
                (Line::Complete(line), Some(expected)) => assert_eq!(line, expected, "{name}"),
                // The recorded size depends on the chunks; ours is that of the line, and never less.
                (Line::TooLong { bytes }, None) => {
                    assert!(*bytes >= expected["frame_too_large"].as_u64().expect("a size"), "{name}");
                }
                (line, _) => panic!("{name}: {line:?} instead of {expected}"),
            }
        }
        seen += 1;
    }
    assert!(seen >= 8, "{seen} cases");
}

#[test]
fn acp_ids_are_those_of_the_vectors_r030() {
    let vectors: Value = serde_json::from_str(include_str!("../../../testdata/acp/request_ids.json")).expect("JSON");
    let check = |id: &Value, legal: bool| {
        let frame = serde_json::json!({"jsonrpc": "2.0", "id": id, "method": "m"}).to_string();
        let text = scan(frame.as_bytes(), Profile::Acp, ScanLimits::ACP).expect("strict");
        let envelope = Envelope::parse(&text).expect("an object");
        let echo = envelope.id.peer_id().map(|id| serde_json::to_string(&id).expect("an id"));
        assert_eq!(echo, legal.then(|| id.to_string()), "{id}");
        let expected = if legal { Kind::Request } else { Kind::Malformed(Malformed::Id) };
        assert_eq!(envelope.kind(VersionRule::Required), expected, "{id}");
    };
    let ids = |name: &str| vectors[name].as_array().expect("ids").clone();
    ids("echo_byte_exact").iter().for_each(|id| check(id, true));
    ids("invalid_id_types").iter().for_each(|id| check(id, false));
    for pair in ids("distinct_in_flight_pairs") {
        let mut table = RequestTable::<Id, (), u64>::new(2);
        for id in pair.as_array().expect("a pair") {
            let id = serde_json::from_str(&id.to_string()).expect("an id");
            assert_eq!(table.insert(id, (), None), Ok(()), "{pair}");
        }
    }
}
