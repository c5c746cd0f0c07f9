//! Rust source as a list of tokens, each with its line.
//!
//! For: finding imports and paths. Comments, numbers and the contents of strings do not matter
//! there; only `#[path = "..."]` needs a string's text. Not for: anything that needs a syntax tree.

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword or an identifier, without `r#`.
    Word(String),
    /// A string literal's text, escapes as written.
    Text(String),
    /// `::`
    Separator,
    /// Any other character.
    Mark(char),
}

/// A token and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// What it is.
    pub(super) kind: Kind,
    /// Counted from 1.
    pub(super) line: usize,
}

impl Token {
    /// The identifier or keyword, if it is one.
    pub(super) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Whether it is this character.
    pub(super) fn is_punctuation(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }

    /// Whether it is this keyword or identifier.
    pub(super) fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }
}

/// Splits a source text. Text that is no Rust gives tokens of no meaning, never a panic.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut reader = Reader { chars: text.chars().collect(), offset: 0, line: 1 };
    let mut tokens = Vec::new();
    loop {
        reader.skip_blanks();
        let line = reader.line;
        let Some(kind) = reader.token() else { break };
        tokens.push(Token { kind, line });
    }
    tokens
}

struct Reader {
    chars: Vec<char>,
    offset: usize,
    line: usize,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.offset + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek(0)?;
        self.offset += 1;
        self.line += usize::from(next == '\n');
        Some(next)
    }

    /// Skips white space and comments, which nest.
    fn skip_blanks(&mut self) {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('/')) => while self.next().is_some_and(|next| next != '\n') {},
                (Some('/'), Some('*')) => self.skip_block_comment(),
                (Some(blank), _) if blank.is_whitespace() => drop(self.next()),
                _ => return,
            }
        }
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        loop {
            let step = match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => 1,
                (Some('*'), Some('/')) => -1,
                (None, _) => return,
                _ => 0,
            };
            depth += step;
            self.next();
            if step != 0 {
                self.next();
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn token(&mut self) -> Option<Kind> {
        let first = self.peek(0)?;
        if let Some(hashes) = self.raw_string_hashes() {
            return Some(Kind::Text(self.raw_string(hashes)));
        }
        if matches!(first, 'b' | 'c') && matches!(self.peek(1), Some('"' | '\'')) {
            self.next();
            return self.token();
        }
        if first == 'r' && self.peek(1) == Some('#') && self.peek(2).is_some_and(is_word_start) {
            self.offset += 2;
        }
        match self.peek(0)? {
            '"' => Some(Kind::Text(self.string())),
            '\'' => Some(self.character_or_lifetime()),
            start if is_word_start(start) => Some(Kind::Word(self.word())),
            digit if digit.is_ascii_digit() => {
                self.word();
                Some(Kind::Mark('0'))
            }
            ':' if self.peek(1) == Some(':') => {
                self.offset += 2;
                Some(Kind::Separator)
            }
            _ => self.next().map(Kind::Mark),
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(next) =
            self.peek(0).filter(|next| is_word_start(*next) || next.is_ascii_digit())
        {
            word.push(next);
            self.offset += 1;
        }
        word
    }

    /// How many `#` a raw string has that begins here.
    fn raw_string_hashes(&self) -> Option<usize> {
        let prefix = match (self.peek(0)?, self.peek(1)) {
            ('r', _) => 1,
            ('b' | 'c', Some('r')) => 2,
            _ => return None,
        };
        let hashes = (0..).take_while(|index| self.peek(prefix + index) == Some('#')).count();
        (self.peek(prefix + hashes) == Some('"')).then_some(hashes)
    }

    fn raw_string(&mut self, hashes: usize) -> String {
        while self.next().is_some_and(|next| next != '"') {}
        let mut text = String::new();
        while let Some(next) = self.next() {
            if next == '"' && (0..hashes).all(|index| self.peek(index) == Some('#')) {
                self.offset += hashes;
                break;
            }
            text.push(next);
        }
        text
    }

    fn string(&mut self) -> String {
        self.next();
        let mut text = String::new();
        while let Some(next) = self.next().filter(|next| *next != '"') {
            text.push(next);
            if next == '\\' {
                text.extend(self.next());
            }
        }
        text
    }

    /// `'a'` and `'\''` are characters, `'a` is a lifetime.
    fn character_or_lifetime(&mut self) -> Kind {
        self.next();
        if self.peek(0) == Some('\\') {
            self.next();
            self.next();
            while self.next().is_some_and(|next| next != '\'') {}
        } else if self.peek(1) == Some('\'') {
            self.next();
            self.next();
        } else {
            self.word();
        }
        Kind::Mark('\'')
    }
}

fn is_word_start(next: char) -> bool {
    next == '_' || next.is_alphabetic()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokens(text).iter().filter_map(|token| token.word().map(str::to_owned)).collect()
    }

    #[test]
    fn comments_strings_and_characters_are_no_words() {
        let text =
            "a /* b /* c */ d */ e // f\n\"g \\\" h\" i r#\"j \" k\"# l 'm' '\\'' n b'o' b\"p\" q";
        assert_eq!(words(text), ["a", "e", "i", "l", "n", "q"]);
    }

    #[test]
    fn lifetimes_raw_names_and_numbers_are_told_apart() {
        assert_eq!(
            words("fn f<'a>(x: &'a r#type) -> u8 { 1_u8 + 0xff }"),
            ["fn", "f", "x", "type", "u8"]
        );
    }

    #[test]
    fn separators_and_lines_are_kept() {
        let found = tokens("use a::b;\n\nx");
        let kinds: Vec<&Kind> = found.iter().map(|token| &token.kind).collect();
        assert_eq!(*kinds[2], Kind::Separator);
        assert_eq!(found.last().map(|token| token.line), Some(3));
        assert_eq!(tokens("#[path = \"a.rs\"]")[4].kind, Kind::Text("a.rs".to_owned()));
    }

    #[test]
    fn a_text_that_ends_too_early_gives_what_there_is() {
        for text in ["\"a", "r#\"a", "/* a", "'", "'\\", "b'", "a::"] {
            tokens(text);
        }
    }
}
