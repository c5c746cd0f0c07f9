//! The HTTP listener: `/healthz`, `/readyz`, `/metrics` and the JSON questions under `/v1`.
//!
//! Not for: anything that another listener answers as well in another way (the engine does that).
//!
//! ```text
//! listener ─ limit, clock ─> guard: length, token, time, count ─> route ─> JSON
//!                                                            └──> error form of `error`
//! ```
//!
//! At the same time: one thread runs all connections; searches run on up to [`SEARCHES`] others.
//! Limits: connections (configured; one too many takes the place of one that waits for its client),
//! [`URI_BYTES_MAX`] of path and query, [`REQUEST_TIME`] for
//! an answer, [`listen::PROGRESS`] between answers; the bodies of uploads have limits of their own
//! (`feeds`), other bodies 2 MB.

mod body;
mod counters;
mod databases;
mod error;
mod feeds;
mod ip;
mod listen;
mod near;
mod options;
mod query;
mod refusal;
mod rules;
mod sets;
mod state;
mod tables;
mod token;
mod trust;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use whered_engine::{Engine, use_short_time_slices};

pub(crate) use self::counters::HttpCounters;
use self::error::HttpError;
use self::feeds::{Access, Uploads};
use self::listen::{Connection, Connections, LimitedListener};
pub use self::options::HttpOptions;
use self::state::{HttpState, json_response};
pub(crate) use self::state::{MetricsFormat, RenderMetrics};
use self::token::has_token;
use self::trust::TrustPolicy;
pub(crate) use self::trust::{is_host, is_origin};
use crate::disk_watch;
use crate::feeds::FeedConfig;
use crate::listen::{self as sockets, Kind, Sockets};
use crate::runtime::RuntimeThread;

/// Searches at the same time; more wait.
const SEARCHES: usize = 4;
const URI_BYTES_MAX: usize = 8 * 1024;
const REQUEST_TIME: Duration = Duration::from_secs(20);
/// What `/metrics` is written in for who accepts it, and for everybody else.
const OPEN_METRICS: &str = "application/openmetrics-text";
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How long connections may take to finish when the listener stops.
const FINISH_TIME: Duration = Duration::from_secs(2);

/// The running listener.
pub(crate) struct HttpListener {
    addresses: Vec<SocketAddr>,
    thread: RuntimeThread,
}

impl HttpListener {
    /// Starts answering at sockets that are bound.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub(crate) fn start(
        engine: Arc<Engine>,
        options: &HttpOptions,
        feeds: &[FeedConfig],
        counters: Arc<HttpCounters>,
        metrics: RenderMetrics,
        sockets: &Sockets,
    ) -> io::Result<HttpListener> {
        let listeners = sockets::listeners(sockets, Kind::Http, &options.listen)?;
        let addresses = listeners.iter().map(std::net::TcpListener::local_addr);
        let addresses = addresses.collect::<io::Result<_>>()?;
        let token = options.token.clone();
        let (hosts, origins) = (options.hosts.clone(), options.origins.clone());
        let trusted = TrustPolicy { hosts, origins };
        let searches = Arc::new(Semaphore::new(SEARCHES));
        let uploads = Uploads::new(&engine, feeds);
        let state = HttpState { engine, token, trusted, counters, metrics, searches, uploads };
        let router = router(Arc::new(state));
        let connections = Connections::new(options.max_connections);
        let thread = RuntimeThread::start("whered-http", SEARCHES, FINISH_TIME, |stop| {
            serve(listeners, router, connections, stop)
        })?;
        Ok(HttpListener { addresses, thread })
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Answers what was asked, then closes.
    pub(crate) fn stop(self) {
        self.thread.stop();
    }
}

async fn serve(
    listeners: Vec<std::net::TcpListener>,
    router: Router,
    connections: Arc<Connections>,
    stop: watch::Receiver<bool>,
) {
    // Each request is a little work beside that of others, such as the batches of feeds.
    if let Err(error) = use_short_time_slices() {
        tracing::debug!("the threads of HTTP have turns of the usual length: {error}");
    }
    let mut serving = JoinSet::new();
    for listener in listeners {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => LimitedListener { listener, connections: Arc::clone(&connections) },
            Err(error) => {
                tracing::error!("an HTTP listener is lost: {error}");
                continue;
            }
        };
        let (router, mut stop) = (router.clone(), stop.clone());
        let stopped = async move {
            // An error means that the listener is gone, which is a stop too.
            let _ = stop.wait_for(|stop| *stop).await;
        };
        let service = router.into_make_service_with_connect_info::<Connection>();
        serving.spawn(axum::serve(listener, service).with_graceful_shutdown(stopped).into_future());
    }
    while serving.join_next().await.is_some() {}
}

