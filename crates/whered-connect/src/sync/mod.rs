//! A prefix set kept in step with a live set of the kernel's packet filter.
//!
//! For: `whered sync`: sets of nf_tables over netlink, ipsets by their program. Not for: rules that
//! ask these sets, terminals, signals.
//!
//! ```text
//! Source ──members──► pieces_of ──wanted──┐
//!  a server's set                         ├─ Difference ──► Sink ──► the kernel
//!  a list in a file            held ──────┘      (first, or after a fault: everything at once)
//! ```
//!
//! Invariants: a member that was listed before a change and is listed after it is never missing
//! between: nf_tables gets one transaction; an ipset gets additions first, or is filled beside the
//! old one and swapped. The sink's set belongs to us: what others put there goes.
//! A source that fails changes nothing. The set's identity and content are watched (`watch`,
//! `drift`): what others do to it is reported and repaired.
//!
//! At once: one thread. Cost: reading and sorting the members at each change, some 60 ms for
//! 500,000; what the kernel does is in `docs/design/sync.md`.

mod drift;
mod elements;
mod ipset;
mod netlink;
mod nft;
mod pieces;
mod program;
mod ruleset;
mod source;
mod table;
mod target;
mod verdicts;
mod watch;

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use drift::{Comparison, judge};
pub use drift::{Content, Drift, ReadBack};
pub use ipset::Ipset;
pub use nft::NftSet;
pub use pieces::{Difference, Family, Member, Piece, pieces_of};
pub use ruleset::RulesetSource;
pub use source::{FileSource, ServerSource, Source};
pub use table::TableWatch;
pub use target::Target;
pub use verdicts::{MapChange, MapFault, change_maps};

use crate::error::ConnectError;

/// The longest pause between two whole comparisons, if nothing else is said.
pub const COMPARE_EVERY: Duration = Duration::from_secs(60);

/// What can be written as a person would type it.
#[derive(Clone, Copy, Debug)]
pub enum Transaction<'a> {
    /// Everything anew.
    Replace(&'a [Piece]),
    /// What differs.
    Change(&'a Difference),
}

/// A set of the kernel.
pub trait Sink {
    /// What it is, for messages.
    fn name(&self) -> String;

    /// The family of its addresses.
    fn family(&self) -> Family;

    /// Looks at the set, or makes it; to be called before it is replaced.
    ///
    /// # Errors
    ///
    /// If it is not there, not permitted, or of a kind that cannot hold members.
    fn prepare(&mut self) -> Result<(), ConnectError>;

    /// The pieces as this set can hold them.
    ///
    /// # Errors
    ///
    /// If one of them cannot be held, which is named.
    fn shape(&self, pieces: Vec<Piece>) -> Result<Vec<Piece>, ConnectError>;

    /// Whether the set drops a piece by itself when it ends.
    fn ends_itself(&self, piece: &Piece, now_millis: u64) -> bool;

    /// Holds these pieces and nothing else, at once.
    ///
    /// # Errors
    ///
    /// What the kernel refused; then the set is as before.
    fn replace(&mut self, pieces: &[Piece], now_millis: u64) -> Result<(), ConnectError>;

    /// Changes the set.
    ///
    /// # Errors
    ///
    /// What the kernel refused.
    fn change(&mut self, difference: &Difference, now_millis: u64) -> Result<(), ConnectError>;

    /// Whether it is still the set that was written last and nobody else is known to have changed
    /// it.
    ///
    /// # Errors
    ///
    /// If it cannot be asked.
    fn is_intact(&mut self, held: &[Piece], now_millis: u64) -> Result<bool, ConnectError>;

    /// Whether [`Sink::is_intact`] notices every change that another program makes. Where it does
    /// not, the set is compared as often as it costs little.
    fn announces_changes(&self) -> bool;

    /// A job that reads the whole set back; it may take seconds.
    fn read_back(&self) -> ReadBack;

    /// Writes a transaction as text.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    fn write(&self, what: Transaction<'_>, now_millis: u64, out: &mut dyn Write) -> io::Result<()>;
}

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing had changed.
    Same,
    /// The whole set was written.
    Replaced {
        /// How many pieces it has.
        pieces: usize,
    },
    /// The set was changed.
    Changed {
        /// Pieces added, or held until another time.
        added: usize,
        /// Pieces removed.
        removed: usize,
    },
}

/// A sink, and what it holds.
pub struct Follower {
    sink: Box<dyn Sink>,
    held: Option<Vec<Piece>>,
    /// The longest pause between two whole comparisons.
    compare_every: Duration,
    comparison: Comparison,
}

