//! A frozen view is what the collection was, whatever is done to the collection afterwards.

use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;
use whered_geo::{Cell, Hit, NaivePoints, Order, Place, Points, Search, Shape, Tree};

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>, u64),
    Remove(Vec<u8>),
    Freeze,
    Drop(usize),
}

/// Members of all kinds, few enough to be met again; cells that are crowded, spread, and beyond
/// the ordinary ones.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let member = prop_oneof![
        30 => (0u16..1200).prop_map(|id| id.to_string().into_bytes()),
        2 => (1000usize..1040).prop_map(|length| vec![b'x'; length]),
        1 => (0u8..4).prop_map(|kind| vec![kind; 5000]),
    ];
    let bits = prop_oneof![
        6 => 0u64..1 << 52,
        6 => 1u64 << 40..(1 << 40) + 100_000,
        3 => Just(77u64),
        1 => prop_oneof![Just(1u64 << 52), Just(1u64 << 53), Just(3u64 << 52), Just((1u64 << 53) + 4)],
    ];
    let step = prop_oneof![
        40 => (member.clone(), bits).prop_map(|(member, bits)| Step::Insert(member, bits)),
        9 => member.prop_map(Step::Remove),
        1 => Just(Step::Freeze),
        1 => (0usize..5).prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 0..1500)
}

fn assert_same(view: &Tree, twin: &NaivePoints) {
    assert_eq!(view.len(), twin.len());
    assert!(view.iter().eq(twin.iter()));
    assert!(view.iter().rev().eq(twin.iter().rev()));
    for rank in [0, view.len() / 3, view.len() / 2] {
        let entry = view.iter_from_rank(rank).next();
        assert_eq!(entry, twin.iter().nth(rank));
        if let Some((member, cell)) = entry {
            assert_eq!(view.rank_of(member, cell), Some(rank));
        }
    }
    let center = Place::new(30.0, 20.0).expect("on the globe");
    let shape = Shape::Circle { radius_meters: 5_000_000.0 };
    let search = Search { center, shape, order: Order::Ascending, count: Some(20), any: false };
    let (mut hits, mut expected): (Vec<Hit<'_>>, Vec<Hit<'_>>) = (Vec::new(), Vec::new());
    view.search(&search, &mut hits);
    twin.search(&search, &mut expected);
    assert_eq!(hits, expected);
}

proptest! {
    #[test]
    fn views_equal_the_twin_of_their_time(steps in steps()) {
        let (mut points, mut twin) = (Points::new(), NaivePoints::new());
        let mut views: Vec<(Tree, NaivePoints)> = Vec::new();
        for step in &steps {
            match step {
                Step::Insert(member, bits) => {
                    let cell = Cell::from_bits(*bits).expect("a cell");
                    prop_assert_eq!(points.insert(member, cell), twin.insert(member, cell));
                }
                Step::Remove(member) => prop_assert_eq!(points.remove(member), twin.remove(member)),
                Step::Freeze => views.push((points.freeze(), twin.clone())),
                Step::Drop(index) if *index < views.len() => {
                    let (view, then) = views.swap_remove(*index);
                    assert_same(&view, &then);
                }
                Step::Drop(_) => {}
            }
        }
        for (view, then) in &views {
            assert_same(view, then);
        }
        assert_same(&points.freeze(), &twin);
        for (member, cell) in twin.iter() {
            prop_assert_eq!(points.cell(member), Some(cell));
        }
    }
}

fn checksum(view: &Tree) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (member, cell) in view {
        hasher.write(member);
        hasher.write_u64(cell.bits());
    }
    hasher.finish()
}

#[test]
fn views_are_stable_in_other_threads_while_points_move() {
    const MEMBERS: u64 = 30_000;
    let mut state = 3u64;
    let mut random = move |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % limit
    };
    let done = AtomicBool::new(false);
    let (sender, receiver) = mpsc::sync_channel::<(Tree, u64)>(4);
    let receiver = std::sync::Mutex::new(receiver);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let next = receiver.lock().expect("no reader panics with it").recv();
                    let Ok((view, sum)) = next else { break };
                    assert_eq!(view.len() as u64, MEMBERS);
                    // Twice, since the writer goes on meanwhile.
                    assert_eq!(checksum(&view), sum);
                    assert_eq!(checksum(&view), sum);
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        let mut points = Points::new();
        for id in 0..MEMBERS {
            let cell = Cell::from_bits(random(1 << 31) << 20).expect("a cell");
            points.insert(format!("{id}").as_bytes(), cell);
        }
        for _ in 0..40 {
            let view = points.freeze();
            let sum = checksum(&view);
            sender.send((view, sum)).expect("the readers wait");
            for _ in 0..3_000 {
                let cell = Cell::from_bits(random(1 << 31) << 20).expect("a cell");
                points.insert(random(MEMBERS).to_string().as_bytes(), cell);
            }
        }
        drop(sender);
    });
    assert!(done.into_inner());
}
