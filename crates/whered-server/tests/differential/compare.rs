//! Whether two replies to one command agree, and the rules for where they need not be equal bytes.
//!
//! 1. *Shape only*: `INFO`, `CLIENT`, `COMMAND`, and a `HELLO` that is answered. Errors count.
//! 2. *Sets*: `KEYS`, and the keys of `SCAN`.
//! 3. *Equal distances*: Redis sorts by an unstable sort, so members at one distance may stand in
//!    any order. Within such a run the replies are compared as sets, and a run that `COUNT` cuts
//!    may have any of its members.
//! 4. *Missed points*, counted: Redis scans nine boxes of cells; a point inside the shape but in
//!    none of the boxes is not found there. The scan is right. Every hit of whered is then checked
//!    against the whole collection, and taking the points outside the boxes away must give the
//!    reply of Redis.
//! 5. *Times and sizes*: what is left of a key's life may differ by the time between the two
//!    servers; `RANDOMKEY`, idle times, references and memory are compared in kind only.
//! 6. *Stored results*, counted: a stored result may differ as the searched one may; it is
//!    compared as a whole, and removed on both sides where it differs.
//! 7. *Ranges by member*, counted: where scores differ they have no meaning, and the answer of
//!    Redis for a large set depends on its random numbers.
//! 8. *Random members*: as many, each a member with its score, and different ones where the count
//!    is positive.
//! 9. *Antipodes*, counted: the distance of two antipodes can be no number in Redis, which prints
//!    that as the smallest integer with four decimals.

use std::collections::BTreeMap;

use whered_engine::geo::boxes::Boxes;
use whered_engine::geo::{Place, Points, Shape};
use whered_engine::{Engine, Ordered};

use crate::generator::{BY_NAME, Words, destination};
use crate::support::client::{Reply, Value};

/// Where the command was executed, for looking behind the replies.
pub(crate) struct Setting<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) number: usize,
}

/// A difference that is stated and counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Known {
    /// Rule 4.
    MissedByRedis,
    /// Rule 6.
    StoredOther,
    /// Rule 7.
    RandomByLex,
    /// Rule 9.
    NoNumberForAntipodes,
}

pub(crate) enum Compared {
    Same,
    Known(Known),
    Different(String),
}

/// What Redis prints for a distance that is no number.
const NO_NUMBER: &[u8] = b"$21\r\n-922337203685477.5808\r\n";

pub(crate) fn compare(
    setting: &Setting<'_>,
    words: &Words,
    ours: &Reply,
    theirs: &Reply,
) -> Compared {
    if ours.bytes == theirs.bytes {
        return Compared::Same;
    }
    let failed = |reply: &Reply| matches!(reply.value, Value::Error(_));
    if failed(ours) || failed(theirs) {
        return different("one is an error, or the errors differ");
    }
    if destination(words).is_some() || words[0].eq_ignore_ascii_case(b"zremrangebylex") {
        return Compared::Known(Known::StoredOther);
    }
    match words[0].to_ascii_lowercase().as_slice() {
        b"info" | b"client" | b"command" | b"hello" => same_shape(&ours.value, &theirs.value),
        b"randomkey" | b"object" | b"memory" if !is_encoding(words) => {
            same_shape(&ours.value, &theirs.value)
        }
        b"ttl" | b"expiretime" => same_time(&ours.value, &theirs.value, 1),
        b"pttl" | b"pexpiretime" => same_time(&ours.value, &theirs.value, 5_000),
        b"zrange" | b"zlexcount" | b"zrangebylex" | b"zrevrangebylex"
            if is_random_by_lex(setting, words) =>
        {
            Compared::Known(Known::RandomByLex)
        }
        b"zrandmember" => same_choice(setting, words, &ours.value, &theirs.value),
        b"zscan" => same_scan_of_members(words, &ours.value, &theirs.value),
        b"georadius" | b"georadius_ro" | b"georadiusbymember" | b"georadiusbymember_ro" => {
            same_search(setting, words, ours, theirs)
        }
        b"keys" => same_set(&ours.value, &theirs.value),
        b"scan" => same_scan(words, &ours.value, &theirs.value),
        b"geosearch" => same_search(setting, words, ours, theirs),
        b"geodist" if theirs.bytes == NO_NUMBER => Compared::Known(Known::NoNumberForAntipodes),
        _ => different("the bytes differ"),
    }
}

