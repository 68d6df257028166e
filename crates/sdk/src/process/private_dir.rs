//! Directories that do not outlive the process that made them, even if it is killed.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// The file by which a directory is known to be ours, and that its owner holds a lock on while it lives.
const MARKER: &str = ".pintle-private";

/// What was made in it.
const INSIDE: &str = "w";

/// How often a directory is made again because somebody swept it away before it was locked.
const ATTEMPTS: u32 = 16;

/// How often, and how long apart, the removal of a directory is tried again that something still writes into.
const REMOVALS: u32 = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(50);

/// A directory for one owner: mode 0700, removed with everything in it when it is dropped. Where its owner was killed, the
/// next one that is made beside it removes it.
#[derive(Debug)]
pub struct PrivateDir {
    outer: PathBuf,
    inside: PathBuf,
    /// Held for its lock.
    _marker: File,
}

impl PrivateDir {
    /// Makes a directory in `base`, which must exist, with a name that begins with `prefix`. Those that killed owners left
    /// there under such names are removed first.
    ///
    /// # Errors
    /// When `base` cannot be written to.
    pub fn create(base: &Path, prefix: &str) -> io::Result<Self> {
        sweep(base, prefix);
        for _ in 0..ATTEMPTS {
            let mut builder = tempfile::Builder::new();
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
            let made = builder.prefix(prefix).tempdir_in(base)?;
            let marker = made.path().join(MARKER);
            let file = File::options().write(true).create_new(true).open(&marker)?;
            // Somebody who sweeps may have taken it for abandoned in this moment.
            if file.try_lock().is_ok() && marker.exists() {
                let outer = made.keep();
                let inside = outer.join(INSIDE);
                // From here on the drop of it removes it.
                let dir = Self { outer, inside, _marker: file };
                make_private(&dir.inside)?;
                return Ok(dir);
            }
        }
        Err(io::Error::other("a directory that was just made was taken away again and again"))
    }

    /// Where it is. Its owner's other files may lie beside it, where whoever is given this path does not see them.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inside
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        if remove(&self.outer).is_err() {
            // Something that is being killed still writes into it. If we end before it does, the next one sweeps.
            let outer = std::mem::take(&mut self.outer);
            let patient = move || {
                for _ in 0..REMOVALS {
                    std::thread::sleep(REMOVAL_PAUSE);
                    if remove(&outer).is_ok() {
                        return;
                    }
                }
            };
            let _ = std::thread::Builder::new().name("removal".to_owned()).spawn(patient);
        }
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Removes what others like this left in `base` and nobody holds.
fn sweep(base: &Path, prefix: &str) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        if !named || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let marker = File::options().write(true).open(entry.path().join(MARKER));
        if marker.is_ok_and(|marker| marker.try_lock().is_ok()) {
            let _ = remove(&entry.path());
        }
    }
}

/// Removes a directory, the marker last: what is left half-way is still known to be ours.
fn remove(outer: &Path) -> io::Result<()> {
    let listed = match fs::read_dir(outer) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    for entry in listed {
        let entry = entry?;
        if entry.file_name() == MARKER {
            continue;
        }
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    match fs::remove_file(outer.join(MARKER)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::remove_dir(outer)
}

/// Removes a tree; a directory in it that was closed to its own user is opened.
fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path);
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

#[cfg(unix)]
fn open_up(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mut queue = vec![path.to_owned()];
    while let Some(dir) = queue.pop() {
        let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                queue.push(entry.path());
            }
        }
    }
}

#[cfg(not(unix))]
fn open_up(_path: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(base: &Path) -> Vec<String> {
        let listed = fs::read_dir(base).expect("a directory").flatten();
        let mut names: Vec<String> = listed.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_killed_owner_left_is_removed_and_nothing_else() {
        let base = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(base.path().join("mine-theirs/w")).expect("a directory of somebody else");
        fs::create_dir_all(base.path().join("mine-left/w/deep")).expect("a directory that was left");
        fs::write(base.path().join("mine-left").join(MARKER), "").expect("its marker");
        let living = PrivateDir::create(base.path(), "mine-").expect("a directory");
        fs::write(living.path().join("file"), "content").expect("a file");
        let another = PrivateDir::create(base.path(), "mine-").expect("another");
        assert!(living.path().join("file").exists());
        assert_eq!(names(base.path()).len(), 3, "{:?}", names(base.path()));
        drop((living, another));
        assert_eq!(names(base.path()), ["mine-theirs"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_is_private_and_goes_though_something_in_it_was_closed() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().expect("a directory");
        let dir = PrivateDir::create(base.path(), "mine-").expect("a directory");
        for path in [dir.path(), dir.path().parent().expect("a parent")] {
            assert_eq!(fs::metadata(path).expect("it is there").permissions().mode() & 0o777, 0o700);
        }
        fs::create_dir_all(dir.path().join("closed/below")).expect("directories");
        fs::set_permissions(dir.path().join("closed"), fs::Permissions::from_mode(0o000)).expect("chmod");
        drop(dir);
        assert_eq!(names(base.path()), Vec::<String>::new());
    }
}
