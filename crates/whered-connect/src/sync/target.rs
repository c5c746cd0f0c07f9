//! Which set of the kernel is meant: `nft:inet/filter/blocked`, `ipset:blocked:ipv6`.
//!
//! Not for: looking at it.

use std::str::FromStr;

use super::{Family, Ipset, NftSet, Sink};

const ALLOWED: &str = "nft:FAMILY/TABLE/SET or ipset:NAME, with :ipv6 behind it for IPv6 addresses";

/// The families of nf_tables' tables, and their numbers.
const TABLE_FAMILIES: [(&str, u8); 6] =
    [("inet", 1), ("ip", 2), ("arp", 3), ("netdev", 5), ("bridge", 7), ("ip6", 10)];

/// The longest name of an ipset.
const IPSET_NAME_MAX: usize = 31;
const NFT_NAME_MAX: usize = 255;

/// A set of the kernel by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    pub(super) place: Place,
    /// The family that a new set gets; one that is there has its own.
    pub(super) family: Family,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Nft { family: &'static str, number: u8, table: String, set: String },
    Ipset { name: String },
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let wrong = || format!("allowed: {ALLOWED}");
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (name, said) = match rest.rsplit_once(':') {
            Some((name, "ipv4")) => (name, Some(Family::Ipv4)),
            Some((name, "ipv6")) => (name, Some(Family::Ipv6)),
            _ => (rest, None),
        };
        let place = match kind {
            "nft" => nft(name).ok_or_else(wrong)?,
            "ipset" if is_name(name, IPSET_NAME_MAX) => Place::Ipset { name: name.to_owned() },
            "ipset" => return Err(format!("allowed: a name of 1 to {IPSET_NAME_MAX} letters")),
            _ => return Err(wrong()),
        };
        let is_six = matches!(place, Place::Nft { family: "ip6", .. });
        let own = if is_six { Family::Ipv6 } else { Family::Ipv4 };
        Ok(Target { place, family: said.unwrap_or(own) })
    }
}

fn nft(text: &str) -> Option<Place> {
    let mut words = text.split('/');
    let (family, table, set) = (words.next()?, words.next()?, words.next()?);
    let (family, number) = *TABLE_FAMILIES.iter().find(|(name, _)| *name == family)?;
    let is_good = words.next().is_none() && [table, set].iter().all(|it| is_name(it, NFT_NAME_MAX));
    let [table, set] = [table, set].map(str::to_owned);
    is_good.then_some(Place::Nft { family, number, table, set })
}

/// Names are written into texts that other programs read.
fn is_name(text: &str, longest: usize) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !text.is_empty()
        && text.len() <= longest
        && text.bytes().all(is_letter)
        && !text.starts_with('-')
}

impl Target {
    /// The set, which nobody has looked at yet. With `create` it is made if it is not there.
    #[must_use]
    pub fn sink(&self, create: bool) -> Box<dyn Sink> {
        match &self.place {
            Place::Nft { family, number, table, set } => {
                Box::new(NftSet::new(family, *number, table, set, self.family, create))
            }
            Place::Ipset { name } => Box::new(Ipset::new(name, self.family, create)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_wrong_ones_say_what_is_allowed() {
        let read = |text: &str| text.parse::<Target>().map(|target| target.family);
        assert_eq!(read("nft:inet/filter/blocked"), Ok(Family::Ipv4));
        assert_eq!(read("nft:ip6/filter/blocked"), Ok(Family::Ipv6));
        assert_eq!(read("nft:inet/filter/blocked:ipv6"), Ok(Family::Ipv6));
        assert_eq!(read("ipset:blocked"), Ok(Family::Ipv4));
        assert_eq!(read("ipset:blocked:ipv6"), Ok(Family::Ipv6));
        for wrong in [
            "",
            "nft",
            "nft:",
            "nft:filter/blocked",
            "nft:inet/a/b/c",
            "nft:inet//b",
            "nft:x/a/b",
            "ipset:",
            "ipset:a b",
            "ipset:-x",
            "pf:table",
            "nft:inet/a/b;c",
            "ipset:12345678901234567890123456789012",
        ] {
            let error = read(wrong).expect_err(wrong);
            assert!(error.starts_with("allowed: "), "{error}");
        }
    }
}
