//! The Agent Client Protocol: method table, lossless types, connection, session and turn, without IO.
