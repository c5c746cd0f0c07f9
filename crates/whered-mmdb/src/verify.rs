//! The verifier: reads a whole database and names the first fault.
//!
//! Not for repair. Opening has checked the metadata already; here come
//!
//! 1. the tree: every reachable node's records, no loops, no branch longer than an address; a tree in
//!    the order that writers give it is checked in one pass ([`crate::ordered`]);
//! 2. the data section from end to end, field after field: types, sizes, text, pointers to the
//!    beginning of a field;
//! 3. every record that the tree leads to: keys are strings, no pointer to a pointer, no loops,
//!    and the limits of [`crate::walk`], so that each record can be decoded.
//!
//! A fault of the data section is told with the field path by which some record leads to it, if one
//! does; that is looked for only then.
//!
//! Each node and each map or array is measured once and remembered, so that shared parts cost
//! nothing again: time and memory are linear in the file's size.
#![deny(clippy::indexing_slicing)]

use crate::decode::{Field, Kind, Section, Token};
use crate::error::MmdbError;
use crate::networks::Place;
use crate::ordered;
use crate::path::FieldPath;
use crate::record_set::RecordSet;
use crate::tree::{RecordId, SearchTree, TreeNode};
use crate::walk::{
    MAX_DEPTH, MAX_PAYLOAD_BYTES_PER_RECORD, MAX_VALUES_PER_RECORD, too_deep, too_many_bytes,
    too_many_values,
};
use std::collections::HashMap;

/// The contents of a sound database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Verified {
    /// Networks with a record, as [`crate::Database::networks`] gives them.
    pub networks: u64,
    /// Distinct records that networks lead to.
    pub records: u64,
    /// Nodes of the tree.
    pub nodes: u64,
    /// Nodes that no walk from the root reaches; harmless.
    pub unreachable_nodes: u64,
    /// Fields of the data section, pointers and nested fields included; 0 for a legacy file.
    pub fields: u64,
    /// The deepest nesting of maps and arrays in a record; 0 for a legacy file.
    pub deepest_nesting: u64,
}

/// Verifies a MaxMind DB file.
pub(crate) fn mmdb(
    search: &SearchTree,
    bytes: &[u8],
    section: &Section<'_>,
) -> Result<Verified, MmdbError> {
    let tree = tree(search, bytes)?;
    let mut starts = Bitmap::new(section.len());
    let mut targets = Bitmap::new(section.len());
    // An empty map at the section's end begins there.
    let mut containers = Bitmap::new(section.len() + 1);
    let scanned = scan(section, |at, token| {
        starts.set(at);
        match token {
            Token::Pointer { target, .. } => targets.set(target),
            Token::Field(field) if matches!(field.kind, Kind::Map | Kind::Array) => {
                containers.set(field.start);
            }
            Token::Field(_) => {}
        }
        Ok(())
    });
    let fields = scanned.map_err(|error| with_path(error, section, &tree.records))?;
    if !targets.is_within(&starts) {
        check_targets(section, &starts)?;
    }
    let mut records =
        Records { section, known: ProgressRanks::new(containers), text_bytes_left: 0 };
    let mut deepest_nesting = 0;
    for &id in &tree.records {
        let at = id.to_u32() as usize;
        if !starts.get(at) {
            return Err(section.fault(
                at,
                format!("a record at {at}, in the middle of a field"),
                "records at the beginning of a field",
            ));
        }
        let (measure, _) = records.measure(at, 0)?;
        deepest_nesting = deepest_nesting.max(measure.levels as u64);
    }
    Ok(Verified { fields, deepest_nesting, ..tree.verified(search) })
}

/// Names the first pointer that leads into the middle of a field.
#[cold]
fn check_targets(section: &Section<'_>, starts: &Bitmap) -> Result<(), MmdbError> {
    let scanned = scan(section, |at, token| match token {
        Token::Pointer { target, .. } if !starts.get(target) => Err(section.fault(
            at,
            format!("a pointer to {target}, in the middle of a field"),
            "pointers to the beginning of a field",
        )),
        _ => Ok(()),
    });
    scanned.map(|_| ())
}

/// How many bytes of text are read to find out which record leads to a fault: a hostile file's
/// pointers could share one long text.
const MAX_SEARCHED_BYTES: usize = 256 << 20;

