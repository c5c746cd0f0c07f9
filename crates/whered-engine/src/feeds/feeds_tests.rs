//! Feeds on a disk that loses power at any moment: whatever was acknowledged is applied exactly
//! once.
//!
//! The twin is what the story says: uploads in the order of their numbers, each counted once, in
//! maps from keys to lists of all that was seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use whered_store::{JournalOptions, SimulatedDisk, SyncPolicy};

use super::formats::{Format, ItemsSource, MappingSource};
use super::{
    Encoding, Feed, FeedInput, FeedLimits, FeedSource, LinkStatus, PushError, SetTarget,
    SpoolTicket, Upload, UploadStatus,
};
use crate::engine::StartFiles;
use crate::engine::{Disk, Engine, EngineOptions};
use crate::generation::setup::Setup;
use crate::keyspace::{AddCondition, SetText, TextExpiry};
use crate::tables::{Cell, ColumnSource, RowsOf, Rule, TableSource, Value};
pub(super) use whered_random::Random;

fn table(name: &str, of: RowsOf, key: &[&str], columns: &[(&str, &str)]) -> TableSource {
    let column = |(name, rule): &(&str, &str)| ColumnSource {
        name: (*name).to_owned(),
        rule: Rule::parse(rule).expect("it is a rule"),
    };
    TableSource {
        name: name.to_owned(),
        of,
        key: key.iter().map(|name| (*name).to_owned()).collect(),
        columns: columns.iter().map(column).collect(),
    }
}

pub(super) fn sightings() -> FeedSource {
    let mut mapping = MappingSource::new(Format::Xml);
    mapping.record = "upload/sighting".to_owned();
    mapping.member = "@object".into();
    mapping.longitude = Some("@x".into());
    mapping.latitude = Some("@y".into());
    mapping.time = Some("@t".into());
    let (each, key) = ("loot".to_owned(), "@item".to_owned());
    mapping.items = Some(ItemsSource { each, key, count: Some("@n".to_owned()) });
    let positions = [
        ("longitude", "mean(longitude)"),
        ("latitude", "mean(latitude)"),
        ("seen", "count"),
        ("first_seen", "min(time)"),
        ("last_seen", "max(time)"),
    ];
    FeedSource {
        name: "sightings".to_owned(),
        input: FeedInput::Records(mapping.compile().expect("it is a mapping")),
        collection: Some("sightings".to_owned()),
        tables: vec![
            table("positions", RowsOf::Positions, &["member", "position"], &positions),
            table(
                "loot",
                RowsOf::Items,
                &["member", "item"],
                &[("count", "sum(count)"), ("seen", "count")],
            ),
        ],
        set: None,
        merge_within_meters: Some(25.0),
        limits: FeedLimits { batch_delay: Duration::ZERO, ..FeedLimits::default() },
    }
}

pub(super) fn options(feeds: Vec<FeedSource>) -> EngineOptions {
    let setup = Setup { feeds, ..Setup::default() };
    let journal = JournalOptions { segment_size_bytes: 16 << 10, ..JournalOptions::default() };
    EngineOptions { setup, journal, ..EngineOptions::default() }
}

pub(super) fn open(disk: &SimulatedDisk, feeds: Vec<FeedSource>) -> Result<Arc<Engine>, String> {
    let options = options(feeds);
    let loaded = StartFiles::read(&options.setup).expect("there are no files");
    let opened = Engine::open_on(options, loaded, Some(Disk::simulated(disk)));
    Ok(opened.map_err(|error| error.to_string())?.0)
}

pub(super) fn in_memory(feeds: Vec<FeedSource>) -> Arc<Engine> {
    Engine::open(options(feeds)).expect("it opens").0
}

/// What one sighting says.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    object: u64,
    x: f64,
    y: f64,
    time: i64,
    loot: Vec<(u64, i64)>,
}

const START_MILLIS: i64 = 1_700_000_000_000;

