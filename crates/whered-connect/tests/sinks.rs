//! Sinks into real MariaDB and PostgreSQL servers, which are killed midway, and compared row by row
//! in the end. Without those servers the tests are skipped, unless `WHERED_REQUIRE` names `peers`.

#![allow(clippy::print_stdout, reason = "the figures of an ignored test")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use mysql::prelude::Queryable;
use support::{Peer, wait_for};
use whered_connect::Stop;
use whered_connect::rows::{Cell, Column, Kind, OwnedCell, Schema};
use whered_connect::sinks::{
    Handover, Sink, SinkMemory, SinkOptions, SinkState, SinkStatus, Target,
};

/// A feed of one table, kept in the plainest way.
struct Feed {
    schemas: Vec<Schema>,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    /// Rows in order of their making, each with the batch of its last change.
    rows: Vec<(Vec<OwnedCell>, u64)>,
    places: BTreeMap<Vec<u8>, usize>,
    batch: u64,
    durable: u64,
}

fn column(name: &str, kind: Kind) -> Column {
    Column { name: name.to_owned(), kind }
}

fn positions() -> Schema {
    Schema {
        name: "positions".to_owned(),
        key: vec![column("member", Kind::Text), column("position", Kind::Integer)],
        values: vec![
            column("longitude", Kind::Number),
            column("seen", Kind::Integer),
            column("last_seen", Kind::Time),
            column("note", Kind::Text),
        ],
    }
}

fn row(member: &str, position: i64, longitude: f64, seen: i64, at: i64) -> Vec<OwnedCell> {
    vec![
        OwnedCell::Text(member.as_bytes().to_vec()),
        OwnedCell::Integer(position),
        OwnedCell::Number(longitude),
        OwnedCell::Integer(seen),
        OwnedCell::Time(at),
        if seen % 3 == 0 {
            OwnedCell::Absent
        } else {
            OwnedCell::Text(format!("'\\ {seen}%ä").into())
        },
    ]
}

impl Feed {
    fn new() -> Feed {
        Feed { schemas: vec![positions()], inside: Mutex::default() }
    }

    /// One batch.
    fn apply(&self, rows: impl IntoIterator<Item = Vec<OwnedCell>>) {
        let mut inside = self.inside.lock().expect("nobody panics with it");
        inside.batch += 1;
        for row in rows {
            let (key, batch) = (key_of(&row), inside.batch);
            match inside.places.get(&key).copied() {
                Some(place) => inside.rows[place] = (row, batch),
                None => {
                    let place = inside.rows.len();
                    inside.places.insert(key, place);
                    inside.rows.push((row, batch));
                }
            }
        }
        inside.durable = inside.batch;
    }

    /// Members that come and move, the same for the same number.
    fn apply_some(&self, number: u64) {
        let rows = (0..500_u64).map(|step| {
            let member = (number * 7919 + step * 31) % 20_000;
            let name = if member.is_multiple_of(2) {
                format!("Orc {member}")
            } else {
                format!("orc {member} ")
            };
            let moved = (number * 1_000 + step) as f64 / 7.0;
            row(&name, 1, moved, number as i64, 1_600_000_000_123 + (number * 500 + step) as i64)
        });
        self.apply(rows);
    }

    fn rows(&self) -> Vec<Vec<OwnedCell>> {
        let inside = self.inside.lock().expect("nobody panics with it");
        let mut rows: Vec<_> = inside.rows.iter().map(|(row, _)| row.clone()).collect();
        rows.sort_by_key(|row| key_of(row));
        rows
    }
}

fn key_of(row: &[OwnedCell]) -> Vec<u8> {
    format!("{:?}", &row[..2]).into_bytes()
}

impl Handover for Feed {
    fn feed(&self) -> &str {
        "sightings"
    }

    fn schemas(&self) -> &[Schema] {
        &self.schemas
    }

    fn durable_batch(&self) -> u64 {
        self.inside.lock().expect("nobody panics with it").durable
    }

