//! Prints a schema, to be checked in: `cargo run -p pintle-pointer --example schemas -- state-v3`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a command line around the pure crate")]

use pintle_pointer::{publish_request_schema, state_schema};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("publish-request-v3") => print!("{}", publish_request_schema()),
        _ => print!("{}", state_schema()),
    }
}
