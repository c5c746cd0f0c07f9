//! A legacy file compiled: an address to its record without a walk, and records laid out for it.
//!
//! For: handles that keep a file in memory. Not for: files with broken trees, which are walked.
//!
//! ```text
//! address ──PrefixIndex──► value, network length
//!                            │  0: nothing
//!                            │  editions of numbers: the number in the tree, less the base
//!                            ▼  others: where in `records` an entry begins, in units of 8 bytes
//! records | entry | entry | ...        one of up to 64 bytes lies in one cache line
//! entry:  | file's number (4) | latitude (4) | longitude (4) | metro (2) | area (2) |
//!         | country (1) | is ASCII (1) | lengths of region, city, postal code (2 each) |
//!         | region \0 city \0 postal code \0 |
//! ```
//!
//! Numbers are in the machine's order: an entry never leaves the process. A text edition has the
//! same entry with its text in the place of the city. Invariants: every value of the index is 0, or
//! the beginning of an entry that is wholly in `records`; equal numbers have one entry. Immutable:
//! any number of threads may read. Cost: one lookup of the index, and one or two cache lines.

use crate::editions::Content;
use crate::format::Layout;
use crate::records::{self, City, Text};
use crate::tree::{self, Address, Leaf};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use whered_ip::{IndexForm, Match, Prefix, PrefixIndex};

pub(crate) struct CompiledFile {
    networks: PrefixIndex,
    records: Vec<Line>,
    is_ipv6: bool,
}

/// A cache line of records.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Line([u64; WORDS_PER_LINE]);

const WORDS_PER_LINE: usize = 8;

/// An address's record in the index.
#[derive(Clone, Copy)]
pub(crate) struct IndexMatch {
    /// 0 if the address has no record; see the head of the file.
    pub(crate) value: u32,
    pub(crate) depth_bits: u8,
}

/// Values of the index that need no second read are below this.
const MAX_VALUE: usize = 1 << 23;

const HEAD_BYTES: usize = 24;

/// As much memory for each leaf as compiling takes at most, but for the list of leaves.
const BYTES_PER_LEAF: usize = 96;
const MAX_TEXT_BYTES: usize = u16::MAX as usize;

impl CompiledFile {
    /// Compiles a file. `None`: it is broken, or larger than an index can be, or there is no memory
    /// for that.
    pub(crate) fn build(bytes: &[u8], layout: &Layout) -> Option<CompiledFile> {
        let is_ipv6 = layout.edition.is_ipv6;
        let leaves = tree::leaves(bytes, layout, is_ipv6, if is_ipv6 { 128 } else { 32 })?;
        // A host with a limit goes on without an index instead of being ended by an allocation.
        let needed = leaves.len().saturating_mul(BYTES_PER_LEAF).saturating_add(bytes.len());
        Vec::<u8>::new().try_reserve_exact(needed).ok()?;
        let mut records = Records::default();
        let mut values = HashMap::new();
        let mut entries = Vec::with_capacity(leaves.len());
        for (bits, Leaf { number, depth_bits }) in leaves {
            let value = match number - layout.base {
                0 => 0,
                number if !layout.edition.has_offsets() => number,
                _ => match values.get(&number) {
                    Some(value) => *value,
                    None => {
                        let value = records.add(bytes, layout, number)?;
                        values.insert(number, value);
                        value
                    }
                },
            };
            let address = match is_ipv6 {
                true => IpAddr::V6(Ipv6Addr::from_bits(bits)),
                false => IpAddr::V4(Ipv4Addr::from_bits((bits >> 96) as u32)),
            };
            entries.push((Prefix::new(address, depth_bits).ok()?, value));
        }
        let networks = PrefixIndex::build(IndexForm::Compact, entries).ok()?;
        Some(CompiledFile { networks, records: records.into_lines(), is_ipv6 })
    }

