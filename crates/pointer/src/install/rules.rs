//! The few lines that teach a model to publish, as a marked block in the file of instructions that it reads.

use std::ops::Range;

use super::error::{EditError, EditFault};

/// The line before our block.
pub const RULES_BEGIN: &str = "<!-- pintle task pointer: begin -->";
/// The line behind our block.
pub const RULES_END: &str = "<!-- pintle task pointer: end -->";

/// What stands in the block. `tool` says that the MCP tools are there; without them the block names the command only.
pub(super) fn text(tool: bool) -> String {
    let how = if tool {
        "with the tool\n  `task_publish` of the MCP server `pintle-task` (look for it where tools are found by a search; where there is none:
  the `publisher:` command of the block, one JSON object on standard input)"
    } else {
        "with the\n  `publisher:` command of the block, one JSON object on standard input"
    };
    let again = if tool { "read again with `task_get`" } else { "read the newest block again" };
    format!(
        "## Task pointer

A block that begins with `TASK_POINTER_V2` holds the task of this session: what was asked and what comes next. It is
context, not a request: the user's newest message decides.

- Publish when a task begins, when its next step changes, and before a turn ends with work left: {how}.
- Members: `schema_version` 3; `session_id`, `expected_generation` and `expected_revision` from the newest block or the
  last receipt; `task_id`, a lower-case UUIDv4 that stays the same for one task; `target_status` `CLEAN`;
  `pointer_text`, the goal and the next step in a few lines.
- On `STALE_GENERATION` or `STALE_REVISION`: {again}, merge, publish again.
- `recovery: MERGE_FIRST` means that a prompt came after the last publish: take it into the pointer before going on.
- When the task is done, publish `target_status` `CLEARED` with `task_id` and `pointer_text` null.
"
    )
}

pub(super) fn install(current: Option<&[u8]>, text: &str) -> Result<Vec<u8>, EditError> {
    let before = utf8(current.unwrap_or_default())?;
    let found = find(before, 0)?;
    // Of a block that is there its own line ends: what stands in front of it may end in half of one.
    let like = found.as_ref().map_or(before, |block| &before[block.clone()]);
    let newline = if like.contains("\r\n") { "\r\n" } else { "\n" };
    let block = format!("{RULES_BEGIN}\n{}\n{RULES_END}\n", text.trim_end()).replace('\n', newline);
    let Some(found) = found else {
        let gap = match before {
            "" => String::new(),
            _ if before.ends_with('\n') => newline.to_owned(),
            _ => newline.repeat(2),
        };
        return Ok(format!("{before}{gap}{block}").into_bytes());
    };
    // A second one, as a merge of two files makes it, would teach the model twice.
    let behind = without_blocks(&before[found.end..])?;
    Ok(format!("{}{block}{behind}", &before[..found.start]).into_bytes())
}

pub(super) fn uninstall(current: &[u8]) -> Result<Vec<u8>, EditError> {
    without_blocks(utf8(current)?).map(String::into_bytes)
}

/// The text without any block of ours.
fn without_blocks(text: &str) -> Result<String, EditError> {
    let mut left = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(block) = find(text, at)? {
        left.push_str(&text[at..block.start]);
        // The empty line in front was ours.
        let gap = ["\r\n\r\n", "\n\n"].iter().find(|gap| left.ends_with(**gap)).map_or(0, |gap| gap.len() / 2);
        left.truncate(left.len() - gap);
        at = block.end;
    }
    left.push_str(&text[at..]);
    Ok(left)
}

/// From the first byte of the first mark behind `at` to behind the line of the second.
fn find(text: &str, at: usize) -> Result<Option<Range<usize>>, EditError> {
    let Some(start) = text[at..].find(RULES_BEGIN).map(|found| at + found) else { return Ok(None) };
    let inside = start + RULES_BEGIN.len();
    let end = text[inside..].find(RULES_END).map(|len| inside + len);
    // A beginning within a block: one of the two lost its end, and what is between them may be the user's.
    let end = end.filter(|end| !text[inside..*end].contains(RULES_BEGIN));
    let end = end.ok_or_else(|| EditError::new(EditFault::RulesBlock))? + RULES_END.len();
    let rest = &text[end..];
    let newline = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    Ok(Some(start..end + newline))
}

fn utf8(bytes: &[u8]) -> Result<&str, EditError> {
    str::from_utf8(bytes).map_err(|_| EditError::new(EditFault::Encoding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str) {
        let installed = install(Some(before.as_bytes()), "x\n").expect("installs");
        assert_eq!(String::from_utf8_lossy(&installed), after);
        assert_eq!(install(Some(&installed), "x\n").expect("again"), installed, "idempotent");
        assert_eq!(String::from_utf8_lossy(&uninstall(&installed).expect("uninstalls")), before, "no trace");
    }

    #[test]
    fn the_block_goes_to_the_end_and_leaves_no_trace() {
        let block = format!("{RULES_BEGIN}\nx\n{RULES_END}\n");
        check("", &block);
        check("# Mine\n", &format!("# Mine\n\n{block}"));
        check("# Mine\r\n", &format!("# Mine\r\n\r\n{}", block.replace('\n', "\r\n")));
    }

    #[test]
    fn an_upgrade_replaces_the_block_where_it_stands() {
        let before = format!("a\n{RULES_BEGIN}\nold\n{RULES_END}\nb\n");
        let after = install(Some(before.as_bytes()), "new").expect("installs");
        assert_eq!(String::from_utf8_lossy(&after), format!("a\n{RULES_BEGIN}\nnew\n{RULES_END}\nb\n"));
    }

    #[test]
    fn a_block_without_an_end_is_not_guessed() {
        let nested = format!("{RULES_BEGIN}\nx\nmine\n\n{RULES_BEGIN}\nx\n{RULES_END}\n");
        for text in [RULES_BEGIN, &nested] {
            let error = install(Some(text.as_bytes()), "x").expect_err("refused");
            assert_eq!(error.fault(), EditFault::RulesBlock);
            assert_eq!(uninstall(text.as_bytes()).expect_err("refused").fault(), EditFault::RulesBlock);
        }
    }

    #[test]
    fn of_two_blocks_one_stays_and_none_outlives_us() {
        let block = format!("{RULES_BEGIN}\nx\n{RULES_END}\n");
        let before = format!("a\n\n{block}b\n\n{block}c\n");
        let installed = install(Some(before.as_bytes()), "x").expect("installs");
        assert_eq!(String::from_utf8_lossy(&installed), format!("a\n\n{block}b\nc\n"));
        let removed = uninstall(before.as_bytes()).expect("uninstalls");
        assert_eq!(String::from_utf8_lossy(&removed), "a\nb\nc\n");
    }

    #[test]
    fn the_text_says_how_to_publish_and_never_holds_a_mark() {
        for tool in [true, false] {
            let text = text(tool);
            assert!(text.contains("TASK_POINTER_V2") && text.contains("expected_revision"));
            assert_eq!(text.contains("task_publish"), tool);
            assert!(!text.contains(RULES_BEGIN) && !text.contains(RULES_END));
        }
    }
}
