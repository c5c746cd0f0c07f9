//! Rows of two columns as places, and single places of arguments.
//!
//! Not for: chunks and types of columns (`rows.rs`).

use std::ops::Range;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whered_geo::{Place, PlaceError};

use super::rows::Numbers;

/// What a row says of a place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Row {
    /// A place within the limits.
    Place(Place),
    /// Nothing: a number is null.
    Null,
    /// Numbers that are no place, or NaN.
    Invalid(PlaceError),
}

/// The check that makes a place of a longitude and a latitude.
pub(super) type Check = fn(f64, f64) -> Result<Place, PlaceError>;

/// Columns of longitudes and latitudes.
pub(super) struct Places {
    longitude: Numbers,
    latitude: Numbers,
}

impl Places {
    /// The places of columns that a caller passed.
    ///
    /// # Errors
    ///
    /// `ValueError` for columns of different lengths, and the errors of [`Numbers::of_object`].
    pub(super) fn of_objects(
        longitude: &Bound<'_, PyAny>,
        latitude: &Bound<'_, PyAny>,
    ) -> PyResult<Places> {
        let longitude = Numbers::of_object(longitude, "longitude")?;
        let latitude = Numbers::of_object(latitude, "latitude")?;
        same_length(("longitude", longitude.len()), ("latitude", latitude.len()))?;
        Ok(Places { longitude, latitude })
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.longitude.len()
    }

    /// The places of some rows, by what `check` lets pass.
    pub(super) fn read(&self, rows: Range<usize>, check: Check) -> Vec<Row> {
        let (mut x, mut y) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        self.longitude.read(rows.clone(), &mut x);
        self.latitude.read(rows, &mut y);
        let row = |(x, y): (&Option<f64>, &Option<f64>)| match (x, y) {
            (Some(x), Some(y)) => check(*x, *y).map_or_else(Row::Invalid, Row::Place),
            _ => Row::Null,
        };
        x.iter().zip(&y).map(row).collect()
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
    Place::new_geographic(longitude, latitude).map_err(|error| of_place(&error))
}

/// A place that can be kept.
///
/// # Errors
///
/// As [`geographic`].
pub(super) fn storable(longitude: f64, latitude: f64) -> PyResult<Place> {
    Place::new(longitude, latitude).map_err(|error| of_place(&error))
}

fn of_place(error: &PlaceError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The error for a row that is no place.
#[cold]
pub(super) fn of_row(row: usize, error: &PlaceError) -> PyErr {
    PyValueError::new_err(format!("row {row}: {error}"))
}
