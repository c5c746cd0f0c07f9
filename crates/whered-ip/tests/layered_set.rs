//! The set in two layers against a plain list, through changes, expiries and folding, and copies
//! against what they were when they were made.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use proptest::prelude::*;
use whered_ip::naive::NaiveMap;
use whered_ip::{Block, LayeredSet, MemberList, Prefix, PrefixMatch};

mod support;

type Naive = BTreeMap<Block, (Option<Vec<u8>>, Option<u64>)>;

#[derive(Clone, Debug)]
enum Step {
    Insert(Block, Option<Vec<u8>>, Option<u64>),
    Remove(Block),
    Wait(u64),
    Fold,
    Copy,
}

/// A prefix, or a range around and across one.
fn block() -> impl Strategy<Value = Block> {
    let range = (support::prefix(), 0..4u8, 0..4u8).prop_map(|(prefix, below, above)| {
        let ends = Block::from(prefix);
        let (first, last) = match (ends.first(), ends.last()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => (
                IpAddr::V4(first.to_bits().saturating_sub(below.into()).into()),
                IpAddr::V4(last.to_bits().saturating_add(above.into()).into()),
            ),
            (IpAddr::V6(first), IpAddr::V6(last)) => (
                IpAddr::V6(first.to_bits().saturating_sub(below.into()).into()),
                IpAddr::V6(last.to_bits().saturating_add(above.into()).into()),
            ),
            other => other,
        };
        Block::from_ends(first, last).expect("wider than a block")
    });
    prop_oneof![3 => support::prefix().prop_map(Block::from), 1 => range]
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..3));
    let lasting = prop::option::weighted(0.5, 0..6u64);
    prop_oneof![
        6 => (block(), value, lasting).prop_map(|(b, v, e)| Step::Insert(b, v, e)),
        3 => block().prop_map(Step::Remove),
        1 => (0..3u64).prop_map(Step::Wait),
        1 => Just(Step::Fold),
        1 => Just(Step::Copy),
    ]
}

fn is_live(expires_at_millis: Option<u64>, now_millis: u64) -> bool {
    expires_at_millis.is_none_or(|at| at > now_millis)
}

fn compare(set: &LayeredSet, naive: &Naive, addresses: &[IpAddr], now_millis: u64) {
    let live: Vec<PrefixMatch<'_>> = naive
        .iter()
        .filter(|(_, (_, at))| is_live(*at, now_millis))
        .map(|(block, (value, at))| PrefixMatch {
            block: *block,
            value: value.as_deref(),
            expires_at_millis: *at,
        })
        .collect();
    assert_eq!(set.iter(now_millis).collect::<Vec<_>>(), live);
    assert_eq!((set.len(), set.live_len(now_millis)), (naive.len(), live.len()));
    let corners = addresses.iter().map(|address| Block::from(*address));
    for after in naive.keys().copied().chain(corners) {
        let behind: Vec<_> = live.iter().filter(|found| found.block > after).copied().collect();
        assert_eq!(set.iter_after(after, now_millis).collect::<Vec<_>>(), behind, "{after}");
        let exact = live.iter().find(|found| found.block == after).copied();
        assert_eq!(set.get(after, now_millis), exact);
    }
    let folded = set.fold(0);
    let wider = |prefix: Prefix| {
        let lengths = prefix.length_bits().saturating_sub(2)..=prefix.length_bits();
        lengths.map(move |length| Prefix::new(prefix.address(), length).expect("a shorter one"))
    };
    for prefix in naive.keys().flat_map(Block::prefixes).flat_map(wider) {
        let all = Block::from(prefix);
        let cuts = |block: &Block| {
            let overlaps = block.contains(all.first()) || all.contains(block.first());
            overlaps && !block.covers(&all)
        };
        if set.is_uniform(prefix) {
            assert!(!live.iter().any(|found| cuts(&found.block)), "{prefix}");
        }
        // What has gone may still be seen there, but not after it was folded away.
        assert_eq!(folded.is_uniform(prefix), !naive.keys().any(cuts), "{prefix}");
    }
    let mut addresses = addresses.to_vec();
    addresses.extend(naive.keys().flat_map(|block| [block.first(), block.last()]));
    let mut batch = Vec::new();
    set.prefetch(addresses.iter().copied());
    set.longest_match_batch(&addresses, now_millis, &mut batch);
    let ipv4: Vec<IpAddr> = addresses.iter().copied().filter(IpAddr::is_ipv4).collect();
    let mut batch4 = Vec::new();
    set.longest_match_batch(&ipv4, now_millis, &mut batch4);
    let mut batch4 = batch4.into_iter();
    for (address, batched) in addresses.iter().zip(batch) {
        let mut holding: Vec<_> = live.clone();
        holding.retain(|found| found.block.contains(*address));
        holding.sort_by_key(|found| (Reverse(found.block.size_less_one()), found.block.first()));
        let best = holding.last().copied();
        assert_eq!(set.longest_match(*address, now_millis), best, "{address}");
        assert_eq!(batched, best, "{address} in a batch");
        if address.is_ipv4() {
            assert_eq!(batch4.next(), Some(best), "{address} in a batch of IPv4");
        }
        assert_eq!(set.contains(*address, now_millis), best.is_some());
        assert_eq!(set.all_matches(*address, now_millis).collect::<Vec<_>>(), holding);
    }
}

