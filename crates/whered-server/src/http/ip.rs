//! `GET /v1/ip/{address}`: the record of an address.
//!
//! Parameters: `db` (absent: the database that DNS takes places from, else the first),
//! `fields` (dotted paths with commas between; absent: the whole record), `explain`.
//!
//! With `fields`, `record` holds one member for each path as it was given, null where the record
//! has none. An address without a record is a 404, as an unknown database is; `field` is then
//! `address`. A 404 with the field `family` says that the database has no network of the address's
//! family at all.
//!
//! With `explain=1` the reply gives the reasons instead of the record (docs/guide/explain.md), also
//! when there is no record.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use whered_engine::ip::text::read as read_address;
use whered_engine::mmdb::{ErrorKind, FieldPath, Lookup, MmdbError, RecordId};
use whered_engine::{Generation, NamedDatabase};

use super::error::{ErrorCode, HttpError};
use super::query::Parameters;
use super::state::{HttpState, json_response};

const ALLOWED: [&str; 3] = ["db", "fields", "explain"];

/// The most paths of one request.
const FIELDS_MAX: usize = 64;

/// The record of an address.
#[utoipa::path(
    get,
    path = "/v1/ip/{address}",
    operation_id = "get_ip",
    tag = "addresses and databases",
    params(
        ("address" = String, Path, description = "an IPv4 or IPv6 address"),
        ("db" = Option<String>, Query, description = "the database; absent: that of [dns], else the first one"),
        ("fields" = Option<String>, Query, description = "up to 64 field paths with commas between; absent: the whole record"),
        ("explain" = Option<String>, Query, description = "1 or true: the reasons instead of the answer"),
    ),
    responses((status = 200, description = "the record, or the reasons"))
)]
pub(crate) async fn ip(
    State(state): State<Arc<HttpState>>,
    address: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let Path(text) =
        address.map_err(|error| HttpError::bad_request("address", error.body_text()))?;
    let address = read_address(text.as_bytes()).ok_or_else(|| {
        let allowed = "an IPv4 or IPv6 address such as 192.0.2.1 or 2001:db8::1";
        HttpError::bad_request("address", format!("'{text}' is no IP address; allowed: {allowed}"))
    })?;
    let parameters = Parameters::read(&uri, &ALLOWED)?;
    let fields = read_fields(&parameters)?;
    let explain = parameters.switch("explain")?;
    let generation = state.engine.generation();
    let named = database(&generation, parameters.text("db"))?;
    let found = named.answer(address).map_err(|error| unreadable(named, &error))?;
    if explain {
        let reasons = state
            .engine
            .explain_ip(&named.name, address)
            .map_err(|error| HttpError::new(ErrorCode::Internal, None, error.to_string()))?;
        return Ok(json_response(reasons.to_string().into_bytes()));
    }
    answer(named, address, &found, &fields).map(json_response)
}

/// A path with the text that it was given as.
pub(super) struct Field<'a> {
    text: &'a str,
    path: FieldPath,
}

pub(super) fn read_fields(parameters: &Parameters) -> Result<Vec<Field<'_>>, HttpError> {
    let Some(list) = parameters.text("fields") else {
        return Ok(Vec::new());
    };
    let mut fields = Vec::new();
    for text in list.split(',') {
        let path = text.parse().map_err(|error| {
            HttpError::bad_request("fields", format!("'{text}' is no path: {error}"))
        })?;
        if fields.len() == FIELDS_MAX {
            let message = format!("more than {FIELDS_MAX} paths");
            return Err(HttpError::bad_request("fields", message));
        }
        if !fields.iter().any(|field: &Field<'_>| field.text == text) {
            fields.push(Field { text, path });
        }
    }
    Ok(fields)
}

pub(super) fn database<'a>(
    generation: &'a Generation,
    name: Option<&str>,
) -> Result<&'a NamedDatabase, HttpError> {
    let found = match name {
        Some(name) => generation.database(name),
        None => generation.default_database(),
    };
    found.map(|named| &**named).ok_or_else(|| {
        let names: Vec<_> = generation.databases().iter().map(|named| &*named.name).collect();
        let message = match name {
            _ if names.is_empty() => "no database is loaded".to_owned(),
            Some(name) => format!("no such database '{name}'; databases: {}", names.join(", ")),
            None => format!("'db' is missing; databases: {}", names.join(", ")),
        };
        HttpError::not_found("db", message)
    })
}

/// The error of a lookup: a family that the database does not cover is not found in it, as an
/// address without a record is, and `field` says which of both it is.
pub(super) fn unreadable(named: &NamedDatabase, error: &MmdbError) -> HttpError {
    let message = format!("database '{}': {error}", named.name);
    match error.kind() {
        ErrorKind::AddressFamily => {
            HttpError::new(ErrorCode::FamilyNotCovered, Some("family"), message)
        }
        _ => HttpError::new(ErrorCode::Internal, Some("db"), message),
    }
}

fn answer(
    named: &NamedDatabase,
    address: IpAddr,
    found: &Lookup,
    fields: &[Field<'_>],
) -> Result<Vec<u8>, HttpError> {
    let Some(record) = found.record else {
        let message = format!("no record for {address} in database '{}'", named.name);
        return Err(HttpError::not_found("address", message));
    };
    let mut body = b"{\"address\":".to_vec();
    push_text(&mut body, &address.to_string());
    body.extend_from_slice(b",\"database\":");
    push_text(&mut body, &named.name);
    body.extend_from_slice(b",\"prefix\":");
    push_text(&mut body, &found.prefix.to_string());
    body.extend_from_slice(b",\"record\":");
    push_record(&mut body, named, record, fields).map_err(|error| unreadable(named, &error))?;
    body.push(b'}');
    Ok(body)
}

/// The whole record, or an object of the fields asked for.
pub(super) fn push_record(
    body: &mut Vec<u8>,
    named: &NamedDatabase,
    record: RecordId,
    fields: &[Field<'_>],
) -> Result<(), MmdbError> {
    if fields.is_empty() {
        return named.write_record_json(record, body);
    }
    for (index, field) in fields.iter().enumerate() {
        body.push(if index == 0 { b'{' } else { b',' });
        push_text(body, field.text);
        body.push(b':');
        match named.field(record, &field.path)? {
            Some(value) => value.write_json(body),
            None => body.extend_from_slice(b"null"),
        }
    }
    body.push(b'}');
    Ok(())
}

pub(super) fn push_text(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(&serde_json::to_vec(text).expect("text always has a JSON form"));
}
