//! `GET /v1/collections/{name}/near`: what is near a place, nearest first.
//!
//! Parameters: `longitude` and `latitude` in degrees (required), `radius_meters` (absent: the
//! whole globe), `count` (absent: every hit, which is refused beyond [`HITS_MAX`]), `explain`.
//! Collections are those of database 0. With `explain=1` the reasons stand in the answer's place
//! (docs/guide/explain.md).
//!
//! A member is text. Bytes that are no UTF-8 are shown as U+FFFD in `member`, and the exact
//! bytes stand beside it as `member_base64` (RFC 4648 section 4); other hits lack that key.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use serde::Serialize;
use whered_engine::geo::{Hit, Order, Place, Search, Shape};
use whered_engine::{Engine, Value};

use super::error::HttpError;
use super::query::Parameters;
use super::state::{HttpState, json_response};

/// The most hits of one answer.
pub(crate) const HITS_MAX: usize = 100_000;

/// Half the circumference of the globe and a little more: nothing is farther away.
const EVERYWHERE_METERS: f64 = 20_100_000.0;

const ALLOWED: [&str; 5] = ["longitude", "latitude", "radius_meters", "count", "explain"];

/// The database number whose collections HTTP sees.
const NUMBER: usize = 0;

#[derive(Serialize)]
struct Answer<'a> {
    collection: &'a str,
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
        ("longitude" = f64, Query, description = "degrees"),
        ("latitude" = f64, Query, description = "degrees"),
        ("radius_meters" = Option<f64>, Query, description = "0 or more; absent: the whole globe"),
        ("count" = Option<u64>, Query, description = "hits, 1 to 100000; absent: all"),
        ("explain" = Option<String>, Query, description = "1 or true: the reasons instead of the answer"),
    ),
    responses((status = 200, description = "the answer"))
)]
pub(crate) async fn near(
    State(state): State<Arc<HttpState>>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("name", error.body_text()))?;
    let parameters = Parameters::read(&uri, &ALLOWED)?;
    let search = read_search(&parameters)?;
    let explain = parameters.switch("explain")?;
    let engine = Arc::clone(&state.engine);
    let permit = Arc::clone(&state.searches).acquire_owned().await;
    let permit = permit.map_err(|_| HttpError::internal())?;
    // A search of a large area takes long; the listener's thread goes on with other requests.
    let searched = tokio::task::spawn_blocking(move || {
        let answer = answer(&engine, &name, &search, explain);
        drop(permit);
        answer
    });
    let searched = searched.await;
    searched.map_err(|_| HttpError::internal())?.map(json_response)
}

fn read_search(parameters: &Parameters) -> Result<Search, HttpError> {
    let longitude_degrees = parameters.required_number("longitude")?;
    let latitude_degrees = parameters.required_number("latitude")?;
    let center = Place::new(longitude_degrees, latitude_degrees).map_err(|error| {
        let field = if error.is_longitude() { "longitude" } else { "latitude" };
        HttpError::bad_request(field, error.to_string())
    })?;
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
    name: &str,
    search: &Search,
    explain: bool,
) -> Result<Vec<u8>, HttpError> {
    let key = name.as_bytes();
    // One more than an answer holds tells whether there are more.
    let bounded = Search { count: search.count.or(Some(HITS_MAX + 1)), ..search.clone() };
    let body = engine.keyspace().read(NUMBER, key, |value| {
        let missing = || HttpError::not_found("name", format!("no such collection '{name}'"));
        let mut hits = Vec::new();
        // A key that holds something else is no collection.
        let points = value.and_then(Value::points).ok_or_else(missing)?;
        points.search(&bounded, &mut hits);
        if hits.len() > HITS_MAX {
            let message = format!("more than {HITS_MAX} hits; ask for a count of 1 to {HITS_MAX}");
            return Err(HttpError::bad_request("count", message));
        }
        let hits: Vec<_> = hits.iter().map(shown).collect();
        Ok(Answer { collection: name, count: hits.len(), hits }.to_json())
    })?;
    if explain {
        // The reasons read the collection again, under a lock of their own.
        return Ok(engine.explain_near(NUMBER, key, search).to_string().into_bytes());
    }
    Ok(body)
}

fn shown<'a>(hit: &Hit<'a>) -> ShownHit<'a> {
    let member = String::from_utf8_lossy(hit.member);
    let exact = matches!(member, Cow::Borrowed(_));
    ShownHit {
        member,
        member_base64: (!exact).then(|| base64(hit.member)),
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

/// RFC 4648 section 4, with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            let padding = digit > chunk.len();
            text.push(if padding { '=' } else { char::from(ALPHABET[value as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_gives_the_vectors_of_rfc_4648() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, encoded) in vectors {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }
}
