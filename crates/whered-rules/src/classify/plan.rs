//! Choosing the form of a ruleset: candidates are built under a budget and measured.
//!
//! For: [`Planner`]. Not for: threads and clocks; the owner calls, with a clock, from where it
//! likes.
//!
//! ```text
//! first:  tuple space (always there) ─► a graph, bit vectors, graphs, most promising first, until the seconds are over
//! more:   graphs that ran out of time or memory before, wider tables, other leaves
//! every candidate: built ─► timed in batches on 4,096 packets drawn from the rules ─► the best stays
//! ```
//!
//! The cost of a graph cannot be predicted: the same rules, split in another way, take a
//! hundred times the memory and are slower or faster. So it is tried.

use super::boxes::Boxes;
use super::compiled::{AnyPacket, Compiled, Form, Matched};
use super::dag::{Dag, Group, Limits, StopReason};
use super::lazy::LazyValues;
use super::rule::{Family, Field, NO_RULE, Packet, Packet6, Rules};
use super::samples::{Samples, narrowed};
use super::tuples::Tuples;
use super::vectors::Vectors;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Candidates that are tried before anybody waits no longer.
const FIRST: usize = 12;
/// Packets that a candidate is measured with for each rule, and the bounds of all, so that neither
/// packets nor large forms are found in the caches whole.
const SAMPLES_A_RULE: usize = 4;
const SAMPLES: (usize, usize) = (4096, 65_536);
/// Rounds that a form is measured in at most, and after how long no further one begins: a slow form
/// does not take the time of quick ones.
const MEASURED: (usize, Duration) = (4, Duration::from_millis(40));
/// The highest cost of a form, relative to the best one, at which it takes its place: less is the
/// noise of a clock, and the larger of two equal forms loses more when others want the caches, too.
const BETTER: f64 = 0.98;

/// How rules are put into groups, each with a graph of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// All in one; the builder chooses the first lane.
    One,
    /// All in one, the source first.
    Source,
    /// All in one, the destination first.
    Destination,
    /// By the narrower of the two addresses.
    Narrower,
    /// By the narrower address, with rules that leave this many bits of both addresses open in a
    /// third group.
    Wide(u32),
    /// Rules that leave fewer than this many bits of the source open, and the others.
    NarrowSource(u32),
    /// Rules that leave fewer than this many bits of the destination open, and the others.
    NarrowDestination(u32),
}

/// A form that may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// Hash tables.
    Tuples,
    /// Bit vectors.
    Vectors,
    /// Graphs.
    Graph {
        /// How rules are grouped.
        split: Split,
        /// Sets of at most this many boxes are compared one by one.
        leaf: usize,
        /// Bits of the first table, at most.
        root_bits: u32,
    },
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Candidate::Tuples => f.write_str("tuples"),
            Candidate::Vectors => f.write_str("vectors"),
            Candidate::Graph { split, leaf, root_bits } => {
                write!(
                    f,
                    "graph, split {split:?}, leaves up to {leaf}, first table {root_bits} bits"
                )
            }
        }
    }
}

/// The cost of a form, measured on synthetic packets of its rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Nanoseconds a packet in batches.
    pub batch_nanoseconds: f64,
    /// Nanoseconds a packet in single calls.
    pub single_nanoseconds: f64,
    /// Bytes that lookups may touch.
    pub bytes: usize,
}

impl Cost {
    /// The number that is compared: batches count fully, single calls for an eighth.
    fn weight(&self) -> f64 {
        self.batch_nanoseconds + self.single_nanoseconds / 8.0
    }
}

/// The result of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trial {
    /// It was built and measured.
    Measured(Cost),
    /// It would have taken more memory than allowed.
    TooLarge,
    /// It would have taken longer than allowed.
    TooSlow,
}

/// The budget of compiling.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Time until something good must stand.
    pub time: Duration,
    /// Bytes of the result; building may take twice as many for a while.
    pub bytes: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { time: Duration::from_secs(2), bytes: 512 << 20 }
    }
}

