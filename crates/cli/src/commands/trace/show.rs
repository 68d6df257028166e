//! `pintle trace show`: a recording for people, or for the next program.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum};
use pintle_store::{Fs, FsFile, OpenHow, RealFs, fsx};
use serde::Deserialize;
use serde_json::Value;

use super::row::{Dir, End, Frame, Row, SCHEMA};
use super::traces_dir;
use crate::commands::evidence::count;
use crate::error::CommandError;
use crate::exit::Exit;

/// How often a recording that is still being written is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Read at a time.
const READ_BYTES: usize = 256 * 1024;
/// Longest row: what is kept of a line at most, every byte of it escaped.
const ROW_BYTES: usize = 64 * 1024 * 1024;
/// How much of a frame a line for people shows.
const PREVIEW_CHARS: usize = 100;
/// Open requests that are remembered, to say what an answer answers.
const MAX_OPEN: usize = 4096;

/// Options of `show`.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The recording; `latest` is the newest below the state directory.
    #[arg(value_name = "FILE")]
    file: String,
    /// Go on with what is written from now on, until the agent has ended.
    #[arg(long)]
    follow: bool,
    /// Only frames with protocol faults.
    #[arg(long)]
    faults: bool,
    /// A line for each frame, or the rows as they are.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    #[default]
    Human,
    Json,
}

impl ShowArgs {
    pub(super) fn json(&self) -> bool {
        self.format == Format::Json
    }
}

/// Shows it.
pub(super) fn run(args: &ShowArgs) -> Result<Exit, CommandError> {
    let path = if args.file == "latest" { latest()? } else { PathBuf::from(&args.file) };
    let file =
        fsx::open(&RealFs, &path, OpenHow::Read).map_err(|error| CommandError::caused(Exit::Usage, "trace", &error))?;
    let mut reader = Reader { file, path, offset: 0, pending: Vec::new(), line: 0, skipping: false };
    let mut out = anstream::stdout().lock();
    let mut view = View { faults_only: args.faults, format: args.format, ..View::default() };
    loop {
        while let Some(row) = reader.next()? {
            view.row(&mut out, &row)?;
        }
        out.flush()?;
        if !args.follow || view.is_over {
            break;
        }
        thread::sleep(LOOK_EVERY);
    }
    if let Some(torn) = reader.torn()? {
        view.note(&mut out, &torn)?;
    }
    view.finish(&mut out)?;
    Ok(Exit::Ok)
}

fn latest() -> Result<PathBuf, CommandError> {
    let dir = traces_dir().map_err(|error| CommandError::caused(Exit::Usage, "home", &error))?;
    newest(&RealFs, &dir).ok_or_else(|| {
        let missing = CommandError::usage(format!("show the latest recording: there is none in `{}`", dir.display()));
        missing.hint("`pintle trace -- AGENT` makes one")
    })
}

/// The names begin with their time.
fn newest(fs: &dyn Fs, dir: &Path) -> Option<PathBuf> {
    let names = fsx::read_dir(fs, dir).ok()?.into_iter().map(|entry| entry.name);
    names.filter(|name| name.to_string_lossy().contains(".ndjson")).max().map(|name| dir.join(name))
}

/// The rows of a file that may still grow.
struct Reader {
    file: Box<dyn FsFile>,
    path: PathBuf,
    offset: u64,
    pending: Vec<u8>,
    line: u64,
    /// A row over the bound is passed over up to its end.
    skipping: bool,
}

/// A row, as it stands in the file and as what it means.
enum Shown {
    Row(Vec<u8>, Box<Row>),
    Note(String),
}

impl Reader {
    /// The next whole row, if there is one.
    fn next(&mut self) -> Result<Option<Shown>, CommandError> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let rest = self.pending.split_off(end + 1);
                let mut row = std::mem::replace(&mut self.pending, rest);
                row.pop();
                self.line += 1;
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                return Ok(Some(self.parsed(row)));
            }
            if self.pending.len() > ROW_BYTES {
                self.pending.clear();
                if !std::mem::replace(&mut self.skipping, true) {
                    return Ok(Some(Shown::Note(format!("row {} is longer than any of ours", self.line + 1))));
                }
            }
            let mut chunk = vec![0; READ_BYTES];
            let read = fsx::read_at(&*self.file, &self.path, &mut chunk, self.offset)
                .map_err(|error| CommandError::caused(Exit::Failed, "trace", &error))?;
            if read == 0 {
                return Ok(None);
            }
            self.offset += read as u64;
            self.pending.extend_from_slice(&chunk[..read]);
        }
    }

    fn parsed(&self, row: Vec<u8>) -> Shown {
        match serde_json::from_slice::<Row>(&row) {
            Ok(Row::Start(start)) if start.schema != SCHEMA => Shown::Note(format!(
                "row {}: a trace of the format `{}`, which this version does not know",
                self.line,
                plain(&start.schema, PREVIEW_CHARS)
            )),
            Ok(parsed) => Shown::Row(row, Box::new(parsed)),
            Err(_) => Shown::Note(format!("row {} is not a row of a trace", self.line)),
        }
    }

    /// What is left without its end: a crash, or a row that is being written.
    fn torn(&self) -> Result<Option<Shown>, CommandError> {
        let bytes = self.pending.len();
        Ok((bytes > 0)
            .then(|| Shown::Note(format!("the last row is not whole: there is {} of it", count(bytes as u64, "byte")))))
    }
}

