//! Damaged dumps: an error or the same keys, never a panic, a hang or much memory.

mod rdb;

use std::fs;

use rdb::{Dump, lines_of, lines_within, unhex};
use whered_replication::rdb::Limits;

fn samples() -> Vec<Vec<u8>> {
    let texts = [
        include_str!("rdb/data/redis-7.0.hex"),
        include_str!("rdb/data/redis-7.0-large.hex"),
        include_str!("rdb/data/redis-8.0.hex"),
        include_str!("rdb/data/valkey-9.1.hex"),
    ];
    texts.map(unhex).to_vec()
}

#[test]
fn a_dump_that_ends_at_any_byte_is_said_to_end_too_early() {
    for dump in samples() {
        for end in 0..dump.len() {
            let error = lines_of(&dump[..end]).expect_err("it is cut");
            assert!(error.is_truncated(), "{end}: {error}");
            assert_eq!(error.offset(), end as u64);
        }
    }
}

#[test]
fn any_byte_that_changes_is_an_error_by_the_checksum_at_the_latest() {
    for dump in samples() {
        // Each costs a pass over the whole dump, so that of the larger one a ninth is changed.
        for place in (0..dump.len()).step_by(if dump.len() > 8000 { 9 } else { 1 }) {
            let mut changed = dump.clone();
            changed[place] ^= 1 << (place % 8);
            assert!(lines_of(&changed[..]).is_err(), "{place}");
        }
    }
}

#[test]
fn without_a_checksum_whatever_is_changed_ends() {
    let limits = Limits { name_bytes_max: 1 << 20, value_bytes_max: 1 << 20 };
    for mut dump in samples() {
        let ended = dump.len() - 8;
        dump[ended..].fill(0);
        for place in (9..ended).step_by(if dump.len() > 8000 { 9 } else { 1 }) {
            let mut changed = dump.clone();
            changed[place] ^= (place * 89 % 255) as u8 + 1;
            if let Ok(lines) = lines_within(&changed[..], limits) {
                let bytes: usize = lines.iter().map(String::len).sum();
                assert!(bytes < 400 * dump.len(), "{place}: {bytes}");
            }
        }
    }
}

/// The most memory that this process has had.
fn peak_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<usize>().map_or(0, |kib| kib << 10)
}

#[test]
fn a_length_that_is_only_claimed_takes_no_memory() {
    let claim = |dump: Dump| dump.raw(&[0x80]).raw(&(500u32 << 20).to_be_bytes()).raw(b"abc");
    let before = peak_bytes();
    for dump in [
        claim(Dump::new("REDIS0010").raw(&[0])),
        claim(Dump::new("REDIS0010").key(0, "k")),
        claim(Dump::new("REDIS0010").key(5, "k")),
        claim(Dump::new("REDIS0010").key(5, "k").raw(&[0x80, 0, 0x98, 0x96, 0x80])),
        claim(Dump::new("REDIS0010").key(17, "k")),
        claim(Dump::new("REDIS0010").key(2, "k")),
        Dump::new("REDIS0010").key(0, "k").raw(&[0xc3, 3, 0x80]).raw(&(500u32 << 20).to_be_bytes()),
    ] {
        assert!(lines_of(&dump.0[..]).is_err());
    }
    // The samples of the other tests, which may run at once, are small.
    assert!(peak_bytes() < before + (64 << 20), "{} after {before}", peak_bytes());
}

#[test]
fn a_bomb_of_lzf_stops_at_the_limit() {
    // Each three bytes give 264: eight megabytes of output out of 90 kB.
    let packed = [&[0, b'x'][..], &[0xe0, 255, 0].repeat(30_000)].concat();
    let plain = 1 + 264 * 30_000;
    let dump = Dump::new("REDIS0010").key(0, "k").raw(&[0xc3]).length(packed.len()).length(plain);
    let dump = dump.raw(&packed).end();
    let limits = Limits { name_bytes_max: 1 << 20, value_bytes_max: 1 << 20 };
    let lines = lines_within(&dump[..], limits).expect("it is passed over");
    assert_eq!(lines, ["long string 0 6b -"]);
    let lines = lines_of(&dump[..]).expect("within the limit it is read");
    assert_eq!(lines[0].len(), "string 0 6b - ".len() + 2 * plain);
}
