//! For people at a terminal.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};

use super::baseline::in_words;
use super::escape::{plain, plain_cut};
use super::model::{CountsSection, EvidenceItem, Report, RequirementItem};
use crate::pack::{Level, Pack};

/// How text for a terminal looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalStyle {
    /// Use colour.
    pub color: bool,
    /// Columns; frames are cut to them. 0 is no limit.
    pub width: usize,
}

/// A report: one line on what was checked, a summary by area, then what needs attention with the frames that prove it.
pub fn terminal(report: &Report, style: TerminalStyle) -> String {
    let mut page = Page { out: String::new(), style };
    page.head(report);
    if let Some(problem) = &report.problem {
        page.problem(problem);
    }
    for note in &report.notes {
        page.line(&format!("{}: {}", page.paint(YELLOW, "Note"), plain(note)));
        page.line("");
    }
    page.summary(report);
    page.attention(report);
    page.skipped(report);
    page.verdict(report);
    page.out
}

/// The scenarios and requirements of a pack, for `--list`.
pub fn list(pack: &Pack, style: TerminalStyle) -> String {
    let mut page = Page { out: String::new(), style };
    let manifest = &pack.manifest;
    page.line(&format!("{} {}  {}", page.bold(&manifest.name), plain(&manifest.version), plain(&manifest.title)));
    page.line("");
    page.line(&page.bold("every scenario"));
    let width = pack.requirements().map(|(_, requirement)| requirement.id.len()).max().unwrap_or(0);
    let row = |requirement: &crate::pack::Requirement| {
        format!("  {:<width$}  {:<6}  {}", requirement.id, requirement.level.as_str(), plain(&requirement.title))
    };
    for requirement in &manifest.requirements {
        page.line(&row(requirement));
    }
    for scenario in &pack.scenarios {
        page.line("");
        page.line(&format!("{}  {}", page.bold(&scenario.id), plain(&scenario.title)));
        for requirement in &scenario.requirements {
            page.line(&row(requirement));
        }
    }
    page.out
}

struct Page {
    out: String,
    style: TerminalStyle,
}

const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();
const MAGENTA: Style = AnsiColor::Magenta.on_default();
const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

impl Page {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn paint(&self, style: Style, text: &str) -> String {
        match self.style.color {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }

    fn bold(&self, text: &str) -> String {
        self.paint(BOLD, &plain(text))
    }

    fn head(&mut self, report: &Report) {
        let name = report.agent.info.get("name").and_then(serde_json::Value::as_str);
        let version = report.agent.info.get("version").and_then(serde_json::Value::as_str);
        let agent = match (name, version) {
            (Some(name), Some(version)) => format!("{} {}", plain(name), plain(version)),
            (Some(name), None) => plain(name),
            _ => "an agent that did not say its name".to_owned(),
        };
        let demo = if report.demo { " (demo: the built-in agent)" } else { "" };
        self.line(&format!("{}{demo}", self.bold(&agent)));
        self.line(&self.paint(DIM, &format!("  {}", plain_cut(&report.agent.argv.join(" "), self.room(2)))));
        let pack = &report.pack;
        let head = format!("  pack {} {}, pintle {}", pack.name, pack.version, report.pintle.version);
        self.line(&self.paint(DIM, &plain(&head)));
        self.line("");
    }

    fn problem(&mut self, problem: &super::model::ProblemSection) {
        let label = match problem.kind.as_str() {
            "agent_did_not_start" => "The agent did not start",
            "authentication_needed" => "Authentication is needed",
            other => other,
        };
        self.line(&format!("{}: {}", self.paint(RED, label), plain(&problem.message)));
        if !problem.methods.is_empty() {
            self.line(&format!("  methods for --auth: {}", plain(&problem.methods.join(", "))));
        }
        for line in problem.stderr.lines() {
            self.line(&format!("  {} {}", self.paint(DIM, "stderr |"), plain_cut(line, self.room(11))));
        }
        self.line("");
    }

    fn summary(&mut self, report: &Report) {
        let mut areas: Vec<(&str, CountsSection)> = Vec::new();
        for item in &report.requirements {
            let at = areas.iter().position(|(area, _)| *area == item.area).unwrap_or_else(|| {
                areas.push((&item.area, CountsSection::default()));
                areas.len() - 1
            });
            if let Some((_, counts)) = areas.get_mut(at) {
                add(counts, &item.outcome);
            }
        }
        areas.sort_by(|a, b| a.0.cmp(b.0));
        let width = areas.iter().map(|(area, _)| area.len()).max().unwrap_or(0).max(5);
        let head =
            format!("  {:<width$}  {:>5} {:>5} {:>5} {:>5} {:>5}", "area", "pass", "fail", "warn", "skip", "incl");
        self.line(&self.paint(DIM, &head));
        for (area, counts) in &areas {
            self.counts(&plain(area), width, counts);
        }
        self.counts("total", width, &report.counts);
        self.line("");
    }

