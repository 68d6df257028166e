//! Objects.

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

pub(crate) use {object, object_with_meta};
