//! Objects and unions: what the macros of [`declare`](super::declare) build on.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::de::MapAccess;
use serde::ser::SerializeMap;

use super::raw::Raw;
use super::shape::{Fault, Live, Malformed, NameSeed, Read, Rest, Shape, Source, Stored};

/// An object of the protocol, which can also be the body of a tagged union.
pub(crate) trait Object: Shape {
    type Builder: Build<Out = Self>;

    /// The names of all members that the type holds.
    const MEMBERS: &'static [&'static str];

    /// Writes the members into a map that is open already.
    fn write_members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// An object that is being read, member by member.
pub(crate) trait Build: Default {
    type Out;

    fn accept<'de, S: Source<'de>>(&mut self, name: Cow<'de, str>, source: S) -> Result<(), S::Error>;

    fn finish(self) -> Read<Self::Out>;
}

impl<T: Object> Object for Box<T> {
    type Builder = Boxed<T::Builder>;

    const MEMBERS: &'static [&'static str] = T::MEMBERS;

    fn write_members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        (**self).write_members(map)
    }
}

#[derive(Default)]
pub(crate) struct Boxed<B>(B);

impl<B: Build> Build for Boxed<B> {
    type Out = Box<B::Out>;

    fn accept<'de, S: Source<'de>>(&mut self, name: Cow<'de, str>, source: S) -> Result<(), S::Error> {
        self.0.accept(name, source)
    }

    fn finish(self) -> Read<Self::Out> {
        self.0.finish().map(Box::new)
    }
}

/// Reads the members that `map` still has.
pub(crate) fn read_members<'de, T: Object, A: MapAccess<'de>>(
    held: Vec<(Cow<'de, str>, Raw)>,
    map: &mut A,
) -> Result<Read<T>, A::Error> {
    let mut builder = T::Builder::default();
    for (name, raw) in held {
        builder.accept(name, Stored(raw, PhantomData::<A::Error>))?;
    }
    while let Some(name) = map.next_key_seed(NameSeed)? {
        builder.accept(name, Live(&mut *map))?;
    }
    Ok(builder.finish())
}

/// Reads an object's members up to its tag. Most peers write the tag first; then nothing is put aside.
pub(crate) fn read_tag<'de, A: MapAccess<'de>>(tag: &'static str, map: &mut A) -> Result<Tag<'de>, A::Error> {
    let mut held = Vec::new();
    while let Some(name) = map.next_key_seed(NameSeed)? {
        if name == tag {
            return Ok(match map.next_value_seed(TokenSeed)? {
                super::shape::Token::Str(value) => Tag::Is { value, held },
                other => Tag::NotAString { raw: other.into_raw(), held },
            });
        }
        held.push((name, map.next_value::<Raw>()?));
    }
    Ok(Tag::Absent { held })
}

/// What was found in the place of a tag, with the members that came before it.
pub(crate) enum Tag<'de> {
    Is { value: Cow<'de, str>, held: Vec<(Cow<'de, str>, Raw)> },
    NotAString { raw: Raw, held: Vec<(Cow<'de, str>, Raw)> },
    Absent { held: Vec<(Cow<'de, str>, Raw)> },
}

struct TokenSeed;

impl<'de> serde::de::DeserializeSeed<'de> for TokenSeed {
    type Value = super::shape::Token<'de>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        super::shape::Token::read(deserializer)
    }
}

/// The whole object as text: what was put aside and what is still to come.
pub(crate) fn whole_object<'de, A: MapAccess<'de>>(
    mut held: Vec<(Cow<'de, str>, Raw)>,
    map: &mut A,
) -> Result<Raw, A::Error> {
    while let Some(name) = map.next_key_seed(NameSeed)? {
        held.push((name, map.next_value::<Raw>()?));
    }
    Ok(Raw::object(held.iter().map(|(name, raw)| (&**name, raw))))
}

/// [`whole_object`] with the tag put in front.
pub(crate) fn whole_tagged<'de, A: MapAccess<'de>>(
    tag: &'static str,
    value: Raw,
    mut held: Vec<(Cow<'de, str>, Raw)>,
    map: &mut A,
) -> Result<Raw, A::Error> {
    held.insert(0, (Cow::Borrowed(tag), value));
    whole_object(held, map)
}

/// A body that was malformed, with its tag put back in front.
pub(crate) fn retag(tag: &'static str, value: &'static str, malformed: Malformed) -> Box<Malformed> {
    let body = malformed.raw.get().trim_start().strip_prefix('{').unwrap_or("}");
    let comma = if body.trim_start().starts_with('}') { "" } else { "," };
    let whole = format!("{{\"{tag}\":\"{value}\"{comma}{body}");
    Malformed::new(malformed.fault, Raw::parse(whole).unwrap_or(malformed.raw))
}

/// A union whose members stand among those of the object that holds it.
pub(crate) trait Flat: Shape {
    fn write_flat<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Reads a union from the members that the object around it does not know.
///
/// Of an object that is at fault already they stay where they are.
pub(crate) fn take_flat<T: Flat>(rest: &mut Rest, known: &[&str]) -> Option<T> {
    if rest.fault.is_some() {
        return None;
    }
    let names: Vec<String> =
        rest.extra.iter().filter(|(name, _)| !known.contains(name)).map(|(name, _)| name.to_owned()).collect();
    let members: Vec<(String, Raw)> =
        names.into_iter().filter_map(|name| rest.extra.remove(&name).map(|raw| (name, raw))).collect();
    let object = Raw::object(members.iter().map(|(name, raw)| (&**name, raw)));
    match T::read(&mut serde_json::Deserializer::from_str(object.get())) {
        Ok(Ok(union)) => return Some(union),
        Ok(Err(malformed)) => rest.fault.get_or_insert(malformed.fault),
        Err(_) => rest.fault.get_or_insert(Fault::expected(T::EXPECTED)),
    };
    for (name, raw) in members {
        rest.extra.insert(name, raw);
    }
    None
}

/// Writes the members of an object that is kept as text.
pub(crate) fn write_raw_members<M: SerializeMap>(raw: &Raw, map: &mut M) -> Result<(), M::Error> {
    for (name, value) in &raw.members() {
        map.serialize_entry(name, value)?;
    }
    Ok(())
}

/// An object put back together because it turned out malformed.
#[derive(Default)]
pub(crate) struct Remains(Vec<(Cow<'static, str>, Raw)>);

impl Remains {
    pub(crate) fn member<T: Shape>(mut self, name: &'static str, value: Option<&T>) -> Self {
        if let Some(value) = value {
            self.0.push((Cow::Borrowed(name), Raw::of(value)));
        }
        self
    }

    pub(crate) fn finish(mut self, fault: Fault, extra: &super::raw::Extra) -> Box<Malformed> {
        // A field that was read as a default has what really came in `extra`.
        self.0.retain(|(name, _)| extra.get(name).is_none());
        self.0.extend(extra.iter().map(|(name, raw)| (Cow::Owned(name.to_owned()), raw.clone())));
        Malformed::new(fault, Raw::object(self.0.iter().map(|(name, raw)| (&**name, raw))))
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An error that cannot come up unless the deserializer breaks its contract.
pub(crate) fn custom<E: serde::de::Error>(malformed: &Malformed) -> E {
    E::custom(&malformed.fault)
}
