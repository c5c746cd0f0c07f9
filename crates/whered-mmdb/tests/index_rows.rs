//! Rows of an index hold what the records hold, whatever their columns are made of; and an index
//! whose memory somebody overwrote gives wrong cells, but always gives some.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod support;

use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::sync::Arc;
use support::{Random, cells};
use whered_ip::Prefix;
use whered_mmdb::{
    Database, DatabaseIndex, FieldPath, Found, IndexForm, IndexOptions, Value, Writer,
    WriterOptions,
};

/// What the values of a column are drawn from.
#[derive(Debug, Clone, Copy)]
enum Style {
    /// Doubles with a number of decimals, in a range of units.
    Decimals(i32, u64),
    /// The same, and now and then one that is none.
    NearlyDecimals(i32),
    AnyDoubles,
    Floats,
    Booleans,
    Signed(u64),
    Unsigned(u64),
    /// Unsigned numbers that leave nothing for "absent".
    AllOf64Bits,
    /// A number of strings, up to a length.
    Texts(u64, u64),
    /// Texts of some ten bytes, hardly two the same; now and then a long one or an empty one.
    Names,
    InPlace,
    Mixed,
    Nothing,
}

const STYLES: [Style; 22] = [
    Style::Decimals(0, 100),
    Style::Decimals(1, 1_800),
    Style::Decimals(4, 3_600_000),
    Style::Decimals(6, 360_000_000),
    Style::Decimals(9, 1 << 40),
    Style::NearlyDecimals(4),
    Style::AnyDoubles,
    Style::Floats,
    Style::Booleans,
    Style::Signed(200),
    Style::Signed(1 << 32),
    Style::Unsigned(255),
    Style::Unsigned(1 << 32),
    Style::Unsigned(u64::MAX),
    Style::AllOf64Bits,
    Style::Texts(40, 3),
    Style::Texts(400, 90),
    Style::Texts(60, 70_000),
    Style::Names,
    Style::InPlace,
    Style::Mixed,
    Style::Nothing,
];

const DOUBLES: [f64; 10] = [
    f64::NAN,
    -0.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MIN_POSITIVE,
    f64::MAX,
    1e300,
    -1e-300,
    0.1 + 0.2,
    9_007_199_254_740_993.0,
];

fn decimal(decimals: i32, range: u64, random: &mut Random) -> f64 {
    (random.below(range) as f64 - (range / 2) as f64) / 10_f64.powi(decimals)
}

fn value(style: Style, random: &mut Random) -> Option<Value> {
    Some(match style {
        Style::Decimals(decimals, range) => Value::Double(decimal(decimals, range, random)),
        Style::NearlyDecimals(decimals) if random.below(50) > 0 => {
            Value::Double(decimal(decimals, 3_600_000, random))
        }
        Style::NearlyDecimals(_) => Value::Double(DOUBLES[random.below(10) as usize]),
        Style::AnyDoubles if random.below(2) == 0 => {
            Value::Double(DOUBLES[random.below(10) as usize])
        }
        Style::AnyDoubles => Value::Double(f64::from_bits(random.next_u64())),
        Style::Floats => Value::Float(f32::from_bits(random.next_u64() as u32)),
        Style::Booleans => Value::Boolean(random.below(2) == 0),
        Style::Signed(range) => {
            Value::Int32((random.below(range) as i64 - (range / 2) as i64) as i32)
        }
        Style::Unsigned(range) if range < 1 << 16 => Value::Uint16(random.below(range) as u16),
        Style::Unsigned(range) if range <= 1 << 32 => Value::Uint32(random.below(range) as u32),
        Style::Unsigned(range) => Value::Uint64(random.below(range)),
        Style::AllOf64Bits => Value::Uint64([0, u64::MAX, 7][random.below(3) as usize]),
        Style::Texts(count, length) => {
            let number = random.below(count);
            let length = number * 7_919 % (length + 1);
            // Some are empty.
            let text = "-".repeat(length as usize) + &number.to_string();
            Value::String(if length == 0 { String::new() } else { text })
        }
        Style::Names => Value::String(match random.below(200) {
            0 => String::new(),
            1 => "long".repeat(random.below(200) as usize),
            _ => format!("{:x}", random.next_u64() >> random.below(40)),
        }),
        Style::InPlace if random.below(2) == 0 => Value::Map(vec![]),
        Style::InPlace => Value::Uint128(u128::from(random.next_u64()) << 7),
        Style::Mixed => {
            let other = STYLES[random.below(STYLES.len() as u64) as usize];
            return if matches!(other, Style::Mixed) { None } else { value(other, random) };
        }
        Style::Nothing => return None,
    })
}

