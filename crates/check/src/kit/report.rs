//! What the kit found, for machines and for people.

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use pintle_sdk::driver::HelloResult;
use serde::Serialize;

use super::Found;
use super::catalog::{DriverRequirement, REQUIREMENTS};
use super::rig::Rig;
use super::transcript::Line;
use crate::judge::{FailOn, Outcome, Verdict};
use crate::pack::Level;
use crate::report::{TerminalStyle, plain, plain_cut};

/// Value of `schema` in a [`DriverReport`].
pub const DRIVER_REPORT_SCHEMA: &str = "pintle.driver-report.v1";

/// The outcome of every requirement for one driver.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DriverReport {
    /// Always [`DRIVER_REPORT_SCHEMA`].
    pub schema: String,
    /// `conformant`, `nonconformant` or `inconclusive`.
    pub verdict: String,
    /// The version of this program.
    pub pintle: String,
    /// The driver's program and arguments.
    pub argv: Vec<String>,
    /// What it said of itself, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hello: Option<HelloSection>,
    /// How many requirements had each outcome.
    pub counts: BTreeMap<String, usize>,
    /// One item per requirement, in the order in which they were tried.
    pub requirements: Vec<DriverReportItem>,
    /// How long it took, in milliseconds.
    pub total_ms: u64,
}

/// What a driver said of itself.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HelloSection {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Operations that it declares.
    pub operations: Vec<String>,
    /// Permissions that it requests.
    pub permissions: Vec<String>,
    /// Whether it declares cancellation.
    pub cancellation: bool,
    /// Whether it declares streaming.
    pub streaming: bool,
    /// How many invocations it declares at once; 1 for a serial driver.
    pub max_concurrency: u32,
}

impl HelloSection {
    fn new(hello: &HelloResult) -> Self {
        let capabilities = &hello.capabilities;
        Self {
            name: hello.identity.name.to_string(),
            version: hello.identity.version.to_string(),
            operations: capabilities.operations.iter().map(ToString::to_string).collect(),
            permissions: hello.requested_permissions.iter().map(|name| name.as_str().to_owned()).collect(),
            cancellation: capabilities.cancellation,
            streaming: capabilities.streaming,
            max_concurrency: if capabilities.concurrency { capabilities.max_concurrency.max(1) } else { 1 },
        }
    }
}

/// One requirement.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DriverReportItem {
    /// Its id.
    pub id: String,
    /// `must` or `should`.
    pub level: String,
    /// Its group.
    pub area: String,
    /// What is required.
    pub title: String,
    /// The section of `docs/driver-rpc.md`.
    pub spec: String,
    /// `pass`, `fail`, `warn`, `skipped` or `inconclusive`.
    pub outcome: String,
    /// Why it was skipped, or whose fault it is that it could not be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What decided it; empty for a pass.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// What goes wrong for users.
    pub why: String,
    /// The last lines of the session that decided it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<FrameItem>,
}

/// One line of a session.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FrameItem {
    /// `out` from Core to the driver, `in` from the driver.
    pub dir: String,
    /// Which of all lines of the trial it was, from 1.
    pub line: u64,
    /// Its beginning, without secrets.
    pub text: String,
    /// Its whole length in bytes.
    pub bytes: u64,
}

impl From<&Line> for FrameItem {
    fn from(line: &Line) -> Self {
        let dir = if line.sent { "out" } else { "in" };
        Self { dir: dir.to_owned(), line: line.number, text: line.text.clone(), bytes: line.bytes }
    }
}

