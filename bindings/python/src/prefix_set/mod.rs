//! Empty yet.

use pyo3::prelude::*;

/// Adds what this part offers to the package.
pub(crate) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
