//! JSON of several forms as one object a line: arrays of objects, pretty-printed objects one after
//! the other, and arrays inside of an object such as `{"Records": [...]}`.
//!
//! Not for checking JSON: what is broken comes out broken, and is a bad record. Blanks between
//! values are left out. Memory is one piece of the input, however long a record is.
//!
//! ```text
//! [ {"a": 1}, {"b": 2} ]            {"a":1}
//! {"Records": [ {"a": 1}, ... ]} ─► {"b":2}
//! ```

use std::io::{self, Read};

/// How much is read at once.
const PIECE_BYTES: usize = 256 << 10;

/// The names of members that hold the records of a whole file.
const WRAPPERS: [&[u8]; 5] = [b"Records", b"records", b"logEvents", b"events", b"entries"];

/// How many bytes show a wrapper.
const WRAPPER_BYTES: usize = 64;

/// Where the records are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Objects one after the other.
    Objects,
    /// Elements of arrays.
    Array,
    /// Elements of the first array of an object.
    Wrapped,
}

impl Form {
    /// Whether more bytes would not change what [`Form::of`] says. A live line is not held back.
    pub(crate) fn is_decided(head: &[u8]) -> bool {
        let head = head.trim_ascii_start();
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let has_line = line.len() < head.len();
        match head.first() {
            None => false,
            Some(b'{') => has_line && (is_closed(line) || head.len() >= WRAPPER_BYTES),
            Some(b'[') => has_line || head.len() >= WRAPPER_BYTES,
            Some(_) => true,
        }
    }

    /// The form of an input by its first bytes; nothing if it has one object a line, or is no JSON.
    pub(crate) fn of(head: &[u8]) -> Option<Form> {
        let head = head.trim_ascii_start();
        match head.first()? {
            b'[' => {
                let next = head.get(1..)?.trim_ascii_start().first();
                matches!(next, Some(b'{' | b']')).then_some(Form::Array)
            }
            b'{' => {
                let inside = head.get(1..)?.trim_ascii_start();
                let is_wrapper = |name: &&[u8]| {
                    let rest = inside.strip_prefix(b"\"").and_then(|rest| rest.strip_prefix(*name));
                    let value = rest.and_then(|rest| rest.strip_prefix(b"\""));
                    let value = value.and_then(|rest| rest.trim_ascii_start().strip_prefix(b":"));
                    value.is_some_and(|value| value.trim_ascii_start().starts_with(b"["))
                };
                if WRAPPERS.iter().any(is_wrapper) {
                    return Some(Form::Wrapped);
                }
                let line = head.split(|&byte| byte == b'\n').next()?;
                let is_open = line.len() < head.len() && !is_closed(line);
                is_open.then_some(Form::Objects)
            }
            _ => None,
        }
    }
}

/// Whether all braces and brackets of a line are closed in it.
fn is_closed(line: &[u8]) -> bool {
    let mut state = State::default();
    line.iter().for_each(|&byte| state.step(byte));
    state.depth == 0 && !state.in_string
}

/// Where in JSON a byte is.
#[derive(Default)]
struct State {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl State {
    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

/// Reads JSON as one object a line.
pub(crate) struct JsonRecords<R> {
    inner: R,
    /// How deep the records are.
    record_depth: usize,
    form: Form,
    state: State,
    /// Whether the array of records is open, for those that are wrapped.
    is_inside: bool,
    /// Whether a record has begun and not ended.
    is_recording: bool,
    piece: Vec<u8>,
    out: Vec<u8>,
    taken: usize,
    is_at_end: bool,
}

impl<R: Read> JsonRecords<R> {
    pub(crate) fn new(inner: R, form: Form) -> JsonRecords<R> {
        let record_depth = match form {
            Form::Objects => 0,
            Form::Array => 1,
            Form::Wrapped => 2,
        };
        JsonRecords {
            inner,
            record_depth,
            form,
            state: State::default(),
            is_inside: false,
            is_recording: false,
            piece: Vec::new(),
            out: Vec::new(),
            taken: 0,
            is_at_end: false,
        }
    }

