//! IP addresses, prefixes and prefix sets with longest-prefix match.
//!
//! For: [`Prefix`] and [`Block`], blocks of IPv4 or IPv6 addresses; [`LayeredSet`], a set that
//! changes while it is read; [`CompiledSet`] and [`PrefixIndex`], which are compiled once and never
//! change.
//!
//! [`text`] parses addresses, one or many at once.
//!
//! Not for: files, DNS, Redis, threads, clocks. The time is an argument (`now_millis`) wherever
//! it matters.
//!
//! Families are kept apart: an IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) is an IPv6 address
//! here and never matches an IPv4 prefix. A caller that reads it as IPv4 converts it first with
//! [`std::net::IpAddr::to_canonical`].
//!
//! Concurrency: plain data. Any number of threads may read through shared references; a writer
//! needs exclusive access.
//!
//! # Examples
//!
//! ```
//! use whered_ip::CompiledSet;
//!
//! let networks = CompiledSet::build([("10.0.0.0/8".parse()?, 1), ("10.1.0.0/16".parse()?, 2)]);
//! let found = networks.lookup("10.1.2.3".parse().expect("a fixed address"));
//! assert_eq!(found, Some(2));
//! # Ok::<(), whered_ip::BlockError>(())
//! ```
pub mod column_names;
mod compiled;
mod host_bits;
pub mod image;
mod layered;
#[doc(hidden)]
pub mod naive;
mod packing;
mod prefix;
mod sets;
mod simd;
mod tables;
pub mod text;

pub use compiled::{IndexError, IndexForm, Items, Match, PrefixIndex, Target};
pub use host_bits::{HostBits, HostBitsFinder, prefix_without_host_bits};
pub use layered::{LayeredSet, MemberCounts, MemberList, PrefixMatch};
pub use packing::{Packed, Packing};
pub use prefix::{Prefix, PrefixError, PrefixErrorKind};
pub use sets::{
    Address6, AddressRanges, Block, BlockColumns, BlockError, Column, CompiledForm, CompiledSet,
    JsonPaths, Provider, SetEntry, SetFormat, SetOption, SetReading, SetTextError, SetWriter,
    ShrinkLimit, read_set,
};