    fn changed_since(
        &self,
        _table: usize,
        batch: u64,
        from: u64,
        limit: usize,
        each: &mut dyn FnMut(&[Cell<'_>]),
    ) -> Result<Option<u64>, String> {
        let inside = self.inside.lock().expect("nobody panics with it");
        let mut shown = 0;
        for (place, (row, changed)) in inside.rows.iter().enumerate().skip(from as usize) {
            if *changed > batch {
                let cells: Vec<Cell<'_>> = row.iter().map(OwnedCell::as_cell).collect();
                each(&cells);
                shown += 1;
            }
            if shown == limit {
                return Ok(Some(place as u64 + 1));
            }
        }
        Ok(None)
    }

    fn adopt(&self, _table: usize, rows: Vec<Vec<OwnedCell>>) -> Result<u64, String> {
        let new: Vec<_> = {
            let inside = self.inside.lock().expect("nobody panics with it");
            rows.into_iter().filter(|row| !inside.places.contains_key(&key_of(row))).collect()
        };
        let count = new.len() as u64;
        self.apply(new);
        Ok(count)
    }
}

/// A SQL server under test, asked in its own words.
trait Sql {
    fn url(&self) -> String;
    /// Runs a statement, once the server answers.
    fn run(&self, statement: &str);
    /// All rows of `positions`, in order.
    fn rows(&self) -> Vec<Vec<OwnedCell>>;
    fn number(&self, query: &str) -> i64;
    fn peer(&mut self) -> &mut Peer;
    fn drop_key(&self) -> &'static str;
    /// A column for all texts.
    fn text(&self) -> &'static str;
    /// How a text of a key compares bytes, and the type of a time.
    fn key_and_time(&self) -> (&'static str, &'static str);
    /// Makes `seen` a column of 16 bits, and one of 64.
    fn narrow(&self) -> &'static str;
    fn widen(&self) -> &'static str;
    /// The words of this server for a column of numbers that is no good for text.
    fn wrong_kind(&self) -> &'static str;
}

struct MariaDb(Peer);

impl MariaDb {
    fn conn(&self) -> mysql::Conn {
        wait_for("MariaDB", || {
            let opts = mysql::Opts::from_url(&self.url()).expect("is a URL");
            mysql::Conn::new(mysql::OptsBuilder::from_opts(opts).prefer_socket(false)).ok()
        })
    }
}

impl Sql for MariaDb {
    fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/game", self.0.port)
    }

    fn run(&self, statement: &str) {
        self.conn().query_drop(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    fn rows(&self) -> Vec<Vec<OwnedCell>> {
        type ExistingColumn = (String, i64, Option<f64>, i64, Option<String>, Option<Vec<u8>>);
        let found: Vec<ExistingColumn> = self
            .conn()
            .exec(
                "SELECT member, position, longitude, seen, CAST(last_seen AS CHAR), note FROM positions",
                (),
            )
            .expect("the table is there");
        let cell =
            |at: Option<String>| at.map_or(OwnedCell::Absent, |at| OwnedCell::Time(millis(&at)));
        sorted(found.into_iter().map(|(member, position, longitude, seen, at, note)| {
            (member, position, longitude, seen, cell(at), note)
        }))
    }

    fn number(&self, query: &str) -> i64 {
        self.conn().query_first(query).expect("is a query").unwrap_or(-1)
    }

    fn peer(&mut self) -> &mut Peer {
        &mut self.0
    }

    fn drop_key(&self) -> &'static str {
        "ALTER TABLE positions DROP PRIMARY KEY"
    }

    fn text(&self) -> &'static str {
        "text CHARACTER SET utf8mb4"
    }

    fn key_and_time(&self) -> (&'static str, &'static str) {
        ("CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", "datetime(3)")
    }

    fn narrow(&self) -> &'static str {
        "ALTER TABLE positions MODIFY seen smallint"
    }

    fn widen(&self) -> &'static str {
        "ALTER TABLE positions MODIFY seen bigint"
    }

    fn wrong_kind(&self) -> &'static str {
        "column note of table positions is double; allowed: char, varchar or text"
    }
}

struct PostgreSql(Peer);

impl PostgreSql {
    fn client(&self) -> postgres::Client {
        wait_for("PostgreSQL", || postgres::Client::connect(&self.url(), postgres::NoTls).ok())
    }
}

