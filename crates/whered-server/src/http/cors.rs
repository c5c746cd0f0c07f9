//! What web pages of other origins may do with answers: the `Access-Control-*` headers.
//!
//! For: the origins of `[http]`, and `*`, by which pages of any origin read without a token. Not
//! for: whether a request gets an answer (`trust`, `admit`); a page that has no header here may
//! still have had its request answered.
//!
//! ```text
//! origins = ["https://maps.example.com"]   that origin: reading, matching, uploads, with a token
//! origins = ["*"]                          every origin: reading and matching, without a token
//! ```

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST");
const REQUEST_HEADERS: HeaderValue =
    HeaderValue::from_static("authorization, content-encoding, content-type, idempotency-key");
/// Without `authorization`: a page of any origin uses no token.
const PUBLIC_REQUEST_HEADERS: HeaderValue = HeaderValue::from_static("content-type");
const ANSWER_HEADERS: HeaderValue =
    HeaderValue::from_static("deprecation, location, retry-after, warning, x-whered-total");
/// How long a browser remembers what it was told.
const MAX_AGE_SECONDS: HeaderValue = HeaderValue::from_static("600");
const VARY: HeaderValue = HeaderValue::from_static("origin");
const WANTS_PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// To which pages an answer may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PageAccess {
    /// Of an origin that the configuration lists.
    Listed(HeaderValue),
    /// Of any origin.
    Public,
}

/// Whether a browser asks with this what a page may send.
pub(super) fn is_preflight(request: &Request) -> bool {
    let headers = request.headers();
    request.method() == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

impl PageAccess {
    /// The answer to a preflight request.
    pub(super) fn preflight(&self, asked: &HeaderMap) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        let allowed = match self {
            PageAccess::Listed(_) => REQUEST_HEADERS,
            PageAccess::Public => PUBLIC_REQUEST_HEADERS,
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECONDS);
        let is_private = asked.get(WANTS_PRIVATE).is_some_and(|value| value == "true");
        if is_private && matches!(self, PageAccess::Listed(_)) {
            headers.insert(ALLOWS_PRIVATE, HeaderValue::from_static("true"));
        }
        response
    }

    /// Says in an answer that the page may read it.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        let origin = match self {
            PageAccess::Listed(origin) => origin.clone(),
            PageAccess::Public => HeaderValue::from_static("*"),
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
        headers.append(header::VARY, VARY);
    }
}