/// Which form stands, why, and what else was tried.
#[derive(Clone, Debug)]
pub struct Info {
    /// The form.
    pub form: Candidate,
    /// The cost.
    pub cost: Cost,
    /// Everything tried, in order.
    pub tried: Vec<(Candidate, Trial)>,
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Info { form, cost, tried } = self;
        let large = tried.iter().filter(|one| one.1 == Trial::TooLarge).count();
        let slow = tried.iter().filter(|one| one.1 == Trial::TooSlow).count();
        let Cost { batch_nanoseconds, single_nanoseconds, bytes } = cost;
        write!(f, "{form}: {batch_nanoseconds:.1} ns a packet in batches, ")?;
        write!(f, "{single_nanoseconds:.1} ns singly, {bytes} bytes; ")?;
        write!(f, "the fastest of {} tried", tried.len() - large - slow)?;
        if large > 0 {
            write!(f, ", {large} more would not have fitted into memory")?;
        }
        if slow > 0 {
            write!(f, ", {slow} more would have taken too long to build")?;
        }
        Ok(())
    }
}

/// Compiles a ruleset, and goes on looking for something better when asked to.
#[derive(Clone, Debug)]
pub struct Planner {
    rules: Arc<Rules>,
    boxes: Arc<Boxes>,
    best: Arc<Compiled>,
    info: Info,
    bytes: usize,
    next: usize,
    waiting: Vec<Candidate>,
}

/// The order in which graphs are tried.
fn candidates() -> Vec<Candidate> {
    use Split::{Destination, NarrowDestination, NarrowSource, Narrower, One, Source, Wide};
    let graph = |split, leaf, root_bits| Candidate::Graph { split, leaf, root_bits };
    let mut list = vec![graph(Wide(24), 4, 16), Candidate::Vectors];
    list.extend([One, Destination, Narrower, Source].map(|split| graph(split, 4, 16)));
    // Fields of many values that few rules ask for, such as places, are better left to the leaves.
    list.extend([graph(Wide(24), 8, 16), graph(Source, 8, 16)]);
    list.extend(
        [NarrowSource(16), NarrowDestination(16), Wide(31), Wide(16)].map(|s| graph(s, 4, 16)),
    );
    for (leaf, bits) in [(8, 16), (4, 20), (2, 16), (8, 20), (12, 18)] {
        let splits = [Wide(24), Destination, Narrower, NarrowSource(16), One, Source];
        list.extend(splits.map(|split| graph(split, leaf, bits)));
    }
    list
}

/// The groups of a split.
fn groups(boxes: &Boxes, split: Split) -> Vec<Group> {
    let all: Vec<u32> = (0..boxes.len() as u32).collect();
    let source = boxes.lanes.lane(Field::Source);
    let destination = boxes.lanes.lane(Field::Destination);
    let (Some(from), Some(to)) = (source, destination) else {
        return vec![Group { boxes: all, first: source.or(destination) }];
    };
    let open = |number: u32, lane: usize| {
        let extent = &boxes.ends[number as usize];
        32 - (extent.high[lane] - extent.low[lane]).leading_zeros()
    };
    let by = |list: Vec<u32>, holds: &dyn Fn(u32) -> bool| -> (Vec<u32>, Vec<u32>) {
        list.into_iter().partition(|&number| holds(number))
    };
    let narrower = |list: Vec<u32>| {
        let (a, b) = by(list, &|number| open(number, from) <= open(number, to));
        vec![Group { boxes: a, first: Some(from) }, Group { boxes: b, first: Some(to) }]
    };
    let mut groups = match split {
        Split::One => vec![Group { boxes: all, first: None }],
        Split::Source => vec![Group { boxes: all, first: source }],
        Split::Destination => vec![Group { boxes: all, first: destination }],
        Split::Narrower => narrower(all),
        Split::Wide(bits) => {
            let wide = |number| open(number, from) >= bits && open(number, to) >= bits;
            let (wide, rest) = by(all, &wide);
            let mut groups = narrower(rest);
            groups.push(Group { boxes: wide, first: None });
            groups
        }
        Split::NarrowSource(bits) => {
            let (a, b) = by(all, &|number| open(number, from) < bits);
            vec![Group { boxes: a, first: source }, Group { boxes: b, first: destination }]
        }
        Split::NarrowDestination(bits) => {
            let (a, b) = by(all, &|number| open(number, to) < bits);
            vec![Group { boxes: a, first: destination }, Group { boxes: b, first: source }]
        }
    };
    groups.retain(|group| !group.boxes.is_empty());
    groups
}