    fn counts(&mut self, label: &str, width: usize, counts: &CountsSection) {
        let cell = |style: Style, count: usize| match count {
            0 => self.paint(DIM, &format!("{:>5}", ".")),
            count => self.paint(style, &format!("{count:>5}")),
        };
        let cells = [
            cell(GREEN, counts.pass),
            cell(RED, counts.fail),
            cell(YELLOW, counts.warn),
            cell(CYAN, counts.skipped),
            cell(MAGENTA, counts.inconclusive),
        ];
        self.line(&format!("  {label:<width$}  {}", cells.join(" ")));
    }

    fn attention(&mut self, report: &Report) {
        let mut items: Vec<&RequirementItem> =
            report.requirements.iter().filter(|item| weight(item).is_some()).collect();
        // When the agent did not start, one sentence has said it; a hundred would bury it.
        if report.problem.as_ref().is_some_and(|problem| problem.kind == "agent_did_not_start") {
            items.retain(|item| item.outcome != "inconclusive");
        }
        if items.is_empty() {
            return;
        }
        items.sort_by_key(|item| weight(item));
        self.line(&self.bold("Needs attention"));
        let mut told: Vec<&RequirementItem> = Vec::new();
        for item in &items {
            if told.iter().any(|other| same_cause(other, item)) {
                continue;
            }
            self.line("");
            let alike: Vec<&str> =
                items.iter().filter(|other| same_cause(other, item)).map(|other| other.id.as_str()).collect();
            if alike.len() > 2 {
                self.open_group(item, &alike);
                told.push(item);
            } else {
                self.item(item);
            }
        }
        self.line("");
    }

    /// Several requirements that one cause left open: one block, not one each.
    fn open_group(&mut self, item: &RequirementItem, ids: &[&str]) {
        self.line(&format!("{} {}", self.paint(MAGENTA, "OPEN"), self.bold(&format!("{} requirements", ids.len()))));
        let scenario = item.scenario.clone().unwrap_or_default();
        for (name, text) in [
            ("open", item.detail.as_str()),
            ("fault", item.reason.as_deref().unwrap_or_default()),
            ("scenario", &scenario),
        ] {
            self.line(&format!("     {} {}", self.paint(DIM, &format!("{name:<8}")), plain(text)));
        }
        for row in ids.chunks(4) {
            self.line(&format!("       {}", plain(&row.join("  "))));
        }
    }

    fn item(&mut self, item: &RequirementItem) {
        let (label, style) = match (item.outcome.as_str(), item.level) {
            ("fail", _) => ("FAIL", RED),
            ("warn", Level::Info | Level::May) => ("INFO", CYAN),
            ("warn", _) => ("WARN", YELLOW),
            _ => ("OPEN", MAGENTA),
        };
        self.line(&format!(
            "{} {} {}  {}",
            self.paint(style, label),
            self.bold(&item.id),
            self.paint(DIM, item.level.as_str()),
            plain(&item.title)
        ));
        let mut facts = Vec::new();
        if let Some(observed) = &item.observed {
            facts.push(("observed", observed.clone()));
        }
        if !item.detail.is_empty() {
            facts.push((if item.outcome == "inconclusive" { "open" } else { "decided" }, item.detail.clone()));
        }
        if let (Some(reason), "inconclusive") = (&item.reason, item.outcome.as_str()) {
            facts.push(("fault", reason.clone()));
        }
        facts.push(("why", item.why.clone()));
        if item.spec != "-" {
            facts.push(("spec", item.spec.clone()));
        }
        if let Some(scenario) = &item.scenario {
            let also = match item.also_in.as_slice() {
                [] => String::new(),
                others => format!(", also in {}", others.join(", ")),
            };
            facts.push(("scenario", format!("{scenario}{also}")));
        }
        for (name, text) in facts {
            self.line(&format!("     {} {}", self.paint(DIM, &format!("{name:<8}")), plain(&text)));
        }
        for evidence in &item.evidence {
            self.evidence(evidence);
        }
        if item.evidence_omitted > 0 {
            self.line(&self.paint(DIM, &format!("     and {} more", item.evidence_omitted)));
        }
    }

