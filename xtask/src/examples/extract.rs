//! Finds the marked examples of a Markdown document.
//!
//! Not a Markdown parser: it knows fences of three or more backticks, their indentation (inside
//! lists), and comments on a line of their own. Everything inside a fence is content, so that a
//! document may show a marked example without having it run.

use crate::finding::Finding;

const ALLOWED_MARKS: &str = "<!-- example -->, <!-- example: server -->, \
    <!-- example: server with FILE -->, <!-- file: NAME --> or <!-- not run: REASON -->";

/// Languages of blocks that a reader types or copies: each is run, used as a file, or says why not.
const PROMISING: &[&str] = &["sh", "console", "toml"];

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
    /// The running server that it talks to.
    pub(crate) server: Option<Server>,
    /// The files that the document has shown above it.
    pub(crate) files: Vec<ShownFile>,
}

/// Which server an example talks to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Server {
    /// `whered serve --demo`.
    Demo,
    /// `whered serve --config FILE`, where the document shows the file.
    Configured(String),
}

/// A block that the document shows as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownFile {
    /// Its name, without folders.
    pub(crate) name: String,
    /// Its text.
    pub(crate) text: String,
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
    let mut files: Vec<ShownFile> = Vec::new();
    let mut shown = Vec::new();
    while index < lines.len() {
        let Some(block) = Block::starting_at(&lines, index) else {
            if let Some(mark) = &mark {
                extraction.findings.push(no_block(path, index, mark));
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
            Some(Mark::File(name)) => {
                files.retain(|file| file.name != name);
                files.push(ShownFile { name, text: block.content(&lines) });
                shown.push((index + 1, files.clone()));
            }
            Some(Mark::NotRun) => {}
            Some(mark) if block.language != "sh" => {
                extraction.findings.push(no_block(path, index, &mark));
            }
            Some(Mark::Example(server)) => {
                if let Some(Server::Configured(name)) = &server
                    && !files.iter().any(|file| file.name == *name)
                {
                    let what = format!("no file {name} is shown above");
                    let allowed = format!("a block below <!-- file: {name} -->");
                    extraction.findings.push(Finding::new(path, index, what, allowed));
                }
                extraction.examples.push(Example {
                    path: path.to_owned(),
                    line: index + 1,
                    script: block.content(&lines),
                    expected: expected_after(&lines, block.after),
                    server,
                    files: files.clone(),
                });
            }
            None if PROMISING.contains(&block.language) => {
                let what = format!("a block of {} without a mark", block.language);
                extraction.findings.push(Finding::new(path, index + 1, what, ALLOWED_MARKS));
            }
            Some(Mark::Unknown) | None => {}
        }
        index = block.after;
    }
    if let Some(mark) = &mark {
        extraction.findings.push(no_block(path, lines.len(), mark));
    }
    for (line, files) in shown {
        let check = check_of(path, line, files, &extraction.examples);
        extraction.examples.extend(check);
    }
    extraction
}

/// `whered check` of the configuration that is the last of the files, unless an example uses it.
fn check_of(
    path: &str,
    line: usize,
    files: Vec<ShownFile>,
    examples: &[Example],
) -> Option<Example> {
    let file = files.last().filter(|file| file.name.ends_with(".toml"))?;
    let uses = |example: &Example| {
        example.script.contains(&file.name)
            || example.server.as_ref() == Some(&Server::Configured(file.name.clone()))
    };
    if examples.iter().any(|example| example.files.contains(file) && uses(example)) {
        return None;
    }
    let script = format!("whered check {}\n", file.name);
    Some(Example { path: path.to_owned(), line, script, expected: None, server: None, files })
}

/// `line` is the number of the mark's line, which is the index of the line below it.
fn no_block(path: &str, line: usize, mark: &Mark) -> Finding {
    match mark {
        Mark::File(_) => Finding::new(path, line, "a file without a block", "``` below the mark"),
        _ => Finding::new(path, line, "a mark without an example", "```sh directly below the mark"),
    }
}

/// What a comment says of the block below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    /// It is run, maybe next to a server.
    Example(Option<Server>),
    /// It is not run.
    NotRun,
    /// It is a file of this name.
    File(String),
    /// A mistake.
    Unknown,
}

/// The mark of a line; `None` for a line without one.
pub(super) fn read_mark(line: &str) -> Option<Mark> {
    let comment = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    let (word, argument) = match comment.split_once(':') {
        Some((word, argument)) => (word.trim_end(), Some(argument.trim())),
        None => (comment, None),
    };
    let is_name = |name: &str| !name.is_empty() && !name.contains(['/', ' ']);
    Some(match (word, argument) {
        ("example", None) => Mark::Example(None),
        ("example", Some("server")) => Mark::Example(Some(Server::Demo)),
        ("example", Some(kind)) => match kind.strip_prefix("server with ").map(str::trim) {
            Some(name) if is_name(name) => Mark::Example(Some(Server::Configured(name.to_owned()))),
            _ => Mark::Unknown,
        },
        ("not run", Some(reason)) if !reason.is_empty() => Mark::NotRun,
        ("not run", _) => Mark::Unknown,
        ("file", Some(name)) if is_name(name) => Mark::File(name.to_owned()),
        ("file", _) => Mark::Unknown,
        _ => return None,
    })
}

/// A ```text block below a script, with at most one empty line between.
fn expected_after(lines: &[&str], after: usize) -> Option<Expected> {
    let is_empty = lines.get(after).is_some_and(|line| line.trim().is_empty());
    let start = after + usize::from(is_empty);
    let block = Block::starting_at(lines, start)?;
    (block.language == "text").then(|| Expected { line: start + 2, text: block.content(lines) })
}

/// A fenced block: `lines[start]` opens it, `lines[after]` is the first line behind it.
pub(super) struct Block<'a> {
    language: &'a str,
    start: usize,
    pub(super) after: usize,
    indentation: usize,
    is_closed: bool,
}

impl<'a> Block<'a> {
    /// The block that a line opens; `None` for a line that is no fence.
    pub(super) fn starting_at(lines: &[&'a str], start: usize) -> Option<Block<'a>> {
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
