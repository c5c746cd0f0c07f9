//! What the columns of a table are, from their names.
//!
//! Not for cells. Names of the columns with the network are known in any case, with any of `_`,
//! `-`, `.` and blanks between words; every other name is a field path with an optional type. In
//! a list of names of one's own `-` is a column that is left out.
//!
//! ```text
//! one cell    network, address, cidr, prefix, ip_prefix, ip, range, subnet ...
//! two cells   start_ip end_ip, from to, first last ...     ip prefix_length
//! ```
//!
//! The first that is there wins, in the order of the lists that all readers of tables have
//! (`whered_ip::column_names`).

use super::cell::{self, CellType};
use super::guess::Guess;
use super::span::{Expectation, Span};
use super::table::Row;
use super::template::{Template, TypeSource};
use super::{NetworkName, RowsError};
use crate::error::shown;
use crate::path::FieldPath;
pub(super) use whered_ip::column_names::plain_name;
use whered_ip::column_names::{BOUNDS, LENGTHS, NETWORKS};

/// In a message.
pub(super) const ALLOWED: &str = "a column network or address (also cidr, prefix, ip, range, or \
                                  start_ip and end_ip); --columns gives names to columns";

/// The cells that hold a row's addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NetworkColumns {
    One { column: usize, is_address: bool },
    Bounds { first: usize, last: usize },
    WithLength { address: usize, length: usize },
}

impl NetworkColumns {
    /// Those among the names; `None` if there are none.
    pub(super) fn find(names: &[&str]) -> Result<Option<NetworkColumns>, usize> {
        let plain: Vec<String> = names.iter().map(|name| plain_name(name)).collect();
        let find = |wanted: &str| plain.iter().position(|name| name == wanted);
        let mut ours = (0..).zip(&plain).filter(|(_, name)| NetworkName::from_name(name).is_some());
        if let Some((column, name)) = ours.next() {
            // Two such columns would be two networks.
            return match ours.next() {
                Some((second, _)) => Err(second),
                None => {
                    let is_address = name == "address";
                    let length = LENGTHS.iter().find_map(|name| find(name));
                    Ok(Some(match length {
                        Some(length) if is_address => {
                            NetworkColumns::WithLength { address: column, length }
                        }
                        _ => NetworkColumns::One { column, is_address },
                    }))
                }
            };
        }
        let bounds = BOUNDS.iter().find_map(|(first, last)| find(first).zip(find(last)));
        if let Some((first, last)) = bounds {
            return Ok(Some(NetworkColumns::Bounds { first, last }));
        }
        let Some(column) = NETWORKS.iter().find_map(|name| find(name)) else { return Ok(None) };
        let length = LENGTHS.iter().find_map(|name| find(name));
        Ok(Some(match length {
            Some(length) => NetworkColumns::WithLength { address: column, length },
            None => NetworkColumns::One { column, is_address: false },
        }))
    }

    /// Those of a row without a header.
    pub(super) fn of_row(row: &Row) -> Option<NetworkColumns> {
        let cell = |column| std::str::from_utf8(row.cell(column)).unwrap_or_default();
        if row.len() > 1 && Span::are_ends(cell(0), cell(1)) {
            return Some(NetworkColumns::Bounds { first: 0, last: 1 });
        }
        Span::parse(cell(0)).ok()?;
        Some(NetworkColumns::One { column: 0, is_address: false })
    }

    pub(super) fn has(&self, column: usize) -> bool {
        match *self {
            NetworkColumns::One { column: one, .. } => column == one,
            NetworkColumns::Bounds { first, last } => column == first || column == last,
            NetworkColumns::WithLength { address, length } => column == address || column == length,
        }
    }

    /// A row's addresses; on failure the column and what it allows.
    pub(super) fn span(&self, row: &Row) -> Result<Span, (usize, Expectation)> {
        let cell = |column: usize| {
            std::str::from_utf8(row.cell(column)).map_err(|_| (column, "text in UTF-8"))
        };
        let (column, span) = match *self {
            NetworkColumns::One { column, is_address: true } => {
                let address = NetworkName::Address.parse(cell(column)?);
                (column, address.map(Span::from))
            }
            NetworkColumns::One { column, is_address: false } => {
                (column, Span::parse(cell(column)?))
            }
            NetworkColumns::Bounds { first, last } => {
                (last, Span::between(cell(first)?, cell(last)?))
            }
            NetworkColumns::WithLength { address, length } => {
                (length, Span::with_length(cell(address)?, cell(length)?))
            }
        };
        span.map_err(|allowed| (column, allowed))
    }
}