/// A database of `records` records whose fields "0", "1" and so on are of these styles; one of
/// `gaps` has no value.
fn database(styles: &[Style], count: u32, gaps: u64, random: &mut Random) -> Database {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    for network in 0..count {
        let mut fields = Vec::new();
        for (number, style) in styles.iter().enumerate() {
            if random.below(gaps) > 0 {
                fields.extend(value(*style, random).map(|value| (number.to_string(), value)));
            }
        }
        fields.push(("number".to_owned(), Value::Uint32(network)));
        let address = Ipv4Addr::from_bits(network << 8).into();
        writer.insert(Prefix::new(address, 24).unwrap(), Value::Map(fields)).unwrap();
    }
    Database::from_bytes(writer.finish().unwrap()).unwrap()
}

fn options(columns: usize) -> IndexOptions {
    let fields = (0..columns).map(|number| FieldPath::new([number.to_string()])).collect();
    IndexOptions { form: IndexForm::Compact, fields }
}

fn compare(database: &Database, index: &DatabaseIndex) {
    let found: Vec<Found> =
        (0..index.row_count() as u32).map(|row| Found { row, length_bits: 24 }).collect();
    index.prefetch_rows(&found);
    for found in found.iter().skip(1) {
        cells::compare_row(database, index, *found);
    }
    let nothing = index.row(Found::default());
    for column in 0..=index.fields().len() {
        assert_eq!(nothing.get(column), whered_mmdb::Cell::Absent);
        assert_eq!(nothing.number(column).to_bits(), f64::NAN.to_bits());
        assert!(nothing.text(column).is_empty());
    }
}

/// Built, and kept as a file.
fn check(database: &Database, columns: usize) -> DatabaseIndex {
    let index = DatabaseIndex::build(database, &options(columns)).unwrap();
    compare(database, &index);
    let kept = index.to_bytes(database);
    let again = DatabaseIndex::from_bytes(Arc::new(kept), database).unwrap();
    compare(database, &again);
    index
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_columns_hold_what_the_records_hold(
        styles in prop::collection::vec(prop::sample::select(STYLES.to_vec()), 0..40),
        gaps in 1_u64..9,
        seed in any::<u64>(),
    ) {
        check(&database(&styles, 250, gaps, &mut Random(seed)), styles.len());
    }
}

#[test]
fn each_style_of_column_holds_what_the_records_hold() {
    for style in STYLES {
        for gaps in [2, 1 << 40] {
            check(&database(&[style], 300, gaps, &mut Random(5)), 1);
        }
    }
}

#[test]
fn columns_far_from_the_beginning_of_a_row_are_read_as_well() {
    let styles: Vec<Style> = STYLES.iter().copied().cycle().take(200).collect();
    check(&database(&styles, 120, 4, &mut Random(9)), styles.len());
}

#[test]
fn columns_of_very_many_texts_hold_all_of_them() {
    let styles = [Style::Texts(300, 12), Style::Texts(1 << 40, 60), Style::Decimals(4, 1_800_000)];
    let index = check(&database(&styles, 70_000, 1 << 40, &mut Random(2)), 3);
    // Rows of eight bytes, ids of two and a little, and the texts, most of which are too long for a
    // row.
    assert!(index.columns_bytes() < 70_000 * (64 + 4 + 30), "{}", index.columns_bytes());
}

#[test]
fn many_names_stand_in_the_rows_the_long_and_the_empty_ones_elsewhere() {
    let styles = [Style::Texts(300, 12), Style::Names, Style::Names, Style::Signed(1 << 32)];
    for count in [1, 2, 4] {
        let index = check(&database(&styles[..count], 25_000, 9, &mut Random(3)), count);
        let bytes_a_row = index.columns_bytes() / 25_000;
        // Names of a second column stand once for all rows.
        let most = [2 + 4 + 1, 32 + 4 + 1, 64 + 4 + 20][count / 2];
        assert!(bytes_a_row <= most, "{count} columns: {bytes_a_row}");
    }
}

