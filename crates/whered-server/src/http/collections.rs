//! `GET /v1/collections`, `/v1/collections/{name}` and what is below: `members/{member}`, `within`,
//! `clusters`, `points`.
//!
//! `within` gives the members inside a box, a circle or, by POST, a GeoJSON polygon, a page of
//! `count` at a time in the order of the index; `total` is the number of all of them. `clusters`
//! gives the points of a box as counts, `points` as numbers of 32 bits, thinned out evenly to
//! `limit`. Collections are those of database 0. A sorted set with other scores than cells has no
//! points: it is shown with the kind `scores`, and searches of it are refused.
//!
//! Not for: what is near (`near`), changes, which RESP and feeds make. Names may be any bytes:
//! `binary_names`.
//! At the same time: a search looks at a frozen view, so that no writer waits for it.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use whered_engine::geo::{
    Area, BoundingBox, Cell, Found, Place, Points, Polygon, Shape, Tree, polygon,
};
use whered_engine::{Engine, KeyRole, Kind, Ordered, Value as Data};

use super::answers;
use super::binary_names::{self, ShownName};
use super::body;
use super::error::{ErrorCode, HttpError};
use super::ip::push_text;
use super::query::Parameters;
use super::searches;
use super::state::{HttpState, json_response};

/// The database number whose collections HTTP sees.
pub(super) const NUMBER: usize = 0;
/// The index of a collection's name among the parts of a path, and that of a member's.
const NAME_INDEX: usize = 2;
const MEMBER_INDEX: usize = 4;
/// Collections of a page when nothing is said, and at most.
const PAGE_COLLECTIONS: usize = 100;
const PAGE_COLLECTIONS_MAX: usize = 1_000;
/// Keys that are looked at for a page: most of them may hold something else.
const PAGE_KEYS_MAX: usize = 100_000;
/// Members of a page when nothing is said, and at most.
const PAGE_MEMBERS: usize = 1_000;
const PAGE_MEMBERS_MAX: usize = 100_000;
/// Points of one drawing when nothing is said, and at most.
const DRAWN_POINTS: usize = 200_000;
const DRAWN_POINTS_MAX: usize = 1_000_000;
const ZOOM_MAX: u32 = 30;
const VERTICES_MAX: usize = 10_000;
/// The version of the form that `points` gives.
const POINTS_VERSION: u32 = 1;
const TOTAL: HeaderName = HeaderName::from_static("x-whered-total");

/// The collections and their kinds.
#[utoipa::path(
    get,
    path = "/v1/collections",
    operation_id = "list_collections",
    tag = "points",
    params(
        ("cursor" = Option<String>, Query, description = "next of the page before"),
        ("count" = Option<u64>, Query, description = "collections of a page, 1 to 1000; absent: 100"),
    ),
    responses((status = 200, description = "the answer", body = answers::Collections))
)]
pub(crate) async fn list(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &["cursor", "count"])?;
    let count = parameters.count("count", PAGE_COLLECTIONS_MAX)?.unwrap_or(PAGE_COLLECTIONS);
    let cursor = match parameters.text("cursor") {
        None => 0,
        Some(text) => text.parse().map_err(|_| wrong_cursor(text))?,
    };
    let listed = searches::run(&state, move |engine, _| {
        if engine.keyspace().is_awaited(NUMBER) {
            return Err(awaited("some collections are"));
        }
        Ok(page(engine, cursor, count))
    });
    listed.await.map(|body| json_response(body.to_string().into_bytes()))
}

fn page(engine: &Engine, mut cursor: u64, count: usize) -> Value {
    let mut collections = Vec::new();
    let mut seen = 0;
    loop {
        let wanted = count - collections.len();
        let (next, keys) = engine.keyspace().scan(NUMBER, cursor, wanted);
        (cursor, seen) = (next, seen + wanted);
        let sets = keys.iter().filter(|(_, kind)| *kind == Kind::SortedSet);
        collections.extend(sets.filter_map(|(key, _)| {
            // One that has gone since is none.
            engine.keyspace().inspect(NUMBER, key, |value| describe(key, value)).flatten()
        }));
        if cursor == 0 || collections.len() >= count || seen >= PAGE_KEYS_MAX {
            break;
        }
    }
    let next = (cursor != 0).then(|| cursor.to_string());
    json!({ "collections": collections, "next": next })
}

