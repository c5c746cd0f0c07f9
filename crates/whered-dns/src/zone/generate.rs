//! `$GENERATE first-last[/step] owner [TTL] [class] type data`: one line for each number, as BIND
//! has it.
//!
//! Not for: what the lines mean (`master.rs` reads each as if the file had it).
//!
//! In every token behind the range, `$` is the number; `${offset,width,base}` is the number plus
//! the offset with at least that many digits, in base `d`, `o`, `x`, `X`, or `n` and `N`: digits
//! of base 16 as labels from the lowest to the highest. The width counts their dots there, and base
//! and width may be left out. `\$` stays a dollar sign.

use super::lexer::Token;

/// The most lines that a zone's file may generate.
pub(super) const GENERATED_COUNT_MAX: u64 = 1 << 20;
const WIDTH_MAX: usize = 255;

/// `first-last[/step]`.
pub(super) struct Range {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) step: u32,
}

impl Range {
    pub(super) fn parse(text: &str) -> Option<Range> {
        let (ends, step) = text.split_once('/').map_or((text, "1"), |(ends, step)| (ends, step));
        let (first, last) = ends.split_once('-')?;
        let number = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<u32>().ok()).flatten()
        };
        let range = Range { first: number(first)?, last: number(last)?, step: number(step)? };
        let sound = range.step > 0 && range.first <= range.last && range.last <= i32::MAX as u32;
        sound.then_some(range)
    }

    pub(super) fn count(&self) -> u64 {
        u64::from((self.last - self.first) / self.step) + 1
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        (self.first..=self.last).step_by(self.step as usize)
    }
}

/// Writes a token's text for one number. None when what follows a `$` has another form.
pub(super) fn expand(token: &Token<'_>, number: u32, text: &mut Vec<u8>) -> Option<()> {
    let mut rest = token.raw;
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'\\', [b'$', tail @ ..]) => {
                text.push(b'$');
                tail
            }
            (b'\\', [byte, tail @ ..]) => {
                text.extend_from_slice(&[b'\\', *byte]);
                tail
            }
            (b'$', [b'{', tail @ ..]) => {
                let end = tail.iter().position(|&byte| byte == b'}')?;
                modified(std::str::from_utf8(&tail[..end]).ok()?, number, text)?;
                &tail[end + 1..]
            }
            (b'$', tail) => {
                text.extend_from_slice(number.to_string().as_bytes());
                tail
            }
            (byte, tail) => {
                text.push(*byte);
                tail
            }
        };
    }
    Some(())
}

/// `offset[,width[,base]]`.
fn modified(modifier: &str, number: u32, text: &mut Vec<u8>) -> Option<()> {
    let mut parts = modifier.split(',');
    let offset: i64 = parts.next()?.parse().ok()?;
    let width: usize = parts.next().unwrap_or("0").parse().ok().filter(|&w| w <= WIDTH_MAX)?;
    let base = parts.next().unwrap_or("d");
    if parts.next().is_some() {
        return None;
    }
    let value = u32::try_from(i64::from(number).checked_add(offset)?).ok()?;
    let digits = match base {
        "d" => format!("{value:0width$}"),
        "o" => format!("{value:0width$o}"),
        "x" => format!("{value:0width$x}"),
        "X" => format!("{value:0width$X}"),
        "n" => labels(&format!("{value:x}"), width),
        "N" => labels(&format!("{value:X}"), width),
        _ => return None,
    };
    text.extend_from_slice(digits.as_bytes());
    Some(())
}

/// The digits as labels, the lowest first; zeros until there are `width` characters.
fn labels(digits: &str, width: usize) -> String {
    let mut labels = String::new();
    for digit in digits.chars().rev().chain(std::iter::repeat('0')) {
        let written = labels.len().div_ceil(2);
        if written >= digits.len() && labels.len() >= width {
            break;
        }
        if !labels.is_empty() {
            labels.push('.');
        }
        labels.push(digit);
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(raw: &str, number: u32) -> Option<String> {
        let token = Token { raw: raw.as_bytes(), line: 1, column: 1, quoted: false, spaced: true };
        let mut text = Vec::new();
        expand(&token, number, &mut text)?;
        Some(String::from_utf8(text).unwrap())
    }

    #[test]
    fn each_form_of_a_number() {
        let cases = [
            ("host$", 7, "host7"),
            ("$-$", 7, "7-7"),
            ("h${0}", 7, "h7"),
            ("h${-5}", 7, "h2"),
            ("h${3,3}", 7, "h010"),
            ("h${0,3,d}", 7, "h007"),
            ("h${0,2,x}", 31, "h1f"),
            ("h${0,0,X}", 31, "h1F"),
            ("h${0,3,o}", 8, "h010"),
            ("${0,0,n}", 0x1f, "f.1"),
            ("${0,7,N}", 0x1f, "F.1.0.0"),
            ("\\$5", 7, "$5"),
            ("a\\.b$", 7, "a\\.b7"),
        ];
        for (text, number, expected) in cases {
            assert_eq!(expanded(text, number).as_deref(), Some(expected), "{text}");
        }
        for text in ["${", "${}", "${x}", "${0,x}", "${0,256}", "${0,1,y}", "${0,1,d,}", "${-8}"] {
            assert_eq!(expanded(text, 7), None, "{text}");
        }
    }

    #[test]
    fn ranges_go_up() {
        let numbers = |text| Range::parse(text).map(|range| range.numbers().collect::<Vec<_>>());
        assert_eq!(numbers("1-7/3"), Some(vec![1, 4, 7]));
        assert_eq!(numbers("0-1"), Some(vec![0, 1]));
        assert_eq!(Range::parse("1-7/4").map(|range| range.count()), Some(2));
        for text in ["", "1", "2-1", "1-2/0", "+1-2", "1-2-3", "1-2147483648", "1-", "1-2/"] {
            assert!(Range::parse(text).is_none(), "{text}");
        }
    }
}
