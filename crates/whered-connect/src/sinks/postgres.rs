//! Rows into PostgreSQL.
//!
//! For: tables made and checked, COPY into a temporary table and `INSERT ... ON CONFLICT` from
//! there, the position row. Not for: deciding which rows, nor when.
//!
//! ```text
//! COPY whered_stage_0 FROM STDIN (FORMAT binary)   page by page
//! INSERT INTO t SELECT ... FROM whered_stage_0 ON CONFLICT (key) DO UPDATE SET ...
//! ```
//!
//! Invariants: a staged key stands once, since a pass sees each row once. The stage is emptied by
//! the commit. Cost: about 6 microseconds a row of six columns, nearly all of it the server's; see
//! `docs/guide/sinks.md`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, Config, Error, NoTls, Row};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::plan::{StorageType, TablePlan, check_others};
use super::target::Encryption;
use super::{Cell, Column, Database, Kind, OwnedCell, Page, PositionKey, Schema, copy_rows};
use crate::error::ConnectError;

/// Where systems keep the authorities that they trust.
const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// How long opening may take.
const OPENING: Duration = Duration::from_secs(10);
/// How long the server's system may leave what was sent unacknowledged.
const SILENCE: Duration = Duration::from_secs(60);
/// Bytes that go to the connection at once.
const PIECE_BYTES: usize = 1 << 18;
/// A row of a B-tree's page: a third of 8 KB, less its head and numbers in the key.
const KEY_BYTES_MAX: u64 = 2_500;
/// A value may take a gigabyte; nobody's upload does.
const TEXT_BYTES_MAX: u64 = 256 << 20;
/// What timestamps hold: from 4714 BC to the year 294276.
const CALENDAR: StorageType = StorageType::Calendar {
    smallest_millis: -209_920_118_400_000,
    largest_millis: 9_224_318_015_999_999,
};

pub(crate) fn connect(
    name: &str,
    config: &Config,
    encryption: &Encryption,
) -> Result<Box<dyn Database>, ConnectError> {
    let mut config = config.clone();
    config.connect_timeout(OPENING).application_name("whered");
    // A machine that has gone without a word is found out by its silence below the protocol.
    config.tcp_user_timeout(SILENCE).keepalives_idle(OPENING);
    config.keepalives_interval(OPENING).keepalives_retries(3);
    let client = if encryption.is_on {
        config.ssl_mode(postgres::config::SslMode::Require);
        config.connect(MakeRustlsConnect::new(tls(encryption)?))
    } else {
        config.ssl_mode(postgres::config::SslMode::Disable).connect(NoTls)
    };
    let mut client = client.map_err(|error| fault(name, &error))?;
    let encoding = client
        .batch_execute(
            "SET TimeZone = 'UTC'; SET lock_timeout = '60s'; SET statement_timeout = '10min'",
        )
        .and_then(|()| client.query_one("SELECT current_setting('server_encoding')", &[]))
        .and_then(|row| row.try_get::<_, String>(0))
        .map_err(|error| fault(name, &error))?;
    if encoding != "UTF8" {
        return Err(ConnectError::of_server(
            name,
            &format!("the database is in {encoding}; allowed: UTF8"),
        ));
    }
    Ok(Box::new(Postgres { client, name: name.to_owned(), staged: Vec::new() }))
}