/// The columns of a table.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) names: Vec<String>,
    pub(super) network: NetworkColumns,
    pub(super) template: Template,
    /// The columns of the record, with the guess of those that have no type.
    pub(super) fields: Vec<(usize, Option<usize>)>,
}

/// The guesses of all tables, one for each field path.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    pub(super) guesses: Vec<Guess>,
    paths: Vec<FieldPath>,
}

impl Guesses {
    fn index(&mut self, path: FieldPath) -> usize {
        if let Some(index) = self.paths.iter().position(|other| *other == path) {
            return index;
        }
        self.guesses.push(Guess::new(&path));
        self.paths.push(path);
        self.guesses.len() - 1
    }

    pub(super) fn note(&mut self, index: usize, text: &str) {
        if let Some(guess) = self.guesses.get_mut(index) {
            guess.note(text);
        }
    }

    pub(super) fn cell_type(&self, index: usize) -> CellType {
        self.guesses.get(index).map_or(CellType::String, Guess::cell_type)
    }
}

impl Columns {
    /// From names, which a header on `line` or the caller gives; `guesses` is `None` where columns
    /// without a type are text.
    pub(super) fn new(
        names: Vec<String>,
        line: u64,
        mut guesses: Option<&mut Guesses>,
    ) -> Result<Columns, RowsError> {
        let fault =
            |column: &str, found: &str, allowed: &str| RowsError::new(line, column, found, allowed);
        let bare: Vec<&str> = names.iter().map(String::as_str).collect();
        let network = NetworkColumns::find(&bare).map_err(|second| {
            let name = bare.get(second).copied().unwrap_or_default();
            fault(name, "a second such column", "one network or address")
        })?;
        let network = network.ok_or_else(|| fault("", "no such column", ALLOWED))?;
        let mut template = Template::Map(Vec::new());
        let mut fields = Vec::new();
        for (column, name) in bare.iter().enumerate() {
            if network.has(column) || *name == "-" {
                continue;
            }
            let (path, cell_type) =
                cell::parse_name(name).map_err(|(found, allowed)| fault(name, &found, &allowed))?;
            let segments: Vec<String> = path.iter().map(str::to_string).collect();
            let guess = match (cell_type, &mut guesses) {
                (None, Some(guesses)) => Some(guesses.index(path)),
                _ => None,
            };
            let typing = match guess {
                Some(index) => TypeSource::Guessed(index),
                None => TypeSource::Given(cell_type.unwrap_or(CellType::String)),
            };
            let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
            template
                .add(&segments, Template::Cell { column, typing })
                .map_err(|(found, allowed)| fault(name, found, allowed))?;
            fields.push((column, guess));
        }
        Ok(Columns { names, network, template, fields })
    }

    /// The names in a header.
    pub(super) fn names_of(row: &Row) -> Result<Vec<String>, RowsError> {
        row.cells()
            .map(|cell| match std::str::from_utf8(cell) {
                Ok(name) => Ok(name.trim().to_string()),
                Err(_) => {
                    let column = String::from_utf8_lossy(cell);
                    let found = "a name that is no UTF-8 text";
                    Err(RowsError::new(row.line, column, found, "names in UTF-8"))
                }
            })
            .collect()
    }

    /// Names for the columns of a table that has none: `column3` for the third.
    pub(super) fn names_without_header(row: &Row, network: &NetworkColumns) -> Vec<String> {
        let name = |column: usize| match *network {
            NetworkColumns::One { column: one, .. } if column == one => "network".to_string(),
            NetworkColumns::Bounds { first, .. } if column == first => "start_ip".to_string(),
            NetworkColumns::Bounds { last, .. } if column == last => "end_ip".to_string(),
            _ => format!("column{}", column + 1),
        };
        (0..row.len()).map(name).collect()
    }

    pub(super) fn is_guessing(&self) -> bool {
        self.fields.iter().any(|(_, guess)| guess.is_some())
    }

    pub(super) fn wrong_cell(&self, row: &Row, column: usize, allowed: String) -> RowsError {
        let name = self.names.get(column).map_or("", String::as_str);
        let cell = match self.network {
            NetworkColumns::Bounds { first, last } if column == last => {
                let text = |column| String::from_utf8_lossy(row.cell(column)).into_owned();
                format!("\"{}\" to \"{}\"", shown(&text(first)), shown(&text(last)))
            }
            _ => format!("\"{}\"", shown(&String::from_utf8_lossy(row.cell(column)))),
        };
        RowsError::new(row.line, name, cell, allowed)
    }
}
