//! Writes MaxMind DB files: networks and values in, a file's bytes out.
//!
//! Not for editing a file in place, and not for legacy files.
//!
//! Choices, where the specification leaves them to the writer:
//!
//! - The more specific network wins, in whatever order they come; an equal one replaces.
//! - Neighbouring networks with equal values are merged in the file, unless
//!   [`Writer::set_merging`] says otherwise.
//! - IPv4 networks of an IPv6 database stand under `::/96`. `::ffff:0:0/96` (mapped addresses) and
//!   `2002::/16` (6to4) lead to the same subtree unless nothing stands at `::/96`; a wider network
//!   around them (`2000::/3`) gives way. A network inside `::ffff:0:0/96` is the IPv4 network that
//!   it stands for; one inside `2002::/16` is refused, since the range leads elsewhere.
//!   `2001::/32` (Teredo) is no alias: there the bits behind the prefix are the server's address,
//!   not the client's; [`Writer::set_teredo_alias`] adds it for those who want files as
//!   MaxMind's. [`Writer::set_ipv4_aliases`] turns them off.
//! - Equal values and equal parts of values are written once; values that no network has any more
//!   are not written.
//! - Equal calls in equal order give equal bytes.
//!
//! A value that the reader would refuse cannot be inserted: the limits are the same.
//! A writer has one owner. Inserting costs one step per bit of the prefix plus the value's size;
//! finishing is linear in the tree.

mod data;
mod parts;
mod tree;

use crate::error::{ErrorKind, MmdbError};
use crate::metadata::{MARKER, MAX_METADATA_BYTES};
use crate::path::FieldPath;
use crate::tree::{Layout, SEPARATOR_BYTES};
use crate::value::Value;
use crate::walk::{MAX_DEPTH, MAX_PAYLOAD_BYTES_PER_RECORD, MAX_VALUES_PER_RECORD};
use data::DataSection;
use parts::Parts;
use std::collections::HashSet;
use tree::{BuiltTree, Trie};
use whered_ip::Prefix;

/// The metadata of a new database.
///
/// ```
/// use whered_mmdb::WriterOptions;
/// let options = WriterOptions { database_type: "Offices".to_string(), ..Default::default() };
/// assert_eq!(options.ip_version, 6);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    /// The structure of the records, such as `GeoLite2-City`.
    pub database_type: String,
    /// Language code and text.
    pub description: Vec<(String, String)>,
    /// The languages of localized names.
    pub languages: Vec<String>,
    /// 4, or 6 for both kinds of addresses.
    pub ip_version: u16,
    /// Bits of a tree record: 24, 28 or 32; `None` for the smallest that fits.
    pub record_size_bits: Option<u16>,
    /// When the data were made: seconds since 1970. 0 (unknown) is written as 1, since
    /// libmaxminddb takes a file with 0 for a broken one.
    pub build_epoch_seconds: u64,
}

impl Default for WriterOptions {
    /// IP version 6, the smallest record size, no texts, build time unknown.
    fn default() -> WriterOptions {
        WriterOptions {
            database_type: String::new(),
            description: Vec::new(),
            languages: Vec::new(),
            ip_version: 6,
            record_size_bits: None,
            build_epoch_seconds: 0,
        }
    }
}

/// Collects networks and values and writes them as a MaxMind DB file.
///
/// ```
/// use whered_mmdb::{Database, Value, Writer, WriterOptions};
/// let mut writer = Writer::new(WriterOptions::default())?;
/// writer.insert("2001:db8::/32".parse()?, Value::Uint32(6))?;
/// writer.insert("192.0.2.0/24".parse()?, Value::Uint32(4))?;
/// let database = Database::from_bytes(writer.finish()?)?;
/// let mapped = database.lookup("::ffff:192.0.2.1".parse()?)?;
/// assert_eq!(database.record(mapped.record.expect("the alias leads there"))?, Value::Uint32(4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer {
    options: WriterOptions,
    trie: Trie,
    parts: Parts,
    /// The part that each [`StoredValue`] stands for, or [`RESERVED`].
    stored: Vec<u32>,
    /// The [`StoredValue`] of each part that is a record, or [`RESERVED`].
    numbers: Vec<u32>,
    /// The [`StoredValue`] for no record, or [`RESERVED`].
    nothing: u32,
    is_last_winning: bool,
    has_aliases: bool,
    is_merging: bool,
    has_teredo_alias: bool,
}

