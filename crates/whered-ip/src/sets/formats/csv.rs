//! Tables: a block a row, in one column or its two ends in two columns.
//!
//! For: MaxMind's files of blocks and every other table, with a header or without, with `,`, `;`,
//! tab or `|` between fields and quotes (RFC 4180) around them.
//! Not for tables whose columns are known otherwise (`dshield`, `rir`).
//!
//! ```text
//! network,geoname_id          a usual name in the header: NETWORKS, or a pair of BOUNDS
//! start_ip;end_ip;country     text, or integers of either family
//! 1.0.0.0,1.0.0.255,AU        no header: a block, or two ends, in front
//! columns = dst_ip, or 2, or 4,5
//! ```
//!
//! The value is the first column behind the block that is not empty, or the one that is named. All
//! rows have as many fields as the first one, so that a row that was cut is a mistake. A line that
//! begins with `#` is a comment. Integers up to 2^32 - 1 are IPv4 where both ends are.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::{Block, SetEntry, SetTextError, block_of, list_block_at};
use crate::column_names::{BOUNDS, LENGTHS, NETWORKS, plain_name};
use crate::text;

const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

const HEADER: &str = "a header with the column network (also cidr, prefix, ip, range, or start_ip \
                      and end_ip), a first row with a block in front, or named columns";
const NAMED_COLUMN: &str = "a named column";
const ENDS: &str = "two ends of one family, both addresses or both integers";

/// A column of a table, by its name or by its number from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Column {
    /// The column with this name in the header.
    Name(String),
    /// The column with this number, counted from 1.
    Number(usize),
}

impl FromStr for Column {
    type Err = String;

    /// Reads digits as a number, all else as a name.
    fn from_str(text: &str) -> Result<Column, String> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match (is_number, text.parse::<usize>()) {
            (true, Ok(number)) if number > 0 => Ok(Column::Number(number)),
            (false, _) if !text.is_empty() => Ok(Column::Name(text.to_owned())),
            _ => Err(format!("{text:?} is no column: allowed is a name, or a number from 1")),
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Column::Name(name) => f.write_str(name),
            Column::Number(number) => write!(f, "{number}"),
        }
    }
}

/// The columns that hold a block: one, or its first and its last address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockColumns {
    first: Column,
    last: Option<Column>,
}

impl FromStr for BlockColumns {
    type Err = String;

    /// Reads one column, or two with a comma between them.
    ///
    /// ```
    /// use whered_ip::BlockColumns;
    ///
    /// assert!("dst_ip".parse::<BlockColumns>().is_ok());
    /// assert!("4,5".parse::<BlockColumns>().is_ok());
    /// assert!("1,2,3".parse::<BlockColumns>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<BlockColumns, String> {
        let (first, last) = match text.split_once(',') {
            Some((_, last)) if last.contains(',') => {
                return Err(format!("{text:?} is no column: allowed is one, or two for a range"));
            }
            Some((first, last)) => (first, Some(last.trim().parse()?)),
            None => (text, None),
        };
        Ok(BlockColumns { first: first.trim().parse()?, last })
    }
}

/// Which columns of a table count.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Columns<'o> {
    pub(super) block: Option<&'o BlockColumns>,
    pub(super) value: Option<&'o Column>,
    pub(super) delimiter: Option<u8>,
}

/// Reads a delimiter: one of the four signs, or its name.
pub(super) fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "," | "comma" => Ok(b','),
        ";" | "semicolon" => Ok(b';'),
        "\t" | "\\t" | "tab" => Ok(b'\t'),
        "|" | "pipe" => Ok(b'|'),
        other => Err(format!("{other:?} is no delimiter: allowed is , ; | or tab")),
    }
}

/// Where a table has what.
struct Layout {
    delimiter: u8,
    first: usize,
    last: Option<usize>,
    /// The length of a prefix whose address stands in `first` alone.
    length: Option<usize>,
    value: Option<usize>,
    field_count: usize,
    has_header: bool,
}

pub(super) fn read<'a>(
    text: &'a [u8],
    columns: &Columns<'_>,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut at = 0;
    let mut layout = None;
    let mut row = Vec::new();
    while let Some(start) = next_row(text, at) {
        let known = match &layout {
            Some(layout) => layout,
            None => {
                let found = find_layout(text, start, columns)?;
                let has_header = found.has_header;
                let found = layout.insert(found);
                if has_header {
                    at = read_row(text, start, found.delimiter, &mut row)?;
                    continue;
                }
                found
            }
        };
        at = read_row(text, start, known.delimiter, &mut row)?;
        each(entry(text, known, &row)?);
    }
    if layout.is_none() && columns != &Columns::default() {
        return Err(SetTextError::at(text, text.len(), 0, "a table"));
    }
    match layout {
        None => Err(SetTextError::at(text, text.len(), 0, HEADER)),
        Some(_) => Ok(()),
    }
}

