//! What several test files of this crate need: where the conformance data is, whether a missing
//! thing is a failure, and a JSON reader for comparisons.
#![allow(dead_code, reason = "every test file takes only a part of it")]
#![allow(unreachable_pub, reason = "each test file is a crate of its own")]

pub mod cells;
pub mod json;
pub mod legacy;
pub mod twin;

use std::path::PathBuf;

/// Whether `WHERED_REQUIRE` (a comma-separated list) demands that these tests are not skipped.
fn is_required(what: &str) -> bool {
    std::env::var("WHERED_REQUIRE").is_ok_and(|list| list.split(',').any(|item| item == what))
}

#[allow(clippy::print_stdout, reason = "who reads the tests' output shall know")]
/// Says why a test is skipped, or fails if it must not be.
pub fn skip(what: &str, reason: &str) {
    assert!(!is_required(what), "WHERED_REQUIRE contains {what}, but {reason}");
    println!("skipped: {reason}");
}

/// MaxMind's conformance data, if it is there.
pub fn maxmind_data() -> Option<PathBuf> {
    let shared = std::env::var_os("WHERED_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let folder = shared.join("data/maxmind-db");
    if folder.is_dir() {
        return Some(folder);
    }
    skip("shared", &format!("there is no {}", folder.display()));
    None
}

pub use whered_random::Random;
