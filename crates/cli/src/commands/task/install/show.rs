//! What people see: the diff, the receipt, the snippet to paste where we may not write.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use pintle_pointer::install::Target;
use pintle_store::settings::FileChange;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

/// Lines around a change.
const CONTEXT_LINES: usize = 2;
/// Over this a diff says only how much changes.
const DIFF_MAX_BYTES: usize = 1 << 20;

/// The change of one file, as a unified diff on standard error.
pub(super) fn diff(change: &FileChange) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let (before, after) = (text(change.settings.bytes.as_deref()), text(change.after.as_deref()));
    let what = match (&change.settings.bytes, &change.after) {
        (None, _) => " (new)",
        (_, None) => " (removed)",
        _ => "",
    };
    let bold = Style::new().bold();
    writeln!(err, "{bold}{}{bold:#}{what}", change.settings.path.display())?;
    if before.len() + after.len() > DIFF_MAX_BYTES {
        return writeln!(err, "  {} bytes become {}", before.len(), after.len());
    }
    let diff = TextDiff::from_lines(&before, &after);
    for group in diff.grouped_ops(CONTEXT_LINES) {
        for line in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (sign, style) = match line.tag() {
                ChangeTag::Delete => ('-', AnsiColor::Red.on_default()),
                ChangeTag::Insert => ('+', AnsiColor::Green.on_default()),
                ChangeTag::Equal => (' ', Style::new()),
            };
            let text = line.value().trim_end_matches(['\r', '\n']);
            writeln!(err, "{style}{sign} {text}{style:#}")?;
        }
        writeln!(err)?;
    }
    Ok(())
}

/// The receipt for people.
pub(super) fn receipt(receipt: &Value, steps: &[String]) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let bold = Style::new().bold();
    for file in receipt["files"].as_array().into_iter().flatten() {
        let (agent, role, state) = (word(&file["agent"]), word(&file["role"]), word(&file["state"]));
        writeln!(out, "{agent:9} {role:7} {:12} {}", state.replace('_', " "), word(&file["path"]))?;
    }
    if let Some(backup) = receipt["backup"].as_str() {
        writeln!(out, "\nundo with: {bold}pintle task rollback --backup {backup}{bold:#}")?;
    }
    for step in steps {
        writeln!(out, "next: {step}")?;
    }
    Ok(())
}

/// What the file should hold, for a user whose settings we may not write.
pub(super) fn snippet(target: &Target) {
    let Ok(edited) = target.install(None) else { return };
    let Some(bytes) = edited.bytes else { return };
    let mut err = anstream::stderr().lock();
    // A closed standard error leaves nobody to show it to.
    let _ = writeln!(
        err,
        "what belongs into `{}`:\n\n{}",
        target.path.display(),
        String::from_utf8_lossy(&bytes).trim_end()
    );
}
