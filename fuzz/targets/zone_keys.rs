//! Any texts as the files of a zone's key and of the states of keys: a key or an error of one line,
//! never a panic; states that are read are written as they were, and lead on to their end.
//!
//! Not for: signatures, whose cost would hide everything else.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whered_dns::{KeyStates, Name, SigningKey};

fuzz_target!(|text: &[u8]| {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (public, private) = text.split_once('\0').unwrap_or((text, ""));
    let zone: Name = "example.com".parse().expect("a name");
    match SigningKey::read(&zone, public, private) {
        Ok(key) => assert_eq!(key.ds(&zone).len(), 36),
        Err(error) => assert!(!error.to_string().contains('\n'), "one line: {error:?}"),
    }
    match KeyStates::read(public) {
        Ok(states) => lead_on(states),
        Err(error) => assert!(!error.contains('\n'), "one line: {error:?}"),
    }
});

fn lead_on(mut states: KeyStates) {
    assert_eq!(KeyStates::read(&states.to_string()).as_ref(), Ok(&states));
    for now in [0, u64::from(u32::MAX), u64::MAX, u64::MAX, u64::MAX] {
        states.advance(now, true, u32::MAX);
        let _waits_for_none = states.parent_has_new(now, now);
    }
    assert!(states.rollover.is_none(), "every rollover ends");
}
