//! Which columns of a log say what of a packet.
//!
//! Not for reading records. A column counts only where it is about the packet that the source
//! address is of: behind a proxy's header such as `X-Forwarded-For`, ports and destination are
//! those of another connection.
//!
//! ```text
//! log                        source       what else is said
//! VPC flow                   srcaddr      dstaddr, srcport, dstport, protocol, bytes
//! netfilter                  SRC          DST, PROTO, SPT, DPT, TYPE, CODE, flags, IN, ...
//! IIS, W3C                   c-ip         s-ip, c-port, s-port
//! Zeek but conn.log          id.orig_h    id.resp_h, id.orig_p, id.resp_p, proto
//! JSON                       source.ip    destination.ip, source.port, ..., network.transport
//! ALB, ELB, HAProxy          client       the port behind it
//! ```

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use whered_capture::logs::{ABSENT, LogFormat};
use whered_ip::text::read;
use whered_rules::unknown::{Fields, PacketField};
use whered_rules::{Detail, Packet, names};

use super::logs::shared;
use crate::enrich::detect::Layout;
use crate::enrich::split::Shape;
use crate::enrich::split::csv::cell_text;

/// What a column says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Destination,
    SourcePort,
    DestinationPort,
    Protocol,
    IcmpType,
    IcmpCode,
    Flags,
    Input,
    Output,
    /// The eight bits of TOS but for those of PREC.
    Tos,
    Precedence,
    TrafficClass,
    Ttl,
    Length,
    Mac,
    Mark,
    User,
    Group,
    Fragment,
    Bytes,
}

/// The columns of packets in logs and tables, by the names that they have there.
const NAMES: [(Role, &[&str]); 4] = [
    (
        Role::Destination,
        &[
            "dstaddr",
            "id.resp_h",
            "s-ip",
            "dst",
            "dst_ip",
            "dest_ip",
            "destination",
            "destination_ip",
            "destination.ip",
        ],
    ),
    (
        Role::SourcePort,
        &[
            "srcport",
            "id.orig_p",
            "c-port",
            "sport",
            "src_port",
            "source_port",
            "source.port",
            "spt",
        ],
    ),
    (
        Role::DestinationPort,
        &[
            "dstport",
            "id.resp_p",
            "s-port",
            "dport",
            "dst_port",
            "dest_port",
            "destination_port",
            "destination.port",
            "dpt",
        ],
    ),
    (
        Role::Protocol,
        &["protocol", "proto", "ip_proto", "network.transport", "network.iana_number"],
    ),
];

/// The columns of a source address to which those of the other end belong.
const SOURCES: [&str; 13] = [
    "srcaddr",
    "id.orig_h",
    "c-ip",
    "remote_addr",
    "src",
    "src_ip",
    "srcip",
    "source",
    "source_ip",
    "source.ip",
    "saddr",
    "SRC",
    "client",
];

/// The kernel's words.
const KERNEL: [(&str, Role); 20] = [
    ("DST", Role::Destination),
    ("PROTO", Role::Protocol),
    ("FRAG", Role::Fragment),
    ("SPT", Role::SourcePort),
    ("DPT", Role::DestinationPort),
    ("TYPE", Role::IcmpType),
    ("CODE", Role::IcmpCode),
    ("flags", Role::Flags),
    ("IN", Role::Input),
    ("OUT", Role::Output),
    ("TOS", Role::Tos),
    ("PREC", Role::Precedence),
    ("TC", Role::TrafficClass),
    ("TTL", Role::Ttl),
    ("HOPLIMIT", Role::Ttl),
    ("LEN", Role::Length),
    ("MAC", Role::Mac),
    ("MARK", Role::Mark),
    ("UID", Role::User),
    ("GID", Role::Group),
];

/// Where a log says what.
pub(super) struct Roles {
    kind: Kind,
    /// Whether the source's text may have a port behind it.
    has_port: bool,
}

enum Kind {
    /// By the numbers of columns; whether quotes belong to the cells.
    Columns { columns: Vec<(Role, usize)>, is_quoted: bool },
    /// As columns, and what a word's absence says.
    Kernel(Vec<(Role, usize)>),
    /// By paths from the object.
    Members(Vec<(Role, Vec<String>)>),
}

