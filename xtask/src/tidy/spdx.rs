//! Licence expressions: SPDX 3.0 annex B, the part that package manifests use.
//!
//! Not for validating identifiers against the SPDX list: an unknown one is simply not allowed.
//!
//! ```text
//! or   := and  (("OR" | "/") and)*        "/" is the old spelling of OR
//! and  := unit ("AND" unit)*
//! unit := "(" or ")" | id ("WITH" id)?    WITH makes one name of both
//! ```
//!
//! Cost: one pass over the text; nesting is bounded, so that no text exhausts the stack.

use std::fmt;

const DEEPEST_NESTING: usize = 32;

/// A parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Licence {
    /// One licence, with its exception: `Apache-2.0 WITH LLVM-exception`.
    Name(String),
    /// All of them hold.
    All(Vec<Licence>),
    /// The user chooses one.
    Any(Vec<Licence>),
}

/// Where an expression stops making sense.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SpdxError {
    /// The token, counted from 1.
    pub(crate) token: usize,
    /// What stands there; empty at the end.
    pub(crate) found: String,
    /// What could stand there.
    pub(crate) allowed: &'static str,
}

impl fmt::Display for SpdxError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = if self.found.is_empty() { "the end" } else { &self.found };
        write!(out, "token {}: found {found}, allowed is {}", self.token, self.allowed)
    }
}

impl Licence {
    /// Parses an expression.
    pub(crate) fn parse(text: &str) -> Result<Licence, SpdxError> {
        let mut parser = Parser { tokens: tokens(text), next: 0 };
        let licence = parser.alternatives(0)?;
        if parser.next < parser.tokens.len() {
            return Err(parser.error("AND, OR or the end"));
        }
        Ok(licence)
    }

    /// Whether somebody who accepts only `allow` can accept this. `id+` (or later) is accepted
    /// where `id` is.
    pub(crate) fn is_satisfied_by(&self, allow: &[String]) -> bool {
        match self {
            Licence::Name(name) => {
                let this_version = name.strip_suffix('+').unwrap_or(name);
                allow.iter().any(|allowed| allowed == name || allowed == this_version)
            }
            Licence::All(parts) => parts.iter().all(|part| part.is_satisfied_by(allow)),
            Licence::Any(parts) => parts.iter().any(|part| part.is_satisfied_by(allow)),
        }
    }
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    next: usize,
}

impl Parser<'_> {
    fn alternatives(&mut self, depth: usize) -> Result<Licence, SpdxError> {
        let mut parts = vec![self.conjunction(depth)?];
        while self.take("OR") || self.take("/") {
            parts.push(self.conjunction(depth)?);
        }
        Ok(one_or(parts, Licence::Any))
    }

    fn conjunction(&mut self, depth: usize) -> Result<Licence, SpdxError> {
        let mut parts = vec![self.unit(depth)?];
        while self.take("AND") {
            parts.push(self.unit(depth)?);
        }
        Ok(one_or(parts, Licence::All))
    }

    fn unit(&mut self, depth: usize) -> Result<Licence, SpdxError> {
        if depth > DEEPEST_NESTING {
            return Err(self.error("fewer parentheses"));
        }
        if self.take("(") {
            let inside = self.alternatives(depth + 1)?;
            if !self.take(")") {
                return Err(self.error("AND, OR or )"));
            }
            return Ok(inside);
        }
        let mut name = self.identifier()?;
        if self.take("WITH") {
            name.push_str(" WITH ");
            name.push_str(&self.identifier()?);
        }
        Ok(Licence::Name(name))
    }

    fn identifier(&mut self) -> Result<String, SpdxError> {
        match self.tokens.get(self.next) {
            Some(token) if is_identifier(token) => {
                self.next += 1;
                Ok((*token).to_owned())
            }
            _ => Err(self.error("a licence's name")),
        }
    }

    fn take(&mut self, wanted: &str) -> bool {
        let is_there = self.tokens.get(self.next) == Some(&wanted);
        self.next += usize::from(is_there);
        is_there
    }

    fn error(&self, allowed: &'static str) -> SpdxError {
        let found = self.tokens.get(self.next).copied().unwrap_or_default().to_owned();
        SpdxError { token: self.next + 1, found, allowed }
    }
}

fn one_or(mut parts: Vec<Licence>, many: fn(Vec<Licence>) -> Licence) -> Licence {
    if parts.len() == 1 { parts.remove(0) } else { many(parts) }
}

fn is_identifier(token: &str) -> bool {
    !matches!(token, "AND" | "OR" | "WITH")
        && token.chars().all(|char| char.is_ascii_alphanumeric() || "-.+:".contains(char))
}

/// Splits at white space; parentheses and `/` are tokens of their own.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    for word in text.split_whitespace() {
        let mut rest = word;
        while let Some(at) = rest.find(['(', ')', '/']) {
            let (before, from_sign) = rest.split_at(at);
            let (sign, after) = from_sign.split_at(1);
            tokens.extend((!before.is_empty()).then_some(before));
            tokens.push(sign);
            rest = after;
        }
        tokens.extend((!rest.is_empty()).then_some(rest));
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(text: &str, allow: &[&str]) -> bool {
        let allow: Vec<String> = allow.iter().map(|name| (*name).to_owned()).collect();
        Licence::parse(text).unwrap().is_satisfied_by(&allow)
    }

    #[test]
    fn or_needs_one_and_needs_all() {
        assert!(is_allowed("MIT OR GPL-3.0", &["MIT"]));
        assert!(is_allowed("GPL-3.0/MIT", &["MIT"]));
        assert!(!is_allowed("MIT AND GPL-3.0", &["MIT"]));
        assert!(is_allowed("MIT AND ISC", &["MIT", "ISC"]));
        assert!(!is_allowed("GPL-3.0", &["MIT"]));
    }

    #[test]
    fn and_binds_tighter_than_or() {
        assert!(is_allowed("MIT OR ISC AND GPL-3.0", &["MIT"]));
        assert!(!is_allowed("(MIT OR ISC) AND GPL-3.0", &["MIT"]));
        assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0", &["MIT", "Unicode-3.0"]));
    }

    #[test]
    fn an_exception_belongs_to_its_licence() {
        let text = "Apache-2.0 WITH LLVM-exception";
        assert!(is_allowed(text, &["Apache-2.0 WITH LLVM-exception"]));
        assert!(!is_allowed(text, &["Apache-2.0"]));
    }

    #[test]
    fn or_later_is_accepted_where_the_version_is() {
        assert!(is_allowed("Zlib+", &["Zlib"]));
        assert!(!is_allowed("Zlib", &["Zlib+"]));
    }

    #[test]
    fn what_is_no_expression_is_an_error_with_its_place() {
        for text in ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT ISC", "MIT WITH", "(", "M_T"] {
            assert!(Licence::parse(text).is_err(), "{text:?} was accepted");
        }
        let error = Licence::parse("MIT ISC").unwrap_err();
        assert_eq!(error.to_string(), "token 2: found ISC, allowed is AND, OR or the end");
    }

    #[test]
    fn nesting_is_bounded() {
        let text = format!("{}MIT{}", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(Licence::parse(&text).unwrap_err().allowed, "fewer parentheses");
    }
}
