//! The named prefix sets: changed by command, read by every door without waiting.
//!
//! ```text
//! ArcSwap<name -> NamedSet>                a set stays when its last member goes: it is a named thing
//!                  ├─ ArcSwap<LayeredSet>  what readers look in: a compiled layer and the changes
//!                  └─ Mutex                one writer: next version ──> readers ──> journal
//! ```
//!
//! A change makes the next version of a set and puts it in place before its reply: readers never
//! wait, and a writer that was answered finds what it wrote. A background thread folds changes into
//! the compiled layer (`fold`); a load makes a whole new version beside the old one. Expired
//! members are invisible at once and go with the next fold; the journal keeps absolute expiry
//! times.
//!
//! Invariants: an operation is appended under the lock of the set's writer, so that the journal's
//! order is the order of versions. A load is one entry of the journal: all of it or nothing. A
//! deletion holds the writers of its sets until their names are gone.

mod algebra;
mod compaction;
mod set;
mod text;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use whered_ip::{Block, LayeredSet, MemberList, ShrinkLimit};

use crate::clock;
use crate::error::WriteError;
use crate::journal::log::{Log, Written};
use crate::journal::operation::Operation;
use crate::sync;
pub use algebra::SetOperation;
pub use set::SetInfo;
use set::{Change, Deletion, NamedSet};
pub use text::LoadOptions;
pub(crate) use text::read_members;

type Named = BTreeMap<String, Arc<NamedSet>>;

/// All prefix sets by name.
pub struct PrefixSets {
    sets: ArcSwap<Named>,
    /// Held by who makes a set.
    making: Mutex<()>,
    /// Some set may have to be folded.
    is_touched: AtomicBool,
    log: Arc<Log>,
}

/// The members of the set that is being read from a snapshot.
#[derive(Default)]
pub(crate) struct Restoring(Option<(String, MemberList)>);

impl PrefixSets {
    pub(crate) fn new(log: Arc<Log>) -> PrefixSets {
        let sets = ArcSwap::from_pointee(Named::new());
        PrefixSets { sets, making: Mutex::new(()), is_touched: AtomicBool::new(false), log }
    }

    /// These sets, from now on logged here.
    pub(crate) fn with_log(self, log: &Arc<Log>) -> PrefixSets {
        PrefixSets { log: Arc::clone(log), ..self }
    }

    /// The names, sorted.
    pub fn names(&self) -> Vec<String> {
        self.sets.load().keys().cloned().collect()
    }

    /// What all sets take.
    pub fn memory_bytes(&self) -> usize {
        self.sets.load().values().map(|set| set.current().memory_bytes()).sum()
    }

    /// Looks in a set as it is now; `None` when there is no such set. Never waits.
    #[inline]
    pub fn read<R>(&self, set: &str, read: impl FnOnce(&LayeredSet) -> R) -> Option<R> {
        let sets = self.sets.load();
        let current = sets.get(set)?.current();
        Some(read(&current))
    }

    /// A set as it is now, which stays so however long it is held.
    pub fn version(&self, set: &str) -> Option<Arc<LayeredSet>> {
        Some(self.sets.load().get(set)?.version())
    }

    /// Whether a set is still at this version; `None`: whether there is none.
    #[inline]
    pub(crate) fn is_at(&self, set: &str, version: Option<&Arc<LayeredSet>>) -> bool {
        let sets = self.sets.load();
        match (sets.get(set), version) {
            (Some(set), Some(version)) => Arc::ptr_eq(&set.current(), version),
            (None, None) => true,
            _ => false,
        }
    }

    /// What a set is made of and when it was folded.
    pub fn info(&self, set: &str) -> Option<SetInfo> {
        Some(self.sets.load().get(set)?.info(clock::now_millis()))
    }

