//! `libmaxminddb.so.0` on whered's reader: the 14 functions of libmaxminddb 1.14 with the same
//! structures, answers, error codes and rules of ownership, for programs that are already linked
//! with it.
//!
//! For: being found in `LD_LIBRARY_PATH` before the system's library. Not for new programs (see
//! libwhered) nor for Rust (see `whered_mmdb`).
//!
//! ```text
//! caller's MMDB_s                       one mapping for each MMDB_open
//! ┌──────────────────┐   ┌─────────────────┬─────────────────────────────────┐
//! │ file_content ────┼───┼─► in front: ────┼─► the file: tree, data, metadata│
//! │ data_section ────┼───┼─  Mapping       │   (shared, read-only)           │
//! │ metadata ...     │   └─────────────────┴─────────────────────────────────┘
//! └──────────────────┘     private to the process
//! ```
//!
//! Invariants: callers may copy and move an `MMDB_s`, so what we remember hangs in front of the
//! mapped file and is found from `file_content`. Pointers given out lead into the mapping and hold
//! until `MMDB_close`. What callers free through us was allocated with `malloc`. No function
//! panics across the boundary, prints, starts threads or touches signals: hosts fork after opening.
//!
//! Threads: after `MMDB_open` has returned, everything but `MMDB_close` may be called by any number
//! of threads at once, as with the original.
//!
//! Start reading at `open.rs`; a lookup is in `lookup.rs`, a path in `value.rs`.
#![deny(clippy::indexing_slicing)]
#![allow(
    unsafe_code,
    non_snake_case,
    reason = "this crate is a C interface: its functions have C's names and take C's pointers"
)]

mod abi;
mod answers;
mod cache;
mod dump;
mod list;
mod lookup;
mod mapping;
mod metadata;
mod open;
mod paths;
mod pool;
mod skip;
mod status;
mod value;
mod variadic;
