//! The statistics of the regional registries: which country has which range.
//!
//! For: `delegated-ripencc-extended-latest` and its like, of ARIN, APNIC, LACNIC, AFRINIC and RIPE
//! NCC, and the joint file of the NRO. Not for numbers of autonomous systems, whose rows are passed
//! over, nor for ranges without a country, such as those that are free.
//!
//! ```text
//! 2|ripencc|20261127|6|19830705|20261126|+0100       version
//! ripencc|*|ipv4|*|3|summary                         summary, passed over
//! ripencc|DE|ipv4|192.0.2.0|768|19930901|allocated   as many addresses from there on
//! ripencc|FR|ipv6|2001:db8::|32|19990812|allocated   a prefix of that length
//! ```
//!
//! Source: "RIR statistics exchange format", version 2.3.

use super::RowsError;
use super::span::Span;
use super::table::Row;
use crate::error::shown;
use std::net::Ipv4Addr;

const REGISTRIES: &[&str] =
    &["afrinic", "apnic", "arin", "iana", "lacnic", "nro", "ripencc", "ripe"];

/// Whether a file's first row is that of such a file.
pub(super) fn is_first_row(row: &Row) -> bool {
    let cell = |column| std::str::from_utf8(row.cell(column)).unwrap_or_default();
    let is_registry = |text: &str| REGISTRIES.contains(&text.to_ascii_lowercase().as_str());
    let is_version =
        cell(0).starts_with(|byte: char| byte.is_ascii_digit()) && is_registry(cell(1));
    let is_record = is_registry(cell(0)) && matches!(cell(2), "ipv4" | "ipv6" | "asn");
    row.len() >= 6 && (is_version || is_record)
}

/// The range of a row and its country; nothing for a row about something else.
pub(super) fn range_of(row: &Row) -> Result<Option<(Span, &str)>, RowsError> {
    let text = |column: usize| {
        std::str::from_utf8(row.cell(column)).map_err(|_| {
            let found = shown(&String::from_utf8_lossy(row.cell(column)));
            RowsError::new(row.line, "", format!("\"{found}\""), "text in UTF-8")
        })
    };
    let (country, kind) = (text(1)?, text(2)?);
    let is_version = text(0)?.starts_with(|byte: char| byte.is_ascii_digit());
    if is_version || text(5)? == "summary" || kind == "asn" {
        return Ok(None);
    }
    if row.len() < 7 {
        let allowed = "rows as registry|country|ipv4|start|count|date|status";
        return Err(RowsError::new(row.line, "", format!("{} cells", row.len()), allowed));
    }
    let (start, value) = (text(3)?, text(4)?);
    let wrong = |column: &str, found: &str, allowed: &str| {
        RowsError::new(row.line, column, format!("\"{}\"", shown(found)), allowed)
    };
    let span = match kind {
        "ipv4" => {
            let first: Ipv4Addr =
                start.parse().map_err(|_| wrong("start", start, "IPv4 addresses"))?;
            let allowed = "counts of addresses that reach no further than 255.255.255.255";
            let last = value.parse().ok().filter(|count| *count > 0).and_then(|count: u64| {
                u32::try_from(u64::from(first.to_bits()).checked_add(count - 1)?).ok()
            });
            let last = last.ok_or_else(|| wrong("value", value, allowed))?;
            Span::between(start, &Ipv4Addr::from_bits(last).to_string())
        }
        "ipv6" => Span::with_length(start, value),
        other => return Err(wrong("type", other, "ipv4, ipv6, asn")),
    };
    let span = span.map_err(|allowed| wrong("start", &format!("{start}|{value}"), allowed))?;
    let is_country = country.len() == 2 && country.bytes().all(|byte| byte.is_ascii_alphabetic());
    match country {
        "" | "ZZ" | "zz" | "*" => Ok(None),
        country if is_country => Ok(Some((span, country))),
        other => Err(wrong("cc", other, "countries as two letters (ISO 3166-1)")),
    }
}
