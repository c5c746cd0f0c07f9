//! What is wrong with a configuration, in one line: file, line, column, what was found, what is
//! allowed.
//!
//! Lines and columns count from 1; a column counts characters, as editors do.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A mistake in a configuration.
///
/// ```
/// use std::path::Path;
/// use whered_server::Config;
///
/// let error = Config::from_toml("[resp]\nlisen = []\n", Path::new("edge.toml")).unwrap_err();
/// assert_eq!(error.line(), Some(2));
/// assert!(error.to_string().starts_with("edge.toml:2:1: unknown key 'lisen' in [resp]; allowed: "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    path: PathBuf,
    location: Option<Location>,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Location {
    line: usize,
    column: usize,
}

impl ConfigError {
    /// The file, as the caller named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The line, from 1; `None` when the mistake belongs to no line.
    pub fn line(&self) -> Option<usize> {
        self.location.map(|location| location.line)
    }

    /// The column in characters, from 1.
    pub fn column(&self) -> Option<usize> {
        self.location.map(|location| location.column)
    }

    /// What is wrong and what is allowed, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path.display())?;
        if let Some(Location { line, column }) = self.location {
            write!(f, "{line}:{column}:")?;
        }
        write!(f, " {}", self.message)
    }
}

impl std::error::Error for ConfigError {}

/// A configuration text and the name of its file: makes errors with their place.
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    pub(super) path: &'a Path,
    /// Where each line begins.
    line_starts: Vec<usize>,
    pub(super) notes: RefCell<Notes>,
}

/// What reading finds beside the values.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// Lines on what is allowed and hardly meant, each with its place.
    pub(super) remarks: Vec<String>,
    /// Files that a reload reads again.
    pub(super) read_files: Vec<PathBuf>,
    /// A secret stands in a configuration that everybody may read, and that was remarked on.
    pub(super) has_open_secret: bool,
}

impl<'a> Document<'a> {
    pub(super) fn new(text: &'a str, path: &'a Path) -> Document<'a> {
        let behind_line_ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(behind_line_ends).collect();
        Document { text, path, line_starts, notes: RefCell::default() }
    }
}

impl Document<'_> {
    /// An error at a byte range of the text.
    pub(super) fn error(&self, span: &Range<usize>, message: impl Into<String>) -> ConfigError {
        ConfigError {
            path: self.path.to_path_buf(),
            location: Some(self.location(span.start)),
            message: message.into(),
        }
    }

    /// The parser's own complaint, in one line.
    pub(super) fn syntax_error(&self, error: &toml::de::Error) -> ConfigError {
        let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        ConfigError {
            path: self.path.to_path_buf(),
            location: error.span().map(|span| self.location(span.start)),
            message,
        }
    }

    /// A byte range's file, line and column, for a message that comes later.
    pub(super) fn at(&self, span: &Range<usize>) -> String {
        let Location { line, column } = self.location(span.start);
        format!("{}:{line}:{column}", self.path.display())
    }

    /// The line of a byte position, from 1.
    pub(super) fn line(&self, position: usize) -> usize {
        self.location(position).line
    }

    fn location(&self, position: usize) -> Location {
        let end = self.text.floor_char_boundary(position);
        let line = self.line_starts.partition_point(|start| *start <= end);
        let line_start = self.line_starts[line - 1];
        Location { line, column: self.text[line_start..end].chars().count() + 1 }
    }
}
