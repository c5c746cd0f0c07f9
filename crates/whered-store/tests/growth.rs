//! Segments grow: a journal that is not used takes little of the disk.
//!
//! Not for: crashes while they grow; half of the histories of `simulation.rs` have such segments.

mod support;

use std::sync::Arc;

use support::{growing_options, open_with, small_options};
use whered_store::{Journal, JournalCore, JournalOptions, SimulatedDisk, Wanted};

/// The sizes of the segments, the oldest first.
fn sizes_bytes(disk: &SimulatedDisk) -> Vec<usize> {
    let segments = disk.names().into_iter().filter(|name| name.ends_with(".log"));
    segments.map(|name| disk.read(&name).expect("it is there").len()).collect()
}

/// Appends entries until there are this many segments.
fn fill(disk: &SimulatedDisk, core: &mut JournalCore, segments: usize) {
    while sizes_bytes(disk).len() < segments {
        core.append(1, &[7; 1000]).expect("the disk is healthy");
        core.write().expect("the disk is healthy");
        core.sync().expect("the disk is healthy");
    }
}

#[test]
fn each_segment_has_twice_the_size_of_the_one_before_it_up_to_the_configured_one() {
    let disk = SimulatedDisk::new(1);
    let (mut core, _, _) = open_with(&disk, &growing_options()).unwrap();
    assert_eq!(sizes_bytes(&disk), [8 << 10]);
    fill(&disk, &mut core, 3);
    core.close().unwrap();
    // A restart does not begin anew.
    let (mut core, _, _) = open_with(&disk, &growing_options()).unwrap();
    fill(&disk, &mut core, 6);
    let expected = [8 << 10, 16 << 10, 32 << 10, 64 << 10, 64 << 10, 64 << 10];
    assert_eq!(sizes_bytes(&disk), expected);
}

#[test]
fn a_journal_of_large_segments_is_read_and_goes_on_with_large_ones() {
    let disk = SimulatedDisk::new(2);
    let large = JournalOptions { segment_size_bytes: 64 << 10, ..small_options() };
    let (mut core, _, _) = open_with(&disk, &large).unwrap();
    fill(&disk, &mut core, 2);
    core.close().unwrap();
    let (mut core, _, found) = open_with(&disk, &growing_options()).unwrap();
    assert!(found.len() > 50 && found.iter().all(|entry| *entry == (1, vec![7; 1000])));
    fill(&disk, &mut core, 3);
    assert_eq!(sizes_bytes(&disk), [64 << 10; 3]);
}

#[test]
fn an_entry_larger_than_the_next_segment_gets_one_in_which_it_fits() {
    let disk = SimulatedDisk::new(3);
    let (mut core, _, _) = open_with(&disk, &growing_options()).unwrap();
    core.append(1, &[1; 20_000]).unwrap();
    core.append(1, &[2; 100_000]).unwrap();
    core.write().unwrap();
    core.sync().unwrap();
    core.close().unwrap();
    let (_, _, found) = open_with(&disk, &growing_options()).unwrap();
    assert_eq!(found, [(1, vec![1; 20_000]), (1, vec![2; 100_000])]);
}

#[test]
fn by_default_an_idle_journal_has_one_segment_of_256_kib_and_no_spare() {
    let disk = SimulatedDisk::new(4);
    let options = JournalOptions::default();
    let (journal, _) =
        Journal::open(Arc::new(disk.clone()), options, Wanted::all(), &mut |_| Ok(())).unwrap();
    let reservation = journal.reserve(100).unwrap();
    let sequence = journal.append(reservation, 1, &[1; 100]);
    journal.wait_durable(sequence).unwrap();
    journal.close().unwrap();
    assert_eq!(sizes_bytes(&disk), [256 << 10]);
    assert_eq!(disk.names().len(), 1);
}
