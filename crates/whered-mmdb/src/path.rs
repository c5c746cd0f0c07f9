//! Field paths: `city.names.en`, `subdivisions.0.iso_code`.
//!
//! Not for looking anything up: [`crate::Database::field`] and [`crate::Value::get`] do that.
//!
//! Segments stand between dots. In a map a segment is a key, in an array an index, so `0` can be
//! either. A negative index counts from the array's end, as in libmaxminddb. A dot or backslash
//! inside a key is written with a backslash before it. The empty path is the whole record.
//! Parsing happens once; walking a path parses nothing.

use crate::error::{ErrorKind, MmdbError, shown};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// The way from a record to one of its fields.
///
/// ```
/// use whered_mmdb::FieldPath;
/// let path: FieldPath = "subdivisions.-1.iso_code".parse()?;
/// assert_eq!(path.len(), 3);
/// assert_eq!(path.to_string(), "subdivisions.-1.iso_code");
/// assert!("city..en".parse::<FieldPath>().is_err());
/// # Ok::<(), whered_mmdb::MmdbError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct FieldPath {
    segments: Vec<Segment>,
}

/// One step of a path: the text for maps and, where it is a whole number, the index for arrays.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Segment {
    text: String,
    index: Option<i64>,
}

impl Segment {
    fn new(text: String) -> Segment {
        // The standard parser would also take "+1", which is no index but may be a key.
        let index = if text.starts_with('+') { None } else { text.parse().ok() };
        Segment { text, index }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The element that this segment means in an array of `count` elements, if it has it.
    pub(crate) fn index_in(&self, count: usize) -> Option<usize> {
        let index = self.index?;
        let distance = usize::try_from(index.unsigned_abs()).ok()?;
        let index = if index < 0 { count.checked_sub(distance)? } else { distance };
        (index < count).then_some(index)
    }
}

impl FieldPath {
    /// A path of these segments, taken as they are: dots in them need no backslash.
    pub fn new<S: Into<String>>(segments: impl IntoIterator<Item = S>) -> FieldPath {
        FieldPath { segments: segments.into_iter().map(|text| Segment::new(text.into())).collect() }
    }

    /// How many segments the path has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether this is the path of the whole record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The segments' texts, without backslashes.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().map(Segment::text)
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The path of the first `count` segments.
    pub(crate) fn first(&self, count: usize) -> FieldPath {
        FieldPath { segments: self.segments.iter().take(count).cloned().collect() }
    }

    /// A key as it is written in a path.
    pub(crate) fn escape(key: &str) -> Cow<'_, str> {
        if !key.contains(['.', '\\']) {
            return Cow::Borrowed(key);
        }
        let mut text = String::with_capacity(key.len() + 4);
        for character in key.chars() {
            if matches!(character, '.' | '\\') {
                text.push('\\');
            }
            text.push(character);
        }
        Cow::Owned(text)
    }
}

impl FromStr for FieldPath {
    type Err = MmdbError;

    /// # Errors
    ///
    /// An empty segment (`a..b`, `.a`, `a.`), or a backslash before anything but a dot or
    /// backslash; of kind [`ErrorKind::Path`].
    fn from_str(text: &str) -> Result<FieldPath, MmdbError> {
        let refuse = |found: &str| {
            MmdbError::new(
                ErrorKind::Path,
                format!("{found} in \"{}\"", shown(text)),
                "names or indexes between single dots, \\. for a dot inside a name",
            )
        };
        if text.is_empty() {
            return Ok(FieldPath::default());
        }
        let mut segments = Vec::new();
        let mut segment = String::new();
        let mut characters = text.chars();
        loop {
            match characters.next() {
                Some('\\') => match characters.next() {
                    Some(escaped @ ('.' | '\\')) => segment.push(escaped),
                    _ => return Err(refuse("a backslash before neither dot nor backslash")),
                },
                Some(character) if character != '.' => segment.push(character),
                _ if segment.is_empty() => return Err(refuse("an empty name")),
                Some(_) => segments.push(Segment::new(std::mem::take(&mut segment))),
                None => {
                    segments.push(Segment::new(segment));
                    return Ok(FieldPath { segments });
                }
            }
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.segments.iter().enumerate() {
            if position > 0 {
                f.write_str(".")?;
            }
            f.write_str(&FieldPath::escape(segment.text()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_parses_to_the_same_path() {
        for segments in [vec!["a"], vec!["a.b", "c\\d"], vec!["0", "-1", "+1", "x y"], vec![]] {
            let path = FieldPath::new(segments);
            assert_eq!(path.to_string().parse::<FieldPath>().unwrap(), path);
        }
    }

    #[test]
    fn empty_names_and_stray_backslashes_are_refused() {
        for text in [".", "a.", ".a", "a..b", "a\\", "a\\b"] {
            let error = text.parse::<FieldPath>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Path, "{text}");
        }
    }

    #[test]
    fn a_negative_index_counts_from_the_end() {
        let segment = |text: &str| Segment::new(text.to_string());
        assert_eq!(segment("0").index_in(2), Some(0));
        assert_eq!(segment("-1").index_in(2), Some(1));
        assert_eq!(segment("-2").index_in(2), Some(0));
        assert_eq!(segment("-3").index_in(2), None);
        assert_eq!(segment("2").index_in(2), None);
        assert_eq!(segment("+1").index_in(2), None);
        assert_eq!(segment("-9223372036854775808").index_in(2), None);
    }
}
