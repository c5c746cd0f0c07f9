//! What all formats have in common at the beginning of an upload, and the limits against hostile
//! ones.
//!
//! For: a byte order mark, nothing at all. Not for: what a format's own first bytes must be, other
//! encodings (`encoding.rs`).

use crate::error::{UploadError, UploadErrorKind};
use crate::source::UploadField;

/// One record may be so long, whatever its format.
pub(crate) const RECORD_SIZE_MAX_BYTES: usize = 1 << 20;
/// One text of a record may be so long.
pub(crate) const TEXT_SIZE_MAX_BYTES: usize = 1 << 16;
/// How many items one record may have.
pub(crate) const ITEM_COUNT_MAX: usize = 1 << 16;

/// Texts that come with an upload and are no part of its bytes.
pub type UploadFields<'a> = &'a [(UploadField, String)];

/// Where the text begins: behind a byte order mark of UTF-8.
pub(crate) fn begin(text: &[u8]) -> Result<usize, UploadError> {
    let start = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    if text[start..].iter().all(u8::is_ascii_whitespace) {
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
