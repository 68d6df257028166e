//! Comparison with an earlier report.

use std::collections::BTreeMap;

use super::model::{BaselineSection, Regression, Report, RequirementItem};
use crate::judge::FailOn;
use crate::pack::Level;

impl Report {
    /// This report with what it is like beside an earlier one.
    ///
    /// Worse is what fails now and did not fail in `baseline`; with [`FailOn::Should`] also a new warning about a `should`.
    /// A failure of what could not be judged then, or was not there, is a new failure. What cannot be judged now is not
    /// worse: nothing is known about it, and a report says so in its own way.
    #[must_use]
    pub fn compared(self, baseline: &Self, fail_on: FailOn) -> Self {
        let before: BTreeMap<&str, &RequirementItem> =
            baseline.requirements.iter().map(|item| (item.id.as_str(), item)).collect();
        let mut section = BaselineSection::default();
        for item in &self.requirements {
            let known = before.get(item.id.as_str());
            if !counts(item, fail_on) {
                let is_mended = item.outcome == "pass" && known.is_some_and(|known| counts(known, fail_on));
                section.mended += usize::from(is_mended);
            } else if known.is_some_and(|known| known.outcome == "fail" || known.outcome == item.outcome) {
                section.known += 1;
            } else {
                section.worse.push(Regression {
                    id: item.id.clone(),
                    before: known.map(|known| known.outcome.clone()),
                    now: item.outcome.clone(),
                });
            }
        }
        Self { baseline: Some(section), ..self }
    }
}

/// Whether an outcome makes an agent nonconformant.
fn counts(item: &RequirementItem, fail_on: FailOn) -> bool {
    match item.outcome.as_str() {
        "fail" => true,
        "warn" => fail_on == FailOn::Should && item.level == Level::Should,
        _ => false,
    }
}

/// The comparison in a few words.
pub(super) fn in_words(section: &BaselineSection) -> String {
    let mended = if section.mended > 0 { format!(", {} mended", section.mended) } else { String::new() };
    format!("baseline: {} known, {} worse{mended}", section.known, section.worse.len())
}
