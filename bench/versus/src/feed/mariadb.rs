//! MariaDB: one statement for each row, many rows a statement, and LOAD DATA with a merge.
//!
//! Not for the seed's script (`seed.rs`), which drives the same statements.
//!
//! ```text
//! single   INSERT ... ON DUPLICATE KEY UPDATE, prepared, each its own transaction; 1 or 8 clients
//! multi    the same with 1,000 rows a statement, one transaction a batch
//! load     LOAD DATA into tables in memory, then INSERT ... SELECT ... GROUP BY ... ON DUPLICATE
//!          KEY UPDATE, one transaction a batch
//! xml      load, of uploads that a second thread reads meanwhile, as the server has them: XML
//! merged   multi, of rows that the client has consolidated before
//! ```

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Statement};
use whered_bench::feed::{Consolidated, Loot, Position, Sighting, Upload};
use whered_bench::measure::process_cpu_nanoseconds;

use crate::contestant::{Applied, Contestant, batches, compared, one_by_one};
use crate::options::Workload;
use crate::servers::{Server, as_user, folder, program, run, user};
use crate::staged::{self, Staged};
use crate::tables::{Statistic, Tables, statistics};

/// Rows of one statement.
const STATEMENT_ROWS: usize = 1_000;

const TABLES: &str = "\
    CREATE TABLE positions (object INT UNSIGNED NOT NULL, point INT UNSIGNED NOT NULL, \
    seen INT UNSIGNED NOT NULL, longitude_sum BIGINT NOT NULL, latitude_sum BIGINT NOT NULL, \
    first_seen INT UNSIGNED NOT NULL, last_seen INT UNSIGNED NOT NULL, \
    PRIMARY KEY (object, point)) ENGINE=InnoDB;\
    CREATE TABLE loot (object INT UNSIGNED NOT NULL, item INT UNSIGNED NOT NULL, \
    seen INT UNSIGNED NOT NULL, count INT UNSIGNED NOT NULL, last_seen INT UNSIGNED NOT NULL, \
    PRIMARY KEY (object, item)) ENGINE=InnoDB;\
    CREATE TABLE statistics (object INT UNSIGNED NOT NULL PRIMARY KEY, \
    seen INT UNSIGNED NOT NULL, first_seen INT UNSIGNED NOT NULL, \
    last_seen INT UNSIGNED NOT NULL) ENGINE=InnoDB";

/// Each table's name, columns, what happens to a row that is there, and the merge of a staged
/// batch.
const POSITIONS: [&str; 4] = [
    "positions",
    "object, point, seen, longitude_sum, latitude_sum, first_seen, last_seen",
    "seen = seen + VALUES(seen), longitude_sum = longitude_sum + VALUES(longitude_sum), \
     latitude_sum = latitude_sum + VALUES(latitude_sum), \
     first_seen = LEAST(first_seen, VALUES(first_seen)), \
     last_seen = GREATEST(last_seen, VALUES(last_seen))",
    "SELECT object, point, COUNT(*), SUM(longitude), SUM(latitude), MIN(t), MAX(t) \
     FROM staged GROUP BY object, point",
];
const LOOT: [&str; 4] = [
    "loot",
    "object, item, seen, count, last_seen",
    "seen = seen + VALUES(seen), count = count + VALUES(count), \
     last_seen = GREATEST(last_seen, VALUES(last_seen))",
    "SELECT object, item, COUNT(*), SUM(n), MAX(t) FROM staged_loot GROUP BY object, item",
];
const STATISTICS: [&str; 4] = [
    "statistics",
    "object, seen, first_seen, last_seen",
    "seen = seen + VALUES(seen), first_seen = LEAST(first_seen, VALUES(first_seen)), \
     last_seen = GREATEST(last_seen, VALUES(last_seen))",
    "SELECT object, COUNT(*), MIN(t), MAX(t) FROM staged GROUP BY object",
];

fn upsert([table, columns, change, _]: [&str; 4], rows: &str) -> String {
    format!("INSERT INTO {table} ({columns}) {rows} ON DUPLICATE KEY UPDATE {change}")
}

