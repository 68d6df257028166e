use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::fs::Mode;

use super::*;

struct Place {
    dir: tempfile::TempDir,
    beneath: Beneath,
}

impl Place {
    fn root(&self) -> PathBuf {
        self.dir.path().join("base")
    }

    fn read(&self, path: &str) -> Result<String, &'static str> {
        let full = if path.starts_with('/') { path.into() } else { self.root().join(path) };
        let read = self.beneath.read(&full, 100);
        read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| error.class())
    }
}

fn place() -> Place {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let root = dir.path().join("base");
    fs::create_dir_all(root.join("sub")).expect("directories");
    fs::write(root.join("sub/a"), "inside").expect("a file");
    fs::write(dir.path().join("secret"), "outside").expect("a file");
    symlink("../secret", root.join("out")).expect("a link");
    symlink("..", root.join("up")).expect("a link");
    symlink("sub/a", root.join("in")).expect("a link");
    symlink(root.join("sub"), root.join("whole")).expect("a link");
    symlink("sub/../sub/../in", root.join("round")).expect("a link");
    let beneath = Beneath::open(&root).expect("the root opens");
    Place { dir, beneath }
}

fn check(path: &str, expected: Result<&str, &str>) {
    let read = place().read(path);
    assert_eq!(read.as_deref().map_err(|class| *class), expected, "{path}");
}

#[test]
fn paths_inside_are_read() {
    for path in ["sub/a", "./sub/./a", "sub/../sub/a", "in", "whole/a", "round", "sub/../../base/in"] {
        check(path, Ok("inside"));
    }
}

#[test]
fn paths_that_lead_out_are_refused() {
    for path in ["sub/../../secret", "/etc/hostname", "../root-evil/x"] {
        check(path, Err("path_traversal"));
    }
    for path in ["out", "up/secret", "up/base/in"] {
        check(path, Err("symlink_escape"));
    }
}

#[test]
fn only_regular_files_are_opened() {
    check("sub", Err("not_a_file"));
    check("", Err("not_a_file"));
    check("whole", Err("not_a_file"));
    let place = place();
    assert!(place.beneath.read(&place.root().join("none"), 9).expect_err("nothing").is_not_found());
    assert!(place.beneath.read(&place.root().join("sub/a/b"), 9).is_err());
    assert!(matches!(place.beneath.read(Path::new("sub/a"), 9), Err(BeneathError::Relative)));
}

/// Neither a FIFO nor a device nor a socket is waited for, read or written.
#[test]
fn what_could_block_is_not_opened() {
    let place = place();
    let fifo = place.root().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .expect("a FIFO");
    let socket = place.root().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    for path in [&fifo, &socket] {
        assert!(matches!(place.beneath.read(path, 10), Err(BeneathError::NotAFile)), "{}", path.display());
        assert!(matches!(place.beneath.write(path, b"x"), Err(BeneathError::NotAFile)), "{}", path.display());
    }
    let everything = Beneath::open(Path::new("/")).expect("the root of all opens");
    assert!(matches!(everything.read(Path::new("/dev/zero"), 10), Err(BeneathError::NotAFile)));
}

#[test]
fn a_file_over_the_limit_is_not_read() {
    let place = place();
    let path = place.root().join("sub/a");
    assert!(matches!(place.beneath.read(&path, 5), Err(BeneathError::TooLarge { limit_bytes: 5 })));
    assert_eq!(place.beneath.read(&path, 6).expect("just fits").len(), 6);
}

/// missing directories are made, and the old content or the new is there.
#[test]
fn a_write_makes_or_replaces_and_leaves_nothing_beside_it() {
    let place = place();
    let root = place.root();
    place.beneath.write(&root.join("new/deep/file"), b"content").expect("a new file");
    assert_eq!(fs::read(root.join("new/deep/file")).expect("it is there"), b"content");
    place.beneath.write(&root.join("new/deep/file"), b"x").expect("the same file");
    assert_eq!(fs::read(root.join("new/deep/file")).expect("it is there"), b"x");
    assert_eq!(fs::read_dir(root.join("new/deep")).expect("a directory").count(), 1);
    // Through a link: the link stays, its target is replaced.
    place.beneath.write(&root.join("in"), b"through").expect("the target");
    assert_eq!(fs::read(root.join("sub/a")).expect("it is there"), b"through");
    assert!(root.join("in").is_symlink());
}

#[test]
fn a_write_never_escapes() {
    let place = place();
    let root = place.root();
    for path in ["out", "up/secret", "up/new", "../new", "up/new/deep"] {
        let refused = place.beneath.write(&root.join(path), b"x").expect_err("it leads out");
        assert!(refused.is_outside(), "{path}: {refused}");
    }
    assert_eq!(fs::read(place.dir.path().join("secret")).expect("it is there"), b"outside");
    assert_eq!(fs::read_dir(place.dir.path()).expect("a directory").count(), 2);
}

#[test]
fn a_write_keeps_the_mode_and_the_other_names() {
    let place = place();
    let file = place.root().join("sub/a");
    for mode in [0o600, 0o755, 0o666, 0o640] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("chmod");
        let before = fs::metadata(&file).expect("stat").ino();
        place.beneath.write(&file, b"once more").expect("write");
        let after = fs::metadata(&file).expect("stat");
        assert_eq!(after.mode() & 0o7777, mode);
        assert_ne!(after.ino(), before, "it was replaced, not written over");
    }
    let other = place.root().join("other");
    fs::hard_link(&file, &other).expect("a second name");
    place.beneath.write(&file, b"both").expect("write");
    assert_eq!(fs::read(&other).expect("it is there"), b"both");
}

