//! Rows into MariaDB or MySQL.
//!
//! For: tables made and checked, multi-row `INSERT ... ON DUPLICATE KEY UPDATE`, the position row.
//! Not for: deciding which rows, nor when.
//!
//! Invariants:
//!
//! - Texts are written as literals of a connection whose character set is utf8mb4 and whose modes
//!   are ours (backslashes escape, values that do not fit are errors, time is UTC), after they were
//!   checked to be UTF-8; or as hexadecimal digits where the column holds bytes.
//! - Keys compare byte by byte: a collation that folds case would make one row of two.
//!
//! Cost: 6 to 10 microseconds a row of six columns, nearly all of it the server's; see
//! `docs/guide/sinks.md`.

use std::fmt::Write as _;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Error, Opts, OptsBuilder, Row, Value};

use super::plan::{StorageType, TablePlan, check_others};
use super::{Cell, Column, Database, Kind, OwnedCell, Page, PositionKey, Schema};
use crate::calendar;
use crate::error::ConnectError;

/// How much of a page goes into one statement; the server's own limit is 16 MB unless it is told.
const STATEMENT_BYTES: usize = 1 << 20;
/// How long opening may take, and one statement.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
/// What InnoDB takes for all columns of a key together.
const KEY_BYTES_MAX: u64 = 3_072;
/// DATETIME goes from the year 1000 to the end of 9999.
const CALENDAR: StorageType = StorageType::Calendar {
    smallest_millis: -30_610_224_000_000,
    largest_millis: 253_402_300_799_999,
};
/// TIMESTAMP holds 31 bits of seconds, without the first.
const TIMESTAMP: StorageType =
    StorageType::Calendar { smallest_millis: 1_000, largest_millis: 2_147_483_647_999 };

/// The URL's options with our limits.
pub(crate) fn with_limits(opts: Opts) -> Opts {
    OptsBuilder::from_opts(opts)
        .prefer_socket(false)
        .tcp_connect_timeout(Some(PATIENCE.0))
        .read_timeout(Some(PATIENCE.1))
        .write_timeout(Some(PATIENCE.1))
        .into()
}

pub(crate) fn connect(name: &str, opts: &Opts) -> Result<Box<dyn Database>, ConnectError> {
    let name = name.to_owned();
    let mut conn = Conn::new(opts.clone()).map_err(|error| fault(&name, &error))?;
    let mut session = || -> Result<(String, u64), Error> {
        conn.query_drop("SET NAMES utf8mb4")?;
        conn.query_drop(
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE', \
             SESSION time_zone = '+00:00', SESSION autocommit = 1, \
             SESSION foreign_key_checks = 1",
        )?;
        let row: Option<(String, u64)> =
            conn.query_first("SELECT VERSION(), @@max_allowed_packet")?;
        Ok(row.unwrap_or_default())
    };
    let (version, packet_bytes_max) = session().map_err(|error| fault(&name, &error))?;
    // Statement and position go into one packet with what names them.
    let packet = usize::try_from(packet_bytes_max).unwrap_or(usize::MAX).max(1 << 16);
    let collation =
        if version.contains("MariaDB") { "utf8mb4_nopad_bin" } else { "utf8mb4_0900_bin" };
    Ok(Box::new(Mysql { conn, name, collation, row_bytes_max: packet / 2, heads: Vec::new() }))
}

struct Mysql {
    conn: Conn,
    name: String,
    /// Compares bytes, blanks at the end as well.
    collation: &'static str,
    row_bytes_max: usize,
    /// Of each table what stands before and behind the rows.
    heads: Vec<(String, String, String)>,
}

