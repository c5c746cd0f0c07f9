//! Rulesets like those of access lists, firewalls and IP chains, and packets for them.
//!
//! For: [`generate`], after the proportions published for ClassBench (Taylor and Turner, 2007), and
//! [`read_classbench`] for files that its own generator made. Not for: rule formats that people
//! write.
//!
//! ```text
//! shape, seed ─► pools of source and destination prefixes ─► rules, without repetitions
//!                networks, and smaller ones within them
//! ```
//!
//! Each shape says how often an address is wild, how long prefixes are, how many distinct ones
//! there are for a number of rules, and how protocols and ports are drawn: wild, one of the common
//! numbers, the upper range 1,024-65,535, or an arbitrary range. What came out is counted by
//! [`Proportions`].

pub mod bench;
mod lower;
mod proportions;
mod shapes;

pub use lower::{lower, packets};
pub use proportions::Proportions;
pub use shapes::{Shape, generate};

/// One rule over the five fields. Earlier ones win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FiveTuple {
    /// Source network.
    pub source: u32,
    /// Its length.
    pub source_length: u8,
    /// Destination network.
    pub destination: u32,
    /// Its length.
    pub destination_length: u8,
    /// Source ports, both ends included.
    pub source_ports: (u16, u16),
    /// Destination ports, both ends included.
    pub destination_ports: (u16, u16),
    /// The protocol, or any.
    pub protocol: Option<u8>,
}

/// The addresses of a prefix, both ends included.
#[must_use]
pub fn addresses(network: u32, length: u8) -> (u32, u32) {
    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    (network & mask, network | !mask)
}

/// Reads the rules of a ClassBench file; its last column (flags) is not among the five fields, and
/// rules that differ in it only are kept once.
///
/// # Errors
///
/// The number of the line that is not a rule.
pub fn read_classbench(text: &str) -> Result<Vec<FiveTuple>, usize> {
    let mut seen = std::collections::HashSet::new();
    let mut rules = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let rule = classbench_rule(line).ok_or(number + 1)?;
        if seen.insert(rule) {
            rules.push(rule);
        }
    }
    Ok(rules)
}

/// One line of such a file.
fn classbench_rule(line: &str) -> Option<FiveTuple> {
    let mut parts = line.strip_prefix('@')?.split('\t').map(str::trim);
    let mut prefix = || {
        let (address, length) = parts.next()?.split_once('/')?;
        let address: std::net::Ipv4Addr = address.parse().ok()?;
        let length: u8 = length.parse().ok().filter(|length| *length <= 32)?;
        Some((addresses(u32::from(address), length).0, length))
    };
    let (source, source_length) = prefix()?;
    let (destination, destination_length) = prefix()?;
    let mut ports = || {
        let (low, high) = parts.next()?.split_once(':')?;
        Some((low.trim().parse().ok()?, high.trim().parse().ok()?))
    };
    let source_ports = ports()?;
    let destination_ports = ports()?;
    let (value, mask) = parts.next()?.split_once('/')?;
    let value = u8::from_str_radix(value.strip_prefix("0x")?, 16).ok()?;
    Some(FiveTuple {
        source,
        source_length,
        destination,
        destination_length,
        source_ports,
        destination_ports,
        protocol: (mask == "0xFF").then_some(value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_format_are_read_and_others_are_named() {
        let text = "@1.2.3.4/32\t10.0.0.0/8\t0 : 65535\t80 : 90\t0x06/0xFF\t0x0000/0x0200\t\n\
                    @1.2.3.4/32\t10.0.0.0/8\t0 : 65535\t80 : 90\t0x06/0xFF\t0x0000/0x0000\t\n";
        let rules = read_classbench(text).expect("two rules");
        assert_eq!(rules.len(), 1, "they differ in flags only");
        assert_eq!((rules[0].destination_length, rules[0].protocol), (8, Some(6)));
        assert_eq!(rules[0].destination_ports, (80, 90));
        assert_eq!(read_classbench("@1.2.3.4/33\t"), Err(1));
    }

    #[test]
    fn shapes_keep_their_promises() {
        for shape in [Shape::Acl, Shape::Fw, Shape::Ipc] {
            let rules = generate(shape, 4096, 1);
            assert_eq!(rules.len(), 4096);
            assert_eq!(rules, generate(shape, 4096, 1), "a seed gives the same rules");
            let found = Proportions::of(&rules);
            let wild = found.wild_share();
            match shape {
                Shape::Acl => assert!(wild < 0.05, "{wild}"),
                Shape::Fw => assert!((0.4..0.7).contains(&wild), "{wild}"),
                Shape::Ipc => assert!((0.05..0.3).contains(&wild), "{wild}"),
            }
        }
    }
}
