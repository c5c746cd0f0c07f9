//! A sink into MariaDB on disk: rows a second that arrive, and how long after its acknowledgement
//! an upload is seen by another client.
//!
//! For: the whole way, from XML over HTTP to a SELECT. Not for the sink alone (`whered-connect`'s
//! tests print that).
//!
//! ```text
//! rate   all uploads at once ─► until the sink has handed on the last batch: rows handed on / time
//! age    uploads at 290 KB/s, which is five times 5 GB a day ─► 202 ─► SELECT SUM(seen) has them
//! ```

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use serde_json::{Value as Json, json};
use whered_bench::feed::sending::{HttpConnection, send};
use whered_bench::feed::{
    Consolidated, FEED_PATH, FeedServer, Upload, UploadFormat, UploadOptions, World, config,
};
use whered_bench::measure::{Section, quantile, wait_until};

use crate::mariadb::{MariaDb, fault};
use crate::options::Options;

/// Bytes of XML a second: five times the seed's average.
const AGE_BYTES_PER_SECOND: f64 = 5.0 * 5e9 / 86_400.0;
/// How long a row may take to be seen.
const PATIENCE: Duration = Duration::from_secs(120);
const CLIENTS: usize = 64;

/// A server whose feed is handed on.
struct Running {
    server: FeedServer,
    sql: MariaDb,
}

/// Runs both parts.
pub(crate) fn measure(options: &Options) -> Result<Section, String> {
    let (rows, seconds, uploads, compared) = rate(options)?;
    eprintln!("  {:.0} rows/s arrive", rows as f64 / seconds);
    let (ages, of) = age(options)?;
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|at| quantile(&ages, at));
    let figures = json!({ "sink": {
        "rows": rows, "seconds": seconds, "rows_per_second": rows as f64 / seconds,
        "uploads": uploads, "compared": compared, "ages_seconds": ages,
        "age_p50_seconds": p50, "age_p99_seconds": p99, "age_max_seconds": most,
    } });
    let row = |cells: [String; 2]| cells.to_vec();
    let rows = vec![
        row(["".to_owned(), "measured".to_owned()]),
        row(["rows handed on".to_owned(), format!("{rows} in {seconds:.2} s")]),
        row(["rows/s".to_owned(), format!("{:.0}", rows as f64 / seconds)]),
        row(["rows compared in SQL".to_owned(), compared.to_string()]),
        row([
            "acknowledged until seen by SELECT".to_owned(),
            format!("p50 {p50:.2} s, p99 {p99:.2} s, most {most:.2} s ({of} uploads)"),
        ]),
    ];
    let settings = format!(
        "MariaDB on disk, every transaction durable; rate: {uploads} uploads with loot of 200,000 \
         objects, from the first byte until the last batch is in SQL; age: {:.0} KB/s of XML",
        AGE_BYTES_PER_SECOND / 1e3
    );
    let title = "Through a sink into MariaDB on disk".to_owned();
    Ok(Section::new(title, rows, figures).measured_with(&settings))
}

fn made() -> UploadOptions {
    UploadOptions { format: UploadFormat::Xml, has_loot: true, size_bytes: 100_000 }
}

fn start(options: &Options) -> Result<Running, String> {
    let disk = &options.disk;
    std::fs::create_dir_all(disk).map_err(|error| format!("{}: {error}", disk.display()))?;
    let sql = MariaDb::new(&disk.join("mariadb"))?;
    let mut conn = sql.connect(None)?;
    conn.query_drop("CREATE DATABASE game").map_err(fault)?;
    let folder = disk.join("whered");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let data = folder.join("data");
    let socket = sql.folder.join("socket");
    let text = config(&data, UploadFormat::Xml, true)
        + &format!(
            "[[feed.sink]]\nurl = \"mysql://root@127.0.0.1/game?socket={}\"\n\
             tables = [\"positions\", \"loot\"]\n",
            socket.display()
        );
    let server = FeedServer::start(&options.binary, &folder, &data, &text)?;
    Ok(Running { server, sql })
}

