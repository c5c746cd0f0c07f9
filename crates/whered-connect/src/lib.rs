//! Outbound data clients: what brings other people's points into a running server, and a server's
//! prefix sets into the kernel.
//!
//! For: `copy`, which copies GEO keys of a running Redis or Valkey, `dump`, which writes the keys
//! of their dumps (`whered-replication` reads them), and `points`, which loads files of points. All
//! write over RESP into whatever speaks it, whered or Redis. `live` lets a server that follows a
//! primary take its place. And `sync`, which
//! keeps sets of the kernel's packet filter in step with a prefix set. And `uploads`, which brings
//! uploads to feeds over HTTP. For the server's own feeds: `sinks`, which hand tables on into SQL
//! databases, and `streams`, which take uploads out of somebody's log. And `export`, which writes
//! tables and collections into files. Not for: listening, terminals, exit codes, indexes. Progress
//! is told through a closure; how it is shown is the caller's affair.
//!
//! ```text
//!  Redis ── ZSCAN ──> copy ──┐
//!                            ├── ZADD, GEOADD, pipelined ──> server
//!  file ── records ─> points ┤
//!  RDB ─── events ──> dump ──┘
//!
//!  server or file ── members ──> sync ── netlink, ipset ──> kernel
//!
//!  Redis Streams ── XREAD ──> streams ──> spool of a feed ... its tables ──> sinks ── SQL ──> database
//!  server ── TABLE.SCAN, ZSCAN ──> export ──> file
//! ```
//!
//! At once: one thread a job. The request for the next page is on its way while the last one is
//! written, so that source and target work side by side.
#[cfg(any(feature = "mysql", feature = "export"))]
mod calendar;
pub mod copy;
pub mod dump;
mod error;
#[cfg(feature = "export")]
pub mod export;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "streams"))]
pub mod feed;
pub mod live;
#[cfg(feature = "export")]
pub mod parquet_files;
pub mod points;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "export"))]
pub mod rows;
mod server;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub mod sinks;
mod stop;
#[cfg(feature = "streams")]
pub mod streams;
pub mod sync;
mod tls;
pub use whered_unpack as unpack;
pub mod uploads;

pub use error::ConnectError;
pub use server::{Server, ServerAddress};
pub use stop::Stop;
pub use whered_replication::ClientTls;

/// How far a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Members copied, or bytes of the input read.
    pub done: u64,
    /// How many there are, where that is known.
    pub total: Option<u64>,
    /// Keys finished, or records read.
    pub records: u64,
}
