//! Peers that we did not write the protocol side of, installed below `target/peers` at pinned versions with digests: npm
//! by its lock file, pip by hashes, cargo by the lock of `interop/sdk`.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Why a peer cannot run here.
pub enum Missing {
    /// A program that the step needs is not installed: said aloud, and an error where `CI` is set.
    Tool(&'static str),
    /// Something that should have worked did not.
    Failed(String),
}

impl Missing {
    /// For errors that name a path.
    pub fn at(path: &Path, error: impl std::fmt::Display) -> Self {
        Self::Failed(format!("{}: {error}", path.display()))
    }
}

/// Where things are: the workspace, the folder that peers are installed in, and the binary that is tested.
pub struct Places {
    pub root: PathBuf,
    pub dir: PathBuf,
    pub pintle: PathBuf,
}

impl Places {
    /// `--pintle PATH` names another binary than the release build.
    pub fn new(root: &Path, words: &[&str]) -> Self {
        let named = option(words, "--pintle").map(|path| root.join(path));
        Self {
            root: root.to_path_buf(),
            dir: root.join("target/peers"),
            pintle: named.unwrap_or_else(|| root.join("target/release/pintle")),
        }
    }
}

/// The word after `name`.
pub fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).copied()
}

/// Runs that go on at once. They mostly wait, for time limits and for each other's ends.
const AT_ONCE: usize = 2;

/// Does `work` on each of `items`, a few at once, and returns what came of each in their order.
pub fn side_by_side<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let queue = Mutex::new(items.into_iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || std::iter::from_fn(next).map(|(at, item)| (at, work(item))).collect::<Vec<_>>();
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(run)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// A program on the official Rust SDK.
pub fn rust_sdk(places: &Places, bin: &str) -> Result<Vec<String>, Missing> {
    let target = interop_target(places);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--quiet", "--manifest-path"]).arg(places.root.join("interop/sdk/Cargo.toml"));
    done(command.arg("--target-dir").arg(&target), "cargo")?;
    Ok(vec![target.join("debug").join(bin).display().to_string()])
}

/// Where what is below `interop` is built, apart from the workspace: most of the crates below are the same for both.
fn interop_target(places: &Places) -> PathBuf {
    places.root.join("target/interop")
}

/// A program of `interop/typescript` on the official TypeScript SDK.
pub fn typescript_sdk(places: &Places, file: &str) -> Result<Vec<String>, Missing> {
    let node = program("node")?;
    let dir = typescript_dir(places)?;
    Ok(vec![node, dir.join(file).display().to_string()])
}

/// Where the npm package of the TypeScript SDK has the JSON Schema of version 1.
pub fn published_schema(places: &Places) -> Result<PathBuf, Missing> {
    Ok(typescript_dir(places)?.join("node_modules/@agentclientprotocol/sdk/schema/v1"))
}

/// The folder in which the TypeScript SDK and the programs on it are installed.
fn typescript_dir(places: &Places) -> Result<PathBuf, Missing> {
    let dir = places.dir.join("typescript");
    make(&dir)?;
    let from = places.root.join("interop/typescript");
    for name in ["package.json", "agent.mjs", "client.mjs"] {
        copy(&from.join(name), &dir.join(name))?;
    }
    install_once(&dir, &from.join("package-lock.json"), |dir| {
        let mut command = Command::new("npm");
        command.current_dir(dir).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]);
        done(&mut command, "npm")
    })?;
    Ok(dir)
}

/// The program of `interop/schema` that holds recordings against the published schema.
pub fn schema_check(places: &Places) -> Result<PathBuf, Missing> {
    let target = interop_target(places);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--quiet", "--bin", "emitted", "--manifest-path"]);
    command.arg(places.root.join("interop/schema/Cargo.toml"));
    done(command.arg("--target-dir").arg(&target), "cargo")?;
    Ok(target.join("debug/emitted"))
}