/// What certificates are checked with.
fn tls(encryption: &Encryption) -> Result<rustls::ClientConfig, ConnectError> {
    let file = match &encryption.authorities {
        Some(file) => file.as_path(),
        None => {
            let there = AUTHORITIES.iter().map(Path::new).find(|file| file.exists());
            let none = || ConnectError::new("this system names no authorities; allowed: ca=FILE");
            there.ok_or_else(none)?
        }
    };
    let wrong = |why: String| ConnectError::new(format!("{}: {why}", file.display()));
    let mut roots = rustls::RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(file);
    for certificate in found.map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectError::new(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

struct Postgres {
    client: Client,
    name: String,
    /// Of each table its name, that of its stage, and what moves rows from there.
    staged: Vec<(String, String, String)>,
}

impl Database for Postgres {
    fn prepare(&mut self, schemas: &[Schema]) -> Result<Vec<TablePlan>, ConnectError> {
        self.run(
            "CREATE TABLE IF NOT EXISTS whered_positions (feed text NOT NULL, sink text NOT NULL, \
             life text NOT NULL, batch bigint NOT NULL, PRIMARY KEY (feed, sink))",
        )?;
        let mut plans = Vec::new();
        for schema in schemas {
            for name in schema.columns().map(|column| &column.name).chain([&schema.name]) {
                if name.len() > 63 {
                    return Err(self.wrong(&format!("the name {name} is longer than 63 bytes")));
                }
            }
            // Asked for before its columns: one that is made anew in between is found out by the
            // next look.
            let mut number = self.number_of(&schema.name)?;
            let mut found = self.columns(&schema.name)?;
            if found.is_empty() {
                self.run(&statement_to_make(schema))?;
                number = self.number_of(&schema.name)?;
                found = self.columns(&schema.name)?;
            }
            let ours = schema.columns().map(|column| column.name.as_str());
            let identity = identity_of(number, ours, &found);
            let wanting = found.iter().filter(|there| there.needs_value);
            let wanting = wanting.map(|there| there.name.as_str());
            check_others(schema, wanting, |ours, there| ours == there)
                .map_err(|what| self.wrong(&what))?;
            self.check_key(schema)?;
            let plan = TablePlan::new(schema, KEY_BYTES_MAX, identity, |column, is_key| {
                self.stored_as(&schema.name, column, is_key, &found)
            })?;
            let stage = format!("whered_stage_{}", plans.len());
            self.run(&stage_of(&plan, &stage))?;
            self.staged.push((plan.name.clone(), stage.clone(), upsert_from(&plan, &stage)));
            plans.push(plan);
        }
        Ok(plans)
    }

    fn position(&mut self, key: &PositionKey, lock: bool) -> Result<Option<u64>, ConnectError> {
        let statement = format!(
            "SELECT batch FROM whered_positions WHERE feed = $1 AND sink = $2 AND life = $3{}",
            if lock { " FOR UPDATE" } else { "" }
        );
        let found = self.client.query_opt(&statement, &[&key.feed, &key.sink, &key.life]);
        let batch = found.and_then(|row| row.map(|row| row.try_get::<_, i64>(0)).transpose());
        let batch = batch.map_err(|error| fault(&self.name, &error))?;
        Ok(batch.map(i64::cast_unsigned))
    }

    fn identity(&mut self, plan: &TablePlan) -> Result<String, ConnectError> {
        let number = self.number_of(&plan.name)?;
        let found = self.columns(&plan.name)?;
        let ours = plan.columns.iter().map(|column| column.name.as_str());
        Ok(identity_of(number, ours, &found))
    }

    fn begin(&mut self) -> Result<(), ConnectError> {
        self.run("BEGIN")
    }

    fn encode(&self, plan: &TablePlan, cells: &[Cell<'_>], into: &mut Vec<u8>) {
        copy_rows::encode(plan, cells, into);
    }

    fn row_bytes_max(&self) -> usize {
        1 << 29
    }

    fn write(&mut self, plan: &TablePlan, page: &Page) -> Result<(), ConnectError> {
        let (_, stage, _) = self.stage(plan);
        let statement = format!("COPY {stage} FROM STDIN (FORMAT binary)");
        let name = self.name.clone();
        let fail = |error: &Error| fault(&name, error);
        let mut writer = self.client.copy_in(&statement).map_err(|error| fail(&error))?;
        let mut send = || {
            writer.write_all(copy_rows::BEGIN)?;
            for (rows, _) in page.pieces(PIECE_BYTES) {
                writer.write_all(rows)?;
            }
            writer.write_all(copy_rows::END)
        };
        send().map_err(|error| ConnectError::of_server(&name, &error.to_string()))?;
        writer.finish().map(|_| ()).map_err(|error| fail(&error))
    }

    fn finish(&mut self, plan: &TablePlan) -> Result<(), ConnectError> {
        let (_, _, upsert) = self.stage(plan);
        let upsert = upsert.clone();
        self.run(&upsert)
    }

    fn commit(&mut self, key: &PositionKey, batch: u64) -> Result<(), ConnectError> {
        let written = self.client.execute(
            "INSERT INTO whered_positions (feed, sink, life, batch) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (feed, sink) DO UPDATE SET life = EXCLUDED.life, batch = EXCLUDED.batch",
            &[&key.feed, &key.sink, &key.life, &batch.cast_signed()],
        );
        written.map_err(|error| fault(&self.name, &error))?;
        self.run("COMMIT")
    }

    fn read(
        &mut self,
        plan: &TablePlan,
        each: &mut dyn FnMut(Vec<OwnedCell>) -> Result<(), ConnectError>,
    ) -> Result<(), ConnectError> {
        let columns = plan.columns.iter();
        let columns: Vec<String> =
            columns.map(|column| readable(column.kind, &column.stored, &column.name)).collect();
        let statement = format!("SELECT {} FROM {}", columns.join(", "), quoted(&plan.name));
        let name = self.name.clone();
        let none: [&str; 0] = [];
        let rows = self.client.query_raw(&statement, none);
        let mut rows = rows.map_err(|error| fault(&name, &error))?;
        while let Some(row) = rows.next().map_err(|error| fault(&name, &error))? {
            each(owned(plan, &row).map_err(|error| fault(&name, &error))?)?;
        }
        Ok(())
    }
}

/// What the server says of a column.
struct ExistingColumn {
    /// A column that is dropped and put back has another.
    number: i16,
    name: String,
    kind: String,
    modifier: i32,
    allows_null: bool,
    needs_value: bool,
}

impl Postgres {
    fn run(&mut self, statements: &str) -> Result<(), ConnectError> {
        self.client.batch_execute(statements).map_err(|error| fault(&self.name, &error))
    }

    fn wrong(&self, what: &str) -> ConnectError {
        ConnectError::of_server(&self.name, what)
    }

    fn stage(&self, plan: &TablePlan) -> &(String, String, String) {
        let staged = self.staged.iter().find(|(name, ..)| *name == plan.name);
        staged.expect("prepare() made the stage of each plan")
    }

    /// The number of a table, which one that is dropped and made again has not.
    fn number_of(&mut self, table: &str) -> Result<Option<i64>, ConnectError> {
        let found = self.client.query_one("SELECT to_regclass($1)::oid::bigint", &[&quoted(table)]);
        found.and_then(|row| row.try_get(0)).map_err(|error| fault(&self.name, &error))
    }

    fn columns(&mut self, table: &str) -> Result<Vec<ExistingColumn>, ConnectError> {
        let rows = self.client.query(
            "SELECT attname::text, format_type(atttypid, NULL), atttypmod, attnotnull, \
             atthasdef OR attidentity <> '', attnum FROM pg_attribute \
             WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            &[&quoted(table)],
        );
        let found = |row: &Row| -> Result<ExistingColumn, Error> {
            let is_not_null: bool = row.try_get(3)?;
            let is_given: bool = row.try_get(4)?;
            Ok(ExistingColumn {
                number: row.try_get(5)?,
                name: row.try_get(0)?,
                kind: row.try_get(1)?,
                modifier: row.try_get(2)?,
                allows_null: !is_not_null,
                needs_value: is_not_null && !is_given,
            })
        };
        let found = rows.and_then(|rows| rows.iter().map(found).collect());
        found.map_err(|error| fault(&self.name, &error))
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
        let Some(there) = found.iter().find(|there| there.name == *name) else {
            let kind = sql_type(column.kind);
            let what = format!("table {table} has no column {name}; allowed: one of type {kind}");
            return Err(self.wrong(&what));
        };
        let text = |characters_max| StorageType::Text {
            characters_max,
            bytes_max: TEXT_BYTES_MAX,
            largest: char::MAX,
            allows_nul: false,
        };
        let signed = |bits: u32| StorageType::Integer {
            smallest: -(1_i64 << (bits - 1)),
            largest: (1_i64 << (bits - 1)) - 1,
        };
        let stored = match (column.kind, there.kind.as_str()) {
            (Kind::Integer | Kind::Time, "bigint") => StorageType::ALL_INTEGERS,
            (Kind::Integer, "integer") => signed(32),
            (Kind::Integer, "smallint") => signed(16),
            (Kind::Number, "double precision") => StorageType::Double,
            (Kind::Text, "text") => text(u64::MAX),
            // The modifier counts its own four bytes.
            (Kind::Text, "character varying") => {
                text(u64::try_from(there.modifier - 4).unwrap_or(u64::MAX))
            }
            (Kind::Text, "bytea") => StorageType::Bytes { bytes_max: TEXT_BYTES_MAX },
            (Kind::Time, "timestamp with time zone" | "timestamp without time zone") => CALENDAR,
            _ => {
                let allowed = match column.kind {
                    Kind::Integer => "smallint, integer or bigint",
                    Kind::Number => "double precision",
                    Kind::Text => "text, character varying or bytea",
                    Kind::Time => "timestamp with or without time zone, or bigint",
                };
                return Err(self.wrong(&format!(
                    "column {name} of table {table} is {}; allowed: {allowed}",
                    there.kind
                )));
            }
        };
        Ok((stored, there.allows_null && !is_key))
    }

    /// Some unique index has exactly the key's columns.
    fn check_key(&mut self, schema: &Schema) -> Result<(), ConnectError> {
        let rows = self.client.query(
            "SELECT array_agg(a.attname::text ORDER BY a.attname::text COLLATE \"C\") FROM pg_index i \
             JOIN pg_attribute a ON a.attrelid = i.indrelid \
             AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) \
             WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid \
             AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL \
             GROUP BY i.indexrelid",
            &[&quoted(&schema.name)],
        );
        let indexes: Result<Vec<Vec<String>>, Error> =
            rows.and_then(|rows| rows.iter().map(|row| row.try_get(0)).collect());
        let indexes = indexes.map_err(|error| fault(&self.name, &error))?;
        let mut wanted: Vec<&str> = schema.key.iter().map(|column| column.name.as_str()).collect();
        let key = wanted.join(", ");
        wanted.sort_unstable();
        if indexes
            .iter()
            .any(|columns| columns.iter().map(String::as_str).eq(wanted.iter().copied()))
        {
            return Ok(());
        }
        Err(self.wrong(&format!(
            "table {} has no unique index of exactly the columns {key}; allowed: PRIMARY KEY ({key})",
            schema.name
        )))
    }
}

fn identity_of<'a>(
    number: Option<i64>,
    ours: impl Iterator<Item = &'a str>,
    found: &[ExistingColumn],
) -> String {
    let mut text = number.map_or("none".to_owned(), |number| number.to_string());
    for name in ours {
        let Some(there) = found.iter().find(|there| there.name == name) else { continue };
        let ExistingColumn { number, kind, modifier, allows_null, .. } = there;
        let null = if *allows_null { "" } else { " not null" };
        let _ = write!(text, ", {number} {name} {kind} {modifier}{null}");
    }
    text
}

fn sql_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer => "bigint",
        Kind::Number => "double precision",
        Kind::Text => "text",
        Kind::Time => "timestamp with time zone",
    }
}

