//! The compiled rules of one address family, and the rules inserted and deleted since.
//!
//! For: [`Live`], an immutable snapshot; a change makes the next one, and readers keep theirs. Not
//! for: sharing it among threads (the owner swaps a pointer), nor for compiling in the
//! background ([`super::plan::Planner`]; [`Live::adopt`] takes what came of it).
//!
//! ```text
//! slots   0 ........ n-1 | n ....... n+k-1
//!         base, compiled | overlay: inserted rules in their order, compiled anew at each change
//!         deleted: a bit each  before: the base slot that each of them comes before
//! packet ─► base ─► deleted? ─► tuple space over the base, without deleted rules
//!        └► overlay ─► comes before the base's answer? ─► it wins
//! ```
//!
//! Invariants: `before` rises along the overlay; a deleted slot is never an answer; the base's
//! graphs drop rules that an earlier one hides, which is right until that one is deleted, and then
//! its packets, which find it first, are answered by the tuple space, which drops none.
//!
//! Costs: an insertion compiles the overlay, some microseconds a rule of it; a deletion copies a
//! bit a rule. A lookup pays for the overlay only if there is one, and for deletions only if there
//! are any.

use super::boxes::Boxes;
use super::compiled::{AnyPacket, Compiled, Form, Matched};
use super::lazy::{self, LazyFields};
use super::plan::{Candidate, Split, experiment};
use super::rule::{Family, Field, NO_RULE, Rule, RuleError, Rules, normalise};
use super::tuples::Tuples;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A rule's name for life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u64);

/// Why a change was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// There is no such rule.
    Unknown(RuleId),
    /// There is a rule of that name already.
    Taken(RuleId),
    /// The rule's conditions are at fault.
    Rule(RuleError),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Unknown(id) => write!(f, "no rule {}", id.0),
            ChangeError::Taken(id) => write!(f, "there is a rule {} already", id.0),
            ChangeError::Rule(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ChangeError {}

/// The base as it was compiled.
#[derive(Debug)]
struct Base {
    compiled: Arc<Compiled>,
    /// The base's rules as tuple space, for rules that deletions uncover.
    whole: Arc<Compiled>,
    ids: Arc<[RuleId]>,
}

/// A rule inserted since.
#[derive(Clone, Debug)]
struct InsertedRule {
    id: RuleId,
    before: u32,
    rule: Rule,
}

/// A ruleset as it is now.
#[derive(Clone, Debug)]
pub struct Live {
    base: Arc<Base>,
    deleted: Option<Arc<[u64]>>,
    inserted: Arc<[InsertedRule]>,
    overlay: Option<Arc<Compiled>>,
}

/// The rules of a [`Live`] in order, to be compiled in the background.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The rules.
    pub rules: Rules,
    /// Their names.
    pub ids: Vec<RuleId>,
}

impl Live {
    /// Starts from a compiled ruleset and the names of its rules, which must differ.
    ///
    /// # Panics
    ///
    /// When there are not as many names as rules.
    pub fn new(compiled: Arc<Compiled>, ids: Vec<RuleId>) -> Live {
        assert_eq!(ids.len(), compiled.rules().list().len(), "a name for each rule");
        let rules = compiled.rules().clone();
        let boxes = Boxes::of(&rules);
        let whole = Arc::new(Compiled::new(rules, &boxes, Form::Tuples(Tuples::build(&boxes))));
        let base = Arc::new(Base { compiled, whole, ids: ids.into() });
        Live { base, deleted: None, inserted: Arc::new([]), overlay: None }
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.base.compiled.rules().family()
    }

    /// The form that most packets are answered by.
    pub fn compiled(&self) -> &Arc<Compiled> {
        &self.base.compiled
    }

    /// Rules inserted and deleted since the last compilation: time to compile when they are many.
    pub fn changes(&self) -> usize {
        let deleted = self.deleted.iter().flat_map(|deleted| deleted.iter());
        self.inserted.len() + deleted.map(|word| word.count_ones() as usize).sum::<usize>()
    }

    /// How many slots there are: counters of hits need that many.
    pub fn slots(&self) -> usize {
        self.base.ids.len() + self.inserted.len()
    }

    /// The name of the rule in a slot, as lookups of this snapshot give them.
    pub fn id(&self, slot: u32) -> Option<RuleId> {
        let slot = slot as usize;
        let count = self.base.ids.len();
        match slot.checked_sub(count) {
            None => Some(self.base.ids[slot]),
            Some(place) => self.inserted.get(place).map(|one| one.id),
        }
    }

    /// The rule in a slot.
    pub fn rule(&self, slot: u32) -> Option<&Rule> {
        let list = self.base.compiled.rules().list();
        match (slot as usize).checked_sub(list.len()) {
            None => Some(&list[slot as usize]),
            Some(place) => self.inserted.get(place).map(|one| &one.rule),
        }
    }