/// In place of a number: there is none yet.
const RESERVED: u32 = u32::MAX;
/// In place of a part: the networks have no record.
const NOTHING: u32 = u32::MAX - 1;

/// A value that a [`Writer`] holds already: [`Writer::store`] gives it, [`Writer::insert_stored`]
/// takes it, and networks that share a record need not pay for it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoredValue(u32);

impl Writer {
    /// An empty writer.
    ///
    /// # Errors
    ///
    /// An IP version other than 4 and 6, a record size other than 24, 28 and 32 bits, a language
    /// that has two descriptions.
    pub fn new(options: WriterOptions) -> Result<Writer, MmdbError> {
        check_options(&options)?;
        Ok(Writer {
            options,
            trie: Trie::new(),
            parts: Parts::default(),
            stored: Vec::new(),
            numbers: Vec::new(),
            nothing: RESERVED,
            is_last_winning: false,
            has_aliases: true,
            has_teredo_alias: false,
            is_merging: true,
        })
    }

    /// Other metadata than those at the start. A tree of IP version 6 becomes one of version 4 if
    /// all its networks are IPv4 networks.
    ///
    /// # Errors
    ///
    /// As [`new`](Writer::new); an IPv6 network in what is to be of IP version 4, or any network
    /// in a tree of version 4 that is to be of version 6.
    pub fn set_options(&mut self, options: WriterOptions) -> Result<(), MmdbError> {
        check_options(&options)?;
        match (self.options.ip_version, options.ip_version) {
            (6, 4) if !self.trie.keep_ipv4() => {
                let allowed = "IPv4 networks: the database is of IP version 4";
                return Err(MmdbError::new(ErrorKind::AddressFamily, "IPv6 networks", allowed));
            }
            (4, 6) if !self.stored.is_empty() => {
                return Err(refuse("networks in a tree of IP version 4", "a new writer"));
            }
            _ => {}
        }
        self.options = options;
        Ok(())
    }

    /// The metadata that the file will have.
    #[must_use]
    pub fn options(&self) -> &WriterOptions {
        &self.options
    }

    /// Whether `::ffff:0:0/96` and `2002::/16` shall lead to the IPv4 networks of an IPv6
    /// database; they do unless told otherwise, before the first network comes.
    pub fn set_ipv4_aliases(&mut self, has_aliases: bool) {
        self.has_aliases = has_aliases;
    }

    /// Whether neighbouring networks with equal values become one in the file; they do unless told
    /// otherwise. A copy whose every network shall be as it was keeps them apart.
    pub fn set_merging(&mut self, is_merging: bool) {
        self.is_merging = is_merging;
    }

    /// Whether a network takes all its addresses from those inserted before it, also from more
    /// specific ones; unless told so, the more specific network wins.
    pub fn set_last_wins(&mut self, is_last_winning: bool) {
        self.is_last_winning = is_last_winning;
    }

    /// Whether `2001::/32` (Teredo) shall lead there as well, as it does in MaxMind's own files;
    /// it does not unless told so before the first network comes, and never without the other
    /// aliases.
    pub fn set_teredo_alias(&mut self, has_teredo_alias: bool) {
        self.has_teredo_alias = has_teredo_alias;
    }

    /// Takes a value in, for any number of networks. Cost: linear in the value.
    ///
    /// ```
    /// use whered_mmdb::{Database, Value, Writer, WriterOptions};
    /// let mut writer = Writer::new(WriterOptions::default())?;
    /// let shared = writer.store(&Value::Uint32(7))?;
    /// writer.insert_stored("192.0.2.0/24".parse()?, shared)?;
    /// writer.insert_stored("198.51.100.0/24".parse()?, shared)?;
    /// let database = Database::from_bytes(writer.finish()?)?;
    /// let record = database.lookup("198.51.100.1".parse()?)?.record.expect("it was inserted");
    /// assert_eq!(database.record(record)?, Value::Uint32(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value's faults, as [`insert`](Writer::insert) says.
    pub fn store(&mut self, value: &Value) -> Result<StoredValue, MmdbError> {
        Allowance::new().check(value, 0)?;
        let part = self.parts.store(value)?;
        let index = part as usize;
        if index >= self.numbers.len() {
            self.numbers.resize(index + 1, RESERVED);
        }
        if self.numbers[index] == RESERVED {
            self.numbers[index] = self.number_of(part)?;
        }
        Ok(StoredValue(self.numbers[index]))
    }

