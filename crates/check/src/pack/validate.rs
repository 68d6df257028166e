//! Checks that a pack makes sense as a whole: forms, references, expressions.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::document::{ManifestDocument, RequirementLines, ScenarioDocument, Source};
use super::error::{LoadError, LoadProblem};
use super::model::{Manifest, PACK_SCHEMA, SCENARIO_SCHEMA, Timeouts};
use super::steps::{PromptStep, RawStep, RespondStep, Step, WaitFor, WaitStep};
use crate::cel::{Scope, Want, check};

/// Most scenarios of a pack.
pub const SCENARIOS_MAX: usize = 512;
/// Most steps of a scenario.
pub const STEPS_MAX: usize = 256;
/// Most requirements of a file.
pub const REQUIREMENTS_MAX: usize = 256;
/// Most assertions of a requirement.
pub const ASSERTIONS_MAX: usize = 32;
/// Longest wait, in milliseconds: ten minutes.
pub const WAIT_MAX_MS: u64 = 600_000;
/// Most bytes that one `raw` step writes: 64 MiB.
pub const RAW_MAX_BYTES: u64 = 64 << 20;

/// Checks that run over every file of a pack.
pub(super) struct Validator {
    /// Expressions of an embedded pack were checked by the tests of this crate.
    check_expressions: bool,
    prompts: BTreeSet<String>,
    scenarios: BTreeMap<String, String>,
    requirements: BTreeMap<String, RequirementPlace>,
}

struct RequirementPlace {
    file: String,
    line: usize,
    depends: Vec<(String, usize)>,
}

impl Validator {
    pub(super) fn new(check_expressions: bool) -> Self {
        Self { check_expressions, prompts: BTreeSet::new(), scenarios: BTreeMap::new(), requirements: BTreeMap::new() }
    }

    pub(super) fn manifest(&mut self, source: Source<'_>, document: &ManifestDocument) -> Result<(), LoadError> {
        let manifest = &document.manifest;
        let line = |member: &str| document.lines.get(member).copied().unwrap_or(1);
        schema(source, line("schema"), PACK_SCHEMA, &manifest.schema)?;
        form(source, line("name"), "the name", &manifest.name, KEBAB, is_kebab)?;
        form(source, line("version"), "the version", &manifest.version, "a SemVer version, as 1.2.3", is_semver)?;
        timeouts(source, line("timeouts_ms"), manifest.timeouts_ms)?;
        for (key, prompt) in &manifest.prompts {
            form(source, line("prompts"), "the prompt key", key, SNAKE, is_snake)?;
            form(source, line("prompts"), "the prompt's text", &prompt.text, "not empty", |text| {
                !text.trim().is_empty()
            })?;
        }
        self.prompts(manifest);
        self.requirements(source, &document.requirements, &Scope::default())
    }

    /// Makes the prompts of a manifest known.
    pub(super) fn prompts(&mut self, manifest: &Manifest) {
        self.prompts = manifest.prompts.keys().cloned().collect();
    }

    pub(super) fn scenario(&mut self, source: Source<'_>, document: &ScenarioDocument) -> Result<(), LoadError> {
        let scenario = &document.scenario;
        let line = |member: &str| document.lines.get(member).copied().unwrap_or(1);
        schema(source, line("schema"), SCENARIO_SCHEMA, &scenario.schema)?;
        form(source, line("id"), "the scenario id", &scenario.id, KEBAB, is_kebab)?;
        if self.scenarios.len() >= SCENARIOS_MAX {
            return Err(source.error(1, LoadProblem::TooMany { what: "scenarios", limit: SCENARIOS_MAX }));
        }
        let place = format!("{}:{}", source.file, line("id"));
        if let Some(first) = self.scenarios.get(&scenario.id) {
            return Err(source.error(
                line("id"),
                LoadProblem::Duplicate { what: "the scenario id", name: scenario.id.clone(), place: first.clone() },
            ));
        }
        self.scenarios.insert(scenario.id.clone(), place);
        timeouts(source, line("timeouts_ms"), scenario.timeouts_ms.apply(Timeouts::default()))?;
        let scope = self.steps(source, document)?;
        self.requirements(source, &document.requirements, &scope)
    }

