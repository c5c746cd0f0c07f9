//! How many records a capture had, and why some of them were skipped.
//!
//! Not for errors: what is skipped here is sound for its format, but no packet that can be judged.

use std::fmt;

/// Why a record was skipped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Skip {
    /// The frame carries something else than IP, such as ARP.
    NotIp,
    /// The capture kept too little of the frame to see all of its fields.
    Cut,
    /// Its IP header or the transport header behind it breaks its own lengths.
    BadHeader,
    /// Its interface has a link type that is not read here.
    LinkType,
    /// A flow of a protocol that the log does not name.
    UnknownProtocol,
}

impl Skip {
    /// All of them, in the order of the totals.
    pub const ALL: [Skip; 5] =
        [Skip::NotIp, Skip::Cut, Skip::BadHeader, Skip::LinkType, Skip::UnknownProtocol];

    /// A few words for a person.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Skip::NotIp => "not IP",
            Skip::Cut => "cut short",
            Skip::BadHeader => "broken header",
            Skip::LinkType => "unsupported link type",
            Skip::UnknownProtocol => "unknown protocol",
        }
    }
}

/// Counts of a capture, as far as it has been read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    records: u64,
    skipped: [u64; Skip::ALL.len()],
}

impl Totals {
    /// All records, with those that were skipped.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Those skipped for this reason.
    #[must_use]
    pub fn skipped(&self, reason: Skip) -> u64 {
        self.skipped[reason as usize]
    }

    /// Those skipped for any reason.
    #[must_use]
    pub fn skipped_sum(&self) -> u64 {
        self.skipped.iter().sum()
    }

    /// Counts a record and gives its number, from 1.
    #[inline]
    pub(crate) fn count_record(&mut self) -> u64 {
        self.records += 1;
        self.records
    }

    #[inline]
    pub(crate) fn count_skip(&mut self, reason: Skip) {
        self.skipped[reason as usize] += 1;
    }
}

/// One line: `10 records, 3 skipped (2 not IP, 1 cut short)`.
impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records", self.records)?;
        if self.skipped_sum() == 0 {
            return Ok(());
        }
        write!(f, ", {} skipped", self.skipped_sum())?;
        let mut separator = " (";
        for reason in Skip::ALL.into_iter().filter(|&reason| self.skipped(reason) > 0) {
            write!(f, "{separator}{} {}", self.skipped(reason), reason.words())?;
            separator = ", ";
        }
        f.write_str(")")
    }
}
