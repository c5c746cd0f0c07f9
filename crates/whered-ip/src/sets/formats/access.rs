//! Lists of access control in the configuration of web servers: nginx and Apache.
//!
//! ```text
//! nginx    deny 192.0.2.0/24;   allow 10.0.0.0/8;   set_real_ip_from 203.0.113.0/24;
//! apache   Require not ip 192.0.2.0/24 10.1     Deny from 10.0.0.0/255.0.0.0     Require ip ...
//! ```
//!
//! A text has up to three sets, `deny`, `allow` and `set_real_ip_from`; with more than one of them
//! one is named. `all` is what holds for other addresses: it is no member, and is refused where its
//! set has addresses, too, or no set has any. Names of hosts, variables of the environment and
//! other directives are refused. Apache's `10.1` means `10.1.0.0/16`.

use std::ops::Range;

use super::lines::{lines, trimmed};
use super::named::Sets;
use super::{Block, SetEntry, SetTextError, block_of, list_block_at};
use crate::Prefix;

const NGINX: &str = "deny ADDRESS; allow ADDRESS; set_real_ip_from ADDRESS; or a comment";
const APACHE: &str = "Require [not] ip ADDRESS ..., Deny from ADDRESS ..., Allow from ADDRESS ..., \
                      Order, Require all, <RequireAll>, <RequireAny>, <RequireNone> or a comment";
const ALL: &str = "addresses: all of them makes the others needless";

/// Which sets have addresses, and where `all` stands for one of them.
#[derive(Default)]
struct Sides {
    with_members: Vec<&'static str>,
    all: Vec<(&'static str, usize)>,
}

impl Sides {
    fn member(&mut self, set: &'static str) {
        if !self.with_members.contains(&set) {
            self.with_members.push(set);
        }
    }

    fn end(&self, text: &[u8]) -> Result<(), SetTextError> {
        let is_wrong =
            |set: &&'static str| self.with_members.is_empty() || self.with_members.contains(set);
        match self.all.iter().find(|(set, _)| is_wrong(set)) {
            Some((_, place)) => Err(SetTextError::at(text, *place, 3, ALL)),
            None => Ok(()),
        }
    }
}

pub(super) fn read_nginx<'a>(
    text: &'a [u8],
    sets: &mut Sets<'_>,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut sides = Sides::default();
    let mut statement: Vec<Range<usize>> = Vec::new();
    for (from, to) in lines(text) {
        let line = &text[from..to];
        let end = from + line.iter().position(|byte| *byte == b'#').unwrap_or(line.len());
        let mut at = from;
        while let Some((start, _)) = trimmed(text, at, end) {
            if text[start] == b';' {
                nginx_statement(text, &statement, sets, &mut sides, each)?;
                statement.clear();
                at = start + 1;
                continue;
            }
            let ends = |byte: &u8| byte.is_ascii_whitespace() || *byte == b';';
            let length = text[start..end].iter().position(ends).unwrap_or(end - start);
            statement.push(start..start + length);
            at = start + length;
        }
    }
    if let Some(word) = statement.first() {
        return Err(SetTextError::at(text, word.start, word.len(), "a directive that ends with ;"));
    }
    sides.end(text)
}

fn nginx_statement<'a>(
    text: &'a [u8],
    words: &[Range<usize>],
    sets: &mut Sets<'_>,
    sides: &mut Sides,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let [directive, address] = words else {
        let Some(word) = words.first() else { return Ok(()) };
        return Err(SetTextError::at(text, word.start, word.len(), NGINX));
    };
    let set = match &text[directive.clone()] {
        b"deny" => "deny",
        b"allow" => "allow",
        b"set_real_ip_from" => "set_real_ip_from",
        _ => return Err(SetTextError::at(text, directive.start, directive.len(), NGINX)),
    };
    if &text[address.clone()] == b"all" {
        sides.all.push((set, address.start));
        return Ok(());
    }
    sides.member(set);
    let is_chosen = sets.is_chosen(set, directive.start);
    let block = list_block_at(text, address.start, address.end)?;
    if is_chosen {
        each(block.into());
    }
    Ok(())
}