    /// Checks what spans files: dependencies.
    pub(super) fn finish(&self) -> Result<(), LoadError> {
        for (id, place) in &self.requirements {
            for (dependency, line) in &place.depends {
                let source = Source { file: &place.file, text: "" };
                if !self.requirements.contains_key(dependency) {
                    return Err(source.error(
                        *line,
                        LoadProblem::UnknownReference {
                            what: "requirement",
                            name: dependency.clone(),
                            known: String::new(),
                        },
                    ));
                }
                if self.reaches(dependency, id, &mut BTreeSet::new()) {
                    return Err(source.error(*line, LoadProblem::DependencyCycle(id.clone(), dependency.clone())));
                }
            }
        }
        Ok(())
    }

    fn reaches(&self, from: &str, to: &str, seen: &mut BTreeSet<String>) -> bool {
        if from == to {
            return true;
        }
        if !seen.insert(from.to_owned()) {
            return false;
        }
        let depends = self.requirements.get(from).map(|place| place.depends.as_slice()).unwrap_or_default();
        depends.iter().any(|(next, _)| self.reaches(next, to, seen))
    }

    /// Checks the steps and gives the names that expressions may use.
    fn steps(&self, source: Source<'_>, document: &ScenarioDocument) -> Result<Scope, LoadError> {
        if document.steps.is_empty() {
            return Err(source.error(1, LoadProblem::NoSteps));
        }
        if let Some(over) = document.steps.get(STEPS_MAX) {
            return Err(source.error(over.line, LoadProblem::TooMany { what: "steps", limit: STEPS_MAX }));
        }
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let mut sessions = BTreeSet::new();
        for step in &document.steps {
            let fail = |problem| Err(source.error(step.line, problem));
            if let Err(problem) = self.step(&step.value, &names, &sessions) {
                return fail(problem);
            }
            let Some(name) = step.value.name() else { continue };
            if !is_name(name) {
                return fail(LoadProblem::Form { what: "the name", value: name.to_owned(), form: NAME });
            }
            if let Some(first) = names.insert(name.to_owned(), step.line) {
                return fail(LoadProblem::Duplicate {
                    what: "the name",
                    name: name.to_owned(),
                    place: format!("{}:{first}", source.file),
                });
            }
            if matches!(step.value, Step::NewSession(_)) {
                sessions.insert(name.to_owned());
            }
        }
        Ok(Scope { steps: names.into_keys().collect() })
    }

    fn step(
        &self,
        step: &Step,
        names: &BTreeMap<String, usize>,
        sessions: &BTreeSet<String>,
    ) -> Result<(), LoadProblem> {
        let named = |what, name: &String| match names.contains_key(name) {
            true => Ok(()),
            false => Err(unknown(what, name, names.keys())),
        };
        let session = |name: &String| match sessions.contains(name) {
            true => Ok(()),
            false => Err(unknown("session", name, sessions.iter())),
        };
        let variables = |text: &str| check_variables(text, names, sessions);
        for path in step.needs() {
            if !is_path(path) {
                return Err(LoadProblem::Form { what: "the capability path", value: path.clone(), form: PATH });
            }
        }
        match step {
            Step::Initialize(step) => wait_fits(step.timeout_ms),
            Step::Authenticate(step) => wait_fits(step.timeout_ms),
            Step::NewSession(step) => {
                step.cwd
                    .iter()
                    .chain(step.additional_directories.iter().flatten())
                    .try_for_each(|text| variables(text))?;
                step.mcp_servers.iter().flatten().try_for_each(|server| each_string(server, &variables))?;
                wait_fits(step.timeout_ms)
            }
            Step::Request(step) => {
                params(step.params.as_ref(), step.params_json.as_deref(), "request", &variables)?;
                json(step.id.as_deref(), "id")?;
                wait_fits(step.timeout_ms)
            }
            Step::Notify(step) => params(step.params.as_ref(), step.params_json.as_deref(), "notify", &variables),
            Step::Prompt(step) => {
                session(&step.session)?;
                self.prompt(step)?;
                step.blocks.iter().flatten().chain(&step.meta).try_for_each(|value| each_string(value, &variables))?;
                wait_fits(step.timeout_ms)
            }
            Step::Cancel(step) => session(&step.session),
            Step::CancelRequest(step) => named("request", &step.of),
            Step::Respond(step) => {
                step.result_json.iter().try_for_each(|text| variables(text))?;
                respond(step)
            }
            Step::Raw(step) => {
                step.text.iter().try_for_each(|text| variables(text))?;
                raw(step)
            }
            Step::Wait(step) => {
                step.of.iter().try_for_each(|of| named("request", of))?;
                wait(step)
            }
            Step::CloseStdin(_) | Step::Signal(_) | Step::PauseReading(_) | Step::ResumeReading(_) => Ok(()),
        }
    }