/// A value that is none, and what is allowed.
type Wrong = (String, &'static str);

impl Roles {
    /// Those of a layout. nginx's own names say what they say only in a format string of nginx.
    pub(super) fn of(layout: &Layout, pattern: Option<&str>) -> Roles {
        let none = Roles {
            kind: Kind::Columns { columns: Vec::new(), is_quoted: false },
            has_port: false,
        };
        let address = match &layout.shape {
            Shape::Log { address_part, .. } => Some(*address_part),
            Shape::Columns(columns) => columns.address(),
            Shape::Csv { address_column, .. } | Shape::Tsv { address_column, .. } => {
                Some(*address_column)
            }
            Shape::Ndjson { member } => {
                return Roles { kind: Kind::Members(member_roles(member.text())), has_port: false };
            }
        };
        let Some(name) = address.and_then(|at| layout.names.get(at)) else { return none };
        if !SOURCES.iter().any(|source| source.eq_ignore_ascii_case(name.trim())) {
            return none;
        }
        let format = match &layout.shape {
            Shape::Columns(columns) => columns.format(),
            _ => None,
        };
        let at = |name: &str| layout.names.iter().position(|known| known == name);
        if format == Some(LogFormat::Netfilter) {
            let columns = KERNEL.iter().filter_map(|(name, role)| Some((*role, at(name)?)));
            return Roles { kind: Kind::Kernel(columns.collect()), has_port: false };
        }
        let role = |(column, name): (usize, &String)| {
            let name = name.trim().to_ascii_lowercase();
            let known = NAMES.iter().find(|(_, names)| names.contains(&name.as_str()));
            Some((known?.0, column))
        };
        let mut columns: Vec<(Role, usize)> =
            layout.names.iter().enumerate().filter_map(role).collect();
        if pattern.is_some_and(|pattern| pattern.contains('$')) {
            let nginx = [
                ("server_addr", Role::Destination),
                ("remote_port", Role::SourcePort),
                ("server_port", Role::DestinationPort),
            ];
            columns.extend(nginx.iter().filter_map(|(name, role)| Some((*role, at(name)?))));
        }
        if at("srcaddr").is_some() {
            columns.extend(at("bytes").map(|column| (Role::Bytes, column)));
        }
        let has_port = matches!(format, Some(LogFormat::Alb | LogFormat::Elb | LogFormat::Haproxy));
        let is_quoted = matches!(layout.shape, Shape::Csv { .. });
        Roles { kind: Kind::Columns { columns, is_quoted }, has_port }
    }

    /// Reads what a record says.
    ///
    /// # Errors
    /// A value that is none.
    pub(super) fn read(
        &self,
        block: &[u8],
        record: &[u8],
        parts: &[Range<usize>],
        builder: &mut Builder,
    ) -> Result<(), Wrong> {
        let part = |column: usize| {
            let place = parts.get(column).filter(|place| **place != ABSENT)?;
            block.get(place.clone())
        };
        match &self.kind {
            Kind::Columns { columns, is_quoted } => {
                let mut scratch = Vec::new();
                for (role, column) in columns {
                    let Some(text) = part(*column) else { continue };
                    let text = if *is_quoted { cell_text(text, &mut scratch) } else { text };
                    builder.set(*role, text)?;
                }
                builder.finish();
            }
            Kind::Kernel(columns) => {
                for (role, column) in columns {
                    match part(*column) {
                        Some(text) => builder.set_kernel(*role, text)?,
                        None => builder.set_kernel_absent(*role),
                    }
                }
            }
            Kind::Members(members) => {
                // The record was found to be an object.
                let object: Value = serde_json::from_slice(record).unwrap_or_default();
                for (role, path) in members {
                    match member(&object, path) {
                        Some(Value::String(text)) => builder.set(*role, text.as_bytes())?,
                        Some(Value::Number(number)) => {
                            builder.set(*role, number.to_string().as_bytes())?;
                        }
                        _ => {}
                    }
                }
                builder.finish();
            }
        }
        Ok(())
    }
}

/// A member by names of nested objects, or by one name with dots in it.
fn member<'v>(object: &'v Value, path: &[String]) -> Option<&'v Value> {
    let [first, rest @ ..] = path else { return Some(object) };
    let whole = path.join(".");
    object.get(&whole).or_else(|| member(object.get(first)?, rest))
}