fn statement_to_make(schema: &Schema) -> String {
    let mut columns = Vec::new();
    for (place, column) in schema.columns().enumerate() {
        // Bytes in order, whatever language the database is in.
        let collation = if column.kind == Kind::Text { " COLLATE \"C\"" } else { "" };
        let null = if place < schema.key.len() { " NOT NULL" } else { "" };
        let kind = sql_type(column.kind);
        columns.push(format!("{} {kind}{collation}{null}", quoted(&column.name)));
    }
    let key: Vec<String> = schema.key.iter().map(|column| quoted(&column.name)).collect();
    format!(
        "CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({}))",
        quoted(&schema.name),
        columns.join(", "),
        key.join(", ")
    )
}

fn stage_of(plan: &TablePlan, stage: &str) -> String {
    let columns = plan.columns.iter().map(|column| {
        let kind = match (&column.stored, column.kind) {
            (StorageType::Bytes { .. }, _) => "bytea",
            (StorageType::Integer { .. }, _) => "bigint",
            (_, kind) => sql_type(kind),
        };
        format!("{} {kind}", quoted(&column.name))
    });
    let columns: Vec<String> = columns.collect();
    format!("CREATE TEMPORARY TABLE {stage} ({}) ON COMMIT DELETE ROWS", columns.join(", "))
}

