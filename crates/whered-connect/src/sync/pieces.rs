//! What a kernel's set shall hold: pieces of addresses that never overlap, each with its end.
//!
//! For: making pieces of members that may lie inside of each other, and the difference between two
//! lists of pieces. Not for: where members come from and how a set is written.
//!
//! ```text
//! members   [10.0.0.0 ........................ 10.0.0.255]  until 5
//!                    [10.0.0.8 .. 10.0.0.15]                for ever
//! pieces    [10.0.0.0 .. .7] [.8 ...... .15] [.16 .. .255]
//!             until 5          for ever        until 5
//! ```
//!
//! An address is held as long as the member that holds it longest. Members that only touch stay
//! apart: joining them would make one change of a member into three changes of a set.
//!
//! Invariants: pieces rise and never overlap. Concurrency: plain data.
//! Cost: sorting; linear where members are sorted and apart.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;

use whered_ip::Block;

/// Ends of time that lie as near as this are one: a source tells whole seconds that are left, and
/// tells them again at every look.
const SAME_MILLIS: u64 = 2_000;

/// The family of a kernel's set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
}

impl Family {
    /// The bits of an address.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Family::Ipv4 => 32,
            Family::Ipv6 => 128,
        }
    }

    /// The last address as a number.
    #[must_use]
    pub fn highest(self) -> u128 {
        match self {
            Family::Ipv4 => u128::from(u32::MAX),
            Family::Ipv6 => u128::MAX,
        }
    }

    /// An address of this family.
    pub(crate) fn address(self, number: u128) -> IpAddr {
        match self {
            // No IPv4 piece has a higher number.
            Family::Ipv4 => IpAddr::V4((number as u32).into()),
            Family::Ipv6 => IpAddr::V6(number.into()),
        }
    }
}

/// A member of the source: a block, and when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The addresses.
    pub block: Block,
    /// When it ends, in milliseconds since 1970; without it, never.
    pub until_millis: Option<u64>,
}

/// Addresses of one family from a first to a last one, as numbers, and how long they are held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The first address.
    pub first: u128,
    /// The last address.
    pub last: u128,
    /// When it ends, in milliseconds since 1970; without it, never.
    pub until_millis: Option<u64>,
}

impl Piece {
    /// Whether it is one address.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.first == self.last
    }

    /// The block that it is.
    pub(crate) fn block(&self, family: Family) -> Option<Block> {
        Block::from_ends(family.address(self.first), family.address(self.last)).ok()
    }

    /// How long it is still held; nothing if that is for ever.
    #[must_use]
    pub fn left_millis(&self, now_millis: u64) -> Option<u64> {
        self.until_millis.map(|until| until.saturating_sub(now_millis))
    }
}

/// The members of one family that have not ended, as pieces.
#[must_use]
pub fn pieces_of(members: &[Member], family: Family, now_millis: u64) -> Vec<Piece> {
    let is_in = |member: &&Member| {
        member.block.is_ipv4() == (family == Family::Ipv4)
            && member.until_millis.is_none_or(|until| until > now_millis)
    };
    let number = |address| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let mut pieces: Vec<Piece> = members
        .iter()
        .filter(is_in)
        .map(|member| Piece {
            first: number(member.block.first()),
            last: number(member.block.last()),
            until_millis: member.until_millis,
        })
        .collect();
    let order = |piece: &Piece| (piece.first, Reverse(piece.last));
    if !pieces.is_sorted_by_key(order) {
        pieces.sort_unstable_by_key(order);
    }
    apart(&pieces)
}

/// Sorted pieces without their overlaps.
fn apart(sorted: &[Piece]) -> Vec<Piece> {
    let mut found = Vec::with_capacity(sorted.len());
    let mut rest = sorted;
    while let Some(head) = rest.first() {
        // A cluster: each overlaps one before it.
        let mut last = head.last;
        let overlapping = rest.iter().skip(1).take_while(|piece| {
            let overlaps = piece.first <= last;
            last = last.max(piece.last);
            overlaps
        });
        let (cluster, behind) = rest.split_at(1 + overlapping.count());
        if cluster.len() == 1 {
            found.push(*head);
        } else {
            sweep(cluster, &mut found);
        }
        rest = behind;
    }
    found
}

/// Walks a cluster from address to address: at each the member that lasts longest counts.
fn sweep(cluster: &[Piece], found: &mut Vec<Piece>) {
    let own = found.len();
    // Longest lasting first; those that the walk has passed are dropped when they come up.
    let mut holding: BinaryHeap<(u64, u128)> = BinaryHeap::new();
    let mut coming = cluster.iter().peekable();
    let mut at = cluster.first().map(|piece| piece.first);
    while let Some(first) = at {
        while let Some(piece) = coming.next_if(|piece| piece.first <= first) {
            holding.push((piece.until_millis.unwrap_or(u64::MAX), piece.last));
        }
        while holding.peek().is_some_and(|(_, last)| *last < first) {
            holding.pop();
        }
        let Some((until, last)) = holding.peek() else { break };
        let last = coming.peek().map_or(*last, |piece| (piece.first - 1).min(*last));
        let until_millis = (*until != u64::MAX).then_some(*until);
        match found.get_mut(own..).and_then(<[Piece]>::last_mut) {
            Some(before) if before.until_millis == until_millis => before.last = last,
            _ => found.push(Piece { first, last, until_millis }),
        }
        at = last.checked_add(1);
    }
}