/// Where the next row begins, behind empty lines and comments.
fn next_row(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let line_end = |at: usize| {
            let rest = &text[at..];
            let length = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            at + length.unwrap_or(rest.len())
        };
        let end = line_end(at);
        let line = &text[at..end];
        if !line.trim_ascii().is_empty() && line.first() != Some(&b'#') {
            return Some(at);
        }
        if end == text.len() {
            return None;
        }
        at = end + 1;
    }
}

/// A field's place, without the quotes around it.
#[derive(Clone, Copy)]
struct Field {
    from: usize,
    to: usize,
    is_quoted: bool,
}

impl Field {
    fn trimmed(self, text: &[u8]) -> (usize, usize) {
        super::lines::trimmed(text, self.from, self.to).unwrap_or((self.from, self.from))
    }

    /// The field's text, doubled quotes as one.
    fn text(self, text: &[u8]) -> Cow<'_, [u8]> {
        let field = &text[self.from..self.to];
        if !self.is_quoted || !field.contains(&b'"') {
            return Cow::Borrowed(field.trim_ascii());
        }
        let mut out = Vec::with_capacity(field.len());
        let mut bytes = field.iter();
        while let Some(byte) = bytes.next() {
            out.push(*byte);
            if *byte == b'"' {
                bytes.next();
            }
        }
        Cow::Owned(out)
    }
}

/// Reads the row that begins at `at`; gives where the next line begins.
fn read_row(
    text: &[u8],
    mut at: usize,
    delimiter: u8,
    row: &mut Vec<Field>,
) -> Result<usize, SetTextError> {
    row.clear();
    loop {
        let is_blank = |byte: &u8| *byte == b' ' && delimiter != b' ';
        let blanks = text[at..].iter().take_while(|byte| is_blank(byte)).count();
        let mut end;
        if text.get(at + blanks) == Some(&b'"') {
            let from = at + blanks + 1;
            end = from;
            loop {
                let Some(length) = text[end..].iter().position(|byte| *byte == b'"') else {
                    let allowed = "a field whose quotes are closed";
                    return Err(SetTextError::at(text, from - 1, text.len() - from + 1, allowed));
                };
                end += length + 1;
                if text.get(end) != Some(&b'"') {
                    break;
                }
                end += 1;
            }
            row.push(Field { from, to: end - 1, is_quoted: true });
            end += text[end..].iter().take_while(|byte| is_blank(byte)).count();
            if let Some(byte) = text.get(end)
                && *byte != delimiter
                && !matches!(byte, b'\n' | b'\r')
            {
                return Err(SetTextError::at(text, end, 1, "a delimiter after a quoted field"));
            }
        } else {
            let ends = |byte: &u8| *byte == delimiter || matches!(byte, b'\n' | b'\r');
            end = at + text[at..].iter().position(ends).unwrap_or(text.len() - at);
            row.push(Field { from: at, to: end, is_quoted: false });
        }
        match text.get(end) {
            Some(byte) if *byte == delimiter => at = end + 1,
            Some(_) => return Ok(end + 1),
            None => return Ok(text.len()),
        }
    }
}

fn entry<'a>(text: &'a [u8], layout: &Layout, row: &[Field]) -> Result<SetEntry<'a>, SetTextError> {
    let (begin, end) = (row.first().map_or(0, |it| it.from), row.last().map_or(0, |it| it.to));
    let is_surplus = |field: &Field| field.from < field.to;
    if row.len() < layout.field_count || row[layout.field_count..].iter().any(is_surplus) {
        let allowed = format!("{} fields, as the first row has", layout.field_count);
        return Err(SetTextError::at(text, begin, end - begin, allowed));
    }
    let block = match layout.last {
        None => {
            let (from, to) = row[layout.first].trimmed(text);
            let length = to - from;
            if length == 0 {
                let shown = (end - begin).max(1);
                return Err(SetTextError::at(text, begin, shown, "a row with a block"));
            }
            match layout.length.filter(|_| text::parse(&text[from..to]).is_some()) {
                Some(length) => with_length(text, row[layout.first], row[length])?,
                None => list_block_at(text, from, to)?,
            }
        }
        Some(last) => between(text, row[layout.first], row[last])?,
    };
    let value = match layout.value {
        Some(value) => Some(row[value].text(text)),
        None => {
            let others = [layout.last, layout.length].into_iter().flatten();
            let behind = others.fold(layout.first, usize::max) + 1;
            row[behind..].iter().map(|field| field.text(text)).find(|value| !value.is_empty())
        }
    };
    let value = value.filter(|value| !value.is_empty());
    Ok(SetEntry { value, ..SetEntry::from(block) })
}

