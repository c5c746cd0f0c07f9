//! An opened database in the form that the handle's flags ask for.
//!
//! Not for handles or C types. A handle's data never changes: a reload makes new data.
//!
//! | flags | legacy file | MaxMind DB |
//! | --- | --- | --- |
//! | none | first levels of the tree; the rest is read | read |
//! | `MEMORY_CACHE` | an index and its records; a broken tree: the file | the file and an index |
//! | `INDEX_CACHE` | the same | the tree; records are read |
//! | `MMAP_CACHE` | the file, mapped | the file, mapped |
//!
//! `WHERED_GEOIP=index` makes the index in every mode, `WHERED_GEOIP=tree` in none.

use crate::abi::{INDEX_CACHE, MEMORY_CACHE, MMAP_CACHE};
use crate::compiled::CompiledFile;
use crate::disk::Disk;
use crate::editions::{Content, Edition};
use crate::environment::{self, Preference};
use crate::format::{self, Layout};
use crate::mmdb::Mmdb;
use crate::records::{self, City, Text};
use crate::source::{Identity, Source};
use crate::tree::{self, Address, Leaf};
use std::ffi::{CStr, c_int};

/// The most bytes of a record that are read from a file: longer strings are cut off there.
const RECORD_BYTES: usize = 1024;

/// An opened database.
pub(crate) struct Data {
    pub(crate) layout: Layout,
    pub(crate) identity: Identity,
    storage: Storage,
    info: Option<Vec<u8>>,
    /// Whether the file's end says what it is: one that is cut off does not.
    pub(crate) is_marked: bool,
    pub(crate) compiled: Option<Box<CompiledFile>>,
    pub(crate) mmdb: Option<Box<Mmdb>>,
}

/// As much of the file as is in memory, and the file where it is read.
enum Storage {
    /// An index or a MaxMind DB answers.
    Nothing,
    Disk(Source, Box<Disk>),
    Tree(Source, Vec<u8>),
    Memory(Vec<u8>),
    Mapped(memmap2::Mmap),
}

/// Why a file is not opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OpenError {
    /// It is not there or not readable.
    Missing,
    /// It is no database that can be read.
    Corrupt,
    /// It cannot be mapped.
    Map,
    /// It is a MaxMind DB without a field that the functions answer from.
    NoMeaning(String),
}

impl OpenError {
    /// The line for a person.
    pub(crate) fn line(&self, path: &CStr) -> String {
        let name = path.to_string_lossy();
        match self {
            OpenError::Missing => format!("Error Opening file {name}"),
            OpenError::Corrupt => format!("Error reading file {name} -- corrupt"),
            OpenError::Map => format!("Error mmaping file {name}"),
            OpenError::NoMeaning(kind) => format!(
                "Error Opening file {name}: a MaxMind DB of type {kind}, which has none of the \
                 fields of country, city, ASN, ISP, organization, domain or netspeed"
            ),
        }
    }
}

impl Data {
    /// Opens a file. `edition` is the type that a MaxMind DB shall stand for, if one is asked for.
    pub(crate) fn open(
        path: &CStr,
        flags: c_int,
        edition: Option<&'static Edition>,
    ) -> Result<Data, OpenError> {
        let source = Source::open(path).map_err(|_| OpenError::Missing)?;
        let identity = source.identity;
        if Mmdb::is_one(&source) {
            let mmdb = Box::new(Mmdb::open(source, flags, edition)?);
            let layout = mmdb.layout(identity.size_bytes);
            let info = Some(mmdb.description().into_bytes());
            return Ok(Data {
                layout,
                identity,
                storage: Storage::Nothing,
                info,
                is_marked: true,
                compiled: None,
                mmdb: Some(mmdb),
            });
        }
        if flags & MMAP_CACHE != 0 && identity.size_bytes == 0 {
            return Err(OpenError::Map);
        }
        let mut tail = [0; format::TAIL_BYTES];
        let tail = source.tail(&mut tail);
        // Of a folder or device nothing can be read.
        if (tail.len() as u64) < identity.size_bytes.min(format::TAIL_BYTES as u64) {
            return Err(OpenError::Corrupt);
        }
        let layout = Layout::read(tail, identity.size_bytes).ok_or(OpenError::Corrupt)?;
        let info = format::info(tail).map(<[u8]>::to_vec);
        let is_marked = format::is_marked(tail);
        let (storage, compiled) = load(source, &layout, flags)?;
        Ok(Data { layout, identity, storage, info, is_marked, compiled, mmdb: None })
    }

    /// The number in the tree for an address. `None`: the tree is broken.
    pub(crate) fn seek(&self, address: Address) -> Option<Leaf> {
        if let Some(mmdb) = &self.mmdb {
            return Some(mmdb.seek(address, &self.layout));
        }
        if let Some(compiled) = &self.compiled {
            let found = compiled.find(address)?;
            let number = compiled.number(found.value, &self.layout);
            return Some(Leaf { number, depth_bits: found.depth_bits });
        }
        self.walk(address)
    }

    fn walk(&self, address: Address) -> Option<Leaf> {
        match &self.storage {
            Storage::Nothing => None,
            Storage::Disk(source, disk) => disk.walk(source, &self.layout, address),
            Storage::Tree(_, bytes) | Storage::Memory(bytes) => {
                tree::walk_bytes(bytes, &self.layout, address)
            }
            Storage::Mapped(map) => tree::walk_bytes(map, &self.layout, address),
        }
    }

