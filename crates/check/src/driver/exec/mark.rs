//! The lines that a wait may look back on.

use std::collections::VecDeque;

use serde_json::Value;

/// Lines that are remembered; older ones no wait can find.
const MAX_MARKS: usize = 4_096;

/// One line that came in, as far as waits care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    line: u64,
    method: Option<String>,
    request: bool,
    /// `sessionUpdate` of a `session/update`.
    update: Option<String>,
}

/// What a wait looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Any line; with a method, a request or notification of it.
    Frame(Option<String>),
    /// A request of the agent, of this method if one is given.
    Call(Option<String>),
    /// A `session/update`, of this kind if one is given.
    Update(Option<String>),
}

/// The lines that came in and that no wait has used.
#[derive(Debug, Default)]
pub(super) struct Marks(VecDeque<Mark>);

impl Mark {
    pub(super) fn other(line: u64) -> Self {
        Self { line, method: None, request: false, update: None }
    }

    pub(super) fn request(line: u64, method: String) -> Self {
        Self { line, method: Some(method), request: true, update: None }
    }

    pub(super) fn notification(line: u64, method: String, params: &Value) -> Self {
        let update = (method == "session/update").then(|| {
            let kind = params.pointer("/update/sessionUpdate").and_then(Value::as_str);
            kind.unwrap_or_default().to_owned()
        });
        Self { line, method: Some(method), request: false, update }
    }

    fn matches(&self, pattern: &Pattern) -> bool {
        let fits = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        match pattern {
            Pattern::Frame(method) => fits(method, &self.method),
            Pattern::Call(method) => self.request && fits(method, &self.method),
            Pattern::Update(kind) => self.update.is_some() && fits(kind, &self.update),
        }
    }
}

impl Marks {
    /// A line came in.
    pub(super) fn push(&mut self, mark: Mark) {
        if self.0.len() == MAX_MARKS {
            self.0.pop_front();
        }
        self.0.push_back(mark);
    }

    /// Uses the first line behind `after_line` that matches.
    pub(super) fn take(&mut self, pattern: &Pattern, after_line: u64) -> Option<u64> {
        let found = self.0.iter().position(|mark| mark.line > after_line && mark.matches(pattern))?;
        self.0.remove(found).map(|mark| mark.line)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn marks() -> Marks {
        let mut marks = Marks::default();
        marks.push(Mark::other(1));
        let update = |kind: &str| json!({"update": {"sessionUpdate": kind}});
        marks.push(Mark::notification(2, "session/update".into(), &update("plan")));
        marks.push(Mark::request(3, "fs/read_text_file".into()));
        marks.push(Mark::notification(4, "session/update".into(), &update("tool_call")));
        marks
    }

    #[test]
    fn a_line_satisfies_one_wait() {
        let mut marks = marks();
        assert_eq!(marks.take(&Pattern::Update(None), 0), Some(2));
        assert_eq!(marks.take(&Pattern::Update(None), 0), Some(4));
        assert_eq!(marks.take(&Pattern::Update(None), 0), None);
        assert_eq!(marks.take(&Pattern::Frame(None), 0), Some(1));
    }

    #[test]
    fn patterns_are_as_narrow_as_they_say() {
        let mut marks = marks();
        assert_eq!(marks.take(&Pattern::Update(Some("tool_call".into())), 0), Some(4));
        assert_eq!(marks.take(&Pattern::Call(Some("terminal/create".into())), 0), None);
        assert_eq!(marks.take(&Pattern::Call(None), 0), Some(3));
        assert_eq!(marks.take(&Pattern::Frame(Some("session/update".into())), 2), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut marks = Marks::default();
        for line in 0..3 * MAX_MARKS as u64 {
            marks.push(Mark::other(line));
        }
        assert_eq!(marks.0.len(), MAX_MARKS);
    }
}
