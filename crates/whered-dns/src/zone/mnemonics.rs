//! Names that stand for numbers in record data, and times.
//!
//! Not for: names of record types (`code.rs`). Names are compared without case. Sources: the
//! registries of IANA, and the names that BIND and dnspython write for algorithms.

/// DNSSEC algorithms.
pub(super) const ALGORITHMS: &[(&str, u16)] = &[
    ("RSAMD5", 1),
    ("DH", 2),
    ("DSA", 3),
    ("ECC", 4),
    ("RSASHA1", 5),
    ("NSEC3DSA", 6),
    ("DSA-NSEC3-SHA1", 6),
    ("DSANSEC3SHA1", 6),
    ("NSEC3RSASHA1", 7),
    ("RSASHA1-NSEC3-SHA1", 7),
    ("RSASHA1NSEC3SHA1", 7),
    ("RSASHA256", 8),
    ("RSASHA512", 10),
    ("ECCGOST", 12),
    ("ECC-GOST", 12),
    ("ECDSAP256SHA256", 13),
    ("ECDSAP384SHA384", 14),
    ("ED25519", 15),
    ("ED448", 16),
    ("INDIRECT", 252),
    ("PRIVATEDNS", 253),
    ("PRIVATEOID", 254),
];

/// Digests of DS.
pub(super) const DIGESTS: &[(&str, u16)] = &[
    ("SHA-1", 1),
    ("SHA1", 1),
    ("SHA-256", 2),
    ("SHA256", 2),
    ("GOST", 3),
    ("SHA-384", 4),
    ("SHA384", 4),
];

/// Certificates of CERT (RFC 4398, 2.1).
pub(super) const CERTIFICATES: &[(&str, u16)] = &[
    ("PKIX", 1),
    ("SPKI", 2),
    ("PGP", 3),
    ("IPKIX", 4),
    ("ISPKI", 5),
    ("IPGP", 6),
    ("ACPKIX", 7),
    ("IACPKIX", 8),
    ("URI", 253),
    ("OID", 254),
];

/// Schemes of DSYNC (RFC 9859).
pub(super) const SCHEMES: &[(&str, u16)] = &[("NOTIFY", 1)];

/// Protocols of WKS.
pub(super) const PROTOCOLS: &[(&str, u16)] =
    &[("ICMP", 1), ("IGMP", 2), ("TCP", 6), ("EGP", 8), ("UDP", 17)];

/// Services of WKS that zones still name.
pub(super) const SERVICES: &[(&str, u16)] = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("netstat", 15),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("nameserver", 42),
    ("whois", 43),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("gopher", 70),
    ("finger", 79),
    ("http", 80),
    ("www", 80),
    ("kerberos", 88),
    ("hostnames", 101),
    ("pop2", 109),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("imap", 143),
    ("imap2", 143),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("irc", 194),
    ("ldap", 389),
    ("https", 443),
    ("exec", 512),
    ("login", 513),
    ("shell", 514),
    ("printer", 515),
    ("syslog", 514),
    ("imaps", 993),
    ("pop3s", 995),
];

/// `20301231235959` or the seconds since 1970, as RFC 4034, 3.2 says; 32 bits that wrap.
pub(crate) fn time(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if text.len() != 14 {
        return text.parse().ok();
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(8, 10)?, number(10, 12)?, number(12, 14)?);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let months = lengths.get(..usize::try_from(month).ok()?.checked_sub(1)?)?;
    let length = *lengths.get(months.len())?;
    let is_time =
        year >= 1970 && (1..=length).contains(&day) && hour < 24 && minute < 60 && second < 61;
    if !is_time {
        return None;
    }
    let before = year - 1;
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    let days = (year - 1970) * 365 + leap_days(before) - leap_days(1969)
        + months.iter().sum::<u64>()
        + day
        - 1;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) as u32)
}
