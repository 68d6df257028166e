//! What a field does in each mode: its type, how it is read, taken, written, set.

macro_rules! field_type {
    (opt $ty:ty) => { Option<$ty> };
    (opt_strict $ty:ty) => { Option<$ty> };
    ($mode:ident $ty:ty) => { $ty };
}

macro_rules! field_read {
    (req, $rest:expr, $slot:expr, $wire:literal, $source:expr) => {
        $slot = $rest.member($wire, $source, false, false)?
    };
    (req_null, $rest:expr, $slot:expr, $wire:literal, $source:expr) => {
        $slot = Some($rest.member($wire, $source, false, true)?.unwrap_or_default())
    };
    (req_lax, $rest:expr, $slot:expr, $wire:literal, $source:expr) => {
        $slot = Some($rest.member($wire, $source, true, true)?.unwrap_or_default())
    };
    (opt, $rest:expr, $slot:expr, $wire:literal, $source:expr) => {
        $slot = $rest.member($wire, $source, true, true)?
    };
    (opt_strict, $rest:expr, $slot:expr, $wire:literal, $source:expr) => {
        $slot = $rest.member($wire, $source, false, true)?
    };
    (def, $rest:expr, $slot:expr, $wire:literal, $source:expr) => {{
        $slot = $rest.member($wire, $source, true, true)?;
        $rest.spelled_default($wire, &$slot);
    }};
    (def_strict, $rest:expr, $slot:expr, $wire:literal, $source:expr) => {{
        $slot = $rest.member($wire, $source, false, true)?;
        $rest.spelled_default($wire, &$slot);
    }};
}

macro_rules! field_require {
    (req, $rest:expr, $slot:expr, $wire:literal) => {
        if $slot.is_none() {
            $rest.missing($wire);
        }
    };
    (req_null, $rest:expr, $slot:expr, $wire:literal) => {
        crate::types::declare::field_require!(req, $rest, $slot, $wire)
    };
    (req_lax, $rest:expr, $slot:expr, $wire:literal) => {
        crate::types::declare::field_require!(req, $rest, $slot, $wire)
    };
    ($mode:ident, $rest:expr, $slot:expr, $wire:literal) => {};
}

macro_rules! field_take {
    (opt, $field:ident, $slot:expr, $wire:literal) => {
        let $field = $slot;
    };
    (opt_strict, $field:ident, $slot:expr, $wire:literal) => {
        let $field = $slot;
    };
    (def, $field:ident, $slot:expr, $wire:literal) => {
        let $field = $slot.unwrap_or_default();
    };
    (def_strict, $field:ident, $slot:expr, $wire:literal) => {
        let $field = $slot.unwrap_or_default();
    };
    ($mode:ident, $field:ident, $slot:expr, $wire:literal) => {
        let Some($field) = $slot else {
            return Err(crate::types::shape::Malformed::new(
                crate::types::shape::Fault::missing($wire),
                crate::types::Raw::null(),
            ));
        };
    };
}

macro_rules! field_present {
    (opt, $value:expr, $extra:expr, $wire:literal) => {
        $value.is_some()
    };
    (opt_strict, $value:expr, $extra:expr, $wire:literal) => {
        $value.is_some()
    };
    (def, $value:expr, $extra:expr, $wire:literal) => {
        !crate::types::object::is_default(&$value)
    };
    (def_strict, $value:expr, $extra:expr, $wire:literal) => {
        !crate::types::object::is_default(&$value)
    };
    (req, $value:expr, $extra:expr, $wire:literal) => {
        true
    };
    ($mode:ident, $value:expr, $extra:expr, $wire:literal) => {
        !crate::types::object::is_default(&$value) || $extra.get($wire).is_none()
    };
}

macro_rules! field_value {
    (opt, $value:expr) => {
        $value.as_ref()
    };
    (opt_strict, $value:expr) => {
        $value.as_ref()
    };
    ($mode:ident, $value:expr) => {
        Some(&$value)
    };
}

macro_rules! field_init {
    (req, $arg:ident) => {
        $arg.into()
    };
    (req_lax, $arg:ident) => {
        $arg.into()
    };
    ($mode:ident, $arg:ident) => {
        Default::default()
    };
}

macro_rules! field_setter {
    (opt, $field:ident, $ty:ty, $wire:literal) => {
        #[doc = concat!("Sets `", $wire, "`.")]
        #[must_use]
        pub fn $field(mut self, value: impl Into<$ty>) -> Self {
            self.$field = Some(value.into());
            self
        }
    };
    (opt_strict, $field:ident, $ty:ty, $wire:literal) => {
        crate::types::declare::field_setter!(opt, $field, $ty, $wire);
    };
    (def, $field:ident, $ty:ty, $wire:literal) => {
        #[doc = concat!("Sets `", $wire, "`.")]
        #[must_use]
        pub fn $field(mut self, value: impl Into<$ty>) -> Self {
            self.$field = value.into();
            self
        }
    };
    (def_strict, $field:ident, $ty:ty, $wire:literal) => {
        crate::types::declare::field_setter!(def, $field, $ty, $wire);
    };
    (req_null, $field:ident, $ty:ty, $wire:literal) => {
        crate::types::declare::field_setter!(def, $field, $ty, $wire);
    };
    ($mode:ident, $field:ident, $ty:ty, $wire:literal) => {};
}

macro_rules! field_nullable {
    (req) => {
        false
    };
    (def) => {
        false
    };
    ($mode:ident) => {
        true
    };
}

pub(crate) use {
    field_init, field_nullable, field_present, field_read, field_require, field_setter, field_take, field_type,
    field_value,
};
