//! One version of a database: its file as it was opened, and the fields that were read of it.
//!
//! Not for columns (`lookup`). A version never changes, but for fields that are read when they are
//! first used.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use whered_mmdb::{FieldPath, Found};

use super::objects;
use super::open::{IndexChoice, OpenDatabase, in_file};
use super::values::{Fault, Strings, Values};
use crate::error::{InvalidDatabaseError, of_database};
use crate::record::{self, Caches};

/// The fields that are looked up when nobody names others.
const DEFAULT_FIELDS: [&str; 5] = [
    "country.iso_code",
    "city.names.en",
    "location.latitude",
    "location.longitude",
    "autonomous_system_number",
];
/// How many records are asked for a usual field before the database is taken to lack it.
const DEFAULT_FIELDS_RECORDS: usize = 10_000;
/// The most fields that stay in memory: more are read again at each call.
const FIELDS_MAX: usize = 64;

/// A database as one file says it.
pub(crate) struct Version {
    pub(crate) opened: OpenDatabase,
    path: PathBuf,
    /// Whether the database has networks of IPv4, and of IPv6.
    covers: [bool; 2],
    has_teredo_clients: bool,
    fields: RwLock<HashMap<String, Arc<Field>>>,
    caches: Caches,
}

/// A field of all records.
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) values: Values,
    /// The strings as objects of Python by their codes, each made when it is first asked for.
    objects: Vec<OnceLock<Py<PyAny>>>,
}

impl Version {
    /// Opens a database and reads the fields that were declared.
    ///
    /// # Errors
    ///
    /// As [`OpenDatabase::new`]; `ValueError` for a field that no record has.
    pub(crate) fn open(
        path: &Path,
        declared: Option<&[String]>,
        index: IndexChoice,
    ) -> PyResult<Version> {
        let opened = OpenDatabase::new(path, index)?;
        let covers = |is_ipv4| opened.database.covers(is_ipv4);
        let covers = [covers(true), covers(false)];
        let [ipv4, ipv6] = covers.map(|covers| covers.map_err(|error| in_file(path, &error)));
        let version = Version {
            covers: [ipv4?, ipv6?],
            has_teredo_clients: opened.database.has_teredo_clients(),
            opened,
            path: path.to_owned(),
            fields: RwLock::default(),
            caches: Caches::default(),
        };
        for name in declared.unwrap_or_default() {
            let field = Arc::new(version.read_field(name)?);
            version.keep(field);
        }
        Ok(version)
    }

    /// Whether the database has networks of an address's family.
    pub(crate) fn covers(&self, is_ipv4: bool) -> bool {
        self.covers[usize::from(!is_ipv4)]
    }

    /// The row of an address.
    ///
    /// # Errors
    ///
    /// `ValueError` for an address of a family that the database does not have;
    /// `InvalidDatabaseError` for a mapped file that was cut.
    #[inline]
    pub(crate) fn find(&self, address: IpAddr) -> PyResult<Found> {
        self.opened.check_index()?;
        let found = match address {
            IpAddr::V4(address) => self.opened.index.lookup4(address.to_bits()),
            IpAddr::V6(address) => self.find6(address.to_bits()),
        };
        if !found.is_record() && !self.covers(address.is_ipv4()) {
            self.opened.check()?;
            return Err(of_database(&self.opened.database.uncovered(address)));
        }
        Ok(found)
    }

    /// The row of an IPv6 address; of a Teredo address that of its client, where the database has
    /// that rule.
    pub(crate) fn find6(&self, address: u128) -> Found {
        if self.has_teredo_clients
            && let Some(client) = self.opened.database.teredo_client(IpAddr::V6(address.into()))
        {
            let found = self.opened.index.lookup4(client.to_bits());
            // The server's address and the flags are part of the network around this address.
            return Found { row: found.row, length_bits: 96 + found.length_bits.min(32) };
        }
        self.opened.index.lookup6(address)
    }

    /// Whether IPv6 addresses may be looked up as they are, many at once.
    pub(crate) fn is_plain6(&self) -> bool {
        !self.has_teredo_clients
    }

    /// The record of a row as an object of Python.
    ///
    /// # Errors
    ///
    /// As [`record::to_object`].
    pub(crate) fn record(&self, py: Python<'_>, found: Found) -> PyResult<Py<PyAny>> {
        self.opened.check()?;
        match self.opened.index.record(found) {
            Some(id) => record::to_object(py, &self.opened.database, id, &self.caches),
            None => Ok(py.None()),
        }
    }

