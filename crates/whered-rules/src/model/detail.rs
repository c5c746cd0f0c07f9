//! Properties of packets that few rules ask for: TTL, length, MAC addresses, owners, options.
//!
//! For: [`Detail`], a property by its name; [`DetailTest`], a test of one. Not for: fields of the
//! normal form, which the classifier compares; tests of details are answered behind it (`truth`).
//!
//! ```text
//! detail       value                       test
//! ttl          64                          with ttl 0-9
//! source-mac   00:16:3e:00:00:01           with source-mac 00:16:3e:00:00:01
//! (unknown)                                may hold, may not: the verdict depends on it
//! ```
//!
//! Invariants: names are lower case words with `-` between them; values are numbers of 64 bits.
//! Concurrency: plain data; names are shared.

use std::fmt;
use std::sync::Arc;

use crate::names::parse_number;
use crate::ranges::Ranges;

/// A property of a packet by its name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Detail(Arc<str>);

/// Names of the numbers of some details, the ones of the kernel.
const NAMED_VALUES: &[(&str, &[(&str, u64)])] = &[
    (
        "packet-type",
        &[("unicast", 0), ("host", 0), ("broadcast", 1), ("multicast", 2), ("other", 3)],
    ),
    ("source-type", ADDRESS_TYPES),
    ("destination-type", ADDRESS_TYPES),
    ("connection-direction", &[("original", 0), ("reply", 1)]),
    (
        "connection-status",
        &[
            ("expected", 1),
            ("seen-reply", 2),
            ("assured", 4),
            ("confirmed", 8),
            ("snat", 16),
            ("dnat", 32),
            ("dying", 512),
        ],
    ),
];

const ADDRESS_TYPES: &[(&str, u64)] = &[
    ("unspec", 0),
    ("unicast", 1),
    ("local", 2),
    ("broadcast", 3),
    ("anycast", 4),
    ("multicast", 5),
    ("blackhole", 6),
    ("unreachable", 7),
    ("prohibit", 8),
    ("throw", 9),
    ("nat", 10),
    ("xresolve", 11),
];

impl Detail {
    /// The type of the source address, as the routing table tells it.
    pub const SOURCE_TYPE: &str = "source-type";
    /// The type of the destination address.
    pub const DESTINATION_TYPE: &str = "destination-type";
    /// Whether the packet is a fragment but the first: 1, else 0.
    pub const FRAGMENT: &str = "fragment";
    /// Local addresses, in details of types.
    pub const LOCAL: u64 = 2;
    /// Broadcast addresses.
    pub const BROADCAST: u64 = 3;
    /// Anycast addresses.
    pub const ANYCAST: u64 = 4;
    /// Multicast addresses.
    pub const MULTICAST: u64 = 5;

