//! The listeners of `whered`: RESP, DNS and HTTP over one engine, with configuration and metrics.
//!
//! Not for: answers (the engine and `whered-dns` make them), flags and messages to people (the
//! `whered` program).
//!
//! ```text
//!            ┌───────────────────── Server ─────────────────────┐
//!            │ resp: threads with one poll loop each            │
//! clients ─> │ dns:  UDP threads, one TCP thread                │ ─> Engine
//!            │ http: one thread; searches on a few others       │
//!            │ reload: one thread watches files, one builds     │
//!            │ config: one TOML file    metrics: read on scrape │
//!            └──────────────────────────────────────────────────┘
//! ```
//!
//! Folders use only what is below them; `xtask/tidy/layers.toml` has the allowed arrows:
//!
//! ```text
//! server    starts and stops everything; alone reads `config`
//! config    reads the file into the options of the front ends
//! metrics   reads their counters; `http` gets it as a function
//! resp, http, dns   the front ends, each with its own options
//! listen    sockets: binding, activation, hand-over, privileges
//! ```
//!
//! To follow a Redis command, start at [`resp`]; a DNS query, at [`dns::udp::serve`]; an HTTP
//! request, at `http::guard`; a start or stop, at [`Server::start`]. Everything listens on
//! loopback unless told otherwise.

mod cells;
mod certificates;
mod compaction;
mod config;
mod control;
mod databases;
mod disk_watch;
pub mod dns;
mod feeds;
pub mod health;
mod http;
mod listen;
mod metrics;
mod progress;
mod reload;
pub mod replica;
pub mod resp;
mod rules;
mod runtime;
mod server;
mod snapshots;
mod stream;
mod sweep;
mod tls;
mod upstream;
mod validity;
mod zone_watch;

pub use config::{
    BackupConfig, Config, ConfigError, JournalConfig, LogConfig, LogFormat, LogLevel, SetsConfig,
    SnapshotConfig,
};
pub use control::{ControlRequest, ControlRequests, ReloadAnswer};
pub use dns::DnsOptions;
pub use feeds::{FeedConfig, SinkConfig, StreamConfig};
pub use http::{HttpOptions, set_commit};
pub use listen::{ProcessUser, Successor, use_own_name_services};
pub use resp::key_matches;
pub use server::{HandedOver, Occasion, Server, ServerError, StartLinks, StopLinks};
