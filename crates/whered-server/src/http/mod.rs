//! The HTTP listener: the console at `/`, `/healthz`, `/readyz`, `/metrics` and the JSON questions
//! under `/v1`.
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

mod answers;
mod binary_names;
mod body;
mod collections;
mod console;
mod cors;
mod counters;
mod databases;
mod error;
mod explain;
mod feeds;
mod ip;
mod listen;
mod names;
mod near;
mod openapi;
mod options;
mod pages;
mod pools;
mod probes;
mod query;
mod refusal;
mod routes;
mod rules;
mod searches;
mod sets;
mod state;
mod status;
mod stream;
mod tables;
mod token;
mod transport;
mod trust;
mod zones;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{
    DefaultPredicate, NotForContentType, Predicate, SizeAbove,
};
use whered_engine::{Engine, use_short_time_slices};

pub(crate) use self::counters::HttpCounters;
use self::error::{ErrorCode, HttpError};
use self::feeds::{Access, Uploads};
use self::listen::{Connection, Connections, LimitedListener};
use self::names::OldNames;
pub use self::options::HttpOptions;
use self::state::HttpState;
pub(crate) use self::state::{MetricsFormat, RenderMetrics, ServerFacts, ZoneRole};
pub use self::status::set_commit;
use self::stream::Streams;
use self::token::CurrentToken;
pub(crate) use self::transport::configure as configure_tls;
use self::trust::{Arrival, TrustPolicy};
pub(crate) use self::trust::{EVERY_ORIGIN, is_host, is_origin};
use crate::certificates::CurrentTls;
use crate::feeds::FeedConfig;
use crate::listen::{self as sockets, Kind, Sockets};
use crate::runtime::RuntimeThread;

/// Searches at the same time; more wait.
const SEARCHES: usize = 4;
const URI_BYTES_MAX: usize = 8 * 1024;
/// Packing a smaller answer saves no packet.
const COMPRESSED_BYTES_MIN: u64 = 1024;
const REQUEST_TIME: Duration = Duration::from_secs(20);

/// How long connections may take to finish when the listener stops.
const FINISH_TIME: Duration = Duration::from_secs(2);

/// The running listener.
pub(crate) struct HttpListener {
    addresses: Vec<SocketAddr>,
    tls_addresses: Vec<SocketAddr>,
    tls: Option<CurrentTls>,
    state: Arc<HttpState>,
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
        mut about: ServerFacts,
        sockets: &Sockets,
    ) -> io::Result<HttpListener> {
        let plain = sockets::listeners(sockets, Kind::Http, &options.listen)?;
        let encrypted = sockets::listeners(sockets, Kind::HttpTls, options.tls_listen())?;
        let (addresses, tls_addresses) = (addresses_of(&plain)?, addresses_of(&encrypted)?);
        let tls = options.tls.as_ref().map(configure_tls).transpose()?.map(CurrentTls::new);
        let plain = plain.into_iter().map(|listener| (listener, None));
        let encrypted = encrypted.into_iter().map(|listener| (listener, tls.clone()));
        let listeners: Vec<_> = plain.chain(encrypted).collect();
        let shown =
            |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::to_string).collect();
        about.listeners.push(("http", shown(&addresses)));
        about.listeners.push(("http_tls", shown(&tls_addresses)));
        let token = CurrentToken::new(options.token.clone());
        let (hosts, origins) = (options.hosts.clone(), options.origins.clone());
        let trusted = TrustPolicy { hosts, origins };
        let searches = Arc::new(Semaphore::new(SEARCHES));
        let uploads = Uploads::new(&engine, feeds);
        let console = options.console;
        let streams = Streams::new();
        let state = HttpState {
            engine,
            token,
            trusted,
            counters,
            metrics,
            searches,
            uploads,
            streams,
            about,
            console,
        };
        let state = Arc::new(state);
        let shared = Arc::clone(&state);
        let router = router(Arc::clone(&state));
        let connections = Connections::new(options.max_connections);
        let thread = RuntimeThread::start("whered-http", SEARCHES, FINISH_TIME, |stop| {
            serve(listeners, router, connections, state, stop)
        })?;
        Ok(HttpListener { addresses, tls_addresses, tls, state: shared, thread })
    }

    /// Takes the tokens of another configuration for the requests that come now.
    pub(crate) fn exchange(&self, options: &HttpOptions, feeds: &[FeedConfig]) {
        self.state.token.exchange(options.token.clone());
        self.state.uploads.exchange_tokens(feeds);
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where it listens for TLS.
    pub(crate) fn tls_addresses(&self) -> &[SocketAddr] {
        &self.tls_addresses
    }

    /// New connections take these certificates; those that are open go on.
    pub(crate) fn exchange_tls(&self, config: Arc<ServerConfig>) {
        if let Some(tls) = &self.tls {
            tls.exchange(config);
        }
    }

    /// Answers what was asked, then closes.
    pub(crate) fn stop(self) {
        self.thread.stop();
    }
}

fn addresses_of(listeners: &[std::net::TcpListener]) -> io::Result<Vec<SocketAddr>> {
    listeners.iter().map(std::net::TcpListener::local_addr).collect()
}

