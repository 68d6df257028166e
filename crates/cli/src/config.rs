//! `.config/pintle.toml`: what a project says about its own agent, so that `pintle check` needs no arguments there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pintle_store::{FsError, RealFs, fsx};
use serde::Deserialize;

/// Where a project keeps it, below the project's root.
pub(crate) const PROJECT_FILE: &str = ".config/pintle.toml";
/// Largest configuration, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// A project's configuration.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProjectConfig {
    /// The agent: program and arguments. Started in the project's root.
    pub(crate) command: Vec<String>,
    /// Like `--env`: `NAME` or `NAME=VALUE`.
    pub(crate) env: Vec<String>,
    /// Texts that make this agent act, by the keys of the pack's prompts.
    pub(crate) prompts: BTreeMap<String, String>,
    /// Like `--pack`; a path is meant from the project's root.
    pub(crate) pack: Option<String>,
    /// Like `--baseline`; a path from the project's root.
    pub(crate) baseline: Option<PathBuf>,
}

/// A configuration with the place where it was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Project {
    /// Directory that has `.config`.
    pub(crate) root: PathBuf,
    /// What it says.
    pub(crate) config: ProjectConfig,
    /// Where its prompts stand, by their names: lines from 1.
    pub(crate) prompt_lines: BTreeMap<String, usize>,
}

impl Project {
    /// The file.
    pub(crate) fn file(&self) -> PathBuf {
        self.root.join(PROJECT_FILE)
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// It is there and cannot be read.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// It is not UTF-8.
    #[error("read `{}`: it is not UTF-8 text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// It is not the TOML that it should be.
    #[error("understand `{}`, line {line}: {message}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

/// The configuration of the project that `from` lies in: the nearest one at `from` or above it, but not beyond the root
/// of a version-controlled tree.
pub(crate) fn find(from: &Path) -> Result<Option<Project>, ConfigError> {
    for root in from.ancestors() {
        let path = root.join(PROJECT_FILE);
        match fsx::read_bounded(&RealFs, &path, MAX_BYTES) {
            Ok(bytes) => {
                let (config, prompt_lines) = parse(&path, bytes)?;
                return Ok(Some(Project { root: root.to_owned(), config, prompt_lines }));
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error.into()),
        }
        if root.join(".git").exists() {
            break;
        }
    }
    Ok(None)
}

fn is_absent(error: &FsError) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

fn parse(path: &Path, bytes: Vec<u8>) -> Result<(ProjectConfig, BTreeMap<String, usize>), ConfigError> {
    let text = String::from_utf8(bytes).map_err(|_| ConfigError::NotText { path: path.to_owned() })?;
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let wrong = |error: toml::de::Error| ConfigError::Toml {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| line(span.start)),
        message: error.message().to_owned(),
    };
    let config = toml::from_str(&text).map_err(wrong)?;
    let Places { prompts } = toml::from_str(&text).map_err(wrong)?;
    Ok((config, prompts.into_iter().map(|(name, value)| (name, line(value.span().start))).collect()))
}

/// The same file, read for the places of what it says.
#[derive(Deserialize)]
struct Places {
    #[serde(default)]
    prompts: BTreeMap<String, toml::Spanned<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<ProjectConfig, &str>) {
        let found = parse(Path::new("/p/.config/pintle.toml"), text.as_bytes().to_vec());
        match (found, expected) {
            (Ok((found, _)), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_project_names_its_command_and_prompts() {
        check(
            "command = [\"node\", \"agent.js\"]\nenv = [\"KEY\"]\n[prompts]\nlong = \"count\"\n",
            Ok(ProjectConfig {
                command: vec!["node".into(), "agent.js".into()],
                env: vec!["KEY".into()],
                prompts: [("long".into(), "count".into())].into(),
                ..ProjectConfig::default()
            }),
        );
    }

    #[test]
    fn an_error_has_its_line() {
        check("command = []\n\nnope = 1\n", Err("line 3: unknown field `nope`"));
        check("command = 1\n", Err("line 1"));
    }

    #[test]
    fn a_prompt_has_its_line() {
        let text = "command = []\n[prompts]\nshort = \"a\"\n\nlong = \"\"\"\nb\"\"\"\n";
        let (_, lines) = parse(Path::new("x"), text.into()).expect("a configuration");
        assert_eq!(lines, [("long".to_owned(), 5), ("short".to_owned(), 3)].into());
    }

    #[test]
    fn the_nearest_configuration_counts_up_to_the_root_of_the_tree() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let inner = dir.path().join("repo/a/b");
        std::fs::create_dir_all(&inner).expect("directories");
        std::fs::create_dir_all(dir.path().join(".config")).expect("a directory");
        std::fs::write(dir.path().join(PROJECT_FILE), "pack = \"x\"").expect("a file");
        assert_eq!(find(&inner).expect("it reads").map(|project| project.root), Some(dir.path().to_owned()));
        std::fs::create_dir(dir.path().join("repo/.git")).expect("a directory");
        assert_eq!(find(&inner).expect("it reads"), None);
    }
}
