//! Templates: a map or array of the file, decoded once and copied for each caller.
//!
//! Not for large ones: [`Template::of`] makes none beyond [`MAX_VALUES`] and [`MAX_PAYLOAD_BYTES`].
//!
//! ```text
//! {"iso_code": "DE", "names": {"en": "Germany"}}
//!   plain:  {"iso_code": "DE", "names": None}     copied as a whole by PyDict_Copy
//!   nested: "names" ──► plain: {"en": "Germany"}  copied, then set in the copy
//! ```

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

/// Values of the largest container that gets a template. The height of a template is at most twice
/// its values and one, which the decoder relies on: see `MAX_TEMPLATE_DEPTH` there.
pub(super) const MAX_VALUES: usize = 192;
const MAX_PAYLOAD_BYTES: usize = 8 << 10;

/// What decoding a container takes of a record's limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) values: usize,
    pub(super) payload_bytes: usize,
}

impl Cost {
    /// About what the Python objects of a template take in memory.
    pub(super) fn weight_bytes(self) -> usize {
        256 + 64 * self.values + self.payload_bytes
    }
}

pub(super) struct Template {
    pub(super) cost: Cost,
    part: Part,
}

/// A container without the containers in it, and these.
enum Part {
    Map { plain: Py<PyDict>, nested: Box<[(Py<PyString>, Part)]> },
    Array(Box<[Item]>),
}

enum Item {
    Plain(Py<PyAny>),
    Nested(Part),
}

impl Template {
    /// The template of a decoded container; `None` for one that is too large.
    pub(super) fn of(container: &Bound<'_, PyAny>, cost: Cost) -> PyResult<Option<Template>> {
        if cost.values > MAX_VALUES || cost.payload_bytes > MAX_PAYLOAD_BYTES {
            return Ok(None);
        }
        Ok(Part::of(container)?.map(|part| Template { cost, part }))
    }

    /// A container of the caller's own.
    pub(super) fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.part.copy(py)
    }
}

impl Part {
    /// `None` for what is no container.
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Option<Part>> {
        let py = value.py();
        if let Ok(dict) = value.cast::<PyDict>() {
            let plain = dict.copy()?;
            let mut nested = Vec::new();
            for (key, value) in dict.iter() {
                if let Some(part) = Part::of(&value)? {
                    plain.set_item(&key, py.None())?;
                    nested.push((key.cast_into::<PyString>()?.unbind(), part));
                }
            }
            return Ok(Some(Part::Map { plain: plain.unbind(), nested: nested.into() }));
        }
        let Ok(list) = value.cast::<PyList>() else { return Ok(None) };
        let item = |value: Bound<'_, PyAny>| {
            Ok(match Part::of(&value)? {
                Some(part) => Item::Nested(part),
                None => Item::Plain(value.unbind()),
            })
        };
        Ok(Some(Part::Array(list.iter().map(item).collect::<PyResult<_>>()?)))
    }

    fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Part::Map { plain, nested } => {
                let dict = plain.bind(py).copy()?;
                for (key, part) in nested {
                    dict.set_item(key.bind(py), part.copy(py)?)?;
                }
                Ok(dict.into_any())
            }
            Part::Array(items) => {
                let items: PyResult<Vec<_>> = items.iter().map(|item| item.copy(py)).collect();
                Ok(PyList::new(py, items?)?.into_any())
            }
        }
    }
}

impl Item {
    fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Item::Plain(value) => Ok(value.bind(py).clone()),
            Item::Nested(part) => part.copy(py),
        }
    }
}