    /// With a rule more, before another one or at the end.
    ///
    /// # Errors
    ///
    /// See [`ChangeError`].
    pub fn insert(
        &self,
        id: RuleId,
        mut rule: Rule,
        before: Option<RuleId>,
    ) -> Result<Live, ChangeError> {
        let fault =
            |(field, kind): (Field, &'static str)| RuleError::new(self.slots(), field, kind);
        normalise(&mut rule, self.family()).map_err(|error| ChangeError::Rule(fault(error)))?;
        if self.slot_of(id).is_some() {
            return Err(ChangeError::Taken(id));
        }
        let count = self.base.ids.len();
        let end = (self.inserted.len(), count as u32);
        let (place, before) = match before {
            None => end,
            Some(other) => match self.slot_of(other).ok_or(ChangeError::Unknown(other))? {
                slot if slot < count => {
                    let before = slot as u32;
                    (self.inserted.partition_point(|one| one.before <= before), before)
                }
                slot => (slot - count, self.inserted[slot - count].before),
            },
        };
        let mut inserted = self.inserted.to_vec();
        inserted.insert(place, InsertedRule { id, before, rule });
        Ok(self.with(inserted))
    }

    /// Without a rule.
    ///
    /// # Errors
    ///
    /// There is no such rule.
    pub fn delete(&self, id: RuleId) -> Result<Live, ChangeError> {
        let slot = self.slot_of(id).ok_or(ChangeError::Unknown(id))?;
        if let Some(place) = slot.checked_sub(self.base.ids.len()) {
            let mut inserted = self.inserted.to_vec();
            inserted.remove(place);
            return Ok(self.with(inserted));
        }
        let words = self.base.ids.len().div_ceil(64);
        let mut deleted =
            self.deleted.as_ref().map_or_else(|| vec![0; words], |deleted| deleted.to_vec());
        deleted[slot / 64] |= 1 << (slot % 64);
        Ok(Live { deleted: Some(deleted.into()), ..self.clone() })
    }

    /// The ruleset with these slots of the base deleted, and no others.
    ///
    /// # Panics
    ///
    /// When the base has no such slot.
    pub fn with_deleted(&self, slots: impl IntoIterator<Item = u32>) -> Live {
        let mut deleted = vec![0; self.base.ids.len().div_ceil(64)];
        for slot in slots {
            deleted[slot as usize / 64] |= 1 << (slot % 64);
        }
        let any = deleted.iter().any(|&word| word != 0);
        Live { deleted: any.then(|| deleted.into()), ..self.clone() }
    }

    /// With these rules inserted, and no others: each with the base slot that it comes before, in
    /// their order. Costs the compilation of the overlay.
    ///
    /// # Errors
    ///
    /// A rule's conditions are at fault.
    ///
    /// # Panics
    ///
    /// When the slots fall.
    pub fn with_inserted(&self, rules: Vec<(RuleId, u32, Rule)>) -> Result<Live, ChangeError> {
        assert!(rules.is_sorted_by_key(|one| one.1), "inserted rules in their order");
        let mut inserted = Vec::with_capacity(rules.len());
        for (id, before, mut rule) in rules {
            normalise(&mut rule, self.family()).map_err(|(field, kind)| {
                ChangeError::Rule(RuleError::new(inserted.len(), field, kind))
            })?;
            inserted.push(InsertedRule { id, before, rule });
        }
        Ok(self.with(inserted))
    }

    /// The ruleset with another form of the base, compiled from the same rules.
    ///
    /// # Panics
    ///
    /// When it has another number of rules.
    pub fn with_form(&self, compiled: Arc<Compiled>) -> Live {
        assert_eq!(self.base.ids.len(), compiled.rules().list().len(), "the same rules");
        let Base { whole, ids, .. } = &*self.base;
        let base = Base { compiled, whole: Arc::clone(whole), ids: Arc::clone(ids) };
        Live { base: Arc::new(base), ..self.clone() }
    }

    /// The bytes of the forms: the base's, the one for rules that deletions uncover, the overlay's.
    pub fn memory_bytes(&self) -> usize {
        let overlay = self.overlay.as_ref().map_or(0, |overlay| overlay.memory_bytes());
        self.base.compiled.memory_bytes() + self.base.whole.memory_bytes() + overlay
    }

    /// The rules as they are, in order.
    pub fn snapshot(&self) -> Snapshot {
        let mut ids = Vec::new();
        let mut rules = Vec::new();
        for slot in self.order() {
            ids.extend(self.id(slot));
            rules.extend(self.rule(slot).cloned());
        }
        Snapshot { rules: Rules::checked(self.family(), rules), ids }
    }

    /// The ruleset on a newer base: what was compiled from a [`Snapshot`] of this or an earlier
    /// state. Changes made since the snapshot stay in the overlay.
    pub fn adopt(&self, compiled: Arc<Compiled>, ids: Vec<RuleId>) -> Live {
        let next = Live::new(compiled, ids);
        let places: HashMap<RuleId, usize> =
            next.base.ids.iter().enumerate().map(|(place, &id)| (id, place)).collect();
        let count = next.base.ids.len();
        let mut deleted = vec![u64::MAX; count.div_ceil(64)];
        let mut inserted = Vec::new();
        let mut before = 0;
        for slot in self.order() {
            let (Some(id), Some(rule)) = (self.id(slot), self.rule(slot)) else { continue };
            match places.get(&id) {
                Some(&place) => {
                    deleted[place / 64] &= !(1 << (place % 64));
                    before = place as u32 + 1;
                }
                None => inserted.push(InsertedRule { id, before, rule: rule.clone() }),
            }
        }
        if !count.is_multiple_of(64) {
            deleted[count / 64] &= (1 << (count % 64)) - 1;
        }
        let any = deleted.iter().any(|&word| word != 0);
        let live = Live { deleted: any.then(|| deleted.into()), ..next };
        live.with(inserted)
    }

    /// The slots in the order of their rules, without deleted ones.
    fn order(&self) -> Vec<u32> {
        let count = self.base.ids.len() as u32;
        let mut order = Vec::with_capacity(self.slots());
        let mut next = 0;
        for slot in 0..=count {
            while self.inserted.get(next).is_some_and(|one| one.before <= slot) {
                order.push(count + next as u32);
                next += 1;
            }
            if slot < count && !self.is_deleted(slot) {
                order.push(slot);
            }
        }
        order
    }

    /// The slot of a living rule.
    fn slot_of(&self, id: RuleId) -> Option<usize> {
        let base = self.base.ids.iter().position(|&one| one == id);
        let base = base.filter(|&slot| !self.is_deleted(slot as u32));
        base.or_else(|| {
            let place = self.inserted.iter().position(|one| one.id == id)?;
            Some(self.base.ids.len() + place)
        })
    }

    /// This with other inserted rules.
    fn with(&self, inserted: Vec<InsertedRule>) -> Live {
        let overlay = if inserted.is_empty() {
            None
        } else {
            let rules = inserted.iter().map(|one| one.rule.clone()).collect();
            Some(compile_overlay(&Arc::new(Rules::checked(self.family(), rules))))
        };
        Live { inserted: inserted.into(), overlay, ..self.clone() }
    }

    /// Whether a base slot's rule was deleted.
    #[inline(always)]
    fn is_deleted(&self, slot: u32) -> bool {
        let bit = |deleted: &Arc<[u64]>| deleted[slot as usize / 64] >> (slot % 64) & 1 != 0;
        self.deleted.as_ref().is_some_and(bit)
    }

    /// Whether an inserted rule comes before the answer of the base.
    #[inline(always)]
    fn wins(&self, place: u32, base: u32) -> bool {
        place != NO_RULE && (base == NO_RULE || self.inserted[place as usize].before <= base)
    }

    /// The slot of the first terminal rule that matches; slots of rules that match before it are
    /// put behind what is in `matched`, in order. Lazy fields are zeros.
    ///
    /// # Panics
    ///
    /// When the packet is of the other family than the rules.
    pub fn find<A: AnyPacket>(&self, packet: &A, matched: &mut Vec<u32>) -> Option<u32> {
        self.find_lazy(packet, lazy::none, matched)
    }

    /// Like [`find`](Self::find); `lazy` computes the lazy fields of packet 0.
    ///
    /// # Panics
    ///
    /// When the packet is of the other family than the rules.
    pub fn find_lazy<A: AnyPacket>(
        &self,
        packet: &A,
        lazy: impl LazyFields,
        matched: &mut Vec<u32>,
    ) -> Option<u32> {
        let from = matched.len();
        let mut base = self.base.compiled.find_lazy(packet, lazy, matched).unwrap_or(NO_RULE);
        if let Some(deleted) = &self.deleted {
            if base != NO_RULE && self.is_deleted(base) {
                matched.truncate(from);
                base =
                    self.base.whole.find_alive(packet, lazy, deleted, matched).unwrap_or(NO_RULE);
            } else {
                self.drop_deleted(matched, from);
            }
        }
        let mut answer = base;
        if let Some(overlay) = &self.overlay {
            let mut above = Vec::new();
            let place = overlay.find_lazy(packet, lazy, &mut above).unwrap_or(NO_RULE);
            if self.wins(place, base) {
                answer = self.base.ids.len() as u32 + place;
            }
            if !above.is_empty() || matched.len() > from {
                self.merge_met(from, matched, &above, answer);
            }
        }
        (answer != NO_RULE).then_some(answer)
    }

    /// Like [`find`](Self::find), for many packets: `answers` gets slots or [`NO_RULE`]; `matched`
    /// loses its old contents. Lazy fields are zeros.
    ///
    /// # Panics
    ///
    /// When the packets are of the other family than the rules, or `answers` is of another length.
    pub fn find_batch<A: AnyPacket>(
        &self,
        packets: &[A],
        answers: &mut [u32],
        matched: &mut Matched,
    ) {
        self.find_batch_lazy(packets, lazy::none, answers, matched);
    }

    /// Like [`find_batch`](Self::find_batch); `lazy` computes the lazy fields of a packet, by its
    /// index.
    ///
    /// # Panics
    ///
    /// When the packets are of the other family than the rules, or `answers` is of another length.
    pub fn find_batch_lazy<A: AnyPacket>(
        &self,
        packets: &[A],
        lazy: impl LazyFields,
        answers: &mut [u32],
        matched: &mut Matched,
    ) {
        self.base.compiled.find_batch_lazy(packets, lazy, answers, matched);
        if self.deleted.is_none() && self.overlay.is_none() {
            return;
        }
        // Rules that do not end the search make the merge long: those packets go one at a time.
        if self.base.compiled.has_non_terminal()
            || self.overlay.as_ref().is_some_and(|o| o.has_non_terminal())
        {
            matched.pairs.clear();
            let mut slots = Vec::new();
            for (place, (packet, answer)) in packets.iter().zip(answers).enumerate() {
                slots.clear();
                let lazy = |_| lazy(place);
                *answer = self.find_lazy(packet, lazy, &mut slots).unwrap_or(NO_RULE);
                matched.pairs.extend(slots.iter().map(|&slot| (place as u32, slot)));
            }
            return;
        }
        if let Some(deleted) = &self.deleted {
            for (place, (packet, answer)) in packets.iter().zip(answers.iter_mut()).enumerate() {
                if *answer != NO_RULE && self.is_deleted(*answer) {
                    let lazy = |_| lazy(place);
                    let found = self.base.whole.find_alive(packet, lazy, deleted, &mut Vec::new());
                    *answer = found.unwrap_or(NO_RULE);
                }
            }
        }
        if let Some(overlay) = &self.overlay {
            let count = self.base.ids.len() as u32;
            let mut above = [NO_RULE; 64];
            let chunks = packets.chunks(64).zip(answers.chunks_mut(64));
            for (turn, (packets, answers)) in chunks.enumerate() {
                let above = &mut above[..packets.len()];
                overlay.find_batch_lazy(
                    packets,
                    |place: usize| lazy(turn * 64 + place),
                    above,
                    matched,
                );
                for (answer, &place) in answers.iter_mut().zip(above.iter()) {
                    if self.wins(place, *answer) {
                        *answer = count + place;
                    }
                }
            }
        }
    }

    /// Removes deleted slots from `matched`, from index `from` on.
    fn drop_deleted(&self, matched: &mut Vec<u32>, from: usize) {
        let mut place = from;
        while place < matched.len() {
            if self.is_deleted(matched[place]) {
                matched.remove(place);
            } else {
                place += 1;
            }
        }
    }

    /// Merges inserted rules that matched with the base's, in order, up to the answer.
    fn merge_met(&self, from: usize, matched: &mut Vec<u32>, above: &[u32], answer: u32) {
        let count = self.base.ids.len() as u32;
        matched.extend(above.iter().map(|&place| count + place));
        let rank = |slot: u32| match slot.checked_sub(count) {
            None => (slot, u32::MAX),
            Some(place) if slot == NO_RULE => (slot, place),
            Some(place) => (self.inserted[place as usize].before, place),
        };
        let last = rank(answer);
        let mut behind: Vec<u32> =
            matched.drain(from..).filter(|&slot| rank(slot) < last).collect();
        behind.sort_by_key(|&slot| rank(slot));
        matched.extend(behind);
    }
}

/// Compiles the inserted rules: a small graph, or hash tables where that would be large.
fn compile_overlay(rules: &Arc<Rules>) -> Arc<Compiled> {
    let split = if rules.list().len() > 32 { Split::Narrower } else { Split::One };
    let graph = Candidate::Graph { split, leaf: 4, root_bits: 8 };
    let bytes = 64 * 1024 + rules.list().len() * 512;
    let compiled = experiment(rules, graph, bytes)
        .or_else(|| experiment(rules, Candidate::Tuples, usize::MAX));
    Arc::new(compiled.expect("hash tables are built whatever they take"))
}
