//! Uploads in other encodings, turned into UTF-8 before anything else reads them.
//!
//! For: byte order marks, encodings that XML declares, encodings of the configuration. Not for:
//! guessing the language of a text without any of these.
//!
//! | the upload | is read as |
//! | --- | --- |
//! | byte order mark | UTF-8 or UTF-16, whatever else says |
//! | the configuration has an encoding | that |
//! | every other byte of the first ones is zero | UTF-16 |
//! | XML with a declaration | what it declares |
//! | anything else | UTF-8, not copied |
//!
//! Invariants: an upload in UTF-8 is not copied; bytes that are no text of their encoding become
//! one that is not UTF-8, so that the record with it is refused, and no other text is made up.
//! Cost: a copy of at most three times the upload where it is not UTF-8.

use std::borrow::Cow;

use encoding_rs::{DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};

use crate::error::{UploadError, UploadErrorKind};
use crate::upload::shown;

/// How much of an XML document is searched for the end of its declaration.
const DECLARATION_BYTES_MAX: usize = 512;
/// No text in UTF-8 has this byte.
const NO_TEXT: u8 = 0xff;

/// Whether the web knows an encoding by this name.
///
/// ```
/// assert!(whered_feeds::is_known_encoding("iso-8859-1"));
/// assert!(!whered_feeds::is_known_encoding("utf-7"));
/// ```
#[must_use]
pub fn is_known(name: &str) -> bool {
    of_name(name).is_some()
}

/// The encoding of a name; that of those which cannot be decoded is none.
pub(crate) fn of_name(name: &str) -> Option<&'static Encoding> {
    Encoding::for_label_no_replacement(name.as_bytes())
}

/// The upload in UTF-8. `is_cut`: it is the beginning of one.
pub(crate) fn to_utf8<'a>(
    upload: &'a [u8],
    configured: Option<&'static Encoding>,
    is_xml: bool,
    is_cut: bool,
) -> Result<Cow<'a, [u8]>, UploadError> {
    let encoding = encoding_of(upload, configured, is_xml)?;
    if encoding == UTF_8 {
        return Ok(Cow::Borrowed(upload));
    }
    Ok(Cow::Owned(decode(upload, encoding, is_cut)))
}

fn encoding_of(
    upload: &[u8],
    configured: Option<&'static Encoding>,
    is_xml: bool,
) -> Result<&'static Encoding, UploadError> {
    if let [0, 0, 0xfe, 0xff, ..] | [0xff, 0xfe, 0, 0, ..] | [0, 0, 0, _, ..] | [_, 0, 0, 0, ..] =
        upload
    {
        return refused(format!("the upload looks like UTF-32; allowed: {ALLOWED}"));
    }
    if let Some((marked, _)) = Encoding::for_bom(upload) {
        return Ok(marked);
    }
    if let Some(configured) = configured {
        return Ok(configured);
    }
    match upload {
        [first, 0, ..] if *first != 0 => return Ok(UTF_16LE),
        [0, second, ..] if *second != 0 => return Ok(UTF_16BE),
        _ => {}
    }
    match declared(upload).filter(|_| is_xml) {
        None => Ok(UTF_8),
        Some(name) => match of_name(name) {
            // The declaration itself is not in UTF-16; who copies it from there forgets it.
            Some(wide) if wide == UTF_16LE || wide == UTF_16BE => Ok(UTF_8),
            Some(known) => Ok(known),
            None => {
                let found = shown(name.as_bytes());
                refused(format!("encoding {found} is declared; allowed: {ALLOWED}"))
            }
        },
    }
}

const ALLOWED: &str = "UTF-8, UTF-16, and encodings that the web knows";

fn refused(message: String) -> Result<&'static Encoding, UploadError> {
    Err(UploadError::new(UploadErrorKind::Encoding, 0, message))
}