impl Database for Mysql {
    fn prepare(&mut self, schemas: &[Schema]) -> Result<Vec<TablePlan>, ConnectError> {
        let make = format!(
            "CREATE TABLE IF NOT EXISTS whered_positions (\
             feed VARCHAR(190) CHARACTER SET utf8mb4 COLLATE {0} NOT NULL, \
             sink VARCHAR(190) CHARACTER SET utf8mb4 COLLATE {0} NOT NULL, \
             life VARCHAR(64) CHARACTER SET ascii NOT NULL, batch BIGINT UNSIGNED NOT NULL, \
             PRIMARY KEY (feed, sink)) ENGINE=InnoDB",
            self.collation
        );
        if self.columns("whered_positions")?.is_empty() {
            self.run(&make)?;
        }
        let mut plans = Vec::new();
        for schema in schemas {
            if schema.name.chars().count() > 64 {
                return Err(
                    self.wrong(&format!("the table name {} is longer than 64", schema.name))
                );
            }
            // Asked for before its columns: one that is made anew in between is found out by the
            // next look.
            let mut made_at = self.made_at(&schema.name)?;
            let mut found = self.columns(&schema.name)?;
            if found.is_empty() {
                let statement = self.statement_to_make(schema);
                self.run(&statement)?;
                made_at = self.made_at(&schema.name)?;
                found = self.columns(&schema.name)?;
            }
            let ours = schema.columns().map(|column| column.name.as_str());
            let identity = self.identity_of(made_at.as_deref(), ours, &found);
            let wanting = found.iter().filter(|there| there.needs_value);
            let wanting = wanting.map(|there| there.name.as_str());
            check_others(schema, wanting, str::eq_ignore_ascii_case)
                .map_err(|what| self.wrong(&what))?;
            self.check_key(schema)?;
            let plan = TablePlan::new(schema, KEY_BYTES_MAX, identity, |column, is_key| {
                self.stored_as(&schema.name, column, is_key, &found)
            })?;
            plans.push(plan);
        }
        self.heads = plans.iter().map(upsert_around).collect();
        Ok(plans)
    }

    fn position(&mut self, key: &PositionKey, lock: bool) -> Result<Option<u64>, ConnectError> {
        let statement = format!(
            "SELECT batch FROM whered_positions WHERE feed = ? AND sink = ? AND life = ?{}",
            if lock { " FOR UPDATE" } else { "" }
        );
        let found = self.conn.exec_first(statement, (&key.feed, &key.sink, &key.life));
        found.map_err(|error| fault(&self.name, &error))
    }

    fn identity(&mut self, plan: &TablePlan) -> Result<String, ConnectError> {
        let made_at = self.made_at(&plan.name)?;
        let found = self.columns(&plan.name)?;
        let ours = plan.columns.iter().map(|column| column.name.as_str());
        Ok(self.identity_of(made_at.as_deref(), ours, &found))
    }

    fn begin(&mut self) -> Result<(), ConnectError> {
        self.run("START TRANSACTION")
    }

    fn encode(&self, plan: &TablePlan, cells: &[Cell<'_>], into: &mut Vec<u8>) {
        let mut mark = b'(';
        for (column, cell) in plan.columns.iter().zip(cells) {
            into.push(mark);
            mark = b',';
            literal(&column.stored, cell, into);
        }
        // The comma behind a piece's last row is cut off again.
        into.extend_from_slice(b"),");
    }

    fn row_bytes_max(&self) -> usize {
        self.row_bytes_max
    }

    fn write(&mut self, plan: &TablePlan, page: &Page) -> Result<(), ConnectError> {
        let around = self.heads.iter().find(|(name, ..)| *name == plan.name);
        let (_, head, tail) = around.expect("prepare() made the statement of each plan");
        for (rows, _) in page.pieces(STATEMENT_BYTES) {
            let mut statement = Vec::with_capacity(head.len() + rows.len() + tail.len());
            statement.extend_from_slice(head.as_bytes());
            statement.extend_from_slice(rows.strip_suffix(b",").unwrap_or(rows));
            statement.extend_from_slice(tail.as_bytes());
            let statement =
                String::from_utf8(statement).expect("texts are checked before encoding");
            self.conn.query_drop(statement).map_err(|error| fault(&self.name, &error))?;
        }
        Ok(())
    }

    fn commit(&mut self, key: &PositionKey, batch: u64) -> Result<(), ConnectError> {
        let written = self.conn.exec_drop(
            "INSERT INTO whered_positions (feed, sink, life, batch) VALUES (?, ?, ?, ?) \
             ON DUPLICATE KEY UPDATE life = VALUES(life), batch = VALUES(batch)",
            (&key.feed, &key.sink, &key.life, batch),
        );
        written.map_err(|error| fault(&self.name, &error))?;
        self.run("COMMIT")
    }

    fn read(
        &mut self,
        plan: &TablePlan,
        each: &mut dyn FnMut(Vec<OwnedCell>) -> Result<(), ConnectError>,
    ) -> Result<(), ConnectError> {
        let columns: Vec<String> = plan
            .columns
            .iter()
            .map(|column| readable(column.kind, &column.stored, &column.name))
            .collect();
        let statement = format!("SELECT {} FROM {}", columns.join(", "), quoted(&plan.name));
        let fail = |error: &Error| fault(&self.name, error);
        let rows = self.conn.query_iter(statement).map_err(|error| fail(&error))?;
        for row in rows {
            let row = row.map_err(|error| fail(&error))?;
            each(owned(plan, row))?;
        }
        Ok(())
    }
}

/// What the server says of a column.
struct ExistingColumn {
    name: String,
    data_type: String,
    column_type: String,
    characters_max: Option<u64>,
    bytes_max: Option<u64>,
    character_set: Option<String>,
    collation: Option<String>,
    allows_null: bool,
    needs_value: bool,
}

impl Mysql {
    fn run(&mut self, statement: &str) -> Result<(), ConnectError> {
        self.conn.query_drop(statement).map_err(|error| fault(&self.name, &error))
    }

