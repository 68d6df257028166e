use std::path::PathBuf;

use super::dialect::Dialect;
use super::error::{EditError, EditFault};
use super::json_edit::{Json, JsonDoc, Step};
use super::{plugin, rules, toml_file};
use crate::Agent;

/// A file of an agent and what we want in it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where the agent reads it. It may be a symbolic link; the caller edits what it points to.
    pub path: PathBuf,
    /// What the file is for, in words for the user.
    pub role: TargetRole,
    /// Whose file it is.
    pub agent: Agent,
    /// What we want in it, in this order.
    pub changes: Vec<Change>,
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetRole {
    /// The agent's hooks, or its settings with the hooks in it.
    Hooks,
    /// The agent's MCP servers.
    Mcp,
    /// The instructions that the model reads.
    Rules,
    /// A plugin file of our own.
    Plugin,
}

impl TargetRole {
    /// The word in receipts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hooks => "hooks",
            Self::Mcp => "mcp",
            Self::Rules => "rules",
            Self::Plugin => "plugin",
        }
    }
}

/// One thing that we want in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A hook for an event, under `hooks.<event>`.
    Hook {
        /// The event's name in this agent.
        event: &'static str,
        /// Our handler.
        handler: Json,
        /// How the agent nests handlers.
        shape: HookShape,
    },
    /// A member that is ours alone.
    Member {
        /// Where it stands.
        path: Vec<&'static str>,
        /// Its value.
        value: Json,
    },
    /// A member that the format asks for: set where it is missing, and left when we go.
    Header {
        /// Its name at the root.
        name: &'static str,
        /// Its value.
        value: Json,
    },
    /// A string in a list that others use too.
    Item {
        /// Where the list stands.
        path: Vec<&'static str>,
        /// The string.
        text: &'static str,
    },
    /// The table of our MCP server in a TOML file.
    TomlServer {
        /// The program as installed.
        command: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// A marked block in a Markdown file.
    Rules {
        /// What stands between the marks.
        text: String,
    },
    /// A whole file of ours.
    File {
        /// Its content, whose first line names us.
        text: String,
    },
}

/// How an agent nests the handlers of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookShape {
    /// `[{"hooks": [handler]}]`.
    Grouped,
    /// `[handler]`.
    Flat,
}

/// Whether a change is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Presence {
    /// As we want it.
    Present,
    /// Something of ours, but not as we want it.
    Different,
    /// Nothing of ours.
    Missing,
}

/// What the user should know about an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Handlers of the user's behind ours in one group move up by one, and an agent that trusts by position asks again.
    HandlersMovedUp,
}

impl Note {
    /// The sentence for the user.
    pub const fn text(self) -> &'static str {
        match self {
            Self::HandlersMovedUp => {
                "handlers behind ours in the same group moved up by one: look at them where the agent lists its hooks"
            }
        }
    }
}

/// What a file was before our first edit of it, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// Nobody knows any more. What our leaving empties is taken for ours.
    Unknown,
    /// There was no file.
    Missing,
    /// This was its content.
    Content(&'a [u8]),
}

/// A file after an edit.
#[derive(Clone, Debug, PartialEq)]
pub struct Edited {
    /// Its new content; `None` when nothing is left that anybody wants.
    pub bytes: Option<Vec<u8>>,
    /// What the user should know.
    pub notes: Vec<Note>,
}

impl Target {
    /// The file with everything in it that we want. Equal bytes when it was all there.
    ///
    /// # Errors
    /// [`EditError`] where the file cannot be edited; nothing of it is repaired.
    pub fn install(&self, current: Option<&[u8]>) -> Result<Edited, EditError> {
        let mut bytes = current.map(<[u8]>::to_vec);
        if self.is_json() {
            let mut doc = JsonDoc::parse(current.unwrap_or_default(), self.dialect())?;
            check_hooks(&doc)?;
            for change in &self.changes {
                install_json(&mut doc, change, self.agent)?;
            }
            let untouched = current.is_some_and(|current| current.is_empty() && self.changes.is_empty());
            bytes = if untouched { bytes } else { Some(doc.to_bytes()) };
        } else {
            for change in &self.changes {
                bytes = Some(match change {
                    Change::TomlServer { command, args } => toml_file::install(bytes.as_deref(), command, args)?,
                    Change::Rules { text } => rules::install(bytes.as_deref(), text)?,
                    Change::File { text } => plugin::install(bytes.as_deref(), text)?,
                    _ => return Err(EditError::new(EditFault::Schema)),
                });
            }
        }
        Ok(Edited { bytes, notes: Vec::new() })
    }

