//! The task pointer: state v3, the compare-and-swap decision, hook events and host adapters, without IO.