    fn number_of(&mut self, part: u32) -> Result<u32, MmdbError> {
        let number = u32::try_from(self.stored.len()).ok().filter(|number| *number < RESERVED);
        let number = number.ok_or_else(|| refuse("too many stored values", "below 2^32 values"))?;
        self.stored.push(part);
        Ok(number)
    }

    /// A value for networks whose record is known later: [`fill`](Writer::fill) says it.
    ///
    /// # Errors
    ///
    /// 2^32 values.
    pub fn reserve(&mut self) -> Result<StoredValue, MmdbError> {
        self.number_of(RESERVED).map(StoredValue)
    }

    /// A value for networks that have no record, though a wider network around them has one.
    ///
    /// ```
    /// use whered_mmdb::{Database, Value, Writer, WriterOptions};
    /// let mut writer = Writer::new(WriterOptions::default())?;
    /// writer.insert("192.0.2.0/24".parse()?, Value::Uint32(7))?;
    /// let nothing = writer.store_nothing()?;
    /// writer.insert_stored("192.0.2.128/25".parse()?, nothing)?;
    /// let database = Database::from_bytes(writer.finish()?)?;
    /// assert!(database.lookup("192.0.2.1".parse()?)?.record.is_some());
    /// assert!(database.lookup("192.0.2.200".parse()?)?.record.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// 2^32 values.
    pub fn store_nothing(&mut self) -> Result<StoredValue, MmdbError> {
        if self.nothing == RESERVED {
            self.nothing = self.number_of(NOTHING)?;
        }
        Ok(StoredValue(self.nothing))
    }

    /// Says what a [reserved](Writer::reserve) value is.
    ///
    /// ```
    /// use whered_mmdb::{Database, Value, Writer, WriterOptions};
    /// let mut writer = Writer::new(WriterOptions::default())?;
    /// let later = writer.reserve()?;
    /// writer.insert_stored("192.0.2.0/24".parse()?, later)?;
    /// writer.fill(later, &Value::Uint32(7))?;
    /// let database = Database::from_bytes(writer.finish()?)?;
    /// let record = database.lookup("192.0.2.1".parse()?)?.record.expect("it was inserted");
    /// assert_eq!(database.record(record)?, Value::Uint32(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value's faults, as [`insert`](Writer::insert) says; a value that was not reserved.
    pub fn fill(&mut self, reserved: StoredValue, value: &Value) -> Result<(), MmdbError> {
        Allowance::new().check(value, 0)?;
        let part = self.parts.store(value)?;
        match self.stored.get_mut(reserved.0 as usize) {
            Some(stored) if *stored == RESERVED => *stored = part,
            _ => return Err(refuse(format!("stored value {}", reserved.0), "reserved values")),
        }
        Ok(())
    }

    /// [`insert`](Writer::insert) with a value that was stored before.
    ///
    /// # Errors
    ///
    /// The network's faults, as [`insert`](Writer::insert) says; a value that this writer never
    /// gave out.
    pub fn insert_stored(&mut self, prefix: Prefix, value: StoredValue) -> Result<(), MmdbError> {
        if value.0 as usize >= self.stored.len() {
            let allowed = format!("the {} values of this writer", self.stored.len());
            return Err(refuse(format!("stored value {}", value.0), allowed));
        }
        let (bits, length_bits) = self.place_in_tree(prefix)?;
        self.trie.insert(bits, length_bits, value.0, self.is_last_winning)
    }

