//! Streams as they are or unpacked, with a count of the bytes that came off the disk.
//!
//! Not for what is in them. Compression is told by the first bytes, never by a name: gzip (RFC 1952,
//! of any number of members) and Zstandard (RFC 8878, of any number of frames).

use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;

/// What an unpacker reads at once.
const PACKED_BYTES: usize = 256 << 10;

/// Bytes of any source.
pub(crate) type Stream = Box<dyn Read + Send>;

/// Counts the bytes of a file as they are on the disk.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The unpacked bytes of a stream, and whether it was packed.
pub(crate) fn unpacked(stream: Stream, count: Arc<AtomicU64>) -> io::Result<(Stream, bool)> {
    let mut stream = Counted { inner: stream, count };
    let mut magic = Vec::new();
    stream.by_ref().take(4).read_to_end(&mut magic)?;
    let is_gzip = magic.starts_with(&[0x1f, 0x8b]);
    let is_zstandard = magic == [0x28, 0xb5, 0x2f, 0xfd];
    let whole = Cursor::new(magic).chain(stream);
    let reader: Stream = if is_gzip {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(PACKED_BYTES, whole)))
    } else if is_zstandard {
        let packed = BufReader::with_capacity(PACKED_BYTES, whole);
        Box::new(zstd::Decoder::with_buffer(packed)?)
    } else {
        Box::new(whole)
    };
    Ok((reader, is_gzip || is_zstandard))
}
