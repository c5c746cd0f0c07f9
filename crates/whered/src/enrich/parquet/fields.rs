//! Fields of databases as typed columns.
//!
//! Not for finding records. The type of a column is that of the field in its database: all records
//! are asked once, before the run, so that the type does not depend on the input. Where records
//! have numbers of different types, the column has the smallest type that holds all of them; where
//! they have anything else, text. Lists, maps and 128-bit numbers are text as well, as in CSV.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder, UInt32Builder,
};
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int32Type, Int64Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::DataType;
use whered_mmdb::Value;

use super::super::fields::{Column, InputDatabase};
use super::super::find::{DatabaseSnapshot, NO_RECORD};
use super::super::write::Field;
use crate::outcome::Failure;

/// The type of an added column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FieldKind {
    Boolean,
    Uint16,
    Uint32,
    Uint64,
    Int32,
    Int64,
    Float,
    Double,
    Text,
    Bytes,
}

impl FieldKind {
    fn of(value: &Value) -> FieldKind {
        match value {
            Value::Boolean(_) => FieldKind::Boolean,
            Value::Uint16(_) => FieldKind::Uint16,
            Value::Uint32(_) => FieldKind::Uint32,
            Value::Uint64(_) => FieldKind::Uint64,
            Value::Int32(_) => FieldKind::Int32,
            Value::Float(_) => FieldKind::Float,
            Value::Double(_) => FieldKind::Double,
            Value::Bytes(_) => FieldKind::Bytes,
            Value::String(_) | Value::Map(_) | Value::Array(_) | Value::Uint128(_) => {
                FieldKind::Text
            }
        }
    }

    /// The smallest type that holds every value of both.
    fn with(self, other: FieldKind) -> FieldKind {
        use FieldKind::{Double, Float, Int32, Int64, Text, Uint16, Uint32, Uint64};
        let is_one = |kinds: &[FieldKind]| kinds.contains(&self) || kinds.contains(&other);
        let are_all = |kinds: &[FieldKind]| kinds.contains(&self) && kinds.contains(&other);
        if self == other {
            self
        } else if are_all(&[Uint16, Uint32]) {
            Uint32
        } else if are_all(&[Uint16, Uint32, Uint64]) {
            Uint64
        } else if are_all(&[Uint16, Int32]) {
            Int32
        } else if are_all(&[Uint16, Uint32, Int32, Int64]) {
            Int64
        } else if are_all(&[Float, Double, Uint16, Uint32, Int32]) && is_one(&[Float, Double]) {
            Double
        } else {
            Text
        }
    }

    pub(crate) fn data_type(self) -> DataType {
        match self {
            FieldKind::Boolean => DataType::Boolean,
            FieldKind::Uint16 => DataType::UInt16,
            FieldKind::Uint32 => DataType::UInt32,
            FieldKind::Uint64 => DataType::UInt64,
            FieldKind::Int32 => DataType::Int32,
            FieldKind::Int64 => DataType::Int64,
            FieldKind::Float => DataType::Float32,
            FieldKind::Double => DataType::Float64,
            FieldKind::Text => DataType::Utf8,
            FieldKind::Bytes => DataType::Binary,
        }
    }
}

/// The type of each column.
///
/// # Errors
/// A fault of a database.
pub(crate) fn kinds(
    databases: &[InputDatabase],
    columns: &[Column],
) -> Result<Vec<FieldKind>, Failure> {
    let mut kinds: Vec<Option<FieldKind>> = vec![None; columns.len()];
    for (place, named) in databases.iter().enumerate() {
        let asked = columns.iter().zip(&mut kinds);
        let mut asked: Vec<(&Column, &mut Option<FieldKind>)> =
            asked.filter(|(column, _)| column.databases.contains(&place)).collect();
        if asked.is_empty() {
            continue;
        }
        let mut seen = HashSet::new();
        for network in named.database.networks() {
            let (_, record) = network.map_err(|error| Failure::file(&named.path, error))?;
            if !seen.insert(record) {
                continue;
            }
            for (column, kind) in &mut asked {
                let value = named.database.field(record, &column.path);
                let value = value.map_err(|error| Failure::file(&named.path, error))?;
                if let Some(found) = value.as_ref().map(FieldKind::of) {
                    **kind = Some(kind.map_or(found, |known| known.with(found)));
                }
            }
        }
    }
    Ok(kinds.into_iter().map(|kind| kind.unwrap_or(FieldKind::Text)).collect())
}

