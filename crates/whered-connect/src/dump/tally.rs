//! Counts of an import of a dump, while it runs and at its end.
//!
//! For: the bar, the summary, and the line that a signal leaves behind.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use whered_replication::rdb::Kind;

/// Keys that are told one by one.
const REFUSED_SHOWN: usize = 20;

/// A key that is not in the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedKey {
    /// Its numbered database.
    pub database: u64,
    /// The key.
    pub key: Vec<u8>,
    /// Why not.
    pub why: String,
}

#[derive(Debug, Default)]
struct Counts {
    sorted_sets: u64,
    members: u64,
    strings: u64,
    expired: u64,
    left_out: u64,
    refused: u64,
    refused_keys: Vec<RefusedKey>,
    skipped: BTreeMap<Kind, u64>,
    /// The key that is being written.
    open: Option<(u64, Vec<u8>)>,
}

/// Counts of an import. They may be read while it runs.
#[derive(Debug, Default)]
pub struct DumpTally(Mutex<Counts>);

impl DumpTally {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keys that are whole in the target.
    #[must_use]
    pub fn written_keys(&self) -> u64 {
        let counts = self.counts();
        counts.sorted_sets + counts.strings
    }

    /// Sorted sets that are whole in the target.
    #[must_use]
    pub fn sorted_sets(&self) -> u64 {
        self.counts().sorted_sets
    }

    /// Members of these sorted sets.
    #[must_use]
    pub fn members(&self) -> u64 {
        self.counts().members
    }

    /// Strings in the target.
    #[must_use]
    pub fn strings(&self) -> u64 {
        self.counts().strings
    }

    /// Keys whose time was over.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.counts().expired
    }

    /// Keys that were not asked for.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.counts().left_out
    }

    /// Keys that are not in the target although they were asked for.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.counts().refused
    }

    /// The first of these.
    #[must_use]
    pub fn refused_keys(&self) -> Vec<RefusedKey> {
        self.counts().refused_keys.clone()
    }

    /// Keys of other types, by type.
    #[must_use]
    pub fn skipped(&self) -> BTreeMap<Kind, u64> {
        self.counts().skipped.clone()
    }

    /// The key that is being written, which is not whole yet.
    #[must_use]
    pub fn open_key(&self) -> Option<(u64, Vec<u8>)> {
        self.counts().open.clone()
    }

    pub(super) fn begin(&self, database: u64, key: &[u8]) {
        self.counts().open = Some((database, key.to_vec()));
    }

    pub(super) fn finish_sorted_set(&self, members: u64) {
        let mut counts = self.counts();
        counts.open = None;
        counts.sorted_sets += 1;
        counts.members += members;
    }

    pub(super) fn finish_text(&self) {
        let mut counts = self.counts();
        counts.open = None;
        counts.strings += 1;
    }

    pub(super) fn abandon(&self) {
        self.counts().open = None;
    }

    pub(super) fn expire(&self) {
        self.counts().expired += 1;
    }

    pub(super) fn leave_out(&self) {
        self.counts().left_out += 1;
    }

    pub(super) fn skip(&self, kind: Kind) {
        *self.counts().skipped.entry(kind).or_default() += 1;
    }

    pub(super) fn refuse(&self, database: u64, key: &[u8], why: String) {
        let mut counts = self.counts();
        counts.refused += 1;
        if counts.refused_keys.len() < REFUSED_SHOWN {
            counts.refused_keys.push(RefusedKey { database, key: key.to_vec(), why });
        }
    }
}

impl fmt::Display for DumpTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts();
        let Counts { sorted_sets, members, strings, .. } = &*counts;
        write!(
            f,
            "{sorted_sets} sorted sets with {members} members and {strings} strings written"
        )?;
        for (count, what) in [
            (counts.expired, "expired"),
            (counts.left_out, "not asked for"),
            (counts.refused, "not written"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}
