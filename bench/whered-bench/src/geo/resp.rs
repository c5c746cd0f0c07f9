//! RESP2 as a client speaks it: commands to bytes, bytes to what is worth knowing of a reply.
//!
//! Not for RESP3, and not for what a reply means: a benchmark needs its length, how many elements
//! it has, and a number that equal replies share. Reading costs about a nanosecond a byte, so that
//! measured runs do without (`driver.rs`).

use std::io::Write;

/// Replies nest no deeper than this: an array of results, each an array with a pair in it.
const DEPTH: usize = 4;
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_FACTOR: u64 = 0x0000_0100_0000_01b3;

/// Appends one command.
///
/// ```
/// let mut bytes = Vec::new();
/// whered_bench::geo::push_command(&mut bytes, &[b"GEOPOS", b"points", b"1"]);
/// assert_eq!(bytes, b"*3\r\n$6\r\nGEOPOS\r\n$6\r\npoints\r\n$1\r\n1\r\n");
/// ```
pub fn push_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    push_header(out, b'*', words.len());
    for word in words {
        push_word(out, word);
    }
}

/// Appends the length line of an array (`*`) or a string (`$`).
pub(super) fn push_header(out: &mut Vec<u8>, mark: u8, length: usize) {
    out.push(mark);
    // Writing to a vector cannot fail.
    let _ = write!(out, "{length}\r\n");
}

/// Appends one word of a command.
pub(super) fn push_word(out: &mut Vec<u8>, word: &[u8]) {
    push_header(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// What is kept of one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// All of its bytes.
    pub size_bytes: usize,
    /// The elements of an array; 1 for everything else.
    pub elements: u64,
    /// A number made of all bytes in their order.
    pub digest: u64,
    /// A number made of the elements, in whatever order.
    pub set_digest: u64,
    /// Its first byte: what kind of reply it is.
    pub mark: u8,
}

/// The first reply of these bytes; `None` while some of it is missing.
///
/// # Errors
///
/// This is not RESP2; the line says where.
///
/// ```
/// use whered_bench::geo::read_reply;
/// let reply = read_reply(b"*2\r\n$1\r\n7\r\n$-1\r\n+next").unwrap().unwrap();
/// assert_eq!((reply.size_bytes, reply.elements), (16, 2));
/// assert_eq!(read_reply(b"*2\r\n$1\r\n7\r\n"), Ok(None));
/// ```
pub fn read_reply(bytes: &[u8]) -> Result<Option<Reply>, String> {
    let Some((mark, length, mut at)) = read_line(bytes, 0)? else { return Ok(None) };
    if mark != b'*' {
        return Ok(skip(bytes, 0, DEPTH)?.map(|end| {
            let digest = digest(&bytes[..end]);
            Reply { size_bytes: end, elements: 1, digest, set_digest: digest, mark }
        }));
    }
    let elements = length.max(0);
    let mut set_digest = 0_u64;
    for _ in 0..elements {
        let Some(end) = skip(bytes, at, DEPTH)? else { return Ok(None) };
        set_digest = set_digest.wrapping_add(digest(&bytes[at..end]));
        at = end;
    }
    let digest = digest(&bytes[..at]);
    Ok(Some(Reply { size_bytes: at, elements: elements as u64, digest, set_digest, mark }))
}

fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(FNV_START, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(FNV_FACTOR))
}

/// Where the reply that begins here ends.
fn skip(bytes: &[u8], at: usize, depth: usize) -> Result<Option<usize>, String> {
    let Some((mark, length, mut end)) = read_line(bytes, at)? else { return Ok(None) };
    match mark {
        b'$' if length >= 0 => {
            end += length as usize + 2;
            Ok((end <= bytes.len()).then_some(end))
        }
        b'*' if depth == 0 => Err(format!("byte {at}: arrays deeper than {DEPTH}")),
        b'*' => {
            for _ in 0..length.max(0) {
                match skip(bytes, end, depth - 1)? {
                    Some(next) => end = next,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        _ => Ok(Some(end)),
    }
}

/// The mark and the number of the line that begins here, and where the next one begins; the number
/// is 0 for lines that have a text.
fn read_line(bytes: &[u8], at: usize) -> Result<Option<(u8, i64, usize)>, String> {
    let line = bytes.get(at..).unwrap_or_default();
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (mark, text) = (line[0], line.get(1..end).unwrap_or_default());
    let number = match mark {
        b'$' | b'*' => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
        b'+' | b'-' | b':' => Some(0),
        _ => None,
    };
    match number {
        Some(number) => Ok(Some((mark, number, at + end + 2))),
        None => Err(format!(
            "byte {at} of a reply: found {:?}",
            String::from_utf8_lossy(&line[..end.min(40)])
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_of_a_reply_is_missing_something() {
        let whole = b"*2\r\n*2\r\n$1\r\n1\r\n$6\r\n0.1234\r\n*2\r\n$2\r\n12\r\n*-1\r\n";
        for end in 0..whole.len() {
            assert_eq!(read_reply(&whole[..end]), Ok(None), "{end}");
        }
        let reply = read_reply(whole).unwrap().unwrap();
        assert_eq!((reply.size_bytes, reply.elements, reply.mark), (whole.len(), 2, b'*'));
    }

    #[test]
    fn the_set_digest_does_not_see_the_order() {
        let one = read_reply(b"*2\r\n$1\r\na\r\n$1\r\nb\r\n").unwrap().unwrap();
        let two = read_reply(b"*2\r\n$1\r\nb\r\n$1\r\na\r\n").unwrap().unwrap();
        assert_eq!(one.set_digest, two.set_digest);
        assert_ne!(one.digest, two.digest);
        let three = read_reply(b"*2\r\n$1\r\nb\r\n$1\r\nc\r\n").unwrap().unwrap();
        assert_ne!(one.set_digest, three.set_digest);
    }

    #[test]
    fn simple_replies_have_one_element() {
        for text in ["+OK\r\n", ":12\r\n", "-ERR no\r\n", "$-1\r\n", "$0\r\n\r\n"] {
            let reply = read_reply(text.as_bytes()).unwrap().unwrap();
            assert_eq!((reply.size_bytes, reply.elements), (text.len(), 1), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_resp_is_refused() {
        assert!(read_reply(b"HTTP/1.1 400\r\n").is_err());
        assert!(read_reply(b"$x\r\n").is_err());
        assert!(read_reply(b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n").is_err());
    }
}