/// The keys of a batch, each once, and for each row which of them it has.
pub(crate) struct DistinctKeys {
    keys: Vec<u32>,
    rows: UInt32Array,
}

impl DistinctKeys {
    pub(crate) fn new(all: &[u32]) -> DistinctKeys {
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let (mut keys, mut rows) = (Vec::new(), UInt32Builder::with_capacity(all.len()));
        for &key in all {
            let number = *numbers.entry(key).or_insert_with(|| {
                keys.push(key);
                // A batch has fewer rows than that.
                u32::try_from(keys.len() - 1).unwrap_or(u32::MAX)
            });
            rows.append_value(number);
        }
        DistinctKeys { keys, rows: rows.finish() }
    }

    /// A column of a batch.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub(crate) fn column(
        &self,
        view: &DatabaseSnapshot<'_>,
        column: &Column,
        kind: FieldKind,
    ) -> Result<ArrayRef, String> {
        let index_columns = view.index_columns(&column.path);
        let fields = self.keys.iter().map(|&key| match key {
            NO_RECORD => Ok(Field::Absent),
            key => view.field(key, &column.path, index_columns),
        });
        let values = array(&fields.collect::<Result<Vec<Field<'_>>, String>>()?, kind)
            .map_err(|what| format!("--field {}: {what}", column.name.escape_debug()))?;
        arrow_select::take::take(&values, &self.rows, None).map_err(|error| error.to_string())
    }
}