    /// Gives all addresses of a network a value, but for those of more specific networks.
    ///
    /// # Errors
    ///
    /// An IPv6 network in a database of IP version 4, or inside of a range that leads to the IPv4
    /// networks; a value beyond the limits
    /// ([`crate::MAX_DEPTH`], [`crate::MAX_VALUES_PER_RECORD`],
    /// [`crate::MAX_PAYLOAD_BYTES_PER_RECORD`]), one with a field or map too large for the format
    /// or with a key twice in a map; distinct values beyond 4 GiB. The networks are then as
    /// before.
    #[expect(clippy::needless_pass_by_value, reason = "the caller has no use for the value after")]
    pub fn insert(&mut self, prefix: Prefix, value: Value) -> Result<(), MmdbError> {
        let (bits, length_bits) = self.place_in_tree(prefix)?;
        let value = self.store(&value)?;
        self.trie.insert(bits, length_bits, value.0, self.is_last_winning)
    }

    /// The bits that lead from the tree's root to a network, and how many.
    fn place_in_tree(&self, prefix: Prefix) -> Result<(u128, u8), MmdbError> {
        let is_ipv4_tree = self.options.ip_version == 4;
        let has_aliases = self.has_aliases && !is_ipv4_tree;
        let prefix = if has_aliases { prefix.to_canonical() } else { prefix };
        if has_aliases {
            self.refuse_inside_alias(prefix)?;
        }
        match (prefix.address(), is_ipv4_tree) {
            (std::net::IpAddr::V4(address), true) => {
                Ok((u128::from(address.to_bits()) << 96, prefix.length_bits()))
            }
            (std::net::IpAddr::V4(address), false) => {
                Ok((u128::from(address.to_bits()), 96 + prefix.length_bits()))
            }
            (std::net::IpAddr::V6(address), false) => Ok((address.to_bits(), prefix.length_bits())),
            (std::net::IpAddr::V6(_), true) => Err(MmdbError::new(
                ErrorKind::AddressFamily,
                format!("the IPv6 network {prefix}"),
                "IPv4 networks: the database is of IP version 4",
            )),
        }
    }

    /// Refuses a value that could not be inserted.
    pub(crate) fn check(value: &Value) -> Result<(), MmdbError> {
        Allowance::new().check(value, 0)
    }

    /// Whether a network cannot be inserted since its range leads to the IPv4 networks.
    pub(crate) fn leads_to_ipv4(&self, prefix: Prefix) -> bool {
        let has_aliases = self.has_aliases && self.options.ip_version == 6;
        has_aliases && self.refuse_inside_alias(prefix.to_canonical()).is_err()
    }

    /// A network inside a range that leads to the IPv4 networks could not be found.
    fn refuse_inside_alias(&self, prefix: Prefix) -> Result<(), MmdbError> {
        let std::net::IpAddr::V6(address) = prefix.address() else { return Ok(()) };
        let ranges = [Some(tree::SIX_TO_FOUR), self.has_teredo_alias.then_some(tree::TEREDO)];
        for (bits, length_bits) in ranges.into_iter().flatten() {
            let is_inside = prefix.length_bits() >= length_bits
                && (address.to_bits() ^ bits) >> (128 - length_bits) == 0;
            if is_inside {
                let range = std::net::Ipv6Addr::from_bits(bits);
                return Err(refuse(
                    format!(
                        "the network {prefix} inside {range}/{length_bits}, which leads to the \
                         IPv4 networks"
                    ),
                    "IPv4 networks, networks outside of that range, a database without the \
                     aliases of IPv4 (--no-ipv4-aliases)",
                ));
            }
        }
        Ok(())
    }

    /// The file's bytes.
    ///
    /// # Errors
    ///
    /// A record size that is too small for the tree and the data, more than 2^32 nodes, a data
    /// section beyond 4 GiB, a reserved value that was never filled, metadata beyond 128 KiB or
    /// with the metadata marker in a text.
    pub fn finish(mut self) -> Result<Vec<u8>, MmdbError> {
        if self.has_aliases && self.options.ip_version == 6 {
            self.trie.add_aliases(self.has_teredo_alias)?;
        }
        if self.stored.contains(&RESERVED) {
            return Err(refuse("a reserved value that was never filled", "values of all networks"));
        }
        let tree = self.trie.build(self.is_merging, &self.stored)?;
        self.trie = Trie::new();
        let mut data = DataSection::new(&self.parts);
        for part in tree.records() {
            data.add_record(part)?;
        }
        let data_bytes = data.bytes().len();
        let record_size_bits = self.options.record_size_bits.map_or_else(
            || smallest_record_size(&tree, data_bytes),
            |bits| check_record_size(bits, &tree, data_bytes),
        )?;
        let layout = Layout::from_record_size(u64::from(record_size_bits))
            .expect("the record size was checked when the writer was made");
        let metadata = metadata_section(&self.options, record_size_bits, tree.node_count())?;
        let mut out = Vec::with_capacity(
            tree.node_count() as usize * layout.node_bytes() + data_bytes + metadata.len() + 32,
        );
        tree.write(layout, |part| data.offset(part), &mut out);
        out.extend([0; SEPARATOR_BYTES]);
        out.extend_from_slice(data.bytes());
        out.extend(metadata);
        Ok(out)
    }
}

