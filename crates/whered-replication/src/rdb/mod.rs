//! Dumps of Redis and Valkey (RDB) as a stream of keys, members and strings.
//!
//! For: reading a file or a full resynchronisation from any [`std::io::Read`], and the payload of a
//! `RESTORE`, in constant memory. Sorted sets come member by member, strings whole, within
//! [`Limits`]. Every other type is skipped by its structure and named. A payload of one sorted set
//! or string can be written, too. Not for: writing whole dumps,
//! other types than these two, clocks (whether a key's time is over is the caller's question), and
//! what becomes of the members. A member that comes twice in one sorted set comes twice here: to
//! find that takes the memory of the whole set, which the receiver has anyway.
//!
//! ```text
//! Read ─> Source (64 KiB, CRC-64, offset) ─> lengths, strings, LZF ─> Reader ─> Event
//!                                             └─> list packs, zip lists ─┘
//! ```
//!
//! Formats: REDIS0001 to REDIS0013 and VALKEY080 to VALKEY099, by their own sources (`rdb.h`,
//! `rdb.c`, `listpack.c`, `ziplist.c` of Redis 7.0 and Valkey 9) and by their files. A type or
//! opcode of a later version is an error with its byte: its length is not known.
//!
//! Memory: 64 KiB, the longest string within the limits, and 8 KiB where a string is compressed.
//! A length that is claimed takes no memory before its bytes have come. Cost: one pass.
//!
//! ```
//! use whered_replication::rdb::{Event, Limits, Reader};
//!
//! let dump = b"REDIS0003\xfe\x00\x03\x01k\x01\x01m\x031.5\xff";
//! let mut reader = Reader::new(&dump[..], Limits::default())?;
//! assert!(matches!(reader.next_event()?, Some(Event::SortedSet { members: Some(1), .. })));
//! assert!(matches!(reader.next_event()?, Some(Event::Member { member: b"m", score: 1.5 })));
//! assert!(matches!(reader.next_event()?, Some(Event::SortedSetEnd)));
//! assert!(reader.next_event()?.is_none());
//! # Ok::<(), whered_replication::rdb::RdbError>(())
//! ```

mod blob;
mod error;
mod kind;
mod packed;
mod payload;
mod reader;
mod skip;
mod source;
mod writer;

pub use error::RdbError;
pub use kind::Kind;
pub use payload::{payload_of_sorted_set, payload_of_text};
pub use reader::{Event, Key, Limits, Reader};
pub use writer::{NamedSlots, SORTED_SETS_ONLY, Writer};

/// The highest version of Redis's format that is read.
pub const REDIS_VERSION_MAX: u32 = 13;
/// The versions of Valkey's own format that are read.
pub const VALKEY_VERSIONS: std::ops::RangeInclusive<u32> = 80..=99;
/// How many slots a cluster has.
const SLOTS: u64 = 16384;