    fn evidence(&mut self, evidence: &EvidenceItem) {
        let what = match (evidence.dir.as_deref(), evidence.line) {
            (Some("in"), Some(line)) => format!("<- line {line}"),
            (Some(_), Some(line)) => format!("-> line {line}"),
            _ => evidence.kind.clone(),
        };
        let head = format!("     {:>9} ms  {what:<11}  ", format!("{:.1}", evidence.t_ms));
        let excerpt = plain_cut(&evidence.excerpt, self.room(head.len()));
        self.line(&format!("{}{excerpt}", self.paint(DIM, &head)));
        if !evidence.fault.is_empty() {
            self.line(&format!("{}{}", " ".repeat(head.len()), self.paint(RED, &plain(&evidence.fault))));
        }
    }

    fn skipped(&mut self, report: &Report) {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for item in report.requirements.iter().filter(|item| item.outcome == "skipped") {
            reasons.entry(item.reason.as_deref().unwrap_or("skipped")).or_default().push(&item.id);
        }
        if reasons.is_empty() {
            return;
        }
        self.line(&self.bold("Skipped"));
        for (reason, ids) in reasons {
            self.line(&format!("  {}", self.paint(CYAN, &plain(reason))));
            for row in ids.chunks(4) {
                self.line(&format!("    {}", plain(&row.join("  "))));
            }
        }
        self.line("");
    }

    fn verdict(&mut self, report: &Report) {
        let style = match report.verdict.as_str() {
            "conformant" => GREEN.bold(),
            "nonconformant" => RED,
            _ => MAGENTA.bold(),
        };
        let seconds = report.timing.total_ms as f64 / 1000.0;
        let run = match report.run.as_str() {
            "" => String::new(),
            run => format!(", run {}", plain(run)),
        };
        let levels = |level: Level, outcome: &str| {
            report.requirements.iter().filter(|item| item.level == level && item.outcome == outcome).count()
        };
        let because = match report.verdict.as_str() {
            "nonconformant" => match (levels(Level::Must, "fail"), levels(Level::Should, "warn")) {
                (0, should) => format!(": {should} should not met"),
                (must, _) => format!(": {must} must failed"),
            },
            "inconclusive" if report.problem.is_none() => match levels(Level::Must, "inconclusive") {
                0 => ": nothing was judged".to_owned(),
                open => format!(": {open} must could not be judged"),
            },
            _ => String::new(),
        };
        let beside = report.baseline.as_ref().map(|section| format!("; {}", in_words(section))).unwrap_or_default();
        let tail = format!("({seconds:.1} s{run})");
        self.line(&format!("{}{because}{beside}  {}", self.paint(style, &report.verdict), self.paint(DIM, &tail)));
        for fault in &report.recording_faults {
            self.line(&format!("{}: {}", self.paint(YELLOW, "evidence not fully recorded"), plain(fault)));
        }
        if !report.redactions.is_empty() {
            let counts: Vec<String> = report.redactions.iter().map(|(rule, n)| format!("{rule} {n}")).collect();
            self.line(&self.paint(DIM, &format!("redacted: {}", plain(&counts.join(", ")))));
        }
    }

    /// Characters that are left on a line after `used`; 0 is no limit.
    fn room(&self, used: usize) -> usize {
        match self.style.width {
            0 => 0,
            width => width.saturating_sub(used).max(20),
        }
    }
}

/// Order under "needs attention": failures first, what the specification does not ask for last. `None`: nothing to see.
fn weight(item: &RequirementItem) -> Option<(u8, Level)> {
    match item.outcome.as_str() {
        "fail" => Some((0, item.level)),
        "inconclusive" => Some((1, item.level)),
        "warn" if item.level <= Level::Should => Some((2, item.level)),
        "warn" => Some((3, item.level)),
        _ => None,
    }
}

/// Two requirements could not be judged for one and the same reason.
fn same_cause(a: &RequirementItem, b: &RequirementItem) -> bool {
    let cause = |item: &RequirementItem| (item.detail.clone(), item.reason.clone(), item.scenario.clone());
    a.outcome == "inconclusive" && b.outcome == "inconclusive" && cause(a) == cause(b)
}

fn add(counts: &mut CountsSection, outcome: &str) {
    match outcome {
        "pass" => counts.pass += 1,
        "fail" => counts.fail += 1,
        "warn" => counts.warn += 1,
        "skipped" => counts.skipped += 1,
        _ => counts.inconclusive += 1,
    }
}
