//! Random rulesets and packets of a small world, for tests only.
//!
//! For: comparing two ways to the same answer; the world is so small that most conditions are
//! met by some packets.
//!
//! Invariants: chains call only later chains, so there are no circles; no rule tests a mark when
//! `marks_tested` is false.
//! Concurrency: plain data; the same seed gives the same rulesets.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::LazyLock;

use whered_ip::Prefix;
pub(crate) use whered_random::Random;

use crate::model::*;
use crate::naive::Sets;
use crate::packet::{Family, Packet, State};

/// The shape of a random ruleset.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) chains: u64,
    pub(crate) rules: u64,
    pub(crate) conditions: u64,
    pub(crate) sets: bool,
    pub(crate) places: bool,
    pub(crate) marks_tested: bool,
    pub(crate) sites: bool,
    /// Whether rules ask for details and what nobody knows, and test marks that rules set.
    pub(crate) questions: bool,
    pub(crate) family: Option<Family>,
}

impl Shape {
    pub(crate) const FULL: Shape = Shape {
        chains: 4,
        rules: 5,
        conditions: 3,
        sets: true,
        places: true,
        marks_tested: true,
        sites: true,
        questions: false,
        family: None,
    };

    /// With open questions.
    pub(crate) const OPEN: Shape = Shape { questions: true, ..Shape::FULL };
}

const INTERFACES: [&str; 5] = ["", "eth0", "eth1", "ppp0", "lo"];
const PROTOCOLS: [u8; 5] = [1, 6, 17, 47, 58];

fn address(random: &mut Random, family: Family) -> IpAddr {
    let low = random.below(16);
    match family {
        Family::Ipv4 => IpAddr::V4((0x0a00_0000 + low as u32).into()),
        Family::Ipv6 => IpAddr::V6(((0x2001_0db8_u128 << 96) + u128::from(low)).into()),
    }
}

fn family(random: &mut Random, shape: Shape) -> Family {
    shape.family.unwrap_or(if random.below(10) < 3 { Family::Ipv6 } else { Family::Ipv4 })
}

fn item(random: &mut Random, shape: Shape) -> AddressItem {
    let family = family(random, shape);
    let first = address(random, family);
    if random.below(10) < 3 {
        let second = address(random, family);
        return AddressItem::Range(first.min(second), first.max(second));
    }
    let longest = if family == Family::Ipv4 { 32 } else { 128 };
    let length = longest - random.below(5) as u8;
    AddressItem::Prefix(Prefix::new(first, length).expect("a fitting length"))
}

fn list<T>(random: &mut Random, mut item: impl FnMut(&mut Random) -> T) -> Vec<T> {
    let count = 1 + random.below(3);
    (0..count).map(|_| item(random)).collect()
}

fn span(random: &mut Random, limit: u64) -> (u64, u64) {
    let (a, b) = (random.below(limit), random.below(limit));
    if random.below(10) < 5 { (a, a) } else { (a.min(b), a.max(b)) }
}

fn ports(random: &mut Random) -> Vec<(u16, u16)> {
    list(random, |random| {
        let (a, b) = span(random, 8);
        (a as u16, b as u16)
    })
}

fn icmp(random: &mut Random) -> Vec<IcmpMatch> {
    list(random, |random| {
        let (a, b) = span(random, 4);
        let codes = if random.below(10) < 5 {
            (0, 255)
        } else {
            let (a, b) = span(random, 4);
            (a as u8, b as u8)
        };
        IcmpMatch { types: (a as u8, b as u8), codes }
    })
}

fn interface(random: &mut Random) -> InterfacePattern {
    match random.below(8) {
        0 => InterfacePattern::Begins("eth".to_owned()),
        1 => InterfacePattern::Begins("e".to_owned()),
        2 => InterfacePattern::Begins(String::new()),
        _ => InterfacePattern::Exact(INTERFACES[1 + random.below(4) as usize].to_owned()),
    }
}

