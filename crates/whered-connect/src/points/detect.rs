//! What a file of points is, by its name or by its first bytes.
//!
//! Not for columns, which are told by their names (`csv`, `json`). Compression is told by the first
//! bytes alone (`input`), so `.gz` and `.zst` at the end of a name are passed over here.

use std::path::Path;

use serde_json::Value;

use super::Format;

/// The format; nothing for bytes that are none of them.
pub(super) fn format(path: &Path, first: &[u8]) -> Option<Format> {
    by_name(path).or_else(|| by_bytes(first))
}

fn by_name(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    let (_, extension) = name.rsplit_once('.')?;
    match extension {
        "csv" => Some(Format::Csv),
        "tsv" => Some(Format::Tsv),
        "ndjson" | "jsonl" | "geojsonl" | "geojsons" => Some(Format::Ndjson),
        "geojson" => Some(Format::GeoJson),
        "pbf" => Some(Format::Osm),
        _ => None,
    }
}

fn by_bytes(first: &[u8]) -> Option<Format> {
    // A header of a PBF file: four bytes of length, field 1 with its length, "OSMHeader".
    if first.get(6..15) == Some(b"OSMHeader") {
        return Some(Format::Osm);
    }
    let text = first.trim_ascii_start();
    let line = text.split(|&byte| byte == b'\n').next()?;
    match text.first()? {
        b'{' => {
            let is_collection =
                |value: &Value| value.get("type").is_some_and(|kind| kind == "FeatureCollection");
            let is_line = serde_json::from_slice(line).is_ok_and(|value| !is_collection(&value));
            Some(if is_line { Format::Ndjson } else { Format::GeoJson })
        }
        // RFC 8142 puts this before each text.
        0x1e => Some(Format::GeoJson),
        _ if line.contains(&b'\t') => Some(Format::Tsv),
        _ if line.contains(&b',') || line.contains(&b';') => Some(Format::Csv),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_first_bytes_say_what_a_file_is() {
        for (name, first, expected) in [
            ("a.csv.gz", "", Some(Format::Csv)),
            ("a.osm.pbf", "", Some(Format::Osm)),
            ("A.GEOJSON.zst", "", Some(Format::GeoJson)),
            ("-", "id\tlon\tlat\n", Some(Format::Tsv)),
            ("-", "id;lon;lat\n", Some(Format::Csv)),
            ("-", "{\"lon\":1,\"lat\":2,\"id\":3}\n", Some(Format::Ndjson)),
            ("-", "{\"type\":\"Feature\"}\n{", Some(Format::Ndjson)),
            ("-", "{\"type\":\"FeatureCollection\",\"features\":[]}", Some(Format::GeoJson)),
            ("a.json", " {\n\"type\":\"FeatureCollection\",", Some(Format::GeoJson)),
            ("-", "\u{1e}{}", Some(Format::GeoJson)),
            ("-", "\0\0\0\x0d\n\tOSMHeader", Some(Format::Osm)),
            ("-", "word\n", None),
            ("-", "", None),
        ] {
            assert_eq!(format(Path::new(name), first.as_bytes()), expected, "{name} {first}");
        }
    }
}
