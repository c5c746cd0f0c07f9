//! whered: XML over HTTP, each upload acknowledged when it is on the disk; the clock stops when all
//! are applied.
//!
//! Not for measuring acknowledgements (`whered-bench feed`).

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use whered_bench::feed::sending::{HttpConnection, send};
use whered_bench::feed::{
    Consolidated, FEED_PATH, FeedServer, Upload, UploadFormat, compare, config,
};

use crate::contestant::{Applied, Contestant};
use crate::options::Workload;
use crate::tables::{Statistic, same, statistics};

const CLIENTS: usize = 64;
/// Of the first round, in which nobody knows how fast it is.
const UPLOADS_FIRST: f64 = 200.0;

const STATISTICS: &str = "[[feed.table]]\nname = \"statistics\"\nof = \"records\"\nkey = [\"member\"]\n\
    columns = { seen = \"count\", first_seen = \"min(time)\", last_seen = \"max(time)\" }\n";

pub(crate) struct Ours {
    server: FeedServer,
    has_loot: bool,
    /// What goes into a second.
    uploads_per_second: f64,
}

impl Ours {
    pub(crate) fn start(binary: &Path, folder: &Path, workload: Workload) -> Result<Ours, String> {
        let folder = folder.join("whered");
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let has_loot = workload.has_loot();
        let data = folder.join("data");
        let mut text = config(&data, UploadFormat::Xml, has_loot);
        if has_loot {
            text += STATISTICS;
        }
        let server = FeedServer::start(binary, &folder, &data, &text)?;
        Ok(Ours { server, has_loot, uploads_per_second: UPLOADS_FIRST })
    }

    fn send(&self, uploads: &[Upload]) -> Result<(), String> {
        let bytes: Vec<&[u8]> = uploads.iter().map(|upload| &upload.bytes[..]).collect();
        send(self.server.address, FEED_PATH, &bytes, CLIENTS, None)?;
        self.server.wait_until_applied()
    }

    /// The first uploads of the world, which are what the others' tables are filled with.
    pub(crate) fn fill_with(&mut self, uploads: &[Upload]) -> Result<(), String> {
        let start = Instant::now();
        self.send(uploads)?;
        self.uploads_per_second = uploads.len() as f64 / start.elapsed().as_secs_f64();
        Ok(())
    }
}

impl Contestant for Ours {
    fn name(&self) -> String {
        "whered".to_owned()
    }

    fn fill(&mut self, _: &Consolidated) -> Result<(), String> {
        Ok(())
    }

    fn apply(&mut self, uploads: &[Upload], time: Duration) -> Result<Applied, String> {
        let count = (self.uploads_per_second * time.as_secs_f64()) as usize;
        let sent = &uploads[..count.clamp(1, uploads.len())];
        self.send(sent)?;
        Ok(sent.iter().map(|upload| upload.sightings.len()).collect())
    }

    fn cpu_nanoseconds(&self) -> Result<u64, String> {
        self.server.cpu_nanoseconds()
    }

    fn check(&mut self, expected: &Consolidated) -> Result<usize, String> {
        let mut connection = HttpConnection::connect(self.server.address)?;
        let checked = compare(&mut connection, expected, self.has_loot)?;
        let mut rows = checked.positions + checked.loot;
        if self.has_loot {
            let found = read_statistics(&mut connection)?;
            same("statistics", &found, &statistics(expected))?;
            rows += found.len();
        }
        Ok(rows)
    }

    fn note(&self) -> String {
        "XML over HTTP, 64 clients, acknowledged from the disk".to_owned()
    }
}

fn read_statistics(connection: &mut HttpConnection) -> Result<HashMap<u32, Statistic>, String> {
    let answer = connection.ask("GET", "/v1/tables/statistics?format=ndjson", b"")?;
    let lines = answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let row = |line: &[u8]| -> Option<(u32, Statistic)> {
        let row: Json = serde_json::from_slice(line).ok()?;
        let seconds = |name: &str| Some(row[name].as_i64()? / 1_000);
        let statistic = Statistic {
            seen: row["seen"].as_u64()?,
            first_seconds: seconds("first_seen")?,
            last_seconds: seconds("last_seen")?,
        };
        Some((row["member"].as_str()?.parse().ok()?, statistic))
    };
    let rows: Option<HashMap<_, _>> = lines.map(row).collect();
    rows.ok_or_else(|| format!("statistics: an odd row, status {}", answer.status))
}
