//! Strict JSON, RFC 8785, NDJSON framing, data frames and the JSON-RPC envelope: the one door by which a peer's bytes enter.