    /// The city record of an address. The outer `None`: the tree is broken.
    #[inline]
    pub(crate) fn city<R>(
        &self,
        address: Address,
        hand_on: impl FnOnce(&City<'_>) -> R,
    ) -> Option<(u8, Option<R>)> {
        if let Some(compiled) = &self.compiled
            && let Some(found) = compiled.find(address)
        {
            let city = compiled.city(found.value);
            return Some((found.depth_bits, city.map(|city| hand_on(&city))));
        }
        self.city_read(address, hand_on)
    }

    #[inline(never)]
    fn city_read<R>(
        &self,
        address: Address,
        hand_on: impl FnOnce(&City<'_>) -> R,
    ) -> Option<(u8, Option<R>)> {
        if let Some(mmdb) = &self.mmdb {
            return Some(mmdb.city(address, hand_on));
        }
        let leaf = self.walk(address)?;
        let made = self.record(leaf.number, |city, _| hand_on(city));
        Some((leaf.depth_bits, made))
    }

    /// The city record of a number in the tree, and the number behind it.
    pub(crate) fn record<R>(
        &self,
        number: u32,
        hand_on: impl FnOnce(&City<'_>, u32) -> R,
    ) -> Option<R> {
        if number == self.layout.base || self.layout.edition.content != Content::City {
            return None;
        }
        self.with_bytes_of(number, |bytes| {
            let (city, end) = records::city(bytes, self.layout.edition.has_metro_codes())?;
            Some(hand_on(&city, number.wrapping_add(end as u32)))
        })
    }

    /// The text of an address. The outer `None`: the tree is broken.
    pub(crate) fn text<R>(
        &self,
        address: Address,
        hand_on: impl FnOnce(Text<'_>) -> R,
    ) -> Option<(u8, Option<R>)> {
        if let Some(mmdb) = &self.mmdb {
            return Some(mmdb.text(address, self.layout.edition, hand_on));
        }
        if let Some(compiled) = &self.compiled
            && let Some(found) = compiled.find(address)
        {
            let text = compiled.text(found.value);
            return Some((found.depth_bits, text.map(|text| hand_on(Text::Latin(text)))));
        }
        let Leaf { number, depth_bits } = self.walk(address)?;
        if number == self.layout.base {
            return Some((depth_bits, None));
        }
        let made = self.with_bytes_of(number, |bytes| {
            (!bytes.is_empty()).then(|| hand_on(Text::Latin(records::text(bytes).0)))
        });
        Some((depth_bits, made))
    }

    /// Hands on the bytes behind the tree that begin at a number's record.
    fn with_bytes_of<R>(&self, number: u32, hand_on: impl FnOnce(&[u8]) -> Option<R>) -> Option<R> {
        let start = self.layout.record_offset(number);
        match &self.storage {
            Storage::Memory(bytes) => hand_on(behind(bytes, start)),
            Storage::Mapped(map) => hand_on(behind(map, start)),
            Storage::Disk(source, _) | Storage::Tree(source, _) => {
                let mut buffer = [0; RECORD_BYTES];
                hand_on(source.read_at(&mut buffer, start))
            }
            Storage::Nothing => None,
        }
    }

    /// The file's copyright text.
    pub(crate) fn info(&self) -> Option<&[u8]> {
        self.info.as_deref()
    }

    /// How many bytes of the file are in memory of our own.
    pub(crate) fn memory_bytes(&self) -> usize {
        let file = match &self.storage {
            Storage::Tree(_, bytes) | Storage::Memory(bytes) => bytes.len(),
            Storage::Nothing | Storage::Disk(..) | Storage::Mapped(_) => 0,
        };
        file + self.compiled.as_ref().map_or(0, |compiled| compiled.memory_bytes())
    }
}

fn behind(bytes: &[u8], start: u64) -> &[u8] {
    usize::try_from(start).ok().and_then(|start| bytes.get(start..)).unwrap_or_default()
}

/// Loads as much of a legacy file as the flags say.
fn load(
    source: Source,
    layout: &Layout,
    flags: c_int,
) -> Result<(Storage, Option<Box<CompiledFile>>), OpenError> {
    let preference = environment::preference();
    let is_indexed = match preference {
        Preference::Index => true,
        Preference::Tree => false,
        Preference::Flags => flags & (MEMORY_CACHE | INDEX_CACHE) != 0,
    };
    if is_indexed {
        let bytes = source.read_whole().ok_or(OpenError::Corrupt)?;
        return Ok(match CompiledFile::build(&bytes, layout) {
            // Records in turn are read from the file.
            Some(compiled) if flags & (MEMORY_CACHE | MMAP_CACHE) == 0 => {
                (Storage::Disk(source, Box::default()), Some(Box::new(compiled)))
            }
            Some(compiled) => (Storage::Nothing, Some(Box::new(compiled))),
            None => (Storage::Memory(bytes), None),
        });
    }
    if flags & MMAP_CACHE != 0 {
        let map = source.map().map_err(|_| OpenError::Map)?;
        return Ok((Storage::Mapped(map), None));
    }
    if flags & MEMORY_CACHE != 0 {
        return Ok((Storage::Memory(source.read_whole().ok_or(OpenError::Corrupt)?), None));
    }
    if flags & INDEX_CACHE != 0 {
        let mut bytes = source.read_whole().ok_or(OpenError::Corrupt)?;
        if layout.edition.has_offsets() {
            let tree_bytes = u64::from(layout.base) * layout.edition.node_bytes();
            bytes.truncate(usize::try_from(tree_bytes).unwrap_or(usize::MAX));
            bytes.shrink_to_fit();
        }
        return Ok((Storage::Tree(source, bytes), None));
    }
    Ok((Storage::Disk(source, Box::default()), None))
}
