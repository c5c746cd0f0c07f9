//! `POST /v1/feeds/{feed}`, `GET /v1/feeds/{feed}/uploads/{id}`, `GET /v1/feeds`, `GET
//! /v1/feeds/{feed}`.
//!
//! ```text
//! POST ─> token ─> encoding, key ─> body (limits while it is read) ─> spool ─ fdatasync ─> 202 + id
//!                                          │                            │
//!                413, 429, 400 <───────────┘    422, 429, 503 <─────────┘
//! ```
//!
//! For: uploads by HTTP, and what became of them. Not for: what is in them (the engine).
//!
//! Headers of a POST: `Content-Encoding` (identity, gzip, zstd), `Idempotency-Key` (any visible
//! ASCII: the same upload is taken once, however often it is sent), `Authorization: Bearer` with
//! the token of the feed or of `[http]`. A `202` says that the upload is on the disk, by
//! `"durable": true`; where the configuration has loosened that (`[feeds] sync`), it may say
//! `false`. A client that has not seen its answer sends again with the same key. Every refusal is
//! one of JSON with a fitting status, and 429 says by `Retry-After` when to come back.
//!
//! At the same time: no thread waits for a disk. What is not durable yet is held below what the
//! spool's group takes ([`SPOOLING_BYTES`]), so that the listener's thread never waits for room in
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use whered_engine::feeds::formats::{UploadField, UploadFields};
use whered_engine::feeds::{
    Encoding, Feed, PushError, Pushed, RejectedRecord, Upload, UploadStatus,
};
use whered_engine::{Durability, Engine};

use super::answers;
use super::body::{self, BodyAccount};
use super::error::{ErrorCode, HttpError};
use super::listen::Connection;
use super::pages::{self, Page};
use super::query::Parameters;
use super::state::{HttpState, json_response};
use super::tables::unescaped;
use super::token::CurrentToken;
use crate::feeds::{FeedConfig, describe};

/// What all bodies may take together, unless one upload may be larger.
const BODIES_BYTES: usize = 256 << 20;
/// What may wait for the disk at a time, below what the spool's group takes.
const SPOOLING_BYTES: usize = 12 << 20;
/// Larger uploads are spooled by a thread that may wait: copying one takes long. So does unpacking:
/// a packed one of some bytes may become as large as uploads may be.
const LARGE_BYTES: usize = 1 << 20;
/// How long a `202` waits for the disk.
const DURABLE_TIME: Duration = Duration::from_secs(20);
const KEY_BYTES_MAX: usize = 255;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const ENCODINGS: &str = "identity, gzip, zstd";

type Name = Result<Path<String>, PathRejection>;

/// The feeds as the listener sees them.
pub(crate) struct Uploads {
    feeds: BTreeMap<String, UploadTarget>,
    bodies: Arc<BodyAccount>,
}

struct UploadTarget {
    feed: Arc<Feed>,
    token: CurrentToken,
    upload_bytes_max: usize,
    /// Wakes requests that wait for the disk.
    progress: Arc<Notify>,
    /// A permit for each KiB of [`SPOOLING_BYTES`].
    spooling: Arc<Semaphore>,
}

impl Uploads {
    /// Listens to the spools of the feeds.
    pub(crate) fn new(engine: &Engine, configs: &[FeedConfig]) -> Uploads {
        let mut feeds = BTreeMap::new();
        let mut bodies = BODIES_BYTES;
        for config in configs {
            let Some(feed) = engine.feeds().get(&config.name) else { continue };
            let progress = Arc::new(Notify::new());
            let wake = Arc::clone(&progress);
            feed.on_progress(Box::new(move || wake.notify_waiters()));
            let limits = &feed.source().limits;
            let upload_bytes_max =
                usize::try_from(limits.upload_size_bytes_max).unwrap_or(usize::MAX);
            bodies = bodies.max(upload_bytes_max.saturating_mul(2));
            let target = UploadTarget {
                feed: Arc::clone(feed),
                token: CurrentToken::new(config.token.clone()),
                upload_bytes_max,
                progress,
                spooling: Arc::new(Semaphore::new(SPOOLING_BYTES / 1024)),
            };
            feeds.insert(config.name.clone(), target);
        }
        Uploads { feeds, bodies: BodyAccount::new(bodies) }
    }

