//! A block of addresses as somebody gave it: a prefix, or a range from one address to another.
//!
//! For: the entries of prefix sets. Not for: routing, where every block is a [`Prefix`].
//!
//! ```text
//! 10.0.0.0/8                 a prefix
//! 10.0.0.5-10.0.0.9          a range; one that is exactly a prefix becomes that prefix
//! ```
//!
//! Invariants: both ends have one family, the first is not above the last. Equal blocks hold equal
//! addresses and the other way round. The order is IPv4 first, then by first address, then the
//! larger block first: that of [`Prefix`] where both are prefixes.
//!
//! Concurrency: a plain `Copy` value. Cost: constant; reading allocates only for an error.

use std::cmp::{Ordering, Reverse};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::{Prefix, PrefixError, text};

/// A prefix, or an arbitrary range of addresses.
///
/// # Examples
///
/// ```
/// use whered_ip::Block;
///
/// let range: Block = "192.0.2.5-192.0.2.9".parse()?;
/// assert!(range.contains("192.0.2.9".parse()?));
/// assert_eq!(range.as_prefix(), None);
/// // A range that is a prefix is that prefix.
/// let net: Block = "192.0.2.0-192.0.2.255".parse()?;
/// assert_eq!(net.to_string(), "192.0.2.0/24");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Block {
    first: IpAddr,
    last: IpAddr,
}

/// Why a text or a pair of addresses is no block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockError {
    /// No prefix, and no range either.
    Prefix(PrefixError),
    /// The ends belong to different families, or the first is above the last.
    Ends {
        /// The end that was given first.
        first: IpAddr,
        /// The end that was given last.
        last: IpAddr,
    },
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockError::Prefix(error) => write!(f, "{error}"),
            BlockError::Ends { first, last } if first.is_ipv4() != last.is_ipv4() => {
                write!(f, "a range goes from {first} to {last}: allowed is one family")
            }
            BlockError::Ends { first, last } => {
                write!(f, "a range goes from {first} to {last}: allowed is upwards")
            }
        }
    }
}

impl std::error::Error for BlockError {}

impl From<PrefixError> for BlockError {
    fn from(error: PrefixError) -> BlockError {
        BlockError::Prefix(error)
    }
}

impl Block {
    /// The block from one address to another, both inside.
    ///
    /// # Errors
    ///
    /// When the families differ or the first is above the last.
    pub fn from_ends(first: IpAddr, last: IpAddr) -> Result<Block, BlockError> {
        if first.is_ipv4() == last.is_ipv4() && first <= last {
            Ok(Block { first, last })
        } else {
            Err(BlockError::Ends { first, last })
        }
    }

    pub(crate) fn v4(first: u32, last: u32) -> Block {
        debug_assert!(first <= last);
        let [first, last] = [first, last].map(|end| IpAddr::V4(Ipv4Addr::from_bits(end)));
        Block { first, last }
    }

    pub(crate) fn v6(first: u128, last: u128) -> Block {
        debug_assert!(first <= last);
        let [first, last] = [first, last].map(|end| IpAddr::V6(Ipv6Addr::from_bits(end)));
        Block { first, last }
    }

    /// A block inside `::ffff:0:0/96` as the IPv4 block that it stands for; any other as it is.
    ///
    /// ```
    /// use whered_ip::Block;
    /// let mapped: Block = "::ffff:192.0.2.5-::ffff:192.0.2.9".parse()?;
    /// assert_eq!(mapped.to_canonical().to_string(), "192.0.2.5-192.0.2.9");
    /// # Ok::<(), whered_ip::BlockError>(())
    /// ```
    #[must_use]
    pub fn to_canonical(self) -> Block {
        match (self.first.to_canonical(), self.last.to_canonical()) {
            (first @ IpAddr::V4(_), last @ IpAddr::V4(_)) => Block { first, last },
            _ => self,
        }
    }

    /// The lowest address.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The highest address.
    #[must_use]
    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// Whether these are IPv4 addresses.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// Whether the address lies in the block; never across families.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.first <= address && address <= self.last
    }

    /// Whether every address of `other` lies in the block; a block covers itself.
    #[must_use]
    pub fn covers(&self, other: &Block) -> bool {
        self.contains(other.first) && self.contains(other.last)
    }

    /// How many addresses there are, less one.
    #[must_use]
    pub fn size_less_one(&self) -> u128 {
        match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => u128::from(last.to_bits() - first.to_bits()),
            (IpAddr::V6(first), IpAddr::V6(last)) => last.to_bits() - first.to_bits(),
            // A block has one family.
            _ => 0,
        }
    }

    /// The prefix that this block is, if it is one.
    #[must_use]
    pub fn as_prefix(&self) -> Option<Prefix> {
        let size_less_one = self.size_less_one();
        let host_bits = (u128::BITS - size_less_one.leading_zeros()) as u8;
        let longest = if self.is_ipv4() { 32 } else { 128 };
        let is_power = size_less_one & size_less_one.wrapping_add(1) == 0;
        let prefix = Prefix::new(self.first, longest - host_bits).ok()?;
        (is_power && prefix.address() == self.first).then_some(prefix)
    }

    /// The fewest prefixes that together are this block, in order: at most 62 (IPv4) or 254.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + use<> {
        let (longest, mut first, last) = match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                (32, u128::from(first.to_bits()), u128::from(last.to_bits()))
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => (128_u8, first.to_bits(), last.to_bits()),
            // A block has one family.
            _ => (0, 1, 0),
        };
        let mut is_done = first > last;
        std::iter::from_fn(move || {
            if is_done {
                return None;
            }
            // The largest block that begins here and ends not behind the last address.
            let aligned = first.trailing_zeros().min(u32::from(longest));
            let left = last - first;
            let fitting = if left == u128::MAX { 128 } else { (left + 1).ilog2() };
            let host_bits = aligned.min(fitting) as u8;
            let address = if longest == 32 {
                IpAddr::V4(Ipv4Addr::from_bits(first as u32))
            } else {
                IpAddr::V6(Ipv6Addr::from_bits(first))
            };
            let size = 1_u128.checked_shl(u32::from(host_bits));
            match size.and_then(|size| first.checked_add(size)) {
                Some(next) if next <= last => first = next,
                _ => is_done = true,
            }
            Prefix::new(address, longest - host_bits).ok()
        })
    }
}

