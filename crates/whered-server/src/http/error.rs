//! The one form of every refusal: `{"error":{"code","message","field"}}` and a fitting status.
//!
//! `code` is one of a closed list, for programs; `message` is for people. `field` names the
//! parameter or part of the request that is wrong; null when none is.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// The kind of a refusal, which decides its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorCode {
    /// Not HTTP/1.1, or a wrong `Host`.
    InvalidRequest,
    /// A parameter or a part of the path has a wrong value.
    InvalidParameter,
    /// A parameter is missing.
    MissingParameter,
    /// A parameter that the path does not take.
    UnknownParameter,
    /// A parameter that is given twice.
    RepeatedParameter,
    /// A header has a wrong value.
    InvalidHeader,
    /// The body has a wrong form, or is cut off.
    InvalidBody,
    /// The token is missing or wrong.
    Unauthorized,
    /// The token does not open this feed.
    Forbidden,
    /// Without a token, a request that may come from a foreign web page.
    ForeignPage,
    /// No such path.
    PathNotFound,
    /// What the path or a parameter names does not exist.
    NotFound,
    /// The collection holds scores that are no places.
    WrongKind,
    /// The database has no network of the address's family.
    FamilyNotCovered,
    /// The path does not take this method.
    MethodNotAllowed,
    /// The body is too large.
    BodyTooLarge,
    /// Path and query are too long.
    UriTooLong,
    /// The upload's `Content-Encoding` is unknown.
    UnsupportedEncoding,
    /// The upload cannot be read.
    InvalidUpload,
    /// Try again after `Retry-After` seconds.
    TooManyUploads,
    /// Too many or too large headers.
    HeadersTooLarge,
    /// As many streams are open, or as many collections followed, as may be.
    TooManyStreams,
    /// Data cannot be read.
    Internal,
    /// A `Transfer-Encoding` other than `chunked`.
    UnsupportedTransferEncoding,
    /// No answer in time.
    TimedOut,
    /// A disk has failed, or the feed is out of service.
    Unavailable,
}

impl ErrorCode {
    /// The status of the response.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            ErrorCode::InvalidRequest
            | ErrorCode::InvalidParameter
            | ErrorCode::MissingParameter
            | ErrorCode::UnknownParameter
            | ErrorCode::RepeatedParameter
            | ErrorCode::InvalidHeader
            | ErrorCode::WrongKind
            | ErrorCode::InvalidBody => StatusCode::BAD_REQUEST,
            ErrorCode::Unauthorized => StatusCode::UNAUTHORIZED,
            ErrorCode::Forbidden | ErrorCode::ForeignPage => StatusCode::FORBIDDEN,
            ErrorCode::PathNotFound | ErrorCode::NotFound | ErrorCode::FamilyNotCovered => {
                StatusCode::NOT_FOUND
            }
            ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            ErrorCode::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorCode::UriTooLong => StatusCode::URI_TOO_LONG,
            ErrorCode::UnsupportedEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ErrorCode::InvalidUpload => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorCode::TooManyUploads => StatusCode::TOO_MANY_REQUESTS,
            ErrorCode::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            ErrorCode::UnsupportedTransferEncoding => StatusCode::NOT_IMPLEMENTED,
            ErrorCode::TooManyStreams | ErrorCode::TimedOut | ErrorCode::Unavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }
}

/// The body of every refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    error: ErrorDetail,
}

/// Why a request gets no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ErrorDetail {
    code: ErrorCode,
    /// One line: what was found and what is allowed.
    message: String,
    /// The wrong parameter or part of the request.
    #[schema(required = true)]
    field: Option<&'static str>,
}

impl ErrorBody {
    pub(super) fn new(
        code: ErrorCode,
        field: Option<&'static str>,
        message: impl Into<String>,
    ) -> ErrorBody {
        ErrorBody { error: ErrorDetail { code, message: message.into(), field } }
    }
}

/// Why a request gets no answer, as a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpError {
    body: ErrorBody,
    header: Option<(HeaderName, HeaderValue)>,
}

impl HttpError {
    /// A parameter or part of the path has a wrong value.
    pub(crate) fn bad_request(field: &'static str, message: impl Into<String>) -> HttpError {
        HttpError::new(ErrorCode::InvalidParameter, Some(field), message)
    }

    /// A parameter is missing.
    pub(crate) fn missing(field: &'static str) -> HttpError {
        let message = format!("'{field}' is missing");
        HttpError::new(ErrorCode::MissingParameter, Some(field), message)
    }

    /// The body has a wrong form.
    pub(crate) fn bad_body(message: impl Into<String>) -> HttpError {
        HttpError::new(ErrorCode::InvalidBody, Some("body"), message)
    }

    /// What `field` names is not there.
    pub(crate) fn not_found(field: &'static str, message: impl Into<String>) -> HttpError {
        HttpError::new(ErrorCode::NotFound, Some(field), message)
    }

    /// The server is at fault.
    pub(crate) fn internal() -> HttpError {
        HttpError::new(ErrorCode::Internal, None, "the server failed to make an answer")
    }

    /// A refusal of any kind.
    pub(crate) fn new(
        code: ErrorCode,
        field: Option<&'static str>,
        message: impl Into<String>,
    ) -> HttpError {
        HttpError { body: ErrorBody::new(code, field, message), header: None }
    }

    /// The refusal with a header that says what to do.
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> HttpError {
        self.header = Some((name, value));
        self
    }

    /// What an answer to many questions has in the position of a wrong one.
    pub(crate) fn detail(&self) -> &ErrorDetail {
        &self.body.error
    }

    /// What it refuses for.
    pub(crate) fn code(&self) -> ErrorCode {
        self.body.error.code
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let status = self.code().status();
        let mut response = (status, Json(self.body)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
