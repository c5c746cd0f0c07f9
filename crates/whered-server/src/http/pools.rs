//! `GET /v1/pools`, `/v1/pools/{pool}`, `/v1/pools/{pool}/choose`, `/v1/pools/{pool}/catchment` and
//! `/v1/sites`.
//!
//! `choose` takes `address`, or `longitude` and `latitude` of somebody whose address is not known:
//! overrides, rules and maps of the pool, which look at addresses, are left out then. `POST` with
//! `{"addresses": [...]}` asks for up to 10,000 at once. With `explain=1` the reasons
//! stand in the answer's place (docs/guide/explain.md).
//!
//! `catchment` counts, in cells of `cell_degrees`, the networks of `database` and their IPv4
//! addresses by the site that the pool chooses for them. A pool is named by its name, or by a
//! domain name that it answers at.
//!
//! Not for: changing pools, which the configuration and RESP do.

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use whered_dns::{Choice, ChoiceVerdict, Client};
use whered_engine::geo::Place;
use whered_engine::{
    CELL_DEGREES, Catchment, CatchmentGrid, Engine, ExplainError, Generation, PolicyStep, Pool,
    WhenAllDown,
};

use super::answers;
use super::body;
use super::error::{ErrorCode, HttpError};
use super::ip::{check_count, read_address};
use super::query::Parameters;
use super::searches;
use super::state::{HttpState, json_response};

/// Sites of a page when nothing is said, and at most.
const PAGE_SITES: usize = 1_000;
const PAGE_SITES_MAX: usize = 10_000;

type Name = Result<Path<String>, PathRejection>;

/// Descriptions of all pools.
#[utoipa::path(
    get,
    path = "/v1/pools",
    operation_id = "list_pools",
    tag = "pools",
    responses((status = 200, description = "the answer", body = answers::Pools))
)]
pub(crate) async fn list(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let generation = state.engine.generation();
    let pools: Vec<Value> = generation.pools().iter().map(|pool| describe(pool)).collect();
    let body = json!({ "generation": generation.number(), "pools": pools });
    Ok(json_response(body.to_string().into_bytes()))
}

/// The description of a pool.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}",
    operation_id = "get_pool",
    tag = "pools",
    params(
        ("pool" = String, Path, description = "the pool, or a domain name that it answers at"),
    ),
    responses((status = 200, description = "the answer", body = answers::PoolDescription))
)]
pub(crate) async fn one(
    State(state): State<Arc<HttpState>>,
    name: Name,
    uri: Uri,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let generation = state.engine.generation();
    let index = found(&generation, name)?;
    let body = describe(&generation.pools()[index]);
    Ok(json_response(body.to_string().into_bytes()))
}

fn describe(pool: &Pool) -> Value {
    let step = |step: &PolicyStep| match step {
        PolicyStep::Rules(name) => format!("rules {name}"),
        PolicyStep::Map(map) if map.name.is_empty() => "map".to_owned(),
        PolicyStep::Map(map) => format!("map {}", map.name),
        PolicyStep::Healthy => "healthy".to_owned(),
        PolicyStep::Nearest => "nearest".to_owned(),
        PolicyStep::Failover { threshold } => format!("failover {threshold}"),
        PolicyStep::Weighted { is_sticky: false } => "weighted".to_owned(),
        PolicyStep::Weighted { is_sticky: true } => "weighted sticky".to_owned(),
    };
    json!({
        "name": pool.name,
        "owners": pool.owners,
        "policy": pool.policy.iter().map(step).collect::<Vec<_>>(),
        "overrides": pool.overrides,
        "sites_from": pool.sites_from.as_ref().map(|from| &from.collection),
        "answers": pool.answers,
        "ttl_seconds": pool.ttl_seconds,
        "when_all_down": match pool.when_all_down {
            WhenAllDown::All => "all",
            WhenAllDown::None => "none",
        },
        "sites": pool.sites.iter().map(|site| &site.name).collect::<Vec<_>>(),
        "healthy": pool.sites.iter().filter(|site| site.healthy).count(),
    })
}

fn found(generation: &Generation, name: Name) -> Result<usize, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("pool", error.body_text()))?;
    index_of(generation, &name)
}

