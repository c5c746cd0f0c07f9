//! Which parts of the globe a pool sends to which of its sites, by the places of a database.
//!
//! For: a map of it. Each network of the database that has a place is counted in the cell of a grid
//! where that place is, under the site that the pool chooses for its addresses: by the functions
//! that choose, never by a second implementation of the choice.
//!
//! ```text
//! networks ──> NetworkTable: addresses by record and context ── policy, once a row ──> cells
//!              kept while the databases, sets and maps stay
//! ```
//!
//! Invariants: what is drawn is what the policy comes to at one moment, that of its snapshot; a
//! drawing is given again only while that snapshot is current, and for a second where members of
//! sets expire.
//! At the same time: any number of threads; those that need the table that one of them makes wait
//! for it, and for no other.
//! Memory: the two tables that were used last (`table.rs`).
//! Cost: a walk over the database once, then an evaluation of the policy for each different place.
//! Both are shared among the processors (`parallel.rs`).

mod counts;
mod parallel;
mod table;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use whered_geo::Place;
use whered_mmdb::RecordId;

use super::compiled::Step;
use super::outcome::Outcome;
use super::region::DATABASES_MAX;
use super::snapshot::{PolicySnapshot, Subject};
use super::{Live, Steering};
use crate::databases::NamedDatabase;
use crate::error::ExplainError;
use crate::sync;
use counts::Counts;
use table::{Context, NetworkTable, TableKey};

/// The smallest and the largest side of a cell, in degrees.
pub const CELL_DEGREES: [f64; 2] = [0.25, 90.0];

/// How many drawings and how many tables are kept.
const DRAWINGS_MAX: usize = 8;
const TABLES_MAX: usize = 2;
/// For how long a drawing stands where members of sets expire.
const VOLATILE_TIME: Duration = Duration::from_secs(1);
/// After how many networks the caller may end it.
const NETWORKS_BETWEEN_CHECKS: u64 = 4096;
/// How often a thread that waits for a table looks whether its caller still does.
const WAIT: Duration = Duration::from_millis(50);
/// How many rows of a table one part of the work has.
const ROWS_AT_ONCE: usize = 2048;

/// Whether the caller waits no longer; threads ask it.
pub(crate) type IsOver<'a> = &'a (dyn Fn() -> bool + Sync);

/// A pool's catchment areas; see the head of this file.
#[derive(Clone, Debug, PartialEq)]
pub struct Catchment {
    /// The pool.
    pub pool: String,
    /// The database that the places are from.
    pub database: String,
    /// The names of the pool's sites.
    pub sites: Vec<String>,
    /// Cells by row from the south, then by column from the west, then by site.
    pub cells: Vec<CatchmentCell>,
}

/// What one site gets of one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CatchmentCell {
    /// The western side.
    pub west_degrees: f64,
    /// The southern side.
    pub south_degrees: f64,
    /// The index of the site that comes first, by weight of the one that does so most often;
    /// `None` where the pool gives no site.
    pub site: Option<usize>,
    /// IPv4 addresses that have their place in the cell.
    pub addresses_v4: u64,
    /// Networks of the database, of either family, of which the site gets at least a part.
    pub networks: u64,
}

/// A grid of cells over the globe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CatchmentGrid {
    cell_degrees: f64,
    columns: u32,
    rows: u32,
}

impl CatchmentGrid {
    /// A grid of square cells; `None` for a side that is not within [`CELL_DEGREES`].
    pub fn new(cell_degrees: f64) -> Option<CatchmentGrid> {
        let count = |degrees: f64| (degrees / cell_degrees).ceil() as u32;
        let fits = (CELL_DEGREES[0]..=CELL_DEGREES[1]).contains(&cell_degrees);
        fits.then(|| CatchmentGrid { cell_degrees, columns: count(360.0), rows: count(180.0) })
    }

    /// The number of the cell of a place. The eastern and the northern end of the globe belong to
    /// the last cells.
    fn cell(&self, place: Place) -> u32 {
        let index =
            |degrees: f64, count: u32| ((degrees / self.cell_degrees) as u32).min(count - 1);
        let column = index(place.longitude_degrees + 180.0, self.columns);
        index(place.latitude_degrees + 90.0, self.rows) * self.columns + column
    }