    fn wrong(&self, what: &str) -> ConnectError {
        ConnectError::new(format!("{}: {what}", self.name))
    }

    /// When a table was made, or last altered.
    fn made_at(&mut self, table: &str) -> Result<Option<String>, ConnectError> {
        let found: Result<Option<Option<String>>, Error> = self.conn.exec_first(
            "SELECT CAST(CREATE_TIME AS CHAR) FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?",
            (table,),
        );
        found.map(Option::flatten).map_err(|error| fault(&self.name, &error))
    }

    fn identity_of<'a>(
        &self,
        made_at: Option<&str>,
        ours: impl Iterator<Item = &'a str>,
        found: &[ExistingColumn],
    ) -> String {
        let mut text = made_at.unwrap_or("nobody knows when").to_owned();
        let _ = write!(text, ", rows of {}", self.row_bytes_max);
        for name in ours {
            let place = found.iter().position(|there| there.name.eq_ignore_ascii_case(name));
            let Some((place, there)) = place.and_then(|place| Some((place, found.get(place)?)))
            else {
                continue;
            };
            let null = if there.allows_null { "" } else { " not null" };
            let collation = there.collation.as_deref().unwrap_or_default();
            let _ = write!(text, ", {place} {name} {} {collation}{null}", there.column_type);
        }
        text
    }

    fn columns(&mut self, table: &str) -> Result<Vec<ExistingColumn>, ConnectError> {
        let rows: Vec<Row> = self
            .conn
            .exec(
                "SELECT COLUMN_NAME, LOWER(DATA_TYPE), LOWER(COLUMN_TYPE), \
                 CHARACTER_MAXIMUM_LENGTH, CHARACTER_OCTET_LENGTH, CHARACTER_SET_NAME, \
                 COLLATION_NAME, IS_NULLABLE, COLUMN_DEFAULT, LOWER(EXTRA) \
                 FROM information_schema.COLUMNS \
                 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION",
                (table,),
            )
            .map_err(|error| fault(&self.name, &error))?;
        let text = |row: &Row, place| row.get::<Option<String>, _>(place).flatten();
        let found = rows.iter().map(|row| {
            let allows_null = text(row, 7).as_deref() == Some("YES");
            let extra = text(row, 9).unwrap_or_default();
            let is_given = text(row, 8).is_some()
                || extra.contains("auto_increment")
                || extra.contains("generated");
            ExistingColumn {
                name: text(row, 0).unwrap_or_default(),
                data_type: text(row, 1).unwrap_or_default(),
                column_type: text(row, 2).unwrap_or_default(),
                characters_max: row.get::<Option<u64>, _>(3).flatten(),
                bytes_max: row.get::<Option<u64>, _>(4).flatten(),
                character_set: text(row, 5),
                collation: text(row, 6),
                allows_null,
                needs_value: !allows_null && !is_given,
            }
        });
        Ok(found.collect())
    }

    /// A column of ours in a table that is there: how it keeps values, and whether NULL is one.
    fn stored_as(
        &self,
        table: &str,
        column: &Column,
        is_key: bool,
        found: &[ExistingColumn],
    ) -> Result<(StorageType, bool), ConnectError> {
        let name = &column.name;
        let Some(there) = found.iter().find(|there| there.name.eq_ignore_ascii_case(name)) else {
            let kind = self.sql_type(column.kind, 1);
            let what = format!("table {table} has no column {name}; allowed: one of type {kind}");
            return Err(self.wrong(&what));
        };
        let stored = match (column.kind, there.data_type.as_str()) {
            (Kind::Integer, kind) => integers(kind, there.column_type.contains("unsigned")),
            (Kind::Time, "bigint") => Some(StorageType::ALL_INTEGERS),
            (Kind::Time, "datetime") => Some(CALENDAR),
            (Kind::Time, "timestamp") => Some(TIMESTAMP),
            (Kind::Number, "double") => Some(StorageType::Double),
            (Kind::Text, _) => text(there),
            _ => None,
        };
        let Some(stored) = stored else {
            let allowed = match column.kind {
                Kind::Integer => "tinyint to bigint",
                Kind::Number => "double",
                Kind::Text => {
                    "char, varchar or text in utf8mb4, utf8mb3 or ascii, varbinary or blob"
                }
                Kind::Time => "datetime(3), timestamp(3) or bigint",
            };
            let set =
                there.character_set.as_deref().map_or(String::new(), |set| format!(" in {set}"));
            return Err(self.wrong(&format!(
                "column {name} of table {table} is {}{set}; allowed: {allowed}",
                there.column_type
            )));
        };
        if let Some(collation) = &there.collation
            && is_key
            && !collation.ends_with("_bin")
        {
            return Err(self.wrong(&format!(
                "column {name} of table {table} is a part of the key and compares by {collation}; \
                 allowed: a collation that compares bytes, such as {}",
                self.collation
            )));
        }
        Ok((stored, there.allows_null && !is_key))
    }

