//! What a file of points is, by its name or by its first bytes.
//!
//! Not for columns, which are found by their names (`names`). Compression shows in the first bytes
//! alone (`input`), so `.gz` and its like at the end of a name are passed over here.
//!
//! ```text
//! {  FeatureCollection        GeoJSON            [  an array         a list
//!    one whole object a line  NDJSON             {  only objects inside, the first a point: a list
//!    anything else            objects one after the other, which the reader of GeoJSON takes
//! ```

use std::path::Path;

use serde_json::Value;

use super::json::{self, has_position};
use super::{Format, LoadOptions, csv, names, wkt};

/// The format; nothing for bytes that are none of them.
pub(super) fn format(path: &Path, first: &[u8], options: &LoadOptions) -> Option<Format> {
    match by_name(path) {
        Some(Format::GeoJson) if first.trim_ascii_start().starts_with(b"[") => Some(Format::Json),
        Some(Format::Tsv) if csv::is_geonames(first) => Some(Format::GeoNames),
        Some(format) => Some(format),
        None => by_bytes(first, options),
    }
}

pub(super) fn by_name(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let packed = [".gz", ".zst", ".xz", ".bz2", ".lz4"];
    let name = packed.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    let (_, extension) = name.rsplit_once('.')?;
    match extension {
        "csv" | "psv" => Some(Format::Csv),
        "tsv" | "tab" => Some(Format::Tsv),
        "ndjson" | "jsonl" | "geojsonl" | "geojsons" => Some(Format::Ndjson),
        "geojson" => Some(Format::GeoJson),
        "wkt" | "ewkt" => Some(Format::Wkt),
        "parquet" | "geoparquet" => Some(Format::Parquet),
        "pbf" => Some(Format::Osm),
        _ => None,
    }
}

fn by_bytes(first: &[u8], options: &LoadOptions) -> Option<Format> {
    if is_osm(first) {
        return Some(Format::Osm);
    }
    let text = first.trim_ascii_start();
    let line = text.split(|&byte| byte == b'\n').next()?;
    match text.first()? {
        b'[' => Some(Format::Json),
        b'{' => Some(of_objects(text, line, options)),
        // RFC 8142 puts this before each text.
        0x1e => Some(Format::GeoJson),
        _ if wkt::is_geometry(text) => Some(Format::Wkt),
        _ if csv::is_geonames(text) => Some(Format::GeoNames),
        _ if line.contains(&b'\t') => Some(Format::Tsv),
        _ if b",;|".iter().any(|delimiter| line.contains(delimiter)) => Some(Format::Csv),
        _ => None,
    }
}

/// The format of a text that begins with an object.
fn of_objects(text: &[u8], line: &[u8], options: &LoadOptions) -> Format {
    let ObjectPrefix { members, rest } = object_prefix(text);
    let is_collection = members.iter().any(|(key, value)| match key.as_str() {
        "features" => value.starts_with(b"["),
        "type" => *value == b"\"FeatureCollection\"",
        _ => false,
    });
    let is_line = serde_json::from_slice::<Value>(line).is_ok();
    let has_more = rest.is_some_and(|rest| !rest.trim_ascii().is_empty());
    // The object itself is no point.
    let is_point = rest.is_some_and(|rest| has_position(&text[..text.len() - rest.len()], options));
    let is_list = !is_point
        && members.iter().all(|(_, value)| value.starts_with(b"{"))
        && members.first().is_some_and(|(_, value)| json::has_position(value, options));
    match () {
        () if is_collection => Format::GeoJson,
        () if !has_more && list_key(text, options).is_some() => Format::GeoJson,
        () if is_list && !has_more => Format::Json,
        () if is_line => Format::Ndjson,
        () => Format::GeoJson,
    }
}

