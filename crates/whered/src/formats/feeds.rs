//! The formats of uploads to feeds.
//! One entry a format; the tests compare the names with those that the reader knows.

use super::{Entry, Job};

pub(super) const JOB: Job = Job {
    name: "feeds",
    title: "Uploads to feeds",
    command: "whered ingest FEED FILE",
    about: "The feed's configuration names the format and says where a record's parts are. \
            More: [feeds](feeds.md), [feeds of public formats](feeds-shapes.md).",
    entries: &[
        Entry {
            name: "xml",
            what: "a document with an element for each record",
            example: &["<upload><sighting object=\"201\" x=\"8.68\" y=\"50.11\"/></upload>"],
            refused: "documents with a DTD",
        },
        Entry {
            name: "ndjson",
            what: "one object a line",
            example: &["{\"van\":\"a\",\"lon\":8.68,\"lat\":50.11}"],
            refused: "",
        },
        Entry {
            name: "csv",
            what: "rows with quotes (RFC 4180) and commas, or any other separator",
            example: &["van,lon,lat", "a,8.68,50.11"],
            refused: "rows of another width than the header's",
        },
        Entry {
            name: "tsv",
            what: "rows with tabs and without quotes",
            example: &["van\tlon\tlat", "a\t8.68\t50.11"],
            refused: "",
        },
        Entry {
            name: "gpx",
            what: "points of tracks, routes and waypoints",
            example: &[
                "<gpx xmlns=\"http://www.topografix.com/GPX/1/1\"><wpt lat=\"50.11\" lon=\"8.68\"><name>a</name></wpt></gpx>",
            ],
            refused: "",
        },
        Entry {
            name: "json",
            what: "documents: an array of objects or arrays, one below a path, or a single object",
            example: &[
                "{\"now\":1710057600,\"aircraft\":[{\"hex\":\"3c6444\",\"lon\":8.68,\"lat\":50.11}]}",
            ],
            refused: "objects whose keys are members",
        },
        Entry {
            name: "geojson",
            what: "the points of a FeatureCollection (RFC 7946), or features one after the other",
            example: &[
                "{\"type\":\"FeatureCollection\",\"features\":[{\"type\":\"Feature\",\"id\":\"a\",\"properties\":{},\"geometry\":{\"type\":\"Point\",\"coordinates\":[8.68,50.11]}}]}",
            ],
            refused: "features without a point",
        },
    ],
};
