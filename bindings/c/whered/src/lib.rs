//! `libwhered`: IP databases for C programs; `include/whered.h` is its documentation.
//!
//! For: new programs in C and in languages that call C. Not for programs that are linked with
//! libmaxminddb (see the drop-in beside this crate), nor for Rust (see `whered_mmdb`).
//!
//! ```text
//! whered_database ──► path, options
//!                 └─► current ──► Generation: database, index      replaced as a whole
//! ```
//!
//! Invariants: a call takes one generation and answers from it to the end; answers are written into
//! memory of the caller and hold nothing of ours. No function panics across the boundary, prints,
//! starts threads or touches signals. A call's fault is kept for its thread as one line of text.
//!
//! Cost: a lookup allocates nothing in the index mode; `whered_lookup_batch` hands 64 addresses at
//! a time to the index.
#![deny(clippy::indexing_slicing)]
#![allow(
    unsafe_code,
    non_camel_case_types,
    reason = "this crate is a C interface: its functions have C's names and take C's pointers"
)]

mod abi;
mod answer;
mod calls;
mod fault;
mod generation;
