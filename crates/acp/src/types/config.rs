//! Session modes and their successor, configuration options.

use serde::{Deserializer, Serializer};

use super::declare::{object, serde_by_shape, tagged, words};
use super::ids::{SessionConfigGroupId, SessionConfigId, SessionConfigValueId, SessionId, SessionModeId};
use super::leaf::List;
use super::raw::Raw;
use super::shape::{Fault, Finding, Malformed, Read, Shape, Trail, decode};

object! {
    /// The modes of a session and which of them is on.
    pub struct SessionModeState, "a mode state", new(current_mode_id: SessionModeId, available_modes: List<SessionMode>) {
        /// The mode that is on.
        req current_mode_id: SessionModeId = "currentModeId",
        /// All modes.
        req_lax available_modes: List<SessionMode> = "availableModes",
    }
}

object! {
    /// A mode.
    pub struct SessionMode, "a session mode", new(id: SessionModeId, name: String) {
        /// Its id.
        req id: SessionModeId = "id",
        /// Its name to show.
        req name: String = "name",
        /// What it does.
        opt description: String = "description",
    }
}

object! {
    /// Switches the mode. Only where the session has modes.
    pub struct SetSessionModeRequest, "a session/set_mode request", new(session_id: SessionId, mode_id: SessionModeId) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// One of its modes.
        req mode_id: SessionModeId = "modeId",
    }
}

object! {
    /// The mode is on.
    #[derive(Default)]
    pub struct SetSessionModeResponse, "a session/set_mode response", new() {}
}

object! {
    /// A setting of a session that the user may change.
    pub struct SessionConfigOption, "a config option",
        new(id: SessionConfigId, name: String, kind: SessionConfigKind) {
        /// Its id.
        req id: SessionConfigId = "id",
        /// Its name to show.
        req name: String = "name",
        /// What it does.
        opt description: String = "description",
        /// What it is about; a hint for where to show it.
        opt category: SessionConfigCategory = "category",
    } flat {
        /// The kind of setting, with its value. On the wire its members stand beside the others.
        kind: SessionConfigKind,
    }
}

tagged! {
    /// The kind of a setting. A client leaves out options of a kind that it does not know.
    pub enum SessionConfigKind, "a known kind of config option", "type" {
        /// One value out of several.
        Select(SessionConfigSelect) = "select",
        /// On or off; only if the client advertised `session.configOptions.boolean`.
        Boolean(SessionConfigBoolean) = "boolean",
    }
}

impl From<SessionConfigSelect> for SessionConfigKind {
    fn from(select: SessionConfigSelect) -> Self {
        Self::Select(select)
    }
}

impl From<SessionConfigBoolean> for SessionConfigKind {
    fn from(boolean: SessionConfigBoolean) -> Self {
        Self::Boolean(boolean)
    }
}

super::declare::object_with_meta! {
    /// One value out of several.
    pub struct SessionConfigSelect, "a select option",
        new(current_value: SessionConfigValueId, options: SessionConfigSelectOptions) {
        /// The value that is set; one of `options`.
        req current_value: SessionConfigValueId = "currentValue",
        /// The values there are.
        req options: SessionConfigSelectOptions = "options",
    }
}

impl SessionConfigSelect {
    /// Whether `value` is one of the values there are.
    pub fn offers(&self, value: &SessionConfigValueId) -> bool {
        match &self.options {
            SessionConfigSelectOptions::Ungrouped(options) => options.iter().any(|option| option.value == *value),
            SessionConfigSelectOptions::Grouped(groups) => {
                groups.iter().any(|group| group.options.iter().any(|option| option.value == *value))
            }
        }
    }
}

super::declare::object_with_meta! {
    /// On or off.
    pub struct SessionConfigBoolean, "a boolean option", new(current_value: bool) {
        /// Whether it is on.
        req current_value: bool = "currentValue",
    }
}

/// The values of a select option, flat or in groups.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionConfigSelectOptions {
    /// Flat.
    Ungrouped(Vec<SessionConfigSelectOption>),
    /// In groups.
    Grouped(Vec<SessionConfigSelectGroup>),
}

impl<T: Into<SessionConfigSelectOption>> From<Vec<T>> for SessionConfigSelectOptions {
    fn from(options: Vec<T>) -> Self {
        Self::Ungrouped(options.into_iter().map(Into::into).collect())
    }
}

serde_by_shape!(SessionConfigSelectOptions);

