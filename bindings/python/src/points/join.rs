//! The nearest points to each row of a table.
//!
//! ```text
//! block of rows ──► places ──► sorted by cell ──► searched in that order: neighbouring rows read
//!                                                 the same memory
//! chunk of the answer ◄── gathered in the order of the rows ◄── members and distances
//! ```
//!
//! Blocks are worked on by several threads; each becomes a chunk of the answer. Many rows are
//! searched in an index made for joins ([`NearestIndex`]); it is kept until points change.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringViewArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whered_geo::{Cell, Found, NearestFinder, NearestIndex, Place, Tree};

use super::Points;
use super::coordinates::{self, Coordinates, Fault};
use super::search::nearest_first;
use crate::arrow::output::{Column, Table};
use crate::columns::Invalid;
use crate::pieces;
use crate::strings::{Layout, of_arrow};

/// The most rows of a block: enough for neighbours to be near, some 100 MB.
const BLOCK_ROWS_MAX: usize = 1 << 20;
/// The fewest, unless there are no more.
const BLOCK_ROWS_MIN: usize = 1 << 14;

/// Bits of a cell, of 54, that do not matter for the order.
const CELL_BITS_BELOW: u32 = 22;

/// A search in the tree costs as much as this many points of an index that is built.
const POINTS_A_SEARCH: usize = 20;

/// What joins keep between calls, of the points as they are now.
#[derive(Default)]
pub(super) struct JoinState {
    /// How often points have changed.
    version: u64,
    index: Option<Arc<NearestIndex>>,
    /// How many rows were searched in the tree.
    rows_in_tree: usize,
}

impl JoinState {
    /// Forgets everything of the points, which change now. An index that nobody uses would make
    /// each change a copy.
    pub(super) fn forget(&mut self) {
        *self = JoinState { version: self.version + 1, ..JoinState::default() };
    }
}

/// Where a join looks for points.
enum JoinTarget {
    Tree(Tree),
    Index(Arc<NearestIndex>),
}

