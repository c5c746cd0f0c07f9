//! Zones and questions made from a seed.
//!
//! For: our own measurements and those of rivals: a zone is a plain master file.
//! Not for: sending anything (`driver.rs`).
//!
//! ```text
//! hosts        hxxxxxxxxx.<origin>  A                     question: the name itself
//! delegations  dxxxxx.<origin>      NS NS, elsewhere      question: www.dxxxxx.<origin>
//! missing      hxxxxxxxxx.<origin>  -                     question: the name itself
//! blocklist    ddd.ddd.ddd.ddd.<origin>                   an address of the list, or of no list
//! places       host, near, area .<origin>                 with a client's network of 24 bits (ECS)
//!
//! Queries: [ query 0 | query 1 | ... ]    one size for all, the id is the index's low 16 bits
//! ```
//!
//! Invariants: every question of a set has the same length, so that one system call can send many
//! (`UDP_SEGMENT`); no two are equal: where a zone has fewer names than there are questions, they
//! differ in the case of their letters, as resolvers ask (0x20), or in the client's network.

use std::collections::HashSet;
use std::fmt::Write;

use crate::Random;

/// Which zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// 1,000 names: 900 hosts and 100 delegations.
    Small,
    /// As a top-level domain: 1 million names, half of them delegations; 1.5 million records.
    Large,
    /// A prefix set of 500,000 addresses as a DNSBL zone.
    Blocklist,
    /// Pools over a city database (`geo.rs`).
    Geo,
    /// [`Shape::Small`], signed with ECDSA P-256, asked with DO.
    SignedSmall,
    /// [`Shape::Large`], signed likewise.
    SignedLarge,
    /// [`Shape::Geo`], signed likewise, each server with a key of its own.
    SignedGeo,
}

impl Shape {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Shape::Small => "1,000 names",
            Shape::Large => "1 M names",
            Shape::Blocklist => "500 k listed",
            Shape::Geo => "by place",
            Shape::SignedSmall => "1,000 names, signed",
            Shape::SignedLarge => "1 M names, signed",
            Shape::SignedGeo => "by place, signed",
        }
    }

    /// The zone without signatures.
    #[must_use]
    pub fn unsigned(self) -> Shape {
        match self {
            Shape::SignedSmall => Shape::Small,
            Shape::SignedLarge => Shape::Large,
            Shape::SignedGeo => Shape::Geo,
            other => other,
        }
    }

    /// The zone with signatures; only those of [`Shape::is_signed`] have any.
    #[must_use]
    pub fn signed(self) -> Shape {
        match self {
            Shape::Small => Shape::SignedSmall,
            Shape::Large => Shape::SignedLarge,
            Shape::Geo => Shape::SignedGeo,
            other => other,
        }
    }

    /// Whether it has signatures, and is asked with DO.
    #[must_use]
    pub fn is_signed(self) -> bool {
        self != self.unsigned()
    }

    /// The zone's name.
    #[must_use]
    pub fn origin(self) -> &'static str {
        match self.unsigned() {
            Shape::Small => "small.test",
            Shape::Large => "large.test",
            Shape::Blocklist => "list.test",
            _ => "geo.test",
        }
    }

    fn hosts(self) -> u64 {
        match self.unsigned() {
            Shape::Small => 900,
            Shape::Large | Shape::Blocklist => 500_000,
            _ => 0,
        }
    }

    fn delegations(self) -> u64 {
        match self.unsigned() {
            Shape::Small => 100,
            Shape::Large => 500_000,
            _ => 0,
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Hosts.
    Hit,
    /// Names that are not there.
    Missing,
    /// Names below a delegation, which blocklists do not have.
    Referral,
    /// Half hosts, a quarter of each of the others.
    Mixed,
    /// The nearest site.
    Nearest,
    /// The site of the country or continent.
    Area,
}

impl Mix {
    /// Those of zones, in the order of the tables.
    pub const ALL: [Mix; 4] = [Mix::Hit, Mix::Missing, Mix::Referral, Mix::Mixed];

    /// Those of [`Shape::Geo`].
    pub const GEO: [Mix; 3] = [Mix::Hit, Mix::Nearest, Mix::Area];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mix::Hit => "hit",
            Mix::Missing => "NXDOMAIN",
            Mix::Referral => "referral",
            Mix::Mixed => "mix",
            Mix::Nearest => "nearest",
            Mix::Area => "country or continent",
        }
    }
}

