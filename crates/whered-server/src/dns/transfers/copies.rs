//! The last good zone of a secondary on the disk: read at a start (by the engine, as any master
//! file), written after a transfer.
//!
//! Invariants: a copy is whole or not there: it is written under another name, brought to the disk,
//! and renamed. Its time of change is when a primary has last confirmed it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use whered_dns::{Name, Zone};
use whered_engine::sync;

/// The longest beginning of a member's name that is part of its file's name.
const SHOWN_SIZE_MAX: usize = 100;
/// The longest name of a zone that is its file's name; systems take 255 bytes with the end.
const STEM_SIZE_MAX: usize = 200;

/// Where the copy of a zone is.
pub(crate) fn zone_copy(data_dir: &Path, zone: &str) -> PathBuf {
    data_dir.join("zones").join(format!("{}.zone", short_stem(zone)))
}

/// Where the copies of a catalog's members are.
pub(super) fn members_folder(data_dir: &Path, catalog: &Name) -> PathBuf {
    data_dir.join("zones").join(format!("{}.members", short_stem(&catalog.to_string())))
}

/// Where the copy of a catalog's member is. A member with another id is another zone, which does
/// not begin with this copy.
pub(super) fn member_copy(data_dir: &Path, catalog: &Name, zone: &Name, id: &[u8]) -> PathBuf {
    let lower = zone.as_wire().to_ascii_lowercase();
    let digits = digest_digits(&[&lower, id].concat());
    let mut stem = file_stem(&zone.to_string());
    stem.truncate(SHOWN_SIZE_MAX);
    members_folder(data_dir, catalog).join(format!("{stem}-{digits}.zone"))
}

fn digest_digits(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A name as the beginning of a file's name; of a long one the end is a digest.
fn short_stem(zone: &str) -> String {
    let mut stem = file_stem(zone);
    if stem.len() > STEM_SIZE_MAX {
        // No other name has a percent sign and what is no number.
        let digits = digest_digits(stem.as_bytes());
        stem.truncate(STEM_SIZE_MAX);
        stem.push_str("%-");
        stem.push_str(&digits);
    }
    stem
}

/// A name as the beginning of a file's name, in ASCII.
fn file_stem(zone: &str) -> String {
    let name = zone.strip_suffix('.').unwrap_or(zone).to_ascii_lowercase();
    // Whatever a name may hold, it stays one file of this folder.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let mut file = String::with_capacity(name.len() + 5);
    for byte in name.bytes() {
        match plain(byte) && !(file.is_empty() && byte == b'.') {
            true => file.push(char::from(byte)),
            false => file.push_str(&format!("%{byte:02x}")),
        }
    }
    if file.is_empty() {
        file.push_str("%root");
    }
    file
}

/// The copies that are written at the moment. A zone that a reload has given to another task may
/// have its copy written still, and that must not replace a newer one.
static WRITING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

struct CopyInWriting<'p>(&'p Path);

impl<'p> CopyInWriting<'p> {
    fn begin(path: &'p Path) -> io::Result<CopyInWriting<'p>> {
        match sync::lock(&WRITING).insert(path.to_owned()) {
            true => Ok(CopyInWriting(path)),
            false => Err(io::Error::other("an older copy of it is being written")),
        }
    }
}

impl Drop for CopyInWriting<'_> {
    fn drop(&mut self) {
        sync::lock(&WRITING).remove(self.0);
    }
}

/// Writes a copy.
///
/// # Errors
/// It cannot be written; one is being written.
pub(super) fn write(path: &Path, zone: &Zone, confirmed_at_millis: u64) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let _writing = CopyInWriting::begin(path)?;
    fs::create_dir_all(folder)?;
    let unfinished = path.with_extension("new");
    let file = File::create(&unfinished)?;
    let mut out = BufWriter::with_capacity(1 << 18, file);
    zone.write_master_file(&mut out)?;
    out.flush()?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.set_modified(time_of(confirmed_at_millis))?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    File::open(folder)?.sync_all()
}

/// Notes that a primary has confirmed the copy.
pub(super) fn confirm(path: &Path, confirmed_at_millis: u64) -> io::Result<()> {
    File::options().write(true).open(path)?.set_modified(time_of(confirmed_at_millis))
}

/// When a primary has last confirmed the copy; none when there is none.
pub(super) fn confirmed_at_millis(path: &Path) -> Option<u64> {
    let modified = path.metadata().ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

fn time_of(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stays_in_its_folder_whatever_the_zone_is_called() {
        let name = |zone: &str| zone_copy(Path::new("d"), zone).display().to_string();
        assert_eq!(name("Example.Com."), "d/zones/example.com.zone");
        assert_eq!(name("../../etc/x"), "d/zones/%2e.%2f..%2fetc%2fx.zone");
        assert_eq!(name("."), "d/zones/%root.zone");
        let labels = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(57)].join(".");
        let file = |zone: &str| name(zone).rsplit('/').next().unwrap_or_default().to_owned();
        let [long, other] = [file(&format!("{labels}.x")), file(&format!("{labels}.y"))];
        assert!(long.len() < 240 && long != other, "{long} {other}");
        let catalog = labels.parse().expect("a name");
        let folder = members_folder(Path::new("d"), &catalog);
        assert!(folder.file_name().is_some_and(|name| name.len() < 240), "{folder:?}");
    }

    #[test]
    fn a_copy_is_not_written_while_an_older_one_is() {
        let path = Path::new("d/zones/twice.zone");
        let older = CopyInWriting::begin(path).expect("nobody writes");
        let zone = Zone::unavailable(&"twice".parse().expect("a name"));
        let error = write(path, &zone, 0).expect_err("somebody writes");
        assert_eq!(error.to_string(), "an older copy of it is being written");
        drop(older);
        assert!(CopyInWriting::begin(path).is_ok());
    }

    #[test]
    fn a_member_with_another_id_has_another_copy() {
        let zone = |text: &str| text.parse::<Name>().expect("a name");
        let catalog = zone("Catalog.Example");
        let path = |name: &str, id: &[u8]| {
            member_copy(Path::new("d"), &catalog, &zone(name), id).display().to_string()
        };
        let found = path("Example.Com", b"1");
        assert!(found.starts_with("d/zones/catalog.example.members/example.com-"), "{found}");
        assert_eq!(found, path("example.com", b"1"));
        assert_ne!(found, path("example.com", b"2"));
        let long = path(&format!("{0}.{0}.{0}", "\\000".repeat(63)), b"1");
        assert!(long.rsplit('/').next().is_some_and(|file| file.len() < 130), "{long}");
    }
}
