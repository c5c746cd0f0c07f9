//! Any bytes as a master file: a zone or an error with its place, never a panic.
//!
//! Not for: inputs that are right; the tests have those.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whered_dns::Zone;

fuzz_target!(|text: &[u8]| {
    let origin = "example.com".parse().expect("a name");
    let mut included = 0;
    let mut include = |_: &str| {
        included += 1;
        if included > 3 { Err("too many".to_owned()) } else { Ok(b"inc IN A 192.0.2.9\n".to_vec()) }
    };
    match Zone::from_master_file(&origin, text, &mut include) {
        Ok(zone) => assert!(zone.record_count() > 0, "a zone has its SOA at least"),
        Err(error) => assert!(!error.to_string().is_empty(), "every error says something"),
    }
});
