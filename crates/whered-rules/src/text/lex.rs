//! Splits the own format into words, each with its line and column.
//!
//! For: the parser beside it, and nobody else.
//!
//! ```text
//! src 10.0.0.0/8 log "in: " # why      ->  src | 10.0.0.0/8 | log | "in: " | end of line
//! ```
//!
//! Invariants: the last token is the end of the file; every line ends with an end-of-line token.
//! Concurrency: pure. Cost: linear; words borrow the text.

use std::borrow::Cow;

use crate::error::Problems;

/// The kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A run of characters without a meaning of their own.
    Word,
    /// Text that was between double quotes.
    Quoted,
    /// `@` and a name in quotes.
    QuotedSet,
    /// One of `{ } ( ) ,`.
    Mark,
    /// `=`, `!=`, `<`, `<=`, `>`, `>=`.
    Operator,
    /// The end of a line.
    LineEnd,
    /// The end of the file.
    FileEnd,
}

/// A token with its place.
#[derive(Clone, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    pub(super) text: Cow<'t, str>,
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Token<'_> {
    /// Whether it is this word, mark or operator (not in quotes).
    pub(super) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Mark | Kind::Operator) && self.text == text
    }

    /// How an error names it.
    pub(super) fn shown(&self) -> &str {
        match self.kind {
            Kind::LineEnd => "end of line",
            Kind::FileEnd => "end of file",
            _ => &self.text,
        }
    }
}

/// All tokens of a text; problems go to `problems` and their characters are left out.
pub(super) fn split<'t>(text: &'t str, problems: &mut Problems) -> Vec<Token<'t>> {
    let mut tokens = Vec::with_capacity(text.len() / 5);
    let mut number = 0;
    for line in text.lines() {
        number += 1;
        let mut reader = LineReader { line, at: 0, column: 1, number };
        while let Some(token) = reader.next(problems) {
            tokens.push(token);
        }
        let (kind, column) = (Kind::LineEnd, reader.column);
        tokens.push(Token { kind, text: Cow::Borrowed(""), line: number, column });
    }
    let kind = Kind::FileEnd;
    tokens.push(Token { kind, text: Cow::Borrowed(""), line: number.max(1), column: 1 });
    tokens
}

/// Reads the tokens of one line.
struct LineReader<'t> {
    line: &'t str,
    /// In bytes; always at the start of a character.
    at: usize,
    /// In characters, from 1.
    column: u32,
    number: u32,
}

impl<'t> LineReader<'t> {
    fn peek(&self) -> Option<char> {
        self.line[self.at..].chars().next()
    }

    fn step(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        self.column += 1;
        Some(next)
    }

    fn next(&mut self, problems: &mut Problems) -> Option<Token<'t>> {
        loop {
            while self.peek().is_some_and(char::is_whitespace) {
                self.step();
            }
            let (start, column) = (self.at, self.column);
            let token = |kind, text| Token { kind, text, line: self.number, column };
            match self.peek()? {
                '#' => return None,
                '{' | '}' | '(' | ')' | ',' => {
                    let text = Cow::Borrowed(&self.line[start..=start]);
                    let token = token(Kind::Mark, text);
                    self.step();
                    return Some(token);
                }
                '"' => return Some(self.quoted(Kind::Quoted, column, problems)),
                '=' | '<' | '>' | '!' => {
                    self.step();
                    if self.peek() == Some('=') {
                        self.step();
                    }
                    let text = &self.line[start..self.at];
                    if text == "!" {
                        problems.found(self.number, column, "!", "!= or the word not");
                        continue;
                    }
                    let text = Cow::Borrowed(if text == "==" { "=" } else { text });
                    return Some(Token { kind: Kind::Operator, text, line: self.number, column });
                }
                c if c.is_control() => {
                    problems.found(self.number, column, &c.to_string(), "printable characters");
                    self.step();
                }
                '@' if self.line[start + 1..].starts_with('"') => {
                    self.step();
                    return Some(self.quoted(Kind::QuotedSet, column, problems));
                }
                _ => {
                    while self.peek().is_some_and(is_word) {
                        self.step();
                    }
                    let text = Cow::Borrowed(&self.line[start..self.at]);
                    return Some(Token { kind: Kind::Word, text, line: self.number, column });
                }
            }
        }
    }

    /// Reads a string whose opening quote is next.
    fn quoted(&mut self, kind: Kind, column: u32, problems: &mut Problems) -> Token<'t> {
        self.step();
        let mut text = String::new();
        loop {
            let at = self.column;
            match self.step() {
                Some('"') => break,
                Some('\\') => match self.step() {
                    Some(c @ ('"' | '\\')) => text.push(c),
                    other => {
                        let found = other.map_or("\\".to_owned(), |c| format!("\\{c}"));
                        problems.found(self.number, at, &found, "\\\" or \\\\");
                    }
                },
                Some(c) if c.is_control() => {
                    problems.found(self.number, at, &c.to_string(), "printable characters");
                }
                Some(c) => text.push(c),
                None => {
                    problems.found(self.number, column, "an open quote", "\"text\" on one line");
                    break;
                }
            }
        }
        Token { kind, text: Cow::Owned(text), line: self.number, column }
    }
}

/// Whether a character is part of a word.
pub(super) fn is_word(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !"{}(),#\"=<>!".contains(c)
}
