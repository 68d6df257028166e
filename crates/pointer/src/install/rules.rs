//! The few lines that teach a model to publish, as a marked block in the file of instructions that it reads.

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
    let found = find(before)?;
    // Of a block that is there its own line ends: what stands in front of it may end in half of one.
    let like = found.map_or(before, |(start, end)| &before[start..end]);
    let newline = if like.contains("\r\n") { "\r\n" } else { "\n" };
    let block = format!("{RULES_BEGIN}\n{}\n{RULES_END}\n", text.trim_end()).replace('\n', newline);
    let after = match found {
        Some((start, end)) => format!("{}{block}{}", &before[..start], &before[end..]),
        None if before.is_empty() => block,
        None => {
            let gap = if before.ends_with('\n') { newline.to_owned() } else { newline.repeat(2) };
            format!("{before}{gap}{block}")
        }
    };
    Ok(after.into_bytes())
}

pub(super) fn uninstall(current: &[u8]) -> Result<Vec<u8>, EditError> {
    let before = utf8(current)?;
    let Some((start, end)) = find(before)? else { return Ok(current.to_vec()) };
    let head = &before[..start];
    // The empty line in front was ours.
    let head = ["\r\n\r\n", "\n\n"]
        .iter()
        .find_map(|gap| head.strip_suffix(gap).map(|_| &head[..head.len() - gap.len() / 2]))
        .unwrap_or(head);
    Ok(format!("{head}{}", &before[end..]).into_bytes())
}

/// From the first byte of the first mark to behind the line of the second.
fn find(text: &str) -> Result<Option<(usize, usize)>, EditError> {
    let Some(start) = text.find(RULES_BEGIN) else { return Ok(None) };
    let Some(len) = text[start..].find(RULES_END) else { return Err(EditError::new(EditFault::RulesBlock)) };
    let end = start + len + RULES_END.len();
    let rest = &text[end..];
    let newline = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    Ok(Some((start, end + newline)))
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
        let error = install(Some(RULES_BEGIN.as_bytes()), "x").expect_err("refused");
        assert_eq!(error.fault(), EditFault::RulesBlock);
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
