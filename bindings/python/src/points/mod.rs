//! `Points`: named points in memory, and what is near a place.
//!
//! For: the class, its locks and its dictionary-like methods. Not for: reading columns
//! (`coordinates.rs`), searches (`search.rs`), the join of a table with points (`join.rs`).
//!
//! ```text
//! add, remove ──► collection (locked for writing, some rows at a time)
//! searches    ──► a frozen view of it: taken under the lock, searched without it and without
//!                 the GIL, while others add
//! ```

mod coordinates;
mod join;
mod search;

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use whered_geo::{Cell, Place, Tree};

use crate::arrow::output::Table;
use crate::columns::Invalid;
use crate::columns::rows::Names;
use crate::pieces;
use crate::strings::Layout;
use coordinates::{Coordinates, Fault};
use join::JoinState;

/// Adds the class to the package.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Points>()?;
    module.add_class::<Members>()
}

/// How many rows are added under one lock.
const ROWS_ADDED: usize = 1 << 20;
/// More hits than any search has use for; beyond it a number is a mistake.
const COUNT_MAX: i64 = i32::MAX as i64;

/// Named points, and what is near a place.
///
/// A point has a member (its name, unique), a longitude and a latitude in degrees. Positions are
/// kept as Redis keeps them, in cells of 52 bits: a point is given back as the centre of its cell,
/// within 0.6 m of where it was put (0.6 m by 0.3 m at the equator, narrower in longitude towards
/// the poles). Longitudes are -180 to 180; latitudes of points -85.05112878 to 85.05112878, those
/// of places that are asked about -90 to 90. Distances are in metres along a great circle of a
/// sphere, by Redis's formula, from the place to the centre of the cell.
///
/// `Points()` is empty; `Points(members, longitude, latitude)` adds these columns as `add` does.
/// Methods may be called from several threads: a search sees all points of the additions that
/// ended before it began, works without the GIL, and lets others add meanwhile. After a fork the
/// child must not use points that another thread of the parent was changing.
///
/// Cost: some 50 bytes of memory for a point with a short name; adding takes some 0.3 µs a point.
///
/// >>> import whered
/// >>> points = whered.Points(["palermo", "catania"], [13.3614, 15.0873], [38.1156, 37.5027])
/// >>> len(points), "palermo" in points
/// (2, True)
/// >>> points.near(15.0, 37.0, radius_meters=200_000)["member"].to_pylist()
/// ['catania', 'palermo']
///
/// It is like a dictionary, too:
///
/// >>> points["agrigento"] = 13.583333, 37.316667
/// >>> [round(degrees, 4) for degrees in points["agrigento"]]
/// [13.5833, 37.3167]
/// >>> del points["palermo"]
/// >>> sorted(points)
/// ['agrigento', 'catania']
#[pyclass(module = "whered", frozen)]
pub(crate) struct Points {
    points: RwLock<whered_geo::Points>,
    /// Locked after the points.
    join_state: Mutex<JoinState>,
}

impl Points {
    /// The points as they are now.
    fn frozen(&self) -> Tree {
        self.points.read().unwrap_or_else(PoisonError::into_inner).freeze()
    }

    /// The points as they are now, and what joins keep of them.
    fn frozen_for_join(&self) -> (Tree, MutexGuard<'_, JoinState>) {
        let points = self.points.read().unwrap_or_else(PoisonError::into_inner);
        (points.freeze(), self.join_state())
    }

    fn join_state(&self) -> MutexGuard<'_, JoinState> {
        self.join_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the points.
    fn change<T>(&self, change: impl FnOnce(&mut whered_geo::Points) -> T) -> T {
        let mut points = self.points.write().unwrap_or_else(PoisonError::into_inner);
        self.join_state().forget();
        change(&mut points)
    }

    fn cell(&self, py: Python<'_>, member: &str) -> Option<Cell> {
        py.detach(|| {
            let points = self.points.read().unwrap_or_else(PoisonError::into_inner);
            points.cell(member.as_bytes())
        })
    }

