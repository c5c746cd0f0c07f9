//! What `[[replica]]` of the configuration says: the primaries, and which of their keys.
//!
//! Not for: reading it (`config`). Invariant: a link's name has everything that its data depend on,
//! so that data that were followed under other settings are not gone on with.

use std::time::Duration;

use whered_engine::glob;
use whered_replication::{Address, ClientTls, Credentials, Endpoint, Follows};

/// A primary, or several, whose keys are followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaOptions {
    /// The primary as the configuration has it, without user and password.
    pub of: String,
    /// Where it is.
    pub source: PrimarySource,
    /// Glob patterns of the keys that are followed.
    pub patterns: Vec<Vec<u8>>,
    /// The numbered database that they are in, there as here.
    pub database: usize,
    /// Behind by more than this, the server is not ready; `None`: that does not matter.
    pub max_lag: Option<Duration>,
}

/// Where one primary is, or how those of several are found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PrimarySource {
    /// One server.
    One(Address),
    /// All shards of a cluster.
    Cluster(Cluster),
    /// The primary that Sentinels name.
    Sentinel(Sentinels),
}

/// A cluster by some of its nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// The nodes that are asked first.
    pub seeds: Vec<Endpoint>,
    /// Who logs in at all nodes.
    pub credentials: Credentials,
    /// Whether all nodes speak TLS.
    pub tls: Option<ClientTls>,
}

/// Sentinels that watch a primary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sentinels {
    /// Where they are.
    pub sentinels: Vec<Endpoint>,
    /// How they call the primary.
    pub name: String,
    /// Who logs in at the primary.
    pub credentials: Credentials,
    /// Whether the primary speaks TLS.
    pub tls: Option<ClientTls>,
}

impl ReplicaOptions {
    /// The followed keys, as another whered is told of them.
    pub(crate) fn follows(&self) -> Follows {
        Follows { database: self.database as u32, patterns: self.patterns.clone() }
    }

    /// The name of its link, or the beginning of those of its links. Texts in it are quoted and it
    /// ends with a bracket: no name is the beginning of another.
    #[must_use]
    pub fn link_name(&self) -> String {
        let quoted = |pattern: &Vec<u8>| format!("\"{}\"", pattern.escape_ascii());
        let patterns: Vec<String> = self.patterns.iter().map(quoted).collect();
        format!("{:?} database {} match [{}]", self.of, self.database, patterns.join(", "))
    }

    /// Whether a key of that database is followed.
    #[must_use]
    pub fn has(&self, database: u64, key: &[u8]) -> bool {
        database == self.database as u64
            && self.patterns.iter().any(|pattern| glob::matches(pattern, key))
    }

    /// A pattern of this and one of another that some key matches both.
    #[must_use]
    pub fn overlap<'a>(&'a self, other: &'a ReplicaOptions) -> Option<(&'a [u8], &'a [u8])> {
        if self.database != other.database {
            return None;
        }
        let pairs =
            self.patterns.iter().flat_map(|own| other.patterns.iter().map(move |it| (own, it)));
        let mut overlapping = pairs.filter(|(own, it)| can_both_match(own, it));
        overlapping.next().map(|(own, it)| (&own[..], &it[..]))
    }
}

/// A part of a pattern.
enum Part {
    /// Any bytes.
    Star,
    /// One byte of these.
    One(Box<[bool; 256]>),
}

/// Whether some text matches both patterns. O(length times length).
fn can_both_match(one: &[u8], other: &[u8]) -> bool {
    let (one, other) = (parts(one), parts(other));
    // A class of no bytes matches nothing.
    let is_empty = |part: &Part| matches!(part, Part::One(bytes) if !bytes.contains(&true));
    if one.iter().chain(&other).any(is_empty) {
        return false;
    }
    // Whether the rest of one, from a part on, and the rest of the other have a text in common.
    let mut below = vec![false; other.len() + 1];
    for i in (0..=one.len()).rev() {
        let mut row = vec![false; other.len() + 1];
        for j in (0..=other.len()).rev() {
            row[j] = match (one.get(i), other.get(j)) {
                (None, None) => true,
                (Some(Part::Star), None) => below[j],
                (None, Some(Part::Star)) => row[j + 1],
                (None, _) | (_, None) => false,
                // A star takes nothing more, or what the other part takes.
                (Some(Part::Star), Some(_)) | (Some(_), Some(Part::Star)) => below[j] || row[j + 1],
                (Some(Part::One(a)), Some(Part::One(b))) => {
                    below[j + 1] && a.iter().zip(b.iter()).any(|(a, b)| *a && *b)
                }
            };
        }
        below = row;
    }
    below[0]
}

/// The parts of a pattern, by the rules of `glob`.
fn parts(pattern: &[u8]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.first() {
        let len = match first {
            b'*' => {
                parts.push(Part::Star);
                rest = &rest[1..];
                continue;
            }
            b'[' => class_len(rest),
            b'\\' if rest.len() > 1 => 2,
            _ => 1,
        };
        let (part, after) = rest.split_at(len);
        let is_allowed = std::array::from_fn(|byte| glob::matches(part, &[byte as u8]));
        parts.push(Part::One(Box::new(is_allowed)));
        rest = after;
    }
    parts
}

/// The length of the class that a pattern begins with.
fn class_len(pattern: &[u8]) -> usize {
    let mut at = if pattern.get(1) == Some(&b'^') { 2 } else { 1 };
    while let Some(byte) = pattern.get(at) {
        match byte {
            b']' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    pattern.len()
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
