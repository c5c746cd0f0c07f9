//! Templates: a map or array of the file, decoded once and copied for each caller.
//!
//! Not for large ones: [`Template::of`] makes none beyond [`MAX_VALUES`] and [`MAX_PAYLOAD_BYTES`].
//!
//! ```text
//! {"iso_code": "DE", "names": {"en": "Germany"}}
//!   plain:  {"iso_code": "DE", "names": None}     copied as a whole by PyDict_Copy
//!   nested: "names" ──► plain: {"en": "Germany"}  copied, then set in the copy
//! ```
//!
//! A copy touches many cache lines: the dicts, their tables, and every value, whose reference is
//! counted. A template therefore knows their addresses, for prefetching.
#![allow(unsafe_code, reason = "the address of a dict's table is read, to prefetch it")]

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
    dicts: [usize; DICTS],
    /// The addresses of the values, and of the parts inside the part.
    values: Box<[usize]>,
}

/// How many dicts of a template are prefetched: a country has two, subdivisions two each.
const DICTS: usize = 4;

/// The pointer to the table in a dict, counted in words; CPython has it there in all versions.
const DICT_TABLE_WORD: usize = 4;

const CACHE_LINE_BYTES: usize = 64;

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
        Ok(Part::of(container)?.map(|part| {
            let mut addresses = Addresses::default();
            part.note(container.py(), &mut addresses);
            addresses.values.sort_unstable();
            addresses.values.dedup();
            let mut dicts = [0; DICTS];
            for (to, from) in dicts.iter_mut().zip(addresses.dicts) {
                *to = from;
            }
            Template { cost, part, dicts, values: addresses.values.into() }
        }))
    }

    /// Prefetches the dicts and the list of the values' addresses.
    pub(super) fn prefetch_dicts(&self) {
        for &dict in &self.dicts {
            whered_simd::prefetch_at(dict as *const u8);
        }
        for index in (0..self.values.len()).step_by(CACHE_LINE_BYTES / size_of::<usize>()) {
            whered_simd::prefetch(&self.values, index);
        }
    }

    /// Prefetches the tables of the dicts, and the values.
    pub(super) fn prefetch_values(&self) {
        for &dict in self.dicts.iter().take_while(|&&dict| dict != 0) {
            // SAFETY: the template holds the dict, and an object of its type has at least six
            // words. What is read is only prefetched, so that another layout would do no harm.
            let table = unsafe { (dict as *const *const u8).add(DICT_TABLE_WORD).read() };
            for line in 0..4 {
                whered_simd::prefetch_at(table.wrapping_add(line * CACHE_LINE_BYTES));
            }
        }
        for &value in &self.values {
            whered_simd::prefetch_at(value as *const u8);
        }
    }

    /// A container of the caller's own.
    pub(super) fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.part.copy(py)
    }
}

/// The addresses that a copy of a template touches.
#[derive(Default)]
struct Addresses {
    dicts: Vec<usize>,
    values: Vec<usize>,
}

impl Part {
    fn note(&self, py: Python<'_>, addresses: &mut Addresses) {
        match self {
            Part::Map { plain, nested } => {
                let plain = plain.bind(py);
                addresses.dicts.push(plain.as_ptr() as usize);
                addresses.values.extend(plain.iter().map(|(_, value)| value.as_ptr() as usize));
                addresses.values.push(nested.as_ptr() as usize);
                for (_, part) in nested {
                    part.note(py, addresses);
                }
            }
            Part::Array(items) => {
                addresses.values.push(items.as_ptr() as usize);
                for item in items {
                    match item {
                        Item::Plain(value) => addresses.values.push(value.as_ptr() as usize),
                        Item::Nested(part) => part.note(py, addresses),
                    }
                }
            }
        }
    }

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
