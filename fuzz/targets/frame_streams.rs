//! Any bytes as what a listener of dnstap answers; never a panic, and no frame above the limit.
//!
//! Not for: sockets; the tests have listeners.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "a part of it is fuzzed")]
#[path = "../../crates/whered-server/src/dns/dnstap/frames.rs"]
mod frames;

use frames::{CONTROL_SIZE_MAX, control_size, read_control};

fuzz_target!(|input: &[u8]| {
    let Some((head, body)) = input.split_first_chunk() else { return };
    if let Some(size) = control_size(*head) {
        assert!(size <= CONTROL_SIZE_MAX);
        let _ = read_control(&body[..size.min(body.len())]);
    }
});
