//! Sockets and what belongs to them before anything is served: binding, socket activation, limits
//! of file descriptors, handing over to another process, dropping privileges.
//!
//! Not for: what comes in through the sockets (`resp`, `http`, `dns`), nor the configuration: the
//! caller says by [`ListenOptions`] what is needed.
//!
//! ```text
//! ListenOptions ─┬─ activation: passed by a service manager ─┐
//!                ├─ handover: passed by the process before ──┼─> Sockets ─> resp, http, dns
//!                └─ bind ────────────────────────────────────┘
//! ```

mod activation;
mod bind;
mod descriptors;
mod handover;
mod name_services;
mod privileges;
mod sockets;

use std::net::SocketAddr;

pub(crate) use activation::inherited;
pub(crate) use bind::STOP_LATENCY;
pub use bind::{UnixSocketOptions, bind_udp};
pub(crate) use descriptors::{ConnectionLimits, fit_connections};
pub use handover::Successor;
pub(crate) use handover::{HandoverState, Predecessor, Speaks, SuccessorListener};
pub use name_services::use_own_name_services;
pub use privileges::ProcessUser;
pub(crate) use privileges::{become_user, find_user};
pub(crate) use sockets::{Kind, Sockets, address_of, by_thread, listeners, probe};

/// Where a server listens, and with how many threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenOptions {
    pub(crate) resp: Vec<SocketAddr>,
    pub(crate) resp_tls: Vec<SocketAddr>,
    pub(crate) resp_unix: Option<UnixSocketOptions>,
    pub(crate) resp_threads: usize,
    pub(crate) http: Vec<SocketAddr>,
    pub(crate) http_tls: Vec<SocketAddr>,
    /// By UDP and TCP alike.
    pub(crate) dns: Vec<SocketAddr>,
    /// Of UDP.
    pub(crate) dns_threads: usize,
}
