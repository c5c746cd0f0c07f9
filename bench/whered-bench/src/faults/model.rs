//! What one connection may find after a crash: a model of its own keys, prefixes and sites.
//!
//! For: making units of work whose replies are known beforehand, and saying what is kept after any
//! number of them. Not for asking a server (`state.rs`) nor for sending (`lane.rs`).
//!
//! ```text
//! base ── unit 0 ── unit 1 ── ... ── unit n        one lane; nobody else touches its names
//!          acknowledged ────╯         ╰ sent
//! after a crash: the state behind some k units, acknowledged <= k <= sent, and nothing between
//! ```
//!
//! Invariants: every write of a lane is one [`Op`]; a unit's operations are kept together or not at
//! all; only keys appear in units of several operations, since transactions promise that for keys.
//! Scores are whole numbers: cells of 52 bits, and small sums of `ZINCRBY`, by which an operation
//! that was replayed twice is found out.

use std::collections::BTreeMap;

use super::value::Value;
use crate::Random;

/// How many collections and how many texts a lane has.
pub(super) const KEYS: u64 = 4;
/// How many prefixes a lane adds and removes.
pub(super) const PREFIXES: u64 = 24;
const MEMBERS: u64 = 40;
const SITES: u64 = 5;
/// How long a text with a short life lives.
pub(super) const BRIEF_MILLISECONDS: u64 = 60;

/// A place that points are put at, as its texts, and the cell that the server made of it.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) longitude: String,
    pub(super) latitude: String,
    pub(super) cell: i64,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Scores(BTreeMap<String, i64>),
    Text(String),
}

/// A site: longitude, latitude, and whether it is up.
pub(super) type Site = (i64, i64, bool);

/// Everything that a lane keeps on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Values with the moment of their end, in milliseconds since 1970.
    pub(super) keys: BTreeMap<String, (Kept, Option<u64>)>,
    /// Address and value of each prefix.
    pub(super) prefixes: BTreeMap<String, String>,
    /// Sites by name.
    pub(super) sites: BTreeMap<String, Site>,
}

/// One write.
#[derive(Clone, Debug)]
pub(super) enum Op {
    GeoAdd { key: String, points: Vec<(Spot, String)> },
    ZAdd { key: String, score: i64, member: String },
    ZIncrBy { key: String, by: i64, member: String },
    ZRem { key: String, members: Vec<String> },
    Del { key: String },
    Rename { from: String, to: String },
    Copy { from: String, to: String },
    Set { key: String, text: String, ends: Option<u64> },
    EndAt { key: String, ends: u64 },
    CidrAdd { set: String, address: String, value: String },
    CidrRem { set: String, address: String },
    SiteAdd { pool: String, site: String, at: (i64, i64) },
    SiteMove { pool: String, site: String, at: (i64, i64) },
    SiteHealth { pool: String, site: String, up: bool },
    SiteRem { pool: String, site: String },
}

impl Op {
    /// The command's words.
    pub(super) fn words(&self) -> Vec<String> {
        let words: Vec<&str>;
        let (one, two);
        match self {
            Op::GeoAdd { key, points } => {
                let mut words = vec!["GEOADD".to_owned(), key.clone()];
                for (spot, member) in points {
                    words.extend([spot.longitude.clone(), spot.latitude.clone(), member.clone()]);
                }
                return words;
            }
            Op::ZAdd { key, score, member } => {
                one = score.to_string();
                words = vec!["ZADD", key, &one, member];
            }
            Op::ZIncrBy { key, by, member } => {
                one = by.to_string();
                words = vec!["ZINCRBY", key, &one, member];
            }
            Op::ZRem { key, members } => {
                words =
                    ["ZREM", key].into_iter().chain(members.iter().map(String::as_str)).collect();
            }
            Op::Del { key } => words = vec!["DEL", key],
            Op::Rename { from, to } => words = vec!["RENAME", from, to],
            Op::Copy { from, to } => words = vec!["COPY", from, to, "REPLACE"],
            Op::Set { key, text, ends: None } => words = vec!["SET", key, text],
            Op::Set { key, text, ends: Some(ends) } => {
                one = ends.to_string();
                words = vec!["SET", key, text, "PXAT", &one];
            }
            Op::EndAt { key, ends } => {
                one = ends.to_string();
                words = vec!["PEXPIREAT", key, &one];
            }
            Op::CidrAdd { set, address, value } => {
                one = format!("{address}/32");
                words = vec!["CIDR.ADD", set, "VALUE", value, &one];
            }
            Op::CidrRem { set, address } => {
                one = format!("{address}/32");
                words = vec!["CIDR.REM", set, &one];
            }
            Op::SiteAdd { pool, site, at } => {
                (one, two) = (at.0.to_string(), at.1.to_string());
                words = vec!["SITE.ADD", pool, site, &one, &two, "192.0.2.7"];
            }
            Op::SiteMove { pool, site, at } => {
                (one, two) = (at.0.to_string(), at.1.to_string());
                words = vec!["SITE.MOVE", pool, site, &one, &two];
            }
            Op::SiteHealth { pool, site, up } => {
                words = vec![if *up { "SITE.UP" } else { "SITE.DOWN" }, pool, site];
            }
            Op::SiteRem { pool, site } => words = vec!["SITE.REM", pool, site],
        }
        words.into_iter().map(str::to_owned).collect()
    }
}