    /// A field of a row as an object of Python.
    ///
    /// # Errors
    ///
    /// `ValueError` for a path that is none, `InvalidDatabaseError` for a damaged record.
    pub(crate) fn object(&self, py: Python<'_>, found: Found, name: &str) -> PyResult<Py<PyAny>> {
        if let Some(field) = self.fields.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return field.object(py, found.row);
        }
        self.opened.check()?;
        let path = path_of(name)?;
        let Some(record) = self.opened.index.record(found) else { return Ok(py.None()) };
        let value = self.opened.database.field(record, &path);
        match value.map_err(|error| in_file(&self.path, &error))? {
            Some(value) => objects::of_value(py, &value),
            None => Ok(py.None()),
        }
    }

    /// The fields of these names, read now if they were not before.
    ///
    /// # Errors
    ///
    /// `ValueError` for a field that no record has or that is named twice.
    pub(crate) fn fields(&self, py: Python<'_>, names: &[String]) -> PyResult<Vec<Arc<Field>>> {
        let mut fields: Vec<Arc<Field>> = Vec::with_capacity(names.len());
        for name in names {
            if fields.iter().any(|field| field.name == *name) {
                return Err(PyValueError::new_err(format!("the field {name:?} is named twice")));
            }
            let known =
                self.fields.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
            fields.push(match known {
                Some(field) => field,
                None => {
                    self.opened.check()?;
                    let field = Arc::new(py.detach(|| self.read_field(name))?);
                    self.keep(Arc::clone(&field));
                    field
                }
            });
        }
        Ok(fields)
    }

    /// The fields that were declared, or the usual ones that the database has.
    ///
    /// # Errors
    ///
    /// `ValueError` if there is none, unless `may_be_none`.
    pub(crate) fn default_fields(
        &self,
        declared: Option<&[String]>,
        may_be_none: bool,
    ) -> PyResult<Vec<String>> {
        if let Some(declared) = declared {
            return Ok(declared.to_vec());
        }
        self.opened.check()?;
        let has = |name: &&&str| {
            path_of(name).is_ok_and(|path| {
                let rows = 1..self.opened.index.row_count().min(DEFAULT_FIELDS_RECORDS) as u32;
                let mut records = rows.filter_map(|row| self.opened.index.record_of_row(row));
                records
                    .any(|record| matches!(self.opened.database.field(record, &path), Ok(Some(_))))
            })
        };
        let fields: Vec<String> =
            DEFAULT_FIELDS.iter().filter(has).map(ToString::to_string).collect();
        if fields.is_empty() && !may_be_none {
            return Err(PyValueError::new_err(format!(
                "{}: it has none of the usual fields ({}); name some",
                self.path.display(),
                DEFAULT_FIELDS.join(", ")
            )));
        }
        Ok(fields)
    }

    fn keep(&self, field: Arc<Field>) {
        let mut fields = self.fields.write().unwrap_or_else(PoisonError::into_inner);
        if fields.len() < FIELDS_MAX {
            fields.insert(field.name.clone(), field);
        }
    }

    fn read_field(&self, name: &str) -> PyResult<Field> {
        let path = path_of(name)?;
        let OpenDatabase { database, index, .. } = &self.opened;
        let values = Values::of_field(database, index, &path).map_err(|fault| match fault {
            Fault::Record(error) => in_file(&self.path, &error),
            Fault::TooLarge => PyOverflowError::new_err(format!(
                "{name}: its strings together have 2 GiB and more"
            )),
            Fault::NoText => InvalidDatabaseError::new_err(format!(
                "{}: its index holds strings that are no UTF-8",
                self.path.display()
            )),
        })?;
        let Some(values) = values else {
            return Err(PyValueError::new_err(format!(
                "{}: no record has the field {name:?}",
                self.path.display()
            )));
        };
        let count = if let Values::Strings(strings) = &values { strings.count() } else { 0 };
        let objects = (0..count).map(|_| OnceLock::new()).collect();
        Ok(Field { name: name.to_owned(), values, objects })
    }
}

impl Field {
    #[inline]
    fn object(&self, py: Python<'_>, row: u32) -> PyResult<Py<PyAny>> {
        let Values::Strings(strings) = &self.values else { return self.values.object(py, row) };
        let code = strings.codes.get(row);
        let Some(known) = self.objects.get(code as usize).filter(|_| code != 0) else {
            return Ok(py.None());
        };
        if let Some(object) = known.get() {
            return Ok(object.clone_ref(py));
        }
        let object = text_object(py, strings, code)?;
        Ok(known.get_or_init(|| object).clone_ref(py))
    }
}

#[cold]
fn text_object(py: Python<'_>, strings: &Strings, code: u32) -> PyResult<Py<PyAny>> {
    let text = strings.text(code).unwrap_or_default();
    Ok(text.into_pyobject(py)?.into_any().unbind())
}

/// The path that a text is.
fn path_of(name: &str) -> PyResult<FieldPath> {
    let path: FieldPath = name.parse().map_err(|error| of_path(name, &error))?;
    if path.is_empty() {
        return Err(PyValueError::new_err("a field is a path such as country.iso_code, not empty"));
    }
    Ok(path)
}

#[cold]
fn of_path(name: &str, error: &whered_mmdb::MmdbError) -> PyErr {
    PyValueError::new_err(format!("the field {name:?}: {error}"))
}
