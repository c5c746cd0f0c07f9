//! Reads whole records and finds fields in them.
//!
//! Not for the form of a single field: that is [`crate::decode`]. One walk tells a [`Sink`] what it
//! meets and so serves values and JSON; a field is found by stepping over what stands before it,
//! without decoding that.
//!
//! Cost bounds against hostile files: pointers let a small file describe an endless record (a map
//! whose entries all point to a map whose entries all point ...). So one call decodes at most
//! [`MAX_VALUES_PER_RECORD`] values and [`MAX_PAYLOAD_BYTES_PER_RECORD`] bytes of payload, nested
//! at most [`MAX_DEPTH`] deep; beyond that it is an error of kind `Limit`.
//!
//! Nothing is kept between calls; any number of threads may read at once.
#![deny(clippy::indexing_slicing)]

use crate::decode::{Field, Kind, Scalar, Section, Token};
use crate::error::{ErrorKind, MmdbError};
use crate::path::{FieldPath, Segment};

/// How deep maps and arrays may be nested in one record; libmaxminddb's limit.
pub const MAX_DEPTH: usize = 512;

/// How many values (keys included) one record may hold, pointers followed.
pub const MAX_VALUES_PER_RECORD: usize = 65_536;

/// How many bytes of text and byte strings (keys included) one record may hold, pointers followed:
/// twice the largest single field.
pub const MAX_PAYLOAD_BYTES_PER_RECORD: usize = 32 << 20;

/// Takes a record's values in order: one walk serves values, JSON and counting.
pub(crate) trait Sink {
    fn scalar(&mut self, scalar: Scalar<'_>);
    fn begin_map(&mut self, size: usize);
    fn key(&mut self, key: &str);
    fn end_map(&mut self);
    fn begin_array(&mut self, size: usize);
    fn end_array(&mut self);
}

/// The budget of one call: at most [`MAX_VALUES_PER_RECORD`] and
/// [`MAX_PAYLOAD_BYTES_PER_RECORD`].
#[derive(Debug, Clone)]
pub struct Budget {
    values: usize,
    payload_bytes: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new()
    }
}

impl Budget {
    /// The whole budget of one record.
    #[must_use]
    pub fn new() -> Budget {
        Budget { values: MAX_VALUES_PER_RECORD, payload_bytes: MAX_PAYLOAD_BYTES_PER_RECORD }
    }

    /// A budget without an end, for stepping over fields: no pointer is followed then, so that the
    /// section's size is the bound. [`values_taken`](Budget::values_taken) says what it was.
    #[must_use]
    pub fn endless() -> Budget {
        Budget { values: usize::MAX, payload_bytes: usize::MAX }
    }

    /// How many values an [`endless`](Budget::endless) budget gave.
    #[must_use]
    pub fn values_taken(&self) -> usize {
        usize::MAX - self.values
    }

    /// Takes one value of a record; of a map or array only the announcement.
    ///
    /// # Errors
    ///
    /// The budget does not hold it, or not all that the map or array announces.
    #[inline]
    pub fn take_field(&mut self, field: &Field) -> Result<(), MmdbError> {
        let payload_bytes = match field.kind {
            Kind::String | Kind::Bytes => field.size,
            _ => 0,
        };
        // A container that announces more than the budget is refused before anything is read.
        if field.nested_fields() > self.values as u64 {
            return Err(too_many_values());
        }
        self.take(payload_bytes)
    }

    /// Takes one value without its text, which stepping over does not read; whether it was there.
    #[inline(always)]
    fn take_one(&mut self) -> bool {
        let left = self.values.checked_sub(1);
        self.values = left.unwrap_or_default();
        left.is_some()
    }

    /// Takes one value or key with this much text.
    #[inline]
    fn take(&mut self, payload_bytes: usize) -> Result<(), MmdbError> {
        self.values = self.values.checked_sub(1).ok_or_else(too_many_values)?;
        self.payload_bytes =
            self.payload_bytes.checked_sub(payload_bytes).ok_or_else(too_many_bytes)?;
        Ok(())
    }
}

#[cold]
pub(crate) fn too_many_values() -> MmdbError {
    MmdbError::new(
        ErrorKind::Limit,
        "more values than a record may hold",
        format!("{MAX_VALUES_PER_RECORD} values, pointers followed"),
    )
}

#[cold]
pub(crate) fn too_many_bytes() -> MmdbError {
    MmdbError::new(
        ErrorKind::Limit,
        "more text than a record may hold",
        format!("{MAX_PAYLOAD_BYTES_PER_RECORD} bytes, pointers followed"),
    )
}

#[cold]
pub(crate) fn too_deep() -> MmdbError {
    MmdbError::new(
        ErrorKind::Limit,
        "maps and arrays nested too deep, or a pointer that leads back to itself",
        format!("{MAX_DEPTH} levels"),
    )
}