fn index_of(generation: &Generation, name: &str) -> Result<usize, HttpError> {
    generation.pool_called(name).ok_or_else(|| {
        let names: Vec<_> = generation.pools().iter().map(|pool| &*pool.name).collect();
        let message = match names.is_empty() {
            true => "the configuration has no pool".to_owned(),
            false => format!("no such pool '{name}'; pools: {}", names.join(", ")),
        };
        HttpError::not_found("pool", message)
    })
}

/// The sites of all pools, or of one.
#[utoipa::path(
    get,
    path = "/v1/sites",
    operation_id = "list_sites",
    tag = "pools",
    params(
        ("pool" = Option<String>, Query, description = "the pool; absent: all"),
        ("cursor" = Option<String>, Query, description = "next of the page before"),
        ("count" = Option<u64>, Query, description = "sites of a page, 1 to 10000; absent: 1000"),
    ),
    responses((status = 200, description = "the answer", body = answers::Sites))
)]
pub(crate) async fn sites(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &["pool", "cursor", "count"])?;
    let count = parameters.count("count", PAGE_SITES_MAX)?.unwrap_or(PAGE_SITES);
    let first = match parameters.text("cursor") {
        None => 0,
        Some(text) => text.parse().map_err(|_| {
            let allowed = "the 'next' of the page before";
            HttpError::bad_request("cursor", format!("'cursor' is '{text}'; allowed: {allowed}"))
        })?,
    };
    let generation = state.engine.generation();
    let pools = match parameters.text("pool") {
        None => 0..generation.pools().len(),
        Some(name) => {
            let index = index_of(&generation, name)?;
            index..index + 1
        }
    };
    let all = pools.flat_map(|index| describe_sites(&state.engine, &generation, index));
    let mut page = all.skip(first);
    let sites: Vec<Value> = page.by_ref().take(count).collect();
    let next = page.next().map(|_| (first + count).to_string());
    let body = json!({ "generation": generation.number(), "sites": sites, "next": next });
    Ok(json_response(body.to_string().into_bytes()))
}

/// Every site of a pool, where it is now.
pub(super) fn describe_sites(engine: &Engine, generation: &Generation, index: usize) -> Vec<Value> {
    let pool = &generation.pools()[index];
    let places = generation.site_locations(index, &engine.live());
    let describe = |(site, place): (&whered_engine::Site, Option<Place>)| {
        json!({
            "pool": pool.name,
            "site": site.name,
            "longitude": place.map(|place| place.longitude_degrees),
            "latitude": place.map(|place| place.latitude_degrees),
            "healthy": site.healthy,
            "state": site.health.probed.name(),
            "override": site.health.manual.name(),
            "addresses": site.addresses,
        })
    };
    pool.sites.iter().zip(places).map(describe).collect()
}

/// Who is to be sent to a site.
enum Asker {
    Address(IpAddr),
    Place(Place),
}

/// The sites that a pool chooses for a client or a place.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}/choose",
    operation_id = "choose_site",
    tag = "pools",
    params(
        ("pool" = String, Path, description = "the pool, or a domain name that it answers at"),
        ("address" = Option<String>, Query, description = "the client's address"),
        ("longitude" = Option<f64>, Query, description = "degrees, in the place of an address"),
        ("latitude" = Option<f64>, Query, description = "degrees, in the place of an address"),
        ("explain" = Option<String>, Query, description = "1 or true: the reasons instead of the answer"),
    ),
    responses((status = 200, description = "the answer", body = answers::ChoiceOrReasons))
)]
pub(crate) async fn choose(
    State(state): State<Arc<HttpState>>,
    name: Name,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &["address", "longitude", "latitude", "explain"])?;
    let asker = read_asker(&parameters)?;
    let explain = parameters.switch("explain")?;
    let generation = state.engine.generation();
    let index = found(&generation, name)?;
    let pool = &generation.pools()[index].name;
    let body = match asker {
        Asker::Address(address) if explain => {
            state.engine.explain_steer(pool, &client(address)).map_err(|e| not_drawn(&e))?
        }
        Asker::Place(place) if explain => {
            state.engine.explain_steer_at(pool, place).map_err(|e| not_drawn(&e))?
        }
        Asker::Address(address) => {
            let choice = generation.steer(index, &client(address), &state.engine.live());
            let mut body = json!({ "pool": pool, "address": address });
            show_choice(&mut body, &generation, index, &choice);
            body
        }
        Asker::Place(place) => {
            let choice = generation.steer_at(index, place, &state.engine.live());
            let (longitude, latitude) = (place.longitude_degrees, place.latitude_degrees);
            let mut body = json!({ "pool": pool, "longitude": longitude, "latitude": latitude });
            show_choice(&mut body, &generation, index, &choice);
            body
        }
    };
    Ok(json_response(body.to_string().into_bytes()))
}

