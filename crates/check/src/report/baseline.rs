//! Comparison with an earlier report.

use std::collections::BTreeMap;

use super::model::Report;
use crate::judge::FailOn;
use crate::pack::Level;

/// A requirement that is worse than it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regression {
    /// The requirement.
    pub id: String,
    /// Its outcome in the baseline; `None` when it was not there.
    pub before: Option<String>,
    /// Its outcome now.
    pub now: String,
}

/// Requirements that fail now and did not fail in `baseline`; with [`FailOn::Should`] also new warnings about a `should`.
/// A failure of what could not be judged then, or was not there, is a new failure. What cannot be judged now is not worse:
/// nothing is known about it, and a report says so in its own way.
pub fn regressions(baseline: &Report, now: &Report, fail_on: FailOn) -> Vec<Regression> {
    let before: BTreeMap<&str, &str> =
        baseline.requirements.iter().map(|item| (item.id.as_str(), item.outcome.as_str())).collect();
    now.requirements
        .iter()
        .filter(|item| {
            let counts = match item.outcome.as_str() {
                "fail" => true,
                "warn" => fail_on == FailOn::Should && item.level == Level::Should,
                _ => false,
            };
            let known = before.get(item.id.as_str());
            counts && known.is_none_or(|known| *known != "fail" && *known != item.outcome)
        })
        .map(|item| Regression {
            id: item.id.clone(),
            before: before.get(item.id.as_str()).map(|outcome| (*outcome).to_owned()),
            now: item.outcome.clone(),
        })
        .collect()
}
