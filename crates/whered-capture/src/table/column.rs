//! The columns that a table may have, and the many names that people give them.
//!
//! Not for: values. Names are compared in lower case without blanks and `_ - .`, so that
//! `Src_IP`, `src-ip` and `srcip` are one; `id.orig_h` and its kind are Zeek's.

/// The field of a packet or flow that a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Column {
    Time,
    Source,
    Destination,
    Protocol,
    SourcePort,
    DestinationPort,
    IcmpType,
    IcmpCode,
    TcpFlags,
    Dscp,
    State,
    Input,
    Output,
    Bytes,
}

/// Each column with its names, our own first.
const NAMES: &[(Column, &[&str])] = &[
    (Column::Time, &["time", "ts", "timestamp"]),
    (
        Column::Source,
        &["src", "source", "srcip", "srcaddr", "sourceip", "sourceaddress", "saddr", "idorigh"],
    ),
    (
        Column::Destination,
        &[
            "dst",
            "destination",
            "dest",
            "dstip",
            "dstaddr",
            "destip",
            "destinationip",
            "destinationaddress",
            "daddr",
            "idresph",
        ],
    ),
    (Column::Protocol, &["proto", "protocol", "ipproto", "ipprotocol"]),
    (Column::SourcePort, &["sport", "srcport", "sourceport", "spt", "idorigp"]),
    (
        Column::DestinationPort,
        &["dport", "dstport", "destport", "destinationport", "dpt", "idrespp"],
    ),
    (Column::IcmpType, &["icmptype"]),
    (Column::IcmpCode, &["icmpcode"]),
    (Column::TcpFlags, &["tcpflags", "flags"]),
    (Column::Dscp, &["dscp"]),
    (Column::State, &["state", "ctstate"]),
    (Column::Input, &["in", "input", "iif", "iifname", "inif", "ininterface", "inputinterface"]),
    (
        Column::Output,
        &["out", "output", "oif", "oifname", "outif", "outinterface", "outputinterface"],
    ),
    (Column::Bytes, &["bytes", "length", "len", "size"]),
];

impl Column {
    /// The column of this name.
    pub(crate) fn from_name(name: &[u8]) -> Option<Column> {
        let is_kept = |byte: &u8| !byte.is_ascii_whitespace() && !b"_-.".contains(byte);
        let plain = || name.iter().copied().filter(is_kept).map(|byte| byte.to_ascii_lowercase());
        let has_it = |names: &[&str]| names.iter().any(|known| known.bytes().eq(plain()));
        NAMES.iter().find(|(_, names)| has_it(names)).map(|(column, _)| *column)
    }

    /// Our own name.
    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(column, _)| *column == self).map_or("", |(_, names)| names[0])
    }
}
