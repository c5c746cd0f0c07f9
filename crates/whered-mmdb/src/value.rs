//! A record or a part of one, decoded and owned.
//!
//! Not for hot lookups: [`crate::Database::field`], [`crate::Database::number`] and
//! [`crate::Database::write_record_json`] read a record in place. Maps keep the file's order.

use crate::decode::Scalar;
use crate::diff::{self, FieldChange};
use crate::json::{JsonSink, write_bare};
use crate::path::FieldPath;
use crate::walk::Sink;

/// A value of the MaxMind DB format (specification, "Output Data Section").
///
/// ```
/// use whered_mmdb::Value;
/// let value = Value::Map(vec![
///     ("iso_code".to_string(), Value::String("DE".to_string())),
///     ("is_in_european_union".to_string(), Value::Boolean(true)),
/// ]);
/// let mut json = Vec::new();
/// value.write_json(&mut json);
/// assert_eq!(json, br#"{"iso_code":"DE","is_in_european_union":true}"#);
/// assert_eq!(value.get(&"iso_code".parse()?), Some(&Value::String("DE".to_string())));
/// # Ok::<(), whered_mmdb::MmdbError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Keys and values in the file's order.
    Map(Vec<(String, Value)>),
    /// Values in order.
    Array(Vec<Value>),
    /// UTF-8 text.
    String(String),
    /// Bytes without a meaning.
    Bytes(Vec<u8>),
    /// IEEE 754 binary64.
    Double(f64),
    /// IEEE 754 binary32.
    Float(f32),
    /// Unsigned, 16 bits.
    Uint16(u16),
    /// Unsigned, 32 bits.
    Uint32(u32),
    /// Unsigned, 64 bits.
    Uint64(u64),
    /// Unsigned, 128 bits.
    Uint128(u128),
    /// Signed, 32 bits.
    Int32(i32),
    /// True or false.
    Boolean(bool),
}

impl Value {
    /// Appends the value as compact JSON.
    ///
    /// Byte strings become upper-case hexadecimal strings, as `mmdblookup` prints them; doubles
    /// and floats the shortest decimal that reads back equal, `null` if they are not finite;
    /// uint128 a decimal number with all its digits.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.emit(&mut JsonSink::new(out));
    }

    /// Appends the value as JSON with types, which [`crate::rows`] reads back without loss as a
    /// `typed_record`: what would read back as another type is marked, `{"#uint16":5}`.
    pub fn write_typed_json(&self, out: &mut Vec<u8>) {
        self.emit(&mut JsonSink::typed(out));
    }

    /// The name of the type, as rows have it (`uint32`, `string` ...); `map` and `array`.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Map(_) => "map",
            Value::Array(_) => "array",
            _ => self.as_scalar().map_or("", |scalar| scalar.type_name()),
        }
    }

    /// Appends a scalar as bare text (a string without quotes, bytes as hexadecimal digits); a map
    /// or array as JSON.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match self.as_scalar() {
            Some(scalar) => write_bare(scalar, out),
            None => self.write_json(out),
        }
    }

    /// The part at `path`, if there is one. The empty path is the value itself.
    #[must_use]
    pub fn get(&self, path: &FieldPath) -> Option<&Value> {
        path.segments().iter().try_fold(self, |value, segment| match value {
            Value::Map(pairs) => {
                pairs.iter().find(|(key, _)| key == segment.text()).map(|(_, value)| value)
            }
            Value::Array(values) => values.get(segment.index_in(values.len())?),
            _ => None,
        })
    }

    /// The fields in which `newer` differs, types included; the order of a map's keys does not
    /// count. A map or array is compared field by field where both have one.
    #[must_use]
    pub fn changes(&self, newer: &Value) -> Vec<FieldChange> {
        diff::changes(self, newer)
    }

    /// Any numeric type as a double (rounded beyond 53 bits); `None` for the rest.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        self.as_scalar()?.as_f64()
    }

    /// The text of a string; `None` for the rest.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The scalar in this value, if it is one.
    pub(crate) fn as_scalar(&self) -> Option<Scalar<'_>> {
        Some(match self {
            Value::Map(_) | Value::Array(_) => return None,
            Value::String(text) => Scalar::String(text),
            Value::Bytes(bytes) => Scalar::Bytes(bytes),
            Value::Double(number) => Scalar::Double(*number),
            Value::Float(number) => Scalar::Float(*number),
            Value::Uint16(number) => Scalar::Uint16(*number),
            Value::Uint32(number) => Scalar::Uint32(*number),
            Value::Uint64(number) => Scalar::Uint64(*number),
            Value::Uint128(number) => Scalar::Uint128(*number),
            Value::Int32(number) => Scalar::Int32(*number),
            Value::Boolean(truth) => Scalar::Boolean(*truth),
        })
    }

    fn from_scalar(scalar: Scalar<'_>) -> Value {
        match scalar {
            Scalar::String(text) => Value::String(text.to_string()),
            Scalar::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            Scalar::Double(number) => Value::Double(number),
            Scalar::Float(number) => Value::Float(number),
            Scalar::Uint16(number) => Value::Uint16(number),
            Scalar::Uint32(number) => Value::Uint32(number),
            Scalar::Uint64(number) => Value::Uint64(number),
            Scalar::Uint128(number) => Value::Uint128(number),
            Scalar::Int32(number) => Value::Int32(number),
            Scalar::Boolean(truth) => Value::Boolean(truth),
        }
    }

    /// Tells `sink` what this value holds.
    fn emit(&self, sink: &mut impl Sink) {
        match self {
            Value::Map(pairs) => {
                sink.begin_map(pairs.len());
                for (key, value) in pairs {
                    sink.key(key);
                    value.emit(sink);
                }
                sink.end_map();
            }
            Value::Array(values) => {
                sink.begin_array(values.len());
                for value in values {
                    value.emit(sink);
                }
                sink.end_array();
            }
            _ => sink.scalar(self.as_scalar().expect("maps and arrays were taken above")),
        }
    }
}