    /// Takes the tokens of another configuration; a feed that it lacks keeps its own.
    pub(super) fn exchange_tokens(&self, configs: &[FeedConfig]) {
        for config in configs {
            if let Some(target) = self.feeds.get(&config.name) {
                target.token.exchange(config.token.clone());
            }
        }
    }

    /// What a token opens beside that of the listener.
    pub(super) fn access(&self, method: &Method, path: &str, headers: &HeaderMap) -> Access {
        let parts: Vec<&str> = path.split('/').collect();
        let (name, is_upload) = match parts[..] {
            ["", "v1", "feeds", name] => (name, method == Method::POST),
            ["", "v1", "feeds", name, "uploads", _] => (name, false),
            _ => return Access::AsElsewhere,
        };
        // The same name as the route's, however it is written.
        let name = unescaped(name).ok().and_then(|name| String::from_utf8(name).ok());
        let feed = name.and_then(|name| self.feeds.get(&name));
        match feed.map(|feed| &feed.token).filter(|token| token.is_set()) {
            None => Access::AsElsewhere,
            Some(token) if token.is_in(headers) => Access::Open,
            Some(_) if is_upload => Access::WithTokenOnly,
            Some(_) => Access::AsElsewhere,
        }
    }
}

/// Whether a request may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// The token of the feed is there.
    Open,
    /// A token is needed: that of the feed, or that of the listener if it has one.
    WithTokenOnly,
    /// As for any other path.
    AsElsewhere,
}

/// An upload to a feed.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}",
    operation_id = "push_upload",
    tag = "feeds",
    params(
        ("feed" = String, Path, description = "the feed"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible ASCII characters; an upload with a known key is not applied again"),
        ("Content-Encoding" = Option<String>, Header, description = "identity, gzip or zstd"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "the upload"),
    responses((status = 202, description = "the upload is stored", body = answers::StoredUpload))
)]
pub(crate) async fn push(
    State(state): State<Arc<HttpState>>,
    name: Name,
    request: Request,
) -> Result<Response, HttpError> {
    let (parts, mut body) = request.into_parts();
    let answer = take(&state, name, &parts, &mut body).await;
    if answer.is_err() {
        body::drain(&mut body).await;
    }
    answer
}

async fn take(
    state: &HttpState,
    name: Name,
    parts: &Parts,
    body: &mut axum::body::Body,
) -> Result<Response, HttpError> {
    let (name, target) = found(state, name)?;
    let fields = read_fields(&target.feed, parts)?;
    let encoding = read_encoding(&parts.headers)?;
    let key = read_key(&parts.headers)?;
    // What is packed is looked at as a whole.
    let may_be_in_pieces = encoding == Encoding::Identity;
    let (limit, bodies) = (target.upload_bytes_max, &state.uploads.bodies);
    let upload = {
        let connection = parts.extensions.get::<ConnectInfo<Connection>>();
        let _waiting = connection.map(|ConnectInfo(connection)| connection.wait());
        body::read(body, limit, bodies, may_be_in_pieces).await?
    };
    // Held until the upload is on the disk.
    let kib = upload.size_bytes().div_ceil(1024).min(SPOOLING_BYTES / 1024);
    let permit = target.spooling.acquire_many(kib as u32).await;
    let permit = permit.map_err(|_| HttpError::internal())?;
    let takes_long = upload.size_bytes() > LARGE_BYTES || encoding != Encoding::Identity;
    let pushed = if takes_long {
        let feed = Arc::clone(&target.feed);
        let key = key.map(str::to_owned);
        let pushing = tokio::task::spawn_blocking(move || {
            spool(&feed, &upload, encoding, key.as_deref(), &fields)
        });
        pushing.await.map_err(|_| HttpError::internal())?
    } else {
        spool(&target.feed, &upload, encoding, key, &fields)
    };
    let pushed = pushed.map_err(|error| refused(&error))?;
    wait(target, &pushed).await?;
    drop(permit);
    let location = format!("/v1/feeds/{name}/uploads/{}", pushed.id);
    let body = json!({
        "id": pushed.id.to_string(),
        "status": status_name(&target.feed.status(pushed.id)),
        "repeated": pushed.repeated,
        "durable": target.feed.is_on_disk(pushed.ticket),
    });
    let headers = [(header::LOCATION, location)];
    Ok((StatusCode::ACCEPTED, headers, json_response(body.to_string().into_bytes()))
        .into_response())
}