/// Builds one candidate.
fn build(
    rules: &Arc<Rules>,
    boxes: &Boxes,
    candidate: Candidate,
    bytes: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Compiled, StopReason> {
    let form = match candidate {
        Candidate::Tuples => Form::Tuples(Tuples::build(boxes)),
        Candidate::Vectors => Form::Vectors(Vectors::build(boxes, bytes, stop)?),
        Candidate::Graph { split, leaf, root_bits } => {
            let limits = Limits { bytes, building_bytes: bytes * 2, leaf, root_bits, stop };
            Form::Dag(Dag::build(boxes, &groups(boxes, split), &limits)?)
        }
    };
    Ok(Compiled::new(rules.clone(), boxes, form))
}

/// Builds one candidate without a limit of time, for experiments and tests.
pub fn experiment(rules: &Arc<Rules>, candidate: Candidate, bytes: usize) -> Option<Compiled> {
    build(rules, &Boxes::of(rules), candidate, bytes, &|| false).ok()
}

impl Planner {
    /// Compiles within the budget's time. `clock` tells the time since any moment.
    ///
    /// The tuple space is built whatever the budget says, so that there always is an answer; it
    /// takes some milliseconds and about 100 bytes a range.
    pub fn new(rules: Rules, budget: Budget, clock: &dyn Fn() -> Duration) -> Planner {
        let rules = Arc::new(rules);
        let boxes = Arc::new(Boxes::of(&rules));
        let tuples = Form::Tuples(Tuples::build(&boxes));
        let best = Compiled::new(rules.clone(), &boxes, tuples);
        let drawn = SamplePackets::of(&rules);
        let cost = drawn.measure(&best, SAMPLES.0, clock);
        let form = Candidate::Tuples;
        let tried = vec![(form, Trial::Measured(cost))];
        let mut planner = Planner {
            rules,
            boxes,
            best: Arc::new(best),
            info: Info { form, cost, tried },
            bytes: budget.bytes,
            next: 0,
            waiting: candidates(),
        };
        // A first graph may take all the time; the others a third of what is left, so that one
        // that explodes does not keep the rest from being tried.
        let start = clock();
        let mut first = true;
        while let Some(left) = budget.time.checked_sub(clock().saturating_sub(start)) {
            let share = if first { left } else { left / 3 };
            // What is left is not enough for as much as the last one took.
            if left < budget.time / 10 || !planner.try_next(share, &drawn, clock) {
                break;
            }
            first = false;
            if planner.next >= FIRST {
                break;
            }
        }
        planner
    }

    /// Goes on for about so long, as far as there is something left to try; true if a better form
    /// was found. A split that exploded is tried again with larger leaves only. Drawing the
    /// packets, up to some twenty milliseconds, is a part of the time.
    pub fn plan_more(&mut self, time: Duration, clock: &dyn Fn() -> Duration) -> bool {
        if self.is_done() {
            return false;
        }
        let start = clock();
        let before = Arc::clone(&self.best);
        let drawn = SamplePackets::of(&self.rules);
        while let Some(left) = time.checked_sub(clock().saturating_sub(start)) {
            if !self.try_next(left / 3, &drawn, clock) {
                break;
            }
        }
        !Arc::ptr_eq(&before, &self.best)
    }

    /// The best form so far.
    pub fn compiled(&self) -> &Arc<Compiled> {
        &self.best
    }

    /// Which form stands, why, and what else was tried.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Whether everything was tried.
    pub fn is_done(&self) -> bool {
        self.next >= self.waiting.len()
    }

    /// The limit of the result.
    pub fn budget_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the slowest form stands because those that would be faster do not fit.
    pub fn is_short_of_memory(&self) -> bool {
        let is_large = |&(_, trial): &(Candidate, Trial)| trial == Trial::TooLarge;
        self.info.form == Candidate::Tuples && self.info.tried.iter().any(is_large)
    }

    /// Whether it was tried, or the same split exploded before and leaves as small cannot help.
    fn is_hopeless(&self, candidate: Candidate) -> bool {
        let Candidate::Graph { split, leaf, .. } = candidate else { return false };
        self.info.tried.iter().any(|&(one, trial)| match (one, trial) {
            _ if one == candidate => true,
            (_, Trial::Measured(..)) | (Candidate::Tuples | Candidate::Vectors, _) => false,
            (Candidate::Graph { split: tried, leaf: of, .. }, _) => tried == split && leaf < of * 2,
        })
    }

    /// Tries the next candidate; false when none is left.
    fn try_next(
        &mut self,
        time: Duration,
        drawn: &SamplePackets,
        clock: &dyn Fn() -> Duration,
    ) -> bool {
        let Some(&candidate) = self.waiting.get(self.next) else { return false };
        self.next += 1;
        if self.is_hopeless(candidate) {
            return true;
        }
        let start = clock();
        let stop = || clock().saturating_sub(start) > time;
        let result = match build(&self.rules, &self.boxes, candidate, self.bytes, &stop) {
            Err(StopReason::Memory) => Trial::TooLarge,
            Err(StopReason::Time) => Trial::TooSlow,
            Ok(compiled) => {
                let cost = drawn.measure(&compiled, SAMPLES.1, clock);
                if cost.bytes <= self.bytes && cost.weight() < self.info.cost.weight() * BETTER {
                    self.best = Arc::new(compiled);
                    (self.info.form, self.info.cost) = (candidate, cost);
                }
                Trial::Measured(cost)
            }
        };
        self.info.tried.push((candidate, result));
        true
    }
}

/// Packets drawn from the rules, in the form of their family, and their lazy fields.
struct SamplePackets {
    packets: Packets,
    lazy: Vec<LazyValues>,
}

enum Packets {
    V4(Vec<Packet>),
    V6(Vec<Packet6>),
}

impl SamplePackets {
    fn of(rules: &Rules) -> SamplePackets {
        let mut samples = Samples::new(rules, 11);
        let count = (rules.list().len() * SAMPLES_A_RULE).clamp(SAMPLES.0, SAMPLES.1);
        let (packets, lazy): (Vec<_>, Vec<_>) = (0..count).map(|_| samples.with_lazy()).unzip();
        let packets = match rules.family() {
            Family::V4 => Packets::V4(packets.iter().map(narrowed).collect()),
            Family::V6 => Packets::V6(packets),
        };
        SamplePackets { packets, lazy }
    }

    /// The cost of a form on the first `count` packets, the best of some rounds.
    fn measure(&self, compiled: &Compiled, most: usize, clock: &dyn Fn() -> Duration) -> Cost {
        let count = most.min(self.lazy.len());
        let lazy = &self.lazy[..count];
        match &self.packets {
            Packets::V4(packets) => measure_on(compiled, &packets[..count], lazy, clock),
            Packets::V6(packets) => measure_on(compiled, &packets[..count], lazy, clock),
        }
    }
}

fn measure_on<A: AnyPacket>(
    compiled: &Compiled,
    packets: &[A],
    lazy: &[LazyValues],
    clock: &dyn Fn() -> Duration,
) -> Cost {
    let mut answers = vec![0; packets.len()];
    let mut matched = Matched::default();
    let mut passed = Vec::new();
    let (mut batch, mut single) = (Duration::MAX, Duration::MAX);
    let first = clock();
    for _ in 0..MEASURED.0 {
        let start = clock();
        compiled.find_batch_lazy(packets, |place| lazy[place], &mut answers, &mut matched);
        batch = batch.min(clock().saturating_sub(start));
        let start = clock();
        for ((packet, lazy), answer) in packets.iter().zip(lazy).zip(&mut answers) {
            passed.clear();
            *answer = compiled.find_lazy(packet, |_| *lazy, &mut passed).unwrap_or(NO_RULE);
        }
        single = single.min(clock().saturating_sub(start));
        if clock().saturating_sub(first) > MEASURED.1 {
            break;
        }
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / packets.len() as f64;
    Cost {
        batch_nanoseconds: each(batch),
        single_nanoseconds: each(single),
        bytes: compiled.memory_bytes(),
    }
}
