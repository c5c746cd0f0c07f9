//! What a key holds: a point index, a plain sorted set, or a text.
//!
//! For: the three kinds, how the first becomes the second, and what Redis would call their
//! encodings. Not for: keys, expiry and locks (`keys`), commands.
//!
//! ```text
//! Collection(Points)  ── a score that is no cell comes ──>  SortedSet     (never back)
//! Text                ── is only ever replaced as a whole
//! ```
//!
//! Invariant: all scores of a collection are cells. Both kinds of sorted sets answer the same
//! questions through [`Ordered`]; which kind a key is cannot be seen from outside.
//! Cost: becoming a sorted set costs as much as building one.

use std::iter::FusedIterator;
use std::ops::Range;

use whered_geo::score::{cell_of_score, place_of_score};
use whered_geo::{Cell, Change, ChangeBatch, Inserted, LookupHint, Place, Points};

use super::sorted_set::{self, SortedSet};

/// From how many members on Redis keeps a sorted set in its large form.
const SMALL_SET_LEN: usize = 128;
/// From how long a member on.
const SMALL_SET_MEMBER_BYTES: usize = 64;

/// What a key holds.
#[derive(Clone, Debug)]
pub struct Value {
    data: Data,
    /// Redis would keep this sorted set in its large form; it stays large when it shrinks.
    is_large: bool,
    /// How Redis would keep this text; as it would after a restart, when it was loaded.
    form: TextForm,
}

/// How Redis keeps a string, which `OBJECT ENCODING` tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TextForm {
    /// As an integer, if it is one.
    #[default]
    Compact,
    /// As a string, together with its header if it is short.
    Embedded,
    /// As a string that can grow.
    Raw,
}

/// The data of a value.
#[derive(Clone, Debug)]
pub enum Data {
    /// Points: all scores are cells.
    Collection(Points),
    /// Members with any scores.
    SortedSet(SortedSet),
    /// A string of bytes.
    Text(Box<[u8]>),
}

/// Which commands a value is for: what `TYPE` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A sorted set, be it points or not.
    SortedSet,
    /// A text.
    Text,
}

impl Value {
    /// A sorted set without members: a point index, until another score comes.
    pub(crate) fn empty() -> Value {
        Value::of_data(Data::Collection(Points::new()))
    }