/// What is said of a collection; `None` for something else.
fn describe(key: &[u8], value: &Data) -> Option<Value> {
    let members = value.ordered()?;
    let mut object = Map::new();
    ShownName::new(key).put(&mut object, "name");
    object.insert("members".to_owned(), members.len().into());
    let (kind, bounds) = match members {
        Ordered::Points(points) => ("points", points.bounds()),
        Ordered::Scores(_) => ("scores", None),
    };
    object.insert("kind".to_owned(), kind.into());
    object.insert("bounds".to_owned(), json!(bounds.map(|bounds| bounds.sides_degrees())));
    Some(Value::Object(object))
}

/// The description of a collection.
#[utoipa::path(
    get,
    path = "/v1/collections/{name}",
    operation_id = "get_collection",
    tag = "points",
    params(
        ("name" = String, Path, description = "the collection"),
    ),
    responses((status = 200, description = "the answer", body = answers::CollectionDescription))
)]
pub(crate) async fn one(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let name = name_of(&uri)?;
    let described = searches::run(&state, move |engine, _| {
        check_here(engine, &name)?;
        let value = engine.keyspace().read(NUMBER, &name, |value| describe(&name, value?));
        value.ok_or_else(|| no_such(&name))
    });
    described.await.map(|body| json_response(body.to_string().into_bytes()))
}

/// Where a member is.
#[utoipa::path(
    get,
    path = "/v1/collections/{name}/members/{*member}",
    operation_id = "get_member",
    tag = "points",
    params(
        ("name" = String, Path, description = "the collection"),
        ("member" = String, Path, description = "the member"),
    ),
    responses((status = 200, description = "the answer", body = answers::MemberPosition))
)]
pub(crate) async fn member(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let name = name_of(&uri)?;
    let member = binary_names::of_path(&uri, MEMBER_INDEX, true, "member")?;
    check_here(&state.engine, &name)?;
    let place = state.engine.keyspace().read(NUMBER, &name, |value| {
        let members = value.and_then(Data::ordered).ok_or_else(|| no_such(&name))?;
        members.place(&member).ok_or_else(|| {
            let [member, name] = [&member, &name].map(|name| String::from_utf8_lossy(name));
            let message = format!("no member '{member}' in collection '{name}'");
            HttpError::not_found("member", message)
        })
    })?;
    let mut body = Map::new();
    ShownName::new(&member).put(&mut body, "member");
    body.insert("longitude".to_owned(), place.longitude_degrees.into());
    body.insert("latitude".to_owned(), place.latitude_degrees.into());
    Ok(json_response(Value::Object(body).to_string().into_bytes()))
}

/// The members inside a box or a circle.
#[utoipa::path(
    get,
    path = "/v1/collections/{name}/within",
    operation_id = "list_within",
    tag = "points",
    params(
        ("name" = String, Path, description = "the collection"),
        ("box" = Option<String>, Query, description = "west,south,east,north in degrees; west greater than east: over the date line"),
        ("longitude" = Option<f64>, Query, description = "degrees, of the centre of a circle"),
        ("latitude" = Option<f64>, Query, description = "degrees, of the centre of a circle"),
        ("radius_meters" = Option<f64>, Query, description = "of a circle, 0 or more"),
        ("count" = Option<u64>, Query, description = "members of a page, 1 to 100000; absent: 1000"),
        ("cursor" = Option<String>, Query, description = "next of the page before"),
    ),
    responses((status = 200, description = "the answer", body = answers::WithinAnswer))
)]
pub(crate) async fn within(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let allowed = ["box", "longitude", "latitude", "radius_meters", "count", "cursor"];
    let parameters = Parameters::read(&uri, &allowed)?;
    let circle = ["longitude", "latitude", "radius_meters"];
    let has_circle = circle.iter().any(|name| parameters.text(name).is_some());
    let area = match parameters.text("box") {
        Some(_) if has_circle => {
            let message = "both a box and a circle are given; allowed: one of them";
            return Err(HttpError::bad_request("box", message));
        }
        Some(_) => Area::Box(read_box(&parameters)?),
        None if has_circle => read_circle(&parameters)?,
        None => {
            let message = "'box' is missing; allowed: a box, or longitude, latitude and \
                           radius_meters, or a GeoJSON polygon by POST";
            return Err(HttpError::new(ErrorCode::MissingParameter, Some("box"), message));
        }
    };
    answer_within(&state, &uri, &parameters, area).await
}