/// The key of the first array of objects in a text that begins with an object, such as `elements`
/// of Overpass: its objects are the records. Nothing where the object is a record itself.
pub(super) fn list_key(text: &[u8], options: &LoadOptions) -> Option<String> {
    let text = text.trim_ascii_start();
    if !text.starts_with(b"{") {
        return None;
    }
    let ObjectPrefix { members, rest } = object_prefix(text);
    let is_list = |(_, value): &(String, &[u8])| {
        value.strip_prefix(b"[").is_some_and(|inner| inner.trim_ascii_start().starts_with(b"{"))
    };
    let has_place = rest
        .is_some_and(|rest| has_position(&text[..text.len() - rest.len()], options))
        || names::coordinates(members.iter().map(|(name, _)| name.as_str())).is_some()
        || members.iter().any(|(name, _)| matches!(name.as_str(), "geometry" | "features"))
        || members.iter().any(|(_, value)| *value == b"\"FeatureCollection\"");
    members.into_iter().find(is_list).filter(|_| !has_place).map(|(key, _)| key)
}

/// The members of an object as far as it goes.
struct ObjectPrefix<'t> {
    /// Keys and the texts of their values; the last value may be cut.
    members: Vec<(String, &'t [u8])>,
    /// The text after the object, if the object is whole.
    rest: Option<&'t [u8]>,
}

/// How many members are looked at.
const MEMBERS_MAX: usize = 1000;

