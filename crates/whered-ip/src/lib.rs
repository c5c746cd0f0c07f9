//! IP addresses, prefixes and prefix sets with longest-prefix match.
//!
//! For: [`Prefix`], a block of IPv4 or IPv6 addresses; [`PrefixMap`], values by prefix, found by
//! the longest prefix that holds an address; [`PrefixSet`], a map of members with an optional
//! value and an optional time to live.
//!
//! [`text`] reads addresses, one or many at once.
//!
//! Not for: files, DNS, Redis, threads, clocks. The time is an argument (`now_millis`) wherever
//! it matters. These are the *live* forms, made for updates; [`PrefixIndex`] is
//! compiled once from prefixes in order, never changes, and answers faster from less memory.
//!
//! Families are kept apart: an IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) is an IPv6 address
//! here and never meets an IPv4 prefix. Who wants the other reading converts first, by
//! [`std::net::IpAddr::to_canonical`].
//!
//! Concurrency: plain data. Shared references may be read from any number of threads; a writer
//! needs the value alone.
//!
//! # Examples
//!
//! ```
//! use whered_ip::{Prefix, PrefixMap};
//!
//! let mut networks = PrefixMap::new();
//! networks.insert("10.0.0.0/8".parse()?, "private");
//! networks.insert("10.1.0.0/16".parse()?, "office");
//!
//! let found = networks.longest_match("10.1.2.3".parse().expect("a fixed address"));
//! assert_eq!(found, Some(("10.1.0.0/16".parse::<Prefix>()?, &"office")));
//! # Ok::<(), whered_ip::PrefixError>(())
//! ```
mod compiled;
mod host_bits;
pub mod image;
mod layered;
mod packing;
mod prefix;
mod prefix_map;
mod prefix_set;
mod sets;
mod simd;
mod tables;
pub mod text;

pub use compiled::{IndexError, IndexForm, Items, Match, PrefixIndex, Target};
pub use host_bits::{HostBits, HostBitsFinder, prefix_without_host_bits};
pub use layered::{LayeredSet, MemberCounts, MemberList};
pub use packing::{Packed, Packing};
pub use prefix::{Prefix, PrefixError, PrefixErrorKind};
#[doc(hidden)]
pub use prefix_map::naive;
pub use prefix_map::{AllMatches, Iter, PrefixMap};
pub use prefix_set::{PrefixMatch, PrefixSet};
pub use sets::{
    Address6, AddressRanges, Block, BlockError, CompiledForm, CompiledSet, LiveIpv4, LiveMatch,
    LiveReader, SetEntry, SetFormat, SetTextError, SetWriter, ShrinkLimit, read_named_set,
    read_set,
};