impl DriverReport {
    pub(super) fn new(rig: &Rig, found: &BTreeMap<&'static str, Found>, fail_on: FailOn, took: Duration) -> Self {
        let program = rig.request.program.path().display().to_string();
        let args = rig.request.args.iter().map(|arg| arg.to_string_lossy().into_owned());
        let items: Vec<(&DriverRequirement, &Found)> =
            REQUIREMENTS.iter().filter_map(|requirement| Some((requirement, found.get(requirement.id)?))).collect();
        let mut counts: BTreeMap<String, usize> =
            ["pass", "fail", "warn", "skipped", "inconclusive"].map(|name| (name.to_owned(), 0)).into();
        for (_, found) in &items {
            *counts.entry(found.outcome.as_str().to_owned()).or_default() += 1;
        }
        Self {
            schema: DRIVER_REPORT_SCHEMA.to_owned(),
            verdict: verdict(&items, fail_on).as_str().to_owned(),
            pintle: env!("CARGO_PKG_VERSION").to_owned(),
            argv: std::iter::once(program).chain(args).collect(),
            hello: rig.hello.as_ref().map(HelloSection::new),
            counts,
            requirements: items.into_iter().map(|(requirement, found)| item(requirement, found)).collect(),
            total_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

fn verdict(items: &[(&DriverRequirement, &Found)], fail_on: FailOn) -> Verdict {
    let failed = |(_, found): &(&DriverRequirement, &Found)| match found.outcome {
        Outcome::Fail => true,
        Outcome::Warn => fail_on == FailOn::Should,
        _ => false,
    };
    let open = |(requirement, found): &(&DriverRequirement, &Found)| {
        requirement.level == Level::Must && matches!(found.outcome, Outcome::Inconclusive(_))
    };
    if items.iter().any(failed) {
        Verdict::Nonconformant
    } else if items.iter().any(open) {
        Verdict::Inconclusive
    } else {
        Verdict::Conformant
    }
}

fn item(requirement: &DriverRequirement, found: &Found) -> DriverReportItem {
    DriverReportItem {
        id: requirement.id.to_owned(),
        level: requirement.level.as_str().to_owned(),
        area: requirement.area().to_lowercase(),
        title: requirement.title.to_owned(),
        spec: requirement.spec.to_owned(),
        outcome: found.outcome.as_str().to_owned(),
        reason: found.outcome.reason(),
        detail: found.detail.clone(),
        why: requirement.why.to_owned(),
        frames: found.lines.iter().map(FrameItem::from).collect(),
    }
}

const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();
const DIM: Style = Style::new().dimmed();

/// The report as a table, and then what needs attention with the lines that show it.
pub fn terminal(report: &DriverReport, style: TerminalStyle) -> String {
    let TerminalStyle { color, width } = style;
    let paint = |style: Style, text: &str| if color { format!("{style}{text}{style:#}") } else { text.to_owned() };
    let room = |used: usize| if width == 0 { 0 } else { width.saturating_sub(used).max(20) };
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    let name = report.hello.as_ref().map_or_else(
        || "a driver that did not say its name".to_owned(),
        |hello| format!("{} {}", plain(&hello.name), plain(&hello.version)),
    );
    line(&paint(Style::new().bold(), &name));
    line(&paint(DIM, &format!("  {}", plain_cut(&report.argv.join(" "), room(2)))));
    line("");
    for item in &report.requirements {
        let (mark, style) = match item.outcome.as_str() {
            "pass" => ("pass", GREEN),
            "fail" => ("FAIL", RED),
            "warn" => ("warn", YELLOW),
            "skipped" => ("skip", CYAN),
            _ => ("open", YELLOW),
        };
        let reason = item.reason.as_deref().map(|reason| format!("  ({reason})")).unwrap_or_default();
        let title = plain_cut(&format!("{}{reason}", item.title), room(24));
        line(&format!("  {}  {:<15} {title}", paint(style, mark), item.id));
    }
    let attention: Vec<&DriverReportItem> = report
        .requirements
        .iter()
        .filter(|item| matches!(item.outcome.as_str(), "fail" | "warn" | "inconclusive"))
        .collect();
    if !attention.is_empty() {
        line("");
        line(&paint(Style::new().bold(), "Needs attention"));
    }
    for item in attention {
        line("");
        line(&format!("{} {}", paint(RED, &item.id), plain(&item.title)));
        for (label, text) in [("found", &item.detail), ("means", &item.why), ("spec", &item.spec)] {
            line(&format!("  {} {}", paint(DIM, &format!("{label:<6}")), plain_cut(text, room(9))));
        }
        for frame in &item.frames {
            let arrow = if frame.dir == "out" { "->" } else { "<-" };
            let head = format!("{arrow} {:>4}", frame.line);
            line(&format!("    {} {}", paint(DIM, &head), plain_cut(&frame.text, room(12))));
        }
    }
    line("");
    let counts: Vec<String> =
        report.counts.iter().filter(|(_, count)| **count > 0).map(|(name, count)| format!("{count} {name}")).collect();
    let style = if report.verdict == "conformant" { GREEN } else { RED };
    line(&format!("{}  {}", paint(style, &report.verdict), counts.join(", ")));
    out
}