async fn serve(
    listeners: Vec<(std::net::TcpListener, Option<CurrentTls>)>,
    router: Router,
    connections: Arc<Connections>,
    state: Arc<HttpState>,
    stop: watch::Receiver<bool>,
) {
    // Each request is a little work beside that of others, such as the batches of feeds.
    if let Err(error) = use_short_time_slices() {
        tracing::debug!("the threads of HTTP have turns of the usual length: {error}");
    }
    let mut serving = JoinSet::new();
    for (listener, tls) in listeners {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => {
                let connections = Arc::clone(&connections);
                LimitedListener { listener, tls, connections }
            }
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
    let streaming = stop.clone();
    serving.spawn(async move {
        state.streams.run(&state.engine, streaming).await;
        Ok(())
    });
    while serving.join_next().await.is_some() {}
}

fn router(state: Arc<HttpState>) -> Router {
    // Small answers, events and images go out as they are, and so do points for drawing: their
    // digits are nearly random.
    let is_compressed = SizeAbove::new(COMPRESSED_BYTES_MIN)
        .and(DefaultPredicate::new())
        .and(NotForContentType::const_new("application/octet-stream"));
    let compression =
        CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(is_compressed);
    routes::router()
        .layer(compression)
        .layer(middleware::from_fn_with_state(Arc::clone(&state), guard))
        .layer(middleware::from_fn(work))
        .with_state(state)
}

/// What holds for every request: limits, the token, the count.
async fn guard(State(state): State<Arc<HttpState>>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let matched = request.extensions().get::<MatchedPath>();
    let (route, parameters) = (routes::name_of(matched), routes::parameters_of(matched));
    let too_long =
        request.uri().path_and_query().is_some_and(|text| text.as_str().len() > URI_BYTES_MAX);
    if !too_long {
        names::rename_parameters(&mut request, parameters);
    }
    let old_names = request.extensions().get::<OldNames>().cloned();
    let page_access = state.trusted.page_access(request.headers());
    let mut response = if too_long {
        let message = format!("path and query are longer than {URI_BYTES_MAX} bytes");
        HttpError::new(ErrorCode::UriTooLong, None, message).into_response()
    } else if let Err(refusal) =
        trust::check_form(&request).and_then(|()| admit(&state, route, &request))
    {
        if is_upload(route, &request) {
            body::drain(&mut request.into_body()).await;
        }
        refusal.into_response()
    } else if let Some(page_access) = page_access.as_ref().filter(|_| cors::is_preflight(&request))
    {
        page_access.preflight(request.headers())
    } else if is_upload(route, &request) {
        // It takes as long as its body, which the connection's clock and its own route look after.
        next.run(request).await
    } else {
        match tokio::time::timeout(REQUEST_TIME, next.run(request)).await {
            Ok(response) => response,
            Err(_) => {
                let message = format!("no answer within {} seconds", REQUEST_TIME.as_secs());
                HttpError::new(ErrorCode::TimedOut, None, message).into_response()
            }
        }
    };
    if let Some(page_access) = page_access {
        page_access.tell(response.headers_mut());
    }
    let in_body = response.extensions_mut().remove::<OldNames>();
    for old in [old_names, in_body].into_iter().flatten() {
        old.tell(response.headers_mut());
    }
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
fn admit(state: &HttpState, route: &str, request: &Request) -> Result<(), HttpError> {
    let (path, headers) = (request.uri().path(), request.headers());
    let connection = request.extensions().get::<ConnectInfo<Connection>>();
    let local = connection.and_then(|ConnectInfo(connection)| connection.local);
    if console::is_console(path) {
        // Without a token its address must be right, as the data's must: else nothing would work.
        return if state.token.is_set() {
            Ok(())
        } else {
            state.trusted.check_host(request, local)
        };
    }
    let access = state.uploads.access(request.method(), path, headers);
    let has_token = state.token.is_in(headers);
    let is_probe = state.token.is_set() && matches!(path, "/healthz" | "/readyz");
    // A browser sends no token with a preflight request, and the answer has no data.
    let is_preflight = state.token.is_set()
        && cors::is_preflight(request)
        && state.trusted.page_access(headers).is_some();
    if access == Access::Open || has_token || is_probe || is_preflight {
        return Ok(());
    }
    if !state.token.is_set() {
        let is_tls = connection.is_some_and(|ConnectInfo(connection)| connection.is_tls);
        let is_upload = is_upload(route, request);
        state.trusted.check(request, Arrival { local, is_tls, is_upload })?;
        if access == Access::AsElsewhere {
            return Ok(());
        }
    }
    let message = "the header 'Authorization: Bearer <token>' is missing or wrong";
    let is_wrong = access == Access::WithTokenOnly && headers.contains_key(header::AUTHORIZATION);
    // A known client that may not upload here has nothing to gain from another try.
    let code = if is_wrong { ErrorCode::Forbidden } else { ErrorCode::Unauthorized };
    Err(HttpError::new(code, Some("Authorization"), message))
}