    fn add_rows(
        &self,
        py: Python<'_>,
        members: &Names,
        cells: &[Cell],
        threads: usize,
    ) -> PyResult<usize> {
        let mut added = 0;
        for start in (0..cells.len()).step_by(ROWS_ADDED) {
            py.check_signals()?;
            let rows = start..(start + ROWS_ADDED).min(cells.len());
            added += py.detach(|| {
                self.change(|points| {
                    let before = points.len();
                    let mut batch = points.change_batch();
                    let mut cells = cells[rows.clone()].iter();
                    members.for_each(rows, |member| {
                        let member = member.unwrap_or_default();
                        batch.push(member.as_bytes(), cells.next().copied());
                    });
                    points.apply_batch(&mut batch, threads);
                    points.len() - before
                })
            });
        }
        Ok(added)
    }
}

#[pymethods]
impl Points {
    #[new]
    #[pyo3(signature = (members=None, longitude=None, latitude=None, *, threads=1))]
    fn new(
        py: Python<'_>,
        members: Option<&Bound<'_, PyAny>>,
        longitude: Option<&Bound<'_, PyAny>>,
        latitude: Option<&Bound<'_, PyAny>>,
        threads: usize,
    ) -> PyResult<Points> {
        let points = Points { points: RwLock::default(), join_state: Mutex::default() };
        match (members, longitude, latitude) {
            (None, None, None) => {}
            (Some(members), Some(longitude), Some(latitude)) => {
                points.add(py, members, longitude, latitude, threads)?;
            }
            _ => {
                let what = "Points takes members, longitude and latitude, or none of them";
                return Err(PyTypeError::new_err(what));
            }
        }
        Ok(points)
    }

