//! Names of interfaces, kept once each and numbered.
//!
//! For: records that can be copied without counting references. Not for: what an interface of
//! pcapng is like (its reader knows), nor names in rules.
//!
//! Invariants: numbers are given in order of first appearance and never change; no name twice;
//! at most [`INTERFACE_COUNT_MAX`] names of at most [`INTERFACE_NAME_SIZE_MAX`] bytes, so that a
//! hostile table cannot fill the memory. Cost: one hash of the name.

use std::collections::HashMap;

/// The number of names that one capture may have.
pub const INTERFACE_COUNT_MAX: usize = 65_536;
/// The longest name in bytes.
pub const INTERFACE_NAME_SIZE_MAX: usize = 255;

/// The number of an interface name within one capture, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Interface(u32);

impl Interface {
    /// The index into the names, for tables beside them.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Default)]
pub(crate) struct Interfaces {
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
}

impl Interfaces {
    /// The number of this name, which is made if it is new. The error is what is allowed.
    pub(crate) fn intern(&mut self, name: &[u8]) -> Result<Interface, &'static str> {
        if name.len() > INTERFACE_NAME_SIZE_MAX {
            return Err("an interface name of at most 255 bytes");
        }
        let name = String::from_utf8_lossy(name);
        if let Some(&number) = self.numbers.get(&*name) {
            return Ok(Interface(number));
        }
        if self.names.len() >= INTERFACE_COUNT_MAX {
            return Err("at most 65,536 interface names");
        }
        let number = u32::try_from(self.names.len()).expect("their count has just been limited");
        self.names.push(Box::from(&*name));
        self.numbers.insert(Box::from(&*name), number);
        Ok(Interface(number))
    }

    pub(crate) fn name(&self, interface: Interface) -> Option<&str> {
        self.names.get(interface.index()).map(|name| &**name)
    }
}
