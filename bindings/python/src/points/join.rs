//! The nearest points to each row of a table.
//!
//! ```text
//! block of rows ──► places ──► sorted by cell ──► searched in that order: neighbouring rows read
//!                                                 the same leaves
//! chunk of the answer ◄── gathered in the order of the rows ◄── members and distances
//! ```
//!
//! Blocks are worked on by several threads; each becomes a chunk of the answer.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringViewArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whered_geo::{Cell, Found, Place, Tree};

use super::Points;
use super::places::{self, Places, Row};
use super::search::nearest_first;
use crate::arrow::output::{Column, Table};
use crate::columns::Invalid;
use crate::pieces;
use crate::texts::{Layout, of_arrow};

/// The most rows of a block: a tenth of a second of work, and enough for neighbours to be near.
const BLOCK_ROWS_MAX: usize = 1 << 18;
/// The fewest, unless there are no more.
const BLOCK_ROWS_MIN: usize = 1 << 14;

/// What a caller asks of a join.
pub(super) struct Request {
    /// How many points a row gets at most.
    pub(super) count: usize,
    /// How far they may be.
    pub(super) radius_meters: f64,
    /// The type of the members.
    pub(super) texts: Layout,
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
    places: &Places,
    request: &Request,
) -> PyResult<Table> {
    pieces::check_threads(request.threads)?;
    let tree = py.detach(|| points.frozen());
    let block = places.len().div_ceil(2 * request.threads).clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX);
    let starts = (0..places.len().max(1)).step_by(block);
    let blocks: Vec<Range<usize>> =
        starts.map(|start| start..(start + block).min(places.len())).collect();
    let mut answers: Vec<Option<Answer>> = blocks.iter().map(|_| None).collect();
    let pieces = blocks.iter().zip(&mut answers).collect();
    pieces::run(py, pieces, request.threads, |(rows, answer)| {
        let rows = places_of(places, rows.clone(), request)?;
        *answer = Some(join(&tree, &rows, request)?);
        Ok(())
    })?;
    let answers: Vec<Answer> = answers.into_iter().flatten().collect();
    Ok(table(&blocks, answers, request))
}

/// The places of some rows; `None` where there is none.
fn places_of(
    places: &Places,
    rows: Range<usize>,
    request: &Request,
) -> PyResult<Vec<Option<Place>>> {
    let read = places.read(rows.clone(), Place::new_geographic);
    let place = |(row, place)| match place {
        Row::Place(place) => Ok(Some(place)),
        Row::Invalid(error) if request.invalid == Invalid::Raise => {
            Err(places::of_row(row, &error))
        }
        Row::Null | Row::Invalid(_) => Ok(None),
    };
    rows.zip(read).map(place).collect()
}

/// The answers to the rows of a block.
fn join(tree: &Tree, rows: &[Option<Place>], request: &Request) -> PyResult<Answer> {
    let mut order: Vec<(u64, u32)> = rows.iter().zip(0..).filter_map(in_order).collect();
    order.sort_unstable();
    // Where the hits of each row are among all hits, which are in the order of the search.
    let mut hits: Vec<Range<u32>> = vec![0..0; rows.len()];
    let mut members = StringViewBuilder::new();
    let mut distances: Vec<f64> = Vec::with_capacity(order.len());
    let mut found = Found::new();
    for (_, row) in order {
        let Some(place) = rows[row as usize] else { continue };
        let search = nearest_first(place, request.radius_meters, Some(request.count));
        tree.find(&search, &mut found);
        let start = distances.len();
        for hit in found.hits(tree) {
            members.append_value(String::from_utf8_lossy(hit.member()));
            distances.push(hit.distance_meters());
        }
        hits[row as usize] = index(start)?..index(distances.len())?;
    }
    gathered(&hits, &members.finish(), &distances, request)
}

/// A place's cell, and its row.
fn in_order((place, row): (&Option<Place>, u32)) -> Option<(u64, u32)> {
    place.map(|place| (Cell::from_place(place).bits(), row))
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
        members: request.texts.of_views(members.map_err(of_arrow)?)?,
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
    columns.push(Column::new("member", request.texts.data_type(), members));
    columns.push(Column::new("distance_meters", DataType::Float64, distances));
    Table::new(columns)
}
