//! `GET /v1/sets`, `/v1/sets/{name}`, and `GET` and `POST /v1/sets/{name}/match`.
//!
//! The first gives the names, the second what a set consists of, the others the members that hold
//! an address, or each of many. `match` is null when no member does. Sets are changed through RESP
//! only: HTTP's one token guards reading.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use whered_engine::ip::{LayeredSet, PrefixMatch};

use super::answers;
use super::body;
use super::error::HttpError;
use super::ip::{check_count, read_address};
use super::names::OldNames;
use super::pages::{self, Page};
use super::query::Parameters;
use super::state::{HttpState, json_response};

/// The names of the prefix sets.
#[utoipa::path(
    get,
    path = "/v1/sets",
    operation_id = "list_sets",
    tag = "prefix sets",
    params(
        ("cursor" = Option<String>, Query, description = "next of the page before"),
        ("count" = Option<u64>, Query, description = "items of a page, 1 to 10000; absent: all"),
    ),
    responses((status = 200, description = "the answer", body = answers::Sets))
)]
pub(crate) async fn list(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &pages::PARAMETERS)?;
    let mut names = state.engine.prefix_sets().names();
    names.sort_unstable();
    let page = Page::of(&parameters, &names)?;
    let body = json!({ "sets": &names[page.items], "next": page.next });
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
    responses((status = 200, description = "the answer", body = answers::SetDescription))
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
        ("address" = String, Query, description = "an address"),
        ("all" = Option<String>, Query,
            description = "1 or true: all members that hold it, the smallest first"),
        ("explain" = Option<String>, Query,
            description = "1 or true: the reasons instead of the answer"),
    ),
    responses((status = 200, description = "the answer", body = answers::SetOrReasons))
)]
pub(crate) async fn matches(
    State(state): State<Arc<HttpState>>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
    old_names: Option<Extension<OldNames>>,
) -> Result<Response, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("name", error.body_text()))?;
    let parameters = Parameters::read(&uri, &["address", "all", "explain"])?;
    let text = parameters.text("address").ok_or_else(|| HttpError::missing("address"))?;
    let address = read_address(text)?;
    let (all, explain) = (parameters.switch("all")?, parameters.switch("explain")?);
    if explain {
        let reasons = state.engine.explain_match(&name, address).map_err(|_| no_such(&name))?;
        return Ok(json_response(reasons.to_string().into_bytes()));
    }
    let now_millis = state.engine.now_millis();
    let found = state.engine.prefix_sets().read(&name, |set| answer(set, address, now_millis, all));
    let (key, found) = found.ok_or_else(|| no_such(&name))?;
    let mut body = json!({ "set": name, "address": text, key: found });
    if old_names.is_some_and(|Extension(old)| old.contains("addr")) {
        body["addr"] = text.into();
    }
    Ok(json_response(body.to_string().into_bytes()))
}

/// Addresses that are matched together.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MatchRequest {
    /// At most 10,000.
    #[schema(max_items = 10000)]
    addresses: Vec<String>,
    /// All members that hold an address, the smallest first.
    #[serde(default)]
    all: bool,
}

/// The members that hold each of many addresses.
///
/// They come in the order of the addresses. A wrong address has an `error` in its position.
#[utoipa::path(
    post,
    path = "/v1/sets/{name}/match",
    operation_id = "match_addresses",
    tag = "prefix sets",
    params(
        ("name" = String, Path, description = "the set"),
    ),
    request_body(content = MatchRequest),
    responses((status = 200, description = "the answers", body = answers::SetAnswers))
)]
pub(crate) async fn match_many(
    State(state): State<Arc<HttpState>>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("name", error.body_text()))?;
    Parameters::read(&uri, &[])?;
    let MatchRequest { addresses, all } = body::read_json(&headers, body)?;
    check_count(&addresses)?;
    let engine = Arc::clone(&state.engine);
    let found = state.search(move || {
        let now_millis = engine.now_millis();
        let answers = engine.prefix_sets().read(&name, |set| {
            let one = |text: &String| match read_address(text) {
                Ok(address) => {
                    let (key, found) = answer(set, address, now_millis, all);
                    json!({ "address": text, key: found })
                }
                Err(error) => json!({ "address": text, "error": error.detail() }),
            };
            addresses.iter().map(one).collect::<Value>()
        });
        let answers = answers.ok_or_else(|| no_such(&name))?;
        Ok(json!({ "set": name, "answers": answers }).to_string().into_bytes())
    });
    found.await?.map(json_response)
}

/// The member of an answer that has what was found, and its name.
fn answer(set: &LayeredSet, address: IpAddr, now_millis: u64, all: bool) -> (&'static str, Value) {
    if all {
        let mut found: Vec<Value> =
            set.all_matches(address, now_millis).map(|found| member(&found)).collect();
        found.reverse();
        ("matches", found.into())
    } else {
        let found = set.longest_match(address, now_millis).map(|found| member(&found));
        ("match", found.into())
    }
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
