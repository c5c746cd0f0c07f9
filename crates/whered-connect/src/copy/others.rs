//! The keys that are no sorted sets: how many of each type the copy leaves.
//!
//! Not for: sorted sets, each of which has its own report.
//!
//! Cost: none where the source has sorted sets only; otherwise one pass over its keys and a `TYPE`
//! for each, a page at a time. Memory: eight bytes a key that is left, since `SCAN` may give a key
//! twice.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use redis::Value;

use super::{KeyReport, Route, scan};
use crate::Server;
use crate::error::ConnectError;

/// Counts the keys of other types by type; none if the source refuses to tell.
///
/// # Errors
///
/// A connection that breaks.
pub(super) fn count(
    source: &mut Server,
    routes: &[Route],
    pattern: Option<&str>,
    sorted_sets: &[KeyReport],
) -> Result<Option<BTreeMap<String, u64>>, ConnectError> {
    let mut counts = BTreeMap::new();
    let counted = routes.iter().try_for_each(|(number, _)| {
        source.select(*number)?;
        let known = sorted_sets.iter().filter(|report| report.database == *number).count();
        let all: u64 = source.query(&redis::cmd("DBSIZE"))?;
        if all == known as u64 {
            return Ok(());
        }
        count_database(source, pattern, &mut counts)
    });
    match counted {
        Ok(()) => Ok(Some(counts)),
        Err(error) => error.unless_refusal().map(|()| None),
    }
}

fn count_database(
    source: &mut Server,
    pattern: Option<&str>,
    counts: &mut BTreeMap<String, u64>,
) -> Result<(), ConnectError> {
    let hasher = RandomState::new();
    let mut seen = HashSet::new();
    scan(source, None, pattern, &mut |source, page| {
        let mut packed = Vec::new();
        for key in &page {
            redis::cmd("TYPE").arg(key).write_packed_command(&mut packed);
        }
        source.send(&packed)?;
        // All replies are taken before an error is given.
        let mut taken = Ok(());
        for key in &page {
            let name = match source.receive() {
                Ok(Value::SimpleString(name)) => name,
                Ok(Value::BulkString(name)) => String::from_utf8_lossy(&name).into_owned(),
                Ok(_) => continue,
                Err(error) if error.is_refusal() => {
                    taken = Err(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            // A key may be gone by now.
            if name != "zset" && name != "none" && seen.insert(hasher.hash_one(key)) {
                *counts.entry(name).or_default() += 1;
            }
        }
        taken
    })
}
