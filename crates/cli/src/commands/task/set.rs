//! `pintle task set`, `done` and `clear`: a person's publish.

use clap::Args;
use pintle_pointer::{Code, Pointer, PointerText, State, Task, TaskId, success_receipt};
use pintle_store::pointer::fresh;

use super::publish::{Refused, note_directory, publish_over};
use super::roots::{Where, meant_session};
use super::{Format, REFUSED, print};
use crate::error::CommandError;
use crate::exit::Exit;

/// Options of `set`.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Goal and next step, in a few lines; at most 8192 bytes.
    text: String,
    #[command(flatten)]
    target: Target,
    /// Give the task a new id although one is recorded.
    #[arg(long)]
    new_task: bool,
}

/// Options of `done` and `clear`.
#[derive(Debug, Args)]
pub(crate) struct ClearArgs {
    #[command(flatten)]
    target: Target,
}

/// Which session, and how to print.
#[derive(Debug, Args)]
struct Target {
    #[command(flatten)]
    place: Where,
    /// The session; default: the one whose agent runs this command, else the one used last in this directory.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print for people, or the receipt of a publish.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Records a task.
pub(super) fn set(args: &SetArgs) -> Result<Exit, CommandError> {
    let (root, session) = meant_session(&args.target.place, args.target.session.as_deref())?;
    let result = publish_over(&root, &session, |observed| {
        let text = PointerText::publish(&args.text).map_err(|error| Refused::new(error.code(), error))?;
        let id = match observed.task() {
            Some(task) if !args.new_task => task.id.clone(),
            _ => TaskId::from_random(fresh()?.random),
        };
        Ok(Pointer::Clean(Task { id, text }))
    });
    if result.is_ok() {
        note_directory(&root, &session);
    }
    report(&args.target, result, "recorded")
}

/// Ends a task; without one there is nothing to end.
pub(super) fn done(args: &ClearArgs) -> Result<Exit, CommandError> {
    let (root, session) = meant_session(&args.target.place, args.target.session.as_deref())?;
    let result = publish_over(&root, &session, |observed| {
        if observed.task().is_some() {
            Ok(Pointer::Cleared)
        } else {
            Err(Refused::new(Code::PointerEmpty, "no task is recorded for this session"))
        }
    });
    report(&args.target, result, "done")
}

/// Forgets a task, and makes a new fence in any case.
pub(super) fn clear(args: &ClearArgs) -> Result<Exit, CommandError> {
    let (root, session) = meant_session(&args.target.place, args.target.session.as_deref())?;
    let result = publish_over(&root, &session, |_| Ok(Pointer::Cleared));
    report(&args.target, result, "cleared")
}

fn report(target: &Target, result: Result<State, Refused>, verb: &str) -> Result<Exit, CommandError> {
    let (text, exit) = match (&result, target.format) {
        (Ok(state), Format::Json) => (success_receipt(state), Exit::Ok),
        (Err(refused), Format::Json) => (refused.receipt(), REFUSED),
        (Ok(state), Format::Human) => {
            (format!("{verb}: session {}, revision {}", state.session_id, state.revision), Exit::Ok)
        }
        (Err(refused), Format::Human) => {
            let class = refused.code.as_str();
            return Err(CommandError::new(REFUSED, class, format!("publish: {class}: {}", refused.message)));
        }
    };
    print(&format!("{text}\n"))?;
    Ok(exit)
}