fn refuse(found: impl Into<String>, allowed: impl Into<String>) -> MmdbError {
    MmdbError::new(ErrorKind::Writing, found, allowed)
}

fn check_options(options: &WriterOptions) -> Result<(), MmdbError> {
    if !matches!(options.ip_version, 4 | 6) {
        let found = format!("IP version {}", options.ip_version);
        return Err(refuse(found, "4 or 6"));
    }
    if let Some(bits) = options.record_size_bits
        && Layout::from_record_size(u64::from(bits)).is_none()
    {
        return Err(refuse(format!("records of {bits} bits"), "24, 28 or 32 bits"));
    }
    let mut languages = HashSet::new();
    for (language, _) in &options.description {
        if !languages.insert(language) {
            return Err(refuse(format!("two descriptions in {language:?}"), "one a language"));
        }
    }
    Ok(())
}

/// The largest number that a record of this tree can hold.
fn largest_record(tree: &BuiltTree, data_bytes: usize) -> u64 {
    u64::from(tree.node_count()) + SEPARATOR_BYTES as u64 + data_bytes as u64
}

fn smallest_record_size(tree: &BuiltTree, data_bytes: usize) -> Result<u16, MmdbError> {
    let mut result = Ok(24);
    for bits in [24, 28, 32] {
        result = check_record_size(bits, tree, data_bytes);
        if result.is_ok() {
            break;
        }
    }
    result
}

fn check_record_size(bits: u16, tree: &BuiltTree, data_bytes: usize) -> Result<u16, MmdbError> {
    let largest = largest_record(tree, data_bytes);
    if largest >> bits == 0 {
        return Ok(bits);
    }
    Err(refuse(
        format!("{} nodes and {data_bytes} bytes of data", tree.node_count()),
        format!("up to {} of both together with records of {bits} bits", (1_u64 << bits) - 1),
    ))
}

fn metadata_section(
    options: &WriterOptions,
    record_size_bits: u16,
    node_count: u32,
) -> Result<Vec<u8>, MmdbError> {
    let text = |text: &String| Value::String(text.clone());
    let description = options.description.iter().map(|(key, value)| (key.clone(), text(value)));
    let entries = [
        ("binary_format_major_version", Value::Uint16(2)),
        ("binary_format_minor_version", Value::Uint16(0)),
        ("build_epoch", Value::Uint64(options.build_epoch_seconds.max(1))),
        ("database_type", text(&options.database_type)),
        ("description", Value::Map(description.collect())),
        ("ip_version", Value::Uint16(options.ip_version)),
        ("languages", Value::Array(options.languages.iter().map(text).collect())),
        ("node_count", Value::Uint32(node_count)),
        ("record_size", Value::Uint16(record_size_bits)),
    ];
    let map = entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
    let mut out = MARKER.to_vec();
    data::write_inline(&Value::Map(map), &mut out);
    if out.len() > MAX_METADATA_BYTES {
        let found = format!("metadata of {} bytes", out.len());
        return Err(refuse(found, format!("{MAX_METADATA_BYTES} bytes")));
    }
    if out.windows(MARKER.len()).skip(1).any(|window| window == MARKER) {
        return Err(refuse("the metadata marker inside a text", "texts without that marker"));
    }
    Ok(out)
}

