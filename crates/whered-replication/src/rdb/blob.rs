//! Strings of a dump: plain, as integers, or compressed by LZF; whole, in pieces, or passed over.
//!
//! LZF is undone as a stream: a reference goes back 8192 bytes at most, so a window of that size is
//! all that is kept. A compressed string that gives fewer or more bytes than it claims is an error.

use std::io::Read;

use super::error::RdbError;
use super::source::{Length, Source};

/// How far back a reference of LZF goes at most.
const WINDOW_BYTES: usize = 8192;
/// How much of a string is taken at once.
const PIECE_BYTES: usize = 4096;

/// The beginning of a string.
pub(super) enum Head {
    Plain(u64),
    Integer(i64),
    Packed { packed: u64, plain: u64 },
}

impl Head {
    pub(super) fn read<R: Read>(source: &mut Source<R>) -> Result<Head, RdbError> {
        Ok(match source.length_or_encoding()? {
            Length::Plain(length) => Head::Plain(length),
            Length::Encoded(0) => Head::Integer(i64::from(i8::from_le_bytes(source.array()?))),
            Length::Encoded(1) => Head::Integer(i64::from(i16::from_le_bytes(source.array()?))),
            Length::Encoded(2) => Head::Integer(i64::from(i32::from_le_bytes(source.array()?))),
            Length::Encoded(3) => {
                let packed = source.length()?;
                Head::Packed { packed, plain: source.length()? }
            }
            Length::Encoded(other) => {
                return source.wrong(format!("encoding {other} of a string is not known"));
            }
        })
    }

    /// How many bytes the string claims to have.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Head::Plain(bytes) | Head::Packed { plain: bytes, .. } => *bytes,
            Head::Integer(_) => 20,
        }
    }

    /// Passes over the string.
    pub(super) fn skip<R: Read>(self, source: &mut Source<R>) -> Result<(), RdbError> {
        match self {
            Head::Plain(bytes) | Head::Packed { packed: bytes, .. } => source.skip(bytes),
            Head::Integer(_) => Ok(()),
        }
    }

    /// The whole string, in the place of what `into` held.
    pub(super) fn whole<R: Read>(
        self,
        source: &mut Source<R>,
        into: &mut Vec<u8>,
        bytes_max: u64,
    ) -> Result<(), RdbError> {
        into.clear();
        let bytes = self.bytes();
        if bytes > bytes_max {
            return source.wrong(format!("a string of {bytes} bytes; allowed: {bytes_max}"));
        }
        match self {
            Head::Plain(bytes) => source.append(bytes, into),
            Head::Integer(number) => {
                into.extend_from_slice(number.to_string().as_bytes());
                Ok(())
            }
            Head::Packed { packed, plain } => {
                let mut blob = Blob::packed(packed, plain);
                while blob.left > 0 {
                    let filled = into.len();
                    let here = PIECE_BYTES.min(usize::try_from(blob.left).unwrap_or(PIECE_BYTES));
                    into.resize(filled + here, 0);
                    blob.exact(source, &mut into[filled..])?;
                }
                blob.finish(source)
            }
        }
    }
}

/// Reads a whole string.
pub(super) fn string<R: Read>(
    source: &mut Source<R>,
    into: &mut Vec<u8>,
    bytes_max: u64,
) -> Result<(), RdbError> {
    Head::read(source)?.whole(source, into, bytes_max)
}

/// Passes over a string.
pub(super) fn skip_string<R: Read>(source: &mut Source<R>) -> Result<(), RdbError> {
    Head::read(source)?.skip(source)
}

/// A string that is read in pieces.
pub(super) struct Blob {
    left: u64,
    lzf: Option<Lzf>,
}

struct Lzf {
    packed_left: u64,
    run: Run,
    window: Box<[u8]>,
    written: u64,
}

/// What the decoder is in the middle of.
#[derive(Clone, Copy)]
enum Run {
    None,
    Literal(u32),
    Copy { distance: u64, count: u32 },
}

impl Blob {
    /// The string whose beginning was read; an integer is none that holds a list.
    pub(super) fn new<R: Read>(head: &Head, source: &Source<R>) -> Result<Blob, RdbError> {
        match *head {
            Head::Plain(left) => Ok(Blob { left, lzf: None }),
            Head::Packed { packed, plain } => Ok(Blob::packed(packed, plain)),
            Head::Integer(_) => source.wrong("an integer stands where a packed list is expected"),
        }
    }

