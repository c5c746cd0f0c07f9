//! Opens what users give as input: a file or standard input, plain or packed.
//!
//! The first bytes say how a stream is packed, never its name: gzip (RFC 1952, any number of
//! members), Zstandard (RFC 8878, any number of frames), xz and bzip2 (any number of streams) and
//! LZ4 (any number of frames). Every other packing, a second packing inside the first and an
//! archive of files are refused with the way to unpack them.
//!
//! Not for: what is in a stream. Nothing is written. Nothing waits for more than
//! [`Packing::MAGIC_BYTES`], so that a live stream is not held back.

use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::GzDecoder;
use lz4_flex::frame::FrameDecoder;
use lzma_rust2::XzReader;
use whered_ip::Packing;

/// How much a decoder reads at once.
const PACKED_BYTES: usize = 256 << 10;

/// How much is read at once where the first bytes decide.
const PEEKED_BYTES: usize = 64 << 10;

/// The most memory that a file of xz may ask for: `xz -9` needs 65 MiB, and its `--ultra` settings
/// do not go beyond it either.
const XZ_MEMORY_KIB: u32 = 256 << 10;

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

/// Members of gzip, one after the other. Bytes of zero may follow the last one, as tapes and tar
/// pad; anything else there is an error, since it may be what is left of a damaged member.
struct GzipMembers<R: BufRead> {
    /// None once there is no further member.
    decoder: Option<GzDecoder<R>>,
}

impl<R: BufRead> GzipMembers<R> {
    fn new(packed: R) -> GzipMembers<R> {
        GzipMembers { decoder: Some(GzDecoder::new(packed)) }
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.decoder {
            let read = decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let packed = self.decoder.take().map(GzDecoder::into_inner);
            self.decoder = packed.map(next_member).transpose()?.flatten();
        }
        Ok(0)
    }
}

/// The member of gzip that follows another one, if there is any.
fn next_member<R: BufRead>(mut packed: R) -> io::Result<Option<GzDecoder<R>>> {
    if packed.fill_buf()?.first() == Some(&0x1f) {
        return Ok(Some(GzDecoder::new(packed)));
    }
    loop {
        let bytes = packed.fill_buf()?;
        let size = bytes.len();
        if bytes.iter().any(|byte| *byte != 0) {
            let what = "has other bytes behind its gzip; allowed: more members of gzip, or zeros";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if size == 0 {
            return Ok(None);
        }
        packed.consume(size);
    }
}

/// Frames of LZ4, one after the other.
struct Lz4Frames<R: BufRead> {
    decoder: FrameDecoder<EndReader<R>>,
}

impl<R: BufRead> Lz4Frames<R> {
    fn new(packed: R) -> Lz4Frames<R> {
        Lz4Frames { decoder: FrameDecoder::new(EndReader { inner: packed, last: [u8::MAX; 8] }) }
    }
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let damaged = |kind, what: &dyn fmt::Display| {
            io::Error::new(kind, format!("is damaged LZ4 ({what}); allowed: whole frames"))
        };
        loop {
            // A frame that ends gives no bytes, and the next one may follow.
            let read = self.decoder.read(buffer);
            let read = read.map_err(|error| damaged(error.kind(), &error))?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let packed = self.decoder.get_mut();
            if packed.inner.fill_buf()?.is_empty() {
                // The decoder takes a cut between two blocks for the end of the frame.
                return match packed.is_frame_end() {
                    true => Ok(0),
                    false => Err(damaged(io::ErrorKind::UnexpectedEof, &"it is cut")),
                };
            }
        }
    }
}

/// A stream that knows the last bytes that were read from it.
struct EndReader<R> {
    inner: R,
    last: [u8; 8],
}

impl<R> EndReader<R> {
    /// Whether they end a frame of LZ4: a block size of 0, and a checksum behind it if the frame
    /// has one (LZ4 Frame Format 1.6.4, "Frame end").
    fn is_frame_end(&self) -> bool {
        let [first, second] = [&self.last[..4], &self.last[4..]];
        first == [0; 4] || second == [0; 4]
    }
}

impl<R: Read> Read for EndReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        for byte in bytes.get(read.saturating_sub(self.last.len())..).unwrap_or_default() {
            self.last.rotate_left(1);
            self.last[7] = *byte;
        }
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
/// use whered_unpack::unpacked;
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
    let Some(packing) = Packing::refuse_unreadable(&magic)? else {
        return Ok((Box::new(ArchiveGuard { inner: stream, head: Vec::new() }), false));
    };
    let packed = BufReader::with_capacity(PACKED_BYTES, stream);
    let reader: Stream = match packing {
        Packing::Gzip => Box::new(GzipMembers::new(packed)),
        Packing::Xz => Box::new(XzReader::new_mem_limit(packed, true, XZ_MEMORY_KIB)),
        Packing::Bzip2 => Box::new(MultiBzDecoder::new(packed)),
        Packing::Lz4 => Box::new(Lz4Frames::new(packed)),
        _ => Box::new(zstd::Decoder::with_buffer(packed)?),
    };
    let (magic, reader) = peeked(reader).map_err(|error| cannot_unpack(packing, &error))?;
    if let Some(packing) = Packing::of(&magic) {
        let message = format!("is packed twice, with {} inside; allowed: once", packing.name());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok((Box::new(ArchiveGuard { inner: reader, head: Vec::new() }), true))
}

