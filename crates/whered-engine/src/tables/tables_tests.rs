//! Tables against their naive twin: a map from keys to lists of everything that was ever seen, of
//! which each rule is asked anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use whered_store::{ColdFile, ColdWriter, SimulatedDisk};

use super::cell::{Cell, ColumnKind, Value, push_key_cell};
use super::cold::ColdRows;
use super::rows::Store;
use super::schema::{Fields, Plan, Rule};
use super::stage::Stage;
use super::wire::{add_rows, apply_changes, push_changes, push_rows};
use super::{ColumnSource, RowsOf, Table, TableSource};

const RULES: [&str; 10] = [
    "count",
    "sum(level)",
    "sum(weight)",
    "min(level)",
    "max(weight)",
    "mean(weight)",
    "first(name)",
    "last(name)",
    "last(level)",
    "max(time)",
];

/// What is seen: a time, and the values of level, weight and name.
type Seen = (i64, [Value; 3]);

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn seen(&mut self) -> Seen {
        let time = self.below(50) as i64;
        let or_absent = |absent: bool, value| if absent { Value::Absent } else { value };
        let level = or_absent(self.below(5) == 0, Value::Integer(self.below(100) as i64 - 50));
        let weight =
            or_absent(self.below(5) == 0, Value::Number(self.below(1000) as f64 / 8.0 - 9.0));
        let name = format!("name {}", self.below(6)).into_bytes();
        (time, [level, weight, or_absent(self.below(5) == 0, Value::Text(name))])
    }
}

fn plan() -> Plan {
    let own = vec![
        ("level", ColumnKind::Integer),
        ("weight", ColumnKind::Number),
        ("name", ColumnKind::Text),
    ];
    let fields = Fields { own, has_place: false, has_items: false };
    let column = |text: &&str| ColumnSource {
        name: (*text).to_owned(),
        rule: Rule::parse(text).expect("it is a rule"),
    };
    let table = TableSource {
        name: "t".to_owned(),
        of: RowsOf::Records,
        key: vec!["member".to_owned(), "level".to_owned()],
        columns: RULES.iter().map(column).collect(),
    };
    table.compile(&fields).expect("it is right")
}

fn field<'a>(seen: &'a Seen, rule: &Rule) -> Cell<'a> {
    match rule.field() {
        Some("level") => seen.1[0].as_cell(),
        Some("weight") => seen.1[1].as_cell(),
        Some("name") => seen.1[2].as_cell(),
        Some("time") => Cell::Time(seen.0),
        _ => Cell::Absent,
    }
}

/// The twin's answer.
fn naive(all: &[Seen], rule: &Rule) -> Value {
    let values: Vec<(i64, Value)> = all
        .iter()
        .map(|seen| (seen.0, field(seen, rule).to_value()))
        .filter(|(_, value)| *value != Value::Absent)
        .collect();
    let number = |value: &Value| match value {
        Value::Integer(value) | Value::Time(value) => *value as f64,
        Value::Number(value) => *value,
        _ => panic!("it is no number"),
    };
    let sum = || values.iter().fold(0.0, |sum, (_, value)| sum + number(value));
    if *rule == Rule::Count {
        return Value::Integer(all.len() as i64);
    }
    if values.is_empty() {
        return Value::Absent;
    }
    let by_number =
        |(_, a): &&(i64, Value), (_, b): &&(i64, Value)| number(a).total_cmp(&number(b));
    match rule {
        Rule::Sum(field) if field == "level" => Value::Integer(sum() as i64),
        Rule::Sum(_) => Value::Number(sum()),
        Rule::Mean(_) => Value::Number(sum() / values.len() as f64),
        Rule::Min(_) => values.iter().min_by(by_number).expect("there is one").1.clone(),
        Rule::Max(_) => values.iter().max_by(by_number).expect("there is one").1.clone(),
        Rule::First(_) => {
            values.iter().min_by_key(|(time, _)| *time).expect("there is one").1.clone()
        }
        _ => values.iter().max_by_key(|(time, _)| *time).expect("there is one").1.clone(),
    }
}

fn key(member: u64, part: i64) -> Vec<u8> {
    let mut key = Vec::new();
    push_key_cell(&mut key, Cell::Text(format!("member {member}").as_bytes()));
    push_key_cell(&mut key, Cell::Integer(part));
    key
}

