//! Prefix sets: values, expiry, and agreement with a naive twin that knows the time.

use std::cmp::Reverse;
use std::net::IpAddr;

use proptest::prelude::*;
use whered_ip::{Block, Prefix, PrefixMatch, PrefixSet};

mod support;

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a fixed text")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("a fixed text")
}

#[test]
fn a_member_is_live_below_its_expiry_and_gone_at_it() {
    let mut set = PrefixSet::new();
    let host = prefix("192.0.2.1");
    assert!(set.insert(host, None, Some(100), 0));
    for (now_millis, live) in [(0, true), (99, true), (100, false), (u64::MAX, false)] {
        assert_eq!(set.get(host, now_millis).is_some(), live);
        assert_eq!(set.longest_match(host.address(), now_millis).is_some(), live);
        assert_eq!(set.all_matches(host.address(), now_millis).count(), usize::from(live));
        assert_eq!(set.iter(now_millis).count(), usize::from(live));
        assert_eq!(set.live_len(now_millis), usize::from(live));
        assert_eq!(set.len(), 1, "looking removes nothing");
    }
}

#[test]
fn a_shorter_live_member_is_found_when_the_longer_ones_have_expired() {
    let mut set = PrefixSet::new();
    set.insert(prefix("10.0.0.0/8"), Some(b"wide"), None, 0);
    set.insert(prefix("10.1.0.0/16"), Some(b"middle"), Some(20), 0);
    set.insert(prefix("10.1.2.0/23"), Some(b"narrow"), Some(10), 0);
    set.insert(prefix("10.1.2.3"), Some(b"host"), Some(10), 0);
    let value = |now_millis| set.longest_match(address("10.1.2.3"), now_millis).unwrap().value;
    assert_eq!(value(9), Some(&b"host"[..]));
    assert_eq!(value(10), Some(&b"middle"[..]));
    assert_eq!(value(20), Some(&b"wide"[..]));
}

#[test]
fn insert_says_whether_the_prefix_is_new_and_replaces_value_and_expiry() {
    let mut set = PrefixSet::new();
    let net = prefix("2001:db8::/32");
    assert!(set.insert(net, Some(b"a"), Some(100), 0));
    assert!(!set.insert(net, Some(b"b"), None, 50), "still live");
    assert_eq!(
        set.get(net, 1000),
        Some(PrefixMatch { block: net.into(), value: Some(b"b"), expires_at_millis: None })
    );
    assert_eq!(set.remove_expired(1000, 9), 0, "the old expiry was replaced");
    assert!(!set.insert(net, None, Some(2000), 1000));
    assert_eq!(set.get(net, 1999).unwrap().value, None);
    assert!(set.insert(net, Some(b""), None, 2000), "had expired, so it is new");
    assert_eq!(set.get(net, 2000).unwrap().value, Some(&b""[..]));
    assert_eq!((set.len(), set.next_expiry_millis()), (1, None));
}

#[test]
fn remove_says_whether_a_live_member_went_and_forgets_expired_ones_too() {
    let mut set = PrefixSet::new();
    let net = prefix("10.0.0.0/8");
    assert!(!set.remove(net, 0));
    set.insert(net, None, Some(5), 0);
    assert!(!set.remove(net, 5), "it was expired");
    assert!(set.is_empty());
    set.insert(net, None, Some(5), 0);
    assert!(set.remove(net, 4));
    assert_eq!(set.next_expiry_millis(), None);
}

#[test]
fn expired_members_are_forgotten_in_the_order_of_expiry_and_never_more_than_asked() {
    let mut set = PrefixSet::new();
    for n in 0..10u8 {
        // The later the address, the earlier the expiry.
        set.insert(Prefix::host([10, 0, 0, n].into()), None, Some(100 - u64::from(n)), 0);
    }
    set.insert(prefix("10.0.0.0/8"), None, None, 0);
    assert_eq!(set.remove_expired(90, 100), 0, "none is due");
    assert_eq!(set.remove_expired(95, 0), 0);
    assert_eq!(set.remove_expired(95, 2), 2);
    assert_eq!(set.next_expiry_millis(), Some(93));
    assert_eq!(set.len(), 9);
    assert_eq!(set.live_len(95), 5 + 1);
    assert_eq!(set.remove_expired(95, 100), 3);
    assert_eq!(set.remove_expired(u64::MAX, 100), 5);
    assert_eq!((set.len(), set.next_expiry_millis()), (1, None));
}

#[test]
fn a_member_inserted_after_its_expiry_is_never_seen() {
    let mut set = PrefixSet::new();
    let host = prefix("::1");
    assert!(set.insert(host, Some(b"late"), Some(10), 10));
    assert_eq!(set.longest_match(host.address(), 10), None);
    assert_eq!((set.len(), set.live_len(10)), (1, 0));
    assert_eq!(set.remove_expired(10, 1), 1);
}

