//! Changes to a decoded record: setting, removing and merging fields.
//!
//! Not for files ([`crate::Writer`]). Cost: linear in the record.

use crate::error::{ErrorKind, MmdbError};
use crate::path::{FieldPath, Segment};
use crate::value::Value;

impl Value {
    /// Sets the field at a path, with the maps on the way; the empty path is the whole value. In an
    /// array a segment is an index that it has, or the next one.
    ///
    /// ```
    /// use whered_mmdb::Value;
    /// let mut record = Value::Map(Vec::new());
    /// record.set(&"country.iso_code".parse()?, Value::String("DE".to_string()))?;
    /// let mut json = Vec::new();
    /// record.write_json(&mut json);
    /// assert_eq!(json, br#"{"country":{"iso_code":"DE"}}"#);
    /// # Ok::<(), whered_mmdb::MmdbError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A path that leads through a value without parts, or beyond the end of an array.
    pub fn set(&mut self, path: &FieldPath, value: Value) -> Result<(), MmdbError> {
        set(self, path.segments(), value).map_err(|(found, allowed)| {
            MmdbError::new(ErrorKind::Path, found, allowed).within(&path.to_string())
        })
    }

    /// Takes the field at a path out; a map or array that it leaves empty goes with it.
    ///
    /// ```
    /// use whered_mmdb::Value;
    /// let mut record = Value::Map(Vec::new());
    /// record.set(&"country.iso_code".parse()?, Value::String("DE".to_string()))?;
    /// assert!(record.remove(&"country.iso_code".parse()?).is_some());
    /// assert_eq!(record, Value::Map(Vec::new()));
    /// # Ok::<(), whered_mmdb::MmdbError>(())
    /// ```
    pub fn remove(&mut self, path: &FieldPath) -> Option<Value> {
        remove(self, path.segments())
    }

    /// Moves the field at a path to another path; whether there was one.
    ///
    /// ```
    /// use whered_mmdb::Value;
    /// let mut record = Value::Map(vec![("asn".to_string(), Value::Uint32(64500))]);
    /// assert!(record.rename(&"asn".parse()?, &"as.number".parse()?)?);
    /// assert!(!record.rename(&"asn".parse()?, &"other".parse()?)?);
    /// # Ok::<(), whered_mmdb::MmdbError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A new path at which there is a field already, or one that [`set`](Value::set) refuses. The
    /// field is then gone.
    pub fn rename(&mut self, old: &FieldPath, new: &FieldPath) -> Result<bool, MmdbError> {
        let Some(value) = self.remove(old) else { return Ok(false) };
        if self.get(new).is_some() {
            let found = format!("a field {new} next to the field {old} that is to get its name");
            let allowed = "names that the record does not have";
            return Err(MmdbError::new(ErrorKind::Path, found, allowed));
        }
        self.set(new, value).map(|()| true)
    }

    /// Lays another value over this one: maps are merged key by key, everything else is replaced.
    pub fn merge(&mut self, over: Value) {
        match (self, over) {
            (Value::Map(pairs), Value::Map(over)) => {
                for (key, value) in over {
                    match pairs.iter_mut().find(|(other, _)| *other == key) {
                        Some((_, present)) => present.merge(value),
                        None => pairs.push((key, value)),
                    }
                }
            }
            (present, over) => *present = over,
        }
    }
}

