//! Files and standard input, as they are or unpacked, read in blocks of whole records.
//!
//! Not for what records mean. Compression is told by the first bytes (`unpack`).
//!
//! A block is as long as asked, and longer only for a record that is longer itself; one beyond
//! [`RECORD_BYTES_MAX`] ends the run with an error. Standard input that is not packed is handed on
//! as it comes, so that a live log is not held back.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::memchr;

use super::detect::Layout;
use super::encoding::{DecodingReader, ReturnsReader, has_returns_alone, marked, refuse_utf16};
use super::json_records::{Form, JsonRecords};
use super::split::{Shape, last_record_end};
use crate::cli::Encoding;
use crate::outcome::complain;
use crate::unpack::{Stream, unpacked};

/// The longest record.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 20;
/// How much is read at once: what is read into is set to zero before.
const READ_BYTES_MAX: usize = 1 << 20;
/// How many bytes decide what a first file is.
const DETECTED_BYTES: usize = 256 << 10;
/// How many first bytes show an encoding and a form of JSON.
const HEAD_BYTES: usize = 64 << 10;
/// What editors put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The inputs, one after the other.
pub(crate) struct Input {
    /// Those that are not open yet, the last one first.
    waiting: Vec<PathBuf>,
    current: Option<Current>,
    /// Read, and not yet part of a block.
    carried: Vec<u8>,
    /// What the first file's header is, once it is known.
    header: Vec<u8>,
    /// Whether what is carried begins with the first line of a further file.
    is_at_start: bool,
    /// How many first lines were cut, and left out.
    cut_lines: Arc<AtomicU64>,
    progress: Arc<AtomicU64>,
    encoding: Option<Encoding>,
    /// Whether the input is looked at for JSON that is not one object a line.
    may_be_json: bool,
}

/// The file that is being read.
struct Current {
    name: String,
    reader: Box<dyn Read + Send>,
    /// Whether records were lines in the file already.
    is_by_line: bool,
    is_live: bool,
    is_at_end: bool,
}

impl Input {
    /// Opens the first of the inputs; standard input for `-` or without any.
    pub(crate) fn open(
        paths: &[PathBuf],
        encoding: Option<Encoding>,
        may_be_json: bool,
    ) -> Result<Input, String> {
        let mut waiting: Vec<PathBuf> = paths.to_vec();
        if waiting.is_empty() {
            waiting.push(PathBuf::from("-"));
        }
        waiting.reverse();
        let mut input = Input {
            waiting,
            current: None,
            carried: Vec::new(),
            header: Vec::new(),
            is_at_start: false,
            cut_lines: Arc::default(),
            progress: Arc::default(),
            encoding,
            may_be_json,
        };
        input.open_next()?;
        Ok(input)
    }

    /// One stream that is open and unpacked; one that `is_live` is handed on as it comes.
    pub(crate) fn of_stream(
        name: String,
        stream: Stream,
        is_live: bool,
        encoding: Option<Encoding>,
        may_be_json: bool,
    ) -> Result<Input, String> {
        let mut input = Input {
            waiting: Vec::new(),
            current: None,
            carried: Vec::new(),
            header: Vec::new(),
            is_at_start: true,
            cut_lines: Arc::default(),
            progress: Arc::default(),
            encoding,
            may_be_json,
        };
        let text = input.as_text(stream).map_err(|error| format!("{name}: {error}"))?;
        let (reader, is_by_line) = text;
        input.current = Some(Current { name, reader, is_by_line, is_live, is_at_end: false });
        input.skip_mark()?;
        Ok(input)
    }

    /// What was not taken of the present file.
    pub(crate) fn into_stream(self) -> Stream {
        let carried = Cursor::new(self.carried);
        match self.current {
            Some(current) => Box::new(carried.chain(current.reader)),
            None => Box::new(carried),
        }
    }

    /// The size of all inputs, if they are files.
    pub(crate) fn size_bytes(paths: &[PathBuf]) -> Option<u64> {
        let sizes = paths.iter().map(|path| {
            let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
            found.map(|found| found.len())
        });
        if paths.is_empty() { None } else { sizes.sum() }
    }

    /// How many bytes of the files were read.
    pub(crate) fn progress(&self) -> Arc<AtomicU64> {
        self.progress.clone()
    }

    /// How many first lines of files were cut by a rotation.
    pub(crate) fn cut_lines(&self) -> Arc<AtomicU64> {
        self.cut_lines.clone()
    }

    /// The name of the file that is being read.
    pub(crate) fn name(&self) -> &str {
        self.current.as_ref().map_or("standard input", |current| &current.name)
    }

