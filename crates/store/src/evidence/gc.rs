//! Old runs, and objects that no run needs any more.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use pintle_wire::{Digest, InstanceId};

use super::{EvidenceError, MANIFEST, Manifest, Places, RunState, journal, read::run_dirs};
use crate::{
    fs::{FileKind, Fs, LockKind, OpenHow},
    fsx::{self, FsError},
    lock,
};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// How much evidence is kept; a run goes when it is over any of these. The newest one always stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepLimits {
    /// The oldest run, in days.
    pub days: u32,
    /// The most runs.
    pub runs: usize,
    /// The most bytes of all runs and their objects.
    pub bytes: u64,
}

impl Default for KeepLimits {
    /// 30 days, 100 runs, 1 GiB.
    fn default() -> Self {
        Self { days: 30, runs: 100, bytes: 1 << 30 }
    }
}

/// What a collection did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcReport {
    /// The runs that are gone, oldest first.
    pub removed_runs: Vec<InstanceId>,
    /// How many objects are gone.
    pub removed_objects: u64,
    /// How many bytes both had.
    pub freed_bytes: u64,
    /// How many runs are left.
    pub kept_runs: usize,
    /// A run was being recorded, so that nothing was done; the next collection will do it.
    pub skipped: bool,
}

/// Removes the runs that are over `limits` at `now_ms` (Unix time in milliseconds), leftovers of interrupted runs that
/// never had a manifest, and the objects that no remaining run refers to. Does nothing while a run is being recorded.
///
/// # Errors
/// [`EvidenceError`] at the first thing that cannot be read or removed; what was removed until then is gone. A crash in
/// between leaves no run without its objects: first the manifest of an old run goes, and with it the run.
pub fn gc(fs: &dyn Fs, places: &Places, now_ms: i64, limits: KeepLimits) -> Result<GcReport, EvidenceError> {
    collect(fs, places, now_ms, limits, true)
}

/// What [`gc`] would do now. Nothing is removed.
///
/// # Errors
/// As [`gc`].
pub fn gc_plan(fs: &dyn Fs, places: &Places, now_ms: i64, limits: KeepLimits) -> Result<GcReport, EvidenceError> {
    collect(fs, places, now_ms, limits, false)
}

fn collect(
    fs: &dyn Fs,
    places: &Places,
    now_ms: i64,
    limits: KeepLimits,
    remove: bool,
) -> Result<GcReport, EvidenceError> {
    let mut report = GcReport::default();
    if fsx::metadata(fs, &places.runs)?.is_none() {
        return Ok(report);
    }
    let Some(_lock) = lock::try_acquire(fs, &places.lock(), LockKind::Exclusive)? else {
        report.skipped = true;
        return Ok(report);
    };

    let mut needed = HashSet::new();
    let mut bytes = 0_u64;
    let mut removed = Vec::new();
    for (id, dir) in run_dirs(fs, places)?.into_iter().rev() {
        let size = tree_bytes(fs, &dir)?;
        let age_ms = now_ms.saturating_sub(id.unix_millis());
        let fresh = objects_of(fs, &dir)?;
        let is_newest = report.kept_runs == 0;
        let keep = fresh.as_ref().is_some_and(|objects| {
            let with_objects =
                size + objects.iter().filter(|(digest, _)| !needed.contains(digest)).map(|(_, b)| b).sum::<u64>();
            let is_kept = is_newest
                || (age_ms <= i64::from(limits.days) * DAY_MS
                    && report.kept_runs < limits.runs
                    && bytes + with_objects <= limits.bytes);
            if is_kept {
                bytes += with_objects;
            }
            is_kept
        });
        if keep {
            needed.extend(fresh.into_iter().flatten().map(|(digest, _)| digest));
            report.kept_runs += 1;
        } else {
            removed.push((id, dir, size));
        }
    }
    for (id, dir, size) in removed.into_iter().rev() {
        if fsx::symlink_metadata(fs, &dir.join(MANIFEST))?.is_some() {
            if remove {
                fsx::remove_file(fs, &dir.join(MANIFEST))?;
                fsx::sync_dir(fs, &dir)?;
            }
            report.removed_runs.push(id);
        }
        if remove {
            fsx::remove_tree(fs, &dir)?;
        }
        report.freed_bytes += size;
    }
    sweep_objects(fs, &places.objects, &needed, remove, &mut report)?;
    Ok(report)
}

