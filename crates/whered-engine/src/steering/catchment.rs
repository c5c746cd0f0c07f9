//! Which parts of the globe a pool sends to which of its sites, by the places of a database.
//!
//! For: a map of it. Each network of the database that has a place is counted in the cell of a grid
//! where that place is, under the site that the pool chooses for its addresses: by the functions
//! that choose, never by a second implementation of the choice.
//!
//! ```text
//! networks ─┬ records decide: LocationTable (once a database) ─ policy, once a place ─┬─> cells
//!           └ sets, rules, other databases: regions of one outcome ─ policy ──────────┘
//! ```
//!
//! Invariants: what is drawn is what the policy comes to at one moment, that of its snapshot; a
//! drawing is given again only while that snapshot is current, and for a second where members of
//! sets expire.
//! At the same time: any number of threads; who makes a table keeps others that need one waiting.
//! Memory: 48 bytes for each different record of the two databases that were drawn last.
//! Cost: a walk over the database once, then an evaluation of the policy for each different place.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use whered_geo::Place;
use whered_ip::Prefix;
use whered_mmdb::RecordId;

use super::compiled::{CompiledPolicy, Step};
use super::outcome::Outcome;
use super::region::{DATABASES_MAX, Inputs, Region, bits_of};
use super::snapshot::{PolicySnapshot, Subject};
use super::{Live, Steering};
use crate::databases::NamedDatabase;
use crate::error::ExplainError;
use crate::sync;

/// The smallest and the largest side of a cell, in degrees.
pub const CELL_DEGREES: [f64; 2] = [0.25, 90.0];

