//! Reads one TOML document of a pack, keeping the line of everything that can be wrong.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::error::{LoadError, LoadProblem};
use super::model::{Callbacks, Manifest, Prompt, Requirement, Scenario, TimeoutOverrides, Timeouts};
use super::steps::Step;

/// Longest file of a pack, in bytes.
pub const FILE_MAX_BYTES: usize = 1 << 20;

/// A TOML file: its name for messages, and its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn error(&self, line: usize, problem: LoadProblem) -> LoadError {
        LoadError::Content { file: self.file.to_owned(), line, problem: Box::new(problem) }
    }

    /// Line of a byte offset, from 1.
    fn line(&self, offset: usize) -> usize {
        let head = &self.text.as_bytes()[..offset.min(self.text.len())];
        head.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Line on which the content of the string literal at `span` starts.
    fn content_line(&self, span: &Range<usize>) -> usize {
        let literal = self.text.get(span.clone()).unwrap_or_default();
        let newline_trimmed = ["\"\"\"", "'''"].iter().any(|quote| {
            literal.strip_prefix(quote).is_some_and(|body| body.starts_with('\n') || body.starts_with("\r\n"))
        });
        self.line(span.start) + usize::from(newline_trimmed)
    }

    fn toml(&self, error: &toml::de::Error, fallback: usize) -> LoadError {
        let line = error.span().map_or(fallback, |span| self.line(span.start));
        self.error(line, LoadProblem::Toml(error.message().trim().replace('\n', "; ")))
    }
}

/// Something with the line on which it starts.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) line: usize,
    pub(super) value: T,
}

/// A requirement with the lines of its members.
#[derive(Clone, Debug)]
pub(super) struct RequirementLines {
    pub(super) requirement: Requirement,
    pub(super) line: usize,
    /// Lines of members; of `assert`, `needs` and `depends` one line per item.
    pub(super) members: BTreeMap<String, Vec<usize>>,
}

impl RequirementLines {
    /// Line of item `index` of a member.
    pub(super) fn line_of(&self, member: &str, index: usize) -> usize {
        self.members.get(member).and_then(|lines| lines.get(index)).copied().unwrap_or(self.line)
    }
}

/// `pack.toml`, read but not yet checked.
#[derive(Clone, Debug)]
pub(super) struct ManifestDocument {
    pub(super) manifest: Manifest,
    pub(super) lines: BTreeMap<String, usize>,
    pub(super) requirements: Vec<RequirementLines>,
}

/// A scenario file, read but not yet checked.
#[derive(Clone, Debug)]
pub(super) struct ScenarioDocument {
    pub(super) scenario: Scenario,
    pub(super) lines: BTreeMap<String, usize>,
    pub(super) steps: Vec<At<Step>>,
    pub(super) requirements: Vec<RequirementLines>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestHead {
    schema: String,
    name: String,
    version: String,
    title: String,
    spec_revision: String,
    protocol_version: u16,
    #[serde(default)]
    timeouts_ms: Timeouts,
    #[serde(default)]
    prompts: BTreeMap<String, Prompt>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioHead {
    schema: String,
    id: String,
    title: String,
    #[serde(default)]
    client_capabilities: Map<String, Value>,
    #[serde(default)]
    callbacks: Callbacks,
    #[serde(default)]
    timeouts_ms: TimeoutOverrides,
}

pub(super) fn read_manifest(source: Source<'_>) -> Result<ManifestDocument, LoadError> {
    let (mut root, lines) = parse(source)?;
    let requirements = tables(source, &mut root, "requirement")?
        .into_iter()
        .map(|table| requirement(source, table))
        .collect::<Result<Vec<_>, _>>()?;
    let head: ManifestHead = decode(source, root, 1)?;
    let manifest = Manifest {
        schema: head.schema,
        name: head.name,
        version: head.version,
        title: head.title,
        spec_revision: head.spec_revision,
        protocol_version: head.protocol_version,
        timeouts_ms: head.timeouts_ms,
        prompts: head.prompts,
        requirements: requirements.iter().map(|item| item.requirement.clone()).collect(),
    };
    Ok(ManifestDocument { manifest, lines, requirements })
}

pub(super) fn read_scenario(source: Source<'_>) -> Result<ScenarioDocument, LoadError> {
    let (mut root, lines) = parse(source)?;
    let steps = tables(source, &mut root, "step")?
        .into_iter()
        .map(|table| step(source, table))
        .collect::<Result<Vec<_>, _>>()?;
    let requirements = tables(source, &mut root, "requirement")?
        .into_iter()
        .map(|table| requirement(source, table))
        .collect::<Result<Vec<_>, _>>()?;
    let head: ScenarioHead = decode(source, root, 1)?;
    let scenario = Scenario {
        schema: head.schema,
        id: head.id,
        title: head.title,
        client_capabilities: head.client_capabilities,
        callbacks: head.callbacks,
        timeouts_ms: head.timeouts_ms,
        steps: steps.iter().map(|step| step.value.clone()).collect(),
        requirements: requirements.iter().map(|item| item.requirement.clone()).collect(),
    };
    Ok(ScenarioDocument { scenario, lines, steps, requirements })
}

type Root<'a> = Spanned<DeTable<'a>>;

fn parse(source: Source<'_>) -> Result<(Root<'_>, BTreeMap<String, usize>), LoadError> {
    if source.text.len() > FILE_MAX_BYTES {
        return Err(source.error(1, LoadProblem::FileTooLarge));
    }
    let root = DeTable::parse(source.text).map_err(|error| source.toml(&error, 1))?;
    let lines =
        root.get_ref().iter().map(|(key, _)| (key.get_ref().to_string(), source.line(key.span().start))).collect();
    Ok((root, lines))
}

/// Takes an array of tables out of the root.
fn tables<'a>(
    source: Source<'_>,
    root: &mut Root<'a>,
    name: &'static str,
) -> Result<Vec<Spanned<DeValue<'a>>>, LoadError> {
    let Some(value) = root.get_mut().remove(name) else { return Ok(Vec::new()) };
    let line = source.line(value.span().start);
    let DeValue::Array(array) = value.into_inner() else {
        return Err(source.error(line, LoadProblem::NotTables { name }));
    };
    let items: Vec<_> = array.into_iter().collect();
    match items.iter().find(|item| !matches!(item.get_ref(), DeValue::Table(_))) {
        Some(other) => Err(source.error(source.line(other.span().start), LoadProblem::NotTables { name })),
        None => Ok(items),
    }
}