    /// A sorted set of these members.
    pub(crate) fn of_scores<'a>(scores: impl IntoIterator<Item = (&'a [u8], f64)>) -> Value {
        let mut value = Value::empty();
        for (member, score) in scores {
            value.insert(member, score);
        }
        value
    }

    /// A text.
    pub(crate) fn of_text(text: &[u8]) -> Value {
        Value::of_data(Data::Text(text.into()))
    }

    /// A text that Redis would keep in this form.
    pub(crate) fn of_formed_text(text: &[u8], form: TextForm) -> Value {
        Value { form, ..Value::of_text(text) }
    }

    fn of_data(data: Data) -> Value {
        Value { data, is_large: false, form: TextForm::Compact }
    }

    /// The data.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Which commands it is for.
    pub fn kind(&self) -> Kind {
        match self.data {
            Data::Collection(_) | Data::SortedSet(_) => Kind::SortedSet,
            Data::Text(_) => Kind::Text,
        }
    }

    /// The points, if it is a point index.
    pub fn points(&self) -> Option<&Points> {
        match &self.data {
            Data::Collection(points) => Some(points),
            _ => None,
        }
    }

    /// The members in order, if it is a sorted set of either kind.
    pub fn ordered(&self) -> Option<Ordered<'_>> {
        match &self.data {
            Data::Collection(points) => Some(Ordered::Points(points)),
            Data::SortedSet(set) => Some(Ordered::Scores(set)),
            Data::Text(_) => None,
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&[u8]> {
        match &self.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether Redis would keep this sorted set in its large form, which answers `ZSCAN` step by
    /// step.
    pub fn is_large(&self) -> bool {
        self.is_large
    }

    /// What `OBJECT ENCODING` says.
    pub fn encoding(&self) -> &'static str {
        match &self.data {
            Data::Collection(_) | Data::SortedSet(_) if self.is_large => "skiplist",
            Data::Collection(_) | Data::SortedSet(_) => "listpack",
            Data::Text(text) if self.form == TextForm::Compact && is_integer(text) => "int",
            Data::Text(text) if self.form != TextForm::Raw && text.len() <= 44 => "embstr",
            Data::Text(_) => "raw",
        }
    }

    /// About how many bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        match &self.data {
            Data::Collection(points) => points.memory_bytes(),
            Data::SortedSet(set) => set.memory_bytes(),
            Data::Text(text) => size_of::<Value>() + text.len(),
        }
    }

    /// Whether it is a sorted set without members.
    pub(crate) fn is_empty(&self) -> bool {
        self.ordered().is_some_and(|ordered| ordered.len() == 0)
    }

    /// Prefetches what adding these points will read and change; returns a lookup hint for each.
    pub(crate) fn lookup_hints(&self, points: &[(&[u8], Cell)], foreseen: &mut [LookupHint]) {
        if let Data::Collection(collection) = &self.data {
            collection.lookup_hints(points, foreseen);
        }
    }

    /// Adds a point or moves it. A text takes none.
    pub(crate) fn insert_point(&mut self, member: &[u8], cell: Cell) -> Inserted {
        self.insert_with_hint(member, cell, &LookupHint::default())
    }

    /// As [`Value::insert_point`], with a lookup hint.
    pub(crate) fn insert_with_hint(
        &mut self,
        member: &[u8],
        cell: Cell,
        foreseen: &LookupHint,
    ) -> Inserted {
        let inserted = match &mut self.data {
            Data::Collection(points) => points.insert_with_hint(member, cell, foreseen),
            Data::SortedSet(set) => set.insert(member, cell.bits() as f64),
            Data::Text(_) => Inserted::Unchanged,
        };
        self.note_size(member);
        inserted
    }

    /// Adds a member or gives it another score. A text takes none.
    pub(crate) fn insert(&mut self, member: &[u8], score: f64) -> Inserted {
        if let Some(cell) = cell_of_score(score + 0.0) {
            return self.insert_point(member, cell);
        }
        if let Data::Collection(points) = &self.data {
            let mut set = SortedSet::default();
            for (member, cell) in points {
                set.insert(member, cell.bits() as f64);
            }
            self.data = Data::SortedSet(set);
        }
        let inserted = match &mut self.data {
            Data::SortedSet(set) => set.insert(member, score),
            _ => Inserted::Unchanged,
        };
        self.note_size(member);
        inserted
    }

    /// An empty batch for changes of a collection.
    pub(crate) fn change_batch(&self) -> Option<ChangeBatch> {
        match &self.data {
            Data::Collection(points) => Some(points.change_batch()),
            _ => None,
        }
    }

    /// Applies changes that were collected at a start, by this many threads, and empties the batch.
    pub(crate) fn apply_batch(&mut self, batch: &mut ChangeBatch, threads: usize) {
        if let Data::Collection(points) = &mut self.data {
            let longest = batch.longest_added_bytes();
            points.apply_batch(batch, threads);
            self.note_len(longest);
            return;
        }
        batch.for_each(|Change { member, cell }| match cell {
            Some(cell) => drop(self.insert_point(member, cell)),
            None => drop(self.remove(member)),
        });
        batch.clear();
    }

    /// A value that was loaded.
    pub(crate) fn of_loaded(data: Data) -> Value {
        let mut value = Value::of_data(data);
        value.note_size(b"");
        value
    }

    /// Removes a member and says whether it was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.data {
            Data::Collection(points) => points.remove(member),
            Data::SortedSet(set) => set.remove(member),
            Data::Text(_) => false,
        }
    }

    /// Removes the members with these ranks and gives how many there were.
    pub(crate) fn remove_ranks(&mut self, ranks: Range<usize>) -> usize {
        let Some(ordered) = self.ordered() else {
            return 0;
        };
        let members: Vec<Vec<u8>> =
            ordered.iter_ranks(ranks).map(|(member, _)| member.to_vec()).collect();
        members.iter().filter(|member| self.remove(member)).count()
    }

    fn note_size(&mut self, member: &[u8]) {
        self.note_len(member.len());
    }

    fn note_len(&mut self, member_bytes: usize) {
        self.is_large |= member_bytes > SMALL_SET_MEMBER_BYTES
            || self.ordered().is_some_and(|ordered| ordered.len() > SMALL_SET_LEN);
    }
}

/// Whether Redis would keep a text as an integer: written as it would print that.
fn is_integer(text: &[u8]) -> bool {
    if text.len() > 20 {
        return false;
    }
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    parsed.is_some_and(|number| number.to_string().as_bytes() == text)
}