impl Sql for PostgreSql {
    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.0.port)
    }

    fn run(&self, statement: &str) {
        self.client()
            .batch_execute(statement)
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    fn rows(&self) -> Vec<Vec<OwnedCell>> {
        let query = "SELECT member, position::bigint, longitude, seen::bigint, \
             to_char(last_seen AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS'), note FROM positions";
        let found = self.client().query(query, &[]).expect("the table is there");
        sorted(found.iter().map(|row| {
            let at: Option<String> = row.get(4);
            let note: Option<String> = row.get(5);
            let at = at.map_or(OwnedCell::Absent, |at| OwnedCell::Time(millis(&at)));
            (row.get(0), row.get(1), row.get(2), row.get(3), at, note.map(String::into_bytes))
        }))
    }

    fn number(&self, query: &str) -> i64 {
        let row = self.client().query_opt(query, &[]).expect("is a query");
        row.map_or(-1, |row| row.get(0))
    }

    fn peer(&mut self) -> &mut Peer {
        &mut self.0
    }

    fn drop_key(&self) -> &'static str {
        "ALTER TABLE positions DROP CONSTRAINT positions_pkey"
    }

    fn text(&self) -> &'static str {
        "text"
    }

    fn key_and_time(&self) -> (&'static str, &'static str) {
        ("COLLATE \"C\"", "timestamptz")
    }

    fn narrow(&self) -> &'static str {
        "ALTER TABLE positions ALTER seen TYPE smallint"
    }

    fn widen(&self) -> &'static str {
        "ALTER TABLE positions ALTER seen TYPE bigint"
    }

    fn wrong_kind(&self) -> &'static str {
        "column note of table positions is double precision; allowed: text, character varying"
    }
}

type ExistingColumn = (String, i64, Option<f64>, i64, OwnedCell, Option<Vec<u8>>);

fn sorted(rows: impl Iterator<Item = ExistingColumn>) -> Vec<Vec<OwnedCell>> {
    let cells = |(member, position, longitude, seen, at, note): ExistingColumn| {
        vec![
            OwnedCell::Text(member.into_bytes()),
            OwnedCell::Integer(position),
            longitude.map_or(OwnedCell::Absent, OwnedCell::Number),
            OwnedCell::Integer(seen),
            at,
            note.map_or(OwnedCell::Absent, OwnedCell::Text),
        ]
    };
    let mut rows: Vec<_> = rows.map(cells).collect();
    rows.sort_by_key(|row| key_of(row));
    rows
}

/// Milliseconds of `YYYY-MM-DD HH:MM:SS.mmm`, counted in the plainest way.
fn millis(text: &str) -> i64 {
    let numbers: Vec<i64> = text
        .split(|letter: char| !letter.is_ascii_digit())
        .map(|digits| digits.parse().expect("a date"))
        .collect();
    let [year, month, day, hour, minute, second] = numbers[..6] else { panic!("{text}") };
    let is_leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days_of = |years: std::ops::Range<i64>| -> i64 {
        years.map(|year| 365 + i64::from(is_leap(year))).sum()
    };
    let years = days_of(1970..year) - days_of(year..1970);
    let months: i64 = lengths[..month as usize - 1].iter().sum();
    let days = years + months + day - 1;
    let thousandths = text
        .split('.')
        .nth(1)
        .map_or(0, |digits| format!("{digits:0<3}")[..3].parse().expect("thousandths"));
    ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1_000 + thousandths
}

fn options(sql: &dyn Sql, adopt: bool) -> SinkOptions {
    let target = Target::parse(&sql.url()).expect("is a URL");
    SinkOptions { name: "sink1".to_owned(), target, adopt }
}

/// Hands on once, and gives the status and the error.
fn once(sql: &dyn Sql, feed: &Feed, folder: &Path, adopt: bool) -> (SinkStatus, Option<String>) {
    let memory = SinkMemory::open(folder, "sightings", "sink1").expect("is writable");
    let (stop, mut last) = (Stop::default(), SinkStatus::default());
    let mut report = |status: &SinkStatus| last = status.clone();
    let mut sink = Sink::new(options(sql, adopt), feed, memory, &stop, &mut report);
    let error = sink.run_once().err().map(|error| error.to_string());
    let status = sink.status().clone();
    (status, error)
}

const BATCH: &str =
    "SELECT batch FROM whered_positions WHERE feed = 'sightings' AND sink = 'sink1'";

fn clear(sql: &dyn Sql) {
    sql.run("DROP TABLE IF EXISTS positions");
    sql.run("DROP TABLE IF EXISTS whered_positions");
}

fn only_changed_rows_are_sent_and_absent_tables_are_made(sql: &dyn Sql) {
    clear(sql);
    let (feed, folder) = (Feed::new(), Folder::new("changed"));
    for number in 0..20 {
        feed.apply_some(number);
    }
    let (status, error) = once(sql, &feed, &folder.0, false);
    assert_eq!(error, None);
    assert_eq!(status.rows, feed.rows().len() as u64);
    assert_eq!(sql.rows(), feed.rows());
    assert_eq!(sql.number(BATCH), 20);
    feed.apply_some(3);
    let (status, _) = once(sql, &feed, &folder.0, false);
    assert_eq!(status.rows, 500);
    assert_eq!(sql.rows(), feed.rows());
    let (status, _) = once(sql, &feed, &folder.0, false);
    assert_eq!((status.rows, sql.number(BATCH)), (0, 21));
    // Another data directory counts other batches: everything is sent.
    let other = Folder::new("other-life");
    let (status, _) = once(sql, &feed, &other.0, false);
    assert_eq!(status.rows, feed.rows().len() as u64);
}