#[test]
fn an_ipv4_mapped_address_meets_ipv6_members_only() {
    let mut set = PrefixSet::new();
    set.insert(prefix("10.0.0.0/8"), None, None, 0);
    assert_eq!(set.longest_match(address("::ffff:10.0.0.1"), 0), None);
    set.insert(prefix("::ffff:10.0.0.0/104"), None, None, 0);
    let found = set.longest_match(address("::ffff:10.0.0.1"), 0).unwrap();
    assert_eq!(found.block, prefix("::ffff:10.0.0.0/104").into());
    assert_eq!(
        set.longest_match(address("10.0.0.1"), 0).unwrap().block,
        prefix("10.0.0.0/8").into()
    );
}

#[test]
fn memory_counts_values_and_goes_back_when_they_go() {
    let mut set = PrefixSet::new();
    let empty_bytes = set.memory_bytes();
    let net = prefix("10.0.0.0/8");
    set.insert(net, Some(&[7; 5000]), Some(10), 0);
    set.insert(net, Some(&[7; 9000]), Some(20), 0);
    assert!((9000..14_000).contains(&set.memory_bytes()));
    set.remove(net, 0);
    assert!(set.memory_bytes() < empty_bytes + 1000);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Block, Option<Vec<u8>>, Option<u64>),
    Remove(Block),
    Wait(u64),
    RemoveExpired(usize),
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
    // Expiries tie, lie in the past, or are never.
    let lasting = prop::option::weighted(0.7, 0..6u64);
    prop_oneof![
        6 => (block(), value, lasting).prop_map(|(b, v, e)| Step::Insert(b, v, e)),
        2 => block().prop_map(Step::Remove),
        2 => (0..3u64).prop_map(Step::Wait),
        1 => (0..4usize).prop_map(Step::RemoveExpired),
    ]
}

type Naive = std::collections::BTreeMap<Block, (Option<Vec<u8>>, Option<u64>)>;

fn is_live(expires_at_millis: Option<u64>, now_millis: u64) -> bool {
    match expires_at_millis {
        Some(expires_at_millis) => expires_at_millis > now_millis,
        None => true,
    }
}

fn compare(set: &PrefixSet, naive: &Naive, addresses: &[IpAddr], now_millis: u64) {
    let live: Vec<PrefixMatch<'_>> = naive
        .iter()
        .map(|(block, (value, expires_at_millis))| PrefixMatch {
            block: *block,
            value: value.as_deref(),
            expires_at_millis: *expires_at_millis,
        })
        .filter(|m| is_live(m.expires_at_millis, now_millis))
        .collect();
    assert_eq!(set.iter(now_millis).collect::<Vec<_>>(), live);
    assert_eq!((set.len(), set.live_len(now_millis)), (naive.len(), live.len()));
    for after in live
        .iter()
        .map(|found| found.block)
        .chain(naive.keys().copied())
        .chain(addresses.iter().map(|address| Block::from(*address)))
    {
        let behind: Vec<_> = live.iter().filter(|found| found.block > after).copied().collect();
        assert_eq!(set.iter_after(after, now_millis).collect::<Vec<_>>(), behind, "{after}");
    }
    let (compiled, members) = (set.compile(now_millis), set.compile_members(now_millis));
    let mut batch = Vec::new();
    set.longest_match_batch(addresses, now_millis, &mut batch);
    for (address, batched) in addresses.iter().zip(batch) {
        let mut holding: Vec<_> = live.clone();
        holding.retain(|found| found.block.contains(*address));
        holding.sort_by_key(|found| (Reverse(found.block.size_less_one()), found.block.first()));
        assert_eq!(set.longest_match(*address, now_millis), holding.last().copied());
        assert_eq!(batched, holding.last().copied());
        let place = compiled.lookup(*address).map(|answer| live[answer as usize - 1]);
        assert_eq!(place, holding.last().copied());
        assert_eq!(members.lookup(*address), holding.last().map(|_| 1));
        assert_eq!(set.addresses(now_millis).contains(*address), !holding.is_empty());
        assert_eq!(set.all_matches(*address, now_millis).collect::<Vec<_>>(), holding);
    }
}

proptest! {
    #[test]
    fn the_set_agrees_with_its_twin_after_every_change(
        steps in prop::collection::vec(step(), 1..50),
        addresses in prop::collection::vec(support::address(), 1..12),
    ) {
        let (mut set, mut naive, mut now_millis) = (PrefixSet::new(), Naive::new(), 10u64);
        for step in steps {
            match step {
                Step::Insert(block, value, lasting) => {
                    // An offset of 0 to 5 on a clock two steps behind: some are born expired.
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
                Step::RemoveExpired(limit) => {
                    let mut due: Vec<(u64, Block)> = naive
                        .iter()
                        .filter_map(|(block, (_, at))| Some(((*at)?, *block)))
                        .filter(|(at, _)| *at <= now_millis)
                        .collect();
                    due.sort();
                    due.truncate(limit);
                    prop_assert_eq!(set.remove_expired(now_millis, limit), due.len());
                    for (_, block) in due {
                        naive.remove(&block);
                    }
                }
            }
            compare(&set, &naive, &addresses, now_millis);
        }
    }
}
