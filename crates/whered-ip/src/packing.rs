//! What a file is packed with, by its first bytes: one answer for everything that opens a user's
//! file.
//!
//! For: telling packed bytes from texts and databases, and saying how to unpack what is not read as
//! it is. Not for unpacking. Never by a file's name.

use std::fmt;

/// A format of packed files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878), also where a frame that is to be skipped comes first.
    Zstandard,
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
    /// LZ4 frames.
    Lz4,
    /// lzip.
    Lzip,
    /// compress, `.Z`.
    Compress,
    /// A zip archive.
    Zip,
    /// A 7-Zip archive.
    SevenZip,
    /// LZMA, `.lzma`.
    Lzma,
    /// A RAR archive.
    Rar,
    /// Snappy frames.
    Snappy,
    /// A tar archive (POSIX ustar and pax, GNU tar).
    Tar,
    /// A Parquet file.
    Parquet,
    /// A file of Arrow's IPC format.
    Arrow,
}

impl Packing {
    /// How many first bytes of a file show every packing.
    pub const HEAD_BYTES: usize = 262;
    /// How many first bytes of a file show every packing but an archive of tar.
    pub const MAGIC_BYTES: usize = 8;

    /// What bytes are packed with that begin like this; `None` for what is not packed.
    #[must_use]
    pub fn of(head: &[u8]) -> Option<Packing> {
        if head.get(257..Packing::HEAD_BYTES) == Some(b"ustar") {
            return Some(Packing::Tar);
        }
        Some(match head {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Packing::Zstandard
            }
            // The first block's mark, or that of a stream without any.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, ..] => Packing::Bzip2,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::Xz,
            [0x04, 0x22, 0x4d, 0x18, ..] | [0x02, 0x21, 0x4c, 0x18, ..] => Packing::Lz4,
            [b'L', b'Z', b'I', b'P', 1, ..] => Packing::Lzip,
            [0x1f, 0x9d, ..] => Packing::Compress,
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] | [b'P', b'K', 7, 8, ..] => {
                Packing::Zip
            }
            [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => Packing::SevenZip,
            // The usual properties, then the low bytes of a dictionary's size, a power of two.
            [0x5d, 0, 0, ..] => Packing::Lzma,
            [b'R', b'a', b'r', b'!', 0x1a, 7, ..] => Packing::Rar,
            [0xff, 6, 0, 0, b's', b'N', b'a', b'P', ..] => Packing::Snappy,
            // The first page's header, in Thrift's compact protocol.
            [b'P', b'A', b'R', b'1', 0x15, ..] | [b'P', b'A', b'R', b'E', 0x15 | 0x1c, ..] => {
                Packing::Parquet
            }
            [b'A', b'R', b'R', b'O', b'W', b'1', 0, 0, ..] => Packing::Arrow,
            _ => return None,
        })
    }

    /// The format's name and the command that unpacks it.
    fn name_and_way(self) -> (&'static str, &'static str) {
        match self {
            Packing::Gzip => ("gzip", "gzip -d"),
            Packing::Zstandard => ("zstd", "zstd -d"),
            Packing::Bzip2 => ("bzip2", "bzip2 -d"),
            Packing::Xz => ("xz", "xz -d"),
            Packing::Lz4 => ("lz4", "lz4 -d"),
            Packing::Lzip => ("lzip", "lzip -d"),
            Packing::Compress => ("compress", "uncompress"),
            Packing::Zip => ("zip", "unzip"),
            Packing::SevenZip => ("7z", "7z x"),
            Packing::Lzma => ("lzma", "xz -d --format=lzma"),
            Packing::Rar => ("rar", "unrar x"),
            Packing::Snappy => ("snappy", "snzip -d"),
            Packing::Tar => ("tar", "tar -xf"),
            Packing::Parquet => ("Parquet", "to CSV or NDJSON"),
            Packing::Arrow => ("Arrow", "to CSV or NDJSON"),
        }
    }

    /// The format's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name_and_way().0
    }

    /// Refuses bytes that begin like those of a packed file.
    ///
    /// # Errors
    /// What they are packed with, and what to do.
    pub fn refuse(head: &[u8]) -> Result<(), Packed> {
        Packing::of(head).map_or(Ok(()), |packing| Err(Packed { packing, also: "" }))
    }

    /// As [`Packing::refuse`], where every packing of one stream that is common is read as it is:
    /// gzip, Zstandard, xz, bzip2 and frames of LZ4.
    ///
    /// # Errors
    /// As [`Packing::refuse`].
    pub fn refuse_unreadable(head: &[u8]) -> Result<Option<Packing>, Packed> {
        match Packing::of(head) {
            // The form of LZ4 before its frames.
            Some(Packing::Lz4) if head.first() == Some(&0x02) => {
                Err(Packed { packing: Packing::Lz4, also: ", or pack it anew" })
            }
            readable @ (None
            | Some(
                Packing::Gzip | Packing::Zstandard | Packing::Xz | Packing::Bzip2 | Packing::Lz4,
            )) => Ok(readable),
            Some(packing) => Err(Packed { packing, also: ", or pack it with gzip, zstd or xz" }),
        }
    }

    /// As [`Packing::refuse`], where gzip and Zstandard are read as they are: what they are packed
    /// with, if it is one of these.
    ///
    /// # Errors
    /// As [`Packing::refuse`].
    pub fn refuse_others(head: &[u8]) -> Result<Option<Packing>, Packed> {
        match Packing::of(head) {
            readable @ (None | Some(Packing::Gzip | Packing::Zstandard)) => Ok(readable),
            Some(packing) => Err(Packed { packing, also: ", or pack it with gzip or zstd" }),
        }
    }
}

