//! Columns in Arrow's layout, taken from and given to other packages without a copy.
//!
//! For: [`input::Column`], whatever a caller passes as a column; [`output::Column`] and
//! [`output::Table`], what the package answers with. The protocol is the Arrow PyCapsule
//! interface: an object offers `__arrow_c_array__` or `__arrow_c_stream__`, whose capsules hold
//! the structures of the Arrow C data and C stream interfaces.

pub(crate) mod input;
mod objects;
pub(crate) mod output;

use pyo3::prelude::*;

/// Adds the classes of answers to the package.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<output::Column>()?;
    module.add_class::<output::Table>()
}
