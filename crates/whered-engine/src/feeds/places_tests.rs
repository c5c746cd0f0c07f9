//! Sightings in groups, each approached before the group's others are noted, beside a walk through
//! all positions one sighting at a time.

use std::sync::Arc;

use whered_geo::Place;
use whered_store::{ColdFile, ColdWriter, SimulatedDisk};

use super::*;
use whered_random::Random;

/// What a sum of places is of.
struct Position {
    member: u32,
    ordinal: u32,
    count: f64,
    longitudes: f64,
    latitudes: f64,
}

/// The rule as it is written: of the member's positions within the radius the nearest, the oldest
/// of equally near ones; else a new one.
fn naive(rows: &mut Vec<Position>, member: u32, place: Place, radius_meters: f64) -> SightingSlot {
    let mut best: Option<(f64, usize)> = None;
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| row.member == member) {
        let longitude = row.longitudes / row.count;
        let longitude_degrees = longitude - (longitude / 360.0).round() * 360.0;
        let mean = Place { longitude_degrees, latitude_degrees: row.latitudes / row.count };
        let meters = mean.distance_meters(place);
        if meters <= radius_meters && best.is_none_or(|(least, _)| meters < least) {
            best = Some((meters, number));
        }
    }
    let Place { longitude_degrees, latitude_degrees } = place;
    if let Some((_, number)) = best {
        let row = &mut rows[number];
        // Beyond the date line the sighting is taken where it is next to the position.
        let away = row.longitudes / row.count - longitude_degrees;
        row.longitudes += longitude_degrees + (away / 360.0).round() * 360.0;
        row.latitudes += latitude_degrees;
        row.count += 1.0;
        return SightingSlot { row: number as u32, ordinal: row.ordinal };
    }
    let ordinal = 1 + rows.iter().filter(|row| row.member == member).count() as u32;
    let (longitudes, latitudes) = (longitude_degrees, latitude_degrees);
    rows.push(Position { member, ordinal, count: 1.0, longitudes, latitudes });
    SightingSlot { row: rows.len() as u32 - 1, ordinal }
}

#[test]
fn sightings_that_are_approached_together_are_those_of_one_after_the_other() {
    let mut random = Random(5);
    for (radius_meters, spread) in
        [(25.0, 40), (25.0, 2_000), (3_000.0, 40_000), (90_000.0, 400_000)]
    {
        for corner in [(8.0, 79.0), (179.99, -40.0), (-179.9, 85.0)] {
            walk(&mut random, radius_meters, spread, corner);
        }
    }
}

/// Sightings of four members in a square of so many hundred-thousandths of a degree.
fn walk(random: &mut Random, radius_meters: f64, spread: u64, corner: (f64, f64)) {
    let mut places = Places::new(PlaceRule::Merged(radius_meters));
    let (mut rows, mut names) = (Vec::new(), Vec::new());
    places.begin(1);
    for round in 0..60 {
        let group: Vec<(u64, Place)> = (0..1 + random.below(40))
            .map(|_| {
                let mut degrees = || random.below(spread) as f64 * 1e-5;
                let (east, north) = (corner.0 + degrees(), corner.1 + degrees());
                let longitude_degrees = if east > 180.0 { east - 360.0 } else { east };
                let latitude_degrees = north.min(85.05);
                (random.below(4), Place { longitude_degrees, latitude_degrees })
            })
            .collect();
        let texts: Vec<Vec<u8>> =
            group.iter().map(|(name, _)| format!("object {name}").into_bytes()).collect();
        let sighted = sight_all(&mut places, &texts, &group);
        for ((name, place), sighted) in group.iter().zip(sighted) {
            let known = names.iter().position(|other| other == name);
            let member = known.unwrap_or(names.len()) as u32;
            if known.is_none() {
                names.push(*name);
            }
            let expected = naive(&mut rows, member, *place, radius_meters);
            assert_eq!(sighted, expected, "{place:?}");
        }
        // As a start, a load, and another radius do.
        if round % 20 == 19 {
            places.has_near = false;
            places.ensure_near();
        }
    }
    assert_eq!(places.len() as usize, rows.len());
}

