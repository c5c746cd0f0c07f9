//! The formats of packet rules.
//! One entry a format; the tests compare the names with those that the reader knows.

use super::{Entry, Job};

pub(super) const JOB: Job = Job {
    name: "rules",
    title: "Packet rules",
    command: "whered rules explain FILE --source 8.8.8.8 --destination 192.0.2.1 --protocol tcp --destination-port 443",
    about: "The first line that is no comment decides. Each format's matches and targets: \
            [packet rules](rules.md#other-formats).",
    entries: &[
        Entry {
            name: "own",
            what: "whered's own format",
            example: &["chain input policy drop {", "    proto tcp dport {22 443} accept", "}"],
            refused: "",
        },
        Entry {
            name: "iptables",
            what: "`iptables-save`, `ip6tables-save`, and files for `iptables-restore` that people write",
            example: &[
                "*filter",
                ":INPUT DROP [0:0]",
                "-A INPUT -p tcp --dport 443 -j ACCEPT",
                "COMMIT",
            ],
            refused: "scripts that call `iptables`",
        },
        Entry {
            name: "nft",
            what: "`nft -j list ruleset`",
            example: &[
                "{\"nftables\":[{\"table\":{\"family\":\"inet\",\"name\":\"filter\",\"handle\":1}},\
                 {\"chain\":{\"family\":\"inet\",\"table\":\"filter\",\"name\":\"input\",\"handle\":1,\"type\":\"filter\",\"hook\":\"input\",\"prio\":0,\"policy\":\"accept\"}}]}",
            ],
            refused: "the text of `nft list ruleset`; add `-j`",
        },
        Entry {
            name: "classbench",
            what: "filter sets of ClassBench",
            example: &["@8.8.8.0/24\t0.0.0.0/0\t0 : 65535\t443 : 443\t0x06/0xFF\t0x0000/0x0000"],
            refused: "",
        },
    ],
};