/// A program on the official Python SDK: an example of its source distribution, or one of `interop/python`.
pub fn python_sdk(places: &Places, file: &Path) -> Result<Vec<String>, Missing> {
    let dir = places.dir.join("python");
    make(&dir)?;
    let python = dir.join("venv/bin/python");
    let from = places.root.join("interop/python");
    install_once(&dir, &from.join("requirements.txt"), |dir| {
        done(Command::new("python3").args(["-m", "venv", "--clear"]).arg(dir.join("venv")), "python3")?;
        let pip = |words: &[&OsStr]| {
            let mut command = Command::new(&python);
            command.current_dir(dir).args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
            done(command.args(words), "python3")
        };
        let requirements: [&OsStr; 3] = ["--require-hashes".as_ref(), "-r".as_ref(), "requirements.txt".as_ref()];
        pip(&[&["install".as_ref(), "--only-binary".as_ref(), ":all:".as_ref()], &requirements[..]].concat())?;
        // The examples are only in the source distribution; its build back end is among the requirements.
        let wanted: [&OsStr; 7] = [
            "download".as_ref(),
            "--no-deps".as_ref(),
            "--no-build-isolation".as_ref(),
            "--no-binary".as_ref(),
            "agent-client-protocol".as_ref(),
            "--dest".as_ref(),
            "sdist".as_ref(),
        ];
        pip(&[&wanted[..], &requirements[..]].concat())?;
        let archive = find(&dir.join("sdist"), ".tar.gz")?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(archive).arg("-C").arg(dir.join("sdist"));
        done(tar.args(["--strip-components=2", "--wildcards", "*/examples/*.py"]), "tar")
    })?;
    Ok(vec![python.display().to_string(), file.display().to_string()])
}

/// An example of the Python SDK's source distribution.
pub fn python_example(places: &Places, name: &str) -> Result<Vec<String>, Missing> {
    python_sdk(places, &places.dir.join("python/sdist").join(name))
}

/// A program of `interop/python`.
pub fn python_program(places: &Places, name: &str) -> Result<Vec<String>, Missing> {
    python_sdk(places, &places.root.join("interop/python").join(name))
}

/// Copies the lock beside what it locks and installs by it, unless that very lock is installed already.
fn install_once(dir: &Path, lock: &Path, install: impl FnOnce(&Path) -> Result<(), Missing>) -> Result<(), Missing> {
    let name = lock.file_name().unwrap_or_default();
    let wanted = fs::read(lock).map_err(|e| Missing::at(lock, e))?;
    let mark = dir.join("installed");
    if fs::read(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let _ = fs::remove_file(&mark);
    copy(lock, &dir.join(name))?;
    install(dir)?;
    fs::write(&mark, wanted).map_err(|e| Missing::at(&mark, e))
}

pub fn make(dir: &Path) -> Result<(), Missing> {
    fs::create_dir_all(dir).map_err(|e| Missing::at(dir, e))
}

fn copy(from: &Path, to: &Path) -> Result<(), Missing> {
    fs::copy(from, to).map(|_| ()).map_err(|e| Missing::at(from, e))
}

fn find(dir: &Path, end: &str) -> Result<PathBuf, Missing> {
    let entries = fs::read_dir(dir).map_err(|e| Missing::at(dir, e))?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(end))
        .ok_or_else(|| Missing::Failed(format!("{}: no {end} in it", dir.display())))
}

/// The absolute path of a program on `PATH`, so that an agent starts with a changed environment too.
fn program(name: &'static str) -> Result<String, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
        .map(|found| found.display().to_string())
        .ok_or(Missing::Tool(name))
}

fn done(command: &mut Command, tool: &'static str) -> Result<(), Missing> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Missing::Failed(format!("{tool} ended with {status}"))),
        Err(e) if e.kind() == ErrorKind::NotFound => Err(Missing::Tool(tool)),
        Err(e) => Err(Missing::Failed(format!("failed to run {tool}: {e}"))),
    }
}

/// Counts and says what came of each peer.
#[derive(Default)]
pub struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Tally {
    pub fn note(&mut self, name: &str, result: Result<String, Missing>) {
        let line = match result {
            Ok(line) => {
                self.passed += 1;
                line
            }
            Err(Missing::Tool(tool)) if std::env::var_os("CI").is_none() => {
                self.skipped += 1;
                format!("SKIPPED, {tool} is not installed")
            }
            Err(Missing::Tool(tool)) => {
                self.failed += 1;
                format!("{tool} is not installed")
            }
            Err(Missing::Failed(why)) => {
                self.failed += 1;
                why
            }
        };
        println!("{name}: {line}");
    }

    pub fn end(self) -> std::process::ExitCode {
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped);
        if self.failed == 0 { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::side_by_side;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(side_by_side(items.clone(), |item| item), items);
        assert!(side_by_side(Vec::<u32>::new(), |item| item).is_empty());
    }
}
