//! quick-xml's events with their places, one after the other.
//!
//! For: the walk and the reading of single records. Not for: which element closes which; quick-xml
//! is told not to look, since the walk may jump.
//!
//! Invariants: every text is a part of the upload; a tag is looked at before quick-xml sees it, so
//! that one that never ends costs the bytes up to the next `<` and not the whole rest; entities
//! other than XML's five and character references are never expanded.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};

use crate::error::{UploadError, UploadErrorKind};

/// A start tag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag<'u> {
    /// Where its `<` is.
    pub(super) start: usize,
    /// Behind its `>`.
    pub(super) end: usize,
    pub(super) name: &'u str,
    /// The text between `<` and `>` or `/>`.
    pub(super) inside: &'u str,
}

#[derive(Clone, Debug)]
pub(super) enum Token<'u> {
    Start {
        tag: Tag<'u>,
        is_empty: bool,
    },
    End {
        name: &'u str,
        start: usize,
    },
    /// As it is written; an `&` in it begins no reference.
    Text {
        text: &'u str,
        start: usize,
    },
    CData {
        text: &'u str,
        start: usize,
    },
    /// A reference, and its character if it is one that we know.
    Reference {
        name: &'u str,
        character: Option<char>,
        start: usize,
    },
    Declaration,
    /// Comments and processing instructions.
    Other,
    Eof,
}

/// Why there is no token.
#[derive(Debug)]
pub(super) enum Stop {
    /// A tag at `start` that does not end before the next `<`, which is at `resume`.
    Broken { start: usize, resume: usize },
    /// Nothing more can be read.
    End(UploadError),
}

impl From<UploadError> for Stop {
    fn from(error: UploadError) -> Stop {
        Stop::End(error)
    }
}

pub(super) struct Pull<'u> {
    text: &'u str,
    reader: Reader<&'u [u8]>,
    /// Where the reader began.
    base: usize,
}

impl<'u> Pull<'u> {
    pub(super) fn new(text: &'u str, at: usize) -> Pull<'u> {
        let mut pull = Pull { text, reader: Reader::from_str(""), base: at };
        pull.jump(at);
        pull
    }

    /// The bytes that tokens are parts of.
    pub(super) fn bytes(&self) -> &'u [u8] {
        self.text.as_bytes()
    }

    /// Where the next token begins.
    pub(super) fn at(&self) -> usize {
        self.base + self.reader.buffer_position() as usize
    }

    /// Goes on from another place.
    pub(super) fn jump(&mut self, at: usize) {
        // A reader takes a byte order mark at its beginning and does not count it.
        let mut at = at;
        while self.text.as_bytes()[at..].starts_with(b"\xef\xbb\xbf") {
            at += 3;
        }
        self.base = at;
        self.reader = Reader::from_str(&self.text[at..]);
        let config = self.reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
    }

    pub(super) fn next(&mut self) -> Result<Token<'u>, Stop> {
        let start = self.at();
        self.look_at_tag(start)?;
        let event = match self.reader.read_event() {
            Ok(event) => event,
            Err(error) => {
                let at = self.base + self.reader.error_position() as usize;
                let kind = UploadErrorKind::Malformed;
                return Err(UploadError::new(kind, at, error.to_string()).into());
            }
        };
        let end = self.at();
        let inner = |open: usize, close: usize| -> &'u str {
            self.text.get(start + open..end.saturating_sub(close)).unwrap_or_default()
        };
        Ok(match event {
            Event::Start(tag) => {
                let (inside, name) = (inner(1, 1), tag.name().into_inner().len());
                let tag = Tag { start, end, name: inside.get(..name).unwrap_or_default(), inside };
                Token::Start { tag, is_empty: false }
            }
            Event::Empty(tag) => {
                let (inside, name) = (inner(1, 2), tag.name().into_inner().len());
                let tag = Tag { start, end, name: inside.get(..name).unwrap_or_default(), inside };
                Token::Start { tag, is_empty: true }
            }
            Event::End(_) => Token::End { name: inner(2, 1).trim_ascii_end(), start },
            Event::Text(text) => Token::Text { text: borrowed(&text.into_inner()), start },
            Event::CData(text) => Token::CData { text: borrowed(&text.into_inner()), start },
            Event::GeneralRef(reference) => reference_token(reference, start),
            Event::Decl(_) => Token::Declaration,
            Event::DocType(_) => {
                let message = "a document type; uploads may not have one";
                return Err(UploadError::new(UploadErrorKind::Refused, start, message).into());
            }
            Event::Comment(_) | Event::PI(_) => Token::Other,
            Event::Eof => Token::Eof,
        })
    }

    /// Finds a tag that does not end. A `<` within a tag is never right, not even in quotes.
    fn look_at_tag(&self, start: usize) -> Result<(), Stop> {
        let bytes = self.bytes();
        let has_quotes = match bytes.get(start..start + 2) {
            Some([b'<', b'!' | b'?']) => return Ok(()),
            Some([b'<', second]) => *second != b'/',
            _ => return Ok(()),
        };
        let mut quote = None;
        for (place, byte) in bytes.iter().enumerate().skip(start + 1) {
            match (byte, quote) {
                (b'<', _) => return Err(Stop::Broken { start, resume: place }),
                (b'>', None) => return Ok(()),
                (b'"' | b'\'', None) if has_quotes => quote = Some(*byte),
                (_, Some(open)) if open == *byte => quote = None,
                _ => {}
            }
        }
        let message = "the upload ends within a tag";
        Err(UploadError::new(UploadErrorKind::Truncated, start, message).into())
    }
}

fn reference_token<'u>(reference: BytesRef<'u>, start: usize) -> Token<'u> {
    let character = match reference.resolve_char_ref() {
        Ok(Some(character)) => Some(character),
        Ok(None) => {
            let known = resolve_predefined_entity(&reference);
            known.and_then(|text| text.chars().next())
        }
        Err(_) => None,
    };
    Token::Reference { name: borrowed(&reference.into_inner()), character, start }
}

/// A reader of a slice hands out parts of it.
fn borrowed<'u>(text: &Cow<'u, str>) -> &'u str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(_) => "",
    }
}
