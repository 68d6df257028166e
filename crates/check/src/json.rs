//! Reading back JSON that this program wrote around what peers sent.

use serde::Deserialize;

/// Reads JSON that this program itself has written: records, traces, reports.
///
/// What peers sent is part of it and may have 256 levels, to which records and traces add a few, and serde_json gives up at
/// 128. So there is no bound here; the scan had one. Give it nothing that comes from elsewhere.
///
/// # Errors
/// The text does not have the shape of `T`.
pub(crate) fn read_own<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    deserializer.disable_recursion_limit();
    let value = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}
