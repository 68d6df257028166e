//! The integration tests of this crate, in one program: each further one would be linked with all of the crate again.

mod archive;
mod atomic_crash;
mod evidence;
mod pointer_crash;
mod pointer_files;
mod settings_faults;
