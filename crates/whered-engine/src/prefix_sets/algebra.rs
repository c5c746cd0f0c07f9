//! Sets made from other sets: union, intersection, difference, complement, summary.
//!
//! For: one set that takes the place of another, as of one moment of its sources. Not for: sets
//! that follow their sources, nor the computation itself (`whered_ip::AddressRanges`).
//!
//! A union keeps members as they are, with values and expiries; of equal blocks the later source's
//! counts. All others compute with addresses: their results are the fewest ranges, a summary's the
//! fewest prefixes, without values and expiries.
//!
//! Cost: linear in the members; the sources are held as versions, so that nobody waits.

use std::sync::Arc;

use whered_ip::{AddressRanges, Block, LayeredSet, MemberList};

use super::PrefixSets;
use crate::clock;
use crate::error::WriteError;
use crate::journal::log::Written;

/// What a set is to be made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetOperation {
    /// The members of all sources.
    Union,
    /// The addresses that all sources have.
    Intersection,
    /// The addresses that the first source has and the others lack.
    Difference,
    /// The addresses that the sources lack, in the families that they have members of; those of
    /// both when they are empty.
    Complement,
    /// The fewest prefixes with the addresses of all sources.
    Summary,
}

impl PrefixSets {
    /// Makes a set of other sets, in the place of what it was; gives how many members it has. It
    /// may be one of its own sources.
    ///
    /// # Errors
    /// As [`PrefixSets::load`], and `NoSuch` when a source does not exist.
    pub fn store(
        &self,
        set: &str,
        operation: SetOperation,
        sources: &[&str],
    ) -> Result<Written<usize>, WriteError> {
        let now_millis = clock::now_millis();
        let versions = sources.iter().map(|name| self.existing(name).map(|found| found.version()));
        let versions: Vec<Arc<LayeredSet>> = versions.collect::<Result<_, _>>()?;
        let mut members = MemberList::new();
        if operation == SetOperation::Union {
            for found in versions.iter().flat_map(|version| version.iter(now_millis)) {
                members.push(found.block, found.value, found.expires_at_millis);
            }
            return self.load(set, members, true);
        }
        let mut addresses = versions.iter().map(|version| version.addresses(now_millis));
        let first = addresses.next().unwrap_or_default();
        let union = |a: AddressRanges, b: AddressRanges| a.union(&b);
        let result = match operation {
            SetOperation::Intersection => addresses.fold(first, |a, b| a.intersection(&b)),
            SetOperation::Difference => addresses.fold(first, |a, b| a.difference(&b)),
            SetOperation::Complement => of_its_families(&addresses.fold(first, union)),
            SetOperation::Summary | SetOperation::Union => addresses.fold(first, union),
        };
        if operation == SetOperation::Summary {
            result.prefixes().for_each(|prefix| members.push(prefix.into(), None, None));
        } else {
            result.blocks().for_each(|block| members.push(block, None, None));
        }
        self.load(set, members, true)
    }
}

/// The complement among the families that there are addresses of, or among both.
fn of_its_families(addresses: &AddressRanges) -> AddressRanges {
    let has = |is_ipv4| addresses.blocks().any(|block| block.is_ipv4() == is_ipv4);
    let (ipv4, ipv6) = (has(true), has(false));
    let is_asked = |block: &Block| ipv4 == ipv6 || block.is_ipv4() == ipv4;
    addresses.complement().blocks().filter(is_asked).collect()
}
