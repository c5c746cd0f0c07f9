//! Any text as gdnsd's configuration: read or refused with a place that lies in it, and each key is
//! found again. Its first line is a pattern of file names too, which matches the rest or not.
//!
//! Not for includes, which would read files, nor for what keys mean. The reader is a part of a
//! program, which is no library: its module is compiled in here by its path.
#![no_main]

#[allow(dead_code, reason = "the program uses more of it")]
#[path = "../../crates/whered/src/zone/gdnsd/glob.rs"]
mod glob;
#[allow(dead_code, reason = "the program uses more of it")]
#[path = "../../crates/whered/src/zone/gdnsd/vscf.rs"]
mod vscf;

/// What the reader takes from the program for includes; none is followed here.
mod unpack {
    use std::io;
    use std::path::Path;

    pub(crate) fn read_plain(_path: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

use libfuzzer_sys::fuzz_target;
use vscf::{Data, Hash, Value};

fuzz_target!(|text: &str| {
    let (pattern, name) = text.split_once('\n').unwrap_or((text, text));
    let is_one = glob::matches(pattern, name);
    assert!(is_one || pattern != "*");
    match vscf::read_text(text) {
        Ok(hash) => look(&hash),
        Err(fault) => {
            let lines = text.split('\n').count();
            assert!((1..=lines).contains(&fault.place.line), "{fault}");
            assert!(!fault.message.contains('\n') || text.contains('\n'), "{fault}");
        }
    }
});

fn look(hash: &Hash) {
    for entry in &hash.entries {
        assert!(hash.get(&entry.key).is_some(), "{}", entry.key);
        look_at(&entry.value);
    }
}

fn look_at(value: &Value) {
    match &value.data {
        Data::Text(text) => assert_eq!(value.text("it").ok(), Some(text.as_str())),
        Data::Array(elements) => elements.iter().for_each(look_at),
        Data::Hash(hash) => look(hash),
    }
}
