//! Any bytes as a database file: opening, verifying, looking up and decoding end without a panic,
//! and what was verified answers without an error.
//!
//! Not for: inputs that are right; the tests have those.
#![no_main]

mod ask;

use libfuzzer_sys::fuzz_target;
use whered_mmdb::Database;

fuzz_target!(|bytes: &[u8]| {
    match Database::from_bytes(bytes.to_vec()) {
        Ok(database) => ask::everything(&database),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
