//! The named prefix sets: live, changed by command, read by every door.
//!
//! ```text
//! RwLock<name -> RwLock<PrefixSet>>     a set stays when its last prefix goes: it is a named thing
//! ```
//!
//! Locks and journal order are as in `keyspace`: the map shared and the set exclusively for a
//! change; the map exclusively to make a set. Expired entries are invisible at once and are
//! forgotten a few at a time by later additions; the journal keeps absolute expiry times.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use whered_ip::{Prefix, PrefixSet};

use crate::clock;
use crate::error::WriteError;
use crate::log::{Log, Written};
use crate::operation::Operation;

/// How many expired entries one addition forgets at most.
const EXPIRED_PER_WRITE: usize = 64;

/// All prefix sets by name.
pub struct PrefixSets {
    sets: RwLock<BTreeMap<String, RwLock<PrefixSet>>>,
    log: Arc<Log>,
}

impl PrefixSets {
    pub(crate) fn new(log: Arc<Log>) -> PrefixSets {
        PrefixSets { sets: RwLock::default(), log }
    }

    /// The same sets, from now on kept in this log.
    pub(crate) fn with_log(self, log: &Arc<Log>) -> PrefixSets {
        PrefixSets { log: Arc::clone(log), ..self }
    }

    /// The names, sorted.
    pub fn names(&self) -> Vec<String> {
        self.sets.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// What all sets take. One shared lock for each.
    pub fn memory_bytes(&self) -> usize {
        let sets = self.sets.read().unwrap_or_else(PoisonError::into_inner);
        let of_set = |set: &RwLock<PrefixSet>| {
            set.read().unwrap_or_else(PoisonError::into_inner).memory_bytes()
        };
        sets.values().map(of_set).sum()
    }

    /// Reads a set under its shared lock; `None` when there is no such set.
    pub fn read<R>(&self, set: &str, read: impl FnOnce(&PrefixSet) -> R) -> Option<R> {
        let sets = self.sets.read().unwrap_or_else(PoisonError::into_inner);
        let set = sets.get(set)?.read().unwrap_or_else(PoisonError::into_inner);
        Some(read(&set))
    }

    /// Adds prefixes, all with the same value and expiry, and gives how many are new members.
    /// The set is made when it does not exist.
    ///
    /// # Errors
    /// [`WriteError`] when the journal has no room or has failed; then nothing was applied.
    pub fn add(
        &self,
        set: &str,
        prefixes: &[Prefix],
        value: Option<&[u8]>,
        expires_at_millis: Option<u64>,
    ) -> Result<Written<usize>, WriteError> {
        // The journal's 0 means "never": an expiry at the beginning of time is one later there.
        let expires_at_millis = expires_at_millis.map(|at| at.max(1));
        let operation = Operation::AddPrefixes {
            set,
            expires_at_millis,
            value,
            prefixes: Cow::Borrowed(prefixes),
        };
        let room = self.log.reserve(operation.size_bytes())?;
        self.make(set);
        self.change(set, |members| {
            let now = clock::now_millis();
            members.remove_expired(now, EXPIRED_PER_WRITE);
            let new = insert_all(members, prefixes, value, expires_at_millis, now);
            Written { value: new, ticket: room.append(&operation) }
        })
    }

    /// Removes prefixes and gives how many were members.
    ///
    /// # Errors
    /// As [`PrefixSets::add`], and `NoSuch` when there is no such set.
    pub fn remove(&self, set: &str, prefixes: &[Prefix]) -> Result<Written<usize>, WriteError> {
        let operation = Operation::RemovePrefixes { set, prefixes: Cow::Borrowed(prefixes) };
        let room = self.log.reserve(operation.size_bytes())?;
        self.change(set, |members| {
            let removed = remove_all(members, prefixes, clock::now_millis());
            let ticket = if removed == 0 { room.unused() } else { room.append(&operation) };
            Written { value: removed, ticket }
        })
    }

    /// Replays an operation at start; gives `false` when it is not one of ours.
    pub(crate) fn replay(&self, operation: &Operation<'_>) -> bool {
        let now = clock::now_millis();
        match operation {
            Operation::AddPrefixes { set, expires_at_millis, value, prefixes } => {
                self.make(set);
                let changed = self.change(set, |members| {
                    insert_all(members, prefixes, *value, *expires_at_millis, now)
                });
                changed.expect("the set was just made, and sets are never removed");
            }
            Operation::RemovePrefixes { set, prefixes } => {
                // Where there is no set there is nothing to remove, and that is no mistake.
                let _ = self.change(set, |members| remove_all(members, prefixes, now));
            }
            _ => return false,
        }
        true
    }

    fn make(&self, set: &str) {
        let known = self.sets.read().unwrap_or_else(PoisonError::into_inner).contains_key(set);
        if !known {
            let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
            sets.entry(set.to_owned()).or_insert_with(|| RwLock::new(PrefixSet::new()));
        }
    }

    fn change<R>(
        &self,
        set: &str,
        change: impl FnOnce(&mut PrefixSet) -> R,
    ) -> Result<R, WriteError> {
        let sets = self.sets.read().unwrap_or_else(PoisonError::into_inner);
        let Some(members) = sets.get(set) else {
            return Err(WriteError::NoSuch { what: "prefix set", name: set.to_owned() });
        };
        Ok(change(&mut members.write().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn insert_all(
    members: &mut PrefixSet,
    prefixes: &[Prefix],
    value: Option<&[u8]>,
    expires_at_millis: Option<u64>,
    now_millis: u64,
) -> usize {
    let mut insert =
        |prefix: &Prefix| members.insert(*prefix, value, expires_at_millis, now_millis);
    prefixes.iter().filter(|prefix| insert(prefix)).count()
}

fn remove_all(members: &mut PrefixSet, prefixes: &[Prefix], now_millis: u64) -> usize {
    prefixes.iter().filter(|prefix| members.remove(*prefix, now_millis)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaying_a_removal_from_a_set_that_does_not_exist_removes_nothing() {
        let sets = PrefixSets::new(Arc::new(Log::new(None, 0)));
        let prefixes: [Prefix; 1] = ["10.0.0.0/8".parse().unwrap()];
        let removal = Operation::RemovePrefixes { set: "s", prefixes: Cow::Borrowed(&prefixes) };
        assert!(sets.replay(&removal), "it is an operation of ours");
        assert!(sets.names().is_empty());
    }
}