impl State {
    /// Applies an operation; gives the reply that it must have.
    pub(super) fn apply(&mut self, op: &Op) -> Value {
        match op {
            Op::GeoAdd { key, points } => {
                let scores = self.scores(key);
                let new = points
                    .iter()
                    .filter(|(spot, member)| scores.insert(member.clone(), spot.cell).is_none());
                Value::count(new.count())
            }
            Op::ZAdd { key, score, member } => {
                let is_new = self.scores(key).insert(member.clone(), *score).is_none();
                Value::count(usize::from(is_new))
            }
            Op::ZIncrBy { key, by, member } => {
                let score = self.scores(key).entry(member.clone()).or_default();
                *score += by;
                Value::Bulk(score.to_string())
            }
            Op::ZRem { key, members } => self.remove_members(key, members),
            Op::Del { key } => Value::count(usize::from(self.keys.remove(key).is_some())),
            Op::Rename { from, to } => {
                if let Some(value) = self.keys.remove(from) {
                    self.keys.insert(to.clone(), value);
                }
                Value::ok()
            }
            Op::Copy { from, to } => {
                let value = self.keys.get(from).cloned();
                let was_there = value.is_some();
                if let Some(value) = value {
                    self.keys.insert(to.clone(), value);
                }
                Value::count(usize::from(was_there))
            }
            Op::Set { key, text, ends } => {
                self.keys.insert(key.clone(), (Kept::Text(text.clone()), *ends));
                Value::ok()
            }
            Op::EndAt { key, ends } => match self.keys.get_mut(key) {
                Some(value) => {
                    value.1 = Some(*ends);
                    Value::count(1)
                }
                None => Value::count(0),
            },
            Op::CidrAdd { address, value, .. } => {
                let before = self.prefixes.insert(address.clone(), value.clone());
                Value::count(usize::from(before.is_none()))
            }
            Op::CidrRem { address, .. } => {
                Value::count(usize::from(self.prefixes.remove(address).is_some()))
            }
            Op::SiteAdd { site, at, .. } => {
                let before = self.sites.insert(site.clone(), (at.0, at.1, true));
                Value::count(usize::from(before.is_none()))
            }
            Op::SiteMove { site, at, .. } => {
                self.sites.entry(site.clone()).and_modify(|it| *it = (at.0, at.1, it.2));
                Value::ok()
            }
            Op::SiteHealth { site, up, .. } => {
                self.sites.entry(site.clone()).and_modify(|it| it.2 = *up);
                Value::ok()
            }
            Op::SiteRem { site, .. } => {
                self.sites.remove(site);
                Value::ok()
            }
        }
    }

    /// Forgets what has ended by now.
    pub(super) fn expire(&mut self, now: u64) {
        self.keys.retain(|_, (_, ends)| ends.is_none_or(|ends| ends > now));
    }

    /// In what the other one differs, in a few words.
    pub(super) fn difference(&self, found: &State) -> String {
        let mut lines = Vec::new();
        compare(&mut lines, "key", &self.keys, &found.keys);
        compare(&mut lines, "prefix", &self.prefixes, &found.prefixes);
        compare(&mut lines, "site", &self.sites, &found.sites);
        lines.truncate(8);
        lines.join("; ")
    }

