//! A prefix: the block of addresses that share their first bits.
//!
//! For: holding, comparing, reading and writing prefixes of both families.
//! Not for: finding the prefix that holds an address among many (see `CompiledSet`).
//!
//! In memory, 18 bytes without padding:
//!
//! ```text
//! | family 1 | address, 4 or 16 octets in network order, room for 16 | length 1 |
//! ```
//!
//! Invariants: the length is at most 32 (IPv4) or 128 (IPv6); the bits of the address past the
//! length are zero. Two prefixes are therefore the same block exactly when they are equal, and
//! the derived order is IPv4 first, then by first address, then shorter before longer.
//!
//! Concurrency: a plain `Copy` value. Cost: constant for everything; reading allocates only for
//! an error, writing never.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A block of IPv4 or IPv6 addresses: an address and the number of leading bits that count.
///
/// The bits past the length are always zero. An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) makes
/// an IPv6 prefix; [`to_canonical`](Prefix::to_canonical) makes it an IPv4 one. The notation is
/// that of RFC 4632 section 3.1 and RFC 4291 section 2.3.
///
/// The order is IPv4 before IPv6, then by first address, then shorter before longer.
///
/// # Examples
///
/// ```
/// use whered_ip::Prefix;
///
/// let office: Prefix = "192.0.2.77/24".parse()?;
/// assert_eq!(office.to_string(), "192.0.2.0/24");
/// assert!(office.contains("192.0.2.200".parse().expect("a fixed address")));
/// # Ok::<(), whered_ip::PrefixError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Prefix {
    address: IpAddr,
    length_bits: u8,
}

impl Prefix {
    /// Makes the prefix of `length_bits` bits that holds `address`; host bits are masked away,
    /// as ipset does.
    ///
    /// # Errors
    ///
    /// When the length is more than 32 (IPv4) or 128 (IPv6).
    pub fn new(address: IpAddr, length_bits: u8) -> Result<Prefix, PrefixError> {
        if length_bits > family_bits(&address) {
            return Err(PrefixError::new(
                PrefixErrorKind::LengthTooLong { longest: family_bits(&address) },
                None,
                &length_bits.to_string(),
            ));
        }
        Ok(Prefix { address: masked(address, length_bits), length_bits })
    }

    /// The prefix that holds `address` alone: /32 or /128.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix { address, length_bits: family_bits(&address) }
    }

    /// The first address of the block.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// A prefix inside `::ffff:0:0/96` as the IPv4 prefix that it stands for; any other as it is.
    ///
    /// ```
    /// use whered_ip::Prefix;
    /// let mapped: Prefix = "::ffff:192.0.2.0/120".parse()?;
    /// assert_eq!(mapped.to_canonical().to_string(), "192.0.2.0/24");
    /// # Ok::<(), whered_ip::PrefixError>(())
    /// ```
    #[must_use]
    pub fn to_canonical(self) -> Prefix {
        match (self.address.to_canonical(), self.length_bits.checked_sub(96)) {
            (address @ IpAddr::V4(_), Some(length_bits)) if !self.is_ipv4() => {
                Prefix { address, length_bits }
            }
            _ => self,
        }
    }

    /// How many leading bits count: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub fn length_bits(&self) -> u8 {
        self.length_bits
    }

    /// Whether this is a block of IPv4 addresses.
    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether `address` lies in the block; never across families.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        let shared_bits = match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
        };
        shared_bits >= u32::from(self.length_bits)
    }

    /// Whether every address of `other` lies in the block; a prefix covers itself.
    pub fn covers(&self, other: &Prefix) -> bool {
        self.length_bits <= other.length_bits && self.contains(other.address)
    }
}