/// The members inside a polygon.
#[utoipa::path(
    post,
    path = "/v1/collections/{name}/within",
    operation_id = "list_within_polygon",
    tag = "points",
    params(
        ("name" = String, Path, description = "the collection"),
        ("count" = Option<u64>, Query, description = "members of a page, 1 to 100000; absent: 1000"),
        ("cursor" = Option<String>, Query, description = "next of the page before"),
    ),
    request_body(content = serde_json::Value, description = "a GeoJSON Polygon of one ring, or a Feature of one"),
    responses((status = 200, description = "the answer", body = answers::WithinAnswer))
)]
pub(crate) async fn within_polygon(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &["count", "cursor"])?;
    let polygon = read_polygon(&body::read_json(&headers, body)?)?;
    let area = Area::Shape { center: polygon.center(), shape: Shape::Polygon(polygon) };
    answer_within(&state, &uri, &parameters, area).await
}

async fn answer_within(
    state: &HttpState,
    uri: &Uri,
    parameters: &Parameters,
    area: Area,
) -> Result<Response, HttpError> {
    let count = parameters.count("count", PAGE_MEMBERS_MAX)?.unwrap_or(PAGE_MEMBERS);
    let after = parameters.text("cursor").filter(|text| *text != "0").map(PageEnd::read);
    let after = after.transpose()?;
    let name = name_of(uri)?;
    let found = searches::run(state, move |engine, _| {
        let began = Instant::now();
        let points = frozen(engine, &name)?;
        let mut found = Found::new();
        points.find_area(&area, &mut found);
        Ok(page_of_hits(&name, &points, &found, after.as_ref(), count, began))
    });
    found.await.map(json_response)
}

/// Where a page ended: the cell and the bytes of its last member.
struct PageEnd {
    cell: Cell,
    member: Vec<u8>,
}

impl PageEnd {
    fn read(text: &str) -> Result<PageEnd, HttpError> {
        let read = || {
            let (bits, member) = text.split_once('-')?;
            let cell = Cell::from_bits(bits.parse().ok()?)?;
            let digits = member.as_bytes().chunks(2);
            let byte = |pair: &[u8]| {
                let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
                let is_hex = pair.bytes().all(|digit| digit.is_ascii_hexdigit());
                is_hex.then(|| u8::from_str_radix(pair, 16).ok()).flatten()
            };
            Some(PageEnd { cell, member: digits.map(byte).collect::<Option<_>>()? })
        };
        read().ok_or_else(|| wrong_cursor(text))
    }

    fn write(cell: Cell, member: &[u8]) -> String {
        let digits: String = member.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{digits}", cell.bits())
    }
}

fn page_of_hits(
    name: &[u8],
    points: &Tree,
    found: &Found,
    after: Option<&PageEnd>,
    count: usize,
    began: Instant,
) -> Vec<u8> {
    let start = after.map(|after| found.cursor_after(points, after.cell, &after.member));
    let mut cursor = start.unwrap_or_default();
    let mut body = b"{".to_vec();
    push_name(&mut body, "collection", name);
    body.extend_from_slice(format!(",\"total\":{},\"hits\":[", found.len()).as_bytes());
    let mut last = None;
    for index in 0..count {
        let Some(hit) = found.next_hit(points, &mut cursor) else { break };
        body.extend_from_slice(if index == 0 { b"{" } else { b",{" });
        push_name(&mut body, "member", hit.member());
        push_coordinates(&mut body, hit.place());
        body.push(b'}');
        last = Some((hit.cell(), hit.member()));
    }
    body.extend_from_slice(b"],\"next\":");
    match last.filter(|_| cursor.hits() < found.len()) {
        Some((cell, member)) => push_text(&mut body, &PageEnd::write(cell, member)),
        None => body.extend_from_slice(b"null"),
    }
    push_took(&mut body, began);
    body
}

