//! Addresses as people, logs and headers write them: the one reader of every command and listener.
//!
//! For: an address with blanks around it, a port behind it, brackets or a zone, and lists of
//! addresses such as `X-Forwarded-For`. An IPv4-mapped address (`::ffff:192.0.2.1`) is the IPv4
//! address that it stands for. Not for prefixes, and not for batches of plain addresses, which the
//! functions of the parent module read.
//!
//! Cost: that of [`parse`] for a plain address; everything else is tried after it. Nothing is
//! allocated.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::{parse, parse4, parse6};

/// An address, alone or with something around it.
///
/// ```
/// use whered_ip::text::read;
/// for text in ["192.0.2.1", " 192.0.2.1 ", "192.0.2.1:80", "::ffff:192.0.2.1"] {
///     assert_eq!(read(text.as_bytes()), "192.0.2.1".parse().ok());
/// }
/// for text in ["fe80::1", "[fe80::1]:443", "fe80::1%eth0", "[fe80::1%2]"] {
///     assert_eq!(read(text.as_bytes()), "fe80::1".parse().ok());
/// }
/// assert_eq!(read(b"192.0.2.1:http"), None);
/// ```
#[inline]
#[must_use]
pub fn read(text: &[u8]) -> Option<IpAddr> {
    match parse(text) {
        Some(address) => Some(address.to_canonical()),
        None => undressed(text).map(|address| address.to_canonical()),
    }
}

/// The address inside blanks, brackets, a port or a zone.
#[cold]
fn undressed(text: &[u8]) -> Option<IpAddr> {
    let text = text.trim_ascii();
    if let Some(rest) = text.strip_prefix(b"[") {
        let end = rest.iter().position(|&byte| byte == b']')?;
        let (inside, behind) = (rest.get(..end)?, rest.get(end + 1..)?);
        return if is_port(behind) { parse(without_zone(inside)) } else { None };
    }
    parse(without_zone(text)).or_else(|| {
        let colon = text.iter().position(|&byte| byte == b':')?;
        let (address, behind) = text.split_at_checked(colon)?;
        let address = parse4(address)?;
        is_port(behind).then(|| IpAddr::V4(address.into()))
    })
}

/// Whether a text is empty, or a colon and a port.
fn is_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((b':', digits)) => {
            let number = |digits: &[u8]| {
                digits.iter().fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0'))
            };
            (1..=5).contains(&digits.len())
                && digits.iter().all(u8::is_ascii_digit)
                && number(digits) <= u32::from(u16::MAX)
        }
        Some(_) => false,
    }
}

/// An IPv6 address without its zone (RFC 4007, section 11); any other text as it is.
fn without_zone(text: &[u8]) -> &[u8] {
    let Some(percent) = text.iter().position(|&byte| byte == b'%') else { return text };
    let is_of_zone = |byte: &u8| byte.is_ascii_graphic() && !b"%/[],".contains(byte);
    match text.split_at_checked(percent) {
        Some((address, [_, zone @ ..]))
            if !zone.is_empty() && zone.iter().all(is_of_zone) && parse6(address).is_some() =>
        {
            address
        }
        _ => text,
    }
}

/// Which address of a list is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ListChoice {
    /// The first one: in `X-Forwarded-For` the client, as it or its proxies said it.
    #[default]
    First,
    /// The last one: in `X-Forwarded-For` the peer of the last proxy that added to it.
    Last,
    /// The first one that is public ([`is_public`]); without any, the first one.
    Public,
}

impl ListChoice {
    /// The choice's name, as users write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ListChoice::First => "first",
            ListChoice::Last => "last",
            ListChoice::Public => "public",
        }
    }
}

impl FromStr for ListChoice {
    type Err = &'static str;

    /// # Errors
    /// The message lists the allowed words.
    fn from_str(text: &str) -> Result<ListChoice, &'static str> {
        let all = [ListChoice::First, ListChoice::Last, ListChoice::Public];
        all.into_iter().find(|choice| choice.name() == text).ok_or("first, last or public")
    }
}

/// The address of a list with commas between, or of a text that is one address alone. Elements may
/// be in quotes; empty ones (RFC 9110, section 5.6.1), `unknown` and `-` are passed over. A text
/// with any other element is no list of addresses.
///
/// ```
/// use whered_ip::text::{ListChoice, read_list};
/// let header = b"10.0.0.7, 198.41.0.4:4711, 192.168.1.1";
/// let read = |choice| read_list(header, choice).map(|address| address.to_string());
/// assert_eq!(read(ListChoice::First).as_deref(), Some("10.0.0.7"));
/// assert_eq!(read(ListChoice::Last).as_deref(), Some("192.168.1.1"));
/// assert_eq!(read(ListChoice::Public).as_deref(), Some("198.41.0.4"));
/// assert_eq!(read_list(b"198.41.0.4, proxy.example", ListChoice::First), None);
/// ```
#[must_use]
pub fn read_list(text: &[u8], choice: ListChoice) -> Option<IpAddr> {
    let mut chosen: Option<IpAddr> = None;
    for element in text.split(|&byte| byte == b',') {
        let element = unquoted(element.trim_ascii());
        if element.is_empty() || element == b"-" || element.eq_ignore_ascii_case(b"unknown") {
            continue;
        }
        let address = read(element)?;
        let is_better = match (chosen, choice) {
            (None, _) | (_, ListChoice::Last) => true,
            (_, ListChoice::First) => false,
            (Some(before), ListChoice::Public) => !is_public(before) && is_public(address),
        };
        if is_better {
            chosen = Some(address);
        }
    }
    chosen
}

/// A text without the quotes around it.
fn unquoted(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text)
}

/// Whether an address belongs to the public Internet: none of the private, shared, loopback,
/// link-local, documentation, benchmarking, multicast and reserved blocks of IANA's registries of
/// special-purpose addresses.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public4(address),
        IpAddr::V6(address) => is_public6(address),
    }
}

fn is_public4(address: Ipv4Addr) -> bool {
    let is_special = match address.octets() {
        [0 | 10 | 127 | 224..=255, ..] => true,
        [100, second, ..] => second & 0xc0 == 64,
        [172, second, ..] => second & 0xf0 == 16,
        [169, 254, ..] | [192, 168, ..] | [198, 18 | 19, ..] => true,
        [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => true,
        _ => false,
    };
    !is_special
}

/// Global unicast is `2000::/3`; of that, `2001:db8::/32` and `3fff::/20` are for documentation
/// and `2001:2::/48` is for benchmarks.
fn is_public6(address: Ipv6Addr) -> bool {
    match address.segments() {
        [0x2001, 0xdb8, ..] | [0x2001, 2, 0, ..] => false,
        [0x3fff, second, ..] => second >= 0x1000,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
#[path = "written_tests.rs"]
mod tests;
