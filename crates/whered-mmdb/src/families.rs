//! The two address families of a database: which of them it has networks of, the answer for an
//! address as users mean it, and two files by family that become one.
//!
//! Not for the walk itself ([`Database::lookup`]), which knows neither Teredo nor what is missing.
//!
//! **Teredo.** libGeoIP looks an address in `2001::/32` up under its client's IPv4 address (the
//! last 32 bits, inverted) in every V6 edition, and so do [`Database::teredo_client`] and
//! [`Database::answer`]. A search tree cannot say so: the client's address is behind 64 bits that
//! do not count. A `.mmdb` file that was made of such a file has the edition's name as its type,
//! and is asked in the same way.
#![deny(clippy::indexing_slicing)]

use crate::database::{Database, Format, Lookup};
use crate::error::{ErrorKind, MmdbError};
use crate::legacy::LegacyEdition;
use crate::tree::{RecordId, TreeNode};
use crate::writer::{StoredValue, Writer, WriterOptions};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use whered_ip::Prefix;

/// The first 32 bits of Teredo addresses (RFC 4380).
const TEREDO: u128 = 0x2001_0000;
/// The bits in front of the IPv4 address in mapped addresses (RFC 4291).
const MAPPED: u128 = 0xffff;
/// The first 16 bits of 6to4 addresses (RFC 3056).
const SIX_TO_FOUR: u128 = 0x2002;

impl Database {
    /// The record of an address as users mean it: [`lookup`](Database::lookup), but Teredo
    /// addresses are looked up by their client where the database is a legacy V6 edition, and "no
    /// record" is an error where the database has no network of the address's family at all.
    ///
    /// Cost: that of a lookup where a record is found; else some hundred nodes more.
    ///
    /// # Errors
    ///
    /// As [`lookup`](Database::lookup); [`ErrorKind::AddressFamily`] for an address of a family
    /// that the database does not cover.
    pub fn answer(&self, address: IpAddr) -> Result<Lookup, MmdbError> {
        if let Some(client) = self.teredo_client(address) {
            let found = self.lookup(IpAddr::V4(client))?;
            // The server's address and the flags are part of the network around this address.
            let length_bits = 96 + found.prefix.length_bits().min(32);
            let prefix = Prefix::new(address, length_bits).unwrap_or(found.prefix);
            return Ok(Lookup { prefix, record: found.record });
        }
        let found = self.lookup(address)?;
        if found.record.is_none() && !self.covers(address.is_ipv4())? {
            return Err(self.uncovered(address));
        }
        Ok(found)
    }

    /// Whether `2002::/16` (6to4) leads to the IPv4 networks, and whether `2001::/32` (Teredo)
    /// does. A database without IPv4 networks, which lead nowhere, counts by what it has there
    /// itself.
    ///
    /// # Errors
    ///
    /// A fault of the tree on the way.
    pub fn ipv4_aliases(&self) -> Result<[bool; 2], MmdbError> {
        let mut leads = [false; 2];
        if !self.tree.is_ipv6() {
            return Ok(leads);
        }
        let ipv4 = self.node_at(0, 96)?;
        let ranges = [(SIX_TO_FOUR << 112, 16), (TEREDO << 96, 32)];
        for (is_alias, (bits, length_bits)) in leads.iter_mut().zip(ranges) {
            let node = self.node_at(bits, length_bits)?;
            *is_alias = match ipv4 {
                TreeNode::Node(_) => node == ipv4,
                TreeNode::Empty => node == TreeNode::Empty && length_bits == 16,
                // One record of all IPv4 addresses; then its range of mapped addresses has it, too.
                TreeNode::Record(_) => node == ipv4 && self.node_at(MAPPED << 32, 96)? == ipv4,
            };
        }
        Ok(leads)
    }