fn a_number_from_before_a_restored_backup_sends_everything(sql: &dyn Sql) {
    clear(sql);
    let (feed, folder) = (Feed::new(), Folder::new("restored"));
    feed.apply_some(1);
    once(sql, &feed, &folder.0, false);
    sql.run("UPDATE whered_positions SET batch = 1000");
    let (status, error) = once(sql, &feed, &folder.0, false);
    assert_eq!((status.rows, error), (500, None));
    assert_eq!(sql.number(BATCH), 1);
}

fn rows_that_do_not_fit_are_left_out_and_stop_no_other(sql: &dyn Sql) {
    clear(sql);
    let (feed, folder) = (Feed::new(), Folder::new("misfits"));
    let mut no_text = row("bad", 1, 1.0, 1, 0);
    no_text[5] = OwnedCell::Text(b"\xff\xfe".to_vec());
    let mut no_key = row("", 1, 1.0, 1, 0);
    no_key[1] = OwnedCell::Absent;
    let long = row(&"x".repeat(5_000), 1, 1.0, 1, 0);
    let never = row("never", 1, 1.0, 1, i64::MAX);
    let infinite = row("infinite", 1, f64::INFINITY, 3, 0);
    let extreme = row("extreme", i64::MIN, -1.5e-300, i64::MAX, -1);
    feed.apply([no_text, no_key, long, never, infinite.clone(), extreme.clone()]);
    let (status, error) = once(sql, &feed, &folder.0, false);
    assert_eq!((status.rows, status.left_out, error), (2, 4, None));
    assert!(status.left_out_why.is_some_and(|why| why.starts_with("positions")));
    let mut infinite = infinite;
    infinite[2] = OwnedCell::Absent;
    assert_eq!(sql.rows(), [extreme, infinite]);
}

fn rows_that_the_table_holds_are_taken_over_once(sql: &dyn Sql) {
    clear(sql);
    let before = Feed::new();
    (0..60).for_each(|number| before.apply_some(number));
    once(sql, &before, &Folder::new("before").0, false);
    let (feed, folder) = (Feed::new(), Folder::new("adopting"));
    feed.apply([row("Orc 0", 1, 9.0, 9, 9), row("new", 1, 1.0, 1, 1)]);
    let (status, error) = once(sql, &feed, &folder.0, true);
    assert_eq!(error, None);
    let held = before.rows();
    let both = held.iter().filter(|row| row[0] == OwnedCell::Text(b"Orc 0".to_vec())).count();
    assert_eq!(both, 1, "the test wants a row that both have");
    assert_eq!(status.adopted, held.len() as u64 - 1);
    assert_eq!(feed.rows().len(), held.len() + 1);
    assert_eq!(sql.rows(), feed.rows());
    let own = sql
        .rows()
        .iter()
        .any(|row| row[3] == OwnedCell::Integer(9) && row[4] == OwnedCell::Time(9));
    assert!(own, "the feed's own row wins");
    sql.run("INSERT INTO positions (member, position) VALUES ('later', 1)");
    let (status, _) = once(sql, &feed, &folder.0, true);
    assert_eq!(status.adopted, 0, "only the first run takes over");
}

