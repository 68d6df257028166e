//! Reports: the model `pintle.report.v1`, and one renderer per format.
//!
//! Renderers are pure functions from a [`Report`] to text. Whatever came from the agent is escaped for the format that it
//! lands in, control characters included.

mod baseline;
mod escape;
mod html;
mod junit;
mod markdown;
mod model;
mod sarif;
mod terminal;

#[cfg(unix)]
pub(crate) use escape::{plain, plain_cut};
pub use html::html;
pub use junit::junit;
pub use markdown::markdown;
pub use model::{
    AgentSection, BaselineSection, CountsSection, DriverSection, EvidenceItem, HostSection, PackSection, PintleSection,
    ProblemSection, REPORT_SCHEMA, Regression, Report, ReportContext, RequirementItem, ScenarioTiming, TimingSection,
};
pub use sarif::sarif;
pub use terminal::{TerminalStyle, list, terminal};

use pintle_wire::{CanonError, to_canonical};

/// A report as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// Its name in the folder that `--out` names.
    pub name: &'static str,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The report as one canonical JSON object with a line feed at its end.
///
/// # Errors
/// A number of the agent's that canonical JSON cannot hold exactly.
pub fn json(report: &Report) -> Result<Vec<u8>, CanonError> {
    let mut bytes = to_canonical(report)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Every format, for `--out`.
///
/// # Errors
/// See [`json`].
pub fn every_format(report: &Report) -> Result<Vec<ReportFile>, CanonError> {
    let plain = TerminalStyle { color: false, width: 0 };
    Ok(vec![
        ReportFile { name: "report.json", bytes: json(report)? },
        ReportFile { name: "report.txt", bytes: terminal(report, plain).into_bytes() },
        ReportFile { name: "report.md", bytes: markdown(report).into_bytes() },
        ReportFile { name: "report.html", bytes: html(report).into_bytes() },
        ReportFile { name: "report.sarif", bytes: sarif(report)? },
        ReportFile { name: "junit.xml", bytes: junit(report).into_bytes() },
    ])
}
