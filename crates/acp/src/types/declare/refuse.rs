//! Visitor methods that hand back a value of the wrong type, and serde by way of `Shape`.

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

pub(crate) use {refuse_all_but_map, refuse_all_but_seq, refuse_null, refuse_scalars, refuse_seq, serde_by_shape};