    fn prompt(&self, step: &PromptStep) -> Result<(), LoadProblem> {
        let given = [step.prompt.is_some(), step.text.is_some(), step.blocks.is_some()];
        if given.iter().filter(|given| **given).count() != 1 {
            return Err(LoadProblem::Members { step: "prompt", rule: "exactly one of `prompt`, `text` and `blocks`" });
        }
        if let Some(name) = step.text.as_deref().and_then(first_variable) {
            return Err(LoadProblem::NotFilled { member: "text", name: name.to_owned() });
        }
        match &step.prompt {
            Some(key) if !self.prompts.contains(key) => Err(unknown("prompt", key, self.prompts.iter())),
            _ => Ok(()),
        }
    }

    fn requirements(
        &mut self,
        source: Source<'_>,
        requirements: &[RequirementLines],
        scope: &Scope,
    ) -> Result<(), LoadError> {
        if let Some(over) = requirements.get(REQUIREMENTS_MAX) {
            let problem = LoadProblem::TooMany { what: "requirements in one file", limit: REQUIREMENTS_MAX };
            return Err(source.error(over.line, problem));
        }
        for item in requirements {
            let requirement = &item.requirement;
            form(source, item.line_of("id", 0), "the requirement id", &requirement.id, ID, is_requirement_id)?;
            form(source, item.line_of("area", 0), "the area", &requirement.area, KEBAB, is_kebab)?;
            for (member, text) in
                [("title", &requirement.title), ("spec", &requirement.spec), ("why", &requirement.why)]
            {
                let not_empty = |text: &str| !text.trim().is_empty();
                form(source, item.line_of(member, 0), member_name(member), text, "not empty", not_empty)?;
            }
            if requirement.assert.is_empty() {
                return Err(source.error(item.line_of("assert", 0), LoadProblem::NoAssertion));
            }
            if requirement.assert.len() > ASSERTIONS_MAX {
                let problem = LoadProblem::TooMany { what: "assertions", limit: ASSERTIONS_MAX };
                return Err(source.error(item.line, problem));
            }
            for (index, path) in requirement.needs.iter().enumerate() {
                form(source, item.line_of("needs", index), "the capability path", path, PATH, is_path)?;
            }
            if self.check_expressions {
                expressions(source, item, scope)?;
            }
            let depends = requirement.depends.iter().enumerate();
            let place = RequirementPlace {
                file: source.file.to_owned(),
                line: item.line_of("id", 0),
                depends: depends.map(|(index, id)| (id.clone(), item.line_of("depends", index))).collect(),
            };
            if let Some(first) = self.requirements.get(&requirement.id) {
                return Err(source.error(
                    place.line,
                    LoadProblem::Duplicate {
                        what: "the requirement id",
                        name: requirement.id.clone(),
                        place: format!("{}:{}", first.file, first.line),
                    },
                ));
            }
            self.requirements.insert(requirement.id.clone(), place);
        }
        Ok(())
    }
}

