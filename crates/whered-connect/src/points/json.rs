//! One JSON object as a point: fields, or a GeoJSON Feature (RFC 7946) whose geometry is a Point.
//!
//! Not for finding where objects begin and end (`lines`, `list`, `geojson`).

use serde_json::{Map, Value};

use super::sample::Position;
use super::{LoadOptions, names, wkt};

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
    let value = object(text)?;
    let (longitude, latitude) = position(&value, options)?;
    let asked = options.member.as_deref().or(chosen);
    let member = match (is_feature(&value), asked, value.get("id")) {
        (true, None | Some("id"), Some(id)) => {
            Member { text: member_text(id)?, field: "id".to_owned() }
        }
        (true, ..) => member(value.get("properties").unwrap_or(&Value::Null), asked)?,
        (false, ..) => member(&value, asked)?,
    };
    Ok(Point { longitude, latitude, member })
}

/// The place of an object's text, whose member is named elsewhere.
pub(super) fn keyed_position(text: &[u8], options: &LoadOptions) -> Position {
    position(&object(text)?, options)
}

/// Whether an object's text has coordinates, good ones or bad ones.
pub(super) fn has_position(text: &[u8], options: &LoadOptions) -> bool {
    object(text).is_ok_and(|value| {
        let found = coordinate_values(&value, options);
        matches!(found, Ok(Some(_))) || geometry_value(&value, options).is_some()
    })
}

/// The names of the fields that may name a member.
pub(super) fn names(text: &[u8]) -> Vec<String> {
    let value: Value = serde_json::from_slice(text).unwrap_or_default();
    let fields = if is_feature(&value) { value.get("properties") } else { Some(&value) };
    let fields = fields.and_then(Value::as_object);
    fields.into_iter().flat_map(|fields| fields.keys().cloned()).collect()
}

fn object(text: &[u8]) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match &value {
        Value::Object(_) => Ok(value),
        _ => Err("is no JSON object".to_owned()),
    }
}

fn is_feature(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str) == Some("Feature")
}

fn position(value: &Value, options: &LoadOptions) -> Position {
    match value.get("type").and_then(Value::as_str) {
        Some("Feature") => {
            let geometry = value.get("geometry").filter(|geometry| !geometry.is_null());
            return geojson_point(geometry.ok_or("has no geometry")?);
        }
        Some("FeatureCollection") => {
            return Err("is a FeatureCollection; allowed here: --input-format geojson".to_owned());
        }
        _ => {}
    }
    if let Some((longitude, latitude)) = coordinate_values(value, options)? {
        return Ok((number(longitude)?, number(latitude)?));
    }
    match (geometry_value(value, options), &options.geometry) {
        (Some((_, Value::String(text))), _) => wkt::point(text),
        (Some((_, geometry @ Value::Object(_))), _) => geojson_point(geometry),
        (Some((name, _)), _) => {
            let name = name.escape_debug();
            Err(format!("its field '{name}' is no geometry; allowed: WKT, a GeoJSON Point"))
        }
        (None, Some(asked)) => Err(no_field(asked)),
        (None, None) => {
            let has = |names: &[&str]| {
                value.as_object().is_some_and(|fields| {
                    fields.keys().any(|name| names.contains(&&*name.to_ascii_lowercase()))
                })
            };
            let missing =
                if has(&["lon", "lng", "long", "longitude"]) { "latitude" } else { "longitude" };
            Err(no_field(missing))
        }
    }
}

type FieldEntry<'v> = (&'v str, &'v Value);