fn another_schema_is_named_waited_for_and_caught_up_with(sql: &dyn Sql) {
    clear(sql);
    let (feed, folder) = (Feed::new(), Folder::new("schema"));
    feed.apply_some(1);
    once(sql, &feed, &folder.0, false);
    for (change, why, back) in [
        (
            "ALTER TABLE positions DROP COLUMN note",
            "table positions has no column note; allowed: one of type",
            "ALTER TABLE positions ADD COLUMN note TEXT",
        ),
        (
            "ALTER TABLE positions DROP COLUMN note; ALTER TABLE positions ADD COLUMN note double precision",
            sql.wrong_kind(),
            "ALTER TABLE positions DROP COLUMN note; ALTER TABLE positions ADD COLUMN note TEXT",
        ),
        (
            "ALTER TABLE positions ADD COLUMN owner int NOT NULL",
            "column owner of table positions is NOT NULL without a default",
            "ALTER TABLE positions DROP COLUMN owner",
        ),
    ] {
        sql.run("DELETE FROM positions");
        change.split("; ").for_each(|statement| sql.run(statement));
        let (stop, told) = (Stop::default(), Mutex::new(SinkStatus::default()));
        std::thread::scope(|scope| {
            let _stops = StopOnDrop(&stop);
            let memory = SinkMemory::none();
            let (sink_options, feed, stop, told) = (options(sql, false), &feed, &stop, &told);
            scope.spawn(move || {
                let mut report = |status: &SinkStatus| {
                    *told.lock().expect("nobody panics with it") = status.clone();
                };
                Sink::new(sink_options, feed, memory, stop, &mut report).run();
            });
            let status = || told.lock().expect("nobody panics with it").clone();
            let waiting = wait_for("an error", || {
                Some(status()).filter(|status| status.state == SinkState::Waiting)
            });
            let error = waiting.error.unwrap_or_default();
            assert!(error.contains(why), "{error}");
            feed.apply_some(2);
            back.split("; ").for_each(|statement| sql.run(&statement.replace("TEXT", sql.text())));
            wait_for("the sink", || (status().state == SinkState::Connected).then_some(()));
            wait_for("the rows", || (sql.rows() == feed.rows()).then_some(()));
            assert_eq!(status().error, None);
            stop.stop();
        });
        assert_eq!(told.lock().expect("nobody panics with it").state, SinkState::Stopped);
    }
    sql.run(sql.drop_key());
    let (_, error) = once(sql, &feed, &folder.0, false);
    let error = error.expect("the key is gone");
    let why = "table positions has no unique index of exactly the columns member, position";
    assert!(error.contains(why), "{error}");
}

/// An hour of batches while the server is away: the feed's rows are the backlog, each goes once.
fn what_piles_up_while_the_server_is_away_goes_once_a_row(sql: &mut dyn Sql) {
    clear(sql);
    let (feed, folder) = (Feed::new(), Folder::new("away"));
    sql.peer().kill();
    let (stop, told) = (Stop::default(), Mutex::new(SinkStatus::default()));
    let status = || told.lock().expect("nobody panics with it").clone();
    let given = options(sql, false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let memory = SinkMemory::open(&folder.0, "sightings", "sink1").expect("is writable");
            let mut report =
                |status: &SinkStatus| *told.lock().expect("nobody panics") = status.clone();
            Sink::new(given.clone(), &feed, memory, &stop, &mut report).run();
        });
        wait_for("a reason", || status().error);
        for batch in 0..3_600 {
            feed.apply((0..50).map(|number| row(&format!("m{number}"), 1, 0.5, batch, batch)));
        }
        assert_eq!((status().rows, status().batch), (0, 0));
        stop.stop();
    });
    sql.peer().start();
    let done = wait_for("the server", || {
        let (status, error) = once(sql, &feed, &folder.0, false);
        error.is_none().then_some(status)
    });
    assert_eq!((done.rows, done.batch), (50, 3_600));
    assert_eq!(sql.rows(), feed.rows());
}

/// A feed of which something happens when a later page of it is read.
struct Interrupted<'a> {
    feed: &'a Feed,
    happens: Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>,
}

