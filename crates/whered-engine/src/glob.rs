//! Glob patterns over keys, as `KEYS` and `SCAN ... MATCH` use them.
//!
//! For: matching by the rules of Redis: `*`, `?`, `[abc]`, `[^a]`, `[a-z]`, `\x`.
//! Not for: paths, character sets beyond bytes. A key is bytes, and `?` is one byte.
//!
//! Odd corners that clients can see and that are kept: a class without its `]` ends with the
//! pattern; a range may be written backwards; a lone `\` at the end stands for itself.
//!
//! Cost: pattern length times key length at worst, whatever the number of stars: only the last
//! star is ever tried again, since an earlier one that takes less cannot help.

/// Whether the whole text matches the whole pattern.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when the present attempt fails: behind the last star, one byte further.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if t == text.len() && p == pattern.len() {
            return true;
        }
        if t < text.len()
            && let Some(next) = matches_one(pattern, p, text[t])
        {
            p = next;
            t += 1;
            continue;
        }
        match retry {
            Some((after_star, from)) if from < text.len() => {
                p = after_star;
                t = from + 1;
                retry = Some((after_star, from + 1));
            }
            _ => return false,
        }
    }
}

/// Whether the pattern's element at `p` takes this byte, and where the next element begins.
fn matches_one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => matches_class(pattern, p + 1, byte),
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        literal => (literal == byte).then_some(p + 1),
    }
}

fn matches_class(pattern: &[u8], mut p: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(p) == Some(&b'^');
    p += usize::from(negated);
    let mut found = false;
    loop {
        match pattern.get(p) {
            Some(b'\\') if p + 1 < pattern.len() => {
                p += 1;
                found |= pattern[p] == byte;
            }
            Some(b']') => {
                p += 1;
                break;
            }
            None => break,
            Some(&first) if pattern.get(p + 1) == Some(&b'-') && p + 2 < pattern.len() => {
                let last = pattern[p + 2];
                found |= (first.min(last)..=first.max(last)).contains(&byte);
                p += 2;
            }
            Some(&literal) => found |= literal == byte,
        }
        p += 1;
    }
    (found != negated).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_patterns_match_what_they_say() {
        let yes = [
            ("*", ""),
            ("*", "x"),
            ("", ""),
            ("a*c", "abbc"),
            ("a?c", "abc"),
            ("[ab]x", "bx"),
            ("[^ab]x", "cx"),
            ("[a-c]", "b"),
            ("[c-a]", "b"),
            ("\\*", "*"),
            ("a\\", "a\\"),
            ("*b*d", "abcd"),
            ("[\\]]", "]"),
            ("a[b", "ab"),
            ("***", "k"),
            ("[a-]", "]"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        let no = [
            ("", "a"),
            ("a", ""),
            ("a?c", "ac"),
            ("[ab]", "c"),
            ("[^a]", "a"),
            ("\\*", "x"),
            ("*b", "abc"),
            ("[]", "]"),
            ("A", "a"),
            ("a*", "ba"),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_exponential_time() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(5000).as_bytes()));
    }
}
