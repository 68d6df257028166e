//! What is required of a driver, and how it is tried.

use crate::pack::Level;

/// One requirement of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverRequirement {
    /// `DRV-AREA-NNN`, unique.
    pub id: &'static str,
    /// How much it counts.
    pub level: Level,
    /// What is required, one sentence.
    pub title: &'static str,
    /// What goes wrong for users when it does not hold.
    pub why: &'static str,
    /// The section of `docs/driver-rpc.md`.
    pub spec: &'static str,
    /// What must hold before this means anything.
    pub depends: &'static [&'static str],
    pub(super) kind: Kind,
}

impl DriverRequirement {
    /// Its group in the summary.
    pub fn area(&self) -> &'static str {
        self.id.split('-').nth(1).unwrap_or(self.id)
    }
}

/// How a requirement is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// In a session of its own.
    Session,
    /// In every session.
    Always,
}

pub(super) const ALWAYS: Kind = Kind::Always;
const SESSION: Kind = Kind::Session;

/// The ids that other modules refer to.
pub(super) mod id {
    pub(in super::super) const HELLO: &str = "DRV-HELLO-001";
    pub(in super::super) const ARTIFACT: &str = "DRV-HELLO-006";
    pub(in super::super) const REQUESTED: &str = "DRV-PERM-001";
    pub(in super::super) const ACCEPTED: &str = "DRV-PERM-002";
    pub(in super::super) const PREPARE: &str = "DRV-LIFE-001";
    pub(in super::super) const CAPABILITIES: &str = "DRV-LIFE-003";
    pub(in super::super) const RESET: &str = "DRV-LIFE-004";
    pub(in super::super) const SHUTDOWN: &str = "DRV-LIFE-008";
    pub(in super::super) const INVOKE: &str = "DRV-INVOKE-001";
    pub(in super::super) const CANCEL: &str = "DRV-CANCEL-001";
    pub(in super::super) const AT_ONCE: &str = "DRV-CONC-002";
    pub(in super::super) const ONLY_FRAMES: &str = "DRV-OUT-001";
    pub(in super::super) const CONTRACT: &str = "DRV-OUT-002";
    pub(in super::super) const FRAME_SIZE: &str = "DRV-OUT-003";
    pub(in super::super) const DIRECTION: &str = "DRV-OUT-004";
    pub(in super::super) const RESPONSES: &str = "DRV-OUT-005";
    pub(in super::super) const ANSWERS: &str = "DRV-OUT-006";
    pub(in super::super) const DETAILS: &str = "DRV-OUT-007";
    pub(in super::super) const FLOOD: &str = "DRV-OUT-008";
    pub(in super::super) const STAYS: &str = "DRV-OUT-009";
    pub(in super::super) const SECRETS: &str = "DRV-OUT-010";
    pub(in super::super) const DESCENDANTS: &str = "DRV-OUT-011";
    pub(in super::super) const OUTSIDE: &str = "DRV-OBS-001";
    pub(in super::super) const IDENTITY: &str = "DRV-OBS-002";
    pub(in super::super) const SEQUENCE: &str = "DRV-OBS-003";
    pub(in super::super) const LAST_SEQUENCE: &str = "DRV-OBS-004";
    pub(in super::super) const SUMMARY: &str = "DRV-OBS-005";
    pub(in super::super) const STREAMS: &str = "DRV-OBS-006";
}

const HELLO: &[&str] = &[id::HELLO];
const PREPARED: &[&str] = &[id::HELLO, id::PREPARE];
const INVOKED: &[&str] = &[id::HELLO, id::PREPARE, id::INVOKE];
const CANCELLED: &[&str] = &[id::HELLO, id::PREPARE, id::INVOKE, id::CANCEL];
const SEVERAL: &[&str] = &[id::HELLO, id::PREPARE, id::INVOKE, id::CANCEL, id::AT_ONCE];

macro_rules! requirements {
    ($($id:expr, $level:ident, $kind:ident, $depends:expr, $spec:literal, $title:literal, $why:literal;)*) => {
        &[$(DriverRequirement {
            id: $id, level: Level::$level, title: $title, why: $why, spec: $spec, depends: $depends, kind: $kind,
        }),*]
    };
}

