//! SQLite in this process: one statement for each row, alone or many in one transaction.
//!
//! Not for servers: its processor time is that of the thread that calls it, making the batch
//! included. Its file has a write-ahead log and one user (`locking_mode = EXCLUSIVE`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, params};
use whered_bench::feed::{Consolidated, Loot, Position, Sighting, Upload};
use whered_bench::measure::thread_cpu_nanoseconds;

use crate::contestant::{Applied, Contestant, batches, compared};
use crate::options::Workload;
use crate::tables::{Statistic, Tables, statistics};

const TABLES: &str = "\
    CREATE TABLE positions (object INT, point INT, seen INT, longitude_sum INT, \
    latitude_sum INT, first_seen INT, last_seen INT, PRIMARY KEY (object, point)) WITHOUT ROWID;\
    CREATE TABLE loot (object INT, item INT, seen INT, count INT, last_seen INT, \
    PRIMARY KEY (object, item)) WITHOUT ROWID;\
    CREATE TABLE statistics (object INTEGER PRIMARY KEY, seen INT, first_seen INT, last_seen INT)";

const POSITIONS: &str = "INSERT INTO positions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
    ON CONFLICT DO UPDATE SET seen = seen + excluded.seen, \
    longitude_sum = longitude_sum + excluded.longitude_sum, \
    latitude_sum = latitude_sum + excluded.latitude_sum, \
    first_seen = min(first_seen, excluded.first_seen), \
    last_seen = max(last_seen, excluded.last_seen)";
const LOOT: &str = "INSERT INTO loot VALUES (?1, ?2, ?3, ?4, ?5) \
    ON CONFLICT DO UPDATE SET seen = seen + excluded.seen, count = count + excluded.count, \
    last_seen = max(last_seen, excluded.last_seen)";
const STATISTICS: &str = "INSERT INTO statistics VALUES (?1, ?2, ?3, ?4) \
    ON CONFLICT DO UPDATE SET seen = seen + excluded.seen, \
    first_seen = min(first_seen, excluded.first_seen), \
    last_seen = max(last_seen, excluded.last_seen)";

fn fault(error: rusqlite::Error) -> String {
    format!("sqlite: {error}")
}

struct Way {
    file: PathBuf,
    place: &'static str,
    /// `FULL` or `NORMAL`.
    synchronous: &'static str,
    /// Uploads of a transaction; none: a transaction for each statement.
    batch: Option<usize>,
    workload: Workload,
    conn: Option<Connection>,
}

impl Way {
    fn conn(&self) -> Result<&Connection, String> {
        self.conn.as_ref().ok_or_else(|| "sqlite: not open".to_owned())
    }
}

impl Contestant for Way {
    fn name(&self) -> String {
        let form = if self.batch.is_some() { "batched" } else { "single" };
        format!("SQLite, {}, {form}, {}", self.place, self.synchronous)
    }

    fn fill(&mut self, all: &Consolidated) -> Result<(), String> {
        let conn = Connection::open(&self.file).map_err(fault)?;
        let settings = format!(
            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; \
             PRAGMA synchronous = {}; PRAGMA cache_size = -262144; PRAGMA temp_store = MEMORY",
            self.synchronous
        );
        conn.execute_batch(&settings).map_err(fault)?;
        conn.execute_batch(TABLES).map_err(fault)?;
        conn.set_prepared_statement_cache_capacity(16);
        conn.execute_batch("BEGIN").map_err(fault)?;
        let has_loot = self.workload.has_loot();
        fill(&conn, all, has_loot).map_err(fault)?;
        conn.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)").map_err(fault)?;
        self.conn = Some(conn);
        Ok(())
    }

    fn apply(&mut self, uploads: &[Upload], time: Duration) -> Result<Applied, String> {
        let (conn, has_loot) = (self.conn()?, self.workload.has_loot());
        let Some(batch) = self.batch else {
            let start = std::time::Instant::now();
            let mut applied = Applied::new();
            for upload in uploads {
                let mut count = 0;
                for sighting in &upload.sightings {
                    one(conn, sighting, has_loot).map_err(fault)?;
                    count += 1;
                    if start.elapsed() >= time {
                        applied.push(count);
                        return Ok(applied);
                    }
                }
                applied.push(count);
            }
            return Ok(applied);
        };
        batches(uploads, batch, time, |sightings| {
            conn.execute_batch("BEGIN").map_err(fault)?;
            for sighting in sightings {
                one(conn, sighting, has_loot).map_err(fault)?;
            }
            conn.execute_batch("COMMIT").map_err(fault)
        })
    }

    fn cpu_nanoseconds(&self) -> Result<u64, String> {
        thread_cpu_nanoseconds().map_err(|error| format!("sqlite: {error}"))
    }

    fn check(&mut self, expected: &Consolidated) -> Result<usize, String> {
        let found = tables(self.conn()?).map_err(fault)?;
        compared(&found, expected, self.workload.has_loot())
    }
}