impl Sighting {
    pub(super) fn random(random: &mut Random) -> Sighting {
        // Some metres around a few spots, one of them on the date line.
        let spot = random.below(4);
        let near = |random: &mut Random| random.below(60) as f64 * 1e-5;
        let x = if spot == 3 { 179.9998 } else { 8.0 + spot as f64 } + near(random);
        Sighting {
            object: random.below(5),
            x: if x > 180.0 { x - 360.0 } else { x },
            y: 50.0 + near(random),
            time: START_MILLIS + random.below(1_000_000) as i64,
            loot: (0..random.below(3)).map(|_| (random.below(4), random.below(9) as i64)).collect(),
        }
    }

    /// The same with exactly one item.
    pub(super) fn with_one_item(self) -> Sighting {
        Sighting { loot: vec![(1, 2)], ..self }
    }

    fn xml(&self) -> String {
        let Sighting { object, x, y, time, loot } = self;
        let loot: String =
            loot.iter().map(|(item, n)| format!("<loot item=\"i{item}\" n=\"{n}\"/>")).collect();
        format!("<sighting object=\"o{object}\" x=\"{x}\" y=\"{y}\" t=\"{time}\">{loot}</sighting>")
    }
}

pub(super) fn upload(sightings: &[Sighting]) -> Vec<u8> {
    let body: String = sightings.iter().map(Sighting::xml).collect();
    format!("<upload>{body}</upload>").into_bytes()
}

/// One position of the twin.
#[derive(Clone, Debug)]
struct Position {
    x: f64,
    y: f64,
    seen: i64,
    first: i64,
    last: i64,
}

/// All that uploads say, the slow way.
#[derive(Default)]
struct Twin {
    positions: BTreeMap<u64, Vec<Position>>,
    loot: BTreeMap<(u64, u64), (i64, i64)>,
}

fn place(x: f64, y: f64) -> whered_geo::Place {
    let x = match x {
        east if east > 180.0 => x - 360.0,
        west if west < -180.0 => x + 360.0,
        _ => x,
    };
    whered_geo::Place::new(x, y).expect("it is on the globe")
}

impl Twin {
    fn take(&mut self, sighting: &Sighting) {
        let Sighting { object, x, y, time, loot } = sighting;
        let known = self.positions.entry(*object).or_default();
        let distance = |position: &Position| {
            let seen = position.seen as f64;
            place(position.x / seen, position.y / seen).distance_meters(place(*x, *y))
        };
        let mut nearest: Option<(f64, usize)> = None;
        for (index, position) in known.iter().enumerate() {
            let meters = distance(position);
            if meters <= 25.0 && nearest.is_none_or(|(least, _)| meters < least) {
                nearest = Some((meters, index));
            }
        }
        match nearest {
            None => known.push(Position { x: *x, y: *y, seen: 1, first: *time, last: *time }),
            Some((_, index)) => {
                let position = &mut known[index];
                let mean = position.x / position.seen as f64;
                let x = match mean - x {
                    east if east > 180.0 => x + 360.0,
                    east if east < -180.0 => x - 360.0,
                    _ => *x,
                };
                position.x += x;
                position.y += y;
                position.seen += 1;
                position.first = position.first.min(*time);
                position.last = position.last.max(*time);
            }
        }
        for (item, count) in loot {
            let (sum, seen) = self.loot.entry((*object, *item)).or_default();
            *sum += count;
            *seen += 1;
        }
    }

