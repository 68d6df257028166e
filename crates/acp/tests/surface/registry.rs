//! Every params and result type of the method table, by wire name.

use pintle_acp::types::*;
use pintle_acp::{MethodId, NotificationToAgent, NotificationToClient, RequestToAgent, RequestToClient, method_table};
use serde_json::value::RawValue;

/// What came of reading one JSON text as one type.
pub(crate) struct Reading {
    /// Whether it was accepted.
    pub(crate) verdict: Result<(), String>,
    /// The same value written back, whether it was accepted or not.
    pub(crate) back: String,
}

/// One params or result type.
pub(crate) struct Probe {
    /// `<wire> params` or `<wire> result`.
    pub(crate) name: String,
    pub(crate) read: fn(&str) -> Reading,
}

pub(crate) fn probe(name: &str) -> Probe {
    probes().into_iter().find(|probe| probe.name == name).unwrap_or_else(|| panic!("no type for {name}"))
}

pub(crate) fn read<T: Shape>(text: &str) -> Reading {
    let read = T::read(&mut serde_json::Deserializer::from_str(text)).expect("test input is JSON");
    match read {
        Ok(value) => Reading { verdict: Ok(()), back: written(&value) },
        Err(malformed) => Reading { verdict: Err(malformed.fault.to_string()), back: malformed.raw.get().to_owned() },
    }
}

fn written<T: Shape>(value: &T) -> String {
    let mut text = Vec::new();
    value.write(&mut serde_json::Serializer::new(&mut text)).expect("every type can be written");
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// The verdict on params is the connection's: types and rules.
fn with_rules<T: Shape>(text: &str, decode: fn(&RawValue) -> Result<(), String>) -> Reading {
    let raw = RawValue::from_string(text.to_owned()).expect("test input is JSON");
    Reading { verdict: decode(&raw), ..read::<T>(text) }
}

macro_rules! registry {
    (
        agent_requests { $( $aid:ident = $awire:literal $acall:ident($aparams:ident) -> $aresult:ident; )* }
        client_requests { $( $cid:ident = $cwire:literal $ccall:ident($cparams:ident) -> $cresult:ident; )* }
        agent_notifications { $( $anid:ident = $anwire:literal $ancall:ident($anparams:ident); )* }
        client_notifications { $( $cnid:ident = $cnwire:literal $cncall:ident($cnparams:ident); )* }
    ) => {
        pub(crate) fn probes() -> Vec<Probe> {
            vec![
                $(
                    Probe { name: format!("{} params", $awire), read: |text| with_rules::<$aparams>(text, |raw| {
                        let decoded = RequestToAgent::decode(MethodId::$aid, Some(raw)).expect("a request for an agent");
                        decoded.map(|request| assert_eq!(request.method(), MethodId::$aid)).map_err(|e| format!("{e:?}"))
                    }) },
                    Probe { name: format!("{} result", $awire), read: read::<$aresult> },
                )*
                $(
                    Probe { name: format!("{} params", $cwire), read: |text| with_rules::<$cparams>(text, |raw| {
                        let decoded = RequestToClient::decode(MethodId::$cid, Some(raw)).expect("a request for a client");
                        decoded.map(|request| assert_eq!(request.method(), MethodId::$cid)).map_err(|e| format!("{e:?}"))
                    }) },
                    Probe { name: format!("{} result", $cwire), read: read::<$cresult> },
                )*
                $(
                    Probe { name: format!("{} params", $cnwire), read: |text| with_rules::<$cnparams>(text, |raw| {
                        let decoded = NotificationToClient::decode(MethodId::$cnid, Some(raw)).expect("for a client");
                        decoded.map(|note| assert_eq!(note.method(), MethodId::$cnid)).map_err(|e| e.to_string())
                    }) },
                )*
                to_agent::<CancelNotification>(MethodId::CancelSession),
                to_agent::<DetachNotification>(MethodId::DetachSession),
                to_agent::<CancelRequestNotification>(MethodId::CancelRequest),
            ]
        }
    };
}

method_table!(registry);

/// every type that the table names has its reader here, and the other way round; each refuses what is no object.
#[test]
fn r_003_every_type_of_the_table_is_read() {
    let found = probes();
    for row in pintle_acp::METHODS {
        let named = [row.params.map(|_| "params"), row.result.map(|_| "result")];
        for what in named.into_iter().flatten() {
            let name = format!("{} {what}", row.wire);
            let probe = found.iter().find(|probe| probe.name == name).unwrap_or_else(|| panic!("no type for {name}"));
            assert!((probe.read)("7").verdict.is_err(), "{name}");
        }
    }
}

fn to_agent<T: pintle_acp::Notification>(id: MethodId) -> Probe {
    Probe {
        name: format!("{} params", id.wire()),
        read: |text| {
            with_rules::<T>(text, |raw| {
                let decoded = NotificationToAgent::decode(T::METHOD, Some(raw)).expect("for an agent");
                decoded.map(|note| assert_eq!(note.method(), T::METHOD)).map_err(|e| e.to_string())
            })
        },
    }
}
