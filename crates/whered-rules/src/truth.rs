//! Whether a condition holds, fails, or depends on what nobody told.
//!
//! For: the conditions that have no field in the normal form ("questions"): details of packets,
//! masks with gaps, rates and clocks, and marks that earlier rules set. The evaluator and the
//! compiled forms answer them here, one by one. Not for: the fields of the normal form.
//!
//! ```text
//! Answer   Holds    Fails    Open: it may hold, and may not
//! rule     all hold          one fails        else open
//! ```
//!
//! [`Knowledge`] is what is known of a packet at one step of its way: its mark, and what earlier
//! open answers leave of its details. A packet that an open `ttl 1-9` let pass has another TTL.
//!
//! Invariants: an answer other than `Open` is right whatever is not told.
//! Concurrency: plain data. Cost: linear in the questions of the rules that are met.

use std::net::IpAddr;

use crate::model::{Action, Changes, Condition, Detail, DetailTest, Hook, Test};
use crate::packet::Packet;
use crate::ranges::Ranges;
use crate::unknown::PossibleValues;

/// How a condition or a rule stands to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It holds.
    Holds,
    /// It does not hold.
    Fails,
    /// It may hold, and may not.
    Open,
}

impl Answer {
    pub(crate) fn of(holds: bool) -> Answer {
        if holds { Answer::Holds } else { Answer::Fails }
    }

    /// Of the opposite.
    pub(crate) fn negated(self) -> Answer {
        match self {
            Answer::Holds => Answer::Fails,
            Answer::Fails => Answer::Holds,
            Answer::Open => Answer::Open,
        }
    }
}

/// The mark of a packet on its way; `None` where it is not known any more.
pub(crate) type Fwmark = Option<u32>;

/// The mark after a rule's action; `is_sure` unless the rule may not have matched.
pub(crate) fn fwmark_after(mark: Fwmark, action: &Action, is_sure: bool) -> Fwmark {
    match *action {
        Action::SetMark { value, mask } if is_sure => match mark {
            Some(mark) => Some(mark & !mask ^ value),
            // All bits are cleared first.
            None if mask == u32::MAX => Some(value),
            None => None,
        },
        Action::SetMark { .. } | Action::Other { changes: Changes::Mark, .. } => None,
        _ => mark,
    }
}

/// What earlier open answers leave of the details of a packet.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Knowledge {
    left: Vec<(Detail, Ranges)>,
    /// What they leave of unknown fields.
    pub(crate) fields: PossibleValues,
}

const LARGEST: u128 = u64::MAX as u128;

impl Knowledge {
    /// The destination says nothing of its type, since it is not known.
    pub(crate) fn forget_destination(&mut self) {
        self.left.extend(
            Detail::named(Detail::DESTINATION_TYPE).map(|kind| (kind, Ranges::single(0, LARGEST))),
        );
    }

    /// The values that a detail may have.
    fn possible(&self, detail: &Detail, packet: &Packet<'_>, hook: Option<Hook>) -> Ranges {
        if let Some(value) = packet.detail(detail) {
            return Ranges::single(value.into(), value.into());
        }
        let left = self.left.iter().find(|(name, _)| name == detail);
        left.map_or_else(|| possible_at_first(detail, packet, hook), |(_, left)| left.clone())
    }

    /// Goes on with packets that passed a test, or failed it.
    fn assume(&mut self, test: &DetailTest, passed: bool, packet: &Packet<'_>, hook: Option<Hook>) {
        // With a mask, what passes is no list of ranges.
        if test.mask != u64::MAX {
            return;
        }
        let allowed = if passed { test.ranges.clone() } else { test.ranges.complement(LARGEST) };
        let left = self.possible(&test.detail, packet, hook).intersect(&allowed);
        match self.left.iter_mut().find(|(name, _)| *name == test.detail) {
            Some((_, old)) => *old = left,
            None => self.left.push((test.detail.clone(), left)),
        }
    }

