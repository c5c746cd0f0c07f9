//! Pages of points of any bytes, and good ones that were changed: loading ends with an error that
//! has a place in the page, or with a collection that can be read and changed; never with a panic.
//!
//! Not for: pages that are right; the tests have those.
//!
//! ```text
//! input: | mode | ... |
//! mode 0: the rest is a page
//! mode 1: the rest is a list of changes to a good page: offset u16, value u8
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use whered_geo::{Cell, PagePosition, Points, PointsLoader};

fuzz_target!(|input: &[u8]| {
    let Some((mode, rest)) = input.split_first() else { return };
    if mode % 2 == 0 {
        judge(rest);
        return;
    }
    let mut page = good();
    for change in rest.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % page.len();
        page[at] = change[2];
    }
    judge(&page);
});

/// Leaves with narrow and wide cells, crowded cells and long members.
fn good() -> Vec<u8> {
    let mut points = Points::new();
    for number in 0..300u64 {
        let bits = if number % 3 == 0 { 77 } else { number << (number % 44) };
        let member = vec![b'a' + (number % 26) as u8; 1 + (number * 7 % 40) as usize];
        points.insert(&member, Cell::from_bits(bits).expect("a cell"));
    }
    points.insert(&[b'x'; 1025], Cell::MAX);
    points.pages(&PagePosition::default(), usize::MAX).pieces().concat()
}

fn judge(bytes: &[u8]) {
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    let mut loader = PointsLoader::new();
    if let Err(error) = loader.load(1, &words) {
        assert!(error.offset_bytes() < bytes.len(), "{error}");
    }
    let mut points = loader.finish(1);
    let members: Vec<Vec<u8>> = points.iter().map(|(member, _)| member.to_vec()).collect();
    assert_eq!(members.len(), points.len());
    for member in &members {
        assert!(points.cell(member).is_some(), "the table knows every member");
        points.insert(member, Cell::MIN);
    }
    assert_eq!(members.len(), points.len());
    assert!(members.iter().all(|member| points.remove(member)));
    assert!(points.is_empty());
}
