//! whered-server.

pub mod resp;