/// A key that a map has twice. Most maps are so small that a set of their keys would cost more
/// than comparing each with each.
fn repeated_key(pairs: &[(String, Value)]) -> Option<&str> {
    const FEW: usize = 16;
    let mut keys = HashSet::new();
    let mut rest = pairs;
    while let [(key, _), later @ ..] = rest {
        let is_repeated = if pairs.len() <= FEW {
            later.iter().any(|(other, _)| other == key)
        } else {
            !keys.insert(key)
        };
        if is_repeated {
            return Some(key);
        }
        rest = later;
    }
    None
}

/// The remaining budget of a value that is inserted.
struct Allowance {
    values: usize,
    payload_bytes: usize,
}

impl Allowance {
    fn new() -> Allowance {
        Allowance { values: MAX_VALUES_PER_RECORD, payload_bytes: MAX_PAYLOAD_BYTES_PER_RECORD }
    }

    fn take(&mut self, payload_bytes: usize) -> Result<(), MmdbError> {
        if payload_bytes > data::MAX_FIELD_SIZE {
            let found = format!("a field of {payload_bytes} bytes");
            return Err(refuse(found, format!("{} bytes", data::MAX_FIELD_SIZE)));
        }
        self.values = self.values.checked_sub(1).ok_or_else(|| {
            refuse("too many values in a record", format!("{MAX_VALUES_PER_RECORD} values"))
        })?;
        self.payload_bytes = self.payload_bytes.checked_sub(payload_bytes).ok_or_else(|| {
            refuse("too much text in a record", format!("{MAX_PAYLOAD_BYTES_PER_RECORD} bytes"))
        })?;
        Ok(())
    }

