//! An upload as a door hands it over.
//!
//! For: bytes that lie where they came, in one piece or several, with what is known of them beside.
//! Not for: what waits (`spooled.rs`). Cost: nothing is copied, but for the first
//! [`BEGINNING_BYTES`] of one whose first piece is shorter than a quarter of them.

use std::borrow::Cow;

use whered_feeds::UploadFields;

/// How an upload's bytes are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Not at all.
    #[default]
    Identity,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
}

/// What is looked at of an upload before it is taken; more of a packed one is not unpacked, either.
pub(super) const BEGINNING_BYTES: usize = 64 << 10;

/// One upload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Upload<'a> {
    /// Its bytes as they were received.
    pub bytes: &'a [u8],
    /// What comes after these, if not all lie together: they are copied once less.
    pub more: &'a [&'a [u8]],
    /// How they are packed.
    pub encoding: Encoding,
    /// Two uploads with the same key are one; up to 255 bytes.
    pub idempotency_key: Option<&'a str>,
    /// A stream that it comes from, and the position in that after it.
    pub source: Option<(&'a str, &'a [u8])>,
    /// What else came with it, as far as the feed wants it ([`super::Feed::upload_fields`]).
    pub fields: UploadFields<'a>,
}

impl Upload<'_> {
    pub(super) fn size_bytes(&self) -> u64 {
        let more: usize = self.more.iter().map(|piece| piece.len()).sum();
        (self.bytes.len() + more) as u64
    }

    /// As much as tells what it is, in one piece.
    pub(super) fn beginning(&self) -> Cow<'_, [u8]> {
        let mut pieces = self.more.iter();
        let mut beginning = Cow::Borrowed(self.bytes);
        // Nearly always a quarter of it tells, and the rest is looked at where that does not.
        if beginning.len() >= BEGINNING_BYTES / 4 {
            return beginning;
        }
        while beginning.len() < BEGINNING_BYTES
            && let Some(piece) = pieces.next()
        {
            let wanted = piece.len().min(BEGINNING_BYTES - beginning.len());
            beginning.to_mut().extend_from_slice(&piece[..wanted]);
        }
        beginning
    }
}
