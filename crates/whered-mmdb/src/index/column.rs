//! How the values of a column lie in rows: their type, their place and width, and how a value is
//! made of what stands there.
//!
//! Not for rows (see `rows`), nor for choosing widths (see `rows_builder`).
//!
//! ```text
//! a field     0         absent
//!             1 and up  number:  field + base
//!                       decimal: (field + base) / divisor, such as latitudes in ten-thousandths
//!                       text:    its entry begins at base + field * unit among the texts
//!
//! a row text  length 1 to 254 | text | unused
//!             255 | reference, 4 bytes | unused                the text is empty or has no space
//!             0                                                absent
//!
//! layout      row's bytes | column 0 | column 1 | ...                words of 64 bits
//! a column    kind | width << 8 | offset << 16 | unit << 32 || base || divisor, its bits
//! ```
//!
//! Base is one less than the column's least number, so that a field takes as few bytes as the
//! column's numbers differ, and latitudes from -55.4 to 71.2 three. Numbers that are no decimals
//! lie with their bits, which `base` shifts as it does whole numbers. Only a column whose numbers
//! leave nothing for "absent" (0 and 2^64 - 1, say) has to be kept as one of several types.
//!
//! Invariants: the field of a column of one type has at most 8 bytes, that of a mixed one has 9,
//! and a row text begins before byte 256.

/// The type of a value, or of all values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Nothing; in a column: no record has the field.
    Absent,
    Text,
    Double,
    Float,
    Unsigned,
    Signed,
    Boolean,
    InPlace,
    /// A column whose values begin with their own kind.
    Mixed,
    /// A column of doubles that are whole numbers of tenths, hundredths and so on.
    Decimal,
    /// A column of texts that stand in their rows if they fit.
    RowText,
}

impl Kind {
    pub(super) fn from_number(number: u8) -> Option<Kind> {
        const ALL: [Kind; 11] = [
            Kind::Absent,
            Kind::Text,
            Kind::Double,
            Kind::Float,
            Kind::Unsigned,
            Kind::Signed,
            Kind::Boolean,
            Kind::InPlace,
            Kind::Mixed,
            Kind::Decimal,
            Kind::RowText,
        ];
        ALL.get(usize::from(number)).copied()
    }
}

/// How many bytes of a row are at hand: enough for any text and field at offsets of one byte.
pub(super) const NEAR_BYTES: usize = 512;
/// The length that says that more is to be read than a length of one byte and a text.
pub(super) const LONG: u8 = u8::MAX;
/// The size of a mixed field: its kind and a value.
pub(super) const MIXED_BYTES: usize = 9;
/// How many words of the layout a column takes.
pub(super) const COLUMN_WORDS: usize = 3;
/// Whole numbers of up to six bytes that begin below this are none of a sign's.
const WITHOUT_SIGN_END: u64 = 1 << 52;

/// Type, place and width of a column's values, and how they are made of their fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) kind: Kind,
    pub(super) offset: u16,
    pub(super) width_bytes: u8,
    /// The length in bytes that a text's reference counts in.
    unit: u32,
    base: u64,
    divisor: f64,
}

impl Column {
    /// A column whose place in a row is not known yet.
    pub(super) fn new(kind: Kind, width_bytes: u8, base: u64) -> Column {
        Column { kind, offset: 0, width_bytes, unit: 1, base, divisor: 1.0 }
    }

    /// The words of the layout.
    pub(super) fn words(&self) -> [u64; COLUMN_WORDS] {
        let first = self.kind as u64
            | u64::from(self.width_bytes) << 8
            | u64::from(self.offset) << 16
            | u64::from(self.unit) << 32;
        [first, self.base, self.divisor.to_bits()]
    }

    /// The column that these words of a layout describe; `None` if there is no such column.
    pub(super) fn from_words([first, base, divisor]: [u64; COLUMN_WORDS]) -> Option<Column> {
        let [kind, width_bytes, low, high, ..] = first.to_le_bytes();
        let kind = Kind::from_number(kind)?;
        let most = match kind {
            Kind::Mixed => MIXED_BYTES,
            Kind::RowText => 255,
            _ => 8,
        };
        let column = Column {
            kind,
            offset: u16::from_le_bytes([low, high]),
            width_bytes,
            unit: (first >> 32) as u32,
            base,
            divisor: f64::from_bits(divisor),
        };
        (usize::from(width_bytes) <= most).then_some(column)
    }

    pub(super) fn with_base(self, base: u64) -> Column {
        Column { base, ..self }
    }

    pub(super) fn with_unit(self, unit: u32) -> Column {
        Column { unit, ..self }
    }