    /// Adds points from columns of one length; a member that is there already moves.
    ///
    /// `members` are strings, or whole numbers, which count as they are written: 7 is "7". Of a
    /// member in several rows the last row counts. Returns how many members are new.
    ///
    /// `threads` is how many threads add. Cost: some 0.3 µs a row.
    ///
    /// Raises `ValueError` that names the row for a null, a NaN or a number beyond the limits, and
    /// for columns of different lengths; nothing is added then. Ctrl-C ends a long call after some
    /// of the rows, which stay.
    ///
    /// >>> import whered
    /// >>> points = whered.Points()
    /// >>> points.add(["a", "b", "a"], [8.0, 9.0, 8.5], [50.0, 51.0, 50.5])
    /// 2
    /// >>> points.add(["c"], [8.0], [95.0])
    /// Traceback (most recent call last):
    ///     ...
    /// ValueError: row 0: latitude 95 is not within -85.05112878 to 85.05112878 degrees
    #[pyo3(signature = (members, longitude, latitude, *, threads=1))]
    fn add(
        &self,
        py: Python<'_>,
        members: &Bound<'_, PyAny>,
        longitude: &Bound<'_, PyAny>,
        latitude: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<usize> {
        pieces::check_threads(threads)?;
        let members = Names::of_object(members, "members")?;
        let places = Coordinates::of_objects(longitude, latitude)?;
        coordinates::same_length(("members", members.len()), ("longitude", places.len()))?;
        let explain = |row, fault| match fault {
            Fault::Null => Err(of_null(row, "the longitude or latitude")),
            Fault::Invalid(error) => Err(coordinates::of_row(row, &error)),
        };
        let mut cells = Vec::with_capacity(places.len());
        for start in (0..places.len()).step_by(pieces::ROWS) {
            py.check_signals()?;
            let rows = start..(start + pieces::ROWS).min(places.len());
            py.detach(|| {
                if let Some(row) = members.first_null(rows.clone()) {
                    return Err(of_null(row, "the member"));
                }
                let places = places.read(rows, Place::new, explain)?;
                cells.extend(places.into_iter().flatten().map(Cell::from_place));
                Ok(())
            })?;
        }
        self.add_rows(py, &members, &cells, threads)
    }

    /// Removes the members of a column; those that are not there do not matter. Returns how many
    /// were there.
    ///
    /// Raises `ValueError` that names the row for a null; nothing is removed then. Cost: some 0.3
    /// µs a row.
    ///
    /// >>> import whered
    /// >>> points = whered.Points(["a", "b"], [8.0, 9.0], [50.0, 51.0])
    /// >>> points.remove(["a", "z"]), len(points)
    /// (1, 1)
    fn remove(&self, py: Python<'_>, members: &Bound<'_, PyAny>) -> PyResult<usize> {
        let members = Names::of_object(members, "members")?;
        let null = py.detach(|| members.first_null(0..members.len()));
        if let Some(row) = null {
            return Err(of_null(row, "the member"));
        }
        let mut removed = 0;
        for start in (0..members.len()).step_by(pieces::ROWS) {
            py.check_signals()?;
            let rows = start..(start + pieces::ROWS).min(members.len());
            py.detach(|| {
                self.change(|points| {
                    members.for_each(rows, |member| {
                        let member = member.unwrap_or_default();
                        removed += usize::from(points.remove(member.as_bytes()));
                    });
                });
            });
        }
        Ok(removed)
    }

    /// The points nearest to a place, nearest first: a table of `member`, `distance_meters`,
    /// `longitude` and `latitude`.
    ///
    /// Give `count`, the most points wanted, or `radius_meters`, the largest distance, or both.
    /// Points at the same distance come in any order.
    ///
    /// Raises `ValueError` for a place off the globe, a radius below 0 and a count below 1. Cost:
    /// some µs for few hits, some 50 ns more for each.
    ///
    /// >>> import whered
    /// >>> points = whered.Points(["a", "b"], [8.0, 9.0], [50.0, 51.0])
    /// >>> table = points.near(8.1, 50.0, count=1)
    /// >>> table["member"].to_pylist(), [round(meters) for meters in table["distance_meters"]]
    /// (['a'], [7149])
    #[pyo3(signature = (
        longitude, latitude, *, radius_meters=None, count=None, strings="utf8_view"
    ))]
    fn near(
        &self,
        py: Python<'_>,
        longitude: f64,
        latitude: f64,
        radius_meters: Option<f64>,
        count: Option<i64>,
        strings: &str,
    ) -> PyResult<Table> {
        let center = coordinates::geographic(longitude, latitude)?;
        let strings = Layout::of_name(strings)?;
        if radius_meters.is_none() && count.is_none() {
            return Err(PyValueError::new_err("near takes radius_meters, count, or both"));
        }
        let count = count.map(checked_count).transpose()?;
        let search = search::nearest_first(center, checked_radius(radius_meters)?, count);
        let tree = py.detach(|| self.frozen());
        search::run(py, &tree, &search, &search::NEAR, strings)
    }

    /// All points inside a shape: a table of `member`, `longitude` and `latitude`, for a circle
    /// also `distance_meters`, in no particular order.
    ///
    /// The shape is one of these, in degrees:
    ///
    /// - `box=(west, south, east, north)`, rims included; if west is more than east, it is the box
    ///   across the date line;
    /// - `polygon=[(longitude, latitude), ...]`, three corners or more on a flat map; of points on
    ///   the rim those of western and southern edges are inside. An edge does not cross the date
    ///   line;
    /// - `circle=(longitude, latitude, radius_meters)`, rim included.
    ///
    /// Raises `ValueError` for no or more than one shape, and for numbers beyond the limits. Cost:
    /// some µs, and some 50 ns for each hit.
    ///
    /// >>> import whered
    /// >>> points = whered.Points(["a", "b"], [8.0, 9.0], [50.0, 51.0])
    /// >>> points.within(box=(7.5, 49.5, 8.5, 50.5))["member"].to_pylist()
    /// ['a']
    /// >>> points.within(polygon=[(7, 50.5), (10, 50.5), (10, 52)])["member"].to_pylist()
    /// ['b']
    /// >>> points.within(circle=(8.0, 50.0, 1_000)).names
    /// ['member', 'distance_meters', 'longitude', 'latitude']
    #[pyo3(signature = (*, r#box=None, polygon=None, circle=None, strings="utf8_view"))]
    fn within(
        &self,
        py: Python<'_>,
        r#box: Option<(f64, f64, f64, f64)>,
        polygon: Option<&Bound<'_, PyAny>>,
        circle: Option<(f64, f64, f64)>,
        strings: &str,
    ) -> PyResult<Table> {
        let strings = Layout::of_name(strings)?;
        match (r#box, polygon, circle) {
            (Some(sides), None, None) => {
                let area = search::Area::of_sides(sides)?;
                let tree = py.detach(|| self.frozen());
                search::run_box(py, &tree, &area, strings)
            }
            (None, Some(corners), None) => {
                let search = search::of_polygon(search::corners(corners)?)?;
                let tree = py.detach(|| self.frozen());
                search::run(py, &tree, &search, &search::WITHIN, strings)
            }
            (None, None, Some((longitude, latitude, radius))) => {
                let center = coordinates::geographic(longitude, latitude)?;
                let search = search::of_circle(center, checked_radius(Some(radius))?);
                let tree = py.detach(|| self.frozen());
                search::run(py, &tree, &search, &search::NEAR, strings)
            }
            _ => Err(PyValueError::new_err("within takes one of box, polygon and circle")),
        }
    }

    /// The nearest points to each row of a table: a nearest join.
    ///
    /// With `count=1` the answer is a table of `member` and `distance_meters` with one row for each
    /// row of the columns, null where there is none. With a larger `count` it is a table of `row`
    /// (from 0), `rank` (from 1), `member` and `distance_meters`, with up to `count` rows for each
    /// row of the columns, in their order. `radius_meters` is the largest distance.
    ///
    /// A null gives null. NaN and numbers beyond the limits give null with `invalid="null"`, and
    /// with `invalid="raise"` a `ValueError` that names the row. Of points at the same distance any
    /// is given. `strings` is the Arrow type of `member`: "utf8_view", "utf8", "large_utf8" or
    /// "dictionary".
    ///
    /// Raises `ValueError` for columns of different lengths, a count below 1 and a radius below 0.
    /// Cost: up to a µs a row on each of `threads` threads, some more for few rows. For many rows
    /// an index of some 31 bytes a point is made first, in 0.1 µs a point, and kept until points
    /// change.
    ///
    /// >>> import whered
    /// >>> points = whered.Points(["palermo", "catania"], [13.3614, 15.0873], [38.1156, 37.5027])
    /// >>> table = points.nearest([13.0, 15.0, None], [38.0, 37.0, 37.0])
    /// >>> table["member"].to_pylist(), [m and round(m) for m in table["distance_meters"]]
    /// (['palermo', 'catania', None], [34163, 56445, None])
    /// >>> points.nearest([13.0], [38.0], count=2).to_pydict()["rank"]
    /// [1, 2]
    #[pyo3(signature = (
        longitude, latitude, *, count=1, radius_meters=None, strings="utf8_view", invalid="null",
        threads=1
    ))]
    #[allow(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn nearest(
        &self,
        py: Python<'_>,
        longitude: &Bound<'_, PyAny>,
        latitude: &Bound<'_, PyAny>,
        count: i64,
        radius_meters: Option<f64>,
        strings: &str,
        invalid: &str,
        threads: usize,
    ) -> PyResult<Table> {
        let request = join::Request {
            count: checked_count(count)?,
            radius_meters: checked_radius(radius_meters)?,
            strings: Layout::of_name(strings)?,
            invalid: Invalid::of_name(invalid)?,
            threads,
        };
        let places = Coordinates::of_objects(longitude, latitude)?;
        join::run(py, self, &places, &request)
    }

    /// The longitude and latitude of a member, or `default` if it is not there.
    ///
    /// >>> import whered
    /// >>> points = whered.Points(["a"], [8.0], [50.0])
    /// >>> points.get("z") is None
    /// True
    #[pyo3(signature = (member, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        member: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.cell(py, member) {
            Some(cell) => Ok(Some(degrees(cell).into_pyobject(py)?.into_any())),
            None => Ok(default),
        }
    }

    /// The number of points.
    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.points.read().unwrap_or_else(PoisonError::into_inner).len())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<whered.Points: {} points>", self.__len__(py))
    }

    /// Whether there is such a member.
    fn __contains__(&self, py: Python<'_>, member: &str) -> bool {
        self.cell(py, member).is_some()
    }

    /// The longitude and latitude of a member, the centre of its cell. Raises `KeyError` if it is
    /// not there.
    fn __getitem__(&self, py: Python<'_>, member: &str) -> PyResult<(f64, f64)> {
        self.cell(py, member).map(degrees).ok_or_else(|| PyKeyError::new_err(member.to_owned()))
    }

    /// Adds or moves one point: `points["a"] = longitude, latitude`. Raises `ValueError` for
    /// numbers beyond the limits. Columns are many times quicker to add.
    fn __setitem__(&self, py: Python<'_>, member: &str, place: (f64, f64)) -> PyResult<()> {
        let cell = Cell::from_place(coordinates::storable(place.0, place.1)?);
        py.detach(|| self.change(|points| points.insert(member.as_bytes(), cell)));
        Ok(())
    }

    /// Removes one point. Raises `KeyError` if it is not there.
    fn __delitem__(&self, py: Python<'_>, member: &str) -> PyResult<()> {
        let was_there = py.detach(|| self.change(|points| points.remove(member.as_bytes())));
        if was_there { Ok(()) } else { Err(PyKeyError::new_err(member.to_owned())) }
    }

    /// The members as they are now; later changes do not matter.
    fn __iter__(&self, py: Python<'_>) -> Members {
        Members { tree: py.detach(|| self.frozen()), next: Mutex::new(0) }
    }

    /// Bytes of memory that the points take, without the index of `nearest`.
    #[getter]
    fn memory_bytes(&self, py: Python<'_>) -> usize {
        py.detach(|| self.points.read().unwrap_or_else(PoisonError::into_inner).memory_bytes())
    }
}

