//! The integration tests of this crate, in one program: each further one would be linked with all of the crate again.

mod check;
mod check_disk;
mod check_input;
mod check_isolation;
mod check_killed;
mod driver_kit;
mod evidence;
mod exec;
mod plumbing;
mod prompt;
mod task;
mod task_doctor;
mod task_hostile;
mod task_install;
mod task_mcp;
mod task_uninstall;
mod trace;
mod user;
mod world;
