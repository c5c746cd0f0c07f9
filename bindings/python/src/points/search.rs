//! Searches for what is near one place or inside one shape, and their tables.
//!
//! Cost: a search in the tree; a table is built in chunks, between which Python may raise what a
//! signal brought.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, StringViewBuilder};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use whered_geo::{Found, FoundCursor, FoundHit, Order, Place, Polygon, Search, Shape, Tree};

use super::coordinates;
use crate::arrow::output::{Column, Table};
use crate::pieces;
use crate::strings::Layout;

/// What a table says of each hit, besides its member and place.
pub(super) struct Columns {
    has_distance: bool,
}

/// The table of places with distances.
pub(super) const NEAR: Columns = Columns { has_distance: true };
/// The table without distances.
pub(super) const WITHIN: Columns = Columns { has_distance: false };

/// How far the polygon of a box reaches beyond it: every hit is tested against the box itself.
const BEYOND_DEGREES: f64 = 1e-6;

/// A box on the map, rims included.
pub(super) struct Area {
    west: f64,
    south: f64,
    east: f64,
    north: f64,
}

impl Area {
    /// A box of west, south, east and north, in degrees.
    ///
    /// # Errors
    ///
    /// `ValueError` for numbers beyond the limits, and a south that is north of the north.
    pub(super) fn of_sides((west, south, east, north): (f64, f64, f64, f64)) -> PyResult<Area> {
        coordinates::geographic(west, south)?;
        coordinates::geographic(east, north)?;
        if south > north {
            return Err(PyValueError::new_err(format!(
                "box: south {south} is more than north {north}; a box is (west, south, east, north)"
            )));
        }
        Ok(Area { west, south, east, north })
    }

    fn contains(&self, place: Place) -> bool {
        let (x, y) = (place.longitude_degrees, place.latitude_degrees);
        let is_between = if self.west <= self.east {
            self.west <= x && x <= self.east
        } else {
            self.west <= x || x <= self.east
        };
        is_between && self.south <= y && y <= self.north
    }

    /// Polygons that hold all of it and a little more: one, or two at the date line.
    fn searches(&self) -> Vec<Search> {
        let spans = if self.west <= self.east {
            vec![(self.west, self.east)]
        } else {
            vec![(self.west, 180.0), (-180.0, self.east)]
        };
        let around = |(west, east): (f64, f64)| {
            let (west, east) = (west - BEYOND_DEGREES, east + BEYOND_DEGREES);
            let (south, north) = (self.south - BEYOND_DEGREES, self.north + BEYOND_DEGREES);
            let at =
                |longitude_degrees, latitude_degrees| Place { longitude_degrees, latitude_degrees };
            Polygon::new(&[at(west, south), at(east, south), at(east, north), at(west, north)])
        };
        spans.into_iter().filter_map(around).map(unsorted).collect()
    }
}

/// The search for points around a place.
pub(super) fn nearest_first(center: Place, radius_meters: f64, count: Option<usize>) -> Search {
    Search {
        center,
        shape: Shape::Circle { radius_meters },
        order: Order::Ascending,
        count,
        any: false,
    }
}

/// The search for all points in a circle.
pub(super) fn of_circle(center: Place, radius_meters: f64) -> Search {
    Search { order: Order::Unsorted, ..nearest_first(center, radius_meters, None) }
}

/// The search for all points in a polygon.
///
/// # Errors
///
/// `ValueError` for fewer than three corners.
pub(super) fn of_polygon(corners: Vec<Place>) -> PyResult<Search> {
    let polygon = Polygon::new(&corners);
    polygon.map(unsorted).ok_or_else(|| {
        let count = corners.len();
        PyValueError::new_err(format!("a polygon has 3 corners or more, this one has {count}"))
    })
}

fn unsorted(polygon: Polygon) -> Search {
    Search {
        center: polygon.center(),
        shape: Shape::Polygon(polygon),
        order: Order::Unsorted,
        count: None,
        any: false,
    }
}