fn one(conn: &Connection, sighting: &Sighting, has_loot: bool) -> rusqlite::Result<()> {
    let Sighting { object, point, longitude, latitude, time_seconds: t, .. } = *sighting;
    let mut statement = conn.prepare_cached(POSITIONS)?;
    statement.execute(params![object, point, 1, longitude, latitude, t, t])?;
    if !has_loot {
        return Ok(());
    }
    for (item, n) in &sighting.loot {
        conn.prepare_cached(LOOT)?.execute(params![object, item, 1, n, t])?;
    }
    conn.prepare_cached(STATISTICS)?.execute(params![object, 1, t, t])?;
    Ok(())
}

fn fill(conn: &Connection, all: &Consolidated, has_loot: bool) -> rusqlite::Result<()> {
    for ((object, point), row) in &all.positions {
        let Position { longitude_sum: x, latitude_sum: y, .. } = row;
        let (first, last) = (row.first_seconds, row.last_seconds);
        let mut statement = conn.prepare_cached(POSITIONS)?;
        statement.execute(params![object, point, row.seen as i64, x, y, first, last])?;
    }
    if !has_loot {
        return Ok(());
    }
    for ((object, item), row) in &all.loot {
        let (seen, count) = (row.seen as i64, row.count as i64);
        let mut statement = conn.prepare_cached(LOOT)?;
        statement.execute(params![object, item, seen, count, row.last_seconds])?;
    }
    for (object, row) in statistics(all) {
        let mut statement = conn.prepare_cached(STATISTICS)?;
        let (first, last) = (row.first_seconds, row.last_seconds);
        statement.execute(params![object, row.seen as i64, first, last])?;
    }
    Ok(())
}

fn tables(conn: &Connection) -> rusqlite::Result<Tables> {
    let mut tables = Tables::default();
    let mut statement = conn.prepare("SELECT * FROM positions")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let position = Position {
            seen: row.get::<_, i64>(2)? as u64,
            longitude_sum: row.get(3)?,
            latitude_sum: row.get(4)?,
            first_seconds: row.get(5)?,
            last_seconds: row.get(6)?,
        };
        tables.positions.insert((row.get(0)?, row.get(1)?), position);
    }
    let mut statement = conn.prepare("SELECT * FROM loot")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (seen, count) = (row.get::<_, i64>(2)? as u64, row.get::<_, i64>(3)? as u64);
        let loot = Loot { seen, count, last_seconds: row.get(4)? };
        tables.loot.insert((row.get(0)?, row.get(1)?), loot);
    }
    let mut statement = conn.prepare("SELECT * FROM statistics")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let statistic = Statistic {
            seen: row.get::<_, i64>(1)? as u64,
            first_seconds: row.get(2)?,
            last_seconds: row.get(3)?,
        };
        tables.statistics.insert(row.get(0)?, statistic);
    }
    Ok(tables)
}

/// All ways on both file systems.
pub(crate) fn ways(
    places: [(&Path, &'static str); 2],
    workload: Workload,
    batch: usize,
) -> Result<Vec<Box<dyn Contestant>>, String> {
    let mut ways: Vec<Box<dyn Contestant>> = Vec::new();
    for (folder, place) in places {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        for synchronous in ["FULL", "NORMAL"] {
            for batch in [None, Some(batch)] {
                let form = if batch.is_some() { "batched" } else { "single" };
                let file = folder.join(format!("{form}-{synchronous}.sqlite"));
                ways.push(Box::new(Way { file, place, synchronous, batch, workload, conn: None }));
            }
        }
    }
    Ok(ways)
}
