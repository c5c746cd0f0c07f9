//! All networks of a reader with their records, in address order.
//!
//! Not for single addresses. A step reads a node of the tree; the stack has at most one entry for
//! each address bit.

use super::opened::{self, OpenDatabase};
use super::reader::MaxMindReader;
use crate::error::InvalidDatabaseError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use whered_mmdb::RecordId;

/// How many nodes are visited for each node of the file: without a bound a small file could
/// describe 2^128 networks.
const VISITS_PER_NODE: u64 = 64;

/// The zero bytes between tree and data section, counted by records of the tree.
const SEPARATOR_BYTES: u32 = 16;

/// The iterator of a reader: the bits of a network's address, its length in bits, whether it is an
/// IPv4 network, and its record. `Reader.__iter__` makes objects of `ipaddress` of these.
///
/// No code of Python runs in a step: a thread that Python ends while it waits for the lock in there
/// would unwind through this one, and abort the process.
#[pyclass(module = "whered._whered")]
pub(crate) struct MaxMindNetworks {
    /// None once the collector of cycles has cleared it.
    reader: Option<Py<MaxMindReader>>,
    open: Vec<Branch>,
    visits_left: u64,
}

/// A number of the tree that was not looked at yet, and the bits that lead to it.
#[derive(Clone, Copy)]
struct Branch {
    number: u32,
    /// From the highest of the 128 on.
    bits: u128,
    depth: u8,
}

impl MaxMindNetworks {
    pub(super) fn new(reader: Bound<'_, MaxMindReader>) -> PyResult<MaxMindNetworks> {
        let visits_left = match reader.get().opened().as_deref() {
            Some(Some(opened)) => u64::from(opened.node_count) * VISITS_PER_NODE,
            _ => return Err(closed()),
        };
        let open = vec![Branch { number: 0, bits: 0, depth: 0 }];
        Ok(MaxMindNetworks { reader: Some(reader.unbind()), open, visits_left })
    }

    /// The next branch that ends in a record.
    fn next_record(&mut self, opened: &OpenDatabase) -> PyResult<Option<(Branch, RecordId)>> {
        opened.check()?;
        let (ipv4_root, ipv4_depth) = opened.ipv4_start;
        let address_bits = if opened.is_ipv6 { 128 } else { 32 };
        while let Some(branch) = self.open.pop() {
            let Branch { number, bits, depth } = branch;
            if let Some(beyond) = number.checked_sub(opened.node_count) {
                match beyond.checked_sub(SEPARATOR_BYTES) {
                    Some(offset) => return Ok(Some((branch, RecordId::from_u32(offset)))),
                    None if beyond == 0 => continue,
                    None => return Err(corrupt(&format!("a record of number {number}"))),
                }
            }
            // The IPv4 networks are listed below ::/96 alone, not where aliases lead to them.
            if opened.is_ipv6 && (number, ipv4_depth) == (ipv4_root, 96) && (bits, depth) != (0, 96)
            {
                continue;
            }
            if depth == address_bits {
                return Err(corrupt("a branch that goes on after the address's last bit"));
            }
            let left = self.visits_left.checked_sub(1);
            self.visits_left = left.ok_or_else(|| corrupt("nodes reached in too many ways"))?;
            for right in [true, false] {
                let child = opened.tree.try_record_number(number, right);
                let number = child.map_err(|error| opened::of_tree(&error))?;
                let bits = if right { bits | 1 << (127 - depth) } else { bits };
                self.open.push(Branch { number, bits, depth: depth + 1 });
            }
        }
        Ok(None)
    }
}

#[pymethods]
impl MaxMindNetworks {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[expect(clippy::type_complexity, reason = "it is what a step yields, and used once")]
    fn __next__<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<Option<(u128, u8, bool, Bound<'py, PyAny>)>> {
        let Some(reader) = self.reader.as_ref().map(|reader| reader.clone_ref(py)) else {
            return Ok(None);
        };
        let state = reader.get().opened();
        let Some(Some(opened)) = state.as_deref() else { return Err(closed()) };
        let found = self.next_record(opened);
        if found.is_err() {
            self.open.clear();
        }
        let Some((branch, id)) = found? else { return Ok(None) };
        let (bits, length_bits, is_ipv4) = network(branch, opened.is_ipv6);
        Ok(Some((bits, length_bits, is_ipv4, opened.record(py, id)?)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.reader.as_ref().map_or(Ok(()), |reader| visit.call(reader))
    }

    fn __clear__(&mut self) {
        self.reader = None;
    }
}

/// Below `::/96` of an IPv6 tree stand IPv4 networks.
fn network(branch: Branch, is_ipv6: bool) -> (u128, u8, bool) {
    let Branch { bits, depth, .. } = branch;
    if !is_ipv6 {
        (bits >> 96, depth, true)
    } else if depth >= 96 && bits >> 32 == 0 {
        (bits, depth - 96, true)
    } else {
        (bits, depth, false)
    }
}

#[cold]
fn closed() -> PyErr {
    PyValueError::new_err("Attempt to iterate over a closed MaxMind DB.")
}

#[cold]
fn corrupt(found: &str) -> PyErr {
    InvalidDatabaseError::new_err(format!("The MaxMind DB file's search tree is corrupt: {found}"))
}
