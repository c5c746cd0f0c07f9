//! City records and texts of legacy files, decoded where they are.
//!
//! Not for the tree, nor for what callers get. Offsets count from the record's first byte:
//!
//! ```text
//! city: | country (1) | region \0 | city \0 | postal code \0 | latitude (3) | longitude (3) |
//!       | metro and area code (3), revision 1 in the United States only |
//! text: | ISO 8859-1 \0 |
//! ```
//!
//! Invariants: a string ends at the end of the bytes at the latest, and what is cut off counts as
//! zero, so that any bytes give some record.

/// A string in one of the two charsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Text<'a> {
    Latin(&'a [u8]),
    Utf8(&'a str),
}

impl Text<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Text::Latin(bytes) => bytes.is_empty(),
            Text::Utf8(text) => text.is_empty(),
        }
    }
}

/// A city record.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct City<'a> {
    pub(crate) country: u8,
    pub(crate) region: Text<'a>,
    pub(crate) city: Text<'a>,
    pub(crate) postal_code: Text<'a>,
    pub(crate) latitude: f32,
    pub(crate) longitude: f32,
    pub(crate) metro_code: u16,
    pub(crate) area_code: u16,
}

/// The number of the one country whose records have metro and area codes.
pub(crate) const UNITED_STATES: u8 = 225;

/// Decodes a city record that begins the bytes, and says where it ends. `None`: no byte is there.
pub(crate) fn city(bytes: &[u8], has_metro_codes: bool) -> Option<(City<'_>, usize)> {
    let (&country, mut rest) = bytes.split_first()?;
    let mut take = || {
        let (text, behind) = text(rest);
        rest = behind;
        Text::Latin(text)
    };
    let (region, city, postal_code) = (take(), take(), take());
    let mut take = || {
        let (number, behind) = three_bytes(rest);
        rest = behind;
        number
    };
    let (latitude, longitude) = (degrees(take()), degrees(take()));
    let codes = if has_metro_codes && country == UNITED_STATES { take() } else { 0 };
    let (metro_code, area_code) = ((codes / 1000) as u16, (codes % 1000) as u16);
    let end = bytes.len() - rest.len();
    let city =
        City { country, region, city, postal_code, latitude, longitude, metro_code, area_code };
    Some((city, end))
}

/// The string that begins the bytes, and what is behind its zero byte.
pub(crate) fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (text, rest) = bytes.split_at(end);
    (text, rest.get(1..).unwrap_or_default())
}

fn three_bytes(bytes: &[u8]) -> (u32, &[u8]) {
    let (number, rest) = bytes.split_at(bytes.len().min(3));
    let number = number.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
    (number, rest)
}

fn degrees(number: u32) -> f32 {
    (f64::from(number) / 10_000.0 - 180.0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &[u8] = b"\xe1CA\0Los \xe9\0\x39\0\x11\x22\x10\x44\x55\x10\xd5\xa5\x07next";

    #[test]
    fn a_record_is_decoded_and_says_where_the_next_one_begins() {
        let (found, end) = city(RECORD, true).unwrap();
        assert_eq!(found.country, UNITED_STATES);
        assert_eq!(found.region, Text::Latin(b"CA"));
        assert_eq!(found.city, Text::Latin(b"Los \xe9"));
        assert_eq!(found.postal_code, Text::Latin(b"9"));
        assert_eq!((found.metro_code, found.area_code), (501, 205));
        assert_eq!(&RECORD[end..], b"next");
        let (found, end) = city(RECORD, false).unwrap();
        assert_eq!((found.metro_code, found.area_code), (0, 0));
        assert_eq!(&RECORD[end + 3..], b"next");
    }

    #[test]
    fn a_record_cut_at_any_byte_is_some_record() {
        assert_eq!(city(b"", true), None);
        for end in 1..RECORD.len() {
            assert!(city(&RECORD[..end], true).is_some_and(|(_, behind)| behind <= end));
        }
    }
}
