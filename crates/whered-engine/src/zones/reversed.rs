//! Zones of reversed addresses: a prefix set served as a DNS blocklist (RFC 5782), and a database
//! served as TXT.
//!
//! Not for: the zone's own records (a master file has them), and which names are addresses
//! (`whered-dns`).
//!
//! ```text
//! 4.3.2.1.bl.example.com  A    -> the set's smallest member around 1.2.3.4, its value's address
//!                         TXT  -> its value's text, `$` replaced by 1.2.3.4
//! 4.3.2.1.origin.example  TXT  -> "64496 | 1.2.3.0/24 | DE": the fields of the database's record
//! ```
//!
//! Invariants: a database is the generation's; a set is live, and one that does not exist lists
//! nothing. At the same time: any number of threads, none waits. Cost: one look in the set or the
//! database; for a set no allocation of its own.

use std::cell::RefCell;
use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use whered_dns::{RecordType, Synthesise, Synthesised};
use whered_ip::LayeredSet;
use whered_mmdb::{ErrorKind, FieldPath, MmdbError};

use crate::clock;
use crate::databases::NamedDatabase;
use crate::prefix_sets::PrefixSets;

/// A longer text is cut: an answer should not need TCP.
pub const REVERSED_TEXT_SIZE_MAX: usize = 1020;
/// What stands between the fields of a database.
const SEPARATOR: &[u8] = b" | ";
const STRING_SIZE_MAX: usize = 255;

/// What a zone has at the addresses below its apex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReversedSource {
    /// The members of a prefix set are listed.
    Blocklist(BlocklistSource),
    /// A database tells of them.
    DatabaseTxt(DatabaseTxtSource),
}

impl ReversedSource {
    /// The TTL of what is answered, and the longest of what is denied.
    pub(crate) fn ttl_seconds(&self) -> u32 {
        match self {
            ReversedSource::Blocklist(source) => source.ttl_seconds,
            ReversedSource::DatabaseTxt(source) => source.ttl_seconds,
        }
    }
}

/// A prefix set as a blocklist.
///
/// A member's value says more, as in rbldnsd's files: `127.0.0.4` (or `:4`) is the address, then
/// `:` and the text, an empty one for no TXT; `::text` and any other value are the text alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlocklistSource {
    /// The set's name.
    pub set: String,
    /// The answer to A at members whose value has none.
    pub address: Ipv4Addr,
    /// The answer to TXT at members whose value has none; `$` is the address, `$$` a dollar sign.
    /// Without it such members have no TXT.
    pub text: Option<String>,
    /// The TTL of what is answered.
    pub ttl_seconds: u32,
}

/// A database as TXT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseTxtSource {
    /// The database's name.
    pub database: String,
    /// What stands in the text, with ` | ` between; a field that the record lacks is empty.
    pub fields: Vec<TxtField>,
    /// The TTL of what is answered.
    pub ttl_seconds: u32,
}

/// A part of a database's TXT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxtField {
    /// The network around the address for which the answer is the same.
    Network,
    /// A field of the record.
    Path(FieldPath),
}

/// The addresses of one generation's reversed zones, with the sets of this moment. Of a set one
/// version answers as long as nobody asks about another zone: a batch looks for its set once.
pub struct LiveZones<'a> {
    sources: &'a [Option<ReversedSource>],
    databases: &'a [Arc<NamedDatabase>],
    prefix_sets: &'a PrefixSets,
    now_millis: u64,
    /// The zone that was asked about last, and the version of its set.
    last: RefCell<Option<(usize, Option<Arc<LayeredSet>>)>>,
}

impl<'a> LiveZones<'a> {
    /// What answers at the addresses below each zone's apex, with these databases and sets; `None`
    /// when nothing does.
    pub(crate) fn new(
        sources: &'a [Option<ReversedSource>],
        databases: &'a [Arc<NamedDatabase>],
        prefix_sets: &'a PrefixSets,
    ) -> Option<LiveZones<'a>> {
        let has_some = sources.iter().any(Option::is_some);
        let now_millis = if has_some { clock::now_millis() } else { 0 };
        let last = RefCell::default();
        has_some.then_some(LiveZones { sources, databases, prefix_sets, now_millis, last })
    }
}

