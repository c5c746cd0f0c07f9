//! Any bytes as a certificate: it has a validity of two times of fourteen digits, or none, and what
//! is behind it changes nothing.
//!
//! Not for: PEM and trust, which are `rustls`'s. The reader is no library: it is compiled in here
//! by its path.
#![no_main]

#[path = "../../crates/whered-server/src/validity.rs"]
mod validity;

use libfuzzer_sys::fuzz_target;
use validity::validity;

fuzz_target!(|bytes: &[u8]| {
    let found = validity(bytes);
    let times = found.iter().flat_map(|(from, to)| [from, to]);
    for time in times {
        assert!(time.len() == 14 && time.bytes().all(|byte| byte.is_ascii_digit()), "{time}");
    }
    if found.is_some() {
        assert_eq!(validity(&[bytes, b"more"].concat()), found);
    }
});