/// The encoding that the XML declaration at the beginning has.
fn declared(upload: &[u8]) -> Option<&str> {
    let head = &upload[..upload.len().min(DECLARATION_BYTES_MAX)];
    let head = head.trim_ascii_start().strip_prefix(b"<?xml")?;
    let end = memchr::memmem::find(head, b"?>")?;
    let declaration = std::str::from_utf8(&head[..end]).ok()?;
    let (_, value) = declaration.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    value[1..].split(quote).next()
}

fn decode(upload: &[u8], encoding: &'static Encoding, is_cut: bool) -> Vec<u8> {
    let mut decoder = encoding.new_decoder_with_bom_removal();
    let mut text = Vec::with_capacity(upload.len() + upload.len() / 2 + 16);
    let mut rest = upload;
    let mut buffer = [0; 4096];
    loop {
        let (result, read, written) =
            decoder.decode_to_utf8_without_replacement(rest, &mut buffer, !is_cut);
        text.extend_from_slice(&buffer[..written]);
        rest = &rest[read..];
        match result {
            DecoderResult::InputEmpty => return text,
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(..) => text.push(NO_TEXT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(upload: &[u8], configured: Option<&str>, is_xml: bool) -> String {
        let configured = configured.and_then(of_name);
        let text = to_utf8(upload, configured, is_xml, false).expect("it is known");
        String::from_utf8_lossy(&text).into_owned()
    }

    fn utf16(text: &str, bytes_of: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes_of).collect()
    }

    #[test]
    fn an_upload_is_decoded_by_what_it_says_of_itself_or_by_the_configuration() {
        let marked = "\u{feff}id,Größe 😀";
        for bytes_of in [u16::to_le_bytes, u16::to_be_bytes] {
            assert_eq!(text(&utf16(marked, bytes_of), None, false), "id,Größe 😀");
            assert_eq!(text(&utf16(marked, bytes_of), Some("latin1"), false), "id,Größe 😀");
            assert_eq!(text(&utf16("<a>ß</a>", bytes_of), None, true), "<a>ß</a>");
        }
        assert_eq!(text(b"Gr\xf6\xdfe \x80", Some("windows-1252"), false), "Größe €");
        assert_eq!(text(b"Gr\xf6\xdfe", Some("ISO-8859-1"), false), "Größe");
        assert_eq!(text("Größe".as_bytes(), None, false), "Größe");
        let xml = b"<?xml version='1.0' encoding='iso-8859-15'?><a>\xa4</a>";
        assert!(text(xml, None, true).ends_with("<a>€</a>"));
        let wide = b"<?xml version=\"1.0\" encoding=\"utf-16\"?><a>\xc3\xb6</a>";
        assert!(text(wide, None, true).ends_with("<a>ö</a>"), "it is not, whatever it says");
    }

    #[test]
    fn an_unknown_encoding_is_refused_by_name() {
        let xml = b"<?xml version='1.0' encoding='ebcdic'?><a/>";
        let error = to_utf8(xml, None, true, false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 0: encoding 'ebcdic' is declared; allowed: UTF-8, UTF-16, and encodings that the \
             web knows"
        );
        let utf32: Vec<u8> =
            "\u{feff}id".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        to_utf8(&utf32, None, false, false).unwrap_err();
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_apart_from_it() {
        let mut upload = utf16("a\nb\nc", u16::to_le_bytes);
        upload[4..6].copy_from_slice(&[0x00, 0xd8]);
        let text = to_utf8(&upload, None, false, false).unwrap();
        assert_eq!(&*text, b"a\n\xff\nc");
    }

    #[test]
    fn every_cut_of_an_upload_is_decoded() {
        for upload in [utf16("\u{feff}<a>ß😀</a>", u16::to_le_bytes), "<?xml encoding='x".into()]
        {
            for end in 0..=upload.len() {
                for is_cut in [false, true] {
                    let _ = to_utf8(&upload[..end], None, true, is_cut);
                }
            }
        }
    }
}
