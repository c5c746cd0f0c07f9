//! A file or standard input, unpacked, with its place known.
//!
//! Not for what is in it.
//!
//! `byte` counts what was consumed of the unpacked stream; `read_bytes` counts what came off the
//! disk, for the progress bar. They differ by the compression and by the buffers.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::RECORD_BYTES_MAX;
use super::sink::Source;
use crate::error::ConnectError;
use crate::unpack::{Stream, unpacked};

const BUFFER_BYTES: usize = 256 << 10;
/// How many bytes decide what a file is.
const DETECTED_BYTES: u64 = 64 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The unpacked bytes of the input.
pub(super) struct Input {
    reader: BufReader<Stream>,
    name: String,
    /// The size on the disk, if it is a file.
    size_bytes: Option<u64>,
    read_bytes: Arc<AtomicU64>,
    byte: u64,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub(super) fn open(path: &Path) -> Result<Input, ConnectError> {
        if path == Path::new("-") {
            return Input::new("standard input".to_owned(), Box::new(io::stdin()), None);
        }
        let name = path.display().to_string();
        let fail = |error: io::Error| ConnectError::new(format!("{name}: {error}"));
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(ConnectError::new(format!("{name}: is a folder; allowed: a file")));
        }
        let size_bytes = metadata.is_file().then_some(metadata.len());
        Input::new(name, Box::new(file), size_bytes)
    }

    /// Any stream, with the name that faults begin with.
    pub(super) fn new(
        name: String,
        stream: Stream,
        size_bytes: Option<u64>,
    ) -> Result<Input, ConnectError> {
        let fail = |error: io::Error| ConnectError::new(format!("{name}: {error}"));
        let read_bytes = Arc::new(AtomicU64::new(0));
        let (mut unpacked, _) = unpacked(stream, read_bytes.clone()).map_err(fail)?;
        // What is peeked at for the first time.
        let mut first = Vec::new();
        unpacked.by_ref().take(DETECTED_BYTES).read_to_end(&mut first).map_err(fail)?;
        let unpacked: Stream = Box::new(Cursor::new(first).chain(unpacked));
        let reader = BufReader::with_capacity(BUFFER_BYTES, unpacked);
        let mut input = Input { reader, name, size_bytes, read_bytes, byte: 0 };
        if input.peek()?.starts_with(BYTE_ORDER_MARK) {
            input.consume(BYTE_ORDER_MARK.len());
        }
        Ok(input)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The description of this file for the sink.
    pub(super) fn source(&self) -> Source {
        Source {
            name: self.name.clone(),
            read_bytes: self.read_bytes.clone(),
            size_bytes: self.size_bytes,
        }
    }

    /// How many unpacked bytes were consumed.
    pub(super) fn byte(&self) -> u64 {
        self.byte
    }

    /// What comes next, some of it, without taking it; nothing at the end.
    pub(super) fn peek(&mut self) -> Result<&[u8], ConnectError> {
        let place = (&self.name, self.byte);
        // Twice, since the borrow of the first answer would last beyond an error.
        if let Err(error) = self.reader.fill_buf() {
            return Err(ConnectError::new(format!("{}: after byte {}: {error}", place.0, place.1)));
        }
        Ok(self.reader.buffer())
    }

    /// A fault of the whole input.
    pub(super) fn fault(&self, what: &str) -> ConnectError {
        ConnectError::new(format!("{}: {what}", self.name))
    }

    /// Appends the next line without its end to `line`; false at the end of the input.
    pub(super) fn next_line(&mut self, line: &mut Vec<u8>) -> Result<bool, ConnectError> {
        line.clear();
        let mut is_any = false;
        loop {
            let buffer = self.peek()?;
            if buffer.is_empty() {
                return Ok(is_any);
            }
            is_any = true;
            let end = buffer.iter().position(|&byte| byte == b'\n');
            line.extend_from_slice(&buffer[..end.unwrap_or(buffer.len())]);
            let taken = end.map_or(buffer.len(), |end| end + 1);
            self.consume(taken);
            if end.is_some() {
                return Ok(true);
            }
            if line.len() > RECORD_BYTES_MAX {
                return Err(self.too_long());
            }
        }
    }

    /// The fault of a record that would not end.
    pub(super) fn too_long(&self) -> ConnectError {
        let most = RECORD_BYTES_MAX >> 20;
        let byte = self.byte;
        self.fault(&format!("before byte {byte}: a record of more than {most} MiB; allowed: less"))
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.byte += read as u64;
        Ok(read)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.byte += amount as u64;
        self.reader.consume(amount);
    }
}
