//! Every report format over fixed judgements, compared with files, and the judge's own promises.

use std::path::PathBuf;

use pintle_check::cel::InProcess;
use pintle_check::judge::{FailOn, Fault, Judgement, ScenarioEvidence, ScenarioRun, Verdict, judge};
use pintle_check::pack::Pack;
use pintle_check::report::{
    AgentSection, HostSection, Report, ReportContext, ScenarioTiming, TerminalStyle, TimingSection, every_format,
    terminal,
};
use proptest::prelude::*;
use serde_json::json;

use crate::script::{sections, trace};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/check").join(name)
}

fn pack() -> Pack {
    Pack::embedded().expect("the built-in pack loads")
}

/// The evidence of one section of a scenario's file.
fn evidence(pack: &Pack, scenario: &str, title: &str) -> ScenarioEvidence {
    let path = data("acp-v1").join(format!("{scenario}.trace"));
    let text = std::fs::read_to_string(path).expect("the traces are there");
    let section = sections(&text).into_iter().find(|section| title.is_empty() || section.title == title);
    let section = section.unwrap_or_else(|| panic!("{scenario} has no section {title}"));
    ScenarioEvidence { id: scenario.to_owned(), run: ScenarioRun::Traced(trace(pack, scenario, &section.lines)) }
}

/// A run in which something of every kind happened.
fn mixed(pack: &Pack) -> Judgement {
    let broken = ScenarioRun::Broken { fault: Fault::Driver, message: "the driver ended early".to_owned() };
    let lacks = ScenarioRun::LacksStep { operation: "acp.step.raw".to_owned() };
    let evidence = [
        evidence(pack, "basics", "a banner on stdout"),
        evidence(pack, "cancel", "both turns say that they ended by themselves"),
        evidence(pack, "version", "an echo"),
        ScenarioEvidence { id: "content".to_owned(), run: broken },
        ScenarioEvidence { id: "batch".to_owned(), run: lacks },
    ];
    judge(pack, &evidence, &mut InProcess::default())
}

fn context() -> ReportContext {
    let init = json!({"agentInfo": {"name": "an <agent>\u{1b}[31m", "version": "1"}, "protocolVersion": 1, "agentCapabilities": {"n": u64::MAX}});
    ReportContext {
        version: "0.0.0".to_owned(),
        agent: AgentSection::from_init(vec!["agent".to_owned(), "--acp".to_owned()], &init),
        host: HostSection { os: "linux".to_owned(), arch: "x86_64".to_owned(), cpus: 2 },
        run: "01900000-0000-7000-8000-000000000000".to_owned(),
        timing: TimingSection {
            started: "2026-01-01T00:00:00Z".to_owned(),
            total_ms: 1234,
            scenarios: vec![ScenarioTiming { id: "basics".to_owned(), ms: 600 }],
        },
        ..ReportContext::default()
    }
}

/// `PINTLE_UPDATE_REPORTS=1 cargo test -p pintle-check --test it reports` writes the files.
#[test]
fn every_format_is_as_the_files_show() {
    let pack = pack();
    let mut report = Report::new(&pack, &mixed(&pack), FailOn::Must, context());
    report.pack.digest = "sha256:left-out".to_owned();
    let mut files: Vec<(String, Vec<u8>)> = every_format(&report)
        .expect("the report is JSON")
        .into_iter()
        .map(|file| (file.name.to_owned(), file.bytes))
        .collect();
    let colored = terminal(&report, TerminalStyle { color: true, width: 100 });
    files.push(("report-color-100.txt".to_owned(), colored.into_bytes()));
    for (name, bytes) in files {
        let path = data("reports").join(&name);
        if std::env::var_os("PINTLE_UPDATE_REPORTS").is_some() {
            std::fs::write(&path, &bytes).expect("the file can be written");
        }
        let expected = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(expected == bytes, "{name} changed; see the head of this test");
        let control = bytes.iter().any(|byte| *byte < 0x20 && *byte != b'\n');
        assert!(!control || name.contains("color"), "{name} has a control character");
    }
}

/// Design section 3: the report can be read again, and is compared with a later one.
#[test]
fn a_report_is_read_again_and_compared() {
    let pack = pack();
    let report = Report::new(&pack, &mixed(&pack), FailOn::Must, context());
    let text = pintle_check::report::json(&report).expect("JSON");
    let again: Report = serde_json::from_slice(&text).expect("a report");
    assert_eq!(again, report);
    let same = report.clone().compared(&again, FailOn::Should).baseline.expect("a comparison");
    assert!(same.worse.is_empty() && same.known >= 3 && same.mended == 0, "{same:?}");
    let good = [evidence(&pack, "basics", ""), evidence(&pack, "cancel", ""), evidence(&pack, "version", "")];
    let judgement = judge(&pack, &good, &mut InProcess::default());
    assert_eq!(judgement.verdict(FailOn::Should), Verdict::Conformant);
    let baseline = Report::new(&pack, &judgement, FailOn::Must, context());
    let beside = report.compared(&baseline, FailOn::Must);
    let section = beside.baseline.as_ref().expect("a comparison");
    let worse: Vec<_> = section.worse.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(worse, ["ACP-TRANSPORT-001", "ACP-CANCEL-001", "ACP-INIT-003"]);
    // What a person reads and what a later comparison reads have it too.
    for file in every_format(&beside).expect("rendered").iter().filter(|file| !file.name.contains(['s', 'j'])) {
        let text = String::from_utf8_lossy(&file.bytes);
        assert!(text.contains("baseline: 0 known, 3 worse"), "{}:\n{text}", file.name);
    }
    let mended = baseline.compared(&beside, FailOn::Must).baseline.expect("a comparison");
    assert_eq!((mended.known, mended.worse.len(), mended.mended), (0, 0, 3));
}

/// Design section 2: a harness fault is never the agent's failure, and what is broken is nobody's pass.
#[test]
fn what_was_not_seen_is_neither_failed_nor_passed() {
    let pack = pack();
    for fault in [Fault::Driver, Fault::Harness, Fault::Environment] {
        let run = ScenarioRun::Broken { fault, message: "it broke".to_owned() };
        let evidence = [ScenarioEvidence { id: "basics".to_owned(), run }];
        let judgement = judge(&pack, &evidence, &mut InProcess::default());
        let reasons = judgement.results.iter().map(|result| result.outcome.reason());
        assert!(reasons.into_iter().all(|reason| reason.as_deref() == Some(fault.as_str())), "{fault:?}");
        assert_eq!(judgement.verdict(FailOn::Must), Verdict::Inconclusive);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// The order in which scenarios stand changes nothing, and judging twice says the same.
    #[test]
    fn the_order_of_scenarios_does_not_matter(picks in proptest::collection::vec(any::<prop::sample::Index>(), 5), seed in any::<prop::sample::Index>()) {
        let pack = pack();
        let names = ["basics", "cancel", "permission", "version", "early"];
        let mut items: Vec<ScenarioEvidence> = names
            .iter()
            .zip(&picks)
            .map(|(name, pick)| {
                let text = std::fs::read_to_string(data("acp-v1").join(format!("{name}.trace"))).expect("the traces are there");
                let all = sections(&text);
                evidence(&pack, name, &all[pick.index(all.len())].title)
            })
            .collect();
        let mut evaluator = InProcess::default();
        let expected = judge(&pack, &items, &mut evaluator);
        let by = seed.index(items.len());
        items.rotate_left(by);
        items.reverse();
        prop_assert_eq!(judge(&pack, &items, &mut evaluator), expected);
    }
}