/// What was shown, and what is needed to show the rest.
#[derive(Default)]
struct View {
    faults_only: bool,
    format: Format,
    open: HashMap<(Dir, String), String>,
    is_over: bool,
    has_begun: bool,
}

/// The members of a frame that its line shows.
#[derive(Deserialize)]
struct Message {
    id: Option<Value>,
    method: Option<String>,
    params: Option<Value>,
    result: Option<Value>,
    error: Option<Value>,
}

const DIM: Style = Style::new().dimmed();
const RED: Style = AnsiColor::Red.on_default().bold();
const OUT: Style = AnsiColor::Cyan.on_default();
const IN: Style = AnsiColor::Green.on_default();

impl View {
    fn row(&mut self, out: &mut dyn Write, shown: &Shown) -> io::Result<()> {
        let (bytes, row) = match shown {
            Shown::Row(bytes, row) => (bytes, row),
            Shown::Note(_) => return self.note(out, shown),
        };
        self.is_over = matches!(**row, Row::End(_));
        self.has_begun = true;
        let hidden = self.faults_only && matches!(&**row, Row::Frame(frame) if frame.faults.is_empty());
        if self.format == Format::Json {
            if !hidden {
                out.write_all(bytes)?;
                out.write_all(b"\n")?;
            }
            return Ok(());
        }
        match &**row {
            Row::Start(start) => {
                let argv: Vec<String> = start.argv.iter().map(|word| plain(word, PREVIEW_CHARS)).collect();
                let kept = if start.redacted { "secrets replaced" } else { "secrets kept" };
                self.open.clear();
                writeln!(
                    out,
                    "{DIM}trace of{DIM:#} {} {DIM}in {}, {}, {kept}{DIM:#}",
                    argv.join(" "),
                    plain(&start.cwd, PREVIEW_CHARS),
                    plain(&start.started, PREVIEW_CHARS)
                )
            }
            Row::Frame(frame) => {
                let summary = self.summary(frame);
                if hidden { Ok(()) } else { frame_line(out, frame, &summary) }
            }
            Row::Lost { t_ns, dir, bytes } => {
                let bytes = count(*bytes, "byte");
                writeln!(out, "{} {RED}not recorded: {bytes} {}{RED:#}", time(*t_ns), whither(*dir))
            }
            Row::Unwritten { rows } => {
                writeln!(out, "{:>12} {RED}{} could not be written{RED:#}", "", count(*rows, "row"))
            }
            Row::Limit { bytes } => {
                writeln!(out, "{:>12} {RED}the file has reached its {bytes} bytes{RED:#}", "")
            }
            Row::Eof { t_ns, dir } if !self.faults_only => {
                writeln!(out, "{} {DIM}end of what goes {}{DIM:#}", time(*t_ns), whither(*dir))
            }
            Row::Refused { t_ns, dir } => {
                writeln!(out, "{} {RED}nobody reads what goes {} any more{RED:#}", time(*t_ns), whither(*dir))
            }
            Row::Exit { t_ns, code, signal } => {
                let how = match (code, signal) {
                    (Some(code), _) => format!("exited with {code}"),
                    (_, Some(signal)) => format!("died of signal {signal}"),
                    _ => "ended, nobody knows how".to_owned(),
                };
                writeln!(out, "{} the agent {how}", time(*t_ns))
            }
            Row::End(end) => end_lines(out, end),
            Row::Eof { .. } => Ok(()),
        }
    }

    fn note(&mut self, out: &mut dyn Write, note: &Shown) -> io::Result<()> {
        let Shown::Note(text) = note else { return Ok(()) };
        match self.format {
            Format::Human => writeln!(out, "{:>12} {RED}{text}{RED:#}", ""),
            Format::Json => writeln!(out, "{}", serde_json::json!({ "type": "note", "message": text })),
        }
    }

    fn finish(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.format == Format::Human && self.has_begun && !self.is_over {
            writeln!(out, "{:>12} {DIM}no end: it goes on, or was cut off{DIM:#}", "")?;
        }
        out.flush()
    }