impl Handover for Interrupted<'_> {
    fn feed(&self) -> &str {
        self.feed.feed()
    }

    fn schemas(&self) -> &[Schema] {
        self.feed.schemas()
    }

    fn durable_batch(&self) -> u64 {
        self.feed.durable_batch()
    }

    fn changed_since(
        &self,
        table: usize,
        batch: u64,
        from: u64,
        limit: usize,
        each: &mut dyn FnMut(&[Cell<'_>]),
    ) -> Result<Option<u64>, String> {
        if from > 0
            && let Some(happens) = self.happens.lock().expect("nobody panics with it").take()
        {
            happens();
        }
        self.feed.changed_since(table, batch, from, limit, each)
    }

    fn adopt(&self, table: usize, rows: Vec<Vec<OwnedCell>>) -> Result<u64, String> {
        self.feed.adopt(table, rows)
    }
}

fn a_server_that_dies_in_the_middle_of_a_batch_has_all_of_it_or_nothing(sql: &mut dyn Sql) {
    clear(sql);
    let (feed, folder) = (Feed::new(), Folder::new("middle"));
    feed.apply([row("before", 1, 1.0, 1, 1)]);
    once(sql, &feed, &folder.0, false);
    feed.apply((0..9_000).map(|number| row(&format!("m{number}"), 1, 0.5, number, number)));
    let (given, process) = (options(sql, false), sql.peer().process());
    {
        let happens: Box<dyn FnOnce() + Send> = Box::new(move || {
            let killed = std::process::Command::new("kill").args(["-9", &process]).status();
            assert!(killed.is_ok_and(|status| status.success()), "it runs");
        });
        let handover = Interrupted { feed: &feed, happens: Mutex::new(Some(happens)) };
        let memory = SinkMemory::open(&folder.0, "sightings", "sink1").expect("is writable");
        let (stop, mut report) = (Stop::default(), |_: &SinkStatus| ());
        let _ = Sink::new(given, &handover, memory, &stop, &mut report).run_once();
        assert!(handover.happens.lock().expect("nobody panics with it").is_none(), "one page only");
    }
    sql.peer().kill();
    sql.peer().start();
    // The servers' processes do not all end at the same moment: it may have been committed.
    let all = feed.rows();
    let wanted = if sql.number(BATCH) == 1 { vec![row("before", 1, 1.0, 1, 1)] } else { all };
    assert_eq!(sql.rows(), wanted);
    let (_, error) = once(sql, &feed, &folder.0, false);
    assert_eq!(error, None);
    assert_eq!((sql.rows(), sql.number(BATCH)), (feed.rows(), 2));
}

/// The server is killed again and again, and so is the sink: each of its lives ends between two
/// pages, in a transaction or between two. In the end both sides hold the same.
fn nothing_is_lost_or_doubled_over_crashes_of_either_side(sql: &mut dyn Sql) {
    clear(sql);
    let (feed, folder) = (Feed::new(), Folder::new("crashes"));
    let url = options(sql, false);
    for round in 0..6_u64 {
        let stop = Stop::default();
        std::thread::scope(|scope| {
            let _stops = StopOnDrop(&stop);
            let memory = SinkMemory::open(&folder.0, "sightings", "sink1").expect("is writable");
            let (feed, stop, url) = (&feed, &stop, url.clone());
            scope.spawn(move || {
                Sink::new(url, feed, memory, stop, &mut |_: &SinkStatus| ()).run();
            });
            for number in 0..60 {
                feed.apply_some(round * 60 + number);
                if number == 20 + round * 5 {
                    sql.peer().kill();
                }
                if number == 40 + round {
                    sql.peer().start();
                }
                stop.wait(Duration::from_millis(4));
            }
            if round % 2 == 0 {
                wait_for("all batches", || {
                    (sql.number(BATCH) == feed.durable_batch().cast_signed()).then_some(())
                });
            }
            stop.stop();
        });
    }
    // The server may still be recovering from its last crash.
    wait_for("the last pass", || once(sql, &feed, &folder.0, false).1.is_none().then_some(()));
    assert_eq!(sql.number(BATCH), 360);
    assert_eq!(sql.rows(), feed.rows());
}

/// Ends the sink when a check beside it fails, so that the test ends as well.
struct StopOnDrop<'a>(&'a Stop);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = format!("whered-sink-{name}-{}-{}", std::process::id(), support::free_port());
        Folder(std::env::temp_dir().join(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// MariaDB says to the second when a table was made.
fn let_a_second_pass() {
    std::thread::park_timeout(Duration::from_millis(1_100));
}

fn a_table_that_was_dropped_altered_or_made_anew_gets_all_rows(sql: &dyn Sql) {
    clear(sql);
    let (feed, folder) = (Feed::new(), Folder::new("anew"));
    (0..4).for_each(|number| feed.apply_some(number));
    once(sql, &feed, &folder.0, false);
    let dropped = ["DROP TABLE positions"];
    let put_back =
        ["ALTER TABLE positions DROP COLUMN seen", "ALTER TABLE positions ADD COLUMN seen bigint"];
    let made_by_hand = [
        "DROP TABLE positions",
        "CREATE TABLE positions (member varchar(99) KEYTEXT NOT NULL, position bigint NOT NULL, \
         longitude double precision, seen bigint, last_seen TIME, note TEXT, \
         PRIMARY KEY (member, position))",
    ];
    for statements in [&dropped[..], &put_back, &made_by_hand] {
        let_a_second_pass();
        for statement in statements {
            let (key, time) = sql.key_and_time();
            let statement = statement.replace("KEYTEXT", key).replace("TIME", time);
            sql.run(&statement.replace("TEXT", sql.text()));
        }
        feed.apply([row("one", 1, 1.0, 1, 1)]);
        let (status, error) = once(sql, &feed, &folder.0, false);
        assert_eq!(error, None, "{statements:?}");
        assert_eq!(status.rows, feed.rows().len() as u64, "{statements:?}");
        assert_eq!(sql.rows(), feed.rows(), "{statements:?}");
        let (status, _) = once(sql, &feed, &folder.0, false);
        assert_eq!(status.rows, 0, "it is remembered");
    }
}

fn a_table_is_filled_again_while_the_sink_is_connected_and_the_feed_is_still(sql: &dyn Sql) {
    clear(sql);
    let (feed, folder) = (Feed::new(), Folder::new("idle"));
    feed.apply_some(1);
    once(sql, &feed, &folder.0, false);
    feed.apply_some(2);
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let _stops = StopOnDrop(&stop);
        let memory = SinkMemory::open(&folder.0, "sightings", "sink1").expect("is writable");
        let (sink_options, feed, stop) = (options(sql, false), &feed, &stop);
        scope.spawn(move || {
            Sink::new(sink_options, feed, memory, stop, &mut |_: &SinkStatus| ()).run();
        });
        wait_for("the first rows", || (sql.number(BATCH) == 2).then_some(()));
        let_a_second_pass();
        sql.run("DROP TABLE positions");
        // Nothing is applied to the feed meanwhile.
        let tables =
            "SELECT count(*) FROM information_schema.tables WHERE table_name = 'positions'";
        wait_for("the table", || (sql.number(tables) == 1).then_some(()));
        wait_for("all rows", || (sql.rows() == feed.rows()).then_some(()));
        // A drop that the sink meets in a transaction.
        let_a_second_pass();
        sql.run("DROP TABLE positions");
        feed.apply([row("one", 1, 1.0, 1, 1)]);
        wait_for("the table", || (sql.number(tables) == 1).then_some(()));
        wait_for("all rows", || (sql.rows() == feed.rows()).then_some(()));
        stop.stop();
    });
}

