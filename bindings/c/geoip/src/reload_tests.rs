//! Data that is read stays, whatever replaces it and however long ago; what nobody reads goes.

use super::*;
use crate::abi::{CHECK_CACHE, GeoIP, MEMORY_CACHE, MMAP_CACHE, SILENCE};
use crate::handle::{self, GeoIP_delete};
use crate::tree::Address;
use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

const COUNTRY_BASE: u32 = 16_776_960;

/// A country file: the lower half of all addresses has one country, the upper half another.
fn country_file(lower: u32, upper: u32) -> Vec<u8> {
    let numbers = [lower, upper].map(|country| (COUNTRY_BASE + country).to_le_bytes());
    let node = numbers.iter().flat_map(|bytes| bytes[..3].to_vec());
    node.chain(*b"\0\0\0GEO-000 20261128 Build 1\xff\xff\xff\x01").collect()
}

struct Opened {
    folder: PathBuf,
    file: PathBuf,
    gi: *mut GeoIP,
    /// The second of the next look.
    now: i64,
}

impl Opened {
    fn new(name: &str, flags: c_int) -> Opened {
        let folder = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("GeoIP.dat");
        std::fs::write(&file, country_file(1, 2)).unwrap();
        let path = CString::new(file.as_os_str().as_bytes()).unwrap();
        let gi = handle::open(&path, flags | CHECK_CACHE | SILENCE, None);
        assert!(!gi.is_null());
        // SAFETY: a null pointer is allowed.
        let now = unsafe { libc::time(null_mut()) } + 1_000_000;
        Opened { folder, file, gi, now }
    }

    fn handle(&self) -> &Handle {
        // SAFETY: an open handle.
        unsafe { Handle::of(self.gi) }.unwrap()
    }

