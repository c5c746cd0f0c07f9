//! `GET /` and `GET /console/{file}`: the console, a page that shows in a browser what the server
//! answers.
//!
//! For: its files, which `build.rs` compresses into the program, and their headers.
//! Not for: data. The page reads the routes under `/v1` like every other client. So page and files
//! need no token, and a link on a foreign page may lead to them; the data keep both guards.
//!
//! A browser keeps the files and asks each time whether they changed (`ETag`, 304). The page may
//! load and run nothing from elsewhere, and no other page may frame it or load parts of it.

use std::io::Read;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;

use super::error::{ErrorCode, HttpError};
use super::state::HttpState;

/// Name and gzip of every file, by name.
static FILES: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/console_files.rs"));

const PAGE: &str = "index.html";
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     object-src 'none'",
);
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Whether a path is that of the page or one of its files.
pub(super) fn is_console(path: &str) -> bool {
    path == "/" || path.starts_with("/console/")
}

/// The console, a page for browsers.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "get_console",
    tag = "console",
    responses((status = 200, description = "a page in HTML"))
)]
pub(crate) async fn page(
    State(state): State<Arc<HttpState>>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    answer(&state, PAGE, &headers)
}

/// A file of the console.
#[utoipa::path(
    get,
    path = "/console/{file}",
    operation_id = "get_console_file",
    tag = "console",
    params(
        ("file" = String, Path, description = "its name, such as `main.js`"),
    ),
    responses((status = 200, description = "the file"))
)]
pub(crate) async fn file(
    State(state): State<Arc<HttpState>>,
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("file", error.body_text()))?;
    answer(&state, &name, &headers)
}

fn answer(state: &HttpState, name: &str, headers: &HeaderMap) -> Result<Response, HttpError> {
    if !state.console {
        let message = "the console is turned off by 'console' of [http]";
        return Err(HttpError::new(ErrorCode::PathNotFound, Some("path"), message));
    }
    let Some((name, packed)) = FILES.iter().find(|(known, _)| *known == name) else {
        let message = "no such file of the console; it begins at /";
        return Err(HttpError::not_found("file", message));
    };
    let tag = entity_tag(packed);
    let mut response = if is_known(headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if accepts_gzip(headers) {
        ([(header::CONTENT_ENCODING, "gzip")], *packed).into_response()
    } else {
        let mut plain = Vec::new();
        GzDecoder::new(*packed).read_to_end(&mut plain).map_err(|_| HttpError::internal())?;
        plain.into_response()
    };
    let is_modified = response.status() == StatusCode::OK;
    let added = response.headers_mut();
    if is_modified {
        added.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(name)));
    }
    added.insert(header::ETAG, HeaderValue::try_from(tag).map_err(|_| HttpError::internal())?);
    for (name, value) in [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (RESOURCE_POLICY, HeaderValue::from_static("same-origin")),
    ] {
        added.insert(name, value);
    }
    Ok(response)
}

/// From the last eight bytes of gzip: CRC-32 and length of the content (RFC 1952). Weak, since both
/// codings have it.
fn entity_tag(packed: &[u8]) -> String {
    let sums = packed.last_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    format!("W/\"{sums:016x}\"")
}

/// Whether the client has this version already.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let tags = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|one| one.to_str().ok());
    let opaque = tag.trim_start_matches("W/");
    tags.flat_map(|tags| tags.split(','))
        .map(str::trim)
        .any(|one| one == "*" || one.trim_start_matches("W/") == opaque)
}

/// Whether the client takes gzip, and not with the weight 0.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter();
    accepted.filter_map(|one| one.to_str().ok()).flat_map(|one| one.split(',')).any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|coding| coding.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        is_gzip && weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|it| it > 0.0))
    })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
#[path = "console_tests.rs"]
mod tests;