/// What a right answer looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// NOERROR with an answer.
    Hit,
    /// NXDOMAIN.
    Missing,
    /// NOERROR with name servers in the authority section.
    Referral,
}

/// The master file of a zone.
#[must_use]
pub fn zone_text(shape: Shape) -> String {
    let origin = shape.origin();
    let records = shape.hosts() + 2 * shape.delegations();
    let mut text = String::with_capacity(records as usize * 48);
    text.push_str("$TTL 3600\n");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "$ORIGIN {origin}.");
    text.push_str("@ SOA ns1 hostmaster 1 7200 900 1209600 900\n@ NS ns1\n@ NS ns2\n");
    text.push_str("ns1 A 192.0.2.1\nns2 A 192.0.2.2\n");
    if shape.unsigned() == Shape::Geo {
        text.push_str("host A 192.0.2.3\n");
    }
    if matches!(shape.unsigned(), Shape::Blocklist | Shape::Geo) {
        return text;
    }
    for number in 0..shape.hosts() {
        let [_, second, third, fourth] = (number as u32).to_be_bytes();
        let _ = writeln!(text, "{} A 10.{second}.{third}.{fourth}", label('h', 10, number));
    }
    for number in 0..shape.delegations() {
        let name = label('d', 6, number);
        let provider = number * 7919 % 10_000;
        let _ = writeln!(text, "{name} NS ns1.p{provider:04}.example.");
        let _ = writeln!(text, "{name} NS ns2.p{provider:04}.example.");
    }
    text
}

/// The members of the blocklist, a line each.
pub(super) fn list_text() -> String {
    let mut text = String::new();
    for number in 0..Shape::Blocklist.hosts() {
        let [first, second, third, fourth] = octets(number);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{first}.{second}.{third}.{fourth}");
    }
    text
}

/// An address of three digits in each part, another one for each number below [`ADDRESSES`].
fn octets(number: u64) -> [u64; 4] {
    // A number that is prime to how many there are scatters neighbours and keeps all apart.
    let mut rest = (number * 14_776_337 + 11) % ADDRESSES;
    let mut digit = |base| {
        let digit = 100 + rest % base;
        rest /= base;
        digit
    };
    [digit(124), digit(156), digit(156), digit(156)]
}

/// From 100.100.100.100 to 223.255.255.255, with 100 and more in each part.
const ADDRESSES: u64 = 124 * 156 * 156 * 156;

/// A label of a fixed length that looks like nothing in particular; another one for each number
/// below 36 to the power of 5.
fn label(kind: char, length: usize, number: u64) -> String {
    const DIGITS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    // A number that is prime to 36 scatters neighbours and keeps all apart.
    let space = 36_u64.pow(5);
    let mut rest = (number * 14_776_337 + 11) % space;
    let mut text = String::from(kind);
    for place in 1..length {
        if place == 6 {
            rest = (number * 31 + 7) % space;
        }
        text.push(char::from(DIGITS[(rest % 36) as usize]));
        rest /= 36;
    }
    text
}

/// Of OPT without options.
const OPT_SIZE: usize = 11;

/// The flag DO (RFC 3225) in the first byte of EDNS's flags.
const DNSSEC_OK: u8 = 0x80;

/// Prepared questions.
#[derive(Debug, Clone)]
pub struct Queries {
    bytes: Vec<u8>,
    size_bytes: usize,
    /// Of OPT at the end of each.
    opt_size: usize,
    /// The first byte of EDNS's flags.
    flags: u8,
    expected: Vec<Expected>,
}

