//! The ACP types of `pintle-acp` beside the official ones, by wire method.

pub mod emitted;

use agent_client_protocol_schema::v1 as official;
use pintle_acp::types::{self as ours, Finding, Shape};
use pintle_acp::{MethodId, NotificationToAgent, NotificationToClient, RequestToAgent, RequestToClient, method_table};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

/// One params or result type, in both worlds.
pub struct Pair {
    /// `<wire> params` or `<wire> result`.
    pub name: String,
    /// Reads with the official type, and gives back what it writes.
    pub official: fn(&Value) -> Result<Value, String>,
    /// Reads with ours.
    pub ours: fn(&Value) -> Result<Ours, String>,
    /// The official JSON Schema.
    pub schema: fn() -> Value,
}

/// What came of reading with our type.
pub struct Ours {
    /// What it writes.
    pub written: Value,
    /// What a strict reader objects to.
    pub findings: Vec<Finding>,
}

fn pair<O, T>(name: String, ours: fn(&Value) -> Result<Ours, String>) -> Pair
where
    O: DeserializeOwned + Serialize + JsonSchema,
    T: Shape,
{
    Pair {
        name,
        official: |json| {
            let value: O = serde_json::from_value(json.clone()).map_err(|e| e.to_string())?;
            serde_json::to_value(&value).map_err(|e| e.to_string())
        },
        ours,
        schema: || schemars::schema_for!(O).to_value(),
    }
}

fn read<T: Shape + Serialize>(json: &Value) -> Result<Ours, String> {
    let value: T = ours::decode(&json.to_string()).map_err(|fault| fault.to_string())?;
    let written = serde_json::to_value(&value).map_err(|e| e.to_string())?;
    Ok(Ours { written, findings: ours::inspect(&value) })
}

/// Params are read as the connection reads them, with the rules beyond their types.
fn read_params<T: Shape + Serialize>(
    json: &Value,
    decode: impl Fn(Option<&RawValue>) -> Option<Result<(), String>>,
) -> Result<Ours, String> {
    let raw = RawValue::from_string(json.to_string()).map_err(|e| e.to_string())?;
    decode(Some(&raw)).ok_or("not one of these methods")??;
    read::<T>(json)
}

macro_rules! pairs {
    (
        agent_requests { $( $aid:ident = $awire:literal $acall:ident($aparams:ident) -> $aresult:ident; )* }
        client_requests { $( $cid:ident = $cwire:literal $ccall:ident($cparams:ident) -> $cresult:ident; )* }
        agent_notifications { $( $anid:ident = $anwire:literal $ancall:ident($anparams:ident); )* }
        client_notifications { $( $cnid:ident = $cnwire:literal $cncall:ident($cnparams:ident); )* }
    ) => {
        /// Every method of the table that the official crate has too.
        pub fn pairs() -> Vec<Pair> {
            let mut pairs = Vec::new();
            $( request!(pairs RequestToAgent $aid $awire $aparams $aresult); )*
            $( request!(pairs RequestToClient $cid $cwire $cparams $cresult); )*
            $( notification!(pairs NotificationToClient $cnid $cnwire $cnparams); )*
            notification!(pairs NotificationToAgent CancelSession "session/cancel" CancelNotification);
            notification!(pairs NotificationToAgent CancelRequest "$/cancel_request" CancelRequestNotification);
            pairs
        }
    };
}

macro_rules! request {
    // Pintle's own methods.
    ($pairs:ident $all:ident LoadDurableSession $wire:literal $params:ident $result:ident) => {};
    ($pairs:ident $all:ident SteerSession $wire:literal $params:ident $result:ident) => {};
    ($pairs:ident $all:ident $id:ident $wire:literal $params:ident $result:ident) => {
        $pairs.push(pair::<official::$params, ours::$params>(format!("{} params", $wire), |json| {
            read_params::<ours::$params>(json, |raw| {
                $all::decode(MethodId::$id, raw).map(|read| read.map(|_| ()).map_err(|e| format!("{e:?}")))
            })
        }));
        $pairs.push(pair::<official::$result, ours::$result>(format!("{} result", $wire), read::<ours::$result>));
    };
}

macro_rules! notification {
    ($pairs:ident $all:ident SessionRecord $wire:literal $params:ident) => {};
    ($pairs:ident $all:ident SessionCaughtUp $wire:literal $params:ident) => {};
    ($pairs:ident $all:ident SessionLagged $wire:literal $params:ident) => {};
    ($pairs:ident $all:ident SessionClosed $wire:literal $params:ident) => {};
    ($pairs:ident $all:ident $id:ident $wire:literal $params:ident) => {
        $pairs.push(pair::<official::$params, ours::$params>(format!("{} params", $wire), |json| {
            read_params::<ours::$params>(json, |raw| {
                $all::decode(MethodId::$id, raw).map(|read| read.map(|_| ()).map_err(|fault| fault.to_string()))
            })
        }));
    };
}

method_table!(pairs);

/// A case of the corpus in `testdata/acp/corpus`.
pub struct Case {
    /// Its file and name.
    pub name: String,
    /// The type that it is read as.
    pub as_type: String,
    /// What is read.
    pub json: Value,
    /// Whether ours accepts it.
    pub ours_accepts: bool,
    /// Whether the official type accepts it.
    pub official_accepts: bool,
    /// Why the two do not agree whether to accept it.
    pub why: Option<String>,
    /// Why the two make something else of it although both accept it.
    pub differs: Option<String>,
}

/// Reads the corpus.
///
/// # Panics
/// When it is not there or not of the right form.
pub fn corpus() -> Vec<Case> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/acp/corpus");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(dir).expect("the corpus is there") {
        let path = entry.expect("a directory entry").path();
        let file: Value = serde_json::from_slice(&std::fs::read(&path).expect("readable")).expect("JSON");
        for case in file["cases"].as_array().expect("a list of cases") {
            let text = |name: &str| case.get(name).map(|value| value.as_str().expect("a string").to_owned());
            let ours_accepts = text("verdict").as_deref() != Some("reject");
            cases.push(Case {
                name: format!("{}: {}", path.file_stem().expect("a name").display(), text("name").expect("a name")),
                as_type: text("as").expect("a type"),
                json: case["json"].clone(),
                ours_accepts,
                official_accepts: text("official").map_or(ours_accepts, |verdict| verdict == "accept"),
                why: text("why"),
                differs: text("differs"),
            });
        }
    }
    cases
}