fn different(why: &str) -> Compared {
    Compared::Different(why.to_owned())
}

fn same_shape(ours: &Value, theirs: &Value) -> Compared {
    if std::mem::discriminant(ours) == std::mem::discriminant(theirs) {
        return Compared::Same;
    }
    different("the kinds of reply differ")
}

fn is_encoding(words: &Words) -> bool {
    words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"encoding"))
}

/// Whether a range by member is asked of a large set whose scores differ.
fn is_random_by_lex(setting: &Setting<'_>, words: &Words) -> bool {
    let by_name = BY_NAME.iter().any(|name| words[0].eq_ignore_ascii_case(name.as_bytes()));
    if !by_name && !words.iter().any(|word| word.eq_ignore_ascii_case(b"bylex")) {
        return false;
    }
    setting.engine.keyspace().read(setting.number, &words[1], |value| {
        let members =
            value.filter(|value| value.is_large()).and_then(whered_engine::Value::ordered);
        let ends =
            members.and_then(|members| members.iter().next().zip(members.iter().next_back()));
        ends.is_some_and(|(first, last)| first.1 != last.1)
    })
}

/// Whether both have chosen as many members, and ours are members.
fn same_choice(setting: &Setting<'_>, words: &Words, ours: &Value, theirs: &Value) -> Compared {
    let (Value::Array(our_items), Value::Array(their_items)) = (ours, theirs) else {
        return same_shape(ours, theirs);
    };
    if our_items.len() != their_items.len() {
        return different("the numbers of members differ");
    }
    let with_scores = words.len() > 3;
    let in_pairs = matches!(our_items.first(), Some(Value::Array(_)));
    let step = if with_scores && !in_pairs { 2 } else { 1 };
    let name = |item: &Value| match item {
        Value::Bulk(name) => Some(name.clone()),
        Value::Array(pair) => match &pair[..] {
            [Value::Bulk(name), _] => Some(name.clone()),
            _ => None,
        },
        _ => None,
    };
    let names: Vec<_> = our_items.iter().step_by(step).map(name).collect();
    let is_member = |name: &Option<Vec<u8>>| {
        setting.engine.keyspace().read(setting.number, &words[1], |value| {
            let set = value.and_then(whered_engine::Value::ordered);
            set.zip(name.as_ref()).is_some_and(|(set, name)| set.score(name).is_some())
        })
    };
    if !names.iter().all(is_member) {
        return different("a name is none of the members");
    }
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    if !words[2].starts_with(b"-") && distinct.len() < names.len() {
        return different("a member was chosen twice");
    }
    Compared::Same
}

fn same_time(ours: &Value, theirs: &Value, tolerance: i64) -> Compared {
    match (ours, theirs) {
        (Value::Integer(ours), Value::Integer(theirs))
            if *ours > 0 && *theirs > 0 && ours.abs_diff(*theirs) <= tolerance.unsigned_abs() =>
        {
            Compared::Same
        }
        _ => different("the times differ"),
    }
}

/// As [`same_scan`], with a score behind each member.
fn same_scan_of_members(words: &Words, ours: &Value, theirs: &Value) -> Compared {
    let pairs = |value: &Value| match value {
        Value::Array(parts) => match parts.as_slice() {
            [cursor, Value::Array(items)] => {
                let pair = |pair: &[Value]| Value::Array(pair.to_vec());
                Some(vec![cursor.clone(), Value::Array(items.chunks(2).map(pair).collect())])
            }
            _ => None,
        },
        _ => None,
    };
    match (pairs(ours), pairs(theirs)) {
        (Some(ours), Some(theirs)) => {
            let words = vec![words[0].clone(), words[2].clone()];
            same_scan(&words, &Value::Array(ours), &Value::Array(theirs))
        }
        _ => different("a scan gives a cursor and pairs"),
    }
}

