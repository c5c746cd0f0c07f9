//! Statistics of the regional registries: `delegated` and `delegated-extended` files.
//!
//! ```text
//! 2|apnic|20240101|76543|19830613|20240101|+1000          version, with the count of records
//! apnic|*|ipv4|*|41234|summary
//! apnic|AU|ipv4|1.0.0.0|256|20110811|assigned|A91872ED     256 addresses
//! apnic|JP|ipv6|2001:200::|35|19990813|allocated|A9173591  a prefix of 35 bits
//! apnic|JP|asn|173|1|20020801|allocated|A918EDB2           no addresses
//! ```
//!
//! Members are the records with the status allocated or assigned; the country is the value. A name
//! of a set takes the records of one country (`AU`), or those of one status (`reserved`). The
//! summaries say how many records of a kind there are: with fewer the text was cut. So was a text
//! without any record, unless its version line says that there are none.

use std::borrow::Cow;
use std::net::IpAddr;

use super::lines::{content_lines, parts};
use super::named::Groups;
use super::{Block, SetEntry, SetTextError};
use crate::{Prefix, text};

const LINE: &str = "registry|country|asn, ipv4 or ipv6|start|count|date|status";
const STATUS: [&[u8]; 4] = [b"allocated", b"assigned", b"available", b"reserved"];

pub(super) fn read<'a>(
    text: &'a [u8],
    groups: &mut Groups<'_>,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    // Records of any kind, and how many the version lines say.
    let (mut total, mut announced) = (0_u64, None::<u64>);
    // Of IPv4 and of IPv6, and where they are promised.
    let (mut promised, mut found, mut place) = ([0_u64; 2], [0_u64; 2], 0);
    for (from, to) in content_lines(text, &[b"#"]) {
        let fields: Vec<(usize, usize)> = parts(text, from, to, b'|').collect();
        let word =
            |number: usize| fields.get(number).map_or(&b""[..], |(from, to)| &text[*from..*to]);
        let mistake = |number: usize, allowed: &'static str| {
            let (from, to) = fields.get(number).copied().unwrap_or((from, to));
            SetTextError::at(text, from, (to - from).max(1), allowed)
        };
        if is_version(&text[from..to]) {
            let count = number(word(3)).ok_or_else(|| mistake(3, "a count of records"))?;
            announced = Some(count.saturating_add(announced.unwrap_or(0)));
            continue;
        }
        let family = match word(2) {
            b"ipv4" => Some(0),
            b"ipv6" => Some(1),
            b"asn" => None,
            _ => return Err(mistake(2, LINE)),
        };
        if fields.len() == 6 && word(5) == b"summary" {
            let count = number(word(4)).ok_or_else(|| mistake(4, "a count of records"))?;
            if let Some(family) = family {
                promised[family] = count.saturating_add(promised[family]);
                place = from;
            }
            continue;
        }
        if fields.len() < 7 {
            return Err(SetTextError::at(text, from, to - from, LINE));
        }
        let (status, country) = (word(6), word(1));
        if !STATUS.contains(&status) {
            return Err(mistake(6, "allocated, assigned, available or reserved"));
        }
        total += 1;
        let Some(family) = family else { continue };
        found[family] += 1;
        let block = if family == 0 {
            ipv4(word(3), word(4)).ok_or_else(|| mistake(4, "a count of IPv4 addresses"))?
        } else {
            ipv6(word(3), word(4)).ok_or_else(|| mistake(4, "the length of an IPv6 prefix"))?
        };
        let is_held = matches!(status, b"allocated" | b"assigned");
        let is_member = match groups.name() {
            Some(wanted) if STATUS.contains(&wanted.as_bytes()) => {
                groups.takes((wanted.as_bytes() == status).then_some(status))
            }
            Some(_) => is_held && groups.takes(Some(country)),
            None => is_held,
        };
        if is_member {
            let value = (!country.is_empty()).then_some(Cow::Borrowed(country));
            each(SetEntry { value, ..SetEntry::from(block) });
        }
    }
    if (0..2).any(|family| found[family] < promised[family]) {
        let (found, promised) = (found[0] + found[1], promised[0] + promised[1]);
        let allowed = format!(
            "as many records of ipv4 and ipv6 as the summaries say: {promised}, not {found}"
        );
        return Err(SetTextError::at(text, place, 1, allowed));
    }
    if total == 0 && announced != Some(0) {
        return Err(SetTextError::at(text, text.len(), 0, "at least one record"));
    }
    Ok(())
}

fn number(word: &[u8]) -> Option<u64> {
    let is_number = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok().filter(|_| is_number)?.parse().ok()
}

fn ipv4(start: &[u8], count: &[u8]) -> Option<Block> {
    let first = text::parse4(start)?;
    let last = u64::from(first).checked_add(number(count)?.checked_sub(1)?)?;
    Some(Block::v4(first, u32::try_from(last).ok()?))
}

fn ipv6(start: &[u8], length: &[u8]) -> Option<Block> {
    let first = text::parse6(start)?;
    let length = u8::try_from(number(length)?).ok()?;
    Prefix::new(IpAddr::V6(first.into()), length).ok().map(Block::from)
}

/// Whether a line is the version line: `2|apnic|20240101|76543|...`, or of version 2.3.
fn is_version(line: &[u8]) -> bool {
    let mut fields = line.split(|byte| *byte == b'|');
    let version = fields.next().unwrap_or(b"");
    let is_version = version.first().is_some_and(u8::is_ascii_digit)
        && version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    is_version && fields.count() == 6
}

/// Whether a line is one of these files.
pub(super) fn is_line(line: &[u8]) -> bool {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b'|').collect();
    is_version(line) || fields.len() >= 6 && matches!(fields[2], b"ipv4" | b"ipv6" | b"asn")
}
