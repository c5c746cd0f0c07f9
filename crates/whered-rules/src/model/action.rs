//! The actions of rules, and the verdicts on packets.
//!
//! Invariants: texts (log prefixes, site names) hold no line breaks and no double quotes.
//! Concurrency: immutable, texts are shared; a clone allocates nothing.

use std::fmt;
use std::sync::Arc;

use super::ChainId;

/// The action of a rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Lets the packet pass: the end.
    Accept,
    /// Throws the packet away: the end.
    Drop,
    /// Throws it away and tells the sender: the end.
    Reject {
        /// How the sender is told, in iptables' words (`tcp-reset`, `icmp-host-prohibited`).
        with: Option<Arc<str>>,
    },
    /// Chooses a site by name: the end. For policies of pools.
    Site(Arc<str>),
    /// Goes through a chain and comes back, unless that decides.
    Jump(ChainId),
    /// Goes through a chain instead of the rest of this one.
    Goto(ChainId),
    /// Leaves this chain; in a chain that packets enter, its policy decides.
    Return,
    /// Notes the packet in a log and goes on.
    Log {
        /// The first key of each line.
        prefix: Option<Arc<str>>,
        /// The level's name (`warning`) or number.
        level: Option<Arc<str>>,
    },
    /// Changes the packet's mark to `(mark & !mask) ^ value` and goes on.
    SetMark {
        /// The bits to flip after clearing.
        value: u32,
        /// The bits to clear first.
        mask: u32,
    },
    /// Counts the packet and goes on.
    Continue,
    /// Does something that is no verdict and goes on, such as TCPMSS or CHECKSUM.
    Other {
        /// The target as its own format writes it.
        target: Arc<str>,
        /// What later rules may see of it.
        changes: Changes,
    },
    /// Hands the packet to a program, which decides: the end.
    Queue,
}

/// What an action that is no verdict changes of what rules see.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Changes {
    /// Nothing that rules here look at.
    Nothing,
    /// The packet's mark, to a number that is not known here.
    Mark,
}

impl Action {
    /// The verdict of actions that end the evaluation.
    pub fn verdict(&self) -> Option<Verdict> {
        match self {
            Action::Accept => Some(Verdict::Accept),
            Action::Drop => Some(Verdict::Drop),
            Action::Reject { with } => Some(Verdict::Reject { with: with.clone() }),
            Action::Site(name) => Some(Verdict::Site(Arc::clone(name))),
            Action::Queue => Some(Verdict::Queue),
            _ => None,
        }
    }

    /// Whether a rule that matches goes into the list of non-terminal rules: log, mark and
    /// continue.
    pub fn is_noted(&self) -> bool {
        matches!(
            self,
            Action::Log { .. } | Action::SetMark { .. } | Action::Continue | Action::Other { .. }
        )
    }

    /// Whether it may change the packet's mark.
    pub fn changes_fwmark(&self) -> bool {
        matches!(self, Action::SetMark { .. } | Action::Other { changes: Changes::Mark, .. })
    }
}

/// The final verdict on a packet.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// It may pass.
    Accept,
    /// It is thrown away.
    Drop,
    /// It is thrown away and the sender is told.
    Reject {
        /// How the sender is told.
        with: Option<Arc<str>>,
    },
    /// This site was chosen.
    Site(Arc<str>),
    /// The ruleset leaves the decision to whatever comes next.
    Continue,
    /// A program outside the rules decides.
    Queue,
    /// The rules decide in several ways, depending on what no packet tells.
    Maybe,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Accept => f.write_str("accept"),
            Verdict::Drop => f.write_str("drop"),
            Verdict::Reject { with: None } => f.write_str("reject"),
            Verdict::Reject { with: Some(with) } => write!(f, "reject with {with}"),
            Verdict::Site(name) => write!(f, "site {name}"),
            Verdict::Continue => f.write_str("continue"),
            Verdict::Queue => f.write_str("queue"),
            Verdict::Maybe => f.write_str("maybe"),
        }
    }
}