/// Rows handed on, in how many seconds, of how many uploads; rows compared.
fn rate(options: &Options) -> Result<(u64, f64, usize, usize), String> {
    let running = start(options)?;
    let world = World::new(1, 200_000);
    let uploads: Vec<Upload> =
        (0..options.uploads).map(|number| Upload::new(&world, number, &made())).collect();
    let bytes: Vec<&[u8]> = uploads.iter().map(|upload| &upload.bytes[..]).collect();
    let begin = Instant::now();
    send(running.server.address, FEED_PATH, &bytes, CLIENTS, None)?;
    running.server.wait_until_applied()?;
    let rows = wait_until_handed_on(&running.server)?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut all = Consolidated::default();
    uploads.iter().flat_map(|upload| &upload.sightings).for_each(|sighting| all.add(sighting));
    let mut conn = running.sql.connect(Some("game"))?;
    let compared = compare(&mut conn, &all)?;
    Ok((rows, seconds, uploads.len(), compared))
}

/// The rows that the sink has handed on when it has the last batch.
fn wait_until_handed_on(server: &FeedServer) -> Result<u64, String> {
    let mut connection = HttpConnection::connect(server.address)?;
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = connection.ask("GET", FEED_PATH, b"")?;
        let feed: Json = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
        let feed = feed.get("feed").unwrap_or(&feed);
        let link = &feed["links"][0];
        if link["batch"].as_u64() >= feed["last_batch"].as_u64() && link["error"].is_null() {
            return link["rows"].as_u64().ok_or_else(|| format!("no rows in {link}"));
        }
        if Instant::now() > until {
            return Err(format!("the sink is not through after minutes: {feed}"));
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Seconds from acknowledgement until seen, of each upload, and how many those are.
fn age(options: &Options) -> Result<(Vec<f64>, usize), String> {
    let running = start(options)?;
    let world = World::new(2, 20_000);
    let first = 400;
    let uploads: Vec<Upload> =
        (0..first).map(|number| Upload::new(&world, number, &made())).collect();
    let bytes: Vec<&[u8]> = uploads.iter().map(|upload| &upload.bytes[..]).collect();
    send(running.server.address, FEED_PATH, &bytes, CLIENTS, None)?;
    running.server.wait_until_applied()?;
    wait_until_handed_on(&running.server)?;
    let before: u64 = uploads.iter().map(|upload| upload.sightings.len() as u64).sum();
    let count = (options.age_seconds * AGE_BYTES_PER_SECOND / 100e3) as u64;
    let uploads: Vec<Upload> =
        (first..first + count).map(|number| Upload::new(&world, number, &made())).collect();
    // When so many sightings were acknowledged, and when so many were first seen.
    let acknowledged: Mutex<Vec<(u64, Instant)>> = Mutex::new(Vec::new());
    let has_ended = AtomicBool::new(false);
    let end = before + uploads.iter().map(|upload| upload.sightings.len() as u64).sum::<u64>();
    let conn = running.sql.connect(Some("game"))?;
    let seen = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(conn, end, &has_ended));
        let sent = pace(&running.server, &uploads, before, &acknowledged);
        has_ended.store(true, Ordering::Relaxed);
        let seen = watcher.join().unwrap_or_else(|_| Err("the watcher has panicked".to_owned()));
        sent.and(seen)
    })?;
    let acknowledged = acknowledged.into_inner().map_err(|_| "a client has panicked")?;
    let ages = acknowledged.iter().filter_map(|(sum, at)| {
        let (_, first) = seen.iter().find(|(found, _)| found >= sum)?;
        Some(first.saturating_duration_since(*at).as_secs_f64())
    });
    let ages: Vec<f64> = ages.collect();
    if ages.len() != uploads.len() {
        return Err(format!("{} of {} uploads were seen", ages.len(), uploads.len()));
    }
    Ok((ages, uploads.len()))
}

