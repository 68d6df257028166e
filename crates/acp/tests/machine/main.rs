//! Both ends of a connection, without a runtime: bytes are passed by hand, time is a number.

mod agent;
mod client;
mod handshake;
mod hostile;
mod load;
mod model;
mod pair;
mod permission;
mod requests;
mod turns;
