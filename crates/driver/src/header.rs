//! The header before each payload on the companion data plane (spec section 7).

use pintle_wire::{DEFAULT_MAX_DATA_FRAME_BYTES, DataFrameHeader, SafeU64};

use crate::contract::{
    Codec, Contract, Source, Target, boolean, instance_id, not_empty, object, required, string, unknown, unsigned,
    unsigned_32, wrong_type,
};
use crate::error::{ContractError, Problem, ProtocolError};

/// All members are required; `final` may be null, which is false. On the data plane itself the reader is stricter: a
/// header there is canonical.
impl Codec for DataFrameHeader {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let (mut invocation, mut attempt, mut stream) = (None, None, None);
        let (mut sequence, mut length, mut is_final) = (None, None, None);
        for member in object(source.0, "data frame header")? {
            let value = member.value;
            match &*member.name() {
                "invocation_id" => invocation = Some(instance_id(value, "invocation_id")?),
                "attempt_id" => attempt = Some(instance_id(value, "attempt_id")?),
                "stream_id" => stream = Some(string(value, "stream_id")?.into_owned()),
                "sequence" => {
                    let number = SafeU64::new(unsigned(value, "sequence")?);
                    sequence = Some(number.map_err(|_| wrong_type(value, "sequence", "an exact integer"))?);
                }
                "length" => length = Some(unsigned_32(value, "length")?),
                "final" if value.is_null() => is_final = Some(false),
                "final" => is_final = Some(boolean(value, "final")?),
                _ => return Err(unknown(&member, "data frame header")),
            }
        }
        Ok(Self {
            attempt_id: required(attempt, "attempt_id")?,
            is_final: required(is_final, "final")?,
            invocation_id: required(invocation, "invocation_id")?,
            length: required(length, "length")?,
            sequence: required(sequence, "sequence")?,
            stream_id: required(stream, "stream_id")?,
        })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        let out = target.0;
        out.raw("{\"attempt_id\":");
        out.instance_id(self.attempt_id);
        out.raw(",\"final\":");
        out.boolean(self.is_final);
        out.raw(",\"invocation_id\":");
        out.instance_id(self.invocation_id);
        out.raw(",\"length\":");
        out.unsigned(self.length.into());
        out.raw(",\"sequence\":");
        out.unsigned(self.sequence.value());
        out.raw(",\"stream_id\":");
        out.string(&self.stream_id);
        out.raw("}");
        Ok(())
    }
}

impl Contract for DataFrameHeader {
    fn validate(&self) -> Result<(), ContractError> {
        not_empty(&self.stream_id, "stream_id")?;
        if self.length as usize > DEFAULT_MAX_DATA_FRAME_BYTES {
            let limit = DEFAULT_MAX_DATA_FRAME_BYTES as u64;
            return Err(ContractError::new("length", Problem::OverLimit { limit }));
        }
        Ok(())
    }
}
