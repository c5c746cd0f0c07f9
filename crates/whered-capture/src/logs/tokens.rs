//! Parts of a line between blanks, some in quotes, brackets or braces.
//!
//! Not for names of parts. A part that begins with a quote ends with the first quote that has no
//! backslash before it and a blank or the line's end behind it: not every server escapes the quotes
//! of user agents. Parts are given without what surrounds them. Several blanks are one.

use std::ops::Range;

use memchr::{memchr, memchr2};

/// A part, and the byte that opened it: a quote, a bracket, a brace or nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) text: Range<usize>,
    pub(super) opening: u8,
}

/// How many bytes come before the first blank. Words are short, so eight bytes are compared at a
/// time, without a search that is made for long texts.
pub(super) fn word_length(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    let (words, rest) = text.as_chunks();
    for (number, word) in words.iter().enumerate() {
        let differs = u64::from_le_bytes(*word) ^ (ONES * u64::from(b' '));
        // The lowest mark is that of the first zero byte.
        let marks = differs.wrapping_sub(ONES) & !differs & (ONES * 0x80);
        if marks != 0 {
            return 8 * number + marks.trailing_zeros() as usize / 8;
        }
    }
    let behind = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
    8 * words.len() + behind
}

/// Where the quoted text ends that begins at `start`.
fn closing_quote(line: &[u8], start: usize) -> Option<usize> {
    let mut from = start;
    loop {
        let at = from + memchr2(b'"', b'\\', line.get(from..)?)?;
        if line.get(at) == Some(&b'\\') {
            from = at + 2;
        } else if line.get(at + 1).is_none_or(|&next| next == b' ') {
            return Some(at);
        } else {
            from = at + 1;
        }
    }
}

/// Where the bracket or brace is closed, before a blank or the line's end: `[::1]:443` is a word.
fn closing(line: &[u8], start: usize, close: u8) -> Option<usize> {
    let at = start + memchr(close, line.get(start..)?)?;
    line.get(at + 1).is_none_or(|&next| next == b' ').then_some(at)
}

/// The part at or behind `at`, and where the next one may begin; nothing at the end of the line or
/// for a quote or bracket that is not closed, which leaves `at` where it is.
pub(super) fn next(line: &[u8], at: &mut usize) -> Option<Token> {
    while line.get(*at) == Some(&b' ') {
        *at += 1;
    }
    let opening = *line.get(*at)?;
    let close = match opening {
        b'"' => closing_quote(line, *at + 1),
        b'[' => closing(line, *at + 1, b']'),
        b'{' => closing(line, *at + 1, b'}'),
        _ => None,
    };
    if let Some(close) = close {
        let text = *at + 1..close;
        *at = close + 1;
        return Some(Token { text, opening });
    }
    if opening == b'"' {
        return None;
    }
    let end = *at + word_length(line.get(*at..)?);
    let text = *at..end;
    *at = end;
    Some(Token { text, opening: 0 })
}

/// All parts of a line; nothing if one is not closed.
pub(super) fn all(line: &[u8], start: usize, tokens: &mut Vec<Token>) -> Option<()> {
    let mut at = start;
    tokens.clear();
    while let Some(token) = next(line, &mut at) {
        tokens.push(token);
    }
    line.get(at..).is_none_or(<[u8]>::is_empty).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Option<Vec<&str>> {
        let mut tokens = Vec::new();
        all(line.as_bytes(), 0, &mut tokens)?;
        Some(tokens.into_iter().map(|token| &line[token.text]).collect())
    }

    #[test]
    fn a_word_ends_before_the_first_blank_wherever_that_is() {
        for length in 0..40 {
            for blank in 0..length {
                let mut text = vec![b'!'; length];
                text[blank] = b' ';
                if let Some(last) = text.last_mut() {
                    *last = b' ';
                }
                assert_eq!(word_length(&text), blank, "{length}");
            }
            assert_eq!(word_length(&vec![0xa0; length]), length);
        }
    }

    #[test]
    fn parts_stand_between_blanks_in_quotes_brackets_and_braces() {
        assert_eq!(texts("a  b c "), Some(vec!["a", "b", "c"]));
        assert_eq!(texts(r#"[a b] "c d" {e f} - "#), Some(vec!["a b", "c d", "e f", "-"]));
        assert_eq!(texts(r#""a"b"c d" e"#), Some(vec![r#"a"b"c d"#, "e"]));
        assert_eq!(texts(r#""say \"x\" y" z"#), Some(vec![r#"say \"x\" y"#, "z"]));
        assert_eq!(texts("[2001:db8::1]:443 x"), Some(vec!["[2001:db8::1]:443", "x"]));
        assert_eq!(texts(r#"a "b"#), None);
        assert_eq!(texts(""), Some(vec![]));
    }
}
