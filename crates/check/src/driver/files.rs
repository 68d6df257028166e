//! `fs/read_text_file` and `fs/write_text_file` on real files below the session's directory.

use std::path::Path;

use pintle_store::beneath::{Beneath, BeneathError};
use serde_json::{Value, json};

use super::exec::FileAccess;

/// Largest file that is read for an agent, in bytes.
const MAX_FILE_BYTES: usize = 10 * 1024 * 1024;
/// JSON-RPC: the parameters do not fit.
const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC: an internal error.
const INTERNAL: i64 = -32603;
/// ACP: there is no such resource.
const NOT_FOUND: i64 = -32002;

/// Carries out one access. `Err` is the JSON-RPC error for the agent.
pub(crate) fn access(root: Option<&Beneath>, access: FileAccess) -> Result<Value, (i64, String)> {
    let root = root.ok_or_else(|| (INTERNAL, "the working directory is gone".to_owned()))?;
    match access {
        FileAccess::Read { path, line, limit } => {
            let bytes = root.read(Path::new(&path), MAX_FILE_BYTES).map_err(refusal)?;
            let text = String::from_utf8(bytes).map_err(|_| (INTERNAL, "the file is not UTF-8 text".to_owned()))?;
            Ok(json!({"content": lines(&text, line, limit)}))
        }
        FileAccess::Write { path, content } => {
            root.write(Path::new(&path), content.as_bytes()).map_err(refusal)?;
            Ok(json!({}))
        }
    }
}

/// `limit` lines from line number `line`, counted from 1, with their line endings.
fn lines(text: &str, line: Option<u64>, limit: Option<u64>) -> String {
    let skip = usize::try_from(line.unwrap_or(1).saturating_sub(1)).unwrap_or(usize::MAX);
    let take = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    text.split_inclusive('\n').skip(skip).take(take).collect()
}

fn refusal(error: BeneathError) -> (i64, String) {
    let code = match &error {
        error if error.is_outside() => INVALID_PARAMS,
        error if error.is_not_found() => NOT_FOUND,
        _ => INTERNAL,
    };
    (code, format!("failed to {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: Option<u64>, limit: Option<u64>, expected: &str) {
        assert_eq!(lines("a\nb\nc", line, limit), expected, "{line:?} {limit:?}");
    }

    #[test]
    fn line_and_limit_count_alone_and_together() {
        check(None, None, "a\nb\nc");
        check(Some(2), None, "b\nc");
        check(Some(0), None, "a\nb\nc");
        check(None, Some(2), "a\nb\n");
        check(Some(2), Some(1), "b\n");
        check(Some(9), Some(1), "");
        check(None, Some(0), "");
    }
}
