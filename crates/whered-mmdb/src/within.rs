//! The networks inside one prefix, from any address on.
//!
//! Not for all networks ([`crate::Database::networks`]), nor for single addresses. The walk goes
//! down to the first network wanted and leaves on the stack what comes after it:
//!
//! ```text
//!            root                   prefix: from ●; first address: the marked way
//!            / \                     stack: what lies right of the way and below ●
//!           ●   (outside)
//!          / \
//!       (before) ├─ right siblings ──> later
//! ```
//!
//! Cost: one node for each bit of the way, then as [`Networks`].
#![deny(clippy::indexing_slicing)]

use crate::database::Database;
use crate::error::{ErrorKind, MmdbError};
use crate::networks::{Networks, Place};
use crate::tree::TreeNode;
use std::net::IpAddr;
use whered_ip::Prefix;

impl Database {
    /// The networks inside `prefix` that have a record, in address order, beginning with the one
    /// around `first` (`None`: with the first). A network that is wider than the prefix and has a
    /// record for it is given as the only one.
    ///
    /// As in [`networks`](Database::networks), aliases inside the prefix are skipped; a prefix
    /// inside an alias is walked as it is. An error ends the iterator.
    ///
    /// # Errors
    ///
    /// A prefix or first address that the database or the prefix does not hold; a fault of the
    /// tree on the way.
    ///
    /// ```
    /// use whered_mmdb::{Database, Value, Writer, WriterOptions};
    /// let mut writer = Writer::new(WriterOptions::default())?;
    /// for network in ["192.0.2.0/25", "192.0.2.128/25", "198.51.100.0/24"] {
    ///     writer.insert(network.parse()?, Value::String(network.to_string()))?;
    /// }
    /// let database = Database::from_bytes(writer.finish()?)?;
    /// let within = database.networks_within("192.0.2.0/23".parse()?, None)?;
    /// let networks: Vec<_> = within.map(|item| item.map(|(prefix, _)| prefix)).collect();
    /// assert_eq!(networks, [Ok("192.0.2.0/25".parse()?), Ok("192.0.2.128/25".parse()?)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn networks_within(
        &self,
        prefix: Prefix,
        first: Option<IpAddr>,
    ) -> Result<Networks<'_>, MmdbError> {
        let tree = &self.tree;
        let (start, length) = self.place(prefix.address(), prefix.length_bits())?;
        let first_address = first.unwrap_or(prefix.address());
        let (first, _) = self.place(first_address, 0)?;
        // A shift by all 128 bits is that of an empty prefix, which holds every address.
        if (first ^ start).checked_shr(u32::from(128 - length)).unwrap_or(0) != 0 {
            return Err(outside(prefix, first_address));
        }
        let mut open = Vec::with_capacity(129);
        let mut place = Place::ROOT;
        while let TreeNode::Node(node) = place.node {
            if place.depth > length && place.is_alias(tree) {
                place.node = TreeNode::Empty;
                break;
            }
            let rest = first.checked_shl(u32::from(place.depth)).unwrap_or(0);
            if place.depth >= length && rest == 0 {
                break;
            }
            if place.depth == tree.address_bits() {
                return Err(tree.too_deep(node));
            }
            let bit = rest >> 127 == 1;
            if place.depth >= length && !bit {
                open.push(place.below(tree.child(&self.bytes, node, true)?, true));
            }
            place = place.below(tree.child(&self.bytes, node, bit)?, bit);
        }
        let mut networks = Networks::of(tree, &self.bytes, open);
        match place.node {
            // The prefix's own node may be an alias that was asked for by name.
            TreeNode::Node(node) => networks.descend(&place, node)?,
            TreeNode::Record(_) | TreeNode::Empty => networks.push(place),
        }
        Ok(networks)
    }

    /// Where an address and a length stand in this tree: the bits from the highest on, and how
    /// many of them count.
    fn place(&self, address: IpAddr, length: u8) -> Result<(u128, u8), MmdbError> {
        match (address, self.tree.is_ipv6()) {
            (IpAddr::V4(v4), false) => Ok((u128::from(v4.to_bits()) << 96, length)),
            (IpAddr::V4(v4), true) => Ok((u128::from(v4.to_bits()), length + 96)),
            (IpAddr::V6(v6), true) => Ok((v6.to_bits(), length)),
            (IpAddr::V6(v6), false) => Err(MmdbError::new(
                ErrorKind::AddressFamily,
                format!("the IPv6 address {v6}"),
                "IPv4 prefixes: the database is of IP version 4",
            )),
        }
    }
}

fn outside(prefix: Prefix, first: IpAddr) -> MmdbError {
    let found = format!("the first address {first}");
    MmdbError::new(ErrorKind::AddressFamily, found, format!("addresses inside {prefix}"))
}