fn router(state: Arc<HttpState>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/v1/ip/{address}", get(ip::ip))
        .route("/v1/databases", get(databases::list))
        .route("/v1/databases/{name}", get(databases::one))
        .route("/v1/databases/{name}/networks", get(databases::networks))
        .route("/v1/collections/{name}/near", get(near::near))
        .route("/v1/rules", get(rules::list))
        .route("/v1/rules/{name}", get(rules::one))
        .route("/v1/rules/{name}/match", post(rules::find))
        .route("/v1/sets", get(sets::list))
        .route("/v1/sets/{name}", get(sets::one))
        .route("/v1/sets/{name}/match", get(sets::matches))
        .route("/v1/feeds", get(feeds::list))
        .route("/v1/feeds/{feed}", get(feeds::one).post(feeds::push))
        .route("/v1/feeds/{feed}/uploads/{id}", get(feeds::upload))
        .route("/v1/tables", get(tables::list))
        .route("/v1/tables/{table}", get(tables::rows))
        .route("/v1/tables/{table}/rows/{*key}", get(tables::row))
        .route("/v1/tables/{table}/top", get(tables::top))
        .fallback(async || {
            let message = "no such path; paths: /healthz, /readyz, /metrics, /v1/ip/{address}, \
                           /v1/databases, /v1/databases/{name}, \
                           /v1/databases/{name}/networks, /v1/collections/{name}/near, \
                           /v1/rules, /v1/rules/{name}, /v1/rules/{name}/match, /v1/sets, \
                           /v1/sets/{name}, /v1/sets/{name}/match, /v1/feeds, \
                           /v1/feeds/{feed}, /v1/feeds/{feed}/uploads/{id}, /v1/tables, \
                           /v1/tables/{table}, /v1/tables/{table}/rows/{key}, \
                           /v1/tables/{table}/top";
            HttpError::new(StatusCode::NOT_FOUND, Some("path"), message)
        })
        .method_not_allowed_fallback(async || {
            let message = "method not allowed; allowed: GET, HEAD, and POST for \
                           /v1/rules/{name}/match and /v1/feeds/{feed}";
            HttpError::new(StatusCode::METHOD_NOT_ALLOWED, Some("method"), message)
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&state), guard))
        .layer(middleware::from_fn(work))
        .with_state(state)
}

/// What holds for every request: limits, the token, the count.
async fn guard(State(state): State<Arc<HttpState>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = route_of(request.uri().path());
    let too_long =
        request.uri().path_and_query().is_some_and(|text| text.as_str().len() > URI_BYTES_MAX);
    let response = if too_long {
        let message = format!("path and query are longer than {URI_BYTES_MAX} bytes");
        HttpError::new(StatusCode::URI_TOO_LONG, None, message).into_response()
    } else if let Err(refusal) = trust::check_form(&request).and_then(|()| admit(&state, &request))
    {
        if is_upload(route, &request) {
            body::drain(&mut request.into_body()).await;
        }
        refusal.into_response()
    } else if is_upload(route, &request) {
        // It takes as long as its body, which the connection's clock and its own route look after.
        next.run(request).await
    } else {
        match tokio::time::timeout(REQUEST_TIME, next.run(request)).await {
            Ok(response) => response,
            Err(_) => {
                let message = format!("no answer within {} seconds", REQUEST_TIME.as_secs());
                HttpError::new(StatusCode::SERVICE_UNAVAILABLE, None, message).into_response()
            }
        }
    };
    state.counters.add(route, response.status(), began.elapsed());
    response
}

/// Keeps the connection of a request that is worked on.
async fn work(request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<ConnectInfo<Connection>>();
    let _working = connection.map(|ConnectInfo(connection)| connection.work());
    next.run(request).await
}

/// Whether a request is an upload to a feed.
fn is_upload(route: &str, request: &Request) -> bool {
    route == "/v1/feeds/{feed}" && request.method() == Method::POST
}