pub(super) fn read_apache<'a>(
    text: &'a [u8],
    sets: &mut Sets<'_>,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut sides = Sides::default();
    // Within <RequireNone> an address that is required is one that must not be.
    let mut sections: Vec<bool> = Vec::new();
    for (from, to) in lines(text) {
        let Some((from, to)) = trimmed(text, from, to) else { continue };
        if text[from] == b'#' {
            continue;
        }
        let mut words = Vec::new();
        let mut at = from;
        while let Some((start, _)) = trimmed(text, at, to) {
            let line = &text[start..to];
            let length = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
            words.push(start..start + length);
            at = start + length;
        }
        let Some((set, count)) = apache_directive(text, &words) else {
            return Err(SetTextError::at(text, from, to - from, APACHE));
        };
        let Some(mut set) = set else {
            match text[from..].get(..2) {
                Some(b"</") => drop(sections.pop()),
                Some([b'<', _]) => {
                    sections.push(text[from..to].eq_ignore_ascii_case(b"<RequireNone>"));
                }
                _ => {}
            }
            continue;
        };
        let is_require = text[words[0].clone()].eq_ignore_ascii_case(b"require");
        if is_require && sections.iter().filter(|is_none| **is_none).count() % 2 == 1 {
            set = if set == "allow" { "deny" } else { "allow" };
        }
        for word in &words[count..] {
            if text[word.clone()].eq_ignore_ascii_case(b"all") {
                sides.all.push((set, word.start));
                continue;
            }
            sides.member(set);
            let is_chosen = sets.is_chosen(set, words[0].start);
            let block = match partial(&text[word.clone()]) {
                Some(block) => block,
                None => list_block_at(text, word.start, word.end)?,
            };
            if is_chosen {
                each(block.into());
            }
        }
    }
    sides.end(text)
}

/// The set that a line adds to, if it is one of addresses, and how many words come before them;
/// `None` for a line that is not known.
fn apache_directive(text: &[u8], words: &[Range<usize>]) -> Option<(Option<&'static str>, usize)> {
    let lower: Vec<Vec<u8>> =
        words.iter().take(4).map(|word| text[word.clone()].to_ascii_lowercase()).collect();
    let lower: Vec<&[u8]> = lower.iter().map(Vec::as_slice).collect();
    match lower[..] {
        [b"require", b"not", b"ip", _, ..] => Some((Some("deny"), 3)),
        [b"require", b"ip", _, ..] => Some((Some("allow"), 2)),
        [b"deny", b"from", _, ..] => Some((Some("deny"), 2)),
        [b"allow", b"from", _, ..] => Some((Some("allow"), 2)),
        [b"require", b"all", b"granted" | b"denied"] => Some((None, 0)),
        [b"order", ..] => Some((None, 0)),
        [b"<requireall>" | b"<requireany>" | b"<requirenone>"] => Some((None, 0)),
        [b"</requireall>" | b"</requireany>" | b"</requirenone>"] => Some((None, 0)),
        _ => None,
    }
}

/// The first one to three parts of an IPv4 address.
fn partial(word: &[u8]) -> Option<Block> {
    let word = word.strip_suffix(b".").unwrap_or(word);
    let count = word.split(|byte| *byte == b'.').count();
    if !(1..4).contains(&count) || !word.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') {
        return None;
    }
    let whole = [word, &b".0.0.0"[..(4 - count) * 2]].concat();
    let address = block_of(&whole, false).ok()?.first();
    Prefix::new(address, count as u8 * 8).ok().map(Block::from)
}

/// Whether a line is one of nginx's.
pub(super) fn is_nginx(line: &[u8]) -> bool {
    let word = line.split(u8::is_ascii_whitespace).next().unwrap_or(b"");
    matches!(word, b"deny" | b"allow" | b"set_real_ip_from") && line.contains(&b';')
}

/// Whether a line is one of Apache's.
pub(super) fn is_apache(line: &[u8]) -> bool {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some((start, _)) = trimmed(line, at, line.len()) {
        let rest = &line[start..];
        let length = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        words.push(start..start + length);
        at = start + length;
    }
    apache_directive(line, &words).is_some()
}