/// A server with a folder of its own.
pub(crate) struct MariaDb {
    pub(crate) folder: PathBuf,
    server: Option<Server>,
}

impl MariaDb {
    /// Makes and starts one in an empty folder.
    pub(crate) fn new(at: &Path) -> Result<MariaDb, String> {
        let owner = user("mysql");
        folder(at, owner)?;
        let mut command = as_user(&program("mariadb-install-db")?, owner);
        command.arg("--no-defaults").arg(format!("--datadir={}", at.join("data").display()));
        run(command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]))?;
        let mut server = MariaDb { folder: at.to_owned(), server: None };
        server.start()?;
        Ok(server)
    }

    /// One with the files that lie there.
    pub(crate) fn open(at: &Path) -> Result<MariaDb, String> {
        let mut server = MariaDb { folder: at.to_owned(), server: None };
        server.start()?;
        Ok(server)
    }

    fn start(&mut self) -> Result<(), String> {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let mut command = as_user(&program("mariadbd")?, user("mysql"));
        command
            .args(["--no-defaults", "--skip-networking", "--skip-name-resolve"])
            .arg(format!("--datadir={}", at("data")))
            .arg(format!("--tmpdir={}", self.folder.display()))
            .arg(format!("--socket={}", at("socket")))
            .arg(format!("--pid-file={}", at("pid")))
            .args(["--innodb-buffer-pool-size=1G", "--innodb-log-file-size=512M"])
            .args(["--innodb-flush-neighbors=0", "--performance-schema=OFF"])
            .args(["--local-infile=1", "--max-allowed-packet=64M"])
            .args(["--max-heap-table-size=1G", "--tmp-table-size=1G"]);
        let mut server = Server::start("mariadbd", &mut command, &self.folder.join("log"))?;
        server.wait_for(|| self.connect(None).map(drop))?;
        self.server = Some(server);
        Ok(())
    }

    pub(crate) fn connect(&self, database: Option<&str>) -> Result<Conn, String> {
        let options = OptsBuilder::new()
            .user(Some("root"))
            .socket(Some(self.folder.join("socket").display().to_string()))
            .db_name(database);
        Conn::new(options).map_err(fault)
    }

    pub(crate) fn cpu_nanoseconds(&self) -> Result<u64, String> {
        self.server.as_ref().map_or(Ok(0), Server::cpu_nanoseconds)
    }

    /// Ends it with its files whole.
    pub(crate) fn shut_down(mut self) -> Result<(), String> {
        self.server.take().map_or(Ok(()), Server::shut_down)
    }
}

pub(crate) fn fault(error: impl std::fmt::Display) -> String {
    format!("mariadb: {error}")
}

/// How it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Single { clients: usize },
    Multi { batch: usize },
    Load { batch: usize },
    LoadXml { batch: usize },
    Merged { batch: usize },
}

/// A server in one form, with a database of its own.
pub(crate) struct Way {
    pub(crate) server: Rc<RefCell<MariaDb>>,
    /// `disk` or `RAM disk`.
    pub(crate) place: &'static str,
    pub(crate) form: Form,
    /// `innodb_flush_log_at_trx_commit`.
    pub(crate) flush: u8,
    pub(crate) workload: Workload,
    pub(crate) clients: Vec<Client>,
}

impl Way {
    fn database(&self) -> String {
        let form = match self.form {
            Form::Single { clients } => format!("single{clients}"),
            Form::Multi { .. } => "multi".to_owned(),
            Form::Load { .. } => "loaded".to_owned(),
            Form::LoadXml { .. } => "loaded_xml".to_owned(),
            Form::Merged { .. } => "merged".to_owned(),
        };
        format!("{form}_{}", self.flush)
    }
}

