//! PostgreSQL: one statement for each row, arrays of rows, and COPY with a merge.
//!
//! Not for servers of others.
//!
//! ```text
//! single   INSERT ... ON CONFLICT, prepared, each its own transaction; 1 or 8 clients
//! multi    INSERT ... SELECT ... FROM unnest($1, ...) GROUP BY ... ON CONFLICT, one transaction a
//!          batch: PostgreSQL refuses to change a row twice in one statement
//! copy     COPY into temporary tables, then the same from these
//! ```

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use postgres::{Client as Conn, Config, NoTls, Statement};
use whered_bench::feed::{Consolidated, Loot, Position, Sighting, Upload};

use crate::contestant::{Applied, Contestant, batches, compared, one_by_one};
use crate::options::Workload;
use crate::servers::{Server, as_user, folder, program, run, user};
use crate::tables::{Statistic, Tables, statistics};

const TABLES: &str = "\
    CREATE TABLE positions (object int NOT NULL, point int NOT NULL, seen int NOT NULL, \
    longitude_sum bigint NOT NULL, latitude_sum bigint NOT NULL, first_seen int NOT NULL, \
    last_seen int NOT NULL, PRIMARY KEY (object, point)) WITH (fillfactor = 70);\
    CREATE TABLE loot (object int NOT NULL, item int NOT NULL, seen int NOT NULL, \
    count int NOT NULL, last_seen int NOT NULL, PRIMARY KEY (object, item)) \
    WITH (fillfactor = 70);\
    CREATE TABLE statistics (object int NOT NULL PRIMARY KEY, seen int NOT NULL, \
    first_seen int NOT NULL, last_seen int NOT NULL) WITH (fillfactor = 70)";

/// Each table's name, columns, key, what happens to a row that is there, and the merge of a batch.
const POSITIONS: [&str; 5] = [
    "positions",
    "object, point, seen, longitude_sum, latitude_sum, first_seen, last_seen",
    "object, point",
    "seen = p.seen + excluded.seen, longitude_sum = p.longitude_sum + excluded.longitude_sum, \
     latitude_sum = p.latitude_sum + excluded.latitude_sum, \
     first_seen = LEAST(p.first_seen, excluded.first_seen), \
     last_seen = GREATEST(p.last_seen, excluded.last_seen)",
    "SELECT object, point, count(*), sum(longitude), sum(latitude), min(t), max(t)",
];
const LOOT: [&str; 5] = [
    "loot",
    "object, item, seen, count, last_seen",
    "object, item",
    "seen = p.seen + excluded.seen, count = p.count + excluded.count, \
     last_seen = GREATEST(p.last_seen, excluded.last_seen)",
    "SELECT object, item, count(*), sum(n), max(t)",
];
const STATISTICS: [&str; 5] = [
    "statistics",
    "object, seen, first_seen, last_seen",
    "object",
    "seen = p.seen + excluded.seen, first_seen = LEAST(p.first_seen, excluded.first_seen), \
     last_seen = GREATEST(p.last_seen, excluded.last_seen)",
    "SELECT object, count(*), min(t), max(t)",
];

const STAGED: &str = "FROM staged";
const STAGED_LOOT: &str = "FROM staged_loot";
const GIVEN: &str = "FROM unnest($1::int[], $2::int[], $3::int[], $4::int[], $5::int[]) \
    AS g (object, point, longitude, latitude, t)";
const GIVEN_LOOT: &str =
    "FROM unnest($1::int[], $2::int[], $3::int[], $4::int[]) AS g (object, item, n, t)";

fn upsert([table, columns, key, change, _]: [&str; 5], rows: &str) -> String {
    format!(
        "INSERT INTO {table} AS p ({columns}) {rows} ON CONFLICT ({key}) DO UPDATE SET {change}"
    )
}

fn merge(table: [&str; 5], from: &str) -> String {
    upsert(table, &format!("{} {from} GROUP BY {}", table[4], table[2]))
}

fn fault(error: impl std::fmt::Debug) -> String {
    format!("postgres: {error:?}")
}