    fn open_next(&mut self) -> Result<bool, String> {
        let Some(path) = self.waiting.pop() else {
            self.current = None;
            return Ok(false);
        };
        let is_standard_input = path == Path::new("-");
        let name = if is_standard_input {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let fail = |error: io::Error| format!("{name}: {error}");
        let file: Box<dyn Read + Send> = if is_standard_input {
            Box::new(io::stdin())
        } else {
            let file = File::open(&path).map_err(fail)?;
            if file.metadata().map_err(fail)?.is_dir() {
                return Err(format!("{name}: is a folder; allowed: a file"));
            }
            Box::new(file)
        };
        let (reader, is_packed) = unpacked(file, self.progress.clone()).map_err(fail)?;
        let (reader, is_by_line) = self.as_text(reader).map_err(fail)?;
        let is_live = is_standard_input && !is_packed;
        self.current = Some(Current { name, reader, is_by_line, is_live, is_at_end: false });
        self.skip_mark()?;
        self.is_at_start = true;
        Ok(true)
    }

    /// The stream as UTF-8 whose lines end with LF, and JSON of other forms as one object a line;
    /// whether records are lines in the stream itself.
    fn as_text(&self, mut stream: Stream) -> io::Result<(Stream, bool)> {
        let head = first_read(&mut stream)?;
        if self.encoding.is_none() {
            refuse_utf16(&head)?;
        }
        let encoding = self.encoding.or_else(|| marked(&head));
        let stream: Stream = Box::new(Cursor::new(head).chain(stream));
        let mut stream: Stream = match encoding {
            None | Some(Encoding::Utf8) => stream,
            Some(encoding) => Box::new(DecodingReader::new(stream, encoding)),
        };
        let mut head = first_read(&mut stream)?;
        if has_returns_alone(&head) {
            let whole = Cursor::new(std::mem::take(&mut head)).chain(stream);
            stream = Box::new(ReturnsReader::new(whole));
            head = first_read(&mut stream)?;
        }
        if !self.may_be_json {
            return Ok((Box::new(Cursor::new(head).chain(stream)), true));
        }
        while !Form::is_decided(&head) && head.len() < HEAD_BYTES {
            let more = first_read(&mut stream)?;
            if more.is_empty() {
                break;
            }
            head.extend_from_slice(&more);
        }
        let mark = head.strip_prefix(BYTE_ORDER_MARK).map_or(0, |_| BYTE_ORDER_MARK.len());
        let form = Form::of(head.get(mark..).unwrap_or_default());
        let stream = Cursor::new(head).chain(stream);
        Ok(match form {
            Some(form) => (Box::new(JsonRecords::new(stream, form)), false),
            None => (Box::new(stream), true),
        })
    }

    /// Leaves a byte order mark out.
    fn skip_mark(&mut self) -> Result<(), String> {
        self.read_up_to(BYTE_ORDER_MARK.len())?;
        if self.carried.starts_with(BYTE_ORDER_MARK) {
            self.carried.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(())
    }

    /// Reads until `size_bytes` are carried or the file ends.
    fn read_up_to(&mut self, size_bytes: usize) -> Result<(), String> {
        while self.carried.len() < size_bytes {
            let Some(current) = &mut self.current else { break };
            if !current.read_once(&mut self.carried, size_bytes)? {
                break;
            }
        }
        Ok(())
    }

    /// The first bytes of the first file, and whether they are all of it. They stay to be read.
    pub(crate) fn first_bytes(&mut self) -> Result<(&[u8], bool), String> {
        let is_live = self.current.as_ref().is_some_and(|current| current.is_live);
        let (mut size_bytes, mut seen) = (DETECTED_BYTES, 0);
        loop {
            match &mut self.current {
                Some(current) if is_live => {
                    current.read_once(&mut self.carried, size_bytes)?;
                }
                _ => self.read_up_to(size_bytes)?,
            }
            let is_all = self.current.as_ref().is_none_or(|current| current.is_at_end);
            let unseen = self.carried.get(seen..).unwrap_or_default();
            if is_all || unseen.contains(&b'\n') {
                return Ok((&self.carried, is_all));
            }
            if self.carried.len() > RECORD_BYTES_MAX {
                return Err(too_long(self.name()));
            }
            seen = self.carried.len();
            size_bytes = (seen + DETECTED_BYTES).min(RECORD_BYTES_MAX + 1);
        }
    }

    /// Takes the header off the first file; the further ones must begin with the same.
    /// A line that was cut before it is left out.
    pub(crate) fn take_header(&mut self, layout: &Layout) -> Vec<u8> {
        self.is_at_start = false;
        self.leave_out(layout.cut_bytes);
        self.header = self.carried.drain(..layout.header_bytes.min(self.carried.len())).collect();
        self.header.clone()
    }

    /// Puts the next whole records into `block`, about `size_bytes` of them; nothing at the end.
    pub(crate) fn next_block(
        &mut self,
        layout: &Layout,
        size_bytes: usize,
        block: &mut Vec<u8>,
    ) -> Result<bool, String> {
        block.clear();
        let (mut wanted, mut searched) = (size_bytes, 0);
        loop {
            let Some(current) = &mut self.current else { return Ok(false) };
            // A live input is asked only when there is nothing else to hand on.
            if !current.is_live || new_record_end(&layout.shape, &self.carried, searched) == 0 {
                searched = if current.is_live { self.carried.len() } else { searched };
                current.read_once(&mut self.carried, wanted)?;
            }
            if self.carried.len() < wanted && !current.is_at_end && !current.is_live {
                continue;
            }
            if current.is_at_end {
                self.begin_file(layout)?;
                std::mem::swap(block, &mut self.carried);
                self.open_next()?;
                if block.is_empty() {
                    continue;
                }
                return Ok(true);
            }
            let end = new_record_end(&layout.shape, &self.carried, searched);
            if end > 0 {
                self.begin_file(layout)?;
                let end = last_record_end(&layout.shape, &self.carried);
                block.extend_from_slice(self.carried.get(end..).unwrap_or_default());
                self.carried.truncate(end);
                std::mem::swap(block, &mut self.carried);
                if block.is_empty() {
                    continue;
                }
                return Ok(true);
            }
            if self.carried.len() > RECORD_BYTES_MAX {
                return Err(too_long(&current.name));
            }
            searched = searched.max(self.carried.len());
            wanted = (self.carried.len() * 2).max(wanted).min(RECORD_BYTES_MAX + 1);
        }
    }

    /// Leaves out a first line that was cut, and says so.
    fn leave_out(&mut self, cut_bytes: usize) {
        if cut_bytes > 0 {
            self.carried.drain(..cut_bytes.min(self.carried.len()));
            self.cut_lines.fetch_add(1, Ordering::Relaxed);
            let name = self.name();
            complain(&format!("{name}: the first line is no whole record and is skipped"));
        }
    }

    /// Looks at the first line of a further file: a header is left out if it is the first file's,
    /// and an error otherwise; a line that was cut is left out.
    fn begin_file(&mut self, layout: &Layout) -> Result<(), String> {
        if self.carried.is_empty() || !std::mem::take(&mut self.is_at_start) {
            return Ok(());
        }
        if self.header.is_empty() {
            let is_one_object_a_line = self.current.as_ref().is_some_and(|file| file.is_by_line);
            if is_one_object_a_line {
                self.leave_out(layout.cut_bytes(&self.carried));
            }
            return Ok(());
        }
        let content = self.header.trim_ascii_end();
        let rest = self
            .carried
            .strip_prefix(content)
            .filter(|rest| rest.is_empty() || rest.starts_with(b"\n") || rest.starts_with(b"\r\n"));
        let Some(rest) = rest else {
            let name = self.name();
            return Err(format!("{name}: its header is not that of the first input"));
        };
        let line_end = rest.iter().position(|&byte| byte == b'\n').map_or(0, |place| place + 1);
        self.carried.drain(..content.len() + line_end);
        Ok(())
    }
}

/// [`last_record_end`] of bytes of which the first `searched` hold none. Without a line end in the
/// others there is none either, or one that can wait until an eighth more has come: a quoted cell
/// may have become too long.
fn new_record_end(shape: &Shape, bytes: &[u8], searched: usize) -> usize {
    let has_line_end = memchr(b'\n', bytes.get(searched..).unwrap_or_default()).is_some();
    let is_worth_it = has_line_end || bytes.len() - searched >= searched / 8;
    if is_worth_it { last_record_end(shape, bytes) } else { 0 }
}

fn too_long(name: &str) -> String {
    let most = RECORD_BYTES_MAX >> 20;
    format!("{name}: a record of more than {most} MiB; allowed: less")
}

/// What the stream gives first: more is not waited for.
fn first_read(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let count = loop {
        match stream.read(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    head.truncate(count);
    Ok(head)
}

impl Current {
    /// Reads once, up to `limit` bytes in all. Gives whether there was anything to read.
    fn read_once(&mut self, bytes: &mut Vec<u8>, limit: usize) -> Result<bool, String> {
        let start = bytes.len();
        if self.is_at_end {
            return Ok(false);
        }
        if start >= limit {
            return Ok(true);
        }
        bytes.resize(limit.min(start + READ_BYTES_MAX), 0);
        let read = loop {
            let Some(room) = bytes.get_mut(start..) else { break Ok(0) };
            match self.reader.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        bytes.truncate(start + *read.as_ref().unwrap_or(&0));
        let read = read.map_err(|error| format!("{}: {error}", self.name))?;
        self.is_at_end = read == 0;
        Ok(read > 0)
    }
}
