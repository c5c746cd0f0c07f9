//! What the columns of a SQL table can hold, and which rows they cannot.
//!
//! For: telling before a statement is sent that one of its rows would make it fail. One row that
//! no server takes must not keep all others out, so such a row is left out and told of. Not for:
//! asking the server about its columns (`mysql`, `postgres`) and not for encoding.
//!
//! Cost: a comparison or two a cell; texts are checked to be UTF-8 once.

use crate::rows::{Cell, Column, Kind, Schema};

/// How a SQL column keeps our values.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum StorageType {
    /// Whole numbers between two bounds, both included.
    Integer { smallest: i64, largest: i64 },
    /// Double precision.
    Double,
    /// Text with limits of characters and bytes, and no character above `largest`.
    Text { characters_max: u64, bytes_max: u64, largest: char, allows_nul: bool },
    /// Bytes, `bytes_max` at most.
    Bytes { bytes_max: u64 },
    /// A calendar time between two bounds in milliseconds since 1970, both included.
    Calendar { smallest_millis: i64, largest_millis: i64 },
}

impl StorageType {
    /// All whole numbers of 64 bits.
    pub(crate) const ALL_INTEGERS: StorageType =
        StorageType::Integer { smallest: i64::MIN, largest: i64::MAX };
}

/// A column on both sides.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PlannedColumn {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) is_key: bool,
    pub(crate) allows_null: bool,
    pub(crate) stored: StorageType,
}

/// A table on both sides: its columns, key first.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TablePlan {
    pub(crate) name: String,
    pub(crate) columns: Vec<PlannedColumn>,
    /// What the key's texts may take together, where an index says so.
    pub(crate) key_bytes_max: u64,
    /// What the server says of the table and our columns: another text is another table or column,
    /// or one that holds other values.
    pub(crate) identity: String,
}

impl TablePlan {
    /// Our schema with what the SQL side says of each column.
    ///
    /// # Errors
    ///
    /// The first error of `stored_as`, which names the column.
    pub(crate) fn new<E>(
        schema: &Schema,
        key_bytes_max: u64,
        identity: String,
        mut stored_as: impl FnMut(&Column, bool) -> Result<(StorageType, bool), E>,
    ) -> Result<TablePlan, E> {
        let mut columns = Vec::new();
        for (place, column) in schema.columns().enumerate() {
            let is_key = place < schema.key.len();
            let (stored, allows_null) = stored_as(column, is_key)?;
            let (name, kind) = (column.name.clone(), column.kind);
            columns.push(PlannedColumn { name, kind, is_key, allows_null, stored });
        }
        Ok(TablePlan { name: schema.name.clone(), columns, key_bytes_max, identity })
    }

    /// The names of the key's columns, or of the others.
    pub(crate) fn names(&self, of_key: bool) -> impl Iterator<Item = &str> {
        let chosen = self.columns.iter().filter(move |column| column.is_key == of_key);
        chosen.map(|column| column.name.as_str())
    }

    /// Why the SQL table cannot hold a row, if it cannot.
    pub(crate) fn misfit(&self, cells: &[Cell<'_>]) -> Option<String> {
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has the schema's cells");
        let mut key_bytes = 0;
        for (column, cell) in self.columns.iter().zip(cells) {
            if let Some(why) = column.misfit(cell) {
                return Some(format!("{}.{}: {why}", self.name, column.name));
            }
            if let (true, Cell::Text(text)) = (column.is_key, cell) {
                key_bytes += text.len() as u64;
            }
        }
        (key_bytes > self.key_bytes_max).then(|| {
            let max = self.key_bytes_max;
            format!("{}: a key of {key_bytes} bytes; allowed: {max}", self.name)
        })
    }
}

/// Why a table cannot be used of which somebody else's column wants a value with every row;
/// `wanting` are the columns that are NOT NULL without a default.
pub(crate) fn check_others<'a>(
    schema: &Schema,
    wanting: impl IntoIterator<Item = &'a str>,
    is_same: impl Fn(&str, &str) -> bool,
) -> Result<(), String> {
    let is_ours = |name: &str| schema.columns().any(|ours| is_same(&ours.name, name));
    match wanting.into_iter().find(|name| !is_ours(name)) {
        Some(name) => Err(format!(
            "column {name} of table {} is NOT NULL without a default, and the feed has no such \
             column; allowed: a default, or NULL",
            schema.name
        )),
        None => Ok(()),
    }
}

