//! Any bytes as a legacy file of any edition: as `mmdb`, reached on the legacy path.
//!
//! Not for: inputs that are right; the tests have those.
//!
//! ```text
//! input: | edition | tree and text ... |    the structure marker is put behind them
//! edition 0: no marker, the file is told by its tree
//! editions with records behind the tree: the last byte is their number of nodes, too
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
        if !matches!(edition, 1 | 3 | 7 | 10 | 12 | 106..) {
            bytes.extend_from_slice(&[tree.last().copied().unwrap_or(0), 0, 0]);
        }
    }
    match Database::from_bytes(bytes) {
        Ok(database) => ask::everything(&database),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
