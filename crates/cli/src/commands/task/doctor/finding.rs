//! What a doctor says.

use std::fmt::Display;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

/// The schema of the JSON report.
const SCHEMA: &str = "pintle.doctor.v1";

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Good to know.
    Note,
    /// Works, with a risk.
    Warn,
    /// Does not work, or cannot be trusted.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    /// The agent, or `state`, or `agents`.
    pub(super) area: String,
    /// How much it matters.
    pub(super) level: Level,
    /// Its stable word.
    pub(super) code: &'static str,
    /// What was found.
    pub(super) text: String,
    /// The one step that helps, if the user has to do something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<String>,
    /// What a program wants to know besides, such as a trust hash.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub(super) data: serde_json::Map<String, serde_json::Value>,
}

impl Finding {
    fn new(level: Level, area: impl Display, code: &'static str, text: impl Display) -> Self {
        Self { area: area.to_string(), level, code, text: text.to_string(), step: None, data: serde_json::Map::new() }
    }

    pub(super) fn ok(area: impl Display, code: &'static str, text: impl Display) -> Self {
        Self::new(Level::Ok, area, code, text)
    }

    pub(super) fn note(area: impl Display, code: &'static str, text: impl Display) -> Self {
        Self::new(Level::Note, area, code, text)
    }

    pub(super) fn warn(area: impl Display, code: &'static str, text: impl Display) -> Self {
        Self::new(Level::Warn, area, code, text)
    }

    pub(super) fn fail(area: impl Display, code: &'static str, text: impl Display) -> Self {
        Self::new(Level::Fail, area, code, text)
    }

    /// Adds the step that helps.
    #[must_use]
    pub(super) fn step(mut self, step: impl Display) -> Self {
        self.step = Some(step.to_string());
        self
    }

    /// Adds a value for programs.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        self.data.insert(name.to_owned(), value.into());
        self
    }
}

/// Everything that was found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    schema: &'static str,
    ok: bool,
    program: String,
    version: &'static str,
    findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(program: &str) -> Self {
        Self {
            schema: SCHEMA,
            ok: true,
            program: program.to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            findings: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, finding: Finding) {
        self.ok &= finding.level != Level::Fail;
        self.findings.push(finding);
    }

    /// Whether nothing needs the user.
    pub(super) const fn is_healthy(&self) -> bool {
        self.ok
    }

    /// The report as one line of JSON.
    pub(super) fn to_json(&self) -> String {
        // Strings and numbers: there is nothing in it that could not be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn print_human(&self) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        let bold = Style::new().bold();
        writeln!(out, "{bold}pintle {}{bold:#}  {}", self.version, self.program)?;
        let mut area = "";
        for finding in &self.findings {
            if finding.area != area {
                area = &finding.area;
                writeln!(out, "\n{bold}{area}{bold:#}")?;
            }
            let (word, colour) = match finding.level {
                Level::Ok => ("ok", AnsiColor::Green),
                Level::Note => ("note", AnsiColor::Cyan),
                Level::Warn => ("warn", AnsiColor::Yellow),
                Level::Fail => ("FAIL", AnsiColor::Red),
            };
            let style = colour.on_default();
            writeln!(out, "  {style}{word:4}{style:#}  {}", finding.text)?;
            if let Some(step) = &finding.step {
                writeln!(out, "        do: {step}")?;
            }
        }
        let count = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        let (fails, warnings) = (count(Level::Fail), count(Level::Warn));
        match (fails, warnings) {
            (0, 0) => writeln!(out, "\nhealthy"),
            (0, _) => writeln!(out, "\nhealthy, with {warnings} to know about"),
            _ => writeln!(out, "\n{fails} to repair, {warnings} to know about"),
        }
    }
}
