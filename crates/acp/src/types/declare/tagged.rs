//! Unions with a tag member.

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

pub(crate) use {tagged, tagged_absent, tagged_shape};