fn expressions(source: Source<'_>, item: &RequirementLines, scope: &Scope) -> Result<(), LoadError> {
    let requirement = &item.requirement;
    let one = |member: &'static str, index: usize, text: &str, want| {
        check(text, want, scope).map_err(|error| {
            let line = item.line_of(member, index) + error.line;
            source.error(line, LoadProblem::Expression { member, source: error })
        })
    };
    let optional = [
        ("advertised", &requirement.advertised, Want::Bool),
        ("exercised", &requirement.exercised, Want::Bool),
        ("inconclusive_if", &requirement.inconclusive_if, Want::Bool),
        ("observed", &requirement.observed, Want::Text),
        ("show", &requirement.show, Want::Entries),
    ];
    for (member, text, want) in optional {
        if let Some(text) = text {
            one(member, 0, text, want)?;
        }
    }
    requirement.assert.iter().enumerate().try_for_each(|(index, text)| one("assert", index, text, Want::Bool))
}

fn respond(step: &RespondStep) -> Result<(), LoadProblem> {
    let given = [step.outcome.is_some(), step.result_json.is_some(), step.error.is_some()];
    if given.iter().filter(|given| **given).count() != 1 {
        return Err(LoadProblem::Members {
            step: "respond",
            rule: "exactly one of `outcome`, `result_json` and `error`",
        });
    }
    if step.outcome.is_some() && step.method != "session/request_permission" {
        return Err(LoadProblem::Members {
            step: "respond",
            rule: "`method = \"session/request_permission\"` for `outcome`",
        });
    }
    json(step.result_json.as_deref(), "result_json")
}

fn raw(step: &RawStep) -> Result<(), LoadProblem> {
    let given = [step.text.is_some(), step.base64.is_some(), step.repeat.is_some()];
    if given.iter().filter(|given| **given).count() != 1 {
        return Err(LoadProblem::Members { step: "raw", rule: "exactly one of `text`, `base64` and `repeat`" });
    }
    json(step.id.as_deref(), "id")?;
    if let Some(encoded) = &step.base64
        && STANDARD.decode(encoded).is_err()
    {
        return Err(LoadProblem::NotBase64);
    }
    if let Some(repeat) = &step.repeat {
        let bytes = (repeat.unit.len() as u64)
            .saturating_mul(u64::from(repeat.count))
            .saturating_add((repeat.prefix.len() + repeat.suffix.len()) as u64);
        if bytes > RAW_MAX_BYTES {
            return Err(LoadProblem::TooManyBytes { bytes, limit: RAW_MAX_BYTES });
        }
    }
    Ok(())
}

fn wait(step: &WaitStep) -> Result<(), LoadProblem> {
    wait_fits(step.timeout_ms)?;
    wait_fits(step.quiet_ms)?;
    let rule = match step.until {
        WaitFor::Reply if step.of.is_none() => "`of`, the name of the request, for `for = \"reply\"`",
        WaitFor::Call if step.method.is_none() => "`method` for `for = \"call\"`",
        WaitFor::Call | WaitFor::Frame if step.update.is_some() => "`update` only with `for = \"update\"`",
        WaitFor::Exit | WaitFor::Reply if step.method.is_some() => "`method` only with `call` and `frame`",
        until if until != WaitFor::Quiet && step.quiet_ms.is_some() => "`quiet_ms` only with `for = \"quiet\"`",
        _ => return Ok(()),
    };
    Err(LoadProblem::Members { step: "wait", rule })
}

fn params(
    table: Option<&Value>,
    text: Option<&str>,
    step: &'static str,
    variables: &dyn Fn(&str) -> Result<(), LoadProblem>,
) -> Result<(), LoadProblem> {
    if table.is_some() && text.is_some() {
        return Err(LoadProblem::Members { step, rule: "at most one of `params` and `params_json`" });
    }
    if let Some(text) = text {
        json(Some(text), "params_json")?;
        variables(text)?;
    }
    table.map_or(Ok(()), |value| each_string(value, variables))
}

fn json(text: Option<&str>, member: &'static str) -> Result<(), LoadProblem> {
    let Some(text) = text else { return Ok(()) };
    // Any grammar-conforming text, however deep and with names twice: a scenario may mean it.
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(LoadProblem::NotJson { member, reason: error.to_string() }),
    }
}

fn each_string(value: &Value, check: &dyn Fn(&str) -> Result<(), LoadProblem>) -> Result<(), LoadProblem> {
    match value {
        Value::String(text) => check(text),
        Value::Array(items) => items.iter().try_for_each(|item| each_string(item, check)),
        Value::Object(members) => members.values().try_for_each(|value| each_string(value, check)),
        _ => Ok(()),
    }
}

