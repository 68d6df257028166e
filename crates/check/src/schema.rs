//! The JSON Schemas that are checked in under `schemas/`, compared with the types that the loader and the reports use.
//!
//! `PINTLE_UPDATE_SCHEMAS=1 cargo test -p pintle-check schema` writes them.

use std::path::PathBuf;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

use crate::pack::{Manifest, Pack, Scenario};
use crate::report::Report;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schemas").join(name)
}

fn schema<T: JsonSchema>(title: &str) -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = serde_json::to_value(generator.into_root_schema_for::<T>()).expect("a schema is JSON");
    schema["title"] = json!(title);
    schema
}

fn check<T: JsonSchema>(name: &str, title: &str) {
    let text = format!("{:#}\n", schema::<T>(title));
    if std::env::var_os("PINTLE_UPDATE_SCHEMAS").is_some() {
        std::fs::write(path(name), &text).expect("the schema can be written");
    }
    let checked_in = std::fs::read_to_string(path(name)).expect("the schema is checked in");
    assert!(checked_in == text, "{name} is not what the types say; see the head of this file");
}

#[test]
fn schemas_are_what_the_types_say() {
    check::<Manifest>("pintle.pack.v1.schema.json", "pintle.pack.v1");
    check::<Scenario>("pintle.scenario.v1.schema.json", "pintle.scenario.v1");
    check::<Report>("pintle.report.v1.schema.json", "pintle.report.v1");
    #[cfg(unix)]
    check::<crate::kit::DriverReport>("pintle.driver-report.v1.schema.json", "pintle.driver-report.v1");
}

fn validator(name: &str) -> jsonschema::Validator {
    let text = std::fs::read_to_string(path(name)).expect("the schema is checked in");
    let schema = serde_json::from_str(&text).expect("the schema is JSON");
    jsonschema::validator_for(&schema).expect("the schema is a schema")
}

/// TOML as the JSON that a schema sees.
fn as_json(text: &str) -> Value {
    let table: toml::Table = toml::from_str(text).expect("TOML");
    serde_json::to_value(table).expect("JSON")
}

#[test]
fn the_schemas_accept_every_file_of_the_built_in_pack() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packs/acp-v1");
    let (pack, scenario) = (validator("pintle.pack.v1.schema.json"), validator("pintle.scenario.v1.schema.json"));
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("the pack is there") {
        let path = entry.expect("an entry").path();
        let json = as_json(&std::fs::read_to_string(&path).expect("a file"));
        let validator = if path.ends_with("pack.toml") { &pack } else { &scenario };
        if let Err(error) = validator.validate(&json) {
            panic!("{}: {error} at {}", path.display(), error.instance_path());
        }
        files += 1;
    }
    let loaded = Pack::embedded().expect("the pack loads").scenarios.len();
    assert_eq!(files, loaded + 1, "every file of the folder is built in");
}

/// What the loader refuses because of its form, the schema refuses too.
#[test]
fn the_schema_refuses_what_the_loader_refuses() {
    let scenario = validator("pintle.scenario.v1.schema.json");
    let head = "schema = \"pintle.scenario.v1\"\nid = \"a\"\ntitle = \"t\"\n";
    let cases = [
        ("", "no steps"),
        ("oops = 1\n[[step]]\ndo = \"initialize\"\n", "an unknown member"),
        ("[[step]]\n", "a step without a kind"),
        ("[[step]]\ndo = \"jump\"\n", "an unknown kind"),
        ("[[step]]\ndo = \"initialize\"\nprompt = \"x\"\n", "a member of another kind"),
        ("[[step]]\ndo = \"wait\"\n", "a wait without its object"),
        ("[[step]]\ndo = \"wait\"\nfor = \"ever\"\n", "an unknown object"),
        ("[callbacks]\npermission = \"maybe\"\n[[step]]\ndo = \"initialize\"\n", "an unknown policy"),
        ("[[step]]\ndo = \"initialize\"\n[[requirement]]\nid = \"A-1\"\n", "a requirement without its parts"),
    ];
    for (body, what) in cases {
        let text = format!("{head}{body}");
        assert!(crate::pack::parse_scenario("a.toml", &text).is_err(), "the loader accepts {what}");
        assert!(!scenario.is_valid(&as_json(&text)), "the schema accepts {what}");
    }
    let good = format!("{head}[[step]]\ndo = \"initialize\"\n");
    assert!(crate::pack::parse_scenario("a.toml", &good).is_ok() && scenario.is_valid(&as_json(&good)));
}
