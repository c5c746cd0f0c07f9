//! A column of addresses looked up: pieces of rows, on threads, without Python's lock.
//!
//! Not for reading addresses (`crate::columns`), nor for laying answers out (`answers`).

use std::io::Write as _;
use std::iter;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whered_ip::Prefix;
use whered_mmdb::Found;

use super::answers::{Buffers, Fill, RowStrings, written};
use super::version::{Field, Version};
use crate::arrow::output::Column;
use crate::columns::addresses::{Addresses, BATCH_ROWS, Batch, Kind};
use crate::columns::{Invalid, Piece, pieces_of};
use crate::pieces;
use crate::strings::Layout;

/// What is asked for.
pub(crate) struct Request<'a> {
    pub(crate) fields: &'a [Arc<Field>],
    pub(crate) network: bool,
    pub(crate) layout: Layout,
    pub(crate) invalid: Invalid,
}

/// Some rows, and what is filled with their answers.
struct Work<'a> {
    piece: Piece,
    fills: Vec<Fill<'a>>,
    networks: Option<&'a mut RowStrings>,
}

/// The answers for a column: one column for each field, and the networks' at the end.
///
/// # Errors
///
/// `ValueError` for a row that is no address, if that is asked for; `InvalidDatabaseError` for a
/// mapped file that was cut; what a signal's handler raises.
pub(crate) fn run(
    py: Python<'_>,
    version: &Version,
    addresses: &Addresses,
    request: &Request<'_>,
    threads: usize,
) -> PyResult<Vec<Column>> {
    let lengths = addresses.lengths();
    let pieces = pieces_of(lengths);
    // By fields, then by chunks.
    let mut buffers: Vec<Vec<Buffers<'_>>> = Vec::with_capacity(request.fields.len());
    for field in request.fields {
        let of_chunk = |rows: &usize| Buffers::new(&field.values, request.layout, *rows);
        buffers.push(lengths.iter().map(of_chunk).collect());
    }
    let mut networks: Vec<RowStrings> = Vec::new();
    if request.network {
        networks.resize_with(pieces.len(), RowStrings::default);
    }
    let chunk_of_piece: Vec<usize> = pieces.iter().map(|piece| piece.chunk).collect();
    let mut fills: Vec<_> = buffers
        .iter_mut()
        .map(|chunks| chunks.iter_mut().flat_map(Buffers::fills).collect::<Vec<_>>().into_iter())
        .collect();
    let slots = networks.iter_mut().map(Some).chain(iter::repeat_with(|| None));
    let work = pieces.into_iter().zip(slots).map(|(piece, networks)| Work {
        piece,
        fills: fills.iter_mut().filter_map(Iterator::next).collect(),
        networks,
    });
    let work: Vec<Work<'_>> = work.collect();
    drop(fills);
    pieces::run(py, work, threads, |work| answer(version, addresses, request.invalid, work))?;
    py.detach(|| finish(request, buffers, &mut networks, lengths, &chunk_of_piece))
}

/// The filled buffers as columns.
fn finish(
    request: &Request<'_>,
    buffers: Vec<Vec<Buffers<'_>>>,
    networks: &mut [RowStrings],
    lengths: &[usize],
    chunk_of_piece: &[usize],
) -> PyResult<Vec<Column>> {
    let mut columns = Vec::new();
    for (field, chunks) in request.fields.iter().zip(buffers) {
        let arrays = chunks.into_iter().map(Buffers::finish).collect::<PyResult<_>>()?;
        let data_type = field.values.number_type().unwrap_or_else(|| request.layout.data_type());
        columns.push(Column::new(&field.name, data_type, arrays));
    }
    if request.network {
        let mut arrays = Vec::new();
        let mut start = 0;
        for chunk in 0..lengths.len() {
            let count = chunk_of_piece.iter().filter(|of| **of == chunk).count();
            let of_chunk = networks.get_mut(start..start + count).unwrap_or_default();
            arrays.push(written(of_chunk, request.layout)?);
            start += count;
        }
        columns.push(Column::new("network", request.layout.data_type(), arrays));
    }
    Ok(columns)
}

