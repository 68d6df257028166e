//! The integration tests of this crate, in one program: each further one would be linked with all of the crate again.

mod evidence_formats;
mod judge_tables;
mod late_answers;
mod mock_agent;
mod reports;
mod script;
