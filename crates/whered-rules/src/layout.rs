//! Which word of a packet has what, for the rules of one normal form.
//!
//! For: putting what rules ask for where the classifier compares it as it stands. Not for: the five
//! fields that every packet has, whose words never change.
//!
//! ```text
//! word 5 ...                                              ... 14          15
//!      what rules ask for │ answers, if all fit │ what no rule asks for   answers, if not
//! ```
//!
//! A ruleset with a state, a country and two sets has all of it in words 5 to 8; one with more
//! answers than names and places leave words has them as bits of the last word.
//!
//! Invariants: what a rule asks for has a word of its own. Concurrency: plain data. Cost: ten
//! stores a packet, and one for each answer in a word.

use crate::classify::{self, FREE_WORDS};
use crate::normal::{AXES, Field, Key, NormalRule};

/// The fields without a word of their own.
const MOVABLE: usize = 10;

/// How many of them keep a word that nobody asks for, so that a rule put in later may. One that
/// asks for the others is compiled with all rules anyway: names and places get their numbers then.
const SURE: usize = 4;

/// Their order.
const FIELDS: [Field; MOVABLE] = {
    use crate::model::Side::{Destination, Source};
    [
        Field::State,
        Field::TcpFlags,
        Field::Dscp,
        Field::Mark,
        Field::Input,
        Field::Output,
        Field::Place(Source, 0),
        Field::Place(Source, 1),
        Field::Place(Destination, 0),
        Field::Place(Destination, 1),
    ]
};

/// How many of them are no places.
const NOT_PLACES: usize = 6;

/// Whether the numbers of places stand in words or are [lazy](classify::lazy).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlacesAre {
    /// In words: known of every packet.
    Words,
    /// RuleAnswer for when all else of a rule holds.
    Lazy,
}

/// Where the words of packets come from.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The word of each of [`FIELDS`].
    words: [u8; MOVABLE],
    /// How many of them there are.
    fields: usize,
    /// The first word of an answer, and how many answers have words: all or none.
    answers: (u8, u8),
}

impl Layout {
    /// For rules and the number of questions that they ask before.
    pub(crate) fn of(rules: &[NormalRule], questions: usize, places: PlacesAre) -> Layout {
        let fields = if places == PlacesAre::Lazy { NOT_PLACES } else { MOVABLE };
        let is_asked =
            |field: &Field| rules.iter().any(|rule| rule.conditions.get(*field).is_some());
        let mut asked = FIELDS.map(|field| is_asked(&field));
        asked[fields..].fill(false);
        let count = asked.iter().filter(|asked| **asked).count();
        let first_answer = FREE_WORDS.start() + count as u8;
        let kept = asked[..SURE].iter().filter(|asked| !**asked).count();
        let left = FREE_WORDS.len() - count - kept;
        let in_words = if questions <= left { questions as u8 } else { 0 };
        let (mut near, mut far) = (*FREE_WORDS.start(), first_answer + in_words);
        let words = asked.map(|asked| {
            let next = if asked { &mut near } else { &mut far };
            *next += 1;
            // Those without a word are written where an answer follows.
            if FREE_WORDS.contains(&(*next - 1)) { *next - 1 } else { first_answer }
        });
        Layout { words, fields, answers: (first_answer, in_words) }
    }

    /// Whether numbers of places are lazy fields.
    #[inline(always)]
    pub(crate) fn is_lazy(&self) -> bool {
        self.fields == NOT_PLACES
    }

    /// The field of the classifier; `None` for one that no rule asked for and an answer stands for.
    pub(crate) fn field(&self, field: Field) -> Option<classify::Field> {
        Some(match field {
            Field::Source => classify::Field::Source,
            Field::Destination => classify::Field::Destination,
            Field::Protocol => classify::Field::Protocol,
            Field::SourcePort | Field::Icmp => classify::Field::SourcePort,
            Field::DestinationPort => classify::Field::DestinationPort,
            Field::Bit(number) if self.answers.1 > 0 => {
                classify::Field::Word(self.answers.0 + number as u8)
            }
            Field::Bit(number) => classify::Field::Set(number as u8),
            Field::Place(side, axis) if self.is_lazy() => {
                classify::Field::Lazy((side.index() * AXES) as u8 + axis)
            }
            _ => {
                let place = FIELDS.iter().position(|one| *one == field)?;
                let word = self.words[place];
                let (first, count) = self.answers;
                let is_free = !(first..first + count).contains(&word);
                return is_free.then_some(classify::Field::Word(word));
            }
        })
    }