    /// What a frame says, in a few words; remembers what answers will need.
    fn summary(&mut self, frame: &Frame) -> String {
        let Some(text) = &frame.text else {
            return format!("{} bytes that are not UTF-8", frame.len);
        };
        if frame.cut {
            return format!("{} bytes, beginning {}", frame.len, plain(text, PREVIEW_CHARS));
        }
        let Ok(message) = serde_json::from_str::<Message>(text) else {
            return plain(text, PREVIEW_CHARS);
        };
        let id = message.id.as_ref().map(|id| plain(&id.to_string(), PREVIEW_CHARS));
        match (message.method, id) {
            (Some(method), Some(id)) => {
                if self.open.len() >= MAX_OPEN {
                    self.open.clear();
                }
                self.open.insert((frame.dir, id.clone()), method.clone());
                format!("{} #{id}{}", plain(&method, PREVIEW_CHARS), detail(message.params.as_ref()))
            }
            (Some(method), None) => {
                format!("{}{}", plain(&method, PREVIEW_CHARS), detail(message.params.as_ref()))
            }
            (None, Some(id)) => {
                let asked = self.open.remove(&(frame.dir.other(), id.clone()));
                let asked = asked.map_or("an answer".to_owned(), |method: String| plain(&method, PREVIEW_CHARS));
                match (message.error, message.result) {
                    (Some(error), _) => format!("{asked} #{id} failed: {}", plain(&error.to_string(), PREVIEW_CHARS)),
                    (None, Some(result)) => format!("{asked} #{id} = {}", plain(&result.to_string(), PREVIEW_CHARS)),
                    (None, None) => plain(text, PREVIEW_CHARS),
                }
            }
            (None, None) => plain(text, PREVIEW_CHARS),
        }
    }
}

fn frame_line(out: &mut dyn Write, frame: &Frame, summary: &str) -> io::Result<()> {
    let (arrow, style) = match frame.dir {
        Dir::ToAgent => ("->", OUT),
        Dir::FromAgent => ("<-", IN),
    };
    writeln!(out, "{} {style}{arrow}{style:#} {summary}", time(frame.t_ns))?;
    for fault in &frame.faults {
        let (code, message) = (plain(&fault.code, PREVIEW_CHARS), plain(&fault.message, 2 * PREVIEW_CHARS));
        writeln!(out, "{:>12}    {RED}{code}{RED:#}: {message}", "")?;
    }
    Ok(())
}

fn end_lines(out: &mut dyn Write, end: &End) -> io::Result<()> {
    let lines = |dir| end.lines.get(&dir).copied().unwrap_or(0);
    let (to, from) = (count(lines(Dir::ToAgent), "line"), lines(Dir::FromAgent));
    writeln!(out, "{} {DIM}{to} to the agent, {from} from it{DIM:#}", time(end.t_ns))?;
    for (code, frames) in &end.faults {
        let frames = count(*frames, "frame");
        writeln!(out, "{:>12} {RED}{}{RED:#}: {frames}", "", plain(code, PREVIEW_CHARS))?;
    }
    for open in &end.unanswered {
        let (method, id) = (plain(&open.method, PREVIEW_CHARS), plain(&open.id, PREVIEW_CHARS));
        writeln!(out, "{:>12} {DIM}not answered: {method} #{id}, sent {}{DIM:#}", "", whither(open.dir))?;
    }
    Ok(())
}

/// The params in a few words: of an update, its session, kind and text.
fn detail(params: Option<&Value>) -> String {
    let Some(params) = params else { return String::new() };
    let mut text = String::from(" ");
    if let Some(kind) = params["update"]["sessionUpdate"].as_str() {
        let session = params["sessionId"].as_str().unwrap_or("?");
        let _ = write!(text, "{} {}", plain(session, PREVIEW_CHARS), plain(kind, PREVIEW_CHARS));
        if let Some(said) = params["update"]["content"]["text"].as_str() {
            let _ = write!(text, " {}", plain(&format!("{said:?}"), PREVIEW_CHARS));
        } else if let Some(title) = params["update"]["title"].as_str() {
            let _ = write!(text, " {}", plain(&format!("{title:?}"), PREVIEW_CHARS));
        }
    } else {
        text.push_str(&plain(&params.to_string(), PREVIEW_CHARS));
    }
    text
}

/// Seconds since the start, right-aligned.
fn time(t_ns: u64) -> String {
    format!("{:>+11.3}s", Duration::from_nanos(t_ns).as_secs_f64())
}

fn whither(dir: Dir) -> &'static str {
    match dir {
        Dir::ToAgent => "to the agent",
        Dir::FromAgent => "from the agent",
    }
}

/// At most `limit` characters, none of which a terminal would obey.
fn plain(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == limit {
            shown.push_str("..");
            break;
        }
        if c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(plain(text, 10), expected);
    }

    /// What a peer wrote cannot move the cursor, nor turn the reading direction.
    #[test]
    fn terminals_obey_nothing_of_a_peers() {
        check("plain", "plain");
        check("\x1b[2Jx", "\\u{1b}[2Jx");
        check("a\nb\u{9b}", "a\\u{a}b\\u{9b}");
        check("\u{202e}evil", "\\u{202e}evil");
        check("0123456789", "0123456789");
        check("0123456789x", "0123456789..");
    }
}
