//! The messages of OpenStreetMap's PBF format that hold nodes, and the blobs they come in.
//!
//! Source: the format's `fileformat.proto` and `osmformat.proto`; numbers below are field numbers.
//! Not for what a node means (`osm`). Fields that nobody reads are left out: a decoder skips them.
//!
//! ```text
//! file = [ length u32 BE | BlobHeader { type, datasize } | Blob { raw or packed bytes } ]...
//!          first OSMHeader { required_features }, then OSMData { PrimitiveBlock } any number
//! ```
//!
//! Invariants: no length of the file is allocated unchecked; a header has at most 64 KiB, a blob at
//! most 32 MiB, packed and unpacked, as the format says. Cost: one copy of each blob.

use std::io::{self, Read};

use flate2::read::ZlibDecoder;
use prost::Message;

/// The largest blob header.
pub(super) const HEADER_BYTES_MAX: u32 = 64 << 10;
/// The largest blob, packed and unpacked.
const BLOB_BYTES_MAX: u64 = 32 << 20;

#[derive(Message)]
struct BlobHeader {
    #[prost(string, required, tag = "1")]
    kind: String,
    #[prost(int32, required, tag = "3")]
    size_bytes: i32,
}

#[derive(Message)]
struct PackedBlob {
    #[prost(bytes = "vec", optional, tag = "1")]
    raw: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "2")]
    raw_size_bytes: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "3")]
    zlib: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "7")]
    zstandard: Option<Vec<u8>>,
}

/// The content of an `OSMHeader` blob.
#[derive(Message)]
pub(super) struct HeaderBlock {
    /// What a reader must understand.
    #[prost(string, repeated, tag = "4")]
    pub(super) required_features: Vec<String>,
}

/// The content of an `OSMData` blob.
#[derive(Message)]
pub(super) struct PrimitiveBlock {
    /// The strings that tags name by their index.
    #[prost(message, optional, tag = "1")]
    pub(super) strings: Option<StringTable>,
    /// Groups of nodes, ways and relations.
    #[prost(message, repeated, tag = "2")]
    pub(super) groups: Vec<PrimitiveGroup>,
    /// Nanodegrees of a unit of coordinates.
    #[prost(int32, optional, tag = "17", default = "100")]
    pub(super) granularity: Option<i32>,
    /// Nanodegrees that are added to every latitude.
    #[prost(int64, optional, tag = "19")]
    pub(super) latitude_offset: Option<i64>,
    /// Nanodegrees that are added to every longitude.
    #[prost(int64, optional, tag = "20")]
    pub(super) longitude_offset: Option<i64>,
}

/// The strings of a block.
#[derive(Message)]
pub(super) struct StringTable {
    /// In UTF-8, by the format's rule.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) strings: Vec<Vec<u8>>,
}

/// Nodes of a block.
#[derive(Message)]
pub(super) struct PrimitiveGroup {
    /// One message a node.
    #[prost(message, repeated, tag = "1")]
    pub(super) nodes: Vec<Node>,
    /// All nodes in columns.
    #[prost(message, optional, tag = "2")]
    pub(super) dense: Option<DenseNodes>,
}

/// A node.
#[derive(Message)]
pub(super) struct Node {
    /// Its number.
    #[prost(sint64, required, tag = "1")]
    pub(super) id: i64,
    /// The keys of its tags, by their index in the string table.
    #[prost(uint32, repeated, tag = "2")]
    pub(super) keys: Vec<u32>,
    /// The values of its tags, one for each key.
    #[prost(uint32, repeated, tag = "3")]
    pub(super) values: Vec<u32>,
    /// In units of the block's granularity.
    #[prost(sint64, required, tag = "8")]
    pub(super) latitude: i64,
    /// In units of the block's granularity.
    #[prost(sint64, required, tag = "9")]
    pub(super) longitude: i64,
}

