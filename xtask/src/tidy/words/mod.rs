//! The language of the repository as a ratchet: counts per kind and area, which may only fall.
//!
//! An area is the package that a file belongs to, a Markdown file outside all packages, or else a
//! top folder. `xtask/tidy/words.toml` lists the words, `xtask/tidy/counts.toml` the counts.
//! `cargo xtask tidy` fails where a count is above the recorded one; a lower one is fine.
//!
//! `cargo xtask tidy --update-words` records the counts of now. It refuses when the sum of a kind
//! rises, and so a file or a crate may move with what it has.
//!
//! - [`prose`]: phrases and long sentences of Markdown and of doc comments;
//! - [`source`]: doc comments, names and wide comments of source files;
//! - [`list`]: what the two files say.

mod list;
mod prose;
mod source;

use std::collections::BTreeMap;

use crate::failure::ChoreError;
use crate::finding::Finding;
use crate::repository::{Repository, TextFile};
use list::WordList;

const WORDS: &str = "xtask/tidy/words.toml";
const COUNTS: &str = "xtask/tidy/counts.toml";

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A phrase without a plain sense, in Markdown or a doc comment.
    Phrase,
    /// A private word in the name of a type, module or function.
    Name,
    /// A type named by a bare participle or preposition.
    Type,
    /// A doc comment that needs the one above it.
    Leaning,
    /// A sentence of more than 35 words in Markdown.
    Sentence,
    /// A comment of more than 100 columns.
    Wide,
}

/// Each kind with its key in the file of counts, which is its column's head in the table too.
const KINDS: &[(Kind, &str)] = &[
    (Kind::Phrase, "phrases"),
    (Kind::Name, "names"),
    (Kind::Type, "types"),
    (Kind::Leaning, "leaning"),
    (Kind::Sentence, "sentences"),
    (Kind::Wide, "wide"),
];

impl Kind {
    fn key(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, key)| key)
    }
}

/// One countable fault.
#[derive(Debug)]
struct Hit {
    kind: Kind,
    finding: Finding,
}

/// The counts of one kind by area.
type Counts = BTreeMap<&'static str, BTreeMap<String, usize>>;

/// Finds each area whose count is above the recorded one.
pub(crate) fn check(
    repository: &Repository,
    texts: &[TextFile],
) -> Result<Vec<Finding>, ChoreError> {
    let hits = hits(texts, &WordList::parse(&repository.read(WORDS)?)?);
    let findings = above(&hits, &areas(texts), &list::parse_counts(&repository.read(COUNTS)?)?);
    if !findings.is_empty() {
        println!("words: where files have only moved, run cargo xtask tidy --update-words");
    }
    Ok(findings)
}

/// Records the counts of now, unless the sum of a kind has risen.
pub(crate) fn update(repository: &Repository) -> Result<Vec<Finding>, ChoreError> {
    let texts = repository.texts()?;
    let hits = hits(&texts, &WordList::parse(&repository.read(WORDS)?)?);
    let counts = count(&hits, &areas(&texts));
    let risen = risen(&counts, &list::parse_counts(&repository.read(COUNTS)?)?);
    if risen.is_empty() {
        let path = repository.root().join(COUNTS);
        std::fs::write(&path, list::print_counts(&counts))
            .map_err(|error| ChoreError::on_file(&path, &error))?;
    }
    Ok(risen)
}

/// Prints a table of all counts, or with a path each hit in the files below it.
pub(crate) fn print(repository: &Repository, path: &str) -> Result<Vec<Finding>, ChoreError> {
    let texts = repository.texts()?;
    let hits = hits(&texts, &WordList::parse(&repository.read(WORDS)?)?);
    if path.is_empty() {
        print!("{}", table(&count(&hits, &areas(&texts))));
    }
    let is_below = |finding: &Finding| !path.is_empty() && finding.path.starts_with(path);
    Ok(hits.into_iter().map(|hit| hit.finding).filter(is_below).collect())
}