/// The refusal of a packed file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed {
    packing: Packing,
    also: &'static str,
}

impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, way) = self.packing.name_and_way();
        let also = self.also;
        match self.packing {
            Packing::Tar => {
                write!(
                    f,
                    "is a {name} archive, which is not read here; extract its files first ({way})"
                )
            }
            Packing::Parquet | Packing::Arrow => {
                write!(f, "is a {name} file, which is not read here; convert it first ({way})")
            }
            _ => write!(
                f,
                "is packed with {name}, which is not read here; unpack it first ({way}){also}"
            ),
        }
    }
}

impl std::error::Error for Packed {}

impl From<Packed> for std::io::Error {
    fn from(packed: Packed) -> std::io::Error {
        std::io::Error::new(std::io::ErrorKind::InvalidData, packed.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_files_are_known_by_their_first_bytes_and_texts_are_none() {
        let mut archive = [0; 512];
        archive[..5].copy_from_slice(b"a.log");
        archive[257..264].copy_from_slice(b"ustar  ");
        let cases: [(&[u8], Packing); 18] = [
            (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", Packing::Gzip),
            (b"\x28\xb5\x2f\xfd\x24\x00\x01\x00", Packing::Zstandard),
            (b"\x50\x2a\x4d\x18\x04\x00\x00\x00", Packing::Zstandard),
            (b"BZh91AY&SY", Packing::Bzip2),
            (b"BZh9\x17\x72\x45\x38\x50\x90", Packing::Bzip2),
            (b"\xfd7zXZ\x00\x00\x04", Packing::Xz),
            (b"\x04\x22\x4d\x18\x64\x40\xa7\x00", Packing::Lz4),
            (b"LZIP\x01\x0c\x00\x00", Packing::Lzip),
            (b"\x1f\x9d\x90\x00\x00\x00\x00\x00", Packing::Compress),
            (b"PK\x03\x04\x14\x00\x00\x00", Packing::Zip),
            (b"PK\x05\x06\x00\x00\x00\x00", Packing::Zip),
            (b"7z\xbc\xaf\x27\x1c\x00\x04", Packing::SevenZip),
            (b"\x5d\x00\x00\x80\x00\xff\xff\xff", Packing::Lzma),
            (b"Rar!\x1a\x07\x01\x00", Packing::Rar),
            (b"\xff\x06\x00\x00sNaPpY", Packing::Snappy),
            (b"PAR1\x15\x04\x15\x80", Packing::Parquet),
            (b"ARROW1\x00\x00\xff\xff", Packing::Arrow),
            (&archive, Packing::Tar),
        ];
        for (head, packing) in cases {
            assert_eq!(Packing::of(head), Some(packing));
            assert!(Packing::refuse(head).is_err());
            let is_read = matches!(packing, Packing::Gzip | Packing::Zstandard);
            assert_eq!(Packing::refuse_others(head).is_ok(), is_read, "{packing:?}");
        }
        for text in
            ["", "B", "BZh9 is a word", "PK,name", "7z,1", "LZIP,1", "PAR1,2", "192.0.2.1", "{}"]
        {
            assert_eq!(Packing::of(text.as_bytes()), None, "{text}");
            assert_eq!(Packing::refuse_others(text.as_bytes()), Ok(None));
        }
    }

    #[test]
    fn a_refusal_names_the_format_and_the_way() {
        let message = Packing::refuse(b"\xfd7zXZ\x00").unwrap_err().to_string();
        assert_eq!(message, "is packed with xz, which is not read here; unpack it first (xz -d)");
    }
}
