//! Decodes one value of a data section into Python objects.
//!
//! Not for the form of a field: that is [`whered_mmdb::fields`]. The containers that are open form
//! a list on the heap, not calls of a function: nesting takes no stack of the calling thread.
//!
//! Limits, counted as the package `maxminddb` counts: the root is one value, an array one for each
//! element, a map two for each pair, a pointer none; each container and each pointer that is
//! followed is one level.

use super::cache::{Cache, Caches, Lookup};
use super::template::{self, Cost, Template};
use super::{MAX_DEPTH, MAX_PAYLOAD_BYTES, MAX_VALUES};
use crate::error::InvalidDatabaseError;
use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PyString};
use whered_mmdb::fields::{Field, Kind, Scalar, Section, Token};
use whered_mmdb::{ErrorKind, MmdbError};

/// The depth down to which templates are used: below it no template can exceed [`MAX_DEPTH`].
const MAX_TEMPLATE_DEPTH: usize = MAX_DEPTH - 2 * (template::MAX_VALUES + 1);

/// The value at an offset of the section, with all that it holds.
///
/// # Errors
///
/// `InvalidDatabaseError` and `UnicodeDecodeError`, as the package `maxminddb` raises them.
pub(crate) fn decode<'py>(
    py: Python<'py>,
    section: &Section<'_>,
    at: usize,
    caches: &Caches,
) -> PyResult<Bound<'py, PyAny>> {
    caches.with(|cache| {
        let limits = Limits { values: MAX_VALUES - 1, payload_bytes: MAX_PAYLOAD_BYTES };
        Decoder { py, section, cache, limits, strings: Strings::default() }.value(at)
    })
}

/// What a record may still hold.
#[derive(Clone, Copy)]
struct Limits {
    values: usize,
    payload_bytes: usize,
}

impl Limits {
    #[inline]
    fn take(&mut self, cost: Cost) -> PyResult<()> {
        self.values = self.values.checked_sub(cost.values).ok_or_else(too_many_values)?;
        self.take_payload(cost.payload_bytes)
    }

    #[inline]
    fn take_payload(&mut self, bytes: usize) -> PyResult<()> {
        self.payload_bytes = self.payload_bytes.checked_sub(bytes).ok_or_else(too_large)?;
        Ok(())
    }
}

struct Decoder<'a, 'py> {
    py: Python<'py>,
    section: &'a Section<'a>,
    cache: Option<&'a mut Cache>,
    limits: Limits,
    strings: Strings<'py>,
}

/// The last strings of this record by their offsets: names in several languages are often one.
#[derive(Default)]
struct Strings<'py>([Option<(usize, Bound<'py, PyString>)>; STRINGS]);

const STRINGS: usize = 8;

/// How many pointers of a root map are followed for prefetching.
const PREFETCHED: usize = 12;

/// A container that is not complete yet.
struct Frame<'py> {
    container: Container<'py>,
    left: usize,
    /// Where the field behind the container begins, if a pointer led to it.
    after: Option<usize>,
    depth: usize,
    /// The offset of the container and the limits before it, if it is to become a template.
    template: Option<(usize, Limits)>,
}

enum Container<'py> {
    Map { dict: Bound<'py, PyDict>, key: Option<Bound<'py, PyString>> },
    Array(Bound<'py, PyList>),
}

/// A field, and what led to it.
struct Target {
    field: Field,
    /// Where the field begins.
    offset: usize,
    /// Where the field behind the pointer begins, if a pointer led here.
    after: Option<usize>,
    /// The depth, the pointer included.
    depth: usize,
}

