//! `xtask/tidy/words.toml`, which people edit, and `xtask/tidy/counts.toml`, which tidy writes.
//!
//! A key that is missing or of another type is an error: a misspelt list must not pass as empty.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{COUNTS, Counts, KINDS, WORDS};
use crate::failure::ChoreError;

const HEAD: &str = "\
# How often each area has what `cargo xtask words` counts. Written by
# `cargo xtask tidy --update-words`; a count may only fall.
";

/// The words that are counted.
#[derive(Debug)]
pub(super) struct WordList {
    /// Each phrase as its words, with what to say instead.
    pub(super) phrases: Vec<(Vec<String>, String)>,
    /// Words that count in names.
    pub(super) names: Vec<String>,
    /// Names of types that count though they end in neither -ed nor -ing.
    pub(super) types: Vec<String>,
    /// Nouns that end in -ed or -ing.
    pub(super) nouns: Vec<String>,
}

impl WordList {
    pub(super) fn parse(text: &str) -> Result<WordList, ChoreError> {
        let table = parse_table(WORDS, text)?;
        let phrases = table.get("phrases").and_then(Value::as_table);
        let phrases = phrases.ok_or_else(|| wrong(WORDS, "phrases"))?;
        let split = |phrase: &str| phrase.split(' ').map(str::to_owned).collect();
        let phrases = phrases.iter().map(|(phrase, instead)| {
            let instead = instead.as_str().ok_or_else(|| wrong(WORDS, phrase))?;
            Ok((split(phrase), instead.to_owned()))
        });
        Ok(WordList {
            phrases: phrases.collect::<Result<_, ChoreError>>()?,
            names: strings(&table, "names", "words")?,
            types: strings(&table, "types", "others")?,
            nouns: strings(&table, "types", "nouns")?,
        })
    }
}

fn parse_table(path: &str, text: &str) -> Result<Table, ChoreError> {
    text.parse().map_err(|error| ChoreError::new(format!("{path}: {error}")))
}

fn wrong(path: &str, key: &str) -> ChoreError {
    ChoreError::new(format!("{path}: '{key}' is missing or not of its type"))
}

fn strings(table: &Table, section: &str, key: &str) -> Result<Vec<String>, ChoreError> {
    let list = table.get(section).and_then(|section| section.get(key)).and_then(Value::as_array);
    let list = list.ok_or_else(|| wrong(WORDS, key))?;
    let list = list.iter().map(|word| word.as_str().map(str::to_owned));
    list.collect::<Option<_>>().ok_or_else(|| wrong(WORDS, key))
}

pub(super) fn parse_counts(text: &str) -> Result<Counts, ChoreError> {
    let table = parse_table(COUNTS, text)?;
    let mut counts = Counts::new();
    for (_, key) in KINDS {
        let Some(areas) = table.get(*key) else { continue };
        let areas = areas.as_table().ok_or_else(|| wrong(COUNTS, key))?;
        let areas = areas.iter().map(|(area, count)| {
            let count = count.as_integer().and_then(|count| usize::try_from(count).ok());
            Some((area.clone(), count?))
        });
        let areas = areas.collect::<Option<BTreeMap<_, _>>>();
        counts.insert(key, areas.ok_or_else(|| wrong(COUNTS, key))?);
    }
    Ok(counts)
}

/// All kinds have a section, also an empty one: what has one may only fall.
pub(super) fn print_counts(counts: &Counts) -> String {
    let mut text = HEAD.to_owned();
    for (_, key) in KINDS {
        text.push_str(&format!("\n[{key}]\n"));
        for (area, count) in counts.get(key).into_iter().flatten() {
            text.push_str(&format!("{area:?} = {count}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_a_section_is_refused() {
        let text = "[phrases]\n\"so many\" = \"N\"\n[names]\nwords = [\"lane\"]\n\
                    [types]\nothers = [\"Of\"]\nnouns = [\"Seed\"]\n";
        let words = WordList::parse(text).unwrap();
        assert_eq!(words.phrases[0].0, ["so", "many"]);
        assert_eq!(words.phrases[0].1, "N");
        assert!(WordList::parse(&text.replace("others", "other")).is_err());
        assert!(WordList::parse(&text.replace("\"N\"", "1")).is_err());
    }

    #[test]
    fn counts_are_read_as_they_were_written() {
        let mut counts = Counts::new();
        counts.insert("names", BTreeMap::from([("crates/a".to_owned(), 3)]));
        let read = parse_counts(&print_counts(&counts)).unwrap();
        assert_eq!(read["names"], counts["names"]);
        assert_eq!(read.len(), KINDS.len());
        assert!(parse_counts("[names]\n\"crates/a\" = -1\n").is_err());
    }
}