/// Answers one piece.
fn answer(
    version: &Version,
    addresses: &Addresses,
    invalid: Invalid,
    mut work: Work<'_>,
) -> PyResult<()> {
    version.opened.check()?;
    let mut rows = Vec::with_capacity(work.piece.rows.len());
    let mut batch = Batch::default();
    let mut found = Vec::new();
    for start in work.piece.rows.clone().step_by(BATCH_ROWS) {
        let end = (start + BATCH_ROWS).min(work.piece.rows.end);
        let piece = Piece { rows: start..end, ..work.piece.clone() };
        addresses.read(&piece, &mut batch, invalid)?;
        find(version, &batch, &mut found);
        if invalid == Invalid::Raise {
            refuse_uncovered(version, &batch, &piece)?;
        }
        if let Some(networks) = &mut work.networks {
            write_networks(version, &batch, &found, networks);
        }
        rows.extend(found.iter().map(|found| found.row));
    }
    for fill in work.fills {
        fill(&rows);
    }
    Ok(())
}

/// The rows of the index for a batch: row 0 for what is no address.
fn find(version: &Version, batch: &Batch, found: &mut Vec<Found>) {
    let index = &version.opened.index;
    found.clear();
    found.resize(batch.v4.len(), Found::default());
    index.lookup4_batch(&batch.v4, found);
    if batch.v6.is_empty() && batch.kinds.iter().all(|kind| *kind == Kind::V4) {
        return;
    }
    for (found, kind) in found.iter_mut().zip(&batch.kinds) {
        if *kind != Kind::V4 {
            *found = Found::default();
        }
    }
    let mut found6 = vec![Found::default(); batch.v6.len()];
    if version.is_plain6() {
        index.lookup6_batch(&batch.v6, &mut found6);
    } else {
        for (found, address) in found6.iter_mut().zip(&batch.v6) {
            *found = version.find6(*address);
        }
    }
    for (row, answer) in batch.v6_rows.iter().zip(found6) {
        if let Some(found) = found.get_mut(*row as usize) {
            *found = answer;
        }
    }
}

fn refuse_uncovered(version: &Version, batch: &Batch, piece: &Piece) -> PyResult<()> {
    let is_uncovered = |kind: &Kind| match kind {
        Kind::V4 => !version.covers(true),
        Kind::V6 => !version.covers(false),
        Kind::Null | Kind::Invalid => false,
    };
    match batch.kinds.iter().position(is_uncovered) {
        None => Ok(()),
        Some(at) => {
            let row = piece.before + piece.rows.start + at;
            let family = if batch.kinds.get(at) == Some(&Kind::V4) { "IPv4" } else { "IPv6" };
            Err(PyValueError::new_err(format!(
                "row {row}: an {family} address; the database has no {family} networks"
            )))
        }
    }
}

/// The networks of a batch as strings; none for what is no address or of a family that the database
/// does not have.
fn write_networks(version: &Version, batch: &Batch, found: &[Found], networks: &mut RowStrings) {
    let mut v6 = batch.v6.iter();
    for ((kind, v4), found) in batch.kinds.iter().zip(&batch.v4).zip(found) {
        let network: Option<Prefix> = match kind {
            Kind::V4 if version.covers(true) => {
                Some(found.network(std::net::Ipv4Addr::from_bits(*v4).into()))
            }
            Kind::V6 => {
                let address = v6.next().copied().unwrap_or_default();
                let address = std::net::Ipv6Addr::from_bits(address);
                version.covers(false).then(|| found.network(address.into()))
            }
            Kind::V4 | Kind::Null | Kind::Invalid => None,
        };
        // Writing into memory does not fail.
        let end = network.and_then(|network| {
            write!(networks.bytes, "{network}").ok().map(|()| networks.bytes.len())
        });
        networks.ends.push(end);
    }
}