    /// Whether a network is a range that leads to the IPv4 networks and shows the one record that
    /// all of these have. [`networks`](Database::networks) skips such a range where it leads to
    /// several networks.
    ///
    /// # Errors
    ///
    /// A fault of the tree on the way.
    pub fn is_alias_of_record(&self, prefix: Prefix, id: RecordId) -> Result<bool, MmdbError> {
        let IpAddr::V6(address) = prefix.address() else { return Ok(false) };
        let place = (address.to_bits(), prefix.length_bits());
        let ranges = [(MAPPED << 32, 96), (SIX_TO_FOUR << 112, 16), (TEREDO << 96, 32)];
        if !ranges.contains(&place) || self.node_at(0, 96)? != TreeNode::Record(id) {
            return Ok(false);
        }
        let [six_to_four, teredo] = self.ipv4_aliases()?;
        Ok(six_to_four && (teredo || place.1 != 32))
    }

    /// What the tree has at these first bits.
    fn node_at(&self, bits: u128, length_bits: u8) -> Result<TreeNode, MmdbError> {
        let mut node = TreeNode::Node(0);
        for position in 0..length_bits {
            node = self.child(node, bits >> (127 - position) & 1 == 1)?;
        }
        Ok(node)
    }

    /// Whether any network of a family has a record. What an IPv6 tree shows of IPv4 a second time
    /// does not count as IPv6.
    ///
    /// Cost: some hundred nodes where there is such a network.
    ///
    /// # Errors
    ///
    /// A fault of the tree on the way.
    pub fn covers(&self, is_ipv4: bool) -> Result<bool, MmdbError> {
        for part in self.parts(is_ipv4) {
            for item in self.networks_within(part, None)? {
                let (network, _) = item?;
                if is_ipv4 || !shows_ipv4(network) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The error for an address of a family that the database does not cover.
    #[must_use]
    pub fn uncovered(&self, address: IpAddr) -> MmdbError {
        let (here, other) = if address.is_ipv4() { ("IPv4", "IPv6") } else { ("IPv6", "IPv4") };
        MmdbError::new(
            ErrorKind::AddressFamily,
            format!("the {here} address {address}"),
            format!("{other} addresses: the database has no {here} networks"),
        )
    }

    /// Whether Teredo addresses are looked up by their client's IPv4 address.
    #[must_use]
    pub fn has_teredo_clients(&self) -> bool {
        let is_legacy6 = match self.format() {
            Format::Legacy(edition) => edition.is_ipv6(),
            Format::Mmdb => LegacyEdition::is_ipv6_name(&self.metadata().database_type),
        };
        is_legacy6 && self.metadata().ip_version == 6
    }

    /// The IPv4 address that a Teredo address is looked up by; `None` for every other address, and
    /// where the database has no such rule.
    #[must_use]
    pub fn teredo_client(&self, address: IpAddr) -> Option<Ipv4Addr> {
        let IpAddr::V6(address) = address else { return None };
        let bits = address.to_bits();
        (bits >> 96 == TEREDO && self.has_teredo_clients())
            .then(|| Ipv4Addr::from_bits(!(bits as u32)))
    }

    /// The prefixes that a family's addresses are in.
    fn parts(&self, is_ipv4: bool) -> Vec<Prefix> {
        let prefix = |address: IpAddr, length_bits| {
            Prefix::new(address, length_bits).expect("a length within the family's bits")
        };
        match (is_ipv4, self.metadata().ip_version) {
            (true, _) => vec![prefix(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)],
            (false, 4) => Vec::new(),
            // Everything but ::/96, the widest part first.
            (false, _) => (1..=96_u8)
                .map(|length| prefix(IpAddr::V6(Ipv6Addr::from_bits(1 << (128 - length))), length))
                .collect(),
        }
    }

    /// Whether `2002::/16` leads to the IPv4 networks.
    fn has_aliases(&self) -> Result<bool, MmdbError> {
        let Some(subtree) = self.tree.ipv4_subtree() else { return Ok(false) };
        let mut node = TreeNode::Node(0);
        for position in (0..16).rev() {
            node = self.child(node, SIX_TO_FOUR >> position & 1 == 1)?;
        }
        Ok(node == TreeNode::Node(subtree))
    }

    /// One database out of two: the IPv4 networks of the first and the IPv6 networks of the
    /// second, with their records and borders. The bytes are those of a `.mmdb` file.
    ///
    /// Cost: linear in both.
    ///
    /// ```
    /// use whered_mmdb::{Database, Value, Writer, WriterOptions};
    /// let file = |ip_version, network: &str| {
    ///     let options = WriterOptions { ip_version, ..WriterOptions::default() };
    ///     let mut writer = Writer::new(options)?;
    ///     writer.insert(network.parse().expect("a network"), Value::Uint32(1))?;
    ///     Database::from_bytes(writer.finish()?)
    /// };
    /// let (four, six) = (file(4, "192.0.2.0/24")?, file(6, "2001:db8::/32")?);
    /// let both = Database::from_bytes(Database::join(&four, &six)?)?;
    /// assert!(both.covers(true)? && both.covers(false)?);
    /// # Ok::<(), whered_mmdb::MmdbError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A fault of a tree or record; what a [`Writer`] refuses.
    pub fn join(ipv4: &Database, ipv6: &Database) -> Result<Vec<u8>, MmdbError> {
        let (four, six) = (ipv4.metadata(), ipv6.metadata());
        let named = if ipv6.has_teredo_clients() { six } else { four };
        let mut languages = four.languages.clone();
        languages.extend(six.languages.iter().filter(|one| !four.languages.contains(one)).cloned());
        let built = [four.build_epoch_seconds, six.build_epoch_seconds];
        let mut writer = Writer::new(WriterOptions {
            database_type: named.database_type.clone(),
            description: named.description.clone(),
            languages,
            ip_version: 6,
            record_size_bits: None,
            // As old as the older one.
            build_epoch_seconds: built.into_iter().filter(|time| *time > 0).min().unwrap_or(0),
        })?;
        writer.set_merging(false);
        writer.set_ipv4_aliases(ipv6.has_aliases()?);
        ipv4.copy_family(true, &mut writer)?;
        ipv6.copy_family(false, &mut writer)?;
        writer.finish()
    }

    /// Gives a writer all networks of a family.
    fn copy_family(&self, is_ipv4: bool, writer: &mut Writer) -> Result<(), MmdbError> {
        let mut stored: HashMap<RecordId, StoredValue> = HashMap::new();
        for part in self.parts(is_ipv4) {
            for item in self.networks_within(part, None)? {
                let (network, record) = item?;
                let value = match stored.get(&record) {
                    Some(value) => *value,
                    None => {
                        let value = writer.store(&self.record(record)?)?;
                        stored.insert(record, value);
                        value
                    }
                };
                // A network that is wider than the part holds addresses of the other family.
                let is_inside = network.address().is_ipv4() == is_ipv4
                    && network.length_bits() >= part.length_bits();
                writer.insert_stored(if is_inside { network } else { part }, value)?;
            }
        }
        Ok(())
    }
}

/// Whether an IPv6 network is inside a range that stands for IPv4 addresses.
fn shows_ipv4(network: Prefix) -> bool {
    let IpAddr::V6(address) = network.address() else { return true };
    let bits = address.to_bits();
    bits >> 32 == 0xffff && network.length_bits() >= 96
        || bits >> 112 == SIX_TO_FOUR && network.length_bits() >= 16
        || bits >> 96 == TEREDO && network.length_bits() >= 32
}

/// Which of several files answers for each family, IPv4 first: the first that has this family
/// alone, else the first that has it. `None`: no file has it.
///
/// # Errors
///
/// The number of a file that would answer for no family.
pub fn by_family(covered: &[[bool; 2]]) -> Result<[Option<usize>; 2], usize> {
    let of_family = |family: usize| {
        let has = |file: &[bool; 2]| file.get(family) == Some(&true);
        let alone = covered.iter().position(|file| has(file) && file.contains(&false));
        alone.or_else(|| covered.iter().position(has))
    };
    let chosen = [of_family(0), of_family(1)];
    match (0..covered.len()).find(|file| !chosen.contains(&Some(*file))) {
        Some(unused) if covered.len() > 1 => Err(unused),
        _ => Ok(chosen),
    }
}

#[cfg(test)]
#[path = "families_tests.rs"]
mod tests;