/// Asks for the token: that of the listener, or for some paths that of a feed. Without one the
/// request must not come from a foreign web page, except that where a token is set, `/healthz` and
/// `/readyz` are open to everybody.
fn admit(state: &HttpState, request: &Request) -> Result<(), HttpError> {
    let (path, headers) = (request.uri().path(), request.headers());
    let access = state.uploads.access(request.method(), path, headers);
    let has_token = state.token.as_ref().is_some_and(|token| has_token(token, headers));
    let is_probe = state.token.is_some() && matches!(path, "/healthz" | "/readyz");
    if access == Access::Open || has_token || is_probe {
        return Ok(());
    }
    if state.token.is_none() {
        let connection = request.extensions().get::<ConnectInfo<Connection>>();
        state.trusted.check(request, connection.and_then(|ConnectInfo(one)| one.local))?;
        if access == Access::AsElsewhere {
            return Ok(());
        }
    }
    let message = "the header 'Authorization: Bearer <token>' is missing or wrong";
    let is_wrong = access == Access::WithTokenOnly && headers.contains_key(header::AUTHORIZATION);
    // A known client that may not upload here has nothing to gain from another try.
    let status = if is_wrong { StatusCode::FORBIDDEN } else { StatusCode::UNAUTHORIZED };
    Err(HttpError::new(status, Some("Authorization"), message))
}

/// The route as metrics name it: never more names than there are routes.
fn route_of(path: &str) -> &'static str {
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["", "healthz"] => "/healthz",
        ["", "readyz"] => "/readyz",
        ["", "metrics"] => "/metrics",
        ["", "v1", "ip", _] => "/v1/ip/{address}",
        ["", "v1", "databases"] => "/v1/databases",
        ["", "v1", "databases", _] => "/v1/databases/{name}",
        ["", "v1", "databases", _, "networks"] => "/v1/databases/{name}/networks",
        ["", "v1", "sets"] => "/v1/sets",
        ["", "v1", "sets", _] => "/v1/sets/{name}",
        ["", "v1", "sets", _, "match"] => "/v1/sets/{name}/match",
        ["", "v1", "collections", _, "near"] => "/v1/collections/{name}/near",
        ["", "v1", "rules"] => "/v1/rules",
        ["", "v1", "rules", _] => "/v1/rules/{name}",
        ["", "v1", "rules", _, "match"] => "/v1/rules/{name}/match",
        ["", "v1", "feeds"] => "/v1/feeds",
        ["", "v1", "feeds", _] => "/v1/feeds/{feed}",
        ["", "v1", "feeds", _, "uploads", _] => "/v1/feeds/{feed}/uploads/{id}",
        ["", "v1", "tables"] => "/v1/tables",
        ["", "v1", "tables", _] => "/v1/tables/{table}",
        ["", "v1", "tables", _, "top"] => "/v1/tables/{table}/top",
        ["", "v1", "tables", _, "rows", ..] => "/v1/tables/{table}/rows/{key}",
        _ => "other",
    }
}

async fn healthz(State(state): State<Arc<HttpState>>) -> Response {
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

/// Whether writes and uploads are taken: unlike [`healthz`] it also says no while a disk is full,
/// which no restart would mend.
async fn readyz(State(state): State<Arc<HttpState>>) -> Response {
    let generation = state.engine.generation().number();
    match disk_watch::refusals(&state.engine).next() {
        None => {
            status_response(StatusCode::OK, &json!({ "status": "ready", "generation": generation }))
        }
        Some(refusal) => {
            let body = json!({
                "status": refusal.state.word(),
                "generation": generation,
                "reason": refusal.to_string(),
            });
            status_response(StatusCode::SERVICE_UNAVAILABLE, &body)
        }
    }
}

async fn metrics(
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

    #[test]
    fn routes_are_named_without_their_parameters() {
        assert_eq!(route_of("/v1/ip/192.0.2.1"), "/v1/ip/{address}");
        assert_eq!(route_of("/v1/collections/a%2Fb/near"), "/v1/collections/{name}/near");
        assert_eq!(route_of("/v1/databases"), "/v1/databases");
        assert_eq!(route_of("/v1/databases/city"), "/v1/databases/{name}");
        assert_eq!(route_of("/v1/databases/city/networks"), "/v1/databases/{name}/networks");
        assert_eq!(route_of("/v1/collections/near"), "other");
        assert_eq!(route_of(""), "other");
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
