//! The exit codes, all of them.

use std::process::ExitCode;

/// What `pintle` ends with. Below `task` only 0, 1 and 2 occur, and mean what the table of `docs/task.md` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was done; for `check`: the agent is conformant.
    Ok = 0,
    /// It was decided, and the answer is no: a requirement failed, a file is not strict JSON.
    Failed = 1,
    /// The command line, or a file that it names, is wrong.
    Usage = 2,
    /// Nothing could be decided, and the agent is not to blame.
    Inconclusive = 3,
    /// The agent wants authentication first.
    AuthRequired = 4,
    /// The agent did not start.
    NotStarted = 5,
    /// A bug of ours.
    Panic = 70,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Design section 3: scripts depend on these numbers.
    #[test]
    fn the_numbers_are_the_published_ones() {
        let all = [
            Exit::Ok,
            Exit::Failed,
            Exit::Usage,
            Exit::Inconclusive,
            Exit::AuthRequired,
            Exit::NotStarted,
            Exit::Panic,
        ];
        assert_eq!(all.map(|exit| exit as u8), [0, 1, 2, 3, 4, 5, 70]);
    }
}