/// A group of sightings, step by step.
fn sight_all(places: &mut Places, texts: &[Vec<u8>], group: &[(u64, Place)]) -> Vec<SightingSlot> {
    let mut approaches: Vec<Approach> = texts.iter().map(|text| places.approach(text)).collect();
    for ((approach, text), (_, place)) in approaches.iter_mut().zip(texts).zip(group) {
        places.approach_member(approach, text, *place);
    }
    approaches.iter_mut().for_each(|approach| places.approach_rows(approach));
    let each = approaches.iter().zip(texts).zip(group);
    each.map(|((approach, text), (_, place))| places.sight(approach, text, *place, 0)).collect()
}

/// Places of a member with one position and one with twenty.
fn known() -> Places {
    let mut places = Places::new(PlaceRule::Merged(25.0));
    places.begin(1);
    for number in 0..21 {
        let at = Place { longitude_degrees: f64::from(number), latitude_degrees: 50.0 };
        let name: &[u8] = if number == 0 { b"one" } else { b"many" };
        let approach = places.approach(name);
        places.sight(&approach, name, at, 0);
    }
    places
}

/// A file of the blocks of `good`, each as `change` leaves it, behind those that are there already.
fn rewritten(
    disk: &SimulatedDisk,
    good: &ColdFile,
    before: &[u16],
    change: impl Fn(u16, &mut Vec<u8>),
) -> ColdFile {
    let mut writer = ColdWriter::create(Arc::new(disk.clone()), "feed").expect("there is room");
    before.iter().for_each(|kind| writer.write_block(*kind, 0, &[]).expect("there is room"));
    let mut words = Vec::new();
    for (index, block) in good.blocks().iter().enumerate() {
        let mut bytes = good.read_block(index, &mut words).expect("it is good").to_vec();
        change(block.kind, &mut bytes);
        writer.write_block(block.kind, block.tag, &bytes).expect("there is room");
    }
    writer.finish().expect("there is room")
}

#[test]
fn a_file_gives_the_places_that_it_got_also_one_with_a_grid_and_no_others() {
    let disk = SimulatedDisk::new(1);
    let mut writer = ColdWriter::create(Arc::new(disk.clone()), "feed").expect("there is room");
    known().write_cold(&mut writer).expect("there is room");
    let good = writer.finish().expect("there is room");
    let load = |file: &ColdFile| Places::load_cold(file, PlaceRule::Merged(25.0));

    // As it was written before: the radius, 21 lists, and blocks of a grid.
    let with_grid = rewritten(&disk, &good, &[27, 28], |kind, bytes| {
        if kind == 16 {
            bytes[8..16].copy_from_slice(&25.0_f64.to_bits().to_le_bytes());
            bytes[40..48].copy_from_slice(&21_u64.to_le_bytes());
        }
    });
    for file in [&good, &with_grid] {
        let mut places = load(file).expect("it is good");
        places.ensure_near();
        places.begin(2);
        for (name, number) in [(&b"one"[..], 0), (b"many", 1), (b"many", 20)] {
            let at = Place { longitude_degrees: f64::from(number), latitude_degrees: 50.0001 };
            let approach = places.approach(name);
            let ordinal = (number as u32).max(1);
            let expected = SightingSlot { row: number as u32, ordinal };
            assert_eq!(places.sight(&approach, name, at, 0), expected);
        }
    }

    let empty = rewritten(&disk, &good, &[17], |_, _| {});
    let other = rewritten(&disk, &good, &[], |kind, bytes| {
        if kind == 17 {
            // The second row's ordinal.
            bytes[48 + 4] = 3;
        }
    });
    for (file, reason) in [(empty, "number of rows"), (other, "not its member's next one")] {
        let error = load(&file).expect_err("it is wrong").to_string();
        assert!(error.contains(reason) && error.contains(file.name()), "{error}");
    }
}
