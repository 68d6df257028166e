//! What installing changes, and how it is undone (section 8 of the protocol's notes, amendments A3 and A6).
//!
//! Everything here is a function from the bytes of a settings file to its new bytes. The caller reads and writes, makes
//! the backup and asks the user. Four rules hold for every agent:
//!
//! * **Append.** Our hook goes behind what is there, and an upgrade edits it in place: Codex keys its trust by position,
//!   so a hook that is put in front switches the user's own hooks off without a word.
//! * **Tombstone.** Taking ours out from the middle leaves an empty group in its slot, for the same reason.
//! * **Refuse.** A file that the agent itself would drop whole is reported with the place, never repaired; whatever the
//!   agent takes is edited ([`Dialect`]).
//! * **Nothing else moves.** Key order, indentation, comments, line ends and the bytes of others stay; and where nobody
//!   edited a file since, taking ours out gives back every byte, white space and empty containers included ([`Origin`]).

mod change;
mod dialect;
mod error;
mod hosts;
mod installed;
mod json_edit;
mod json_text;
mod plugin;
mod rules;
mod setup;
mod toml_file;
mod trust;

pub use change::{Change, Edited, HookShape, Note, Origin, Presence, Target, TargetRole};
pub use dialect::{Dialect, SETTINGS_MAX_DEPTH};
pub use error::{EditError, EditFault};
pub use hosts::{Dirs, Host};
pub use installed::{Installed, hooks_switch, installed_server};
pub use json_edit::{Json, JsonDoc, SETTINGS_MAX_BYTES, Step};
pub use rules::{RULES_BEGIN, RULES_END};
pub use setup::{MCP_SERVER, Setup};
pub use trust::{TrustEntry, TrustStatus, codex_trust_entries, codex_trust_status};
