//! One JSON object as a point: fields, or a GeoJSON Feature (RFC 7946) whose geometry is a Point.
//!
//! Not for finding where objects begin and end (`lines`, `geojson`).

use serde_json::Value;

use super::LoadOptions;

/// The usual names of the three, most telling first.
pub(super) const LONGITUDES: &[&str] = &["longitude", "lon", "lng", "long", "x"];
pub(super) const LATITUDES: &[&str] = &["latitude", "lat", "y"];
pub(super) const MEMBERS: &[&str] = &["member", "id", "@id", "osm_id", "geonameid", "name", "key"];

/// An object as a point.
pub(super) struct Point {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
    pub(super) member: Member,
}

/// A member, and which field it was.
pub(super) struct Member {
    pub(super) text: Vec<u8>,
    pub(super) field: String,
}

/// The point of an object's text; `chosen` names its member where the options do not.
pub(super) fn point(
    text: &[u8],
    options: &LoadOptions,
    chosen: Option<&str>,
) -> Result<Point, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if !value.is_object() {
        return Err("is no JSON object".to_owned());
    }
    match value.get("type").and_then(Value::as_str) {
        Some("Feature") => feature(&value, options, chosen),
        Some("FeatureCollection") => {
            Err("is a FeatureCollection; allowed here: --format geojson".to_owned())
        }
        _ => fields(&value, options, chosen),
    }
}

/// The names of the fields that may name a member.
pub(super) fn names(text: &[u8]) -> Vec<String> {
    let value: Value = serde_json::from_slice(text).unwrap_or_default();
    let is_feature = value.get("type").and_then(Value::as_str) == Some("Feature");
    let fields = if is_feature { value.get("properties") } else { Some(&value) };
    let fields = fields.and_then(Value::as_object);
    fields.into_iter().flat_map(|fields| fields.keys().cloned()).collect()
}

fn fields(value: &Value, options: &LoadOptions, chosen: Option<&str>) -> Result<Point, String> {
    let longitude = number(value, options.longitude.as_deref(), LONGITUDES)?;
    let latitude = number(value, options.latitude.as_deref(), LATITUDES)?;
    let asked = options.member.as_deref().or(chosen);
    let member = member(value, asked)?;
    Ok(Point { longitude, latitude, member })
}

/// The field that was asked for, or the first usual one.
fn member(value: &Value, asked: Option<&str>) -> Result<Member, String> {
    let found = find(value, asked, MEMBERS)?;
    let usual = || MEMBERS.iter().copied().find(|name| value.get(name).is_some());
    let field = asked.or_else(usual).unwrap_or_default().to_owned();
    Ok(Member { text: text(found, "member")?, field })
}

fn feature(value: &Value, options: &LoadOptions, chosen: Option<&str>) -> Result<Point, String> {
    let geometry = value.get("geometry").filter(|geometry| !geometry.is_null());
    let geometry = geometry.ok_or("has no geometry")?;
    let kind = geometry.get("type").and_then(Value::as_str).unwrap_or("unknown");
    if kind != "Point" {
        let kind: String = kind.chars().filter(|letter| !letter.is_control()).take(40).collect();
        return Err(format!("its geometry is a {kind}; allowed: Point"));
    }
    let coordinate = |place: usize, what: &str| {
        let found = geometry.get("coordinates").and_then(|both| both.get(place));
        found.and_then(Value::as_f64).ok_or_else(|| format!("its {what} is no number"))
    };
    let (longitude, latitude) = (coordinate(0, "longitude")?, coordinate(1, "latitude")?);
    let nothing = Value::Null;
    let properties = value.get("properties").unwrap_or(&nothing);
    let member = match (options.member.as_deref().or(chosen), value.get("id")) {
        (None | Some("id"), Some(id)) => {
            Member { text: text(id, "member")?, field: "id".to_owned() }
        }
        (asked, _) => member(properties, asked)?,
    };
    Ok(Point { longitude, latitude, member })
}

/// A field by its dotted path, or by the first usual name there is.
fn find<'v>(value: &'v Value, asked: Option<&str>, usual: &[&str]) -> Result<&'v Value, String> {
    let found = match asked {
        // A name with a dot in it is a name too.
        Some(asked) => value.get(asked).or_else(|| {
            asked.split('.').try_fold(value, |value, name| match value {
                Value::Array(values) => values.get(name.parse::<usize>().ok()?),
                _ => value.get(name),
            })
        }),
        None => usual.iter().find_map(|name| value.get(name)),
    };
    let name = asked.or(usual.first().copied()).unwrap_or_default();
    found.filter(|found| !found.is_null()).ok_or_else(|| format!("has no field '{name}'"))
}

/// A number, or a text that reads as one.
fn number(value: &Value, asked: Option<&str>, usual: &[&str]) -> Result<f64, String> {
    let found = find(value, asked, usual)?;
    let number = match found {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.ok_or_else(|| {
        let name = asked.or(usual.first().copied()).unwrap_or_default();
        format!("its field '{name}' is no number")
    })
}

fn text(value: &Value, what: &str) -> Result<Vec<u8>, String> {
    match value {
        Value::String(text) => Ok(text.clone().into_bytes()),
        Value::Number(number) => Ok(number.to_string().into_bytes()),
        _ => Err(format!("its {what} is no text and no number")),
    }
}
