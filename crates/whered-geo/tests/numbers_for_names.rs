//! Members that are decimal numbers, which a large collection finds by its table alone, among
//! others that look like them: alone and in batches, after moves, removals and bulk changes.

use std::collections::HashMap;

use whered_geo::{Cell, Change, Place, Points};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }

    /// A number, in one of ten a text that is nearly one, or a number that is too large.
    fn name(&mut self) -> Vec<u8> {
        let number = self.below(90_000) * 23_861;
        match self.below(30) {
            0 => format!("0{number}"),
            1 => format!("{number}x"),
            2 => (number + (1 << 31)).to_string(),
            _ => number.to_string(),
        }
        .into_bytes()
    }

    /// Any cell; now and then one at the limit of the globe, of which the table has a part only.
    fn cell(&mut self) -> Cell {
        let longitude =
            if self.below(20) == 0 { 180.0 } else { self.below(360_000) as f64 / 1e3 - 180.0 };
        let latitude =
            if self.below(20) == 0 { 85.05112878 } else { self.below(170_000) as f64 / 1e3 - 85.0 };
        Cell::from_place(Place::new(longitude, latitude).expect("it is within the limits"))
    }
}

fn assert_same(points: &Points, twin: &HashMap<Vec<u8>, Cell>, random: &mut Random) {
    assert_eq!(points.len(), twin.len());
    let mut names: Vec<Vec<u8>> = (0..40_000).map(|_| random.name()).collect();
    names.extend(twin.keys().cloned());
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let mut found = Vec::new();
    for (index, batch) in names.chunks(150).enumerate() {
        points.cells_batch(&batch[..batch.len() - index % 3], &mut found);
        found.extend(batch[batch.len() - index % 3..].iter().map(|name| points.cell(name)));
    }
    for (name, found) in names.iter().zip(found) {
        let wanted = twin.get(*name).copied();
        assert_eq!(found, wanted, "{}", name.escape_ascii());
        assert_eq!(points.cell(name), wanted, "{}", name.escape_ascii());
    }
}

#[test]
fn numbers_are_found_where_they_are_and_nowhere_else() {
    let mut random = Random(3);
    let (mut points, mut twin) = (Points::new(), HashMap::new());
    for round in 0..400_000 {
        let (name, cell) = (random.name(), random.cell());
        if random.below(4) == 0 {
            assert_eq!(points.remove(&name), twin.remove(&name).is_some());
        } else {
            points.insert(&name, cell);
            twin.insert(name, cell);
        }
        // Before the table is dealt out to many parts, and after.
        if round == 20_000 || round == 200_000 {
            assert_same(&points, &twin, &mut random);
        }
    }
    assert!(points.len() > 65_536);
    assert_same(&points, &twin, &mut random);
}

#[test]
fn bulk_changes_of_numbers_leave_nothing_behind() {
    let mut random = Random(5);
    let (mut points, mut twin) = (Points::new(), HashMap::new());
    for round in 0..6 {
        let changes: Vec<(Vec<u8>, Option<Cell>)> = (0..100_000)
            .map(|_| (random.name(), (random.below(3) > 0).then(|| random.cell())))
            .collect();
        let bulk: Vec<Change<'_>> =
            changes.iter().map(|(member, cell)| Change { member, cell: *cell }).collect();
        points.apply_bulk(&bulk, 1 + round % 2);
        for (name, cell) in changes {
            match cell {
                Some(cell) => _ = twin.insert(name, cell),
                None => _ = twin.remove(&name),
            }
        }
        assert_same(&points, &twin, &mut random);
    }
}