fn same_set(ours: &Value, theirs: &Value) -> Compared {
    let sorted = |value: &Value| match value {
        Value::Array(items) => {
            let mut items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
            items.sort();
            Some(items)
        }
        _ => None,
    };
    if sorted(ours).is_some() && sorted(ours) == sorted(theirs) {
        return Compared::Same;
    }
    different("the sets differ")
}

/// Cursors differ between any two servers; keys are compared when one step gives them all.
fn same_scan(words: &Words, ours: &Value, theirs: &Value) -> Compared {
    match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == 2 && theirs.len() == 2 => {
            let end = Value::Bulk(b"0".to_vec());
            let from_start = words[1].iter().all(|byte| *byte == b'0');
            if from_start && ours[0] == end && theirs[0] == end {
                return same_set(&ours[1], &theirs[1]);
            }
            Compared::Same
        }
        _ => different("a scan gives a cursor and keys"),
    }
}

/// What of a search matters here.
struct Asked {
    center: Option<Place>,
    shape: Option<Shape>,
    descending: bool,
    ascending: bool,
    count: Option<usize>,
    any: bool,
    bare: bool,
}

fn asked(words: &Words, members: Ordered<'_>) -> Asked {
    let mut asked = Asked {
        center: None,
        shape: None,
        descending: false,
        ascending: false,
        count: None,
        any: false,
        bare: true,
    };
    let number = |at: usize| number(&words[at]);
    let unit = |at: usize| match text(&words[at]).to_ascii_lowercase().as_str() {
        "km" => 1000.0,
        "ft" => 0.3048,
        "mi" => 1609.34,
        _ => 1.0,
    };
    let mut at = 2;
    let command = text(&words[0]).to_ascii_lowercase();
    if command.starts_with("georadius") {
        let by_member = command.starts_with("georadiusbymember");
        at = if by_member { 3 } else { 4 };
        asked.center = if by_member {
            members.place(&words[2])
        } else {
            Place::new(number(2), number(3)).ok()
        };
        let radius_meters = number(at) * unit(at + 1);
        asked.shape = Some(Shape::Circle { radius_meters });
        at += 2;
    }
    while at < words.len() {
        at += match text(&words[at]).to_ascii_lowercase().as_str() {
            "frommember" => {
                asked.center = members.place(&words[at + 1]);
                2
            }
            "fromlonlat" => {
                asked.center = Place::new(number(at + 1), number(at + 2)).ok();
                3
            }
            "byradius" => {
                let radius_meters = number(at + 1) * unit(at + 2);
                asked.shape = Some(Shape::Circle { radius_meters });
                3
            }
            "bybox" => {
                let width_meters = number(at + 1) * unit(at + 3);
                let height_meters = number(at + 2) * unit(at + 3);
                asked.shape = Some(Shape::Box { width_meters, height_meters });
                4
            }
            "count" => {
                asked.count = text(&words[at + 1]).parse().ok();
                2
            }
            option => {
                asked.any |= option == "any";
                asked.bare &= !option.starts_with("with");
                if option == "asc" || option == "desc" {
                    asked.ascending = option == "asc";
                    asked.descending = option == "desc";
                }
                1
            }
        };
    }
    if asked.count.is_some() && !asked.any && !asked.descending {
        asked.ascending = true;
    }
    asked
}