/// The prefix of an address with the length, or the mask, of another field.
fn with_length(text: &[u8], address: Field, length: Field) -> Result<Block, SetTextError> {
    let word = |field: Field| {
        let (from, to) = field.trimmed(text);
        &text[from..to]
    };
    let joined = [word(address), b"/", word(length)].concat();
    block_of(&joined, true).map_err(|_| {
        let (from, to) = length.trimmed(text);
        let allowed = "the length of a prefix, or its mask";
        SetTextError::at(text, from, (to - from).max(1), allowed)
    })
}

/// One end of a range.
enum End {
    Address(IpAddr),
    Integer(u128),
}

fn end_of(word: &[u8]) -> Option<End> {
    if !word.is_empty() && word.iter().all(u8::is_ascii_digit) {
        return std::str::from_utf8(word).ok()?.parse().ok().map(End::Integer);
    }
    text::parse(word).map(End::Address)
}

/// The block from one end to another.
fn between(text: &[u8], first: Field, last: Field) -> Result<Block, SetTextError> {
    let mistake = |field: Field, allowed| {
        let (from, to) = field.trimmed(text);
        SetTextError::at(text, from, (to - from).max(1), allowed)
    };
    let end = |field: Field| {
        let (from, to) = field.trimmed(text);
        let allowed = "an IPv4 or IPv6 address, or an integer of at most 128 bits";
        end_of(&text[from..to]).ok_or_else(|| mistake(field, allowed))
    };
    let (first_end, last_end) = match (end(first)?, end(last)?) {
        (End::Address(first), End::Address(last)) => (first, last),
        (End::Integer(first), End::Integer(last)) => {
            match (u32::try_from(first), u32::try_from(last)) {
                (Ok(first), Ok(last)) => {
                    (Ipv4Addr::from_bits(first).into(), Ipv4Addr::from_bits(last).into())
                }
                _ => (Ipv6Addr::from_bits(first).into(), Ipv6Addr::from_bits(last).into()),
            }
        }
        _ => return Err(mistake(last, ENDS)),
    };
    Block::from_ends(first_end, last_end)
        .map_err(|_| mistake(last, "an end in the family of the first one, not before it"))
}

/// Whether a line could begin a table: a header with a usual name, or a row with a block in front.
pub(super) fn is_table(line: &[u8]) -> bool {
    // One column without a usual name and without quotes is a plain list.
    let is_quoted = line.first() == Some(&b'"');
    match find_layout(line, 0, &Columns::default()) {
        Ok(layout) => layout.has_header || layout.field_count > 1 || is_quoted,
        // A header with too many usual names is one, and is refused as such.
        Err(error) => error.allowed().starts_with(NAMED_COLUMN),
    }
}

/// Whether a line is a header with a usual name.
pub(super) fn is_header(line: &[u8]) -> bool {
    find_layout(line, 0, &Columns::default()).is_ok_and(|layout| layout.has_header)
}

/// Finds out what the row at `start` says about the table.
fn find_layout(text: &[u8], start: usize, columns: &Columns<'_>) -> Result<Layout, SetTextError> {
    let mut found: Option<Layout> = None;
    let mut failed = None;
    let delimiters = match &columns.delimiter {
        Some(delimiter) => std::slice::from_ref(delimiter),
        None => &DELIMITERS[..],
    };
    for delimiter in delimiters {
        let mut row = Vec::new();
        let layout = read_row(text, start, *delimiter, &mut row)
            .and_then(|_| layout_with(text, &row, *delimiter, columns));
        match (layout, &found) {
            (Ok(layout), Some(best)) if layout.field_count <= best.field_count => {
                if layout.field_count == best.field_count && layout.field_count > 1 {
                    let length = row.last().map_or(0, |last| last.to) - start;
                    let allowed = "a named delimiter: several make fields of this row";
                    return Err(SetTextError::at(text, start, length, allowed));
                }
            }
            (Ok(layout), _) => found = Some(layout),
            (Err(error), _) => {
                // What is said about more fields says more.
                let count = row.len();
                if failed.as_ref().is_none_or(|(best, _)| count > *best) {
                    failed = Some((count, error));
                }
            }
        }
    }
    match (found, failed) {
        (Some(layout), _) => Ok(layout),
        (None, Some((_, error))) => Err(error),
        (None, None) => Err(SetTextError::at(text, start, 0, HEADER)),
    }
}