/// The fault with the field's path, as the first record that leads to it reports it.
#[cold]
fn with_path(error: MmdbError, section: &Section<'_>, ids: &[RecordId]) -> MmdbError {
    let mut records =
        Records { section, known: ProgressMap::default(), text_bytes_left: MAX_SEARCHED_BYTES };
    let faults = ids.iter().filter_map(|id| records.measure(id.to_u32() as usize, 0).err());
    let same = |fault: &MmdbError| fault.offset_bytes() == error.offset_bytes();
    faults.into_iter().find(same).unwrap_or(error)
}

/// Verifies a legacy file: its tree, and with `check` every record that the tree leads to.
pub(crate) fn legacy(
    search: &SearchTree,
    bytes: &[u8],
    check: impl Fn(RecordId) -> Result<(), MmdbError>,
) -> Result<Verified, MmdbError> {
    let tree = tree(search, bytes)?;
    tree.records.iter().try_for_each(|&id| check(id))?;
    Ok(tree.verified(search))
}

/// The contents of a sound tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TreeReport {
    /// Networks with a record, without those of aliases.
    pub(crate) networks: u64,
    /// Nodes that walks from the root reach.
    pub(crate) reached_nodes: u64,
    /// In ascending order, each once.
    pub(crate) records: Vec<RecordId>,
}

impl TreeReport {
    fn verified(&self, search: &SearchTree) -> Verified {
        let nodes = u64::from(search.node_count());
        Verified {
            networks: self.networks,
            records: self.records.len() as u64,
            nodes,
            unreachable_nodes: nodes - self.reached_nodes,
            ..Verified::default()
        }
    }
}

/// Verifies a search tree.
pub(crate) fn tree(search: &SearchTree, bytes: &[u8]) -> Result<TreeReport, MmdbError> {
    match ordered::check(search, bytes) {
        Some(report) => Ok(report),
        None => walked(search, bytes),
    }
}

/// Verifies a search tree of any order.
pub(crate) fn walked(search: &SearchTree, bytes: &[u8]) -> Result<TreeReport, MmdbError> {
    let count = search.node_count() as usize;
    let mut walk = TreeWalk {
        tree: search,
        bytes,
        states: vec![State::UNSEEN; count],
        networks: vec![0; count],
        reached_nodes: 0,
        records: RecordSet::default(),
    };
    let (_, networks) = walk.visit(Place::ROOT)?;
    let TreeWalk { reached_nodes, mut records, .. } = walk;
    Ok(TreeReport { networks, reached_nodes, records: records.number() })
}

/// The state of a node: its height (levels below it, up to 128) or one of two marks.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State(u8);

impl State {
    const UNSEEN: State = State(255);
    /// A walk is below this node right now: meeting it again is a loop.
    const OPEN: State = State(254);
}

struct TreeWalk<'a> {
    tree: &'a SearchTree,
    bytes: &'a [u8],
    states: Vec<State>,
    /// Networks below each finished node.
    networks: Vec<u64>,
    reached_nodes: u64,
    records: RecordSet,
}

impl TreeWalk<'_> {
    /// Visits what is at and below a place; returns its height and its networks. Recursion ends at
    /// the address's last bit.
    fn visit(&mut self, place: Place) -> Result<(u8, u64), MmdbError> {
        let node = match place.node {
            TreeNode::Empty => return Ok((0, 0)),
            TreeNode::Record(id) => {
                self.records.insert(id);
                return Ok((0, 1));
            }
            TreeNode::Node(node) => node,
        };
        let index = node as usize;
        let in_place = |error: MmdbError| error.within(&place.prefix(self.tree).to_string());
        let bits = self.tree.address_bits();
        match self.states.get(index).copied().unwrap_or(State::OPEN) {
            State::UNSEEN if place.depth < bits => {}
            State::OPEN => return Err(in_place(self.tree.loop_at(node))),
            State(height) if height <= bits - place.depth => {
                let alias = place.is_alias(self.tree);
                let networks = self.networks.get(index).copied().unwrap_or(0);
                return Ok((height, if alias { 0 } else { networks }));
            }
            _ => return Err(in_place(self.tree.too_deep(node))),
        }
        self.set_state(index, State::OPEN);
        self.reached_nodes += 1;
        let mut height = 0;
        let mut networks = 0_u64;
        for bit in [false, true] {
            let child = self.tree.child(self.bytes, node, bit).map_err(in_place)?;
            let below = self.visit(place.below(child, bit))?;
            height = height.max(below.0 + 1);
            networks = networks.saturating_add(below.1);
        }
        self.set_state(index, State(height));
        if let Some(known) = self.networks.get_mut(index) {
            *known = networks;
        }
        Ok((height, if place.is_alias(self.tree) { 0 } else { networks }))
    }

    fn set_state(&mut self, index: usize, state: State) {
        if let Some(known) = self.states.get_mut(index) {
            *known = state;
        }
    }
}

