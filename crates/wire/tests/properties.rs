//! Invariant 2 over generated texts: what the scan accepts, serde_json reads as the same tree; what serde_json refuses, the scan
//! refuses. The properties themselves are the fuzz targets; here the inputs are mostly valid and oddly spelled.

use bytes::Bytes;
use pintle_wire::{
    Framer, Id, Line, Profile, RequestTable, ScanLimits, TableError, canonicalize, parse_integer, scan, to_canonical,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// White space that the grammar allows.
fn space() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"]
}

/// Any spelling of a number, now and then one without a double.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?(0|[1-9][0-9]{0,19})",
        "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?",
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|value| format!("{value:e}")),
        any::<i64>().prop_map(|value| value.to_string()),
    ]
}

/// Pieces of a string: characters as they are, and every kind of escape.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => any::<char>().prop_filter("plain", |c| *c >= ' ' && *c != '"' && *c != '\\').prop_map(String::from),
        4 => "[a-c]{1,9}",
        2 => "\\\\[\"\\\\/bfnrt]",
        2 => any::<u16>().prop_filter("no surrogate", |unit| !(0xd800..0xe000).contains(unit)).prop_map(|unit| format!("\\u{unit:04x}")),
        1 => prop::char::range('\u{10000}', '\u{10ffff}').prop_map(|scalar| {
            scalar.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect()
        }),
    ]
}

fn string() -> impl Strategy<Value = String> {
    vec(piece(), 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

/// Names from a small set, so that some objects have one twice, in one spelling or in two.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![6 => string(), 1 => "\"[ab]{1,2}\"", 1 => Just("\"\\u0061\"".to_owned())]
}

/// A text of the grammar.
fn text() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![number(), string(), Just("null".into()), Just("true".into()), Just("false".into())];
    let tree = scalar.prop_recursive(6, 60, 6, |inner| {
        let padded = (space(), inner, space()).prop_map(|(before, value, after)| before + &value + &after).boxed();
        let member = (space(), name(), space(), padded.clone())
            .prop_map(|(before, name, after, value)| format!("{before}{name}{after}:{value}"));
        prop_oneof![
            (space(), vec(padded, 0..6)).prop_map(|(space, items)| format!("[{space}{}]", items.join(","))),
            (space(), vec(member, 0..24)).prop_map(|(space, members)| format!("{{{space}{}}}", members.join(","))),
        ]
    });
    (space(), tree, space()).prop_map(|(before, tree, after)| before + &tree + &after)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scan_and_serde_json_read_the_same_tree_inv_2(text in text()) {
        pintle_fuzz::scan(text.as_bytes());
    }

    #[test]
    fn the_canonical_form_is_that_of_the_oracle_inv_2(text in text()) {
        pintle_fuzz::canon(text.as_bytes());
    }

    #[test]
    fn texts_that_are_cut_or_changed_are_no_more_accepted_than_by_serde_json(
        text in text(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let at = at.index(text.len());
        pintle_fuzz::scan(&text.as_bytes()[..at]);
        let mut changed = text.into_bytes();
        changed[at] = byte;
        pintle_fuzz::scan(&changed);
        pintle_fuzz::canon(&changed);
    }

    #[test]
    fn arbitrary_bytes_are_no_more_accepted_than_by_serde_json(bytes in vec(any::<u8>(), 0..64)) {
        pintle_fuzz::scan(&bytes);
    }

    #[test]
    fn envelopes_are_what_serde_json_finds(members in vec(("jsonrpc|id|method|params|result|error|[a-z]{0,3}", text()), 0..7)) {
        let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        pintle_fuzz::envelope(format!("{{{}}}", members.join(",")).as_bytes());
    }

    /// R-221, F1, F2, F3, F6; G-12: a line of exactly the limit passes, wherever the CR before its LF is cut off.
    #[test]
    fn framing_does_not_depend_on_chunks_r221(stream in "(a|b|\r|\n|cccc){0,60}", limit in 0_u8..10, seed in any::<u8>()) {
        pintle_fuzz::framer(&[&[limit, seed][..], stream.as_bytes()].concat());
    }

    #[test]
    fn lines_survive_any_cut(lines in vec("[^\r\n]{1,20}", 0..8), cuts in vec(1_usize..9, 1..6)) {
        let stream: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut framer = Framer::new(1 << 10);
        let mut rest = Bytes::from(stream);
        let mut framed = Vec::new();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            framer.feed(rest.split_to((*cut).min(rest.len())));
            framed.extend(std::iter::from_fn(|| framer.next()));
        }
        let expected: Vec<Line> = lines.into_iter().map(|line| Line::Complete(line.into())).collect();
        prop_assert_eq!(framed, expected);
        prop_assert_eq!(framer.finish(), None);
    }

    #[test]
    fn integers_are_exact_or_refused(text in number()) {
        match parse_integer(&text) {
            Ok(value) => {
                prop_assert_eq!(text.parse::<f64>().ok(), Some(value as f64));
                prop_assert!(value.unsigned_abs() <= 1 << 53);
            }
            // What is refused is no integer as a double either, or too large.
            Err(_) => {
                let double: f64 = text.parse().expect("a number");
                prop_assert!(double.fract() != 0.0 || double.abs() >= 9_007_199_254_740_992.0 || !is_integral(&text), "{}", text);
            }
        }
    }

    #[test]
    fn ids_are_written_as_they_are_read(id in prop_oneof![any::<i64>().prop_map(Id::from), any::<String>().prop_map(Id::from)]) {
        let text = serde_json::to_string(&id).expect("an id");
        prop_assert_eq!(serde_json::from_str::<Id>(&text).ok(), Some(id));
    }

    #[test]
    fn the_request_table_is_a_map_with_a_sorted_list(operations in vec((0_u8..5, 0_u8..6, proptest::option::of(0_u8..9)), 0..60)) {
        const BOUND: usize = 4;
        let mut table = RequestTable::new(BOUND);
        let mut model: Vec<(u8, usize, Option<u8>)> = Vec::new();
        for (step, (operation, key, time)) in operations.into_iter().enumerate() {
            let place = model.iter().position(|entry| entry.0 == key);
            match operation {
                0 | 1 => {
                    let expected = match place {
                        Some(_) => Err(TableError::Duplicate),
                        None if model.len() == BOUND => Err(TableError::Full { max_entries: BOUND }),
                        None => {
                            model.push((key, step, time));
                            Ok(())
                        }
                    };
                    prop_assert_eq!(table.insert(key, step, time), expected);
                }
                2 => prop_assert_eq!(table.remove(&key), place.map(|at| model.remove(at).1)),
                3 => {
                    prop_assert_eq!(table.set_deadline(&key, time), place.is_some());
                    if let Some(at) = place {
                        model[at].2 = time;
                    }
                }
                _ => {
                    let now = time.unwrap_or(8);
                    let mut due: Vec<_> = model.extract_if(.., |entry| entry.2.is_some_and(|time| time <= now)).collect();
                    due.sort_by_key(|entry| (entry.2, entry.0));
                    let due: Vec<(u8, usize)> = due.into_iter().map(|(key, value, _)| (key, value)).collect();
                    prop_assert_eq!(table.expire(now), due);
                }
            }
            prop_assert_eq!(table.len(), model.len());
            prop_assert_eq!(table.next_deadline(), model.iter().filter_map(|entry| entry.2).min());
        }
    }
}