    fn packed(packed: u64, plain: u64) -> Blob {
        let window = vec![0; WINDOW_BYTES].into_boxed_slice();
        let lzf = Lzf { packed_left: packed, run: Run::None, window, written: 0 };
        Blob { left: plain, lzf: Some(lzf) }
    }

    /// How many bytes follow.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    pub(super) fn exact<R: Read>(
        &mut self,
        source: &mut Source<R>,
        into: &mut [u8],
    ) -> Result<(), RdbError> {
        if into.len() as u64 > self.left {
            return source.wrong("a packed list ends in the middle of an entry");
        }
        self.left -= into.len() as u64;
        match &mut self.lzf {
            None => source.exact(into),
            Some(lzf) => into.iter_mut().try_for_each(|byte| {
                *byte = lzf.byte(source)?;
                Ok(())
            }),
        }
    }

    pub(super) fn byte<R: Read>(&mut self, source: &mut Source<R>) -> Result<u8, RdbError> {
        self.array::<1, R>(source).map(|[byte]| byte)
    }

    pub(super) fn array<const N: usize, R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<[u8; N], RdbError> {
        let mut array = [0; N];
        self.exact(source, &mut array)?;
        Ok(array)
    }

    pub(super) fn append<R: Read>(
        &mut self,
        source: &mut Source<R>,
        count: u64,
        into: &mut Vec<u8>,
    ) -> Result<(), RdbError> {
        if count > self.left {
            return source.wrong("a packed list ends in the middle of an entry");
        }
        let mut left = count;
        while left > 0 {
            let filled = into.len();
            let here = PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES));
            into.resize(filled + here, 0);
            self.exact(source, &mut into[filled..])?;
            left -= here as u64;
        }
        Ok(())
    }

    /// Makes sure that nothing is left of the compressed bytes either.
    pub(super) fn finish<R: Read>(&self, source: &Source<R>) -> Result<(), RdbError> {
        let is_whole = self.left == 0
            && self
                .lzf
                .as_ref()
                .is_none_or(|lzf| lzf.packed_left == 0 && matches!(lzf.run, Run::None));
        match is_whole {
            true => Ok(()),
            false => source.wrong("a compressed string has another length than it claims"),
        }
    }
}

impl Lzf {
    fn packed_byte<R: Read>(&mut self, source: &mut Source<R>) -> Result<u8, RdbError> {
        if self.packed_left == 0 {
            return source.wrong("a compressed string has another length than it claims");
        }
        self.packed_left -= 1;
        source.byte()
    }

    fn byte<R: Read>(&mut self, source: &mut Source<R>) -> Result<u8, RdbError> {
        if matches!(self.run, Run::None) {
            self.run = self.next_run(source)?;
        }
        let byte = match self.run {
            Run::None | Run::Literal(_) => self.packed_byte(source)?,
            Run::Copy { distance, .. } => {
                self.window[((self.written - distance) % WINDOW_BYTES as u64) as usize]
            }
        };
        self.run = match self.run {
            Run::None | Run::Literal(1) | Run::Copy { count: 1, .. } => Run::None,
            Run::Literal(count) => Run::Literal(count - 1),
            Run::Copy { distance, count } => Run::Copy { distance, count: count - 1 },
        };
        self.window[(self.written % WINDOW_BYTES as u64) as usize] = byte;
        self.written += 1;
        Ok(byte)
    }

    fn next_run<R: Read>(&mut self, source: &mut Source<R>) -> Result<Run, RdbError> {
        let control = self.packed_byte(source)?;
        if control < 32 {
            return Ok(Run::Literal(u32::from(control) + 1));
        }
        let mut count = u32::from(control >> 5);
        if count == 7 {
            count += u32::from(self.packed_byte(source)?);
        }
        let low = self.packed_byte(source)?;
        let distance = u64::from(u16::from_be_bytes([control & 0x1f, low])) + 1;
        if distance > self.written {
            return source.wrong("a compressed string refers to bytes before its beginning");
        }
        Ok(Run::Copy { distance, count: count + 2 })
    }
}