fn object_prefix(text: &[u8]) -> ObjectPrefix<'_> {
    let mut members: Vec<(String, &[u8])> = Vec::new();
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    // Where the key and the value at hand begin.
    let (mut start, mut key) = (0, None);
    for (at, &byte) in text.iter().enumerate() {
        if in_string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        let is_end = depth == 1 && matches!(byte, b',' | b'}');
        match byte {
            b'"' => in_string = true,
            b':' if depth == 1 && key.is_none() => {
                let name = serde_json::from_slice::<String>(text[start..at].trim_ascii());
                key = Some(name.unwrap_or_default());
                start = at + 1;
            }
            b'{' | b'[' => {
                depth += 1;
                start = if depth == 1 { at + 1 } else { start };
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if is_end {
            members.extend(key.take().map(|key| (key, text[start..at].trim_ascii())));
            start = at + 1;
        }
        if depth == 0 {
            return ObjectPrefix { members, rest: text.get(at + 1..) };
        }
        if members.len() == MEMBERS_MAX {
            break;
        }
    }
    members.extend(key.map(|key| (key, text[start..].trim_ascii())));
    ObjectPrefix { members, rest: None }
}

/// Whether a file begins as OpenStreetMap's PBF: four bytes of length, then field 1 of the first
/// blob's header, `OSMHeader`.
pub(super) fn is_osm(first: &[u8]) -> bool {
    first.get(6..15) == Some(b"OSMHeader")
}

/// The format of a file that is not OpenStreetMap PBF: other protocol buffers with that extension,
/// or another format of OpenStreetMap.
pub(super) fn instead_of_osm(first: &[u8]) -> &'static str {
    // A field with a length whose content begins in a known way.
    let field = |tag: u8, inner: &[u8]| {
        first.first() == Some(&tag) && {
            let length = first.iter().skip(1).take_while(|byte| **byte & 0x80 != 0).count();
            first.get(2 + length..).is_some_and(|content| content.starts_with(inner))
        }
    };
    match () {
        () if field(0x0a, b"\x0a\x031.0") || field(0x0a, b"\x0a\x032.0") => {
            "a GTFS-realtime feed (positions of vehicles: feeds take them as JSON)"
        }
        () if field(0x1a, b"\x0a") || field(0x1a, b"\x78\x02") || field(0x1a, b"\x78\x01") => {
            "a vector tile"
        }
        () if field(0x0a, b"\x0a") && first.windows(5).any(|found| found == b"0-255") => {
            "a set of glyphs for maps"
        }
        () if first.starts_with(b"\xff\xe0\x04o5") => {
            "an .o5m file (osmconvert makes .osm.pbf of it)"
        }
        () if first.trim_ascii_start().starts_with(b"<") => {
            "XML (osmium cat map.osm -o map.osm.pbf makes PBF of OpenStreetMap XML)"
        }
        () if first.is_empty() => "an empty file",
        () => "something else",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_first_bytes_say_what_a_file_is() {
        let options = LoadOptions::default();
        let geonames = "3039154\tEl Tarter\tEl Tarter\t\t42.57952\t1.65362\tP\tPPL\tAD\t\t02\t\t\t\t1052\t\t1721\tEurope/Andorra\t2012-11-03\n";
        for (name, first, expected) in [
            ("a.csv.gz", "", Some(Format::Csv)),
            ("a.osm.pbf", "", Some(Format::Osm)),
            ("A.GEOJSON.zst", "", Some(Format::GeoJson)),
            ("a.parquet", "", Some(Format::Parquet)),
            ("a.geojson", "[{", Some(Format::Json)),
            ("-", "id\tlon\tlat\n", Some(Format::Tsv)),
            ("-", "id;lon;lat\n", Some(Format::Csv)),
            ("a.txt", "id|lon|lat\n", Some(Format::Csv)),
            ("stops.txt", "stop_id,stop_lat,stop_lon\n", Some(Format::Csv)),
            ("cities15000.txt", geonames, Some(Format::GeoNames)),
            ("AD.tsv", geonames, Some(Format::GeoNames)),
            ("-", "POINT (1 2)\n", Some(Format::Wkt)),
            ("-", "SRID=4326;POINT(1 2)\n", Some(Format::Wkt)),
            ("-", "point,name\n", Some(Format::Csv)),
            ("-", "{\"lon\":1,\"lat\":2,\"id\":3}\n", Some(Format::Ndjson)),
            ("-", "{\"type\":\"Feature\"}\n{", Some(Format::Ndjson)),
            ("-", "{\n\"id\":1,\n\"lon\":1}\n{", Some(Format::GeoJson)),
            ("-", "{\"type\":\"FeatureCollection\",\"features\":[]}", Some(Format::GeoJson)),
            ("a.json", " {\n\"type\":\"FeatureCollection\",", Some(Format::GeoJson)),
            ("-", "{\"crs\":{},\"features\":[{\"type\"", Some(Format::GeoJson)),
            ("a.json", "[\n {\"lon\"", Some(Format::Json)),
            ("a.json", "{\"a\":{\"lon\":1,\"lat\":2}}", Some(Format::Json)),
            ("a.json", "{\n \"a\": {\"lon\": 1, \"lat\": 2},\n \"b\": {\"lo", Some(Format::Json)),
            ("a.json", "{\"a\":{\"lon\":1,\"lat\":2},\"b\":3}\n", Some(Format::Ndjson)),
            (
                "-",
                "{\"a\":{\"lon\":1,\"lat\":2}}\n{\"a\":{\"lon\":1,\"lat\":2}}\n",
                Some(Format::Ndjson),
            ),
            ("a.json", "{\"version\":0.6,\"elements\":[{\"id\":1", Some(Format::GeoJson)),
            ("a.json", "{\"a\":[{}],\"lon\":1,\"lat\":2}\n", Some(Format::Ndjson)),
            ("-", "\u{1e}{}", Some(Format::GeoJson)),
            ("-", "\0\0\0\x0d\n\tOSMHeader", Some(Format::Osm)),
            ("-", "word\n", None),
            ("-", "", None),
        ] {
            let found = format(Path::new(name), first.as_bytes(), &options);
            assert_eq!(found, expected, "{name} {first}");
        }
    }

    #[test]
    fn a_pbf_file_that_is_no_map_is_named() {
        for (first, part) in [
            (&b"\x0a\x0d\x0a\x032.0\x10\x00\x18\x80"[..], "GTFS-realtime"),
            (b"\x1a\x8f\x1e\x0a\x05water\x12", "vector tile"),
            (b"\x1a\x05\x78\x02\x0a\x01a", "vector tile"),
            (b"\x0a\xaf\x8f\x04\x0a\x11Open Sans Regular\x12\x050-255", "glyphs"),
            (b"\xff\xe0\x04o5m2", ".o5m"),
            (b"<?xml version='1.0'?><osm>", "XML"),
            (b"", "empty"),
            (b"\x00\x01", "something else"),
        ] {
            assert!(instead_of_osm(first).contains(part), "{part}");
            assert!(!is_osm(first));
        }
    }
}
