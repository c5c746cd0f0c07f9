//! The listeners of `whered`: RESP, DNS and HTTP over one engine, with configuration and metrics.
//!
//! Not for: answers (the engine and `whered-dns` make them), flags and messages to people (the
//! `whered` program).
//!
//! ```text
//!            ┌───────────────────────── Server ─────────────────────────┐
//! clients ─> │ dns: UDP threads, TCP thread   http: one thread           │ ─> Engine
//!            │ config: one TOML file          metrics: read when scraped │
//!            └──────────────────────────────────────────────────────────┘
//! ```
//!
//! To follow a DNS query, start at [`dns::udp::serve`]; an HTTP request, at `http::guard`; a
//! start or stop, at [`Server::start`]. Everything listens on loopback unless told otherwise.

mod config;
pub mod dns;
mod http;
mod metrics;
mod runtime;
mod server;

pub use config::{Config, ConfigError, DnsConfig, HttpConfig, JournalConfig, RespConfig};
pub use server::{Server, ServerError};
