//! Later fragments, which have no header of their protocol.
//!
//! For: the rules that such a packet meets, as chains of their own. A test of ports, ICMP types or
//! TCP flags does not match a later fragment. nft would read the fragment's data as a header, or
//! the header of IPv6, so that such packets must not come to these tests.
//!
//! ```text
//! chain input                                   chain whered_later_input
//!   frag frag-off != 0 goto whered_later_input ─►  the rules without such tests
//!   ...
//! ```
//!
//! Not for: rules that nft has listed, whose tests read the fragment's data. Packets too short for
//! their header: a load of nft fails there.
//!
//! Concurrency: pure. Cost: linear.

use super::sets::PREFIX;
use crate::hooks::Hook;
use crate::model::{Chain, Ruleset, Test};
use crate::packet::{Family, State};

/// From this priority on packets meet a chain behind the reassembly of conntrack.
const REASSEMBLED_FROM: i32 = -399;

/// The rules for later fragments; `None` where these need no others, or never come.
pub(super) fn rules(prepared: &Ruleset) -> Option<Ruleset> {
    let is_listed = prepared.rules.iter().any(|rule| rule.handle.is_some());
    let asks_header = |test: &Test| {
        matches!(
            test,
            Test::Port(..)
                | Test::EitherPort(_)
                | Test::Icmp(_)
                | Test::Icmpv6(_)
                | Test::TcpFlags { .. }
        )
    };
    let mut conditions = prepared.rules.iter().flat_map(|rule| &rule.conditions);
    let needs_others = conditions.any(|condition| asks_header(&condition.test));
    if is_listed || !needs_others || are_reassembled(prepared) {
        return None;
    }
    let mut later = prepared.clone();
    for chain in &mut later.chains {
        let rules = &prepared.rules;
        chain.rules.retain(|id| {
            !rules[id.index()].conditions.iter().any(|condition| asks_header(&condition.test))
        });
        chain.name = chain_name(&chain.name);
        chain.policy = None;
    }
    Some(later)
}

/// The chain for later fragments that would meet this one.
fn chain_name(chain: &str) -> String {
    format!("{PREFIX}later_{chain}")
}

/// Whether conntrack reassembles packets before they meet any chain: it does where some rule asks
/// for a state.
fn are_reassembled(ruleset: &Ruleset) -> bool {
    let is_behind =
        |chain: &Chain| chain.policy.is_none() || chain.priority.unwrap_or(0) >= REASSEMBLED_FROM;
    let mut conditions = ruleset.rules.iter().flat_map(|rule| &rule.conditions);
    let asks_state = conditions.any(|condition| match &condition.test {
        Test::State(list) => {
            let asked = State::ALL.iter().filter(|state| list.contains(state)).count();
            (1..State::ALL.len()).contains(&asked)
        }
        _ => false,
    });
    asks_state && ruleset.chains.iter().all(is_behind)
}

/// The lines that send later fragments to their chain.
pub(super) fn lines(chain: &Chain, hook: &str, family: Option<Family>) -> String {
    let mut text = String::new();
    let name = chain_name(&chain.name);
    // IPv4 is reassembled before the hook input.
    if family != Some(Family::Ipv6) && hook != Hook::Input.name() {
        text += &format!("\t\tip frag-off & 0x1fff != 0 goto {name}\n");
    }
    if family != Some(Family::Ipv4) {
        text += &format!("\t\tfrag frag-off != 0 goto {name}\n");
    }
    text
}