    /// Some unique index has exactly the key's columns.
    fn check_key(&mut self, schema: &Schema) -> Result<(), ConnectError> {
        let rows: Vec<(String, String)> = self
            .conn
            .exec(
                "SELECT INDEX_NAME, LOWER(COLUMN_NAME) FROM information_schema.STATISTICS \
                 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND NON_UNIQUE = 0 \
                 AND SUB_PART IS NULL ORDER BY INDEX_NAME, SEQ_IN_INDEX",
                (&schema.name,),
            )
            .map_err(|error| fault(&self.name, &error))?;
        let mut wanted: Vec<String> =
            schema.key.iter().map(|column| column.name.to_lowercase()).collect();
        wanted.sort();
        let is_key = |index: &str| {
            let columns = rows.iter().filter(|(name, _)| name == index);
            let mut columns: Vec<&String> = columns.map(|(_, column)| column).collect();
            columns.sort();
            columns.into_iter().eq(&wanted)
        };
        if rows.iter().any(|(index, _)| is_key(index)) {
            return Ok(());
        }
        let key: Vec<&str> = schema.key.iter().map(|column| column.name.as_str()).collect();
        let key = key.join(", ");
        Err(self.wrong(&format!(
            "table {} has no unique index of exactly the columns {key}; allowed: PRIMARY KEY ({key})",
            schema.name
        )))
    }

    fn sql_type(&self, kind: Kind, key_texts: usize) -> String {
        match kind {
            Kind::Integer => "BIGINT".to_owned(),
            Kind::Number => "DOUBLE".to_owned(),
            Kind::Time => "DATETIME(3)".to_owned(),
            Kind::Text => {
                // Four bytes a character, and room for the numbers in the key.
                let characters = (KEY_BYTES_MAX as usize / 4 / key_texts.max(1) - 16).min(255);
                let collation = self.collation;
                format!("VARCHAR({characters}) CHARACTER SET utf8mb4 COLLATE {collation}")
            }
        }
    }

    fn statement_to_make(&self, schema: &Schema) -> String {
        let is_text = |column: &&Column| column.kind == Kind::Text;
        let key_texts = schema.key.iter().filter(is_text).count();
        let mut columns = Vec::new();
        for column in &schema.key {
            let kind = self.sql_type(column.kind, key_texts);
            columns.push(format!("{} {kind} NOT NULL", quoted(&column.name)));
        }
        for column in &schema.values {
            let kind = match column.kind {
                Kind::Text => "LONGTEXT CHARACTER SET utf8mb4".to_owned(),
                kind => self.sql_type(kind, 1),
            };
            columns.push(format!("{} {kind} NULL", quoted(&column.name)));
        }
        let key: Vec<String> = schema.key.iter().map(|column| quoted(&column.name)).collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({})) ENGINE=InnoDB",
            quoted(&schema.name),
            columns.join(", "),
            key.join(", ")
        )
    }
}

/// A table's name, and what stands before and behind the rows of an upsert.
fn upsert_around(plan: &TablePlan) -> (String, String, String) {
    let columns: Vec<String> = plan.columns.iter().map(|column| quoted(&column.name)).collect();
    let head = format!("INSERT INTO {} ({}) VALUES ", quoted(&plan.name), columns.join(", "));
    let mut tail = " ON DUPLICATE KEY UPDATE ".to_owned();
    let mut mark = "";
    for name in plan.names(false) {
        let _ = write!(tail, "{mark}{0} = VALUES({0})", quoted(name));
        mark = ", ";
    }
    if let (true, Some(name)) = (mark.is_empty(), plan.names(true).next()) {
        // Nothing but a key: the row is there, and that is all.
        let _ = write!(tail, "{0} = {0}", quoted(name));
    }
    (plan.name.clone(), head, tail)
}

