//! The names by which files call the longitude, the latitude, the geometry and the member.
//!
//! For: columns of tables and fields of objects, in any case and with any of `_`, `-`, `.` and
//! blanks between words. Not for names that the caller gives.
//!
//! ```text
//! stop_lon   Longitude (deg)   decimalLongitude   LNG   ->  a prefix, a stem, a suffix
//! x and y                                               ->  only both together
//! ```

/// The stems of both coordinates, the most telling first.
const LONGITUDES: &[&str] = &["longitude", "lon", "lng", "long"];
const LATITUDES: &[&str] = &["latitude", "lat"];
/// Words in front of a stem and behind it that change nothing.
const PREFIXES: &[&str] = &["decimal", "geo", "gps", "intpt", "prim", "station", "stop", "wgs84"];
const SUFFIXES: &[&str] = &["dd", "dec", "decimal", "deg", "degrees", "wgs84"];
/// Coordinates by their axes, each pair together.
const AXES: &[(&str, &str)] = &[("x", "y"), ("pointx", "pointy"), ("xcoord", "ycoord")];
/// A point as one value: WKT, WKB or a GeoJSON geometry.
const GEOMETRIES: &[&str] = &[
    "wkt",
    "geometry",
    "geom",
    "thegeom",
    "wktgeom",
    "wktgeometry",
    "geomwkt",
    "geometrywkt",
    "wkbgeometry",
    "point",
    "coord",
    "coords",
    "coordinate",
    "coordinates",
    "location",
    "shape",
];
/// What names a member.
const MEMBERS: &[&str] = &["member", "id", "osmid", "geonameid", "stopid", "name", "key"];

/// The letters and digits of a name, in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// A name without the words around its stem.
fn stem(plain: &str) -> &str {
    let rest = PREFIXES.iter().find_map(|prefix| plain.strip_prefix(prefix)).unwrap_or(plain);
    SUFFIXES.iter().find_map(|suffix| rest.strip_suffix(suffix)).unwrap_or(rest)
}

/// The indexes of the longitude and the latitude among names.
pub(super) fn coordinates<'n>(names: impl Iterator<Item = &'n str>) -> Option<(usize, usize)> {
    let plain: Vec<String> = names.map(plain).collect();
    let exact = |wanted: &str| plain.iter().position(|name| name == wanted);
    let find = |stems: &[&str]| {
        let with_words = |wanted: &&str| plain.iter().position(|name| stem(name) == *wanted);
        stems.iter().find_map(|stem| exact(stem)).or_else(|| stems.iter().find_map(with_words))
    };
    let degrees = find(LONGITUDES).zip(find(LATITUDES));
    degrees.or_else(|| AXES.iter().find_map(|(x, y)| exact(x).zip(exact(y))))
}

/// The index of the first usual name of a geometry.
pub(super) fn geometry<'n>(names: impl Iterator<Item = &'n str>) -> Option<usize> {
    first_of(GEOMETRIES, names)
}

/// The index of the first usual name of a member.
pub(super) fn member<'n>(names: impl Iterator<Item = &'n str>) -> Option<usize> {
    first_of(MEMBERS, names)
}

fn first_of<'n>(wanted: &[&str], names: impl Iterator<Item = &'n str>) -> Option<usize> {
    let plain: Vec<String> = names.map(plain).collect();
    wanted.iter().find_map(|wanted| plain.iter().position(|name| name == wanted))
}

/// Whether a name is that of an identifier: `id`, `city_id`, `placeId`, `uuid`.
pub(super) fn is_identifier(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_usual = matches!(&*plain(name), "id" | "osmid" | "geonameid" | "stopid" | "member");
    let stem = lower.strip_suffix("id").unwrap_or("x");
    let is_apart = stem.is_empty() || stem.ends_with(['_', '-', ' ', '.', '@', ':']);
    let is_camel = name.strip_suffix("Id").or(name.strip_suffix("ID")).is_some_and(|stem| {
        stem.ends_with(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit())
    });
    is_usual || is_apart || is_camel || matches!(&*lower, "uuid" | "guid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_the_usual_lists_are_found_in_any_case() {
        for (header, expected) in [
            ("id,ident,type,name,latitude_deg,longitude_deg,elevation_ft", Some((5, 4))),
            ("city,city_ascii,lat,lng,country,iso2,id", Some((3, 2))),
            ("stop_id,stop_name,stop_lat,stop_lon,zone_id", Some((3, 2))),
            ("LATITUDE,LONGITUDE", Some((1, 0))),
            ("Latitude (deg),Longitude (deg)", Some((1, 0))),
            ("gbifID,decimalLatitude,decimalLongitude", Some((2, 1))),
            ("feature_id,prim_lat_dec,prim_long_dec", Some((2, 1))),
            ("GEOID,INTPTLAT,INTPTLONG", Some((2, 1))),
            ("X,Y,name", Some((0, 1))),
            ("y,x", Some((1, 0))),
            ("lat,long", Some((1, 0))),
            ("x,lat", None),
            ("start_lat,start_lon", None),
            ("along,flat", None),
            ("x,y,lon,lat", Some((2, 3))),
            ("stop_lat,stop_lon,lat,lon", Some((3, 2))),
        ] {
            assert_eq!(coordinates(header.split(',')), expected, "{header}");
        }
    }

    #[test]
    fn identifiers_are_recognized_by_their_names() {
        for name in
            ["id", "ID", "@id", "city_id", "placeId", "wikiDataId", "UUID", "geonameid", "osm id"]
        {
            assert!(is_identifier(name), "{name}");
        }
        for name in ["name", "key", "humid", "valid", "ANDROID", "country", "identity", ""] {
            assert!(!is_identifier(name), "{name}");
        }
    }
}
