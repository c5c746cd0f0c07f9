//! Finds the marked examples of a Markdown document.
//!
//! Not a Markdown parser: it knows fences of three or more backticks, their indentation (inside
//! lists), and comments on a line of their own. Everything inside a fence is content, so that a
//! document may show a marked example without having it run.

use crate::finding::Finding;

const ALLOWED_MARKS: &str = "<!-- example --> or <!-- example: server -->";

/// One script that the document promises to work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Example {
    /// The document.
    pub(crate) path: String,
    /// The line of the script's fence, from 1.
    pub(crate) line: usize,
    /// The script.
    pub(crate) script: String,
    /// What it prints, when the document says so.
    pub(crate) expected: Option<Expected>,
    /// Whether it talks to a running demo server.
    pub(crate) wants_server: bool,
}

/// The block that shows what a script prints.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The line of its first line of text, from 1.
    pub(crate) line: usize,
    /// The text.
    pub(crate) text: String,
}

/// What [`extract`] found in a document.
#[derive(Debug, Default)]
pub(crate) struct Extraction {
    /// In document order.
    pub(crate) examples: Vec<Example>,
    /// Marks that mark nothing, fences without an end.
    pub(crate) findings: Vec<Finding>,
}

/// Reads a document.
pub(crate) fn extract(path: &str, text: &str) -> Extraction {
    let lines: Vec<&str> = text.lines().collect();
    let mut extraction = Extraction::default();
    let mut index = 0;
    let mut mark = None;
    while index < lines.len() {
        let Some(block) = Block::starting_at(&lines, index) else {
            if mark.is_some() {
                extraction.findings.push(no_script(path, index));
            }
            mark = read_mark(lines[index]);
            if mark == Some(Mark::Unknown) {
                let what = format!("unknown mark {}", lines[index].trim());
                extraction.findings.push(Finding::new(path, index + 1, what, ALLOWED_MARKS));
                mark = None;
            }
            index += 1;
            continue;
        };
        if !block.is_closed {
            let what = "a code block without an end";
            extraction.findings.push(Finding::new(path, index + 1, what, "a closing fence"));
        }
        match mark.take() {
            Some(_) if block.language != "sh" => extraction.findings.push(no_script(path, index)),
            Some(mark) => extraction.examples.push(Example {
                path: path.to_owned(),
                line: index + 1,
                script: block.content(&lines),
                expected: expected_after(&lines, block.after),
                wants_server: mark == Mark::Server,
            }),
            None => {}
        }
        index = block.after;
    }
    if mark.is_some() {
        extraction.findings.push(no_script(path, lines.len()));
    }
    extraction
}

/// `line` is the number of the mark's line, which is the index of the line below it.
fn no_script(path: &str, line: usize) -> Finding {
    Finding::new(path, line, "a mark without an example", "```sh directly below the mark")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Plain,
    Server,
    Unknown,
}

fn read_mark(line: &str) -> Option<Mark> {
    let comment = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    match comment.strip_prefix("example")?.trim_start() {
        "" => Some(Mark::Plain),
        kind => match kind.strip_prefix(':').map(str::trim) {
            Some("server") => Some(Mark::Server),
            Some(_) => Some(Mark::Unknown),
            // A comment that merely begins with the word.
            None => None,
        },
    }
}

/// A ```text block below a script, with at most one empty line between.
fn expected_after(lines: &[&str], after: usize) -> Option<Expected> {
    let is_empty = lines.get(after).is_some_and(|line| line.trim().is_empty());
    let start = after + usize::from(is_empty);
    let block = Block::starting_at(lines, start)?;
    (block.language == "text").then(|| Expected { line: start + 2, text: block.content(lines) })
}

/// A fenced block: `lines[start]` opens it, `lines[after]` is the first line behind it.
struct Block<'a> {
    language: &'a str,
    start: usize,
    after: usize,
    indentation: usize,
    is_closed: bool,
}

impl<'a> Block<'a> {
    fn starting_at(lines: &[&'a str], start: usize) -> Option<Block<'a>> {
        let line = lines.get(start)?;
        let fence = line.trim_start();
        let fence_length = fence.len() - fence.trim_start_matches('`').len();
        if fence_length < 3 {
            return None;
        }
        let closes = |line: &&str| {
            let line = line.trim();
            line.len() >= fence_length && line.bytes().all(|byte| byte == b'`')
        };
        let end = lines.iter().skip(start + 1).position(closes);
        Some(Block {
            language: fence[fence_length..].trim(),
            start,
            after: end.map_or(lines.len(), |length| start + length + 2),
            indentation: line.len() - fence.len(),
            is_closed: end.is_some(),
        })
    }

    fn content(&self, lines: &[&str]) -> String {
        let end = if self.is_closed { self.after - 1 } else { self.after };
        let mut content = String::new();
        for line in &lines[self.start + 1..end] {
            let spaces = line.len() - line.trim_start_matches(' ').len();
            content.push_str(&line[spaces.min(self.indentation)..]);
            content.push('\n');
        }
        content
    }
}

#[cfg(test)]
#[path = "extract_tests.rs"]
mod tests;
