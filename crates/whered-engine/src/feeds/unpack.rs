//! An upload's bytes, unpacked within limits.
//!
//! For: gzip and Zstandard; what grows beyond the limit is refused before it takes the memory.
//! Cost: the unpacked bytes, in memory that is used again.

use std::io::Read;

use super::upload::{BEGINNING_BYTES, Encoding};

/// The largest window of Zstandard that is allowed, as a power of two: 128 MiB would be 27.
const WINDOW_BITS_MAX: u32 = 26;

/// The bytes themselves, or unpacked into `memory`.
///
/// # Errors
/// They are not packed that way, or become more than `size_bytes_max`: one line.
pub(super) fn unpack<'a>(
    bytes: &'a [u8],
    encoding: Encoding,
    size_bytes_max: u64,
    memory: &'a mut Vec<u8>,
) -> Result<&'a [u8], String> {
    if encoding == Encoding::Identity {
        return Ok(bytes);
    }
    read_packed(bytes, encoding, size_bytes_max.saturating_add(1), memory)?;
    if memory.len() as u64 > size_bytes_max {
        return Err(format!("unpacked it is larger than the {size_bytes_max} bytes allowed"));
    }
    Ok(memory)
}

/// The first bytes of an upload, unpacked into `memory`; not all of them need to be right.
///
/// # Errors
/// As [`unpack`].
pub(super) fn unpack_start<'a>(
    bytes: &'a [u8],
    encoding: Encoding,
    memory: &'a mut Vec<u8>,
) -> Result<&'a [u8], String> {
    if encoding == Encoding::Identity {
        return Ok(bytes);
    }
    read_packed(bytes, encoding, BEGINNING_BYTES as u64, memory)?;
    Ok(memory)
}

fn read_packed(
    bytes: &[u8],
    encoding: Encoding,
    most_bytes: u64,
    memory: &mut Vec<u8>,
) -> Result<(), String> {
    memory.clear();
    let read = match encoding {
        Encoding::Identity => Ok(0),
        Encoding::Gzip => {
            flate2::read::MultiGzDecoder::new(bytes).take(most_bytes).read_to_end(memory)
        }
        Encoding::Zstd => {
            zstd::stream::read::Decoder::with_buffer(bytes).and_then(|mut decoder| {
                decoder.window_log_max(WINDOW_BITS_MAX)?;
                decoder.take(most_bytes).read_to_end(memory)
            })
        }
    };
    let name = if encoding == Encoding::Gzip { "gzip" } else { "zstd" };
    read.map(|_| ()).map_err(|error| format!("it cannot be unpacked as {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_was_packed_comes_back_and_what_grows_too_much_does_not() {
        let text = "<upload>".repeat(10_000).into_bytes();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&text).unwrap();
        let packed = [
            (Encoding::Identity, text.clone()),
            (Encoding::Gzip, gzip.finish().unwrap()),
            (Encoding::Zstd, zstd::encode_all(&text[..], 1).unwrap()),
        ];
        for (encoding, bytes) in &packed {
            let mut memory = Vec::new();
            let read = unpack(bytes, *encoding, text.len() as u64, &mut memory);
            assert_eq!(read.unwrap(), text);
            let start = unpack_start(bytes, *encoding, &mut memory).unwrap();
            assert!(text.starts_with(start) && !start.is_empty());
        }
        for (encoding, bytes) in &packed[1..] {
            let mut memory = Vec::new();
            let error = unpack(bytes, *encoding, text.len() as u64 - 1, &mut memory).unwrap_err();
            assert!(error.contains("larger than"), "{error}");
            assert!(memory.len() <= text.len());
            let cut = &bytes[..bytes.len() / 2];
            unpack(cut, *encoding, 1 << 20, &mut memory).unwrap_err();
            unpack(b"plain text", *encoding, 1 << 20, &mut memory).unwrap_err();
        }
    }
}
