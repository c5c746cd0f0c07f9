//! Elements of verdict maps and sets, changed over netlink in one transaction.
//!
//! For: small changes of large maps: the `nft` program reads all elements of a map before it
//! changes one. Not for: rules, chains, maps themselves; elements with comments or timeouts.
//!
//! ```text
//! ipv4_addr . inet_service     10.0.0.8-10.0.0.15 . 80 : jump web
//! key                          0a 00 00 08  00 50 00 00
//! end of the key               0a 00 00 0f  00 50 00 00      each field takes whole words
//! verdict                      jump, "web"
//! ```
//!
//! Invariants: one batch a call, deletions in front; what is not understood is refused before
//! anything is sent. Cost: some 100 octets an element.

use std::fmt;
use std::io;
use std::net::IpAddr;

use super::netlink::{CREATE, Fault, LIST_BYTES_MAX, Messages, Netlink};
use super::nft::{
    DATA_VALUE, DELETE_ELEMENTS, ELEMENT, ELEMENT_FLAGS, ELEMENT_KEY, INTERVAL_END, LIST_ELEMENTS,
    LIST_SET, LIST_TABLE, NEW_ELEMENTS,
};
use super::table::number_of;

const ELEMENT_DATA: u16 = 2;
const ELEMENT_KEY_END: u16 = 10;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;

/// A change of one set or map, in nft's words.
#[derive(Clone, Copy, Debug)]
pub struct MapChange<'c> {
    /// Its name.
    pub name: &'c str,
    /// What its elements are, as `ipv4_addr . inet_service : verdict`.
    pub kind: &'c str,
    /// Whether its elements are ranges.
    pub has_ranges: bool,
    /// Keys that go.
    pub removed: &'c [String],
    /// Elements that come.
    pub added: &'c [String],
}

/// Why nothing was changed.
#[derive(Debug)]
pub enum MapFault {
    /// Something here cannot say it; `nft` may.
    NotUnderstood,
    /// The kernel said no, or cannot be spoken to.
    Refused(io::Error),
}

impl fmt::Display for MapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapFault::NotUnderstood => f.write_str("an element of another kind"),
            MapFault::Refused(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for MapFault {}

/// A field of a key: its octets, and how a text of it is read.
#[derive(Clone, Copy)]
enum KeyField {
    Ipv4,
    Ipv6,
    Octet,
    Port,
}

/// One element with its ends.
struct Element<'c> {
    first: Vec<u8>,
    last: Vec<u8>,
    verdict: Option<&'c str>,
}

