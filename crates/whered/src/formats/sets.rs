//! The formats of prefix sets.
//! One entry a format; the tests compare the names with those that the reader knows.

use super::{Entry, Job};

pub(super) const JOB: Job = Job {
    name: "sets",
    title: "Prefix sets",
    command: "redis-cli CIDR.LOAD SET FORMAT NAME FILE FILE",
    about: "The same formats fill a set from a feed, from `whered sync` and from the configuration. \
            Without a name the list says what it is. More: [lists of prefixes](prefix-lists.md).",
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
            what: "tables with any usual header or none, with `,`, `;`, tab or `\\|`; a block in one column, or its ends in two",
            example: &["network,geoname_id", "192.0.2.0/24,2921044"],
            refused: "rows with more or fewer fields than the first one",
        },
        Entry {
            name: "json",
            what: "an array of texts or of objects; any JSON with `PATH`",
            example: &[
                "[\"192.0.2.0/24\",{\"prefix\":\"198.51.100.1\",\"value\":\"x\",\"seconds\":60}]",
            ],
            refused: "other objects without a path",
        },
        Entry {
            name: "ndjson",
            what: "one text or object a line; any JSON with `PATH`",
            example: &[
                "{\"prefix\":\"192.0.2.0/24\",\"value\":\"x\"}",
                "{\"prefix\":\"2001:db8::/32\"}",
            ],
            refused: "other objects without a path",
        },
        Entry {
            name: "aws",
            what: "`ip-ranges.json` of AWS",
            example: &[
                "{\"syncToken\":\"1\",\"createDate\":\"2024-01-01-00-00-00\",\"prefixes\":[{\"ip_prefix\":\"3.4.12.4/32\",\"region\":\"eu-west-1\",\"service\":\"EC2\"}],\"ipv6_prefixes\":[]}",
            ],
            refused: "",
        },
        Entry {
            name: "gcp",
            what: "`cloud.json` and `goog.json` of Google",
            example: &[
                "{\"syncToken\":\"1\",\"creationTime\":\"2024-01-01T00:00:00\",\"prefixes\":[{\"ipv4Prefix\":\"34.1.208.0/20\",\"scope\":\"africa-south1\"}]}",
            ],
            refused: "",
        },
        Entry {
            name: "azure",
            what: "`ServiceTags_Public_*.json` of Azure",
            example: &[
                "{\"changeNumber\":1,\"cloud\":\"Public\",\"values\":[{\"name\":\"Sql\",\"properties\":{\"addressPrefixes\":[\"4.150.0.0/16\"]}}]}",
            ],
            refused: "",
        },
        Entry {
            name: "cloudflare",
            what: "`/client/v4/ips` of Cloudflare's API",
            example: &[
                "{\"result\":{\"ipv4_cidrs\":[\"173.245.48.0/20\"],\"ipv6_cidrs\":[\"2400:cb00::/32\"]},\"success\":true,\"errors\":[]}",
            ],
            refused: "",
        },
        Entry {
            name: "github",
            what: "`https://api.github.com/meta`",
            example: &[
                "{\"verifiable_password_authentication\":false,\"hooks\":[\"192.30.252.0/22\"],\"web\":[\"192.30.252.0/22\"]}",
            ],
            refused: "",
        },
        Entry {
            name: "fastly",
            what: "`https://api.fastly.com/public-ip-list`",
            example: &[
                "{\"addresses\":[\"23.235.32.0/20\"],\"ipv6_addresses\":[\"2a04:4e40::/32\"]}",
            ],
            refused: "",
        },
        Entry {
            name: "oracle",
            what: "`public_ip_ranges.json` of Oracle Cloud",
            example: &[
                "{\"last_updated_timestamp\":\"2024-01-01\",\"regions\":[{\"region\":\"us-phoenix-1\",\"cidrs\":[{\"cidr\":\"129.146.0.0/21\"}]}]}",
            ],
            refused: "",
        },
        Entry {
            name: "spamhaus-drop",
            what: "`drop_v4.json` and `drop_v6.json` of Spamhaus",
            example: &[
                "{\"cidr\":\"1.10.16.0/20\",\"sblid\":\"SBL256894\",\"rir\":\"apnic\"}",
                "{\"type\":\"metadata\",\"records\":1}",
            ],
            refused: "a file without its last line",
        },
        Entry {
            name: "crowdsec",
            what: "decisions of CrowdSec; their durations are timeouts",
            example: &[
                "[{\"duration\":\"3h59m27.4s\",\"scenario\":\"ssh-bf\",\"scope\":\"Ip\",\"type\":\"ban\",\"value\":\"192.0.2.7\"}]",
            ],
            refused: "simulated decisions, and those of countries or names",
        },
        Entry {
            name: "dshield",
            what: "DShield's `block.txt`",
            example: &["192.0.2.0\t192.0.2.255\t24\t3141\tEXAMPLE\tUS\tabuse@example.com"],
            refused: "",
        },
        Entry {
            name: "p2p",
            what: "PeerGuardian's lists",
            example: &["Some name:192.0.2.0-192.0.2.255"],
            refused: "",
        },
        Entry {
            name: "dat",
            what: "eMule's `ipfilter.dat`",
            example: &["192.000.002.000 - 192.000.002.255 , 000 , Some name"],
            refused: "",
        },
        Entry {
            name: "rir",
            what: "`delegated` files of the registries",
            example: &["apnic|AU|ipv4|1.0.0.0|256|20110811|assigned"],
            refused: "files with fewer records than they say",
        },
        Entry {
            name: "bgpdump",
            what: "`bgpdump -m`",
            example: &[
                "TABLE_DUMP2|1700000000|B|198.51.100.1|64496|192.0.2.0/24|64496 64511|IGP|198.51.100.1|0|0||NAG||",
            ],
            refused: "withdrawals",
        },
        Entry {
            name: "hosts",
            what: "`/etc/hosts` and lists like it",
            example: &["192.0.2.1  gate.example gate"],
            refused: "",
        },
        Entry {
            name: "nginx",
            what: "`deny`, `allow` and `set_real_ip_from`",
            example: &["deny 192.0.2.0/24;"],
            refused: "other directives",
        },
        Entry {
            name: "apache",
            what: "`Require [not] ip`, `Deny from`, `Allow from`",
            example: &["Require not ip 192.0.2.0/24"],
            refused: "names of hosts, and other directives",
        },
    ],
};
