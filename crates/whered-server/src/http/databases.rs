//! `GET /v1/databases`, `/v1/databases/{name}` and `/v1/databases/{name}/networks`.
//!
//! The first gives an object with every description, the second one description, the third a page
//! of the networks within a prefix: parameters `within` (required), `cursor` (the `next` of the
//! page before), `count` and `fields` (as in `/v1/ip`). `next` is null on the last page.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Value, json};
use whered_engine::NamedDatabase;
use whered_engine::ip::Prefix;
use whered_engine::mmdb::{ErrorKind, MmdbError};

use super::answers;
use super::error::HttpError;
use super::ip::{Field, database, push_record, push_text, read_fields, unreadable};
use super::pages::{self, Page};
use super::query::Parameters;
use super::state::{HttpState, json_response};
use crate::databases::{self, PAGE_NETWORKS, PAGE_NETWORKS_MAX};

const ALLOWED: [&str; 4] = ["within", "cursor", "count", "fields"];

/// Descriptions of all databases.
#[utoipa::path(
    get,
    path = "/v1/databases",
    operation_id = "list_databases",
    tag = "addresses and databases",
    params(
        ("cursor" = Option<String>, Query, description = "next of the page before"),
        ("count" = Option<u64>, Query, description = "items of a page, 1 to 10000; absent: all"),
    ),
    responses((status = 200, description = "the answer", body = answers::Databases))
)]
pub(crate) async fn list(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &pages::PARAMETERS)?;
    let generation = state.engine.generation();
    let all = generation.databases();
    let names: Vec<&str> = all.iter().map(|named| named.name.as_str()).collect();
    let page = Page::of(&parameters, &names)?;
    let shown: Vec<Value> = all[page.items].iter().map(|named| description(named)).collect();
    let number = generation.number();
    let body = json!({ "generation": number, "databases": shown, "next": page.next });
    Ok(json_response(body.to_string().into_bytes()))
}

/// The description of a database.
#[utoipa::path(
    get,
    path = "/v1/databases/{name}",
    operation_id = "get_database",
    tag = "addresses and databases",
    params(
        ("name" = String, Path, description = "the database"),
    ),
    responses((status = 200, description = "the answer", body = answers::DatabaseDescription))
)]
pub(crate) async fn one(
    State(state): State<Arc<HttpState>>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("name", error.body_text()))?;
    Parameters::read(&uri, &[])?;
    let generation = state.engine.generation();
    let named = database(&generation, Some(&name))?;
    Ok(json_response(description(named).to_string().into_bytes()))
}

fn description(named: &NamedDatabase) -> Value {
    let pairs = databases::describe(named).into_iter();
    Value::Object(pairs.map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A page of the networks inside a prefix.
#[utoipa::path(
    get,
    path = "/v1/databases/{name}/networks",
    operation_id = "list_networks",
    tag = "addresses and databases",
    params(
        ("name" = String, Path, description = "the database"),
        ("within" = String, Query, description = "a prefix"),
        ("cursor" = Option<String>, Query, description = "next of the page before"),
        ("count" = Option<u64>, Query, description = "networks of a page, 1 to 1000; absent: 100"),
        ("fields" = Option<String>, Query, description = "up to 64 field paths with commas between; absent: the whole record"),
    ),
    responses((status = 200, description = "the answer", body = answers::Networks))
)]
pub(crate) async fn networks(
    State(state): State<Arc<HttpState>>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("name", error.body_text()))?;
    let parameters = Parameters::read(&uri, &ALLOWED)?;
    let within = parameters.text("within");
    let within = within.ok_or_else(|| HttpError::missing("within"))?;
    let prefix = within.parse().map(Prefix::to_canonical).map_err(|error| {
        HttpError::bad_request("within", format!("'{within}' is no prefix: {error}"))
    })?;
    let cursor = match parameters.text("cursor") {
        None | Some("0") => None,
        Some(text) => Some(text.parse().map_err(|_| {
            let allowed = "the 'next' of the page before";
            HttpError::bad_request("cursor", format!("'cursor' is '{text}'; allowed: {allowed}"))
        })?),
    };
    let count = parameters.count("count", PAGE_NETWORKS_MAX)?.unwrap_or(PAGE_NETWORKS);
    let fields = read_fields(&parameters)?;
    let generation = state.engine.generation();
    let named = database(&generation, Some(&name))?;
    let mut body = b"{\"database\":".to_vec();
    push_text(&mut body, &named.name);
    body.extend_from_slice(b",\"within\":");
    push_text(&mut body, &prefix.to_string());
    body.extend_from_slice(b",\"networks\":[");
    let start = body.len();
    let next = databases::page(named, prefix, cursor, count, |network, record| {
        if body.len() > start {
            body.push(b',');
        }
        push_network(&mut body, named, network, record, &fields)?;
        Ok(body.len() - start)
    });
    let next = next.map_err(|error| refused(named, &error))?;
    body.extend_from_slice(b"],\"next\":");
    match next {
        Some(next) => push_text(&mut body, &next.to_string()),
        None => body.extend_from_slice(b"null"),
    }
    body.push(b'}');
    Ok(json_response(body))
}

fn push_network(
    body: &mut Vec<u8>,
    named: &NamedDatabase,
    network: Prefix,
    record: whered_engine::mmdb::RecordId,
    fields: &[Field<'_>],
) -> Result<(), MmdbError> {
    body.extend_from_slice(b"{\"prefix\":");
    push_text(body, &network.to_string());
    body.extend_from_slice(b",\"record\":");
    push_record(body, named, record, fields)?;
    body.push(b'}');
    Ok(())
}

/// The client's mistake when prefix or cursor are no part of the database.
fn refused(named: &NamedDatabase, error: &MmdbError) -> HttpError {
    match error.kind() {
        ErrorKind::AddressFamily => {
            HttpError::bad_request("within", format!("database '{}': {error}", named.name))
        }
        _ => unreadable(named, error),
    }
}
