//! A lookup hint changes no result, whatever changed in the collection since.

use std::collections::HashMap;

use whered_geo::{Cell, Inserted, LookupHint, Points};

type Batch = Vec<(Vec<u8>, Cell)>;
type Twin = HashMap<Vec<u8>, Cell>;

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Few enough members and cells that they meet often: numbers, words, a long name; close cells,
    /// one cell, the limit.
    fn point(&mut self, members: u64) -> (Vec<u8>, Cell) {
        let number = self.below(members);
        let member = match number % 7 {
            0 => format!("name {number}"),
            1 if number < 50 => format!("{number}{}", "x".repeat(1500)),
            _ => number.to_string(),
        };
        let cell = match self.below(50) {
            0 => Cell::MAX,
            1 => Cell::MIN,
            2..10 => Cell::from_bits(1 << 40).expect("a cell"),
            10..30 => Cell::from_bits((1 << 40) + self.below(5000)).expect("a cell"),
            _ => Cell::from_bits(self.below(1 << 20) << 32).expect("a cell"),
        };
        (member.into_bytes(), cell)
    }
}

fn as_given(points: &[(Vec<u8>, Cell)]) -> Vec<(&[u8], Cell)> {
    points.iter().map(|(member, cell)| (member.as_slice(), *cell)).collect()
}

fn insert(twin: &mut Twin, member: &[u8], cell: Cell) -> Inserted {
    match twin.insert(member.to_vec(), cell) {
        None => Inserted::New,
        Some(old) if old == cell => Inserted::Unchanged,
        Some(_) => Inserted::Moved,
    }
}

fn assert_same(points: &Points, twin: &Twin) {
    let mut entries: Vec<(&[u8], Cell)> =
        twin.iter().map(|(member, cell)| (&member[..], *cell)).collect();
    entries.sort_by_key(|&(member, cell)| (cell, member));
    assert!(points.iter().eq(entries), "the entries differ");
    for (member, cell) in twin {
        assert_eq!(points.cell(member), Some(*cell), "{}", member.escape_ascii());
    }
}

#[test]
fn old_hints_and_those_of_another_collection_change_nothing() {
    for (members, rounds) in [(30, 400), (2_000, 400), (160_000, 150)] {
        let mut random = Random(members);
        let (mut points, mut twin) = (Points::new(), Twin::new());
        let mut other = Points::new();
        let mut kept: Vec<(Batch, Vec<LookupHint>)> = Vec::new();
        let mut used = 0;
        for _ in 0..members {
            let (member, cell) = random.point(members);
            assert_eq!(points.insert(&member, cell), insert(&mut twin, &member, cell));
            other.insert(&member, random.point(members).1);
        }
        for round in 0..rounds {
            let batch: Batch = (0..1 + random.below(40)).map(|_| random.point(members)).collect();
            let mut hints = vec![LookupHint::default(); batch.len()];
            let seen = if round % 9 == 0 { &other } else { &points };
            seen.lookup_hints(&as_given(&batch), &mut hints);
            kept.push((batch, hints));
            // Some are used at once, some after others, some when leaves and branches have come and
            // gone.
            for _ in 0..random.below(3) {
                let (batch, hints) = kept.swap_remove(random.below(kept.len() as u64) as usize);
                for ((member, cell), hint) in batch.iter().zip(&hints) {
                    let expected = insert(&mut twin, member, *cell);
                    assert_eq!(points.insert_with_hint(member, *cell, hint), expected);
                    used += usize::from(expected == Inserted::Moved);
                }
                if kept.is_empty() {
                    break;
                }
            }
            if round % 50 == 49 {
                for _ in 0..members / 8 {
                    let (member, _) = random.point(members);
                    assert_eq!(points.remove(&member), twin.remove(&member).is_some());
                }
                assert_same(&points, &twin);
            }
        }
        assert!(members < 100_000 || twin.len() > 1 << 16, "the table has many parts");
        assert!(used > 100, "{used} moves");
        assert_same(&points, &twin);
    }
}
