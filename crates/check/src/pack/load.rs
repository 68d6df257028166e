//! A whole pack: from the binary, from a folder, or from one scenario file.

use std::path::{Path, PathBuf};

use pintle_store::{FileKind, Fs, fsx};
use pintle_wire::{Digest, DigestBuilder};

use super::document::{FILE_MAX_BYTES, Source, read_manifest, read_scenario};
use super::embedded::EMBEDDED;
use super::error::LoadError;
use super::model::{Manifest, Requirement, Scenario};
use super::validate::Validator;

/// The pack that is used when none is named.
pub const DEFAULT_PACK: &str = "acp-v1";

/// A pack, loaded and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Pack {
    /// Identity, waits, prompts, requirements of every scenario.
    pub manifest: Manifest,
    /// The scenarios, by id.
    pub scenarios: Vec<Scenario>,
    /// Where it came from, for people: `built in`, or a path.
    pub origin: String,
    /// Over the bytes of its files, in order of their names.
    pub digest: Digest,
}

/// A file of a pack.
pub(super) struct PackFile<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl Pack {
    /// The built-in pack.
    ///
    /// # Errors
    /// None in practice: the tests of this crate load every built-in pack.
    pub fn embedded() -> Result<Self, LoadError> {
        Self::select(&pintle_store::RealFs, DEFAULT_PACK)
    }