    fn scores(&mut self, key: &str) -> &mut BTreeMap<String, i64> {
        let value = self.keys.entry(key.to_owned());
        let value = value.or_insert_with(|| (Kept::Scores(BTreeMap::new()), None));
        match &mut value.0 {
            Kept::Scores(scores) => scores,
            Kept::Text(_) => panic!("{key} is a collection in every lane"),
        }
    }

    fn remove_members(&mut self, key: &str, members: &[String]) -> Value {
        if !self.keys.contains_key(key) {
            return Value::count(0);
        }
        let scores = self.scores(key);
        let removed = members.iter().filter(|member| scores.remove(*member).is_some()).count();
        if scores.is_empty() {
            self.keys.remove(key);
        }
        Value::count(removed)
    }
}

fn compare<V: PartialEq + std::fmt::Debug>(
    lines: &mut Vec<String>,
    what: &str,
    expected: &BTreeMap<String, V>,
    found: &BTreeMap<String, V>,
) {
    let names: std::collections::BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    for name in names {
        let (one, other) = (expected.get(name), found.get(name));
        if one != other {
            lines.push(format!("{what} {name}: expected {one:?}, found {other:?}"));
        }
    }
}

/// What is acknowledged as one.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) ops: Vec<Op>,
    /// The replies of the operations.
    pub(super) replies: Vec<Value>,
}

impl Unit {
    /// Whether it goes as MULTI ... EXEC.
    pub(super) fn is_transaction(&self) -> bool {
        self.ops.len() > 1
    }

    /// The commands' words, in the order in which they are sent.
    pub(super) fn requests(&self) -> Vec<Vec<String>> {
        let ops = self.ops.iter().map(Op::words);
        if !self.is_transaction() {
            return ops.collect();
        }
        let word = |word: &str| vec![vec![word.to_owned()]];
        word("MULTI").into_iter().chain(ops).chain(word("EXEC")).collect()
    }
}

/// Makes a lane's units.
pub(super) struct Maker {
    pub(super) random: Random,
    pub(super) lane: usize,
    pub(super) spots: Vec<Spot>,
    serial: u64,
}

impl Maker {
    pub(super) fn new(random: Random, lane: usize, spots: Vec<Spot>) -> Maker {
        Maker { random, lane, spots, serial: 0 }
    }

    /// A unit that is right for a state, which it changes.
    pub(super) fn unit(&mut self, state: &mut State, now: u64) -> Unit {
        let count = if self.random.chance(0.2) { 2 + self.random.below(5) } else { 1 };
        let mut unit = Unit { ops: Vec::new(), replies: Vec::new() };
        for _ in 0..count {
            let op = if count == 1 && self.random.chance(0.3) {
                self.other_op(state)
            } else {
                self.key_op(state, now)
            };
            unit.replies.push(state.apply(&op));
            unit.ops.push(op);
        }
        unit
    }

    fn name(&mut self, kind: &str) -> String {
        format!("{kind}:{}:{}", self.lane, self.random.below(KEYS))
    }

    fn member(&mut self) -> String {
        format!("member:{}", self.random.below(MEMBERS))
    }

    fn key_op(&mut self, state: &State, now: u64) -> Op {
        let key = self.name("points");
        self.serial += 1;
        match self.random.below(20) {
            0..6 => {
                let count = 1 + self.random.below(3);
                // One member twice in a command would count once: take each at most once.
                let first = self.random.below(MEMBERS);
                let points = (0..count).map(|step| {
                    let spot = self.random.pick(&self.spots).clone();
                    (spot, format!("member:{}", (first + step) % MEMBERS))
                });
                Op::GeoAdd { key, points: points.collect() }
            }
            6..8 => {
                let score = self.random.below(1000) as i64 - 500;
                Op::ZAdd { key, score, member: self.member() }
            }
            8..11 => {
                Op::ZIncrBy { key, by: 1 + self.random.below(9) as i64, member: self.member() }
            }
            11..13 => {
                let first = self.random.below(MEMBERS);
                let members = [first, (first + 7) % MEMBERS];
                Op::ZRem { key, members: members.map(|number| format!("member:{number}")).into() }
            }
            13 => Op::Del { key },
            14 => {
                let kind = if self.random.chance(0.5) { "points" } else { "text" };
                let (from, to) = (self.name(kind), self.name(kind));
                if state.keys.contains_key(&from) && from != to {
                    Op::Rename { from, to }
                } else {
                    Op::Del { key: to }
                }
            }
            15 => {
                let (from, to) = (self.name("points"), self.name("points"));
                if from == to { Op::Del { key } } else { Op::Copy { from, to } }
            }
            16 => {
                let key = if self.random.chance(0.5) { key } else { self.name("text") };
                Op::EndAt { key, ends: now + 100_000_000 + self.random.below(1_000_000) }
            }
            17 => {
                // Never read back before its end: it must be gone by then.
                let key = format!("brief:{}:{}", self.lane, self.serial % 8);
                Op::Set { key, text: "short".to_owned(), ends: Some(now + BRIEF_MILLISECONDS) }
            }
            _ => {
                let far = now + 200_000_000 + self.random.below(1_000_000);
                let ends = self.random.chance(0.5).then_some(far);
                Op::Set { key: self.name("text"), text: format!("text {}", self.serial), ends }
            }
        }
    }

