//! Texts with a packet or flow a line: tables with a header, and plain lines.
//!
//! Not for: Zeek's logs, which share the columns but have heads of their own ([`crate::zeek`]).
//!
//! Errors name line and column. Cost: one pass over the bytes, no allocation for a row without
//! quotes inside of its quotes.

mod builder;
mod column;
mod csv;
mod lines;
mod value;

pub(crate) use builder::RecordBuilder;
pub(crate) use column::Column;
pub(crate) use csv::Csv;
pub(crate) use lines::Lines;
pub(crate) use value::time;

use std::io::Read;
use std::ops::Range;

use crate::capture::Context;
use crate::error::{CaptureError, ErrorKind, Place, quoted};
use crate::interfaces::Interfaces;
use crate::source::Source;

/// The next line of a text, counted.
pub(crate) fn next_line<R: Read>(
    context: &mut Context<R>,
) -> Result<Option<Range<usize>>, CaptureError> {
    context.line += 1;
    let place = Place::Line(context.line, 1);
    match context.source.take_line() {
        Ok(None) => Ok(None),
        Ok(Some(Some(line))) => Ok(Some(line)),
        Ok(Some(None)) => {
            let kind = ErrorKind::Limit;
            Err(CaptureError::new(kind, place, "a longer line", "a line of at most 1 MiB"))
        }
        Err(error) => Err(CaptureError::unreadable(place, &error)),
    }
}

/// The next line of a text that is neither empty nor a comment.
pub(crate) fn next_content<R: Read>(
    context: &mut Context<R>,
) -> Result<Option<Range<usize>>, CaptureError> {
    while let Some(line) = next_line(context)? {
        let content = context.source.bytes(line.clone()).trim_ascii_start();
        if !content.is_empty() && !content.starts_with(b"#") {
            return Ok(Some(line));
        }
    }
    Ok(None)
}

/// Takes away the mark that some systems put in front of UTF-8.
pub(crate) fn skip_mark<R: Read>(source: &mut Source<R>) -> Result<(), CaptureError> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    // Only a text that begins like the mark is waited for.
    let mut wanted = 1;
    while wanted <= MARK.len() {
        let head = source.fill(wanted);
        let head = head.map_err(|error| CaptureError::unreadable(Place::Line(1, 1), &error))?;
        if head.get(..wanted) != MARK.get(..wanted) {
            return Ok(());
        }
        wanted += 1;
    }
    source.consume(MARK.len());
    Ok(())
}

/// Gives the builder a value; an error names the column by its place and its name.
pub(crate) fn set(
    line: u64,
    interfaces: &mut Interfaces,
    builder: &mut RecordBuilder,
    column: Column,
    value: &Field<'_>,
) -> Result<(), CaptureError> {
    let outcome = builder.set(column, value.bytes, interfaces);
    outcome.map_err(|allowed| {
        let found = format!("{} in {}", quoted(value.bytes), column.name());
        CaptureError::new(ErrorKind::Malformed, Place::Line(line, value.column), found, allowed)
    })
}

/// A value and where it begins in its line, from 1.
pub(crate) struct Field<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) column: usize,
}
