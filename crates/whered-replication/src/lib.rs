//! What a primary of Redis or Valkey sends to its replicas.
//!
//! For: connecting to one, asking for what follows a position (PSYNC), the dump (RDB) as keys and
//! members, and the commands behind it with their offsets. Not for: what becomes of them, and not
//! for being a primary. `whered-connect` imports dumps with it, `whered-server` follows. Where the
//! primaries are, a cluster or Sentinels may say. Of a key that the stream alone does not tell,
//! [`Connection::copy_key`] makes a copy.
//!
//! ```text
//! Address ─> Connection ─ introduce ─> synchronize ─┬─ Full ──> DumpBody ─> rdb::Reader ─┐
//!                                                   └─ Continue ─────────────────────────┤
//!                              acknowledge <─ CommandStream <────────────────────────────┘
//! ```
//!
//! Everything that comes may be wrong: each fault is an error of one line, memory grows only by
//! what has come, and no read waits longer than [`Patience`] says.

mod address;
pub mod cluster;
mod connection;
mod dump;
mod error;
mod key_copy;
mod psync;
pub mod rdb;
mod reply;
pub mod sentinel;
mod stream;
mod tls;

pub use address::{Address, Credentials, Endpoint, split_port};
pub use connection::{Closer, Connection, Patience};
pub use dump::DumpBody;
pub use error::LinkError;
pub use key_copy::{COPY_MEMBERS_MAX, KeyContent, KeyCopy};
pub use psync::{FOLLOWS_OPTION, Follows, Introduction, ReplicationId, Resync};
pub use reply::{REPLY_BYTES_MAX, Reply};
pub use stream::{
    Batch, CommandStream, LONG_BYTES, PassesOver, Piece, Span, StreamCommand, UNIT_BYTES_MAX,
};
pub use tls::ClientTls;