    fn of<'a>(uploads: impl Iterator<Item = &'a Vec<Sighting>>) -> Twin {
        let mut twin = Twin::default();
        uploads.flatten().for_each(|sighting| twin.take(sighting));
        twin
    }

    /// Compares with an engine.
    fn check(&self, engine: &Engine, what: &str) {
        let positions = engine.feeds().table("positions").expect("it is there");
        let all: usize = self.positions.values().map(Vec::len).sum();
        assert_eq!(positions.len(), all, "{what}");
        for (object, known) in &self.positions {
            for (index, position) in known.iter().enumerate() {
                let (name, ordinal) = (format!("o{object}"), index as i64 + 1);
                let key = [Cell::Text(name.as_bytes()), Cell::Integer(ordinal)];
                let row = positions.get(&key).expect("it can be read");
                let row = row.unwrap_or_else(|| panic!("{what}: no {name}#{ordinal}"));
                let expected = [
                    Value::Integer(position.seen),
                    Value::Time(position.first),
                    Value::Time(position.last),
                ];
                assert_eq!(row.columns[2..], expected, "{what}: {name}#{ordinal}");
                let seen = position.seen as f64;
                let mean = place(position.x / seen, position.y / seen);
                let [Value::Number(x), Value::Number(y)] = row.columns[..2] else {
                    panic!("{what}: {name}#{ordinal} is at {row:?}");
                };
                let apart = whered_geo::Place::new(x, y).expect("it is on the globe");
                assert!(apart.distance_meters(mean) < 0.01, "{what}: {name}#{ordinal}: {x} {y}");
                let at = whered_geo::Cell::from_place(place(position.x / seen, position.y / seen));
                let member = format!("{name}#{ordinal}");
                let score = engine.keyspace().inspect(0, b"sightings", |value| {
                    value.ordered().and_then(|ordered| ordered.score(member.as_bytes()))
                });
                assert_eq!(score.flatten(), Some(at.bits() as f64), "{what}: {member}");
            }
        }
        let loot = engine.feeds().table("loot").expect("it is there");
        assert_eq!(loot.len(), self.loot.len(), "{what}");
        for ((object, item), (sum, seen)) in &self.loot {
            let (object, item) = (format!("o{object}"), format!("i{item}"));
            let row = loot.get(&[Cell::Text(object.as_bytes()), Cell::Text(item.as_bytes())]);
            let row = row.expect("its file is good");
            let row = row.unwrap_or_else(|| panic!("{what}: no {object} {item}"));
            assert_eq!(row.columns, [Value::Integer(*sum), Value::Integer(*seen)], "{what}");
        }
    }
}

fn sightings_of(engine: &Engine) -> Arc<Feed> {
    Arc::clone(engine.feeds().get("sightings").expect("it is there"))
}

/// Pushes, steps and snapshots until the power is gone; gives which uploads were acknowledged.
fn work(
    engine: &Engine,
    random: &mut Random,
    uploads: &mut Vec<Vec<Sighting>>,
    rounds: u64,
) -> usize {
    let feed = sightings_of(engine);
    let mut acknowledged = 0;
    for _ in 0..rounds {
        match random.below(10) {
            0..6 => {
                let sightings: Vec<Sighting> =
                    (0..1 + random.below(6)).map(|_| Sighting::random(random)).collect();
                let bytes = upload(&sightings);
                let Ok(pushed) = feed.push(Upload { bytes: &bytes, ..Upload::default() }) else {
                    return acknowledged;
                };
                // An upload that a crash has lost before its acknowledgement leaves its number.
                uploads.truncate(pushed.id as usize - 1);
                assert_eq!(uploads.len() as u64, pushed.id - 1, "numbers have no gaps");
                uploads.push(sightings);
                if random.below(2) == 0 {
                    if feed.wait(pushed.ticket).is_err() {
                        return acknowledged;
                    }
                    acknowledged = uploads.len();
                }
            }
            6..9 => {
                if engine.step_feed(&feed).is_err() {
                    return acknowledged;
                }
            }
            _ => {
                if engine.snapshot().is_err() {
                    return acknowledged;
                }
            }
        }
    }
    acknowledged
}

