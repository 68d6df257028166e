//! Both ends of a session in virtual time: connected, and each rule broken once.

mod at_once;
mod at_once_model;
mod budgets;
mod core_faults;
mod driver_end;
mod pair;
mod streams;
mod together;
