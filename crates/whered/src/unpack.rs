//! Streams as they are or unpacked, with a count of the bytes that came off the disk.
//!
//! Not for what is in them. Compression is told by the first bytes, never by a name: gzip (RFC 1952,
//! of any number of members) and Zstandard (RFC 8878, of any number of frames). What else is packed
//! is refused.

use std::fs;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;
use whered_ip::{PACKING_BYTES, Packing};

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

/// A whole file that is read as it is.
///
/// # Errors
/// The system's, or that the file is packed.
pub(crate) fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = fs::read(path)?;
    Packing::refuse(&bytes)?;
    Ok(bytes)
}

/// The bytes of a stream that was packed.
///
/// # Errors
/// That they are packed once more; those of unpacking.
fn inside(mut unpacked: Stream) -> io::Result<Stream> {
    let mut magic = Vec::new();
    unpacked.by_ref().take(PACKING_BYTES as u64).read_to_end(&mut magic)?;
    if let Some(packing) = Packing::of(&magic) {
        let message = format!("is packed twice, with {} inside; allowed: once", packing.name());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(Box::new(Cursor::new(magic).chain(unpacked)))
}

/// The unpacked bytes of a stream, and whether it was packed.
pub(crate) fn unpacked(stream: Stream, count: Arc<AtomicU64>) -> io::Result<(Stream, bool)> {
    let mut stream = Counted { inner: stream, count };
    let mut magic = Vec::new();
    stream.by_ref().take(PACKING_BYTES as u64).read_to_end(&mut magic)?;
    let packing = Packing::refuse_others(&magic)?;
    let whole = Cursor::new(magic).chain(stream);
    let reader: Stream = match packing {
        Some(Packing::Gzip) => {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(PACKED_BYTES, whole)))
        }
        Some(_) => {
            let packed = BufReader::with_capacity(PACKED_BYTES, whole);
            Box::new(zstd::Decoder::with_buffer(packed)?)
        }
        None => return Ok((Box::new(whole), false)),
    };
    Ok((inside(reader)?, true))
}