/// The room that a map or array gets at once. Sizes come from the file: hundreds of nested arrays
/// could each announce the whole budget of a record.
const MAX_RESERVED: usize = 16;

/// Builds a value from what it is told.
#[derive(Default)]
pub(crate) struct ValueSink {
    /// The maps and arrays that are still open, outermost first.
    open: Vec<Value>,
    /// For each open map, the key whose value comes next.
    keys: Vec<String>,
    done: Option<Value>,
}

impl ValueSink {
    /// The value, once everything was told.
    pub(crate) fn finish(self) -> Value {
        self.done.expect("a walk that succeeded told one whole value")
    }

    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            None => self.done = Some(value),
            Some(Value::Array(values)) => values.push(value),
            Some(Value::Map(pairs)) => {
                let key = self.keys.pop().expect("a map's value comes after its key");
                pairs.push((key, value));
            }
            Some(_) => panic!("only maps and arrays are ever open"),
        }
    }

    fn close(&mut self) {
        let value = self.open.pop().expect("what ends was begun");
        self.put(value);
    }
}

impl Sink for ValueSink {
    fn scalar(&mut self, scalar: Scalar<'_>) {
        self.put(Value::from_scalar(scalar));
    }

    fn begin_map(&mut self, size: usize) {
        self.open.push(Value::Map(Vec::with_capacity(size.min(MAX_RESERVED))));
    }

    fn key(&mut self, key: &str) {
        self.keys.push(key.to_string());
    }

    fn end_map(&mut self) {
        self.close();
    }

    fn begin_array(&mut self, size: usize) {
        self.open.push(Value::Array(Vec::with_capacity(size.min(MAX_RESERVED))));
    }

    fn end_array(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: &Value) -> String {
        let mut out = Vec::new();
        value.write_json(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn text(value: &Value) -> String {
        let mut out = Vec::new();
        value.write_text(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_type_has_its_json_and_its_text() {
        for (value, as_json, as_text) in [
            (Value::String("a\"\\\n\u{1}é".into()), "\"a\\\"\\\\\\n\\u0001é\"", "a\"\\\n\u{1}é"),
            (Value::Bytes(vec![0, 0x2a, 0xff]), "\"002AFF\"", "002AFF"),
            (Value::Double(0.1), "0.1", "0.1"),
            (Value::Double(1e300), "1e300", "1e300"),
            (Value::Double(f64::NAN), "null", "NaN"),
            (Value::Float(1.1), "1.1", "1.1"),
            (Value::Float(f32::INFINITY), "null", "inf"),
            (Value::Uint16(1), "1", "1"),
            (Value::Uint32(u32::MAX), "4294967295", "4294967295"),
            (Value::Uint64(u64::MAX), "18446744073709551615", "18446744073709551615"),
            (
                Value::Uint128(1 << 100),
                "1267650600228229401496703205376",
                "1267650600228229401496703205376",
            ),
            (Value::Int32(-7), "-7", "-7"),
            (Value::Boolean(true), "true", "true"),
            (Value::Array(vec![]), "[]", "[]"),
            (Value::Map(vec![]), "{}", "{}"),
        ] {
            assert_eq!(json(&value), as_json);
            assert_eq!(text(&value), as_text);
        }
    }

    #[test]
    fn nested_values_are_separated_by_commas_where_they_should_be() {
        let value = Value::Map(vec![
            (
                "a".into(),
                Value::Array(vec![Value::Uint16(1), Value::Map(vec![]), Value::Uint16(2)]),
            ),
            ("b".into(), Value::Map(vec![("c".into(), Value::Array(vec![Value::Array(vec![])]))])),
            ("d".into(), Value::Boolean(false)),
        ]);
        assert_eq!(json(&value), r#"{"a":[1,{},2],"b":{"c":[[]]},"d":false}"#);
        assert_eq!(value.get(&"a.-1".parse().unwrap()).and_then(Value::as_f64), Some(2.0));
        assert_eq!(value.get(&"a.b".parse().unwrap()), None);
        assert_eq!(value.get(&"d.x".parse().unwrap()), None);
    }
}
