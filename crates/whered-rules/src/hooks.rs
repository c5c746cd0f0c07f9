//! Which chains of the kernel one packet meets.
//!
//! For: refusing to answer for one chain where another one has a say too. Not for: evaluating
//! several chains; a ruleset is entered by one.
//!
//! ```text
//! ingress ─ prerouting ─┬─ input
//!                       └─ forward ─┐
//!           output ─────────────────┴─ postrouting ─ egress
//! ```

use std::fmt;

use crate::model::{Ruleset, Verdict};

/// A place in the kernel where packets enter chains.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Hook {
    /// Before anything else, by interface.
    Ingress,
    /// Before the route is chosen.
    Prerouting,
    /// To this machine.
    Input,
    /// Through this machine.
    Forward,
    /// From this machine.
    Output,
    /// After the route is chosen.
    Postrouting,
    /// After everything else, by interface.
    Egress,
}

impl Hook {
    const NAMES: [(Hook, &str); 7] = [
        (Hook::Ingress, "ingress"),
        (Hook::Prerouting, "prerouting"),
        (Hook::Input, "input"),
        (Hook::Forward, "forward"),
        (Hook::Output, "output"),
        (Hook::Postrouting, "postrouting"),
        (Hook::Egress, "egress"),
    ];

    /// The hook of this name, in any case.
    pub fn named(name: &str) -> Option<Hook> {
        let is = |(_, known): &&(Hook, &str)| known.eq_ignore_ascii_case(name);
        Hook::NAMES.iter().find(is).map(|&(hook, _)| hook)
    }

    /// The name, as nft writes it.
    pub fn name(self) -> &'static str {
        Hook::NAMES.iter().find(|(hook, _)| *hook == self).map_or("", |&(_, name)| name)
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The hooks that a packet of each hook meets, itself included.
const MET: [(&str, &[&str]); 7] = [
    ("ingress", &["ingress", "prerouting", "input", "forward", "postrouting", "egress"]),
    ("prerouting", &["ingress", "prerouting", "input", "forward", "postrouting", "egress"]),
    ("input", &["ingress", "prerouting", "input"]),
    ("forward", &["ingress", "prerouting", "forward", "postrouting", "egress"]),
    ("output", &["output", "postrouting", "egress"]),
    ("postrouting", &["ingress", "prerouting", "forward", "output", "postrouting", "egress"]),
    ("egress", &["ingress", "prerouting", "forward", "output", "postrouting", "egress"]),
];

/// Whether a packet that meets chains of one hook may meet those of the other. Hooks that are not
/// known may meet all.
pub(crate) fn meet(one: &str, other: &str) -> bool {
    let find = |hook: &str| MET.iter().find(|(name, _)| name.eq_ignore_ascii_case(hook));
    match (find(one), find(other)) {
        (Some((_, matched)), Some((other, _))) => matched.contains(other),
        _ => true,
    }
}

/// Which chain is evaluated, where nobody chose it and others have something to say, too.
pub(crate) fn remark_on_entry(file: &str, ruleset: &Ruleset) -> Option<String> {
    let entry = ruleset.entry();
    let others = ruleset.base_chains().filter(|&id| {
        let chain = ruleset.chain(id);
        id != entry && (!chain.rules.is_empty() || chain.policy != Some(Verdict::Accept))
    });
    let others: Vec<&str> = others.map(|id| ruleset.chain(id).name.as_str()).collect();
    let entry = &ruleset.chain(entry).name;
    let others = others.join(" or ");
    (!others.is_empty())
        .then(|| format!("{file}: chain {entry} is evaluated; --chain chooses {others} instead"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_meet_each_other_both_ways() {
        for (one, _) in MET {
            assert!(meet(one, one));
            for (other, _) in MET {
                assert_eq!(meet(one, other), meet(other, one), "{one} {other}");
            }
        }
        assert!(meet("INPUT", "PREROUTING"));
        assert!(!meet("input", "forward"));
        assert!(!meet("input", "output"));
        assert!(meet("output", "postrouting"));
    }
}
