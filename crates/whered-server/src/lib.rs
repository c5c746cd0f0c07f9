//! whered-server.
