//! Parts of record data that one type alone has.
//!
//! Not for: parts of several types (`data.rs`), parameters of services (`service_parameters.rs`).
//! Each function reads its part from the source and appends the wire form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::data::{DataError, Source, put_u16, put_u32};
use super::mnemonics;

type Read = Result<(), DataError>;

/// `00-00-5e-00-53-2a` of EUI48 and EUI64 (RFC 7043).
pub(super) fn octets(source: &mut Source<'_, '_>, count: usize, wire: &mut Vec<u8>) -> Read {
    let word = source.word()?;
    let is_form = word.split('-').count() == count && word.split('-').all(|octet| octet.len() == 2);
    if !is_form {
        return Err(
            source.wrong(format!("{count} pairs of digits with - between them are expected"))
        );
    }
    source.hexadecimal(word.replace('-', "").as_bytes(), wire)
}

/// `2001:0db8:1140:1000` of NID and L64 (RFC 6742).
pub(super) fn locator(source: &mut Source<'_, '_>, wire: &mut Vec<u8>) -> Read {
    let word = source.word()?;
    let groups: Vec<Option<u16>> = word
        .split(':')
        .map(|group| {
            let is_group = (1..=4).contains(&group.len())
                && group.bytes().all(|byte| byte.is_ascii_hexdigit());
            u16::from_str_radix(group, 16).ok().filter(|_| is_group)
        })
        .collect();
    match groups[..] {
        [Some(a), Some(b), Some(c), Some(d)] => {
            for group in [a, b, c, d] {
                put_u16(group, wire);
            }
            Ok(())
        }
        _ => {
            Err(source.wrong("four groups of hexadecimal digits with : between them are expected"))
        }
    }
}

/// The bitmap of WKS: a bit for each port.
pub(super) fn services(source: &mut Source<'_, '_>, wire: &mut Vec<u8>) -> Read {
    let mut bits: Vec<u8> = Vec::new();
    while source.peek().is_some() {
        let port = source.named(mnemonics::SERVICES, u16::MAX, "a service")?;
        let byte = usize::from(port / 8);
        if bits.len() <= byte {
            bits.resize(byte + 1, 0);
        }
        if let Some(byte) = bits.get_mut(byte) {
            *byte |= 0x80 >> (port % 8);
        }
    }
    wire.extend(bits);
    Ok(())
}

/// `0x47.0005.80...` (RFC 1706).
pub(super) fn nsap(source: &mut Source<'_, '_>, wire: &mut Vec<u8>) -> Read {
    let word = source.word()?;
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let digits = digits.map(|digits| digits.replace('.', "")).filter(|digits| !digits.is_empty());
    let digits = digits.ok_or_else(|| source.wrong("0x and hexadecimal digits are expected"))?;
    source.hexadecimal(digits.as_bytes(), wire)
}

/// `+358.400.1234567` or hexadecimal digits with dots (ATM Forum, af-saa-0069).
pub(super) fn atm(source: &mut Source<'_, '_>, wire: &mut Vec<u8>) -> Read {
    let word = source.word()?;
    let digits = word.trim_start_matches('+').replace('.', "");
    if word.starts_with('+') {
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(source.wrong("+ and decimal digits are expected"));
        }
        wire.push(1);
        wire.extend_from_slice(digits.as_bytes());
        return Ok(());
    }
    wire.push(0);
    if digits.is_empty() {
        return Err(source.wrong("hexadecimal digits are expected"));
    }
    source.hexadecimal(digits.as_bytes(), wire)
}

/// `52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m` (RFC 1876, 3).
pub(super) fn location(source: &mut Source<'_, '_>, wire: &mut Vec<u8>) -> Read {
    const MIDDLE: i64 = 1 << 31;
    let latitude = angle(source, 90, "N", "S")?;
    let longitude = angle(source, 180, "E", "W")?;
    let altitude = centimetres(source, -10_000_000, 4_284_967_295)? + 10_000_000;
    // The sizes that RFC 1876 has for those that are not written.
    let mut sizes = [0x12_u8, 0x16, 0x13];
    for size in &mut sizes {
        if source.peek().is_none() {
            break;
        }
        *size = size_byte(centimetres(source, 0, 9_000_000_000)?);
    }
    wire.push(0);
    wire.extend_from_slice(&sizes);
    for number in [latitude + MIDDLE, longitude + MIDDLE, altitude] {
        put_u32(number as u32, wire);
    }
    Ok(())
}

