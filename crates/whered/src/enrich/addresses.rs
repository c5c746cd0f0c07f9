//! The addresses of a batch of records, sorted by family, and the keys of their database records.
//!
//! Not for reading addresses out of records. A *slot* is the number of a record in its batch.
//!
//! ```text
//! addresses4   192.0.2.1  198.51.100.7      slots4   0  2
//! addresses6   2001:db8::1                  slots6   1
//! keys         one list a finder, one key a slot; no record where there is no address
//! ```

use std::net::IpAddr;

use whered_mmdb::Found;

use super::find::{DatabaseSnapshot, NO_RECORD};
use super::split::Fault;

/// The addresses of a batch; the vectors are used again for the next one.
#[derive(Default)]
pub(crate) struct Addresses {
    addresses4: Vec<u32>,
    slots4: Vec<usize>,
    addresses6: Vec<u128>,
    slots6: Vec<usize>,
    found: Vec<Found>,
    found_keys: Vec<u32>,
}

impl Addresses {
    pub(crate) fn clear(&mut self) {
        self.addresses4.clear();
        self.slots4.clear();
        self.addresses6.clear();
        self.slots6.clear();
    }

    /// Adds an IPv4 address by its bits.
    #[inline]
    pub(crate) fn push4(&mut self, slot: usize, address: u32) {
        self.addresses4.push(address);
        self.slots4.push(slot);
    }

    /// Adds an address of either family.
    pub(crate) fn push(&mut self, slot: usize, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.push4(slot, address.to_bits()),
            IpAddr::V6(address) => {
                self.addresses6.push(address.to_bits());
                self.slots6.push(slot);
            }
        }
    }

    /// Calls `note` with each slot whose address is of a family that no database covers.
    pub(crate) fn each_uncovered(&self, covered: [bool; 2], mut note: impl FnMut(usize, Fault)) {
        let families = [
            (&self.slots4, Fault::UncoveredIpv4, covered[0]),
            (&self.slots6, Fault::UncoveredIpv6, covered[1]),
        ];
        for (slots, fault, _) in families.into_iter().filter(|(_, _, is_covered)| !is_covered) {
            slots.iter().for_each(|&slot| note(slot, fault));
        }
    }

    /// Finds the records of all addresses by each finder; `count` is how many slots there are.
    ///
    /// # Errors
    /// A fault of a database, with its file.
    pub(crate) fn find(
        &mut self,
        views: &[DatabaseSnapshot<'_>],
        count: usize,
        keys: &mut Vec<Vec<u32>>,
    ) -> Result<(), String> {
        keys.resize(views.len(), Vec::new());
        let (found, found_keys) = (&mut self.found, &mut self.found_keys);
        for (view, keys) in views.iter().zip(keys) {
            keys.clear();
            keys.resize(count, NO_RECORD);
            view.find4(&self.addresses4, found, found_keys)?;
            scatter(&self.slots4, found_keys, keys);
            view.find6(&self.addresses6, found, found_keys)?;
            scatter(&self.slots6, found_keys, keys);
        }
        Ok(())
    }
}

fn scatter(slots: &[usize], found: &[u32], keys: &mut [u32]) {
    for (&slot, &key) in slots.iter().zip(found) {
        if let Some(known) = keys.get_mut(slot) {
            *known = key;
        }
    }
}