    fn west_and_south(&self, cell: u32) -> (f64, f64) {
        let (row, column) = (cell / self.columns, cell % self.columns);
        let west = f64::from(column) * self.cell_degrees - 180.0;
        (west, f64::from(row) * self.cell_degrees - 90.0)
    }
}

/// What was drawn lately.
#[derive(Default)]
pub(crate) struct Catchments {
    tables: Mutex<VecDeque<Arc<CachedTable>>>,
    drawings: Mutex<VecDeque<CachedCatchment>>,
}

struct CachedTable {
    key: TableKey,
    table: OnceLock<NetworkTable>,
    /// Whether a thread makes it.
    is_being_made: Mutex<bool>,
    /// That thread is done, or has given up.
    is_done: Condvar,
}

struct CachedCatchment {
    snapshot: Weak<PolicySnapshot>,
    database: Weak<NamedDatabase>,
    grid: CatchmentGrid,
    at: Instant,
    catchment: Arc<Catchment>,
}

impl Catchments {
    /// Draws a pool's catchment areas, or gives what was drawn before; `is_over` tells that the
    /// caller waits no longer.
    ///
    /// # Errors
    /// The database cannot be read, the pool asks too many databases, or the caller has ended it.
    pub(crate) fn draw(
        &self,
        steering: &Steering,
        database: &Arc<NamedDatabase>,
        grid: CatchmentGrid,
        live: &Live<'_>,
        is_over: IsOver<'_>,
    ) -> Result<Arc<Catchment>, ExplainError> {
        let snapshot = steering.current(live);
        if let Some(known) = self.known(&snapshot, database, grid) {
            return Ok(known);
        }
        let policy = &*snapshot.policy;
        if !snapshot.is_whole() {
            let pool = &policy.pool.name;
            return Err(ExplainError::Unreadable(format!(
                "pool '{pool}' asks more than {DATABASES_MAX} databases, which is too many to draw"
            )));
        }
        let drawing = Drawing::new(&snapshot, database, live, grid);
        let counts = if snapshot.is_volatile() {
            // What is added up now is wrong when a member expires.
            drawing.count(&NetworkTable::new(&snapshot, database, is_over)?, is_over)?
        } else {
            let cached = self.cached_table(TableKey::new(&snapshot, database));
            drawing.count(cached.table(&snapshot, database, is_over)?, is_over)?
        };
        let catchment = Arc::new(Catchment {
            pool: policy.pool.name.clone(),
            database: database.name.clone(),
            sites: policy.pool.sites.iter().map(|site| site.name.clone()).collect(),
            cells: counts.into_cells(grid),
        });
        let mut drawings = sync::lock(&self.drawings);
        drawings.retain(|old| old.snapshot.strong_count() > 0 && old.database.strong_count() > 0);
        drawings.truncate(DRAWINGS_MAX - 1);
        drawings.push_front(CachedCatchment {
            snapshot: Arc::downgrade(&snapshot),
            database: Arc::downgrade(database),
            grid,
            at: Instant::now(),
            catchment: Arc::clone(&catchment),
        });
        Ok(catchment)
    }

    /// Drops what belongs to databases and pools that are gone.
    pub(crate) fn forget_stale(&self) {
        sync::lock(&self.drawings).retain(|drawing| drawing.snapshot.strong_count() > 0);
        sync::lock(&self.tables).retain(|cached| cached.key.is_alive());
    }

    fn known(
        &self,
        snapshot: &Arc<PolicySnapshot>,
        database: &Arc<NamedDatabase>,
        grid: CatchmentGrid,
    ) -> Option<Arc<Catchment>> {
        let drawings = sync::lock(&self.drawings);
        let found = drawings.iter().find(|drawing| {
            std::ptr::eq(drawing.snapshot.as_ptr(), Arc::as_ptr(snapshot))
                && std::ptr::eq(drawing.database.as_ptr(), Arc::as_ptr(database))
                && drawing.grid == grid
                && (!snapshot.is_volatile() || drawing.at.elapsed() < VOLATILE_TIME)
        });
        found.map(|drawing| Arc::clone(&drawing.catchment))
    }