    /// Looks up an address. One of the other family takes the way that its bits, the highest first,
    /// take in the tree, as in a walk. `None`: the tree goes on behind the address's last bit.
    #[inline(always)]
    pub(crate) fn find(&self, address: Address) -> Option<IndexMatch> {
        let found = match self.is_ipv6 {
            false => self.networks.lookup4((address.bits >> 96) as u32),
            true => self.networks.lookup6(address.bits),
        };
        let Match { value, length_bits } = found?;
        (length_bits <= address.length_bits())
            .then_some(IndexMatch { value, depth_bits: length_bits })
    }

    /// Looks up an IPv4 address in a file of IPv4.
    #[inline(always)]
    pub(crate) fn find4(&self, address: u32) -> Option<IndexMatch> {
        let Match { value, length_bits } = self.networks.lookup4(address)?;
        Some(IndexMatch { value, depth_bits: length_bits })
    }

    /// The number in the tree that a value stands for.
    pub(crate) fn number(&self, value: u32, layout: &Layout) -> u32 {
        match value {
            0 => layout.base,
            value if !layout.edition.has_offsets() => layout.base + value,
            value => self.entry(value).map_or(layout.base, Entry::number),
        }
    }

    /// The record of a value; `None`: the address has none.
    #[inline]
    pub(crate) fn city(&self, value: u32) -> Option<City<'_>> {
        self.entry(value)?.city()
    }

    /// The text of a value; `None`: the address has none.
    pub(crate) fn text(&self, value: u32) -> Option<&[u8]> {
        let entry = self.entry(value)?;
        entry.strings().map(|[_, text, _]| text)
    }

    #[inline(always)]
    pub(crate) fn entry(&self, value: u32) -> Option<Entry<'_>> {
        if value == 0 {
            return None;
        }
        // SAFETY: lines are numbers, one after the other.
        #[allow(unsafe_code, reason = "entries are numbers and bytes in one piece of memory")]
        let words: &[u64] = unsafe {
            std::slice::from_raw_parts(
                self.records.as_ptr().cast(),
                self.records.len() * WORDS_PER_LINE,
            )
        };
        words.get(value as usize - 1..).map(Entry)
    }

    /// How many bytes it takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.networks.memory_bytes() + size_of_val(self.records.as_slice())
    }
}

/// An entry, and what follows it.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a>(&'a [u64]);

/// The numbers of an entry.
#[derive(Clone, Copy)]
pub(crate) struct EntryHead {
    pub(crate) country: u8,
    pub(crate) is_ascii: bool,
    pub(crate) latitude: f32,
    pub(crate) longitude: f32,
    pub(crate) metro_code: u16,
    pub(crate) area_code: u16,
    /// The lengths of region, city or text, and postal code.
    pub(crate) lengths: [u16; 3],
}

impl<'a> Entry<'a> {
    fn number(self) -> u32 {
        self.0.first().map_or(0, |&word| word as u32)
    }

    #[inline(always)]
    pub(crate) fn head(self) -> Option<EntryHead> {
        let &[first, second, third, ..] = self.0 else { return None };
        Some(EntryHead {
            country: third as u8,
            is_ascii: third & IS_ASCII != 0,
            latitude: f32::from_bits((first >> 32) as u32),
            longitude: f32::from_bits(second as u32),
            metro_code: (second >> 32) as u16,
            area_code: (second >> 48) as u16,
            lengths: [(third >> 16) as u16, (third >> 32) as u16, (third >> 48) as u16],
        })
    }

    /// The strings of an entry with these lengths, one after the other, a zero byte behind each.
    #[inline(always)]
    pub(crate) fn string_bytes(self, lengths: [u16; 3]) -> Option<&'a [u8]> {
        // SAFETY: any bytes of numbers may be read as bytes.
        #[allow(unsafe_code, reason = "entries are numbers and bytes in one piece of memory")]
        let bytes: &[u8] =
            unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), size_of_val(self.0)) };
        let count = lengths.iter().map(|&length| usize::from(length) + 1).sum::<usize>();
        bytes.get(HEAD_BYTES..HEAD_BYTES + count)
    }

    /// The region, the city or text, and the postal code.
    #[inline]
    fn strings(self) -> Option<[&'a [u8]; 3]> {
        let lengths = self.head()?.lengths;
        let [region, city, postal] = lengths.map(usize::from);
        let bytes = self.string_bytes(lengths)?;
        let city_start = region + 1;
        let postal_start = city_start + city + 1;
        Some([
            bytes.get(..region)?,
            bytes.get(city_start..city_start + city)?,
            bytes.get(postal_start..postal_start + postal)?,
        ])
    }

    #[inline]
    fn city(self) -> Option<City<'a>> {
        let head = self.head()?;
        let [region, city, postal_code] = self.strings()?.map(Text::Latin);
        Some(City {
            country: head.country,
            region,
            city,
            postal_code,
            latitude: head.latitude,
            longitude: head.longitude,
            metro_code: head.metro_code,
            area_code: head.area_code,
        })
    }
}