    fn replace(&self, content: &[u8]) {
        let new = self.folder.join("new");
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    /// Looks at the file, with data freed at once where nobody reads it.
    fn look(&mut self) {
        self.now += 1;
        check(self.handle(), self.now, Duration::ZERO);
    }

    /// The same as if the file had been written `age_seconds` ago.
    fn look_at_age(&mut self, age_seconds: i64) {
        let modified = modified_seconds(&self.file);
        self.now = modified + age_seconds;
        check(self.handle(), self.now, Duration::ZERO);
    }

    fn country(&self, address: u32) -> u32 {
        self.handle().data().seek(Address::v4(address)).unwrap().number - COUNTRY_BASE
    }

    fn retired(&self) -> usize {
        let mut count = 0;
        let mut place = &self.handle().reload.retired;
        // SAFETY: no other thread looks.
        while let Some(retired) = unsafe { place.load(Relaxed).as_ref() } {
            count += 1;
            place = &retired.next;
        }
        count
    }
}

fn modified_seconds(file: &Path) -> i64 {
    let path = CString::new(file.as_os_str().as_bytes()).unwrap();
    Identity::at(&path).unwrap().modified_seconds
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: an open handle that nobody uses any more.
        unsafe { GeoIP_delete(self.gi) };
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const MODES: [c_int; 3] = [0, MEMORY_CACHE, MMAP_CACHE];

#[test]
fn data_is_not_freed_while_a_lookup_reads_it() {
    for flags in MODES {
        let mut opened = Opened::new(&format!("read-{flags}"), flags);
        let other = Opened::new(&format!("other-{flags}"), flags);
        let pointer = opened.gi as usize;
        let (started, is_started) = mpsc::channel();
        let (finish, may_finish) = mpsc::channel::<()>();
        let reader = std::thread::spawn(move || {
            // SAFETY: an open handle, which outlives the thread.
            let handle = unsafe { Handle::of(pointer as *mut GeoIP) }.unwrap();
            let data = handle.data();
            started.send(()).unwrap();
            may_finish.recv().unwrap();
            data.seek(Address::v4(0)).unwrap().number - COUNTRY_BASE
        });
        is_started.recv().unwrap();
        for country in 3..9 {
            opened.replace(&country_file(country, country));
            opened.look();
            assert_eq!(opened.country(0), country);
        }
        // Versions in between are read by nobody, and the reader's stays.
        opened.look();
        assert_eq!(opened.retired(), 1);
        finish.send(()).unwrap();
        assert_eq!(reader.join().unwrap(), 1);
        opened.look();
        assert_eq!(opened.retired(), 0);
        assert_eq!(other.country(u32::MAX), 2);
    }
}

#[test]
fn nested_calls_and_more_threads_than_slots_keep_their_data_too() {
    let mut opened = Opened::new("slots", MEMORY_CACHE);
    let pointer = opened.gi as usize;
    let count = 200;
    let (started, is_started) = mpsc::channel();
    let mut finish = Vec::new();
    let mut readers = Vec::new();
    for _ in 0..count {
        let (end, may_finish) = mpsc::channel::<()>();
        let started = started.clone();
        finish.push(end);
        readers.push(std::thread::spawn(move || {
            // SAFETY: an open handle, which outlives the thread.
            let handle = unsafe { Handle::of(pointer as *mut GeoIP) }.unwrap();
            let outer = handle.data();
            // As of a signal handler that interrupts a lookup.
            drop(handle.data());
            started.send(()).unwrap();
            may_finish.recv().unwrap();
            outer.seek(Address::v4(0)).unwrap().number - COUNTRY_BASE
        }));
    }
    for _ in 0..count {
        is_started.recv().unwrap();
    }
    opened.replace(&country_file(7, 7));
    opened.look();
    for (end, reader) in finish.into_iter().zip(readers) {
        opened.look();
        assert_eq!(opened.retired(), 1);
        end.send(()).unwrap();
        assert_eq!(reader.join().unwrap(), 1);
    }
    opened.look();
    assert_eq!((opened.retired(), opened.country(0)), (0, 7));
}

#[test]
fn replaced_data_stays_for_a_minute_at_least() {
    let mut opened = Opened::new("grace", MEMORY_CACHE);
    opened.replace(&country_file(7, 7));
    opened.look();
    opened.now += 1;
    check(opened.handle(), opened.now, GRACE);
    assert_eq!(opened.retired(), 1);
    opened.look();
    assert_eq!(opened.retired(), 0);
}

#[test]
fn a_file_that_may_be_half_written_is_not_taken() {
    let mut opened = Opened::new("half", MEMORY_CACHE);
    // In place: after a minute.
    std::fs::write(&opened.file, [country_file(3, 3), vec![0; 5]].concat()).unwrap();
    opened.look_at_age(60);
    assert_eq!(opened.country(0), 1);
    opened.look_at_age(61);
    assert_eq!(opened.country(0), 3);
    // Another file: when two looks have seen it unchanged, or it is two seconds old.
    opened.replace(&country_file(4, 4));
    opened.look_at_age(0);
    assert_eq!(opened.country(0), 3);
    opened.look_at_age(1);
    assert_eq!(opened.country(0), 4);
    opened.replace(&country_file(5, 5));
    opened.look_at_age(2);
    assert_eq!(opened.country(0), 5);
    // Without its end a file passes for one of countries: after a minute.
    let whole = country_file(6, 6);
    opened.replace(&whole[..whole.len() - 5]);
    for age in [2, 3, 60] {
        opened.look_at_age(age);
        assert_eq!(opened.country(0), 5);
    }
    opened.look_at_age(61);
    assert_eq!(opened.country(0), 6);
}

#[test]
fn a_new_file_with_the_number_of_the_deleted_one_is_another_file() {
    let mut opened = Opened::new("number", MEMORY_CACHE);
    let born = |file: &Path| std::fs::metadata(file).unwrap().created().ok();
    if born(&opened.file).is_none() {
        return;
    }
    for country in 3..9 {
        let before = born(&opened.file);
        // Births have the clock's ticks.
        while born(&opened.file) == before {
            std::fs::remove_file(&opened.file).unwrap();
            std::fs::write(&opened.file, country_file(country, country)).unwrap();
        }
        opened.look_at_age(2);
        assert_eq!(opened.country(0), country);
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_tried_once_and_its_successor_is_taken() {
    let mut opened = Opened::new("refused", 0);
    opened.replace(b"no");
    opened.look();
    let refused = |opened: &Opened| {
        // SAFETY: nobody looks.
        unsafe { (*opened.handle().reload.seen.get()).refused }
    };
    assert!(refused(&opened).is_some());
    opened.look();
    assert_eq!(opened.country(0), 1);
    opened.replace(&country_file(9, 9));
    opened.look();
    assert_eq!(opened.country(0), 9);
}

#[test]
fn a_child_of_a_fork_looks_though_a_thread_of_its_parent_did() {
    let mut opened = Opened::new("fork", 0);
    let lock = opened.handle().reload.try_lock().unwrap();
    assert!(opened.handle().reload.try_lock().is_none());
    std::mem::forget(lock);
    // As in the child: the mark is that of another process.
    opened.handle().reload.looking.store(1, Relaxed);
    opened.replace(&country_file(9, 9));
    opened.look();
    assert_eq!(opened.country(0), 9);
    assert_eq!(opened.handle().reload.looking.load(Relaxed), 0);
}
