//! Which format a text has: one answer for everything that reads sets.
//!
//! For: texts whose format nobody names. Not for: reading them.
//!
//! ```text
//! the first line that is no comment ─► the formats whose lines look so
//!   none     ─► plain, which refuses what it cannot read
//!   one      ─► that one
//!   several  ─► those that read the whole text: refused with their names if they read it
//!               differently, or if none does
//! JSON       ─► by the names of the outermost members; refused if no format has them
//! ```
//!
//! Invariant: a wrong guess never reads another set than the right format would; it is a mistake at
//! the first line, or the guess is refused.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::json::root_of;
use super::lines::{lines, trimmed};
use super::plain::comment;
use super::{SetFormat, SetTextError, access, bgpdump, block_of, csv, dshield, hosts, peers, rir};

/// The objects of nft's commands. An ipset may be called so too, but then a type or an address
/// follows, and both formats refuse what they cannot read.
const NFT_OBJECTS: [&[u8]; 6] = [b"element", b"set", b"table", b"map", b"chain", b"rule"];
const NFT_WORDS: [&[u8]; 9] =
    [b"table", b"set", b"map", b"elements", b"flush", b"delete", b"destroy", b"define", b"include"];

/// The format of a text.
pub(super) fn format(text: &[u8]) -> Result<SetFormat, SetTextError> {
    let Some((start, end)) = first_line(text) else { return Ok(SetFormat::Plain) };
    let line = &text[start..end];
    if matches!(line[0], b'{' | b'[') && !is_bracketed(line) {
        return json(text, start);
    }
    let formats = of_line(line);
    match formats[..] {
        [] => return Ok(SetFormat::Plain),
        [format] => return Ok(format),
        _ => {}
    }
    let readings: Vec<(SetFormat, u64)> =
        formats.iter().filter_map(|format| Some((*format, entries_hash(*format, text)?))).collect();
    match readings[..] {
        [(format, first), ref others @ ..] if others.iter().all(|(_, other)| *other == first) => {
            Ok(format)
        }
        _ => {
            let names: Vec<&str> = formats.iter().map(|format| format.name()).collect();
            let allowed = format!("a named format, since this may be {}", names.join(" or "));
            Err(SetTextError::at(text, start, end - start, allowed))
        }
    }
}

/// A hash of the entries of a text in a format; `None` if it is not of that format.
fn entries_hash(format: SetFormat, text: &[u8]) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let read = super::read_set(format, text, |entry| {
        (entry.block, entry.value.as_deref(), entry.ttl_seconds).hash(&mut hasher);
    });
    read.ok().map(|()| hasher.finish())
}

/// JSON, or JSON by lines: whichever a text is.
pub(super) fn json_form(text: &[u8]) -> Result<SetFormat, SetTextError> {
    let Some((start, end)) = first_line(text) else { return Ok(SetFormat::Json) };
    if !matches!(text[start], b'{' | b'[') {
        let allowed = "JSON, since a path is given";
        return Err(SetTextError::at(text, start, end - start, allowed));
    }
    let root = root_of(text, start)?;
    Ok(if root.is_many { SetFormat::Ndjson } else { SetFormat::Json })
}

/// The first line that is neither empty nor a comment. A line of `#Start` is no comment's.
fn first_line(text: &[u8]) -> Option<(usize, usize)> {
    lines(text).find_map(|(from, to)| {
        let (from, to) = trimmed(text, from, to)?;
        // What is a comment in a list is none behind a delimiter of a table.
        (comment(&text[from..to]) != Some(0)).then_some((from, to))
    })
}

/// Whether a line begins with an IPv6 address in brackets.
fn is_bracketed(line: &[u8]) -> bool {
    let end = line.iter().position(|byte| *byte == b']').map_or(0, |end| end + 1);
    block_of(&line[..end], true).is_ok()
}

fn json(text: &[u8], start: usize) -> Result<SetFormat, SetTextError> {
    let root = root_of(text, start)?;
    if root.has("nftables") && !root.is_array {
        return Ok(SetFormat::NftJson);
    }
    let providers = root.providers();
    if let [provider] = providers[..] {
        return Ok(SetFormat::Provider(provider));
    }
    match () {
        () if root.is_array && !root.is_many && (root.is_plain || root.has("prefix")) => {
            Ok(SetFormat::Json)
        }
        () if !root.is_array && root.is_many && root.has("prefix") => Ok(SetFormat::Ndjson),
        () => {
            let end = text[start..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let names = providers.iter().map(|provider| SetFormat::Provider(*provider).name());
            let mut names: Vec<&str> = names.collect();
            names.push(if root.is_many { "ndjson with a path" } else { "json with a path" });
            let allowed = format!("a named format: {}", names.join(" or "));
            Err(SetTextError::at(text, start, end.unwrap_or(text.len() - start), allowed))
        }
    }
}

/// The formats that a first line may be of.
fn of_line(line: &[u8]) -> Vec<SetFormat> {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'=');
    let mut words = line.split(ends).filter(|word| !word.is_empty());
    let (first, second) = (words.next().unwrap_or(b""), words.next().unwrap_or(b""));
    match first {
        b"add" | b"create" if NFT_OBJECTS.contains(&second) => return vec![SetFormat::Nft],
        b"add" | b"create" | b"-exist" => return vec![SetFormat::Ipset],
        word if NFT_WORDS.contains(&word) && !csv::is_header(line) => return vec![SetFormat::Nft],
        _ => {}
    }
    let is_plain = block_of(line[..comment(line).unwrap_or(line.len())].trim_ascii(), true).is_ok();
    let (is_dat, is_no_table) = peers::is_dat(line);
    let is_dshield = dshield::is_header(line) || dshield::block(line).is_some();
    let is_rir = rir::is_line(line);
    let is_other = is_no_table || is_dshield || is_rir || hosts::is_own_line(line);
    let is_table = csv::is_table(line) && !is_other;
    let candidates = [
        (is_plain && !csv::is_header(line), SetFormat::Plain),
        (is_table && !is_plain, SetFormat::Csv),
        (is_dat, SetFormat::Dat),
        (is_dshield, SetFormat::Dshield),
        (!is_plain && peers::is_p2p(line), SetFormat::P2p),
        (is_rir, SetFormat::Rir),
        (bgpdump::is_line(line), SetFormat::Bgpdump),
        (hosts::is_line(line), SetFormat::Hosts),
        (access::is_nginx(line), SetFormat::Nginx),
        (access::is_apache(line), SetFormat::Apache),
    ];
    candidates.into_iter().filter(|(is_it, _)| *is_it).map(|(_, format)| format).collect()
}
