//! What a session of the mock agent can be set to: a mode, and options of every kind that the protocol has.

use pintle_sdk::acp::Error;
use pintle_sdk::acp::types::{
    ClientCapabilities, Fault, FaultReason, SessionConfigBoolean, SessionConfigCategory, SessionConfigKind,
    SessionConfigOption, SessionConfigSelect, SessionConfigSelectGroup, SessionConfigSelectOption,
    SessionConfigSelectOptions, SessionConfigValue, SessionMode, SessionModeState,
};

/// The modes of every session: ids and names.
const MODES: [(&str, &str); 2] = [("ask", "Ask"), ("code", "Code")];
const MODELS: [(&str, &str); 2] = [("small", "Small"), ("large", "Large")];
/// The one option whose values come in groups.
const EFFORTS: [(&str, &str); 3] = [("low", "Low"), ("high", "High"), ("highest", "Highest")];
/// How many of [`EFFORTS`] are in the first group.
const QUICK_EFFORTS: usize = 1;

/// The settings of one session. All ids are the tables' own spelling, so that a session holds no text of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    mode: &'static str,
    model: &'static str,
    effort: &'static str,
    loud: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { mode: MODES[0].0, model: MODELS[0].0, effort: EFFORTS[0].0, loud: false }
    }
}

/// What a change of a setting changed beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    /// Whether the mode is another one now: it is told by an update of its own too.
    pub(super) mode: bool,
}

impl Settings {
    pub(super) fn mode(&self) -> &'static str {
        self.mode
    }

    /// The modes, for clients that know no options yet.
    pub(super) fn modes(&self) -> SessionModeState {
        let available: Vec<SessionMode> = MODES.iter().map(|(id, name)| SessionMode::new(*id, *name)).collect();
        SessionModeState::new(self.mode, available)
    }

    /// All options, the mode among them. Options that are on or off are only for clients that offered to show them.
    pub(super) fn options(&self, client: &ClientCapabilities) -> Vec<SessionConfigOption> {
        let groups = vec![
            SessionConfigSelectGroup::new("quick", "Quick", values(&EFFORTS[..QUICK_EFFORTS])),
            SessionConfigSelectGroup::new("deep", "Deep", values(&EFFORTS[QUICK_EFFORTS..])),
        ];
        let flat = |table: &[(&'static str, &'static str)]| SessionConfigSelectOptions::Ungrouped(values(table));
        let mut options = vec![
            select("model", "Model", SessionConfigCategory::Model, self.model, flat(&MODELS)),
            select("mode", "Mode", SessionConfigCategory::Mode, self.mode, flat(&MODES)),
            select(
                "effort",
                "Effort",
                SessionConfigCategory::ThoughtLevel,
                self.effort,
                SessionConfigSelectOptions::Grouped(groups),
            ),
        ];
        if shows_booleans(client) {
            let kind = SessionConfigKind::Boolean(SessionConfigBoolean::new(self.loud));
            options.push(SessionConfigOption::new("loud", "Loud", kind));
        }
        options
    }

    /// Switches the mode.
    pub(super) fn set_mode(&mut self, id: &str) -> Result<(), Error> {
        self.mode = known(&MODES, id)?;
        Ok(())
    }

    /// Changes an option.
    pub(super) fn set_option(
        &mut self,
        id: &str,
        value: &SessionConfigValue,
        client: &ClientCapabilities,
    ) -> Result<Changed, Error> {
        let unchanged = Changed { mode: false };
        match (id, value) {
            ("model", SessionConfigValue::Id(value)) => self.model = known(&MODELS, value.value.as_str())?,
            ("effort", SessionConfigValue::Id(value)) => self.effort = known(&EFFORTS, value.value.as_str())?,
            ("mode", SessionConfigValue::Id(value)) => {
                self.set_mode(value.value.as_str())?;
                return Ok(Changed { mode: true });
            }
            ("loud", SessionConfigValue::Boolean(value)) if shows_booleans(client) => self.loud = value.value,
            _ => return Err(not_listed()),
        }
        Ok(unchanged)
    }
}

fn shows_booleans(client: &ClientCapabilities) -> bool {
    let options = client.session.as_ref().and_then(|session| session.config_options.as_ref());
    options.is_some_and(|options| options.boolean.is_some())
}

fn select(
    id: &str,
    name: &str,
    category: SessionConfigCategory,
    current: &str,
    options: SessionConfigSelectOptions,
) -> SessionConfigOption {
    let kind = SessionConfigKind::Select(SessionConfigSelect::new(current, options));
    let mut option = SessionConfigOption::new(id, name, kind);
    option.category = Some(category);
    option
}

fn values(table: &[(&'static str, &'static str)]) -> Vec<SessionConfigSelectOption> {
    table.iter().map(|(value, name)| SessionConfigSelectOption::new(*value, *name)).collect()
}

fn known(table: &[(&'static str, &str)], word: &str) -> Result<&'static str, Error> {
    let found = table.iter().find(|(id, _)| *id == word).map(|(id, _)| *id);
    found.ok_or_else(not_listed)
}

fn not_listed() -> Error {
    let fault = Fault::new(FaultReason::Expected("an option that is listed, with one of its values"));
    Error::invalid_params(&fault.inside("value"))
}