/// Two absolute names for one directory, and a request that is spelled with either.
#[test]
fn a_root_that_is_reached_by_a_link_has_two_names() {
    let place = place();
    let alias = place.dir.path().join("alias");
    symlink("base", &alias).expect("a link");
    let beneath = Beneath::open(&alias).expect("the root opens");
    for path in [alias.join("in"), place.root().canonicalize().expect("resolves").join("in"), alias.join("whole/a")] {
        assert_eq!(beneath.read(&path, 10).expect("inside"), b"inside", "{}", path.display());
    }
}

/// the vectors, as they are to be run: the root is the root of all, and what is refused was
/// neither read nor made.
#[test]
fn the_path_vectors_hold() {
    let accepted = run_vectors(include_str!("../../../../testdata/acp/fs_path_accept.json"));
    let rejected = run_vectors(include_str!("../../../../testdata/acp/fs_path_reject.json"));
    assert_eq!((accepted, rejected), (7, 13));
}

fn run_vectors(text: &str) -> usize {
    let file: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let vectors = file["vectors"].as_array().expect("a list");
    for vector in vectors {
        let base = tempfile::tempdir().expect("a temporary directory");
        set_up(base.path(), vector);
        let before = outside(base.path());
        let root = base.path().join(vector["root"].as_str().expect("a name"));
        let beneath = Beneath::open(&root).expect("the root opens").rerooted();
        let requested = Path::new(vector["requested"].as_str().expect("a path"));
        let expected = vector["expect"].as_str().expect("a word");
        let read = beneath.read(requested, 1000);
        let written = if requested == Path::new(".") || requested.starts_with("d1") {
            Err(BeneathError::NotAFile)
        } else {
            beneath.write(requested, b"written")
        };
        let name = &vector["name"];
        if expected == "ok" {
            // To lie inside is one thing, to be a file that is there another.
            let fine = |error: &BeneathError| error.is_not_found() || matches!(error, BeneathError::NotAFile);
            assert!(read.as_ref().map_or_else(fine, |bytes| bytes != b"TOP SECRET"), "{name}: {read:?}");
            assert!(written.as_ref().map_or_else(fine, |()| true), "{name}: {written:?}");
            if written.is_ok() {
                assert_eq!(beneath.read(requested, 1000).expect("it was written"), b"written", "{name}");
            }
        } else {
            assert_eq!(read.expect_err("refused").class(), expected, "{name}");
            assert_eq!(written.expect_err("refused").class(), expected, "{name}");
        }
        assert_eq!(outside(base.path()), before, "{name}: nothing outside was touched");
    }
    vectors.len()
}

fn set_up(base: &Path, vector: &serde_json::Value) {
    for entry in vector["setup"].as_array().expect("a list") {
        let path = |name: &str| entry[name].as_str().map(|path| base.join(path));
        if let Some(dir) = path("dir") {
            fs::create_dir_all(dir).expect("a directory");
        } else if let Some(file) = path("file") {
            fs::write(file, entry["content"].as_str().expect("a text")).expect("a file");
        } else if let Some(link) = path("symlink") {
            symlink(entry["target"].as_str().expect("a target"), link).expect("a link");
        }
    }
}

/// Everything beside the root: names and contents.
fn outside(base: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![base.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && path != base.join("root") {
                dirs.push(path.clone());
            }
            found.push((path.clone(), if path.is_file() { fs::read(&path).expect("a file") } else { Vec::new() }));
        }
    }
    found.sort();
    found
}

/// Links are swapped for files and directories while paths through them are read and written: whatever is read comes from
/// inside, and what is outside stays as it is.
#[test]
fn links_that_are_swapped_while_running_gain_nothing() {
    const ROUNDS: usize = 200;
    let place = place();
    let root = place.root();
    fs::create_dir(root.join("real")).expect("a directory");
    fs::write(root.join("real/secret"), "inside").expect("a file");
    fs::write(root.join("leaf"), "inside").expect("a file");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A directory that becomes a link to the folder with the secret, and back; a file likewise.
            while !stop.load(Ordering::Relaxed) {
                fs::rename(root.join("real"), root.join("aside")).expect("rename");
                symlink("..", root.join("real")).expect("a link");
                fs::remove_file(root.join("real")).expect("unlink");
                fs::rename(root.join("aside"), root.join("real")).expect("rename");
                symlink("../secret", root.join("next")).expect("a link");
                fs::rename(root.join("next"), root.join("leaf")).expect("rename");
                fs::write(root.join("next"), "inside").expect("a file");
                fs::rename(root.join("next"), root.join("leaf")).expect("rename");
            }
        });
        let _stop = StopAtEnd(&stop);
        let mut seen = 0;
        for round in 0..ROUNDS {
            for path in ["real/secret", "leaf"] {
                if let Ok(bytes) = place.beneath.read(&root.join(path), 100) {
                    assert_ne!(bytes, b"outside", "{path} in round {round}");
                    seen += 1;
                }
            }
            let _ = place.beneath.write(&root.join("leaf"), b"inside");
            assert_eq!(fs::read(place.dir.path().join("secret")).expect("it is there"), b"outside", "round {round}");
        }
        assert!(seen > 0, "some reads found the file");
    });
}

/// A failed assertion must not leave the other thread running.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
