//! Opens what users give as input: a file or standard input, plain or packed.
//!
//! The first bytes say how a stream is packed, never its name: gzip (RFC 1952, any number of
//! members) and Zstandard (RFC 8878, any number of frames). Every other packing, a second packing
//! inside the first and an archive of files are refused with the way to unpack them.
//!
//! Nothing waits for more than [`Packing::MAGIC_BYTES`], so that a live stream is not held back.

use std::fs;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;
use whered_ip::Packing;

/// How much a decoder reads at once.
const PACKED_BYTES: usize = 256 << 10;

/// Bytes of any source.
pub type Stream = Box<dyn Read + Send>;

/// Counts the bytes of a file as they are on the disk.
struct CountingReader<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Refuses an archive as soon as the bytes that show it have been read.
struct ArchiveGuard<R> {
    inner: R,
    /// The stream's first bytes, until there are [`Packing::HEAD_BYTES`].
    head: Vec<u8>,
}

impl<R: Read> Read for ArchiveGuard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let missing = Packing::HEAD_BYTES - self.head.len();
        if missing > 0 {
            self.head.extend_from_slice(buffer.get(..read.min(missing)).unwrap_or_default());
            if self.head.len() == Packing::HEAD_BYTES {
                Packing::refuse(&self.head)?;
            }
        }
        Ok(read)
    }
}

/// Reads a whole file as it is, or standard input for `-`.
///
/// # Errors
/// The system's, or that the file is packed.
pub fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes)?;
    } else {
        bytes = fs::read(path)?;
    }
    Packing::refuse(&bytes)?;
    Ok(bytes)
}

/// Unpacks a stream if it is packed; says whether it was. `count` grows by the bytes that are read
/// from `stream`, which is how far a file has been read.
///
/// # Errors
/// That the stream is packed in another way, or twice; those of reading and unpacking. That it is
/// an archive is an error of the returned stream.
///
/// ```
/// use std::io::Read;
/// use whered_connect::unpack::unpacked;
///
/// let packed = zstd::encode_all(&b"192.0.2.1\n"[..], 3)?;
/// let packed = Box::new(std::io::Cursor::new(packed));
/// let (mut stream, was_packed) = unpacked(packed, Default::default())?;
/// let mut text = String::new();
/// stream.read_to_string(&mut text)?;
/// assert_eq!((text.as_str(), was_packed), ("192.0.2.1\n", true));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn unpacked(stream: Stream, count: Arc<AtomicU64>) -> io::Result<(Stream, bool)> {
    let (magic, stream) = peeked(CountingReader { inner: stream, count })?;
    let reader: Stream = match Packing::refuse_others(&magic)? {
        Some(Packing::Gzip) => {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(PACKED_BYTES, stream)))
        }
        Some(_) => {
            let packed = BufReader::with_capacity(PACKED_BYTES, stream);
            Box::new(zstd::Decoder::with_buffer(packed)?)
        }
        None => return Ok((Box::new(ArchiveGuard { inner: stream, head: Vec::new() }), false)),
    };
    let (magic, reader) = peeked(reader)?;
    if let Some(packing) = Packing::of(&magic) {
        let message = format!("is packed twice, with {} inside; allowed: once", packing.name());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok((Box::new(ArchiveGuard { inner: reader, head: Vec::new() }), true))
}

/// The first bytes of a stream, and all of the stream.
fn peeked<R: Read>(mut stream: R) -> io::Result<(Vec<u8>, impl Read)> {
    let mut magic = Vec::new();
    stream.by_ref().take(Packing::MAGIC_BYTES as u64).read_to_end(&mut magic)?;
    Ok((magic.clone(), Cursor::new(magic).chain(stream)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The header of a file in a tar archive, and its bytes.
    fn archive() -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        bytes[..10].copy_from_slice(b"access.log");
        bytes[257..262].copy_from_slice(b"ustar");
        bytes[512..522].copy_from_slice(b"8.8.8.8 - ");
        bytes
    }

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let (mut stream, _) = unpacked(Box::new(Cursor::new(bytes)), Arc::default())?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all).map(|_| all)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn a_stream_is_unpacked_once_and_never_twice() {
        let text = b"8.8.8.8\n".repeat(100);
        let packed = [gzip(&text), zstd::encode_all(&text[..], 1).unwrap()];
        assert_eq!(read(text.clone()).unwrap(), text);
        for once in &packed {
            assert_eq!(read(once.clone()).unwrap(), text);
            let twice = read(gzip(once)).unwrap_err().to_string();
            assert!(twice.starts_with("is packed twice, with "), "{twice}");
        }
    }

    #[test]
    fn an_archive_of_files_is_refused_plain_and_packed_and_before_a_whole_line() {
        let allowed = "is a tar archive, which is not read here; extract its files first (tar -xf)";
        for bytes in [archive(), gzip(&archive()), zstd::encode_all(&archive()[..], 1).unwrap()] {
            assert_eq!(read(bytes).unwrap_err().to_string(), allowed);
        }
        // Whatever sizes the pieces of a live stream have.
        let pieces = archive().into_iter().map(|byte| Cursor::new([byte]));
        let stream = pieces
            .fold(Box::new(io::empty()) as Stream, |before, piece| Box::new(before.chain(piece)));
        let (mut stream, _) = unpacked(stream, Arc::default()).unwrap();
        let mut taken = Vec::new();
        assert!(stream.read_to_end(&mut taken).is_err());
        assert!(!taken.contains(&b'\n'));
    }
}