impl Contestant for Way {
    fn name(&self) -> String {
        let form = match self.form {
            Form::Single { clients: 1 } => "single".to_owned(),
            Form::Single { clients } => format!("single, {clients} clients"),
            Form::Multi { .. } => "multi-row".to_owned(),
            Form::Load { .. } => "LOAD DATA, merge".to_owned(),
            Form::LoadXml { .. } => "LOAD DATA, merge, from XML".to_owned(),
            Form::Merged { .. } => "multi-row, consolidated before".to_owned(),
        };
        format!("MariaDB, {}, {form}, flush {}", self.place, self.flush)
    }

    fn fill(&mut self, all: &Consolidated) -> Result<(), String> {
        let database = self.database();
        let mut conn = self.server.borrow().connect(None)?;
        conn.query_drop(format!("DROP DATABASE IF EXISTS {database}")).map_err(fault)?;
        conn.query_drop(format!("CREATE DATABASE {database}")).map_err(fault)?;
        conn.query_drop(format!("USE {database}")).map_err(fault)?;
        for table in TABLES.split(';') {
            conn.query_drop(table).map_err(fault)?;
        }
        let mut client = Client::new(conn, self.workload)?;
        client.upsert_consolidated(all)?;
        self.clients = vec![client];
        let more = if let Form::Single { clients } = self.form { clients } else { 1 };
        for _ in 1..more {
            let conn = self.server.borrow().connect(Some(&database))?;
            self.clients.push(Client::new(conn, self.workload)?);
        }
        if let Form::Load { .. } | Form::LoadXml { .. } = self.form {
            self.clients[0].make_staging()?;
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<(), String> {
        let set = format!("SET GLOBAL innodb_flush_log_at_trx_commit = {}", self.flush);
        self.clients[0].conn.query_drop(set).map_err(fault)
    }

    fn apply(&mut self, uploads: &[Upload], time: Duration) -> Result<Applied, String> {
        let (form, clients) = (self.form, &mut self.clients);
        match form {
            Form::Single { .. } => one_by_one(clients, uploads, time, Client::one),
            Form::Multi { batch } => {
                batches(uploads, batch, time, |sightings| clients[0].multi(sightings))
            }
            Form::Load { batch } => {
                batches(uploads, batch, time, |sightings| clients[0].load(Staged::of(sightings)?))
            }
            Form::LoadXml { batch } => {
                let has_loot = self.workload.has_loot();
                staged::batches(uploads, batch, time, has_loot, |staged| clients[0].load(staged))
            }
            Form::Merged { batch } => batches(uploads, batch, time, |sightings| {
                let mut all = Consolidated::default();
                sightings.iter().for_each(|sighting| all.add(sighting));
                clients[0].upsert_consolidated(&all)
            }),
        }
    }

    fn cpu_nanoseconds(&self) -> Result<u64, String> {
        let server = self.server.borrow().cpu_nanoseconds()?;
        if !matches!(self.form, Form::LoadXml { .. }) {
            return Ok(server);
        }
        // Reading uploads is a part of the work here.
        let own = process_cpu_nanoseconds(std::process::id());
        Ok(server + own.map_err(|error| format!("this process: {error}"))?)
    }

    fn note(&self) -> String {
        match self.form {
            Form::LoadXml { .. } => "CPU of the program that reads the uploads included".to_owned(),
            _ => String::new(),
        }
    }

    fn check(&mut self, expected: &Consolidated) -> Result<usize, String> {
        let found = self.clients[0].tables()?;
        compared(&found, expected, self.workload.has_loot())
    }
}

/// A connection with its prepared statements.
pub(crate) struct Client {
    conn: Conn,
    workload: Workload,
    positions: Statement,
    loot: Statement,
    statistics: Statement,
    text: String,
}

impl Client {
    pub(crate) fn new(mut conn: Conn, workload: Workload) -> Result<Client, String> {
        let mut prepare = |table: [&str; 4], values: &str| {
            conn.prep(upsert(table, &format!("VALUES ({values})"))).map_err(fault)
        };
        let positions = prepare(POSITIONS, "?, ?, 1, ?, ?, ?, ?")?;
        let loot = prepare(LOOT, "?, ?, 1, ?, ?")?;
        let statistics = prepare(STATISTICS, "?, 1, ?, ?")?;
        Ok(Client { conn, workload, positions, loot, statistics, text: String::new() })
    }

    /// The sighting's statements, each its own transaction.
    pub(crate) fn one(&mut self, sighting: &Sighting) -> Result<(), String> {
        let Sighting { object, point, longitude, latitude, time_seconds: t, .. } = *sighting;
        let row = (object, point, longitude, latitude, t, t);
        self.conn.exec_drop(&self.positions, row).map_err(fault)?;
        if !self.workload.has_loot() {
            return Ok(());
        }
        for (item, count) in &sighting.loot {
            self.conn.exec_drop(&self.loot, (object, item, count, t)).map_err(fault)?;
        }
        self.conn.exec_drop(&self.statistics, (object, t, t)).map_err(fault)
    }

    fn multi(&mut self, sightings: &[&Sighting]) -> Result<(), String> {
        self.begin()?;
        self.upsert_rows(POSITIONS, sightings.iter(), |text, sighting| {
            let Sighting { object, point, longitude, latitude, time_seconds: t, .. } = **sighting;
            write!(text, "({object},{point},1,{longitude},{latitude},{t},{t})")
        })?;
        if self.workload.has_loot() {
            let loot = sightings.iter().flat_map(|sighting| {
                sighting.loot.iter().map(|drop| (sighting.object, *drop, sighting.time_seconds))
            });
            self.upsert_rows(LOOT, loot, |text, (object, (item, count), t)| {
                write!(text, "({object},{item},1,{count},{t})")
            })?;
            self.upsert_rows(STATISTICS, sightings.iter(), |text, sighting| {
                let Sighting { object, time_seconds: t, .. } = **sighting;
                write!(text, "({object},1,{t},{t})")
            })?;
        }
        self.commit()
    }

    pub(crate) fn upsert_consolidated(&mut self, all: &Consolidated) -> Result<(), String> {
        self.begin()?;
        self.upsert_rows(POSITIONS, &all.positions, |text, ((object, point), row)| {
            let Position { seen, longitude_sum: x, latitude_sum: y, .. } = row;
            let (first, last) = (row.first_seconds, row.last_seconds);
            write!(text, "({object},{point},{seen},{x},{y},{first},{last})")
        })?;
        if self.workload.has_loot() {
            self.upsert_rows(LOOT, &all.loot, |text, ((object, item), row)| {
                let Loot { seen, count, last_seconds } = row;
                write!(text, "({object},{item},{seen},{count},{last_seconds})")
            })?;
            self.upsert_rows(STATISTICS, statistics(all), |text, (object, row)| {
                let Statistic { seen, first_seconds, last_seconds } = row;
                write!(text, "({object},{seen},{first_seconds},{last_seconds})")
            })?;
        }
        self.commit()
    }

    fn upsert_rows<R>(
        &mut self,
        table: [&str; 4],
        rows: impl IntoIterator<Item = R>,
        row: impl Fn(&mut String, R) -> std::fmt::Result,
    ) -> Result<(), String> {
        let (start, end) = (format!("INSERT INTO {} ({}) VALUES ", table[0], table[1]), table[2]);
        let mut rows = rows.into_iter().peekable();
        while rows.peek().is_some() {
            self.text.clear();
            self.text.push_str(&start);
            for (number, one) in rows.by_ref().take(STATEMENT_ROWS).enumerate() {
                if number > 0 {
                    self.text.push(',');
                }
                row(&mut self.text, one).map_err(fault)?;
            }
            self.text.push_str(" ON DUPLICATE KEY UPDATE ");
            self.text.push_str(end);
            self.conn.query_drop(&self.text).map_err(fault)?;
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), String> {
        self.conn.query_drop("START TRANSACTION").map_err(fault)
    }

    fn commit(&mut self) -> Result<(), String> {
        self.conn.query_drop("COMMIT").map_err(fault)
    }

    fn make_staging(&mut self) -> Result<(), String> {
        for table in [
            "staged (object INT UNSIGNED NOT NULL, point INT UNSIGNED NOT NULL, \
             longitude INT NOT NULL, latitude INT NOT NULL, t INT UNSIGNED NOT NULL)",
            "staged_loot (object INT UNSIGNED NOT NULL, item INT UNSIGNED NOT NULL, \
             n INT UNSIGNED NOT NULL, t INT UNSIGNED NOT NULL)",
        ] {
            let make = format!("CREATE TEMPORARY TABLE {table} ENGINE=MEMORY");
            self.conn.query_drop(make).map_err(fault)?;
        }
        Ok(())
    }

    fn load(&mut self, Staged { staged, staged_loot }: Staged) -> Result<(), String> {
        self.load_into("staged", staged)?;
        if self.workload.has_loot() {
            self.load_into("staged_loot", staged_loot)?;
        }
        self.begin()?;
        self.conn.query_drop(upsert(POSITIONS, POSITIONS[3])).map_err(fault)?;
        if self.workload.has_loot() {
            self.conn.query_drop(upsert(LOOT, LOOT[3])).map_err(fault)?;
            self.conn.query_drop(upsert(STATISTICS, STATISTICS[3])).map_err(fault)?;
        }
        self.commit()
    }

    fn load_into(&mut self, table: &str, text: Vec<u8>) -> Result<(), String> {
        self.conn.query_drop(format!("TRUNCATE TABLE {table}")).map_err(fault)?;
        self.conn.set_local_infile_handler(Some(mysql::LocalInfileHandler::new(
            move |_, writer| std::io::Write::write_all(writer, &text),
        )));
        let load = format!("LOAD DATA LOCAL INFILE 'batch' INTO TABLE {table}");
        self.conn.query_drop(load).map_err(fault)
    }

    pub(crate) fn tables(&mut self) -> Result<Tables, String> {
        let mut tables = Tables::default();
        let select = |[table, columns, ..]: [&str; 4]| format!("SELECT {columns} FROM {table}");
        let rows: Vec<(u32, u32, u64, i64, i64, i64, i64)> =
            self.conn.query(select(POSITIONS)).map_err(fault)?;
        for (object, point, seen, x, y, first, last) in rows {
            let row = Position {
                seen,
                longitude_sum: x,
                latitude_sum: y,
                first_seconds: first,
                last_seconds: last,
            };
            tables.positions.insert((object, point), row);
        }
        let rows: Vec<(u32, u32, u64, u64, i64)> = self.conn.query(select(LOOT)).map_err(fault)?;
        for (object, item, seen, count, last_seconds) in rows {
            tables.loot.insert((object, item), Loot { seen, count, last_seconds });
        }
        let rows: Vec<(u32, u64, i64, i64)> = self.conn.query(select(STATISTICS)).map_err(fault)?;
        for (object, seen, first_seconds, last_seconds) in rows {
            tables.statistics.insert(object, Statistic { seen, first_seconds, last_seconds });
        }
        Ok(tables)
    }
}

/// All ways on one file system.
pub(crate) fn ways(
    at: &Path,
    place: &'static str,
    workload: Workload,
    batch: usize,
) -> Result<Vec<Box<dyn Contestant>>, String> {
    let server = Rc::new(RefCell::new(MariaDb::new(&at.join("mariadb"))?));
    let forms = [
        Form::Single { clients: 1 },
        Form::Single { clients: 8 },
        Form::Multi { batch },
        Form::Load { batch },
        Form::LoadXml { batch },
        Form::Merged { batch },
    ];
    let mut ways: Vec<Box<dyn Contestant>> = Vec::new();
    for flush in [1, 2] {
        for form in forms {
            let server = Rc::clone(&server);
            ways.push(Box::new(Way { server, place, form, flush, workload, clients: Vec::new() }));
        }
    }
    Ok(ways)
}

/// Copies a server's folder with everything in it, and has it on the disk.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    // What an earlier copy left is ours.
    let _ = fs::remove_dir_all(to);
    run(std::process::Command::new("cp").arg("--archive").arg(from).arg(to))?;
    run(std::process::Command::new("sync").arg("--file-system").arg(to))
}