/// Applies all that waits and compares.
fn check_all(engine: &Engine, uploads: &mut Vec<Vec<Sighting>>, acknowledged: usize, what: &str) {
    let feed = sightings_of(engine);
    while engine.step_feed(&feed).expect("nothing is wrong now").batch > 0 {}
    let applied = feed.state.header().position as usize;
    assert!(applied >= acknowledged, "{what}: {applied} of {acknowledged} acknowledged");
    assert!(applied <= uploads.len(), "{what}: {applied} of {}", uploads.len());
    uploads.truncate(applied);
    Twin::of(uploads.iter()).check(engine, what);
    assert_eq!(feed.stats().backlog_uploads, 0, "{what}");
}

#[test]
fn whatever_was_acknowledged_is_applied_exactly_once_whenever_the_power_goes() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut disk = SimulatedDisk::new(seed);
        let mut uploads = Vec::new();
        for life in 0..3 {
            let what = format!("seed {seed}, life {life}");
            let engine = open(&disk, vec![sightings()]).expect("it opens");
            disk.cut_power_after(20 + random.below(400));
            let acknowledged = work(&engine, &mut random, &mut uploads, 60);
            drop(engine);
            disk = disk.crash(random.below(1 << 40));
            let engine =
                open(&disk, vec![sightings()]).unwrap_or_else(|error| panic!("{what}: {error}"));
            check_all(&engine, &mut uploads, acknowledged, &what);
            engine.close().expect("nothing is wrong now");
        }
    }
}

#[test]
fn feeds_without_a_directory_do_the_same_and_forget() {
    let engine = in_memory(vec![sightings()]);
    let mut random = Random(7);
    let mut uploads = Vec::new();
    let feed = sightings_of(&engine);
    for _ in 0..30 {
        let sightings: Vec<Sighting> = (0..20).map(|_| Sighting::random(&mut random)).collect();
        feed.push(Upload { bytes: &upload(&sightings), ..Upload::default() }).expect("it is taken");
        uploads.push(sightings);
        if random.below(3) == 0 {
            engine.step_feed(&feed).expect("it is applied");
        }
    }
    check_all(&engine, &mut uploads, 30, "in memory");
}

#[test]
fn a_batch_that_cannot_be_kept_counts_for_nothing_and_is_applied_later() {
    let disk = SimulatedDisk::new(3);
    let engine = open(&disk, vec![sightings()]).expect("it opens");
    let (feed, keyspace) = (sightings_of(&engine), engine.keyspace());
    let mut random = Random(9);
    let mut uploads = Vec::new();
    for _ in 0..4 {
        let sightings: Vec<Sighting> = (0..300).map(|_| Sighting::random(&mut random)).collect();
        let bytes = upload(&sightings);
        feed.push(Upload { bytes: &bytes, ..Upload::default() }).expect("it is taken");
        feed.wait(SpoolTicket(uploads.len() as u64 + 1)).expect("it is durable");
        uploads.push(sightings);
        // A key of another kind is in the way of the collection.
        keyspace.rename(0, b"sightings", b"aside", false).expect("it is renamed");
        let condition = AddCondition::Always;
        let expiry = TextExpiry::Never;
        let text = SetText { text: b"text", condition, expiry, wants_old: false };
        keyspace.set_text(0, b"sightings", &text).expect("it is set");
        let before = (uploads.len() as u64 - 1, feed.stats().last_batch);
        for _ in 0..2 {
            let error = engine.step_feed(&feed).expect_err("the key holds a text");
            assert!(error.to_string().contains("wrong kind"), "{error}");
            assert_eq!(feed.stats().last_error, Some(error.to_string()));
        }
        let position = feed.state.header().position;
        assert_eq!((position, feed.stats().last_batch), before);
        keyspace.delete_keys(0, &[b"sightings"]).expect("it is removed");
        keyspace.rename(0, b"aside", b"sightings", false).expect("it is renamed");
        engine.step_feed(&feed).expect("nothing is in the way");
        Twin::of(uploads.iter()).check(&engine, "after a refusal");
    }
}

