//! The type of a column's cells, from all of them.
//!
//! Not for columns whose names give a type. A column is of the narrowest type that holds every
//! cell and gives its text back: booleans (`true`, `false`), whole numbers without leading zeros,
//! decimal numbers, else text. Fields that databases of MaxMind have get the type that they have
//! there, where it holds every cell. Cost: linear in the text.

use super::cell::CellType;
use crate::path::FieldPath;

/// What the cells of a column have in common.
#[derive(Debug, Clone)]
pub(super) struct Guess {
    preferred: Option<CellType>,
    is_boolean: bool,
    is_integer: bool,
    is_decimal: bool,
    lowest: i128,
    /// The largest of the whole numbers.
    highest: u128,
    has_cells: bool,
}

impl Guess {
    pub(super) fn new(path: &FieldPath) -> Guess {
        Guess {
            preferred: known_type(path),
            is_boolean: true,
            is_integer: true,
            is_decimal: true,
            lowest: 0,
            highest: 0,
            has_cells: false,
        }
    }

    /// Looks at a cell that is not empty.
    pub(super) fn note(&mut self, text: &str) {
        self.has_cells = true;
        self.is_boolean &= matches!(text, "true" | "false");
        if !self.is_integer && !self.is_decimal {
            return;
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_number =
            is_digits(whole) && is_digits(fraction) && (whole == "0" || !whole.starts_with('0'));
        self.is_decimal &= is_number;
        self.is_integer &= is_number && !digits.contains('.') && text != "-0";
        if !self.is_integer {
            return;
        }
        match (text.parse::<u128>(), text.parse::<i128>()) {
            (Ok(number), _) => self.highest = self.highest.max(number),
            (_, Ok(number)) => self.lowest = self.lowest.min(number),
            _ => (self.is_integer, self.is_decimal) = (false, false),
        }
    }

    /// The type that holds them all.
    pub(super) fn cell_type(&self) -> CellType {
        let is_unsigned = self.is_integer && self.lowest == 0;
        let fits = |highest: u128| is_unsigned && self.highest <= highest;
        match self.preferred {
            Some(CellType::String) => return CellType::String,
            Some(CellType::Double) if self.is_decimal => return CellType::Double,
            Some(CellType::Uint16) if fits(u16::MAX.into()) => return CellType::Uint16,
            Some(CellType::Uint32) if fits(u32::MAX.into()) => return CellType::Uint32,
            Some(CellType::Boolean) if self.is_boolean || fits(1) => return CellType::Boolean,
            _ => {}
        }
        let is_int32 = self.lowest >= i32::MIN.into() && self.highest <= i32::MAX as u128;
        match self {
            _ if !self.has_cells => CellType::String,
            _ if self.is_boolean => CellType::Boolean,
            _ if fits(u32::MAX.into()) => CellType::Uint32,
            _ if fits(u64::MAX.into()) => CellType::Uint64,
            _ if is_unsigned => CellType::Uint128,
            _ if self.is_integer && is_int32 => CellType::Int32,
            _ if self.is_decimal && !self.is_integer => CellType::Double,
            _ => CellType::String,
        }
    }
}

/// The type that a field has in the databases of MaxMind.
fn known_type(path: &FieldPath) -> Option<CellType> {
    let segments: Vec<&str> = path.iter().collect();
    match *segments.as_slice() {
        [.., "iso_code"] | [.., "names", _] | ["postal" | "continent", "code"] => {
            Some(CellType::String)
        }
        ["location", "latitude" | "longitude"] => Some(CellType::Double),
        ["location", "accuracy_radius" | "metro_code"] | [.., "confidence"] => {
            Some(CellType::Uint16)
        }
        [.., "geoname_id" | "autonomous_system_number"] => Some(CellType::Uint32),
        [.., "is_in_european_union"] | ["traits", "is_anycast"] => Some(CellType::Boolean),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(path: &str, cells: &[&str]) -> CellType {
        let mut guess = Guess::new(&path.parse().unwrap());
        cells.iter().for_each(|cell| guess.note(cell));
        guess.cell_type()
    }

    #[test]
    fn a_column_has_the_narrowest_type_that_holds_all_its_cells() {
        for (cells, expected) in [
            (&["1", "0", "4294967295"][..], CellType::Uint32),
            (&["1", "4294967296"], CellType::Uint64),
            (&["18446744073709551616"], CellType::Uint128),
            (&["1", "-1"], CellType::Int32),
            (&["-1", "2147483648"], CellType::String),
            (&["1", "2.50"], CellType::Double),
            (&["-0.5"], CellType::Double),
            (&["true", "false"], CellType::Boolean),
            (&["true", "1"], CellType::String),
            (&["007", "1"], CellType::String),
            (&["+1"], CellType::String),
            (&["1e5"], CellType::String),
            (&["-0"], CellType::Double),
            (&["1", "x"], CellType::String),
            (&["1."], CellType::String),
            (&["NaN"], CellType::String),
            (&[], CellType::String),
            (&["340282366920938463463374607431768211456"], CellType::String),
        ] {
            assert_eq!(guess("a", cells), expected, "{cells:?}");
        }
    }

    #[test]
    fn fields_that_everybody_has_get_their_known_type_where_it_fits() {
        for (path, cells, expected) in [
            ("postal.code", &["12345"][..], CellType::String),
            ("location.latitude", &["52"], CellType::Double),
            ("location.latitude", &["north"], CellType::String),
            ("location.accuracy_radius", &["20"], CellType::Uint16),
            ("location.accuracy_radius", &["70000"], CellType::Uint32),
            ("country.is_in_european_union", &["1", "0"], CellType::Boolean),
            ("subdivisions.0.iso_code", &["07"], CellType::String),
        ] {
            assert_eq!(guess(path, cells), expected, "{path}");
        }
    }
}
