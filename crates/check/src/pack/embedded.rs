//! The built-in pack, as bytes of the binary.

use super::load::PackFile;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(PackFile { name: concat!("packs/", $name), text: include_str!(concat!("../../../../packs/", $name)) }),*]
    };
}

/// Every file of `packs/acp-v1`. A test compares the list with the folder.
pub(super) const EMBEDDED: &[PackFile<'static>] = files![
    "acp-v1/pack.toml",
    "acp-v1/basics.toml",
    "acp-v1/batch.toml",
    "acp-v1/callbacks-refused.toml",
    "acp-v1/callbacks.toml",
    "acp-v1/cancel-at-once.toml",
    "acp-v1/cancel.toml",
    "acp-v1/concurrent.toml",
    "acp-v1/content.toml",
    "acp-v1/early.toml",
    "acp-v1/invalid-utf8.toml",
    "acp-v1/jsonrpc.toml",
    "acp-v1/long-line.toml",
    "acp-v1/malformed.toml",
    "acp-v1/permission.toml",
    "acp-v1/sessions.toml",
    "acp-v1/slow-reader.toml",
    "acp-v1/updates.toml",
    "acp-v1/version-string.toml",
    "acp-v1/version.toml",
];