    /// The pack that `--pack` names: `NAME`, `NAME@VERSION` or a path. A path is anything with a separator or an
    /// extension `.toml`, and any folder that exists. A version may be cut after any number (`acp-v1@1`).
    ///
    /// # Errors
    /// [`LoadError`], with file and line for what a file says.
    pub fn select(fs: &dyn Fs, wanted: &str) -> Result<Self, LoadError> {
        let path = Path::new(wanted);
        let looks_like_path = wanted.contains(['/', '\\']) || path.extension().is_some_and(|ext| ext == "toml");
        if looks_like_path || (wanted != DEFAULT_PACK && folder_exists(fs, path)) {
            return Self::load(fs, path);
        }
        let (name, version) = match wanted.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (wanted, None),
        };
        if name != DEFAULT_PACK {
            return Err(LoadError::UnknownPack { name: name.to_owned(), known: DEFAULT_PACK });
        }
        let pack = Self::assemble("built in", EMBEDDED, false)?;
        match version {
            Some(version) if !version_fits(&pack.manifest.version, version) => Err(LoadError::WrongVersion {
                name: name.to_owned(),
                found: pack.manifest.version,
                wanted: version.to_owned(),
            }),
            _ => Ok(pack),
        }
    }

    /// The pack in a folder (`pack.toml` and scenario files), or one scenario file, which then borrows the prompts and
    /// waits of the built-in pack and none of its requirements.
    ///
    /// # Errors
    /// [`LoadError`], with file and line for what a file says.
    pub fn load(fs: &dyn Fs, path: &Path) -> Result<Self, LoadError> {
        let read = |path: &Path| -> Result<String, LoadError> {
            let bytes = fsx::read_bounded(fs, path, FILE_MAX_BYTES)
                .map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
            String::from_utf8(bytes).map_err(|_| LoadError::NotUtf8 { path: path.to_owned() })
        };
        let origin = path.display().to_string();
        if !folder_exists(fs, path) {
            let text = read(path)?;
            return Self::single(&origin, &text);
        }
        let entries = fsx::read_dir(fs, path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        let mut names: Vec<PathBuf> = entries
            .into_iter()
            .map(|entry| path.join(entry.name))
            .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
            .collect();
        names.sort();
        if !names.iter().any(|name| name.file_name().is_some_and(|name| name == "pack.toml")) {
            return Err(LoadError::Folder { path: path.to_owned(), problem: "the folder has no pack.toml" });
        }
        let mut files = Vec::with_capacity(names.len());
        for name in &names {
            files.push((name.display().to_string(), read(name)?));
        }
        let files: Vec<_> = files.iter().map(|(name, text)| PackFile { name, text }).collect();
        if files.len() == 1 {
            return Err(LoadError::Folder { path: path.to_owned(), problem: "the folder has no scenario file" });
        }
        Self::assemble(&origin, &files, true)
    }

    /// Every requirement with the scenario that it belongs to; `None` for those of every scenario.
    pub fn requirements(&self) -> impl Iterator<Item = (Option<&Scenario>, &Requirement)> {
        let shared = self.manifest.requirements.iter().map(|requirement| (None, requirement));
        let own = self
            .scenarios
            .iter()
            .flat_map(|scenario| scenario.requirements.iter().map(move |requirement| (Some(scenario), requirement)));
        shared.chain(own)
    }

    /// The scenarios that `--case` selects, by scenario id or requirement id; all of them when nothing is named. A
    /// requirement brings the scenarios of those that it depends on; one of the whole pack brings every scenario.
    ///
    /// # Errors
    /// [`LoadError::UnknownCase`].
    pub fn select_cases(&self, ids: &[String]) -> Result<Vec<&Scenario>, LoadError> {
        if ids.is_empty() {
            return Ok(self.scenarios.iter().collect());
        }
        let mut chosen = vec![false; self.scenarios.len()];
        for id in ids {
            if let Some(at) = self.scenarios.iter().position(|scenario| scenario.id == *id) {
                chosen[at] = true;
                for requirement in &self.scenarios[at].requirements {
                    self.choose(&requirement.id, &mut chosen);
                }
            } else if !self.choose(id, &mut chosen) {
                return Err(LoadError::UnknownCase {
                    pack: self.manifest.name.clone(),
                    id: id.clone(),
                    nearest: self.nearest(id),
                });
            }
        }
        Ok(self.scenarios.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(scenario, _)| scenario).collect())
    }

    /// Marks the scenarios that a requirement needs. False when there is no such requirement.
    fn choose(&self, id: &str, chosen: &mut [bool]) -> bool {
        if let Some(requirement) = self.manifest.requirements.iter().find(|requirement| requirement.id == id) {
            // A requirement of every scenario that others depend on must not bring the whole pack with it.
            let alone = chosen.iter().all(|chosen| !chosen);
            if alone {
                chosen.fill(true);
            }
            requirement.depends.iter().for_each(|id| {
                self.choose(id, chosen);
            });
            return true;
        }
        let found = self.scenarios.iter().enumerate().find_map(|(at, scenario)| {
            let requirement = scenario.requirements.iter().find(|requirement| requirement.id == id)?;
            Some((at, requirement))
        });
        let Some((at, requirement)) = found else { return false };
        chosen[at] = true;
        for dependency in &requirement.depends {
            self.choose(dependency, chosen);
        }
        true
    }

    fn nearest(&self, id: &str) -> Option<String> {
        let wanted = id.to_ascii_lowercase();
        self.scenarios
            .iter()
            .map(|scenario| scenario.id.as_str())
            .chain(self.requirements().map(|(_, requirement)| requirement.id.as_str()))
            .map(|known| (distance(&wanted, &known.to_ascii_lowercase()), known))
            .min()
            .filter(|(distance, known)| *distance <= known.len() / 3)
            .map(|(_, known)| known.to_owned())
    }

    fn single(file: &str, text: &str) -> Result<Self, LoadError> {
        let built_in = Self::assemble("built in", EMBEDDED, false)?;
        let source = Source { file, text };
        let document = read_scenario(source)?;
        let mut manifest = built_in.manifest;
        manifest.requirements.clear();
        manifest.name = document.scenario.id.clone();
        manifest.title = document.scenario.title.clone();
        let mut validator = Validator::new(true);
        validator.prompts(&manifest);
        validator.scenario(source, &document)?;
        validator.finish()?;
        Ok(Self {
            manifest,
            scenarios: vec![document.scenario],
            origin: file.to_owned(),
            digest: Digest::of(text.as_bytes()),
        })
    }

    pub(super) fn assemble(origin: &str, files: &[PackFile<'_>], check_expressions: bool) -> Result<Self, LoadError> {
        let mut digest = DigestBuilder::new();
        for file in files {
            digest.update(file.text.as_bytes());
        }
        let mut validator = Validator::new(check_expressions);
        let is_manifest =
            |file: &&PackFile<'_>| Path::new(file.name).file_name().is_some_and(|name| name == "pack.toml");
        let Some(file) = files.iter().find(is_manifest) else {
            return Err(LoadError::Folder { path: origin.into(), problem: "the folder has no pack.toml" });
        };
        let source = Source { file: file.name, text: file.text };
        let document = read_manifest(source)?;
        validator.manifest(source, &document)?;
        let mut scenarios = Vec::with_capacity(files.len());
        for file in files.iter().filter(|file| !is_manifest(file)) {
            let source = Source { file: file.name, text: file.text };
            let document = read_scenario(source)?;
            validator.scenario(source, &document)?;
            scenarios.push(document.scenario);
        }
        validator.finish()?;
        scenarios.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Self { manifest: document.manifest, scenarios, origin: origin.to_owned(), digest: digest.finish() })
    }
}

/// Loads one scenario as `--pack FILE` does.
#[cfg(test)]
pub(crate) fn parse_scenario(file: &str, text: &str) -> Result<Scenario, LoadError> {
    Pack::single(file, text).map(|pack| pack.scenarios.into_iter().next().expect("one scenario"))
}

/// Checks the expressions of the built-in pack too; the others are always checked.
#[cfg(test)]
pub(super) fn embedded_with_expressions() -> Result<Pack, LoadError> {
    Pack::assemble("built in", EMBEDDED, true)
}

fn folder_exists(fs: &dyn Fs, path: &Path) -> bool {
    fsx::metadata(fs, path).ok().flatten().is_some_and(|metadata| metadata.kind == FileKind::Dir)
}

/// `wanted` equals the version, or its first one or two numbers.
fn version_fits(version: &str, wanted: &str) -> bool {
    version == wanted || version.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
}

/// Edit distance: insertions, deletions, replacements.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