    /// The file without anything of ours. What `origin` has stays, an empty container of the user's too; a file that did
    /// not exist goes when nothing is left in it; and where nothing but layout tells the result from the origin, its
    /// bytes come back.
    ///
    /// # Errors
    /// As [`Self::install`].
    pub fn uninstall(&self, current: &[u8], origin: Origin<'_>) -> Result<Edited, EditError> {
        if self.is_json() {
            return self.uninstall_from_json(current, origin);
        }
        let mut bytes = Some(current.to_vec());
        for change in &self.changes {
            let Some(before) = bytes else { break };
            bytes = match change {
                Change::TomlServer { .. } => Some(toml_file::uninstall(&before)?),
                Change::Rules { .. } => Some(rules::uninstall(&before)?),
                Change::File { .. } => plugin::uninstall(before)?,
                _ => Some(before),
            };
        }
        let left = bytes.as_deref().map(<[u8]>::trim_ascii_end);
        let bytes = match origin {
            Origin::Missing if left.is_some_and(<[u8]>::is_empty) => None,
            // How a file ends is ours where we wrote behind it.
            Origin::Content(before) if left == Some(before.trim_ascii_end()) => Some(before.to_vec()),
            Origin::Missing | Origin::Content(_) | Origin::Unknown => bytes,
        };
        Ok(Edited { bytes, notes: Vec::new() })
    }

    fn uninstall_from_json(&self, current: &[u8], origin: Origin<'_>) -> Result<Edited, EditError> {
        if current.trim_ascii().is_empty() {
            let bytes = (origin != Origin::Missing).then(|| current.to_vec());
            return Ok(Edited { bytes, notes: Vec::new() });
        }
        let mut notes = Vec::new();
        let mut doc = JsonDoc::parse(current, self.dialect())?;
        let before = match origin {
            Origin::Content(bytes) => JsonDoc::parse(bytes, self.dialect()).ok().map(|doc| (doc, bytes)),
            Origin::Missing | Origin::Unknown => None,
        };
        let before_doc = before.as_ref().map(|(doc, _)| doc);
        for change in &self.changes {
            uninstall_json(&mut doc, change, self.agent, before_doc, &mut notes)?;
        }
        let headers = || {
            self.changes.iter().filter_map(|change| match change {
                Change::Header { name, .. } => Some([Step::Member(name)]),
                _ => None,
            })
        };
        if let Some((before, bytes)) = &before {
            let mut bare = doc.clone();
            for header in headers().filter(|header| before.value(header).is_none()) {
                bare.remove(&header)?;
            }
            if bare.differs_in_layout_only(before) {
                return Ok(Edited { bytes: Some(bytes.to_vec()), notes });
            }
        }
        let left = match doc.value(&[]) {
            Some(Json::Map(members)) => members.len(),
            _ => 0,
        };
        let gone = origin == Origin::Missing && left <= headers().count();
        Ok(Edited { bytes: (!gone).then(|| doc.to_bytes()), notes })
    }

    /// Whether what we want is in the file: the least present of the changes.
    ///
    /// # Errors
    /// As [`Self::install`].
    pub fn presence(&self, current: Option<&[u8]>) -> Result<Presence, EditError> {
        let Some(current) = current else { return Ok(Presence::Missing) };
        if self.install(Some(current))?.bytes.as_deref() == Some(current) {
            return Ok(Presence::Present);
        }
        let without = self.uninstall(current, Origin::Unknown)?.bytes;
        Ok(if without.as_deref() == Some(current) { Presence::Missing } else { Presence::Different })
    }

    fn dialect(&self) -> Dialect {
        Dialect::of(self.agent, self.role)
    }

    fn is_json(&self) -> bool {
        !self
            .changes
            .iter()
            .any(|change| matches!(change, Change::TomlServer { .. } | Change::Rules { .. } | Change::File { .. }))
    }
}

/// Where `hooks` has a shape that the agent would not read, we do not build on it.
fn check_hooks(doc: &JsonDoc) -> Result<(), EditError> {
    let Some(hooks) = doc.value(&[Step::Member("hooks")]) else { return Ok(()) };
    let Json::Map(events) = hooks else { return Err(EditError::member(EditFault::Schema, Some("hooks"))) };
    let wrong = events.iter().find(|(_, groups)| groups.as_list().is_none() && matches!(groups, Json::Map(_)));
    wrong.map_or(Ok(()), |(event, _)| Err(EditError::member(EditFault::Schema, Some(event))))
}

