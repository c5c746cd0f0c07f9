//! `GET /v1/zones` and `/v1/zones/{zone}`: the zones that DNS serves.
//!
//! Not for: records of zones, which DNS gives, nor for reading a file anew, which RESP does.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Value, json};
use whered_dns::{Dnssec, Name as DomainName, Zone};
use whered_engine::{Generation, ReversedSource, ZoneSource};

use super::answers;
use super::error::HttpError;
use super::query::Parameters;
use super::state::{HttpState, json_response};

/// Descriptions of all zones.
#[utoipa::path(
    get,
    path = "/v1/zones",
    operation_id = "list_zones",
    tag = "pools",
    responses((status = 200, description = "the answer", body = answers::Zones))
)]
pub(crate) async fn list(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let generation = state.engine.generation();
    let zones: Vec<Value> = describe_all(&state, &generation).into_values().collect();
    let body = json!({ "generation": generation.number(), "zones": zones });
    Ok(json_response(body.to_string().into_bytes()))
}

/// The description of a zone.
#[utoipa::path(
    get,
    path = "/v1/zones/{zone}",
    operation_id = "get_zone",
    tag = "pools",
    params(
        ("zone" = String, Path, description = "the zone's name"),
    ),
    responses((status = 200, description = "the answer", body = answers::ZoneDescription))
)]
pub(crate) async fn one(
    State(state): State<Arc<HttpState>>,
    zone: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let Path(name) = zone.map_err(|error| HttpError::bad_request("zone", error.body_text()))?;
    let generation = state.engine.generation();
    let mut all = describe_all(&state, &generation);
    let origin = name.parse::<DomainName>().ok().map(|origin| origin.to_string());
    let found = origin.and_then(|origin| all.remove(&origin.to_ascii_lowercase()));
    let body = found.ok_or_else(|| {
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        let message = match names.is_empty() {
            true => "the configuration has no zone".to_owned(),
            false => format!("no such zone '{name}'; zones: {}", names.join(", ")),
        };
        HttpError::not_found("zone", message)
    })?;
    Ok(json_response(body.to_string().into_bytes()))
}

/// Descriptions by the names of zones in lower case.
fn describe_all(state: &HttpState, generation: &Generation) -> BTreeMap<String, Value> {
    let engine = &state.engine;
    let key = |name: &DomainName| name.to_string().to_ascii_lowercase();
    let sources = engine.zone_sources();
    let sources = sources.iter().filter_map(|source| Some((source.name.parse().ok()?, source)));
    let sources: BTreeMap<String, &ZoneSource> =
        sources.map(|(name, source): (DomainName, _)| (key(&name), source)).collect();
    let failures = engine.zone_failures();
    let zones = generation.zones().zones().map(|zone| {
        let name = key(zone.origin());
        let source = sources.get(&name).copied();
        let failure = source.and_then(|source| failures.get(&source.name));
        let mut described = describe(zone, source, failure);
        let (role, secondary) = (state.about.zone_role.0)(zone);
        described["role"] = role.into();
        if let Some(secondary) = secondary {
            described["secondary"] = secondary;
        }
        (name, described)
    });
    zones.collect()
}

fn describe(zone: &Zone, source: Option<&ZoneSource>, failure: Option<&String>) -> Value {
    let reversed =
        source.and_then(|source| source.reversed.as_ref()).map(|reversed| match reversed {
            ReversedSource::Blocklist(_) => "blocklist",
            ReversedSource::DatabaseTxt(_) => "database_txt",
        });
    json!({
        "name": zone.origin().to_string(),
        "serial": zone.serial(),
        "records": zone.record_count(),
        "names": zone.name_count(),
        "memory_bytes": zone.size_bytes(),
        "path": source.map(|source| source.path.to_string_lossy()),
        "follows_file": source.map(|source| source.follows_file),
        "reversed": reversed,
        "dnssec": source.map(|source| match source.dnssec {
            Dnssec::Serve => "serve",
            Dnssec::Refuse => "refuse",
            Dnssec::Strip => "strip",
        }),
        "left_out": zone.left_out_count(),
        "last_reload_error": failure,
    })
}