fn check(store: Store, twin: &BTreeMap<(u64, i64), Vec<Seen>>) {
    let table = Table::new("feed", store);
    assert_eq!(table.len(), twin.len());
    let rules: Vec<Rule> = RULES.iter().map(|text| Rule::parse(text).expect("a rule")).collect();
    for ((member, part), seen) in twin {
        let name = format!("member {member}");
        let row =
            table.get(&[Cell::Text(name.as_bytes()), Cell::Integer(*part)]).expect("it is here");
        let row = row.expect("the twin has it");
        assert_eq!(row.key, [Value::Text(name.into_bytes()), Value::Integer(*part)]);
        let expected: Vec<Value> = rules.iter().map(|rule| naive(seen, rule)).collect();
        assert_eq!(row.columns, expected, "member {member} {part}: {seen:?}");
    }
    assert_eq!(table.get(&[Cell::Text(b"nobody"), Cell::Integer(0)]), Ok(None));
}

/// Notes what was seen of some rows, one column after the other.
fn note_group(stage: &mut Stage, plan: &Plan, group: &mut Vec<(usize, Seen)>) {
    for (index, column) in plan.shape.columns.iter().enumerate() {
        let rule = Rule::parse(&column.rule_text).expect("a rule");
        let seen = group.iter().map(|(staged, seen)| (*staged, field(seen, &rule), seen.0));
        stage.note_all(index, column, seen);
    }
    group.clear();
}

/// A store that another one's whole rows make.
fn copied(store: &Store, plan: &Plan, block_bytes: usize) -> Store {
    let mut copy = Store::new(plan.shape.clone());
    let mut next = 0;
    while next < store.len() {
        let mut block = Vec::new();
        next = push_rows(&mut block, store, next, block_bytes);
        add_rows(&mut copy, &block).expect("they are rows");
    }
    copy
}

#[test]
fn tables_are_what_their_twin_says_live_and_replayed_and_from_any_mixture_of_moments() {
    let plan = plan();
    let mut random = Random(11);
    for round in 0..8 {
        let mut store = Store::new(plan.shape.clone());
        let mut stage = Stage::default();
        let mut twin: BTreeMap<(u64, i64), Vec<Seen>> = BTreeMap::new();
        let mut entries: Vec<Vec<u8>> = Vec::new();
        // A snapshot that is written while batches go on: rows of several moments.
        let mut snapshot: Vec<Vec<u8>> = Vec::new();
        let (mut snapshot_at, mut saved) = (0, 0);
        for batch in 1..=30_u64 {
            stage.begin(&store);
            let mut group = Vec::new();
            for _ in 0..random.below(60) {
                let (member, part) = (random.below(12 << round), random.below(2) as i64);
                let seen = random.seen();
                let (staged, _) = stage.row_of(&store, &key(member, part)).expect("there is room");
                group.push((staged, seen.clone()));
                twin.entry((member, part)).or_default().push(seen);
                if random.below(5) == 0 {
                    note_group(&mut stage, &plan, &mut group);
                }
            }
            note_group(&mut stage, &plan, &mut group);
            let mut entry = Vec::new();
            push_changes(&mut entry, &store, &stage);
            apply_changes(&mut store, batch, &mut &entry[..]).expect("it was just made");
            entries.push(entry);
            if batch == 10 {
                snapshot_at = batch;
            }
            if batch >= 10 && saved < store.len() {
                let mut block = Vec::new();
                saved = push_rows(&mut block, &store, saved, 400);
                snapshot.push(block);
            }
        }
        while saved < store.len() {
            let mut block = Vec::new();
            saved = push_rows(&mut block, &store, saved, 400);
            snapshot.push(block);
        }
        let mut replayed = Store::new(plan.shape.clone());
        let mut mixed = Store::new(plan.shape.clone());
        snapshot.iter().for_each(|block| add_rows(&mut mixed, block).expect("they are rows"));
        for (batch, entry) in (1..).zip(&entries) {
            // Whatever was applied already does nothing.
            for _ in 0..2 {
                apply_changes(&mut replayed, batch, &mut &entry[..]).expect("it is read");
            }
            if batch > snapshot_at {
                apply_changes(&mut mixed, batch, &mut &entry[..]).expect("it is read");
            }
        }
        check(copied(&store, &plan, 1 << 20), &twin);
        check(copied(&store, &plan, 100), &twin);
        check(store, &twin);
        check(replayed, &twin);
        check(mixed, &twin);
    }
}

