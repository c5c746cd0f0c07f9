//! Rows as PostgreSQL's COPY takes them in its binary format.
//!
//! ```text
//! "PGCOPY\n\377\r\n\0" flags u32 extension u32 | row ... | -1 i16
//! row  = cells i16 | cell ...
//! cell = length i32, or -1 for NULL | bytes
//! ```
//!
//! All numbers are big-endian; a time is microseconds since 2000. Not for: any other format.

use super::Cell;
use super::plan::{StorageType, TablePlan};

pub(crate) const BEGIN: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
pub(crate) const END: &[u8] = &(-1_i16).to_be_bytes();

/// From 1970 to 2000.
const MILLIS_TO_2000: i64 = 946_684_800_000;

pub(crate) fn encode(plan: &TablePlan, cells: &[Cell<'_>], into: &mut Vec<u8>) {
    // A table has at most 1,600 columns, which prepare() would have failed to make.
    into.extend_from_slice(&i16::try_from(cells.len()).unwrap_or(i16::MAX).to_be_bytes());
    for (column, cell) in plan.columns.iter().zip(cells) {
        match (cell, &column.stored) {
            (Cell::Absent, _) => into.extend_from_slice(&(-1_i32).to_be_bytes()),
            // NULL on either side's word: the other server has nothing else for it.
            (Cell::Number(value), _) if !value.is_finite() => {
                into.extend_from_slice(&(-1_i32).to_be_bytes());
            }
            (Cell::Number(value), _) => field(&value.to_be_bytes(), into),
            (Cell::Time(millis), StorageType::Calendar { .. }) => {
                // The plan's bounds keep this from overflowing.
                field(&((millis - MILLIS_TO_2000).saturating_mul(1_000)).to_be_bytes(), into);
            }
            (Cell::Integer(value) | Cell::Time(value), _) => field(&value.to_be_bytes(), into),
            (Cell::Text(text), _) => field(text, into),
        }
    }
}

fn field(bytes: &[u8], into: &mut Vec<u8>) {
    // Longer texts were left out before: the plan allows less than a gigabyte.
    into.extend_from_slice(&i32::try_from(bytes.len()).unwrap_or(i32::MAX).to_be_bytes());
    into.extend_from_slice(bytes);
}
