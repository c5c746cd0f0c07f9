//! A ruleset compiled into one form, and the calls that ask it.
//!
//! For: [`Compiled`]. Not for: choosing the form ([`super::plan`]), nor for changes
//! ([`super::live`]).
//!
//! ```text
//! packet ─► lanes (its own words, or gathered) ─► form: first terminal box ─► rule
//!                                                   ├► boxes matched on the way ─► rules
//!                                                   └► lazy fields, when a box asks for them
//! ```
//!
//! Concurrency: plain data, never changed; any number of threads may ask. Counters belong to the
//! caller, one [`Hits`] a thread.
#![allow(unsafe_code, reason = "packets are viewed as keys")]

use super::boxes::{Boxes, Keys, LANES, Lanes};
use super::dag::{BATCH, Dag, Found, NO_BOX};
use super::lazy::{self, LazyFields, Question, Whole};
use super::naive::{self, Explanation};
use super::rule::{Family, NO_RULE, Packet, Packet6, Rules, Values};
use super::simd::Processor;
use super::tuples::Tuples;
use super::vectors::Vectors;
use std::sync::Arc;
use whered_simd::{Path, Scalar, dispatch};

/// How often each rule decided, counted by one thread.
#[derive(Clone, Debug, Default)]
pub struct Hits {
    /// By rule; the last one is for packets that no rule decided.
    pub(crate) counts: Vec<u64>,
}

impl Hits {
    /// Counters for a ruleset, all zero.
    pub fn new(rules: usize) -> Hits {
        Hits { counts: vec![0; rules + 1] }
    }

    /// How often a rule decided.
    pub fn of(&self, rule: usize) -> u64 {
        self.counts.get(rule).copied().unwrap_or(0)
    }

    /// How many packets no rule decided.
    pub fn undecided(&self) -> u64 {
        self.counts.last().copied().unwrap_or(0)
    }

    /// Counts the answers of a batch.
    #[inline]
    pub fn add(&mut self, answers: &[u32]) {
        let last = self.counts.len().saturating_sub(1);
        for &answer in answers {
            if let Some(count) = self.counts.get_mut((answer as usize).min(last)) {
                *count += 1;
            }
        }
    }
}

/// The non-terminal rules that a batch matched: packet and rule, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// Packets by their index in the batch, with each rule that they matched.
    pub pairs: Vec<(u32, u32)>,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Packet {}
    impl Sealed for super::Packet6 {}
}

/// A packet of either family: [`Packet`] or [`Packet6`].
#[allow(private_bounds, reason = "how packets are read is nobody's business outside")]
pub trait AnyPacket: sealed::Sealed + Values + Copy {
    /// The family.
    const FAMILY: Family;
    #[doc(hidden)]
    fn fields(&self) -> &Packet;
    #[doc(hidden)]
    fn addresses(&self) -> Option<(u128, u128)>;
}

impl AnyPacket for Packet {
    const FAMILY: Family = Family::V4;
    #[inline(always)]
    fn fields(&self) -> &Packet {
        self
    }
    #[inline(always)]
    fn addresses(&self) -> Option<(u128, u128)> {
        None
    }
}

impl AnyPacket for Packet6 {
    const FAMILY: Family = Family::V6;
    #[inline(always)]
    fn fields(&self) -> &Packet {
        &self.fields
    }
    #[inline(always)]
    fn addresses(&self) -> Option<(u128, u128)> {
        Some((self.source, self.destination))
    }
}

/// The form of a compiled ruleset.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// Cut dimension by dimension.
    Dag(Dag),
    /// Hash tables.
    Tuples(Tuples),
    /// Bit vectors.
    Vectors(Vectors),
}

/// A compiled ruleset.
#[derive(Clone, Debug)]
pub struct Compiled {
    rules: Arc<Rules>,
    lanes: Lanes,
    /// The rule of each box.
    rule: Vec<u32>,
    /// The conditions of boxes beyond their lanes; empty where no rule has a lazy field.
    questions: Vec<Question>,
    /// Some rule does not end the search.
    non_terminal: bool,
    form: Form,
}

impl Compiled {
    /// Puts a form around its rules.
    pub(crate) fn new(rules: Arc<Rules>, boxes: &Boxes, form: Form) -> Compiled {
        let non_terminal = boxes.terminal.iter().any(|&terminal| !terminal);
        Compiled {
            rules,
            lanes: boxes.lanes.clone(),
            rule: boxes.rule.clone(),
            questions: Question::of(boxes),
            non_terminal,
            form,
        }
    }

    /// The rules that were compiled.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Bytes that lookups may touch, without the rules themselves.
    pub fn memory_bytes(&self) -> usize {
        let form = match &self.form {
            Form::Dag(dag) => dag.memory_bytes(),
            Form::Tuples(tuples) => tuples.memory_bytes(),
            Form::Vectors(vectors) => vectors.memory_bytes(),
        };
        let starts = self.lanes.sources.memory_bytes() + self.lanes.destinations.memory_bytes();
        form + starts + self.rule.len() * 4 + size_of_val(self.questions.as_slice())
    }