    /// Adds prefixes and ranges, all with the same value and expiry, and gives how many are new
    /// members. The set is made when it does not exist.
    ///
    /// # Errors
    /// [`WriteError`] when the journal has no room or has failed; then nothing was applied.
    pub fn add<B: Into<Block> + Copy>(
        &self,
        set: &str,
        blocks: &[B],
        value: Option<&[u8]>,
        expires_at_millis: Option<u64>,
    ) -> Result<Written<usize>, WriteError> {
        // The journal's 0 means "never": an expiry at the beginning of time is one later there.
        let expires_at_millis = expires_at_millis.map(|at| at.max(1));
        let blocks: Vec<Block> = blocks.iter().map(|block| (*block).into()).collect();
        let operation = Operation::AddPrefixes {
            set,
            expires_at_millis,
            value,
            blocks: Cow::Borrowed(&blocks),
        };
        let (_guard, room) = self.log.enter(operation.size_bytes())?;
        let now_millis = clock::now_millis();
        Ok(self.change(set, now_millis, |change| {
            let new = change.insert_all(&blocks, value, expires_at_millis);
            self.touch();
            Written { value: new, ticket: change.publish(|| room.append(&operation)) }
        }))
    }

    /// Removes prefixes and ranges and gives how many were members.
    ///
    /// # Errors
    /// As [`PrefixSets::add`], and `NoSuch` when there is no such set.
    pub fn remove<B: Into<Block> + Copy>(
        &self,
        set: &str,
        blocks: &[B],
    ) -> Result<Written<usize>, WriteError> {
        let blocks: Vec<Block> = blocks.iter().map(|block| (*block).into()).collect();
        let operation = Operation::RemovePrefixes { set, blocks: Cow::Borrowed(&blocks) };
        let (_guard, room) = self.log.enter(operation.size_bytes())?;
        let now_millis = clock::now_millis();
        let named = self.existing(set)?;
        let removed = named.change(now_millis, |change| {
            let removed = change.remove_all(&blocks);
            self.touch();
            if removed == 0 {
                // Perhaps expired members went, which nobody could see.
                return Written { value: 0, ticket: change.publish(|| room.unused()) };
            }
            Written { value: removed, ticket: change.publish(|| room.append(&operation)) }
        });
        removed.map_err(|_deleted| no_such(set))
    }

    /// Deletes sets, their names too, and gives how many there were. Expired members are no matter.
    ///
    /// # Errors
    /// As [`PrefixSets::add`].
    pub fn delete(&self, sets: &[&str]) -> Result<Written<usize>, WriteError> {
        let operation = Operation::DeleteSets { sets: Cow::Borrowed(sets) };
        let (_guard, room) = self.log.enter(operation.size_bytes())?;
        Ok(self.delete_with(sets, |count| {
            let ticket = if count == 0 { room.unused() } else { room.append(&operation) };
            Written { value: count, ticket }
        }))
    }

    /// Deletes sets while their writers wait; `append` gets how many there were.
    fn delete_with<T>(&self, sets: &[&str], append: impl FnOnce(usize) -> T) -> T {
        let _making = sync::lock(&self.making);
        let known = self.sets.load_full();
        // In the order of their names, each once.
        let deleted = known.iter().filter(|(name, _)| sets.contains(&name.as_str()));
        let deletions: Vec<_> = deleted.map(|(_, set)| set.begin_deletion()).collect();
        if deletions.is_empty() {
            return append(0);
        }
        let mut left = Named::clone(&known);
        sets.iter().for_each(|name| drop(left.remove(*name)));
        self.sets.store(Arc::new(left));
        let appended = append(deletions.len());
        deletions.into_iter().for_each(Deletion::finish);
        appended
    }

    /// Puts members into a set, or into the place of all that it had, in one step: at every moment
    /// readers find the old members or the new ones. Gives how many members the list has.
    ///
    /// # Errors
    /// As [`PrefixSets::add`], and `TooLarge` for more than a journal entry holds (some 90 million
    /// IPv4 members).
    pub fn load(
        &self,
        set: &str,
        members: MemberList,
        replaces: bool,
    ) -> Result<Written<usize>, WriteError> {
        self.put(set, ReadyMembers::new(members, replaces))
    }

    /// As [`PrefixSets::load`], of members that were made ready before.
    ///
    /// # Errors
    /// As [`PrefixSets::load`].
    pub fn put(&self, set: &str, ready: ReadyMembers) -> Result<Written<usize>, WriteError> {
        let ReadyMembers { members, whole, limit, .. } = ready;
        let replaces = whole.is_some();
        if replaces {
            self.check_shrinking(set, members.len(), limit).map_err(WriteError::Refused)?;
        }
        let operation = Operation::LoadMembers { set, replaces, members: Cow::Borrowed(&members) };
        let (_guard, room) = self.log.enter(operation.size_bytes())?;
        Ok(self.change(set, clock::now_millis(), |change| {
            match whole {
                Some(whole) => change.replace(whole),
                None => change.merge(&members),
            }
            self.touch();
            Written { value: members.len(), ticket: change.publish(|| room.append(&operation)) }
        }))
    }