/// The first `${..}` of a text, whether it would be filled in or not.
fn first_variable(text: &str) -> Option<&str> {
    let (_, behind) = text.split_once("${")?;
    behind.split_once('}').map(|(name, _)| name)
}

/// Checks the `${..}` of a text.
fn check_variables(
    text: &str,
    names: &BTreeMap<String, usize>,
    sessions: &BTreeSet<String>,
) -> Result<(), LoadProblem> {
    // `$${` is a plain `${`.
    for part in text.replace("$${", "").split("${").skip(1) {
        let Some((variable, _)) = part.split_once('}') else { continue };
        let known = match (variable.strip_prefix("id:"), variable.strip_prefix("reply:")) {
            (Some(name), _) => names.contains_key(name),
            (None, Some(path)) => path.split('/').next().is_some_and(|name| names.contains_key(name)),
            (None, None) => variable == "cwd" || sessions.contains(variable),
        };
        if !known {
            return Err(unknown("variable", variable, sessions.iter()));
        }
    }
    Ok(())
}

fn unknown<'a>(what: &'static str, name: &str, known: impl Iterator<Item = &'a String>) -> LoadProblem {
    let names: Vec<_> = known.map(String::as_str).collect();
    let known = match names.is_empty() {
        true => String::new(),
        false => format!("; there are {}", names.join(", ")),
    };
    LoadProblem::UnknownReference { what, name: name.to_owned(), known }
}

fn wait_fits(ms: Option<u64>) -> Result<(), LoadProblem> {
    match ms {
        Some(ms) if ms > WAIT_MAX_MS => Err(LoadProblem::TooLong { ms, limit: WAIT_MAX_MS }),
        _ => Ok(()),
    }
}

fn timeouts(source: Source<'_>, line: usize, of: Timeouts) -> Result<(), LoadError> {
    [of.start, of.request, of.prompt, of.quiet, of.close_grace, of.term_grace]
        .into_iter()
        .try_for_each(|ms| wait_fits(Some(ms)))
        .map_err(|problem| source.error(line, problem))
}

fn schema(source: Source<'_>, line: usize, expected: &'static str, found: &str) -> Result<(), LoadError> {
    match found == expected {
        true => Ok(()),
        false => Err(source.error(line, LoadProblem::Schema { expected, found: found.to_owned() })),
    }
}

fn form(
    source: Source<'_>,
    line: usize,
    what: &'static str,
    value: &str,
    form: &'static str,
    fits: impl Fn(&str) -> bool,
) -> Result<(), LoadError> {
    match fits(value) {
        true => Ok(()),
        false => Err(source.error(line, LoadProblem::Form { what, value: value.to_owned(), form })),
    }
}

fn member_name(member: &str) -> &'static str {
    match member {
        "title" => "the title",
        "spec" => "the spec reference (`-` where the specification is silent)",
        _ => "the reason (`why`)",
    }
}

const KEBAB: &str = "lower-case words joined by `-`";
const SNAKE: &str = "lower-case words joined by `_`";
const NAME: &str = "a letter, then letters, digits and `_`, at most 64";
const ID: &str = "upper-case words and numbers joined by `-`, as ACP-INIT-001";
const PATH: &str = "member names joined by `.`, as agentCapabilities.loadSession";

fn words(text: &str, separator: char, fits: impl Fn(char) -> bool) -> bool {
    text.len() <= 128
        && !text.is_empty()
        && text.split(separator).all(|word| !word.is_empty() && word.chars().all(&fits))
}

fn is_kebab(text: &str) -> bool {
    words(text, '-', |c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

fn is_snake(text: &str) -> bool {
    words(text, '_', |c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

fn is_requirement_id(text: &str) -> bool {
    text.contains('-')
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && words(text, '-', |c| c.is_ascii_uppercase() || c.is_ascii_digit())
}

fn is_path(text: &str) -> bool {
    words(text, '.', |c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_semver(text: &str) -> bool {
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<_> = core.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()))
}