    /// The table for a key, which may still have to be made.
    fn cached_table(&self, key: TableKey) -> Arc<CachedTable> {
        let mut tables = sync::lock(&self.tables);
        tables.retain(|cached| cached.key.is_alive());
        let known = tables.iter().position(|cached| cached.key.is_same(&key));
        let cached = match known.and_then(|at| tables.remove(at)) {
            Some(cached) => cached,
            None => {
                let (is_being_made, is_done) = (Mutex::new(false), Condvar::new());
                Arc::new(CachedTable { key, table: OnceLock::new(), is_being_made, is_done })
            }
        };
        tables.truncate(TABLES_MAX - 1);
        tables.push_front(Arc::clone(&cached));
        cached
    }
}

impl CachedTable {
    /// The table, made by the first who needs it.
    fn table(
        &self,
        snapshot: &PolicySnapshot,
        database: &Arc<NamedDatabase>,
        is_over: IsOver<'_>,
    ) -> Result<&NetworkTable, ExplainError> {
        let mut is_being_made = sync::lock(&self.is_being_made);
        while self.table.get().is_none() && *is_being_made {
            if is_over() {
                return Err(ExplainError::TooLong);
            }
            let waited = self.is_done.wait_timeout(is_being_made, WAIT);
            is_being_made = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        *is_being_made = true;
        drop(is_being_made);
        let _maker = TableMaker(self);
        let made = NetworkTable::new(snapshot, database, is_over)?;
        Ok(self.table.get_or_init(|| made))
    }
}

/// The thread that makes a table; the next one may when it ends, even by a panic.
struct TableMaker<'a>(&'a CachedTable);

impl Drop for TableMaker<'_> {
    fn drop(&mut self) {
        *sync::lock(&self.0.is_being_made) = false;
        self.0.is_done.notify_all();
    }
}

/// A policy that is evaluated for the rows of a table.
struct Drawing<'a> {
    snapshot: &'a PolicySnapshot,
    live: &'a Live<'a>,
    grid: CatchmentGrid,
    /// Which of the policy's databases the rows are from.
    drawn: Option<usize>,
    /// Whether a place and a context decide, whatever else a record says.
    only_places: bool,
}