/// What moves the stage's rows into the table.
fn upsert_from(plan: &TablePlan, stage: &str) -> String {
    let columns: Vec<String> = plan.columns.iter().map(|column| quoted(&column.name)).collect();
    let columns = columns.join(", ");
    let key: Vec<String> = plan.names(true).map(quoted).collect();
    let set: Vec<String> =
        plan.names(false).map(|name| format!("{0} = EXCLUDED.{0}", quoted(name))).collect();
    let then = if set.is_empty() {
        "NOTHING".to_owned()
    } else {
        format!("UPDATE SET {}", set.join(", "))
    };
    format!(
        "INSERT INTO {} ({columns}) SELECT {columns} FROM {stage} ON CONFLICT ({}) DO {then}",
        quoted(&plan.name),
        key.join(", ")
    )
}

/// A column as [`owned`] reads it.
fn readable(kind: Kind, stored: &StorageType, name: &str) -> String {
    let name = quoted(name);
    match (kind, stored) {
        (Kind::Time, StorageType::Calendar { .. }) => format!(
            "CASE WHEN isfinite({name}) THEN floor(extract(epoch FROM {name}) * 1000)::bigint END"
        ),
        (Kind::Text, StorageType::Text { .. }) => format!("{name}::text"),
        (Kind::Text, _) => name,
        (Kind::Number, _) => format!("{name}::double precision"),
        (Kind::Integer | Kind::Time, _) => format!("{name}::bigint"),
    }
}