struct PostgreSql {
    port: u16,
    folder: std::path::PathBuf,
    server: Server,
}

impl PostgreSql {
    fn new(at: &Path) -> Result<PostgreSql, String> {
        let owner = user("postgres");
        folder(at, owner)?;
        let data = at.join("data");
        let mut command = as_user(&program("initdb")?, owner);
        command.arg("-D").arg(&data).args(["--username=postgres", "--auth=trust", "--no-locale"]);
        run(command.args(["--encoding=UTF8", "--no-sync"]))?;
        let port = whered_bench::geo::free_port()?;
        let mut command = as_user(&program("postgres")?, owner);
        command.arg("-D").arg(&data).arg("-p").arg(port.to_string()).arg("-k").arg(at);
        for setting in [
            "listen_addresses=",
            "shared_buffers=1GB",
            "max_wal_size=4GB",
            "work_mem=256MB",
            "temp_buffers=256MB",
            "checkpoint_timeout=30min",
        ] {
            command.args(["-c", setting]);
        }
        let server = Server::start("postgres", &mut command, &at.join("log"))?;
        let mut server = PostgreSql { port, folder: at.to_owned(), server };
        let config = server.config("postgres");
        server.server.wait_for(|| config.connect(NoTls).map(drop).map_err(fault))?;
        Ok(server)
    }

    fn config(&self, database: &str) -> Config {
        let mut config = Config::new();
        config.host_path(&self.folder).port(self.port).user("postgres").dbname(database);
        config
    }

    fn connect(&self, database: &str) -> Result<Conn, String> {
        self.config(database).connect(NoTls).map_err(fault)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Single { clients: usize },
    Multi { batch: usize },
    Copy { batch: usize },
}

struct Way {
    server: Rc<RefCell<PostgreSql>>,
    place: &'static str,
    form: Form,
    workload: Workload,
    clients: Vec<Client>,
}

impl Contestant for Way {
    fn name(&self) -> String {
        let form = match self.form {
            Form::Single { clients: 1 } => "single".to_owned(),
            Form::Single { clients } => format!("single, {clients} clients"),
            Form::Multi { .. } => "multi-row".to_owned(),
            Form::Copy { .. } => "COPY, merge".to_owned(),
        };
        format!("PostgreSQL, {}, {form}", self.place)
    }

    fn fill(&mut self, all: &Consolidated) -> Result<(), String> {
        let (database, more) = match self.form {
            Form::Single { clients } => (format!("single{clients}"), clients),
            Form::Multi { .. } => ("multi".to_owned(), 1),
            Form::Copy { .. } => ("copied".to_owned(), 1),
        };
        let server = self.server.borrow();
        let mut conn = server.connect("postgres")?;
        conn.batch_execute(&format!("CREATE DATABASE {database}")).map_err(fault)?;
        let mut conn = server.connect(&database)?;
        conn.batch_execute(TABLES).map_err(fault)?;
        fill(&mut conn, all, self.workload)?;
        conn.batch_execute("VACUUM ANALYZE").map_err(fault)?;
        for _ in 0..more {
            self.clients.push(Client::new(server.connect(&database)?, self.workload)?);
        }
        Ok(())
    }

    fn apply(&mut self, uploads: &[Upload], time: Duration) -> Result<Applied, String> {
        let clients = &mut self.clients;
        match self.form {
            Form::Single { .. } => one_by_one(clients, uploads, time, Client::one),
            Form::Multi { batch } => {
                batches(uploads, batch, time, |sightings| clients[0].multi(sightings))
            }
            Form::Copy { batch } => {
                batches(uploads, batch, time, |sightings| clients[0].copy(sightings))
            }
        }
    }

    fn cpu_nanoseconds(&self) -> Result<u64, String> {
        self.server.borrow().server.cpu_nanoseconds()
    }

