//! `GET /v1/sets`, `/v1/sets/{name}` and `/v1/sets/{name}/match`.
//!
//! The first gives the names, the second what a set consists of, the third the members that hold an
//! address: parameters `addr` (required), `all` (all of them, the smallest first). `match` is null
//! when no member does. Sets are changed through RESP only: HTTP's one token guards reading.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Value, json};
use whered_engine::ip::PrefixMatch;
use whered_engine::ip::text::read as read_address;

use super::error::HttpError;
use super::query::Parameters;
use super::state::{HttpState, json_response};

/// The names of the prefix sets.
#[utoipa::path(
    get,
    path = "/v1/sets",
    operation_id = "list_sets",
    tag = "prefix sets",
    responses((status = 200, description = "the answer"))
)]
pub(crate) async fn list(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let body = json!({ "sets": state.engine.prefix_sets().names() });
    Ok(json_response(body.to_string().into_bytes()))
}

/// The description of a prefix set.
#[utoipa::path(
    get,
    path = "/v1/sets/{name}",
    operation_id = "get_set",
    tag = "prefix sets",
    params(
        ("name" = String, Path, description = "the set"),
    ),
    responses((status = 200, description = "the answer"))
)]
pub(crate) async fn one(
    State(state): State<Arc<HttpState>>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("name", error.body_text()))?;
    Parameters::read(&uri, &[])?;
    let info = state.engine.prefix_sets().info(&name).ok_or_else(|| no_such(&name))?;
    let body = json!({
        "set": name,
        "members": info.live,
        "ipv4": info.counts.ipv4,
        "ipv6": info.counts.ipv6,
        "ranges": info.counts.ranges,
        "expiring": info.counts.expiring,
        "bytes": info.memory_bytes,
        "compiled_bytes": info.compiled_bytes,
        "form": info.form,
        "pending": info.pending,
        "folds": info.folds,
    });
    Ok(json_response(body.to_string().into_bytes()))
}

/// The members that hold an address.
#[utoipa::path(
    get,
    path = "/v1/sets/{name}/match",
    operation_id = "match_address",
    tag = "prefix sets",
    params(
        ("name" = String, Path, description = "the set"),
        ("addr" = String, Query, description = "an address"),
        ("all" = Option<String>, Query, description = "1 or true: all members that hold it, the smallest first"),
    ),
    responses((status = 200, description = "the answer"))
)]
pub(crate) async fn matches(
    State(state): State<Arc<HttpState>>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("name", error.body_text()))?;
    let parameters = Parameters::read(&uri, &["addr", "all"])?;
    let text = parameters.text("addr");
    let text = text.ok_or_else(|| HttpError::missing("addr"))?;
    let address = read_address(text.as_bytes()).ok_or_else(|| {
        HttpError::bad_request("addr", format!("'addr' is '{text}'; allowed: an IP address"))
    })?;
    let all = parameters.switch("all")?;
    let now_millis = state.engine.now_millis();
    let found = state.engine.prefix_sets().read(&name, |set| {
        if all {
            let mut found: Vec<Value> =
                set.all_matches(address, now_millis).map(|found| member(&found)).collect();
            found.reverse();
            json!({ "set": name, "addr": text, "matches": found })
        } else {
            let found = set.longest_match(address, now_millis).map(|found| member(&found));
            json!({ "set": name, "addr": text, "match": found })
        }
    });
    let body = found.ok_or_else(|| no_such(&name))?;
    Ok(json_response(body.to_string().into_bytes()))
}

fn member(found: &PrefixMatch<'_>) -> Value {
    json!({
        "prefix": found.block.to_string(),
        "value": found.value.map(String::from_utf8_lossy).map(Cow::into_owned),
        "expires_at_millis": found.expires_at_millis,
    })
}

fn no_such(name: &str) -> HttpError {
    HttpError::not_found("name", format!("no such prefix set '{name}'"))
}