fn owned(plan: &TablePlan, row: &Row) -> Result<Vec<OwnedCell>, Error> {
    let cells = plan.columns.iter().enumerate().map(|(place, column)| {
        let cell = match (column.kind, &column.stored) {
            (Kind::Text, StorageType::Text { .. }) => row
                .try_get::<_, Option<String>>(place)?
                .map(|text| OwnedCell::Text(text.into_bytes())),
            (Kind::Text, _) => row.try_get::<_, Option<Vec<u8>>>(place)?.map(OwnedCell::Text),
            (Kind::Number, _) => row.try_get::<_, Option<f64>>(place)?.map(OwnedCell::Number),
            (Kind::Integer, _) => row.try_get::<_, Option<i64>>(place)?.map(OwnedCell::Integer),
            (Kind::Time, _) => row.try_get::<_, Option<i64>>(place)?.map(OwnedCell::Time),
        };
        Ok(cell.unwrap_or(OwnedCell::Absent))
    });
    cells.collect()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An error of the client library in one line.
fn fault(server: &str, error: &Error) -> ConnectError {
    ConnectError::of_server(server, &words(error))
}

/// What the server said, or what is wrong with the connection, with its cause.
pub(crate) fn words(error: &Error) -> String {
    if let Some(refusal) = error.as_db_error() {
        return format!("error {}: {}", refusal.code().code(), refusal.message());
    }
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let inner_words = inner.to_string();
        if !words.contains(&inner_words) {
            words.push_str(": ");
            words.push_str(&inner_words);
        }
        cause = inner.source();
    }
    words
}