    pub(super) fn with_divisor(self, divisor: f64) -> Column {
        Column { divisor, ..self }
    }

    pub(super) fn at(self, offset: u16) -> Column {
        Column { offset, ..self }
    }

    /// The bits that a field takes of the word at its place.
    fn mask(&self) -> u64 {
        u64::MAX.checked_shr(64 - 8 * u32::from(self.width_bytes.min(8))).unwrap_or(0)
    }

    /// The field in the word at its place.
    pub(super) fn field(&self, word: u64) -> u64 {
        word & self.mask()
    }

    /// The number of a field that is there.
    pub(super) fn bits(&self, field: u64) -> u64 {
        field.wrapping_add(self.base)
    }

    /// The decimal of a field that is there.
    pub(super) fn decimal(&self, field: u64) -> f64 {
        self.bits(field).cast_signed() as f64 / self.divisor
    }

    /// Where the entry of a reference begins.
    pub(super) fn text_place(&self, reference: u64) -> u32 {
        (self.base as u32).wrapping_add((reference as u32).wrapping_mul(self.unit))
    }

    /// The column's offset if its values lie among those that quick readers reach.
    fn near_offset(&self) -> Option<u8> {
        u8::try_from(self.offset).ok()
    }
}

/// How to read a column of texts in a few instructions.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuickText {
    pub(super) is_in_row: bool,
    offset: u8,
    mask: u32,
    unit: u32,
    base: u32,
}

impl QuickText {
    /// Leads outside of all texts.
    pub(super) const NOTHING: QuickText =
        QuickText { is_in_row: false, offset: 0, mask: 0, unit: 0, base: u32::MAX };

    pub(super) fn of(column: &Column) -> QuickText {
        match (column.near_offset(), column.kind) {
            (Some(offset), Kind::RowText) => {
                QuickText { is_in_row: true, offset, ..QuickText::NOTHING }
            }
            (Some(offset), Kind::Text) => QuickText {
                is_in_row: false,
                offset,
                mask: column.mask() as u32,
                unit: column.unit,
                base: column.base as u32,
            },
            _ => QuickText::NOTHING,
        }
    }

    /// Where the entry of a row's text begins.
    #[inline(always)]
    pub(super) fn place(&self, row: &[u8; NEAR_BYTES]) -> u32 {
        let reference = word(row, self.offset) as u32 & self.mask;
        self.base.wrapping_add(reference.wrapping_mul(self.unit))
    }

    /// The text in a row, if it stands there.
    #[inline(always)]
    pub(super) fn in_row<'a>(&self, row: &'a [u8; NEAR_BYTES]) -> Option<&'a [u8]> {
        let (length, text) = row.get(usize::from(self.offset)..)?.split_first()?;
        if *length == LONG { None } else { text.get(..usize::from(*length)) }
    }
}

/// How to read a column of whole or decimal numbers in a few instructions.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuickNumber {
    pub(super) is_quick: bool,
    offset: u8,
    mask: u64,
    base: u64,
    /// By whether there is a number: one that is absent is divided by NaN, which needs no branch.
    divisors: [f64; 2],
}

impl QuickNumber {
    /// A column that has to be read otherwise.
    pub(super) const NOTHING: QuickNumber =
        QuickNumber { is_quick: false, offset: 0, mask: 0, base: 0, divisors: [f64::NAN; 2] };

    pub(super) fn of(column: &Column) -> QuickNumber {
        let is_small = column.width_bytes <= 6 && column.bits(1) < WITHOUT_SIGN_END;
        match (column.near_offset(), column.kind) {
            (Some(offset), Kind::Decimal | Kind::Signed) => QuickNumber::at(offset, column),
            (Some(offset), Kind::Unsigned) if is_small => QuickNumber::at(offset, column),
            _ => QuickNumber::NOTHING,
        }
    }

    fn at(offset: u8, column: &Column) -> QuickNumber {
        let divisors = [f64::NAN, column.divisor];
        QuickNumber { is_quick: true, offset, mask: column.mask(), base: column.base, divisors }
    }

    /// The number of a row; NaN if it is absent.
    #[inline(always)]
    pub(super) fn value(&self, row: &[u8; NEAR_BYTES]) -> f64 {
        let field = word(row, self.offset) & self.mask;
        let whole = field.wrapping_add(self.base).cast_signed();
        whole as f64 / self.divisors[usize::from(field != 0)]
    }
}

/// The word at an offset, all of which are inside: that needs no check.
#[inline(always)]
fn word(row: &[u8; NEAR_BYTES], offset: u8) -> u64 {
    let offset = usize::from(offset);
    let word = row.get(offset..offset + 8).and_then(|word| word.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}