/// The members beside a source address that are about its packet.
fn member_roles(source: &[u8]) -> Vec<(Role, Vec<String>)> {
    let source = String::from_utf8_lossy(source).into_owned();
    let source_lower = source.to_ascii_lowercase();
    // `source.ip` and `id.orig_h` are names with a dot.
    let name = SOURCES
        .iter()
        .filter(|name| source_lower == **name || source_lower.ends_with(&format!(".{name}")))
        .max_by_key(|name| name.len());
    let Some(name) = name else { return Vec::new() };
    let before = source.get(..source.len() - name.len()).unwrap_or_default();
    let paths = |(role, names): &(Role, &[&str])| {
        let path = |name: &&str| {
            format!("{before}{name}").split('.').map(str::to_owned).collect::<Vec<String>>()
        };
        names.iter().map(path).map(|path| (*role, path)).collect::<Vec<_>>()
    };
    NAMES.iter().flat_map(paths).collect()
}

/// A packet as far as its record describes it.
pub(super) struct Builder {
    pub(super) packet: Packet<'static>,
    pub(super) unknown: Fields,
    pub(super) input: Option<Arc<str>>,
    pub(super) output: Option<Arc<str>>,
    pub(super) details: Vec<(Detail, u64)>,
    pub(super) bytes: Option<u64>,
}

impl Builder {
    /// A packet of which only the source is known.
    pub(super) fn new(source: IpAddr) -> Builder {
        Builder {
            // The destination is of the same family, whatever it is.
            packet: Packet { source, destination: source, ..Packet::default() },
            unknown: Fields::ALL,
            input: None,
            output: None,
            details: Vec::new(),
            bytes: None,
        }
    }

    /// Takes the port that stands behind the source address.
    pub(super) fn set_source_text(&mut self, roles: &Roles, text: &[u8]) {
        let colons = text.iter().filter(|byte| **byte == b':').count();
        let at = text.iter().rposition(|byte| *byte == b':');
        let is_port =
            at.is_some_and(|at| colons == 1 || text.get(..at).is_some_and(|t| t.ends_with(b"]")));
        if let Some(at) = at.filter(|_| roles.has_port && is_port) {
            // What is no port says nothing.
            let _ = self.set(Role::SourcePort, text.get(at + 1..).unwrap_or_default());
        }
    }

    fn know(&mut self, field: PacketField) {
        self.unknown = self.unknown.without(field);
    }

    fn add_detail(&mut self, name: &str, value: u64) {
        self.details.extend(Detail::named(name).map(|detail| (detail, value)));
    }

    /// Takes a value; `-` and nothing say nothing, and the first value of a role counts.
    fn set(&mut self, role: Role, text: &[u8]) -> Result<(), Wrong> {
        let text = text.trim_ascii();
        if matches!(text, b"" | b"-") {
            return Ok(());
        }
        let wrong = |allowed| (String::from_utf8_lossy(text).into_owned(), allowed);
        let number = || std::str::from_utf8(text).ok()?.parse::<u64>().ok();
        let port = || u16::try_from(number()?).ok();
        match role {
            Role::Destination if self.unknown.has(PacketField::Destination) => {
                let address = read(text).ok_or_else(|| wrong("an IPv4 or IPv6 address"))?;
                let address = address.to_canonical();
                if address.is_ipv4() != self.packet.source.is_ipv4() {
                    return Err(wrong("an address of the source's family"));
                }
                self.packet.destination = address;
                self.know(PacketField::Destination);
            }
            Role::SourcePort if self.unknown.has(PacketField::SourcePort) => {
                self.packet.source_port = port().ok_or_else(|| wrong("a port from 0 to 65535"))?;
                self.know(PacketField::SourcePort);
            }
            Role::DestinationPort if self.unknown.has(PacketField::DestinationPort) => {
                let port = port().ok_or_else(|| wrong("a port from 0 to 65535"))?;
                self.packet.destination_port = port;
                self.know(PacketField::DestinationPort);
            }
            Role::Protocol if self.unknown.has(PacketField::Protocol) => {
                let name = String::from_utf8_lossy(text).to_ascii_lowercase();
                // A name that nobody knows, as Zeek's `unknown_transport`, says nothing.
                if let Some(protocol) = names::protocol_number(&name) {
                    let is_icmp6 = name == "icmp" && self.packet.source.is_ipv6();
                    self.packet.protocol = if is_icmp6 { 58 } else { protocol };
                    self.know(PacketField::Protocol);
                }
            }
            Role::Bytes => self.bytes = number(),
            _ => {}
        }
        Ok(())
    }