fn pace(
    server: &FeedServer,
    uploads: &[Upload],
    before: u64,
    acknowledged: &Mutex<Vec<(u64, Instant)>>,
) -> Result<(), String> {
    let mut connection = HttpConnection::connect(server.address)?;
    let (begin, mut bytes, mut sum) = (Instant::now(), 0_usize, before);
    for upload in uploads {
        let due = begin + Duration::from_secs_f64(bytes as f64 / AGE_BYTES_PER_SECOND);
        wait_until(due);
        let answer = connection.ask("POST", FEED_PATH, &upload.bytes)?;
        if answer.status != 202 {
            return Err(format!("an upload was answered by {}", answer.status));
        }
        bytes += upload.bytes.len();
        sum += upload.sightings.len() as u64;
        let mut list = acknowledged.lock().map_err(|_| "a client has panicked")?;
        list.push((sum, Instant::now()));
    }
    Ok(())
}

/// The counts of sightings that another client saw, and when it first saw each.
fn watch(mut conn: Conn, end: u64, has_ended: &AtomicBool) -> Result<Vec<(u64, Instant)>, String> {
    let mut seen: Vec<(u64, Instant)> = Vec::new();
    let mut until = None;
    loop {
        let sum: Option<Option<u64>> =
            conn.query_first("SELECT CAST(SUM(seen) AS UNSIGNED) FROM positions").map_err(fault)?;
        let sum = sum.flatten().unwrap_or_default();
        if seen.last().is_none_or(|(last, _)| *last < sum) {
            seen.push((sum, Instant::now()));
        }
        if sum >= end {
            return Ok(seen);
        }
        if has_ended.load(Ordering::Relaxed) {
            let until = until.get_or_insert_with(|| Instant::now() + PATIENCE);
            if Instant::now() > *until {
                return Err(format!("{sum} of {end} sightings are seen after minutes"));
            }
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Every row of the SQL tables beside ours; a position is known by its member and what was counted.
fn compare(conn: &mut Conn, all: &Consolidated) -> Result<usize, String> {
    let mut expected: HashMap<u32, Vec<(u64, i64, i64)>> = HashMap::new();
    for ((object, _), row) in &all.positions {
        let list = expected.entry(*object).or_default();
        list.push((row.seen, row.first_seconds, row.last_seconds));
    }
    let rows: Vec<(u32, u64, i64, i64)> = conn
        .query(
            "SELECT CAST(member AS UNSIGNED), seen, \
             TIMESTAMPDIFF(SECOND, '1970-01-01', first_seen), \
             TIMESTAMPDIFF(SECOND, '1970-01-01', last_seen) FROM positions",
        )
        .map_err(fault)?;
    let mut found: HashMap<u32, Vec<(u64, i64, i64)>> = HashMap::new();
    for (object, seen, first, last) in &rows {
        found.entry(*object).or_default().push((*seen, *first, *last));
    }
    expected.values_mut().chain(found.values_mut()).for_each(|list| list.sort_unstable());
    crate::tables::same("positions in SQL", &found, &expected)?;
    let expected: HashMap<(u32, u32), (u64, u64, i64)> =
        all.loot.iter().map(|(key, row)| (*key, (row.count, row.seen, row.last_seconds))).collect();
    let loot: Vec<(u32, u32, u64, u64, i64)> = conn
        .query(
            "SELECT CAST(member AS UNSIGNED), CAST(item AS UNSIGNED), count, seen, \
             TIMESTAMPDIFF(SECOND, '1970-01-01', last_seen) FROM loot",
        )
        .map_err(fault)?;
    let count = rows.len() + loot.len();
    let found: HashMap<(u32, u32), (u64, u64, i64)> = loot
        .into_iter()
        .map(|(object, item, count, seen, last)| ((object, item), (count, seen, last)))
        .collect();
    crate::tables::same("loot in SQL", &found, &expected)?;
    Ok(count)
}