/// The points of a box, counted by squares.
#[utoipa::path(
    get,
    path = "/v1/collections/{name}/clusters",
    operation_id = "list_clusters",
    tag = "points",
    params(
        ("name" = String, Path, description = "the collection"),
        ("box" = String, Query, description = "west,south,east,north in degrees; west greater than east: over the date line"),
        ("zoom" = Option<u64>, Query, description = "of a web map, 0 to 30; absent: 0"),
    ),
    responses((status = 200, description = "the answer", body = answers::Clusters))
)]
pub(crate) async fn clusters(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &["box", "zoom"])?;
    let rectangle = read_box(&parameters)?;
    let zoom = match parameters.text("zoom") {
        None => 0,
        Some(text) => text.parse().ok().filter(|zoom| *zoom <= ZOOM_MAX).ok_or_else(|| {
            let message = format!("'zoom' is '{text}'; allowed: 0 to {ZOOM_MAX}");
            HttpError::bad_request("zoom", message)
        })?,
    };
    let name = name_of(&uri)?;
    let found = searches::run(&state, move |engine, _| {
        let began = Instant::now();
        let points = frozen(engine, &name)?;
        let found = points.clusters(&rectangle, zoom);
        let mut body = b"{".to_vec();
        push_name(&mut body, "collection", &name);
        body.extend_from_slice(format!(",\"total\":{},\"clusters\":[", found.total).as_bytes());
        for (index, cluster) in found.clusters.iter().enumerate() {
            body.extend_from_slice(if index == 0 { b"{" } else { b",{" });
            body.extend_from_slice(format!("\"count\":{}", cluster.count).as_bytes());
            push_coordinates(&mut body, cluster.place);
            if let Some(member) = cluster.member {
                body.push(b',');
                push_name(&mut body, "member", member);
            }
            body.push(b'}');
        }
        body.push(b']');
        push_took(&mut body, began);
        Ok(body)
    });
    found.await.map(json_response)
}

/// The points of a box as numbers.
#[utoipa::path(
    get,
    path = "/v1/collections/{name}/points",
    operation_id = "draw_points",
    tag = "points",
    params(
        ("name" = String, Path, description = "the collection"),
        ("box" = String, Query, description = "west,south,east,north in degrees; west greater than east: over the date line"),
        ("limit" = Option<u64>, Query, description = "points, 1 to 1000000; absent: 200000"),
    ),
    responses((status = 200, description = "the answer"))
)]
pub(crate) async fn points(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &["box", "limit"])?;
    let area = Area::Box(read_box(&parameters)?);
    let limit = parameters.count("limit", DRAWN_POINTS_MAX)?.unwrap_or(DRAWN_POINTS);
    let name = name_of(&uri)?;
    let drawn = searches::run(&state, move |engine, _| {
        let points = frozen(engine, &name)?;
        let mut found = Found::new();
        points.find_area(&area, &mut found);
        let count = found.len().min(limit);
        let mut body = Vec::with_capacity(8 + 8 * count);
        body.extend_from_slice(&POINTS_VERSION.to_le_bytes());
        body.extend_from_slice(&(count as u32).to_le_bytes());
        for cell in found.sample(&points, limit) {
            let place = cell.place();
            body.extend_from_slice(&(place.longitude_degrees as f32).to_le_bytes());
            body.extend_from_slice(&(place.latitude_degrees as f32).to_le_bytes());
        }
        Ok((found.len(), body))
    });
    let (total, body) = drawn.await?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (TOTAL, HeaderValue::from(total)),
    ];
    Ok((headers, body).into_response())
}

/// A view of a collection's points as they are now.
fn frozen(engine: &Engine, name: &[u8]) -> Result<Tree, HttpError> {
    check_here(engine, name)?;
    engine.keyspace().read(NUMBER, name, |value| {
        let value = value.ok_or_else(|| no_such(name))?;
        match value.ordered() {
            Some(Ordered::Points(points)) => Ok(Points::freeze(points)),
            Some(Ordered::Scores(_)) => {
                let name = String::from_utf8_lossy(name);
                let message = format!(
                    "'{name}' is a sorted set with scores that are no places; allowed: a \
                     collection of the kind 'points'"
                );
                Err(HttpError::new(ErrorCode::WrongKind, Some("name"), message))
            }
            None => Err(no_such(name)),
        }
    })
}

/// Refuses a collection that is followed from another server whose data has not come yet.
pub(super) fn check_here(engine: &Engine, name: &[u8]) -> Result<(), HttpError> {
    match engine.keyspace().role_of(NUMBER, name) {
        KeyRole::Awaited => {
            Err(awaited(&format!("the collection '{}' is", String::from_utf8_lossy(name))))
        }
        KeyRole::Own | KeyRole::Followed => Ok(()),
    }
}

