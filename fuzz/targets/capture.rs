//! Any bytes as a capture or a log of any format: records, then at most one error with its place,
//! never a panic; and the sizes of reads make no difference.
//!
//! The first byte chooses: 0 to 5 a format by force, others what the bytes look like; its upper
//! half how much a read gives. Not for: captures that are right; the tests have those.
#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use whered_capture::{Capture, CaptureError, Format, PacketRecord};

struct Pieces<'a> {
    rest: &'a [u8],
    size: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = buffer.len().min(self.size);
        self.rest.read(&mut buffer[..size])
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else { return };
    let format = Format::ALL.get(usize::from(choice & 15)).copied();
    let whole = read(bytes, bytes.len().max(1), format);
    let pieces = read(bytes, usize::from(choice >> 4) + 1, format);
    assert_eq!(whole, pieces, "the sizes of reads make a difference");
});

/// The records, and the text of the error behind them.
fn read(bytes: &[u8], size: usize, format: Option<Format>) -> (Vec<PacketRecord>, Option<String>) {
    let reader = Pieces { rest: bytes, size };
    let opened = match format {
        Some(format) => Capture::with_format(reader, format),
        None => Capture::new(reader),
    };
    let mut capture = match opened {
        Ok(capture) => capture,
        Err(error) => return (Vec::new(), Some(checked(bytes, &error))),
    };
    let (mut records, mut last) = (Vec::new(), None);
    for item in capture.by_ref() {
        assert!(last.is_none(), "nothing comes behind an error");
        match item {
            Ok(record) => {
                assert_eq!(record.source.is_ipv4(), record.destination.is_ipv4());
                records.push(record);
            }
            Err(error) => last = Some(checked(bytes, &error)),
        }
    }
    let totals = capture.totals();
    assert!(records.len() as u64 + totals.skipped_sum() <= totals.records());
    assert!(capture.offset_bytes() <= bytes.len() as u64);
    for interface in records.iter().flat_map(|record| [record.input, record.output]).flatten() {
        assert!(capture.interface_name(interface).is_some(), "every interface has a name");
    }
    (records, last)
}

fn checked(bytes: &[u8], error: &CaptureError) -> String {
    assert!(!error.found().is_empty() && !error.allowed().is_empty(), "{error}");
    assert!(error.offset_bytes().is_none_or(|offset| offset <= bytes.len() as u64), "{error}");
    let text = error.to_string();
    assert!(!text.contains('\n'), "an error is one line: {text:?}");
    text
}
