//! Any bytes as a legacy country file: as `mmdb`, reached on the legacy path.
//!
//! Not for: inputs that are right; the tests have those.
//!
//! ```text
//! input: | edition | tree and text ... |    the structure marker is put behind them
//! edition 0: no marker, the file is told by its tree
//! ```
#![no_main]

mod ask;

use libfuzzer_sys::fuzz_target;
use whered_mmdb::Database;

fuzz_target!(|input: &[u8]| {
    let Some((&edition, tree)) = input.split_first() else { return };
    let mut bytes = tree.to_vec();
    if edition != 0 {
        bytes.extend_from_slice(&[0xff, 0xff, 0xff, edition]);
    }
    match Database::from_bytes(bytes) {
        Ok(database) => ask::everything(&database),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
