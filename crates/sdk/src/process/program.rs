//! Finding the program that a name means, with an error that says what is wrong with it.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

/// A program that was found: an absolute path to a file that may be executed, and the name it was asked for by, which
/// becomes its argv 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    path: PathBuf,
    name: OsString,
}

/// Why there is no such program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The name is empty.
    #[error("find a program: its name is empty")]
    Empty,
    /// No directory of PATH has it.
    #[error("find the program `{}`: it is in none of the {searched} directories of PATH", name.display())]
    NotOnPath {
        /// The name.
        name: OsString,
        /// How many directories were looked into.
        searched: usize,
    },
    /// The path leads to nothing.
    #[error("find the program `{}`: there is no such file", path.display())]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// It is a directory or another thing that cannot be run.
    #[error("run `{}`: it is not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// It is a file without execute permission.
    #[error("run `{}`: it is not executable", path.display())]
    NotExecutable {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be looked at.
    #[error("look at the program `{}`", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl Program {
    /// Finds `name` as a shell would: a name with a directory separator is a path, below `base` if it is relative; any
    /// other is looked up in the directories of `path_var`, where relative entries are below `base` too. `base` must be
    /// absolute; it is the working directory that the user typed the name in.
    ///
    /// # Errors
    /// [`ProgramError`]. A file on PATH that may not be executed is passed over for a later one, and told if there is none.
    pub fn find(name: impl AsRef<OsStr>, path_var: Option<&OsStr>, base: &Path) -> Result<Self, ProgramError> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(ProgramError::Empty);
        }
        if has_separator(name) {
            let path = base.join(name);
            return match runnable(&path) {
                Ok(path) => Ok(Self { path, name: name.to_owned() }),
                Err(error) => Err(error),
            };
        }
        let mut searched = 0;
        let mut blocked = None;
        for dir in path_var.map(std::env::split_paths).into_iter().flatten() {
            searched += 1;
            match runnable(&base.join(dir).join(name)) {
                Ok(path) => return Ok(Self { path, name: name.to_owned() }),
                Err(error @ ProgramError::NotExecutable { .. }) => blocked = blocked.or(Some(error)),
                Err(_) => {}
            }
        }
        Err(blocked.unwrap_or_else(|| ProgramError::NotOnPath { name: name.to_owned(), searched }))
    }

    /// A program at an absolute path, known to be there.
    ///
    /// # Errors
    /// [`ProgramError`] if it is not.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, ProgramError> {
        let path = path.into();
        Ok(Self { name: path.clone().into(), path: runnable(&path)? })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name it was asked for by.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }
}

fn has_separator(name: &OsStr) -> bool {
    name.to_string_lossy().contains(std::path::is_separator)
}

fn runnable(path: &Path) -> Result<PathBuf, ProgramError> {
    let mut last = ProgramError::NotFound { path: path.to_owned() };
    for candidate in os::candidates(path) {
        match std::fs::metadata(&candidate) {
            Ok(meta) if !meta.is_file() => last = ProgramError::NotAFile { path: candidate },
            Ok(_) if os::may_execute(&candidate) => return Ok(candidate),
            Ok(_) => last = ProgramError::NotExecutable { path: candidate },
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(source) => last = ProgramError::Io { path: candidate, source },
        }
    }
    Err(last)
}

#[cfg(unix)]
mod os {
    use std::path::{Path, PathBuf};

    pub(super) fn candidates(path: &Path) -> impl Iterator<Item = PathBuf> {
        std::iter::once(path.to_owned())
    }

    pub(super) fn may_execute(path: &Path) -> bool {
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    }
}

#[cfg(windows)]
use self::windows as os;

/// Tested everywhere: it only looks at names.
#[cfg(any(windows, test))]
mod windows {
    use std::path::{Path, PathBuf};

    /// What the system runs without asking for more. A `.cmd` goes through the command interpreter, as std does it.
    const EXTENSIONS: [&str; 4] = ["exe", "com", "cmd", "bat"];

    pub(super) fn candidates(path: &Path) -> impl Iterator<Item = PathBuf> {
        let named = path.extension().is_some().then(|| path.to_owned());
        let path = path.to_owned();
        named.into_iter().chain(EXTENSIONS.into_iter().map(move |extension| {
            let mut name = path.clone().into_os_string();
            name.push(".");
            name.push(extension);
            PathBuf::from(name)
        }))
    }

    pub(super) fn may_execute(path: &Path) -> bool {
        path.extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(extension)))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// acpx#90, #169, #191, openclaw#95310: a shim of npm is found on Windows by the name that people type, as a `.cmd`; what
    /// only a shell could run is not.
    #[test]
    fn a_cmd_shim_is_found_by_its_name() {
        let tried = |name: &str| -> Vec<String> {
            windows::candidates(Path::new(name)).map(|path| path.display().to_string()).collect()
        };
        assert_eq!(tried("dir/npx"), ["dir/npx.exe", "dir/npx.com", "dir/npx.cmd", "dir/npx.bat"]);
        assert_eq!(tried("npx.cmd")[0], "npx.cmd", "a name with its extension comes first");
        for (name, expected) in
            [("npx.cmd", true), ("NPX.CMD", true), ("a.exe", true), ("npx", false), ("npx.ps1", false)]
        {
            assert_eq!(windows::may_execute(Path::new(name)), expected, "{name}");
        }
    }

    /// `one/tool` may not be executed, `two/tool` may; `one/dir` is a directory.
    fn scratch() -> tempfile::TempDir {
        let scratch = tempfile::tempdir().expect("scratch directory");
        for (dir, mode) in [("one", 0o600), ("two", 0o700)] {
            std::fs::create_dir(scratch.path().join(dir)).expect("mkdir");
            let tool = scratch.path().join(dir).join("tool");
            std::fs::write(&tool, "#!/bin/sh\n").expect("write");
            std::fs::set_permissions(&tool, PermissionsExt::from_mode(mode)).expect("chmod");
        }
        std::fs::create_dir(scratch.path().join("one/dir")).expect("mkdir");
        scratch
    }

    fn check(name: &str, path_var: &str, expected: Result<&str, &str>) {
        let scratch = scratch();
        match (Program::find(name, Some(path_var.as_ref()), scratch.path()), expected) {
            (Ok(program), Ok(path)) => {
                assert_eq!((program.path(), program.name()), (scratch.path().join(path).as_path(), OsStr::new(name)));
            }
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (found, expected) => panic!("{name} on {path_var}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_program_is_found_as_a_shell_would_or_the_error_says_why_not() {
        check("tool", "one:two", Ok("two/tool"));
        check("two/tool", "", Ok("two/tool"));
        check("tool", "one", Err("is not executable"));
        check("one/tool", "", Err("is not executable"));
        check("one/dir", "", Err("is not a file"));
        check("tool", "three:four", Err("in none of the 2 directories"));
        check("three/tool", "", Err("no such file"));
        check("two/tool/below", "", Err("no such file"));
        check("", "two", Err("its name is empty"));
    }
}
