//! The wire form of the types that answers look into: where their names are, and a check.
//!
//! Not for: reading data from text (`data.rs`, `plain.rs`).

use crate::code::RecordType;
use crate::name::wire_name_length;

/// The names in the data of a type: bytes in front, how many names, bytes behind. None for types
/// that have none or that nobody here looks into.
pub(crate) fn name_layout(record_type: RecordType) -> Option<(usize, usize, usize)> {
    match record_type.0 {
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, DNAME
        2..=5 | 7..=9 | 12 | 39 => Some((0, 1, 0)),
        6 => Some((0, 2, 20)),
        14 => Some((0, 2, 0)),
        15 => Some((2, 1, 0)),
        33 => Some((6, 1, 0)),
        _ => None,
    }
}

/// Checks that data have the form that answers and resolvers rely on; `\#` can write anything.
///
/// # Errors
///
/// Says what is allowed.
pub(crate) fn check(record_type: RecordType, data: &[u8]) -> Result<(), &'static str> {
    let fits = match record_type {
        RecordType::A => data.len() == 4,
        RecordType::AAAA => data.len() == 16,
        RecordType::TXT => {
            let mut rest = data;
            while let [length, tail @ ..] = rest
                && let Some(next) = tail.get(usize::from(*length)..)
            {
                rest = next;
            }
            rest.is_empty() && !data.is_empty()
        }
        _ => name_layout(record_type).is_none_or(|(front, names, behind)| {
            let mut rest = data.get(front..);
            for _ in 0..names {
                rest = rest.and_then(|rest| rest.get(wire_name_length(rest)?..));
            }
            rest.is_some_and(|rest| rest.len() == behind)
        }),
    };
    if fits { Ok(()) } else { Err("data of this type's form (RFC 1035, 3.3 and 3.4)") }
}
