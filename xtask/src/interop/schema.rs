//! What our ends said while scenarios were played, against the JSON Schema that the protocol's authors publish.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::install::{self, Missing, Places};

/// Which end of a recorded connection is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Client,
    Agent,
    Both,
}

impl Whose {
    /// Of a client that plays with our mock agent.
    pub fn of_client(name: &str) -> Self {
        if name == "pintle-client" { Self::Both } else { Self::Agent }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Agent => "agent",
            Self::Both => "both",
        }
    }
}

/// The recordings.
#[derive(Default)]
pub struct Said(Vec<(Whose, PathBuf)>);

impl Said {
    /// The agent's command with a tee before it.
    pub fn recorded(&mut self, places: &Places, name: &str, whose: Whose, agent: &[String]) -> Vec<String> {
        let path = places.dir.join("interop").join(format!("{name}.trace.ndjson"));
        // It would be appended to.
        let _ = fs::remove_file(&path);
        self.0.push((whose, path.clone()));
        let tee = ["trace", "--no-redact", "--out"].map(str::to_owned);
        let pintle = places.pintle.display().to_string();
        [&[pintle][..], &tee, &[path.display().to_string(), "--".to_owned()], agent].concat()
    }

    /// Holds all of them against the schema. Where both ends are ours, all that can be said must have been.
    pub fn check(&self, places: &Places) -> Result<String, Missing> {
        let schema = install::published_schema(places)?;
        let program = install::schema_check(places)?;
        let mut lines = Vec::new();
        let mut faults = Vec::new();
        for (whose, trace) in self.0.iter().filter(|(_, trace)| trace.exists()) {
            let mut command = Command::new(&program);
            command.arg(&schema).arg(whose.word()).arg(trace);
            if *whose == Whose::Both {
                command.arg("--all");
            }
            let output = command.stdin(Stdio::null()).output().map_err(|e| Missing::at(&program, e))?;
            let name = trace.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = name.trim_end_matches(".trace.ndjson");
            match output.status.success() {
                true => lines.push(format!("{name}: {}", String::from_utf8_lossy(&output.stdout).trim())),
                false => faults.push(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())),
            }
        }
        match (faults.is_empty(), lines.is_empty()) {
            (false, _) => Err(Missing::Failed(faults.join("\n  "))),
            (true, true) => Err(Missing::Failed("nothing was recorded".to_owned())),
            (true, false) => Ok(format!("{} plays\n  {}", lines.len(), lines.join("\n  "))),
        }
    }
}