/// The bit of an entry's third word that says that its strings are ASCII.
const IS_ASCII: u64 = 1 << 8;

/// Entries that are being laid out.
#[derive(Default)]
struct Records {
    words: Vec<u64>,
}

impl Records {
    /// Adds the record of a number; its value.
    fn add(&mut self, bytes: &[u8], layout: &Layout, number: u32) -> Option<u32> {
        let start = usize::try_from(layout.record_offset(number)).ok()?;
        let rest = bytes.get(start..).unwrap_or_default();
        if rest.is_empty() && layout.edition.content == Content::Text {
            // As in a file that is read: no byte is no text.
            return Some(0);
        }
        let record = match layout.edition.content {
            // A record behind the file's end is nothing.
            Content::City => match records::city(rest, layout.edition.has_metro_codes()) {
                None => return None,
                Some((city, _)) => city,
            },
            _ => City {
                country: 0,
                region: Text::Latin(b""),
                city: Text::Latin(records::text(rest).0),
                postal_code: Text::Latin(b""),
                latitude: 0.0,
                longitude: 0.0,
                metro_code: 0,
                area_code: 0,
            },
        };
        let value = self.push(number, &record)? + 1;
        u32::try_from(value).ok().filter(|_| value < MAX_VALUE)
    }

    /// Adds an entry; the number of its first word.
    fn push(&mut self, number: u32, record: &City<'_>) -> Option<usize> {
        let latin = |text: Text<'_>| match text {
            Text::Latin(bytes) => bytes.to_vec(),
            Text::Utf8(text) => text.as_bytes().to_vec(),
        };
        let strings = [record.region, record.city, record.postal_code].map(latin);
        if strings.iter().any(|text| text.len() > MAX_TEXT_BYTES) {
            return None;
        }
        let [region, city, postal] = strings.each_ref().map(|text| text.len() as u64);
        let text = strings.iter().flat_map(|text| [text.as_slice(), &[0]]).collect::<Vec<_>>();
        let text = text.concat();
        let ascii = if text.is_ascii() { IS_ASCII } else { 0 };
        let count = HEAD_BYTES / 8 + text.len().div_ceil(8);
        let left = WORDS_PER_LINE - self.words.len() % WORDS_PER_LINE;
        if left < count && count <= WORDS_PER_LINE {
            self.words.resize(self.words.len() + left, 0);
        }
        let start = self.words.len();
        self.words.push(u64::from(record.latitude.to_bits()) << 32 | u64::from(number));
        self.words.push(
            u64::from(record.area_code) << 48
                | u64::from(record.metro_code) << 32
                | u64::from(record.longitude.to_bits()),
        );
        let lengths = postal << 48 | city << 32 | region << 16;
        self.words.push(lengths | ascii | u64::from(record.country));
        for chunk in text.chunks(8) {
            let mut word = [0; 8];
            word.get_mut(..chunk.len())?.copy_from_slice(chunk);
            self.words.push(u64::from_ne_bytes(word));
        }
        Some(start)
    }

    fn into_lines(self) -> Vec<Line> {
        let line = |words: &[u64]| {
            let mut line = Line::default();
            for (place, word) in line.0.iter_mut().zip(words) {
                *place = *word;
            }
            line
        };
        self.words.chunks(WORDS_PER_LINE).map(line).collect()
    }
}
