//! The reader cuts a file into blocks, the workers cut blocks into records: both must see the same
//! records as somebody who has the whole file.
//!
//! Not for what single formats say; their own files have that.

use super::*;

/// Where the records of bytes begin and end.
fn records(shape: &Shape, bytes: &[u8]) -> Vec<(usize, RecordEnd)> {
    let (mut records, mut start) = (Vec::new(), 0);
    while start < bytes.len() {
        let end = record_end(shape, bytes, start, true).unwrap();
        assert!(start <= end.content && end.content <= end.next && end.next > start);
        records.push((start, end));
        start = end.next;
    }
    records
}

/// The same, as the reader and the workers do it, with blocks of about `size_bytes`.
fn records_by_blocks(shape: &Shape, bytes: &[u8], size_bytes: usize) -> Vec<(usize, RecordEnd)> {
    let (mut all, mut start) = (Vec::new(), 0);
    let mut wanted = size_bytes;
    while start < bytes.len() {
        let read = bytes.len().min(start + wanted);
        let cut = match last_record_end(shape, &bytes[start..read]) {
            _ if read == bytes.len() => read - start,
            0 => {
                wanted += size_bytes;
                continue;
            }
            cut => cut,
        };
        let block = records(shape, &bytes[start..start + cut]);
        all.extend(block.into_iter().map(|(at, end)| {
            (start + at, RecordEnd { content: start + end.content, next: start + end.next })
        }));
        start += cut;
        wanted = size_bytes;
    }
    all
}

#[test]
fn blocks_of_any_size_have_the_records_of_the_whole() {
    let csv = Shape::Csv { delimiter: b',', column_count: 2, address_column: 0 };
    let log = Shape::Log { has_virtual_host: false, address_part: 0 };
    let alphabet = b"a,\"\n";
    for length in 0..=8_u32 {
        for mut number in 0..4_usize.pow(length) {
            let mut bytes = Vec::new();
            for _ in 0..length {
                bytes.push(alphabet[number % 4]);
                number /= 4;
            }
            for shape in [&csv, &log] {
                let whole = records(shape, &bytes);
                for size_bytes in 1..=4 {
                    let by_blocks = records_by_blocks(shape, &bytes, size_bytes);
                    assert_eq!(by_blocks, whole, "{:?}", String::from_utf8_lossy(&bytes));
                }
            }
        }
    }
}

#[test]
fn parts_lie_inside_of_their_record_whatever_the_bytes_are() {
    let shapes = [
        Shape::Csv { delimiter: b',', column_count: 2, address_column: 1 },
        Shape::Tsv { column_count: 2, address_column: 1 },
        Shape::Log { has_virtual_host: true, address_part: 1 },
        Shape::Ndjson { member: json::MemberPath::new(b"a") },
    ];
    let alphabet = b"a,\"\n\t {}[]:\\0\xff";
    let mut state = 1_u64;
    for _ in 0..20_000 {
        let mut bytes = Vec::new();
        for _ in 0..20 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.push(alphabet[(state >> 33) as usize % alphabet.len()]);
        }
        for shape in &shapes {
            for (start, end) in records(shape, &bytes) {
                let (mut parts, mut scratch) = (Vec::new(), Scratch::default());
                let content = start..end.content;
                let address = split(shape, &bytes, content.clone(), &mut parts, &mut scratch);
                for place in parts.iter().chain(address.as_ref().ok()) {
                    assert!(content.start <= place.start && place.end <= content.end);
                    assert!(place.start <= place.end);
                }
            }
        }
    }
}