fn awaited(what: &str) -> HttpError {
    let message = format!("{what} followed from another server, whose data has not come yet");
    HttpError::new(ErrorCode::Unavailable, None, message)
}

pub(super) fn name_of(uri: &Uri) -> Result<Vec<u8>, HttpError> {
    binary_names::of_path(uri, NAME_INDEX, false, "name")
}

pub(super) fn no_such(name: &[u8]) -> HttpError {
    let name = String::from_utf8_lossy(name);
    HttpError::not_found("name", format!("no such collection '{name}'"))
}

fn wrong_cursor(text: &str) -> HttpError {
    let allowed = "the 'next' of the page before";
    HttpError::bad_request("cursor", format!("'cursor' is '{text}'; allowed: {allowed}"))
}

fn read_box(parameters: &Parameters) -> Result<BoundingBox, HttpError> {
    let wrong = |message: String| HttpError::bad_request("box", message);
    let text = parameters.text("box").ok_or_else(|| HttpError::missing("box"))?;
    let numbers: Option<Vec<f64>> = text.split(',').map(|side| side.parse().ok()).collect();
    let Some([west, south, east, north]) = numbers.as_deref() else {
        let allowed = "four numbers, west,south,east,north, such as 5.9,47.3,15.0,55.1";
        return Err(wrong(format!("'box' is '{text}'; allowed: {allowed}")));
    };
    BoundingBox::new(*west, *south, *east, *north).map_err(|error| wrong(error.to_string()))
}

fn read_circle(parameters: &Parameters) -> Result<Area, HttpError> {
    let longitude_degrees = parameters.required_number("longitude")?;
    let latitude_degrees = parameters.required_number("latitude")?;
    let center = Place::new(longitude_degrees, latitude_degrees).map_err(|error| {
        let field = if error.is_longitude() { "longitude" } else { "latitude" };
        HttpError::bad_request(field, error.to_string())
    })?;
    let radius_meters = parameters.required_number("radius_meters")?;
    if radius_meters < 0.0 {
        let message = format!("'radius_meters' is {radius_meters}; allowed: 0 or more");
        return Err(HttpError::bad_request("radius_meters", message));
    }
    Ok(Area::Shape { center, shape: Shape::Circle { radius_meters } })
}

/// A polygon of GeoJSON (RFC 7946): a geometry, or a feature of one.
fn read_polygon(value: &Value) -> Result<Polygon, HttpError> {
    let wrong = |message: String| HttpError::bad_body(message);
    let geometry = if value["type"] == "Feature" { &value["geometry"] } else { value };
    if geometry["type"] != "Polygon" {
        let kind = &geometry["type"];
        let allowed = "a Polygon of GeoJSON, or a Feature of one";
        return Err(wrong(format!("the type is {kind}; allowed: {allowed}")));
    }
    let rings = geometry["coordinates"].as_array().map(Vec::as_slice);
    let ring = match rings {
        Some([ring]) => ring.as_array(),
        Some([_, _, ..]) => {
            return Err(wrong("the polygon has holes; allowed: one ring".to_owned()));
        }
        _ => None,
    };
    let ring = ring.ok_or_else(|| {
        wrong("the coordinates are no ring; allowed: [[[longitude, latitude], ...]]".to_owned())
    })?;
    if ring.len() > VERTICES_MAX {
        return Err(wrong(format!("{} positions; allowed: {VERTICES_MAX}", ring.len())));
    }
    let position = |(index, value): (usize, &Value)| {
        let numbers: Vec<f64> = value.as_array()?.iter().filter_map(Value::as_f64).collect();
        // A third number is the altitude.
        let is_position =
            matches!(numbers.len(), 2 | 3) && value.as_array()?.len() == numbers.len();
        is_position.then(|| (index, numbers[0], numbers[1]))
    };
    let mut vertices = Vec::with_capacity(ring.len());
    for (index, value) in ring.iter().enumerate() {
        let (_, longitude, latitude) = position((index, value)).ok_or_else(|| {
            wrong(format!("position {index} is {value}; allowed: [longitude, latitude]"))
        })?;
        let place = Place::new_geographic(longitude, latitude)
            .map_err(|error| wrong(format!("position {index}: {error}")))?;
        vertices.push(place);
    }
    // GeoJSON repeats the first position at the end.
    if vertices.len() > 1 && vertices.first() == vertices.last() {
        vertices.pop();
    }
    let edges = vertices.iter().zip(vertices.iter().cycle().skip(1)).enumerate();
    for (index, (one, other)) in edges {
        let (a, b) = (one.longitude_degrees, other.longitude_degrees);
        // From one end of the map to the other an edge is meant as it is.
        if (a - b).abs() > 180.0 && (a.abs() != 180.0 || b.abs() != 180.0) {
            return Err(wrong(format!(
                "the edge from position {index} is wider than 180 degrees; allowed: a polygon cut \
                 in two at the date line"
            )));
        }
    }
    let fewest = polygon::FEWEST_VERTICES;
    Polygon::new(&vertices)
        .ok_or_else(|| wrong(format!("{} vertices; allowed: {fewest} or more", vertices.len())))
}

