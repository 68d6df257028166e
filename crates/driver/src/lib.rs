//! Driver RPC v1: messages, the lifecycle machine and both ends as sessions that do no IO.