fn set(
    present: &mut Value,
    path: &[Segment],
    value: Value,
) -> Result<(), (&'static str, &'static str)> {
    let Some((first, rest)) = path.split_first() else {
        *present = value;
        return Ok(());
    };
    let entry = match present {
        Value::Map(pairs) => {
            let index = match pairs.iter().position(|(key, _)| key == first.text()) {
                Some(index) => index,
                None => {
                    pairs.push((first.text().to_string(), Value::Map(Vec::new())));
                    pairs.len() - 1
                }
            };
            pairs.get_mut(index).map(|(_, entry)| entry)
        }
        Value::Array(values) => {
            // A negative index counts from the last element, never from the next one.
            let count = values.len() + usize::from(!first.text().starts_with('-'));
            let index = first.index_in(count);
            if index == Some(values.len()) {
                values.push(Value::Map(Vec::new()));
            }
            index.and_then(|index| values.get_mut(index))
        }
        _ => return Err(("a value without parts on the way", "paths through maps and arrays")),
    };
    let entry = entry.ok_or(("an index beyond the array's end", "its indexes or the next one"))?;
    set(entry, rest, value)
}

fn remove(present: &mut Value, path: &[Segment]) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    let is_empty = |value: &Value| match value {
        Value::Map(pairs) => pairs.is_empty(),
        Value::Array(values) => values.is_empty(),
        _ => false,
    };
    match present {
        Value::Map(pairs) => {
            let index = pairs.iter().position(|(key, _)| key == first.text())?;
            if rest.is_empty() {
                return Some(pairs.remove(index).1);
            }
            let (_, entry) = pairs.get_mut(index)?;
            let removed = remove(entry, rest)?;
            if is_empty(entry) {
                pairs.remove(index);
            }
            Some(removed)
        }
        Value::Array(values) => {
            let index = first.index_in(values.len())?;
            if rest.is_empty() {
                return Some(values.remove(index));
            }
            let entry = values.get_mut(index)?;
            let removed = remove(entry, rest)?;
            if is_empty(entry) {
                values.remove(index);
            }
            Some(removed)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::parse_assignment;

    fn record(assignments: &[&str]) -> Value {
        let mut record = Value::Map(Vec::new());
        for text in assignments {
            let (path, value) = parse_assignment(text).unwrap();
            record.set(&path, value).unwrap();
        }
        record
    }

    fn json(value: &Value) -> String {
        let mut out = Vec::new();
        value.write_json(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn merging_goes_into_maps_and_replaces_the_rest() {
        let mut present = record(&["a.b=1", "a.c=x", "d=1"]);
        present.set(&"l".parse().unwrap(), Value::Array(vec![Value::Uint32(1)])).unwrap();
        let mut over = record(&["a.b=2", "a.e=3", "d.f=4"]);
        over.set(&"l".parse().unwrap(), Value::Array(vec![])).unwrap();
        present.merge(over);
        assert_eq!(json(&present), r#"{"a":{"b":2,"c":"x","e":3},"d":{"f":4},"l":[]}"#);
    }

    #[test]
    fn removing_takes_what_is_left_empty_along() {
        let mut value = record(&["a.b.c=1", "d=2"]);
        value.set(&"l".parse().unwrap(), Value::Array(vec![record(&["x=1"])])).unwrap();
        assert_eq!(value.remove(&"a.b.c".parse().unwrap()), Some(Value::Uint32(1)));
        assert_eq!(value.remove(&"l.0.x".parse().unwrap()), Some(Value::Uint32(1)));
        assert_eq!(value.remove(&"d.x".parse().unwrap()), None);
        assert_eq!(json(&value), r#"{"d":2}"#);
    }

    #[test]
    fn paths_through_scalars_and_beyond_arrays_are_refused() {
        let mut value = record(&["a=1"]);
        let error = value.set(&"a.b".parse().unwrap(), Value::Uint32(1)).unwrap_err();
        assert!(error.to_string().contains("without parts"), "{error}");
        value.set(&"l".parse().unwrap(), Value::Array(vec![])).unwrap();
        assert!(value.set(&"l.1".parse().unwrap(), Value::Uint32(1)).is_err());
        value.set(&"l.0".parse().unwrap(), Value::Uint32(1)).unwrap();
        value.set(&"l.-1".parse().unwrap(), Value::Uint32(2)).unwrap();
        assert_eq!(json(&value), r#"{"a":1,"l":[2]}"#);
    }
}