/// All of them, in the order in which they are tried and shown.
pub const REQUIREMENTS: &[DriverRequirement] = requirements! {
    // The handshake.
    id::HELLO, Must, SESSION, &[], "the-session",
        "driver.hello is answered with a valid result and a range that holds version 1.0.0",
        "nothing can be done with this driver";
    "DRV-HELLO-002", Must, SESSION, HELLO, "the-session",
        "A version range that the driver does not meet is refused as unsupported_rpc_version",
        "a later Core would speak a protocol that the driver does not know";
    "DRV-HELLO-003", Must, SESSION, HELLO, "the-session",
        "A wide version range that holds 1.0.0 is accepted",
        "the driver stops working with the next version of Core";
    "DRV-HELLO-004", Must, SESSION, HELLO, "the-session",
        "A range with its minimum above its maximum, or with bounds that are no SemVer, is refused",
        "a wrong range passes for a good one";
    "DRV-HELLO-005", Must, SESSION, HELLO, "the-session",
        "A second driver.hello is refused as invalid_state",
        "the session starts over in the middle";
    id::ARTIFACT, Should, SESSION, HELLO, "the-session",
        "artifact_digest is the digest of the driver's file",
        "evidence names a driver that was not run";

    // Frames that the driver reads.
    "DRV-FRAME-001", Must, SESSION, HELLO, "frames",
        "Strings and integers up to 2^53 - 1 are echoed as ids, exactly",
        "Core cannot tell which request was answered";
    "DRV-FRAME-002", Must, SESSION, HELLO, "frames",
        "A line that ends with CR LF is a frame",
        "a Core on Windows is not understood";
    "DRV-FRAME-003", Must, SESSION, HELLO, "frames",
        "A frame that arrives byte by byte is read whole",
        "large requests fail now and then";
    "DRV-FRAME-004", Must, SESSION, HELLO, "frames",
        "Requests that arrive in one piece are each answered once",
        "requests get lost when the machine is busy";
    "DRV-FRAME-005", Must, SESSION, HELLO, "frames",
        "A frame of exactly 1 MiB is accepted",
        "large plans fail";
    "DRV-FRAME-006", Must, SESSION, HELLO, "frames",
        "A frame over 1 MiB is not carried out, and the next one is read",
        "one bad line costs the session, or the memory of the machine";
    "DRV-FRAME-007", Must, SESSION, HELLO, "frames",
        "A line that is no JSON is not carried out, and the next one is read",
        "one bad line costs the session";
    "DRV-FRAME-008", Must, SESSION, HELLO, "frames",
        "A blank line is not carried out, and the next one is read",
        "one bad line costs the session";
    "DRV-FRAME-009", Must, SESSION, HELLO, "frames",
        "A line that is not UTF-8 is not carried out, and the next one is read",
        "one bad line costs the session";
    "DRV-FRAME-010", Must, SESSION, HELLO, "frames",
        "A frame nested 100,000 levels deep is not carried out, and the next one is read",
        "a small frame overflows the stack of the driver";
    "DRV-FRAME-011", Must, SESSION, HELLO, "frames",
        "A batch is not carried out",
        "requests are carried out that Core did not make";
    "DRV-FRAME-012", Must, SESSION, HELLO, "frames",
        "A frame with a member name twice is not carried out",
        "what was checked is not what is carried out";
    "DRV-FRAME-013", Must, SESSION, HELLO, "frames",
        "A frame with another jsonrpc version is not carried out",
        "another protocol passes for this one";
    "DRV-FRAME-014", Must, SESSION, HELLO, "frames",
        "A request with a fraction or null as its id is not carried out",
        "the answer fits no request";
    "DRV-FRAME-015", Must, SESSION, HELLO, "frames",
        "An unknown method is refused as invalid_request",
        "Core waits for an answer";
    "DRV-FRAME-016", Must, SESSION, HELLO, "frames",
        "Unknown members are refused as invalid_request, in the envelope and in params",
        "a member that Core relies on is ignored in silence";
    "DRV-FRAME-017", Must, SESSION, HELLO, "frames",
        "params of null are refused as invalid_request",
        "a request that is not whole is carried out";
    "DRV-FRAME-018", Must, SESSION, HELLO, "frames",
        "A method without an id is not answered and not carried out",
        "a driver answers what was no request";
    "DRV-FRAME-019", Should, SESSION, HELLO, "frames",
        "A last frame without a line ending is read",
        "the last request before the end gets lost";

    // Permissions.
    id::REQUESTED, Must, ALWAYS, HELLO, "the-session",
        "Requested permissions are known names or start with x-, none of them twice",
        "Core cannot approve what it does not know";
    id::ACCEPTED, Must, SESSION, HELLO, "the-session",
        "No permission is accepted that was not approved",
        "the driver takes more than the user has granted";

    // The lifecycle.
    id::PREPARE, Must, SESSION, HELLO, "the-session",
        "driver.prepare is accepted with all that the driver asked for",
        "the driver cannot be used";
    "DRV-LIFE-002", Must, SESSION, PREPARED, "the-session",
        "driver.prepare with wrong params is refused as invalid_request and changes nothing",
        "a driver runs with a plan that is not whole";
    id::CAPABILITIES, Must, SESSION, PREPARED, "the-session",
        "driver.capabilities says what driver.hello said",
        "Core asks for what the driver cannot do";
    id::RESET, Must, SESSION, PREPARED, "the-session",
        "driver.reset is accepted after driver.prepare",
        "sessions cannot be used again";
    "DRV-LIFE-005", Must, SESSION, HELLO, "the-session",
        "driver.prepare, driver.invoke, driver.reset and driver.shutdown are refused as invalid_state before their time",
        "the driver works without what it needs";
    "DRV-LIFE-006", Must, SESSION, PREPARED, "the-session",
        "A second driver.prepare is refused as invalid_state",
        "permissions change under a running plan";
    "DRV-LIFE-007", Must, SESSION, PREPARED, "the-session",
        "driver.cancel without an invocation is refused as invalid_state",
        "Core believes that something was cancelled";
    id::SHUTDOWN, Must, SESSION, PREPARED, "the-session",
        "driver.shutdown is answered, and the driver ends by itself with code 0",
        "every run ends with a kill";
    "DRV-LIFE-009", Must, SESSION, PREPARED, "the-session",
        "Nothing is carried out after driver.shutdown",
        "a driver works on after its end";
    "DRV-LIFE-010", Must, SESSION, HELLO, "the-process",
        "The driver ends by itself when its standard input ends",
        "drivers stay behind when Core dies";
    "DRV-LIFE-011", Must, SESSION, HELLO, "the-process",
        "The driver ends by itself when its standard input ends in the middle of a frame",
        "drivers stay behind when Core dies";

    // Invocations.
    id::INVOKE, Must, SESSION, PREPARED, "the-session",
        "A declared operation is carried out to driver.completed with status completed",
        "the driver cannot be used";
    "DRV-INVOKE-002", Must, SESSION, PREPARED, "the-session",
        "An operation that is not declared is refused as capability_mismatch",
        "Core waits for what the driver cannot do";
    "DRV-INVOKE-003", Must, SESSION, PREPARED, "the-session",
        "driver.invoke with wrong params is refused as invalid_request",
        "evidence cannot be told apart";
    "DRV-INVOKE-004", Must, SESSION, INVOKED, "the-session",
        "A session takes one invocation after another",
        "each scenario needs a process of its own";
    "DRV-INVOKE-005", Must, SESSION, INVOKED, "the-session",
        "The id of a completed invocation is refused as invalid_request",
        "two attempts share one id";
    "DRV-INVOKE-006", Must, SESSION, INVOKED, "the-session",
        "An operation is carried out after driver.reset",
        "sessions cannot be used again";
    "DRV-INVOKE-007", Must, SESSION, INVOKED, "the-session",
        "A Core that reads late gets every observation, in order",
        "evidence gets lost on a busy machine";
    "DRV-INVOKE-008", Must, SESSION, INVOKED, "the-session",
        "A serial driver refuses a second invocation as invalid_state while one is active",
        "observations of two invocations mix";
    "DRV-INVOKE-009", Must, SESSION, INVOKED, "the-session",
        "capabilities, reset, prepare and shutdown are refused as invalid_state while an invocation is active",
        "a running invocation loses what it works with";
    "DRV-INVOKE-010", Must, SESSION, INVOKED, "the-process",
        "The driver ends by itself when its standard input ends in the middle of an invocation",
        "agents under test stay behind when Core dies";

    // Cancellation.
    id::CANCEL, Must, SESSION, INVOKED, "the-session",
        "driver.cancel is acknowledged, and the invocation ends within its deadline",
        "every cancel ends with a kill";
    "DRV-CANCEL-002", Should, SESSION, CANCELLED, "the-session",
        "An invocation that was cancelled ends with status cancelled",
        "a run that was broken off passes for a whole one";
    "DRV-CANCEL-003", Must, SESSION, CANCELLED, "the-session",
        "A second driver.cancel is answered, and the invocation ends once",
        "an impatient user breaks the session";
    "DRV-CANCEL-004", Must, SESSION, CANCELLED, "the-session",
        "driver.cancel of another invocation is refused as invalid_request and cancels nothing",
        "the wrong invocation is cancelled";
    "DRV-CANCEL-005", Must, SESSION, CANCELLED, "the-session",
        "An operation is carried out after a cancelled one",
        "one cancel costs the session";

    // Several invocations at once.
    "DRV-CONC-001", Should, SESSION, HELLO, "several-invocations-at-once",
        "concurrency is declared with a max_concurrency of two or more, and not with one or none",
        "nobody knows how many invocations the driver takes";
    id::AT_ONCE, Must, SESSION, CANCELLED, "several-invocations-at-once",
        "As many invocations are taken at once as max_concurrency declares",
        "invocations fail that Core was told would not";
    "DRV-CONC-003", Must, SESSION, SEVERAL, "several-invocations-at-once",
        "One invocation more than max_concurrency is refused as invalid_state, and the others go on",
        "a driver takes more than it can do";
    "DRV-CONC-004", Must, SESSION, SEVERAL, "several-invocations-at-once",
        "The id of an active invocation is refused as invalid_request",
        "observations of two invocations cannot be told apart";
    "DRV-CONC-005", Must, SESSION, SEVERAL, "several-invocations-at-once",
        "driver.cancel ends one invocation and leaves the others alone",
        "one cancel costs every run";
    "DRV-CONC-006", Must, SESSION, SEVERAL, "several-invocations-at-once",
        "An operation that ends on its own does so while another goes on",
        "invocations that are said to run at once wait for each other";
    "DRV-CONC-007", Must, SESSION, SEVERAL, "several-invocations-at-once",
        "driver.shutdown and driver.reset are refused as invalid_state until the last invocation has ended",
        "a running invocation loses what it works with";

    // What the driver writes, in every session.
    id::ONLY_FRAMES, Must, ALWAYS, &[], "frames",
        "Standard output carries frames and nothing else",
        "one stray print ends the session";
    id::CONTRACT, Must, ALWAYS, &[], "frames",
        "Every frame keeps its contract",
        "Core ends the session";
    id::FRAME_SIZE, Must, ALWAYS, &[], "frames",
        "No frame is over 1 MiB",
        "Core ends the session";
    id::DIRECTION, Must, ALWAYS, &[], "frames",
        "The driver makes no requests",
        "Core ends the session";
    id::RESPONSES, Must, ALWAYS, &[], "the-session",
        "Each request is answered once, and nothing else is",
        "answers are taken for those of other requests";
    id::ANSWERS, Must, ALWAYS, &[], "the-session",
        "Every request is answered in time",
        "Core kills the driver";
    id::DETAILS, Must, ALWAYS, &[], "frames",
        "details of an error have at most 16 KiB",
        "Core ends the session";
    id::FLOOD, Must, ALWAYS, &[], "frames",
        "A session writes a bounded amount",
        "evidence fills the disk";
    id::STAYS, Must, ALWAYS, &[], "the-session",
        "The driver stays until it is told to end",
        "runs break off";
    id::SECRETS, Must, ALWAYS, &[], "the-session",
        "Capability token and input handle never come back, in frames or on standard error",
        "secrets reach logs and evidence";
    id::DESCENDANTS, Must, ALWAYS, &[], "the-process",
        "Nothing that the driver started outlives it",
        "machines fill with processes";

    // Observations, in every invocation.
    id::OUTSIDE, Must, ALWAYS, INVOKED, "the-session",
        "Nothing is observed outside of an invocation, and driver.completed comes once",
        "evidence belongs to no invocation";
    id::IDENTITY, Must, ALWAYS, INVOKED, "the-session",
        "Observations name the active invocation and attempt",
        "evidence belongs to another invocation";
    id::SEQUENCE, Must, ALWAYS, INVOKED, "the-session",
        "sequence grows with every observation",
        "evidence is in the wrong order";
    id::LAST_SEQUENCE, Must, ALWAYS, INVOKED, "the-session",
        "last_sequence is that of the last observation, and absent if there was none",
        "evidence that got lost is not missed";
    id::SUMMARY, Must, ALWAYS, INVOKED, "the-session",
        "summary_digest is the digest of the observations",
        "evidence that was changed is not noticed";
    id::STREAMS, Must, ALWAYS, INVOKED, "companion-streams",
        "Companion streams keep their rules, and there are none without the permission",
        "large evidence gets lost or mixed up";
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_depend_on_what_stands_before_them() {
        for (at, requirement) in REQUIREMENTS.iter().enumerate() {
            let before = &REQUIREMENTS[..at];
            assert!(before.iter().all(|other| other.id != requirement.id), "{} twice", requirement.id);
            for needed in requirement.depends {
                assert!(before.iter().any(|other| other.id == *needed), "{} needs {needed}", requirement.id);
            }
        }
    }

    #[test]
    fn every_section_that_is_cited_stands_in_the_document() {
        let document = include_str!("../../../../docs/driver-rpc.md");
        let sections: Vec<String> = document
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .map(|title| title.to_lowercase().replace(' ', "-"))
            .collect();
        for requirement in REQUIREMENTS {
            assert!(sections.iter().any(|section| section == requirement.spec), "{}", requirement.spec);
        }
    }
}
