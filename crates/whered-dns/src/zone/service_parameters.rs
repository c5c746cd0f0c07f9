//! The parameters of SVCB and HTTPS records (RFC 9460, 2.1 and 7; RFC 9461, 9540, 9848, 9953).
//!
//! Not for: priority and target (`data.rs`).
//!
//! ```text
//! alpn=h2,h3 port=8443 key65000="a\,b"      in any order; in the wire by number
//! ```
//!
//! A list is read twice, as RFC 9460, appendix A.1 says: the escapes of the master file first, then
//! `\,` and `\\` of the list.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::data::{DataError, Source, put_u16, unescaped};

/// The parameters that have a name, by number.
const NAMES: [&str; 11] = [
    "mandatory",
    "alpn",
    "no-default-alpn",
    "port",
    "ipv4hint",
    "ech",
    "ipv6hint",
    "dohpath",
    "ohttp",
    "tls-supported-groups",
    "docpath",
];
const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
/// RFC 9460, 14.3.1: never a key.
const INVALID: u16 = u16::MAX;

/// Reads all parameters and appends them by number.
pub(super) fn read(source: &mut Source<'_, '_>, wire: &mut Vec<u8>) -> Result<(), DataError> {
    let mut found: Vec<(u16, Vec<u8>)> = Vec::new();
    while source.peek().is_some() {
        let token = source.next()?;
        let name_end = token.raw.iter().position(|byte| *byte == b'=');
        let name = token.raw.get(..name_end.unwrap_or(token.raw.len())).unwrap_or_default();
        let key = std::str::from_utf8(name).ok().and_then(key_of);
        let key = key.filter(|_| !token.quoted).ok_or_else(|| {
            source
                .wrong(format!("a parameter is expected: {} or key0 to key65534", NAMES.join(", ")))
        })?;
        let mut value = name_end.map(|end| unescaped(token.raw.get(end + 1..).unwrap_or_default()));
        // `alpn="h2"`: the quoted part is a token of its own.
        if let Some(value) = value.as_mut().filter(|value| value.is_empty())
            && source.peek().is_some_and(|next| next.quoted && !next.spaced)
        {
            *value = source.bytes()?;
        }
        let data = match value {
            // `key1=...` has the wire form of the value (RFC 9460, 2.1).
            Some(value) if name.starts_with(b"key") => value,
            value => data_of(key, value.as_deref()).map_err(|allowed| source.wrong(allowed))?,
        };
        if !is_well_formed(key, &data) {
            return Err(source.wrong(format!("a value of {}'s form is expected", name_of(key))));
        }
        if found.iter().any(|(known, _)| *known == key) {
            return Err(source.wrong(format!("{} a second time", name_of(key))));
        }
        found.push((key, data));
    }
    found.sort_by_key(|(key, _)| *key);
    check(&found).map_err(|message| source.wrong(message))?;
    for (key, data) in found {
        put_u16(key, wire);
        let length = u16::try_from(data.len());
        put_u16(
            length.map_err(|_| source.wrong("a value of at most 65535 bytes is expected"))?,
            wire,
        );
        wire.extend(data);
    }
    Ok(())
}

fn name_of(key: u16) -> String {
    NAMES.get(usize::from(key)).map_or_else(|| format!("key{key}"), |name| (*name).to_owned())
}

/// The number of a parameter's name: `alpn`, or `key` and a number without zeros in front.
fn key_of(name: &str) -> Option<u16> {
    if let Some(number) = NAMES.iter().position(|known| *known == name) {
        return Some(number as u16);
    }
    let digits = name.strip_prefix("key")?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|key| is_number && *key != INVALID)
}

/// Whether a value in wire form is one of the parameter.
fn is_well_formed(key: u16, data: &[u8]) -> bool {
    match key {
        MANDATORY => !data.is_empty() && data.len().is_multiple_of(2),
        ALPN | 10 => {
            let mut rest = data;
            while let [length, tail @ ..] = rest
                && let Some(next) = tail.get(usize::from(*length)..)
            {
                rest = next;
            }
            rest.is_empty() && (key == 10 || !data.is_empty())
        }
        NO_DEFAULT_ALPN | 8 => data.is_empty(),
        3 => data.len() == 2,
        4 => !data.is_empty() && data.len().is_multiple_of(4),
        6 => !data.is_empty() && data.len().is_multiple_of(16),
        9 => !data.is_empty() && data.len().is_multiple_of(2),
        _ => true,
    }
}

