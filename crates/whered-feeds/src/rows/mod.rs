//! CSV and TSV: rows whose columns are found by name or by number.
//!
//! For: RFC 4180 with any line end, and tab-separated rows without quotes. Not for: guessing a
//! separator, or rows with a header in the middle.
//!
//! ```text
//! object,x,y,t            header: which column is which slot
//! 123,12.3,45.6,17...     a row without quotes, or with quotes around whole fields: our own loop
//! "say ""hi""",1,2,3      any other: csv-core, from this row's first byte to its end
//! ```
//!
//! Invariants: a row of another width than the header's is rejected alone; rows that are empty are
//! no rows; bytes that are not UTF-8 cost their row only. A quote that is never closed ends the
//! scan: nobody knows which rows it was meant to hold.
//! Cost: one look at each byte of the columns, no allocation in the loop.

mod fields;

use crate::assemble::{Assembler, Texts, reject};
use crate::error::{MappingError, UploadError, UploadErrorKind};
use crate::event::{Events, Totals};
use crate::mapping::Mapping;
use crate::source::{Format, MappingSource};
use crate::upload::{RECORD_SIZE_MAX_BYTES, shown, valid_text};
use fields::RowReader;

/// Which columns the slots are.
#[derive(Clone, Debug)]
pub(crate) struct RowPaths {
    columns: Columns,
    delimiter: u8,
    has_quotes: bool,
}

#[derive(Clone, Debug)]
enum Columns {
    /// Names, by slot; the first row says where they are.
    Names(Vec<String>),
    /// Places from 0, by slot; the first row is a record.
    Places(Vec<usize>),
}

/// More columns than any row has.
const COLUMN_MAX: usize = 4_096;

impl RowPaths {
    pub(crate) fn compile(
        source: &MappingSource,
        paths: &[String],
    ) -> Result<RowPaths, MappingError> {
        if !source.record.is_empty() {
            let found = format!("{:?}", source.record);
            return Err(MappingError::new("record", found, "nothing: each row is a record"));
        }
        if source.items.is_some() {
            return Err(MappingError::new(
                "items",
                "a list",
                "xml and ndjson have lists, rows not",
            ));
        }
        let is_tsv = source.format == Format::Tsv;
        let numbered = paths.iter().filter(|path| path.starts_with('#')).count();
        let columns = if numbered == 0 {
            Columns::Names(paths.to_vec())
        } else {
            let places = paths.iter().map(|path| {
                let number = path.strip_prefix('#').and_then(|number| number.parse().ok());
                number.filter(|number| (1..=COLUMN_MAX).contains(number)).map(|number| number - 1)
            });
            let places: Option<Vec<usize>> = places.collect();
            Columns::Places(places.ok_or_else(|| {
                let wrong = paths.iter().find(|path| {
                    path.strip_prefix('#').is_none_or(|number| number.parse::<u16>().is_err())
                });
                let found = format!("the column {:?}", wrong.unwrap_or(&paths[0]));
                let allowed =
                    "names only, which need a header row, or numbers from #1 to #4096 only";
                MappingError::new("columns", found, allowed)
            })?)
        };
        let delimiter = if is_tsv { b'\t' } else { b',' };
        Ok(RowPaths { columns, delimiter, has_quotes: !is_tsv })
    }
}

/// Where each slot is in a row, and how wide rows must be.
struct Plan {
    /// Slot and column, ordered by column.
    wanted: Vec<(usize, usize)>,
    width: Option<usize>,
}

/// Whether the header has the columns.
pub(crate) fn check(paths: &RowPaths, upload: &[u8], start: usize) -> Result<(), UploadError> {
    let mut reader = RowReader::new(upload, start, paths.delimiter, paths.has_quotes, true);
    plan(paths, &mut reader).map(|_| ())
}

fn plan(paths: &RowPaths, reader: &mut RowReader<'_>) -> Result<Plan, UploadError> {
    let (mut wanted, width) = match &paths.columns {
        Columns::Places(places) => (places.iter().copied().enumerate().collect::<Vec<_>>(), None),
        Columns::Names(names) => {
            let at = reader.at();
            let Some(header) = reader.next()? else {
                let message = "no header row";
                return Err(UploadError::new(UploadErrorKind::Empty, at, message));
            };
            let columns: Vec<Vec<u8>> =
                reader.fields(&header).map(|field| field.trim_ascii().to_vec()).collect();
            let wanted: Result<Vec<_>, UploadError> = names
                .iter()
                .enumerate()
                .map(|(slot, name)| {
                    let column = columns.iter().position(|column| column == name.as_bytes());
                    let column = column.ok_or_else(|| {
                        let message = format!(
                            "the header has no column {}; it begins {}",
                            shown(name.as_bytes()),
                            shown(&columns.join(&paths.delimiter)),
                        );
                        UploadError::new(UploadErrorKind::WrongFormat, header.start, message)
                    })?;
                    Ok((slot, column))
                })
                .collect();
            (wanted?, Some(columns.len()))
        }
    };
    wanted.sort_by_key(|(_, column)| *column);
    Ok(Plan { wanted, width })
}

/// Reads all rows; see [`Mapping::scan`].
pub(crate) fn scan<E: Events>(
    mapping: &Mapping,
    paths: &RowPaths,
    upload: &[u8],
    start: usize,
    events: &mut E,
    quick: bool,
) -> Result<Totals, UploadError> {
    let valid_end = start + valid_text(upload, start).len();
    let mut totals = Totals::default();
    let mut reader = RowReader::new(upload, start, paths.delimiter, paths.has_quotes, quick);
    let plan = plan(paths, &mut reader)?;
    let slot_count = mapping.roles.slot_count;
    let mut texts = Texts::new(slot_count);
    let mut assembler = Assembler::new(mapping);
    while let Some(row) = reader.next()? {
        let bytes = &upload[row.start..row.end];
        if row.end > valid_end && std::str::from_utf8(bytes).is_err() {
            reject(row.start, "the row is not UTF-8", &mut totals, events);
            continue;
        }
        if row.is_too_long || bytes.len() > RECORD_SIZE_MAX_BYTES {
            let reason = format!("a row of more than {RECORD_SIZE_MAX_BYTES} bytes");
            reject(row.start, &reason, &mut totals, events);
            continue;
        }
        if let Some(width) = plan.width
            && row.column_count != width
        {
            let reason = format!("{} columns where the header has {width}", row.column_count);
            reject(row.start, &reason, &mut totals, events);
            continue;
        }
        if row.is_plain {
            for (slot, column) in &plan.wanted {
                texts.slots[*slot] = reader.plain_field(*column).filter(|text| !text.is_empty());
            }
            assembler.hand_out(row.start, &texts, &mut totals, events);
        } else {
            let mut texts = Texts::new(slot_count);
            for (slot, column) in &plan.wanted {
                texts.slots[*slot] = reader.decoded_field(*column).filter(|text| !text.is_empty());
            }
            Assembler::new(mapping).hand_out(row.start, &texts, &mut totals, events);
        }
    }
    Ok(totals)
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