    /// Refuses what the reader would refuse.
    fn check(&mut self, value: &Value, depth: usize) -> Result<(), MmdbError> {
        let payload_bytes = match value {
            Value::String(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        self.take(payload_bytes)?;
        let is_container = matches!(value, Value::Map(_) | Value::Array(_));
        if is_container && depth == MAX_DEPTH {
            return Err(refuse("a value nested too deep", format!("{MAX_DEPTH} levels")));
        }
        match value {
            Value::Map(pairs) => {
                if let Some(key) = repeated_key(pairs) {
                    return Err(refuse("a key twice in a map", "each key once").within(key));
                }
                for (key, value) in pairs {
                    self.take(key.len())?;
                    self.check(value, depth + 1)
                        .map_err(|error| error.within(&FieldPath::escape(key)))?;
                }
            }
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    self.check(value, depth + 1)
                        .map_err(|error| error.within(&index.to_string()))?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn stored_values_give_the_same_bytes_as_inserted_ones() {
        let value = Value::String("a shared record".to_string());
        let mut inserted = Writer::new(WriterOptions::default()).unwrap();
        let mut stored = Writer::new(WriterOptions::default()).unwrap();
        let shared = stored.store(&value).unwrap();
        for network in ["192.0.2.0/24", "198.51.100.0/24", "2001:db8::/32"] {
            inserted.insert(prefix(network), value.clone()).unwrap();
            stored.insert_stored(prefix(network), shared).unwrap();
        }
        assert_eq!(stored.finish().unwrap(), inserted.finish().unwrap());
    }

    #[test]
    fn a_value_that_was_never_stored_is_refused() {
        let mut other = Writer::new(WriterOptions::default()).unwrap();
        let foreign = other.store(&Value::Boolean(true)).unwrap();
        let mut writer = Writer::new(WriterOptions::default()).unwrap();
        assert!(writer.insert_stored(prefix("192.0.2.0/24"), foreign).is_err());
    }

    #[test]
    fn a_network_inside_of_an_alias_is_taken_as_ipv4_or_refused() {
        let mut writer = Writer::new(WriterOptions::default()).unwrap();
        writer.insert(prefix("192.0.2.0/24"), Value::Uint32(4)).unwrap();
        writer.insert(prefix("::ffff:198.51.100.0/120"), Value::Uint32(5)).unwrap();
        for network in ["2002::/16", "2002:c633:6400::/40", "2002:c633:6400:1::/64"] {
            let error = writer.insert(prefix(network), Value::Uint32(6)).unwrap_err().to_string();
            assert!(error.contains(network) && error.contains("2002::/16"), "{error}");
        }
        writer.insert(prefix("2000::/3"), Value::Uint32(7)).unwrap();
        writer.insert(prefix("2001:0:1::/48"), Value::Uint32(8)).unwrap();
        let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
        let number = |address: &str| {
            let found = database.lookup(address.parse().unwrap()).unwrap();
            found.record.map(|record| database.record(record).unwrap())
        };
        for (address, found) in [
            ("198.51.100.7", Some(5)),
            ("::ffff:198.51.100.7", Some(5)),
            ("2002:c633:6407::1", Some(5)),
            ("192.0.2.1", Some(4)),
            ("::ffff:192.0.2.1", Some(4)),
            ("2001:0:1::1", Some(8)),
            ("2003::1", Some(7)),
        ] {
            assert_eq!(number(address), found.map(Value::Uint32), "{address}");
        }
    }

    #[test]
    fn without_aliases_every_network_stands_where_it_is_written() {
        let mut writer = Writer::new(WriterOptions::default()).unwrap();
        writer.set_ipv4_aliases(false);
        for network in ["::ffff:198.51.100.0/120", "2002:c633:6400::/40"] {
            writer.insert(prefix(network), Value::Uint32(5)).unwrap();
        }
        let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
        let found = database.networks().map(|item| item.unwrap().0.to_string());
        assert_eq!(found.collect::<Vec<_>>(), ["::ffff:198.51.100.0/120", "2002:c633:6400::/40"]);
    }

    #[test]
    fn a_network_inside_of_the_teredo_alias_is_refused() {
        let mut writer = Writer::new(WriterOptions::default()).unwrap();
        writer.set_teredo_alias(true);
        assert!(writer.insert(prefix("2001:0:1::/48"), Value::Uint32(8)).is_err());
        writer.insert(prefix("2001:1::/32"), Value::Uint32(8)).unwrap();
    }

    #[test]
    fn a_tree_of_ipv4_networks_becomes_one_of_ip_version_4() {
        let options = |ip_version| WriterOptions { ip_version, ..WriterOptions::default() };
        let mut expected = Writer::new(options(4)).unwrap();
        let mut changed = Writer::new(options(6)).unwrap();
        for writer in [&mut expected, &mut changed] {
            writer.insert(prefix("192.0.2.0/24"), Value::Uint32(4)).unwrap();
        }
        changed.set_options(options(4)).unwrap();
        assert_eq!(changed.finish().unwrap(), expected.finish().unwrap());
        let mut mixed = Writer::new(options(6)).unwrap();
        mixed.insert(prefix("2001:db8::/32"), Value::Uint32(6)).unwrap();
        assert!(mixed.set_options(options(4)).is_err());
    }

    #[test]
    fn the_last_network_wins_where_that_is_asked_for() {
        for is_last_winning in [false, true] {
            let mut writer = Writer::new(WriterOptions::default()).unwrap();
            writer.set_last_wins(is_last_winning);
            for (network, number) in
                [("192.0.2.0/25", 1), ("192.0.2.0/24", 2), ("192.0.2.192/26", 3), ("::/0", 4)]
            {
                writer.insert(prefix(network), Value::Uint32(number)).unwrap();
            }
            writer.insert(prefix("192.0.2.1/32"), Value::Uint32(5)).unwrap();
            let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
            let number = |address: &str| {
                let id = database.lookup(address.parse().unwrap()).unwrap().record.unwrap();
                database.record(id).unwrap()
            };
            let expected = if is_last_winning { [5, 4, 4, 4] } else { [5, 1, 2, 3] };
            let addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.129", "192.0.2.193"];
            for (address, expected) in addresses.into_iter().zip(expected) {
                assert_eq!(number(address), Value::Uint32(expected), "{address}");
            }
        }
    }

    #[test]
    fn teredo_leads_to_the_ipv4_networks_when_asked_for() {
        for has_teredo_alias in [false, true] {
            let mut writer = Writer::new(WriterOptions::default()).unwrap();
            writer.set_teredo_alias(has_teredo_alias);
            writer.insert(prefix("192.0.2.0/24"), Value::Boolean(true)).unwrap();
            let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
            let answer = database.lookup("2001:0:c000:201::1".parse().unwrap()).unwrap();
            assert_eq!(answer.record.is_some(), has_teredo_alias);
            assert_eq!(database.networks().count(), 1);
        }
    }
}