/// Nodes in columns; the first three columns hold differences to the row before.
#[derive(Message)]
pub(super) struct DenseNodes {
    /// Their numbers.
    #[prost(sint64, repeated, tag = "1")]
    pub(super) ids: Vec<i64>,
    /// In units of the block's granularity.
    #[prost(sint64, repeated, tag = "8")]
    pub(super) latitudes: Vec<i64>,
    /// In units of the block's granularity.
    #[prost(sint64, repeated, tag = "9")]
    pub(super) longitudes: Vec<i64>,
    /// Key and value of each tag by their index, a zero behind each node's; empty without tags.
    #[prost(int32, repeated, tag = "10")]
    pub(super) keys_values: Vec<i32>,
}

/// What a blob is.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The header of the file.
    Header,
    /// A block of data.
    Data,
    /// Something else, which a reader skips.
    Other,
}

/// Reads and unpacks the next blob; `None` at the end of the input.
///
/// # Errors
/// A line that says what is wrong; the file cannot be read on.
pub(super) fn next_blob(input: &mut impl Read) -> Result<Option<(Kind, Vec<u8>)>, String> {
    let Some(header) = next_header(input)? else {
        return Ok(None);
    };
    let size_bytes = u64::try_from(header.size_bytes).unwrap_or(u64::MAX);
    if size_bytes > BLOB_BYTES_MAX {
        return Err(format!("has {} bytes; allowed: at most 32 MiB", header.size_bytes));
    }
    let packed = exactly(input, size_bytes)?;
    let blob = PackedBlob::decode(packed.as_slice()).map_err(|error| error.to_string())?;
    let kind = match header.kind.as_str() {
        "OSMHeader" => Kind::Header,
        "OSMData" => Kind::Data,
        _ => return Ok(Some((Kind::Other, Vec::new()))),
    };
    Ok(Some((kind, unpack(blob)?)))
}

fn next_header(input: &mut impl Read) -> Result<Option<BlobHeader>, String> {
    let mut length = Vec::new();
    input.by_ref().take(4).read_to_end(&mut length).map_err(|error| error.to_string())?;
    if length.is_empty() {
        return Ok(None);
    }
    let length: [u8; 4] = length.try_into().map_err(|_| ENDS_INSIDE.to_owned())?;
    let length = u32::from_be_bytes(length);
    if length > HEADER_BYTES_MAX {
        return Err(format!("its header has {length} bytes; allowed: at most 64 KiB"));
    }
    let header = exactly(input, u64::from(length))?;
    BlobHeader::decode(header.as_slice()).map(Some).map_err(|error| error.to_string())
}

const ENDS_INSIDE: &str = "the file ends inside it";

fn exactly(input: &mut impl Read, size_bytes: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    input.by_ref().take(size_bytes).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if (bytes.len() as u64) < size_bytes {
        return Err(ENDS_INSIDE.to_owned());
    }
    Ok(bytes)
}

fn unpack(blob: PackedBlob) -> Result<Vec<u8>, String> {
    let whole = match blob {
        PackedBlob { raw: Some(raw), .. } => return Ok(raw),
        PackedBlob { zlib: Some(packed), .. } => at_most(ZlibDecoder::new(packed.as_slice())),
        PackedBlob { zstandard: Some(packed), .. } => {
            zstd::Decoder::new(packed.as_slice()).and_then(at_most)
        }
        _ => return Err("is packed otherwise; allowed: none, zlib, zstd".to_owned()),
    };
    let whole = whole.map_err(|error| format!("cannot be unpacked: {error}"))?;
    if blob.raw_size_bytes.is_some_and(|size| size as usize != whole.len()) {
        return Err(format!("unpacks to {} bytes, which is not what it says", whole.len()));
    }
    Ok(whole)
}

fn at_most(packed: impl Read) -> io::Result<Vec<u8>> {
    let mut whole = Vec::new();
    packed.take(BLOB_BYTES_MAX + 1).read_to_end(&mut whole)?;
    if whole.len() as u64 > BLOB_BYTES_MAX {
        return Err(io::Error::other("more than 32 MiB"));
    }
    Ok(whole)
}
