//! NDJSON: one object a line. A line that is none spoils itself only.
//!
//! Not for what an object means (`json`). Empty lines are passed over.

use super::input::Input;
use super::sample::Objects;
use super::sink::Sink;
use super::{LoadOptions, Spot};
use crate::error::ConnectError;

/// Reads all lines into the sink.
pub(super) fn read(
    input: &mut Input,
    options: &LoadOptions,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    let mut objects = Objects::new(options);
    let read = read_lines(input, &mut objects, sink);
    objects.end(sink)?;
    read
}

fn read_lines(
    input: &mut Input,
    objects: &mut Objects<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    let mut text = Vec::new();
    let mut line = 0;
    loop {
        let byte = input.byte();
        if !input.next_line(&mut text)? {
            return Ok(());
        }
        line += 1;
        // RFC 8142 puts a record separator before each text.
        let text = text.strip_prefix(b"\x1e").unwrap_or(&text).trim_ascii();
        if text.is_empty() {
            continue;
        }
        objects.take(Spot::Line { line, byte }, text, sink)?;
    }
}
