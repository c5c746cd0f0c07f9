//! The bytes of a snapshot's two files, and their names.
//!
//! ```text
//!   snapshot-<S, 20 digits>.data
//!   0         8         12       16               24     32      64
//!   | magic   | version | crc32c | start sequence | id   | zeros | payload | zeros | payload ...
//!                                                                 ^ each at a multiple of 64
//!
//!   snapshot-<S, 20 digits>.manifest
//!   0         8         12       16  24  32          40   48            56
//!   | magic   | version | crc32c | S | E | data size | id | block count | block | block ...
//!   block     | offset u64 | length u64 | crc32c u32 | kind u16 | zero u16 |     24 bytes each
//! ```
//!
//! All numbers are little endian. Each checksum runs over the other bytes of the header or of the
//! whole manifest; that of a block, over its payload, stands in the manifest. The version comes
//! before the checksum in every sense: a later one may sum up something else. Invariants: blocks
//! are in order and do not overlap; the data file ends with the last payload.
//!
//! Not for: files and their order on the disk. Pure functions.

use super::{BlockInfo, SnapshotInfo};
use crate::checksum;
use crate::error::StoreError;

/// Where the first payload may begin, and what every payload's offset is a multiple of.
pub(crate) const ALIGNMENT_BYTES: u64 = 64;

/// The bytes of the data file's header that carry something.
pub(crate) const DATA_HEADER_BYTES: usize = 32;

const MANIFEST_HEADER_BYTES: usize = 56;
const BLOCK_BYTES: usize = 24;
const DATA_MAGIC: [u8; 8] = *b"whered\0S";
const MANIFEST_MAGIC: [u8; 8] = *b"whered\0M";
const VERSION: u32 = 1;

/// The next place at which a payload may begin.
pub(crate) fn aligned(offset_bytes: u64) -> u64 {
    offset_bytes.next_multiple_of(ALIGNMENT_BYTES)
}

/// The header of the data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataHeader {
    pub(crate) start_sequence: u64,
    pub(crate) id: u64,
}

impl DataHeader {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = start(DATA_MAGIC);
        for number in [self.start_sequence, self.id] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        seal(bytes)
    }

    /// Reads the header of `file` (a path for a person).
    pub(crate) fn decode(
        bytes: &[u8; DATA_HEADER_BYTES],
        file: &str,
    ) -> Result<DataHeader, StoreError> {
        check(bytes, DATA_MAGIC, file)?;
        Ok(DataHeader { start_sequence: read_u64(bytes, 16), id: read_u64(bytes, 24) })
    }
}

