//! The formats of packets, as `whered match` reads them.
//! One entry a format; the tests compare the names with those that the reader knows.

use super::{Entry, Job};

pub(super) const JOB: Job = Job {
    name: "packets",
    title: "Packets",
    command: "whered match --rules RULES FILE",
    about: "The first bytes decide. The logs of `whered enrich` above are read, too; what they do not \
            say of a packet is unknown. More: [packet rules](rules.md).",
    entries: &[
        Entry {
            name: "pcap",
            what: "capture of libpcap, microseconds or nanoseconds, of either byte order",
            example: &[],
            refused: "link types other than Ethernet, raw IP, Linux cooked, loopback, PPP, 802.11, NFLOG",
        },
        Entry {
            name: "pcapng",
            what: "capture of Wireshark",
            example: &[],
            refused: "as for `pcap`",
        },
        Entry {
            name: "zeek",
            what: "Zeek's `conn.log` in TSV",
            example: &[
                "#separator \\x09",
                "#fields\tts\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto",
                "1795521600.1\t8.8.8.8\t443\t192.0.2.1\t49152\ttcp",
            ],
            refused: "Zeek's other logs, which are logs as above",
        },
        Entry {
            name: "zeek-json",
            what: "Zeek's `conn.log` in JSON",
            example: &[
                "{\"ts\":1795521600.1,\"id.orig_h\":\"8.8.8.8\",\"id.orig_p\":443,\"id.resp_h\":\"192.0.2.1\",\"id.resp_p\":49152,\"proto\":\"tcp\"}",
            ],
            refused: "",
        },
        Entry {
            name: "csv",
            what: "a table with a header",
            example: &["src,dst,proto,sport,dport", "8.8.8.8,192.0.2.1,tcp,443,49152"],
            refused: "tables without a header",
        },
        Entry {
            name: "lines",
            what: "source, destination, protocol and ports",
            example: &["8.8.8.8 192.0.2.1 tcp 443 49152"],
            refused: "",
        },
    ],
};