#[test]
fn what_is_no_change_is_refused_and_never_a_panic() {
    let plan = plan();
    let mut random = Random(3);
    let mut store = Store::new(plan.shape.clone());
    let mut stage = Stage::default();
    let mut entries = Vec::new();
    for batch in 1..=2 {
        stage.begin(&store);
        for member in 0..5 {
            let seen = random.seen();
            let (staged, _) = stage.row_of(&store, &key(member * batch, 0)).expect("there is room");
            for (index, column) in plan.shape.columns.iter().enumerate() {
                let rule = Rule::parse(&column.rule_text).expect("a rule");
                stage.note(staged, index, column, field(&seen, &rule), seen.0);
            }
        }
        let mut entry = Vec::new();
        push_changes(&mut entry, &store, &stage);
        apply_changes(&mut store, batch, &mut &entry[..]).expect("it was just made");
        entries.push(entry);
    }
    let begun = || {
        let mut store = Store::new(plan.shape.clone());
        apply_changes(&mut store, 1, &mut &entries[0][..]).expect("it is read");
        store
    };
    let entry = &entries[1];
    for end in 0..entry.len() {
        apply_changes(&mut begun(), 2, &mut &entry[..end]).expect_err("it is cut");
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = entry.clone();
            changed[end] = value;
            let _ = apply_changes(&mut begun(), 2, &mut &changed[..]);
        }
    }
    let mut rows = Vec::new();
    push_rows(&mut rows, &store, 0, 1 << 20);
    for end in 0..rows.len() {
        let mut copy = Store::new(plan.shape.clone());
        let _ = add_rows(&mut copy, &rows[..end]);
        let mut changed = rows.clone();
        changed[end] ^= 0xff;
        let _ = add_rows(&mut Store::new(plan.shape.clone()), &changed);
    }
}

#[test]
fn scanning_changes_and_tops_agree_with_looking_at_every_row() {
    let table = Table::new("feed", filled(&plan()));
    check_questions(&table);
}

/// Rows of twenty batches.
fn filled(plan: &Plan) -> Store {
    let mut random = Random(5);
    let mut store = Store::new(plan.shape.clone());
    let mut stage = Stage::default();
    for batch in 1..=20 {
        stage.begin(&store);
        for _ in 0..100 {
            let seen = random.seen();
            let key = key(random.below(3000), 0);
            let (staged, _) = stage.row_of(&store, &key).expect("there is room");
            for (index, column) in plan.shape.columns.iter().enumerate() {
                let rule = Rule::parse(&column.rule_text).expect("a rule");
                stage.note(staged, index, column, field(&seen, &rule), seen.0);
            }
        }
        let mut entry = Vec::new();
        push_changes(&mut entry, &store, &stage);
        apply_changes(&mut store, batch, &mut &entry[..]).expect("it was just made");
    }
    store
}

fn check_questions(table: &Table) {
    let mut all = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = table.scan(cursor, 7, &mut |row| all.push(row.to_row())).expect("it is here");
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(all.len(), table.len());
    for since in [0, 1, 10, 19, 20] {
        let mut changed = Vec::new();
        let mut from = Some(0);
        while let Some(row) = from {
            let next = table.changed_since(since, row, 13, &mut |row| changed.push(row.to_row()));
            from = next.expect("it is here");
        }
        let expected: Vec<_> = all.iter().filter(|row| row.batch > since).cloned().collect();
        assert_eq!(changed, expected, "since {since}");
    }
    for (index, column) in RULES.iter().enumerate() {
        let number = |row: &super::Row| match &row.columns[index] {
            Value::Integer(value) | Value::Time(value) => Some(*value as f64),
            Value::Number(value) => Some(*value),
            _ => None,
        };
        if column.contains("name") {
            assert!(
                table
                    .top(column, 3, true)
                    .expect_err("it is a text")
                    .to_string()
                    .contains("it has by: count")
            );
            continue;
        }
        for descending in [true, false] {
            let sign = if descending { -1.0 } else { 1.0 };
            let mut expected: Vec<_> = all.iter().filter(|row| number(row).is_some()).collect();
            expected.sort_by(|a, b| {
                let rank = |row: &super::Row| sign * number(row).expect("it was filtered") + 0.0;
                rank(a).total_cmp(&rank(b))
            });
            let top = table.top(column, 20, descending).expect("it has an order");
            assert_eq!(top.iter().collect::<Vec<_>>(), expected[..20], "{column}");
        }
    }
}

/// A table's rows in a file of a disk.
fn chilled(disk: &SimulatedDisk, store: &Store) -> Arc<ColdFile> {
    let mut writer = ColdWriter::create(Arc::new(disk.clone()), "feed").expect("there is room");
    super::cold::write(&mut writer, 3, store).expect("there is room");
    Arc::new(writer.finish().expect("there is room"))
}

fn rows_of(table: &Table) -> Vec<super::Row> {
    let mut all = Vec::new();
    table.scan(0, usize::MAX, &mut |row| all.push(row.to_row())).expect("it can be read");
    all
}