/// The manifest's bytes.
pub(crate) fn encode_manifest(info: &SnapshotInfo) -> Vec<u8> {
    let mut bytes = start(MANIFEST_MAGIC);
    let numbers = [
        info.start_sequence,
        info.end_sequence,
        info.data_size_bytes,
        info.id,
        info.blocks.len() as u64,
    ];
    for number in numbers {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for block in &info.blocks {
        bytes.extend_from_slice(&block.offset_bytes.to_le_bytes());
        bytes.extend_from_slice(&block.length_bytes.to_le_bytes());
        bytes.extend_from_slice(&block.crc32c.to_le_bytes());
        bytes.extend_from_slice(&block.kind.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
    }
    seal(bytes)
}

/// Reads the manifest in `file` (a path for a person), whose name says `start_sequence`.
pub(crate) fn decode_manifest(
    bytes: &[u8],
    start_sequence: u64,
    file: &str,
) -> Result<SnapshotInfo, StoreError> {
    let size = bytes.len();
    if size < MANIFEST_HEADER_BYTES {
        // A file that is not ours is told apart from one of ours that was cut.
        if size >= 8 && bytes[..8] != MANIFEST_MAGIC {
            return Err(foreign(file));
        }
        let what = format!("the file ends within the header of {MANIFEST_HEADER_BYTES} bytes");
        return Err(StoreError::damaged(file, size as u64, &what));
    }
    check(bytes, MANIFEST_MAGIC, file)?;
    let count = read_u64(bytes, 48);
    let list = &bytes[MANIFEST_HEADER_BYTES..];
    if u64::try_from(list.len() / BLOCK_BYTES) != Ok(count)
        || !list.len().is_multiple_of(BLOCK_BYTES)
    {
        let what = format!("the file ends here and its header states {count} blocks");
        return Err(StoreError::damaged(file, size as u64, &what));
    }
    let info = SnapshotInfo {
        start_sequence: read_u64(bytes, 16),
        end_sequence: read_u64(bytes, 24),
        data_size_bytes: read_u64(bytes, 32),
        id: read_u64(bytes, 40),
        blocks: list.chunks_exact(BLOCK_BYTES).map(decode_block).collect(),
    };
    check_meaning(&info, start_sequence, file)?;
    Ok(info)
}

fn decode_block(bytes: &[u8]) -> BlockInfo {
    BlockInfo {
        offset_bytes: read_u64(bytes, 0),
        length_bytes: read_u64(bytes, 8),
        crc32c: read_u32(bytes, 16),
        kind: u16::from_le_bytes([bytes[20], bytes[21]]),
    }
}

/// A right checksum is no proof against forgery: what the numbers say must make sense too.
fn check_meaning(info: &SnapshotInfo, named: u64, file: &str) -> Result<(), StoreError> {
    let SnapshotInfo { start_sequence, end_sequence, data_size_bytes, .. } = *info;
    if start_sequence != named {
        let what = format!("it says that it starts at {start_sequence}, its name says {named}");
        return Err(StoreError::damaged(file, 16, &what));
    }
    if end_sequence < start_sequence {
        let what = format!("it ends at {end_sequence}, before its start at {start_sequence}");
        return Err(StoreError::damaged(file, 24, &what));
    }
    let mut free_from = ALIGNMENT_BYTES;
    if data_size_bytes > i64::MAX as u64 {
        return Err(StoreError::damaged(file, 32, "it states an impossible size of the data file"));
    }
    for (index, block) in info.blocks.iter().enumerate() {
        let end = block.offset_bytes.checked_add(block.length_bytes);
        // An empty block may stand where the next one would.
        let most = if block.length_bytes == 0 { aligned(data_size_bytes) } else { data_size_bytes };
        let fits = end.is_some_and(|end| end <= most);
        if !fits
            || block.offset_bytes < free_from
            || !block.offset_bytes.is_multiple_of(ALIGNMENT_BYTES)
        {
            let place = (MANIFEST_HEADER_BYTES + index * BLOCK_BYTES) as u64;
            let what = format!(
                "block {index} has an impossible place: {} bytes at byte {} of {data_size_bytes}",
                block.length_bytes, block.offset_bytes
            );
            return Err(StoreError::damaged(file, place, &what));
        }
        free_from = block.offset_bytes + block.length_bytes;
    }
    Ok(())
}

fn start(magic: [u8; 8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = checksum(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn check(bytes: &[u8], magic: [u8; 8], file: &str) -> Result<(), StoreError> {
    if bytes[..8] != magic {
        return Err(foreign(file));
    }
    let version = read_u32(bytes, 8);
    if version != VERSION && is_version_damaged(bytes) {
        return Err(StoreError::damaged(file, 8, "the version is changed"));
    }
    if version != VERSION {
        let what = format!("snapshot format {version} is unknown; this program knows {VERSION}");
        return Err(StoreError::newer(file, 8, &what));
    }
    if read_u32(bytes, 12) != checksum(bytes) {
        return Err(StoreError::damaged(file, 12, "the checksum is wrong"));
    }
    Ok(())
}

/// Whether the checksum is right for our version: the number was changed since.
fn is_version_damaged(bytes: &[u8]) -> bool {
    let mut ours = bytes.to_vec();
    ours[8..12].copy_from_slice(&VERSION.to_le_bytes());
    read_u32(bytes, 12) == checksum(&ours)
}

fn foreign(file: &str) -> StoreError {
    let what = "this is not a snapshot of whered (its first eight bytes are other ones)";
    StoreError::foreign_content(file, what)
}

fn checksum(bytes: &[u8]) -> u32 {
    checksum::crc32c_append(checksum::crc32c(&bytes[..12]), &bytes[16..])
}

fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    let field = bytes[offset..offset + 4].try_into().expect("the range has four bytes");
    u32::from_le_bytes(field)
}

fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    let field = bytes[offset..offset + 8].try_into().expect("the range has eight bytes");
    u64::from_le_bytes(field)
}

/// The meaning of a file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    Data(u64),
    Manifest(u64),
    /// A manifest that never got its name.
    NewManifest,
    /// Nearly one of those: nobody of us makes such.
    Odd,
    /// Not a snapshot's.
    Other,
}

impl FileName {
    pub(crate) fn parse(name: &str) -> FileName {
        let Some((digits, suffix)) =
            name.strip_prefix("snapshot-").and_then(|rest| rest.split_once('.'))
        else {
            return FileName::Other;
        };
        if !matches!(suffix, "data" | "manifest" | "manifest.new") {
            return FileName::Other;
        }
        let is_ours = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
        match (digits.parse(), suffix) {
            (Ok(sequence), "data") if is_ours => FileName::Data(sequence),
            (Ok(sequence), "manifest") if is_ours => FileName::Manifest(sequence),
            (Ok(_), "manifest.new") if is_ours => FileName::NewManifest,
            _ => FileName::Odd,
        }
    }
}

/// The name of the data file of the snapshot that starts at this sequence.
pub(crate) fn data_name(start_sequence: u64) -> String {
    format!("snapshot-{start_sequence:020}.data")
}

/// The name of its manifest.
pub(crate) fn manifest_name(start_sequence: u64) -> String {
    format!("snapshot-{start_sequence:020}.manifest")
}

/// The manifest's name until it is on stable storage.
pub(crate) fn new_manifest_name(start_sequence: u64) -> String {
    format!("snapshot-{start_sequence:020}.manifest.new")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> SnapshotInfo {
        let block = |offset_bytes, length_bytes| BlockInfo {
            kind: 7,
            offset_bytes,
            length_bytes,
            crc32c: 0x1234_5678,
        };
        SnapshotInfo {
            start_sequence: 9,
            end_sequence: 12,
            id: 0xabcd,
            data_size_bytes: 200,
            blocks: vec![block(64, 65), block(192, 8)],
        }
    }

    #[test]
    fn a_manifest_comes_back_and_every_change_and_cut_is_noticed() {
        let bytes = encode_manifest(&info());
        assert_eq!(decode_manifest(&bytes, 9, "f").unwrap(), info());
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let error = decode_manifest(&changed, 9, "f").unwrap_err();
            let expected = match bit / 8 {
                0..8 => error.is_foreign(),
                _ => error.is_damaged(),
            };
            assert!(expected && error.needs_repair(), "{error}");
            assert!(error.to_string().starts_with("f at byte "), "{error}");
        }
        // A newer version has its own number in its checksum.
        let mut newer = bytes.clone();
        newer[8] += 1;
        assert!(decode_manifest(&seal(newer), 9, "f").unwrap_err().is_newer());
        for length in 0..bytes.len() {
            assert!(decode_manifest(&bytes[..length], 9, "f").unwrap_err().is_damaged());
        }
        assert!(decode_manifest(&bytes, 8, "f").unwrap_err().is_damaged());
    }

    #[test]
    fn impossible_places_are_refused_although_the_checksum_is_right() {
        let wrong: [fn(&mut SnapshotInfo); 7] = [
            |info| info.end_sequence = 8,
            |info| info.blocks[0].offset_bytes = 0,
            |info| info.blocks[0].offset_bytes = 65,
            |info| info.blocks[0].length_bytes = 129,
            |info| info.blocks[1].length_bytes = 9,
            |info| info.blocks[1].length_bytes = u64::MAX,
            |info| info.data_size_bytes = 199,
        ];
        for change in wrong {
            let mut info = info();
            change(&mut info);
            assert!(decode_manifest(&encode_manifest(&info), 9, "f").unwrap_err().is_damaged());
        }
    }

    #[test]
    fn only_twenty_digits_make_a_snapshot() {
        assert_eq!(FileName::parse(&data_name(17)), FileName::Data(17));
        assert_eq!(FileName::parse(&manifest_name(u64::MAX)), FileName::Manifest(u64::MAX));
        assert_eq!(FileName::parse(&new_manifest_name(0)), FileName::NewManifest);
        assert_eq!(FileName::parse("snapshot-17.data"), FileName::Odd);
        assert_eq!(FileName::parse("snapshot-+0000000000000000017.data"), FileName::Odd);
        assert_eq!(FileName::parse("snapshot-99999999999999999999.data"), FileName::Odd);
        assert_eq!(FileName::parse("snapshot-00000000000000000017.data.damaged"), FileName::Other);
        assert_eq!(FileName::parse("LOCK"), FileName::Other);
    }
}