fn integers(data_type: &str, is_unsigned: bool) -> Option<StorageType> {
    let bits = match data_type {
        "tinyint" => 8,
        "smallint" => 16,
        "mediumint" => 24,
        "int" => 32,
        "bigint" => 64,
        _ => return None,
    };
    let (smallest, largest) = match (is_unsigned, bits) {
        (true, 64) => (0, i64::MAX),
        (true, bits) => (0, (1_i64 << bits) - 1),
        (false, 64) => (i64::MIN, i64::MAX),
        (false, bits) => (-(1_i64 << (bits - 1)), (1_i64 << (bits - 1)) - 1),
    };
    Some(StorageType::Integer { smallest, largest })
}

fn text(there: &ExistingColumn) -> Option<StorageType> {
    let bytes_max = there.bytes_max.unwrap_or(u64::MAX);
    let largest = match (there.data_type.as_str(), there.character_set.as_deref()) {
        ("varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob", _) => {
            return Some(StorageType::Bytes { bytes_max });
        }
        ("char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext", set) => match set? {
            "utf8mb4" => char::MAX,
            "utf8mb3" | "utf8" => '\u{ffff}',
            "ascii" => '\u{7f}',
            _ => return None,
        },
        _ => return None,
    };
    let characters_max = there.characters_max.unwrap_or(u64::MAX);
    Some(StorageType::Text { characters_max, bytes_max, largest, allows_nul: true })
}

/// A value as SQL writes it. What is no finite number is NULL.
fn literal(stored: &StorageType, cell: &Cell<'_>, into: &mut Vec<u8>) {
    use std::io::Write as _;
    let written = match (cell, stored) {
        (Cell::Absent, _) => into.write_all(b"NULL"),
        (Cell::Number(value), _) if value.is_finite() => write!(into, "{value:e}"),
        (Cell::Number(_), _) => into.write_all(b"NULL"),
        (Cell::Time(millis), StorageType::Calendar { .. }) => {
            into.push(b'\'');
            calendar::write(*millis, into);
            into.write_all(b"'")
        }
        (Cell::Integer(value) | Cell::Time(value), _) => write!(into, "{value}"),
        (Cell::Text(text), StorageType::Bytes { .. }) => {
            into.extend_from_slice(b"x'");
            for byte in *text {
                let _ = write!(into, "{byte:02x}");
            }
            into.write_all(b"'")
        }
        (Cell::Text(text), _) => {
            into.push(b'\'');
            for byte in *text {
                match byte {
                    b'\'' => into.extend_from_slice(b"''"),
                    b'\\' => into.extend_from_slice(b"\\\\"),
                    _ => into.push(*byte),
                }
            }
            into.write_all(b"'")
        }
    };
    written.expect("memory takes every write");
}

/// A column as [`owned`] reads it.
fn readable(kind: Kind, stored: &StorageType, name: &str) -> String {
    let name = quoted(name);
    match (kind, stored) {
        (Kind::Time, StorageType::Calendar { .. }) => {
            format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', {name}) DIV 1000")
        }
        _ => name,
    }
}

fn owned(plan: &TablePlan, row: Row) -> Vec<OwnedCell> {
    let cells = plan.columns.iter().zip(row.unwrap());
    let cells = cells.map(|(column, value)| match (column.kind, value) {
        (_, Value::NULL) => OwnedCell::Absent,
        (Kind::Text, Value::Bytes(text)) => OwnedCell::Text(text),
        // Answers to plain queries are texts.
        (kind, Value::Bytes(digits)) => {
            let digits = String::from_utf8_lossy(&digits);
            match kind {
                Kind::Number => digits.parse().map_or(OwnedCell::Absent, OwnedCell::Number),
                Kind::Time => digits.parse().map_or(OwnedCell::Absent, OwnedCell::Time),
                _ => digits.parse().map_or(OwnedCell::Absent, OwnedCell::Integer),
            }
        }
        _ => OwnedCell::Absent,
    });
    cells.collect()
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// An error of the client library in one line.
fn fault(server: &str, error: &Error) -> ConnectError {
    let words = match error {
        Error::MySqlError(refusal) => format!("error {}: {}", refusal.code, refusal.message),
        other => other.to_string(),
    };
    ConnectError::of_server(server, &words)
}