impl Synthesise for LiveZones<'_> {
    fn synthesise(
        &self,
        zone: usize,
        address: IpAddr,
        record_type: RecordType,
        data: &mut Vec<u8>,
    ) -> Synthesised {
        match self.sources.get(zone) {
            Some(Some(ReversedSource::Blocklist(source))) => {
                let answered = self.with_set(zone, source, |set| {
                    let member = set.longest_match(address, self.now_millis)?;
                    Some(source.answer(member.value, address, record_type, data))
                });
                answered.flatten().unwrap_or(Synthesised::Absent)
            }
            Some(Some(ReversedSource::DatabaseTxt(source))) => {
                let of_name = |named: &&Arc<NamedDatabase>| named.name == source.database;
                match self.databases.iter().find(of_name) {
                    Some(named) => source.answer(named, address, record_type, data),
                    None => Synthesised::Failed,
                }
            }
            _ => Synthesised::Absent,
        }
    }

    fn prefetch(&self, asked: &[(usize, IpAddr)]) {
        for asked in asked.chunk_by(|one, other| one.0 == other.0) {
            let Some(&(zone, _)) = asked.first() else { continue };
            if let Some(Some(ReversedSource::Blocklist(source))) = self.sources.get(zone) {
                let addresses = asked.iter().map(|(_, address)| *address);
                self.with_set(zone, source, |set| set.prefetch(addresses));
            }
        }
    }
}

impl LiveZones<'_> {
    /// Looks into the set of a zone, if there is one.
    fn with_set<R>(
        &self,
        zone: usize,
        source: &BlocklistSource,
        look: impl FnOnce(&LayeredSet) -> R,
    ) -> Option<R> {
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_none_or(|(known, _)| *known != zone) {
            *last = Some((zone, self.prefix_sets.version(&source.set)));
        }
        let (_, set) = last.as_ref()?;
        set.as_deref().map(look)
    }
}

impl fmt::Debug for LiveZones<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveZones").finish_non_exhaustive()
    }
}

impl BlocklistSource {
    fn answer(
        &self,
        value: Option<&[u8]>,
        address: IpAddr,
        record_type: RecordType,
        data: &mut Vec<u8>,
    ) -> Synthesised {
        let (own_address, own_text) = value.map_or((None, None), read_value);
        match record_type {
            RecordType::A => data.extend(own_address.unwrap_or(self.address).octets()),
            RecordType::TXT => {
                let text = own_text.or(self.text.as_deref().map(str::as_bytes));
                let Some(text) = text.filter(|text| !text.is_empty()) else {
                    return Synthesised::NoData;
                };
                put_template(text, address, data);
                to_strings(data);
            }
            _ => return Synthesised::NoData,
        }
        Synthesised::Record { ttl_seconds: self.ttl_seconds }
    }
}

