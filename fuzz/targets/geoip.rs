//! Any bytes as a legacy file of our libGeoIP: recognised or refused; walks, lists of leaves and
//! the index answer alike, and every record can be read.
//!
//! Not for the C interface around it: the modules that read the bytes are compiled in by path.
//!
//! ```text
//! input: | addresses: 4 times 16 bytes | the file |
//! ```
#![no_main]
#![allow(dead_code, reason = "the library uses more of the modules")]

#[path = "../../bindings/c/geoip/src/compiled.rs"]
mod compiled;
#[path = "../../bindings/c/geoip/src/editions.rs"]
mod editions;
#[path = "../../bindings/c/geoip/src/format.rs"]
mod format;
#[path = "../../bindings/c/geoip/src/records.rs"]
mod records;
#[path = "../../bindings/c/geoip/src/tree.rs"]
mod tree;

use compiled::CompiledFile;
use format::{Layout, TAIL_BYTES};
use libfuzzer_sys::fuzz_target;
use tree::{Address, walk_bytes};

fuzz_target!(|input: &[u8]| {
    let Some((addresses, file)) = input.split_at_checked(64) else { return };
    let tail = &file[file.len().saturating_sub(TAIL_BYTES)..];
    let _ = format::info(tail);
    let Some(layout) = Layout::read(tail, file.len() as u64) else { return };
    let compiled = CompiledFile::build(file, &layout);
    for bytes in addresses.chunks_exact(16) {
        let bits = u128::from_be_bytes(bytes.try_into().expect("chunks of 16 bytes"));
        let address = match layout.edition.is_ipv6 {
            true => Address::v6(bits),
            false => Address::v4(bits as u32),
        };
        let walked = walk_bytes(file, &layout, address);
        if let Some(leaf) = walked {
            let start = usize::try_from(layout.record_offset(leaf.number)).unwrap_or(usize::MAX);
            let rest = file.get(start..).unwrap_or_default();
            let city = records::city(rest, layout.edition.has_metro_codes());
            assert!(city.is_none_or(|(_, end)| end <= rest.len()));
        }
        let Some(compiled) = &compiled else { continue };
        let leaf = walked.expect("a tree that was compiled is whole");
        let found = compiled.find(address).expect("the leaves tile all addresses");
        assert_eq!(found.depth_bits, leaf.depth_bits);
        assert_eq!(compiled.number(found.value, &layout), leaf.number);
    }
});
