//! An upload's bytes, unpacked within limits.
//!
//! For: gzip and Zstandard; what grows beyond the limit is refused before it takes the memory, and
//! before it is acknowledged. Cost: the unpacked bytes, in memory that is used again; a packed
//! upload is unpacked twice, when it is taken and when it is read.

use std::io::{self, Read};

use whered_ip::Packing;

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

/// Why a packed upload is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PackedFault {
    /// It becomes more than is allowed.
    TooLarge,
    /// It is not packed that way: one line.
    Wrong(String),
}

/// Unpacks an upload once to its end, without keeping more than its first bytes, which are put into
/// `memory`: a client that was told that it was taken must not hear later that it is too large.
///
/// # Errors
/// [`PackedFault`].
pub(super) fn unpack_start(
    bytes: &[u8],
    encoding: Encoding,
    size_bytes_max: u64,
    memory: &mut Vec<u8>,
) -> Result<(), PackedFault> {
    let most_bytes = size_bytes_max.saturating_add(1);
    memory.clear();
    let counted = with_unpacked(bytes, encoding, &mut |unpacked| {
        let mut unpacked = unpacked.take(most_bytes);
        (&mut unpacked).take(BEGINNING_BYTES as u64).read_to_end(memory)?;
        let rest = io::copy(&mut unpacked, &mut io::sink())?;
        Ok(memory.len() as u64 + rest)
    });
    match counted {
        Ok(size_bytes) if size_bytes > size_bytes_max => Err(PackedFault::TooLarge),
        Ok(_) => Ok(()),
        Err(fault) => Err(PackedFault::Wrong(fault)),
    }
}

/// Refuses an upload whose bytes, as its encoding leaves them, are packed.
pub(super) fn check_packing(start: &[u8], encoding: Encoding) -> Result<(), String> {
    let Some(packing) = Packing::of(start) else { return Ok(()) };
    let name = packing.name();
    Err(match encoding {
        Encoding::Identity => format!(
            "the upload is packed with {name}; allowed: as it is, or packed with gzip or zstd and \
             said to be"
        ),
        _ => format!("the upload is packed twice, with {name} inside; allowed: once"),
    })
}

fn read_packed(
    bytes: &[u8],
    encoding: Encoding,
    most_bytes: u64,
    memory: &mut Vec<u8>,
) -> Result<(), String> {
    memory.clear();
    let read = &mut |unpacked: &mut dyn Read| unpacked.take(most_bytes).read_to_end(memory);
    with_unpacked(bytes, encoding, read).map(drop)
}

/// Gives `read` what reads the unpacked bytes.
fn with_unpacked<T>(
    mut bytes: &[u8],
    encoding: Encoding,
    read: &mut dyn FnMut(&mut dyn Read) -> io::Result<T>,
) -> Result<T, String> {
    let done = match encoding {
        Encoding::Identity => read(&mut bytes),
        Encoding::Gzip => read(&mut flate2::read::MultiGzDecoder::new(bytes)),
        Encoding::Zstd => {
            zstd::stream::read::Decoder::with_buffer(bytes).and_then(|mut decoder| {
                decoder.window_log_max(WINDOW_BITS_MAX)?;
                read(&mut decoder)
            })
        }
    };
    let name = if encoding == Encoding::Gzip { "gzip" } else { "zstd" };
    done.map_err(|error| format!("it cannot be unpacked as {name}: {error}"))
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
            unpack_start(bytes, *encoding, text.len() as u64, &mut memory).unwrap();
            assert!(text.starts_with(&memory) && memory.len() == BEGINNING_BYTES);
            let too_small = unpack_start(bytes, *encoding, text.len() as u64 - 1, &mut memory);
            assert_eq!(too_small, Err(PackedFault::TooLarge));
        }
        for (encoding, bytes) in &packed[1..] {
            let mut memory = Vec::new();
            let error = unpack(bytes, *encoding, text.len() as u64 - 1, &mut memory).unwrap_err();
            assert!(error.contains("larger than"), "{error}");
            assert!(memory.len() <= text.len());
            let cut = &bytes[..bytes.len() / 2];
            unpack(cut, *encoding, 1 << 20, &mut memory).unwrap_err();
            let wrong = unpack_start(cut, *encoding, 1 << 20, &mut memory);
            assert!(matches!(wrong, Err(PackedFault::Wrong(_))), "{wrong:?}");
            unpack(b"plain text", *encoding, 1 << 20, &mut memory).unwrap_err();
        }
    }
}
