//! Redis with an append-only file: counters in hashes, first and last times in sorted sets.
//!
//! Not the same in all: a position is five commands that others may see one by one; there is no
//! table to scan, and means are two sums. `ZADD GT` and `LT` keep the last and the first time.
//!
//! ```text
//! p:OBJECT:POINT  hash n x y        first, last       sorted sets of OBJECT:POINT by time
//! l:OBJECT:ITEM   hash n c          loot-last         of OBJECT:ITEM
//! s:OBJECT        string (count)    s-first, s-last   of OBJECT
//! ```

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use redis::{Connection, Pipeline};
use whered_bench::feed::{Consolidated, Sighting, Upload};

use crate::contestant::{Applied, Contestant, batches, compared};
use crate::options::Workload;
use crate::servers::{Server, folder, program};
use crate::tables::{Tables, statistics};

/// Sightings of one pipeline.
const PIPELINE: usize = 500;

fn fault(error: impl std::fmt::Display) -> String {
    format!("redis: {error}")
}

struct Running {
    server: Server,
    port: u16,
}

struct Way {
    running: Rc<RefCell<Running>>,
    place: &'static str,
    policy: &'static str,
    workload: Workload,
    conn: Option<Connection>,
    batch: usize,
}

fn start(at: &Path, policy: &str) -> Result<Running, String> {
    folder(at, None)?;
    let port = whered_bench::geo::free_port()?;
    let mut command = std::process::Command::new(program("redis-server")?);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", "yes", "--appendfsync", policy]);
    command.args(["--auto-aof-rewrite-percentage", "0", "--dir"]).arg(at);
    let mut server = Server::start("redis-server", &mut command, &at.join("log"))?;
    server.wait_for(|| connect(port).map(drop))?;
    Ok(Running { server, port })
}

fn connect(port: u16) -> Result<Connection, String> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).map_err(fault)?;
    client.get_connection().map_err(fault)
}

fn add(pipe: &mut Pipeline, sighting: &Sighting, has_loot: bool) {
    let Sighting { object, point, longitude: x, latitude: y, time_seconds: t, .. } = sighting;
    let member = format!("{object}:{point}");
    let key = format!("p:{member}");
    pipe.cmd("HINCRBY").arg(&key).arg("n").arg(1).ignore();
    pipe.cmd("HINCRBY").arg(&key).arg("x").arg(*x).ignore();
    pipe.cmd("HINCRBY").arg(&key).arg("y").arg(*y).ignore();
    pipe.cmd("ZADD").arg("first").arg("LT").arg(*t).arg(&member).ignore();
    pipe.cmd("ZADD").arg("last").arg("GT").arg(*t).arg(&member).ignore();
    if !has_loot {
        return;
    }
    for (item, count) in &sighting.loot {
        let member = format!("{object}:{item}");
        let key = format!("l:{member}");
        pipe.cmd("HINCRBY").arg(&key).arg("n").arg(1).ignore();
        pipe.cmd("HINCRBY").arg(&key).arg("c").arg(*count).ignore();
        pipe.cmd("ZADD").arg("loot-last").arg("GT").arg(*t).arg(&member).ignore();
    }
    pipe.cmd("INCR").arg(format!("s:{object}")).ignore();
    pipe.cmd("ZADD").arg("s-first").arg("LT").arg(*t).arg(*object).ignore();
    pipe.cmd("ZADD").arg("s-last").arg("GT").arg(*t).arg(*object).ignore();
}

impl Way {
    fn conn(&mut self) -> Result<&mut Connection, String> {
        self.conn.as_mut().ok_or_else(|| fault("not connected"))
    }

    fn put(&mut self, all: &Consolidated) -> Result<(), String> {
        let has_loot = self.workload.has_loot();
        let conn = self.conn()?;
        let mut pipe = redis::pipe();
        for ((object, point), row) in &all.positions {
            let member = format!("{object}:{point}");
            let hash = pipe.cmd("HSET").arg(format!("p:{member}"));
            hash.arg("n").arg(row.seen).arg("x").arg(row.longitude_sum);
            hash.arg("y").arg(row.latitude_sum).ignore();
            pipe.cmd("ZADD").arg("first").arg(row.first_seconds).arg(&member).ignore();
            pipe.cmd("ZADD").arg("last").arg(row.last_seconds).arg(&member).ignore();
        }
        if has_loot {
            for ((object, item), row) in &all.loot {
                let member = format!("{object}:{item}");
                let hash = pipe.cmd("HSET").arg(format!("l:{member}"));
                hash.arg("n").arg(row.seen).arg("c").arg(row.count).ignore();
                pipe.cmd("ZADD").arg("loot-last").arg(row.last_seconds).arg(&member).ignore();
            }
            for (object, row) in statistics(all) {
                pipe.cmd("SET").arg(format!("s:{object}")).arg(row.seen).ignore();
                pipe.cmd("ZADD").arg("s-first").arg(row.first_seconds).arg(object).ignore();
                pipe.cmd("ZADD").arg("s-last").arg(row.last_seconds).arg(object).ignore();
            }
        }
        pipe.query(conn).map_err(fault)
    }

