//! The record of a row: which cell goes where in it.
//!
//! Not for the network. The names of the columns are compiled into a tree once; a row walks that
//! tree. Cost: linear in the columns.
#![deny(clippy::indexing_slicing)]

use super::cell::{self, CellType};
use super::table::Row;
use crate::value::Value;

/// The source of a field of the records.
#[derive(Debug)]
pub(super) enum Template {
    Cell { column: usize, typing: TypeSource },
    Map(Vec<(String, Template)>),
    Array(Vec<Template>),
}

/// Where the type of a column's cells comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum TypeSource {
    Given(CellType),
    /// The guess with this index.
    Guessed(usize),
}

/// A cell that is not what its column allows.
#[derive(Debug)]
pub(super) struct WrongCell {
    pub(super) column: usize,
    pub(super) allowed: String,
}

impl Template {
    /// Puts a column at its path; on failure says what was found and what is allowed.
    pub(super) fn add(
        &mut self,
        path: &[&str],
        cell: Template,
    ) -> Result<(), (&'static str, &'static str)> {
        let Some((first, rest)) = path.split_first() else {
            return Err(("an empty name", "field paths"));
        };
        let next = |rest: &[&str]| match rest.first() {
            None => None,
            Some(name) if cell::is_index(name) => Some(Template::Array(Vec::new())),
            Some(_) => Some(Template::Map(Vec::new())),
        };
        let entry = match self {
            Template::Cell { .. } => {
                return Err(("a path through another column's value", "paths beside each other"));
            }
            Template::Map(_) | Template::Array(_) if cell::is_index(first) != self.is_array() => {
                return Err(("a name and an index at one place", "names only, or indexes only"));
            }
            Template::Map(entries) => {
                let position = entries.iter().position(|(key, _)| key == first);
                match position {
                    Some(position) => entries.get_mut(position).map(|(_, entry)| entry),
                    None => match next(rest) {
                        None => {
                            entries.push(((*first).to_string(), cell));
                            return Ok(());
                        }
                        Some(entry) => {
                            entries.push(((*first).to_string(), entry));
                            entries.last_mut().map(|(_, entry)| entry)
                        }
                    },
                }
            }
            Template::Array(entries) => {
                let index = first.parse::<usize>().unwrap_or(usize::MAX);
                if index > entries.len() {
                    return Err(("an array index out of order", "0, 1, 2 ... without a gap"));
                }
                if index == entries.len() {
                    match next(rest) {
                        None => {
                            entries.push(cell);
                            return Ok(());
                        }
                        Some(entry) => entries.push(entry),
                    }
                }
                entries.get_mut(index)
            }
        };
        match entry {
            Some(entry) if !rest.is_empty() => entry.add(rest, cell),
            _ => Err(("a field that another column holds too", "each field once")),
        }
    }

    fn is_array(&self) -> bool {
        matches!(self, Template::Array(_))
    }

    /// The row's value for a field; `None` if all its cells are missing. `type_of` gives the types
    /// that are guessed.
    pub(super) fn value(
        &self,
        row: &Row,
        missing: &[&str],
        type_of: &impl Fn(usize) -> CellType,
    ) -> Result<Option<Value>, WrongCell> {
        match self {
            Template::Cell { column, typing } => {
                let wrong = |allowed: String| WrongCell { column: *column, allowed };
                let text = std::str::from_utf8(row.cell(*column))
                    .map_err(|_| wrong("text in UTF-8".to_string()))?;
                if text.is_empty() || missing.contains(&text) {
                    return Ok(None);
                }
                let cell_type = match typing {
                    TypeSource::Given(cell_type) => *cell_type,
                    TypeSource::Guessed(index) => type_of(*index),
                };
                cell_type.parse(text).map(Some).map_err(wrong)
            }
            Template::Map(entries) => {
                let mut pairs = Vec::with_capacity(entries.len());
                for (key, entry) in entries {
                    if let Some(value) = entry.value(row, missing, type_of)? {
                        pairs.push((key.clone(), value));
                    }
                }
                Ok((!pairs.is_empty()).then_some(Value::Map(pairs)))
            }
            Template::Array(entries) => {
                let mut values = Vec::with_capacity(entries.len());
                for entry in entries {
                    values.extend(entry.value(row, missing, type_of)?);
                }
                Ok((!values.is_empty()).then_some(Value::Array(values)))
            }
        }
    }
}
