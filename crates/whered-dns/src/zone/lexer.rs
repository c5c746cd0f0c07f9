//! Cuts a master file into entries and tokens (RFC 1035, 5.1), each with its line and column.
//!
//! Not for: what tokens mean (`master.rs`) and what record data mean (`rdata.rs`).
//!
//! ```text
//! www 60 A (          entry: line 1, no blank in front
//!      192.0.2.1 )    tokens: www@1:1  60@1:5  A@1:8  192.0.2.1@2:6
//! ```
//!
//! Invariants: a token's bytes are printable (blanks and tabs inside quotes) or above ASCII, as in
//! texts in UTF-8; its escapes are
//! well-formed and its quotes closed, so that what reads it meets no such mistake any more.
//! Cost: one pass; an entry's tokens are kept in a vector that is used again.

/// One token: where it stands and what it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    /// The bytes as they stand in the file, without the quotes.
    pub(crate) raw: &'a [u8],
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) quoted: bool,
    /// Whether a blank, a line's end or a parenthesis stands in front.
    pub(crate) spaced: bool,
}

/// A fault and its location: line, column, found, allowed.
#[derive(Debug)]
pub(crate) struct LexError {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) found: String,
    pub(crate) allowed: &'static str,
}

/// Reads entry after entry.
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
    line_start: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Lexer<'a> {
        Lexer {
            text: text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text),
            at: 0,
            line: 1,
            line_start: 0,
        }
    }

    /// The line and column that are read next.
    pub(crate) fn place(&self) -> (u32, u32) {
        (self.line, (self.at - self.line_start + 1) as u32)
    }

    /// Reads the next entry that has a token into `tokens`. False at the end of the text.
    pub(crate) fn next_entry(&mut self, tokens: &mut Vec<Token<'a>>) -> Result<bool, LexError> {
        tokens.clear();
        let mut open: Option<(u32, u32)> = None;
        let mut depth = 0_u32;
        let mut spaced = false;
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' => {
                    spaced = true;
                    self.at += 1;
                }
                b';' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                }
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    self.line_start = self.at;
                    spaced = depth > 0;
                    if depth == 0 && !tokens.is_empty() {
                        return Ok(true);
                    }
                }
                b'(' => {
                    open.get_or_insert(self.place());
                    depth += 1;
                    spaced = true;
                    self.at += 1;
                }
                b')' => {
                    let closed = depth.checked_sub(1);
                    depth =
                        closed.ok_or_else(|| self.error("a ) without (", "pairs of ( and )"))?;
                    spaced = true;
                    self.at += 1;
                }
                _ => {
                    tokens.push(self.token(byte == b'"', spaced)?);
                    spaced = false;
                }
            }
        }
        match open.filter(|_| depth > 0) {
            Some((line, column)) => Err(LexError {
                line,
                column,
                found: "a ( that is never closed".into(),
                allowed: "pairs of ( and )",
            }),
            None => Ok(!tokens.is_empty()),
        }
    }

    fn token(&mut self, quoted: bool, spaced: bool) -> Result<Token<'a>, LexError> {
        let (line, column) = self.place();
        self.at += usize::from(quoted);
        let start = self.at;
        loop {
            match self.text.get(self.at) {
                Some(b'\\') => self.at += self.escape_length()?,
                Some(b'"') if quoted => {
                    self.at += 1;
                    let raw = &self.text[start..self.at - 1];
                    return Ok(Token { raw, line, column, quoted, spaced });
                }
                None | Some(b'\n') if quoted => {
                    return Err(LexError {
                        line,
                        column,
                        found: "a quotation that does not end on its line".into(),
                        allowed: "a closing \"",
                    });
                }
                None | Some(b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' | b'"')
                    if !quoted =>
                {
                    let raw = &self.text[start..self.at];
                    return Ok(Token { raw, line, column, quoted, spaced });
                }
                Some(0x20..=0x7e | b'\t' | 0x80..) => self.at += 1,
                Some(byte) => {
                    let found = format!("the byte 0x{byte:02x}");
                    return Err(self.error(found, "printable ASCII; other bytes are written \\DDD"));
                }
                None => return Err(self.error("the end of the file", "the rest of the token")),
            }
        }
    }

    /// How long the escape is that begins here.
    fn escape_length(&self) -> Result<usize, LexError> {
        match &self.text[self.at..] {
            [_, a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', ..]
                if (a, b, c) <= (&b'2', &b'5', &b'5') =>
            {
                Ok(4)
            }
            [_, 0x20..=0x2f | 0x3a..=0x7e, ..] => Ok(2),
            _ => Err(self.error(
                "a bad escape",
                "\\DDD from \\000 to \\255, or \\ before a printable character",
            )),
        }
    }

    fn error(&self, found: impl Into<String>, allowed: &'static str) -> LexError {
        let (line, column) = self.place();
        LexError { line, column, found: found.into(), allowed }
    }
}
