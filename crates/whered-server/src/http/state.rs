//! What every request of the HTTP listener sees, and what many answers share.
//!
//! Not for: routes and limits (`mod.rs`), answers of one route (their own files).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;
use whered_engine::Engine;

use super::counters::HttpCounters;
use super::error::HttpError;
use super::feeds::Uploads;
use super::stream::Streams;
use super::token::CurrentToken;
use super::trust::TrustPolicy;
use crate::replica::ReplicaBoard;

/// Writes all metrics of the server as text.
pub(crate) type RenderMetrics =
    Box<dyn Fn(MetricsFormat) -> Result<String, fmt::Error> + Send + Sync>;

/// A text format of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MetricsFormat {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// The older one of Prometheus, which every scraper reads.
    Version004,
}

/// What every request sees.
pub(crate) struct HttpState {
    pub(super) engine: Arc<Engine>,
    pub(super) token: CurrentToken,
    /// Whom it trusts without a token.
    pub(super) trusted: TrustPolicy,
    pub(super) counters: Arc<HttpCounters>,
    pub(super) metrics: RenderMetrics,
    /// A permit for each of the searches that may run at a time. A search is started with one in
    /// hand: a request that was given up while it waited leaves nothing behind in the runtime's
    /// queue.
    pub(super) searches: Arc<Semaphore>,
    pub(super) uploads: Uploads,
    /// Whether the page for browsers is served.
    pub(super) console: bool,
    pub(super) streams: Streams,
    pub(super) about: ServerFacts,
}

/// What is known of the server when the listener starts.
#[derive(Clone, Debug)]
pub(crate) struct ServerFacts {
    /// When the server started.
    pub(crate) started: Instant,
    /// Where its data are.
    pub(crate) data_dir: Option<PathBuf>,
    /// Protocols with the addresses where they listen.
    pub(crate) listeners: Vec<(&'static str, Vec<String>)>,
    /// What a zone is to other servers, and what a secondary knows of its primaries.
    pub(crate) zone_role: ZoneRole,
    /// How far links to primaries are.
    pub(crate) replicas: Arc<ReplicaBoard>,
}

/// Gives the role of a zone, and the state of a secondary.
#[derive(Clone)]
pub(crate) struct ZoneRole(pub(crate) Arc<RoleFunction>);

type RoleFunction =
    dyn Fn(&whered_dns::Zone) -> (&'static str, Option<serde_json::Value>) + Send + Sync;

impl std::fmt::Debug for ZoneRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ZoneRole")
    }
}

impl HttpState {
    /// Does what takes long on a thread of its own: the listener's thread goes on with other
    /// requests.
    ///
    /// # Errors
    /// The work panics, or the listener stops.
    pub(super) async fn search<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        let permit = Arc::clone(&self.searches).acquire_owned().await;
        let permit = permit.map_err(|_| HttpError::internal())?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        done.await.map_err(|_| HttpError::internal())
    }
}

/// A line of its own, so that answers do not run together in a terminal.
pub(super) fn json_response(mut body: Vec<u8>) -> Response {
    body.push(b'\n');
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
