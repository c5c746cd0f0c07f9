//! One named set: the version that readers look in, and its one writer at a time.
//!
//! ```text
//! writer   lock ─> copy of the version (cheap) ─> change it ─> put in place ─> journal ─> unlock
//! fold     start: version s, from now on changes are noted ─┐
//!          compile s beside everybody                       │ changes c1 c2 c3 ...
//!          repeat c1 c2 ... upon it, the last few under the lock <┘ ─> put in place
//! ```
//!
//! For: versions and who may make them. Not for: when to fold (`fold`), how a version looks inside
//! (`whered_ip::LayeredSet`).
//!
//! Invariants: only who holds `writer` puts a version in place. A set that is deleted takes no
//! changes any more: a late writer makes a new one of that name. A writer that replaces the
//! compiled layer makes a fold under way worthless, which it notices by its notes: they are gone,
//! or another fold's.
//!
//! Cost: a change copies what `LayeredSet` says; a set with more changes than half of its members
//! is folded by its writer, so that a start or an engine without a background thread stays linear.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use whered_ip::{Block, LayeredSet, MemberCounts, MemberList};

use crate::clock;
use crate::sync;

/// With this many changes, and half of the members, a writer compacts by itself.
const PENDING_MAX: usize = 1 << 16;
/// A merge of this many members, and an eighth of those there, compiles anew.
const MERGED_AT_ONCE: usize = 1024;
/// At most this many noted changes are repeated under the lock.
const REPEATED_UNDER_LOCK: usize = 256;

#[derive(Default)]
pub(super) struct NamedSet {
    current: ArcSwap<LayeredSet>,
    writer: Mutex<Writer>,
}

#[derive(Default)]
struct Writer {
    /// What has changed since the fold with this number began, while one is under way.
    noted: Option<(u64, Vec<Noted>)>,
    folds_begun: u64,
    /// Since when changes wait for being folded.
    pending_since: Option<Instant>,
    last_compaction: Option<LastCompaction>,
    folds: u64,
    /// The set is known by its name no more.
    is_deleted: bool,
}

/// A set whose writers wait, to be deleted together with others.
pub(super) struct Deletion<'a> {
    writer: MutexGuard<'a, Writer>,
}

impl Deletion<'_> {
    /// No change comes any more.
    pub(super) fn finish(mut self) {
        self.writer.is_deleted = true;
    }
}

#[derive(Clone, Copy)]
struct LastCompaction {
    at: Instant,
    took: Duration,
}

enum Noted {
    Inserted(Block, Option<Arc<[u8]>>, Option<u64>),
    Removed(Block),
}

/// What a set is made of, and when it was folded last.
#[derive(Clone, Debug)]
pub struct SetInfo {
    /// Members that have not expired.
    pub live: usize,
    /// Members of each kind, expired ones included.
    pub counts: MemberCounts,
    /// Members that have expired and are still in memory.
    pub expired: usize,
    /// What the set takes.
    pub memory_bytes: usize,
    /// What the compiled form takes of that.
    pub compiled_bytes: usize,
    /// Which form that is and why, one line a family.
    pub form: String,
    /// Changes that are not compiled yet.
    pub pending: usize,
    /// How often changes were folded into the compiled form.
    pub folds: u64,
    /// How long ago that was the last time, and how long it took.
    pub last_compaction: Option<(Duration, Duration)>,
    /// The earliest and the latest expiry of compiled members, in milliseconds since 1970.
    pub expiry_bounds: Option<(u64, u64)>,
}

impl NamedSet {
    /// The version of this moment, for a short look.
    #[inline]
    pub(super) fn current(&self) -> Guard<Arc<LayeredSet>> {
        self.current.load()
    }

    /// The version of this moment, to be held.
    pub(super) fn version(&self) -> Arc<LayeredSet> {
        self.current.load_full()
    }

    /// Makes the next version, if `change` publishes one; gives `change` back when the set was
    /// deleted meanwhile.
    pub(super) fn change<R, F: FnOnce(&mut Change<'_>) -> R>(
        &self,
        now_millis: u64,
        change: F,
    ) -> Result<R, F> {
        let writer = self.writer();
        if writer.is_deleted {
            return Err(change);
        }
        let next = LayeredSet::clone(&self.current.load());
        Ok(change(&mut Change { set: self, writer, next, now_millis }))
    }