/// How many drawings and how many tables are kept.
const DRAWINGS_MAX: usize = 8;
const TABLES_MAX: usize = 2;
/// For how long a drawing stands where members of sets expire.
const VOLATILE_TIME: Duration = Duration::from_secs(1);
/// After how many networks the caller may end it.
const NETWORKS_BETWEEN_CHECKS: u64 = 4096;

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
    tables: Mutex<VecDeque<(Weak<NamedDatabase>, Arc<LocationTable>)>>,
    drawings: Mutex<VecDeque<CachedCatchment>>,
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
    /// The database cannot be read, or the caller has ended it.
    pub(crate) fn draw(
        &self,
        steering: &Steering,
        database: &Arc<NamedDatabase>,
        grid: CatchmentGrid,
        live: &Live<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Arc<Catchment>, ExplainError> {
        let snapshot = steering.current(live);
        if let Some(known) = self.known(&snapshot, database, grid) {
            return Ok(known);
        }
        let policy = &*snapshot.policy;
        let mut counts = Counts::default();
        let same = |named: &Arc<NamedDatabase>| Arc::ptr_eq(named, database);
        if snapshot.records_decide() && policy.inputs.databases.iter().all(same) {
            let table = self.table(database, policy, is_over)?;
            count_locations(&snapshot, &table, grid, live, is_over, &mut counts)?;
        } else {
            Walk::new(&snapshot, database, live)?.count(grid, is_over, &mut counts)?;
        }
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
        // Who makes a table looks by itself.
        if let Ok(mut tables) = self.tables.try_lock() {
            tables.retain(|(database, _)| database.strong_count() > 0);
        }
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

    fn table(
        &self,
        database: &Arc<NamedDatabase>,
        policy: &CompiledPolicy,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Arc<LocationTable>, ExplainError> {
        let mut tables = sync::lock(&self.tables);
        tables.retain(|(database, _)| database.strong_count() > 0);
        let is_it =
            |known: &Weak<NamedDatabase>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(database));
        if let Some((_, table)) = tables.iter().find(|(known, _)| is_it(known)) {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(LocationTable::new(database, policy, is_over)?);
        tables.truncate(TABLES_MAX - 1);
        tables.push_front((Arc::downgrade(database), Arc::clone(&table)));
        Ok(table)
    }
}

/// What a database has at each of its records with a place.
struct LocationTable {
    /// In the order of their places.
    rows: Box<[LocationRow]>,
}

struct LocationRow {
    record: RecordId,
    place: Place,
    addresses_v4: u64,
    networks: u64,
}

impl LocationTable {
    fn new(
        database: &NamedDatabase,
        policy: &CompiledPolicy,
        is_over: &dyn Fn() -> bool,
    ) -> Result<LocationTable, ExplainError> {
        let mut rows: Vec<LocationRow> = Vec::new();
        // The index of each record's row; `NO_ROW` for one without a place.
        let mut row_of: FastMap<u32, u32> = FastMap::default();
        let mut last = None;
        each_network(database, is_over, |network, record| {
            let row = match last {
                // Neighbours often have the same record.
                Some((known, row)) if known == record => row,
                _ => *row_of.entry(record.to_u32()).or_insert_with(|| {
                    let Some(place) = policy.paths.location(database, record) else {
                        return NO_ROW;
                    };
                    rows.push(LocationRow { record, place, addresses_v4: 0, networks: 0 });
                    rows.len() as u32 - 1
                }),
            };
            last = Some((record, row));
            if let Some(row) = rows.get_mut(row as usize) {
                row.addresses_v4 += addresses_v4(network.is_ipv4(), network.length_bits());
                row.networks += 1;
            }
            Ok(())
        })?;
        let key = |row: &LocationRow| (row.place.latitude_degrees, row.place.longitude_degrees);
        rows.sort_unstable_by(|a, b| {
            let ((a0, a1), (b0, b1)) = (key(a), key(b));
            a0.total_cmp(&b0).then(a1.total_cmp(&b1))
        });
        Ok(LocationTable { rows: rows.into() })
    }
}

/// More than there can be: an index that no row has.
const NO_ROW: u32 = u32::MAX;

/// Counts a table's rows, where the records of its database decide.
fn count_locations(
    snapshot: &PolicySnapshot,
    table: &LocationTable,
    grid: CatchmentGrid,
    live: &Live<'_>,
    is_over: &dyn Fn() -> bool,
    counts: &mut Counts,
) -> Result<(), ExplainError> {
    let has_maps = snapshot.policy.steps.iter().any(|step| matches!(step, Step::Map(_)));
    let mut last: Option<(Place, Option<u16>)> = None;
    for (row, number) in table.rows.iter().zip(0_u64..) {
        check(number, is_over)?;
        let site = match last {
            Some((place, site)) if !has_maps && place == row.place => site,
            _ => {
                let records = |_| Some(row.record);
                let address = Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                // A policy without a database of places knows none.
                let place = snapshot.policy.places.map(|_| row.place);
                let subject = Subject { address, records: &records, place };
                site_of(snapshot, snapshot.evaluate(&subject, live, None))
            }
        };
        last = Some((row.place, site));
        counts.add(grid.cell(row.place), site, row.addresses_v4, row.networks);
    }
    Ok(())
}

/// A walk over a database beside everything that a pool's choice can depend on.
struct Walk<'a> {
    snapshot: &'a PolicySnapshot,
    database: &'a NamedDatabase,
    live: &'a Live<'a>,
    inputs: &'a Inputs,
    /// The sites of records that were met, where nothing else decides.
    known: Option<FastMap<[u32; DATABASES_MAX], Option<u16>>>,
    /// What parts of the present network come to, and their IPv4 addresses.
    parts: Vec<(Option<u16>, u64)>,
}

impl<'a> Walk<'a> {
    fn new(
        snapshot: &'a PolicySnapshot,
        database: &'a NamedDatabase,
        live: &'a Live<'a>,
    ) -> Result<Walk<'a>, ExplainError> {
        if !snapshot.is_whole() {
            let pool = &snapshot.policy.pool.name;
            return Err(ExplainError::Unreadable(format!(
                "pool '{pool}' asks more than {DATABASES_MAX} databases, which is too many to draw"
            )));
        }
        let known = snapshot.records_decide().then(FastMap::default);
        let inputs = snapshot.inputs();
        Ok(Walk { snapshot, database, live, inputs, known, parts: Vec::new() })
    }

    fn count(
        mut self,
        grid: CatchmentGrid,
        is_over: &dyn Fn() -> bool,
        counts: &mut Counts,
    ) -> Result<(), ExplainError> {
        let mut cell_of: FastMap<u32, Option<u32>> = FastMap::default();
        // The regions on the way to the present network, from the root on.
        let mut way: Vec<Region> = Vec::new();
        let mut visits = 0;
        let database = self.database;
        each_network(database, is_over, |network, record| {
            let cell = *cell_of.entry(record.to_u32()).or_insert_with(|| {
                let place = self.snapshot.policy.paths.location(database, record)?;
                Some(grid.cell(place))
            });
            let Some(cell) = cell else { return Ok(()) };
            self.follow(&mut way, network);
            self.parts.clear();
            let region = *way.last().expect("the root is always there");
            self.divide(&region, &mut visits, is_over)?;
            for (site, addresses_v4) in &self.parts {
                counts.add(cell, *site, *addresses_v4, 1);
            }
            Ok(())
        })
    }

    /// Leads the way to a network, from where it was at the one before.
    fn follow(&self, way: &mut Vec<Region>, network: Prefix) {
        let (bits, length, is_ipv4) =
            (bits_of(network.address()), network.length_bits(), network.is_ipv4());
        match way.last() {
            Some(last) if last.is_ipv4 == is_ipv4 => {
                let common = (last.bits ^ bits).leading_zeros() as u8;
                way.truncate(usize::from(common.min(last.length).min(length)) + 1);
            }
            _ => {
                way.clear();
                way.push(self.inputs.root(is_ipv4));
            }
        }
        while let Some(last) = way.last().filter(|last| last.length < length) {
            let bit = bits >> (127 - u32::from(last.length)) & 1 == 1;
            let next = self.inputs.half(last, bit);
            way.push(next);
        }
    }

    /// Collects what the addresses of a region come to.
    fn divide(
        &mut self,
        region: &Region,
        visits: &mut u64,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), ExplainError> {
        *visits += 1;
        check(*visits, is_over)?;
        if !self.inputs.is_uniform(region) {
            for bit in [false, true] {
                let half = self.inputs.half(region, bit);
                self.divide(&half, visits, is_over)?;
            }
            return Ok(());
        }
        let site = self.site(region);
        let addresses = addresses_v4(region.is_ipv4, region.length);
        match self.parts.iter_mut().find(|(known, _)| *known == site) {
            Some((_, known)) => *known += addresses,
            None => self.parts.push((site, addresses)),
        }
        Ok(())
    }

    /// What all addresses of a region come to.
    fn site(&mut self, region: &Region) -> Option<u16> {
        let record = |at: usize| region.record(at);
        let evaluate = || {
            let subject =
                Subject { address: Some(region.address()), records: &record, place: None };
            site_of(self.snapshot, self.snapshot.evaluate(&subject, self.live, None))
        };
        match &mut self.known {
            Some(known) => {
                let key = std::array::from_fn(|at| {
                    region.record(at).map_or(0, |record| record.to_u32().wrapping_add(1))
                });
                *known.entry(key).or_insert_with(evaluate)
            }
            None => evaluate(),
        }
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

/// Calls `take` for every network that has a record.
fn each_network(
    database: &NamedDatabase,
    is_over: &dyn Fn() -> bool,
    mut take: impl FnMut(Prefix, RecordId) -> Result<(), ExplainError>,
) -> Result<(), ExplainError> {
    for (network, number) in database.database().networks().zip(0_u64..) {
        check(number, is_over)?;
        let (network, record) =
            network.map_err(|error| ExplainError::Unreadable(error.to_string()))?;
        take(network, record)?;
    }
    Ok(())
}

fn check(number: u64, is_over: &dyn Fn() -> bool) -> Result<(), ExplainError> {
    if number.is_multiple_of(NETWORKS_BETWEEN_CHECKS) && is_over() {
        return Err(ExplainError::TooLong);
    }
    Ok(())
}

fn addresses_v4(is_ipv4: bool, length_bits: u8) -> u64 {
    if is_ipv4 { 1 << (32 - u32::from(length_bits)) } else { 0 }
}

/// Addresses and networks by cell and site.
#[derive(Default)]
struct Counts(FastMap<(u32, Option<u16>), (u64, u64)>);

impl Counts {
    fn add(&mut self, cell: u32, site: Option<u16>, addresses_v4: u64, networks: u64) {
        let count = self.0.entry((cell, site)).or_default();
        count.0 += addresses_v4;
        count.1 += networks;
    }

    fn into_cells(self, grid: CatchmentGrid) -> Vec<CatchmentCell> {
        let mut counts: Vec<_> = self.0.into_iter().collect();
        counts.sort_unstable_by_key(|(key, _)| *key);
        let cell = |((cell, site), (addresses_v4, networks)): ((u32, Option<u16>), (u64, u64))| {
            let (west_degrees, south_degrees) = grid.west_and_south(cell);
            let site = site.map(usize::from);
            CatchmentCell { west_degrees, south_degrees, site, addresses_v4, networks }
        };
        counts.into_iter().map(cell).collect()
    }
}

/// A map over small keys that no stranger chooses: a database was verified, and equal hashes cost
/// time alone.
type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

/// Multiplies and rotates, as the hasher of the Rust compiler does.
#[derive(Default)]
struct FastHasher(u64);

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.chunks(8).for_each(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        });
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // The upper bits are the best ones.
        self.0 ^ self.0 >> 32
    }
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