enum Step<'py> {
    Complete(Bound<'py, PyAny>, usize),
    Frame(Frame<'py>, usize),
}

impl<'py> Decoder<'_, 'py> {
    fn value(&mut self, start: usize) -> PyResult<Bound<'py, PyAny>> {
        let mut frames: Vec<Frame<'py>> = Vec::new();
        let mut at = start;
        let mut depth = 0;
        loop {
            let (mut value, mut next) = match self.open(at, depth, frames.is_empty())? {
                Step::Complete(value, next) => (value, next),
                Step::Frame(frame, first) => {
                    depth = frame.depth;
                    at = first;
                    frames.push(frame);
                    if let Some(frame) = frames.last_mut() {
                        self.read_key(frame, &mut at)?;
                    }
                    continue;
                }
            };
            loop {
                let Some(frame) = frames.last_mut() else { return Ok(value) };
                frame.put(value)?;
                if frame.left > 0 {
                    depth = frame.depth;
                    at = next;
                    self.read_key(frame, &mut at)?;
                    break;
                }
                let Some(frame) = frames.pop() else { return Err(bad_data(&"no container")) };
                next = frame.after.unwrap_or(next);
                value = self.complete(frame, frames.is_empty())?;
            }
        }
    }

    /// The value at an offset, or the container that begins there and where its content begins.
    #[inline]
    fn open(&mut self, at: usize, depth: usize, is_root: bool) -> PyResult<Step<'py>> {
        let found = self.resolve(at, depth)?;
        let Target { field, offset, after, depth } = found;
        let size = match field.kind {
            Kind::Map => 2 * field.size,
            Kind::Array => field.size,
            _ => {
                let value = self.scalar(&field, offset)?;
                return Ok(Step::Complete(value, after.unwrap_or(field.end())));
            }
        };
        let mut admit = false;
        if (after.is_some() || is_root)
            && depth <= MAX_TEMPLATE_DEPTH
            && let Some(cache) = self.cache.as_deref_mut()
        {
            let table = if is_root { &mut cache.roots } else { &mut cache.parts };
            match table.get(offset) {
                // Behind a root nothing is read: any offset will do.
                Lookup::Template(template) => {
                    self.limits.take(template.cost)?;
                    return Ok(Step::Complete(template.copy(self.py)?, after.unwrap_or(offset)));
                }
                Lookup::Absent(is_second) => admit = is_second,
            }
        }
        if is_root && field.kind == Kind::Map {
            self.prefetch(&field);
        }
        let template = admit.then_some((offset, self.limits));
        self.limits.take(Cost { values: size, payload_bytes: 0 })?;
        if depth == MAX_DEPTH {
            return Err(too_deep());
        }
        let container = match field.kind {
            Kind::Map => Container::Map { dict: PyDict::new(self.py), key: None },
            _ => Container::Array(PyList::empty(self.py)),
        };
        if field.size == 0 {
            return Ok(Step::Complete(container.into_any(), after.unwrap_or(field.end())));
        }
        let frame = Frame { container, left: field.size, after, depth: depth + 1, template };
        Ok(Step::Frame(frame, field.start))
    }

    /// Prefetches what the pointers of a map lead to: templates, and the bytes of the file. A fault
    /// on the way, and bytes that are not in memory, end it; decoding meets them again.
    fn prefetch(&self, map: &Field) {
        let Some(cache) = self.cache.as_deref() else { return };
        let mut targets = [0; PREFETCHED];
        let mut count = 0;
        let mut at = map.start;
        for _ in 0..map.size.min(PREFETCHED) {
            let Some(value_at) = self.behind(at) else { break };
            if let Some(Token::Pointer { target, .. }) = self.section.peek(value_at)
                && let Some(slot) = targets.get_mut(count)
            {
                *slot = target;
                count += 1;
                let byte = Field { kind: Kind::Bytes, size: 1, start: target };
                if let Ok(bytes) = self.section.payload(&byte) {
                    whered_simd::prefetch_at(bytes.as_ptr());
                    // A writer puts what a container points to before it.
                    whered_simd::prefetch_at(bytes.as_ptr().wrapping_sub(64));
                }
            }
            let Some(next) = self.behind(value_at) else { break };
            at = next;
        }
        cache.parts.prefetch(targets.get(..count).unwrap_or_default());
    }

    /// Where the field behind the one at an offset begins.
    fn behind(&self, at: usize) -> Option<usize> {
        let mut next = at;
        let mut left = 1;
        // A container with more in it is not worth the time.
        for _ in 0..PREFETCHED * 2 {
            match self.section.peek(next)? {
                Token::Pointer { next: end, .. } => next = end,
                Token::Field(field) => {
                    next = field.end();
                    left += field.nested_fields();
                }
            }
            left -= 1;
            if left == 0 {
                return Some(next);
            }
        }
        None
    }

    /// The field at an offset, one pointer followed.
    #[inline]
    fn resolve(&self, at: usize, depth: usize) -> PyResult<Target> {
        let token = |at| self.section.token(at).map_err(|error| of_field(&error));
        match token(at)? {
            Token::Field(field) => Ok(Target { field, offset: at, after: None, depth }),
            Token::Pointer { target, next } => {
                if depth == MAX_DEPTH {
                    return Err(too_deep());
                }
                match token(target)? {
                    Token::Field(field) => {
                        Ok(Target { field, offset: target, after: Some(next), depth: depth + 1 })
                    }
                    Token::Pointer { .. } => Err(bad_data(&"a pointer to a pointer")),
                }
            }
        }
    }

    /// Reads the key of a map's next pair, and moves on to the value; an array has no keys.
    #[inline]
    fn read_key(&mut self, frame: &mut Frame<'py>, at: &mut usize) -> PyResult<()> {
        let Container::Map { key, .. } = &mut frame.container else { return Ok(()) };
        if let (Some(cache), Some(Token::Pointer { target, next })) =
            (self.cache.as_deref(), self.section.peek(*at))
            && let Some((known, size)) = cache.key_at(self.py, target)
            && frame.depth < MAX_DEPTH
        {
            self.limits.take_payload(size)?;
            *key = Some(known);
            *at = next;
            return Ok(());
        }
        let Target { field, offset, after, .. } = self.resolve(*at, frame.depth)?;
        if field.kind != Kind::String {
            return Err(bad_data(&format_args!("a map key of type {:?}", field.kind)));
        }
        self.limits.take_payload(field.size)?;
        let bytes = self.section.payload(&field).map_err(|error| of_field(&error))?;
        let made = match self.cache.as_deref_mut() {
            Some(cache) => {
                let made = cache.key(self.py, bytes, || string(self.py, bytes))?;
                if after.is_some() {
                    cache.note_key(offset, &made, field.size);
                }
                made
            }
            None => string(self.py, bytes)?,
        };
        *key = Some(made);
        *at = after.unwrap_or(field.end());
        Ok(())
    }

    #[inline]
    fn scalar(&mut self, field: &Field, offset: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        match field.kind {
            Kind::String => {
                self.limits.take_payload(field.size)?;
                let bytes = self.section.payload(field).map_err(|error| of_field(&error))?;
                return Ok(self.strings.get(offset, || string(py, bytes))?.into_any());
            }
            Kind::Bytes => {
                self.limits.take_payload(field.size)?;
                let bytes = self.section.payload(field).map_err(|error| of_field(&error))?;
                return Ok(PyBytes::new(py, bytes).into_any());
            }
            _ => {}
        }
        let scalar = self.section.scalar(field).map_err(|error| of_field(&error))?;
        Ok(match scalar {
            Some(Scalar::Double(number)) => PyFloat::new(py, number).into_any(),
            Some(Scalar::Float(number)) => PyFloat::new(py, f64::from(number)).into_any(),
            Some(Scalar::Uint16(number)) => number.into_pyobject(py)?.into_any(),
            Some(Scalar::Uint32(number)) => number.into_pyobject(py)?.into_any(),
            Some(Scalar::Uint64(number)) => number.into_pyobject(py)?.into_any(),
            Some(Scalar::Uint128(number)) => number.into_pyobject(py)?.into_any(),
            Some(Scalar::Int32(number)) => number.into_pyobject(py)?.into_any(),
            Some(Scalar::Boolean(truth)) => PyBool::new(py, truth).to_owned().into_any(),
            Some(Scalar::String(_) | Scalar::Bytes(_)) | None => {
                return Err(bad_data(&"a container where a plain value is"));
            }
        })
    }

    /// The container of a frame that has all its values.
    #[inline]
    fn complete(&mut self, frame: Frame<'py>, is_root: bool) -> PyResult<Bound<'py, PyAny>> {
        let container = frame.container.into_any();
        if let (Some((offset, before)), Some(cache)) = (frame.template, self.cache.as_deref_mut()) {
            let cost = Cost {
                values: before.values - self.limits.values,
                payload_bytes: before.payload_bytes - self.limits.payload_bytes,
            };
            let table = if is_root { &mut cache.roots } else { &mut cache.parts };
            table.admit(offset, Template::of(&container, cost)?);
        }
        Ok(container)
    }
}

