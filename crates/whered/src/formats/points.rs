//! The formats of points that `whered import points` reads.
//! One entry a format; the tests compare the names with those that the reader knows.

use super::{Entry, Job};

pub(super) const JOB: Job = Job {
    name: "points",
    title: "Points",
    command: "whered import points FILE --key KEY --format NAME",
    about: "Without `--format` the name and the first bytes decide. More: [importing data](moving-in.md).",
    entries: &[
        Entry {
            name: "csv",
            what: "a table with a header, with commas or semicolons",
            example: &["id,lon,lat", "a,8.68,50.11"],
            refused: "",
        },
        Entry {
            name: "tsv",
            what: "the same with tabs",
            example: &["id\tlon\tlat", "a\t8.68\t50.11"],
            refused: "",
        },
        Entry {
            name: "ndjson",
            what: "one object a line, also GeoJSON Features",
            example: &["{\"id\":\"a\",\"lon\":8.68,\"lat\":50.11}"],
            refused: "",
        },
        Entry {
            name: "geojson",
            what: "a FeatureCollection, or Features one after the other",
            example: &[
                "{\"type\":\"FeatureCollection\",\"features\":[{\"type\":\"Feature\",\"id\":\"a\",\
                 \"geometry\":{\"type\":\"Point\",\"coordinates\":[8.68,50.11]},\"properties\":{}}]}",
            ],
            refused: "lines and polygons",
        },
        Entry {
            name: "osm",
            what: "nodes of OpenStreetMap PBF",
            example: &[],
            refused: "ways and relations",
        },
    ],
};