    /// Where no protocol is told, a port of 0 may mean that there is none.
    fn finish(&mut self) {
        if self.unknown.has(PacketField::Protocol) {
            if self.packet.source_port == 0 {
                self.unknown = self.unknown.with(PacketField::SourcePort);
            }
            if self.packet.destination_port == 0 {
                self.unknown = self.unknown.with(PacketField::DestinationPort);
            }
        }
    }

    /// Takes a word of the kernel.
    fn set_kernel(&mut self, role: Role, text: &[u8]) -> Result<(), Wrong> {
        let shown = String::from_utf8_lossy(text).into_owned();
        let wrong = |allowed| (shown.clone(), allowed);
        let number = names::parse_number(&shown).map(u64::from);
        let octet = || number.and_then(|number| u8::try_from(number).ok());
        let octet = || octet().ok_or_else(|| wrong("a number from 0 to 255"));
        match role {
            Role::IcmpType => {
                self.packet.icmp_type = octet()?;
                self.know(PacketField::Icmp);
            }
            Role::IcmpCode => self.packet.icmp_code = octet()?,
            Role::Flags => {
                for word in shown.split_ascii_whitespace() {
                    let flag = names::tcp_flag(&word.to_ascii_lowercase());
                    self.packet.tcp_flags |= flag.ok_or_else(|| wrong("TCP flags, as SYN ACK"))?;
                }
                self.know(PacketField::TcpFlags);
            }
            Role::Input => {
                self.input = Some(shared(text));
                self.know(PacketField::Input);
            }
            Role::Output => {
                self.output = Some(shared(text));
                self.know(PacketField::Output);
            }
            // DSCP is the high six bits; PREC has three of them.
            Role::Tos => {
                self.packet.dscp |= octet()? >> 2;
                self.know(PacketField::Dscp);
            }
            Role::Precedence => self.packet.dscp |= octet()? >> 2,
            Role::TrafficClass => {
                self.packet.dscp = octet()? >> 2;
                self.know(PacketField::Dscp);
            }
            Role::Ttl => {
                let ttl = octet()?;
                self.add_detail("ttl", ttl.into());
            }
            Role::Length => {
                let length = number.ok_or_else(|| wrong("a number of bytes"))?;
                // Of IPv6 it is that of the payload.
                let header = if self.packet.source.is_ipv6() { 40 } else { 0 };
                self.bytes = Some(length + header);
                self.add_detail("length", length + header);
            }
            Role::Mac => self.set_mac(&shown),
            Role::Mark => {
                let mark = number.and_then(|mark| u32::try_from(mark).ok());
                self.packet.mark = mark.ok_or_else(|| wrong("a mark, as 0x1"))?;
                self.know(PacketField::Mark);
            }
            Role::User => self.details_of("user", number),
            Role::Group => self.details_of("group", number),
            Role::Fragment => self.add_detail(Detail::FRAGMENT, 1),
            role => self.set(role, text)?,
        }
        Ok(())
    }

    fn details_of(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.add_detail(name, value);
        }
    }

    /// The kernel writes no mark that is 0, and no offset of a fragment that is 0.
    fn set_kernel_absent(&mut self, role: Role) {
        match role {
            Role::Mark => self.know(PacketField::Mark),
            Role::Fragment => self.add_detail(Detail::FRAGMENT, 0),
            _ => {}
        }
    }

    /// Destination, source and type of an Ethernet frame.
    fn set_mac(&mut self, text: &str) {
        const FRAME_OCTETS: usize = 14;
        let octets: Vec<&str> = text.split(':').collect();
        if octets.len() != FRAME_OCTETS {
            return;
        }
        for (name, from) in [("destination-mac", 0), ("source-mac", 6)] {
            let address = octets.get(from..from + 6).unwrap_or_default().join(":");
            let value = Detail::named(name).and_then(|detail| detail.parse(&address));
            self.details_of(name, value);
        }
    }
}
