//! One table of the configuration, read key by key.
//!
//! The TOML parser gives a tree in which every key and value knows its byte range. A `Section`
//! is one table of that tree; opening it refuses unknown keys, its getters refuse wrong types
//! and values out of range. The tree is read by hand rather than by serde's derive because
//! serde's messages name Rust's types, but neither the key nor its table, and a person needs
//! both, and what is allowed, in one line.

use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Document};

/// Which keys a table may have.
pub(super) struct Keys {
    /// How messages name the table.
    pub(super) title: &'static str,
    /// The keys of this version, in the order in which messages give them.
    pub(super) allowed: &'static [&'static str],
    /// Keys that are planned: the message says so.
    pub(super) later: &'static [&'static str],
}

/// A table whose keys are all known.
pub(super) struct Section<'a> {
    pub(super) document: &'a Document<'a>,
    pub(super) span: Range<usize>,
    title: &'static str,
    allowed: &'static [&'static str],
    table: &'a DeTable<'a>,
}

/// A value and its byte range.
#[derive(Clone, Debug)]
pub(super) struct SpannedValue<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// A key that the file has chosen, and its value.
pub(super) struct Entry<'a> {
    pub(super) name: SpannedValue<&'a str>,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Entry<'a> {
    /// Its value, when that is a string.
    pub(super) fn text(&self) -> Option<SpannedValue<&'a str>> {
        let value = self.value.get_ref().as_str()?;
        Some(SpannedValue { value, span: self.value.span() })
    }

    /// Its value, when that is a table.
    ///
    /// # Errors
    /// A key in it that is not allowed.
    pub(super) fn table(
        &self,
        document: &'a Document<'a>,
        keys: &Keys,
    ) -> Result<Option<Section<'a>>, ConfigError> {
        let table = self.value.get_ref().as_table();
        table.map(|table| Section::open(document, table, self.value.span(), keys)).transpose()
    }

    /// What kind of value it has, for a message.
    pub(super) fn kind(&self) -> &'static str {
        with_article(self.value.get_ref())
    }
}

/// The name of a list, and what stands in it.
pub(super) type TextList<'a> = (SpannedValue<&'a str>, Vec<SpannedValue<&'a str>>);