    fn check(&mut self, expected: &Consolidated) -> Result<usize, String> {
        let found = self.clients[0].tables()?;
        compared(&found, expected, self.workload.has_loot())
    }
}

struct Client {
    conn: Conn,
    workload: Workload,
    /// Single rows, then merges of arrays.
    single: [Statement; 3],
    given: [Statement; 3],
}

impl Client {
    fn new(mut conn: Conn, workload: Workload) -> Result<Client, String> {
        let staging = "CREATE TEMPORARY TABLE staged (object int, point int, longitude int, \
            latitude int, t int); CREATE TEMPORARY TABLE staged_loot (object int, item int, \
            n int, t int)";
        conn.batch_execute(staging).map_err(fault)?;
        let mut prepare = |text: String| conn.prepare(&text).map_err(fault);
        let single = [
            prepare(upsert(POSITIONS, "VALUES ($1, $2, 1, $3::int, $4::int, $5, $5)"))?,
            prepare(upsert(LOOT, "VALUES ($1, $2, 1, $3, $4)"))?,
            prepare(upsert(STATISTICS, "VALUES ($1, 1, $2, $2)"))?,
        ];
        let given = [
            prepare(merge(POSITIONS, GIVEN))?,
            prepare(merge(LOOT, GIVEN_LOOT))?,
            prepare(merge(STATISTICS, GIVEN))?,
        ];
        Ok(Client { conn, workload, single, given })
    }

    fn one(&mut self, sighting: &Sighting) -> Result<(), String> {
        let [object, point, x, y, t] = numbers(sighting);
        self.conn.execute(&self.single[0], &[&object, &point, &x, &y, &t]).map_err(fault)?;
        if !self.workload.has_loot() {
            return Ok(());
        }
        for (item, n) in &sighting.loot {
            let (item, n) = (*item as i32, *n as i32);
            self.conn.execute(&self.single[1], &[&object, &item, &n, &t]).map_err(fault)?;
        }
        self.conn.execute(&self.single[2], &[&object, &t]).map(drop).map_err(fault)
    }

    fn multi(&mut self, sightings: &[&Sighting]) -> Result<(), String> {
        let mut columns: [Vec<i32>; 5] = Default::default();
        let mut loot: [Vec<i32>; 4] = Default::default();
        for sighting in sightings {
            let [object, point, x, y, t] = numbers(sighting);
            for (column, value) in columns.iter_mut().zip([object, point, x, y, t]) {
                column.push(value);
            }
            for (item, n) in &sighting.loot {
                for (column, value) in loot.iter_mut().zip([object, *item as i32, *n as i32, t]) {
                    column.push(value);
                }
            }
        }
        let [object, point, x, y, t] = &columns;
        let mut transaction = self.conn.transaction().map_err(fault)?;
        transaction.execute(&self.given[0], &[object, point, x, y, t]).map_err(fault)?;
        if self.workload.has_loot() {
            let [of, item, n, at] = &loot;
            transaction.execute(&self.given[1], &[of, item, n, at]).map_err(fault)?;
            transaction.execute(&self.given[2], &[object, point, x, y, t]).map_err(fault)?;
        }
        transaction.commit().map_err(fault)
    }

    fn copy(&mut self, sightings: &[&Sighting]) -> Result<(), String> {
        let (mut staged, mut staged_loot) = (String::new(), String::new());
        for sighting in sightings {
            let [object, point, x, y, t] = numbers(sighting);
            writeln!(staged, "{object}\t{point}\t{x}\t{y}\t{t}").map_err(fault)?;
            for (item, n) in &sighting.loot {
                writeln!(staged_loot, "{object}\t{item}\t{n}\t{t}").map_err(fault)?;
            }
        }
        let mut transaction = self.conn.transaction().map_err(fault)?;
        transaction.batch_execute("TRUNCATE staged; TRUNCATE staged_loot").map_err(fault)?;
        for (table, text) in [("staged", staged), ("staged_loot", staged_loot)] {
            let mut writer =
                transaction.copy_in(&format!("COPY {table} FROM STDIN")).map_err(fault)?;
            writer.write_all(text.as_bytes()).map_err(fault)?;
            writer.finish().map_err(fault)?;
        }
        transaction.execute(&merge(POSITIONS, STAGED), &[]).map_err(fault)?;
        if self.workload.has_loot() {
            transaction.execute(&merge(LOOT, STAGED_LOOT), &[]).map_err(fault)?;
            transaction.execute(&merge(STATISTICS, STAGED), &[]).map_err(fault)?;
        }
        transaction.commit().map_err(fault)
    }