fn spool(
    feed: &Feed,
    upload: &body::Upload,
    encoding: Encoding,
    idempotency_key: Option<&str>,
    fields: UploadFields<'_>,
) -> Result<Pushed, PushError> {
    let pieces = upload.pieces();
    let (bytes, more) =
        pieces.split_first().map_or((&[][..], &[][..]), |(first, more)| (*first, more));
    feed.push(Upload { bytes, more, encoding, idempotency_key, source: None, fields })
}

/// The texts that the feed's records want of a request beside its body.
fn read_fields(feed: &Feed, parts: &Parts) -> Result<Vec<(UploadField, String)>, HttpError> {
    let wanted: Vec<&UploadField> = feed.upload_fields().collect();
    let queries = wanted.iter().filter_map(|field| match field {
        UploadField::Query(name) => Some(name.as_str()),
        _ => None,
    });
    let parameters = Parameters::read_among(&parts.uri, &[], &queries.collect::<Vec<_>>())?;
    let mut fields: Vec<(UploadField, String)> = Vec::new();
    for field in wanted {
        let (field, text) = match field {
            UploadField::FileName | UploadField::FileStem => {
                (UploadField::FileName, file_name(&parts.headers)?)
            }
            UploadField::Header(name) => (field.clone(), header_text(&parts.headers, name)?),
            UploadField::Query(name) => (field.clone(), parameters.text(name).map(str::to_owned)),
        };
        if let Some(text) = text
            && fields.iter().all(|(known, _)| *known != field)
        {
            fields.push((field, text));
        }
    }
    Ok(fields)
}

/// The text of a header that may be there once.
fn header_text(headers: &HeaderMap, name: &str) -> Result<Option<String>, HttpError> {
    let mut values = headers.get_all(name).iter();
    let (value, other) = (values.next(), values.next());
    let wrong = |what: &str| {
        HttpError::new(
            ErrorCode::InvalidHeader,
            Some("header"),
            format!("the header '{name}' {what}; allowed: UTF-8, once"),
        )
    };
    if other.is_some() {
        return Err(wrong("comes twice"));
    }
    let Some(value) = value else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| wrong("is not UTF-8"))?;
    Ok(Some(text.trim().to_owned()))
}

/// The file's name that `Content-Disposition` has, as RFC 6266 writes it, without folders.
fn file_name(headers: &HeaderMap) -> Result<Option<String>, HttpError> {
    let Some(text) = header_text(headers, "content-disposition")? else { return Ok(None) };
    let parameters = || text.split(';').skip(1).filter_map(|part| part.split_once('='));
    let find = |name: &str| {
        let mut found = parameters().filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim())
    };
    let name = match find("filename*") {
        Some(encoded) => {
            let bytes = encoded.get(7..).filter(|_| {
                encoded.get(..7).is_some_and(|head| head.eq_ignore_ascii_case("utf-8''"))
            });
            let bytes = bytes.and_then(|bytes| unescaped(bytes).ok());
            let name = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            Some(name.ok_or_else(|| {
                let message = "'filename*' is not UTF-8''name with escapes such as %20";
                HttpError::new(ErrorCode::InvalidHeader, Some("Content-Disposition"), message)
            })?)
        }
        None => find("filename").map(|name| name.trim_matches('"').to_owned()),
    };
    let base = name.map(|name| name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned());
    Ok(base.filter(|name| !name.is_empty()))
}