impl Section<'_> {
    /// Decodes the value at `at` into `sink`; returns where the next field begins.
    ///
    /// Cost: linear in the values told to the sink; see the file's head for the bounds.
    pub(crate) fn walk(
        &self,
        at: usize,
        budget: &mut Budget,
        sink: &mut impl Sink,
    ) -> Result<usize, MmdbError> {
        self.walk_nested(at, 0, budget, sink)
    }

    fn walk_nested(
        &self,
        at: usize,
        depth: usize,
        budget: &mut Budget,
        sink: &mut impl Sink,
    ) -> Result<usize, MmdbError> {
        let (field, after_pointer) = self.resolve(at)?;
        budget.take_field(&field).map_err(|error| error.at(self.file_offset(at)))?;
        let mut next = field.end();
        if let Some(scalar) = self.scalar(&field)? {
            sink.scalar(scalar);
            return Ok(after_pointer.unwrap_or(next));
        }
        if depth == MAX_DEPTH {
            return Err(too_deep().at(self.file_offset(at)));
        }
        if field.kind == Kind::Map {
            sink.begin_map(field.size);
            for _ in 0..field.size {
                let key_at = next;
                let (key, value_at) = self.key(key_at)?;
                budget.take(key.len()).map_err(|error| error.at(self.file_offset(key_at)))?;
                sink.key(key);
                next = self
                    .walk_nested(value_at, depth + 1, budget, sink)
                    .map_err(|error| error.within(&FieldPath::escape(key)))?;
            }
            sink.end_map();
        } else {
            sink.begin_array(field.size);
            for index in 0..field.size {
                next = self
                    .walk_nested(next, depth + 1, budget, sink)
                    .map_err(|error| error.within(&index.to_string()))?;
            }
            sink.end_array();
        }
        Ok(after_pointer.unwrap_or(next))
    }

    /// Where the field after the one at `at` begins; pointers are not followed.
    ///
    /// Cost: linear in the fields stepped over.
    ///
    /// # Errors
    ///
    /// A fault of a field stepped over, or more of them than the budget holds.
    #[inline]
    fn skip(&self, at: usize, budget: &mut Budget) -> Result<usize, MmdbError> {
        let mut next = at;
        let mut left = 1_u64;
        while left > 0 {
            left -= 1;
            match self.step_over(next) {
                Some((end, nested)) if budget.take_one() => {
                    next = end;
                    left += nested;
                }
                _ => (next, left) = self.step_slowly(next, left, budget)?,
            }
        }
        Ok(next)
    }

    /// As a step of [`skip`](Section::skip), for rare fields, bytes not in memory, and faults.
    #[inline(never)]
    fn step_slowly(
        &self,
        at: usize,
        left: u64,
        budget: &mut Budget,
    ) -> Result<(usize, u64), MmdbError> {
        match self.token(at)? {
            Token::Pointer { next, .. } => {
                budget.take(0).map_err(|error| error.at(self.file_offset(at)))?;
                Ok((next, left))
            }
            Token::Field(field) if matches!(field.kind, Kind::Container | Kind::End) => {
                Err(self.not_in_records(&field))
            }
            Token::Field(field) => {
                budget.take_field(&field).map_err(|error| error.at(self.file_offset(at)))?;
                Ok((field.end(), left + field.nested_fields()))
            }
        }
    }

    /// Where the value at `path` inside the record at `at` stands; `None` if there is none.
    ///
    /// Cost: linear in the fields before it in each map or array on the way.
    pub(crate) fn locate(&self, at: usize, path: &FieldPath) -> Result<Option<usize>, MmdbError> {
        let mut budget = Budget::new();
        let mut at = at;
        for (position, segment) in path.segments().iter().enumerate() {
            let step = self
                .step(at, segment, &mut budget)
                .map_err(|error| error.within(&path.first(position).to_string()))?;
            match step {
                Some(found) => at = found,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Where the value that `segment` means inside the one at `at` stands.
    fn step(
        &self,
        at: usize,
        segment: &Segment,
        budget: &mut Budget,
    ) -> Result<Option<usize>, MmdbError> {
        let (field, _) = self.resolve(at)?;
        match field.kind {
            Kind::Map => self.find_key(&field, segment.text().as_bytes(), budget),
            Kind::Array => match segment.index_in(field.size) {
                Some(index) => self.find_index(&field, index, budget).map(Some),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Where the value of a map's key stands; `None` if the map has no such key.
    ///
    /// Cost: linear in the fields before it.
    ///
    /// # Errors
    ///
    /// A fault of a field before it, or more of them than the budget holds.
    #[inline]
    pub fn find_key(
        &self,
        map: &Field,
        wanted: &[u8],
        budget: &mut Budget,
    ) -> Result<Option<usize>, MmdbError> {
        let mut next = map.start;
        for _ in 0..map.size {
            let (is_wanted, value_at) = match self.peek_key(next, wanted) {
                Some(key) => key,
                None => self.key_slowly(next, wanted)?,
            };
            if is_wanted {
                return Ok(Some(value_at));
            }
            next = self.skip(value_at, budget)?;
        }
        Ok(None)
    }

    /// As [`peek_key`](Section::peek_key), for bytes that may not be in memory, and with an error.
    #[inline(never)]
    fn key_slowly(&self, at: usize, wanted: &[u8]) -> Result<(bool, usize), MmdbError> {
        let (field, value_at) = self.key_field(at)?;
        Ok((self.payload(&field)? == wanted, value_at))
    }

    /// Where an array's element stands; `index` is below its size.
    ///
    /// Cost: linear in the fields before it.
    ///
    /// # Errors
    ///
    /// As [`find_key`](Section::find_key).
    pub fn find_index(
        &self,
        array: &Field,
        index: usize,
        budget: &mut Budget,
    ) -> Result<usize, MmdbError> {
        let mut next = array.start;
        for _ in 0..index {
            next = self.skip(next, budget)?;
        }
        Ok(next)
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
