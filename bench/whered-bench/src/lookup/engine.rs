//! What is measured: an engine, and a task that is put to it.
//!
//! Not for engines themselves (`database`, and rivals in `bench/versus`). An engine is called once
//! for thousands of addresses, so that what the call costs does not count.

use super::addresses::AddressList;
use super::checksum::Octets;
use std::fmt;
use std::ops::Range;

/// The most addresses that a batch holds.
pub const BATCH_SIZE: usize = 64;

/// How addresses are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// As numbers.
    Binary,
    /// As text.
    Text,
}

/// How many addresses are looked up at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Calls {
    /// One a call.
    Single,
    /// Up to [`BATCH_SIZE`] a call, in arrival order.
    Batch,
}

/// What is asked of each address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wants {
    /// A handle to the record, such as the number of its row. What record that is, is asked after
    /// the clock has stopped ([`Engine::settle`]).
    Row,
    /// The record's place in the data section.
    Record,
    /// Country code, English name of the city, latitude, longitude; borrowed from the engine.
    Fields,
    /// The fields, copied into memory of the caller.
    Copies,
    /// Like `Fields`, with every octet in the checksum. Not timed: it checks the others.
    Octets,
}

impl Wants {
    /// Which octets of the texts the checksum counts.
    #[must_use]
    pub fn octets(self) -> Octets {
        if self == Wants::Octets { Octets::All } else { Octets::Ends }
    }
}

/// What is done with a list of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Task {
    /// How addresses are given.
    pub input: Input,
    /// How many addresses are looked up at once.
    pub calls: Calls,
    /// What is asked of each address.
    pub wants: Wants,
}

impl Task {
    /// Every task that is timed, the simplest first.
    #[must_use]
    pub fn all() -> Vec<Task> {
        let mut tasks = Vec::new();
        for wants in [Wants::Row, Wants::Record, Wants::Fields, Wants::Copies] {
            for input in [Input::Binary, Input::Text] {
                for calls in [Calls::Single, Calls::Batch] {
                    tasks.push(Task { input, calls, wants });
                }
            }
        }
        tasks
    }

    /// Whether the fields of records are read.
    #[must_use]
    pub fn has_fields(self) -> bool {
        matches!(self.wants, Wants::Fields | Wants::Copies | Wants::Octets)
    }
}

impl fmt::Display for Input {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Input::Binary => "binary",
            Input::Text => "text",
        })
    }
}

impl fmt::Display for Wants {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Wants::Row => "row",
            Wants::Record => "record",
            Wants::Fields => "fields",
            Wants::Copies => "copies",
            Wants::Octets => "octets",
        })
    }
}

impl fmt::Display for Task {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = match self.calls {
            Calls::Single => "single",
            Calls::Batch => "batch",
        };
        write!(out, "{}->{}/{calls}", self.input, self.wants)
    }
}

/// Something that answers for addresses.
pub trait Engine: Sync {
    /// A short name without blanks.
    fn name(&self) -> String;

    /// How it is set up and called, for the record.
    fn settings(&self) -> String;

    /// Whether it has a call of its own for such a task.
    fn can(&self, task: Task) -> bool;

    /// Looks part of a list up and gives the sum of the shares that [`super::checksum`] describes.
    ///
    /// # Errors
    ///
    /// The engine could not answer; one line saying why.
    fn run(&self, task: Task, list: &AddressList, part: Range<usize>) -> Result<u64, String>;

    /// Whether a tenth of the addresses is enough for it.
    fn is_slow(&self) -> bool {
        false
    }

    /// What a sum is in everybody's terms, where the engine summed handles of its own up: the sum
    /// of the same lookups' shares. Not timed.
    ///
    /// # Errors
    ///
    /// The lookups, done once more, do not give that sum.
    fn settle(
        &self,
        _task: Task,
        _list: &AddressList,
        _part: Range<usize>,
        sum: u64,
    ) -> Result<u64, String> {
        Ok(sum)
    }

    /// The bytes of memory that it needs over the file itself, by what they are for.
    fn memory(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    /// How many places in memory a lookup reads one after the other.
    fn accesses(&self, _list: &AddressList, _index: usize) -> Option<usize> {
        None
    }
}