#[test]
fn what_was_read_ahead_counts_once_also_when_the_batch_before_is_not_kept() {
    let mut source = sightings();
    source.limits.batch_events_max = 10_000;
    let engine = open(&SimulatedDisk::new(5), vec![source]).expect("it opens");
    let (feed, keyspace) = (sightings_of(&engine), engine.keyspace());
    let mut random = Random(11);
    let mut uploads = Vec::new();
    // The fourth is too large to be read ahead, the sixth cannot be read.
    for (number, count) in (1..).zip([3000, 3000, 3000, 60_000, 3000, 0, 3000, 3000, 3000]) {
        let sightings: Vec<Sighting> = (0..count).map(|_| Sighting::random(&mut random)).collect();
        let half = b"<upload><sighting obj".to_vec();
        let bytes = if number == 6 { half } else { upload(&sightings) };
        feed.push(Upload { bytes: &bytes, ..Upload::default() }).expect("it is taken");
        feed.wait(SpoolTicket(number)).expect("it is durable");
        uploads.push(sightings);
    }
    let mut refused = 0;
    while feed.waiting.waiting().0 > 0 {
        // Every other time a key of another kind is in the way of the collection.
        if refused % 2 == 0 {
            let _ = keyspace.rename(0, b"sightings", b"aside", false);
            let (condition, expiry) = (AddCondition::Always, TextExpiry::Never);
            let text = SetText { text: b"text", condition, expiry, wants_old: false };
            keyspace.set_text(0, b"sightings", &text).expect("it is set");
            engine.step_feed(&feed).expect_err("the key holds a text");
            assert_eq!(feed.worker().reading.uploads_ahead(), 0, "the batch comes again");
            keyspace.delete_keys(0, &[b"sightings"]).expect("it is removed");
            let _ = keyspace.rename(0, b"aside", b"sightings", false);
        }
        refused += 1;
        let is_parallel = feed.is_parallel();
        engine.step_feed(&feed).expect("nothing is in the way");
        let position = feed.state.header().position;
        Twin::of(uploads[..position as usize].iter()).check(&engine, "up to some upload");
        let next_is_read = is_parallel && ![4, 10].contains(&(position + 1));
        let ahead = feed.worker().reading.uploads_ahead();
        assert_eq!(ahead > 0, next_is_read, "behind upload {position}");
    }
    assert!(matches!(feed.status(6), UploadStatus::Rejected { .. }));
}

#[test]
fn equal_uploads_count_twice_unless_the_key_says_otherwise_also_after_a_restart() {
    let disk = SimulatedDisk::new(3);
    let mut random = Random(4);
    let bytes = upload(&[Sighting::random(&mut random)]);
    let keyed = Upload { bytes: &bytes, idempotency_key: Some("k1"), ..Upload::default() };
    {
        let engine = open(&disk, vec![sightings()]).expect("it opens");
        let feed = sightings_of(&engine);
        let first = feed.push(keyed).expect("it is taken");
        assert!(!first.repeated);
        assert_eq!(feed.status(first.id), UploadStatus::Spooled);
        let again = feed.push(keyed).expect("it is known");
        assert_eq!((again.id, again.repeated), (first.id, true));
        for _ in 0..2 {
            feed.push(Upload { bytes: &bytes, ..Upload::default() }).expect("it is taken");
        }
        let from = Some(("stream", &b"17-0"[..]));
        let pushed = feed.push(Upload { bytes: &bytes, source: from, ..Upload::default() });
        feed.wait(pushed.expect("it is taken").ticket).expect("it is durable");
        engine.close().expect("it closes");
    }
    for life in 0..3 {
        let engine = open(&disk, vec![sightings()]).expect("it opens");
        let feed = sightings_of(&engine);
        assert!(feed.push(keyed).expect("it is known").repeated, "life {life}");
        assert_eq!(feed.source_position("stream"), Some(b"17-0".to_vec()));
        while engine.step_feed(&feed).expect("it is applied").batch > 0 {}
        assert!(feed.push(keyed).expect("it is known").repeated, "life {life}, applied");
        let applied = UploadStatus::Applied { records: 1, rejected_records: 0 };
        assert_eq!(feed.status(1), applied);
        assert_eq!(feed.status(5), UploadStatus::Unknown);
        let positions = engine.feeds().table("positions").expect("it is there");
        let mut seen = Vec::new();
        let scanned = positions.scan(0, 10, &mut |row| seen.push(row.to_row().columns[2].clone()));
        scanned.expect("it is in memory");
        assert_eq!(seen, [Value::Integer(4)]);
        if life == 1 {
            engine.snapshot().expect("it is made");
        }
        engine.close().expect("it closes");
    }
}