fn decode<T: DeserializeOwned>(source: Source<'_>, root: Root<'_>, line: usize) -> Result<T, LoadError> {
    T::deserialize(toml::de::Deserializer::from(root)).map_err(|error| source.toml(&error, line))
}

fn decode_value<T: DeserializeOwned>(
    source: Source<'_>,
    value: Spanned<DeValue<'_>>,
    line: usize,
) -> Result<T, LoadError> {
    T::deserialize(ValueDeserializer::from(value)).map_err(|error| source.toml(&error, line))
}

/// Reads a step: its kind first, so that the rest is read by the kind's own type and an error has its own line.
fn step(source: Source<'_>, mut value: Spanned<DeValue<'_>>) -> Result<At<Step>, LoadError> {
    let line = first_line(source, &value);
    if let Some(offset) = find_datetime(&value) {
        return Err(source.error(source.line(offset), LoadProblem::Datetime));
    }
    let kind = match value.get_mut() {
        DeValue::Table(table) => table.remove("do"),
        _ => None,
    };
    let Some(kind) = kind else {
        return Err(source.error(line, LoadProblem::StepWithoutKind));
    };
    let kind_line = source.line(kind.span().start);
    let Some(name) = kind.get_ref().as_str().map(str::to_owned) else {
        return Err(source.error(kind_line, LoadProblem::StepWithoutKind));
    };
    let step = match name.as_str() {
        "initialize" => Step::Initialize(decode_value(source, value, line)?),
        "authenticate" => Step::Authenticate(decode_value(source, value, line)?),
        "request" => Step::Request(decode_value(source, value, line)?),
        "notify" => Step::Notify(decode_value(source, value, line)?),
        "new_session" => Step::NewSession(decode_value(source, value, line)?),
        "prompt" => Step::Prompt(decode_value(source, value, line)?),
        "cancel" => Step::Cancel(decode_value(source, value, line)?),
        "cancel_request" => Step::CancelRequest(decode_value(source, value, line)?),
        "respond" => Step::Respond(decode_value(source, value, line)?),
        "raw" => Step::Raw(decode_value(source, value, line)?),
        "wait" => Step::Wait(decode_value(source, value, line)?),
        "close_stdin" => Step::CloseStdin(decode_value(source, value, line)?),
        "signal" => Step::Signal(decode_value(source, value, line)?),
        "pause_reading" => Step::PauseReading(decode_value(source, value, line)?),
        "resume_reading" => Step::ResumeReading(decode_value(source, value, line)?),
        _ => return Err(source.error(kind_line, LoadProblem::UnknownStepKind(name))),
    };
    Ok(At { line, value: step })
}

fn requirement(source: Source<'_>, value: Spanned<DeValue<'_>>) -> Result<RequirementLines, LoadError> {
    let line = first_line(source, &value);
    let mut members = BTreeMap::new();
    if let DeValue::Table(table) = value.get_ref() {
        for (key, value) in table {
            let lines = match value.get_ref() {
                DeValue::Array(items) if !items.is_empty() => {
                    items.iter().map(|item| source.content_line(&item.span())).collect()
                }
                _ => vec![source.content_line(&value.span())],
            };
            members.insert(key.get_ref().to_string(), lines);
        }
    }
    let requirement = decode_value(source, value, line)?;
    Ok(RequirementLines { requirement, line, members })
}

/// Line of the first member of a table, else of the table itself.
fn first_line(source: Source<'_>, value: &Spanned<DeValue<'_>>) -> usize {
    let first = match value.get_ref() {
        DeValue::Table(table) => table.iter().map(|(key, _)| key.span().start).min(),
        _ => None,
    };
    source.line(first.unwrap_or(value.span().start))
}

fn find_datetime(value: &Spanned<DeValue<'_>>) -> Option<usize> {
    match value.get_ref() {
        DeValue::Datetime(_) => Some(value.span().start),
        DeValue::Array(items) => items.iter().find_map(find_datetime),
        DeValue::Table(table) => table.iter().find_map(|(_, value)| find_datetime(value)),
        _ => None,
    }
}