impl Queries {
    /// Makes distinct questions of a mix.
    #[must_use]
    pub fn new(shape: Shape, mix: Mix, count: usize, seed: u64) -> Queries {
        if shape.unsigned() == Shape::Geo {
            return Queries::with_subnets(shape, mix, count, seed);
        }
        let mut random = Random::new(seed);
        let mut queries = Queries::none(shape);
        let mut seen = HashSet::with_capacity(count);
        while queries.len() < count {
            let expected = match (mix, random.below(4)) {
                (Mix::Hit, _) | (Mix::Mixed, 0 | 1) => Expected::Hit,
                (Mix::Missing, _) | (Mix::Mixed, 2) => Expected::Missing,
                (Mix::Mixed, _) if shape == Shape::Blocklist => Expected::Missing,
                _ => Expected::Referral,
            };
            let name = match expected {
                _ if shape == Shape::Blocklist => {
                    let listed = shape.hosts();
                    let [first, second, third, fourth] = octets(match expected {
                        Expected::Hit => random.below(listed),
                        _ => listed + random.below(ADDRESSES - listed),
                    });
                    format!("{fourth}.{third}.{second}.{first}")
                }
                Expected::Hit => label('h', 10, random.below(shape.hosts())),
                // As the names that are there: with a letter that no other name begins with, a
                // server with a tree would see at its root that nothing is below.
                Expected::Missing => label('h', 10, shape.hosts() + random.below(1 << 25)),
                Expected::Referral => {
                    format!("www.{}", label('d', 6, random.below(shape.delegations())))
                }
            };
            let mut name = format!("{name}.{}", shape.origin()).into_bytes();
            let cases = random.next_u64();
            for (place, letter) in name.iter_mut().enumerate() {
                if cases >> (place % 64) & 1 == 1 {
                    *letter = letter.to_ascii_uppercase();
                }
            }
            if seen.insert(name.clone()) {
                queries.push(&name, expected, &[]);
            }
        }
        queries
    }

    /// One name, each time with another client's network.
    fn with_subnets(shape: Shape, mix: Mix, count: usize, seed: u64) -> Queries {
        let mut random = Random::new(seed);
        let mut queries = Queries::none(shape);
        let mut seen = HashSet::with_capacity(count);
        let label = match mix {
            Mix::Nearest => "near",
            Mix::Area => "area",
            _ => "host",
        };
        let name = format!("{label}.{}", Shape::Geo.origin());
        while queries.len() < count {
            // A network of 24 bits below 224.0.0.0.
            let network = random.below(224 << 16) as u32;
            if seen.insert(network) {
                let [_, a, b, c] = network.to_be_bytes();
                queries.push(name.as_bytes(), Expected::Hit, &[0, 8, 0, 7, 0, 1, 24, 0, a, b, c]);
            }
        }
        queries
    }

    fn none(shape: Shape) -> Queries {
        let flags = if shape.is_signed() { DNSSEC_OK } else { 0 };
        Queries { bytes: Vec::new(), size_bytes: 0, opt_size: 0, flags, expected: Vec::new() }
    }

    fn push(&mut self, name: &[u8], expected: Expected, options: &[u8]) {
        let (start, id) = (self.bytes.len(), self.expected.len() as u16);
        self.bytes.extend(id.to_be_bytes());
        // No recursion desired; one question and OPT.
        self.bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
        for label in name.split(|byte| *byte == b'.') {
            self.bytes.push(label.len() as u8);
            self.bytes.extend(label);
        }
        self.bytes.extend([0, 0, 1, 0, 1]);
        // OPT: root, type 41, 1232 bytes, flags.
        self.bytes.extend([0, 0, 41, 4, 208, 0, 0, self.flags, 0, 0, options.len() as u8]);
        self.bytes.extend(options);
        self.opt_size = OPT_SIZE + options.len();
        self.size_bytes = self.bytes.len() - start;
        self.expected.push(expected);
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.expected.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.expected.is_empty()
    }

    /// Whether each has another client's network.
    #[must_use]
    pub fn has_subnets(&self) -> bool {
        self.opt_size > OPT_SIZE
    }

    /// The size of each.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// One question.
    ///
    /// # Panics
    ///
    /// When there is no such question.
    #[must_use]
    pub fn get(&self, index: usize) -> &[u8] {
        self.run(index, 1)
    }

    /// Several that follow one another.
    ///
    /// # Panics
    ///
    /// When there are fewer.
    #[must_use]
    pub fn run(&self, first: usize, count: usize) -> &[u8] {
        &self.bytes[first * self.size_bytes..(first + count) * self.size_bytes]
    }