#[test]
fn what_cannot_be_read_is_rejected_with_its_reason() {
    let engine = in_memory(vec![sightings()]);
    let feed = sightings_of(&engine);
    let limits = &feed.source().limits;
    let empty = feed.push(Upload::default()).expect_err("it is empty");
    assert!(matches!(empty, PushError::Invalid(_)), "{empty:?}");
    let large = vec![b'<'; limits.upload_size_bytes_max as usize + 1];
    let large = feed.push(Upload { bytes: &large, ..Upload::default() });
    assert!(matches!(large, Err(PushError::TooLarge { .. })), "{large:?}");
    let gzip = Upload { bytes: b"no gzip", encoding: Encoding::Gzip, ..Upload::default() };
    assert!(matches!(feed.push(gzip), Err(PushError::Invalid(_))));
    let no_xml = Upload { bytes: b"{\"a\":1}", ..Upload::default() };
    assert!(matches!(feed.push(no_xml), Err(PushError::Invalid(_))));
    // Nobody has said that these are packed, or they are in a way that is not read.
    for head in [&b"\xfd7zXZ\x00"[..], b"BZh91AY&SY", b"PK\x03\x04", b"\x1f\x8b\x08\x00"] {
        let packed = [head, b"<upload><sighting"].concat();
        match feed.push(Upload { bytes: &packed, ..Upload::default() }) {
            Err(PushError::Invalid(why)) => assert!(why.contains("packed with"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    let bomb = {
        let text = format!("<upload>{}", " ".repeat(limits.upload_size_bytes_max as usize));
        zstd::encode_all(text.as_bytes(), 1).expect("it is packed")
    };
    let bomb = Upload { bytes: &bomb, encoding: Encoding::Zstd, ..Upload::default() };
    let bomb = feed.push(bomb).expect_err("unpacked it is too large");
    assert!(matches!(bomb, PushError::TooLarge { is_unpacked: true, .. }), "{bomb:?}");
    assert!(bomb.to_string().contains("larger than"), "{bomb}");
    let half = feed.push(Upload { bytes: b"<upload><sighting obj", ..Upload::default() });
    let half = half.expect("its beginning is right");
    let ahead = Sighting { time: 4_000_000_000_000, ..Sighting::random(&mut Random(1)) };
    let ahead = feed.push(Upload { bytes: &upload(&[ahead]), ..Upload::default() });
    let ahead = ahead.expect("its beginning is right");
    engine.step_feed(&feed).expect("they are rejected");
    let reason = |id| match feed.status(id) {
        UploadStatus::Rejected { reason } => reason,
        other => panic!("it should be rejected: {other:?}"),
    };
    assert!(!reason(half.id).is_empty());
    let refused = UploadStatus::Applied { records: 0, rejected_records: 1 };
    assert_eq!(feed.status(ahead.id), refused);
}

#[test]
fn a_batch_ends_when_it_has_changed_enough_places() {
    let mut source = sightings();
    source.merge_within_meters = None;
    source.tables.clear();
    let engine = in_memory(vec![source]);
    let feed = sightings_of(&engine);
    // The reader may be some ten thousand records ahead of what counts places.
    let (uploads, members) = (3, 130_000);
    for number in 0..uploads {
        let line = |member| format!("<sighting object=\"{number}-{member}\" x=\"8\" y=\"50\"/>\n");
        let text: String = (0..members).map(line).collect();
        let bytes = format!("<upload>{text}</upload>").into_bytes();
        feed.push(Upload { bytes: &bytes, ..Upload::default() }).expect("it is taken");
    }
    let mut batches = Vec::new();
    loop {
        let report = engine.step_feed(&feed).expect("it is applied");
        if report.batch == 0 {
            break;
        }
        batches.push(report.records);
    }
    assert_eq!(batches, [2 * members, members]);
}

#[test]
fn lists_of_prefixes_decide_when_their_batch_does_also_after_a_restart() {
    let disk = SimulatedDisk::new(8);
    let feed = || FeedSource {
        name: "blocklist".to_owned(),
        input: FeedInput::Prefixes(whered_ip::SetReading::of(whered_ip::SetFormat::Plain)),
        collection: None,
        tables: Vec::new(),
        set: Some(SetTarget {
            name: "blocked".to_owned(),
            replaces: true,
            limit: whered_ip::ShrinkLimit::default(),
            is_strict: true,
        }),
        merge_within_meters: None,
        limits: FeedLimits { batch_delay: Duration::ZERO, ..FeedLimits::default() },
    };
    let members = |engine: &Engine| {
        let version = engine.prefix_sets().version("blocked").expect("it is there");
        version.iter(0).map(|member| member.block.to_string()).collect::<Vec<_>>()
    };
    {
        let engine = open(&disk, vec![feed()]).expect("it opens");
        let feed = Arc::clone(engine.feeds().get("blocklist").expect("it is there"));
        for text in ["10.0.0.0/8\n", "192.0.2.0/24\n2001:db8::/32\n", "no prefix\n"] {
            feed.push(Upload { bytes: text.as_bytes(), ..Upload::default() }).expect("it is taken");
        }
        feed.wait(SpoolTicket(3)).expect("it is durable");
        while engine.step_feed(&feed).expect("it is applied").batch > 0 {}
        assert_eq!(members(&engine), ["192.0.2.0/24", "2001:db8::/32"]);
        assert!(matches!(feed.status(3), UploadStatus::Rejected { .. }));
        // Neither a list without members, nor half of one, nor one with bits behind a prefix takes
        // the place of what is there.
        for (text, reason) in [
            ("# nothing\n", "set 'blocked': found no members"),
            ("10.0.0.0/8\n", "set 'blocked': found 1 members in the place of 2, a loss of 50 %"),
            // The set is strict.
            ("192.0.2.1/24\n2001:db8::/32\n", "192.0.2.1/24"),
        ] {
            let upload = Upload { bytes: text.as_bytes(), ..Upload::default() };
            let pushed = feed.push(upload).expect("it is taken");
            feed.wait(pushed.ticket).expect("it is durable");
            while engine.step_feed(&feed).expect("it is judged").batch > 0 {}
            let status = feed.status(pushed.id);
            let shown = format!("{status:?}");
            assert!(shown.contains(reason), "{shown}");
            assert_eq!(members(&engine), ["192.0.2.0/24", "2001:db8::/32"]);
        }
        engine.close().expect("it closes");
    }
    let engine = open(&disk, vec![feed()]).expect("it opens");
    assert_eq!(members(&engine), ["192.0.2.0/24", "2001:db8::/32"]);
}

#[test]
fn adopted_rows_stay_where_there_are_none_and_come_back() {
    let disk = SimulatedDisk::new(8);
    let row = |object: &str, count: i64| {
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        vec![text(object), text("i1"), Value::Integer(count), Value::Integer(1)]
    };
    for life in 0..2 {
        let engine = open(&disk, vec![sightings()]).expect("it opens");
        let feed = sightings_of(&engine);
        let _hold = feed.hold();
        let rows = vec![row("a", 5), row("b", 6), row("a", 7)];
        let taken = engine.adopt_rows(&feed, "loot", &mut rows.into_iter()).expect("they are rows");
        assert_eq!(taken, if life == 0 { 2 } else { 0 });
        let loot = engine.feeds().table("loot").expect("it is there");
        let found = loot.get(&[Cell::Text(b"a"), Cell::Text(b"i1")]).expect("it is in memory");
        let found = found.expect("it was taken");
        assert_eq!(found.columns[0], Value::Integer(5));
        let wrong = engine.adopt_rows(&feed, "loot", &mut vec![vec![Value::Absent]].into_iter());
        assert!(wrong.expect_err("it is no row").to_string().contains("has 4 columns"));
        engine.close().expect("it closes");
    }
}

#[test]
fn a_table_with_other_columns_needs_another_name_and_one_that_is_gone_comes_back() {
    let disk = SimulatedDisk::new(8);
    let mut random = Random(4);
    let mut uploads = vec![vec![Sighting::random(&mut random)]];
    {
        let engine = open(&disk, vec![sightings()]).expect("it opens");
        let feed = sightings_of(&engine);
        feed.push(Upload { bytes: &upload(&uploads[0]), ..Upload::default() })
            .expect("it is taken");
        feed.wait(SpoolTicket(1)).expect("it is durable");
        engine.step_feed(&feed).expect("it is applied");
        engine.close().expect("it closes");
    }
    let mut changed = sightings();
    changed.tables[1].columns[0].rule = Rule::Count;
    let error = open(&disk, vec![changed]).err().expect("its columns are others");
    assert!(error.contains("needs another name"), "{error}");
    {
        let engine = open(&disk, Vec::new()).expect("it opens");
        assert!(engine.feeds().memory_bytes() > 0);
        engine.snapshot().expect("it is made");
        engine.close().expect("it closes");
    }
    let engine = open(&disk, vec![sightings()]).expect("it opens");
    check_all(&engine, &mut uploads, 1, "it came back");
}

#[test]
fn sinks_hear_of_batches_only_when_these_survive_a_crash_whatever_the_policy() {
    for sync in [SyncPolicy::EverySecond, SyncPolicy::Off] {
        let disk = SimulatedDisk::new(9);
        let open = |disk: &SimulatedDisk| {
            let mut options = options(vec![sightings()]);
            options.journal.sync = sync;
            let loaded = StartFiles::read(&options.setup).expect("there are no files");
            let opened = Engine::open_on(options, loaded, Some(Disk::simulated(disk)));
            opened.expect("it opens").0
        };
        let engine = open(&disk);
        let feed = sightings_of(&engine);
        feed.report_link(LinkStatus { name: "sink".to_owned(), ..LinkStatus::default() });
        let mut random = Random(9);
        for _ in 0..5 {
            let bytes = upload(&[Sighting::random(&mut random)]);
            let pushed = feed.push(Upload { bytes: &bytes, ..Upload::default() }).expect("taken");
            feed.wait(pushed.ticket).expect("the disk is well");
            assert!(feed.is_on_disk(pushed.ticket), "{sync}: acknowledged is on the disk");
            engine.step_feed(&feed).expect("nothing is wrong");
            let told = feed.durable_batch();
            let later = open(&disk.crash(told));
            let batch = sightings_of(&later).stats().last_batch;
            assert!(batch >= told, "{sync}: {told} was told, {batch} is there");
        }
        // With nothing to do the rest is brought to the disk.
        assert_eq!(engine.step_feed(&feed).expect("nothing is wrong").batch, 0);
        assert_eq!(feed.durable_batch(), 5, "{sync}");
        engine.close().expect("nothing is wrong");
    }
}
