//! The macros that declare protocol types.
//!
//! `object!` declares an object, `tagged!` a union with a tag member, `words!` an open set of strings,
//! `ids!` string identifiers. A field's mode says how it is read and when it is written:
//!
//! | mode | absent | `null` | wrong type | written |
//! | --- | --- | --- | --- | --- |
//! | `req` | fault | fault | fault | always |
//! | `req_null` | fault | default | fault | always |
//! | `req_lax` | fault | default | default | always |
//! | `opt` | `None` | `None` | `None` | when there |
//! | `opt_strict` | `None` | `None` | fault | when there |
//! | `def` | default | default | default | when not default |
//! | `def_strict` | default | default | fault | when not default |
//!
//! Whatever was read as `None` or default although something was there goes to `extra` and is written back.

mod field;
mod object;
mod refuse;
mod tagged;
mod text;

pub(crate) use field::{
    field_init, field_nullable, field_present, field_read, field_require, field_setter, field_take, field_type,
    field_value,
};
pub(crate) use object::{object, object_with_meta};
pub(crate) use refuse::{
    refuse_all_but_map, refuse_all_but_seq, refuse_null, refuse_scalars, refuse_seq, serde_by_shape,
};
pub(crate) use tagged::{tagged, tagged_absent, tagged_shape};
pub(crate) use text::{ids, words};
