//! `whered.Database`: a database compiled for many lookups, of one address or of columns.
//!
//! Not for a few lookups: opening reads the whole file, and compiling a city database takes a
//! second. `whered.maxminddb` opens at once.
//!
//! ```text
//! address ──► index: row, length of the network ──► Version::field: value of the row
//!                                                   Database::record: the whole record
//! ```
//!
//! Concurrency: a version never changes. A reload makes the next one and swaps a pointer; a call
//! answers from the version that it found. Locks are held only while Python's lock is, and never
//! while work is done, so that a process that forks leaves none locked in its child.

mod answers;
mod lookup;
pub(crate) mod objects;
mod open;
mod values;
mod version;

use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::address;
use crate::arrow::output::Table;
use crate::columns::Invalid;
use crate::columns::addresses::Addresses;
use crate::strings::Layout;
pub(crate) use open::of_system;
use open::{IndexChoice, OpenDatabase, Stamp, index_path};
use version::Version;

/// A database of IP addresses, compiled for many lookups: MaxMind DB (`.mmdb`) and legacy GeoIP
/// files (`.dat`).
///
/// `fields` are the paths of fields that columns are looked up for, such as `"country.iso_code"`
/// or `"subdivisions.0.iso_code"`; they are read of all records when the database is opened.
/// Without them the usual ones that the database has are taken: country code, English city name,
/// latitude, longitude, number of the autonomous system.
///
/// `index` says where the compiled index comes from. `"auto"` takes the file beside the database
/// (`city.mmdb.index`) if it is that of this database, else builds it in memory; `"file"` insists
/// on the file, and `"build"` ignores it. With the file both are mapped, so that processes share
/// their memory. Replace mapped files by renaming others over them, never in place.
///
/// Opening reads the file once. Building takes about a second for a city database.
///
/// Raises `FileNotFoundError` and other `OSError`, `InvalidDatabaseError` for a file that is no
/// database or is damaged, and `ValueError` for a field that no record has.
///
/// >>> import whered
/// >>> database = whered.Database(example_database)
/// >>> database.field("192.0.2.7", "country.iso_code")
/// 'DE'
#[pyclass(module = "whered", frozen)]
pub(crate) struct Database {
    path: PathBuf,
    declared: Option<Vec<String>>,
    index: IndexChoice,
    version: RwLock<Arc<Version>>,
}

/// Adds the class to the package.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Database>()
}