fn found(state: &HttpState, name: Name) -> Result<(String, &UploadTarget), HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("feed", error.body_text()))?;
    match state.uploads.feeds.get(&name) {
        Some(feed) => Ok((name, feed)),
        None => {
            let names: Vec<_> = state.uploads.feeds.keys().map(String::as_str).collect();
            let message = match names[..] {
                [] => "no feed is configured".to_owned(),
                _ => format!("no such feed '{name}'; feeds: {}", names.join(", ")),
            };
            Err(HttpError::not_found("feed", message))
        }
    }
}

fn read_encoding(headers: &HeaderMap) -> Result<Encoding, HttpError> {
    let mut given = headers.get_all(header::CONTENT_ENCODING).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        // None, or several, which are one after the other.
        let is_none = !headers.contains_key(header::CONTENT_ENCODING);
        return if is_none { Ok(Encoding::Identity) } else { Err(wrong_encoding("several")) };
    };
    let name = String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase();
    match name.as_str() {
        "identity" | "" => Ok(Encoding::Identity),
        "gzip" | "x-gzip" => Ok(Encoding::Gzip),
        "zstd" => Ok(Encoding::Zstd),
        other => Err(wrong_encoding(other)),
    }
}

fn wrong_encoding(found: &str) -> HttpError {
    let message = format!("the encoding is '{found}'; allowed: {ENCODINGS}");
    HttpError::new(ErrorCode::UnsupportedEncoding, Some("Content-Encoding"), message)
        .with_header(header::ACCEPT_ENCODING, HeaderValue::from_static(ENCODINGS))
}

fn read_key(headers: &HeaderMap) -> Result<Option<&str>, HttpError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let text = value.to_str().ok().map(str::trim);
    let text = text.filter(|text| (1..=KEY_BYTES_MAX).contains(&text.len()));
    text.map(Some).ok_or_else(|| {
        let message =
            format!("the key is no text of 1 to {KEY_BYTES_MAX} visible ASCII characters");
        HttpError::new(ErrorCode::InvalidHeader, Some("Idempotency-Key"), message)
    })
}

/// Waits until an upload is on the disk.
async fn wait(target: &UploadTarget, pushed: &Pushed) -> Result<(), HttpError> {
    let durable = async {
        loop {
            let progress = target.progress.notified();
            tokio::pin!(progress);
            // From here on no progress is missed.
            progress.as_mut().enable();
            match target.feed.durability(pushed.ticket) {
                Durability::Pending => progress.await,
                other => return other,
            }
        }
    };
    let again = "it may be kept all the same, send it again with the same Idempotency-Key";
    let message = match timeout(DURABLE_TIME, durable).await {
        Ok(Durability::Lost) => {
            let reason = target.feed.reason().unwrap_or_else(|| "it is closed".to_owned());
            format!("the spool has failed: {reason}; {again}")
        }
        Ok(_) => return Ok(()),
        Err(_) => {
            format!("the upload is not on the disk after {} s; {again}", DURABLE_TIME.as_secs())
        }
    };
    Err(HttpError::new(ErrorCode::Unavailable, None, message))
}

fn refused(error: &PushError) -> HttpError {
    match error {
        PushError::Full { retry_after, .. } => {
            let seconds = retry_after.as_secs_f64().ceil().max(1.0) as u32;
            HttpError::new(ErrorCode::TooManyUploads, None, error.to_string())
                .with_header(header::RETRY_AFTER, seconds.into())
        }
        PushError::TooLarge { .. } => {
            HttpError::new(ErrorCode::BodyTooLarge, Some("body"), error.to_string())
        }
        PushError::Invalid(_) => {
            HttpError::new(ErrorCode::InvalidUpload, Some("body"), error.to_string())
        }
        PushError::Failed(_) => HttpError::new(ErrorCode::Unavailable, None, error.to_string()),
    }
}