impl Follower {
    /// A follower that knows nothing of its set yet: its first step replaces it.
    #[must_use]
    pub fn new(sink: Box<dyn Sink>) -> Follower {
        Follower { sink, held: None, compare_every: COMPARE_EVERY, comparison: Comparison::new() }
    }

    /// With another pause between two whole comparisons.
    #[must_use]
    pub fn comparing_every(self, compare_every: Duration) -> Follower {
        Follower { compare_every, ..self }
    }

    /// The set.
    #[must_use]
    pub fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    /// Looks at the set before anything is written.
    ///
    /// # Errors
    ///
    /// As [`Sink::prepare`].
    pub fn prepare(&mut self) -> Result<(), ConnectError> {
        self.sink.prepare()
    }

    /// How many elements the set would get, and how many it has that nobody here has written;
    /// nothing where it cannot be read. Reads the whole set.
    #[must_use]
    pub fn would_replace(&self, members: &[Member], now_millis: u64) -> Option<(usize, usize)> {
        let wanted = self.wanted(members, now_millis).ok()?;
        let content = self.sink.read_back()().ok()??;
        Some((wanted.len(), content.pieces.len() + content.foreign))
    }

    /// Looks whether the set is still what was written, and forgets what is held if it is not, so
    /// that the next step replaces it. Begins a whole comparison when it is time for one, and
    /// judges it when it has ended.
    ///
    /// # Errors
    ///
    /// If the set cannot be asked.
    pub fn check(&mut self, now_millis: u64) -> Result<Option<Drift>, ConnectError> {
        let Some(held) = &self.held else { return Ok(None) };
        let mut drift = None;
        if self.sink.is_intact(held, now_millis)? {
            let every = self.comparison.pause(self.compare_every, self.sink.announces_changes());
            if self.comparison.is_due(every) {
                self.comparison.begin(self.sink.read_back(), held);
            }
            if let Some((before, content)) = self.comparison.ended()? {
                drift = judge(&content, &before, held, now_millis);
            }
        } else {
            drift = Some(Drift::Touched);
        }
        if drift.is_some() {
            self.held = None;
            self.comparison.forget();
        }
        Ok(drift)
    }

    /// Brings the set in step with the members.
    ///
    /// A change that the kernel refuses, since somebody else has changed the set, becomes a
    /// replacement.
    ///
    /// # Errors
    ///
    /// What the kernel refused; the next step begins anew.
    pub fn step(&mut self, members: &[Member], now_millis: u64) -> Result<Step, ConnectError> {
        let mut wanted = self.wanted(members, now_millis)?;
        if let Some(held) = &self.held {
            let difference = self.difference(held, &mut wanted, now_millis);
            if difference.is_empty() {
                self.held = Some(wanted);
                return Ok(Step::Same);
            }
            if self.sink.change(&difference, now_millis).is_ok() {
                self.held = Some(wanted);
                let added = difference.add.len() + difference.renew.len();
                return Ok(Step::Changed { added, removed: difference.remove.len() });
            }
        }
        self.held = None;
        self.sink.prepare()?;
        // Whether it could be held is known only now that the set has been looked at.
        let wanted = self.wanted(members, now_millis)?;
        self.sink.replace(&wanted, now_millis)?;
        let pieces = wanted.len();
        self.held = Some(wanted);
        self.comparison.forget();
        Ok(Step::Replaced { pieces })
    }

    /// Writes what a step would do, and takes it as done.
    ///
    /// # Errors
    ///
    /// A member that the set cannot hold, or the writer's errors.
    pub fn rehearse(
        &mut self,
        members: &[Member],
        now_millis: u64,
        out: &mut dyn Write,
    ) -> Result<(), ConnectError> {
        let mut wanted = self.wanted(members, now_millis)?;
        let written = match &self.held {
            None => self.sink.write(Transaction::Replace(&wanted), now_millis, out),
            Some(held) => {
                let difference = self.difference(held, &mut wanted, now_millis);
                self.sink.write(Transaction::Change(&difference), now_millis, out)
            }
        };
        self.held = Some(wanted);
        written.map_err(|error| ConnectError::new(format!("output: {error}")))
    }

    fn wanted(&self, members: &[Member], now_millis: u64) -> Result<Vec<Piece>, ConnectError> {
        self.sink.shape(pieces_of(members, self.sink.family(), now_millis))
    }

    fn difference(&self, held: &[Piece], wanted: &mut [Piece], now_millis: u64) -> Difference {
        let mut difference = Difference::between(held, wanted);
        // What has ended by itself is not there to be removed.
        let is_there = |piece: &Piece| {
            piece.until_millis.is_none_or(|until| until > now_millis)
                || !self.sink.ends_itself(piece, now_millis)
        };
        difference.remove.retain(is_there);
        difference
    }
}

/// The time, in milliseconds since 1970.
#[must_use]
pub fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