    fn end_record(&mut self) {
        if std::mem::take(&mut self.is_recording) {
            self.out.push(b'\n');
        }
    }

    fn take(&mut self, byte: u8) {
        let (depth, was_in_string) = (self.state.depth, self.state.in_string);
        self.state.step(byte);
        if self.form == Form::Wrapped && !self.is_inside {
            // Members before the array are not records.
            self.is_inside = depth == 1 && byte == b'[' && !was_in_string;
            return;
        }
        if was_in_string {
            if self.is_recording {
                // A line end in a string is broken JSON, and must not end the line.
                self.out.push(if byte == b'\n' || byte == b'\r' { b'\t' } else { byte });
            }
            return;
        }
        if byte.is_ascii_whitespace() {
            return;
        }
        let is_closing = byte == b'}' || byte == b']';
        if depth == self.record_depth && is_closing && self.record_depth > 0 {
            // The array ends.
            self.end_record();
            self.is_inside = false;
            return;
        }
        if depth == self.record_depth && byte == b',' {
            self.end_record();
            return;
        }
        if depth < self.record_depth {
            return;
        }
        self.is_recording = true;
        self.out.push(byte);
        if is_closing && self.state.depth == self.record_depth {
            self.end_record();
        }
    }
}

impl<R: Read> Read for JsonRecords<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.out.len() && !self.is_at_end {
            self.out.clear();
            self.taken = 0;
            let mut piece = std::mem::take(&mut self.piece);
            piece.resize(PIECE_BYTES, 0);
            let read = self.inner.read(&mut piece);
            let count = *read.as_ref().unwrap_or(&0);
            piece.iter().take(count).for_each(|&byte| self.take(byte));
            self.piece = piece;
            if read? == 0 {
                self.is_at_end = true;
                self.end_record();
            }
        }
        let rest = self.out.get(self.taken..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Option<String> {
        let form = Form::of(text.as_bytes())?;
        let mut out = String::new();
        JsonRecords::new(text.as_bytes(), form).read_to_string(&mut out).unwrap();
        Some(out)
    }

    #[test]
    fn arrays_wrapped_arrays_and_pretty_printed_objects_become_one_object_a_line() {
        for (text, expected) in [
            ("[{\"a\": \"x ]}\\\"\"}, {\"b\":[1, 2]}\n]", "{\"a\":\"x ]}\\\"\"}\n{\"b\":[1,2]}\n"),
            ("{\"Records\": [ {\"a\":1},{\"a\":{}} ], \"n\": 1}", "{\"a\":1}\n{\"a\":{}}\n"),
            (
                "{\n  \"records\" : [\n{\"a\":1}]}\n{\"records\":[{\"b\":2}]}",
                "{\"a\":1}\n{\"b\":2}\n",
            ),
            ("{\n \"a\": 1\n}\n{\n \"b\": {\"c\": []}\n}", "{\"a\":1}\n{\"b\":{\"c\":[]}}\n"),
            ("[\n]", ""),
            ("[{\"a\":1}, 7, \"x\"]", "{\"a\":1}\n7\n\"x\"\n"),
            ("[{\"a\":1}, {\"b\":", "{\"a\":1}\n{\"b\":\n"),
        ] {
            assert_eq!(lines(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["{\"a\":1}\n{\"b\":2}\n", "", "[2026-01-01T] \"GET\"", "a,b", "{\"a\":1}"] {
            assert_eq!(lines(text), None, "{text}");
        }
    }

    #[test]
    fn json_cut_at_any_byte_gives_the_whole_records_before_it() {
        let text = "{\"Records\": [ {\"a\": \"}\\\\\"},\n {\"a\": [{}]} ]}";
        let whole = lines(text).unwrap();
        let first = whole.split_inclusive('\n').next().unwrap();
        for size in 0..text.len() {
            if let Some(cut) = lines(&text[..size]) {
                assert!(cut.is_empty() || whole.starts_with(cut.trim_end()), "{size}: {cut}");
                assert!(size < 27 || cut.starts_with(first), "{size}: {cut}");
            }
        }
    }
}