/// The members of points, one by one.
#[pyclass(module = "whered", frozen, name = "_Members")]
pub(crate) struct Members {
    tree: Tree,
    next: Mutex<usize>,
}

#[pymethods]
impl Members {
    fn __iter__(slf: Py<Members>) -> Py<Members> {
        slf
    }

    fn __next__(&self) -> Option<String> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let (member, _) = self.tree.iter_from_rank(*next).next()?;
        *next += 1;
        Some(String::from_utf8_lossy(member).into_owned())
    }
}

fn degrees(cell: Cell) -> (f64, f64) {
    let place = cell.place();
    (place.longitude_degrees, place.latitude_degrees)
}

/// # Errors
///
/// `ValueError` for a count below 1.
fn checked_count(count: i64) -> PyResult<usize> {
    match usize::try_from(count) {
        Ok(count) if (1..=COUNT_MAX as usize).contains(&count) => Ok(count),
        _ => Err(PyValueError::new_err(format!("count={count}: allowed are 1 to {COUNT_MAX}"))),
    }
}

/// The radius, or one that holds everything.
///
/// # Errors
///
/// `ValueError` for a radius below 0, or NaN.
fn checked_radius(radius_meters: Option<f64>) -> PyResult<f64> {
    match radius_meters {
        None => Ok(f64::INFINITY),
        Some(radius) if radius >= 0.0 => Ok(radius),
        Some(radius) => Err(PyValueError::new_err(format!(
            "radius_meters={radius}: allowed are numbers from 0"
        ))),
    }
}

#[cold]
fn of_null(row: usize, what: &str) -> PyErr {
    PyValueError::new_err(format!("row {row}: {what} is null"))
}
