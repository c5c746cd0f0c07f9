//! Any bytes as a list of prefixes, in a format that is named or guessed: entries, or a mistake
//! with its place; and what is written from the entries is read back the same.
//!
//! Not for: lists that are right; the tests have those.
//!
//! ```text
//! input: | format (255: guessed) | options | list ... |
//! options: a path (1), a value path (2), a column (4), two columns (8), a delimiter (16),
//!          a set (32)
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use whered_ip::{Block, HostBitsFinder, LayeredSet, SetFormat, SetOption, SetReading, SetWriter};

const OPTIONS: [(SetOption, &str); 6] = [
    (SetOption::Path, "a[].b,[].c?,d"),
    (SetOption::ValuePath, "a[].v"),
    (SetOption::Column, "1"),
    (SetOption::Column, "1,2"),
    (SetOption::Delimiter, ";"),
    (SetOption::Set, "s"),
];

fuzz_target!(|input: &[u8]| {
    let [format, switches, text @ ..] = input else { return };
    let name = SetFormat::names().nth(usize::from(*format));
    let mut reading = SetReading::default();
    reading.format = name.map(|name| name.parse().expect("a format's own name"));
    for (number, (option, text)) in OPTIONS.into_iter().enumerate() {
        if switches >> number & 1 != 0 {
            reading.set_option(option, text).expect("an option that is allowed");
        }
    }
    let mut blocks: Vec<Block> = Vec::new();
    let read = reading.read(text, |entry| blocks.push(entry.block));
    let _ = HostBitsFinder::of(text);
    if let Err(error) = read {
        let lines = text.split(|byte| matches!(byte, b'\n' | b'\r')).count();
        assert!((1..=lines).contains(&error.line()), "no such line: {error}");
        assert!(!error.to_string().contains('\n'), "an error is one line: {error:?}");
        return;
    }
    let mut set = LayeredSet::new();
    for block in &blocks {
        set.insert(*block, None, None, 0);
    }
    for format in [SetFormat::Plain, SetFormat::Json, SetFormat::Ipset] {
        let mut writer = SetWriter::new(format, "s", set.len(), 0).expect("it is written");
        let mut written = Vec::new();
        set.iter(0).for_each(|member| writer.member(&member, &mut written));
        writer.end(&mut written);
        let mut again = LayeredSet::new();
        let read = SetReading::of(format).read(&written, |entry| {
            again.insert(entry.block, None, None, 0);
        });
        read.expect("what was written is read");
        // ipset has no ranges of IPv6: they become prefixes.
        if format != SetFormat::Ipset {
            assert_eq!(sorted(&set), sorted(&again));
        }
    }
});

/// The blocks of a set as a list has them: IPv4-mapped ones are IPv4.
fn sorted(set: &LayeredSet) -> Vec<Block> {
    let mut blocks: Vec<Block> = set.iter(0).map(|it| it.block.to_canonical()).collect();
    blocks.sort();
    blocks.dedup();
    blocks
}