fn install_json(doc: &mut JsonDoc, change: &Change, agent: Agent) -> Result<(), EditError> {
    match change {
        Change::Hook { event, handler, shape } => install_hook(doc, event, handler, *shape, agent),
        Change::Member { path, value } => doc.set(path, value),
        Change::Header { name, value } => {
            if doc.value(&[Step::Member(name)]).is_some() {
                return Ok(());
            }
            doc.set(&[name], value)
        }
        Change::Item { path, text } => {
            let steps: Vec<Step<'_>> = path.iter().copied().map(Step::Member).collect();
            let listed = doc.value(&steps).and_then(|list| list.as_list().map(<[Json]>::to_vec)).unwrap_or_default();
            if listed.iter().any(|item| item.as_text() == Some(text)) {
                return Ok(());
            }
            doc.push(path, &Json::text(*text))
        }
        Change::TomlServer { .. } | Change::Rules { .. } | Change::File { .. } => Ok(()),
    }
}

fn install_hook(
    doc: &mut JsonDoc,
    event: &str,
    handler: &Json,
    shape: HookShape,
    agent: Agent,
) -> Result<(), EditError> {
    let groups = groups(doc, event);
    let ours = places(&groups, shape, agent);
    if let Some((group, inner)) = ours.first() {
        doc.replace(&hook_path(event, *group, *inner), handler)?;
        // A second one would run us twice.
        for (group, inner) in ours.iter().skip(1).rev() {
            take_out(doc, event, *group, *inner, None, &mut Vec::new())?;
        }
        return Ok(());
    }
    match shape {
        HookShape::Flat => doc.push(&["hooks", event], handler),
        HookShape::Grouped => {
            let group = Json::map([("hooks", Json::List(vec![handler.clone()]))]);
            match groups.iter().position(is_tombstone) {
                None => doc.push(&["hooks", event], &group),
                Some(at) => {
                    let slot = [Step::Member("hooks"), Step::Member(event), Step::Item(at), Step::Member("hooks")];
                    doc.push_into(&slot, handler)
                }
            }
        }
    }
}

/// `before` is the file as it was before our first edit, where that is known.
fn uninstall_json(
    doc: &mut JsonDoc,
    change: &Change,
    agent: Agent,
    before: Option<&JsonDoc>,
    notes: &mut Vec<Note>,
) -> Result<(), EditError> {
    match change {
        Change::Hook { event, shape, .. } => {
            let ours = places(&groups(doc, event), *shape, agent);
            for (group, inner) in ours.iter().rev() {
                take_out(doc, event, *group, *inner, before, notes)?;
            }
            if !ours.is_empty() {
                prune(doc, &["hooks", event], before)?;
            }
            Ok(())
        }
        Change::Member { path, .. } => {
            let steps: Vec<Step<'_>> = path.iter().copied().map(Step::Member).collect();
            if doc.value(&steps).is_none() {
                return Ok(());
            }
            // Without the last one of that name, the one before it would come to life.
            while doc.value(&steps).is_some() {
                doc.remove(&steps)?;
            }
            prune(doc, &path[..path.len().saturating_sub(1)], before)
        }
        Change::Item { path, text } => {
            let mut steps: Vec<Step<'_>> = path.iter().copied().map(Step::Member).collect();
            let listed = doc.value(&steps).and_then(|list| list.as_list().map(<[Json]>::to_vec)).unwrap_or_default();
            let Some(at) = listed.iter().position(|item| item.as_text() == Some(text)) else { return Ok(()) };
            let was_there = before.and_then(|before| before.value(&steps));
            if was_there.is_some_and(|list| list.as_list().is_some_and(|list| list.contains(&Json::text(*text)))) {
                return Ok(());
            }
            steps.push(Step::Item(at));
            doc.remove(&steps)?;
            prune(doc, path, before)
        }
        Change::Header { .. } | Change::TomlServer { .. } | Change::Rules { .. } | Change::File { .. } => Ok(()),
    }
}

