//! Points as well-known text: WKT (OGC 06-103r4), and EWKT with an SRID in front.
//!
//! For: a text as a place, and files with one such text a line. Not for other shapes, which are
//! refused by name, and not for other coordinate reference systems: only a longitude and a latitude
//! of WGS 84 are a place.
//!
//! ```text
//! POINT(8.68 50.11)   point z (8.68 50.11 112)   SRID=4326;POINT(8.68 50.11)
//! <http://www.opengis.net/def/crs/OGC/1.3/CRS84> POINT(8.68 50.11)      as in GeoSPARQL
//! ```

use super::Spot;
use super::input::Input;
use super::sink::Sink;
use super::wkb;
use crate::error::ConnectError;

/// The system of GeoSPARQL whose first axis is the longitude.
const CRS84: &str = "http://www.opengis.net/def/crs/OGC/1.3/CRS84";
const ALLOWED: &str = "allowed: POINT(LONGITUDE LATITUDE)";
const SHAPES: &[&str] = &[
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
    "CIRCULARSTRING",
    "COMPOUNDCURVE",
    "CURVEPOLYGON",
    "MULTICURVE",
    "MULTISURFACE",
    "POLYHEDRALSURFACE",
    "TIN",
    "TRIANGLE",
];

/// Longitude and latitude of a text, which is WKT, EWKT or hexadecimal WKB.
pub(super) fn point(text: &str) -> Result<(f64, f64), String> {
    let text = text.trim();
    if wkb::is_hex(text.as_bytes()) {
        return wkb::point_of_hex(text.as_bytes());
    }
    let text = without_system(text)?.trim_start();
    let word = &text[..text.bytes().take_while(u8::is_ascii_alphabetic).count()];
    let upper = word.to_ascii_uppercase();
    let (is_flagged, rest) = match upper.strip_prefix("POINT") {
        Some("Z" | "M" | "ZM") => (true, &text[word.len()..]),
        Some("") => (false, &text[word.len()..]),
        _ => {
            let shape = upper.trim_end_matches(['Z', 'M']);
            return Err(match SHAPES.iter().find(|known| **known == shape || **known == upper) {
                Some(shape) => format!("its geometry is a {shape}; allowed: POINT"),
                None => no_wkt(text),
            });
        }
    };
    let (dimensions, rest) = dimensions(&upper[5..], is_flagged, rest.trim_start());
    if rest.eq_ignore_ascii_case("empty") {
        return Err("its geometry is an empty POINT; allowed: a POINT with a place".to_owned());
    }
    let inner = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let inner = inner.ok_or_else(|| no_wkt(text))?;
    let numbers: Option<Vec<f64>> =
        inner.split_ascii_whitespace().map(|number| number.parse().ok()).collect();
    match numbers.as_deref() {
        Some([longitude, latitude, rest @ ..]) if dimensions.contains(&(2 + rest.len())) => {
            Ok((*longitude, *latitude))
        }
        _ => Err(no_wkt(text)),
    }
}

/// How many numbers a point has, by the letters behind its name; and the text behind those.
fn dimensions<'t>(
    letters: &str,
    is_flagged: bool,
    text: &'t str,
) -> (std::ops::RangeInclusive<usize>, &'t str) {
    let count = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let word = text[..count].to_ascii_uppercase();
    let (letters, rest) = match word.as_str() {
        "Z" | "M" | "ZM" if !is_flagged => (word.as_str(), text[count..].trim_start()),
        _ => (letters, text),
    };
    match letters {
        "Z" | "M" => (3..=3, rest),
        "ZM" => (4..=4, rest),
        _ => (2..=4, rest),
    }
}

/// The text behind its coordinate reference system, which must be WGS 84.
fn without_system(text: &str) -> Result<&str, String> {
    if let Some(rest) = text.strip_prefix('<') {
        let (system, rest) = rest.split_once('>').ok_or_else(|| no_wkt(text))?;
        if system != CRS84 {
            return Err(format!("its geometry is of <{}>; allowed: <{CRS84}>", shown(system)));
        }
        return Ok(rest);
    }
    let Some((number, rest)) = text.get(..5).and_then(|start| {
        start.eq_ignore_ascii_case("SRID=").then(|| text[5..].split_once(';')).flatten()
    }) else {
        return Ok(text);
    };
    match number.trim().parse::<u32>() {
        Ok(4326) => Ok(rest),
        _ => Err(wkb::wrong_system(&shown(number.trim()))),
    }
}