impl<'a> Section<'a> {
    /// Takes a table when all its keys are allowed.
    ///
    /// # Errors
    /// The first unknown key of the file.
    pub(super) fn open(
        document: &'a Document<'a>,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        keys: &Keys,
    ) -> Result<Section<'a>, ConfigError> {
        let unknown = table.keys().filter(|key| !keys.allowed.contains(&key.get_ref().as_ref()));
        if let Some(key) = unknown.min_by_key(|key| key.span().start) {
            let (name, title) = (key.get_ref(), keys.title);
            let found = if keys.later.contains(&name.as_ref()) {
                format!("key '{name}' in {title} is not in this version")
            } else {
                format!("unknown key '{name}' in {title}")
            };
            let message = format!("{found}; allowed: {}", keys.allowed.join(", "));
            return Err(document.error(&key.span(), message));
        }
        Ok(Section { document, span, title: keys.title, allowed: keys.allowed, table })
    }

    /// A string.
    pub(super) fn text(&self, key: &str) -> Result<Option<SpannedValue<&'a str>>, ConfigError> {
        self.typed(key, "a string", DeValue::as_str)
    }

    /// A string that has at least one character.
    pub(super) fn filled_text(
        &self,
        key: &str,
    ) -> Result<Option<SpannedValue<&'a str>>, ConfigError> {
        let found = self.text(key)?;
        match &found {
            Some(text) if text.value.is_empty() => {
                Err(self.refuse(&text.span, key, "is empty", "a string of at least one character"))
            }
            _ => Ok(found),
        }
    }

    /// A string that must be there and have at least one character.
    pub(super) fn required_text(&self, key: &str) -> Result<SpannedValue<&'a str>, ConfigError> {
        self.filled_text(key)?.ok_or_else(|| self.missing(key))
    }

    /// A whole number within a range.
    pub(super) fn integer(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<SpannedValue<u64>>, ConfigError> {
        let allowed = format!("{} to {}", range.start(), range.end());
        let whole = format!("a whole number, {allowed}");
        let Some(found) = self.typed(key, &whole, DeValue::as_integer)? else {
            return Ok(None);
        };
        let parsed = u64::from_str_radix(found.value.as_str(), found.value.radix()).ok();
        match parsed.filter(|value| range.contains(value)) {
            Some(value) => Ok(Some(SpannedValue { value, span: found.span })),
            None => Err(self.refuse(&found.span, key, &format!("is {}", found.value), &allowed)),
        }
    }

    /// Whole numbers within a range: one, or an array of at least one.
    pub(super) fn integers(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<SpannedValue<Vec<u64>>>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let elements = match value.get_ref() {
            DeValue::Array(array) if !array.is_empty() => array.iter().collect(),
            _ => vec![value],
        };
        let whole =
            format!("a whole number, {} to {}, or an array of them", range.start(), range.end());
        let read = |element: &Spanned<DeValue<'_>>| {
            let number = element.get_ref().as_integer();
            let number = number.and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok());
            number.filter(|number| range.contains(number)).ok_or_else(|| {
                let found = match element.get_ref() {
                    DeValue::Integer(number) => format!("is {number}"),
                    other => format!("is {}", with_article(other)),
                };
                self.refuse(&element.span(), key, &found, &whole)
            })
        };
        let numbers = elements.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Some(SpannedValue { value: numbers, span: value.span() }))
    }

    /// A value of whatever type.
    pub(super) fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    /// A number with or without a fraction, within a range, that must be there.
    pub(super) fn required_number(
        &self,
        key: &str,
        range: RangeInclusive<f64>,
    ) -> Result<f64, ConfigError> {
        self.number(key, range)?.ok_or_else(|| self.missing(key))
    }

    /// A number with or without a fraction, within a range.
    pub(super) fn number(
        &self,
        key: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ConfigError> {
        let allowed = format!("{} to {}", range.start(), range.end());
        let number = format!("a number, {allowed}");
        let Some(found) = self.typed(key, &number, number_text)? else {
            return Ok(None);
        };
        let parsed = found.value.parse::<f64>().ok();
        let right = parsed.filter(|value| range.contains(value));
        let refuse = || self.refuse(&found.span, key, &format!("is {}", found.value), &allowed);
        right.map(Some).ok_or_else(refuse)
    }

    /// A number above 0, up to 1.
    pub(super) fn share(&self, key: &str) -> Result<Option<f64>, ConfigError> {
        let found = self.number(key, f64::NEG_INFINITY..=f64::INFINITY)?;
        match found.filter(|share| !(*share > 0.0 && *share <= 1.0)) {
            Some(share) => {
                let span = self.table.get(key).map_or(self.span.clone(), Spanned::span);
                Err(self.refuse(&span, key, &format!("is {share}"), "a share above 0, up to 1"))
            }
            None => Ok(found),
        }
    }

    /// Two numbers that differ, `[from, to]`; they must be there.
    pub(super) fn required_pair(&self, key: &str) -> Result<(f64, f64), ConfigError> {
        let allowed = "two numbers that differ, such as [0, 4096]";
        let array = self.typed(key, allowed, DeValue::as_array)?;
        let array = array.ok_or_else(|| self.missing(key))?;
        let numbers: Vec<f64> = array
            .value
            .iter()
            .filter_map(|element| number_text(element.get_ref())?.parse().ok())
            .filter(|number: &f64| number.is_finite())
            .collect();
        match numbers[..] {
            [from, to] if from != to && array.value.len() == 2 => Ok((from, to)),
            _ => Err(self.refuse(&array.span, key, "is something else", allowed)),
        }
    }

    /// A size in bytes: a whole number, or a text such as "64mb" (kb, mb and gb are powers of
    /// 1024).
    pub(super) fn size(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<SpannedValue<u64>>, ConfigError> {
        let allowed =
            format!("bytes, {} to {}, or a text such as \"64mb\"", range.start(), range.end());
        let as_text = |value: &'a DeValue<'a>| match value {
            DeValue::Integer(integer) if integer.radix() == 10 => Some(integer.as_str()),
            other => other.as_str(),
        };
        let Some(found) = self.typed(key, &allowed, as_text)? else {
            return Ok(None);
        };
        match size_bytes(found.value).filter(|size| range.contains(size)) {
            Some(value) => Ok(Some(SpannedValue { value, span: found.span })),
            None => Err(self.refuse(&found.span, key, &format!("is '{}'", found.value), &allowed)),
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        Ok(self.typed(key, "true or false", DeValue::as_bool)?.map(|found| found.value))
    }

    /// An array of strings. `what` says what kind of strings, for the message.
    pub(super) fn strings(
        &self,
        key: &str,
        what: &str,
    ) -> Result<Option<SpannedValue<Vec<SpannedValue<&'a str>>>>, ConfigError> {
        let allowed = format!("an array of {what}");
        let Some(array) = self.typed(key, &allowed, DeValue::as_array)? else {
            return Ok(None);
        };
        let mut strings = Vec::with_capacity(array.value.len());
        for element in array.value {
            let Some(value) = element.get_ref().as_str() else {
                let found = format!("holds {}", with_article(element.get_ref()));
                return Err(self.refuse(&element.span(), key, &found, &allowed));
            };
            strings.push(SpannedValue { value, span: element.span() });
        }
        Ok(Some(SpannedValue { value: strings, span: array.span }))
    }

    /// A table of any keys, each with an array of strings.
    pub(super) fn text_lists(
        &self,
        key: &str,
        what: &str,
    ) -> Result<Vec<TextList<'a>>, ConfigError> {
        let allowed = format!("a table of lists, each an array of {what}");
        let Some(table) = self.typed(key, &allowed, DeValue::as_table)? else {
            return Ok(Vec::new());
        };
        let mut lists = Vec::with_capacity(table.value.len());
        for (name, value) in table.value {
            let wrong = |span: Range<usize>, value: &DeValue<'_>| {
                let found = format!("has {} for '{}'", with_article(value), name.get_ref());
                self.refuse(&span, key, &found, &allowed)
            };
            let array = value.get_ref().as_array();
            let array = array.ok_or_else(|| wrong(value.span(), value.get_ref()))?;
            let strings = array.iter().map(|element| match element.get_ref().as_str() {
                Some(value) => Ok(SpannedValue { value, span: element.span() }),
                None => Err(wrong(element.span(), element.get_ref())),
            });
            let name = SpannedValue { value: name.get_ref().as_ref(), span: name.span() };
            lists.push((name, strings.collect::<Result<_, _>>()?));
        }
        Ok(lists)
    }

    /// A table below this one.
    pub(super) fn table(&self, key: &str, keys: &Keys) -> Result<Option<Section<'a>>, ConfigError> {
        let allowed = format!("a table, {}", keys.title);
        match self.typed(key, &allowed, DeValue::as_table)? {
            Some(table) => Section::open(self.document, table.value, table.span, keys).map(Some),
            None => Ok(None),
        }
    }

    /// An array of tables below this one, in the file's order; empty when the key is absent.
    pub(super) fn tables(&self, key: &str, keys: &Keys) -> Result<Vec<Section<'a>>, ConfigError> {
        let allowed = format!("tables, each headed {}", keys.title);
        let Some(array) = self.typed(key, &allowed, DeValue::as_array)? else {
            return Ok(Vec::new());
        };
        let open = |element: &'a Spanned<DeValue<'a>>| match element.get_ref() {
            DeValue::Table(table) => Section::open(self.document, table, element.span(), keys),
            other => {
                let found = format!("holds {}", with_article(other));
                Err(self.refuse(&element.span(), key, &found, &allowed))
            }
        };
        array.value.iter().map(open).collect()
    }

    /// The entries of a table below this one whose keys the file chooses, in the file's order.
    pub(super) fn entries(
        &self,
        key: &str,
        what: &str,
    ) -> Result<Option<Vec<Entry<'a>>>, ConfigError> {
        let Some(table) = self.typed(key, what, DeValue::as_table)? else {
            return Ok(None);
        };
        let mut entries: Vec<_> = table
            .value
            .iter()
            .map(|(name, value)| Entry {
                name: SpannedValue { value: name.get_ref().as_ref(), span: name.span() },
                value,
            })
            .collect();
        entries.sort_by_key(|entry| entry.name.span.start);
        Ok(Some(entries))
    }

    /// A key with its value, of whatever type.
    pub(super) fn entry(&self, key: &str) -> Option<Entry<'a>> {
        let (name, value) = self.table.get_key_value(key)?;
        let name = SpannedValue { value: name.get_ref().as_ref(), span: name.span() };
        Some(Entry { name, value })
    }

    /// The elements of an array, of whatever type; each has the text "element" for a name.
    pub(super) fn elements(
        &self,
        key: &str,
        what: &str,
    ) -> Result<Option<Vec<Entry<'a>>>, ConfigError> {
        let Some(array) = self.typed(key, what, DeValue::as_array)? else { return Ok(None) };
        let elements = array.value.iter().map(|value| Entry {
            name: SpannedValue { value: "element", span: value.span() },
            value,
        });
        Ok(Some(elements.collect()))
    }

    /// Whether the table has a key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Where the value of a key stands, or of the key in front of the first dot; the table's head
    /// when there is none.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        let first = key.split('.').next().unwrap_or(key);
        self.table.get(first).map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// The error that a key is missing, at the table's head.
    pub(super) fn missing(&self, key: &str) -> ConfigError {
        let message =
            format!("no '{key}' in {}; its keys: {}", self.title, self.allowed.join(", "));
        self.document.error(&self.span, message)
    }

    /// The error that a value is wrong: `'key' in [table] <found>; allowed: <allowed>`.
    pub(super) fn refuse(
        &self,
        span: &Range<usize>,
        key: &str,
        found: &str,
        allowed: &str,
    ) -> ConfigError {
        let message = format!("'{key}' in {} {found}; allowed: {allowed}", self.title);
        self.document.error(span, message)
    }

    fn typed<T>(
        &self,
        key: &str,
        allowed: &str,
        take: impl FnOnce(&'a DeValue<'a>) -> Option<T>,
    ) -> Result<Option<SpannedValue<T>>, ConfigError> {
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        match take(value.get_ref()) {
            Some(taken) => Ok(Some(SpannedValue { value: taken, span: value.span() })),
            None => {
                let found = format!("is {}", with_article(value.get_ref()));
                Err(self.refuse(&value.span(), key, &found, allowed))
            }
        }
    }
}

/// A number as it is written.
fn number_text<'a>(value: &'a DeValue<'a>) -> Option<&'a str> {
    match value {
        DeValue::Float(float) => Some(float.as_str()),
        DeValue::Integer(integer) if integer.radix() == 10 => Some(integer.as_str()),
        _ => None,
    }
}

/// `64mb` as bytes.
fn size_bytes(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let units = [("kb", 10), ("mb", 20), ("gb", 30), ("b", 0)];
    let unit = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (digits, shift) = unit.unwrap_or((&text, 0));
    let digits = digits.trim_end();
    let number: u64 = digits.parse().ok().filter(|_| !digits.starts_with('+'))?;
    number.checked_mul(1 << shift)
}

fn with_article(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// A path that a file names, seen from that file's folder.
pub(super) fn resolve_path(file: &Path, named: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(named)
}

/// Names for a message.
pub(super) fn defined(names: &[&str]) -> String {
    if names.is_empty() { "nothing, as none is defined".to_owned() } else { names.join(", ") }
}

/// Takes a value that is there.
pub(super) fn set(target: &mut usize, found: Option<SpannedValue<u64>>) {
    if let Some(found) = found {
        *target = found.value as usize;
    }
}
