//! What a keeper looks at while its child runs: how many processes there are, how large the folder is.

use std::{
    collections::VecDeque,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::cgroup::Group;
use crate::process::{Aspect, Enforcement, Exceeded, Measure, Sandbox, applied::wanted};

/// How often processes are counted where nobody else does it.
const COUNT_EVERY: Duration = Duration::from_millis(20);

/// How often the folder is looked at, at most; and how many times longer than the look the pause after it is.
const WALK_EVERY: Duration = Duration::from_millis(100);
const PAUSE_PER_WALK: u32 = 20;

/// The most entries of the folder that are looked at. More count as too large.
const MAX_ENTRIES: usize = 200_000;

/// A file takes at least that much, so that empty ones are not free.
const BYTES_PER_ENTRY: u64 = 512;

/// Why a keeper that is to do without control groups has none.
const NO_GROUPS: &str = "this keeper makes no control group";

/// The bounds that take looking.
#[derive(Debug)]
pub(super) struct Meter {
    processes: Option<Processes>,
    folder: Option<Folder>,
}

#[derive(Debug)]
enum Processes {
    Grouped(Group),
    Counted { limit: usize, at: Instant, why: String },
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    limit: u64,
    at: Instant,
}

impl Meter {
    /// With `groups`, processes are counted by a control group where one can be made.
    pub(super) fn new(sandbox: Option<&Sandbox>, groups: bool) -> Self {
        let limits = sandbox.map(|sandbox| sandbox.limits).unwrap_or_default();
        let now = Instant::now();
        let processes =
            limits.processes.map(|limit| match if groups { Group::make(limit) } else { Err(NO_GROUPS.to_owned()) } {
                Ok(group) => Processes::Grouped(group),
                Err(why) => Processes::counted(limit, why),
            });
        let path = sandbox.and_then(|sandbox| sandbox.folder.clone());
        let folder = path.zip(limits.folder_bytes).map(|(path, limit)| Folder { path, limit, at: now });
        Self { processes, folder }
    }

    /// The file by which the child joins the group that counts it.
    pub(super) fn join(&self) -> Option<PathBuf> {
        self.group().map(Group::join)
    }

    /// The group, whose descriptor tells when to look.
    pub(super) fn group(&self) -> Option<&Group> {
        match &self.processes {
            Some(Processes::Grouped(group)) => Some(group),
            _ => None,
        }
    }

    /// Takes what the child said of itself: where it could not join the group, its processes are counted.
    pub(super) fn correct(&mut self, sandbox: &Sandbox, measures: &mut Vec<Measure>) {
        if let Some(joined) = measures.iter().find(|measure| measure.aspect == Aspect::Processes)
            && joined.is_missing()
        {
            let limit = sandbox.limits.processes.unwrap_or(u32::MAX);
            self.processes = Some(Processes::counted(limit, joined.how.clone()));
            measures.retain(|measure| measure.aspect != Aspect::Processes);
        }
        if let (Some(Processes::Counted { why, .. }), Some(wanted)) =
            (&self.processes, wanted(sandbox, Aspect::Processes))
        {
            let how = format!("counted every {} ms, {why}", COUNT_EVERY.as_millis());
            measures.push(Measure::new(Aspect::Processes, wanted, Enforcement::Partly, how));
        }
        if let (Some(_), Some(wanted)) = (&self.folder, wanted(sandbox, Aspect::Folder)) {
            let how = format!("looked at every {} ms; what is deleted while open is not seen", WALK_EVERY.as_millis());
            measures.push(Measure::new(Aspect::Folder, wanted, Enforcement::Partly, how));
        }
    }

    /// When to look again, as time from now.
    pub(super) fn next_look(&self) -> Option<Duration> {
        let counting = match &self.processes {
            Some(Processes::Counted { at, .. }) => Some(*at),
            _ => None,
        };
        let next = counting.into_iter().chain(self.folder.as_ref().map(|folder| folder.at)).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Looks at everything, when all processes have ended.
    pub(super) fn last_look(&mut self) -> Option<Exceeded> {
        if let Some(folder) = &mut self.folder {
            folder.at = Instant::now();
        }
        self.look(|| 0)
    }

    /// Looks at what is due. `count` tells how many processes there are.
    pub(super) fn look(&mut self, count: impl FnOnce() -> usize) -> Option<Exceeded> {
        let now = Instant::now();
        match &mut self.processes {
            Some(Processes::Grouped(group)) if group.refused_one() => return Some(Exceeded::Processes),
            Some(Processes::Counted { limit, at, .. }) if *at <= now => {
                *at = now + COUNT_EVERY;
                if count() > *limit {
                    return Some(Exceeded::Processes);
                }
            }
            _ => {}
        }
        let folder = self.folder.as_mut().filter(|folder| folder.at <= now)?;
        let over = is_over(&folder.path, folder.limit);
        folder.at = now + WALK_EVERY.max(now.elapsed() * PAUSE_PER_WALK);
        over.then_some(Exceeded::FolderBytes)
    }
}

impl Processes {
    fn counted(limit: u32, why: String) -> Self {
        Self::Counted { limit: usize::try_from(limit).unwrap_or(usize::MAX), at: Instant::now(), why }
    }
}

/// Whether what lies in `root` takes more than `limit` bytes. Links are not followed, other file systems not entered.
fn is_over(root: &Path, limit: u64) -> bool {
    let Ok(device) = fs::symlink_metadata(root).map(|meta| meta.dev()) else { return false };
    let (mut bytes, mut entries) = (0_u64, 0_usize);
    let mut queue = VecDeque::from([root.to_owned()]);
    while let Some(dir) = queue.pop_front() {
        // One that is gone or closed to us has nothing that could be counted.
        let Ok(listed) = fs::read_dir(&dir) else { continue };
        for entry in listed.filter_map(io::Result::ok) {
            entries += 1;
            let Ok(meta) = entry.metadata() else { continue };
            bytes = bytes.saturating_add((meta.blocks() * 512).max(BYTES_PER_ENTRY));
            if bytes > limit || entries > MAX_ENTRIES {
                return true;
            }
            if meta.is_dir() && meta.dev() == device {
                queue.push_back(entry.path());
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_measured_with_all_below_and_no_link_is_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("a/b")).expect("directories");
        fs::write(dir.path().join("a/b/file"), vec![1; 100_000]).expect("a file");
        std::os::unix::fs::symlink("/", dir.path().join("a/root")).expect("a link");
        assert!(is_over(dir.path(), 90_000));
        assert!(!is_over(dir.path(), 200_000));
        assert!(!is_over(&dir.path().join("missing"), 0));
    }

    #[test]
    fn where_no_group_counts_the_keeper_does_and_says_so() {
        let mut sandbox = Sandbox::default();
        sandbox.limits.processes = Some(2);
        let mut meter = Meter { processes: Some(Processes::counted(2, "no group".to_owned())), folder: None };
        let mut measures = Vec::new();
        meter.correct(&sandbox, &mut measures);
        assert_eq!((measures[0].aspect, measures[0].state), (Aspect::Processes, Enforcement::Partly));
        assert!(measures[0].how.contains("no group"), "{}", measures[0].how);
        assert_eq!(meter.look(|| 3), Some(Exceeded::Processes));
        let mut meter = Meter { processes: Some(Processes::counted(3, String::new())), folder: None };
        assert_eq!(meter.look(|| 3), None);
    }

    /// A child that could not join its group is counted instead.
    #[test]
    fn a_group_that_could_not_be_joined_does_not_count() {
        let mut sandbox = Sandbox::default();
        sandbox.limits.processes = Some(2);
        let mut meter = Meter { processes: None, folder: None };
        let failed = Err("join the control group: refused".to_owned());
        let mut measures = vec![Measure::of(Aspect::Processes, "at most 2", failed)];
        meter.correct(&sandbox, &mut measures);
        assert_eq!(measures.len(), 1);
        assert_eq!(measures[0].state, Enforcement::Partly);
        assert!(measures[0].how.contains("refused"), "{}", measures[0].how);
        assert_eq!(meter.look(|| 3), Some(Exceeded::Processes));
    }

    #[test]
    fn empty_files_are_not_free() {
        let dir = tempfile::tempdir().expect("a directory");
        for number in 0..20 {
            fs::write(dir.path().join(number.to_string()), "").expect("a file");
        }
        assert!(is_over(dir.path(), 19 * BYTES_PER_ENTRY));
    }
}