fn read_asker(parameters: &Parameters) -> Result<Asker, HttpError> {
    let text = parameters.text("address");
    let has_place = ["longitude", "latitude"].iter().any(|name| parameters.text(name).is_some());
    match text {
        Some(_) if has_place => {
            let message = "both 'address' and a place are given; allowed: one of them";
            Err(HttpError::bad_request("address", message))
        }
        Some(text) => read_address(text).map(Asker::Address),
        None if has_place => {
            let longitude = parameters.required_number("longitude")?;
            let latitude = parameters.required_number("latitude")?;
            let place = Place::new_geographic(longitude, latitude).map_err(|error| {
                let field = if error.is_longitude() { "longitude" } else { "latitude" };
                HttpError::bad_request(field, error.to_string())
            })?;
            Ok(Asker::Place(place))
        }
        None => {
            let message = "'address' is missing; allowed: an address, or longitude and latitude";
            Err(HttpError::new(ErrorCode::MissingParameter, Some("address"), message))
        }
    }
}

fn client(address: IpAddr) -> Client {
    let prefix_length_bits = if address.is_ipv4() { 32 } else { 128 };
    Client { address, prefix_length_bits, from_ecs: false }
}

fn show_choice(body: &mut Value, generation: &Generation, index: usize, choice: &Choice) {
    let sites = &generation.pools()[index].sites;
    let names: Vec<&str> =
        choice.answers().filter_map(|site| Some(sites.get(site)?.name.as_str())).collect();
    body["sites"] = json!(names);
    body["verdict"] = json!(match choice.verdict {
        ChoiceVerdict::Answer => "answer",
        ChoiceVerdict::Refuse => "refuse",
        ChoiceVerdict::Drop => "drop",
        ChoiceVerdict::Fail => "fail",
    });
    body["scope_length_bits"] = json!(choice.scope_length_bits);
}

/// Clients whose sites are chosen together.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChooseRequest {
    /// At most 10,000.
    #[schema(max_items = 10000)]
    addresses: Vec<String>,
}

/// The sites that a pool chooses for many clients.
///
/// They come in the order of the addresses. A wrong address has an `error` in its position.
#[utoipa::path(
    post,
    path = "/v1/pools/{pool}/choose",
    operation_id = "choose_sites",
    tag = "pools",
    params(
        ("pool" = String, Path, description = "the pool, or a domain name that it answers at"),
    ),
    request_body(content = ChooseRequest),
    responses((status = 200, description = "the answer", body = answers::Choices))
)]
pub(crate) async fn choose_many(
    State(state): State<Arc<HttpState>>,
    name: Name,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let ChooseRequest { addresses } = body::read_json(&headers, body)?;
    check_count(&addresses)?;
    let Path(name) = name.map_err(|error| HttpError::bad_request("pool", error.body_text()))?;
    let answered = searches::run(&state, move |engine, _| {
        let generation = engine.generation();
        let index = index_of(&generation, &name)?;
        let live = engine.live();
        let choose = |text: &String| match read_address(text) {
            Ok(address) => {
                let choice = generation.steer(index, &client(address), &live);
                let mut one = json!({ "address": text });
                show_choice(&mut one, &generation, index, &choice);
                one
            }
            Err(error) => json!({ "address": text, "error": error.detail() }),
        };
        let answers: Vec<Value> = addresses.iter().map(choose).collect();
        let pool = &generation.pools()[index].name;
        let body = json!({
            "pool": pool,
            "generation": generation.number(),
            "answers": answers,
        });
        Ok(body.to_string().into_bytes())
    });
    answered.await.map(json_response)
}