fn listed(naive: &Naive) -> MemberList {
    let mut list = MemberList::new();
    // The last of equal blocks counts, and no order is asked for.
    for (block, (value, at)) in naive.iter().rev() {
        list.push(*block, Some(b"overwritten"), Some(1));
        list.push(*block, value.as_deref(), *at);
    }
    list
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn the_set_agrees_with_its_twin_after_every_change(
        steps in prop::collection::vec(step(), 1..50),
        addresses in prop::collection::vec(support::address(), 1..12),
    ) {
        let (mut set, mut naive, mut now_millis) = (LayeredSet::new(), Naive::new(), 10u64);
        let mut kept: Vec<(LayeredSet, Naive)> = Vec::new();
        for step in steps {
            match step {
                Step::Insert(block, value, lasting) => {
                    let expires = lasting.map(|lasting| now_millis - 2 + lasting);
                    let new = set.insert(block, value.as_deref(), expires, now_millis);
                    let old = naive.insert(block, (value, expires));
                    prop_assert_eq!(new, !old.is_some_and(|(_, at)| is_live(at, now_millis)));
                }
                Step::Remove(block) => {
                    let old = naive.remove(&block);
                    prop_assert_eq!(
                        set.remove(block, now_millis),
                        old.is_some_and(|(_, at)| is_live(at, now_millis))
                    );
                }
                Step::Wait(millis) => now_millis += millis,
                Step::Fold => {
                    set = set.fold(now_millis);
                    naive.retain(|_, (_, at)| is_live(*at, now_millis));
                    prop_assert_eq!(set.pending_len(), 0);
                }
                Step::Copy => kept.push((set.clone(), naive.clone())),
            }
            compare(&set, &naive, &addresses, now_millis);
        }
        for (set, naive) in &kept {
            compare(set, naive, &addresses, now_millis);
        }
        compare(&LayeredSet::build(listed(&naive)), &naive, &addresses, now_millis);
    }
}

#[test]
fn a_change_that_has_been_taken_back_leaves_what_was_there() {
    let mut list = MemberList::new();
    list.push("10.0.0.0/8".parse().unwrap(), None, None);
    let mut set = LayeredSet::build(list);
    let inner: Block = "10.1.0.0/16".parse().unwrap();
    set.insert(inner, Some(b"x"), None, 0);
    assert!(set.remove(inner, 0));
    assert!(!set.remove(inner, 0));
    let found = set.longest_match("10.1.2.3".parse().unwrap(), 0).unwrap();
    assert_eq!(found.block.to_string(), "10.0.0.0/8");
    assert_eq!((set.len(), set.fold(0).len()), (1, 1));
}