    /// Keeps writers out until the set is deleted.
    pub(super) fn begin_deletion(&self) -> Deletion<'_> {
        Deletion { writer: self.writer() }
    }

    pub(super) fn info(&self, now_millis: u64) -> SetInfo {
        let (folds, last_compaction) = {
            let writer = self.writer();
            (writer.folds, writer.last_compaction.map(|fold| (fold.at.elapsed(), fold.took)))
        };
        let current = self.version();
        let expired = current.expired_len(now_millis);
        SetInfo {
            live: current.len() - expired,
            counts: current.counts(),
            expired,
            memory_bytes: current.memory_bytes(),
            compiled_bytes: current.compiled().memory_bytes(),
            form: current.compiled().explain(),
            pending: current.pending_len(),
            folds,
            last_compaction,
            expiry_bounds: current.expiry_bounds(),
        }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        sync::lock(&self.writer)
    }

    /// Since when changes wait, how long the last fold took, and when it was.
    pub(super) fn waiting(&self) -> (Option<Duration>, Option<(Duration, Duration)>) {
        let writer = self.writer();
        let last = writer.last_compaction.map(|fold| (fold.at.elapsed(), fold.took));
        (writer.pending_since.map(|since| since.elapsed()), last)
    }

    /// Compiles the changes in while everybody goes on reading and writing; `false` when somebody
    /// else does that, or has replaced the set meanwhile.
    pub(super) fn compact(&self) -> bool {
        let (begin, number) = {
            let mut writer = self.writer();
            if writer.noted.is_some() {
                return false;
            }
            writer.folds_begun += 1;
            writer.noted = Some((writer.folds_begun, Vec::new()));
            (self.version(), writer.folds_begun)
        };
        let at = Instant::now();
        let now_millis = clock::now_millis();
        let mut folded = begin.fold(now_millis);
        loop {
            let mut writer = self.writer();
            let is_ours = |(of, _): &mut (u64, Vec<Noted>)| *of == number;
            let Some((_, noted)) = writer.noted.take_if(is_ours) else {
                return false;
            };
            if noted.len() > REPEATED_UNDER_LOCK {
                writer.noted = Some((number, Vec::new()));
                drop(writer);
                repeat(&mut folded, noted, now_millis);
                continue;
            }
            repeat(&mut folded, noted, now_millis);
            let took = at.elapsed();
            let is_pending = folded.pending_len() > 0;
            writer.pending_since = is_pending.then_some(at);
            writer.folds += 1;
            writer.last_compaction = Some(LastCompaction { at: Instant::now(), took });
            self.current.store(Arc::new(folded));
            return true;
        }
    }
}

fn repeat(set: &mut LayeredSet, noted: Vec<Noted>, now_millis: u64) {
    for noted in noted {
        match noted {
            Noted::Inserted(block, value, expires_at_millis) => {
                set.insert_shared(block, value, expires_at_millis, now_millis);
            }
            Noted::Removed(block) => drop(set.remove(block, now_millis)),
        }
    }
}

/// The next version of a set while it is being made; nobody else writes.
pub(super) struct Change<'a> {
    set: &'a NamedSet,
    writer: MutexGuard<'a, Writer>,
    next: LayeredSet,
    now_millis: u64,
}

impl Change<'_> {
    /// Adds members and gives how many are new.
    pub(super) fn insert_all(
        &mut self,
        blocks: &[Block],
        value: Option<&[u8]>,
        expires_at_millis: Option<u64>,
    ) -> usize {
        let value: Option<Arc<[u8]>> = value.map(Arc::from);
        let mut new = 0;
        for block in blocks {
            let shared = value.clone();
            new += usize::from(self.insert(*block, shared, expires_at_millis));
        }
        new
    }

    fn insert(
        &mut self,
        block: Block,
        value: Option<Arc<[u8]>>,
        expires_at_millis: Option<u64>,
    ) -> bool {
        if let Some((_, noted)) = &mut self.writer.noted {
            noted.push(Noted::Inserted(block, value.clone(), expires_at_millis));
        }
        self.next.insert_shared(block, value, expires_at_millis, self.now_millis)
    }

    /// Removes members and gives how many there were.
    pub(super) fn remove_all(&mut self, blocks: &[Block]) -> usize {
        let mut removed = 0;
        for block in blocks {
            if let Some((_, noted)) = &mut self.writer.noted {
                noted.push(Noted::Removed(*block));
            }
            removed += usize::from(self.next.remove(*block, self.now_millis));
        }
        removed
    }

    /// Puts a whole new set in the place of this one.
    pub(super) fn replace(&mut self, whole: LayeredSet) {
        self.writer.noted = None;
        self.next = whole;
    }

    /// Adds members with their own values and expiries.
    pub(super) fn merge(&mut self, members: &MemberList) {
        if members.len() >= MERGED_AT_ONCE + self.next.len() / 8 {
            let mut all = self.next.to_list(self.now_millis);
            all.append(members);
            self.replace(LayeredSet::build(all));
            return;
        }
        let attributes: Vec<_> = members.attributes().collect();
        let mut last: (u32, Option<Arc<[u8]>>) = (0, None);
        for (block, number) in members.iter() {
            let (value, expires_at_millis) = attributes[number as usize];
            if last.0 != number {
                last = (number, value.map(Arc::from));
            }
            self.insert(block, last.1.clone(), expires_at_millis);
        }
    }

    /// Puts the version in place for readers, then has it appended to the journal.
    pub(super) fn publish<T>(&mut self, append: impl FnOnce() -> T) -> T {
        let pending = self.next.pending_len();
        if pending >= PENDING_MAX && pending > self.next.len() / 2 {
            let whole = self.next.fold(self.now_millis);
            self.replace(whole);
        }
        if self.next.pending_len() == 0 {
            self.writer.pending_since = None;
        } else if self.writer.pending_since.is_none() {
            self.writer.pending_since = Some(Instant::now());
        }
        self.set.current.store(Arc::new(self.next.clone()));
        append()
    }
}