fn predicate(random: &mut Random, side: Side) -> Predicate {
    if random.below(10) < 2 {
        let point = Point::At { longitude_degrees: 8.68, latitude_degrees: 50.11 };
        let subject = Subject::Distance { point, meters: 1000.0 * random.below(3) as f64 };
        return Predicate { side, subject, comparison: Comparison::Less };
    }
    let values = list(random, |random| (*random.pick(&["DE", "FR", "US", "a b"])).to_owned());
    let subject = Subject::Field { path: "country".to_owned(), values };
    Predicate { side, subject, comparison: Comparison::Equal }
}

/// A question that the classifier has no field for.
fn question(random: &mut Random, side: Side) -> Test {
    let (first, last) = span(random, 5);
    let mask = if random.below(10) < 2 { 6 } else { u64::MAX };
    let detail = |name: &str, mask| {
        let test = DetailTest::of(name, vec![(first, last)]).expect("a name");
        Test::Detail(DetailTest { mask, ..test })
    };
    match random.below(5) {
        0 | 1 => detail("ttl", mask),
        2 => detail(Detail::DESTINATION_TYPE, u64::MAX),
        3 => Test::Uncertain(Uncertain { kind: "limit".into(), text: "-m limit".into() }),
        _ => Test::MaskedAddress {
            side,
            value: IpAddr::V4((0x0a00_0001 + first as u32 * 4).into()),
            mask: IpAddr::V4(0xff00_0005.into()),
        },
    }
}

fn test(random: &mut Random, shape: Shape) -> Test {
    let side = if random.below(10) < 5 { Side::Source } else { Side::Destination };
    if shape.questions && random.below(10) < 3 {
        return question(random, side);
    }
    match random.below(20) {
        0..=4 => Test::Address(side, list(random, |random| item(random, shape))),
        5..=6 => Test::Protocol(list(random, |random| {
            let number = *random.pick(&PROTOCOLS);
            if random.below(10) < 2 { (number, number + 12) } else { (number, number) }
        })),
        7..=9 => Test::Port(side, ports(random)),
        10 => Test::EitherPort(ports(random)),
        11 => Test::Icmp(icmp(random)),
        12 => Test::Icmpv6(icmp(random)),
        13 => {
            let mask = random.below(8) as u8;
            Test::TcpFlags { mask, compare: mask & random.below(8) as u8 }
        }
        14 => Test::Input(list(random, interface)),
        15 => Test::Output(list(random, interface)),
        16 => Test::State(list(random, |random| *random.pick(&State::ALL))),
        17 if shape.sets => Test::Set(side, (*random.pick(&["office", "blocked"])).to_owned()),
        18 if shape.places => Test::Place(predicate(random, side)),
        19 if shape.marks_tested => {
            // Few gaps become ranges, many become a bit.
            let mask = random.below(4) as u32 | if random.below(10) < 5 { !7 } else { 0 };
            Test::Mark { value: mask & random.below(4) as u32, mask }
        }
        _ if shape.family.is_none() && random.below(10) < 3 => Test::Family(family(random, shape)),
        _ => Test::Dscp(list(random, |random| {
            let (a, b) = span(random, 4);
            (a as u8, b as u8)
        })),
    }
}

fn action(random: &mut Random, shape: Shape, later: &[ChainId]) -> Action {
    match random.below(16) {
        0..=3 => Action::Accept,
        4..=5 => Action::Drop,
        6 if shape.questions && random.below(3) == 0 => {
            Action::Other { target: "CONNMARK".into(), changes: Changes::Mark }
        }
        6 => Action::Reject { with: None },
        7 if shape.sites => Action::Site((*random.pick(&["fra", "nyc"])).into()),
        8 => Action::Return,
        9 => Action::Log { prefix: Some("a \"b\\ ".into()), level: None },
        10 => Action::Continue,
        11 if !shape.marks_tested || shape.questions => {
            let mask = if random.below(3) == 0 { 3 } else { u32::MAX };
            Action::SetMark { value: random.below(9) as u32, mask }
        }
        12..=14 if !later.is_empty() => Action::Jump(*random.pick(later)),
        15 if !later.is_empty() => Action::Goto(*random.pick(later)),
        _ => Action::Accept,
    }
}