/// Takes one handler of ours out without moving anybody else's group.
fn take_out(
    doc: &mut JsonDoc,
    event: &str,
    group: usize,
    inner: Option<usize>,
    before: Option<&JsonDoc>,
    notes: &mut Vec<Note>,
) -> Result<(), EditError> {
    let base = [Step::Member("hooks"), Step::Member(event), Step::Item(group)];
    let Some(inner) = inner else { return doc.remove(&base) };
    let handlers = doc
        .value(&[base[0], base[1], base[2], Step::Member("hooks")])
        .and_then(|list| list.as_list().map(<[Json]>::len))
        .unwrap_or(0);
    if inner + 1 < handlers {
        notes.push(Note::HandlersMovedUp);
    }
    // An empty group of the user's, into which ours went.
    let was_empty = before.is_some_and(|before| groups(before, event).get(group).is_some_and(is_tombstone));
    if handlers == 1 && group + 1 == groups(doc, event).len() && !was_empty {
        doc.remove(&base)?;
        // The empty groups that we left in front of others go when nobody is behind them any more.
        let Some(theirs) = before.map(|before| groups(before, event).len()) else { return Ok(()) };
        while let Some(last) = groups(doc, event).len().checked_sub(1).filter(|last| *last >= theirs) {
            if !groups(doc, event).last().is_some_and(is_tombstone) {
                break;
            }
            doc.remove(&[Step::Member("hooks"), Step::Member(event), Step::Item(last)])?;
        }
        return Ok(());
    }
    doc.remove(&[base[0], base[1], base[2], Step::Member("hooks"), Step::Item(inner)])
}

/// Removes a container that our leaving has emptied, and the ones around it, but for those that were there before us,
/// and for one that hides another of its name: what the user never ran would run.
fn prune(doc: &mut JsonDoc, path: &[&str], before: Option<&JsonDoc>) -> Result<(), EditError> {
    for end in (1..=path.len()).rev() {
        let steps: Vec<Step<'_>> = path[..end].iter().copied().map(Step::Member).collect();
        let empty = match doc.value(&steps) {
            Some(Json::Map(members)) => members.is_empty(),
            Some(Json::List(items)) => items.is_empty(),
            _ => false,
        };
        if !empty || doc.times(&path[..end]) > 1 || before.is_some_and(|before| before.value(&steps).is_some()) {
            break;
        }
        doc.remove(&steps)?;
    }
    Ok(())
}

fn groups(doc: &JsonDoc, event: &str) -> Vec<Json> {
    doc.value(&[Step::Member("hooks"), Step::Member(event)])
        .and_then(|groups| groups.as_list().map(<[Json]>::to_vec))
        .unwrap_or_default()
}

fn hook_path(event: &str, group: usize, inner: Option<usize>) -> Vec<Step<'_>> {
    let mut path = vec![Step::Member("hooks"), Step::Member(event), Step::Item(group)];
    if let Some(inner) = inner {
        path.extend([Step::Member("hooks"), Step::Item(inner)]);
    }
    path
}

/// Where our handlers stand: group, and the place in the group where the agent has groups.
pub(super) fn places(groups: &[Json], shape: HookShape, agent: Agent) -> Vec<(usize, Option<usize>)> {
    let mut found = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        match shape {
            HookShape::Flat if is_ours(group, agent) => found.push((at, None)),
            HookShape::Flat => {}
            HookShape::Grouped => {
                let handlers = group.get("hooks").and_then(Json::as_list).unwrap_or_default();
                let inner = handlers.iter().enumerate().filter(|(_, handler)| is_ours(handler, agent));
                found.extend(inner.map(|(inner, _)| (at, Some(inner))));
            }
        }
    }
    found
}

/// A handler is ours when it runs our hook command for this agent, in whichever form and from whichever path.
pub(super) fn is_ours(handler: &Json, agent: Agent) -> bool {
    let args = handler.get("args").and_then(Json::as_list).unwrap_or_default();
    let words: Vec<&str> = args.iter().filter_map(Json::as_text).collect();
    if let ["task" | "pointer", "hook", "--agent", name, ..] = words.as_slice() {
        return *name == agent.as_str();
    }
    ["command", "commandWindows", "bash", "powershell"].iter().any(|member| {
        let Some(command) = handler.get(member).and_then(Json::as_text) else { return false };
        ["task", "pointer"].iter().any(|word| {
            let ours = format!(" {word} hook --agent {agent}");
            command
                .match_indices(&ours)
                .any(|(at, _)| command[at + ours.len()..].chars().next().is_none_or(char::is_whitespace))
        })
    })
}

fn is_tombstone(group: &Json) -> bool {
    matches!(group, Json::Map(members) if members.len() == 1)
        && group.get("hooks").and_then(Json::as_list).is_some_and(<[Json]>::is_empty)
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