    /// Whether this many members may take the place of those that a set has now.
    ///
    /// # Errors
    /// What was found, and the set.
    pub(crate) fn check_shrinking(
        &self,
        set: &str,
        new: usize,
        limit: ShrinkLimit,
    ) -> Result<(), String> {
        let now_millis = clock::now_millis();
        let held = self.read(set, |members| members.live_len(now_millis)).unwrap_or(0);
        limit.check(held, new).map_err(|found| format!("set '{set}': {found}"))
    }

    /// As [`PrefixSets::load`], with members in order; `append` sees to the journal while nobody
    /// else changes the set.
    pub(crate) fn load_with<T>(
        &self,
        set: &str,
        members: &MemberList,
        replaces: bool,
        append: impl FnOnce() -> T,
    ) -> T {
        let whole = replaces.then(|| LayeredSet::of_sorted(members));
        self.change(set, clock::now_millis(), |change| {
            match whole {
                Some(whole) => change.replace(whole),
                None => change.merge(members),
            }
            self.touch();
            change.publish(append)
        })
    }

    /// Replays an operation at start; gives `false` when it is not one of ours.
    pub(crate) fn replay(&self, operation: &Operation<'_>) -> bool {
        let now_millis = clock::now_millis();
        match operation {
            Operation::AddPrefixes { set, expires_at_millis, value, blocks } => {
                self.change(set, now_millis, |change| {
                    change.insert_all(blocks, *value, *expires_at_millis);
                    change.publish(|| ());
                });
            }
            Operation::RemovePrefixes { set, blocks } => {
                // Where there is no set there is nothing to remove, and that is no mistake.
                if let Ok(named) = self.existing(set) {
                    // A set that was deleted meanwhile has nothing to remove either.
                    let _deleted = named.change(now_millis, |change| {
                        change.remove_all(blocks);
                        change.publish(|| ());
                    });
                }
            }
            Operation::DeleteSets { sets } => self.delete_with(sets, drop),
            Operation::LoadMembers { set, replaces, members } => {
                let mut members = Cow::clone(members);
                if !members.is_sorted() {
                    members.to_mut().sort();
                }
                self.change(set, now_millis, |change| {
                    if *replaces {
                        change.replace(LayeredSet::of_sorted(&members));
                    } else {
                        change.merge(&members);
                    }
                    change.publish(|| ());
                });
            }
            _ => return false,
        }
        self.touch();
        true
    }

    /// As [`PrefixSets::replay`], for what a snapshot has: the members of a set, which stand there
    /// one piece after the other, are compiled once. The last set is finished by
    /// `finish_restoring`.
    pub(crate) fn restore(&self, restoring: &mut Restoring, operation: &Operation<'_>) -> bool {
        let Operation::LoadMembers { set, replaces: false, members } = operation else {
            self.finish_restoring(restoring);
            return self.replay(operation);
        };
        match &mut restoring.0 {
            Some((name, all)) if name == set => all.append(members),
            _ => {
                self.finish_restoring(restoring);
                restoring.0 = Some(((*set).to_owned(), MemberList::clone(members)));
            }
        }
        true
    }

    /// Puts the set that was collected last.
    pub(crate) fn finish_restoring(&self, restoring: &mut Restoring) {
        if let Some((set, members)) = restoring.0.take() {
            let members = Cow::Owned(members);
            self.replay(&Operation::LoadMembers { set: &set, replaces: false, members });
        }
    }

    fn touch(&self) {
        self.is_touched.store(true, Ordering::Release);
    }

    fn existing(&self, set: &str) -> Result<Arc<NamedSet>, WriteError> {
        let found = self.sets.load().get(set).map(Arc::clone);
        found.ok_or_else(|| no_such(set))
    }