/// `"member":"van-7"`, and the bytes where it is no text.
fn push_name(body: &mut Vec<u8>, key: &str, name: &[u8]) {
    let shown = ShownName::new(name);
    push_text(body, key);
    body.push(b':');
    push_text(body, &shown.text);
    if let Some(base64) = shown.base64 {
        body.extend_from_slice(format!(",\"{key}_base64\":\"{base64}\"").as_bytes());
    }
}

fn push_coordinates(body: &mut Vec<u8>, place: Place) {
    // The shortest numbers that give the same bits, as serde_json writes them.
    let (longitude, latitude) = (json!(place.longitude_degrees), json!(place.latitude_degrees));
    body.extend_from_slice(
        format!(",\"longitude\":{longitude},\"latitude\":{latitude}").as_bytes(),
    );
}

fn push_took(body: &mut Vec<u8>, began: Instant) {
    let micros = began.elapsed().as_micros();
    body.extend_from_slice(format!(",\"took_microseconds\":{micros}}}").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polygons_of_geojson_are_read_and_what_is_none_is_refused() {
        let read = |text: &str| {
            let value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            let polygon = read_polygon(&value).map_err(|error| format!("{:?}", error.code()))?;
            Ok::<_, String>(polygon.vertices().len())
        };
        let ring = "[[0,0],[4,0],[4,4,120],[0,0]]";
        let geometry = format!(r#"{{"type":"Polygon","coordinates":[{ring}]}}"#);
        assert_eq!(read(&geometry), Ok(3));
        assert_eq!(read(&format!(r#"{{"type":"Feature","geometry":{geometry}}}"#)), Ok(3));
        let wide =
            r#"{"type":"Polygon","coordinates":[[[-180,-90],[180,-90],[180,90],[-180,90]]]}"#;
        assert_eq!(read(wide), Ok(4));
        for wrong in [
            "",
            "[]",
            "7",
            r#"{"type":"Point","coordinates":[0,0]}"#,
            r#"{"type":"Polygon"}"#,
            r#"{"type":"Polygon","coordinates":[]}"#,
            r#"{"type":"Polygon","coordinates":[[[0,0],[1,1],[0,0]]]}"#,
            r#"{"type":"Polygon","coordinates":[[[0,0],[1,1],[1,"x"]]]}"#,
            r#"{"type":"Polygon","coordinates":[[[0,0],[1,1],[1]]]}"#,
            r#"{"type":"Polygon","coordinates":[[[0,0],[1,91],[1,1]]]}"#,
            r#"{"type":"Polygon","coordinates":[[[170,0],[-170,0],[170,10]]]}"#,
            r#"{"type":"Polygon","coordinates":[[[0,0],[9,0],[9,9]],[[1,1],[2,1],[2,2]]]}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_end_of_a_page_is_read_as_it_was_written() {
        for member in [&b""[..], b"van-7", b"caf\xe9-\0"] {
            let text = PageEnd::write(Cell::MAX, member);
            let read = PageEnd::read(&text).expect("it was written");
            assert_eq!((read.cell, &read.member[..]), (Cell::MAX, member));
        }
        for wrong in ["", "-", "7", "x-00", "7-0", "7-0g", "7-+1", "99999999999999999999-00"] {
            assert!(PageEnd::read(wrong).is_err(), "{wrong}");
        }
    }
}
