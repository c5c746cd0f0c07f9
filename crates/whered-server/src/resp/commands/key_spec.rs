//! The arguments of a command that are keys or channels.
//!
//! For: permissions, watched keys, `COMMAND GETKEYS` and `COMMAND GETKEYSANDFLAGS`.
//! Not for: checking the request: one that is wrong may have fewer keys than it seems.
//!
//! ```text
//! RENAME a b                    keys: [at(1, Move), at(2, Overwrite)]     a, b
//! DEL a b c                     keys: [from(1, Delete)]                   a, b, c
//! GEORADIUS a .. STORE b        keys: [at(1, Read), stored(6)]            a, b
//! MSET a 1 b 2                  keys: [every(1, 2, Overwrite)]            a, b
//! BZPOPMIN a b 10               keys: [before_end(1, 1, Move)]            a, b
//! ZUNION 2 a b WITHSCORES       keys: [counted(1, Read)]                  a, b
//! MSETEX 2 a 1 b 2 EX 10        keys: [counted_pairs(1, Overwrite)]       a, b
//! ```
//!
//! Cost: constant, and for `stored` one comparison for each argument.

use std::iter::StepBy;
use std::ops::Range;

use crate::resp::number;
use crate::resp::protocol::Args;

/// Some arguments of a command that are keys, and what it does to each of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpec {
    arguments: Arguments,
    pub(super) access: Access,
}

/// How keys are found among the arguments.
#[derive(Clone, Copy, Debug)]
enum Arguments {
    /// The argument at an index.
    At(usize),
    /// All arguments from an index on.
    From(usize),
    /// Those from an index on but for the last N.
    BeforeEnd(usize, usize),
    /// Those from an index on by steps.
    Every(usize, usize),
    /// Those behind their number, which stands at an index.
    Counted(usize),
    /// As `Counted`, each with a value behind it.
    CountedPairs(usize),
    /// The argument behind the last `STORE` or `STOREDIST`; the options begin at an index.
    Stored(usize),
    /// The argument behind the last `STORE` of `SORT`, none of whose other options' values is one.
    StoredBySort,
}

/// What a command does to one of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Reads metadata, not the value.
    Look,
    /// Reads the value.
    Read,
    /// Changes the value.
    Update,
    /// Replaces the value, whatever it was.
    Overwrite,
    /// Reads the value and changes it.
    Exchange,
    /// Adds to the value.
    Extend,
    /// Sets the value where there is none.
    Create,
    /// Removes a part of the value.
    Shorten,
    /// Removes the key.
    Delete,
    /// Removes the key and uses its value.
    Move,
}

/// The arguments of a command that are channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Channels {
    /// None of them.
    None,
    /// The first one.
    First,
    /// All of them.
    All,
    /// All of them, as patterns.
    Patterns,
}

impl Access {
    /// Whether the key can be changed.
    pub(super) fn writes(self) -> bool {
        !matches!(self, Access::Look | Access::Read)
    }

    /// Whether the key can hold a value afterwards that it did not hold.
    pub(crate) fn fills(self) -> bool {
        self.writes() && !matches!(self, Access::Shorten | Access::Delete | Access::Move)
    }
}

impl KeySpec {
    /// One key at an index.
    pub(super) const fn at(index: usize, access: Access) -> KeySpec {
        KeySpec { arguments: Arguments::At(index), access }
    }

    /// Keys from an index to the end.
    pub(super) const fn from(first: usize, access: Access) -> KeySpec {
        KeySpec { arguments: Arguments::From(first), access }
    }

    /// Keys from an index on but for the last N arguments.
    pub(super) const fn before_end(first: usize, left: usize, access: Access) -> KeySpec {
        KeySpec { arguments: Arguments::BeforeEnd(first, left), access }
    }

    /// Keys from an index on, by steps.
    pub(super) const fn every(first: usize, step: usize, access: Access) -> KeySpec {
        KeySpec { arguments: Arguments::Every(first, step), access }
    }

    /// Keys behind their number, which stands at an index; none where that is wrong.
    pub(super) const fn counted(index: usize, access: Access) -> KeySpec {
        KeySpec { arguments: Arguments::Counted(index), access }
    }

    /// As [`counted`](Self::counted), with a value behind each key.
    pub(super) const fn counted_pairs(index: usize, access: Access) -> KeySpec {
        KeySpec { arguments: Arguments::CountedPairs(index), access }
    }

    /// The key behind `STORE` or `STOREDIST`, which is overwritten; the options begin at an index.
    pub(super) const fn stored(options: usize) -> KeySpec {
        KeySpec { arguments: Arguments::Stored(options), access: Access::Overwrite }
    }

    /// The key behind `STORE` of `SORT`, which is overwritten.
    pub(super) const fn stored_by_sort() -> KeySpec {
        KeySpec { arguments: Arguments::StoredBySort, access: Access::Overwrite }
    }