/// Degrees, minutes and seconds up to the letter of the direction, in thousandths of a second.
fn angle(
    source: &mut Source<'_, '_>,
    largest: u32,
    positive: &str,
    negative: &str,
) -> Result<i64, DataError> {
    let degrees = source.number(largest)?;
    let mut thousandths = i64::from(degrees) * 3_600_000;
    let direction = |word: &str| match () {
        () if word.eq_ignore_ascii_case(positive) => Some(1),
        () if word.eq_ignore_ascii_case(negative) => Some(-1),
        () => None,
    };
    for unit in [60_000, 1000, 0] {
        let word = source.word()?;
        if let Some(sign) = direction(word) {
            if thousandths > i64::from(largest) * 3_600_000 {
                return Err(
                    source.wrong(format!("an angle of at most {largest} degrees is expected"))
                );
            }
            return Ok(sign * thousandths);
        }
        let decimals = if unit == 1000 { 3 } else { 0 };
        let part = fixed_point(word, decimals).filter(|part| *part < 60 * 10_i64.pow(decimals));
        let part = part.filter(|_| unit > 0);
        let part = part.ok_or_else(|| {
            source.wrong(format!("a number below 60, {positive} or {negative} is expected"))
        })?;
        thousandths += if decimals == 3 { part } else { part * unit };
    }
    Err(source.wrong(format!("{positive} or {negative} is expected")))
}

/// Metres with at most two decimals and perhaps an `m`, in centimetres.
fn centimetres(source: &mut Source<'_, '_>, least: i64, most: i64) -> Result<i64, DataError> {
    let word = source.word()?;
    let number = word.strip_suffix(['m', 'M']).unwrap_or(word);
    let (sign, number) = number.strip_prefix('-').map_or((1, number), |number| (-1, number));
    let found = fixed_point(number, 2).map(|number| sign * number);
    found.filter(|found| (least..=most).contains(found)).ok_or_else(|| {
        source.wrong(format!("metres from {} to {} are expected", least / 100, most / 100))
    })
}

/// A decimal number as a whole number of its smallest decimals.
fn fixed_point(text: &str, decimals: u32) -> Option<i64> {
    let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = !whole.is_empty()
        && whole.len() <= 10
        && is_digits(whole)
        && is_digits(behind)
        && behind.len() <= decimals as usize;
    let whole: i64 = whole.parse().ok().filter(|_| fits)?;
    let padded = format!("{behind:0<width$}", width = decimals as usize);
    let behind = if padded.is_empty() { 0 } else { padded.parse().ok()? };
    Some(whole * 10_i64.pow(decimals) + behind)
}

/// A size as its first digit and a power of ten, each in half a byte.
fn size_byte(centimetres: i64) -> u8 {
    let (mut digit, mut power) = (centimetres, 0);
    while digit >= 10 {
        digit /= 10;
        power += 1;
    }
    (digit << 4 | power) as u8
}

/// `64 ::1234:5678:9abc:def0 prefix.example.` (RFC 2874, 3).
pub(super) fn a6(source: &mut Source<'_, '_>, wire: &mut Vec<u8>) -> Read {
    let length = source.number(128)?;
    wire.push(length as u8);
    if length < 128 {
        let suffix = source.word()?.parse::<Ipv6Addr>();
        let suffix = suffix.map_err(|_| source.wrong("an IPv6 address is expected"))?;
        let octets = (suffix.to_bits() & (u128::MAX >> length)).to_be_bytes();
        wire.extend_from_slice(octets.get(length as usize / 8..).unwrap_or_default());
    }
    if length > 0 { source.name(wire) } else { Ok(()) }
}

/// `1:192.168.32.0/21 !1:192.168.38.0/28` (RFC 3123), perhaps none.
pub(super) fn address_prefixes(source: &mut Source<'_, '_>, wire: &mut Vec<u8>) -> Read {
    while source.peek().is_some() {
        let word = source.word()?;
        let (negation, rest) = word.strip_prefix('!').map_or((0, word), |rest| (0x80, rest));
        let (family, length, octets) = address_prefix(rest).ok_or_else(|| {
            source
                .wrong("1:IPv4 address/length or 2:IPv6 address/length is expected, or ! before it")
        })?;
        let used = octets.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        put_u16(family, wire);
        wire.extend_from_slice(&[length, negation | used as u8]);
        wire.extend_from_slice(octets.get(..used).unwrap_or_default());
    }
    Ok(())
}

