//! Any bytes as an UPDATE, and as a part of what lies over a zone: no panic; what is changed makes
//! a zone of which the overlay tells the same.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use whered_dns::Zone;
use whered_dns::update::{Update, ZoneOverlay};

const TEXT: &[u8] = include_bytes!("../../crates/whered-dns/tests/data/example.com.zone");

static ZONE: LazyLock<Zone> = LazyLock::new(|| {
    let origin = "example.com".parse().expect("a name");
    Zone::from_master_file(&origin, TEXT, &mut |_| Err("none".into())).expect("a zone")
});

fuzz_target!(|bytes: &[u8]| {
    let mut overlay = ZoneOverlay::default();
    if overlay.take_parts(bytes).is_ok() {
        let _ = ZONE.patched("overlay", &[overlay.over(&ZONE)]);
    }
    let Ok(update) = Update::read(bytes) else { return };
    let Ok(Some(difference)) = update.changes(&ZONE) else { return };
    let mut overlay = ZoneOverlay::default();
    overlay.take(&ZONE, &ZONE, &difference);
    // A change may make what is no zone, such as a CNAME beside an NSEC3 of another file.
    if let Ok(after) = ZONE.patched("UPDATE", &[difference]) {
        let over = overlay.over(&ZONE);
        let twin = ZONE.patched("overlay", &[over]).expect("the same changes");
        assert_eq!(twin.record_count(), after.record_count());
    }
});