/// A sorted set of either kind, for reading.
#[derive(Clone, Copy, Debug)]
pub enum Ordered<'a> {
    /// All scores are cells.
    Points(&'a Points),
    /// Any scores.
    Scores(&'a SortedSet),
}

impl<'a> Ordered<'a> {
    /// The number of members.
    pub fn len(self) -> usize {
        match self {
            Ordered::Points(points) => points.len(),
            Ordered::Scores(set) => set.len(),
        }
    }

    /// Whether there is no member.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// A member's score.
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Ordered::Points(points) => points.cell(member).map(|cell| cell.bits() as f64),
            Ordered::Scores(set) => set.score(member),
        }
    }

    /// A member's place, as GEO commands read it from its score.
    pub fn place(self, member: &[u8]) -> Option<Place> {
        match self {
            Ordered::Points(points) => points.cell(member).map(Cell::place),
            Ordered::Scores(set) => set.score(member).map(place_of_score),
        }
    }

    /// The number of members before this one.
    pub fn rank(self, member: &[u8]) -> Option<usize> {
        match self {
            Ordered::Points(points) => points.rank(member),
            Ordered::Scores(set) => set.rank(member),
        }
    }

    /// The number of members whose score is below a limit, or below it and equal to it.
    pub fn rank_of_limit(self, limit: f64, with_equal: bool) -> usize {
        match self {
            Ordered::Points(points) => {
                // The first cell behind the limit; what is no whole number lies between two.
                let first = if with_equal { limit.floor() + 1.0 } else { limit.ceil() };
                if first > Cell::MAX.bits() as f64 {
                    return points.len();
                }
                // A negative number becomes 0.
                points.len() - points.iter_bits(first as u64..=u64::MAX).len()
            }
            Ordered::Scores(set) => set.rank_of_limit(limit, with_equal),
        }
    }

    /// The members with these ranks and their scores, in order; ranks beyond the last have none.
    pub fn iter_ranks(self, ranks: Range<usize>) -> Members<'a> {
        match self {
            Ordered::Points(points) => Members::Points(points.iter_ranks(ranks)),
            Ordered::Scores(set) => Members::Scores(set.iter_ranks(ranks)),
        }
    }

    /// What finds members by their ranks; made once for several.
    pub fn by_rank(self) -> MembersByRank<'a> {
        match self {
            Ordered::Points(points) => MembersByRank::Points(points),
            Ordered::Scores(set) => MembersByRank::Scores(set.rank_index()),
        }
    }

    /// All members and their scores, in order.
    pub fn iter(self) -> Members<'a> {
        self.iter_ranks(0..self.len())
    }
}

/// Members by rank; see [`Ordered::by_rank`].
#[derive(Clone, Debug)]
pub enum MembersByRank<'a> {
    /// Of a point index.
    Points(&'a Points),
    /// Of a plain sorted set.
    Scores(sorted_set::RankIndex<'a>),
}

impl<'a> MembersByRank<'a> {
    /// The member with this rank and its score; O(log n).
    pub fn get(&self, rank: usize) -> Option<(&'a [u8], f64)> {
        match self {
            MembersByRank::Points(points) => {
                points.iter_ranks(rank..rank.checked_add(1)?).next().map(with_score)
            }
            MembersByRank::Scores(index) => index.get(rank),
        }
    }
}

/// Members and scores in order; see [`Ordered::iter_ranks`].
#[derive(Clone, Debug)]
pub enum Members<'a> {
    /// Of a point index.
    Points(whered_geo::points::iter::Entries<'a>),
    /// Of a plain sorted set.
    Scores(sorted_set::Entries<'a>),
}

fn with_score((member, cell): (&[u8], Cell)) -> (&[u8], f64) {
    (member, cell.bits() as f64)
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Members::Points(entries) => entries.next().map(with_score),
            Members::Scores(entries) => entries.next(),
        }
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        match self {
            Members::Points(entries) => entries.nth(n).map(with_score),
            Members::Scores(entries) => entries.nth(n),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Members::Points(entries) => entries.size_hint(),
            Members::Scores(entries) => entries.size_hint(),
        }
    }
}