impl fmt::Display for Prefix {
    /// Writes the address and always the length: `10.0.0.0/8`, `192.0.2.1/32`. Reading the text
    /// back gives the same prefix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length_bits)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// Reads `10.0.0.0/8`, `2001:db8::/32`, or a bare address for the prefix that holds it alone.
    ///
    /// Strict: four decimal octets for IPv4, RFC 4291 section 2.2 for IPv6; no spaces, no signs,
    /// no zone names, no leading zeros in octets or in the length. Host bits may be set and are
    /// masked away.
    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (address_text, length_text) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address_text
            .parse()
            .map_err(|_| PrefixError::new(PrefixErrorKind::Address, Some(0), address_text))?;
        let Some(length_text) = length_text else {
            return Ok(Prefix::host(address));
        };
        let longest = family_bits(&address);
        let offset = Some(address_text.len() + 1);
        let length = parse_length(length_text).ok_or_else(|| {
            PrefixError::new(PrefixErrorKind::Length { longest }, offset, length_text)
        })?;
        match u8::try_from(length) {
            Ok(length_bits) if length_bits <= longest => {
                Ok(Prefix { address: masked(address, length_bits), length_bits })
            }
            _ => {
                let kind = PrefixErrorKind::LengthTooLong { longest };
                Err(PrefixError::new(kind, offset, length_text))
            }
        }
    }
}

impl From<IpAddr> for Prefix {
    /// The prefix that holds the address alone.
    fn from(address: IpAddr) -> Prefix {
        Prefix::host(address)
    }
}

/// One to three digits without a leading zero, as a number; anything else is no length.
fn parse_length(text: &str) -> Option<u16> {
    let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = text.len() > 1 && text.starts_with('0');
    if !digits_only || leading_zero || text.len() > 3 {
        return None;
    }
    text.parse().ok()
}

/// How many bits an address of this family has.
fn family_bits(address: &IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The address with the bits past `length_bits` set to zero.
fn masked(address: IpAddr, length_bits: u8) -> IpAddr {
    // A shift by the whole width (length 0) is what checked_shl refuses; its mask is zero.
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length_bits)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length_bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

/// Why a text or a length is no prefix; one line when displayed.
///
/// # Examples
///
/// ```
/// use whered_ip::Prefix;
///
/// let error = "10.0.0.0/33".parse::<Prefix>().expect_err("IPv4 has 32 bits");
/// assert_eq!(error.offset(), Some(9));
/// assert_eq!(
///     error.to_string(),
///     "at byte 9: prefix length \"33\" is too long: allowed is 0 to 32 for IPv4"
/// );
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrefixError(Box<ErrorParts>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct ErrorParts {
    kind: PrefixErrorKind,
    offset: Option<usize>,
    found: String,
}

/// The fault of a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrefixErrorKind {
    /// The part before the slash is no IPv4 or IPv6 address.
    Address,
    /// The part after the slash is no plain decimal number of one to three digits.
    Length {
        /// The longest length that this family allows, in bits.
        longest: u8,
    },
    /// The length has more bits than the address.
    LengthTooLong {
        /// The longest length that this family allows, in bits.
        longest: u8,
    },
}

impl PrefixError {
    /// How much of a wrong text an error repeats, so that hostile input stays small.
    const FOUND_CHARS: usize = 48;

    fn new(kind: PrefixErrorKind, offset: Option<usize>, found: &str) -> PrefixError {
        let mut kept: String = found.chars().take(Self::FOUND_CHARS).collect();
        if kept.len() < found.len() {
            kept.push('…');
        }
        PrefixError(Box::new(ErrorParts { kind, offset, found: kept }))
    }

    /// The kind of fault.
    pub fn kind(&self) -> PrefixErrorKind {
        self.0.kind
    }

    /// Where the wrong part starts in the text, in bytes; `None` when there was no text.
    pub fn offset(&self) -> Option<usize> {
        self.0.offset
    }

    /// The wrong part as it was found, cut after 48 characters.
    pub fn found(&self) -> &str {
        &self.0.found
    }
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(offset) = self.0.offset {
            write!(f, "at byte {offset}: ")?;
        }
        let found = &self.0.found;
        let (complaint, longest) = match self.0.kind {
            PrefixErrorKind::Address => {
                return write!(
                    f,
                    "{found:?} is no address: allowed is IPv4 (192.0.2.1) or IPv6 (2001:db8::1), \
                     alone or with /length"
                );
            }
            PrefixErrorKind::Length { longest } => ("is no number", longest),
            PrefixErrorKind::LengthTooLong { longest } => ("is too long", longest),
        };
        let family = if longest == 32 { "IPv4" } else { "IPv6" };
        write!(f, "prefix length {found:?} {complaint}: allowed is 0 to {longest} for {family}")
    }
}

impl std::error::Error for PrefixError {}
