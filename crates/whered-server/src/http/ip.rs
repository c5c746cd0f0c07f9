//! `GET /v1/ip/{address}`: the record of an address. `POST /v1/ip`: those of many.
//!
//! With `fields`, `record` holds one member for each path as it was given, null where the record
//! has none. An address without a record has the record null, and as its prefix the network that
//! has none. A 404 with the field `family` says that the database has no network of the address's
//! family at all.
//!
//! With `explain=1` the reply gives the reasons instead of the record (docs/guide/explain.md).

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde::Deserialize;
use utoipa::ToSchema;
use whered_engine::ip::text;
use whered_engine::mmdb::{ErrorKind, FieldPath, Lookup, MmdbError, RecordId};
use whered_engine::{Generation, NamedDatabase};

use super::answers;
use super::body;
use super::error::{ErrorCode, HttpError};
use super::query::Parameters;
use super::state::{HttpState, json_response};

const ALLOWED: [&str; 3] = ["database", "fields", "explain"];

/// The most paths of one request.
const FIELDS_MAX: usize = 64;
/// The most addresses of one request.
pub(super) const ADDRESSES_MAX: usize = 10_000;
/// The most bytes of the answer to many addresses.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The record of an address.
#[utoipa::path(
    get,
    path = "/v1/ip/{address}",
    operation_id = "get_ip",
    tag = "addresses and databases",
    params(
        ("address" = String, Path, description = "an IPv4 or IPv6 address"),
        ("database" = Option<String>, Query, description = "the database; absent: that of [dns], else the first one"),
        ("fields" = Option<String>, Query, description = "up to 64 field paths with commas between; absent: the whole record"),
        ("explain" = Option<String>, Query, description = "1 or true: the reasons instead of the answer"),
    ),
    responses((status = 200, description = "the record, or the reasons", body = answers::IpOrReasons))
)]
pub(crate) async fn ip(
    State(state): State<Arc<HttpState>>,
    address: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let Path(text) =
        address.map_err(|error| HttpError::bad_request("address", error.body_text()))?;
    let address = read_address(&text)?;
    let parameters = Parameters::read(&uri, &ALLOWED)?;
    let fields = read_fields(&parameters)?;
    let explain = parameters.switch("explain")?;
    let generation = state.engine.generation();
    let named = database(&generation, parameters.text("database"))?;
    let found = named.answer(address).map_err(|error| unreadable(named, &error))?;
    if explain {
        let reasons = state
            .engine
            .explain_ip(&named.name, address)
            .map_err(|error| HttpError::new(ErrorCode::Internal, None, error.to_string()))?;
        return Ok(json_response(reasons.to_string().into_bytes()));
    }
    let mut body = b"{\"address\":".to_vec();
    push_text(&mut body, &address.to_string());
    body.extend_from_slice(b",\"database\":");
    push_text(&mut body, &named.name);
    body.push(b',');
    push_answer(&mut body, named, &found, &fields).map_err(|error| unreadable(named, &error))?;
    body.push(b'}');
    Ok(json_response(body))
}

/// An address as any notation has it.
///
/// # Errors
/// It is none: 400.
pub(super) fn read_address(found: &str) -> Result<IpAddr, HttpError> {
    text::read(found.as_bytes()).ok_or_else(|| {
        let allowed = "an IPv4 or IPv6 address such as 192.0.2.1 or 2001:db8::1";
        HttpError::bad_request("address", format!("'{found}' is no IP address; allowed: {allowed}"))
    })
}

/// Addresses whose records are asked for together.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordsRequest {
    /// At most 10,000.
    #[schema(max_items = 10000)]
    addresses: Vec<String>,
    /// Absent: that of `[dns]`, else the first one.
    database: Option<String>,
    /// Up to 64 field paths; absent: the whole record.
    #[serde(default)]
    fields: Vec<String>,
}

