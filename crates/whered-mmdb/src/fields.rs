//! The fields of a data section one by one, with their offsets.
//!
//! For callers that must hand out places in the file, as the C interface does. Not for reading
//! records: [`crate::Database`] does that with fewer questions. All checks of a single field are
//! made here too; what needs the whole record (depth, number of values) is the caller's part, for
//! which [`Budget`] counts.

pub use crate::decode::{Field, Kind, Scalar, Section, Token};
pub use crate::walk::Budget;