impl PlannedColumn {
    fn misfit(&self, cell: &Cell<'_>) -> Option<String> {
        match (cell, &self.stored) {
            (Cell::Absent, _) if self.is_key => Some("no value in a key".to_owned()),
            // What is no finite number is written as NULL.
            (Cell::Number(value), StorageType::Double) if value.is_finite() => None,
            (Cell::Absent | Cell::Number(_), _) => {
                (!self.allows_null).then(|| "no value, and the column is NOT NULL".to_owned())
            }
            (
                Cell::Integer(value) | Cell::Time(value),
                StorageType::Integer { smallest, largest },
            ) => outside(*value, *smallest, *largest),
            (Cell::Time(value), StorageType::Calendar { smallest_millis, largest_millis }) => {
                outside(*value, *smallest_millis, *largest_millis)
            }
            (Cell::Text(text), StorageType::Bytes { bytes_max }) => too_long(text, *bytes_max),
            (
                Cell::Text(text),
                StorageType::Text { characters_max, bytes_max, largest, allows_nul },
            ) => {
                let Ok(valid) = std::str::from_utf8(text) else {
                    return Some("text that is not UTF-8".to_owned());
                };
                if !allows_nul && text.contains(&0) {
                    return Some("text with a zero byte".to_owned());
                }
                // Few texts are longer in bytes than the column is in characters.
                let is_long = text.len() as u64 > *characters_max
                    && valid.chars().count() as u64 > *characters_max;
                if is_long {
                    return Some(format!("text of more than {characters_max} characters"));
                }
                if *largest < char::MAX && valid.chars().any(|letter| letter > *largest) {
                    return Some("a character that the column's character set lacks".to_owned());
                }
                too_long(text, *bytes_max)
            }
            _ => Some(format!("a value that is no {}", self.kind.name())),
        }
    }
}

fn outside(value: i64, smallest: i64, largest: i64) -> Option<String> {
    let is_inside = (smallest..=largest).contains(&value);
    (!is_inside).then(|| format!("{value}; allowed: {smallest} to {largest}"))
}

fn too_long(text: &[u8], bytes_max: u64) -> Option<String> {
    let is_long = text.len() as u64 > bytes_max;
    is_long.then(|| format!("text of {} bytes; allowed: {bytes_max}", text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: Kind, stored: StorageType, is_key: bool) -> TablePlan {
        let name = "c".to_owned();
        let column = PlannedColumn { name, kind, is_key, allows_null: !is_key, stored };
        TablePlan {
            name: "t".to_owned(),
            columns: vec![column],
            key_bytes_max: 10,
            identity: String::new(),
        }
    }

    fn text(characters_max: u64, largest: char) -> StorageType {
        StorageType::Text { characters_max, bytes_max: 100, largest, allows_nul: false }
    }

    const BYTE: StorageType = StorageType::Integer { smallest: -128, largest: 127 };
    const SECOND: StorageType = StorageType::Calendar { smallest_millis: 0, largest_millis: 1_000 };

    #[test]
    fn what_a_column_can_hold_fits() {
        let fits = [
            (Kind::Integer, BYTE, false, Cell::Integer(-128)),
            (Kind::Integer, BYTE, false, Cell::Absent),
            (Kind::Number, StorageType::Double, false, Cell::Number(f64::NAN)),
            (Kind::Text, text(3, char::MAX), true, Cell::Text("äöü".as_bytes())),
            (Kind::Text, StorageType::Bytes { bytes_max: 2 }, true, Cell::Text(b"\xff\0")),
            (Kind::Time, SECOND, false, Cell::Time(1_000)),
            (Kind::Time, StorageType::ALL_INTEGERS, false, Cell::Time(i64::MIN)),
        ];
        for (kind, stored, is_key, cell) in fits {
            assert_eq!(plan(kind, stored, is_key).misfit(&[cell]), None, "{cell:?}");
        }
    }

    #[test]
    fn a_row_that_no_column_can_hold_is_named_by_table_and_column() {
        let misfits = [
            (Kind::Integer, BYTE, false, Cell::Integer(128), "t.c: 128; allowed: -128 to 127"),
            (Kind::Text, text(3, char::MAX), true, Cell::Absent, "t.c: no value in a key"),
            (
                Kind::Text,
                text(3, char::MAX),
                false,
                Cell::Text(b"\xff"),
                "t.c: text that is not UTF-8",
            ),
            (
                Kind::Text,
                text(3, char::MAX),
                false,
                Cell::Text(b"a\0"),
                "t.c: text with a zero byte",
            ),
            (
                Kind::Text,
                text(3, char::MAX),
                false,
                Cell::Text(b"abcd"),
                "t.c: text of more than 3 characters",
            ),
            (
                Kind::Text,
                text(9, '\u{7f}'),
                false,
                Cell::Text("ä".as_bytes()),
                "t.c: a character that the column's character set lacks",
            ),
            (
                Kind::Text,
                text(99, char::MAX),
                true,
                Cell::Text(b"abcdefghijk"),
                "t: a key of 11 bytes; allowed: 10",
            ),
            (Kind::Time, SECOND, false, Cell::Time(1_001), "t.c: 1001; allowed: 0 to 1000"),
            (
                Kind::Integer,
                StorageType::Double,
                false,
                Cell::Integer(1),
                "t.c: a value that is no integer",
            ),
        ];
        for (kind, stored, is_key, cell, why) in misfits {
            let found = plan(kind, stored, is_key).misfit(&[cell]);
            assert_eq!(found.as_deref(), Some(why), "{cell:?}");
        }
    }

    #[test]
    fn a_number_that_is_not_finite_needs_a_column_for_null() {
        let mut plan = plan(Kind::Number, StorageType::Double, false);
        plan.columns[0].allows_null = false;
        let why = "t.c: no value, and the column is NOT NULL";
        assert_eq!(plan.misfit(&[Cell::Number(f64::INFINITY)]).as_deref(), Some(why));
        assert_eq!(plan.misfit(&[Cell::Number(1.0)]), None);
    }
}
