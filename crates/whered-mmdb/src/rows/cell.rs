//! The types that rows can name, and values of them from text.
//!
//! Not for deciding which type a value has. A column or member is named `path` or `path:type`.
//! Text must be the whole value: no blanks around it. Cost: linear in the text.

use crate::MAX_DEPTH;
use crate::error::{MmdbError, shown};
use crate::path::FieldPath;
use crate::value::Value;

/// All names, for messages.
pub(super) const TYPES: &str =
    "string, double, float, uint16, uint32, uint64, uint128, int32, boolean, bytes";

/// The type of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellType {
    String,
    Double,
    Float,
    Uint16,
    Uint32,
    Uint64,
    Uint128,
    Int32,
    Boolean,
    Bytes,
}

impl CellType {
    pub(super) fn from_name(name: &str) -> Option<CellType> {
        Some(match name {
            "string" => CellType::String,
            "double" => CellType::Double,
            "float" => CellType::Float,
            "uint16" => CellType::Uint16,
            "uint32" => CellType::Uint32,
            "uint64" => CellType::Uint64,
            "uint128" => CellType::Uint128,
            "int32" => CellType::Int32,
            "boolean" => CellType::Boolean,
            "bytes" => CellType::Bytes,
            _ => return None,
        })
    }

    /// The cell's value, or what would be allowed instead.
    pub(super) fn parse(self, text: &str) -> Result<Value, String> {
        let range = |low: i64, high: u128| format!("whole numbers from {low} to {high}");
        match self {
            CellType::String => Some(Value::String(text.to_string())),
            CellType::Double => {
                text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Double)
            }
            CellType::Float => {
                text.parse().ok().filter(|number: &f32| number.is_finite()).map(Value::Float)
            }
            CellType::Uint16 => text.parse().ok().map(Value::Uint16),
            CellType::Uint32 => text.parse().ok().map(Value::Uint32),
            CellType::Uint64 => text.parse().ok().map(Value::Uint64),
            CellType::Uint128 => text.parse().ok().map(Value::Uint128),
            CellType::Int32 => text.parse().ok().map(Value::Int32),
            CellType::Boolean => match text {
                "true" | "1" => Some(Value::Boolean(true)),
                "false" | "0" => Some(Value::Boolean(false)),
                _ => None,
            },
            CellType::Bytes => parse_hex(text).map(Value::Bytes),
        }
        .ok_or_else(|| match self {
            CellType::String => "text".to_string(),
            CellType::Double | CellType::Float => "finite decimal numbers".to_string(),
            CellType::Uint16 => range(0, u128::from(u16::MAX)),
            CellType::Uint32 => range(0, u128::from(u32::MAX)),
            CellType::Uint64 => range(0, u128::from(u64::MAX)),
            CellType::Uint128 => range(0, u128::MAX),
            CellType::Int32 => range(i64::from(i32::MIN), i32::MAX as u128),
            CellType::Boolean => "true, false, 1, 0".to_string(),
            CellType::Bytes => "pairs of hexadecimal digits".to_string(),
        })
    }
}

impl CellType {
    /// The doubles and floats that JSON has no digits for.
    pub(super) fn parse_not_finite(self, text: &str) -> Option<Value> {
        let number = match text {
            "NaN" => f64::NAN,
            "inf" => f64::INFINITY,
            "-inf" => f64::NEG_INFINITY,
            _ => return None,
        };
        match self {
            CellType::Double => Some(Value::Double(number)),
            CellType::Float => Some(Value::Float(number as f32)),
            _ => None,
        }
    }
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
        _ => None,
    });
    pairs.collect()
}

/// The path and type that a column's or member's name means; on failure what was found and what is
/// allowed.
pub(super) fn parse_name(name: &str) -> Result<(FieldPath, Option<CellType>), (String, String)> {
    let (path, cell_type) = match name.rsplit_once(':') {
        None => (name, None),
        Some((path, cell_type)) => match CellType::from_name(cell_type.trim()) {
            Some(known) => (path, Some(known)),
            None => return Err((format!("the type \"{}\"", shown(cell_type)), TYPES.to_string())),
        },
    };
    let path: FieldPath =
        path.parse().map_err(|error: MmdbError| (error.to_string(), "a field path".to_string()))?;
    if path.len() > MAX_DEPTH {
        let found = format!("a path of {} names", path.len());
        return Err((found, format!("paths of up to {MAX_DEPTH} names")));
    }
    Ok((path, cell_type))
}

/// Whether a path's segment means an element of an array.
pub(super) fn is_index(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}