impl Database {
    fn version(&self) -> Arc<Version> {
        Arc::clone(&self.version.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Either one field or several.
#[derive(FromPyObject)]
enum Fields {
    #[pyo3(transparent)]
    One(String),
    #[pyo3(transparent)]
    Many(Vec<String>),
}

#[pymethods]
impl Database {
    #[new]
    #[pyo3(signature = (path, fields=None, *, index="auto"))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        fields: Option<Fields>,
        index: &str,
    ) -> PyResult<Database> {
        let index = IndexChoice::of_name(index)?;
        let declared = fields.map(|fields| match fields {
            Fields::One(field) => vec![field],
            Fields::Many(fields) => fields,
        });
        let version = py.detach(|| Version::open(&path, declared.as_deref(), index))?;
        Ok(Database { path, declared, index, version: RwLock::new(Arc::new(version)) })
    }

    fn __repr__(&self) -> String {
        let version = self.version();
        let kind = &version.opened.database.metadata().database_type;
        format!("<whered.Database {:?}, {kind}>", self.path.display().to_string())
    }

    /// The record of an address as Python's objects, a new one at each call; `None` if the
    /// database has none.
    ///
    /// An address is a text or an object of `ipaddress`. Blanks, brackets, a port or a zone around
    /// a text are taken off.
    ///
    /// Raises `ValueError` for a text that is no address and for an address of a family that the
    /// database does not have.
    ///
    /// >>> whered.Database(example_database).get("192.0.2.7")["country"]
    /// {'iso_code': 'DE'}
    fn get(&self, address: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let version = self.version();
        let found = version.find(address::of_object(address)?)?;
        version.record(address.py(), found)
    }

    /// One field of an address's record; `None` if there is no record or it has no such field.
    ///
    /// Fields that the database was opened with are a few memory accesses away; others are read
    /// out of the record. Maps and arrays are strings in JSON where they were opened as fields, as
    /// in columns; elsewhere they are dicts and lists.
    ///
    /// Raises as `get`, and `ValueError` for a path that is none.
    ///
    /// >>> whered.Database(example_database).field("192.0.2.7", "location.latitude")
    /// 52.5
    fn field(&self, address: &Bound<'_, PyAny>, path: &Bound<'_, PyString>) -> PyResult<Py<PyAny>> {
        let version = self.version();
        let found = version.find(address::of_object(address)?)?;
        version.object(address.py(), found, path.to_str()?)
    }

    /// The network around an address that all has the same answer, such as `"192.0.2.0/24"`.
    ///
    /// Raises as `get`.
    ///
    /// >>> whered.Database(example_database).network("192.0.2.7")
    /// '192.0.2.0/24'
    fn network(&self, address: &Bound<'_, PyAny>) -> PyResult<String> {
        let address = address::of_object(address)?;
        Ok(self.version().find(address)?.network(address).to_string())
    }

    /// Looks up a column of addresses.
    ///
    /// `column` holds strings (`utf8`, `large_utf8`, `utf8_view`, also in dictionaries), IPv4
    /// addresses as `uint32`, or addresses of 16 bytes, and comes from Arrow, polars, pandas or
    /// DuckDB; or it is a list. With one field as `fields` the answer is a `Column`, with a list
    /// a `Table`; without, a table of the fields that the database was opened with. `network`
    /// adds a column with the network of each answer.
    ///
    /// `strings` is the layout of strings in the answer: `"utf8_view"`, `"utf8"`, `"large_utf8"` or
    /// `"dictionary"`. `invalid` says what becomes of a row that is no address, or of a family
    /// that the database does not have: `"null"`, or `"raise"`. Null, `None` and NaN have no
    /// answer in either case. `threads` work on pieces of the column while Python's lock is free.
    ///
    /// Nothing of the column is copied. Ctrl-C ends the call after some ten milliseconds.
    ///
    /// Raises `TypeError` for a column of another type, and `ValueError` for a field that no
    /// record has.
    ///
    /// >>> database = whered.Database(example_database)
    /// >>> database.lookup(["192.0.2.7", None, "nonsense"], "country.iso_code").to_pylist()
    /// ['DE', None, None]
    #[pyo3(signature = (
        column, fields=None, *, network=false, strings="utf8_view", invalid="null", threads=1
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of a function in Python")]
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        column: &Bound<'py, PyAny>,
        fields: Option<Fields>,
        network: bool,
        strings: &str,
        invalid: &str,
        threads: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let layout = Layout::of_name(strings)?;
        let invalid = Invalid::of_name(invalid)?;
        let version = self.version();
        let (is_one, names) = match fields {
            Some(Fields::One(field)) if network => {
                let what = format!("network=True makes a table: pass fields=[{field:?}]");
                return Err(PyValueError::new_err(what));
            }
            Some(Fields::One(field)) => (true, vec![field]),
            Some(Fields::Many(fields)) => (false, fields),
            None => (false, version.default_fields(self.declared.as_deref(), network)?),
        };
        if names.is_empty() && !network {
            let what = "no field is asked for; name one, or pass network=True";
            return Err(PyValueError::new_err(what));
        }
        let fields = version.fields(py, &names)?;
        let addresses = Addresses::of_object(column, "column")?;
        let request = lookup::Request { fields: &fields, network, layout, invalid };
        let mut columns = lookup::run(py, &version, &addresses, &request, threads)?;
        match columns.pop() {
            Some(column) if is_one => Ok(Bound::new(py, column)?.into_any()),
            last => {
                columns.extend(last);
                Ok(Bound::new(py, Table::new(columns))?.into_any())
            }
        }
    }

    /// Opens the file again if it has changed; true if it had. Calls that run meanwhile answer
    /// from the old version, and so does the database when the new file cannot be opened.
    ///
    /// Raises as opening does.
    ///
    /// >>> whered.Database(example_database).reload()
    /// False
    fn reload(&self, py: Python<'_>) -> PyResult<bool> {
        let old = self.version().opened.stamp;
        if Stamp::at(&self.path)? == old {
            return Ok(false);
        }
        let new = py.detach(|| Version::open(&self.path, self.declared.as_deref(), self.index))?;
        *self.version.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(new);
        Ok(true)
    }

    /// Writes the index beside the database, or to another path, and returns the path. The next
    /// `Database(path)` maps it.
    ///
    /// The file appears whole or not at all. Raises `OSError`, `ValueError` for the database's own
    /// path, and `InvalidDatabaseError` for a mapped file that was cut.
    #[pyo3(signature = (path=None))]
    fn save_index(&self, py: Python<'_>, path: Option<PathBuf>) -> PyResult<String> {
        let version = self.version();
        let path = path.unwrap_or_else(|| index_path(&self.path));
        if let (Ok(database), Ok(index)) = (self.path.canonicalize(), path.canonicalize())
            && database == index
        {
            let what = format!("{}: it is the database; its index is another file", path.display());
            return Err(PyValueError::new_err(what));
        }
        version.opened.check()?;
        py.detach(|| {
            let OpenDatabase { database, index, .. } = &version.opened;
            let bytes = index.to_bytes(database);
            open::replace_file(&path, &bytes).map_err(|error| of_system(&path, &error))
        })?;
        Ok(path.display().to_string())
    }

    /// The path that the database was opened by.
    #[getter]
    fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// The fields that a lookup answers with when none are named.
    #[getter]
    fn fields(&self) -> PyResult<Vec<String>> {
        self.version().default_fields(self.declared.as_deref(), true)
    }

    /// Whether database and index are mapped files that processes share.
    #[getter]
    fn is_index_mapped(&self) -> bool {
        self.version().opened.is_mapped()
    }

    /// What the file says of itself: `database_type`, `build_epoch`, `ip_version`, `languages`
    /// and so on.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        objects::of_metadata(py, self.version().opened.database.metadata())
    }
}
