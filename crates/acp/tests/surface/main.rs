//! The protocol's surface: method table, types, and what is kept of what is not known.

mod chunks;
mod corpus;
mod leniency;
mod lossless;
mod methods;
mod registry;
mod values;
mod vectors;