    fn times(&mut self, key: &str) -> Result<HashMap<String, i64>, String> {
        let ask = redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES").to_owned();
        let list: Vec<(String, f64)> = ask.query(self.conn()?).map_err(fault)?;
        Ok(list.into_iter().map(|(member, time)| (member, time as i64)).collect())
    }

    fn tables(&mut self) -> Result<Tables, String> {
        let mut tables = Tables::default();
        let (first, last) = (self.times("first")?, self.times("last")?);
        let (s_first, s_last) = (self.times("s-first")?, self.times("s-last")?);
        let loot_last = self.times("loot-last")?;
        let pair = |member: &str| -> Result<(u32, u32), String> {
            let (a, b) = member.split_once(':').ok_or_else(|| fault(member))?;
            Ok((a.parse().map_err(fault)?, b.parse().map_err(fault)?))
        };
        let conn = self.conn()?;
        for (member, first_seconds) in &first {
            let mut ask = redis::cmd("HMGET");
            ask.arg(format!("p:{member}")).arg(&["n", "x", "y"]);
            let (n, x, y): (i64, i64, i64) = ask.query(conn).map_err(fault)?;
            let row = tables.positions.entry(pair(member)?).or_default();
            row.seen = n as u64;
            (row.longitude_sum, row.latitude_sum) = (x, y);
            row.first_seconds = *first_seconds;
            row.last_seconds = last.get(member).copied().unwrap_or_default();
        }
        for (member, last_seconds) in &loot_last {
            let mut ask = redis::cmd("HMGET");
            ask.arg(format!("l:{member}")).arg(&["n", "c"]);
            let (n, c): (i64, i64) = ask.query(conn).map_err(fault)?;
            let row = tables.loot.entry(pair(member)?).or_default();
            (row.seen, row.count, row.last_seconds) = (n as u64, c as u64, *last_seconds);
        }
        for (member, first_seconds) in &s_first {
            let mut ask = redis::cmd("GET");
            let n: i64 = ask.arg(format!("s:{member}")).query(conn).map_err(fault)?;
            let row = tables.statistics.entry(member.parse().map_err(fault)?).or_default();
            (row.seen, row.first_seconds) = (n as u64, *first_seconds);
            row.last_seconds = s_last.get(member).copied().unwrap_or_default();
        }
        Ok(tables)
    }
}

impl Contestant for Way {
    fn name(&self) -> String {
        format!("Redis, {}, pipelined, {}", self.place, self.policy)
    }

    fn fill(&mut self, all: &Consolidated) -> Result<(), String> {
        let port = self.running.borrow().port;
        self.conn = Some(connect(port)?);
        self.put(all)
    }

    fn apply(&mut self, uploads: &[Upload], time: Duration) -> Result<Applied, String> {
        let (has_loot, batch) = (self.workload.has_loot(), self.batch);
        let conn = self.conn()?;
        batches(uploads, batch, time, |sightings| {
            for part in sightings.chunks(PIPELINE) {
                let mut pipe = redis::pipe();
                part.iter().for_each(|sighting| add(&mut pipe, sighting, has_loot));
                pipe.query::<()>(conn).map_err(fault)?;
            }
            Ok(())
        })
    }

    fn cpu_nanoseconds(&self) -> Result<u64, String> {
        self.running.borrow().server.cpu_nanoseconds()
    }

    fn check(&mut self, expected: &Consolidated) -> Result<usize, String> {
        let found = self.tables()?;
        compared(&found, expected, self.workload.has_loot())
    }
}

/// Both policies on one file system, each with a server of its own.
pub(crate) fn ways(
    at: &Path,
    place: &'static str,
    workload: Workload,
) -> Result<Vec<Box<dyn Contestant>>, String> {
    let mut ways: Vec<Box<dyn Contestant>> = Vec::new();
    for policy in ["always", "everysec"] {
        let running = Rc::new(RefCell::new(start(&at.join(format!("redis-{policy}")), policy)?));
        ways.push(Box::new(Way { running, place, policy, workload, conn: None, batch: 4 }));
    }
    Ok(ways)
}
