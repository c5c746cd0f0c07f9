//! Made-up databases of the size and shape of GeoLite2-City and GeoLite2-ASN.
//!
//! For: benchmarks that anybody can repeat without a licence key.
//! Not for: knowing where an address is. Codes and formats are real, places are not.
//!
//! What is modelled on the real files: how many networks there are of each length, which address
//! space they lie in, that they leave few gaps there, that neighbours often share a record, how
//! many distinct records there are and what fields in which order, in which languages, and the
//! three aliases of the IPv4 subtree (mapped addresses, 6to4, Teredo).
//!
//! Cost at full scale: some thirty seconds and 3 GB for the city file (of some 150 MB).

mod asns;
mod blocks;
mod cities;
mod names;
mod places;
mod space;

use std::collections::HashSet;
use whered_mmdb::{Database, MmdbError, Writer, WriterOptions};

/// The date that all files state: 2026-01-01. What is reproducible has no clock.
const BUILD_EPOCH_SECONDS: u64 = 1_767_225_600;

/// How large a file shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// As the real ones: 3.7 million networks of IPv4 and 2.1 million of IPv6 in the city file.
    Full,
    /// About a seventieth of that, of the same shape, for tests.
    Small,
}

impl Scale {
    /// One of how many blocks of the address space is filled.
    fn one_of(self) -> usize {
        match self {
            Scale::Full => 1,
            Scale::Small => 70,
        }
    }
}

/// A database and what it holds, as counted in the finished file.
#[derive(Debug)]
pub struct Made {
    /// The opened file.
    pub database: Database,
    /// IPv4 networks.
    pub networks4: u64,
    /// IPv6 networks.
    pub networks6: u64,
    /// Distinct records that a network has.
    pub records: u64,
}

impl Made {
    fn new(bytes: Vec<u8>) -> Result<Made, MmdbError> {
        let database = Database::from_bytes(bytes)?;
        let (mut networks4, mut networks6, mut records) = (0, 0, HashSet::new());
        for network in database.networks() {
            let (prefix, record) = network?;
            if prefix.address().is_ipv4() {
                networks4 += 1;
            } else {
                networks6 += 1;
            }
            records.insert(record);
        }
        Ok(Made { database, networks4, networks6, records: records.len() as u64 })
    }
}

/// A database in the shape of GeoLite2-City.
///
/// ```
/// use whered_bench::data::{Scale, city};
/// let made = city(7, Scale::Small)?;
/// assert_eq!(made.database.metadata().database_type, "GeoLite2-City");
/// # Ok::<(), whered_mmdb::MmdbError>(())
/// ```
///
/// # Errors
///
/// Those of [`Writer`]; none are known for any seed.
pub fn city(seed: u64, scale: Scale) -> Result<Made, MmdbError> {
    cities::make(seed, scale)
}

/// A database in the shape of GeoLite2-ASN.
///
/// ```
/// use whered_bench::data::{Scale, asn};
/// let made = asn(7, Scale::Small)?;
/// assert!(made.networks4 > made.networks6);
/// # Ok::<(), whered_mmdb::MmdbError>(())
/// ```
///
/// # Errors
///
/// Those of [`Writer`]; none are known for any seed.
pub fn asn(seed: u64, scale: Scale) -> Result<Made, MmdbError> {
    asns::make(seed, scale)
}

/// A writer of files that look like MaxMind's.
fn writer(database_type: &str, languages: &[&str]) -> Result<Writer, MmdbError> {
    let description = format!("made-up data in the shape of {database_type}");
    let mut writer = Writer::new(WriterOptions {
        database_type: database_type.to_owned(),
        description: vec![("en".to_owned(), description)],
        languages: languages.iter().map(|&language| language.to_owned()).collect(),
        ip_version: 6,
        record_size_bits: Some(28),
        build_epoch_seconds: BUILD_EPOCH_SECONDS,
    })?;
    writer.set_teredo_alias(true);
    Ok(writer)
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
