//! Open sets of strings, and string identifiers.

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

pub(crate) use {ids, words};
