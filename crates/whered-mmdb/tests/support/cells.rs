//! The naive twin of an index's rows: every cell is what the database itself says of the field.

use whered_mmdb::{Cell, Database, DatabaseIndex, Found, Value};

/// Whether a cell says what the database says of the field.
fn says(cell: Cell<'_>, value: Option<Value>) -> bool {
    match (cell, value) {
        (Cell::Absent, None) => true,
        (Cell::Text(text), Some(Value::String(value))) => text == value.as_bytes(),
        (Cell::Double(number), Some(Value::Double(value))) => number.to_bits() == value.to_bits(),
        (Cell::Float(number), Some(Value::Float(value))) => number.to_bits() == value.to_bits(),
        (Cell::Unsigned(number), Some(Value::Uint16(value))) => number == u64::from(value),
        (Cell::Unsigned(number), Some(Value::Uint32(value))) => number == u64::from(value),
        (Cell::Unsigned(number), Some(Value::Uint64(value))) => number == value,
        (Cell::Signed(number), Some(Value::Int32(value))) => number == value,
        (Cell::Boolean(truth), Some(Value::Boolean(value))) => truth == value,
        (
            Cell::InPlace,
            Some(Value::Map(_) | Value::Array(_) | Value::Bytes(_) | Value::Uint128(_)),
        ) => true,
        (Cell::InPlace, Some(Value::String(text))) => text.len() > 1000,
        _ => false,
    }
}

/// Compares all cells of an answer that has a record with the database.
pub fn compare_row(database: &Database, index: &DatabaseIndex, found: Found) {
    let row = index.row(found);
    let record = row.record().expect("an answer with a record");
    for (column, field) in index.fields().iter().enumerate() {
        let value = database.field(record, field).expect("a sound record");
        let cell = row.get(column);
        assert!(says(cell, value.clone()), "{record:?} {field}: {value:?}, {cell:?}");
        let number = database.number(record, field).expect("a sound record");
        let number = number.filter(|_| cell != Cell::InPlace).unwrap_or(f64::NAN);
        assert_eq!(row.number(column).to_bits(), number.to_bits(), "{field}: {value:?}");
        let text = match &value {
            Some(Value::String(text)) if cell != Cell::InPlace => text.as_bytes(),
            _ => &[],
        };
        assert_eq!(row.text(column), text, "{field}");
    }
    for column in [index.fields().len(), 255, 256, usize::MAX] {
        let column = column.max(index.fields().len());
        assert_eq!((row.get(column), row.text(column)), (Cell::Absent, &b""[..]));
        assert!(row.number(column).is_nan());
    }
}