    fn tables(&mut self) -> Result<Tables, String> {
        let mut tables = Tables::default();
        let mut select = |[table, columns, ..]: [&str; 5]| {
            self.conn.query(&format!("SELECT {columns} FROM {table}"), &[]).map_err(fault)
        };
        let number = |row: &postgres::Row, place: usize| i64::from(row.get::<_, i32>(place));
        for row in select(POSITIONS)? {
            let position = Position {
                seen: number(&row, 2) as u64,
                longitude_sum: row.get(3),
                latitude_sum: row.get(4),
                first_seconds: number(&row, 5),
                last_seconds: number(&row, 6),
            };
            let key = (number(&row, 0) as u32, number(&row, 1) as u32);
            tables.positions.insert(key, position);
        }
        for row in select(LOOT)? {
            let [object, item, seen, count, last] = [0, 1, 2, 3, 4].map(|at| number(&row, at));
            let loot = Loot { seen: seen as u64, count: count as u64, last_seconds: last };
            tables.loot.insert((object as u32, item as u32), loot);
        }
        for row in select(STATISTICS)? {
            let [object, seen, first_seconds, last_seconds] =
                [0, 1, 2, 3].map(|at| number(&row, at));
            let statistic = Statistic { seen: seen as u64, first_seconds, last_seconds };
            tables.statistics.insert(object as u32, statistic);
        }
        Ok(tables)
    }
}

/// PostgreSQL has no numbers without a sign.
fn numbers(sighting: &Sighting) -> [i32; 5] {
    let Sighting { object, point, longitude, latitude, time_seconds, .. } = *sighting;
    [object as i32, point as i32, longitude as i32, latitude as i32, time_seconds as i32]
}

fn fill(conn: &mut Conn, all: &Consolidated, workload: Workload) -> Result<(), String> {
    let mut texts = [String::new(), String::new(), String::new()];
    for ((object, point), row) in &all.positions {
        let Position { seen, longitude_sum: x, latitude_sum: y, .. } = row;
        let (first, last) = (row.first_seconds, row.last_seconds);
        writeln!(texts[0], "{object}\t{point}\t{seen}\t{x}\t{y}\t{first}\t{last}")
            .map_err(fault)?;
    }
    if workload.has_loot() {
        for ((object, item), row) in &all.loot {
            let Loot { seen, count, last_seconds } = row;
            writeln!(texts[1], "{object}\t{item}\t{seen}\t{count}\t{last_seconds}")
                .map_err(fault)?;
        }
        for (object, row) in statistics(all) {
            let Statistic { seen, first_seconds, last_seconds } = row;
            writeln!(texts[2], "{object}\t{seen}\t{first_seconds}\t{last_seconds}")
                .map_err(fault)?;
        }
    }
    for (table, text) in ["positions", "loot", "statistics"].iter().zip(&texts) {
        let mut writer = conn.copy_in(&format!("COPY {table} FROM STDIN")).map_err(fault)?;
        writer.write_all(text.as_bytes()).map_err(fault)?;
        writer.finish().map_err(fault)?;
    }
    Ok(())
}

/// All ways on one file system.
pub(crate) fn ways(
    at: &Path,
    place: &'static str,
    workload: Workload,
    batch: usize,
) -> Result<Vec<Box<dyn Contestant>>, String> {
    let server = Rc::new(RefCell::new(PostgreSql::new(&at.join("postgres"))?));
    let forms = [
        Form::Single { clients: 1 },
        Form::Single { clients: 8 },
        Form::Multi { batch },
        Form::Copy { batch },
    ];
    let way = |form| -> Box<dyn Contestant> {
        let server = Rc::clone(&server);
        Box::new(Way { server, place, form, workload, clients: Vec::new() })
    };
    Ok(forms.into_iter().map(way).collect())
}