    /// The detail of this name, if it is made of lower case letters, digits and `-`.
    pub fn named(name: &str) -> Option<Detail> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(plain);
        (is_name && name.len() <= 64).then(|| Detail(Arc::from(name)))
    }

    /// The detail that a column of packets is about, by the names that people know: `ttl` or
    /// `source_mac`.
    pub fn of_column(column: &str) -> Option<Detail> {
        const COLUMNS: [&str; 15] = [
            "ttl",
            "length",
            "source-mac",
            "destination-mac",
            "packet-type",
            Detail::SOURCE_TYPE,
            Detail::DESTINATION_TYPE,
            "connection-mark",
            "connection-status",
            "connection-direction",
            "user",
            "group",
            Detail::FRAGMENT,
            "tcp-mss",
            "tos",
        ];
        let name = column.replace('_', "-");
        COLUMNS.contains(&name.as_str()).then(|| Detail::named(&name)).flatten()
    }

    /// A detail and its value, as people write them: `ttl=64`.
    pub fn of_pair(pair: &str) -> Option<(Detail, u64)> {
        let (name, value) = pair.split_once('=')?;
        let detail = Detail::named(name)?;
        let value = detail.parse(value)?;
        Some((detail, value))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The value that a text means: a number, a name that the detail has, or a MAC address.
    pub fn parse(&self, text: &str) -> Option<u64> {
        if self.name().ends_with("-mac") {
            return parse_mac(text);
        }
        let named = self.named_values().iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        match named {
            Some(&(_, number)) => Some(number),
            None => Detail::parse_plain(text),
        }
    }

    /// A number of 32 bits, or a decimal one of 64.
    pub(crate) fn parse_plain(text: &str) -> Option<u64> {
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
        parse_number(text).map(u64::from).or_else(|| text.parse().ok().filter(|_| is_decimal))
    }

    /// How a value is written.
    pub fn shown(&self, value: u64) -> String {
        if self.name().ends_with("-mac") && value >> 48 == 0 {
            let octets = value.to_be_bytes();
            let octets: Vec<String> =
                octets[2..].iter().map(|byte| format!("{byte:02x}")).collect();
            return octets.join(":");
        }
        let named = self.named_values().iter().find(|(_, number)| *number == value);
        named.map_or_else(|| value.to_string(), |(name, _)| (*name).to_owned())
    }

    fn named_values(&self) -> &'static [(&'static str, u64)] {
        NAMED_VALUES.iter().find(|(name, _)| *name == self.name()).map_or(&[], |(_, values)| values)
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn parse_mac(text: &str) -> Option<u64> {
    let mut number = 0;
    let mut count = 0;
    for part in text.split([':', '-']) {
        let is_octet = (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
        let octet = is_octet.then(|| u64::from_str_radix(part, 16).ok()).flatten()?;
        number = number << 8 | octet;
        count += 1;
        if count > 6 {
            return None;
        }
    }
    (count == 6).then_some(number)
}

/// A test of one detail: `value & mask` is in the ranges.
#[derive(Clone, PartialEq, Debug)]
pub struct DetailTest {
    /// Which property.
    pub detail: Detail,
    /// The bits looked at.
    pub mask: u64,
    /// The numbers that pass.
    pub ranges: Ranges,
}

impl DetailTest {
    /// A test of the whole value; `None` for a name that is none.
    pub fn of(name: &str, ranges: Vec<(u64, u64)>) -> Option<DetailTest> {
        let ranges = ranges.into_iter().map(|(first, last)| (first.into(), last.into()));
        Some(DetailTest {
            detail: Detail::named(name)?,
            mask: u64::MAX,
            ranges: Ranges::new(ranges.collect()),
        })
    }

    /// Whether a value passes.
    pub fn passes(&self, value: u64) -> bool {
        self.ranges.contains((value & self.mask).into())
    }
}

impl fmt::Display for DetailTest {
    /// `ttl {0-9 64}`, with a mask `connection-mark 0x1/0xff`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.detail)?;
        let mask = |f: &mut fmt::Formatter<'_>| match self.mask {
            u64::MAX => Ok(()),
            mask if mask > u32::MAX.into() => write!(f, "/{mask}"),
            mask => write!(f, "/{mask:#x}"),
        };
        let item = |f: &mut fmt::Formatter<'_>, &(first, last): &(u128, u128)| {
            let (first, last) = (first as u64, last as u64);
            // Names may have the sign of a range in them.
            match self.detail.name().ends_with("-mac") {
                _ if first == last => f.write_str(&self.detail.shown(first))?,
                true => write!(f, "{}-{}", self.detail.shown(first), self.detail.shown(last))?,
                false => write!(f, "{first}-{last}")?,
            }
            mask(f)
        };
        match self.ranges.as_slice() {
            [only] => item(f, only),
            several => {
                f.write_str("{")?;
                for (index, range) in several.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { " " })?;
                    item(f, range)?;
                }
                f.write_str("}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_written_by_name_number_and_octets() {
        for (detail, text, value) in [
            ("ttl", "64", 64),
            ("source-mac", "00:16:3e:00:00:0a", 0x0016_3e00_000a),
            ("destination-type", "local", 2),
            ("packet-type", "multicast", 2),
        ] {
            let detail = Detail::named(detail).expect("a name");
            assert_eq!(detail.parse(text), Some(value), "{text}");
            assert_eq!(detail.shown(value), text);
        }
        let mac = Detail::named("source-mac").expect("a name");
        for wrong in ["", "1:2:3:4:5", "1:2:3:4:5:6:7", "00:16:3e:00:00:0g", "+1:2:3:4:5:6"] {
            assert_eq!(mac.parse(wrong), None, "{wrong}");
        }
        for wrong in ["", "TTL", "a b", "1a", "ä"] {
            assert_eq!(Detail::named(wrong), None, "{wrong}");
        }
    }
}