impl<'a> Drawing<'a> {
    fn new(
        snapshot: &'a PolicySnapshot,
        database: &Arc<NamedDatabase>,
        live: &'a Live<'a>,
        grid: CatchmentGrid,
    ) -> Drawing<'a> {
        let policy = &*snapshot.policy;
        let databases = &snapshot.inputs().databases;
        let drawn = databases.iter().position(|named| Arc::ptr_eq(named, database));
        let looks_further = |step: &Step| matches!(step, Step::Map(_) | Step::Rules(_));
        let only_places = !policy.steps.iter().any(looks_further);
        Drawing { snapshot, live, grid, drawn, only_places }
    }

    fn count(&self, table: &NetworkTable, is_over: IsOver<'_>) -> Result<Counts, ExplainError> {
        let (rows, split) = (&table.rows, &table.split);
        let row_parts = rows.len().div_ceil(ROWS_AT_ONCE);
        let split_parts = split.len().div_ceil(ROWS_AT_ONCE);
        let some =
            |part: usize, length: usize| part * ROWS_AT_ONCE..length.min((part + 1) * ROWS_AT_ONCE);
        let counts =
            parallel::for_each_part(row_parts + split_parts, |counts: &mut Counts, part| {
                if is_over() {
                    return Err(ExplainError::TooLong);
                }
                match part.checked_sub(row_parts) {
                    None => self.count_rows(table, some(part, rows.len()), counts),
                    Some(part) => {
                        self.count_split(table, some(part, split.len()), is_over, counts)?;
                    }
                }
                Ok(())
            })?;
        let mut counts = counts.into_iter();
        let mut all = counts.next().unwrap_or_default();
        counts.for_each(|some| all.merge(&some));
        Ok(all)
    }

    fn count_rows(&self, table: &NetworkTable, some: std::ops::Range<usize>, counts: &mut Counts) {
        let mut last: Option<(u32, Place, Option<u16>)> = None;
        for row in &table.rows[some] {
            let site = match last {
                Some((context, place, site))
                    if self.only_places && context == row.context && place == row.place =>
                {
                    site
                }
                _ => self.site(&table.contexts[row.context as usize], row.record, row.place),
            };
            last = Some((row.context, row.place, site));
            counts.add(self.grid.cell(row.place), site, row.addresses_v4, row.networks);
        }
    }

    fn count_split(
        &self,
        table: &NetworkTable,
        some: std::ops::Range<usize>,
        is_over: IsOver<'_>,
        counts: &mut Counts,
    ) -> Result<(), ExplainError> {
        let mut sites: Vec<(Option<u16>, u64)> = Vec::new();
        let mut visits = 0;
        for network in &table.split[some] {
            sites.clear();
            for (context, addresses_v4) in &network.parts {
                visits += 1;
                check(visits, is_over)?;
                let context = &table.contexts[*context as usize];
                let site = self.site(context, network.record, network.place);
                match sites.iter_mut().find(|(known, _)| *known == site) {
                    Some((_, known)) => *known += addresses_v4,
                    None => sites.push((site, *addresses_v4)),
                }
            }
            let cell = self.grid.cell(network.place);
            sites.iter().for_each(|(site, addresses_v4)| counts.add(cell, *site, *addresses_v4, 1));
        }
        Ok(())
    }

    /// What the addresses of a context come to where they have this record.
    fn site(&self, context: &Context, record: RecordId, place: Place) -> Option<u16> {
        let records = |at: usize| match self.drawn {
            Some(drawn) if drawn == at => Some(record),
            _ => *context.records.get(at)?,
        };
        // Another database may know another place.
        let is_known = self.drawn.is_some() && self.snapshot.policy.places == self.drawn;
        let place = is_known.then_some(place);
        let subject = Subject { address: Some(context.address), records: &records, place };
        site_of(self.snapshot, self.snapshot.evaluate(&subject, self.live, None))
    }
}

/// The site of an outcome: the first one, by weight the one that comes first most often.
fn site_of(snapshot: &PolicySnapshot, outcome: Outcome) -> Option<u16> {
    let Outcome::Sites(list) = &outcome else { return None };
    if !snapshot.policy.is_weighted {
        return list.first().copied();
    }
    let list = list.clone();
    let shares = snapshot.known(outcome).shares();
    let pairs = list.iter().zip(shares);
    let most = pairs.reduce(|most, next| if next.1 > most.1 { next } else { most });
    most.map(|(site, _)| *site)
}

fn check(number: u64, is_over: IsOver<'_>) -> Result<(), ExplainError> {
    if number.is_multiple_of(NETWORKS_BETWEEN_CHECKS) && is_over() {
        return Err(ExplainError::TooLong);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_in_the_cell_that_holds_it() {
        for side in [0.25, 0.3, 1.0, 7.0, 90.0] {
            let grid = CatchmentGrid::new(side).expect("an allowed side");
            for (longitude, latitude) in
                [(-180.0, -90.0), (0.0, 0.0), (179.999, 89.999), (-0.001, 45.5), (12.3, -45.6)]
            {
                let place = Place::new_geographic(longitude, latitude).expect("a place");
                let (west, south) = grid.west_and_south(grid.cell(place));
                assert!((west - 1e-9..west + side).contains(&longitude), "{side} {longitude}");
                assert!((south - 1e-9..south + side).contains(&latitude), "{side} {latitude}");
            }
            let end = Place::new_geographic(180.0, 90.0).expect("a place");
            let (west, south) = grid.west_and_south(grid.cell(end));
            assert!(west < 180.0 && south < 90.0, "the ends belong to the last cells");
        }
        for side in [0.0, -1.0, 0.1, 91.0, f64::NAN, f64::INFINITY] {
            assert_eq!(CatchmentGrid::new(side), None);
        }
    }
}