/// What must be done to one list of pieces to make it another.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Difference {
    /// Pieces that are new.
    pub add: Vec<Piece>,
    /// Pieces that go.
    pub remove: Vec<Piece>,
    /// Pieces that stay and end at another time.
    pub renew: Vec<Piece>,
}

impl Difference {
    /// Whether nothing is to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty() && self.renew.is_empty()
    }

    /// How many pieces are touched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.add.len() + self.remove.len() + self.renew.len()
    }

    /// From `held` to `wanted`. A wanted piece that stays as it is gets the end that is held, so
    /// that small steps do not add up unseen.
    #[must_use]
    pub fn between(held: &[Piece], wanted: &mut [Piece]) -> Difference {
        let mut difference = Difference::default();
        let mut held = held.iter().peekable();
        for piece in wanted {
            let place = (piece.first, piece.last);
            while let Some(gone) = held.next_if(|old| (old.first, old.last) < place) {
                difference.remove.push(*gone);
            }
            match held.next_if(|old| (old.first, old.last) == place) {
                None => difference.add.push(*piece),
                Some(old) if is_same_end(old, piece) => piece.until_millis = old.until_millis,
                Some(_) => difference.renew.push(*piece),
            }
        }
        difference.remove.extend(held);
        difference
    }
}

fn is_same_end(old: &Piece, new: &Piece) -> bool {
    match (old.until_millis, new.until_millis) {
        (None, None) => true,
        (Some(old), Some(new)) => old.abs_diff(new) <= SAME_MILLIS,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WIDTH: u32 = 40;

    fn members() -> impl Strategy<Value = Vec<Member>> {
        let until = prop::option::of(1_u64..6);
        let member = (0..WIDTH, 0..12_u32, until, any::<bool>()).prop_map(|place| {
            let (first, more, until_millis, is_high) = place;
            let shift = if is_high { u32::MAX - (WIDTH - 1) } else { 0 };
            let [first, last] = [first, (first + more).min(WIDTH - 1)]
                .map(|number| IpAddr::V4((number + shift).into()));
            Member { block: Block::from_ends(first, last).expect("upwards"), until_millis }
        });
        prop::collection::vec(member, 0..12)
    }

    /// When an address ends: `Some(u64::MAX)` never, `None` it is not held.
    fn end_of(members: &[Member], address: u32, now: u64) -> Option<u64> {
        let address = IpAddr::V4(address.into());
        let holding = members.iter().filter(|member| member.block.contains(address));
        let ends = holding.map(|member| member.until_millis.unwrap_or(u64::MAX));
        ends.filter(|end| *end > now).max()
    }

    proptest! {
        #[test]
        fn every_address_is_held_as_long_as_its_longest_member(members in members(), now in 0_u64..6) {
            let pieces = pieces_of(&members, Family::Ipv4, now);
            prop_assert!(pieces.windows(2).all(|pair| pair[0].last < pair[1].first));
            for place in (0..WIDTH).chain(u32::MAX - (WIDTH - 1)..=u32::MAX) {
                let number = u128::from(place);
                let piece = pieces.iter().find(|p| p.first <= number && number <= p.last);
                let end = piece.map(|piece| piece.until_millis.unwrap_or(u64::MAX));
                prop_assert_eq!(end, end_of(&members, place, now), "address {}", place);
            }
        }

        #[test]
        fn a_difference_makes_one_list_the_other(a in members(), b in members()) {
            // Far enough apart in time to be told from each other.
            let late = |members: &[Member]| -> Vec<Piece> {
                let mut pieces = pieces_of(members, Family::Ipv4, 0);
                pieces.iter_mut().for_each(|p| p.until_millis = p.until_millis.map(|u| u * 10_000));
                pieces
            };
            let (old, mut new) = (late(&a), late(&b));
            let wanted = new.clone();
            let difference = Difference::between(&old, &mut new);
            prop_assert_eq!(&new, &wanted);
            let gone = |p: &&Piece| !difference.remove.contains(p)
                && !difference.renew.iter().any(|r| (r.first, r.last) == (p.first, p.last));
            let mut made: Vec<Piece> = old.iter().filter(gone).copied().collect();
            made.extend(&difference.add);
            made.extend(&difference.renew);
            made.sort_by_key(|piece| piece.first);
            prop_assert_eq!(made, wanted);
        }
    }

    #[test]
    fn ends_that_move_by_a_second_are_no_change_and_do_not_creep() {
        let piece = |until| Piece { first: 1, last: 1, until_millis: Some(until) };
        let held = [piece(10_000)];
        let mut wanted = [piece(11_500)];
        assert!(Difference::between(&held, &mut wanted).is_empty());
        assert_eq!(wanted, held);
        let mut wanted = [piece(12_001)];
        assert_eq!(Difference::between(&held, &mut wanted).renew, [piece(12_001)]);
    }

    #[test]
    fn neighbours_stay_apart() {
        let member =
            |text: &str| Member { block: text.parse().expect("a block"), until_millis: None };
        let members = ["10.0.1.0/24", "10.0.0.0/24", "::/0"].map(member);
        assert_eq!(pieces_of(&members, Family::Ipv4, 0).len(), 2);
        let all = pieces_of(&members, Family::Ipv6, 0);
        assert_eq!(all, [Piece { first: 0, last: u128::MAX, until_millis: None }]);
    }
}
