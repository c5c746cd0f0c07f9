//! Predicates about where an address is, kept as written.
//!
//! For: `src.country in {DE FR}`, `distance(dst, 8.68 50.11) < 500 km`. Who has the databases
//! resolves them to addresses when a ruleset is compiled (`normal::Places`).
//! Not for: knowing databases, fields or geometry.
//!
//! Invariants: there is at least one value; numbers are finite; a longitude is within 180 degrees
//! of 0 and a latitude within 90.
//! Concurrency: plain data.

use std::fmt;

use super::Side;

/// Something about the place of one address.
///
/// Two predicates with the same [`to_string`](ToString::to_string) are the same one.
#[derive(Clone, PartialEq, Debug)]
pub struct Predicate {
    /// The owner of the place.
    pub side: Side,
    /// The action on it.
    pub subject: Subject,
    /// How it is compared.
    pub comparison: Comparison,
}

/// The operands of a predicate.
#[derive(Clone, PartialEq, Debug)]
pub enum Subject {
    /// A field of a database; it fits if the comparison holds for any of the values.
    Field {
        /// Which field, in words that the resolver knows: `country`, `asn`, `city:city.names.en`.
        path: String,
        /// The operand, as written.
        values: Vec<String>,
    },
    /// How far the address's place is from a point.
    Distance {
        /// From where.
        point: Point,
        /// The distance it is compared with.
        meters: f64,
    },
}

/// A point on the earth.
#[derive(Clone, PartialEq, Debug)]
pub enum Point {
    /// By its coordinates.
    At {
        /// East of Greenwich.
        longitude_degrees: f64,
        /// North of the equator.
        latitude_degrees: f64,
    },
    /// By a name that the resolver knows, such as a site's.
    Named(String),
}

/// How the left side is compared with the right one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Comparison {
    /// Equal to any of the values.
    Equal,
    /// Less.
    Less,
    /// Less or equal.
    LessOrEqual,
    /// Greater.
    Greater,
    /// Greater or equal.
    GreaterOrEqual,
}

impl Comparison {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Point::At { longitude_degrees, latitude_degrees } => {
                write!(f, "{longitude_degrees} {latitude_degrees}")
            }
            // In quotes, a name is never taken for a number.
            Point::Named(name) if name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                write_value(f, name)
            }
            Point::Named(name) => write!(f, "{}", crate::text::QuotedText(name)),
        }
    }
}

impl fmt::Display for Predicate {
    /// As the own format writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let symbol = self.comparison.symbol();
        match &self.subject {
            Subject::Field { path, values } => {
                write!(f, "{}.{path} {symbol} ", self.side.name())?;
                if let [only] = values.as_slice() {
                    return write_value(f, only);
                }
                f.write_str("{")?;
                for (index, value) in values.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { " " })?;
                    write_value(f, value)?;
                }
                f.write_str("}")
            }
            Subject::Distance { point, meters } => {
                write!(f, "distance({}, {point}) {symbol} {meters} m", self.side.name())
            }
        }
    }
}

/// A value as one word, in quotes unless it is plain.
fn write_value(f: &mut fmt::Formatter<'_>, value: &str) -> fmt::Result {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if !value.is_empty() && value.chars().all(is_plain) {
        return f.write_str(value);
    }
    write!(f, "{}", crate::text::QuotedText(value))
}
