//! What all formats have in common at the beginning of an upload, and the limits against hostile
//! ones.
//!
//! For: byte order marks, other encodings, nothing at all. Not for: what a format's own first
//! bytes must be.

use crate::error::{UploadError, UploadErrorKind};

/// One record may be so long, whatever its format.
pub(crate) const RECORD_SIZE_MAX_BYTES: usize = 1 << 20;
/// One text of a record may be so long.
pub(crate) const TEXT_SIZE_MAX_BYTES: usize = 1 << 16;
/// How many items one record may have.
pub(crate) const ITEM_COUNT_MAX: usize = 1 << 16;

/// Where the text begins: behind a byte order mark of UTF-8.
pub(crate) fn begin(upload: &[u8]) -> Result<usize, UploadError> {
    let start = if upload.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let other = match upload {
        [0, 0, 0xfe, 0xff, ..] | [0xff, 0xfe, 0, 0, ..] => Some("UTF-32"),
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] | [0, _, ..] | [_, 0, ..] => Some("UTF-16"),
        _ => None,
    };
    if let Some(encoding) = other {
        let message = format!("the upload looks like {encoding}; only UTF-8 is read");
        return Err(UploadError::new(UploadErrorKind::Encoding, 0, message));
    }
    if upload[start..].iter().all(u8::is_ascii_whitespace) {
        return Err(UploadError::new(UploadErrorKind::Empty, 0, "the upload is empty"));
    }
    Ok(start)
}

/// How many bytes from `start` on are UTF-8.
pub(crate) fn valid_text(upload: &[u8], start: usize) -> &str {
    match simdutf8::compat::from_utf8(&upload[start..]) {
        Ok(text) => text,
        Err(error) => {
            let valid = &upload[start..start + error.valid_up_to()];
            std::str::from_utf8(valid).expect("the error says how far it is valid")
        }
    }
}

/// The text in a message: short, one line, never a whole record.
pub(crate) fn shown(text: &[u8]) -> String {
    const SHOWN_MAX: usize = 40;
    let cut = &text[..text.len().min(SHOWN_MAX)];
    let dots = if text.len() > SHOWN_MAX { "..." } else { "" };
    format!("'{}{dots}'", String::from_utf8_lossy(cut).escape_debug())
}