/// Reads the data section from end to end; returns how many fields it holds.
fn scan(
    section: &Section<'_>,
    mut visit: impl FnMut(usize, Token) -> Result<(), MmdbError>,
) -> Result<u64, MmdbError> {
    let (mut at, mut fields, mut pending) = (0, 0, 0_u64);
    while at < section.len() {
        let token = section.token(at)?;
        visit(at, token)?;
        fields += 1;
        let is_nested = pending > 0;
        pending = pending.saturating_sub(1);
        at = match token {
            Token::Pointer { next, .. } => next,
            Token::Field(field) => {
                let is_marker = matches!(field.kind, Kind::End | Kind::Container);
                if is_nested || !is_marker {
                    section.scalar(&field)?;
                }
                pending += field.nested_fields();
                field.end()
            }
        };
    }
    if pending > 0 {
        return Err(section.fault(
            at,
            format!("the section's end where {pending} more fields were announced"),
            "maps and arrays that end inside the section",
        ));
    }
    Ok(fields)
}

/// How large a value is, pointers followed.
#[derive(Clone, Copy, Default)]
struct Measure {
    /// Maps and arrays inside each other, this one included.
    levels: usize,
    values: usize,
    payload_bytes: usize,
}

impl Measure {
    fn add(&mut self, other: Measure) {
        self.levels = self.levels.max(other.levels + 1);
        self.values = self.values.saturating_add(other.values);
        self.payload_bytes = self.payload_bytes.saturating_add(other.payload_bytes);
    }

    fn check(self) -> Result<(), MmdbError> {
        if self.values > MAX_VALUES_PER_RECORD {
            return Err(too_many_values());
        }
        if self.payload_bytes > MAX_PAYLOAD_BYTES_PER_RECORD {
            return Err(too_many_bytes());
        }
        Ok(())
    }
}

/// The state of a map or array: unknown, being measured, or its measure and where the
/// next field begins.
#[derive(Clone, Copy, Default)]
enum Progress {
    #[default]
    Unmeasured,
    Open,
    Done(Measure, usize),
}

/// The states of maps and arrays, by the offset of their first entry.
trait ProgressTable {
    fn get(&self, start: usize) -> Progress;
    fn set(&mut self, start: usize, progress: Progress);
}

/// For a section of which nothing is known.
#[derive(Default)]
struct ProgressMap(HashMap<usize, Progress>);

impl ProgressTable for ProgressMap {
    fn get(&self, start: usize) -> Progress {
        self.0.get(&start).copied().unwrap_or_default()
    }

    fn set(&mut self, start: usize, progress: Progress) {
        self.0.insert(start, progress);
    }
}

/// For a section that was scanned: one place for each map and array, in their order.
struct ProgressRanks {
    starts: Bitmap,
    /// How many starts there are before each word of the bitmap.
    before: Vec<u32>,
    places: Vec<Progress>,
}

impl ProgressRanks {
    fn new(starts: Bitmap) -> ProgressRanks {
        let mut count = 0_u32;
        let before = starts.words.iter().map(|word| {
            let before = count;
            count = count.saturating_add(word.count_ones());
            before
        });
        let before = before.collect();
        ProgressRanks { starts, before, places: vec![Progress::Unmeasured; count as usize] }
    }

    fn rank(&self, start: usize) -> usize {
        let word = self.starts.words.get(start / 64).copied().unwrap_or(0);
        let before = self.before.get(start / 64).copied().unwrap_or(0);
        before as usize + (word & ((1 << (start % 64)) - 1)).count_ones() as usize
    }
}

