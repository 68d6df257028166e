//! One frame in, one frame out (spec sections 2 and 4).

pub use pintle_wire::{DEFAULT_MAX_DATA_FRAME_BYTES, MAX_CONTROL_FRAME_BYTES};
use pintle_wire::{LineError, Profile, scan, strip_line_ending};

use crate::cursor::Value;
use crate::envelope::Fields;
use crate::error::ProtocolError;
use crate::message::Message;
use crate::value::LIMITS;

/// Decodes one frame, with or without its line ending (LF or CR LF).
///
/// The checks run in the order of spec section 2, and the first that fails decides the class: line ending, size, UTF-8,
/// strict JSON, root object, typed envelope, version, members against each other, id, params. Direction is not checked
/// here; that is the sessions' part.
///
/// # Errors
/// See [`ProtocolError::class`] and [`ProtocolError::stage`].
pub fn decode_control_frame(frame: &[u8]) -> Result<Message, ProtocolError> {
    let line = strip_line_ending(frame).map_err(|error| match error {
        LineError::Empty => ProtocolError::EmptyControlFrame,
        LineError::LineBreak { offset } => ProtocolError::MultilineControlFrame { offset },
    })?;
    validate_control_frame_size(line.len() as u64)?;
    let text = scan(line, Profile::DriverRpc, LIMITS).map_err(ProtocolError::json)?;
    let root = Value::root(text.as_str());
    if !root.is_object() {
        return Err(ProtocolError::NotObject);
    }
    Fields::read(root).map_err(ProtocolError::Envelope)?.into_message()
}

/// Validates a message and writes its canonical frame with exactly one LF.
///
/// # Errors
/// When the message does not validate, or its canonical form is over [`MAX_CONTROL_FRAME_BYTES`]: a decoded frame full of
/// numbers such as `1e20` may grow beyond it.
pub fn encode_control_frame(message: &Message) -> Result<Vec<u8>, ProtocolError> {
    let mut out = Vec::with_capacity(256);
    append_frame(message, &mut out)?;
    Ok(out)
}

/// Appends a frame; on an error `out` is as before.
pub(crate) fn append_frame(message: &Message, out: &mut Vec<u8>) -> Result<(), ProtocolError> {
    let start = out.len();
    let written = message.write(out).and_then(|()| validate_control_frame_size((out.len() - start) as u64));
    if let Err(error) = written {
        out.truncate(start);
        return Err(error);
    }
    out.push(b'\n');
    Ok(())
}

/// Checks a control frame's size, without its line ending, against [`MAX_CONTROL_FRAME_BYTES`].
///
/// # Errors
/// Class `budget_exceeded` over the bound, `invalid_request` for what is no size, such as a negative number.
pub fn validate_control_frame_size(size: impl TryInto<u64>) -> Result<(), ProtocolError> {
    let bytes = size.try_into().map_err(|_| ProtocolError::InvalidSize)?;
    if bytes > MAX_CONTROL_FRAME_BYTES as u64 {
        return Err(ProtocolError::ControlFrameTooLarge { bytes });
    }
    Ok(())
}

/// Checks a data frame's payload size against [`DEFAULT_MAX_DATA_FRAME_BYTES`]. A lower limit is the caller's to check.
///
/// # Errors
/// As [`validate_control_frame_size`].
pub fn validate_data_frame_size(size: impl TryInto<u64>) -> Result<(), ProtocolError> {
    let bytes = size.try_into().map_err(|_| ProtocolError::InvalidSize)?;
    if bytes > DEFAULT_MAX_DATA_FRAME_BYTES as u64 {
        return Err(ProtocolError::DataFrameTooLarge { bytes });
    }
    Ok(())
}