/// The fields of longitude and latitude, those that were asked for or those of usual names.
/// Nothing if no name is usual, or if a geometry was asked for.
fn coordinate_values<'v>(
    value: &'v Value,
    options: &'v LoadOptions,
) -> Result<Option<(FieldEntry<'v>, FieldEntry<'v>)>, String> {
    let (longitude, latitude) = (options.longitude.as_deref(), options.latitude.as_deref());
    let fields = value.as_object();
    if options.geometry.is_some() && longitude.is_none() && latitude.is_none() {
        return Ok(None);
    }
    let usual = || -> Option<(FieldEntry<'v>, FieldEntry<'v>)> {
        let fields = fields?;
        let quick = fields.get_key_value("lat").and_then(|latitude| {
            let longitude = fields.get_key_value("lon").or_else(|| fields.get_key_value("lng"));
            Some((named(longitude?), named(latitude)))
        });
        quick.filter(|_| !fields.contains_key("longitude")).or_else(|| {
            let (x, y) = names::coordinates(fields.keys().map(String::as_str))?;
            Some((nth(fields, x)?, nth(fields, y)?))
        })
    };
    let asked =
        |name: &'v str| find(value, name).map(|found| (name, found)).ok_or_else(|| no_field(name));
    Ok(match (longitude, latitude) {
        (Some(longitude), Some(latitude)) => Some((asked(longitude)?, asked(latitude)?)),
        (None, None) => usual(),
        (Some(longitude), None) => {
            let (_, latitude) = usual().ok_or_else(|| no_field("latitude"))?;
            Some((asked(longitude)?, latitude))
        }
        (None, Some(latitude)) => {
            let (longitude, _) = usual().ok_or_else(|| no_field("longitude"))?;
            Some((longitude, asked(latitude)?))
        }
    })
}

fn named<'v>((name, value): (&'v String, &'v Value)) -> FieldEntry<'v> {
    (name, value)
}

fn nth(fields: &Map<String, Value>, index: usize) -> Option<FieldEntry<'_>> {
    fields.iter().nth(index).map(named)
}

/// The field with a geometry: the one that was asked for, or one of a usual name.
fn geometry_value<'v>(value: &'v Value, options: &'v LoadOptions) -> Option<FieldEntry<'v>> {
    match options.geometry.as_deref() {
        Some(asked) => find(value, asked).map(|found| (asked, found)),
        None => {
            let fields = value.as_object()?;
            let (name, found) = nth(fields, names::geometry(fields.keys().map(String::as_str))?)?;
            let is_fit = match found {
                Value::String(text) => wkt::is_geometry(text.as_bytes()),
                other => other.get("coordinates").is_some(),
            };
            is_fit.then_some((name, found))
        }
    }
}

/// The coordinates of a GeoJSON geometry.
fn geojson_point(geometry: &Value) -> Position {
    let kind = geometry.get("type").and_then(Value::as_str).unwrap_or("unknown");
    if kind != "Point" {
        let kind: String = kind.chars().filter(|letter| !letter.is_control()).take(40).collect();
        return Err(format!("its geometry is a {kind}; allowed: Point"));
    }
    let coordinate = |index: usize, what: &str| {
        let found = geometry.get("coordinates").and_then(|both| both.get(index));
        found.and_then(Value::as_f64).ok_or_else(|| format!("its {what} is no number"))
    };
    Ok((coordinate(0, "longitude")?, coordinate(1, "latitude")?))
}

/// The field that was asked for, or the first usual one.
fn member(value: &Value, asked: Option<&str>) -> Result<Member, String> {
    let (field, found) = match asked {
        Some(asked) => (asked, find(value, asked)),
        None => {
            let fields = value.as_object();
            let usual = fields.and_then(|fields| {
                let index = names::member(fields.keys().map(String::as_str))?;
                nth(fields, index)
            });
            usual.map_or(("member", None), |(name, found)| (name, Some(found)))
        }
    };
    let found = found.filter(|found| !found.is_null()).ok_or_else(|| no_field(field))?;
    Ok(Member { text: member_text(found)?, field: field.to_owned() })
}

/// A field by its dotted path.
fn find<'v>(value: &'v Value, asked: &str) -> Option<&'v Value> {
    // A name with a dot in it is a name too.
    value.get(asked).or_else(|| {
        asked.split('.').try_fold(value, |value, name| match value {
            Value::Array(values) => values.get(name.parse::<usize>().ok()?),
            _ => value.get(name),
        })
    })
}

fn no_field(name: &str) -> String {
    format!("has no field '{}'", name.escape_debug())
}

/// A number, or a text that reads as one.
fn number((name, value): FieldEntry<'_>) -> Result<f64, String> {
    let number = match value {
        Value::Null => return Err(no_field(name)),
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.ok_or_else(|| format!("its field '{}' is no number", name.escape_debug()))
}

fn member_text(value: &Value) -> Result<Vec<u8>, String> {
    match value {
        Value::String(text) => Ok(text.clone().into_bytes()),
        Value::Number(number) => Ok(number.to_string().into_bytes()),
        _ => Err("its member is no text and no number".to_owned()),
    }
}
