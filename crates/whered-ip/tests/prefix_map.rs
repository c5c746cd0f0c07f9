//! The prefix map against its naive twin, after every single change.

use std::net::IpAddr;

use proptest::prelude::*;
use whered_ip::naive::NaiveMap;
use whered_ip::{Prefix, PrefixMap};

mod support;

#[derive(Clone, Debug)]
enum Step {
    Insert(Prefix),
    /// Removes a prefix that is probably not held.
    Remove(Prefix),
    /// Removes one that was inserted earlier, and may be gone again.
    RemoveEarlier(prop::sample::Index),
    /// Inserts one again that was inserted earlier.
    InsertEarlier(prop::sample::Index),
    Change(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => support::prefix().prop_map(Step::Insert),
        1 => support::prefix().prop_map(Step::Remove),
        3 => any::<prop::sample::Index>().prop_map(Step::RemoveEarlier),
        1 => any::<prop::sample::Index>().prop_map(Step::InsertEarlier),
        1 => any::<prop::sample::Index>().prop_map(Step::Change),
    ]
}

/// The map, its twin, and all prefixes that ever were in them.
#[derive(Default)]
struct Twins {
    map: PrefixMap<u32>,
    naive: NaiveMap<u32>,
    earlier: Vec<Prefix>,
    next_value: u32,
}

impl Twins {
    fn insert(&mut self, prefix: Prefix) {
        self.next_value += 1;
        self.earlier.push(prefix);
        let (a, b) =
            (self.map.insert(prefix, self.next_value), self.naive.insert(prefix, self.next_value));
        assert_eq!(a, b, "insert {prefix}");
    }

    fn remove(&mut self, prefix: &Prefix) {
        assert_eq!(self.map.remove(prefix), self.naive.remove(prefix), "remove {prefix}");
    }

    fn take(&mut self, step: &Step) {
        let earlier = |index: &prop::sample::Index| {
            (!self.earlier.is_empty()).then(|| *index.get(&self.earlier))
        };
        match step {
            Step::Insert(prefix) => self.insert(*prefix),
            Step::Remove(prefix) => self.remove(prefix),
            Step::RemoveEarlier(index) => {
                if let Some(prefix) = earlier(index) {
                    self.remove(&prefix);
                }
            }
            Step::InsertEarlier(index) => {
                if let Some(prefix) = earlier(index) {
                    self.insert(prefix);
                }
            }
            Step::Change(index) => {
                if let Some(prefix) = earlier(index) {
                    let value = self.map.get_mut(&prefix).map(|value| {
                        *value += 1_000_000;
                        *value
                    });
                    if let Some(value) = value {
                        assert_eq!(self.naive.insert(prefix, value), Some(value - 1_000_000));
                    }
                }
            }
        }
    }

    fn compare(&self, addresses: &[IpAddr]) {
        assert_eq!(self.map.len(), self.naive.len());
        assert_eq!(self.map.is_empty(), self.naive.is_empty());
        assert_eq!(self.map.iter().collect::<Vec<_>>(), self.naive.iter());
        for prefix in &self.earlier {
            assert_eq!(self.map.get(prefix), self.naive.get(prefix), "get {prefix}");
            assert_eq!(self.map.contains(prefix), self.naive.get(prefix).is_some());
        }
        let mut batch = vec![None];
        self.map.longest_match_batch(addresses, &mut batch);
        assert_eq!(batch.len(), addresses.len());
        for (address, batched) in addresses.iter().zip(batch) {
            let expected = self.naive.longest_match_where(*address, |_| true);
            assert_eq!(self.map.longest_match(*address), expected, "{address}");
            assert_eq!(batched, expected, "{address} in a batch");
            for modulus in [2, 3] {
                let accept = |value: &u32| value.is_multiple_of(modulus);
                assert_eq!(
                    self.map.longest_match_where(*address, accept),
                    self.naive.longest_match_where(*address, accept),
                    "{address} with values divisible by {modulus}"
                );
            }
            let all: Vec<_> = self.map.all_matches(*address).collect();
            assert_eq!(all, self.naive.all_matches(*address), "all for {address}");
        }
    }
}