impl<'py> Strings<'py> {
    #[inline]
    fn get(
        &mut self,
        offset: usize,
        make: impl FnOnce() -> PyResult<Bound<'py, PyString>>,
    ) -> PyResult<Bound<'py, PyString>> {
        let Some(slot) = self.0.get_mut((offset ^ (offset >> 3)) % STRINGS) else { return make() };
        match slot {
            Some((held, text)) if *held == offset => Ok(text.clone()),
            _ => {
                let text = make()?;
                *slot = Some((offset, text.clone()));
                Ok(text)
            }
        }
    }
}

impl<'py> Frame<'py> {
    #[inline]
    fn put(&mut self, value: Bound<'py, PyAny>) -> PyResult<()> {
        self.left -= 1;
        match &mut self.container {
            Container::Map { dict, key } => match key.take() {
                Some(key) => dict.set_item(key, value),
                None => Err(bad_data(&"a value without a key")),
            },
            Container::Array(list) => list.append(value),
        }
    }
}

impl<'py> Container<'py> {
    fn into_any(self) -> Bound<'py, PyAny> {
        match self {
            Container::Map { dict, .. } => dict.into_any(),
            Container::Array(list) => list.into_any(),
        }
    }
}

#[inline]
fn string<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(error) => Err(no_utf8(py, bytes, error)),
    }
}