/// The layout that a first row with these fields says.
fn layout_with(
    text: &[u8],
    row: &[Field],
    delimiter: u8,
    columns: &Columns<'_>,
) -> Result<Layout, SetTextError> {
    let (start, end) = (row.first().map_or(0, |it| it.from), row.last().map_or(0, |it| it.to));
    let mistake = |allowed: String| SetTextError::at(text, start, end - start, allowed);
    let names: Vec<String> =
        row.iter().map(|field| String::from_utf8_lossy(&field.text(text)).into_owned()).collect();
    let number = |column: &Column| match column {
        Column::Number(number) if *number <= row.len() => Ok(number - 1),
        Column::Number(number) => Err(mistake(format!("a row with {number} fields"))),
        Column::Name(wanted) => {
            let exact = names.iter().position(|name| name == wanted);
            let same = |name: &String| plain_name(name) == plain_name(wanted);
            let place = exact.or_else(|| names.iter().position(same));
            place.ok_or_else(|| mistake(format!("a header with the column {wanted}")))
        }
    };
    let word = |place: usize| {
        let (from, to) = row[place].trimmed(text);
        &text[from..to]
    };
    let (first, last) = match columns.block {
        Some(block) => (number(&block.first)?, block.last.as_ref().map(number).transpose()?),
        None => default_columns(&names, word, row.len()).map_err(mistake)?,
    };
    let value = columns.value.map(number).transpose()?;
    let is_data = match last {
        None => block_of(word(first), true).is_ok(),
        Some(last) => end_of(word(first)).is_some() && end_of(word(last)).is_some(),
    };
    let is_named = |column: &Column| matches!(column, Column::Name(_));
    let names_columns = columns.value.is_some_and(is_named)
        || columns.block.is_some_and(|block| {
            is_named(&block.first) || block.last.as_ref().is_some_and(is_named)
        });
    if is_data && names_columns {
        return Err(mistake("a header with the names of the columns".to_owned()));
    }
    let is_name =
        word(first).first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let has_header = !is_data && (names_columns || is_name && !word(first).contains(&b':'));
    let length = names.iter().position(|name| LENGTHS.contains(&plain_name(name).as_str()));
    let length = length.filter(|_| has_header && last.is_none() && columns.block.is_none());
    let field_count = row.len();
    Ok(Layout { delimiter, first, last, length, value, field_count, has_header })
}

/// The column, or the two columns, of the blocks, by the names in a header or by a first row that
/// is data.
fn default_columns<'t>(
    names: &[String],
    word: impl Fn(usize) -> &'t [u8],
    count: usize,
) -> Result<(usize, Option<usize>), String> {
    let is_block = |place| block_of(word(place), true).is_ok();
    let plain: Vec<String> = match (0..count).any(is_block) {
        // No header has an address in it.
        true => Vec::new(),
        false => names.iter().map(|name| plain_name(name)).collect(),
    };
    let find = |wanted: &str| plain.iter().position(|name| name == wanted);
    if let Some(column) = find("network") {
        return Ok((column, None));
    }
    let is_usual = |name: &&String| NETWORKS.contains(&name.as_str());
    let mut pairs = BOUNDS.iter().filter_map(|(first, last)| find(first).zip(find(last)));
    let pair = pairs.next();
    let usual: Vec<usize> =
        (0..).zip(&plain).filter(|(_, name)| is_usual(name)).map(|(place, _)| place).collect();
    match (&usual[..], pair, pairs.next()) {
        ([column], None, _) => return Ok((*column, None)),
        ([], Some((first, last)), None) => return Ok((first, Some(last))),
        ([], None, _) => {}
        _ => {
            let pair = pair.map(|(first, last)| format!("{},{}", names[first], names[last]));
            let found = usual.iter().map(|place| names[*place].clone()).chain(pair);
            let found = found.collect::<Vec<_>>().join(" or ");
            return Err(format!("{NAMED_COLUMN}: {found}"));
        }
    }
    let is_address = |place: usize| text::parse(word(place)).is_some();
    match () {
        () if count > 1 && is_address(0) && is_address(1) => Ok((0, Some(1))),
        () if is_block(0) => Ok((0, None)),
        () => Err(HEADER.to_owned()),
    }
}