    /// Whether the bytes are a right answer to a question. A `mirror` sends the question itself
    /// back, with anything behind it.
    #[must_use]
    pub fn is_answer(&self, index: usize, reply: &[u8], is_mirror: bool) -> bool {
        const HEADER: usize = 12;
        let query = self.get(index);
        let question = &query[HEADER..query.len() - self.opt_size];
        let end = HEADER + question.len();
        if reply.len() < end || reply[..2] != query[..2] || reply[HEADER..end] != *question {
            return false;
        }
        if is_mirror {
            return true;
        }
        let count = |at: usize| u16::from_be_bytes([reply[at], reply[at + 1]]);
        let (flags, answers, authorities) = (count(2), count(6), count(8));
        let (is_reply, truncated, rcode) = (flags & 0x8000 != 0, flags & 0x200 != 0, flags & 15);
        let fits = match self.expected[index] {
            Expected::Hit => rcode == 0 && answers > 0,
            Expected::Missing => rcode == 3 && answers == 0 && authorities > 0,
            Expected::Referral => rcode == 0 && answers == 0 && authorities > 0,
        };
        is_reply && !truncated && fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_distinct_and_of_one_length() {
        for (kind, length) in [('h', 10), ('d', 6)] {
            let labels: HashSet<_> =
                (0..500_000).map(|number| label(kind, length, number)).collect();
            assert_eq!(labels.len(), 500_000);
            assert!(labels.iter().all(|label| label.len() == length));
        }
    }

    #[test]
    fn addresses_are_distinct_and_of_one_length() {
        let listed: HashSet<_> = list_text().lines().map(str::to_owned).collect();
        assert_eq!(listed.len(), 500_000);
        let queries = Queries::new(Shape::Blocklist, Mix::Mixed, 5000, 7);
        for index in 0..queries.len() {
            // Header, four labels of three digits, each behind its length.
            let question = &queries.get(index)[12..28];
            let labels = question.chunks(4).rev().map(|label| str::from_utf8(&label[1..]).unwrap());
            let address = labels.collect::<Vec<_>>().join(".");
            assert_eq!(listed.contains(&address), queries.expected[index] == Expected::Hit);
        }
    }

    #[test]
    fn networks_of_clients_are_distinct() {
        let queries = Queries::new(Shape::Geo, Mix::Nearest, 5000, 7);
        let message = |index| whered_dns::message::Message::read(queries.get(index)).unwrap();
        let subnets: HashSet<_> = (0..queries.len())
            .map(|index| {
                let subnet = message(index).client_subnet().unwrap();
                assert_eq!((subnet.family, subnet.source_length_bits), (1, 24));
                subnet.address
            })
            .collect();
        assert_eq!(subnets.len(), 5000);
        assert_eq!(message(0).questions[0].name.to_string().to_lowercase(), "near.geo.test.");
        assert!(queries.has_subnets() && queries.is_answer(9, queries.get(9), true));
    }

    #[test]
    fn the_library_gives_the_answers_that_are_expected() {
        use whered_dns::{Choice, Context, Transport, Zone, Zones, answer};
        let shape = Shape::Small;
        let origin = shape.origin().parse().unwrap();
        let text = zone_text(shape);
        let mut include = |_: &str| Err("no".into());
        let zone = Zone::from_master_file(&origin, text.as_bytes(), &mut include).unwrap();
        let zones = Zones::builder().add_zone(zone).build().unwrap();
        let context = Context::new(Transport::Udp, "192.0.2.9".parse().unwrap());
        let mut choose = |_, _: &_| Choice::of(None, 0);
        let mut reply = Vec::new();
        for mix in Mix::ALL {
            let queries = Queries::new(shape, mix, 5000, 7);
            for index in 0..queries.len() {
                answer(&zones, queries.get(index), &context, &mut choose, &mut reply);
                assert!(queries.is_answer(index, &reply, false), "{mix:?} {index}");
                assert!(queries.is_answer(index, queries.get(index), true));
                assert!(!queries.is_answer((index + 1) % queries.len(), &reply, false));
                reply[3] ^= 2;
                assert!(!queries.is_answer(index, &reply, false));
            }
        }
    }
}
