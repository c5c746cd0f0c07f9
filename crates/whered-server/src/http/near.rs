//! `GET /v1/collections/{name}/near`: what is near a place, nearest first.
//!
//! Parameters: `longitude` and `latitude` in degrees, or `address`, whose place `database` says
//! (absent: the database that DNS takes places from); `radius_meters` (absent: the whole globe),
//! `count` (absent: every hit, which is refused beyond [`HITS_MAX`]), `explain`.
//! Collections are those of database 0. With `explain=1` the reasons stand in the answer's place
//! (docs/guide/explain.md).
//!
//! Members may be any bytes; `binary_names` says how they are shown.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde::Serialize;
use whered_engine::geo::place::LATITUDE_LIMIT_DEGREES;
use whered_engine::geo::{Hit, Order, Place, Search, Shape};
use whered_engine::{Engine, Value};

use super::answers;
use super::binary_names::ShownName;
use super::collections::{self, NUMBER};
use super::error::{ErrorCode, HttpError};
use super::ip::{database, read_address};
use super::query::Parameters;
use super::searches;
use super::state::{HttpState, json_response};

/// The most hits of one answer.
pub(crate) const HITS_MAX: usize = 100_000;

/// Half the circumference of the globe and a little more: nothing is farther away.
const EVERYWHERE_METERS: f64 = 20_100_000.0;

const ALLOWED: [&str; 7] =
    ["longitude", "latitude", "address", "database", "radius_meters", "count", "explain"];

#[derive(Serialize)]
struct Answer<'a> {
    collection: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collection_base64: Option<String>,
    count: usize,
    hits: Vec<ShownHit<'a>>,
}

#[derive(Serialize)]
struct ShownHit<'a> {
    member: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member_base64: Option<String>,
    longitude: f64,
    latitude: f64,
    distance_meters: f64,
}

/// Points near a place, nearest first.
#[utoipa::path(
    get,
    path = "/v1/collections/{name}/near",
    operation_id = "list_nearest",
    tag = "points",
    params(
        ("name" = String, Path, description = "the collection"),
        ("longitude" = Option<f64>, Query, description = "degrees"),
        ("latitude" = Option<f64>, Query, description = "degrees"),
        ("address" = Option<String>, Query, description = "an IP address in the place of longitude and latitude"),
        ("database" = Option<String>, Query, description = "the database that has the address's place; absent: that of DNS"),
        ("radius_meters" = Option<f64>, Query, description = "0 or more; absent: the whole globe"),
        ("count" = Option<u64>, Query, description = "hits, 1 to 100000; absent: all"),
        ("explain" = Option<String>, Query, description = "1 or true: the reasons instead of the answer"),
    ),
    responses((status = 200, description = "the answer", body = answers::NearOrReasons))
)]
pub(crate) async fn near(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let name = collections::name_of(&uri)?;
    let parameters = Parameters::read(&uri, &ALLOWED)?;
    let center = match parameters.text("address") {
        Some(text) => center_of_address(&state, &parameters, text)?,
        None => read_center(&parameters)?,
    };
    let search = read_search(&parameters, center)?;
    let explain = parameters.switch("explain")?;
    // A search of a large area takes long; the listener's thread goes on with other requests.
    let searched = searches::run(&state, move |engine, _| answer(engine, &name, &search, explain));
    searched.await.map(json_response)
}

/// Where a database says that an address is.
fn center_of_address(
    state: &HttpState,
    parameters: &Parameters,
    text: &str,
) -> Result<Place, HttpError> {
    if ["longitude", "latitude"].iter().any(|name| parameters.text(name).is_some()) {
        let message = "both 'address' and a place are given; allowed: one of them";
        return Err(HttpError::bad_request("address", message));
    }
    let address = read_address(text)?;
    let generation = state.engine.generation();
    let named = database(&generation, parameters.text("database"))?;
    let place = state.engine.place_of_address(&named.name, address);
    let place = place.map_err(|error| {
        HttpError::new(ErrorCode::Internal, Some("database"), error.to_string())
    })?;
    let place = place.ok_or_else(|| {
        let message = format!("database '{}' has no place for {address}", named.name);
        HttpError::not_found("address", message)
    })?;
    // The limit of cells is nearer to the pole than places of databases may be.
    let limit = LATITUDE_LIMIT_DEGREES;
    let latitude_degrees = place.latitude_degrees.clamp(-limit, limit);
    Ok(Place { latitude_degrees, ..place })
}

fn read_center(parameters: &Parameters) -> Result<Place, HttpError> {
    let longitude_degrees = parameters.required_number("longitude")?;
    let latitude_degrees = parameters.required_number("latitude")?;
    Place::new(longitude_degrees, latitude_degrees).map_err(|error| {
        let field = if error.is_longitude() { "longitude" } else { "latitude" };
        HttpError::bad_request(field, error.to_string())
    })
}

fn read_search(parameters: &Parameters, center: Place) -> Result<Search, HttpError> {
    let radius_meters = parameters.number("radius_meters")?.unwrap_or(EVERYWHERE_METERS);
    if radius_meters < 0.0 {
        let message = format!("'radius_meters' is {radius_meters}; allowed: 0 or more");
        return Err(HttpError::bad_request("radius_meters", message));
    }
    Ok(Search {
        center,
        shape: Shape::Circle { radius_meters },
        order: Order::Ascending,
        count: parameters.count("count", HITS_MAX)?,
        any: false,
    })
}

fn answer(
    engine: &Engine,
    key: &[u8],
    search: &Search,
    explain: bool,
) -> Result<Vec<u8>, HttpError> {
    // One more than an answer holds tells whether there are more.
    let bounded = Search { count: search.count.or(Some(HITS_MAX + 1)), ..search.clone() };
    collections::check_here(engine, key)?;
    let body = engine.keyspace().read(NUMBER, key, |value| {
        let mut hits = Vec::new();
        // A key that holds something else is no collection.
        let points = value.and_then(Value::points).ok_or_else(|| collections::no_such(key))?;
        points.search(&bounded, &mut hits);
        if hits.len() > HITS_MAX {
            let message = format!("more than {HITS_MAX} hits; ask for a count of 1 to {HITS_MAX}");
            return Err(HttpError::bad_request("count", message));
        }
        let hits: Vec<_> = hits.iter().map(shown).collect();
        let ShownName { text: collection, base64: collection_base64 } = ShownName::new(key);
        let answer = Answer { collection, collection_base64, count: hits.len(), hits };
        Ok(answer.to_json())
    })?;
    if explain {
        // The reasons read the collection again, under a lock of their own.
        return Ok(engine.explain_near(NUMBER, key, search).to_string().into_bytes());
    }
    Ok(body)
}

fn shown<'a>(hit: &Hit<'a>) -> ShownHit<'a> {
    let ShownName { text, base64 } = ShownName::new(hit.member);
    ShownHit {
        member: text,
        member_base64: base64,
        longitude: hit.place.longitude_degrees,
        latitude: hit.place.latitude_degrees,
        distance_meters: hit.distance_meters,
    }
}

impl Answer<'_> {
    fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text and numbers always have a JSON form")
    }
}