/// Which parts of the globe a pool sends to which site.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}/catchment",
    operation_id = "draw_catchment",
    tag = "pools",
    params(
        ("pool" = String, Path, description = "the pool, or a domain name that it answers at"),
        ("database" = Option<String>, Query, description = "the database that has the places; absent: that of the pool"),
        ("cell_degrees" = Option<f64>, Query, description = "the side of a cell, 0.25 to 90; absent: 1"),
    ),
    responses((status = 200, description = "the answer", body = answers::CatchmentAnswer))
)]
pub(crate) async fn catchment(
    State(state): State<Arc<HttpState>>,
    name: Name,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &["database", "cell_degrees"])?;
    let side = parameters.number("cell_degrees")?.unwrap_or(1.0);
    let grid = CatchmentGrid::new(side).ok_or_else(|| {
        let [least, most] = CELL_DEGREES;
        let message = format!("'cell_degrees' is {side}; allowed: {least} to {most}");
        HttpError::bad_request("cell_degrees", message)
    })?;
    let database = parameters.text("database").map(str::to_owned);
    let Path(name) = name.map_err(|error| HttpError::bad_request("pool", error.body_text()))?;
    let drawn = searches::run(&state, move |engine, deadline| {
        let began = Instant::now();
        index_of(&engine.generation(), &name)?;
        let drawn = engine.catchment(&name, database.as_deref(), grid, &|| deadline.is_over());
        let (generation, drawn) = drawn.map_err(|error| not_drawn(&error))?;
        let took = began.elapsed().as_micros();
        Ok(catchment_json(generation, &drawn, side, took))
    });
    drawn.await.map(json_response)
}

fn not_drawn(error: &ExplainError) -> HttpError {
    match error {
        ExplainError::NoSuch { what: "pool", .. } => {
            HttpError::not_found("pool", error.to_string())
        }
        ExplainError::NoSuch { .. } => HttpError::not_found("database", error.to_string()),
        ExplainError::Unreadable(_) => HttpError::new(ErrorCode::Internal, None, error.to_string()),
        ExplainError::TooLong => HttpError::new(ErrorCode::TimedOut, None, error.to_string()),
    }
}

fn catchment_json(generation: u64, drawn: &Catchment, side: f64, took: u128) -> Vec<u8> {
    let head = json!({
        "pool": drawn.pool,
        "database": drawn.database,
        "generation": generation,
        "cell_degrees": side,
        "sites": drawn.sites,
    });
    let mut text = head.to_string();
    text.pop();
    text.push_str(",\"cells\":[");
    for (index, cell) in drawn.cells.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let site = cell.site.map_or_else(|| "null".to_owned(), |site| site.to_string());
        let (west, south) = (cell.west_degrees, cell.south_degrees);
        let (addresses, networks) = (cell.addresses_v4, cell.networks);
        let written = write!(text, "{comma}[{west},{south},{site},{addresses},{networks}]");
        written.expect("a string takes all text");
    }
    write!(text, "],\"took_microseconds\":{took}}}").expect("a string takes all text");
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use whered_engine::CatchmentCell;

    #[test]
    fn a_catchment_is_json_with_a_line_for_each_cell() {
        let cell = CatchmentCell {
            west_degrees: -180.0,
            south_degrees: 12.25,
            site: None,
            addresses_v4: u64::MAX,
            networks: 3,
        };
        let drawn = Catchment {
            pool: "a\"b".to_owned(),
            database: "city".to_owned(),
            sites: vec!["fra".to_owned()],
            cells: vec![cell, CatchmentCell { site: Some(0), ..cell }],
        };
        let value: Value =
            serde_json::from_slice(&catchment_json(7, &drawn, 0.25, 12)).expect("it is JSON");
        assert_eq!(value["pool"], "a\"b");
        assert_eq!(value["cells"][0], json!([-180, 12.25, null, u64::MAX, 3]));
        assert_eq!(value["cells"][1][2], 0);
        assert_eq!(value["took_microseconds"], 12);
    }
}
