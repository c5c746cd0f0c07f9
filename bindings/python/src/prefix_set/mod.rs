//! `PrefixSet`: prefixes with values, and the longest one around an address.
//!
//! For: the class. Not for: formats of files and the compiled form (`whered-ip`), columns of
//! addresses (`columns`).
//!
//! ```text
//! prefixes, values ──► members by block ──► CompiledSet: address ──► number of a member
//!                      pools of strings   ◄── numbers of a column's rows
//! ```

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use whered_ip::{
    Block, CompiledSet, HostBitsFinder, SetOption, SetReading, prefix_without_host_bits,
};

use crate::address;
use crate::arrow::output::{Column, Table};
use crate::columns::addresses::{Addresses, BATCH_ROWS, Batch, Kind};
use crate::columns::rows::Names;
use crate::columns::{Invalid, Piece, pieces_of};
use crate::database::of_system;
use crate::pieces;
use crate::strings::{Layout, NO_TEXT, Pool};

/// Adds the class to the package.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PrefixSet>()
}

/// The largest file of prefixes, unpacked.
const LIST_BYTES_MAX: u64 = 1 << 32;

/// The most members: their numbers are 31 bits, and 0 is none.
const MEMBERS_MAX: usize = (1 << 31) - 2;

/// Prefixes with values, and the longest one around an address.
///
/// `prefixes` is a column of strings or of networks of `ipaddress`: `10.0.0.0/8`, a single address,
/// or a range such as `10.0.0.5-10.0.0.9`. `values`, of the same length, are strings, whole numbers
/// (which count as they are written) or nulls. Of equal prefixes the last row counts. An address
/// gets the smallest block that holds it.
///
/// A prefix with bits set behind its length, such as `10.0.0.1/8`, is taken as the block that holds
/// it, `10.0.0.0/8`; with `strict=True` it is refused. IPv4-mapped IPv6 addresses are IPv4 here.
///
/// Raises `ValueError` that names the row for a null or a text that is no prefix, and for columns
/// of different lengths. A set never changes; any number of threads may ask. Cost: some 0.5 µs and
/// 100 bytes a prefix to build.
///
/// >>> import whered
/// >>> prefixes = ["10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32"]
/// >>> networks = whered.PrefixSet(prefixes, ["a", "b", None])
/// >>> len(networks), "10.9.9.9" in networks, "192.0.2.1" in networks
/// (3, True, False)
/// >>> networks["10.1.2.3"], networks["2001:db8::1"]
/// (('10.1.0.0/16', 'b'), ('2001:db8::/32', None))
#[pyclass(module = "whered", frozen)]
pub(crate) struct PrefixSet {
    set: CompiledSet,
    prefixes: Pool,
    values: Pool,
}

/// Blocks and their values, while they are read.
#[derive(Default)]
struct Members {
    blocks: Vec<Block>,
    values: Vec<Option<String>>,
    numbers: HashMap<Block, usize>,
}

impl Members {
    fn push(&mut self, block: Block, value: Option<String>) {
        let number = *self.numbers.entry(block).or_insert(self.blocks.len());
        if number == self.blocks.len() {
            self.blocks.push(block);
            self.values.push(value);
        } else {
            self.values[number] = value;
        }
    }

    fn compiled(self) -> PyResult<PrefixSet> {
        if self.blocks.len() > MEMBERS_MAX {
            let what = format!("{} prefixes: allowed are {MEMBERS_MAX}", self.blocks.len());
            return Err(PyValueError::new_err(what));
        }
        let strings: Vec<String> = self.blocks.iter().map(Block::to_string).collect();
        Ok(PrefixSet {
            set: CompiledSet::build(self.blocks.into_iter().zip(1..)),
            prefixes: Pool::new(strings.iter().map(|text| Some(text.as_str()))),
            values: Pool::new(self.values.iter().map(Option::as_deref)),
        })
    }
}

impl PrefixSet {
    /// Whether a block holds the address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.set.lookup(address).is_some()
    }

    fn member(&self, address: IpAddr) -> Option<(String, Option<String>)> {
        let number = self.set.lookup(address)? as usize - 1;
        let owned = |pool: &Pool| pool.text(number).map(str::to_owned);
        Some((owned(&self.prefixes)?, owned(&self.values)))
    }

    /// The members' numbers for the rows of a piece, or [`NO_TEXT`].
    fn numbers(
        &self,
        addresses: &Addresses,
        piece: &Piece,
        invalid: Invalid,
    ) -> PyResult<Vec<u32>> {
        let mut numbers = Vec::with_capacity(piece.rows.len());
        let (mut batch, mut found, mut found6) = (Batch::default(), Vec::new(), Vec::new());
        for start in piece.rows.clone().step_by(BATCH_ROWS) {
            let rows = start..(start + BATCH_ROWS).min(piece.rows.end);
            addresses.read(&Piece { rows, ..piece.clone() }, &mut batch, invalid)?;
            found.clear();
            found.resize(batch.v4.len(), 0);
            self.set.lookup4_batch(&batch.v4, &mut found);
            // Rows that are no IPv4 address were looked up as 0.0.0.0.
            for (found, kind) in found.iter_mut().zip(&batch.kinds) {
                *found = if *kind == Kind::V4 { *found } else { 0 };
            }
            found6.clear();
            found6.resize(batch.v6.len(), 0);
            self.set.lookup6_batch(&batch.v6, &mut found6);
            for (row, answer) in batch.v6_rows.iter().zip(&found6) {
                found[*row as usize] = *answer;
            }
            let number = |found: &u32| if *found == 0 { NO_TEXT } else { *found - 1 };
            numbers.extend(found.iter().map(number));
        }
        Ok(numbers)
    }
}

