//! Which process drives a session: the agent that started this hook, past the shells in between.
//!
//! Used for convenience only: to notice a process that never saw the task (A4) and a second terminal on one session (A8).

use pintle_pointer::Terminal;

/// How many shells may stand between the agent and us.
#[cfg(target_os = "linux")]
const SHELLS_MAX: usize = 4;

/// The name of this machine; empty where the system does not tell.
#[cfg(unix)]
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The name of this machine; empty where the system does not tell.
#[cfg(not(unix))]
#[must_use]
pub fn host_name() -> String {
    String::new()
}

/// The agent's process, as far as the system tells; `now_unix_seconds` is noted as its last sign of life.
#[cfg(target_os = "linux")]
#[must_use]
pub fn current_terminal(now_unix_seconds: i64) -> Option<Terminal> {
    let mut pid = std::os::unix::process::parent_id();
    for _ in 0..SHELLS_MAX {
        let stat = linux::stat(pid)?;
        if !linux::is_shell(&stat.name) || stat.parent <= 1 {
            return Some(Terminal { pid, started: stat.started, last_used_unix_s: now_unix_seconds });
        }
        pid = stat.parent;
    }
    None
}

/// The parent process. Its start time is not known here, so a process id that is given out again counts as the same
/// process: one full context too few, at the next prompt.
#[cfg(all(unix, not(target_os = "linux")))]
#[must_use]
pub fn current_terminal(now_unix_seconds: i64) -> Option<Terminal> {
    let pid = std::os::unix::process::parent_id();
    (pid > 1).then_some(Terminal { pid, started: 0, last_used_unix_s: now_unix_seconds })
}

/// Not known on this system.
#[cfg(not(unix))]
#[must_use]
pub fn current_terminal(_now_unix_seconds: i64) -> Option<Terminal> {
    None
}

/// Whether the process of a terminal still runs.
#[must_use]
pub fn is_alive(terminal: &Terminal) -> bool {
    #[cfg(target_os = "linux")]
    if terminal.started != 0 {
        return linux::stat(terminal.pid).is_some_and(|stat| stat.started == terminal.started);
    }
    pid_is_alive(terminal.pid)
}

/// Whether any process has this id. A process of somebody else counts.
#[cfg(unix)]
pub(super) fn pid_is_alive(pid: u32) -> bool {
    i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).is_some_and(
        |pid| !matches!(rustix::process::test_kill_process(pid), Err(error) if error == rustix::io::Errno::SRCH),
    )
}

/// Without an answer from the system, a holder counts as alive.
#[cfg(not(unix))]
pub(super) fn pid_is_alive(_pid: u32) -> bool {
    true
}

#[cfg(target_os = "linux")]
mod linux {
    /// What `/proc/<pid>/stat` says about a process.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) struct Stat {
        pub(super) name: String,
        pub(super) parent: u32,
        /// Clock ticks between boot and its start.
        pub(super) started: u64,
    }

    pub(super) fn stat(pid: u32) -> Option<Stat> {
        parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name stands in parentheses and may itself hold any character, so the fields are counted from its last one.
    pub(super) fn parse(line: &str) -> Option<Stat> {
        let (head, tail) = line.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        Some(Stat { name, parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? })
    }

    pub(super) fn is_shell(name: &str) -> bool {
        matches!(name, "sh" | "bash" | "dash" | "ash" | "zsh" | "fish" | "ksh" | "mksh" | "busybox" | "pwsh" | "env")
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_read_past_hostile_names() {
        let line = "42 (a) b (c) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0";
        let expected = linux::Stat { name: "a) b (c".to_owned(), parent: 7, started: 98765 };
        assert_eq!(linux::parse(line), Some(expected));
        assert_eq!(linux::parse(""), None);
    }

    #[test]
    fn the_parent_is_alive_and_stays_the_same() {
        let first = current_terminal(1).expect("known on Linux");
        assert!(first.is(&current_terminal(2).expect("known on Linux")));
        assert!(is_alive(&first));
        assert!(!is_alive(&Terminal { started: first.started + 1, ..first }), "another process of that id");
        assert!(!is_alive(&Terminal { pid: i32::MAX as u32 - 1, started: 1, last_used_unix_s: 0 }));
    }
}
