//! What a primary of Redis or Valkey sends to its replicas.
//!
//! For: reading dumps (RDB) as a stream of keys and members. Not for: what becomes of them.
//! Levels below know nothing of it; `whered-connect` and `whered-server` use it.

pub mod rdb;