/// The first and last address of a prefix and their outer neighbours: where answers change.
fn edges(prefix: &Prefix) -> Vec<IpAddr> {
    let length_bits = u32::from(prefix.length_bits());
    match prefix.address() {
        IpAddr::V4(v4) => {
            let first = v4.to_bits();
            let last = first | u32::MAX.checked_shr(length_bits).unwrap_or(0);
            [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
                .map(|bits| std::net::Ipv4Addr::from_bits(bits).into())
                .to_vec()
        }
        IpAddr::V6(v6) => {
            let first = v6.to_bits();
            let last = first | u128::MAX.checked_shr(length_bits).unwrap_or(0);
            [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
                .map(|bits| std::net::Ipv6Addr::from_bits(bits).into())
                .to_vec()
        }
    }
}

fn check(steps: &[Step], addresses: &[IpAddr]) {
    let mut twins = Twins::default();
    let mut addresses = addresses.to_vec();
    for step in steps {
        twins.take(step);
        if let Step::Insert(prefix) = step {
            addresses.extend(edges(prefix));
        }
        twins.compare(&addresses);
    }
    // Down to empty, in the order of insertion.
    for prefix in twins.earlier.clone() {
        twins.remove(&prefix);
        twins.compare(&addresses);
    }
    assert!(twins.map.is_empty());
    assert_eq!(twins.map.iter().next(), None);
}

proptest! {
    #[test]
    fn the_map_agrees_with_its_twin_after_every_change(
        steps in prop::collection::vec(step(), 1..40),
        addresses in prop::collection::vec(support::address(), 0..8),
    ) {
        check(&steps, &addresses);
    }

    #[test]
    fn nested_prefixes_of_one_address_agree_after_every_change(
        address in support::address(),
        lengths in prop::collection::vec((any::<bool>(), any::<u8>()), 1..60),
    ) {
        let most = if address.is_ipv4() { 33 } else { 129 };
        let steps: Vec<Step> = lengths
            .iter()
            .map(|(insert, length)| {
                // Every other time a multiple of eight, the boundary between two nodes.
                let length = if length & 1 == 0 { length / 2 % (most / 8 + 1) * 8 } else { length % most };
                let prefix = Prefix::new(address, length).unwrap();
                if *insert { Step::Insert(prefix) } else { Step::Remove(prefix) }
            })
            .collect();
        check(&steps, &[address]);
    }
}

#[test]
fn every_length_of_both_families_is_found_from_the_longest_to_the_shortest() {
    for (address, most) in [("255.255.255.255", 32), ("::", 128), ("a5a5:5a5a::ffff:ffff", 128)] {
        let address: IpAddr = address.parse().unwrap();
        let mut map = PrefixMap::new();
        for length_bits in 0..=most {
            map.insert(Prefix::new(address, length_bits).unwrap(), length_bits);
        }
        assert_eq!(map.all_matches(address).count(), usize::from(most) + 1);
        assert!(map.iter().map(|(_, value)| *value).eq(0..=most));
        for length_bits in (0..=most).rev() {
            let (prefix, value) = map.longest_match(address).unwrap();
            assert_eq!((prefix.length_bits(), *value), (length_bits, length_bits));
            assert_eq!(map.remove(&prefix), Some(length_bits));
        }
        assert!(map.is_empty() && map.longest_match(address).is_none());
    }
}

#[test]
fn default_routes_of_the_two_families_stay_apart() {
    let mut map = PrefixMap::new();
    map.insert("0.0.0.0/0".parse().unwrap(), 4);
    let mapped: IpAddr = "::ffff:1.2.3.4".parse().unwrap();
    assert_eq!(map.longest_match(mapped), None);
    map.insert("::/0".parse().unwrap(), 6);
    assert_eq!(map.longest_match(mapped).map(|(_, value)| *value), Some(6));
    let plain = mapped.to_canonical();
    assert_eq!(map.longest_match(plain).map(|(_, value)| *value), Some(4));
}

#[test]
fn a_batch_of_any_size_empties_its_answers_first() {
    let map: PrefixMap<u8> = [("10.0.0.0/8".parse().unwrap(), 1)].into_iter().collect();
    let mut found = Vec::new();
    for count in [0, 1, 15, 16, 17, 100] {
        let addresses: Vec<IpAddr> = (0..count).map(|n| [10 + n % 2, 0, 0, n].into()).collect();
        map.longest_match_batch(&addresses, &mut found);
        let expected: Vec<_> =
            addresses.iter().map(|address| map.longest_match(*address)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn many_random_prefixes_agree_with_their_twin() {
    // xorshift64 with a fixed seed: a larger, denser map than proptest makes.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut twins = Twins::default();
    for _ in 0..3000 {
        let bits = random();
        let address: IpAddr = if bits & 1 == 0 {
            ((bits >> 32) as u32 & 0x0303_ffff).to_be_bytes().into()
        } else {
            (u128::from(bits) << 64 | u128::from(random() & 0xf)).to_be_bytes().into()
        };
        let most = if address.is_ipv4() { 33 } else { 129 };
        twins.insert(Prefix::new(address, (random() % most) as u8).unwrap());
        if random() % 3 == 0 {
            let place = random() as usize % twins.earlier.len();
            let prefix = twins.earlier.swap_remove(place);
            twins.remove(&prefix);
        }
    }
    let addresses: Vec<IpAddr> = twins.earlier.iter().step_by(4).flat_map(edges).collect();
    twins.compare(&addresses);
}