/// What every client must be able to rely on.
fn check(found: &[(u16, Vec<u8>)]) -> Result<(), String> {
    let has = |key: u16| found.iter().any(|(known, _)| *known == key);
    if has(NO_DEFAULT_ALPN) && !has(ALPN) {
        return Err("no-default-alpn without alpn (RFC 9460, 7.1.1)".to_owned());
    }
    let mandatory = found.iter().find(|(key, _)| *key == MANDATORY);
    let (keys, _) = mandatory.map_or(&[][..], |(_, data)| data).as_chunks::<2>();
    for key in keys.iter().map(|key| u16::from_be_bytes(*key)) {
        if !has(key) {
            return Err(format!("mandatory names {}, which is not there", name_of(key)));
        }
    }
    Ok(())
}

/// The wire form of a parameter's value.
fn data_of(key: u16, value: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let name = name_of(key);
    let given = value.filter(|value| !value.is_empty());
    let required = || given.ok_or_else(|| format!("{name} has a value"));
    let text = || {
        let text = std::str::from_utf8(required()?).ok();
        text.ok_or_else(|| format!("{name} has a value in ASCII"))
    };
    match key {
        MANDATORY => mandatory(text()?),
        ALPN => with_lengths(required()?, 1)
            .ok_or_else(|| "alpn lists protocols of 1 to 255 bytes".into()),
        NO_DEFAULT_ALPN | 8 => match given {
            None => Ok(Vec::new()),
            Some(_) => Err(format!("{name} has no value")),
        },
        3 => numbers(text()?, 1).ok_or_else(|| "port has a number from 0 to 65535".into()),
        4 => {
            let octets = |address: &str| address.parse().ok().map(|one: Ipv4Addr| one.octets());
            let octets: Option<Vec<_>> = text()?.split(',').map(octets).collect();
            octets.map(|all| all.concat()).ok_or_else(|| "ipv4hint lists IPv4 addresses".into())
        }
        5 => {
            let decoded = domain::utils::base64::decode::<Vec<u8>>(text()?);
            decoded.map_err(|_| "ech has a value in base 64".into())
        }
        6 => {
            let octets = |address: &str| address.parse().ok().map(|one: Ipv6Addr| one.octets());
            let octets: Option<Vec<_>> = text()?.split(',').map(octets).collect();
            octets.map(|all| all.concat()).ok_or_else(|| "ipv6hint lists IPv6 addresses".into())
        }
        7 => Ok(required()?.to_vec()),
        9 => {
            let found = numbers(text()?, usize::MAX);
            found.ok_or_else(|| "tls-supported-groups lists numbers".into())
        }
        10 => {
            let found = given.map_or(Some(Vec::new()), |value| with_lengths(value, 0));
            found.ok_or_else(|| "docpath lists texts of at most 255 bytes".into())
        }
        _ => Ok(value.unwrap_or_default().to_vec()),
    }
}

/// The numbers of the parameters that a list names.
fn mandatory(list: &str) -> Result<Vec<u8>, String> {
    let mut keys = Vec::new();
    for name in list.split(',') {
        let key = key_of(name).filter(|key| *key != MANDATORY);
        keys.push(key.ok_or_else(|| format!("mandatory lists other parameters, not {name:?}"))?);
    }
    keys.sort_unstable();
    let count = keys.len();
    keys.dedup();
    if keys.len() != count {
        return Err("mandatory lists a parameter once".to_owned());
    }
    Ok(keys.into_iter().flat_map(u16::to_be_bytes).collect())
}

/// Texts of a list, each with its length in front; none if one has fewer bytes than `least` or more
/// than 255.
fn with_lengths(list: &[u8], least: usize) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    for text in listed(list) {
        data.push(u8::try_from(text.len()).ok().filter(|_| text.len() >= least)?);
        data.extend(text);
    }
    Some(data)
}

/// Decimal numbers of a list of at most `most`.
fn numbers(list: &str, most: usize) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    for (at, number) in list.split(',').enumerate() {
        let is_decimal = number.bytes().all(|byte| byte.is_ascii_digit());
        let number: u16 = number.parse().ok().filter(|_| is_decimal && at < most)?;
        data.extend(number.to_be_bytes());
    }
    Some(data)
}

/// The items of a list between commas, `\,` and `\\` undone.
fn listed(text: &[u8]) -> Vec<Vec<u8>> {
    let (mut items, mut item) = (Vec::new(), Vec::new());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b',' => items.push(std::mem::take(&mut item)),
            b'\\' => item.extend(bytes.next()),
            _ => item.push(byte),
        }
    }
    items.push(item);
    items
}