    fn answer(&self, test: &DetailTest, packet: &Packet<'_>, hook: Option<Hook>) -> Answer {
        let possible = self.possible(&test.detail, packet, hook);
        if let [(only, last)] = possible.as_slice()
            && only == last
        {
            return Answer::of(test.passes(*only as u64));
        }
        match test.mask {
            u64::MAX if test.ranges.covers(&possible) => Answer::Holds,
            u64::MAX if !test.ranges.overlaps(&possible) => Answer::Fails,
            _ => Answer::Open,
        }
    }
}

/// What a packet's other fields say of a detail.
fn possible_at_first(detail: &Detail, packet: &Packet<'_>, hook: Option<Hook>) -> Ranges {
    let types = |address: IpAddr, never: &[u64], only: &[u64]| {
        let single = |number: u64| Ranges::single(number.into(), number.into());
        let is_broadcast = match address {
            IpAddr::V4(v4) => v4.is_broadcast() || v4.octets()[0] == 0,
            IpAddr::V6(_) => false,
        };
        if address.is_multicast() {
            return single(Detail::MULTICAST);
        }
        if is_broadcast {
            return single(Detail::BROADCAST);
        }
        let fits = |number: &u64| {
            *number != Detail::MULTICAST
                && !never.contains(number)
                && (only.is_empty() || only.contains(number))
        };
        Ranges::new((0..12).filter(fits).map(|number| (number.into(), number.into())).collect())
    };
    // The route that leads to a hook is the type of the destination.
    match (detail.name(), hook) {
        (Detail::DESTINATION_TYPE, Some(Hook::Input)) => {
            let other =
                if packet.destination.is_ipv4() { Detail::BROADCAST } else { Detail::ANYCAST };
            types(packet.destination, &[], &[Detail::LOCAL, other])
        }
        (Detail::DESTINATION_TYPE, Some(Hook::Forward)) => {
            types(packet.destination, &[Detail::LOCAL], &[])
        }
        (Detail::DESTINATION_TYPE, _) => types(packet.destination, &[], &[]),
        (Detail::SOURCE_TYPE, _) => types(packet.source, &[], &[]),
        _ => Ranges::single(0, LARGEST),
    }
}

/// How one question stands, and goes on with the packets for which it holds.
pub(crate) fn ask(
    condition: &Condition,
    packet: &Packet<'_>,
    mark: Fwmark,
    knowledge: &mut Knowledge,
    hook: Option<Hook>,
) -> Answer {
    let answer = match &condition.test {
        Test::Uncertain(_) => Answer::Open,
        Test::Detail(test) => {
            let answer = knowledge.answer(test, packet, hook);
            if answer == Answer::Open {
                knowledge.assume(test, !condition.negated, packet, hook);
            }
            answer
        }
        Test::Mark { value, mask } => match mark {
            _ if *mask == 0 => Answer::of(*value == 0),
            Some(mark) => Answer::of(mark & mask == *value),
            None => Answer::Open,
        },
        test => Answer::of(test.holds_alone(packet) == Some(true)),
    };
    if condition.negated { answer.negated() } else { answer }
}

/// How the questions of a rule stand together. If that is open, `knowledge` becomes what is known
/// of the packets for which all hold (`holds`), or of those for which one fails.
pub(crate) fn ask_all<'c>(
    questions: impl Iterator<Item = &'c Condition> + Clone,
    holds: bool,
    packet: &Packet<'_>,
    mark: Fwmark,
    knowledge: &mut Knowledge,
    hook: Option<Hook>,
) -> Answer {
    let mut inside = knowledge.clone();
    let mut open = Vec::new();
    for question in questions {
        match ask(question, packet, mark, &mut inside, hook) {
            Answer::Holds => {}
            Answer::Fails => return Answer::Fails,
            Answer::Open => open.push(question),
        }
    }
    match open.is_empty() {
        true => return Answer::Holds,
        false if holds => *knowledge = inside,
        false => assume_failed(&open, packet, knowledge, hook),
    }
    Answer::Open
}

/// Goes on with the packets for which one of these open questions fails. Of several, any one may
/// be it, so nothing is known then.
pub(crate) fn assume_failed(
    open: &[&Condition],
    packet: &Packet<'_>,
    knowledge: &mut Knowledge,
    hook: Option<Hook>,
) {
    if let [Condition { test: Test::Detail(test), negated }] = open {
        knowledge.assume(test, *negated, packet, hook);
    }
}
