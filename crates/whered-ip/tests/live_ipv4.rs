//! The live table against the live map, after every kind of change, and beside readers.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};

use whered_ip::{LiveIpv4, LiveMatch, Prefix, PrefixMap};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as u32 % bound
    }
}

fn prefix(address: u32, length_bits: u8) -> Prefix {
    Prefix::new(IpAddr::V4(Ipv4Addr::from_bits(address)), length_bits).expect("a length")
}

fn remove(map: &mut PrefixMap<u32>, live: &mut LiveIpv4, gone: Prefix) {
    let outer =
        map.all_matches(gone.address()).filter(|(outer, _)| outer.covers(&gone) && *outer != gone);
    assert_eq!(map.outer(&gone), outer.last(), "outside of {gone}");
    assert_eq!(live.remove(&gone), map.remove(&gone));
}

fn insert(map: &mut PrefixMap<u32>, live: &mut LiveIpv4, new: Prefix, answer: u32) {
    live.warm(&[new]);
    assert_eq!(live.insert(new, answer), map.insert(new, answer));
    assert_eq!((live.get(&new), live.len()), (Some(answer), map.len()));
}

fn check(map: &PrefixMap<u32>, live: &LiveIpv4, addresses: impl Iterator<Item = u32>) {
    let reader = live.reader();
    for address in addresses {
        let expected = map.longest_match(IpAddr::V4(Ipv4Addr::from_bits(address)));
        let expected = expected
            .map(|(found, answer)| LiveMatch { length_bits: found.length_bits(), answer: *answer });
        assert_eq!(reader.lookup4(address), expected, "{}", Ipv4Addr::from_bits(address));
        let mut answer = [9];
        reader.answers4(&[address], &mut answer);
        assert_eq!(answer[0], expected.map_or(0, |found| found.answer));
    }
}

#[test]
fn after_many_changes_the_table_answers_as_the_map_does() {
    let mut random = Random(1);
    let (mut map, mut live) = (PrefixMap::new(), LiveIpv4::new());
    for round in 0..60 {
        for _ in 0..200 {
            // Crowded, so that prefixes nest, share blocks and empty them.
            let address =
                0x0a00_0000 | random.below(4) << 16 | random.below(3) << 8 | random.below(40);
            let length = [0, 4, 8, 12, 16, 17, 20, 23, 24, 25, 27, 28, 29, 31, 32]
                [random.below(15) as usize];
            let chosen = prefix(address, length);
            if random.below(2) == 0 {
                insert(&mut map, &mut live, chosen, 1 + random.below(1000));
            } else {
                remove(&mut map, &mut live, chosen);
            }
        }
        if round % 3 == 0 {
            live.reclaim();
        }
        let near = (0..2000).map(|_| 0x0a00_0000 | random.below(5 << 16));
        check(&map, &live, near.chain([0, u32::MAX, 0x0b00_0000]));
    }
    let all: Vec<Prefix> = map.iter().map(|(prefix, _)| prefix).collect();
    for gone in all {
        remove(&mut map, &mut live, gone);
    }
    check(&map, &live, (0..3000).map(|n| 0x0a00_0000 + n * 41));
    let bytes = live.memory_bytes();
    for round in 0..2000 {
        let host = prefix(0x0a00_0000 + round * 977, 32);
        insert(&mut map, &mut live, host, 1);
        remove(&mut map, &mut live, host);
        live.reclaim();
    }
    assert!(live.memory_bytes() <= bytes + 4096, "blocks are used again");
    assert_eq!(live.retired_words(), 0);
}

#[test]
fn readers_find_what_stays_while_its_neighbours_come_and_go() {
    let mut live = LiveIpv4::new();
    let wide = prefix(0x0a00_0000, 8);
    live.insert(wide, 7);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (reader, is_done) = (live.reader(), &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    for address in (0x0a00_0000_u32..0x0a00_0fff).step_by(3) {
                        let found = reader.lookup4(address).expect("the wide prefix stays");
                        let answers = if found.length_bits == 8 { 7 } else { 8 };
                        assert_eq!(found.answer, answers);
                    }
                }
            });
        }
        for round in 0..30_000_u32 {
            let length = [24, 27, 32, 20][round as usize % 4];
            let narrow = prefix(0x0a00_0000 + round % 4096, length);
            live.insert(narrow, 8);
            assert_eq!(live.remove(&narrow), Some(8));
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert!(live.retired_words() > 0, "nothing was used again under the readers");
}

#[test]
fn other_families_change_nothing() {
    let mut live = LiveIpv4::new();
    let bytes = live.memory_bytes();
    assert_eq!(live.insert("::/0".parse().unwrap(), 1), None);
    assert_eq!(live.remove(&"::/0".parse().unwrap()), None);
    assert_eq!((live.reader().lookup4(0), live.memory_bytes()), (None, bytes));
}