    /// Nodes passed and boxes compared for a packet, at most.
    pub fn accesses<A: AnyPacket>(&self, packet: &A) -> (usize, usize) {
        let keys = self.lanes.gather(Scalar, packet.fields(), packet.addresses());
        match &self.form {
            Form::Dag(dag) => dag.accesses(&keys),
            Form::Tuples(tuples) => (tuples.tables(), 0),
            Form::Vectors(_) => (0, 0),
        }
    }

    /// The first terminal rule that matches. Non-terminal rules that match before it are appended
    /// to `matched`. Lazy fields are zeros.
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
        assert!(self.rules.family() == A::FAMILY, "a packet of the rules' family");
        dispatch!(
            whered_simd::path(),
            [A: AnyPacket, L: LazyFields](
                compiled: &Compiled = self,
                packet: &A = packet,
                lazy: L = lazy,
                matched: &mut Vec<u32> = matched,
            ) -> Option<u32>,
            |processor| compiled.find_on(processor, packet, lazy, matched)
        )
    }

    /// Like [`find`](Self::find), for many packets: `answers` gets the rule of each, or
    /// [`NO_RULE`]; `matched` loses its old contents. Lazy fields are zeros.
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
        assert!(self.rules.family() == A::FAMILY, "packets of the rules' family");
        assert_eq!(packets.len(), answers.len(), "an answer for each packet");
        self.find_batch_path(whered_simd::path(), packets, lazy, answers, matched);
    }

    /// The batch on a path of choice, for tests.
    pub(crate) fn find_batch_path<A: AnyPacket>(
        &self,
        path: Path,
        packets: &[A],
        lazy: impl LazyFields,
        answers: &mut [u32],
        matched: &mut Matched,
    ) {
        matched.pairs.clear();
        dispatch!(
            path,
            [A: AnyPacket, L: LazyFields](
                compiled: &Compiled = self,
                packets: &[A] = packets,
                lazy: L = lazy,
                answers: &mut [u32] = answers,
                matched: &mut Matched = matched,
            ) -> (),
            |processor| compiled.batch_on(processor, packets, lazy, answers, matched)
        );
    }

    /// Whether some rule is non-terminal.
    pub(crate) fn has_non_terminal(&self) -> bool {
        self.non_terminal
    }

    /// The first terminal rule that matches and whose bit in `deleted` is not set, by hash tables:
    /// the graphs have dropped what a deleted rule hid.
    pub(crate) fn find_alive<A: AnyPacket>(
        &self,
        packet: &A,
        lazy: impl LazyFields,
        deleted: &[u64],
        matched: &mut Vec<u32>,
    ) -> Option<u32> {
        match whered_simd::path() {
            #[cfg(target_arch = "x86_64")]
            Path::Avx512(token) => self.alive_on(token.avx2(), packet, lazy, deleted, matched),
            #[cfg(target_arch = "x86_64")]
            Path::Avx2(token) => self.alive_on(token, packet, lazy, deleted, matched),
            Path::Scalar => self.alive_on(Scalar, packet, lazy, deleted, matched),
        }
    }

    fn alive_on<A: AnyPacket, P: Processor>(
        &self,
        processor: P,
        packet: &A,
        lazy: impl LazyFields,
        deleted: &[u64],
        matched: &mut Vec<u32>,
    ) -> Option<u32> {
        let Form::Tuples(tuples) = &self.form else { return None };
        let alive = |number: u32| {
            let rule = self.rule[number as usize];
            deleted[rule as usize / 64] >> (rule % 64) & 1 == 0
        };
        let keys = self.lanes.gather(processor, packet.fields(), packet.addresses());
        let from = matched.len();
        let ask = |number| self.ask(packet, lazy, 0, number);
        let best = tuples.find(processor, &keys, ask, alive, |number| matched.push(number));
        self.tidy_matched(best, from, matched);
        self.rule.get(best as usize).copied()
    }

    /// Why every earlier rule did not match, and the one that did.
    pub fn explain<A: AnyPacket>(&self, packet: &A) -> Explanation {
        naive::explain(self.rules.list(), packet)
    }

    #[inline(always)]
    fn find_on<A: AnyPacket, P: Processor>(
        &self,
        processor: P,
        packet: &A,
        lazy: impl LazyFields,
        matched: &mut Vec<u32>,
    ) -> Option<u32> {
        let gathered;
        let keys = match self.keys_in_place(packet) {
            Some(keys) => keys,
            None => {
                gathered = self.lanes.gather(processor, packet.fields(), packet.addresses());
                &gathered
            }
        };
        let from = matched.len();
        let ask = |number: u32| self.ask(packet, lazy, 0, number);
        let best = match &self.form {
            Form::Dag(dag) => dag.find(processor, keys, ask, |number| matched.push(number)),
            Form::Tuples(tuples) => {
                tuples.find(processor, keys, ask, |_| true, |number| matched.push(number))
            }
            Form::Vectors(vectors) => vectors.find(keys, ask, |number| matched.push(number)),
        };
        if self.non_terminal {
            self.tidy_matched(best, from, matched);
        }
        self.rule.get(best as usize).copied()
    }

    /// Turns the boxes behind `from` that come before the best one into rules, in order.
    #[cold]
    fn tidy_matched(&self, best: u32, from: usize, matched: &mut Vec<u32>) {
        let mut place = from;
        while place < matched.len() {
            if matched[place] > best {
                matched.swap_remove(place);
            } else {
                matched[place] = self.rule[matched[place] as usize];
                place += 1;
            }
        }
        matched[from..].sort_unstable();
    }

    /// Whether a box matches whose lanes do.
    #[inline(always)]
    fn ask<A: AnyPacket>(
        &self,
        packet: &A,
        lazy: impl LazyFields,
        place: usize,
        number: u32,
    ) -> bool {
        if let Some(question) = self.questions.get(number as usize) {
            let holds = question.is_open() || question.holds(lazy(place));
            if !holds || !question.of_rule {
                return holds;
            }
        }
        let rule = &self.rules.list()[self.rule[number as usize] as usize];
        naive::matches(rule, &Whole { packet, lazy, place })
    }

    /// The packet's own words as keys, where lanes are words.
    #[inline(always)]
    fn keys_in_place<'p, A: AnyPacket>(&self, packet: &'p A) -> Option<&'p Keys> {
        if A::FAMILY == Family::V4 && self.lanes.in_place {
            let words: &[u32; LANES] = &packet.fields().words;
            // SAFETY: `Keys` is these words and nothing else, and a packet is as aligned as it is.
            return Some(unsafe { &*words.as_ptr().cast::<Keys>() });
        }
        None
    }

    #[inline(always)]
    fn batch_on<A: AnyPacket, P: Processor>(
        &self,
        processor: P,
        packets: &[A],
        lazy: impl LazyFields,
        answers: &mut [u32],
        matched: &mut Matched,
    ) {
        let mut found = Found::new();
        let chunks = packets.chunks(BATCH).zip(answers.chunks_mut(BATCH));
        for (turn, (packets, answers)) in chunks.enumerate() {
            // Made only where it is needed: it takes as much of the nearest cache as the packets
            // do.
            let gathered;
            let keys = match self.batch_in_place(packets) {
                Some(keys) => keys,
                None => {
                    gathered = self.gathered(processor, packets);
                    &gathered
                }
            };
            self.chunk(processor, packets, (lazy, turn * BATCH), keys, &mut found);
            self.answer(turn, answers, &mut found, matched);
        }
    }

    /// The keys of a batch whose packets have other words.
    #[inline(always)]
    fn gathered<A: AnyPacket, P: Processor>(&self, processor: P, packets: &[A]) -> [Keys; BATCH] {
        let mut gathered = [Keys([0; LANES]); BATCH];
        for (keys, packet) in gathered.iter_mut().zip(packets) {
            *keys = self.lanes.gather(processor, packet.fields(), packet.addresses());
        }
        gathered
    }

    /// A whole batch's own words as keys, where lanes are words.
    #[inline(always)]
    fn batch_in_place<'p, A: AnyPacket>(&self, packets: &'p [A]) -> Option<&'p [Keys; BATCH]> {
        if A::FAMILY == Family::V4 && self.lanes.in_place && packets.len() == BATCH {
            // SAFETY: the only packet of this family is `Packet`, which is as large and as aligned
            // as `Keys` and has the same numbers in it; there are as many as the array has.
            return Some(unsafe { &*packets.as_ptr().cast::<[Keys; BATCH]>() });
        }
        None
    }

    #[inline(always)]
    fn chunk<A: AnyPacket, P: Processor>(
        &self,
        processor: P,
        packets: &[A],
        (lazy, first): (impl LazyFields, usize),
        keys: &[Keys; BATCH],
        found: &mut Found,
    ) {
        found.boxes[..packets.len()].fill(NO_BOX);
        let ask =
            |place: usize, number: u32| self.ask(&packets[place], lazy, first + place, number);
        match &self.form {
            Form::Dag(dag) => dag.find_batch(processor, packets.len(), keys, ask, found),
            Form::Tuples(tuples) => {
                tuples.find_batch(processor, packets.len(), keys, ask, found);
            }
            Form::Vectors(vectors) => vectors.find_batch(packets.len(), keys, ask, found),
        }
    }

    /// Boxes become rules.
    #[inline(always)]
    fn answer(&self, turn: usize, answers: &mut [u32], found: &mut Found, matched: &mut Matched) {
        for (answer, &number) in answers.iter_mut().zip(&found.boxes) {
            *answer = self.rule.get(number as usize).copied().unwrap_or(NO_RULE);
        }
        if !found.passed.is_empty() {
            let boxes = found.boxes;
            found.passed.retain(|&(place, number)| number < boxes[place as usize]);
            found.passed.sort_unstable();
            let pairs = found.passed.drain(..).map(|(place, number)| {
                ((turn * BATCH) as u32 + u32::from(place), self.rule[number as usize])
            });
            matched.pairs.extend(pairs);
        }
    }
}
