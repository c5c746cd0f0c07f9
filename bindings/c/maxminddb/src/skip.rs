//! Finding a key or an element by stepping over the values before it, with the original's limit.
//!
//! Not for pointers to values (`value.rs`) nor for reading what is stepped over. The original
//! refuses to step over values nested [`MAX_DEPTH`] deep. `whered_mmdb` steps faster and counts
//! values, not depth: among [`MAX_DEPTH`] values none can be nested too deep. So its answer counts
//! unless it took more values or found a fault; then the way is walked again as the original does.
//!
//! Invariants: no pointer is followed, so that a way costs at most the size of the section, and
//! recursion is bounded by [`MAX_DEPTH`].

use crate::status::Failure;
use whered_mmdb::MAX_DEPTH;
use whered_mmdb::fields::{Budget, Field, Kind, Section, Token};

/// Where the value of a map's key begins.
#[inline]
pub(crate) fn find_key(
    section: &Section<'_>,
    map: &Field,
    wanted: &[u8],
) -> Result<usize, Failure> {
    let mut budget = Budget::endless();
    match section.find_key(map, wanted, &mut budget) {
        Ok(found) if budget.values_taken() <= MAX_DEPTH => {
            found.ok_or(Failure::LookupPathDoesNotMatchData)
        }
        _ => find_key_with_depth(section, map, wanted),
    }
}

/// Where an array's element begins; `index` is below its size.
pub(crate) fn find_index(
    section: &Section<'_>,
    array: &Field,
    index: usize,
) -> Result<usize, Failure> {
    let mut budget = Budget::endless();
    match section.find_index(array, index, &mut budget) {
        Ok(found) if budget.values_taken() <= MAX_DEPTH => Ok(found),
        _ => {
            let mut next = array.start;
            for _ in 0..index {
                next = step_over(section, next, 0)?;
            }
            Ok(next)
        }
    }
}

#[inline(never)]
fn find_key_with_depth(
    section: &Section<'_>,
    map: &Field,
    wanted: &[u8],
) -> Result<usize, Failure> {
    let mut next = map.start;
    for _ in 0..map.size {
        let (key, after_pointer) = section.resolve(next)?;
        if key.kind != Kind::String {
            return Err(Failure::InvalidData);
        }
        let value = after_pointer.unwrap_or(key.end());
        if section.payload(&key)? == wanted {
            return Ok(value);
        }
        next = step_over(section, value, 0)?;
    }
    Err(Failure::LookupPathDoesNotMatchData)
}

/// Where the field behind the value at `at` begins.
fn step_over(section: &Section<'_>, at: usize, depth: usize) -> Result<usize, Failure> {
    let token = section.token(at)?;
    if depth >= MAX_DEPTH {
        return Err(Failure::DecoderLimit);
    }
    let field = match token {
        Token::Pointer { next, .. } => return Ok(next),
        Token::Field(field) => field,
    };
    if matches!(field.kind, Kind::Container | Kind::End) {
        return Err(Failure::InvalidData);
    }
    let mut next = field.end();
    for _ in 0..field.nested_fields() {
        next = step_over(section, next, depth + 1)?;
    }
    Ok(next)
}
