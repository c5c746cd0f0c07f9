//! How much of the disk a server takes that nobody uses.

mod served;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use served::Served;

/// Three feeds, since each has a spool of its own.
const CONFIGURATION: &str = "data_dir = \"data\"\n\
    [resp]\nlisten = [\"127.0.0.1:0\"]\n[http]\nlisten = [\"127.0.0.1:0\"]\n\
    [[feed]]\nname = \"a\"\nformat = \"ndjson\"\nmember = \"m\"\ninto = { table = \"a\" }\n\
    [[feed]]\nname = \"b\"\nformat = \"ndjson\"\nmember = \"m\"\ninto = { table = \"b\" }\n\
    [[feed]]\nname = \"c\"\nformat = \"ndjson\"\nmember = \"m\"\ninto = { table = \"c\" }\n";

/// The space that all files below a folder take, whether it was written or only allocated.
fn taken_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("it can be read").map(|entry| entry.expect("it can"));
    entries
        .map(|entry| {
            let found = entry.metadata().expect("nobody removes it");
            let own_bytes = found.len().max(found.blocks() * 512);
            own_bytes + if found.is_dir() { taken_bytes(&entry.path()) } else { 0 }
        })
        .sum()
}

#[test]
fn an_idle_server_takes_at_most_8_mb_of_disk_until_it_is_used() {
    let folder = served::folder("idle-disk");
    fs::write(folder.join("whered.toml"), CONFIGURATION).expect("the folder can be written");
    for _ in 0..3 {
        let served = Served::start_keeping(folder.clone(), &[]);
        let taken_bytes = taken_bytes(&folder.join("data"));
        assert!((1..=8_000_000).contains(&taken_bytes), "{taken_bytes} bytes");
        drop(served);
    }
    fs::remove_dir_all(folder).expect("it can be removed");
}
