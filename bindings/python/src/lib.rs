//! The package `whered` of Python: the indexes of this repository over Python's objects and over
//! columns in Arrow's layout.
//!
//! For: databases as the package `maxminddb` opens them ([`maxminddb`]), and compiled for columns
//! ([`database`]); [`points`], prefix sets and rules ([`prefix_set`], [`rules`]).
//!
//! Not for: files that change below a process without a reload, servers, durability: that is the
//! program's work. Polars, pandas, DuckDB and Spark are reached from `python/whered/*.py`.
//!
//! ```text
//! str, list, pl.Series, pa.array ──► arrow::input ──► pieces of rows, on threads, without the GIL
//!                                                        │ addresses ──► rows of an index
//! pl.Series, pa.table, pandas    ◄── arrow::output ◄─────┘ values of each field
//! ```
//!
//! A panic here would become a Python exception (`PanicException`) and is a defect.

mod address;
mod arrow;
mod columns;
mod database;
mod error;
mod maxminddb;
mod pieces;
mod points;
mod prefix_set;
mod record;
mod rules;
mod strings;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _whered(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("InvalidDatabaseError", module.py().get_type::<error::InvalidDatabaseError>())?;
    arrow::register(module)?;
    database::register(module)?;
    maxminddb::register(module)?;
    points::register(module)?;
    prefix_set::register(module)?;
    rules::register(module)
}
