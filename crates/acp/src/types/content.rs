//! Content blocks: what prompts, messages and tool results are made of. Compatible with MCP's.

use serde::de::MapAccess;
use serde::{Deserializer, Serializer};

use super::declare::{object, refuse_all_but_map, serde_by_shape, tagged, words};
use super::leaf::List;
use super::object;
use super::raw::Raw;
use super::shape::{Fault, Finding, Malformed, Read, Shape, Trail};

tagged! {
    /// One piece of content.
    ///
    /// Text and resource links are understood by every agent; the others only where
    /// [`PromptCapabilities`](super::PromptCapabilities) says so.
    pub enum ContentBlock, "a content block", "type" {
        /// Plain text or Markdown.
        Text(TextContent) = "text",
        /// An image; needs `promptCapabilities.image` in a prompt.
        Image(ImageContent) = "image",
        /// A sound; needs `promptCapabilities.audio` in a prompt.
        Audio(AudioContent) = "audio",
        /// A reference to something that the agent can read itself.
        ResourceLink(Box<ResourceLink>) = "resource_link",
        /// A resource with its contents; needs `promptCapabilities.embeddedContext` in a prompt.
        Resource(Box<EmbeddedResource>) = "resource",
    }
}

impl ContentBlock {
    /// A block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// The text, if this is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

impl From<&str> for ContentBlock {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for ContentBlock {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<TextContent> for ContentBlock {
    fn from(body: TextContent) -> Self {
        Self::Text(body)
    }
}

impl From<ImageContent> for ContentBlock {
    fn from(body: ImageContent) -> Self {
        Self::Image(body)
    }
}

impl From<AudioContent> for ContentBlock {
    fn from(body: AudioContent) -> Self {
        Self::Audio(body)
    }
}

impl From<ResourceLink> for ContentBlock {
    fn from(body: ResourceLink) -> Self {
        Self::ResourceLink(Box::new(body))
    }
}

impl From<EmbeddedResource> for ContentBlock {
    fn from(body: EmbeddedResource) -> Self {
        Self::Resource(Box::new(body))
    }
}

object! {
    /// Text.
    pub struct TextContent, "text content", new(text: String) {
        /// The text.
        req text: String = "text",
        /// For whom it is and how much it matters.
        opt annotations: Box<Annotations> = "annotations",
    }
}

object! {
    /// An image.
    pub struct ImageContent, "image content", new(data: String, mime_type: String) {
        /// The bytes, in base64.
        req data: String = "data",
        /// The media type.
        req mime_type: String = "mimeType",
        /// Where the image comes from.
        opt uri: String = "uri",
        /// For whom it is and how much it matters.
        opt annotations: Box<Annotations> = "annotations",
    }
}

object! {
    /// A sound.
    pub struct AudioContent, "audio content", new(data: String, mime_type: String) {
        /// The bytes, in base64.
        req data: String = "data",
        /// The media type.
        req mime_type: String = "mimeType",
        /// For whom it is and how much it matters.
        opt annotations: Box<Annotations> = "annotations",
    }
}

object! {
    /// A resource that is named and not carried.
    pub struct ResourceLink, "a resource link", new(name: String, uri: String) {
        /// The name of the resource.
        req name: String = "name",
        /// Where it is.
        req uri: String = "uri",
        /// A name to show.
        opt title: String = "title",
        /// What it is.
        opt description: String = "description",
        /// The media type.
        opt mime_type: String = "mimeType",
        /// The size in bytes.
        opt size: i64 = "size",
        /// For whom it is and how much it matters.
        opt annotations: Box<Annotations> = "annotations",
    }
}

object! {
    /// A resource with its contents.
    pub struct EmbeddedResource, "an embedded resource", new(resource: ResourceContents) {
        /// The resource.
        req resource: ResourceContents = "resource",
        /// For whom it is and how much it matters.
        opt annotations: Box<Annotations> = "annotations",
    }
}

object! {
    /// Contents that are text.
    pub struct TextResourceContents, "text contents", new(uri: String, text: String) {
        /// Where the resource is.
        req uri: String = "uri",
        /// The text.
        req text: String = "text",
        /// The media type.
        opt mime_type: String = "mimeType",
    }
}

object! {
    /// Contents that are bytes.
    pub struct BlobResourceContents, "binary contents", new(uri: String, blob: String) {
        /// Where the resource is.
        req uri: String = "uri",
        /// The bytes, in base64.
        req blob: String = "blob",
        /// The media type.
        opt mime_type: String = "mimeType",
    }
}

/// The contents of a resource. There is no tag: `text` or `blob` tells which it is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ResourceContents {
    /// Contents that are text.
    Text(TextResourceContents),
    /// Contents that are bytes.
    Blob(BlobResourceContents),
}

impl ResourceContents {
    /// Where the resource is.
    pub fn uri(&self) -> &str {
        match self {
            Self::Text(contents) => &contents.uri,
            Self::Blob(contents) => &contents.uri,
        }
    }
}

impl From<TextResourceContents> for ResourceContents {
    fn from(contents: TextResourceContents) -> Self {
        Self::Text(contents)
    }
}

impl From<BlobResourceContents> for ResourceContents {
    fn from(contents: BlobResourceContents) -> Self {
        Self::Blob(contents)
    }
}

serde_by_shape!(ResourceContents);

impl Shape for ResourceContents {
    const EXPECTED: &'static str = "resource contents with text or blob";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        struct Contents;

        impl<'de> serde::de::Visitor<'de> for Contents {
            type Value = Read<ResourceContents>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(ResourceContents::EXPECTED)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut held = Vec::new();
                while let Some(name) = map.next_key_seed(super::shape::NameSeed)? {
                    // A string `text` wins over `blob`, as whoever checks the two forms in order would say.
                    let raw = map.next_value::<Raw>()?;
                    held.push((name, raw));
                }
                let has = |wanted: &str| held.iter().any(|(name, raw)| name == wanted && raw.get().starts_with('"'));
                if has("text") {
                    Ok(object::read_members(held, &mut map)?.map(ResourceContents::Text))
                } else if has("blob") {
                    Ok(object::read_members(held, &mut map)?.map(ResourceContents::Blob))
                } else {
                    let raw = object::whole_object(held, &mut map)?;
                    Ok(Err(Malformed::new(Fault::expected(ResourceContents::EXPECTED), raw)))
                }
            }

            refuse_all_but_map!(ResourceContents::EXPECTED);
        }

        deserializer.deserialize_any(Contents)
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(contents) => contents.write(serializer),
            Self::Blob(contents) => contents.write(serializer),
        }
    }

    fn inspect(&self, at: &mut Trail, out: &mut Vec<Finding>) {
        match self {
            Self::Text(contents) => contents.inspect(at, out),
            Self::Blob(contents) => contents.inspect(at, out),
        }
    }
}

object! {
    /// Hints for whoever shows the content.
    #[derive(Default)]
    pub struct Annotations, "annotations", new() {
        /// For whom the content is.
        opt audience: List<Role> = "audience",
        /// When it last changed, ISO 8601.
        opt last_modified: String = "lastModified",
        /// From 0 (least) to 1 (most important).
        opt priority: f64 = "priority",
    }
}

words! {
    /// A party of the conversation.
    pub enum Role, "a role" {
        /// The model.
        Assistant = "assistant",
        /// The person.
        User = "user",
    }
}
