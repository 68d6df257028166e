//! What a judgement says.

use std::fmt;

use crate::pack::Level;

use super::evidence::Evidence;

/// Outcome of one requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every assertion holds.
    Pass,
    /// An assertion of a `must` does not hold.
    Fail,
    /// An assertion of a `should`, `may` or `info` does not hold.
    Warn,
    /// It was not judged, and nobody is to blame.
    Skipped(SkipReason),
    /// It could not be judged.
    Inconclusive(Fault),
}

impl Outcome {
    /// The word in reports.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::Skipped(_) => "skipped",
            Self::Inconclusive(_) => "inconclusive",
        }
    }

    /// Why it was skipped, or whose fault it is that it could not be judged.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Skipped(reason) => Some(reason.to_string()),
            Self::Inconclusive(fault) => Some(fault.as_str().to_owned()),
            Self::Pass | Self::Fail | Self::Warn => None,
        }
    }

    /// Which of two outcomes of the same requirement counts: the higher one.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Fail => 9,
            Self::Warn => 8,
            Self::Inconclusive(_) => 7,
            Self::Pass => 6,
            Self::Skipped(SkipReason::AuthRequired) => 5,
            Self::Skipped(SkipReason::DriverLacksStep(_)) => 4,
            Self::Skipped(SkipReason::NotExercised) => 3,
            Self::Skipped(SkipReason::NotAdvertised) => 2,
            Self::Skipped(SkipReason::BlockedBy(_)) => 1,
        }
    }
}

/// Why a requirement was not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The agent did not say that it can.
    NotAdvertised,
    /// The agent was never brought to do it.
    NotExercised,
    /// The driver cannot do a step; the operation's name.
    DriverLacksStep(String),
    /// The agent wants the user to authenticate first.
    AuthRequired,
    /// A requirement that it depends on was not met; the id of the one at the root.
    BlockedBy(String),
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAdvertised => f.write_str("not_advertised"),
            Self::NotExercised => f.write_str("not_exercised"),
            Self::DriverLacksStep(operation) => write!(f, "driver_lacks_step {operation}"),
            Self::AuthRequired => f.write_str("auth_required"),
            Self::BlockedBy(id) => write!(f, "blocked_by {id}"),
        }
    }
}

/// Whose fault it is that a requirement could not be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The agent gave no ground for a verdict.
    Agent,
    /// The driver broke off or broke its protocol.
    Driver,
    /// An assertion could not be evaluated, or the evidence is too large to judge.
    Harness,
    /// The agent could not be started, or the machine gave up.
    Environment,
}

impl Fault {
    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Driver => "driver",
            Self::Harness => "harness",
            Self::Environment => "environment",
        }
    }
}

/// What was found for one requirement.
#[derive(Clone, Debug, PartialEq)]
pub struct RequirementResult {
    /// Its id.
    pub id: String,
    /// Its level.
    pub level: Level,
    /// Its area.
    pub area: String,
    /// What is required.
    pub title: String,
    /// Where the specification says so.
    pub spec: String,
    /// What a failure means for users.
    pub why: String,
    /// The outcome.
    pub outcome: Outcome,
    /// What decided it, one sentence; empty for a pass.
    pub detail: String,
    /// What the agent did, when the requirement says how to tell.
    pub observed: Option<String>,
    /// The scenario that decided it.
    pub scenario: Option<String>,
    /// Other scenarios with the same outcome, for a requirement of every scenario.
    pub also_in: Vec<String>,
    /// The entries that prove it, at most [`EVIDENCE_MAX`](super::EVIDENCE_MAX).
    pub evidence: Vec<Evidence>,
    /// How many more there are.
    pub evidence_omitted: usize,
}

/// Which levels make an agent nonconformant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailOn {
    /// Only a failed `must`.
    #[default]
    Must,
    /// A warning about a `should` too.
    Should,
}

/// The verdict over all requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing that counts failed.
    Conformant,
    /// Something that counts failed.
    Nonconformant,
    /// Nothing that counts failed, but a `must` could not be judged, or nothing was judged at all.
    Inconclusive,
}