    fn other_op(&mut self, state: &State) -> Op {
        self.serial += 1;
        let lane = self.lane;
        if self.random.chance(0.7) {
            let (set, address) = (format!("set-{lane}"), address(self.random.below(PREFIXES)));
            return if state.prefixes.contains_key(&address) && self.random.chance(0.5) {
                Op::CidrRem { set, address }
            } else {
                Op::CidrAdd { set, address, value: format!("value {}", self.serial) }
            };
        }
        let (pool, site) = (pool_name(lane), format!("site{}", self.random.below(SITES)));
        let at = (self.random.below(360) as i64 - 180, self.random.below(170) as i64 - 85);
        if !state.sites.contains_key(&site) {
            return Op::SiteAdd { pool, site, at };
        }
        match self.random.below(5) {
            0 => Op::SiteRem { pool, site },
            1 => Op::SiteAdd { pool, site, at },
            2 => Op::SiteMove { pool, site, at },
            way => Op::SiteHealth { pool, site, up: way == 3 },
        }
    }
}

/// The address of a lane's prefix.
pub(super) fn address(number: u64) -> String {
    format!("198.51.100.{number}")
}

/// The pool that a lane may change.
pub(super) fn pool_name(lane: usize) -> String {
    format!("pool-{lane}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maker() -> Maker {
        let spot = Spot {
            longitude: "1".to_owned(),
            latitude: "2".to_owned(),
            cell: 3_377_962_690_118_613,
        };
        Maker::new(Random::new(3), 0, vec![spot])
    }

    #[test]
    fn replies_follow_from_the_state() {
        let mut state = State::default();
        let add = |by| Op::ZIncrBy { key: "k".to_owned(), by, member: "m".to_owned() };
        assert_eq!(state.apply(&add(4)), Value::Bulk("4".to_owned()));
        assert_eq!(state.apply(&add(-9)), Value::Bulk("-5".to_owned()));
        let rem = Op::ZRem { key: "k".to_owned(), members: vec!["m".to_owned(), "n".to_owned()] };
        assert_eq!(state.apply(&rem), Value::Integer(1));
        assert_eq!(state, State::default());
        assert_eq!(state.apply(&rem), Value::Integer(0));
    }

    #[test]
    fn a_state_differs_from_that_of_one_operation_more_and_says_where() {
        let (mut maker, mut state) = (maker(), State::default());
        for _ in 0..500 {
            let before = state.clone();
            let unit = maker.unit(&mut state, 1_000);
            let mut again = before.clone();
            let replies: Vec<Value> = unit.ops.iter().map(|op| again.apply(op)).collect();
            assert_eq!((&replies, &again), (&unit.replies, &state));
            assert_eq!(before.difference(&state).is_empty(), before == state);
        }
        assert!(!state.keys.is_empty() && !state.prefixes.is_empty());
    }

    #[test]
    fn what_has_ended_is_forgotten() {
        let mut state = State::default();
        state.apply(&Op::Set { key: "k".to_owned(), text: "t".to_owned(), ends: Some(7) });
        state.expire(6);
        assert_eq!(state.keys.len(), 1);
        state.expire(7);
        assert_eq!(state.keys.len(), 0);
    }
}