/// The corners of a polygon: any iterable of pairs.
///
/// # Errors
///
/// `TypeError` for what is no iterable of pairs, `ValueError` for numbers beyond the limits.
pub(super) fn corners(object: &Bound<'_, PyAny>) -> PyResult<Vec<Place>> {
    let mut places = Vec::new();
    for (number, corner) in object.try_iter()?.enumerate() {
        let pair: Vec<f64> = corner?
            .try_iter()
            .and_then(|numbers| numbers.map(|number| number?.extract()).collect())
            .map_err(|_| of_corner(number))?;
        let [longitude, latitude] = pair[..] else { return Err(of_corner(number)) };
        places.push(coordinates::geographic(longitude, latitude)?);
    }
    Ok(places)
}

#[cold]
fn of_corner(number: usize) -> PyErr {
    PyTypeError::new_err(format!("polygon, corner {number}: pass pairs of longitude and latitude"))
}

/// The table of what a search finds.
pub(super) fn run(
    py: Python<'_>,
    tree: &Tree,
    search: &Search,
    columns: &Columns,
    strings: Layout,
) -> PyResult<Table> {
    let mut answer = Answer::new(columns, strings);
    answer.take(py, tree, search, |_| true)?;
    answer.table()
}

/// The table of what is in a box.
pub(super) fn run_box(
    py: Python<'_>,
    tree: &Tree,
    area: &Area,
    strings: Layout,
) -> PyResult<Table> {
    let mut answer = Answer::new(&WITHIN, strings);
    for search in area.searches() {
        answer.take(py, tree, &search, |hit| area.contains(hit.place()))?;
    }
    answer.table()
}

/// Chunks of hits so far.
struct Answer {
    has_distance: bool,
    strings: Layout,
    members: Vec<ArrayRef>,
    distances: Vec<ArrayRef>,
    longitudes: Vec<ArrayRef>,
    latitudes: Vec<ArrayRef>,
}

impl Answer {
    fn new(columns: &Columns, strings: Layout) -> Answer {
        Answer {
            has_distance: columns.has_distance,
            strings,
            members: Vec::new(),
            distances: Vec::new(),
            longitudes: Vec::new(),
            latitudes: Vec::new(),
        }
    }

    /// Appends the hits of a search that `keep` lets pass.
    fn take(
        &mut self,
        py: Python<'_>,
        tree: &Tree,
        search: &Search,
        keep: impl Fn(&FoundHit<'_>) -> bool + Sync,
    ) -> PyResult<()> {
        let mut found = Found::new();
        py.detach(|| tree.find(search, &mut found));
        let mut cursor = FoundCursor::default();
        while cursor.hits() < found.len() {
            py.check_signals()?;
            py.detach(|| {
                let end = cursor.hits() + pieces::ROWS;
                let hits = std::iter::from_fn(|| {
                    (cursor.hits() < end).then(|| found.next_hit(tree, &mut cursor)).flatten()
                });
                self.push(hits.filter(|hit| keep(hit)))
            })?;
        }
        Ok(())
    }

    /// Appends a chunk.
    fn push<'a>(&mut self, hits: impl Iterator<Item = FoundHit<'a>>) -> PyResult<()> {
        let mut members = StringViewBuilder::new();
        let (mut x, mut y) = (Float64Builder::new(), Float64Builder::new());
        let mut distances = Float64Builder::new();
        for hit in hits {
            members.append_value(String::from_utf8_lossy(hit.member()));
            let place = hit.place();
            x.append_value(place.longitude_degrees);
            y.append_value(place.latitude_degrees);
            if self.has_distance {
                distances.append_value(hit.distance_meters());
            }
        }
        self.members.push(self.strings.of_views(members.finish())?);
        self.longitudes.push(Arc::new(x.finish()));
        self.latitudes.push(Arc::new(y.finish()));
        self.distances.push(Arc::new(distances.finish()));
        Ok(())
    }

    fn table(mut self) -> PyResult<Table> {
        if self.members.iter().all(Array::is_empty) {
            self = Answer::new(&Columns { has_distance: self.has_distance }, self.strings);
            self.push(std::iter::empty())?;
        }
        let floats = |name, chunks| Column::new(name, DataType::Float64, chunks);
        let mut columns = vec![Column::new("member", self.strings.data_type(), self.members)];
        if self.has_distance {
            columns.push(floats("distance_meters", self.distances));
        }
        columns.push(floats("longitude", self.longitudes));
        columns.push(floats("latitude", self.latitudes));
        Ok(Table::new(columns))
    }
}