#[pymethods]
impl PrefixSet {
    #[new]
    #[pyo3(signature = (prefixes, values=None, *, strict=false))]
    fn new(
        py: Python<'_>,
        prefixes: &Bound<'_, PyAny>,
        values: Option<&Bound<'_, PyAny>>,
        strict: bool,
    ) -> PyResult<PrefixSet> {
        let prefixes = Names::of_object(prefixes, "prefixes")?;
        let values = values.map(|values| Names::of_object(values, "values")).transpose()?;
        if let Some(values) = &values
            && values.len() != prefixes.len()
        {
            let (one, other) = (prefixes.len(), values.len());
            return Err(PyValueError::new_err(format!(
                "prefixes has {one} rows and values has {other}; pass columns of one length"
            )));
        }
        let mut members = Members::default();
        for start in (0..prefixes.len()).step_by(pieces::ROWS) {
            py.check_signals()?;
            let rows = start..(start + pieces::ROWS).min(prefixes.len());
            py.detach(|| {
                let mut blocks = Vec::with_capacity(rows.len());
                prefixes.for_each(rows.clone(), |text| blocks.push(block_of(text, strict)));
                let mut owned = Vec::with_capacity(rows.len());
                if let Some(values) = &values {
                    values.for_each(rows.clone(), |value| owned.push(value.map(str::to_owned)));
                }
                let mut owned = owned.into_iter();
                for (row, block) in rows.zip(blocks) {
                    let block =
                        block.map_err(|why| PyValueError::new_err(format!("row {row}: {why}")))?;
                    members.push(block, owned.next().flatten());
                }
                Ok::<(), PyErr>(())
            })?;
        }
        py.detach(|| members.compiled())
    }

