//! The Rust crate `maxminddb`, on a mapped file.
//!
//! Not for C libraries. Fields are read in the two ways that the crate offers: one path after the
//! other, or all at once into a struct that leaves the rest out.

use maxminddb::{LookupResult, Mmap, Reader, path};
use serde::Deserialize;
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;
use whered_bench::lookup::{
    AddressList, Calls, Engine, Input, Task, Wants, checksum, checksum::Octets,
};

/// How fields are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoding {
    /// `decode_path`, four times.
    Paths,
    /// `decode`, once.
    Struct,
}

/// A file open in the crate.
pub(crate) struct CrateEngine {
    reader: Reader<Mmap>,
    decoding: Decoding,
}

#[derive(Deserialize, Default)]
struct Country<'a> {
    #[serde(borrow, default)]
    iso_code: &'a str,
}

#[derive(Deserialize, Default)]
struct Names<'a> {
    #[serde(borrow, default)]
    en: &'a str,
}

#[derive(Deserialize, Default)]
struct City<'a> {
    #[serde(borrow, default)]
    names: Names<'a>,
}

#[derive(Deserialize, Default)]
struct Location {
    latitude: Option<f64>,
    longitude: Option<f64>,
}

#[derive(Deserialize, Default)]
struct Record<'a> {
    #[serde(borrow, default)]
    country: Country<'a>,
    #[serde(borrow, default)]
    city: City<'a>,
    #[serde(default)]
    location: Location,
}

type Found<'a> = LookupResult<'a, Mmap>;

impl CrateEngine {
    /// Maps a file.
    #[allow(unsafe_code, reason = "the crate leaves it to the caller that the file stays")]
    pub(crate) fn open(file: &Path, decoding: Decoding) -> Result<CrateEngine, String> {
        // SAFETY: nothing writes to the benchmark's file while it runs.
        let reader = unsafe { Reader::open_mmap(file) };
        let reader = reader.map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(CrateEngine { reader, decoding })
    }

    fn fields(&self, found: &Found<'_>, octets: Octets) -> Result<u64, maxminddb::MaxMindDbError> {
        if !found.has_data() {
            return Ok(checksum::of_no_fields());
        }
        if self.decoding == Decoding::Struct {
            let record: Record<'_> = found.decode()?.unwrap_or_default();
            let Record { country, city, location } = record;
            let (country, city) = (country.iso_code.as_bytes(), city.names.en.as_bytes());
            let (latitude, longitude) = (location.latitude, location.longitude);
            let latitude = latitude.unwrap_or(f64::NAN);
            let longitude = longitude.unwrap_or(f64::NAN);
            return Ok(checksum::of_fields(octets, [country, city], [latitude, longitude]));
        }
        let country: Option<&str> = found.decode_path(&path!["country", "iso_code"])?;
        let city: Option<&str> = found.decode_path(&path!["city", "names", "en"])?;
        let latitude: Option<f64> = found.decode_path(&path!["location", "latitude"])?;
        let longitude: Option<f64> = found.decode_path(&path!["location", "longitude"])?;
        let texts = [country, city].map(|text| text.unwrap_or_default().as_bytes());
        let numbers = [latitude, longitude].map(|number| number.unwrap_or(f64::NAN));
        Ok(checksum::of_fields(octets, texts, numbers))
    }
}

impl Engine for CrateEngine {
    fn name(&self) -> String {
        match self.decoding {
            Decoding::Paths => "maxminddb-crate".to_owned(),
            Decoding::Struct => "maxminddb-crate-serde".to_owned(),
        }
    }

    fn settings(&self) -> String {
        let decoding = match self.decoding {
            Decoding::Paths => "LookupResult::decode_path, four times",
            Decoding::Struct => "LookupResult::decode into a struct of the four fields",
        };
        format!(
            "maxminddb 0.32, features mmap and unsafe-str-decode, Reader::open_mmap, warmed; \
             Reader::lookup; {decoding}; texts by std::net"
        )
    }

    fn can(&self, task: Task) -> bool {
        let is_same_for_both = task.wants == Wants::Record && self.decoding == Decoding::Struct;
        task.calls == Calls::Single
            && matches!(task.wants, Wants::Record | Wants::Fields | Wants::Octets)
            && !is_same_for_both
    }

    fn run(&self, task: Task, list: &AddressList, part: Range<usize>) -> Result<u64, String> {
        let mut sum = 0_u64;
        for index in part {
            let address: IpAddr = match task.input {
                Input::Binary => list.address(index),
                Input::Text => list.text(index).parse().map_err(|_| list.text(index).to_owned())?,
            };
            let found = self.reader.lookup(address).map_err(|error| error.to_string())?;
            sum = sum.wrapping_add(match task.wants {
                Wants::Record => checksum::of_record(found.offset().map(|offset| offset as u32)),
                wants => self.fields(&found, wants.octets()).map_err(|error| error.to_string())?,
            });
        }
        Ok(sum)
    }
}