impl Verdict {
    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conformant => "conformant",
            Self::Nonconformant => "nonconformant",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Something that concerns the whole run and comes before any requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// No scenario got a single line out of the agent.
    AgentDidNotStart {
        /// What happened, one sentence.
        message: String,
        /// The end of what it wrote to stderr; may be empty.
        stderr: String,
    },
    /// The agent answers `session/new` with "authentication required".
    AuthenticationNeeded {
        /// Ids of the methods that it advertises.
        methods: Vec<String>,
    },
}

impl Problem {
    /// The word in reports.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::AgentDidNotStart { .. } => "agent_did_not_start",
            Self::AuthenticationNeeded { .. } => "authentication_needed",
        }
    }
}

/// How many requirements had each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub pass: usize,
    /// Failed.
    pub fail: usize,
    /// Warnings.
    pub warn: usize,
    /// Skipped.
    pub skipped: usize,
    /// Inconclusive.
    pub inconclusive: usize,
}

impl Counts {
    /// Counts results.
    pub fn of<'a>(results: impl IntoIterator<Item = &'a RequirementResult>) -> Self {
        let mut counts = Self::default();
        for result in results {
            match result.outcome {
                Outcome::Pass => counts.pass += 1,
                Outcome::Fail => counts.fail += 1,
                Outcome::Warn => counts.warn += 1,
                Outcome::Skipped(_) => counts.skipped += 1,
                Outcome::Inconclusive(_) => counts.inconclusive += 1,
            }
        }
        counts
    }

    /// Whether anything was judged: what was only skipped is no ground for a verdict.
    pub fn judged(&self) -> bool {
        self.pass + self.fail + self.warn > 0
    }

    /// All of them.
    pub fn total(&self) -> usize {
        self.pass + self.fail + self.warn + self.skipped + self.inconclusive
    }
}

/// A judgement.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// One result per requirement, in the pack's order.
    pub results: Vec<RequirementResult>,
    /// What comes before any requirement.
    pub problem: Option<Problem>,
}

impl Judgement {
    /// How many requirements had each outcome.
    pub fn counts(&self) -> Counts {
        Counts::of(&self.results)
    }

    /// The verdict.
    pub fn verdict(&self, fail_on: FailOn) -> Verdict {
        let counts_as_failure = |result: &&RequirementResult| match result.outcome {
            Outcome::Fail => true,
            Outcome::Warn => fail_on == FailOn::Should && result.level == Level::Should,
            _ => false,
        };
        let open = |result: &RequirementResult| {
            matches!(result.outcome, Outcome::Inconclusive(_)) && result.level == Level::Must
        };
        if self.results.iter().any(|result| counts_as_failure(&result)) {
            Verdict::Nonconformant
        } else if self.problem.is_some() || !self.counts().judged() || self.results.iter().any(open) {
            Verdict::Inconclusive
        } else {
            Verdict::Conformant
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(outcomes: &[Outcome]) -> Verdict {
        let result = |outcome: &Outcome| RequirementResult {
            id: "X-1".to_owned(),
            level: Level::Must,
            area: String::new(),
            title: String::new(),
            spec: String::new(),
            why: String::new(),
            outcome: outcome.clone(),
            detail: String::new(),
            observed: None,
            scenario: None,
            also_in: Vec::new(),
            evidence: Vec::new(),
            evidence_omitted: 0,
        };
        Judgement { results: outcomes.iter().map(result).collect(), problem: None }.verdict(FailOn::Must)
    }

    #[test]
    fn what_was_only_skipped_is_no_ground_for_a_verdict() {
        let skipped = Outcome::Skipped(SkipReason::NotExercised);
        for (outcomes, expected) in [
            (vec![], Verdict::Inconclusive),
            (vec![skipped.clone()], Verdict::Inconclusive),
            (vec![skipped.clone(), Outcome::Pass], Verdict::Conformant),
            (vec![skipped.clone(), Outcome::Warn], Verdict::Conformant),
            (vec![skipped.clone(), Outcome::Fail], Verdict::Nonconformant),
            (vec![Outcome::Pass, Outcome::Inconclusive(Fault::Agent)], Verdict::Inconclusive),
        ] {
            assert_eq!(verdict(&outcomes), expected, "{outcomes:?}");
        }
    }
}
