//! Phrases and long sentences of Markdown; doc comments are read as Markdown too.
//!
//! Fenced blocks and HTML comments are left out, a span of code in backticks counts as one word,
//! and rows of tables have no sentences. A sentence ends at `.`, `!` or `?` before a word that
//! begins like a sentence, and at the end of its paragraph, item or heading.

use super::list::WordList;
use super::{Hit, Kind};
use crate::finding::Finding;
use crate::repository::TextFile;

const LONGEST_SENTENCE: usize = 35;

/// One word with the line that it stands on.
#[derive(Debug)]
struct Word {
    line: usize,
    text: String,
}

/// One paragraph, item, heading or row of a table.
#[derive(Debug, Default)]
pub(super) struct Paragraph {
    words: Vec<Word>,
    is_row: bool,
}

/// Counts the phrases and the long sentences of one Markdown file.
pub(super) fn check_document(file: &TextFile, words: &WordList, hits: &mut Vec<Hit>) {
    let lines = file.text.lines().enumerate().map(|(index, line)| (index + 1, line));
    for paragraph in paragraphs(lines) {
        check_phrases(&file.path, &paragraph, words, hits);
        for (line, length) in long_sentences(&paragraph) {
            let what = format!("a sentence of {length} words");
            let allowed = format!("at most {LONGEST_SENTENCE}");
            let finding = Finding::new(&file.path, line, what, allowed);
            hits.push(Hit { kind: Kind::Sentence, finding });
        }
    }
}

/// Counts the listed phrases of one paragraph.
pub(super) fn check_phrases(
    path: &str,
    paragraph: &Paragraph,
    words: &WordList,
    hits: &mut Vec<Hit>,
) {
    let texts: Vec<String> = paragraph.words.iter().map(|word| bare(&word.text)).collect();
    for (phrase, instead) in &words.phrases {
        for (index, window) in texts.windows(phrase.len()).enumerate() {
            if window == phrase {
                let what = format!("'{}'", phrase.join(" "));
                let line = paragraph.words[index].line;
                let finding = Finding::new(path, line, what, format!("'{instead}'"));
                hits.push(Hit { kind: Kind::Phrase, finding });
            }
        }
    }
}

/// A word in small letters without what surrounds it.
fn bare(word: &str) -> String {
    word.trim_matches(|char: char| !char.is_alphanumeric() && char != '`').to_lowercase()
}

/// Splits numbered lines into paragraphs.
pub(super) fn paragraphs<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Paragraph> {
    let mut paragraphs = vec![Paragraph::default()];
    let mut fence = None;
    let mut in_comment = false;
    let mut in_code = false;
    for (number, line) in lines {
        let line = line.trim();
        let ticks = line.len() - line.trim_start_matches('`').len();
        if let Some(length) = fence {
            if ticks >= length {
                fence = None;
            }
            continue;
        }
        in_comment |= line.starts_with("<!--");
        if ticks >= 3 {
            fence = Some(ticks);
        }
        if ticks >= 3 || in_comment || line.is_empty() || starts_paragraph(line) {
            paragraphs.push(Paragraph { words: Vec::new(), is_row: line.starts_with('|') });
            in_code = false;
        }
        if ticks < 3 && !in_comment {
            let words = &mut paragraphs.last_mut().expect("it begins with one").words;
            words.extend(split_words(line, &mut in_code).map(|text| Word { line: number, text }));
        }
        in_comment &= !line.ends_with("-->");
    }
    paragraphs.retain(|paragraph| !paragraph.words.is_empty());
    paragraphs
}

fn starts_paragraph(line: &str) -> bool {
    let digits = line.trim_start_matches(|char: char| char.is_ascii_digit());
    let is_numbered = digits.len() < line.len() && digits.starts_with(". ");
    is_numbered || ["- ", "* ", "#", "|", "> "].iter().any(|head| line.starts_with(head))
}

/// The words of a line; a span of code is one backtick, whatever it holds.
fn split_words(line: &str, in_code: &mut bool) -> impl Iterator<Item = String> {
    let mut kept = String::new();
    for char in line.chars() {
        if char == '`' {
            *in_code = !*in_code;
        }
        if char == '`' && *in_code || char != '`' && !*in_code {
            kept.push(char);
        }
    }
    let words: Vec<String> = kept.split_whitespace().map(str::to_owned).collect();
    words
        .into_iter()
        .filter(|word| word.contains(|char: char| char.is_alphanumeric() || char == '`'))
}

/// The line and the length of each sentence that is too long.
fn long_sentences(paragraph: &Paragraph) -> Vec<(usize, usize)> {
    let words = &paragraph.words;
    let mut long = Vec::new();
    let mut start = 0;
    for index in 0..words.len() {
        let next = words.get(index + 1).map(|word| word.text.as_str());
        if ends_sentence(&words[index].text, next) {
            let length = index + 1 - start;
            if length > LONGEST_SENTENCE && !paragraph.is_row {
                long.push((words[start].line, length));
            }
            start = index + 1;
        }
    }
    long
}

fn ends_sentence(word: &str, next: Option<&str>) -> bool {
    let Some(next) = next else { return true };
    let end = word.trim_end_matches([')', '"', '\'', '*', '_']);
    let begins = next.trim_start_matches(['(', '"', '\'', '*', '_', '[']);
    end.ends_with(['.', '!', '?'])
        && !["e.g.", "i.e.", "vs.", "cf."].contains(&end)
        && begins.starts_with(|char: char| char.is_uppercase() || char == '`')
}

#[cfg(test)]
mod tests {
    use super::super::tests::{found, words};
    use super::*;

    fn lengths(text: &str) -> Vec<(usize, usize)> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        paragraphs(lines).iter().flat_map(long_sentences).collect()
    }

    #[test]
    fn a_phrase_is_found_over_a_line_end_and_not_in_code() {
        let text = "There are so\nmany, `so many`.\n\n```sh\nso many\n```\nSo many.\n";
        let found = found("docs/a.md", text, Kind::Phrase);
        assert_eq!(
            found,
            ["docs/a.md:1: 'so many'; allowed: 'N'", "docs/a.md:7: 'so many'; allowed: 'N'"]
        );
        assert_eq!(words().phrases.len(), 1);
    }

    #[test]
    fn a_sentence_counts_to_its_end_and_no_further() {
        let long = format!("{}end.", "word ".repeat(35));
        assert_eq!(lengths(&long), [(1, 36)]);
        assert_eq!(lengths(&long.replacen("word", "", 1)), []);
        let two = format!("{}end. Then {}end.", "word ".repeat(30), "word ".repeat(30));
        assert_eq!(lengths(&two), []);
        assert_eq!(lengths(&two.replace(". Then", ", then")), [(1, 63)]);
        assert_eq!(lengths(&two.replace("end. Then", "e.g. Then")), [(1, 63)]);
        assert_eq!(lengths(&two.replace(" Then", "\n\nthen")), []);
        assert_eq!(lengths(&two.replace(" Then", "\n- then")), []);
    }

    #[test]
    fn tables_code_and_comments_have_no_sentences() {
        let long = "word ".repeat(40);
        assert_eq!(lengths(&format!("| {long} |\n")), []);
        assert_eq!(lengths(&format!("```text\n{long}\n```\n")), []);
        assert_eq!(lengths(&format!("<!-- {long}\n{long} -->\n")), []);
        assert_eq!(lengths(&format!("<!-- a -->\n{long}\n")), [(2, 40)]);
        assert_eq!(lengths(&format!("See `{long}` here.\n")), []);
    }
}
