//! opencode has no shell hooks: a plugin of ours hands its events to the hook command and its context to the model.

use super::error::{EditError, EditFault};

/// In the first line of every version of the plugin. A file without it is somebody else's.
const MARK: &str = "pintle task pointer plugin";

/// The plugin for the program as installed. `options` are the words behind `task hook --agent opencode`.
pub(super) fn text(program: &str, options: &[&str]) -> String {
    let quote = |word: &str| serde_json::Value::from(word).to_string();
    let words: Vec<String> =
        ["task", "hook", "--agent", "opencode"].iter().chain(options).map(|word| quote(word)).collect();
    format!(
        r#"// {MARK}: written by `pintle task install`, removed by `pintle task uninstall`.
import {{ spawnSync }} from "node:child_process";

const PROGRAM = {program};
const ARGS = [{args}];

// One event to the hook command; its answer, or nothing when it has none or cannot run.
function hook(event, sessionID, more) {{
  if (!sessionID) return {{}};
  const input = JSON.stringify({{ hook_event_name: event, sessionID, ...more }});
  const done = spawnSync(PROGRAM, ARGS, {{ input, encoding: "utf8", timeout: 5000, windowsHide: true }});
  try {{
    return done.stdout ? JSON.parse(done.stdout) : {{}};
  }} catch {{
    return {{}};
  }}
}}

export const PintleTask = async ({{ directory }}) => ({{
  "chat.message": async (input, output) => {{
    const prompt = (output.parts ?? []).map((part) => (part.synthetic ? "" : part.text ?? "")).join("\n");
    const answer = hook("chat.message", input.sessionID, {{ cwd: directory, prompt }});
    if (answer.block) throw new Error(answer.block);
  }},
  "experimental.chat.system.transform": async (input, output) => {{
    const answer = hook("experimental.chat.system.transform", input.sessionID, {{ cwd: directory }});
    if (answer.context) output.system.push(answer.context);
  }},
  "experimental.session.compacting": async (input, output) => {{
    const answer = hook("experimental.session.compacting", input.sessionID, {{ cwd: directory }});
    if (answer.context) output.context.push(answer.context);
  }},
}});
"#,
        program = quote(program),
        args = words.join(", "),
    )
}

pub(super) fn install(current: Option<&[u8]>, text: &str) -> Result<Vec<u8>, EditError> {
    match current {
        Some(bytes) if !bytes.iter().all(u8::is_ascii_whitespace) && !is_ours(bytes) => {
            Err(EditError::new(EditFault::ForeignFile))
        }
        _ => Ok(text.as_bytes().to_vec()),
    }
}

/// The whole file is ours, so nothing is left; one that is not ours stays.
pub(super) fn uninstall(current: Vec<u8>) -> Result<Option<Vec<u8>>, EditError> {
    Ok(if is_ours(&current) { None } else { Some(current) })
}

/// The command that our plugin runs, program first.
pub(super) fn command(bytes: &[u8]) -> Option<Vec<String>> {
    let text = str::from_utf8(bytes).ok().filter(|_| is_ours(bytes))?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?.strip_suffix(';')?;
        serde_json::from_str::<serde_json::Value>(line).ok()
    };
    let program = value("const PROGRAM = ")?.as_str()?.to_owned();
    let args = value("const ARGS = ")?;
    let args = args.as_array()?.iter().filter_map(|word| word.as_str().map(str::to_owned));
    Some(std::iter::once(program).chain(args).collect())
}

fn is_ours(bytes: &[u8]) -> bool {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    String::from_utf8_lossy(first).contains(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_path_cannot_break_out_of_its_string() {
        let text = text("/a\"; process.exit();//\\", &["--on-error", "open"]);
        assert!(text.contains(r#"const PROGRAM = "/a\"; process.exit();//\\";"#), "{text}");
        assert!(text.contains(r#"["task", "hook", "--agent", "opencode", "--on-error", "open"]"#), "{text}");
    }

    #[test]
    fn somebody_elses_file_stays() {
        assert_eq!(install(Some(b"export default 1\n"), "x").expect_err("refused").fault(), EditFault::ForeignFile);
        assert_eq!(uninstall(b"export default 1\n".to_vec()), Ok(Some(b"export default 1\n".to_vec())));
        let ours = text("/p", &[]);
        assert_eq!(install(Some(ours.as_bytes()), "new").as_deref(), Ok(b"new".as_slice()));
        assert_eq!(uninstall(ours.into_bytes()), Ok(None));
    }
}