fn hits(texts: &[TextFile], words: &WordList) -> Vec<Hit> {
    let mut hits = Vec::new();
    for file in texts {
        if is_document(&file.path) {
            prose::check_document(file, words, &mut hits);
        }
        source::check(file, words, &mut hits);
    }
    hits.sort_by(|a, b| a.finding.cmp(&b.finding));
    hits
}

fn is_document(path: &str) -> bool {
    path.ends_with(".md") && (path.starts_with("docs/") || !path.contains('/'))
}

/// The folders of all packages, the longest first.
fn areas(texts: &[TextFile]) -> Vec<&str> {
    let manifests = texts.iter().filter_map(|file| file.path.strip_suffix("Cargo.toml"));
    let mut folders: Vec<&str> = manifests.filter(|folder| !folder.is_empty()).collect();
    folders.sort_unstable_by_key(|folder| std::cmp::Reverse(folder.len()));
    folders
}

fn area<'a>(path: &'a str, packages: &[&'a str]) -> &'a str {
    if let Some(folder) = packages.iter().find(|folder| path.starts_with(**folder)) {
        return folder.trim_end_matches('/');
    }
    if is_document(path) { path } else { path.split('/').next().unwrap_or(path) }
}

fn count(hits: &[Hit], packages: &[&str]) -> Counts {
    let mut counts = Counts::new();
    for hit in hits {
        let by_area = counts.entry(hit.kind.key()).or_default();
        *by_area.entry(area(&hit.finding.path, packages).to_owned()).or_default() += 1;
    }
    counts
}

fn above(hits: &[Hit], packages: &[&str], recorded: &Counts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, by_area) in count(hits, packages) {
        for (name, found) in by_area {
            let allowed = recorded.get(key).and_then(|areas| areas.get(&name)).copied();
            let allowed = allowed.unwrap_or(0);
            let ours = hits
                .iter()
                .filter(|hit| hit.kind.key() == key && area(&hit.finding.path, packages) == name);
            if found > allowed && allowed == 0 {
                findings.extend(ours.map(|hit| hit.finding.clone()));
            } else if found > allowed {
                let what = format!("{found} {key}");
                let allowed = format!("{allowed} ('cargo xtask words {name}' lists them)");
                findings.push(Finding::new(name, 1, what, allowed));
            }
        }
    }
    findings
}

/// Kinds of whose hits there are more than the record has in all areas together.
fn risen(counts: &Counts, recorded: &Counts) -> Vec<Finding> {
    let sum = |counts: &Counts, key| counts.get(key).map_or(0, |areas| areas.values().sum());
    let mut findings = Vec::new();
    for (_, key) in KINDS {
        let (found, allowed): (usize, usize) = (sum(counts, key), sum(recorded, key));
        if found > allowed && recorded.contains_key(key) {
            let what = format!("{found} {key} in all");
            findings.push(Finding::new(COUNTS, 1, what, allowed.to_string()));
        }
    }
    findings
}

fn table(counts: &Counts) -> String {
    let mut names: Vec<&String> = counts.values().flat_map(BTreeMap::keys).collect();
    names.sort_unstable();
    names.dedup();
    let mut table = format!("{:34}", "");
    KINDS.iter().for_each(|(_, key)| table.push_str(&format!("{key:>10}")));
    for name in names {
        table.push_str(&format!("\n{name:34}"));
        for (_, key) in KINDS {
            let found = counts.get(key).and_then(|areas| areas.get(name)).copied().unwrap_or(0);
            table.push_str(&format!("{found:>10}"));
        }
    }
    table.push_str(&format!("\n{:34}", "sum"));
    for (_, key) in KINDS {
        let sum: usize = counts.get(key).map_or(0, |areas| areas.values().sum());
        table.push_str(&format!("{sum:>10}"));
    }
    table + "\n"
}

#[cfg(test)]
#[path = "ratchet_tests.rs"]
mod tests;
