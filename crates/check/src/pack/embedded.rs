//! The built-in pack, as bytes of the binary.

use super::load::PackFile;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(PackFile { name: concat!("packs/", $name), text: include_str!(concat!("../../../../packs/", $name)) }),*]
    };
}

/// Every file of `packs/acp-v1`. A test compares the list with the folder.
pub(super) const EMBEDDED: &[PackFile<'static>] = files!["acp-v1/pack.toml", "acp-v1/basics.toml",];
