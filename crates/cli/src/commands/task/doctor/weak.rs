//! What each agent cannot do, by version: measured, or reported by its users.

use pintle_pointer::Agent;

/// A weak spot of an agent.
struct Weakness {
    agent: Agent,
    /// The first version that does not have it; `None` as long as no such version is known.
    mended_in: Option<[u64; 3]>,
    text: &'static str,
}

const WEAK_SPOTS: [Weakness; 13] = [
    Weakness {
        agent: Agent::Codex,
        mended_in: Some([0, 133, 0]),
        text: "sends no session start after /clear; the first prompt of the new session makes the fence",
    },
    Weakness {
        agent: Agent::Codex,
        mended_in: Some([0, 155, 0]),
        text: "refuses context at a session start; the first prompt brings it",
    },
    Weakness {
        agent: Agent::Codex,
        mended_in: None,
        text: "asks for trust again whenever a hook's command changes; keep this program at one path",
    },
    Weakness {
        agent: Agent::Claude,
        mended_in: Some([2, 1, 214]),
        text: "starts a fork under the id of its parent; a publish from the fork is refused as SESSION_ENV_MISMATCH or stale",
    },
    Weakness {
        agent: Agent::Claude,
        mended_in: None,
        text: "cannot be stopped at a session start; a state that cannot be read blocks the next prompt instead",
    },
    Weakness {
        agent: Agent::Gemini,
        mended_in: None,
        text: "compresses without a session start behind it; the full text comes again with the prompts",
    },
    Weakness { agent: Agent::Gemini, mended_in: Some([0, 27, 0]), text: "runs hooks only with tools.enableHooks" },
    Weakness {
        agent: Agent::Qwen,
        mended_in: Some([0, 24, 0]),
        text: "sends no session start without a terminal; the first prompt brings the context",
    },
    Weakness {
        agent: Agent::Copilot,
        mended_in: None,
        text: "only tells that it compacts; the full text comes again with the prompts",
    },
    Weakness { agent: Agent::Copilot, mended_in: Some([1, 0, 0]), text: "ignores the context of hooks" },
    Weakness {
        agent: Agent::Cursor,
        mended_in: None,
        text: "its editor drops the context of hooks, its command line keeps it: add the task rules in Settings, Rules",
    },
    Weakness { agent: Agent::Cursor, mended_in: None, text: "takes context at a session start only, not with prompts" },
    Weakness {
        agent: Agent::Opencode,
        mended_in: None,
        text: "asks for the context at every request, also for titles and compactions",
    },
];

/// The weak spots of an agent; those that are mended in `version` are left out.
pub(super) fn spots(agent: Agent, version: Option<[u64; 3]>) -> impl Iterator<Item = &'static str> {
    let has = move |spot: &&Weakness| match (spot.mended_in, version) {
        (Some(mended), Some(version)) => version < mended,
        // Of an unknown version the old faults are not claimed.
        (Some(_), None) => false,
        (None, _) => true,
    };
    WEAK_SPOTS.iter().filter(move |spot| spot.agent == agent).filter(has).map(|spot| spot.text)
}

/// The first three numbers of what a program says about its version.
pub(super) fn version_in(text: &str) -> Option<[u64; 3]> {
    text.split(|c: char| c.is_whitespace() || c == '/' || c == 'v').find_map(|word| {
        let mut numbers = word.splitn(3, '.');
        let mut next = || {
            let digits: String = numbers.next()?.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        Some([next()?, next()?, next()?])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (text, expected) in [
            ("codex-cli 0.171.0", Some([0, 171, 0])),
            ("2.1.332 (Claude Code)", Some([2, 1, 332])),
            ("v1.2.3-beta.4", Some([1, 2, 3])),
            ("GitHub Copilot CLI 1.0.102.", Some([1, 0, 102])),
            ("no version", None),
        ] {
            assert_eq!(version_in(text), expected, "{text}");
        }
    }

    #[test]
    fn mended_spots_are_not_told() {
        let count = |version| spots(Agent::Codex, version).count();
        assert_eq!((count(Some([0, 100, 0])), count(Some([0, 171, 0])), count(None)), (3, 1, 1));
    }
}
