//! `libGeoIP.so.1` on whered's index: the functions, data objects, structures and answers of
//! libGeoIP 1.6.12, for programs that are already linked with it.
//!
//! For: being found in `LD_LIBRARY_PATH` before the system's library. Not for new programs (see
//! libwhered) nor for Rust (see `whered_mmdb`).
//!
//! ```text
//! caller's GeoIP*           handle             data (never changes; a reload makes new data)
//! ┌──────────────────┐   ┌──────────┐   ┌──────────────────────────────────────────┐
//! │ public fields    │───┤ data ────┼──►│ legacy file: index, tree, mapping or file│
//! │ charset, flags   │   │ reload   │   │ MaxMind DB in its place                  │
//! └──────────────────┘   └──────────┘   └──────────────────────────────────────────┘
//! ```
//!
//! Invariants: what callers free was allocated with `malloc`, each string by itself. No function
//! panics across the boundary, starts threads, or touches signals: hosts fork after opening.
//!
//! Threads: any number may look up with one handle, also while it reloads; the mask of the last
//! lookup (`GeoIP_last_netmask`) is that of whichever thread came last. Handles are opened and
//! deleted by one thread each, as with the original.
//!
//! Start reading at `handle.rs`; a country is in `country.rs`, a city record in `city.rs`.
#![deny(clippy::indexing_slicing)]
#![allow(
    unsafe_code,
    non_snake_case,
    non_camel_case_types,
    non_upper_case_globals,
    reason = "this crate is a C interface: its functions have C's names and take C's pointers"
)]

mod abi;
mod address;
mod city;
mod compiled;
mod countries;
mod country;
mod data;
mod disk;
mod editions;
mod environment;
mod format;
mod handle;
mod mmdb;
mod names;
mod paths;
mod questions;
mod range;
mod readers;
mod records;
mod region;
mod region_table;
mod reload;
mod settings;
mod source;
mod status;
mod strings;
mod time_zones;
mod tree;