/// Changes elements of a table's sets and maps in one transaction.
///
/// # Errors
///
/// [`MapFault`]; nothing is changed then.
pub fn change_maps(family: &str, table: &str, changes: &[MapChange<'_>]) -> Result<(), MapFault> {
    let batch = batch(number_of(family), table, changes).ok_or(MapFault::NotUnderstood)?;
    let mut socket = Netlink::open().map_err(MapFault::Refused)?;
    socket.commit(batch).map_err(|fault| match fault {
        Fault::Refused(refusal) => MapFault::Refused(io::Error::from_raw_os_error(refusal.errno)),
        Fault::Socket(error) => MapFault::Refused(error),
    })
}

fn batch(family: u8, table: &str, changes: &[MapChange<'_>]) -> Option<Messages> {
    let mut batch = Messages::batch();
    for change in changes {
        let (keys, _) = change.kind.split_once(" : ").unwrap_or((change.kind, ""));
        let fields: Vec<KeyField> = keys.split(" . ").map(field).collect::<Option<_>>()?;
        for (kind, texts) in [(DELETE_ELEMENTS, change.removed), (NEW_ELEMENTS, change.added)] {
            let elements = texts.iter().map(|text| element(text, &fields));
            let elements: Vec<Element<'_>> = elements.collect::<Option<_>>()?;
            let mut elements = elements.iter().peekable();
            while elements.peek().is_some() {
                let flags = if kind == NEW_ELEMENTS { CREATE } else { 0 };
                batch.begin(kind, flags, family);
                batch.text(LIST_TABLE, table);
                batch.text(LIST_SET, change.name);
                batch.nested(LIST_ELEMENTS, |list| {
                    while list.message_bytes() < LIST_BYTES_MAX {
                        let Some(element) = elements.next() else { break };
                        write(list, element, fields.len() > 1, change.has_ranges);
                    }
                });
            }
        }
    }
    Some(batch)
}

fn field(word: &str) -> Option<KeyField> {
    Some(match word {
        "ipv4_addr" => KeyField::Ipv4,
        "ipv6_addr" => KeyField::Ipv6,
        "inet_proto" => KeyField::Octet,
        "inet_service" => KeyField::Port,
        _ => return None,
    })
}

/// The octets of a value.
fn value(text: &str, field: KeyField) -> Option<Vec<u8>> {
    Some(match field {
        KeyField::Octet => vec![text.parse::<u8>().ok()?],
        KeyField::Port => text.parse::<u16>().ok()?.to_be_bytes().to_vec(),
        KeyField::Ipv4 | KeyField::Ipv6 => match (text.parse::<IpAddr>().ok()?, field) {
            (IpAddr::V4(address), KeyField::Ipv4) => address.octets().to_vec(),
            (IpAddr::V6(address), KeyField::Ipv6) => address.octets().to_vec(),
            _ => return None,
        },
    })
}

/// First and last value of a range, a value, or all of them.
fn range(text: &str, field: KeyField) -> Option<(Vec<u8>, Vec<u8>)> {
    if let Some(all) = text.strip_suffix("/0") {
        let first = value(all, field)?;
        return Some((first.clone(), vec![255; first.len()]));
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((value(first, field)?, value(last, field)?))
}

fn element<'c>(text: &'c str, fields: &[KeyField]) -> Option<Element<'c>> {
    let (key, verdict) = match text.split_once(" : ") {
        Some((key, verdict)) => (key, Some(verdict)),
        None => (text, None),
    };
    let texts: Vec<&str> = key.split(" . ").collect();
    if texts.len() != fields.len() {
        return None;
    }
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for (text, field) in texts.into_iter().zip(fields) {
        let (low, high) = range(text, *field)?;
        for (key, octets) in [(&mut first, low), (&mut last, high)] {
            key.extend(octets);
            if fields.len() > 1 {
                // Each field of several takes whole words.
                key.resize(key.len().next_multiple_of(4), 0);
            }
        }
    }
    let is_known = verdict.is_none_or(|verdict| code_of(verdict).is_some());
    is_known.then_some(Element { first, last, verdict })
}

/// The kernel's number of a verdict, and its chain.
fn code_of(verdict: &str) -> Option<(i32, Option<&str>)> {
    Some(match verdict.split_once(' ') {
        None if verdict == "accept" => (libc::NF_ACCEPT, None),
        None if verdict == "drop" => (libc::NF_DROP, None),
        None if verdict == "return" => (-5, None),
        Some(("jump", chain)) => (-3, Some(chain)),
        Some(("goto", chain)) => (-4, Some(chain)),
        _ => return None,
    })
}

fn write(list: &mut Messages, element: &Element<'_>, is_concatenation: bool, has_ranges: bool) {
    list.nested(ELEMENT, |one| {
        one.nested(ELEMENT_KEY, |data| data.attribute(DATA_VALUE, &element.first));
        if is_concatenation && has_ranges {
            one.nested(ELEMENT_KEY_END, |data| data.attribute(DATA_VALUE, &element.last));
        }
        let Some((code, chain)) = element.verdict.and_then(code_of) else { return };
        one.nested(ELEMENT_DATA, |data| {
            data.nested(DATA_VERDICT, |verdict| {
                verdict.attribute(VERDICT_CODE, &code.to_be_bytes());
                if let Some(chain) = chain {
                    verdict.text(VERDICT_CHAIN, chain);
                }
            });
        });
    });
    if is_concatenation || !has_ranges {
        return;
    }
    // A range of one field ends where another element begins that is no member.
    if let Some(end) = next(&element.last) {
        list.nested(ELEMENT, |one| {
            one.attribute(ELEMENT_FLAGS, &INTERVAL_END.to_be_bytes());
            one.nested(ELEMENT_KEY, |data| data.attribute(DATA_VALUE, &end));
        });
    }
}

/// The number after one; nothing behind the last.
fn next(octets: &[u8]) -> Option<Vec<u8>> {
    let mut next = octets.to_vec();
    for octet in next.iter_mut().rev() {
        let (sum, is_over) = octet.overflowing_add(1);
        *octet = sum;
        if !is_over {
            return Some(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_take_whole_words_and_ranges_end_at_the_next_number() {
        let fields = [KeyField::Ipv4, KeyField::Octet, KeyField::Port];
        let one = element("10.0.0.0/0 . 6 . 80-90 : jump web", &fields);
        assert_eq!(one.expect("good").last[..4], [255; 4]);
        let one = element("10.0.0.8-10.0.0.15 . 6 . 80-90 : jump web", &fields).expect("good");
        assert_eq!(one.first, [10, 0, 0, 8, 6, 0, 0, 0, 0, 80, 0, 0]);
        assert_eq!(one.last, [10, 0, 0, 15, 6, 0, 0, 0, 0, 90, 0, 0]);
        assert_eq!(one.verdict.and_then(code_of), Some((-3, Some("web"))));
        let one = element("22", &[KeyField::Port]).expect("good");
        assert_eq!((one.first, one.verdict), (vec![0, 22], None));
        assert_eq!(next(&[1, 255]), Some(vec![2, 0]));
        assert_eq!(next(&[255, 255]), None);
    }

    #[test]
    fn what_is_not_understood_is_no_batch() {
        let batch_of = |kind: &str, added: &str| {
            let added = [added.to_owned()];
            let change =
                MapChange { name: "m", kind, has_ranges: true, removed: &[], added: &added };
            batch(1, "t", &[change]).is_some()
        };
        assert!(batch_of("ipv4_addr : verdict", "10.0.0.1 : drop"));
        for (kind, added) in [
            ("ether_addr : verdict", "10.0.0.1 : drop"),
            ("ipv4_addr : verdict", "2001:db8::1 : drop"),
            ("ipv4_addr : verdict", "10.0.0.1 . 6 : drop"),
            ("ipv4_addr : verdict", "10.0.0.1 : queue"),
            ("ipv4_addr : verdict", "10.0.0.1 counter : drop"),
            ("inet_service : verdict", "65536 : drop"),
        ] {
            assert!(!batch_of(kind, added), "{kind} {added}");
        }
    }
}
