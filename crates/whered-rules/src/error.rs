//! The one error of this crate: a list of problems, each with its place.
//!
//! For: telling a person in one go everything that is wrong with a file: file, line, column, what
//! was found, what is allowed.
//! Not for: findings about rules that are well formed (see `check`).
//!
//! ```text
//! RulesError -> [ Problem { file, line, column, message }, ... ]   in the order of the file
//! ```
//!
//! Invariants: at least one problem, at most [`LIMIT`]; a message is one line.
//! Concurrency: plain data. Cost: made only when something is wrong.

use std::fmt;
use std::sync::Arc;

/// How many problems one error holds; a hostile file shall not become a hostile report.
pub(crate) const LIMIT: usize = 100;

/// How much of a wrong text a problem repeats, in characters.
const FOUND_CHARS: usize = 48;

/// One thing that is wrong, with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The name of the file, as it was given to the reader.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1; 0 where the whole line is meant.
    pub column: u32,
    /// The message says what was found and what is allowed.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.file, self.line)?;
        if self.column > 0 {
            write!(f, "{}:", self.column)?;
        }
        write!(f, " {}", self.message)
    }
}

/// Why a ruleset was refused: all problems that were found, in order.
///
/// # Examples
///
/// ```
/// let error = whered_rules::text::read("edge.rules", "chain a policy maybe {\n}\n")
///     .expect_err("there is no such policy");
/// assert_eq!(
///     error.to_string(),
///     "edge.rules:1:16: found \"maybe\": allowed is accept, drop, reject or continue"
/// );
/// assert_eq!(error.problems()[0].line, 1);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RulesError(Box<[Problem]>);

impl RulesError {
    /// The problems, in the order in which they were found; never none.
    pub fn problems(&self) -> &[Problem] {
        &self.0
    }

    /// An error of one problem.
    pub(crate) fn one(file: &Arc<str>, line: u32, column: u32, message: String) -> RulesError {
        RulesError(Box::new([Problem { file: Arc::clone(file), line, column, message }]))
    }
}

impl fmt::Display for RulesError {
    /// One line: the first problem, and how many more there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.0.first() {
            write!(f, "{first}")?;
        }
        match self.0.len() {
            0 | 1 => Ok(()),
            2 => write!(f, " (and 1 more)"),
            count => write!(f, " (and {} more)", count - 1),
        }
    }
}

impl std::error::Error for RulesError {}

/// Problems of one file while it is read.
#[derive(Debug)]
pub(crate) struct Problems {
    file: Arc<str>,
    list: Vec<Problem>,
    /// What many rules have in common: the problem of the first, and how many more there are.
    repeated: Vec<(String, usize, usize)>,
}

impl Problems {
    pub(crate) fn new(file: &Arc<str>) -> Problems {
        Problems { file: Arc::clone(file), list: Vec::new(), repeated: Vec::new() }
    }

    /// Notes one problem; past the limit they are not kept.
    pub(crate) fn push(&mut self, line: u32, column: u32, message: String) {
        if self.list.len() < LIMIT {
            self.list.push(Problem { file: Arc::clone(&self.file), line, column, message });
        }
    }

    /// Notes a problem that other rules may have, too: only the first is told, with their number.
    pub(crate) fn push_repeated(&mut self, line: u32, column: u32, message: String, what: String) {
        if let Some((.., more)) = self.repeated.iter_mut().find(|(known, ..)| *known == what) {
            *more += 1;
            return;
        }
        let before = self.list.len();
        self.push(line, column, message);
        if self.list.len() > before {
            self.repeated.push((what, before, 0));
        }
    }

    /// `found "x": allowed is y`.
    pub(crate) fn found(&mut self, line: u32, column: u32, found: &str, allowed: &str) {
        self.push(line, column, found_message(found, allowed));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn extend(&mut self, other: RulesError) {
        let room = LIMIT.saturating_sub(self.list.len());
        self.list.extend(other.0.into_vec().into_iter().take(room));
    }

    /// The error, if anything was noted; in the order of lines.
    pub(crate) fn finish(mut self) -> Result<(), RulesError> {
        if self.list.is_empty() {
            return Ok(());
        }
        for (what, at, more) in self.repeated.iter().filter(|(_, _, more)| *more > 0) {
            if let Some(problem) = self.list.get_mut(*at) {
                problem.message += &format!(" ({} rules use {what})", more + 1);
            }
        }
        self.list.sort_by_key(|problem| (problem.line, problem.column));
        Err(RulesError(self.list.into()))
    }
}

/// `found "x": allowed is y`, with x cut after 48 characters.
pub(crate) fn found_message(found: &str, allowed: &str) -> String {
    if found.is_empty() {
        return format!("found nothing: allowed is {allowed}");
    }
    format!("found {:?}: allowed is {allowed}", shortened(found))
}

/// The text, cut after 48 characters.
pub(crate) fn shortened(text: &str) -> String {
    let mut kept: String = text.chars().take(FOUND_CHARS).collect();
    if kept.len() < text.len() {
        kept.push('…');
    }
    kept
}
