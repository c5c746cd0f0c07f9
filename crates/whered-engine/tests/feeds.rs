//! Feeds in a real directory: what waits comes along in a backup, and what was refused is written
//! down once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use whered_engine::feeds::formats::{FieldKind, Format, MappingSource};
use whered_engine::feeds::{
    Feed, FeedInput, FeedLimits, FeedSource, SetTarget, Upload, UploadStatus,
};
use whered_engine::tables::{Cell, ColumnSource, RowsOf, Rule, TableSource, Value};
use whered_engine::{Engine, EngineOptions, Setup};

fn source() -> FeedSource {
    let mut mapping = MappingSource::new(Format::Ndjson);
    mapping.member = "who".into();
    mapping.time = Some("at".into());
    mapping.fields = vec![("points".to_owned(), "points".into(), FieldKind::Integer)];
    let column = |name: &str, rule: &str| ColumnSource {
        name: name.to_owned(),
        rule: Rule::parse(rule).expect("it is a rule"),
    };
    let scores = TableSource {
        name: "scores".to_owned(),
        of: RowsOf::Records,
        key: vec!["member".to_owned(), "day".to_owned()],
        columns: vec![column("points", "sum(points)"), column("latest", "last(points)")],
    };
    FeedSource {
        name: "games".to_owned(),
        input: FeedInput::Records(mapping.compile().expect("it is a mapping")),
        collection: None,
        tables: vec![scores],
        set: None,
        merge_within_meters: None,
        limits: FeedLimits { batch_delay: Duration::ZERO, ..FeedLimits::default() },
    }
}

fn open(directory: &Path) -> Arc<Engine> {
    let setup = Setup { feeds: vec![source()], ..Setup::default() };
    let data_dir = Some(directory.to_owned());
    Engine::open(EngineOptions { data_dir, setup, ..EngineOptions::default() }).expect("it opens").0
}

fn feed(engine: &Engine) -> Arc<Feed> {
    Arc::clone(engine.feeds().get("games").expect("it is there"))
}

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let name = format!("whered-feeds-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const LINE: &str = r#"{"who":"ann","at":1700000000,"points":5}"#;

fn points(engine: &Engine) -> Option<Value> {
    let table = engine.feeds().table("scores").expect("it is there");
    let row = table.get(&[Cell::Text(b"ann"), Cell::Text(b"2023-11-14")]).expect("it is in memory");
    row.map(|row| row.columns[0].clone())
}

#[test]
fn a_backup_has_what_was_acknowledged_applied_or_not() {
    let (data, copy) = (Directory::new("data"), Directory::new("copy"));
    let engine = open(&data.0);
    let games = feed(&engine);
    for _ in 0..2 {
        let pushed = games.push(Upload { bytes: LINE.as_bytes(), ..Upload::default() });
        games.wait(pushed.expect("it is taken").ticket).expect("it is durable");
        engine.step_feed(&games).expect("it is applied");
    }
    let pushed = games.push(Upload { bytes: LINE.as_bytes(), ..Upload::default() });
    games.wait(pushed.expect("it is taken").ticket).expect("it is durable");
    assert_eq!(points(&engine), Some(Value::Integer(10)));
    engine.backup(&copy.0).expect("it is made");
    engine.step_feed(&games).expect("it is applied");
    engine.close().expect("it closes");
    let engine = open(&copy.0);
    assert_eq!(points(&engine), Some(Value::Integer(10)));
    assert_eq!(feed(&engine).status(3), UploadStatus::Spooled);
    engine.step_feed(&feed(&engine)).expect("it is applied");
    assert_eq!(points(&engine), Some(Value::Integer(15)));
    engine.close().expect("it closes");
}

#[test]
fn refused_records_are_written_down_once_with_upload_and_place() {
    let data = Directory::new("quarantine");
    let engine = open(&data.0);
    let games = feed(&engine);
    let text = format!("{LINE}\n{{\"points\":1}}\n{LINE}\n");
    let pushed = games.push(Upload { bytes: text.as_bytes(), ..Upload::default() });
    games.wait(pushed.expect("it is taken").ticket).expect("it is durable");
    let report = engine.step_feed(&games).expect("it is applied");
    assert_eq!((report.batch, report.records, report.rejected_records), (1, 2, 1));
    let applied = UploadStatus::Applied { records: 2, rejected_records: 1 };
    assert_eq!(games.status(1), applied);
    let path = data.0.join("quarantine/games.ndjson");
    let line = std::fs::read_to_string(&path).expect("it is there");
    let expected = format!("{{\"upload\":1,\"offset_bytes\":{},", LINE.len() + 1);
    assert!(line.starts_with(&expected), "{line}");
    engine.close().expect("it closes");
    drop((games, engine));
    // As if a crash had come between the line and its batch.
    let doubled = format!("{line}{}", line.replace("\"upload\":1", "\"upload\":2"));
    std::fs::write(&path, doubled).expect("it is written");
    let engine = open(&data.0);
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), line);
    assert_eq!(points(&engine), Some(Value::Integer(10)));
    assert_eq!(feed(&engine).status(1), applied);
    engine.close().expect("it closes");
}

#[test]
fn bits_behind_a_prefix_that_a_feed_brings_are_written_down() {
    let data = Directory::new("bits");
    let set = SetTarget {
        name: "blocked".to_owned(),
        replaces: true,
        limit: whered_ip::ShrinkLimit::default(),
        is_strict: false,
    };
    let list = FeedSource {
        name: "list".to_owned(),
        input: FeedInput::Prefixes(whered_ip::SetReading::of(whered_ip::SetFormat::Plain)),
        tables: Vec::new(),
        set: Some(set),
        ..source()
    };
    let setup = Setup { feeds: vec![list], ..Setup::default() };
    let options =
        EngineOptions { data_dir: Some(data.0.clone()), setup, ..EngineOptions::default() };
    let engine = Engine::open(options).expect("it opens").0;
    let feed = Arc::clone(engine.feeds().get("list").expect("it is there"));
    let upload = Upload { bytes: b"192.0.2.0/24\n10.0.0.1/8\n", ..Upload::default() };
    feed.wait(feed.push(upload).expect("it is taken").ticket).expect("it is durable");
    let report = engine.step_feed(&feed).expect("it is applied");
    assert_eq!((report.records, report.rejected_records), (2, 0));
    let lines = std::fs::read_to_string(data.0.join("quarantine/list.ndjson"));
    let expected = "{\"upload\":1,\"offset_bytes\":0,\"reason\":\"line 2, column 1: found \\\"10.0.0.1/8\\\", \
                    which has bits set behind its length: it is taken as 10.0.0.0/8\"}\n";
    assert_eq!(lines.expect("it is there"), expected);
    engine.close().expect("it closes");
}