fn no_wkt(text: &str) -> String {
    format!("its geometry '{}' is no point in WKT; {ALLOWED}", shown(text))
}

fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

/// Whether a text begins as a point does, or as another shape or system that [`point`] names.
pub(super) fn is_geometry(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let begins = |text: &[u8], start: &str| {
        text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start.as_bytes()))
    };
    let is_shape = |shape: &&str| {
        let behind = text.get(shape.len()..).unwrap_or_default().trim_ascii_start();
        let letters = behind.iter().take_while(|byte| b"zmZM".contains(byte)).count();
        let behind = behind.get(letters..).unwrap_or_default().trim_ascii_start();
        begins(text, shape) && (behind.starts_with(b"(") || begins(behind, "EMPTY"))
    };
    begins(text, "SRID=")
        || begins(text, "<http")
        || is_shape(&"POINT")
        || SHAPES.iter().any(is_shape)
}

/// Reads a file with one geometry a line; its member is the number of the line.
pub(super) fn read(input: &mut Input, sink: &mut Sink<'_>) -> Result<(), ConnectError> {
    sink.expect_no_repeats();
    let mut text = Vec::new();
    let mut line = 0_u64;
    loop {
        let byte = input.byte();
        if !input.next_line(&mut text)? {
            return Ok(());
        }
        line += 1;
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let spot = Spot::Line { line, byte };
        let found = std::str::from_utf8(text).map_err(|_| "is no text in UTF-8".to_owned());
        match found.and_then(point) {
            Ok((longitude, latitude)) => {
                sink.point(longitude, latitude, line.to_string().as_bytes(), spot)?;
            }
            Err(what) => sink.bad(spot, &what)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read_with_all_dimensions_and_in_any_case() {
        for text in [
            "POINT(8.68 50.11)",
            "Point( 8.68  50.11 )",
            " point (8.68 50.11)\n",
            "POINT Z (8.68 50.11 112)",
            "POINTZ(8.68 50.11 112)",
            "POINT M (8.68 50.11 1)",
            "POINT ZM (8.68 50.11 1 2)",
            "POINT(8.68 50.11 112)",
            "SRID=4326;POINT(8.68 50.11)",
            "srid=4326; POINT(8.68 50.11)",
            "<http://www.opengis.net/def/crs/OGC/1.3/CRS84> POINT(8.68 50.11)",
            "POINT(868e-2 5011E-2)",
        ] {
            assert_eq!(point(text), Ok((8.68, 50.11)), "{text}");
        }
    }

    #[test]
    fn other_shapes_systems_and_empty_points_are_refused_by_name() {
        for (text, part) in [
            ("POINT EMPTY", "is an empty POINT"),
            ("POINT Z EMPTY", "is an empty POINT"),
            ("SRID=3857;POINT(1 2)", "has SRID 3857; allowed: 4326"),
            ("SRID=;POINT(1 2)", "has SRID ; allowed: 4326"),
            ("<http://www.wikidata.org/entity/Q405> POINT(1 2)", "is of <http://www.wikidata"),
            ("LINESTRING(1 2,3 4)", "is a LINESTRING; allowed: POINT"),
            ("multipoint z ((1 2 3))", "is a MULTIPOINT; allowed: POINT"),
            ("POINT(1)", "is no point in WKT"),
            ("POINT(1 2 3 4 5)", "is no point in WKT"),
            ("POINT Z (1 2)", "is no point in WKT"),
            ("POINT(1,2)", "is no point in WKT"),
            ("POINT(1 2", "is no point in WKT"),
            ("POINT 1 2", "is no point in WKT"),
            ("POINT(1 2) x", "is no point in WKT"),
            ("POINTS(1 2)", "is no point in WKT"),
            ("ä", "is no point in WKT"),
            ("", "is no point in WKT"),
        ] {
            let error = point(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_text_cut_at_any_byte_is_refused() {
        let whole = "SRID=4326;POINT ZM (8.68 50.11 1 2)";
        for end in 0..whole.len() {
            assert!(point(&whole[..end]).is_err(), "{end}");
        }
    }
}
