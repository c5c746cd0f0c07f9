//! Pages that are written while the collection changes, with the changes applied to what comes
//! back, are the collection.

use proptest::prelude::*;
use whered_geo::{Cell, NaivePoints, PagePosition, Pages, Points, PointsLoader};
use whered_random::Random;

#[derive(Clone, Debug)]
enum Change {
    Put(Vec<u8>, u64),
    Remove(Vec<u8>),
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        60 => (0u16..1500).prop_map(|id| id.to_string().into_bytes()),
        2 => (1000usize..1050).prop_map(|length| vec![b'x'; length]),
        1 => (0u8..4).prop_map(|kind| vec![kind; 3000]),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let bits = prop_oneof![
        6 => 0u64..1 << 52,
        6 => 1u64 << 40..(1 << 40) + 100_000,
        4 => Just(77u64),
        1 => prop_oneof![Just(1u64 << 52), Just(1u64 << 53), Just(3u64 << 52), Just((1u64 << 53) + 4)],
    ];
    prop_oneof![
        9 => (member(), bits).prop_map(|(member, bits)| Change::Put(member, bits)),
        2 => member().prop_map(Change::Remove),
    ]
}

fn cell(bits: u64) -> Cell {
    Cell::from_bits(bits).expect("a cell")
}

fn apply(points: &mut Points, changes: &[Change]) {
    for change in changes {
        match change {
            Change::Put(member, bits) => {
                points.insert(member, cell(*bits));
            }
            Change::Remove(member) => {
                points.remove(member);
            }
        }
    }
}

fn words(pages: &Pages) -> Vec<u64> {
    let bytes = pages.pieces().concat();
    assert_eq!(bytes.len(), pages.size_bytes());
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8"))).collect()
}

/// Writes all pages, with some of the changes before each but the first; the rest stay.
fn walk(points: &mut Points, changes: &[Change], each: usize, bytes_max: usize) -> Vec<Vec<u64>> {
    let mut changes = changes.chunks(each);
    let mut next = Some(PagePosition::default());
    let (mut written, mut kept) = (Vec::new(), Vec::new());
    while let Some(from) = next {
        let pages = points.pages(&from, bytes_max);
        // A page holds its leaves while the next changes are made, as one being written does.
        kept.push(pages.clone());
        apply(points, changes.next().unwrap_or_default());
        written.push(words(&pages));
        next = pages.into_next();
    }
    assert!(kept.iter().map(words).eq(written.iter().cloned()), "pages stay as they were");
    changes.for_each(|rest| apply(points, rest));
    written
}

/// Loads pages by turns into two loaders, as two threads would.
fn load(pages: &[Vec<u64>], threads: usize) -> Points {
    let mut loaders = [PointsLoader::new(), PointsLoader::new()];
    for (number, page) in pages.iter().enumerate() {
        loaders[number % 3 % 2].load(number as u64, page).expect("a good page");
    }
    let [mut loader, other] = loaders;
    loader.join(other);
    loader.finish(threads)
}

proptest! {
    #[test]
    fn pages_and_the_changes_since_are_the_collection(
        first in prop::collection::vec(change(), 0..3000),
        changes in prop::collection::vec(change(), 0..1500),
        each in 1usize..400,
        bytes_max in prop_oneof![Just(0usize), 1usize..3000, 3000usize..100_000],
        threads in 1usize..4,
    ) {
        let mut points = Points::new();
        apply(&mut points, &first);
        let pages = walk(&mut points, &changes, each, bytes_max);
        let mut back = load(&pages, threads);
        for (member, cell) in &back {
            prop_assert_eq!(back.cell(member), Some(cell));
        }
        apply(&mut back, &changes);
        prop_assert!(back.iter().eq(points.iter()));
        for (member, cell) in &points {
            prop_assert_eq!(back.cell(member), Some(cell));
        }
        let mut twin = NaivePoints::new();
        for change in first.iter().chain(&changes) {
            match change {
                Change::Put(member, bits) => drop(twin.insert(member, cell(*bits))),
                Change::Remove(member) => drop(twin.remove(member)),
            }
        }
        prop_assert!(back.iter().eq(twin.iter()));
    }
}

/// Many points, so that the table has many parts; much moves while the pages are written.
#[test]
fn large_collections_come_back_while_half_of_them_moves() {
    let mut random = Random(3);
    let mut points = Points::new();
    for id in 0..150_000u64 {
        points.insert(id.to_string().as_bytes(), cell(random.below(1 << 30) << 20));
    }
    let mut change = || {
        let member = random.below(160_000).to_string().into_bytes();
        let bits = random.below(1 << 30) << 20;
        if random.below(8) == 0 { Change::Remove(member) } else { Change::Put(member, bits) }
    };
    let changes: Vec<Change> = (0..100_000).map(|_| change()).collect();
    let pages = walk(&mut points, &changes, 700, 30_000);
    assert!(pages.len() > 100);
    for threads in [1, 2, 3] {
        let mut back = load(&pages, threads);
        assert!(back.iter().all(|(member, cell)| back.cell(member) == Some(cell)));
        apply(&mut back, &changes);
        assert!(back.iter().eq(points.iter()));
        assert!(back.iter().all(|(member, cell)| back.cell(member) == Some(cell)));
    }
}