/// The records of many addresses.
///
/// They come in the order of the addresses. A wrong address has an `error` in its position.
#[utoipa::path(
    post,
    path = "/v1/ip",
    operation_id = "list_ip",
    tag = "addresses and databases",
    request_body(content = RecordsRequest),
    responses((status = 200, description = "the answers", body = answers::IpAnswers))
)]
pub(crate) async fn batch(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let request: RecordsRequest = body::read_json(&headers, body)?;
    check_count(&request.addresses)?;
    let generation = state.engine.generation();
    state.search(move || records(&generation, &request)).await?.map(json_response)
}

/// Refuses more addresses than an answer is made for.
///
/// # Errors
/// More than [`ADDRESSES_MAX`]: 400.
pub(super) fn check_count(addresses: &[String]) -> Result<(), HttpError> {
    if addresses.len() <= ADDRESSES_MAX {
        return Ok(());
    }
    let found = addresses.len();
    Err(HttpError::bad_body(format!("it has {found} addresses; allowed: {ADDRESSES_MAX}")))
}

fn records(generation: &Generation, request: &RecordsRequest) -> Result<Vec<u8>, HttpError> {
    let fields = read_paths(request.fields.iter().map(String::as_str))?;
    let named = database(generation, request.database.as_deref())?;
    let mut body = b"{\"database\":".to_vec();
    push_text(&mut body, &named.name);
    body.extend_from_slice(b",\"answers\":[");
    for (index, address) in request.addresses.iter().enumerate() {
        if body.len() > ANSWER_BYTES_MAX {
            let message = format!(
                "the answer to {index} addresses has more than {ANSWER_BYTES_MAX} bytes; ask for \
                 fewer, or for 'fields'"
            );
            return Err(HttpError::bad_body(message));
        }
        body.extend_from_slice(if index == 0 { b"{\"address\":" } else { b",{\"address\":" });
        let answer_start = body.len();
        if let Err(error) = push_one(&mut body, named, address, &fields) {
            body.truncate(answer_start);
            push_text(&mut body, address);
            body.extend_from_slice(b",\"error\":");
            serde_json::to_writer(&mut body, error.detail()).map_err(|_| HttpError::internal())?;
        }
        body.push(b'}');
    }
    body.extend_from_slice(b"]}");
    Ok(body)
}

fn push_one(
    body: &mut Vec<u8>,
    named: &NamedDatabase,
    address: &str,
    fields: &[Field<'_>],
) -> Result<(), HttpError> {
    let address = read_address(address)?;
    push_text(body, &address.to_string());
    body.push(b',');
    let pushed = named.answer(address).and_then(|found| push_answer(body, named, &found, fields));
    pushed.map_err(|error| unreadable(named, &error))
}

/// A path with the text that it was given as.
pub(super) struct Field<'a> {
    text: &'a str,
    path: FieldPath,
}

pub(super) fn read_fields(parameters: &Parameters) -> Result<Vec<Field<'_>>, HttpError> {
    parameters.text("fields").map_or(Ok(Vec::new()), |list| read_paths(list.split(',')))
}

fn read_paths<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<Field<'a>>, HttpError> {
    let mut fields = Vec::new();
    for text in texts {
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
            None => format!("'database' is missing; databases: {}", names.join(", ")),
        };
        HttpError::not_found("database", message)
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
        _ => HttpError::new(ErrorCode::Internal, Some("database"), message),
    }
}

/// The members `prefix` and `record` of an answer.
fn push_answer(
    body: &mut Vec<u8>,
    named: &NamedDatabase,
    found: &Lookup,
    fields: &[Field<'_>],
) -> Result<(), MmdbError> {
    body.extend_from_slice(b"\"prefix\":");
    push_text(body, &found.prefix.to_string());
    body.extend_from_slice(b",\"record\":");
    match found.record {
        Some(record) => push_record(body, named, record, fields),
        None => {
            body.extend_from_slice(b"null");
            Ok(())
        }
    }
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