    /// Changes a set, which is made when it does not exist.
    fn change<R>(
        &self,
        set: &str,
        now_millis: u64,
        mut change: impl FnOnce(&mut Change<'_>) -> R,
    ) -> R {
        loop {
            // One that is deleted right now has lost its name when it tells so: the next is new.
            match self.make(set).change(now_millis, change) {
                Ok(changed) => return changed,
                Err(unchanged) => change = unchanged,
            }
        }
    }

    fn make(&self, set: &str) -> Arc<NamedSet> {
        if let Some(known) = self.sets.load().get(set) {
            return Arc::clone(known);
        }
        let _making = sync::lock(&self.making);
        let mut sets = Named::clone(&self.sets.load());
        let made = Arc::clone(sets.entry(set.to_owned()).or_default());
        self.sets.store(Arc::new(sets));
        made
    }
}

fn no_such(set: &str) -> WriteError {
    WriteError::NoSuch { what: "prefix set", name: set.to_owned() }
}

/// Members in order, and compiled where they are to take the place of all that a set has: what
/// takes long of [`PrefixSets::load`], done beside the sets.
pub struct ReadyMembers {
    members: MemberList,
    /// The whole set, if they take its place.
    whole: Option<LayeredSet>,
    /// How much smaller it may be than what it takes the place of.
    limit: ShrinkLimit,
    /// What is doubtful about the text that they come from.
    remark: Option<String>,
}

impl ReadyMembers {
    /// Puts them in order, and compiles them if they replace others.
    pub fn new(mut members: MemberList, replaces: bool) -> ReadyMembers {
        members.sort();
        let whole = replaces.then(|| LayeredSet::of_sorted(&members));
        ReadyMembers { members, whole, limit: ShrinkLimit::NONE, remark: None }
    }

    /// These members, to be refused when they are far fewer than those that they replace.
    #[must_use]
    pub fn limited(self, limit: ShrinkLimit) -> ReadyMembers {
        ReadyMembers { limit, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_set_is_gone_with_its_name_and_a_later_one_begins_empty() {
        let sets = PrefixSets::new(Arc::new(Log::new(None, 0)));
        let blocks: [Block; 1] = ["10.0.0.0/8".parse().unwrap()];
        for name in ["a", "b", "c"] {
            sets.add(name, &blocks, None, None).unwrap();
        }
        let version = sets.version("a").unwrap();
        assert_eq!(sets.delete(&["a", "none", "c", "a"]).unwrap().value, 2);
        assert_eq!(sets.names(), ["b"]);
        assert!(sets.read("a", |_| ()).is_none());
        assert!(!sets.is_at("a", Some(&version)), "WATCH notices");
        assert_eq!(version.len(), 1, "who holds a version keeps it");
        assert_eq!(sets.delete(&["a"]).unwrap().value, 0);
        let other: [Block; 1] = ["192.0.2.0/24".parse().unwrap()];
        sets.add("a", &other, None, None).unwrap();
        assert_eq!(sets.read("a", LayeredSet::len), Some(1));
        let deletion = Operation::DeleteSets { sets: vec!["a", "b"].into() };
        assert!(sets.replay(&deletion));
        assert!(sets.names().is_empty());
    }

    #[test]
    fn no_member_is_lost_between_a_deletion_and_an_addition() {
        let sets = PrefixSets::new(Arc::new(Log::new(None, 0)));
        let block: Block = "10.0.0.0/8".parse().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        sets.add("s", &[block], None, None).unwrap();
                    }
                });
            }
            scope.spawn(|| (0..2000).for_each(|_| drop(sets.delete(&["s"]))));
        });
        // What is added after the last deletion is there; before it, the set is gone or has it.
        sets.add("s", &[block], None, None).unwrap();
        assert_eq!(sets.read("s", LayeredSet::len), Some(1));
    }

    #[test]
    fn replaying_a_removal_from_a_set_that_does_not_exist_removes_nothing() {
        let sets = PrefixSets::new(Arc::new(Log::new(None, 0)));
        let blocks: [Block; 1] = ["10.0.0.0/8".parse().unwrap()];
        let removal = Operation::RemovePrefixes { set: "s", blocks: Cow::Borrowed(&blocks) };
        assert!(sets.replay(&removal), "it is an operation of ours");
        assert!(sets.names().is_empty());
    }
}