fn a_row_left_out_for_a_narrow_column_arrives_when_it_is_widened(sql: &dyn Sql) {
    clear(sql);
    let (feed, folder) = (Feed::new(), Folder::new("widened"));
    feed.apply([row("short", 1, 1.0, 3, 1)]);
    once(sql, &feed, &folder.0, false);
    sql.run(sql.narrow());
    feed.apply([row("narrow", 1, 1.0, 100_000, 1)]);
    let (status, error) = once(sql, &feed, &folder.0, false);
    assert_eq!((status.left_out, error), (1, None), "{:?}", status.left_out_why);
    assert_eq!(sql.rows().len(), 1);
    let stop = Stop::default();
    let told = Mutex::new(SinkStatus::default());
    let status = || told.lock().expect("nobody panics with it").clone();
    std::thread::scope(|scope| {
        let _stops = StopOnDrop(&stop);
        let memory = SinkMemory::open(&folder.0, "sightings", "sink1").expect("is writable");
        let (sink_options, feed, stop, told) = (options(sql, false), &feed, &stop, &told);
        scope.spawn(move || {
            let mut report = |status: &SinkStatus| {
                *told.lock().expect("nobody panics with it") = status.clone();
            };
            Sink::new(sink_options, feed, memory, stop, &mut report).run();
        });
        wait_for("the sink", || (status().state == SinkState::Connected).then_some(()));
        // While it is connected, and without another change of the feed.
        sql.run(sql.widen());
        wait_for("the row", || (sql.rows() == feed.rows()).then_some(()));
        wait_for("its word", || status().left_out_why.is_none().then_some(()));
        stop.stop();
    });
}

fn all(sql: &mut dyn Sql) {
    a_table_that_was_dropped_altered_or_made_anew_gets_all_rows(sql);
    a_table_is_filled_again_while_the_sink_is_connected_and_the_feed_is_still(sql);
    a_row_left_out_for_a_narrow_column_arrives_when_it_is_widened(sql);
    only_changed_rows_are_sent_and_absent_tables_are_made(sql);
    a_number_from_before_a_restored_backup_sends_everything(sql);
    rows_that_do_not_fit_are_left_out_and_stop_no_other(sql);
    rows_that_the_table_holds_are_taken_over_once(sql);
    another_schema_is_named_waited_for_and_caught_up_with(sql);
    what_piles_up_while_the_server_is_away_goes_once_a_row(sql);
    a_server_that_dies_in_the_middle_of_a_batch_has_all_of_it_or_nothing(sql);
    nothing_is_lost_or_doubled_over_crashes_of_either_side(sql);
}

