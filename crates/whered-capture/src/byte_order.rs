//! Numbers out of bytes in either byte order.
//!
//! Not for text. Every read is checked: `None` where the bytes end first.

/// The order in which a file has the bytes of its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ByteOrder {
    /// The lowest byte first.
    Little,
    /// The highest byte first.
    Big,
}

impl ByteOrder {
    #[inline]
    pub(crate) fn u16_at(self, bytes: &[u8], at: usize) -> Option<u16> {
        let number = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            ByteOrder::Little => u16::from_le_bytes(number),
            ByteOrder::Big => u16::from_be_bytes(number),
        })
    }

    #[inline]
    pub(crate) fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        let number = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            ByteOrder::Little => u32::from_le_bytes(number),
            ByteOrder::Big => u32::from_be_bytes(number),
        })
    }

    pub(crate) fn i64_at(self, bytes: &[u8], at: usize) -> Option<i64> {
        let number = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            ByteOrder::Little => i64::from_le_bytes(number),
            ByteOrder::Big => i64::from_be_bytes(number),
        })
    }
}
