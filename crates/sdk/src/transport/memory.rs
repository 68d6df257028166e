//! Both ends in one process.

use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

use super::{Stream, TransportKind};

/// Bytes that each direction of a [`memory`] pair holds before its writer waits.
pub const MEMORY_PIPE_BYTES: usize = 64 * 1024;

/// One end of an in-process pair.
pub type Memory = Stream<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// A connected pair in this process: the same bytes as between two processes, through two bounded pipes.
/// Dropping or closing one end shows the other the end of the stream.
pub fn memory() -> (Memory, Memory) {
    let (left, right) = tokio::io::duplex(MEMORY_PIPE_BYTES);
    (end(left), end(right))
}

fn end(duplex: DuplexStream) -> Memory {
    let (reader, writer) = tokio::io::split(duplex);
    Stream::new(TransportKind::InProcess, reader, writer)
}
