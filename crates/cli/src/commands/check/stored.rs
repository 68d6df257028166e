//! `pintle judge`: stored evidence, judged again.

use std::path::PathBuf;

use clap::Args;
use pintle_check::cel::Worker;
use pintle_check::pack::Pack;
use pintle_check::run::StoredCheck;

use super::output::{self, Files, Place};
use super::{Format, Judging, request};
use crate::commands::evidence::Located;
use crate::error::CommandError;
use crate::exit::Exit;

/// What `pintle judge` is told.
#[derive(Debug, Args)]
pub(crate) struct JudgeArgs {
    /// The run: `latest`, its id or the beginning of it, or the path of its directory, of a directory that a check was
    /// given as `--out` (its latest run), or of an exported `.zip`.
    #[arg(value_name = "RUN", default_value = "latest")]
    run: String,
    /// Judge by another pack than the one that the run was made with.
    #[arg(long, value_name = "PACK")]
    pack: Option<String>,
    /// Write every report format into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    judging: Judging,
}

impl JudgeArgs {
    /// Whether errors are wanted as JSON.
    pub(crate) fn json(&self) -> bool {
        self.judging.format == Format::Json
    }
}

/// Runs it.
pub(crate) fn run(args: &JudgeArgs) -> Result<Exit, CommandError> {
    let refused = |class, error: &dyn std::error::Error| CommandError::caused(Exit::Usage, class, error);
    let located = Located::find(&args.run, None)?;
    let check = StoredCheck::load(&located.stored).map_err(|error| refused("run", &error))?;
    let pack = pack(args, &check)?;
    if pack.digest != check.facts.pack.digest {
        output::note(&format!(
            "the pack {} {} is not as it was when the run was made",
            pack.manifest.name, pack.manifest.version
        ));
    }
    let baseline = args.judging.baseline.as_deref().map(request::read_baseline).transpose()?;
    output::try_places(&args.files, args.out.as_deref())?;
    let fail_on = args.judging.fail_on.into();
    let mut evaluator = Worker::new(request::evaluator(request::this_program()?));
    let mut report = check.judge(&pack, fail_on, &mut evaluator);
    if let Some(baseline) = &baseline {
        report = report.compared(baseline, fail_on);
    }
    let place = Place { run: None, out: args.out.as_deref() };
    output::show(&report, place, &args.files, args.judging.format)?;
    Ok(output::exit(&report))
}

/// The pack of the run: built in by its name, or where it was.
fn pack(args: &JudgeArgs, check: &StoredCheck) -> Result<Pack, CommandError> {
    let facts = &check.facts.pack;
    let wanted = match &args.pack {
        Some(pack) => pack.as_str(),
        None if facts.origin == "built in" => facts.name.as_str(),
        None => facts.origin.as_str(),
    };
    request::load_pack(wanted)
}