fn address_prefix(text: &str) -> Option<(u16, u8, Vec<u8>)> {
    let (family, rest) = text.split_once(':')?;
    let (address, length) = rest.split_once('/')?;
    let is_decimal = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length: u8 = length.parse().ok().filter(|_| is_decimal)?;
    let (family, octets, longest) = match family {
        "1" => (1, address.parse::<Ipv4Addr>().ok()?.octets().to_vec(), 32),
        "2" => (2, address.parse::<Ipv6Addr>().ok()?.octets().to_vec(), 128),
        _ => return None,
    };
    (length <= longest).then_some((family, length, octets))
}

/// Appends a gateway of a kind: 0 none, 1 IPv4, 2 IPv6, 3 a name.
fn gateway(source: &mut Source<'_, '_>, kind: u8, wire: &mut Vec<u8>) -> Read {
    if kind == 3 {
        return source.name(wire);
    }
    let word = source.word()?;
    match (kind, word.parse::<IpAddr>()) {
        (0, _) if word == "." => Ok(()),
        (1, Ok(IpAddr::V4(address))) => {
            wire.extend_from_slice(&address.octets());
            Ok(())
        }
        (2, Ok(IpAddr::V6(address))) => {
            wire.extend_from_slice(&address.octets());
            Ok(())
        }
        (0, _) => Err(source.wrong(". is expected for the kind 0")),
        (1, _) => Err(source.wrong("an IPv4 address is expected for the kind 1")),
        (2, _) => Err(source.wrong("an IPv6 address is expected for the kind 2")),
        _ => Err(source.wrong("a gateway of the kinds 0 to 3 is expected")),
    }
}

/// `10 1 2 192.0.2.38 AQNR...` (RFC 4025, 3), the key perhaps absent.
pub(super) fn ipsec_key(source: &mut Source<'_, '_>, wire: &mut Vec<u8>) -> Read {
    let precedence = source.number(255)? as u8;
    let kind = source.number(255)? as u8;
    let algorithm = source.number(255)? as u8;
    wire.extend_from_slice(&[precedence, kind, algorithm]);
    gateway(source, kind, wire)?;
    let key = source.joined(true)?;
    source.base64(&key, wire)
}

/// `10 0 1 203.0.113.15` (RFC 8777, 4.3).
pub(super) fn relay(source: &mut Source<'_, '_>, wire: &mut Vec<u8>) -> Read {
    let precedence = source.number(255)? as u8;
    let is_optional = source.number(1)? as u8;
    let kind = source.number(127)? as u8;
    wire.extend_from_slice(&[precedence, is_optional << 7 | kind]);
    gateway(source, kind, wire)
}

/// `2 200100107B1A74DF365639CC39F1D578 AwEA... rvs.example.com.` (RFC 8005, 5).
pub(super) fn host_identity(source: &mut Source<'_, '_>, wire: &mut Vec<u8>) -> Read {
    let algorithm = source.number(255)? as u8;
    let (mut tag, mut key) = (Vec::new(), Vec::new());
    let text = source.word()?;
    source.hexadecimal(text.as_bytes(), &mut tag)?;
    let tag_length = u8::try_from(tag.len()).ok().filter(|length| *length > 0);
    let tag_length = tag_length.ok_or_else(|| source.wrong("1 to 255 bytes are expected"))?;
    let text = source.word()?;
    source.base64(text.as_bytes(), &mut key)?;
    let key_length = u16::try_from(key.len()).ok().filter(|length| *length > 0);
    let key_length = key_length.ok_or_else(|| source.wrong("1 to 65535 bytes are expected"))?;
    wire.extend_from_slice(&[tag_length, algorithm]);
    put_u16(key_length, wire);
    wire.extend(tag);
    wire.extend(key);
    while source.peek().is_some() {
        source.name(wire)?;
    }
    Ok(())
}