#[test]
fn rows_in_a_file_answer_as_those_in_memory_and_come_back_as_they_were() {
    let plan = plan();
    let store = filled(&plan);
    let disk = SimulatedDisk::new(1);
    let file = chilled(&disk, &store);
    let rows = Arc::new(ColdRows::open(&file, 3, &plan.shape).expect("it is one"));
    let (len, last_batch) = (store.len(), store.last_batch());
    let warm = Table::new("feed", store);
    let cold = Table::new("feed", Store::of_cold(&rows));
    assert!(!cold.is_resident() && cold.len() == len as usize && cold.last_batch() == last_batch);
    check_questions(&cold);
    assert!(cold.take_asked() && !cold.take_asked());
    let loaded = Table::new("feed", super::cold::load(&rows).expect("it is read"));
    let all = rows_of(&warm);
    assert!(rows_of(&cold) == all && rows_of(&loaded) == all);
    for row in &all {
        let key: Vec<Cell<'_>> = row.key.iter().map(Value::as_cell).collect();
        for table in [&cold, &loaded] {
            assert_eq!(table.get(&key).expect("it is read").as_ref(), Some(row));
        }
    }
    let nobody = [Cell::Text(b"nobody"), Cell::Integer(0)];
    assert_eq!((cold.get(&nobody), loaded.get(&nobody)), (Ok(None), Ok(None)));
    for column in RULES {
        let tops = [true, false].map(|way| (warm.top(column, 5, way), cold.top(column, 5, way)));
        tops.into_iter().for_each(|(warm, cold)| assert_eq!(warm, cold));
    }
    // The rows go on as if they had never been away.
    let again = chilled(&disk, &loaded.shared());
    let again = ColdRows::open(&again, 3, &plan.shape).expect("it is one");
    let again = Table::new("feed", super::cold::load(&again).expect("it is read"));
    assert_eq!(rows_of(&again), all);
}

#[test]
fn a_changed_file_is_an_error_with_its_name_or_harmless() {
    let plan = plan();
    let disk = SimulatedDisk::new(2);
    let name = chilled(&disk, &filled(&plan)).name().to_owned();
    let reference = {
        let file = chilled(&disk, &filled(&plan));
        file.reference()
    };
    assert_ne!(name, reference.name, "names are never used twice");
    let bytes = disk.read(&reference.name).expect("it is there");
    let mut refused = 0;
    for at in (0..bytes.len()).step_by(211) {
        disk.flip_bit(&reference.name, at, (at % 8) as u8);
        let read = ColdFile::open(&disk, &reference).and_then(|file| {
            let rows = ColdRows::open(&Arc::new(file), 3, &plan.shape)?;
            let table = Table::new("feed", Store::of_cold(&Arc::new(rows)));
            let _ = table.scan(0, usize::MAX, &mut |_| {});
            let _ = table.top("count", 3, true);
            Ok(table)
        });
        let read = read.and_then(|table| {
            let rows = table.shared().cold.clone().expect("it is cold");
            super::cold::load(&rows).map(drop)
        });
        if let Err(error) = read {
            assert!(error.to_string().contains(&reference.name), "{error}");
            refused += 1;
        }
        disk.flip_bit(&reference.name, at, (at % 8) as u8);
    }
    assert!(refused > bytes.len() / 211 / 2, "{refused} of {}", bytes.len() / 211);
}

#[test]
fn a_file_with_good_checksums_and_other_blocks_than_it_says_is_an_error() {
    let (plan, disk) = (plan(), SimulatedDisk::new(3));
    let empty = ColdWriter::create(Arc::new(disk.clone()), "feed").expect("there is room");
    let empty = Arc::new(empty.finish().expect("there is room"));
    let error = ColdRows::open(&empty, 3, &plan.shape).expect_err("nothing is there");
    assert!(error.to_string().contains(empty.name()), "{error}");
    let good = chilled(&disk, &filled(&plan));
    for more in [1, plan.shape.row_words()] {
        let mut writer = ColdWriter::create(Arc::new(disk.clone()), "feed").expect("there is room");
        let mut words = Vec::new();
        for (index, block) in good.blocks().iter().enumerate() {
            let mut bytes = good.read_block(index, &mut words).expect("it is good").to_vec();
            if block.kind == 2 {
                bytes.resize(bytes.len() + 8 * more, 0);
            }
            writer.write_block(block.kind, block.tag, &bytes).expect("there is room");
        }
        let file = Arc::new(writer.finish().expect("there is room"));
        let rows =
            ColdRows::open(&file, 3, &plan.shape).expect("its numbers are those of its blocks");
        let table = Table::new("feed", Store::of_cold(&Arc::new(rows)));
        for read in [table.scan(0, 1, &mut |_| {}).map(drop), table.top("count", 3, true).map(drop)]
        {
            let error = read.expect_err("there are too many words");
            assert!(error.to_string().contains("another number of rows"), "{error}");
        }
    }
}
