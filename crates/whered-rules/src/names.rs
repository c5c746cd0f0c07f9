//! Names of protocols, ICMP types, TCP flags and DSCP classes, and the numbers behind them.
//!
//! For: reading names and writing numbers back as names where a format has them.
//! Ports are written as numbers; names of services are read where people write them.
//!
//! Sources: the IANA registries of protocol numbers, ICMP and ICMPv6 parameters and DSCP values;
//! where iptables and nft use another word for the same thing, both are known.
//!
//! Concurrency: constants. Cost: linear in short tables; used when files are read or written.

/// Protocol names; the first name of a number is the one that is written.
const PROTOCOLS: &[(&str, u8)] = &[
    ("hopopt", 0),
    ("ip", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ggp", 3),
    ("ipencap", 4),
    ("ipip", 4),
    ("st", 5),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("pup", 12),
    ("udp", 17),
    ("hmp", 20),
    ("xns-idp", 22),
    ("rdp", 27),
    ("iso-tp4", 29),
    ("dccp", 33),
    ("xtp", 36),
    ("ddp", 37),
    ("idpr-cmtp", 38),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("idrp", 45),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("skip", 57),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("icmp6", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("rspf", 73),
    ("vmtp", 81),
    ("eigrp", 88),
    ("ospf", 89),
    ("ax.25", 93),
    ("ipip", 94),
    ("etherip", 97),
    ("encap", 98),
    ("pim", 103),
    ("ipcomp", 108),
    ("comp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("isis", 124),
    ("sctp", 132),
    ("fc", 133),
    ("mobility-header", 135),
    ("udplite", 136),
    ("mpls-in-ip", 137),
    ("manet", 138),
    ("hip", 139),
    ("shim6", 140),
    ("wesp", 141),
    ("rohc", 142),
    ("ethernet", 143),
];

/// ICMP: name, type, and the code where the name means one.
const ICMP: &[(&str, u8, Option<u8>)] = &[
    ("echo-reply", 0, None),
    ("pong", 0, None),
    ("destination-unreachable", 3, None),
    ("network-unreachable", 3, Some(0)),
    ("host-unreachable", 3, Some(1)),
    ("protocol-unreachable", 3, Some(2)),
    ("port-unreachable", 3, Some(3)),
    ("fragmentation-needed", 3, Some(4)),
    ("source-route-failed", 3, Some(5)),
    ("network-unknown", 3, Some(6)),
    ("host-unknown", 3, Some(7)),
    ("network-prohibited", 3, Some(9)),
    ("host-prohibited", 3, Some(10)),
    ("communication-prohibited", 3, Some(13)),
    ("source-quench", 4, None),
    ("redirect", 5, None),
    ("echo-request", 8, None),
    ("ping", 8, None),
    ("router-advertisement", 9, None),
    ("router-solicitation", 10, None),
    ("time-exceeded", 11, None),
    ("ttl-exceeded", 11, None),
    ("ttl-zero-during-transit", 11, Some(0)),
    ("ttl-zero-during-reassembly", 11, Some(1)),
    ("parameter-problem", 12, None),
    ("ip-header-bad", 12, Some(0)),
    ("required-option-missing", 12, Some(1)),
    ("timestamp-request", 13, None),
    ("timestamp-reply", 14, None),
    ("info-request", 15, None),
    ("info-reply", 16, None),
    ("address-mask-request", 17, None),
    ("address-mask-reply", 18, None),
];

/// ICMPv6: name, type, and the code where the name means one.
const ICMPV6: &[(&str, u8, Option<u8>)] = &[
    ("destination-unreachable", 1, None),
    ("no-route", 1, Some(0)),
    ("communication-prohibited", 1, Some(1)),
    ("beyond-scope", 1, Some(2)),
    ("address-unreachable", 1, Some(3)),
    ("port-unreachable", 1, Some(4)),
    ("failed-policy", 1, Some(5)),
    ("reject-route", 1, Some(6)),
    ("packet-too-big", 2, None),
    ("time-exceeded", 3, None),
    ("ttl-exceeded", 3, None),
    ("ttl-zero-during-transit", 3, Some(0)),
    ("ttl-zero-during-reassembly", 3, Some(1)),
    ("parameter-problem", 4, None),
    ("bad-header", 4, Some(0)),
    ("unknown-header-type", 4, Some(1)),
    ("unknown-option", 4, Some(2)),
    ("echo-request", 128, None),
    ("ping", 128, None),
    ("echo-reply", 129, None),
    ("pong", 129, None),
    ("mld-listener-query", 130, None),
    ("mld-listener-report", 131, None),
    ("mld-listener-done", 132, None),
    ("mld-listener-reduction", 132, None),
    ("nd-router-solicit", 133, None),
    ("router-solicitation", 133, None),
    ("nd-router-advert", 134, None),
    ("router-advertisement", 134, None),
    ("nd-neighbor-solicit", 135, None),
    ("neighbour-solicitation", 135, None),
    ("neighbor-solicitation", 135, None),
    ("nd-neighbor-advert", 136, None),
    ("neighbour-advertisement", 136, None),
    ("neighbor-advertisement", 136, None),
    ("nd-redirect", 137, None),
    ("redirect", 137, None),
    ("router-renumbering", 138, None),
    ("ind-neighbor-solicit", 141, None),
    ("ind-neighbor-advert", 142, None),
    ("mld2-listener-report", 143, None),
];

/// TCP flags from the lowest bit on.
const TCP_FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

/// DSCP classes.
const DSCP: &[(&str, u8)] = &[
    ("cs0", 0),
    ("be", 0),
    ("lephb", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

/// Services that people name in rules.
const SERVICES: &[(&str, u16)] = &[
    ("tcpmux", 1),
    ("echo", 7),
    ("discard", 9),
    ("systat", 11),
    ("daytime", 13),
    ("netstat", 15),
    ("qotd", 17),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("mail", 25),
    ("time", 37),
    ("whois", 43),
    ("nicname", 43),
    ("tacacs", 49),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("gopher", 70),
    ("finger", 79),
    ("http", 80),
    ("www", 80),
    ("www-http", 80),
    ("kerberos", 88),
    ("pop2", 109),
    ("pop3", 110),
    ("pop-3", 110),
    ("sunrpc", 111),
    ("portmapper", 111),
    ("auth", 113),
    ("ident", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("epmap", 135),
    ("loc-srv", 135),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("imap", 143),
    ("imap2", 143),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("snmptrap", 162),
    ("xdmcp", 177),
    ("bgp", 179),
    ("irc", 194),
    ("imap3", 220),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("submissions", 465),
    ("smtps", 465),
    ("urd", 465),
    ("isakmp", 500),
    ("exec", 512),
    ("login", 513),
    ("shell", 514),
    ("syslog", 514),
    ("printer", 515),
    ("router", 520),
    ("route", 520),
    ("ldaps", 636),
    ("dhcpv6-client", 546),
    ("dhcpv6-server", 547),
    ("rtsp", 554),
    ("nntps", 563),
    ("submission", 587),
    ("ipp", 631),
    ("rsync", 873),
    ("ftps-data", 989),
    ("ftps", 990),
    ("telnets", 992),
    ("imaps", 993),
    ("pop3s", 995),
    ("socks", 1080),
    ("openvpn", 1194),
    ("ms-sql-s", 1433),
    ("ms-sql-m", 1434),
    ("l2f", 1701),
    ("l2tp", 1701),
    ("pptp", 1723),
    ("radius", 1812),
    ("radius-acct", 1813),
    ("ssdp", 1900),
    ("nfs", 2049),
    ("cvspserver", 2401),
    ("mysql", 3306),
    ("ms-wbt-server", 3389),
    ("nut", 3493),
    ("svn", 3690),
    ("ipsec-nat-t", 4500),
    ("sip", 5060),
    ("sips", 5061),
    ("xmpp-client", 5222),
    ("xmpp-server", 5269),
    ("mdns", 5353),
    ("postgresql", 5432),
    ("amqp", 5672),
    ("x11", 6000),
    ("ircd", 6667),
    ("http-alt", 8080),
    ("webcache", 8080),
    ("tproxy", 8081),
    ("git", 9418),
    ("zabbix-agent", 10050),
    ("zabbix-trapper", 10051),
    ("webmin", 10000),
];

/// The port of this number or service.
pub fn port_number(text: &str) -> Option<u16> {
    let named = SERVICES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map(|&(_, port)| port).or_else(|| parse_number(text)?.try_into().ok())
}

/// The protocol of this name or number.
pub fn protocol_number(text: &str) -> Option<u8> {
    let named = PROTOCOLS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map(|&(_, number)| number).or_else(|| parse_number(text)?.try_into().ok())
}

/// The name that the own format and nft write for a protocol.
pub fn protocol_name(number: u8) -> Option<&'static str> {
    PROTOCOLS.iter().find(|&&(_, of)| of == number).map(|&(name, _)| name)
}

/// Type, and the code where the name means one, of an ICMP (or ICMPv6) type by name.
pub fn icmp_type(text: &str, version_6: bool) -> Option<(u8, Option<u8>)> {
    let table = if version_6 { ICMPV6 } else { ICMP };
    let found = table.iter().find(|(name, _, _)| name.eq_ignore_ascii_case(text));
    found.map(|&(_, number, code)| (number, code))
}

/// The bit of a TCP flag.
pub fn tcp_flag(text: &str) -> Option<u8> {
    let position = TCP_FLAGS.iter().position(|name| name.eq_ignore_ascii_case(text))?;
    Some(1 << position)
}

/// The names of the flags that are set, from the lowest bit on.
pub fn tcp_flag_names(flags: u8) -> impl Iterator<Item = &'static str> {
    TCP_FLAGS.into_iter().enumerate().filter(move |(bit, _)| flags >> bit & 1 == 1).map(|(_, n)| n)
}

/// The DSCP value of a class name or number.
pub fn dscp_number(text: &str) -> Option<u8> {
    let named = DSCP.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let number = named.map(|&(_, number)| number);
    number.or_else(|| parse_number(text)?.try_into().ok()).filter(|&number| number < 64)
}

/// A plain decimal or `0x` number of at most 32 bits: no sign, no spaces.
pub fn parse_number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| (b as char).is_digit(radix));
    if plain { u32::from_str_radix(digits, radix).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_read() {
        assert_eq!(protocol_number("TCP"), Some(6));
        assert_eq!(protocol_number("6"), Some(6));
        assert_eq!(protocol_number("256"), None);
        assert_eq!(protocol_number("+6"), None);
        assert_eq!(protocol_name(58), Some("ipv6-icmp"));
        assert_eq!(icmp_type("echo-request", false), Some((8, None)));
        assert_eq!(icmp_type("echo-request", true), Some((128, None)));
        assert_eq!(icmp_type("port-unreachable", false), Some((3, Some(3))));
        assert_eq!(tcp_flag("ACK"), Some(16));
        assert_eq!(tcp_flag_names(0x12).collect::<Vec<_>>(), ["syn", "ack"]);
        assert_eq!(dscp_number("ef"), Some(46));
        assert_eq!(dscp_number("64"), None);
        assert_eq!(parse_number("0x1F"), Some(31));
        assert_eq!(parse_number("0x"), None);
        assert_eq!(parse_number("4294967296"), None);
    }
}