    /// Writes what has no word of its own.
    #[inline(always)]
    pub(crate) fn fill(&self, packet: &mut classify::Packet, key: &Key) {
        let [source, destination] = key.places;
        let numbers: [u32; MOVABLE] = [
            key.state.into(),
            key.tcp_flags.into(),
            key.dscp.into(),
            key.mark,
            key.input.into(),
            key.output.into(),
            source[0],
            source[1],
            destination[0],
            destination[1],
        ];
        let in_words = if self.is_lazy() { NOT_PLACES } else { MOVABLE };
        for (number, word) in numbers.into_iter().zip(self.words).take(in_words) {
            packet.set(classify::Field::Word(word), number);
        }
        let (first, count) = self.answers;
        if count == 0 {
            packet.set_members(key.bits);
        }
        for answer in 0..count {
            packet.set(classify::Field::Word(first + answer), key.bits >> answer & 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Side;
    use crate::naive::NoSets;
    use crate::normal::{NoPlaces, NormalForm, Options};
    use crate::packet::{Family, Packet, State};
    use crate::text;

    fn form(conditions: &str) -> NormalForm {
        let rules = format!("chain a policy drop {{\n {conditions} accept\n}}\n");
        let ruleset = text::read("f", &rules).expect("a good file");
        NormalForm::build(&ruleset, Family::Ipv4, &NoPlaces, Options::default()).expect("no places")
    }

    #[test]
    fn what_is_asked_comes_first_and_answers_stand_behind() {
        let form = form("state established mark 7 src @a dst @b");
        let word = |field| form.layout.field(field);
        assert_eq!(word(Field::State), Some(classify::Field::Word(5)));
        assert_eq!(word(Field::Mark), Some(classify::Field::Word(6)));
        assert_eq!(word(Field::Bit(0)), Some(classify::Field::Word(7)));
        assert_eq!(word(Field::Bit(1)), Some(classify::Field::Word(8)));
        assert_eq!(word(Field::Place(Side::Destination, 1)), Some(classify::Field::Lazy(3)));
        assert!(FIELDS.iter().all(|field| word(*field).is_some()));
        // Of places in words, two that nobody asks for give theirs to the answers.
        let in_words = Layout::of(&form.rules, form.bits.len(), PlacesAre::Words);
        let without = FIELDS.iter().filter(|field| in_words.field(**field).is_none());
        assert_eq!(without.collect::<Vec<_>>(), FIELDS[8..].iter().collect::<Vec<_>>());
        let packet = Packet { state: State::Established, mark: 9, ..Packet::default() };
        let mut key = form.key(&packet, &NoSets);
        key.bits = 2;
        let mut words = classify::Packet::new(0, 0);
        form.layout.fill(&mut words, &key);
        let found = (5..9).map(|word| words.get(classify::Field::Word(word)));
        assert_eq!(found.collect::<Vec<_>>(), [packet.state as u32, 9, 0, 1]);
    }

    #[test]
    fn more_answers_than_words_are_bits() {
        let sets: Vec<String> = (0..6).map(|number| format!("src @s{number}")).collect();
        let in_words = form(&sets.join(" ")).layout;
        assert_eq!(in_words.field(Field::Bit(5)), Some(classify::Field::Word(10)));
        assert!(FIELDS[..SURE].iter().all(|field| in_words.field(*field).is_some()));
        let form = form(&format!("in eth0 {}", sets.join(" ")));
        assert_eq!(form.layout.field(Field::Bit(5)), Some(classify::Field::Set(5)));
        assert!(FIELDS.iter().all(|field| form.layout.field(*field).is_some()));
        let mut key = form.key(&Packet::default(), &NoSets);
        key.bits = 0x21;
        let mut words = classify::Packet::new(0, 0);
        form.layout.fill(&mut words, &key);
        let bits = (0..6).map(|set| words.get(classify::Field::Set(set)));
        assert_eq!(bits.sum::<u32>(), 2);
    }
}
