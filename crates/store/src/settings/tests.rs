use std::time::SystemTime;

use super::*;
use crate::{DirEntry, FsFile, Metadata, OpenHow, RealFs};

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

fn change(path: &Path, after: Option<&str>) -> FileChange {
    let settings = read(&RealFs, path, 1 << 20).expect("reads");
    FileChange {
        settings,
        after: after.map(|text| text.as_bytes().to_vec()),
        label: "test".into(),
        made_dirs: Vec::new(),
    }
}

/// Somebody who saves "mine" into files of ours in the moment in which one has been replaced.
#[derive(Debug)]
struct Editor {
    saves: Vec<PathBuf>,
    when_renamed: PathBuf,
}

impl Fs for Editor {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Box<dyn FsFile>> {
        RealFs.open(path, how)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        RealFs.create_dir(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.rename(from, to)?;
        let saves = self.saves.iter().filter(|_| to == self.when_renamed);
        saves.into_iter().try_for_each(|path| std::fs::write(path, "mine"))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealFs.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        RealFs.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        RealFs.sync_dir(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        RealFs.metadata(path)
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        RealFs.symlink_metadata(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        RealFs.read_dir(path)
    }
}

fn content(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[test]
fn every_file_changes_and_the_backup_holds_the_old_ones() {
    let dir = tempfile::tempdir().expect("temp");
    let (old, new, gone) = (dir.path().join("old"), dir.path().join("sub/new"), dir.path().join("gone"));
    std::fs::write(&old, "1").expect("writes");
    std::fs::write(&gone, "2").expect("writes");
    let backups = dir.path().join("backups");
    let changes = [change(&old, Some("11")), change(&new, Some("n")), change(&gone, None)];
    let backup = apply(&RealFs, &backups, "install", NOW, &changes).expect("applies").expect("changed");
    assert_eq!((content(&old), content(&new), content(&gone)), (Some("11".into()), Some("n".into()), None));
    let manifest = load_backup(&RealFs, &backup).expect("loads");
    let created: Vec<bool> = manifest.files.iter().map(|file| file.created).collect();
    assert_eq!(created, [false, true, false]);
    let saved: Vec<_> = (0..3).map(|at| saved(&RealFs, &backup, &manifest, at).expect("saved")).collect();
    assert_eq!(saved, [Some(b"1".to_vec()), None, Some(b"2".to_vec())]);
    assert!(is_as_left(&manifest.files[0], Some(b"11")) && !is_as_left(&manifest.files[0], Some(b"12")));
    assert_eq!(list_backups(&RealFs, &backups).expect("lists").len(), 1);
    assert_eq!(apply(&RealFs, &backups, "install", NOW, &[change(&old, Some("11"))]).expect("none"), None);
}

#[test]
fn a_place_that_cannot_be_written_stops_before_the_first_edit() {
    let dir = tempfile::tempdir().expect("temp");
    let (first, file) = (dir.path().join("first"), dir.path().join("file"));
    std::fs::write(&file, "").expect("writes");
    let below =
        Settings { path: file.join("below"), resolved: file.join("below"), bytes: None, mode: 0o600, owner: None };
    let below = FileChange { settings: below, after: Some(b"2".to_vec()), label: "test".into(), made_dirs: Vec::new() };
    let changes = [change(&first, Some("1")), below];
    let error = apply(&RealFs, &dir.path().join("b"), "install", NOW, &changes).expect_err("refused");
    assert_eq!(error.code(), "PATH_IO", "{error}");
    assert_eq!(content(&first), None);
}

#[test]
fn an_edit_in_the_meantime_is_not_overwritten() {
    let dir = tempfile::tempdir().expect("temp");
    let file = dir.path().join("file");
    std::fs::write(&file, "1").expect("writes");
    let changes = [change(&file, Some("2"))];
    std::fs::write(&file, "mine").expect("writes");
    let error = apply(&RealFs, &dir.path().join("b"), "install", NOW, &changes).expect_err("refused");
    assert_eq!((error.code(), content(&file)), ("PATH_CHANGED", Some("mine".into())));
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_the_mode_stays() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().expect("temp");
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    std::fs::write(&real, "1").expect("writes");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).expect("mode");
    symlink(&real, &link).expect("links");
    apply(&RealFs, &dir.path().join("b"), "install", NOW, &[change(&link, Some("2"))]).expect("applies");
    assert_eq!(content(&real).as_deref(), Some("2"));
    assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(std::fs::metadata(&real).expect("there").permissions().mode() & 0o777, 0o640);
    symlink(dir.path().join("nowhere"), dir.path().join("broken")).expect("links");
    let error = read(&RealFs, &dir.path().join("broken"), 10).expect_err("refused");
    assert_eq!(error.code(), "DESTINATION_INVALID");
}

#[test]
fn a_backup_that_was_tampered_with_is_refused() {
    let dir = tempfile::tempdir().expect("temp");
    let file = dir.path().join("file");
    std::fs::write(&file, "1").expect("writes");
    let changes = [change(&file, Some("2"))];
    let backup = apply(&RealFs, &dir.path().join("b"), "install", NOW, &changes).expect("applies").expect("changed");
    let manifest = load_backup(&RealFs, &backup).expect("loads");
    std::fs::write(backup.join("0.before"), "9").expect("writes");
    assert_eq!(saved(&RealFs, &backup, &manifest, 0).expect_err("refused").code(), "BACKUP_INVALID");
    std::fs::write(backup.join(MANIFEST), "{}").expect("writes");
    assert_eq!(load_backup(&RealFs, &backup).expect_err("refused").code(), "BACKUP_INVALID");
}

/// Somebody's editor saves while the backup is made: the change stops, and the files before it are taken back.
#[test]
fn an_edit_in_the_last_moment_is_not_overwritten() {
    let dir = tempfile::tempdir().expect("temp");
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    std::fs::write(&first, "1").expect("writes");
    std::fs::write(&second, "2").expect("writes");
    let changes = [change(&first, Some("11")), change(&second, Some("22"))];
    let editor = Editor { saves: vec![second.clone()], when_renamed: first.clone() };
    let error = apply(&editor, &dir.path().join("b"), "install", NOW, &changes).expect_err("refused");
    assert_eq!(error.code(), "PATH_CHANGED", "{error}");
    assert_eq!((content(&first), content(&second)), (Some("1".into()), Some("mine".into())));
    // The file that would be taken back too: nothing of it is lost, and the error is the loud one.
    std::fs::write(&second, "2").expect("writes");
    let changes = [change(&first, Some("11")), change(&second, None), change(&dir.path().join("x/y/z"), Some("3"))];
    let editor = Editor { saves: vec![first.clone(), second.clone()], when_renamed: first.clone() };
    let error = apply(&editor, &dir.path().join("b"), "install", NOW, &changes).expect_err("refused");
    assert_eq!(error.code(), "INSTALL_AND_ROLLBACK_FAILED", "{error}");
    assert_eq!((content(&first), content(&second)), (Some("mine".into()), Some("mine".into())));
    assert!(!dir.path().join("x").exists(), "directories that were made for nothing go");
}

/// Two names of one file: with one content it is written, with two it is refused.
#[cfg(unix)]
#[test]
fn one_file_under_two_names_takes_one_change() {
    let dir = tempfile::tempdir().expect("temp");
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    std::fs::write(&real, "1").expect("writes");
    std::os::unix::fs::symlink(&real, &link).expect("links");
    let backups = dir.path().join("b");
    let error = apply(&RealFs, &backups, "install", NOW, &[change(&real, Some("2")), change(&link, Some("3"))]);
    assert_eq!(error.expect_err("refused").code(), "DESTINATION_INVALID");
    assert_eq!(content(&real).as_deref(), Some("1"));
    apply(&RealFs, &backups, "install", NOW, &[change(&real, Some("2")), change(&link, Some("2"))]).expect("applies");
    assert_eq!(content(&real).as_deref(), Some("2"));
}

/// What the umask would take from a new file is none of the old one's: mode and owner stay.
#[cfg(unix)]
#[test]
fn every_permission_bit_stays_and_leftovers_go() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let dir = tempfile::tempdir().expect("temp");
    let file = dir.path().join("file");
    let backups = dir.path().join("b");
    for mode in [0o666, 0o640, 0o444] {
        std::fs::write(&file, "1").expect("writes");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("mode");
        let before = std::fs::metadata(&file).expect("there");
        apply(&RealFs, &backups, "install", NOW, &[change(&file, Some("2"))]).expect("applies");
        let after = std::fs::metadata(&file).expect("there");
        assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
        std::fs::remove_file(&file).expect("removes");
    }
    std::fs::write(&file, "1").expect("writes");
    let leftover = dir.path().join(".file.tmp-0123456789abcdef");
    for after in ["2", "1"] {
        std::fs::write(&leftover, "torn").expect("writes");
        apply(&RealFs, &backups, "install", NOW, &[change(&file, Some(after))]).expect("applies");
        assert!(!leftover.exists(), "also where nothing changes");
    }
}

/// Directories that were made for a file are in the manifest, and go with it unless somebody else uses them.
#[test]
fn what_was_made_for_a_file_goes_with_it() {
    let dir = tempfile::tempdir().expect("temp");
    let (backups, file) = (dir.path().join("b"), dir.path().join("x/y/file"));
    for somebody_elses in [false, true] {
        let done = apply(&RealFs, &backups, "install", NOW, &[change(&file, Some("1"))]).expect("applies");
        let manifest = load_backup(&RealFs, &done.expect("changed")).expect("loads");
        assert_eq!(manifest.files[0].made_dirs, [dir.path().join("x"), dir.path().join("x/y")]);
        if somebody_elses {
            std::fs::write(dir.path().join("x/other"), "").expect("writes");
        }
        let mut gone = change(&file, None);
        gone.made_dirs.clone_from(&manifest.files[0].made_dirs);
        apply(&RealFs, &backups, "uninstall", NOW, &[gone]).expect("applies");
        assert_eq!(dir.path().join("x").exists(), somebody_elses);
        assert!(!dir.path().join("x/y").exists());
    }
}
