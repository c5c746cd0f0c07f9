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
//! To follow a Redis command, start at [`resp`]; a DNS query, at [`dns::udp::serve`]; an HTTP
//! request, at `http::guard`; a start or stop, at [`Server::start`]. Everything listens on
//! loopback unless told otherwise.

mod activation;
mod cells;
mod config;
mod databases;
mod descriptors;
mod disk_watch;
pub mod dns;
mod feeds;
mod folding;
mod handover;
pub mod health;
mod http;
mod metrics;
mod privileges;
mod progress;
mod reload;
pub mod resp;
mod rules;
mod runtime;
mod server;
mod snapshots;
mod sockets;
mod sweep;
mod zone_watch;

pub use config::{
    Config, ConfigError, DnsConfig, FeedConfig, HttpConfig, JournalConfig, RespConfig,
    ServerConfig, SinkConfig, StreamConfig,
};
pub use handover::{HandedOver, Successor};
pub use server::{Server, ServerError, StartLinks, StopLinks};
