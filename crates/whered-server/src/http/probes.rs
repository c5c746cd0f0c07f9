//! `/healthz`, `/readyz` and `/metrics`: what supervisors and scrapers ask.
//!
//! Not for: what a metric means (`metrics` of the server).

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use whered_engine::Engine;

use super::answers;
use super::error::HttpError;
use super::state::{HttpState, MetricsFormat, ServerFacts, json_response};
use crate::disk_watch;

/// What `/metrics` is written in for who accepts it, and for everybody else.
const OPEN_METRICS: &str = "application/openmetrics-text";
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether the process works.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "get_health",
    tag = "health and metrics",
    responses((status = 200, description = "it works", body = answers::Health), (status = 503, description = "the journal has failed; a restart is necessary", body = answers::Health))
)]
pub(crate) async fn healthz(State(state): State<Arc<HttpState>>) -> Response {
    health(state.engine.generation().number(), state.engine.journal_poisoned())
}

fn health(generation: u64, poisoned: Option<String>) -> Response {
    match poisoned {
        None => {
            status_response(StatusCode::OK, &json!({ "status": "ok", "generation": generation }))
        }
        Some(reason) => {
            let reason = format!("the journal has failed: {reason}");
            let body = json!({ "status": "failed", "generation": generation, "reason": reason });
            status_response(StatusCode::SERVICE_UNAVAILABLE, &body)
        }
    }
}

fn status_response(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, json_response(body.to_string().into_bytes())).into_response()
}

/// Whether writes and uploads are taken, and replicas are not too far behind.
///
/// Unlike `/healthz` it also says no while a disk is full, which no restart would mend.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "get_readiness",
    tag = "health and metrics",
    responses((status = 200, description = "they are", body = answers::Health), (status = 503, description = "they are not; the reason says why", body = answers::Health))
)]
pub(crate) async fn readyz(State(state): State<Arc<HttpState>>) -> Response {
    let generation = state.engine.generation().number();
    match unreadiness(&state.engine, &state.about) {
        None => {
            status_response(StatusCode::OK, &json!({ "status": "ready", "generation": generation }))
        }
        Some((status, reason)) => {
            let body = json!({ "status": status, "generation": generation, "reason": reason });
            status_response(StatusCode::SERVICE_UNAVAILABLE, &body)
        }
    }
}

/// A word and the reason why the server is not ready: writes are refused, or a replica is further
/// behind than it may be.
pub(super) fn unreadiness(engine: &Engine, about: &ServerFacts) -> Option<(&'static str, String)> {
    let refusal = disk_watch::refusals(engine).next();
    let refusal = refusal.map(|refusal| (refusal.state.word(), refusal.to_string()));
    refusal.or_else(|| Some(("behind", about.replicas.not_ready()?)))
}

/// Metrics as text.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "get_metrics",
    tag = "health and metrics",
    responses((status = 200, description = "OpenMetrics where it is accepted, otherwise the text format 0.0.4"))
)]
pub(crate) async fn metrics(
    State(state): State<Arc<HttpState>>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let (format, kind) = if accepts(&headers, OPEN_METRICS) {
        (MetricsFormat::OpenMetrics, OPEN_METRICS_TYPE)
    } else {
        (MetricsFormat::Version004, METRICS_TYPE)
    };
    let text = (state.metrics)(format).map_err(|_| HttpError::internal())?;
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// Whether the client names a media type as one that it accepts, and not with the weight 0.
fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(media_type));
        let mut weights = parts.filter_map(|part| part.strip_prefix("q="));
        is_it && weights.next().is_none_or(|weight| weight.parse() != Ok(0.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_is_accepted_where_it_is_named_with_a_weight_above_zero() {
        let asks = |accept: &'static str| {
            let value = header::HeaderValue::from_static(accept);
            accepts(&HeaderMap::from_iter([(header::ACCEPT, value)]), OPEN_METRICS)
        };
        assert!(asks("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2"));
        assert!(asks("text/plain, Application/OpenMetrics-Text"));
        assert!(!asks("application/openmetrics-text;q=0, text/plain"));
        assert!(!asks("*/*"));
        assert!(!accepts(&HeaderMap::new(), OPEN_METRICS));
    }

    #[tokio::test]
    async fn a_failed_journal_makes_the_server_unhealthy_and_says_so() {
        let response = health(7, Some("fdatasync: input/output error".to_owned()));
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
        let expected = json!({
            "status": "failed",
            "generation": 7,
            "reason": "the journal has failed: fdatasync: input/output error",
        });
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&body).unwrap(), expected);
    }
}