impl JoinTarget {
    /// The index if there is one, or if it pays to build it: for N rows, with those that were
    /// searched without it.
    ///
    /// # Errors
    ///
    /// What a handler of a signal raised while the index was built.
    fn of(points: &Points, rows: usize) -> PyResult<JoinTarget> {
        let (tree, version) = {
            let (tree, mut join_state) = points.frozen_for_join();
            if let Some(index) = &join_state.index {
                return Ok(JoinTarget::Index(Arc::clone(index)));
            }
            join_state.rows_in_tree = join_state.rows_in_tree.saturating_add(rows);
            if join_state.rows_in_tree.saturating_mul(POINTS_A_SEARCH) < tree.len() {
                return Ok(JoinTarget::Tree(tree));
            }
            (tree, join_state.version)
        };
        // Without a lock: others may add meanwhile, and then this index is for this call alone.
        let check = || Python::attach(|py: Python<'_>| py.check_signals());
        let index = Arc::new(NearestIndex::try_new(tree, check)?);
        let mut join_state = points.join_state();
        if join_state.version == version {
            join_state.index = Some(Arc::clone(&index));
        }
        Ok(JoinTarget::Index(index))
    }
}

/// Searches one place after another.
enum Searcher<'a> {
    Tree(&'a Tree, Found),
    Index(Box<NearestFinder<'a>>),
}

impl<'a> Searcher<'a> {
    fn new(target: &'a JoinTarget) -> Searcher<'a> {
        match target {
            JoinTarget::Tree(tree) => Searcher::Tree(tree, Found::new()),
            JoinTarget::Index(index) => Searcher::Index(Box::new(NearestFinder::new(index))),
        }
    }

    /// Calls with each of the members that are nearest to a place, and its distance.
    fn find(&mut self, place: Place, request: &Request, mut take: impl FnMut(&[u8], f64)) {
        match self {
            Searcher::Tree(tree, found) => {
                let search = nearest_first(place, request.radius_meters, Some(request.count));
                tree.find(&search, found);
                found.hits(tree).for_each(|hit| take(hit.member(), hit.distance_meters()));
            }
            Searcher::Index(finder) => {
                let hits = finder.find(place, request.count, request.radius_meters);
                hits.iter().for_each(|hit| take(hit.member, hit.distance_meters));
            }
        }
    }
}

/// What a caller asks of a join.
pub(super) struct Request {
    /// How many points a row gets at most.
    pub(super) count: usize,
    /// How far they may be.
    pub(super) radius_meters: f64,
    /// The type of the members.
    pub(super) strings: Layout,
    /// What becomes of a row that is no place.
    pub(super) invalid: Invalid,
    /// How many threads work.
    pub(super) threads: usize,
}

/// The answers to a block of rows.
struct Answer {
    /// How many hits each row has.
    counts: Vec<u32>,
    members: ArrayRef,
    distances: ArrayRef,
}

/// The table of the points nearest to each row.
pub(super) fn run(
    py: Python<'_>,
    points: &Points,
    places: &Coordinates,
    request: &Request,
) -> PyResult<Table> {
    pieces::check_threads(request.threads)?;
    let target = py.detach(|| JoinTarget::of(points, places.len()))?;
    let block = places.len().div_ceil(request.threads).clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX);
    let starts = (0..places.len().max(1)).step_by(block);
    let blocks: Vec<Range<usize>> =
        starts.map(|start| start..(start + block).min(places.len())).collect();
    let mut answers: Vec<Option<Answer>> = blocks.iter().map(|_| None).collect();
    let pieces = blocks.iter().zip(&mut answers).collect();
    pieces::run(py, pieces, request.threads, |(rows, answer)| {
        let explain = |row, fault| match fault {
            Fault::Invalid(error) if request.invalid == Invalid::Raise => {
                Err(coordinates::of_row(row, &error))
            }
            Fault::Null | Fault::Invalid(_) => Ok(()),
        };
        let rows = places.read(rows.clone(), Place::new_geographic, explain)?;
        *answer = Some(join(&target, &rows, request)?);
        Ok(())
    })?;
    let answers: Vec<Answer> = answers.into_iter().flatten().collect();
    Ok(table(&blocks, answers, request))
}

/// The answers to the rows of a block.
fn join(target: &JoinTarget, rows: &[Option<Place>], request: &Request) -> PyResult<Answer> {
    let mut order: Vec<u64> = rows.iter().zip(0..).filter_map(in_order).collect();
    order.sort_unstable();
    // Reads and writes out of order have loops of their own, where they wait together.
    let sorted = order.iter().map(|key| rows.get(*key as u32 as usize).copied().flatten());
    let sorted: Vec<Option<Place>> = sorted.collect();
    let mut members = StringViewBuilder::with_capacity(sorted.len());
    let mut distances: Vec<f64> = Vec::with_capacity(sorted.len());
    // Where the hits of each row end, in the order of the search.
    let mut ends = Vec::with_capacity(sorted.len());
    let mut searcher = Searcher::new(target);
    for some in sorted.chunks(pieces::ROWS) {
        Python::attach(|py: Python<'_>| py.check_signals())?;
        for place in some.iter().flatten() {
            searcher.find(*place, request, |member, meters| {
                members.append_value(String::from_utf8_lossy(member));
                distances.push(meters);
            });
            ends.push(index(distances.len())?);
        }
    }
    let mut hits: Vec<Range<u32>> = vec![0..0; rows.len()];
    let mut start = 0;
    for (key, end) in order.iter().zip(ends) {
        hits[*key as u32 as usize] = start..end;
        start = end;
    }
    gathered(&hits, &members.finish(), &distances, request)
}

/// The order of a place among others, by the upper half of its cell, and below that its row.
fn in_order((place, row): (&Option<Place>, u32)) -> Option<u64> {
    place.map(|place| Cell::from_place(place).bits() >> CELL_BITS_BELOW << 32 | u64::from(row))
}

fn index(at: usize) -> PyResult<u32> {
    let what = "more than four billion points near the rows of a block: pass a smaller count";
    u32::try_from(at).map_err(|_| PyValueError::new_err(what))
}

/// Hits in the order of their rows: with `count=1` a row of the answer for each row, else one for
/// each hit.
fn gathered(
    hits: &[Range<u32>],
    members: &StringViewArray,
    distances: &[f64],
    request: &Request,
) -> PyResult<Answer> {
    let views = members.views();
    let (mut out_views, mut out_distances) = (Vec::new(), Vec::new());
    let mut nulls = None;
    if request.count == 1 {
        out_views.reserve(hits.len());
        out_distances.reserve(hits.len());
        for hit in hits {
            let at = hit.clone().next().map(|at| at as usize);
            out_views.push(at.map_or(0, |at| views[at]));
            out_distances.push(at.map_or(0.0, |at| distances[at]));
        }
        let is_valid: Vec<bool> = hits.iter().map(|hit| !hit.is_empty()).collect();
        nulls = Some(NullBuffer::from(is_valid));
    } else {
        for at in hits.iter().cloned().flatten() {
            out_views.push(views[at as usize]);
            out_distances.push(distances[at as usize]);
        }
    }
    let buffers = members.data_buffers().to_vec();
    let members = StringViewArray::try_new(out_views.into(), buffers, nulls.clone());
    Ok(Answer {
        counts: hits.iter().map(|hit| hit.end - hit.start).collect(),
        members: request.strings.of_views(members.map_err(of_arrow)?)?,
        distances: Arc::new(Float64Array::new(out_distances.into(), nulls)),
    })
}

fn table(blocks: &[Range<usize>], answers: Vec<Answer>, request: &Request) -> Table {
    let mut columns = Vec::new();
    if request.count > 1 {
        let rows = blocks.iter().zip(&answers).map(|(block, answer)| {
            let counted = block.clone().zip(&answer.counts);
            let rows = counted.flat_map(|(row, count)| (0..*count).map(move |_| row as i64));
            Arc::new(Int64Array::from_iter_values(rows)) as ArrayRef
        });
        columns.push(Column::new("row", DataType::Int64, rows.collect()));
        let ranks = answers.iter().map(|answer| {
            let ranks = answer.counts.iter().flat_map(|count| 1..=*count as i32);
            Arc::new(Int32Array::from_iter_values(ranks)) as ArrayRef
        });
        columns.push(Column::new("rank", DataType::Int32, ranks.collect()));
    }
    let (members, distances) =
        answers.into_iter().map(|answer| (answer.members, answer.distances)).unzip();
    columns.push(Column::new("member", request.strings.data_type(), members));
    columns.push(Column::new("distance_meters", DataType::Float64, distances));
    Table::new(columns)
}