    /// Reads a file of prefixes, plain or packed: a plain list such as FireHOL's, `ipset save`,
    /// `nft list set` as text or JSON, a table, JSON, or what providers and registries publish.
    ///
    /// `format` is its name, such as "plain", "csv", "aws" or "rir"; without it the content
    /// decides. `name` is the set that is wanted of a file with several. `json_path` and
    /// `value_path` say where JSON has prefixes and values (`prefixes[].ip_prefix`), `column` and
    /// `value_column` where a table has them (a name or a number; two columns with a comma are the
    /// ends of ranges), and `delimiter` what is between its fields. Comments of the formats that
    /// have them are the values. Timeouts are not kept: the set holds what the file holds.
    ///
    /// Raises `OSError` for a file that cannot be read, `ValueError` with line and column for a
    /// text that is wrong, with `strict=True` also for bits set behind a prefix's length. Cost:
    /// some 0.5 µs a line.
    ///
    /// >>> import pathlib, whered
    /// >>> _ = pathlib.Path("list.netset").write_text("# two\n192.0.2.0/24\n198.51.100.7\n")
    /// >>> networks = whered.PrefixSet.read("list.netset")
    /// >>> len(networks), networks.get("192.0.2.9")
    /// (2, ('192.0.2.0/24', None))
    #[staticmethod]
    #[pyo3(signature = (
        path, *, format=None, name=None, json_path=None, value_path=None, column=None,
        value_column=None, delimiter=None, strict=false
    ))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        name: Option<&str>,
        json_path: Option<&str>,
        value_path: Option<&str>,
        column: Option<&str>,
        value_column: Option<&str>,
        delimiter: Option<&str>,
        strict: bool,
    ) -> PyResult<PrefixSet> {
        let options = [
            (SetOption::Format, format),
            (SetOption::Set, name),
            (SetOption::Path, json_path),
            (SetOption::ValuePath, value_path),
            (SetOption::Column, column),
            (SetOption::ValueColumn, value_column),
            (SetOption::Delimiter, delimiter),
        ];
        let mut reading = SetReading::default();
        for (option, text) in options {
            if let Some(text) = text {
                reading.set_option(option, text).map_err(PyValueError::new_err)?;
            }
        }
        reading.check().map_err(PyValueError::new_err)?;
        py.detach(|| {
            let shown = path.display();
            let wrong = |what: String| PyValueError::new_err(format!("{shown}: {what}"));
            let opened = std::fs::File::open(&path).map_err(|error| of_system(&path, &error))?;
            let text = whered_unpack::read_unpacked(Box::new(opened), LIST_BYTES_MAX);
            let text = text.map_err(|error| match error.raw_os_error() {
                Some(_) => of_system(&path, &error),
                None => wrong(error.to_string()),
            })?;
            if strict && let Some(remark) = HostBitsFinder::of(&text).remark() {
                return Err(wrong(remark));
            }
            let mut members = Members::default();
            let read = reading.read(&text, |entry| {
                let value = entry.value.map(|value| String::from_utf8_lossy(&value).into_owned());
                members.push(entry.block.to_canonical(), value);
            });
            read.map_err(|error| wrong(error.to_string()))?;
            members.compiled()
        })
    }

    /// The prefix and the value around one address, or `default` if there is none.
    ///
    /// The address is a text (a port or a zone is taken off), an `IPv4Address` or an
    /// `IPv6Address`. Raises `ValueError` for a text that is no address, `TypeError` for another
    /// object. Cost: some 0.3 µs.
    ///
    /// >>> import whered
    /// >>> networks = whered.PrefixSet(["10.0.0.0/8"], ["office"])
    /// >>> networks.get("10.1.2.3"), networks.get("192.0.2.1")
    /// (('10.0.0.0/8', 'office'), None)
    #[pyo3(signature = (address, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        address: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.member(address::of_object(address)?) {
            Some(member) => Ok(Some(member.into_pyobject(py)?.into_any())),
            None => Ok(default),
        }
    }

    /// The longest prefix around each address of a column: a table of `prefix` and `value`, with a
    /// row for each row, null where no prefix holds the address.
    ///
    /// The column holds strings, IPv4 addresses as whole numbers or IPv6 addresses of 16 bytes, as
    /// for `Database.lookup`. What is no address is null with `invalid="null"`, and a `ValueError`
    /// that names the row with `invalid="raise"`. `strings` is the Arrow type of the answers:
    /// "utf8_view", "utf8", "large_utf8" or "dictionary".
    ///
    /// Cost: some 30 ns a row on each of `threads` threads; the GIL is released.
    ///
    /// >>> import whered
    /// >>> networks = whered.PrefixSet(["10.0.0.0/8", "10.1.0.0/16"], ["a", "b"])
    /// >>> networks.match(["10.1.2.3", "10.9.9.9", "192.0.2.1"]).to_pydict()
    /// {'prefix': ['10.1.0.0/16', '10.0.0.0/8', None], 'value': ['b', 'a', None]}
    #[pyo3(signature = (column, *, strings="utf8_view", invalid="null", threads=1))]
    fn r#match(
        &self,
        py: Python<'_>,
        column: &Bound<'_, PyAny>,
        strings: &str,
        invalid: &str,
        threads: usize,
    ) -> PyResult<Table> {
        let (layout, invalid) = (Layout::of_name(strings)?, Invalid::of_name(invalid)?);
        let addresses = Addresses::of_object(column, "column")?;
        let all = pieces_of(addresses.lengths());
        let mut numbers: Vec<Vec<u32>> = all.iter().map(|_| Vec::new()).collect();
        pieces::run(py, all.iter().zip(&mut numbers).collect(), threads, |(piece, numbers)| {
            *numbers = self.numbers(&addresses, piece, invalid)?;
            Ok(())
        })?;
        py.detach(|| {
            let column = |name, pool: &Pool| {
                // The chunks of the answer are the pieces; a column without rows has one chunk.
                let mut chunks = numbers.iter().map(Vec::as_slice).collect::<Vec<_>>();
                if chunks.is_empty() {
                    chunks.push(&[]);
                }
                let arrays = chunks.into_iter().map(|numbers| layout.of_numbers(pool, numbers));
                let arrays = arrays.collect::<PyResult<_>>()?;
                Ok::<Column, PyErr>(Column::new(name, layout.data_type(), arrays))
            };
            let columns = vec![column("prefix", &self.prefixes)?, column("value", &self.values)?];
            Ok(Table::new(columns))
        })
    }

    /// The number of different prefixes.
    fn __len__(&self) -> usize {
        self.set.len()
    }

    fn __repr__(&self) -> String {
        format!("<whered.PrefixSet: {} prefixes>", self.set.len())
    }

    /// Whether a prefix holds the address.
    fn __contains__(&self, address: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.contains(address::of_object(address)?))
    }

    /// The prefix and the value around an address. Raises `KeyError` if there is none.
    fn __getitem__(&self, address: &Bound<'_, PyAny>) -> PyResult<(String, Option<String>)> {
        let found = self.member(address::of_object(address)?);
        found.ok_or_else(|| PyKeyError::new_err(address.to_string()))
    }

    /// Bytes of memory that the lookups read.
    #[getter]
    fn memory_bytes(&self) -> usize {
        self.set.memory_bytes()
    }
}

/// The block that a text is.
fn block_of(text: Option<&str>, strict: bool) -> Result<Block, String> {
    let Some(text) = text else { return Err("the prefix is null".to_owned()) };
    let text = text.trim();
    if strict && let Some(taken_as) = prefix_without_host_bits(text.as_bytes()) {
        return Err(format!(
            "{text:?} has bits set behind its length: allowed is {taken_as} (or strict=False)"
        ));
    }
    let block = text.parse::<Block>().map_err(|error| format!("{text:?}: {error}"))?;
    Ok(block.to_canonical())
}
