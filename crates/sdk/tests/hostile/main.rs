//! Peers that misbehave, against agents and clients as people write them: raw lines on one side, handlers on the other.
//!
//! All in virtual time: a wait of an hour costs nothing, and "stuck" means that nothing in the program can go on.
//! `docs/hostile-peers.md` lists the reports behind these tests.

mod agent;
mod client;
mod raw;
mod rules;
