//! Any bytes as a log, a table or objects: every byte belongs to one record, parts lie inside of
//! their record, and blocks of any size have the records of the whole.
//!
//! Not for what records mean, nor for the program around the splitters, which is no library: their
//! module is compiled in here by its path.
//!
//! ```text
//! input: | switches | block size | bytes ... |
//! ```
#![no_main]

#[allow(dead_code, reason = "the program uses more of it")]
#[path = "../../crates/whered/src/enrich/split/mod.rs"]
mod split;

use libfuzzer_sys::fuzz_target;
use split::{RecordEnd, Shape, csv, json, last_record_end, record_end};

fuzz_target!(|input: &[u8]| {
    let [switches, size_bytes, bytes @ ..] = input else { return };
    let shape = match switches & 3 {
        0 => Shape::Csv { delimiter: b',', column_count: 2, address_column: 1 },
        1 => Shape::Tsv { column_count: 2, address_column: 1 },
        2 => Shape::Log { has_virtual_host: switches & 4 != 0, address_part: 1 },
        _ => Shape::Ndjson { member: json::MemberPath::new(b"a.b") },
    };
    let whole = records(&shape, bytes);
    for (start, end) in &whole {
        let (mut parts, mut scratch) = (Vec::new(), split::Scratch::default());
        let content = *start..end.content;
        let address = split::split(&shape, bytes, content.clone(), &mut parts, &mut scratch);
        for place in parts.iter().chain(address.as_ref().ok()) {
            assert!(content.start <= place.start && place.end <= content.end, "{place:?}");
            let cell = &bytes[place.clone()];
            assert!(csv::cell_text(cell, &mut Vec::new()).len() <= cell.len());
        }
    }
    assert_eq!(records_by_blocks(&shape, bytes, usize::from(*size_bytes) + 1), whole);
});

fn records(shape: &Shape, bytes: &[u8]) -> Vec<(usize, RecordEnd)> {
    let (mut records, mut start) = (Vec::new(), 0);
    while start < bytes.len() {
        let end = record_end(shape, bytes, start, true).expect("nothing more will come");
        assert!(start <= end.content && end.content <= end.next && end.next > start);
        records.push((start, end));
        start = end.next;
    }
    records
}

/// As the reader of a file cuts it, and a worker each block.
fn records_by_blocks(shape: &Shape, bytes: &[u8], size_bytes: usize) -> Vec<(usize, RecordEnd)> {
    let (mut all, mut start, mut wanted) = (Vec::new(), 0, size_bytes);
    while start < bytes.len() {
        let read = bytes.len().min(start + wanted);
        let is_last = read == bytes.len();
        let cut = if is_last { read - start } else { last_record_end(shape, &bytes[start..read]) };
        if cut == 0 {
            wanted *= 2;
            continue;
        }
        let moved = |place: RecordEnd| RecordEnd {
            content: start + place.content,
            next: start + place.next,
        };
        let block = records(shape, &bytes[start..start + cut]);
        all.extend(block.into_iter().map(|(at, end)| (start + at, moved(end))));
        (start, wanted) = (start + cut, size_bytes);
    }
    all
}