/// A block somewhere in a part of the space of each family, so that blocks meet.
fn somewhere(random: &mut impl FnMut(u64) -> u64) -> Block {
    let (offset, more) = (random(1 << 26), random(1 << 12));
    let (first, last): (IpAddr, IpAddr) = if random(2) == 0 {
        let first = 0x0a00_0000 + offset as u32;
        (IpAddr::V4(first.into()), IpAddr::V4((first + more as u32).into()))
    } else {
        let first = 0x2001_0db8_u128 << 96 | u128::from(offset) << (64 + random(12));
        let last = first | u128::from(more) << (60 + random(24));
        (IpAddr::V6(first.into()), IpAddr::V6(last.into()))
    };
    if random(4) == 0 {
        return Block::from_ends(first, last).expect("upwards");
    }
    let longest = if first.is_ipv4() { 32 } else { 128 };
    let length = longest - random(if first.is_ipv4() { 20 } else { 90 }) as u8;
    whered_ip::Prefix::new(first, length).expect("a length of the family").into()
}

/// A set that probes for every prefix its blocks consist of.
#[derive(Default)]
struct Plain {
    members: Naive,
    pieces: NaiveMap<Vec<Block>>,
}

impl Plain {
    fn insert(&mut self, block: Block, value: Option<&[u8]>) -> bool {
        let is_new = self.members.insert(block, (value.map(Vec::from), None)).is_none();
        if is_new {
            for piece in block.prefixes() {
                match self.pieces.get_mut(&piece) {
                    Some(blocks) => blocks.push(block),
                    None => drop(self.pieces.insert(piece, vec![block])),
                }
            }
        }
        is_new
    }

    fn remove(&mut self, block: Block) -> bool {
        for piece in block.prefixes() {
            if let Some(blocks) = self.pieces.get_mut(&piece) {
                blocks.retain(|other| *other != block);
            }
        }
        self.members.remove(&block).is_some()
    }

    fn longest_match(&self, address: IpAddr) -> Option<PrefixMatch<'_>> {
        let holding = self.pieces.all_matches(address).flat_map(|(_, blocks)| blocks);
        let block =
            holding.max_by_key(|block| (Reverse(block.size_less_one()), block.first())).copied()?;
        Some(self.found(block))
    }

    fn found(&self, block: Block) -> PrefixMatch<'_> {
        let (value, expires_at_millis) = &self.members[&block];
        PrefixMatch { block, value: value.as_deref(), expires_at_millis: *expires_at_millis }
    }
}

/// Above large sets the filter of changes has a finer half.
#[test]
fn a_large_set_with_changes_agrees_with_a_plain_one() {
    let mut state = 11_u64;
    let mut random = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % limit
    };
    let (mut list, mut plain) = (MemberList::new(), Plain::default());
    for _ in 0..30_000 {
        let block = somewhere(&mut random);
        list.push(block, None, None);
        plain.insert(block, None);
    }
    let mut set = LayeredSet::build(list);
    assert!(set.len() > 1 << 14);
    let members: Vec<Block> = set.iter(0).map(|member| member.block).collect();
    for round in 0..3000 {
        if random(3) == 0 {
            let gone = members[random(members.len() as u64) as usize];
            assert_eq!(set.remove(gone, 0), plain.remove(gone));
        } else {
            let block = somewhere(&mut random);
            let value = [random(3) as u8];
            assert_eq!(set.insert(block, Some(&value), None, 0), plain.insert(block, Some(&value)));
        }
        let near = somewhere(&mut random);
        for address in [near.first(), near.last()] {
            assert_eq!(set.longest_match(address, 0), plain.longest_match(address), "{round}");
            assert_eq!(set.contains(address, 0), plain.longest_match(address).is_some());
        }
    }
    let addresses: Vec<IpAddr> = members.iter().map(Block::last).collect();
    let mut found = Vec::new();
    let expected = |addresses: &[IpAddr]| -> Vec<_> {
        addresses.iter().map(|address| plain.longest_match(*address)).collect()
    };
    set.longest_match_batch(&addresses, 0, &mut found);
    assert_eq!(found, expected(&addresses));
    let ipv4: Vec<IpAddr> = addresses.into_iter().filter(IpAddr::is_ipv4).collect();
    set.longest_match_batch(&ipv4, 0, &mut found);
    assert_eq!(found, expected(&ipv4));
    assert_eq!(
        set.counts().ranges,
        plain.members.keys().filter(|block| block.as_prefix().is_none()).count()
    );
    assert!(set.fold(0).iter(0).eq(plain.members.keys().map(|block| plain.found(*block))));
}
