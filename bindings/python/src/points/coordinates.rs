//! Rows of two columns as places, and single places of arguments.
//!
//! Not for: chunks and types of columns (`columns/rows.rs`).

use std::ops::Range;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whered_geo::{Place, PlaceError};

use crate::columns::rows::Numbers;

/// Why a row has no place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Fault {
    /// A number is null.
    Null,
    /// Numbers that are no place, or NaN.
    Invalid(PlaceError),
}

/// How many rows are read at once: their numbers stay near.
const BATCH_ROWS: usize = 1024;

/// The check that makes a place of a longitude and a latitude.
pub(super) type Check = fn(f64, f64) -> Result<Place, PlaceError>;

/// Columns of longitudes and latitudes.
pub(super) struct Coordinates {
    longitude: Numbers,
    latitude: Numbers,
}

impl Coordinates {
    /// The places of columns that a caller passed.
    ///
    /// # Errors
    ///
    /// `ValueError` for columns of different lengths, and the errors of [`Numbers::of_object`].
    pub(super) fn of_objects(
        longitude: &Bound<'_, PyAny>,
        latitude: &Bound<'_, PyAny>,
    ) -> PyResult<Coordinates> {
        let longitude = Numbers::of_object(longitude, "longitude")?;
        let latitude = Numbers::of_object(latitude, "latitude")?;
        same_length(("longitude", longitude.len()), ("latitude", latitude.len()))?;
        Ok(Coordinates { longitude, latitude })
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.longitude.len()
    }

    /// The places of some rows, by what `check` lets pass. `explain` is called with each row that
    /// has none, and ends the reading by an error.
    ///
    /// # Errors
    ///
    /// The first error of `explain`.
    pub(super) fn read<E>(
        &self,
        rows: Range<usize>,
        check: Check,
        explain: impl Fn(usize, Fault) -> Result<(), E>,
    ) -> Result<Vec<Option<Place>>, E> {
        let mut places = Vec::with_capacity(rows.len());
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for start in rows.clone().step_by(BATCH_ROWS) {
            let batch = start..(start + BATCH_ROWS).min(rows.end);
            x.clear();
            y.clear();
            self.longitude.read(batch.clone(), &mut x);
            self.latitude.read(batch.clone(), &mut y);
            for (row, (x, y)) in batch.zip(x.iter().zip(&y)) {
                let place = match (x, y) {
                    (Some(x), Some(y)) => check(*x, *y).map_err(Fault::Invalid),
                    _ => Err(Fault::Null),
                };
                if let Err(fault) = place {
                    explain(row, fault)?;
                }
                places.push(place.ok());
            }
        }
        Ok(places)
    }
}

/// That two columns have a row for each row of the other.
///
/// # Errors
///
/// `ValueError` with both lengths.
pub(super) fn same_length(one: (&str, usize), other: (&str, usize)) -> PyResult<()> {
    if one.1 == other.1 {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{} has {} rows and {} has {}; pass columns of one length",
        one.0, one.1, other.0, other.1
    )))
}

/// A place anywhere on the globe.
///
/// # Errors
///
/// `ValueError` with the number and its limits.
pub(super) fn geographic(longitude: f64, latitude: f64) -> PyResult<Place> {
    Place::new_geographic(longitude, latitude).map_err(|error| out_of_range(&error))
}

/// A place that can be kept.
///
/// # Errors
///
/// As [`geographic`].
pub(super) fn storable(longitude: f64, latitude: f64) -> PyResult<Place> {
    Place::new(longitude, latitude).map_err(|error| out_of_range(&error))
}

fn out_of_range(error: &PlaceError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The error for a row that is no place.
#[cold]
pub(super) fn of_row(row: usize, error: &PlaceError) -> PyErr {
    PyValueError::new_err(format!("row {row}: {error}"))
}
