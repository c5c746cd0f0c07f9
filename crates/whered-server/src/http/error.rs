//! The one form of every refusal: `{"error":{"message","field"}}` and a fitting status.
//!
//! `field` names the parameter or part of the request that is wrong; null when none is.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why a request gets no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpError {
    status: StatusCode,
    message: String,
    field: Option<&'static str>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl HttpError {
    /// A parameter or part of the path is wrong.
    pub(crate) fn bad_request(field: &'static str, message: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::BAD_REQUEST, Some(field), message)
    }

    /// What `field` names is not there.
    pub(crate) fn not_found(field: &'static str, message: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::NOT_FOUND, Some(field), message)
    }

    /// The server is at fault.
    pub(crate) fn internal() -> HttpError {
        let message = "the server failed to make an answer";
        HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, None, message)
    }

    /// A refusal with any status.
    pub(crate) fn new(
        status: StatusCode,
        field: Option<&'static str>,
        message: impl Into<String>,
    ) -> HttpError {
        HttpError { status, message: message.into(), field, header: None }
    }

    /// The refusal with a header that says what to do.
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> HttpError {
        self.header = Some((name, value));
        self
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let body = Json(json!({ "error": { "message": self.message, "field": self.field } }));
        let mut response = (self.status, body).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
