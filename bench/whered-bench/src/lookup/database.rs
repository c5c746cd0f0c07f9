//! Our own engines: a database whose own tree is walked, in each of its access modes.
//!
//! Not for the index (`indexed`). The modes differ in where the file's bytes are; they are opened
//! as the server opens them ([`AccessMode`]).

use super::addresses::AddressList;
use super::checksum::{self, Octets};
use super::engine::{Calls, Engine, Input, Task, Wants};
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;
use whered_engine::{AccessMode, open_database_file};
use whered_mmdb::{Database, FieldPath, RecordId};

/// The four fields that are measured.
#[derive(Debug)]
pub(super) struct FieldPaths {
    pub(super) country: FieldPath,
    pub(super) city: FieldPath,
    pub(super) latitude: FieldPath,
    pub(super) longitude: FieldPath,
}

impl FieldPaths {
    pub(super) fn new() -> FieldPaths {
        FieldPaths {
            country: FieldPath::new(["country", "iso_code"]),
            city: FieldPath::new(["city", "names", "en"]),
            latitude: FieldPath::new(["location", "latitude"]),
            longitude: FieldPath::new(["location", "longitude"]),
        }
    }
}

/// Memory of the caller that an answer is copied into.
#[derive(Debug, Default)]
pub(super) struct CallersRecord {
    country: Vec<u8>,
    city: Vec<u8>,
    latitude: f64,
    longitude: f64,
}

impl CallersRecord {
    /// Copies an answer; the memory of the last one is used again.
    #[inline]
    pub(super) fn copy(&mut self, country: &[u8], city: &[u8], latitude: f64, longitude: f64) {
        self.country.clear();
        self.country.extend_from_slice(country);
        self.city.clear();
        self.city.extend_from_slice(city);
        (self.latitude, self.longitude) = (latitude, longitude);
    }

    pub(super) fn checksum(&self) -> u64 {
        let texts = [&*self.country, &*self.city];
        checksum::of_fields(Octets::Ends, texts, [self.latitude, self.longitude])
    }
}

/// A database that is asked through its own tree.
#[derive(Debug)]
pub struct DatabaseEngine {
    database: Database,
    mode: AccessMode,
    paths: FieldPaths,
}

impl DatabaseEngine {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is no database.
    pub fn open(path: &Path, mode: AccessMode) -> Result<DatabaseEngine, String> {
        let database = open_database_file(path, mode).map_err(|error| error.to_string())?;
        Ok(DatabaseEngine { database, mode, paths: FieldPaths::new() })
    }

    /// The opened database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    fn find(&self, address: IpAddr) -> Result<Option<RecordId>, String> {
        self.database.lookup(address).map(|found| found.record).map_err(|error| error.to_string())
    }

    fn fields(
        &self,
        found: Option<RecordId>,
        octets: Octets,
        copies: Option<&mut CallersRecord>,
    ) -> Result<u64, String> {
        let Some(id) = found else { return Ok(checksum::of_no_fields()) };
        let message = |error: whered_mmdb::MmdbError| error.to_string();
        let text = |path| self.database.text(id, path).map_err(message);
        let number = |path| self.database.number(id, path).map_err(message);
        let (country, city) = (text(&self.paths.country)?, text(&self.paths.city)?);
        let country = country.as_deref().unwrap_or_default().as_bytes();
        let city = city.as_deref().unwrap_or_default().as_bytes();
        let latitude = number(&self.paths.latitude)?.unwrap_or(f64::NAN);
        let longitude = number(&self.paths.longitude)?.unwrap_or(f64::NAN);
        let Some(record) = copies else {
            return Ok(checksum::of_fields(octets, [country, city], [latitude, longitude]));
        };
        record.copy(country, city, latitude, longitude);
        Ok(record.checksum())
    }
}

impl Engine for DatabaseEngine {
    fn name(&self) -> String {
        format!("whered-{}", self.mode)
    }

    fn settings(&self) -> String {
        "Database::lookup; Database::text and Database::number by FieldPath; texts by \
         whered_ip::text::parse"
            .to_owned()
    }

    fn can(&self, task: Task) -> bool {
        task.calls == Calls::Single && task.wants != Wants::Row
    }

    fn run(&self, task: Task, list: &AddressList, part: Range<usize>) -> Result<u64, String> {
        let mut record = CallersRecord::default();
        let mut sum = 0_u64;
        for index in part {
            let address = match task.input {
                Input::Binary => list.address(index),
                Input::Text => whered_ip::text::parse(list.text(index).as_bytes())
                    .ok_or_else(|| format!("{:?} was not read", list.text(index)))?,
            };
            let found = self.find(address)?;
            sum = sum.wrapping_add(match task.wants {
                Wants::Row | Wants::Record => checksum::of_record(found.map(RecordId::to_u32)),
                Wants::Copies => self.fields(found, Octets::Ends, Some(&mut record))?,
                wants @ (Wants::Fields | Wants::Octets) => {
                    self.fields(found, wants.octets(), None)?
                }
            });
        }
        Ok(sum)
    }

    fn is_slow(&self) -> bool {
        matches!(self.mode, AccessMode::Stream | AccessMode::Tree)
    }

    fn accesses(&self, list: &AddressList, index: usize) -> Option<usize> {
        // The other modes walk the same tree.
        let is_stated = self.mode == AccessMode::Memory;
        let found = self.database.lookup(list.address(index)).ok().filter(|_| is_stated)?;
        Some(usize::from(found.prefix.length_bits()))
    }
}