/// A ruleset; packets enter its first chain.
pub(crate) fn ruleset(random: &mut Random, shape: Shape) -> Ruleset {
    let mut builder = RulesetBuilder::new("random.rules");
    builder.set_name("random");
    builder.set_family(shape.family);
    if shape.sets {
        let elements = list(random, |random| item(random, shape));
        builder.declare_set("office", Some(elements), 1).expect("a new name");
        builder.declare_set("blocked", None, 2).expect("a new name");
    }
    let policy = (*random.pick(&[Verdict::Accept, Verdict::Drop])).clone();
    let count = 1 + random.below(shape.chains);
    let mut chains =
        vec![builder.declare_chain("input", Some(policy), None, 3).expect("a new name")];
    if shape.questions && random.below(2) == 0 {
        builder.set_hook(chains[0], Hook::Input);
    }
    for number in 1..count {
        let name = format!("chain{number}");
        chains.push(builder.declare_chain(&name, None, None, 4).expect("a new name"));
    }
    let mut line = 10;
    for (index, &chain) in chains.iter().enumerate() {
        for _ in 0..random.below(shape.rules + 1) {
            line += 1;
            let conditions = (0..random.below(shape.conditions + 1))
                .map(|_| {
                    let test = test(random, shape);
                    Condition::new(test, random.below(10) < 3)
                })
                .collect();
            let action = action(random, shape, &chains[index + 1..]);
            builder.add_rule(chain, line, conditions, action, None, None);
        }
    }
    builder.build().expect("chains call only later ones")
}

/// A packet of the same small world.
pub(crate) fn packet(random: &mut Random, shape: Shape) -> Packet<'static> {
    let family = family(random, shape);
    Packet {
        source: address(random, family),
        destination: address(random, family),
        protocol: *random.pick(&PROTOCOLS),
        source_port: random.below(9) as u16,
        destination_port: random.below(9) as u16,
        icmp_type: random.below(5) as u8,
        icmp_code: random.below(5) as u8,
        tcp_flags: random.below(16) as u8,
        state: *random.pick(&State::ALL),
        input: random.pick::<&str>(&INTERFACES),
        output: random.pick::<&str>(&INTERFACES),
        dscp: random.below(5) as u8,
        mark: random.below(5) as u32,
        details: if shape.questions { details(random) } else { &[] },
    }
}

/// What else is known of a packet: often nothing.
fn details(random: &mut Random) -> &'static [(Detail, u64)] {
    static KNOWN: LazyLock<Vec<Vec<(Detail, u64)>>> = LazyLock::new(|| {
        let detail = |name, value| (Detail::named(name).expect("a name"), value);
        let ttl = (0..5).map(|value| vec![detail("ttl", value)]);
        let types = (1..4).map(|value| vec![detail(Detail::DESTINATION_TYPE, value)]);
        ttl.chain(types).collect()
    });
    KNOWN.get(random.below(16) as usize).map_or(&[], Vec::as_slice)
}

/// Live sets and places that hold a random part of the world.
pub(crate) struct World {
    members: BTreeSet<IpAddr>,
    salt: u64,
}

impl World {
    pub(crate) fn new(random: &mut Random) -> World {
        let members = (0..8)
            .map(|_| {
                let family = family(random, Shape::FULL);
                address(random, family)
            })
            .collect();
        World { members, salt: random.below(1 << 30) }
    }
}

impl Sets for World {
    fn contains(&self, set: &str, address: IpAddr) -> bool {
        set == "blocked" && self.members.contains(&address)
    }

    /// Some two addresses in a row share a place; the same for equal predicates of both sides.
    fn is_at(&self, predicate: &Predicate, address: IpAddr) -> bool {
        let low = crate::packet::address_number(address) as u64 / 2;
        let text = predicate.to_string();
        let words = text
            .bytes()
            .skip(3)
            .fold(self.salt, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Random::new(words ^ low.wrapping_mul(0xd6e8_feb8_6659_fd93)).below(3) == 0
    }
}
