//! A journal segment of any bytes, or a good one with any bytes changed: opening ends with
//!
//! Not for: inputs that are right; the tests have those.
//! entries or an error, never with a panic, and never with entries that were not written.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use whered_store::{Journal, JournalOptions, SimulatedDisk};

const SEGMENT: &str = "journal-00000000000000000001.log";

fn options() -> JournalOptions {
    JournalOptions { segment_size_bytes: 8192, ..JournalOptions::default() }
}

/// A segment with twenty entries, as the journal itself writes it.
fn good_segment() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let disk = SimulatedDisk::new(1);
        let (journal, _) =
            Journal::open(Arc::new(disk.clone()), options(), &mut |_| Ok(())).expect("an empty disk");
        for n in 0..20u8 {
            let payload = vec![n; usize::from(n) * 7];
            let reservation = journal.reserve(payload.len()).expect("room");
            let sequence = journal.append(reservation, u16::from(n), &payload);
            journal.wait_durable(sequence).expect("durable");
        }
        journal.close().expect("closed");
        disk.read(SEGMENT).expect("the first segment")
    })
}

fuzz_target!(|input: &[u8]| {
    let Some((mode, rest)) = input.split_first() else { return };
    let changed = mode % 2 == 1;
    let bytes = if changed {
        let mut bytes = good_segment().to_vec();
        for edit in rest.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % bytes.len();
            bytes[at] = edit[2];
        }
        bytes
    } else {
        rest.to_vec()
    };
    let disk = SimulatedDisk::new(2);
    disk.put(SEGMENT, &bytes);
    let mut entries = 0u8;
    let opened = Journal::open(Arc::new(disk), options(), &mut |entry| {
        if changed {
            // What is replayed is a prefix of what was written.
            assert_eq!(entry.sequence, u64::from(entries) + 1);
            assert_eq!(entry.payload, vec![entries; usize::from(entries) * 7]);
        }
        entries = entries.saturating_add(1);
        Ok(())
    });
    if let Err(error) = opened {
        assert!(!error.to_string().is_empty());
    }
});