/// The address and the text that a member's value has.
fn read_value(value: &[u8]) -> (Option<Ipv4Addr>, Option<&[u8]>) {
    let (short, rest) = match value.strip_prefix(b":") {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let (head, text) = match rest.iter().position(|byte| *byte == b':') {
        Some(colon) => (&rest[..colon], Some(rest[colon + 1..].trim_ascii())),
        None => (rest, None),
    };
    if short && head.is_empty() {
        return (None, text);
    }
    let head = str::from_utf8(head).unwrap_or_default().trim();
    let last = || head.parse().ok().filter(|_| short).map(|last| Ipv4Addr::new(127, 0, 0, last));
    let whole = head.parse().ok().filter(|address: &Ipv4Addr| address.is_loopback());
    match whole.or_else(last) {
        Some(address) => (Some(address), text),
        None => (None, Some(value.trim_ascii())),
    }
}

/// Appends a text with the address in the place of `$`.
fn put_template(text: &[u8], address: IpAddr, data: &mut Vec<u8>) {
    let mut rest = text;
    // More would be cut anyway.
    while data.len() <= REVERSED_TEXT_SIZE_MAX {
        let Some(dollar) = rest.iter().position(|byte| *byte == b'$') else {
            data.extend_from_slice(&rest[..rest.len().min(REVERSED_TEXT_SIZE_MAX)]);
            return;
        };
        data.extend_from_slice(&rest[..dollar.min(REVERSED_TEXT_SIZE_MAX)]);
        rest = &rest[dollar + 1..];
        match rest.strip_prefix(b"$") {
            Some(after) => {
                data.push(b'$');
                rest = after;
            }
            None => write!(data, "{address}").expect("memory takes everything"),
        }
    }
}

/// Makes character strings of a text (RFC 1035, 3.3.14): at most 255 bytes, each after its length.
fn to_strings(data: &mut Vec<u8>) {
    data.truncate(REVERSED_TEXT_SIZE_MAX);
    let mut at = 0;
    while at == 0 || at < data.len() {
        let length = (data.len() - at).min(STRING_SIZE_MAX);
        data.insert(at, length as u8);
        at += 1 + length;
    }
}

impl DatabaseTxtSource {
    fn answer(
        &self,
        named: &NamedDatabase,
        address: IpAddr,
        record_type: RecordType,
        data: &mut Vec<u8>,
    ) -> Synthesised {
        match self.put_text(named, address, record_type, data) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::AddressFamily => Synthesised::Absent,
            Err(_) => Synthesised::Failed,
        }
    }

    fn put_text(
        &self,
        named: &NamedDatabase,
        address: IpAddr,
        record_type: RecordType,
        data: &mut Vec<u8>,
    ) -> Result<Synthesised, MmdbError> {
        let found = named.answer(address)?;
        let Some(record) = found.record else { return Ok(Synthesised::Absent) };
        if record_type != RecordType::TXT {
            return Ok(Synthesised::NoData);
        }
        for (index, field) in self.fields.iter().enumerate() {
            if index > 0 {
                data.extend_from_slice(SEPARATOR);
            }
            match field {
                TxtField::Network => {
                    write!(data, "{}", found.prefix).expect("memory takes everything");
                }
                TxtField::Path(path) => {
                    if let Some(value) = named.field(record, path)? {
                        value.write_text(data);
                    }
                }
            }
        }
        to_strings(data);
        Ok(Synthesised::Record { ttl_seconds: self.ttl_seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_an_address_a_text_or_both() {
        let address = |last| Some(Ipv4Addr::new(127, 0, 0, last));
        let text = |text: &'static str| Some(text.as_bytes());
        let cases = [
            ("127.0.0.4", address(4), None),
            ("127.0.0.4:", address(4), text("")),
            ("127.0.0.4:spam from $", address(4), text("spam from $")),
            (":127.0.0.4: spam ", address(4), text("spam")),
            (":4", address(4), None),
            (":4:a:b", address(4), text("a:b")),
            ("::only text", None, text("only text")),
            ("only text", None, text("only text")),
            ("4", None, text("4")),
            ("4:5", None, text("4:5")),
            ("192.0.2.1:x", None, text("192.0.2.1:x")),
            (":256:x", None, text(":256:x")),
            ("", None, text("")),
        ];
        for (value, own_address, own_text) in cases {
            assert_eq!(read_value(value.as_bytes()), (own_address, own_text), "{value}");
        }
    }

    #[test]
    fn the_address_stands_for_a_dollar_sign_and_long_texts_are_cut() {
        let put = |text: &str| {
            let mut data = Vec::new();
            put_template(text.as_bytes(), "192.0.2.7".parse().unwrap(), &mut data);
            to_strings(&mut data);
            data
        };
        assert_eq!(put("see $ for $$5 $"), b"\x1esee 192.0.2.7 for $5 192.0.2.7".to_vec());
        assert_eq!(put(""), [0]);
        for length in [255, 256, 1019, 1020, 1021, 90_000] {
            let data = put(&"x".repeat(length));
            let size = length.min(REVERSED_TEXT_SIZE_MAX);
            assert_eq!((data.len(), data[0]), (size + size.div_ceil(255), 255), "{length}");
        }
        assert_eq!(put(&"$".repeat(90_001)).len(), REVERSED_TEXT_SIZE_MAX + 4);
    }
}