/// A number that the servers have taken; of the hexadecimal ones the generator knows one.
fn number(word: &[u8]) -> f64 {
    match text(word).as_str() {
        "0x10" => 16.0,
        decimal => decimal.parse().expect("the servers took it as a number"),
    }
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

/// One hit of a reply: its member, its distance, and the whole item as it was written.
struct Item {
    member: Vec<u8>,
    distance_meters: f64,
    missed: bool,
    written: String,
}

fn same_search(setting: &Setting<'_>, words: &Words, ours: &Reply, theirs: &Reply) -> Compared {
    let (Value::Array(our_items), Value::Array(their_items)) = (&ours.value, &theirs.value) else {
        return different("a search gives an array");
    };
    setting.engine.keyspace().read(setting.number, &words[1], |value| {
        let Some(members) = value.and_then(whered_engine::Value::ordered) else {
            return different("there is no key");
        };
        let asked = asked(words, members);
        let Ordered::Points(points) = members else {
            return same_search_of_scores(&asked, ours, theirs);
        };
        let (Some(center), Some(shape)) = (asked.center, asked.shape.clone()) else {
            return different("the search could not be read");
        };
        let boxes = Boxes::of(center, &shape);
        let item = |value: &Value| -> Option<Item> {
            let member = match value {
                Value::Bulk(member) if asked.bare => member,
                Value::Array(parts) => match parts.first() {
                    Some(Value::Bulk(member)) => member,
                    _ => return None,
                },
                _ => return None,
            };
            let cell = points.cell(member)?;
            Some(Item {
                member: member.clone(),
                distance_meters: shape.distance_if_inside(center, cell.place())?,
                missed: !boxes.ranges().any(|range| range.contains(&cell.bits())),
                written: format!("{value:?}"),
            })
        };
        let ours: Option<Vec<Item>> = our_items.iter().map(item).collect();
        let theirs: Option<Vec<Item>> = their_items.iter().map(item).collect();
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                same_items(points, &asked, center, &shape, &ours, &theirs)
            }
            _ => different("a hit is not a point inside the shape"),
        }
    })
}

/// In a plain sorted set both look into the same boxes: only equal distances may be turned round,
/// and `COUNT` may take others of them.
fn same_search_of_scores(asked: &Asked, ours: &Reply, theirs: &Reply) -> Compared {
    let (Value::Array(our_items), Value::Array(their_items)) = (&ours.value, &theirs.value) else {
        return different("a search gives an array");
    };
    if !asked.ascending && !asked.descending {
        return different("the unsorted hits differ");
    }
    if asked.count == Some(our_items.len()) && our_items.len() == their_items.len() {
        return Compared::Same;
    }
    same_set(&ours.value, &theirs.value)
}

fn same_items(
    points: &Points,
    asked: &Asked,
    center: Place,
    shape: &Shape,
    ours: &[Item],
    theirs: &[Item],
) -> Compared {
    let inside = points
        .iter()
        .filter(|(_, cell)| shape.distance_if_inside(center, cell.place()).is_some())
        .count();
    if ours.len() != asked.count.unwrap_or(usize::MAX).min(inside) {
        return different("whered does not give all points inside the shape");
    }
    let missed = ours.iter().filter(|item| item.missed).count();
    let found: Vec<&Item> = ours.iter().filter(|item| !item.missed).collect();
    let theirs: Vec<&Item> = theirs.iter().collect();
    if theirs.iter().any(|item| item.missed) {
        return different("Redis finds a point outside its boxes");
    }
    let complete = missed == 0 || asked.count.is_none();
    if complete && found.len() != theirs.len() || found.len() > theirs.len() {
        return different("the numbers of hits differ");
    }
    let sorted = asked.ascending || asked.descending;
    let same = if sorted {
        same_runs(&found, &theirs[..found.len()], asked.count.is_some())
    } else {
        found.iter().zip(&theirs).all(|(ours, theirs)| ours.written == theirs.written)
    };
    match same {
        false => different("the order of the hits differs"),
        true if missed > 0 => Compared::Known(Known::MissedByRedis),
        true => Compared::Same,
    }
}

/// Whether two sorted lists agree, each run of one distance as a set. Of the last run `COUNT` may
/// have taken other members; then the members differ, but they must have the run's distance.
fn same_runs(ours: &[&Item], theirs: &[&Item], cut: bool) -> bool {
    let distances = |items: &[&Item]| -> Vec<u64> {
        items.iter().map(|item| item.distance_meters.to_bits()).collect()
    };
    if distances(ours) != distances(theirs) {
        return false;
    }
    let last = ours.last().map(|item| item.distance_meters.to_bits());
    let by_run = |items: &[&Item]| {
        let mut runs: BTreeMap<u64, BTreeMap<Vec<u8>, String>> = BTreeMap::new();
        for item in items {
            let distance = item.distance_meters.to_bits();
            if !(cut && Some(distance) == last) {
                let run = runs.entry(distance).or_default();
                run.insert(item.member.clone(), item.written.clone());
            }
        }
        runs
    };
    by_run(ours) == by_run(theirs)
}