/// The index in a file, with other bytes at these places and the checksum of all.
fn damaged(kept: &[u8], places: impl Iterator<Item = usize>, random: &mut Random) -> Vec<u8> {
    let mut damaged = kept.to_vec();
    for at in places {
        damaged[at] = if random.below(3) == 0 { 0xff } else { random.next_u64() as u8 };
    }
    let sum = crc32c::crc32c_append(crc32c::crc32c(&damaged[..20]), &damaged[24..]);
    damaged[20..24].copy_from_slice(&sum.to_ne_bytes());
    damaged
}

/// Where the sections of the rows lie: layout, starts and steps of the ids, rows, texts.
fn sections(kept: &[u8]) -> [std::ops::Range<usize>; 5] {
    let number = |at: usize| u64::from_ne_bytes(kept[at..at + 8].try_into().unwrap()) as usize;
    let count = u32::from_ne_bytes(kept[44..48].try_into().unwrap()) as usize;
    [5, 4, 3, 2, 1].map(|behind| {
        let at = 48 + 16 * (count - behind);
        number(at)..number(at + 8)
    })
}

/// Reads all cells and ids of these rows, if the index is one.
fn read(bytes: Vec<u8>, database: &Database, rows: std::ops::Range<u32>) -> bool {
    let Ok(index) = DatabaseIndex::from_bytes(Arc::new(bytes), database) else { return false };
    let found: Vec<Found> = rows.map(|row| Found { row, length_bits: 9 }).collect();
    index.prefetch_rows(&found);
    for found in &found {
        let record = index.record(*found);
        let row = record.and_then(|record| index.row_of(record));
        let _ = std::hint::black_box((row, index.offset_or_zero(*found)));
    }
    for row in found.iter().map(|found| index.row(*found)) {
        for column in 0..=index.fields().len() {
            let cells = (row.get(column), row.text(column), row.number(column));
            let _ = std::hint::black_box(cells);
        }
    }
    true
}

#[test]
fn overwritten_rows_give_wrong_cells_but_no_panic() {
    let styles = [
        Style::Texts(30, 6),
        Style::Decimals(4, 3_600_000),
        Style::Mixed,
        Style::Texts(30, 700),
        Style::Unsigned(99),
        Style::AnyDoubles,
    ];
    let database = database(&styles, 40, 5, &mut Random(4));
    let kept = DatabaseIndex::build(&database, &options(styles.len())).unwrap().to_bytes(&database);
    let mut random = Random(6);
    let places = sections(&kept).into_iter().flatten();
    let read = places.filter(|at| {
        let bytes = damaged(&kept, std::iter::once(*at), &mut random);
        read(bytes, &database, 0..60)
    });
    let read = read.count();
    assert!(read > 1_000, "{read}");
}

#[test]
fn overwritten_texts_in_rows_give_wrong_cells_but_no_panic() {
    let styles = [Style::Names, Style::Decimals(4, 3_600_000), Style::Texts(60, 9)];
    let database = database(&styles, 14_000, 5, &mut Random(4));
    let kept = DatabaseIndex::build(&database, &options(styles.len())).unwrap().to_bytes(&database);
    let [layout, starts, steps, rows, texts] = sections(&kept);
    assert!(rows.len() > 14_000 * 32, "names stand in the rows");
    let mut random = Random(6);
    let some_steps = steps.step_by(97);
    for at in layout.chain(starts).chain(some_steps) {
        let bytes = damaged(&kept, std::iter::once(at), &mut random);
        read(bytes, &database, 13_500..14_100);
    }
    for _ in 0..10 {
        let mut others = Random(random.next_u64());
        let places = (0..90_000).map(|n| {
            let section = if n % 3 == 0 { &texts } else { &rows };
            section.start + others.below(section.len() as u64) as usize
        });
        let bytes = damaged(&kept, places, &mut random);
        assert!(read(bytes, &database, 0..14_100));
    }
}