/// All bytes of a stream, unpacked if it is packed; more than `bytes_max` are refused.
///
/// # Errors
/// As [`unpacked`], and that there are more bytes.
///
/// ```
/// let packed = zstd::encode_all(&b"192.0.2.1\n"[..], 3)?;
/// let packed = Box::new(std::io::Cursor::new(packed));
/// assert_eq!(whered_unpack::read_unpacked(packed, 100)?, b"192.0.2.1\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_unpacked(stream: Stream, bytes_max: u64) -> io::Result<Vec<u8>> {
    let (magic, stream) = peeked(stream)?;
    let (stream, is_packed) = unpacked(Box::new(stream), Arc::default())?;
    let mut bytes = Vec::new();
    let read = stream.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| match Packing::of(&magic).filter(|_| is_packed) {
        Some(packing) => cannot_unpack(packing, &error),
        None => error,
    })?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("has more than {bytes_max} bytes, unpacked");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    // An archive that is shorter than its first block is none.
    Packing::refuse(&bytes)?;
    Ok(bytes)
}

/// That packed bytes are none of their packing, or too few.
fn cannot_unpack(packing: Packing, error: &io::Error) -> io::Error {
    let message = format!("is packed with {} and cannot be unpacked ({error})", packing.name());
    io::Error::new(error.kind(), message)
}

/// The first bytes of a stream, and all of the stream. What came with them stays together, so that
/// the next reader sees as much at once.
fn peeked<R: Read>(mut stream: R) -> io::Result<(Vec<u8>, impl Read)> {
    let mut head = vec![0; PEEKED_BYTES];
    let mut filled = 0;
    while let Some(room) = head.get_mut(filled..).filter(|_| filled < Packing::MAGIC_BYTES) {
        match stream.read(room) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(filled);
    let magic = head.get(..filled.min(Packing::MAGIC_BYTES)).unwrap_or_default().to_vec();
    Ok((magic, Cursor::new(head).chain(stream)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};

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

    fn bzip2(bytes: &[u8]) -> Vec<u8> {
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(bytes).unwrap();
        bzip2.finish().unwrap()
    }

    fn lz4(bytes: &[u8]) -> Vec<u8> {
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(bytes).unwrap();
        lz4.finish().unwrap()
    }

    /// `printf '8.8.8.8\n' | xz`
    const XZ: [u8; 64] = [
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x0, 0x0, 0x4, 0xe6, 0xd6, 0xb4, 0x46, 0x2, 0x0, 0x21, 0x1,
        0x16, 0x0, 0x0, 0x0, 0x74, 0x2f, 0xe5, 0xa3, 0x1, 0x0, 0x7, 0x38, 0x2e, 0x38, 0x2e, 0x38,
        0x2e, 0x38, 0xa, 0x0, 0xe0, 0x39, 0x49, 0x25, 0x27, 0x5e, 0x84, 0x22, 0x0, 0x1, 0x20, 0x8,
        0xbb, 0x19, 0xd9, 0xbb, 0x1f, 0xb6, 0xf3, 0x7d, 0x1, 0x0, 0x0, 0x0, 0x0, 0x4, 0x59, 0x5a,
    ];

    #[test]
    fn a_stream_is_read_whole_up_to_a_limit() {
        let text = b"8.8.8.8\n".repeat(1000);
        for packed in [text.clone(), gzip(&text), bzip2(&text), lz4(&text)] {
            let read = |max| read_unpacked(Box::new(Cursor::new(packed.clone())), max);
            assert_eq!(read(8000).unwrap(), text);
            let refused = read(7999).unwrap_err().to_string();
            assert_eq!(refused, "has more than 7999 bytes, unpacked");
        }
    }

    #[test]
    fn streams_one_behind_the_other_are_one_and_half_a_stream_is_an_error() {
        let text = b"8.8.8.8\n".to_vec();
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        for packed in [gzip(&text), zstd, bzip2(&text), lz4(&text), XZ.to_vec()] {
            assert_eq!(read(packed.clone()).unwrap(), text);
            assert_eq!(read(packed.repeat(3)).unwrap(), text.repeat(3));
            for size in 9..packed.len() {
                assert!(read(packed[..size].to_vec()).is_err(), "{size} of {packed:?}");
            }
        }
    }

    #[test]
    fn zeros_may_follow_gzip_and_any_other_bytes_behind_it_are_an_error() {
        let text = b"8.8.8.8\n".to_vec();
        let packed = gzip(&text);
        for padding in [1, 511, PACKED_BYTES + 1] {
            let padded = [packed.as_slice(), &vec![0; padding]].concat();
            assert_eq!(read(padded).unwrap(), text);
        }
        for behind in [b"\0\0x".as_slice(), b"x", b"\x1f", b"\x1f\x8b", b"\0\x1f\x8b", b"\n"] {
            assert!(read([packed.as_slice(), behind].concat()).is_err(), "{behind:?}");
        }
    }

    #[test]
    fn lz4_that_is_cut_between_two_blocks_is_an_error() {
        let text = b"8.8.8.8 - an access log\n".repeat(200_000);
        let info = FrameInfo::new().block_size(BlockSize::Max64KB);
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(&text).unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(read(packed.clone()).unwrap(), text);
        let mut block = 7;
        let mut blocks = 0;
        loop {
            let size = u32::from_le_bytes(*packed[block..].first_chunk().unwrap()) & 0x7fff_ffff;
            if size == 0 {
                break;
            }
            block += 4 + size as usize;
            blocks += 1;
            assert!(read(packed[..block].to_vec()).is_err(), "after block {blocks}");
            assert!(read(packed[..block + 2].to_vec()).is_err(), "after block {blocks}");
        }
        assert!(blocks > 2);
    }

    #[test]
    fn a_stream_is_unpacked_once_and_never_twice() {
        let text = b"8.8.8.8\n".repeat(100);
        let packed =
            [gzip(&text), zstd::encode_all(&text[..], 1).unwrap(), bzip2(&text), lz4(&text)];
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