impl DoubleEndedIterator for Members<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Members::Points(entries) => entries.next_back().map(with_score),
            Members::Scores(entries) => entries.next_back(),
        }
    }

    fn nth_back(&mut self, n: usize) -> Option<Self::Item> {
        match self {
            Members::Points(entries) => entries.nth_back(n).map(with_score),
            Members::Scores(entries) => entries.nth_back(n),
        }
    }
}

impl ExactSizeIterator for Members<'_> {}
impl FusedIterator for Members<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(value: &Value) -> Vec<(Vec<u8>, f64)> {
        let ordered = value.ordered().expect("a sorted set");
        ordered.iter().map(|(member, score)| (member.to_vec(), score)).collect()
    }

    #[test]
    fn a_point_index_becomes_a_sorted_set_when_another_score_comes_and_keeps_its_members() {
        let mut value = Value::of_scores([(&b"b"[..], 7.0), (b"a", 7.0), (b"zero", -0.0)]);
        assert!(value.points().is_some());
        assert_eq!(value.insert(b"half", 0.5), Inserted::New);
        assert!(value.points().is_none());
        let expected: Vec<(Vec<u8>, f64)> = [("zero", 0.0), ("half", 0.5), ("a", 7.0), ("b", 7.0)]
            .map(|(member, score)| (member.as_bytes().to_vec(), score))
            .to_vec();
        assert_eq!(members(&value), expected);
        assert_eq!(value.insert(b"half", 8.0), Inserted::Moved);
        assert!(value.points().is_none(), "it never becomes a point index again");
        assert_eq!(value.remove_ranks(1..3), 2);
        assert_eq!(members(&value), [(b"zero".to_vec(), 0.0), (b"half".to_vec(), 8.0)]);
    }

    #[test]
    fn both_kinds_answer_the_same_questions_alike() {
        let scores: Vec<(Vec<u8>, f64)> =
            (0..500).map(|n| (format!("m{n}").into_bytes(), f64::from(n * 37 % 100))).collect();
        let points = Value::of_scores(scores.iter().map(|(m, s)| (&m[..], *s)));
        let mut plain = Value::of_scores([(&b"odd"[..], 0.5)]);
        for (member, score) in &scores {
            plain.insert(member, *score);
        }
        plain.remove(b"odd");
        let (points, plain) = (points.ordered().unwrap(), plain.ordered().unwrap());
        assert!(matches!((points, plain), (Ordered::Points(_), Ordered::Scores(_))));
        assert!(points.iter().eq(plain.iter()));
        assert!(points.iter().rev().skip(77).eq(plain.iter().rev().skip(77)));
        for limit in [-1.0, -0.5, 0.0, 0.5, 7.0, 99.0, 99.5, 1e300, f64::INFINITY, -f64::INFINITY] {
            for with_equal in [false, true] {
                let ranks = [points, plain].map(|set| set.rank_of_limit(limit, with_equal));
                assert_eq!(ranks[0], ranks[1], "{limit} {with_equal}");
            }
        }
        assert_eq!(points.rank(b"m7"), plain.rank(b"m7"));
        for rank in [0, 7, 499, 500, usize::MAX] {
            assert_eq!(points.by_rank().get(rank), plain.by_rank().get(rank), "{rank}");
        }
        assert_eq!(points.place(b"m7"), plain.place(b"m7"));
    }

    #[test]
    fn encodings_are_those_of_redis() {
        let text = |text: &str| Value::of_text(text.as_bytes()).encoding();
        assert_eq!(text("12"), "int");
        assert_eq!(text("-9223372036854775808"), "int");
        assert_eq!(text("9223372036854775808"), "embstr");
        assert_eq!(text("012"), "embstr");
        assert_eq!(text("+1"), "embstr");
        assert_eq!(text(&"x".repeat(44)), "embstr");
        assert_eq!(text(&"x".repeat(45)), "raw");
        let mut set = Value::empty();
        for number in 0..=128_u32 {
            assert_eq!(set.encoding(), "listpack");
            set.insert(number.to_string().as_bytes(), 1.0);
        }
        assert_eq!(set.encoding(), "skiplist");
        set.remove_ranks(0..100);
        assert_eq!(set.encoding(), "skiplist", "it stays large");
        assert_eq!(Value::of_scores([(&[b'x'; 65][..], 1.0)]).encoding(), "skiplist");
        assert_eq!(Value::of_scores([(&[b'x'; 64][..], 1.0)]).encoding(), "listpack");
    }
}