    /// The keys of a request, and what is done to each.
    pub(super) fn keys_of<'a>(self, args: Args<'a>) -> impl Iterator<Item = (&'a [u8], Access)> {
        self.indexes(args).map(move |index| (args.at(index), self.access))
    }

    /// Whether its keys can only be found by looking at the arguments before them.
    pub(super) fn is_movable(&self) -> bool {
        matches!(
            self.arguments,
            Arguments::Counted(_)
                | Arguments::CountedPairs(_)
                | Arguments::Stored(_)
                | Arguments::StoredBySort
        )
    }

    /// The indexes of the keys in a request.
    pub(super) fn indexes(self, args: Args<'_>) -> StepBy<Range<usize>> {
        let count = args.len();
        let (range, step) = match self.arguments {
            Arguments::At(index) => (index.min(count)..(index + 1).min(count), 1),
            Arguments::From(first) => (first.min(count)..count, 1),
            Arguments::BeforeEnd(first, left) => (first..count.saturating_sub(left), 1),
            Arguments::Every(first, step) => (first..count, step),
            Arguments::Counted(index) => (counted(args, index, 1), 1),
            Arguments::CountedPairs(index) => (counted(args, index, 2), 2),
            Arguments::Stored(options) => (one(stored_index(args, options)), 1),
            Arguments::StoredBySort => (one(sort_target(args)), 1),
        };
        range.step_by(step)
    }
}

/// The first key, the last (-1: to the end) and the step, as `COMMAND INFO` shows them; zeros
/// without keys. A key behind an option is not among them, as in Redis.
pub(super) fn range_of(specs: &[KeySpec]) -> [i64; 3] {
    let ranges = specs.iter().filter_map(|spec| match spec.arguments {
        Arguments::At(index) => Some([index as i64, index as i64, 1]),
        Arguments::From(first) => Some([first as i64, -1, 1]),
        Arguments::BeforeEnd(first, left) => Some([first as i64, -1 - left as i64, 1]),
        Arguments::Every(first, step) => Some([first as i64, -1, step as i64]),
        Arguments::Counted(_)
        | Arguments::CountedPairs(_)
        | Arguments::Stored(_)
        | Arguments::StoredBySort => None,
    });
    ranges.reduce(|[first, ..], [_, last, step]| [first, last, step]).unwrap_or_default()
}

impl Channels {
    /// The channels of a request; `true` beside those that are patterns.
    pub(super) fn of(self, args: Args<'_>) -> impl Iterator<Item = (&[u8], bool)> {
        let (count, is_pattern) = match self {
            Channels::None => (0, false),
            Channels::First => (1, false),
            Channels::All => (usize::MAX, false),
            Channels::Patterns => (usize::MAX, true),
        };
        args.from(1).take(count).map(move |channel| (channel, is_pattern))
    }
}

/// The keys behind their number, with the arguments that belong to each: none if it is no number,
/// or there are fewer arguments.
fn counted(args: Args<'_>, index: usize, arguments_each: usize) -> Range<usize> {
    let number = args.get(index).and_then(number::integer);
    let count = number.and_then(|count| usize::try_from(count).ok());
    let count = count.and_then(|count| count.checked_mul(arguments_each));
    let end = count.and_then(|count| count.checked_add(index + 1));
    end.filter(|end| *end <= args.len()).map_or(0..0, |end| index + 1..end)
}

/// Of several targets the last one is stored into. (Redis 7.0.15 names the first of each word here
/// but stores as Valkey 9 and we do; permissions and watched keys need what is stored into.)
fn stored_index(args: Args<'_>, options: usize) -> Option<usize> {
    let (mut at, mut target) = (options, None);
    while at + 1 < args.len() {
        if args.is(at, "store") || args.is(at, "storedist") {
            at += 1;
            target = Some(at);
        }
        at += 1;
    }
    target
}

/// As `stored_index`, of `SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC]
/// [ALPHA] [STORE key]`. A pattern may be the word of an option.
fn sort_target(args: Args<'_>) -> Option<usize> {
    let (mut at, mut target) = (2, None);
    while at + 1 < args.len() {
        at += match () {
            () if args.is(at, "store") => {
                target = Some(at + 1);
                2
            }
            () if args.is(at, "by") || args.is(at, "get") => 2,
            () if args.is(at, "limit") => 3,
            () => 1,
        };
    }
    target
}

/// An index as a range.
fn one(index: Option<usize>) -> Range<usize> {
    index.map_or(0..0, |index| index..index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key that a request stores into.
    fn stored(spec: KeySpec, request: &str) -> Vec<String> {
        let mut spans = Vec::new();
        for word in request.split(' ') {
            let start = word.as_ptr() as usize - request.as_ptr() as usize;
            spans.push((start, start + word.len()));
        }
        let keys = spec.keys_of(Args::new(request.as_bytes(), &spans));
        keys.map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect()
    }

    #[test]
    fn the_target_of_sort_is_behind_the_option_store_and_no_value_of_another_option() {
        for (request, key) in [
            ("SORT l STORE dst", Some("dst")),
            ("SORT l BY store STORE dst", Some("dst")),
            ("SORT l GET store GET STORE store dst", Some("dst")),
            ("SORT l LIMIT 0 10 ALPHA STORE storedist", Some("storedist")),
            ("SORT l STORE a STORE b", Some("b")),
            ("SORT l STORE by STORE b", Some("b")),
            ("SORT l DESC STOREDIST dst", None),
            ("SORT l BY store", None),
            ("SORT store dst", None),
            ("SORT l STORE", None),
        ] {
            let expected: Vec<&str> = key.into_iter().collect();
            assert_eq!(stored(KeySpec::stored_by_sort(), request), expected, "{request}");
        }
        let radius = "GEORADIUS g 1 2 3 km STORE a STOREDIST b";
        assert_eq!(stored(KeySpec::stored(6), radius), ["b"]);
    }
}