fn status_name(status: &UploadStatus) -> &'static str {
    match status {
        UploadStatus::Applied { .. } => "applied",
        UploadStatus::Rejected { .. } => "rejected",
        UploadStatus::Spooled => "spooled",
        // An old one is not remembered for ever.
        UploadStatus::Unknown => "unknown",
        UploadStatus::OutOfService { .. } => "out of service",
    }
}

/// The status of an upload, and why it or records of it do not count.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/uploads/{id}",
    operation_id = "get_upload",
    tag = "feeds",
    params(
        ("feed" = String, Path, description = "the feed"),
        ("id" = String, Path, description = "the id of a 202"),
    ),
    responses((status = 200, description = "the answer", body = answers::UploadState))
)]
pub(crate) async fn upload(
    State(state): State<Arc<HttpState>>,
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let Path((name, id)) =
        path.map_err(|error| HttpError::bad_request("path", error.body_text()))?;
    let (_, target) = found(&state, Ok(Path(name)))?;
    let number = id.parse().map_err(|_| {
        HttpError::bad_request("id", format!("'{id}' is no id; allowed: the id of a 202"))
    })?;
    let status = target.feed.status(number);
    let mut body = json!({ "id": id, "status": status_name(&status) });
    let mut has_rejected = false;
    match status {
        UploadStatus::Spooled => {}
        UploadStatus::Applied { records, rejected_records } => {
            body["records"] = records.into();
            body["rejected_records"] = rejected_records.into();
            has_rejected = rejected_records > 0;
        }
        UploadStatus::Rejected { reason } => {
            body["reason"] = reason.into();
            has_rejected = true;
        }
        UploadStatus::Unknown => {
            let message = format!("no upload '{id}' is known; old ones are forgotten");
            return Err(HttpError::not_found("id", message));
        }
        UploadStatus::OutOfService { reason } => {
            return Err(HttpError::new(ErrorCode::Unavailable, None, reason));
        }
    }
    if has_rejected {
        let feed = Arc::clone(&target.feed);
        let read = state.search(move || feed.rejected_records(number)).await?;
        let read = read.map_err(|error| {
            let message = format!("the quarantine file of the feed cannot be read: {error}");
            HttpError::new(ErrorCode::Internal, None, message)
        })?;
        body["rejections"] =
            read.map_or(Value::Null, |records| records.iter().map(rejection).collect());
    }
    Ok(json_response(body.to_string().into_bytes()))
}

fn rejection(record: &RejectedRecord) -> Value {
    json!({
        "offset_bytes": record.offset_bytes,
        "line": record.location.map(|location| location.line),
        "column": record.location.map(|location| location.column),
        "reason": record.reason,
    })
}

/// The state of all feeds.
#[utoipa::path(
    get,
    path = "/v1/feeds",
    operation_id = "list_feeds",
    tag = "feeds",
    params(
        ("cursor" = Option<String>, Query, description = "next of the page before"),
        ("count" = Option<u64>, Query, description = "items of a page, 1 to 10000; absent: all"),
    ),
    responses((status = 200, description = "the answer", body = answers::Feeds))
)]
pub(crate) async fn list(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &pages::PARAMETERS)?;
    let feeds = &state.uploads.feeds;
    let page = Page::of(&parameters, &feeds.keys().collect::<Vec<_>>())?;
    let (start, count) = (page.items.start, page.items.len());
    let shown = feeds.values().skip(start).take(count).map(|target| describe(&target.feed));
    let body = json!({ "feeds": shown.collect::<Value>(), "next": page.next });
    Ok(json_response(body.to_string().into_bytes()))
}

/// The state of a feed.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}",
    operation_id = "get_feed",
    tag = "feeds",
    params(
        ("feed" = String, Path, description = "the feed"),
    ),
    responses((status = 200, description = "the answer", body = answers::FeedState))
)]
pub(crate) async fn one(
    State(state): State<Arc<HttpState>>,
    name: Name,
    uri: Uri,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let (_, target) = found(&state, name)?;
    Ok(json_response(describe(&target.feed).to_string().into_bytes()))
}
