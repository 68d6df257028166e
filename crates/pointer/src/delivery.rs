//! Full or short: contexts pile up in the history, and too many of them cause the compaction that they protect from
//! (A4).

use crate::agent::{Agent, Compaction};
use crate::ids::Revision;
use crate::meta::{Delivered, Meta, text_key};
use crate::state::Observed;

/// Every so many prompts the full block comes again.
pub const FULL_EVERY_PROMPTS: u32 = 10;
/// The same where the agent compacts in silence and the block is long.
pub const FULL_EVERY_PROMPTS_SILENT: u32 = 3;
/// Up to this length, in bytes, the block is always full where the agent compacts in silence.
pub const ALWAYS_FULL_MAX_BYTES: usize = 1_200;

/// When a context is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// With a session start.
    Start,
    /// With a prompt.
    Prompt {
        /// The agent's process was not seen before, not even at a session start.
        new_process: bool,
    },
}

/// Which form to deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The whole block.
    Full,
    /// The short one, pointing to the block of that revision.
    Short {
        /// The revision of the last full block.
        since: Revision,
    },
}

/// Chooses the form of a context and notes the delivery in `meta`. `full_bytes` is the length of the full block.
pub fn deliver(agent: Agent, moment: Moment, observed: &Observed, full_bytes: usize, meta: &mut Meta) -> Form {
    let Some(expectation) = observed.expectation() else { return Form::Full };
    let generation = expectation.generation.as_str();
    let key = text_key(observed);
    let counts = matches!(moment, Moment::Prompt { .. });
    if let Some(form) = short_form(agent, moment, &key, generation, full_bytes, meta) {
        if let Some(delivered) = meta.delivered.as_mut().filter(|_| counts) {
            delivered.prompts_since = delivered.prompts_since.saturating_add(1);
        }
        return form;
    }
    meta.delivered = Some(Delivered {
        text: key,
        generation: generation.to_owned(),
        revision: expectation.revision,
        prompts_since: 0,
    });
    Form::Full
}

fn short_form(
    agent: Agent,
    moment: Moment,
    key: &str,
    generation: &str,
    full_bytes: usize,
    meta: &Meta,
) -> Option<Form> {
    if matches!(moment, Moment::Start | Moment::Prompt { new_process: true }) {
        return None;
    }
    let delivered = meta.delivered.as_ref()?;
    if delivered.text != key || delivered.generation != generation {
        return None;
    }
    let every = match agent.compaction() {
        Compaction::PerRequest => return None,
        Compaction::Silent if full_bytes <= ALWAYS_FULL_MAX_BYTES => return None,
        Compaction::Silent => FULL_EVERY_PROMPTS_SILENT,
        Compaction::Announced => FULL_EVERY_PROMPTS,
    };
    if delivered.prompts_since + 1 >= every {
        return None;
    }
    Revision::new(delivered.revision).ok().map(|since| Form::Short { since })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fresh, SessionId, decide::decide};

    fn state(text: &str, random: u8) -> Observed {
        let session: SessionId = "s".parse().expect("id");
        let request = format!(
            r#"{{"schema_version":3,"session_id":"s","expected_generation":"ABSENT","expected_revision":0,
            "task_id":"00000000-0000-4000-8000-000000000000","target_status":"CLEAN","pointer_text":"{text}"}}"#
        );
        let request = crate::PublishRequest::decode(request.as_bytes()).expect("request");
        let fresh = Fresh { now_unix_seconds: 0, random: [random; 16] };
        let decision = decide(&session, &Observed::Absent, crate::Event::Publish(&request), fresh);
        Observed::Current(decision.write.expect("write").state)
    }

    const SEEN: Moment = Moment::Prompt { new_process: false };

    fn is_full(agent: Agent, moment: Moment, observed: &Observed, bytes: usize, meta: &mut Meta) -> bool {
        deliver(agent, moment, observed, bytes, meta) == Form::Full
    }

    /// A4: start, first prompt of a new process, changed text, changed generation.
    #[test]
    fn full_when_the_model_may_not_have_it() {
        let (a, b) = (state("a", 1), state("b", 1));
        let mut meta = Meta::default();
        assert!(is_full(Agent::Codex, SEEN, &a, 9000, &mut meta), "never delivered");
        assert!(!is_full(Agent::Codex, SEEN, &a, 9000, &mut meta));
        assert!(is_full(Agent::Codex, SEEN, &b, 9000, &mut meta), "other text");
        assert!(!is_full(Agent::Codex, SEEN, &b, 9000, &mut meta));
        assert!(is_full(Agent::Codex, Moment::Start, &b, 9000, &mut meta));
        assert!(is_full(Agent::Codex, Moment::Start, &b, 9000, &mut meta), "every start");
        assert!(!is_full(Agent::Codex, SEEN, &b, 9000, &mut meta));
        assert!(is_full(Agent::Codex, Moment::Prompt { new_process: true }, &b, 9000, &mut meta));
        assert!(is_full(Agent::Codex, SEEN, &state("b", 2), 9000, &mut meta), "other generation");
    }

    /// A4: 40 prompts with one text cost four full blocks where compaction is announced, every third where it is not.
    #[test]
    fn full_every_tenth_or_third_prompt() {
        let check = |agent, bytes, expected: usize| {
            let observed = state("a", 1);
            let mut meta = Meta::default();
            let full = (0..40).filter(|_| is_full(agent, SEEN, &observed, bytes, &mut meta)).count();
            assert_eq!(full, expected, "{agent} {bytes}");
        };
        check(Agent::Codex, 9000, 4);
        check(Agent::Claude, 100, 4);
        check(Agent::Gemini, 1201, 14);
        check(Agent::Gemini, 1200, 40);
        check(Agent::Opencode, 9000, 40);
    }

    #[test]
    fn short_points_to_the_last_full_block() {
        let observed = state("a", 1);
        let mut meta = Meta::default();
        deliver(Agent::Codex, Moment::Start, &observed, 9000, &mut meta);
        assert_eq!(deliver(Agent::Codex, SEEN, &observed, 9000, &mut meta), Form::Short { since: Revision::FIRST });
    }
}