impl Shape for SessionConfigSelectOptions {
    const EXPECTED: &'static str = "a list of options or of groups";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        // Groups are told from options by their items alone, so the list is read from its text, twice if need be.
        let raw = match Raw::read(deserializer)? {
            Ok(raw) => raw,
            Err(malformed) => return Ok(Err(malformed)),
        };
        Ok(match decode::<Vec<SessionConfigSelectOption>>(raw.get()) {
            Ok(options) => Ok(Self::Ungrouped(options)),
            Err(fault) => match decode::<Vec<SessionConfigSelectGroup>>(raw.get()) {
                Ok(groups) => Ok(Self::Grouped(groups)),
                Err(_) if raw.get().starts_with('[') => Err(Malformed::new(fault, raw)),
                Err(_) => Err(Malformed::new(Fault::expected(Self::EXPECTED), raw)),
            },
        })
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Ungrouped(options) => options.write(serializer),
            Self::Grouped(groups) => groups.write(serializer),
        }
    }

    fn inspect(&self, at: &mut Trail, out: &mut Vec<Finding>) {
        match self {
            Self::Ungrouped(options) => options.inspect(at, out),
            Self::Grouped(groups) => groups.inspect(at, out),
        }
    }
}

object! {
    /// A value of a select option.
    pub struct SessionConfigSelectOption, "a select value", new(value: SessionConfigValueId, name: String) {
        /// The value.
        req value: SessionConfigValueId = "value",
        /// Its name to show.
        req name: String = "name",
        /// What it means.
        opt description: String = "description",
    }
}

object! {
    /// A group of values of a select option.
    pub struct SessionConfigSelectGroup, "a group of select values",
        new(group: SessionConfigGroupId, name: String, options: List<SessionConfigSelectOption>) {
        /// Its id.
        req group: SessionConfigGroupId = "group",
        /// Its name to show.
        req name: String = "name",
        /// Its values.
        req_lax options: List<SessionConfigSelectOption> = "options",
    }
}

words! {
    /// What a setting is about. Values that begin with `_` are free to use.
    pub enum SessionConfigCategory, "a config option category" {
        /// The session's mode.
        Mode = "mode",
        /// The model.
        Model = "model",
        /// A setting of the model.
        ModelConfig = "model_config",
        /// How much it thinks.
        ThoughtLevel = "thought_level",
    }
}

object! {
    /// Changes a setting.
    pub struct SetSessionConfigOptionRequest, "a session/set_config_option request",
        new(session_id: SessionId, config_id: SessionConfigId, value: SessionConfigValue) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The setting.
        req config_id: SessionConfigId = "configId",
    } flat {
        /// The new value. On the wire it is `value`, with a `type` beside it unless it is a value's id.
        value: SessionConfigValue,
    }
}

tagged! {
    /// A value for a setting.
    pub enum SessionConfigValue, "a config value", "type" {
        /// On or off.
        Boolean(BooleanConfigValue) = "boolean",
    } default {
        /// One of the values of a select option. The form without `type`.
        Id(IdConfigValue) = "select",
    }
}

impl From<bool> for SessionConfigValue {
    fn from(value: bool) -> Self {
        Self::Boolean(BooleanConfigValue::new(value))
    }
}

impl From<SessionConfigValueId> for SessionConfigValue {
    fn from(value: SessionConfigValueId) -> Self {
        Self::Id(IdConfigValue::new(value))
    }
}

impl From<&str> for SessionConfigValue {
    fn from(value: &str) -> Self {
        Self::Id(IdConfigValue::new(value))
    }
}

super::declare::object_with_meta! {
    /// See [`SessionConfigValue::Boolean`].
    pub struct BooleanConfigValue, "a boolean value", new(value: bool) {
        /// The value.
        req value: bool = "value",
    }
}

super::declare::object_with_meta! {
    /// See [`SessionConfigValue::Id`].
    pub struct IdConfigValue, "a value of a select option", new(value: SessionConfigValueId) {
        /// The value.
        req value: SessionConfigValueId = "value",
        /// `select`, where the peer spelled the default out.
        opt explicit_type: String = "type",
    }
}

object! {
    /// The setting is changed.
    pub struct SetSessionConfigOptionResponse, "a session/set_config_option response",
        new(config_options: List<SessionConfigOption>) {
        /// All settings, for one may change another.
        req_lax config_options: List<SessionConfigOption> = "configOptions",
    }
}
