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

macro_rules! refuse_scalars {
    ($expected:expr) => {
        fn visit_bool<E>(self, v: bool) -> Result<Self::Value, E> {
            Ok(crate::types::shape::Token::Bool(v).refuse($expected))
        }

        fn visit_i64<E>(self, v: i64) -> Result<Self::Value, E> {
            Ok(crate::types::shape::Token::Int(v).refuse($expected))
        }

        fn visit_u64<E>(self, v: u64) -> Result<Self::Value, E> {
            Ok(crate::types::shape::Token::Uint(v).refuse($expected))
        }

        fn visit_f64<E>(self, v: f64) -> Result<Self::Value, E> {
            Ok(crate::types::shape::Token::Float(v).refuse($expected))
        }

        fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
            Ok(crate::types::shape::Token::Str(v.to_owned().into()).refuse($expected))
        }
    };
}

macro_rules! refuse_null {
    ($expected:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(crate::types::shape::Token::Null.refuse($expected))
        }
    };
}

macro_rules! refuse_seq {
    ($expected:expr) => {
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
            let token = serde::de::Visitor::visit_seq(crate::types::shape::TokenVisitor, seq)?;
            Ok(token.refuse($expected))
        }
    };
}

macro_rules! refuse_all_but_map {
    ($expected:expr) => {
        crate::types::declare::refuse_scalars!($expected);
        crate::types::declare::refuse_null!($expected);
        crate::types::declare::refuse_seq!($expected);
    };
}

macro_rules! refuse_all_but_seq {
    ($expected:expr) => {
        crate::types::declare::refuse_scalars!($expected);
        crate::types::declare::refuse_null!($expected);

        fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            let token = serde::de::Visitor::visit_map(crate::types::shape::TokenVisitor, map)?;
            Ok(token.refuse($expected))
        }
    };
}

/// `Serialize` and `Deserialize` by way of `Shape`.
macro_rules! serde_by_shape {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                crate::types::shape::Shape::write(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let read = <Self as crate::types::shape::Shape>::read(deserializer)?;
                read.map_err(|malformed| crate::types::object::custom(&malformed))
            }
        }
    };
}

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

