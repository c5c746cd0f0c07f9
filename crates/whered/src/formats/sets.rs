//! The formats of prefix sets.
//! One entry a format; the tests compare the names with those that the reader knows.

use super::{Entry, Job};

pub(super) const JOB: Job = Job {
    name: "sets",
    title: "Prefix sets",
    command: "redis-cli CIDR.LOAD SET FORMAT NAME FILE FILE",
    about: "The same formats fill a set from a feed, from `whered sync` and from the configuration.",
    entries: &[
        Entry {
            name: "plain",
            what: "addresses, prefixes and ranges, one a line; FireHOL's `.netset` and `.ipset`",
            example: &["# comment", "192.0.2.0/24", "198.51.100.5-198.51.100.9"],
            refused: "",
        },
        Entry {
            name: "ipset",
            what: "`ipset save`",
            example: &[
                "create bad hash:net family inet timeout 0",
                "add bad 192.0.2.0/24 timeout 60 comment \"x\"",
            ],
            refused: "sets with ports or interfaces; several sets without a name",
        },
        Entry {
            name: "nft",
            what: "`nft list set` or `nft list ruleset`",
            example: &[
                "table inet filter {",
                "  set bad {",
                "    type ipv4_addr",
                "    flags interval",
                "    elements = { 192.0.2.0/24, 198.51.100.5-198.51.100.9 }",
                "  }",
                "}",
            ],
            refused: "several sets without a name",
        },
        Entry {
            name: "nft-json",
            what: "`nft -j list set`",
            example: &[
                "{\"nftables\":[{\"set\":{\"family\":\"inet\",\"table\":\"filter\",\"name\":\"bad\",\"type\":\"ipv4_addr\",\
                 \"elem\":[\"192.0.2.1\",{\"prefix\":{\"addr\":\"198.51.100.0\",\"len\":24}}]}}]}",
            ],
            refused: "several sets without a name",
        },
        Entry {
            name: "csv",
            what: "MaxMind's CSV files of blocks; the column behind the network is the value",
            example: &["network,geoname_id", "192.0.2.0/24,2921044"],
            refused: "",
        },
        Entry {
            name: "json",
            what: "an array of texts or of objects",
            example: &[
                "[\"192.0.2.0/24\",{\"prefix\":\"198.51.100.1\",\"value\":\"x\",\"seconds\":60}]",
            ],
            refused: "",
        },
    ],
};
