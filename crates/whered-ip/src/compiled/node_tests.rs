//! Every form of a node answers for every cell as its runs say.

use super::*;

/// Adds a node with this many runs of growing slots, spread over the cells, and checks all cells.
fn check(count: usize, direct_from_runs: usize) {
    let ends: Vec<u8> = (1..=count).map(|run| (run * 256 / count - 1) as u8).collect();
    let slots: Vec<u32> = (0..count as u32).map(|run| run + 1000).collect();
    let mut pool = NodePool::new(direct_from_runs);
    pool.add(&[100, 255], &[1, 2]).unwrap();
    let child = pool.add(&ends, &slots).unwrap();
    assert_eq!(pool.add(&ends, &slots), Some(child), "equal nodes are kept once");
    let words = pool.finish();
    for cell in 0..=255u8 {
        let run = ends.iter().filter(|end| **end < cell).count();
        assert_eq!(step(&words, child, cell), Slot(slots[run]), "{count} runs, cell {cell}");
        assert_eq!(words[slot_place_unbranched(&words, child, cell)], slots[run]);
    }
}

#[test]
fn every_cell_of_every_form_gives_the_slot_of_its_run() {
    for count in 1..=256 {
        check(count, 257);
        check(count, 64);
        check(count, 1);
    }
}

#[test]
fn answers_come_back_from_their_slots() {
    for length in [0, 1, 32, 64, 128] {
        for value in [0, 1, NARROW_VALUES - 1] {
            let slot = Slot::narrow(value, length).unwrap();
            assert_eq!(slot.answer(), Answer::Narrow(value, length));
            assert!(!slot.is_child());
        }
    }
    assert_eq!(Slot::narrow(NARROW_VALUES, 8), None);
    assert_eq!(Slot::NOTHING.answer(), Answer::Nothing);
    assert_eq!(Slot::wide(5).unwrap().answer(), Answer::Wide(5));
    assert_eq!(Slot::wide(NARROW_VALUES as usize), None);
    assert_eq!(Slot::alias(96).answer(), Answer::Alias(96));
}

#[test]
fn nodes_survive_the_growth_of_the_table_of_known_ones() {
    let mut pool = NodePool::new(257);
    let places: Vec<Slot> = (0..5000).map(|n| pool.add(&[9, 255], &[n, n + 1]).unwrap()).collect();
    let kept = pool.words.len();
    let mut shared = 0;
    for (n, place) in (0..5000).zip(&places) {
        shared += usize::from(pool.add(&[9, 255], &[n, n + 1]) == Some(*place));
    }
    assert!(shared > 4990, "{shared} of 5000 known; only a crowded place forgets");
    assert!(pool.words.len() < kept + 30);
}