macro_rules! object {
    (
        $(#[$meta:meta])*
        pub struct $name:ident, $expected:literal, new($($arg:ident: $arg_ty:ty),*) {
            $( $(#[$fmeta:meta])* $mode:ident $field:ident: $ty:ty = $wire:literal, )*
        } $( flat { $(#[$flat_meta:meta])* $flat:ident: $flat_ty:ty, } )?
    ) => {
        crate::types::declare::object_with_meta! {
            $(#[$meta])*
            pub struct $name, $expected, new($($arg: $arg_ty),*) {
                $( $(#[$fmeta])* $mode $field: $ty = $wire, )*
                /// The `_meta` member: free data of both peers and of those between them.
                opt meta: crate::types::Meta = "_meta",
            } $( flat { $(#[$flat_meta])* $flat: $flat_ty, } )?
        }
    };
}

macro_rules! object_with_meta {
    (
        $(#[$meta:meta])*
        pub struct $name:ident, $expected:literal, new($($arg:ident: $arg_ty:ty),*) {
            $( $(#[$fmeta:meta])* $mode:ident $field:ident: $ty:ty = $wire:literal, )*
        } $( flat { $(#[$flat_meta:meta])* $flat:ident: $flat_ty:ty, } )?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $( $(#[$fmeta])* pub $field: crate::types::declare::field_type!($mode $ty), )*
            $( $(#[$flat_meta])* pub $flat: $flat_ty, )?
            /// Members that this type does not hold; they are written back.
            pub extra: crate::types::Extra,
        }

        impl $name {
            /// With what the protocol requires; the rest has setters of the same name.
            pub fn new($($arg: impl Into<$arg_ty>),*) -> Self {
                Self {
                    $( $field: crate::types::declare::field_init!($mode, $field), )*
                    $( $flat: $flat.into(), )?
                    extra: crate::types::Extra::default(),
                }
            }

            $( crate::types::declare::field_setter!($mode, $field, $ty, $wire); )*
        }

        crate::types::declare::serde_by_shape!($name);

        const _: () = {
            use std::borrow::Cow;

            use crate::types::declare;
            use crate::types::object::{self, Build, Object};
            use crate::types::shape::{Finding, Read, Rest, Shape, Source, Trail};

            #[derive(Default)]
            pub(crate) struct Builder {
                $( $field: Option<$ty>, )*
                rest: Rest,
            }

            impl Build for Builder {
                type Out = $name;

                fn accept<'de, S: Source<'de>>(&mut self, name: Cow<'de, str>, source: S) -> Result<(), S::Error> {
                    match &*name {
                        $( $wire => declare::field_read!($mode, self.rest, self.$field, $wire, source), )*
                        _ => self.rest.unknown(name, source)?,
                    }
                    Ok(())
                }

                fn finish(mut self) -> Read<$name> {
                    $( declare::field_require!($mode, self.rest, self.$field, $wire); )*
                    $( let $flat = object::take_flat::<$flat_ty>(&mut self.rest, <$name as Object>::MEMBERS); )?
                    if let Some(fault) = self.rest.fault.take() {
                        let remains = object::Remains::default();
                        $( let remains = remains.member($wire, self.$field.as_ref()); )*
                        return Err(remains.finish(fault, &self.rest.extra));
                    }
                    $( declare::field_take!($mode, $field, self.$field, $wire); )*
                    $( let Some($flat) = $flat else {
                        return Err(crate::types::shape::Malformed::new(
                            crate::types::shape::Fault::expected($expected),
                            crate::types::Raw::null(),
                        ));
                    }; )?
                    Ok($name { $( $field, )* $( $flat, )? extra: self.rest.extra })
                }
            }

            impl Object for $name {
                type Builder = Builder;

                const MEMBERS: &'static [&'static str] = &[$( $wire, )*];

                fn write_members<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                    $(
                        if declare::field_present!($mode, self.$field, self.extra, $wire)
                            && let Some(value) = declare::field_value!($mode, self.$field)
                        {
                            map.serialize_entry($wire, &crate::types::shape::Out(value))?;
                        }
                    )*
                    $( object::Flat::write_flat(&self.$flat, map)?; )?
                    for (name, raw) in self.extra.iter() {
                        // What was set since it was read wins over what was read.
                        let replaced = match name {
                            $( $wire => declare::field_present!($mode, self.$field, self.extra, $wire), )*
                            _ => false,
                        };
                        if !replaced {
                            map.serialize_entry(name, raw)?;
                        }
                    }
                    Ok(())
                }
            }

            impl Shape for $name {
                const EXPECTED: &'static str = $expected;

                fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
                    deserializer.deserialize_any(ObjectVisitor)
                }

                fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    let mut map = serde::Serializer::serialize_map(serializer, None)?;
                    self.write_members(&mut map)?;
                    serde::ser::SerializeMap::end(map)
                }

                fn inspect(&self, at: &mut Trail, out: &mut Vec<Finding>) {
                    $(
                        if let Some(value) = declare::field_value!($mode, self.$field) {
                            at.name($wire, |at| value.inspect(at, out));
                        }
                    )*
                    $( self.$flat.inspect(at, out); )?
                    for (name, raw) in self.extra.iter() {
                        match name {
                            $( $wire => {
                                let nullable = declare::field_nullable!($mode);
                                crate::types::shape::inspect_kept::<$ty>($wire, raw, nullable, at, out);
                            } )*
                            _ => {
                                let _ = raw;
                                out.push(Finding::UnknownMember { path: at.member(name) });
                            }
                        }
                    }
                }
            }

            struct ObjectVisitor;

            impl<'de> serde::de::Visitor<'de> for ObjectVisitor {
                type Value = Read<$name>;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str($expected)
                }

                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                    object::read_members(Vec::new(), &mut map)
                }

                declare::refuse_all_but_map!($expected);
            }
        };
    };
}

macro_rules! tagged {
    (
        $(#[$meta:meta])*
        pub enum $name:ident, $expected:literal, $tag:literal {
            $( $(#[$vmeta:meta])* $variant:ident($body:ty) = $value:literal, )+
        } $( default { $(#[$dmeta:meta])* $default:ident($dbody:ty) = $dvalue:literal, } )?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$vmeta])* $variant($body), )+
            $( $(#[$dmeta])* $default($dbody), )?
            /// A value of a kind that this version does not know, kept as it came.
            Unknown {
                #[doc = concat!("The value of `", $tag, "`.")]
                tag: String,
                /// The whole object, tag included.
                raw: crate::types::Raw,
            },
        }

        impl $name {
            #[doc = concat!("The value of `", $tag, "` on the wire.")]
            pub fn tag(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $value, )+
                    $( Self::$default(_) => $dvalue, )?
                    Self::Unknown { tag, .. } => tag,
                }
            }

            /// Every value of the tag that this version knows, in the protocol's order.
            pub const TAGS: &'static [&'static str] = &[$( $value, )+ $( $dvalue, )?];
        }

        crate::types::declare::tagged_shape! {
            $name, $expected, $tag { $( $variant($body) = $value, )+ } $( default { $default($dbody) = $dvalue, } )?
        }
    };
}

macro_rules! tagged_shape {
    (
        $name:ident, $expected:literal, $tag:literal {
            $( $variant:ident($body:ty) = $value:literal, )+
        } $( default { $default:ident($dbody:ty) = $dvalue:literal, } )?
    ) => {
        crate::types::declare::serde_by_shape!($name);

        const _: () = {
            use crate::types::declare;
            use crate::types::object::{self, Object, Tag};
            use crate::types::shape::{Fault, Finding, Malformed, Read, Shape, Trail};
            use crate::types::Raw;

            impl Shape for $name {
                const EXPECTED: &'static str = $expected;

                fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
                    deserializer.deserialize_any(TaggedVisitor)
                }

                fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    if let Self::Unknown { raw, .. } = self {
                        return serde::Serialize::serialize(raw, serializer);
                    }
                    let mut map = serde::Serializer::serialize_map(serializer, None)?;
                    object::Flat::write_flat(self, &mut map)?;
                    serde::ser::SerializeMap::end(map)
                }

                fn inspect(&self, at: &mut Trail, out: &mut Vec<Finding>) {
                    match self {
                        $( Self::$variant(body) => body.inspect(at, out), )+
                        $( Self::$default(body) => body.inspect(at, out), )?
                        Self::Unknown { .. } => out.push(Finding::UnknownValue { path: at.member($tag) }),
                    }
                }
            }

            impl object::Flat for $name {
                fn write_flat<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                    match self {
                        $( Self::$variant(body) => {
                            map.serialize_entry($tag, $value)?;
                            body.write_members(map)
                        } )+
                        $( Self::$default(body) => body.write_members(map), )?
                        Self::Unknown { raw, .. } => object::write_raw_members(raw, map),
                    }
                }
            }

            struct TaggedVisitor;

            impl<'de> serde::de::Visitor<'de> for TaggedVisitor {
                type Value = Read<$name>;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str($expected)
                }

                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                    Ok(match object::read_tag($tag, &mut map)? {
                        Tag::Is { value, held } => match &*value {
                            $( $value => match object::read_members(held, &mut map)? {
                                Ok(body) => Ok($name::$variant(body)),
                                Err(malformed) => Err(object::retag($tag, $value, *malformed)),
                            }, )+
                            $( $dvalue => {
                                let mut held = held;
                                held.push((std::borrow::Cow::Borrowed($tag), Raw::from(serde_json::Value::from($dvalue))));
                                object::read_members(held, &mut map)?.map($name::$default)
                            } )?
                            _ => {
                                let spelled = Raw::from(serde_json::Value::from(&*value));
                                let raw = object::whole_tagged($tag, spelled, held, &mut map)?;
                                Ok($name::Unknown { tag: value.into_owned(), raw })
                            }
                        },
                        Tag::NotAString { raw, held } => {
                            let raw = object::whole_tagged($tag, raw, held, &mut map)?;
                            Err(Malformed::new(Fault::expected("a string").inside($tag), raw))
                        }
                        Tag::Absent { held } => {
                            declare::tagged_absent!($name, $tag, held, map $(, $default)?)
                        }
                    })
                }

                declare::refuse_all_but_map!($expected);
            }
        };
    };
}

macro_rules! tagged_absent {
    ($name:ident, $tag:literal, $held:ident, $map:ident) => {{
        let raw = object::whole_object($held, &mut $map)?;
        Err(Malformed::new(Fault::missing($tag), raw))
    }};
    ($name:ident, $tag:literal, $held:ident, $map:ident, $default:ident) => {
        object::read_members($held, &mut $map)?.map($name::$default)
    };
}

macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident, $expected:literal {
            $( $(#[$vmeta:meta])* $variant:ident = $value:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$vmeta])* $variant, )+
            /// A value that this version does not know, kept as it came.
            Unknown(String),
        }

        impl $name {
            /// Every value that this version knows, in the protocol's order.
            pub const WORDS: &'static [&'static str] = &[$( $value, )+];

            /// The value on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $value, )+
                    Self::Unknown(value) => value,
                }
            }
        }

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                match value {
                    $( $value => Self::$variant, )+
                    other => Self::Unknown(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        crate::types::declare::serde_by_shape!($name);

        impl crate::types::shape::Shape for $name {
            const EXPECTED: &'static str = $expected;

            fn read<'de, D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<crate::types::shape::Read<Self>, D::Error> {
                Ok(match crate::types::shape::Token::read(deserializer)? {
                    crate::types::shape::Token::Str(value) => Ok(Self::from(&*value)),
                    other => other.refuse($expected),
                })
            }

            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }

            fn inspect(&self, at: &mut crate::types::shape::Trail, out: &mut Vec<crate::types::shape::Finding>) {
                if let Self::Unknown(_) = self {
                    out.push(crate::types::shape::Finding::UnknownValue { path: at.to_string() });
                }
            }
        }
    };
}

macro_rules! ids {
    ($( $(#[$meta:meta])* pub struct $name:ident; )+) => { $(
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Any string is an id; ids are opaque to everybody but their maker.
            pub fn new(id: impl Into<std::sync::Arc<str>>) -> Self {
                Self(id.into())
            }

            /// The id as it goes over the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(id.into())
            }
        }

        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self(id.into())
            }
        }

        impl From<&Self> for $name {
            fn from(id: &Self) -> Self {
                id.clone()
            }
        }

        crate::types::declare::serde_by_shape!($name);

        impl crate::types::shape::Shape for $name {
            const EXPECTED: &'static str = "a string";

            fn read<'de, D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<crate::types::shape::Read<Self>, D::Error> {
                let read = <std::sync::Arc<str> as crate::types::shape::Shape>::read(deserializer)?;
                Ok(read.map(Self))
            }

            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    )+ };
}

pub(crate) use {
    field_init, field_nullable, field_present, field_read, field_require, field_setter, field_take, field_type,
    field_value, ids, object, object_with_meta, refuse_all_but_map, refuse_all_but_seq, refuse_null, refuse_scalars,
    refuse_seq, serde_by_shape, tagged, tagged_absent, tagged_shape, words,
};