/// Values as an array of a type that holds all of them.
fn array(fields: &[Field<'_>], kind: FieldKind) -> Result<ArrayRef, String> {
    match kind {
        FieldKind::Uint16 => numbers::<UInt16Type>(fields, |value| u16::try_from(value).ok()),
        FieldKind::Uint32 => numbers::<UInt32Type>(fields, |value| u32::try_from(value).ok()),
        FieldKind::Uint64 => numbers::<UInt64Type>(fields, |value| u64::try_from(value).ok()),
        FieldKind::Int32 => numbers::<Int32Type>(fields, |value| i32::try_from(value).ok()),
        FieldKind::Int64 => numbers::<Int64Type>(fields, |value| i64::try_from(value).ok()),
        FieldKind::Float => floats::<Float32Type>(fields, |value| match value {
            Value::Float(number) => Some(*number),
            _ => None,
        }),
        FieldKind::Double => floats::<Float64Type>(fields, double),
        FieldKind::Boolean => {
            let mut builder = BooleanBuilder::new();
            for field in fields {
                match field {
                    Field::Absent => builder.append_null(),
                    Field::Value(Value::Boolean(truth)) => builder.append_value(*truth),
                    _ => return Err(CHANGED.to_owned()),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        FieldKind::Bytes => {
            let mut builder = BinaryBuilder::new();
            for field in fields {
                match field {
                    Field::Absent => builder.append_null(),
                    Field::Value(Value::Bytes(bytes)) => builder.append_value(bytes),
                    _ => return Err(CHANGED.to_owned()),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        FieldKind::Text => {
            let (mut builder, mut scratch) = (StringBuilder::new(), Vec::new());
            for field in fields {
                match field {
                    Field::Absent => builder.append_null(),
                    Field::Text(text) => builder.append_value(String::from_utf8_lossy(text)),
                    Field::Value(Value::String(text)) => builder.append_value(text),
                    Field::Value(value) => {
                        scratch.clear();
                        value.write_text(&mut scratch);
                        builder.append_value(String::from_utf8_lossy(&scratch));
                    }
                }
            }
            Ok(Arc::new(builder.finish()))
        }
    }
}

/// A value that the walk over all records has not met.
const CHANGED: &str = "a record has a value of another type than before the run";

fn numbers<Kind: ArrowPrimitiveType>(
    fields: &[Field<'_>],
    fit: impl Fn(i128) -> Option<Kind::Native>,
) -> Result<ArrayRef, String> {
    let whole = |value: &Value| {
        Some(match *value {
            Value::Uint16(number) => i128::from(number),
            Value::Uint32(number) => i128::from(number),
            Value::Uint64(number) => i128::from(number),
            Value::Int32(number) => i128::from(number),
            _ => return None,
        })
    };
    floats::<Kind>(fields, |value| fit(whole(value)?))
}

fn floats<Kind: ArrowPrimitiveType>(
    fields: &[Field<'_>],
    fit: impl Fn(&Value) -> Option<Kind::Native>,
) -> Result<ArrayRef, String> {
    let mut builder = PrimitiveBuilder::<Kind>::with_capacity(fields.len());
    for field in fields {
        match field {
            Field::Absent => builder.append_null(),
            Field::Value(value) => builder.append_value(fit(value).ok_or(CHANGED)?),
            Field::Text(_) => return Err(CHANGED.to_owned()),
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn double(value: &Value) -> Option<f64> {
    Some(match *value {
        Value::Double(number) => number,
        Value::Float(number) => f64::from(number),
        Value::Uint16(number) => f64::from(number),
        Value::Uint32(number) => f64::from(number),
        // An index keeps whole numbers of every width as this one.
        Value::Uint64(number) => f64::from(u32::try_from(number).ok()?),
        Value::Int32(number) => f64::from(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    const ALL: [FieldKind; 10] = [
        FieldKind::Boolean,
        FieldKind::Uint16,
        FieldKind::Uint32,
        FieldKind::Uint64,
        FieldKind::Int32,
        FieldKind::Int64,
        FieldKind::Float,
        FieldKind::Double,
        FieldKind::Text,
        FieldKind::Bytes,
    ];

    fn extremes() -> Vec<Value> {
        vec![
            Value::Boolean(true),
            Value::Uint16(u16::MAX),
            Value::Uint32(u32::MAX),
            Value::Uint64(u64::MAX),
            Value::Int32(i32::MIN),
            Value::Float(f32::MAX),
            Value::Double(f64::MAX),
            Value::String("a".to_owned()),
            Value::Bytes(vec![1]),
            Value::Uint128(u128::MAX),
            Value::Map(vec![("a".to_owned(), Value::Uint16(1))]),
        ]
    }

    #[test]
    fn the_type_of_two_values_holds_both_of_them_whatever_they_are() {
        for left in extremes() {
            for right in extremes() {
                let kind = FieldKind::of(&left).with(FieldKind::of(&right));
                assert_eq!(kind, FieldKind::of(&right).with(FieldKind::of(&left)));
                let fields =
                    vec![Field::Value(left.clone()), Field::Absent, Field::Value(right.clone())];
                let array = array(&fields, kind).expect("the type holds all of them");
                assert_eq!(*array.data_type(), kind.data_type());
                assert_eq!(array.null_count(), 1);
            }
        }
        assert_eq!(FieldKind::Uint32.with(FieldKind::Int32), FieldKind::Int64);
        assert_eq!(FieldKind::Int64.with(FieldKind::Double), FieldKind::Text);
    }

    #[test]
    fn a_value_of_another_type_than_that_of_the_column_is_an_error_and_never_null() {
        let text = vec![Field::Text(b"a")];
        for kind in ALL.into_iter().filter(|kind| *kind != FieldKind::Text) {
            assert!(array(&text, kind).is_err(), "{kind:?}");
        }
        assert!(array(&[Field::Value(Value::Uint64(1 << 40))], FieldKind::Uint32).is_err());
    }

    #[test]
    fn rows_with_the_same_key_have_the_same_value() {
        let keys = DistinctKeys::new(&[7, 0, 7, 9]);
        assert_eq!(keys.keys, [7, 0, 9]);
        let values = array(&[Field::Text(b"a"), Field::Absent, Field::Text(b"b")], FieldKind::Text);
        let rows = arrow_select::take::take(&values.unwrap(), &keys.rows, None).unwrap();
        let rows: Vec<Option<&str>> = rows.as_string::<i32>().iter().collect();
        assert_eq!(rows, [Some("a"), None, Some("a"), Some("b")]);
    }
}
