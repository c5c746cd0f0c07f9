//! Cells of tables as JSON and CSV, and cells of keys from text.
//!
//! For: HTTP and RESP alike. Not for: which rows (the engine), nor how many at a time (the routes).
//!
//! A time is milliseconds since 1970 everywhere. A number is the shortest text that reads back.
//! Text that is no UTF-8 is shown with U+FFFD; uploads are UTF-8, so that comes from keys of other
//! listeners.

use std::io::Write as _;

use whered_engine::tables::{Cell, Column, ColumnKind, Row, RowRef, TableSchema, Value};

/// The cells of a row, key columns first.
pub(crate) fn of<'a>(row: RowRef<'a>, schema: &TableSchema) -> impl Iterator<Item = Cell<'a>> {
    let key = (0..schema.key.len()).map(move |index| row.key(index));
    key.chain((0..schema.columns.len()).map(move |index| row.column(index)))
}

/// The cells of an owned row, key columns first.
pub(crate) fn of_owned(row: &Row) -> impl Iterator<Item = Cell<'_>> {
    row.key.iter().chain(&row.columns).map(Value::as_cell)
}

/// Appends a cell as JSON.
pub(crate) fn push_json(out: &mut Vec<u8>, cell: Cell<'_>) {
    match cell {
        Cell::Absent => out.extend_from_slice(b"null"),
        // Writing to memory cannot fail, here and below.
        Cell::Integer(value) | Cell::Time(value) => drop(write!(out, "{value}")),
        Cell::Number(value) => push_number(out, value),
        Cell::Text(text) => push_json_text(out, &String::from_utf8_lossy(text)),
    }
}

/// Appends a row as a JSON object, key columns first.
pub(crate) fn push_json_row<'a>(
    out: &mut Vec<u8>,
    schema: &TableSchema,
    cells: impl Iterator<Item = Cell<'a>>,
) {
    out.push(b'{');
    for (at, (column, cell)) in columns(schema).zip(cells).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        push_json_text(out, &column.name);
        out.push(b':');
        push_json(out, cell);
    }
    out.push(b'}');
}

/// Appends the names of the columns as a line of CSV.
pub(crate) fn push_csv_header(out: &mut Vec<u8>, schema: &TableSchema) {
    let names = columns(schema).map(|column| Cell::Text(column.name.as_bytes()));
    push_csv_row(out, names);
}

/// Appends a row as a line of CSV (RFC 4180, lines end with a newline alone).
pub(crate) fn push_csv_row<'a>(out: &mut Vec<u8>, cells: impl Iterator<Item = Cell<'a>>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match cell {
            Cell::Absent => {}
            Cell::Text(text) if text.iter().any(|byte| b",\"\r\n".contains(byte)) => {
                out.push(b'"');
                for byte in text {
                    out.extend_from_slice(if *byte == b'"' {
                        b"\"\""
                    } else {
                        std::slice::from_ref(byte)
                    });
                }
                out.push(b'"');
            }
            Cell::Text(text) => out.extend_from_slice(text),
            other => push_json(out, other),
        }
    }
    out.push(b'\n');
}

/// Appends a number that reads back; what is no number at all is null.
pub(crate) fn push_number(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        drop(write!(out, "{value}"));
    } else {
        out.extend_from_slice(b"null");
    }
}

/// The columns of a table, those of its key first.
pub(crate) fn columns(schema: &TableSchema) -> impl Iterator<Item = &Column> {
    schema.key.iter().chain(&schema.columns)
}

/// Reads the cells of a key from texts.
///
/// # Errors
/// One line: too many or too few parts, or one that is of another kind.
pub(crate) fn read_key<'a, T: AsRef<[u8]>>(
    schema: &TableSchema,
    parts: &'a [T],
) -> Result<Vec<Cell<'a>>, String> {
    if parts.len() != schema.key.len() {
        let names: Vec<_> = schema.key.iter().map(|column| column.name.as_str()).collect();
        return Err(format!(
            "{} parts of a key; allowed: {} ({})",
            parts.len(),
            names.len(),
            names.join(", ")
        ));
    }
    schema.key.iter().zip(parts).map(|(column, part)| read_cell(column, part.as_ref())).collect()
}

fn read_cell<'a>(column: &Column, part: &'a [u8]) -> Result<Cell<'a>, String> {
    let text = || std::str::from_utf8(part).ok();
    let read = match column.kind {
        ColumnKind::Text => Some(Cell::Text(part)),
        // Of the other kinds an empty part is what a record lacked.
        _ if part.is_empty() => Some(Cell::Absent),
        ColumnKind::Integer => text().and_then(|text| text.parse().ok()).map(Cell::Integer),
        ColumnKind::Time => text().and_then(|text| text.parse().ok()).map(Cell::Time),
        ColumnKind::Number => text()
            .and_then(|text| text.parse().ok())
            .filter(|number: &f64| number.is_finite())
            .map(Cell::Number),
    };
    read.ok_or_else(|| {
        let shown = String::from_utf8_lossy(&part[..part.len().min(64)]).into_owned();
        format!("'{shown}' for '{}'; allowed: {}", column.name, kind_text(column.kind))
    })
}

fn kind_text(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Integer => "a whole number",
        ColumnKind::Number => "a number",
        ColumnKind::Text => "text",
        ColumnKind::Time => "milliseconds since 1970",
    }
}

fn push_json_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("text always has a JSON form");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let cells = [
            Cell::Text(b"plain"),
            Cell::Text(b"a,\"b\"\n"),
            Cell::Absent,
            Cell::Integer(-3),
            Cell::Number(0.1),
            Cell::Time(1_700_000_000_000),
            Cell::Number(f64::NAN),
        ];
        let mut line = Vec::new();
        push_csv_row(&mut line, cells.into_iter());
        let text = String::from_utf8(line).expect("text");
        assert_eq!(text, "plain,\"a,\"\"b\"\"\n\",,-3,0.1,1700000000000,null\n");
        let mut json = Vec::new();
        cells.into_iter().for_each(|cell| push_json(&mut json, cell));
        let text = String::from_utf8(json).expect("text");
        assert_eq!(text, "\"plain\"\"a,\\\"b\\\"\\n\"null-30.11700000000000null");
    }
}