impl From<Prefix> for Block {
    fn from(prefix: Prefix) -> Block {
        let length_bits = u32::from(prefix.length_bits());
        match prefix.address() {
            IpAddr::V4(first) => {
                let first = first.to_bits();
                Block::v4(first, first | u32::MAX.checked_shr(length_bits).unwrap_or(0))
            }
            IpAddr::V6(first) => {
                let first = first.to_bits();
                Block::v6(first, first | u128::MAX.checked_shr(length_bits).unwrap_or(0))
            }
        }
    }
}

impl From<&Prefix> for Block {
    fn from(prefix: &Prefix) -> Block {
        Block::from(*prefix)
    }
}

impl From<&Block> for Block {
    fn from(block: &Block) -> Block {
        *block
    }
}

impl From<IpAddr> for Block {
    fn from(address: IpAddr) -> Block {
        Block { first: address, last: address }
    }
}

impl Ord for Block {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.first, Reverse(self.last)).cmp(&(other.first, Reverse(other.last)))
    }
}

impl PartialOrd for Block {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Block {
    /// A prefix with its length, `10.0.0.0/8`, or a range, `10.0.0.5-10.0.0.9`. Reading the text
    /// back gives the same block.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_prefix() {
            Some(prefix) => write!(f, "{prefix}"),
            None => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl FromStr for Block {
    type Err = BlockError;

    /// Reads a prefix as [`Prefix`] does, or two addresses with a hyphen between them.
    fn from_str(text: &str) -> Result<Block, BlockError> {
        if let Some((first, last)) = text.split_once('-')
            && let Some(first) = text::parse(first.as_bytes())
            && let Some(last) = text::parse(last.as_bytes())
        {
            return Block::from_ends(first, last);
        }
        Ok(text.parse::<Prefix>()?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Block {
        text.parse().expect("a fixed text")
    }

    #[test]
    fn texts_come_back() {
        for text in [
            "10.0.0.0/8",
            "0.0.0.0/0",
            "::/0",
            "10.0.0.5-10.0.0.9",
            "::1-::5",
            "::1/128",
            "::-8000::",
        ] {
            assert_eq!(block(text).to_string(), text);
        }
        assert_eq!(block("10.0.0.0-10.255.255.255").to_string(), "10.0.0.0/8");
        assert_eq!(block("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff").to_string(), "::/0");
    }

    #[test]
    fn wrong_texts_say_what_is_wrong() {
        let error = |text: &str| text.parse::<Block>().unwrap_err().to_string();
        assert_eq!(
            error("10.0.0.9-10.0.0.5"),
            "a range goes from 10.0.0.9 to 10.0.0.5: allowed is upwards"
        );
        assert_eq!(
            error("10.0.0.9-::1"),
            "a range goes from 10.0.0.9 to ::1: allowed is one family"
        );
        assert!(error("10.0.0.9-").contains("is no address"));
    }

    #[test]
    fn prefixes_of_a_range_are_the_range() {
        for text in [
            "10.0.0.5-10.0.3.9",
            "0.0.0.1-255.255.255.254",
            "0.0.0.0/0",
            "::/0",
            "::1-::ffff:5",
            "255.255.255.255/32",
            "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe",
        ] {
            let block = block(text);
            let prefixes: Vec<Prefix> = block.prefixes().collect();
            assert!(prefixes.len() <= 254);
            assert_eq!(prefixes.first().map(Prefix::address), Some(block.first()));
            assert_eq!(Block::from(*prefixes.last().unwrap()).last(), block.last());
            let sizes = prefixes.iter().map(|p| Block::from(*p).size_less_one());
            let total = sizes.fold(prefixes.len() as u128 - 1, u128::wrapping_add);
            assert_eq!(total, block.size_less_one(), "{text}");
            for pair in prefixes.windows(2) {
                assert!(pair[0] < pair[1]);
            }
        }
    }
}
