//! A node of any number of runs answers for every cell as its runs say.

use super::*;

/// The slot of an octet, through the one or two nodes that `child` leads to.
fn slot_of(words: &[u32], child: Slot, octet: u8) -> Slot {
    let slot = step(words, child, octet);
    if slot.is_child() && slot.octets_on() == 0 { step(words, slot, octet) } else { slot }
}

#[test]
fn every_cell_gives_the_slot_of_its_run() {
    for count in 1..=256 {
        let ends: Vec<u8> = (1..=count).map(|run| (run * 256 / count - 1) as u8).collect();
        let slots: Vec<u32> = (0..count as u32).map(|run| run + 1000).collect();
        let mut pool = NodePool::new();
        pool.add(&[100, 255], &[1, 2]).unwrap();
        let child = pool.add(&ends, &slots).unwrap();
        assert_eq!(pool.add(&ends, &slots), Some(child), "equal nodes are kept once");
        let words = pool.finish();
        for cell in 0..=255u8 {
            let run = ends.iter().filter(|end| **end < cell).count();
            assert_eq!(slot_of(&words, child, cell), Slot(slots[run]), "{count} runs, cell {cell}");
        }
    }
}

#[test]
fn a_node_of_one_line_never_lies_in_two() {
    let mut pool = NodePool::new();
    for runs in [2, 5, 12, 3, 7, 11, 4, 12, 12, 2, 9] {
        let ends: Vec<u8> = (1..runs).chain([255]).collect();
        let slots = vec![u32::from(runs); ends.len()];
        let slot = pool.add(&ends, &slots).unwrap();
        let words = slot.end_words() + slots.len();
        assert!(slot.place() % LINE_WORDS + words <= LINE_WORDS, "{runs} runs at {}", slot.place());
    }
}

#[test]
fn nodes_survive_the_growth_of_the_table_of_known_ones() {
    let mut pool = NodePool::new();
    let places: Vec<Slot> = (0..5000).map(|n| pool.add(&[9, 255], &[n, n + 1]).unwrap()).collect();
    let kept = pool.words.len();
    let mut shared = 0;
    for (n, place) in (0..5000).zip(&places) {
        shared += usize::from(pool.add(&[9, 255], &[n, n + 1]) == Some(*place));
    }
    assert!(shared > 4990, "{shared} of 5000 known; only a crowded place forgets");
    assert!(pool.words.len() < kept + 30);
}

#[test]
fn words_that_are_no_index_give_nothing_rather_than_a_panic() {
    let child = Slot::child(PLACES - 1, 4).unwrap();
    assert_eq!(step(&[], child, 3), Slot::NOTHING);
    assert_eq!(step(&[0; 4], Slot::child(0, 4).unwrap(), 3), Slot::NOTHING);
}