#[cold]
fn no_utf8(py: Python<'_>, bytes: &[u8], error: std::str::Utf8Error) -> PyErr {
    match PyUnicodeDecodeError::new_utf8(py, bytes, error) {
        Ok(exception) => PyErr::from_value(exception.into_any()),
        Err(error) => error,
    }
}

/// A fault of a field.
#[cold]
fn of_field(error: &MmdbError) -> PyErr {
    match error.kind() {
        ErrorKind::Unreadable => unreadable(error),
        _ => bad_data(error),
    }
}

/// Bytes of the file that are no longer there.
#[cold]
pub(crate) fn unreadable(error: &MmdbError) -> PyErr {
    InvalidDatabaseError::new_err(format!("The MaxMind DB file changed below the reader: {error}"))
}

#[cold]
fn bad_data(detail: &dyn std::fmt::Display) -> PyErr {
    InvalidDatabaseError::new_err(format!(
        "The MaxMind DB file's data section contains bad data \
         (unknown data type or corrupt data): {detail}"
    ))
}

#[cold]
fn too_many_values() -> PyErr {
    InvalidDatabaseError::new_err(
        "The MaxMind DB file's data section exceeds the maximum number of values",
    )
}

#[cold]
fn too_large() -> PyErr {
    InvalidDatabaseError::new_err(
        "The MaxMind DB file's data section exceeds the maximum payload size",
    )
}

#[cold]
fn too_deep() -> PyErr {
    InvalidDatabaseError::new_err("The MaxMind DB file's data section exceeds the maximum depth")
}
