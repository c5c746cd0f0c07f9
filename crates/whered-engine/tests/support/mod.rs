//! Helpers of the engine's tests: folders that clean up after themselves, small databases.
#![allow(dead_code, reason = "each test file uses its own part of this one")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use whered_engine::feeds::formats::{Format, MappingSource};
use whered_engine::feeds::{FeedInput, FeedLimits, FeedSource};
use whered_engine::mmdb::{Value, Writer, WriterOptions};
use whered_engine::tables::{ColumnSource, RowsOf, Rule, TableSource};
use whered_engine::{DatabaseSource, Engine, EngineOptions, Setup};

/// A folder below the system's temporary one, removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("whered-engine-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder can be made");
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and gives its path.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("a temporary file can be written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Small segments: tests open many journals.
pub(crate) fn open(data_dir: &Path, setup: Setup) -> Arc<Engine> {
    let mut options =
        EngineOptions { data_dir: Some(data_dir.to_owned()), setup, ..EngineOptions::default() };
    options.journal.segment_size_bytes = 1 << 20;
    Engine::open(options).expect("the engine opens").0
}

/// A feed of sightings with the fields `who`, `x`, `y` and `at`, which are one position within 25
/// m: points in `places-NAME`, rows with these columns in `positions-NAME`.
pub(crate) fn positions_feed(name: &str, format: Format, columns: &[(&str, &str)]) -> FeedSource {
    let mut mapping = MappingSource::new(format);
    mapping.member = "who".into();
    mapping.longitude = Some("x".into());
    mapping.latitude = Some("y".into());
    mapping.time = Some("at".into());
    let column = |(name, rule): &(&str, &str)| ColumnSource {
        name: (*name).to_owned(),
        rule: Rule::parse(rule).expect("it is a rule"),
    };
    FeedSource {
        name: name.to_owned(),
        input: FeedInput::Records(mapping.compile().expect("it is a mapping")),
        collection: Some(format!("places-{name}")),
        tables: vec![TableSource {
            name: format!("positions-{name}"),
            of: RowsOf::Positions,
            key: vec!["member".to_owned(), "position".to_owned()],
            columns: columns.iter().map(column).collect(),
        }],
        set: None,
        merge_within_meters: Some(25.0),
        limits: FeedLimits { batch_delay: Duration::ZERO, ..FeedLimits::default() },
    }
}

/// A database of `prefix -> (longitude, latitude)`; no place where the pair is absent.
pub(crate) fn place_database(rows: &[(&str, Option<(f64, f64)>)]) -> Vec<u8> {
    place_database_of(6, rows)
}

/// The same for one IP version.
pub(crate) fn place_database_of(ip_version: u16, rows: &[(&str, Option<(f64, f64)>)]) -> Vec<u8> {
    let options = WriterOptions {
        database_type: "Test-City".to_owned(),
        description: vec![],
        languages: vec![],
        ip_version,
        record_size_bits: None,
        build_epoch_seconds: 1,
    };
    let mut writer = Writer::new(options).expect("the options are right");
    for (prefix, place) in rows {
        let location = place.map(|(longitude, latitude)| {
            Value::Map(vec![
                ("latitude".to_owned(), Value::Double(latitude)),
                ("longitude".to_owned(), Value::Double(longitude)),
            ])
        });
        let record =
            location.map(|location| ("location".to_owned(), location)).into_iter().collect();
        writer
            .insert(prefix.parse().expect("a prefix"), Value::Map(record))
            .expect("a right value");
    }
    writer.finish().expect("the file is written")
}

/// The setup's entry for a database file.
pub(crate) fn database(name: &str, path: PathBuf) -> DatabaseSource {
    DatabaseSource::new(name, path)
}