#[test]
fn mariadb_holds_what_the_feed_holds() {
    let Some(peer) = support::mariadb() else { return };
    let mut sql = MariaDb(peer);
    sql.run("SELECT 1");
    all(&mut sql);
    sql.run("DROP TABLE positions");
    sql.run(
        "CREATE TABLE positions (member VARCHAR(99) COLLATE utf8mb4_general_ci, position INT, \
         longitude DOUBLE, seen INT, last_seen DATETIME, note TEXT, PRIMARY KEY (member, position)) \
         CHARACTER SET utf8mb4",
    );
    let feed = Feed::new();
    let (_, error) = once(&sql, &feed, &Folder::new("folding").0, false);
    let error = error.expect("it folds case");
    assert!(error.contains("column member of table positions is a part of the key"), "{error}");
}

#[test]
fn postgresql_holds_what_the_feed_holds() {
    let Some(peer) = support::postgresql() else { return };
    let mut sql = PostgreSql(peer);
    sql.run("SELECT 1");
    all(&mut sql);
}

#[test]
fn postgresql_is_reached_over_tls_and_its_certificate_is_checked() {
    let Some((peer, authority)) = support::postgresql_with_tls() else { return };
    let url = |rest: &str| format!("postgres://postgres@127.0.0.1:{}/postgres{rest}", peer.port);
    let feed = Feed::new();
    feed.apply_some(1);
    let folder = Folder::new("tls");
    let run = |url: &str| {
        let target = Target::parse(url).expect("is a URL");
        let options = SinkOptions { name: "sink1".to_owned(), target, adopt: false };
        let memory = SinkMemory::open(&folder.0, "sightings", "sink1").expect("is writable");
        let (stop, mut report) = (Stop::default(), |_: &SinkStatus| ());
        let mut sink = Sink::new(options, &feed, memory, &stop, &mut report);
        let result = sink.run_once();
        (result.map_err(|error| error.to_string()), sink.status().rows)
    };
    let trusted = url(&format!("?tls=on&ca={}", authority.display()));
    let (result, rows) = wait_for("PostgreSQL", || Some(run(&trusted)).filter(|it| it.0.is_ok()));
    assert_eq!((result, rows), (Ok(()), 500));
    // The system's authorities do not know it; an unencrypted connection is refused by the server.
    let (result, _) = run(&url("?tls=on"));
    let error = result.expect_err("nobody has signed it");
    assert!(error.contains("certificate"), "{error}");
    let (result, _) = run(&url(""));
    let error = result.expect_err("the server wants TLS");
    assert!(error.contains("no encryption"), "{error}");
    // A certificate for another name.
    let elsewhere = trusted.replace("@127.0.0.1:", "@localhost:");
    let (result, _) = run(&elsewhere);
    assert!(result.is_err_and(|error| error.contains("certificate")), "another name");
}

/// Prints how fast rows go: new ones, and the same again in another order, each batch a durable
/// transaction of its own.
/// `cargo test --release -p whered-connect --test sinks -- --ignored --nocapture`
fn print_speed(sql: &dyn Sql) {
    clear(sql);
    let (feed, folder) = (Feed::new(), Folder::new("speed"));
    feed.apply([row("first", 1, 0.0, 1, 0)]);
    once(sql, &feed, &folder.0, false);
    for (what, factor) in [("new", 1_u64), ("changed", 7_919)] {
        let (mut seconds, mut rows) = (0.0, 0);
        for batch in 0..5_u64 {
            feed.apply((batch * 40_000..(batch + 1) * 40_000).map(|number| {
                let member = number * factor % 200_000;
                let longitude = number as f64 / 1_111.0 - 90.0;
                row(&format!("object {member}"), 1, longitude, number as i64, number as i64)
            }));
            let memory = SinkMemory::open(&folder.0, "sightings", "sink1").expect("is writable");
            let stop = Stop::default();
            let mut report = |_: &SinkStatus| ();
            let mut sink = Sink::new(options(sql, false), &feed, memory, &stop, &mut report);
            let begin = std::time::Instant::now();
            sink.run_once().expect("the server is there");
            seconds += begin.elapsed().as_secs_f64();
            rows += sink.status().rows;
        }
        println!("{what}: {:.0} rows/s ({rows} rows in {seconds:.2} s)", rows as f64 / seconds);
    }
}

#[test]
#[ignore = "measures and checks nothing"]
fn speed_into_mariadb() {
    let Some(peer) = support::mariadb() else { return };
    print_speed(&MariaDb(peer));
}

#[test]
#[ignore = "measures and checks nothing"]
fn speed_into_postgresql() {
    let Some(peer) = support::postgresql() else { return };
    print_speed(&PostgreSql(peer));
}
