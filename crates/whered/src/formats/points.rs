//! The formats of points that `whered import points` reads.
//! One entry a format; the tests compare the names with those that the reader knows.

use super::{Entry, Job};

pub(super) const JOB: Job = Job {
    name: "points",
    title: "Points",
    command: "whered import points FILE --key KEY --input-format NAME",
    about: "Without `--input-format` the name and the first bytes decide. More: [importing data](moving-in.md).",
    entries: &[
        Entry {
            name: "csv",
            what: "a table with a header, between commas, semicolons, tabs or bars: GTFS stops, OurAirports, \
                   SimpleMaps, GNIS; or with a column of WKT or hexadecimal WKB",
            example: &["id,name,latitude_deg,longitude_deg", "6523,Total RF Heliport,40.07,-74.93"],
            refused: "two tables in one file",
        },
        Entry {
            name: "tsv",
            what: "the same with tabs and without quotes",
            example: &["id\tlon\tlat", "a\t8.68\t50.11"],
            refused: "",
        },
        Entry {
            name: "geonames",
            what: "GeoNames' `cities15000.txt` and `allCountries.txt`: 19 columns, no header",
            example: &[
                "3039154\tEl Tarter\tEl Tarter\t\t42.57952\t1.65362\tP\tPPL\tAD\t\t02\t\t\t\t1052\t\t1721\t\
                 Europe/Andorra\t2012-11-03",
            ],
            refused: "postal codes, which have other columns",
        },
        Entry {
            name: "ndjson",
            what: "one object a line, also GeoJSON Features",
            example: &["{\"id\":\"a\",\"lon\":8.68,\"lat\":50.11}"],
            refused: "",
        },
        Entry {
            name: "json",
            what: "an array of objects, or an object of objects whose keys are the members",
            example: &[
                "{\"a\":{\"lng\":8.68,\"lat\":50.11},",
                " \"b\":{\"lng\":8.7,\"lat\":50.12}}",
            ],
            refused: "",
        },
        Entry {
            name: "geojson",
            what: "a FeatureCollection, or Features one after the other; also other objects in these forms, such as \
                   those of Overpass",
            example: &[
                "{\"type\":\"FeatureCollection\",\"features\":[{\"type\":\"Feature\",\"id\":\"a\",\
                 \"geometry\":{\"type\":\"Point\",\"coordinates\":[8.68,50.11]},\"properties\":{}}]}",
            ],
            refused: "lines and polygons",
        },
        Entry {
            name: "wkt",
            what: "one point in WKT or EWKT a line, whose number is the member",
            example: &["POINT(8.68 50.11)", "SRID=4326;POINT(8.7 50.12)"],
            refused: "other shapes, empty points, other systems than WGS 84",
        },
        Entry {
            name: "parquet",
            what: "GeoParquet with points as WKB or as `point`, or columns of longitude and latitude",
            example: &[],
            refused: "other CRS than OGC:CRS84 and EPSG:4326, other shapes",
        },
        Entry {
            name: "osm",
            what: "nodes of OpenStreetMap PBF",
            example: &[],
            refused: "ways and relations",
        },
    ],
};
