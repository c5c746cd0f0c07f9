//! Any bytes as the two files of a feed's quarantine: the records of an upload, and what a start
//! cuts off; never a panic.
//!
//! The first byte is the upload. A byte 255 alone in a line divides the old file from the new one.
//! Not for: files as the server writes them; the tests have those.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "a part of it is fuzzed")]
#[path = "../../crates/whered-engine/src/feeds/quarantine.rs"]
mod quarantine;

use quarantine::Quarantine;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("whered-fuzz-kept-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for temporary files");
    folder
});

fuzz_target!(|input: &[u8]| {
    let Some((&upload, bytes)) = input.split_first() else { return };
    let upload = u64::from(upload);
    let divider = bytes.windows(2).position(|pair| pair == b"\xff\n");
    let (old, new) = divider.map_or((&[][..], bytes), |at| (&bytes[..at], &bytes[at + 2..]));
    let [old_path, new_path] = ["feed.old.ndjson", "feed.ndjson"].map(|name| FOLDER.join(name));
    fs::write(&old_path, old).expect("room for a file");
    fs::write(&new_path, new).expect("room for a file");

    let quarantine = Quarantine::new(Some(&FOLDER), "feed");
    let files = quarantine.files().expect("there is a folder");
    let records = files.of_upload(upload).expect("files that can be read");
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(records.len() <= lines.min(1000), "{} records of {lines} lines", records.len());

    quarantine.cut_after(upload).expect("files that can be written");
    for (path, whole) in [(&old_path, old), (&new_path, new)] {
        let kept = fs::read(path).expect("the file is there");
        assert!(whole.starts_with(&kept), "a cut leaves a beginning");
        assert!(kept.is_empty() || kept.ends_with(b"\n"), "a cut leaves whole lines");
    }
    let left = files.of_upload(upload).expect("files that can be read");
    assert!(left.len() <= records.len());
});