/// The objects that a run refers to, with their sizes where its manifest has them; `None` where there is no manifest. A
/// manifest that cannot be read still protects what its journal names.
fn objects_of(fs: &dyn Fs, dir: &Path) -> Result<Option<Vec<(Digest, u64)>>, EvidenceError> {
    let path = dir.join(MANIFEST);
    if fsx::symlink_metadata(fs, &path)?.is_none() {
        return Ok(None);
    }
    match Manifest::read(fs, &path) {
        Ok(manifest) if manifest.state == RunState::Finished => {
            Ok(Some(manifest.objects.into_iter().map(|object| (object.digest, object.bytes)).collect()))
        }
        _ => Ok(Some(named_in(fs, &journal::path_in(dir))?.into_iter().map(|digest| (digest, 0)).collect())),
    }
}

/// Every digest that a file names. The run was interrupted: its journal is all there is, and may be torn.
pub(super) fn named_in(fs: &dyn Fs, path: &Path) -> Result<Vec<Digest>, FsError> {
    const CHUNK_BYTES: usize = 256 * 1024;
    const DIGEST_BYTES: usize = "sha256:".len() + 64;
    if fsx::symlink_metadata(fs, path)?.is_none() {
        return Ok(Vec::new());
    }
    let file = fsx::open(fs, path, OpenHow::Read)?;
    let mut found = Vec::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0_u64;
    loop {
        let got = fsx::read_at(file.as_ref(), path, &mut buffer, offset)?;
        for at in memchr::memmem::find_iter(&buffer[..got], b"sha256:") {
            let text = buffer.get(at..at + DIGEST_BYTES).and_then(|bytes| std::str::from_utf8(bytes).ok());
            found.extend(text.and_then(|text| text.parse::<Digest>().ok()));
        }
        if got < buffer.len() {
            return Ok(found);
        }
        // One that lies across the border is whole in the next chunk.
        offset += (got - DIGEST_BYTES) as u64;
    }
}

fn sweep_objects(
    fs: &dyn Fs,
    objects: &Path,
    needed: &HashSet<Digest>,
    remove: bool,
    report: &mut GcReport,
) -> Result<(), EvidenceError> {
    let root = objects.join("sha256");
    if fsx::metadata(fs, &root)?.is_none() {
        return Ok(());
    }
    let mut found = Vec::new();
    for entry in fsx::read_dir(fs, &root)? {
        // An object that came in pieces lies here until it has its digest.
        found.push((root.join(&entry.name), entry.kind, None));
    }
    for (first, dir) in dirs(fs, &root)? {
        for entry in fsx::read_dir(fs, &dir)? {
            let digest = entry.name.to_str().and_then(|rest| format!("sha256:{first}{rest}").parse().ok());
            found.push((dir.join(&entry.name), entry.kind, digest));
        }
    }
    for (path, kind, digest) in found {
        // What has no digest for a name is the leftover of an interrupted write.
        if digest.is_some_and(|digest: Digest| needed.contains(&digest)) || kind != FileKind::File {
            continue;
        }
        report.freed_bytes += fsx::symlink_metadata(fs, &path)?.map_or(0, |meta| meta.len_bytes);
        report.removed_objects += u64::from(digest.is_some());
        if remove {
            fsx::remove_file(fs, &path)?;
        }
    }
    Ok(())
}

fn dirs(fs: &dyn Fs, path: &Path) -> Result<Vec<(String, PathBuf)>, FsError> {
    if fsx::metadata(fs, path)?.is_none() {
        return Ok(Vec::new());
    }
    let entries = fsx::read_dir(fs, path)?.into_iter().filter(|entry| entry.kind == FileKind::Dir);
    Ok(entries.filter_map(|entry| Some((entry.name.to_str()?.to_owned(), path.join(&entry.name)))).collect())
}

fn tree_bytes(fs: &dyn Fs, path: &Path) -> Result<u64, FsError> {
    let mut bytes = 0;
    for entry in fsx::read_dir(fs, path)? {
        let below = path.join(&entry.name);
        bytes += match entry.kind {
            FileKind::Dir => tree_bytes(fs, &below)?,
            _ => fsx::symlink_metadata(fs, &below)?.map_or(0, |meta| meta.len_bytes),
        };
    }
    Ok(bytes)
}
