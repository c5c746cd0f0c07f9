//! A server's tables beside our own.
//!
//! For: every row of `positions` and `loot`, by HTTP. Not for: speed.
//!
//! A position has no number that both sides know, since numbers follow the order of uploads; a row
//! is the one of ours of the same member that has its mean, which the world keeps far from others.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use super::consolidated::{Consolidated, Position};
use super::sending::HttpConnection;

/// Degrees by which a mean may differ: sums of another order.
const MEAN_TOLERANCE: f64 = 1e-6;

/// How much was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Rows of `positions`.
    pub positions: usize,
    /// Rows of `loot`.
    pub loot: usize,
}

/// Reads the tables and compares them.
///
/// # Errors
///
/// The first difference.
pub fn compare(
    connection: &mut HttpConnection,
    expected: &Consolidated,
    has_loot: bool,
) -> Result<Checked, String> {
    let rows = rows(connection, "positions")?;
    compare_positions(&rows, expected)?;
    let mut checked = Checked { positions: rows.len(), loot: 0 };
    if has_loot && !expected.loot.is_empty() {
        let rows = self::rows(connection, "loot")?;
        compare_loot(&rows, expected)?;
        checked.loot = rows.len();
    }
    Ok(checked)
}

fn rows(connection: &mut HttpConnection, table: &str) -> Result<Vec<Json>, String> {
    let answer = connection.ask("GET", &format!("/v1/tables/{table}?format=ndjson"), b"")?;
    if answer.status != 200 {
        return Err(format!("table {table}: status {}", answer.status));
    }
    let lines = answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let rows = lines.map(|line| serde_json::from_slice(line).map_err(|error| error.to_string()));
    rows.collect()
}

fn compare_positions(rows: &[Json], expected: &Consolidated) -> Result<(), String> {
    let mut by_object: HashMap<u32, Vec<(u32, &Position)>> = HashMap::new();
    for ((object, point), position) in &expected.positions {
        by_object.entry(*object).or_default().push((*point, position));
    }
    let mut met = HashSet::new();
    for row in rows {
        let object = number_of(row, "member")?;
        let near = by_object.get(&object).into_iter().flatten().find(|(_, position)| {
            let mean = |sum: i64| sum as f64 / position.seen as f64 / 1e5;
            let is_near = |column: &str, sum: i64| {
                row[column].as_f64().is_some_and(|value| (value - mean(sum)).abs() < MEAN_TOLERANCE)
            };
            is_near("longitude", position.longitude_sum)
                && is_near("latitude", position.latitude_sum)
        });
        let Some((point, position)) = near else {
            return Err(format!("positions: no such position of ours: {row}"));
        };
        let same = row["seen"].as_u64() == Some(position.seen)
            && row["first_seen"].as_i64() == Some(position.first_seconds * 1_000)
            && row["last_seen"].as_i64() == Some(position.last_seconds * 1_000);
        if !same || !met.insert((object, *point)) {
            return Err(format!("positions: {row} where ours is {position:?}"));
        }
    }
    same_count("positions", rows.len(), expected.positions.len())
}

fn compare_loot(rows: &[Json], expected: &Consolidated) -> Result<(), String> {
    for row in rows {
        let key = (number_of(row, "member")?, number_of(row, "item")?);
        let Some(loot) = expected.loot.get(&key) else {
            return Err(format!("loot: nobody dropped {row}"));
        };
        let same = row["count"].as_u64() == Some(loot.count)
            && row["seen"].as_u64() == Some(loot.seen)
            && row["last_seen"].as_i64() == Some(loot.last_seconds * 1_000);
        if !same {
            return Err(format!("loot: {row} where ours is {loot:?}"));
        }
    }
    same_count("loot", rows.len(), expected.loot.len())
}

fn same_count(table: &str, found: usize, expected: usize) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{table}: {found} rows where ours has {expected}"))
}

fn number_of(row: &Json, column: &str) -> Result<u32, String> {
    let text = row[column].as_str().and_then(|text| text.parse().ok());
    text.ok_or_else(|| format!("no number as {column}: {row}"))
}
