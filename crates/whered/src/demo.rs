//! The embedded demonstration data and how it is laid out at the first start.
//!
//! ```text
//! DATA_DIR/demo/{city.mmdb, example.com.zone, demo.toml}   written when absent, never overwritten
//! ```
//! The database is built from rows by the same code as `whered db build`. Collection and prefix
//! set go through the engine's ordinary writes, so they are durable like anyone's.

use std::path::{Path, PathBuf};

use whered_engine::geo::{Cell, Place};
use whered_engine::ip::Prefix;
use whered_engine::store::private;
use whered_engine::{AddCondition, Engine};
use whered_mmdb::WriterOptions;

use crate::db::{build_from_csv, replace_file, writer_options};
use crate::outcome::Failure;

const ADDRESSES: &str = include_str!("../demo/addresses.csv");
const BOGONS: &str = include_str!("../demo/bogons.csv");
const CITIES: &str = include_str!("../demo/cities.csv");
const ZONE: &str = include_str!("../demo/example.com.zone");
const CONFIG: &str = include_str!("../demo/demo.toml");

/// The collection's key and the prefix set's name.
const COLLECTION: &[u8] = b"cities";
const PREFIX_SET: &str = "bogons";

/// Writes the demonstration's files and gives the configuration file's path.
pub(crate) fn write_files(data_dir: &Path) -> Result<PathBuf, Failure> {
    let folder = data_dir.join("demo");
    private::create_folders(&folder).map_err(|error| Failure::file(&folder, error))?;
    let database = folder.join("city.mmdb");
    if !database.exists() {
        let options = WriterOptions {
            description: vec![("en".to_owned(), "whered demonstration".to_owned())],
            ..writer_options()
        };
        let (bytes, _) = build_from_csv(ADDRESSES.as_bytes(), options).map_err(Failure::new)?;
        replace_file(&database, &bytes)?;
    }
    let config = folder.join("demo.toml");
    for (path, text) in [(folder.join("example.com.zone"), ZONE), (config.clone(), CONFIG)] {
        if !path.exists() {
            replace_file(&path, text.as_bytes())?;
        }
    }
    Ok(config)
}

/// Adds the demonstration's points and prefixes where they are not there yet.
pub(crate) fn fill(engine: &Engine) -> Result<(), Failure> {
    if !engine.keyspace().exists(0, COLLECTION) {
        let cities: Vec<(&str, Cell)> = rows(CITIES).map(city).collect();
        let cities: Vec<(&[u8], Cell)> =
            cities.iter().map(|(name, cell)| (name.as_bytes(), *cell)).collect();
        let keyspace = engine.keyspace();
        keyspace.add_points(0, COLLECTION, &cities, AddCondition::Always).map_err(Failure::new)?;
    }
    // One write for each value: after a crash between two of them the rest is made up for.
    let sets = engine.prefix_sets();
    for row in rows(BOGONS) {
        let (prefix, value) = row.split_once(',').expect("embedded rows have two cells");
        let prefix: Prefix = prefix.parse().expect("embedded prefixes are right");
        let now = engine.now_millis();
        let known = sets.read(PREFIX_SET, |set| set.get(prefix, now).is_some());
        if known != Some(true) {
            sets.add(PREFIX_SET, &[prefix], Some(value.as_bytes()), None).map_err(Failure::new)?;
        }
    }
    Ok(())
}

/// Four commands to try, one for each kind of question.
pub(crate) fn commands(resp_port: u16, http_port: u16, dns_port: u16) -> String {
    format!(
        "try, in another terminal:
  curl 'http://127.0.0.1:{http_port}/v1/ip/8.8.8.8'
  redis-cli -p {resp_port} GEOSEARCH cities FROMLONLAT 8.68 50.11 BYRADIUS 300 km ASC WITHDIST
  redis-cli -p {resp_port} CIDR.MATCH bogons 10.1.2.3 WITHVALUE
  dig @127.0.0.1 -p {dns_port} www.example.com A +subnet=192.0.2.128/26 +short"
    )
}

fn rows(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().skip(1).filter(|line| !line.is_empty())
}

fn city(row: &'static str) -> (&'static str, Cell) {
    let mut cells = row.split(',');
    let name = cells.next().expect("embedded rows have three cells");
    let mut degrees = || -> f64 {
        let cell = cells.next().expect("embedded rows have three cells");
        cell.parse().expect("embedded coordinates are right")
    };
    let (longitude_degrees, latitude_degrees) = (degrees(), degrees());
    let place = Place::new(longitude_degrees, latitude_degrees).expect("embedded places are right");
    (name, Cell::from_place(place))
}