/// Whether a decimal text means an integer exactly, worked out on its digits.
fn is_integral(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i64 = exponent.parse().expect("an exponent");
    let fraction = mantissa.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let zeros = (digits.len() - digits.trim_end_matches('0').len()) as i64;
    digits.trim_end_matches('0').is_empty() || exponent - fraction.len() as i64 + zeros >= 0
}

/// 100 000 members whose names ascend, descend, are shuffled, share a long beginning, or are escaped: all are read in time that
/// a quadratic algorithm would not meet by orders of magnitude, and give one canonical form (Q8).
#[test]
fn large_objects_are_not_quadratic_q8() {
    const MEMBERS: usize = 100_000;
    let spell = |order: &dyn Fn(usize) -> usize, prefix: &str| {
        let members: Vec<String> = (0..MEMBERS).map(|index| format!("\"{prefix}{:05}\":0", order(index))).collect();
        format!("{{{}}}", members.join(","))
    };
    let canonical = |text: &str| {
        let text = scan(text.as_bytes(), Profile::DriverRpc, ScanLimits::DEPTH_ONLY).expect("strict");
        canonicalize(&text).expect("canonical")
    };
    let ascending = spell(&|index| index, "");
    for order in
        [&|index: usize| MEMBERS - 1 - index, &|index: usize| index * 7919 % MEMBERS] as [&dyn Fn(usize) -> usize; 2]
    {
        assert!(canonical(&spell(order, "")) == ascending.as_bytes());
        assert!(canonical(&spell(order, "\\u0061")) == spell(&|index| index, "a").as_bytes());
        assert!(canonical(&spell(order, "0123456789abcdef")) == spell(&|index| index, "0123456789abcdef").as_bytes());
    }
    assert!(canonical(&ascending) == ascending.as_bytes());
    let twice = ascending.replace("\"99999\"", "\"00000\"");
    let error = scan(twice.as_bytes(), Profile::DriverRpc, ScanLimits::DEPTH_ONLY).expect_err("a name twice");
    assert_eq!(error.offset, twice.rfind("\"00000\"").expect("the second"));
}

/// Our own values and their text have one canonical form.
#[test]
fn values_and_their_text_agree() {
    let value = serde_json::json!({"b": [1, -2.5, "\u{1f600}"], "a": {"\u{fb33}": null, "\u{1f600}": true, "": {}}});
    let text = serde_json::to_vec(&value).expect("JSON");
    let text = scan(&text, Profile::DriverRpc, ScanLimits::CONTROL).expect("strict");
    assert_eq!(to_canonical(&value), canonicalize(&text));
}
