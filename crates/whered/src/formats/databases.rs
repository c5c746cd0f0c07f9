//! The formats of rows that `whered db build` reads.
//! One entry a format; the tests compare the names with those that the reader knows.

use super::{Entry, Job};

pub(super) const JOB: Job = Job {
    name: "databases",
    title: "Rows of IP databases",
    command: "whered db build FILE -o OUTPUT.mmdb --input-format NAME",
    about: "Without `--input-format` the first bytes, the header and the file's name decide. Database files \
            themselves are `.mmdb` and legacy `.dat`. More: [database files](database-files.md).",
    entries: &[
        Entry {
            name: "csv",
            what: "a table with a header in any case: `network`, `cidr`, `prefix`, `ip`, `range`, or \
                   `start_ip` and `end_ip`; with commas, tabs, semicolons or pipes",
            example: &["network,country.iso_code,asn", "8.8.8.0/24,US,15169"],
            refused: "",
        },
        Entry {
            name: "tsv",
            what: "the same with tabs",
            example: &["start_ip\tend_ip\tasn", "8.8.8.0\t8.8.8.255\t15169"],
            refused: "",
        },
        Entry {
            name: "ndjson",
            what: "one object a line",
            example: &["{\"network\":\"8.8.8.0/24\",\"country.iso_code\":\"US\"}"],
            refused: "",
        },
        Entry {
            name: "json",
            what: "an array of such objects, on one line or on many",
            example: &["[", " {\"network\":\"8.8.8.0/24\",\"country.iso_code\":\"US\"}", "]"],
            refused: "an array inside of an object",
        },
        Entry {
            name: "geofeed",
            what: "RFC 8805",
            example: &["8.8.8.0/24,US,US-CA,Mountain View,"],
            refused: "",
        },
        Entry {
            name: "dbip-country",
            what: "DB-IP's country file",
            example: &["8.8.8.0,8.8.8.255,US"],
            refused: "",
        },
        Entry {
            name: "dbip-city",
            what: "DB-IP's city file",
            example: &["8.8.8.0,8.8.8.255,NA,US,California,\"Mountain View\",37.4,-122.1"],
            refused: "",
        },
        Entry {
            name: "dbip-asn",
            what: "DB-IP's ASN file",
            example: &["8.8.8.0,8.8.8.255,15169,\"Google LLC\""],
            refused: "",
        },
        Entry {
            name: "ip2location-asn",
            what: "IP2Location's ASN file",
            example: &["\"134744064\",\"134744319\",\"8.8.8.0/24\",\"15169\",\"Google LLC\""],
            refused: "",
        },
        Entry {
            name: "iptoasn",
            what: "iptoasn.com's `ip2asn`",
            example: &["8.8.8.0\t8.8.8.255\t15169\tUS\tGOOGLE"],
            refused: "",
        },
        Entry {
            name: "iptocountry",
            what: "iptoasn.com's `ip2country`",
            example: &["8.8.8.0\t8.8.8.255\tUS"],
            refused: "",
        },
        Entry {
            name: "ip-location-country",
            what: "ranges and a country",
            example: &["8.8.8.0,8.8.8.255,US"],
            refused: "",
        },
        Entry {
            name: "ip-location-asn",
            what: "ranges, the number of an autonomous system and its name",
            example: &["8.8.8.0,8.8.8.255,15169,Google LLC"],
            refused: "",
        },
        Entry {
            name: "ip-location-city",
            what: "ranges, country, two subdivisions, city, postal code, place, time zone",
            example: &[
                "8.8.8.0,8.8.8.255,US,California,,Mountain View,94043,37.4,-122.1,America/Los_Angeles",
            ],
            refused: "",
        },
        Entry {
            name: "geoip-country-whois",
            what: "MaxMind's `GeoIPCountryWhois.csv`",
            example: &[
                "\"8.8.8.0\",\"8.8.8.255\",\"134744064\",\"134744319\",\"US\",\"United States\"",
            ],
            refused: "",
        },
        Entry {
            name: "ip2location-db11",
            what: "IP2Location's DB11; DB1 to DB26 have names likewise",
            example: &[
                "\"134744064\",\"134744319\",\"US\",\"United States\",\"California\",\"Mountain View\",\"37.40\",\"-122.07\",\"94043\",\"-07:00\"",
            ],
            refused: "the binary `.BIN` files",
        },
        Entry {
            name: "ip2proxy-px11",
            what: "IP2Proxy's PX11; PX1 to PX12 have names likewise",
            example: &[
                "\"134744072\",\"134744072\",\"VPN\",\"US\",\"United States\",\"-\",\"-\",\"-\",\"-\",\"DCH\",\"15169\",\"Google LLC\",\"3\",\"-\",\"-\"",
            ],
            refused: "the binary `.BIN` files",
        },
        Entry {
            name: "delegated",
            what: "statistics of the regional registries (`delegated-ripencc-extended-latest`): a country for each range",
            example: &["ripencc|DE|ipv4|192.0.2.0|256|19930901|allocated"],
            refused: "",
        },
    ],
};