impl ProgressTable for ProgressRanks {
    fn get(&self, start: usize) -> Progress {
        // A map or array is measured where the scan has met one: records and pointers lead to
        // fields.
        self.places.get(self.rank(start)).copied().unwrap_or(Progress::Open)
    }

    fn set(&mut self, start: usize, progress: Progress) {
        let rank = self.rank(start);
        if let Some(place) = self.places.get_mut(rank) {
            *place = progress;
        }
    }
}

struct Records<'a, K> {
    section: &'a Section<'a>,
    /// The scan has checked all text before, so that text that many pointers share is not read
    /// again here.
    known: K,
    /// How much text is still read, when a fault in it is looked for.
    text_bytes_left: usize,
}

impl<K: ProgressTable> Records<'_, K> {
    /// Measures what stands at `at`; also returns where the next field begins.
    fn measure(&mut self, at: usize, depth: usize) -> Result<(Measure, usize), MmdbError> {
        let (field, after_pointer) = self.section.resolve(at)?;
        let (measure, next) = match field.kind {
            Kind::Map | Kind::Array => {
                let start = field.start;
                match self.known.get(start) {
                    Progress::Done(known, next) if depth + known.levels <= MAX_DEPTH => {
                        (known, next)
                    }
                    Progress::Unmeasured if depth < MAX_DEPTH => {
                        self.known.set(start, Progress::Open);
                        let (measure, next) = self.measure_entries(&field, depth)?;
                        self.known.set(start, Progress::Done(measure, next));
                        (measure, next)
                    }
                    _ => return Err(too_deep().at(self.section.file_offset(at))),
                }
            }
            Kind::String | Kind::Bytes => {
                self.check_text(&field)?;
                (Measure { levels: 0, values: 1, payload_bytes: field.size }, field.end())
            }
            Kind::Container | Kind::End => {
                return Err(self.section.scalar(&field).map_or_else(
                    |error| error,
                    |_| self.section.fault(at, "a marker inside a record", "values"),
                ));
            }
            _ => (Measure { levels: 0, values: 1, payload_bytes: 0 }, field.end()),
        };
        Ok((measure, after_pointer.unwrap_or(next)))
    }

    /// Reads a text if a fault is being looked for.
    fn check_text(&mut self, field: &Field) -> Result<(), MmdbError> {
        if let Some(left) = self.text_bytes_left.checked_sub(field.size + 1) {
            self.text_bytes_left = left;
            self.section.scalar(field)?;
        }
        Ok(())
    }

    fn measure_entries(
        &mut self,
        field: &Field,
        depth: usize,
    ) -> Result<(Measure, usize), MmdbError> {
        let section = self.section;
        let mut next = field.start;
        let mut measure = Measure { levels: 1, values: 1, payload_bytes: 0 };
        for index in 0..field.size {
            let entry_at = next;
            if field.kind == Kind::Map {
                let (key, value_at) = section.key_field(entry_at)?;
                self.check_text(&key)?;
                measure.add(Measure { levels: 0, values: 1, payload_bytes: key.size });
                next = value_at;
            }
            let (value, after) = self.measure(next, depth + 1).map_err(|error| {
                if field.kind == Kind::Array {
                    return error.within(&index.to_string());
                }
                let key = section.key(entry_at).map_or("", |(key, _)| key);
                error.within(&FieldPath::escape(key))
            })?;
            measure.add(value);
            measure.check().map_err(|error| error.at(section.file_offset(entry_at)))?;
            next = after;
        }
        Ok((measure, next))
    }
}

/// One bit for each byte of the data section.
struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    fn new(bits: usize) -> Bitmap {
        Bitmap { words: vec![0; bits.div_ceil(64)] }
    }

    fn set(&mut self, bit: usize) {
        if let Some(word) = self.words.get_mut(bit / 64) {
            *word |= 1 << (bit % 64);
        }
    }

    fn get(&self, bit: usize) -> bool {
        self.words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    fn is_within(&self, other: &Bitmap) -> bool {
        self.words.iter().zip(&other.words).all(|(mine, others)| mine & !others == 0)
    }
}
