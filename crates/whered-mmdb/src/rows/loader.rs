//! Files of rows, one after the other, into a [`Writer`].
//!
//! Not for opening files. Each file is a table or NDJSON; Locations come before the Blocks that
//! need them. Equal cells are equal records: a table of cells finds the record without making it
//! again. A record with columns whose type is guessed is made when all rows were read.
//!
//! ```text
//! read(a) ┐  rows ─> networks in the tree, each with a reserved or a stored value
//! read(b) ┘
//! finish     guessed types ─> reserved values are filled
//! ```
#![deny(clippy::indexing_slicing)]

use super::cell::CellType;
use super::columns::{Columns, Guesses, NetworkColumns};
use super::geolite::{self, Blocks, Locations};
use super::layouts::{Layout, subdivision_code};
use super::ndjson::{self, Line};
use super::span::Span;
use super::table::{Row, TableReader};
use super::{RowsError, RowsFormat, RowsMetadata, array, delegated};
use crate::value::Value;
use crate::writer::{StoredValue, Writer};
use std::collections::HashMap;
use std::io::Read;

/// How many bytes of cells are remembered where nothing waits for the end.
const MAX_KNOWN_BYTES: usize = 64 << 20;

/// Whether a table's first row names its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Header {
    /// The row itself says so: its cells are names, or hold a network.
    #[default]
    Auto,
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// How rows are read.
#[derive(Debug, Clone)]
pub struct RowsOptions {
    /// `None`: NDJSON or a JSON array if the first byte is `{` or `[`.
    pub format: Option<RowsFormat>,
    /// Between the cells of a table; `None` for the first of tab, `;`, `,` and `|` that comes.
    pub delimiter: Option<u8>,
    /// Whether a table's first row names its columns.
    pub header: Header,
    /// Names for the columns of tables, in place of a header's; `-` leaves a column out.
    pub columns: Vec<String>,
    /// The columns of tables without a header; without it the file's name may say them.
    pub layout: Option<Layout>,
    /// Whether columns without a type get one that fits all cells; they are text otherwise.
    pub guesses_types: bool,
    /// Whether wrong rows are counted and passed over.
    pub skips_bad: bool,
}

impl Default for RowsOptions {
    /// Everything as the input says; types are guessed; the first wrong row ends it.
    fn default() -> RowsOptions {
        RowsOptions {
            format: None,
            delimiter: None,
            header: Header::Auto,
            columns: Vec::new(),
            layout: None,
            guesses_types: true,
            skips_bad: false,
        }
    }
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowsSummary {
    /// Rows with a network that was taken; of Locations none.
    pub rows: u64,
    /// Wrong rows that were passed over.
    pub skipped: u64,
    /// The first of them: the name of its file, and what was wrong.
    pub first_skipped: Option<(String, RowsError)>,
    /// What the rows say of the file that they become.
    pub metadata: Option<RowsMetadata>,
    /// One line each on what was taken in a way that could be meant otherwise.
    pub remarks: Vec<String>,
}

/// Reads files of rows into a writer.
///
/// ```
/// use whered_mmdb::{Database, Writer, WriterOptions, rows};
/// let mut writer = Writer::new(WriterOptions::default())?;
/// let mut loader = rows::RowsLoader::new(rows::RowsOptions::default(), &mut writer);
/// loader.read("v4.csv", &b"start_ip,end_ip,asn\n192.0.2.0,192.0.2.9,64500\n"[..])?;
/// loader.read("v6.tsv", &b"Network\tASN\n2001:db8::/32\t64501\n"[..])?;
/// assert_eq!(loader.finish()?.rows, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RowsLoader<'w> {
    writer: &'w mut Writer,
    options: RowsOptions,
    guesses: Guesses,
    tables: Vec<Table>,
    locations: Locations,
    /// Whether mapped addresses are IPv6 addresses of their own.
    keeps_mapped: bool,
    summary: RowsSummary,
}

/// A table whose columns are known.
#[derive(Debug)]
struct Table {
    columns: Columns,
    layout: Option<Layout>,
    /// Latitude and longitude of a layout, where 0 and 0 are no place.
    zero_place: Option<(usize, usize)>,
    blocks: Option<Blocks>,
    /// The record of the cells that came; `None` where they make none.
    records: HashMap<Box<[u8]>, Option<StoredValue>>,
    known_bytes: usize,
    /// The cells of the row at hand.
    key: Vec<u8>,
}

/// What the first row of a table is.
enum First {
    Header,
    Data,
}

impl<'w> RowsLoader<'w> {
    /// A loader that has read nothing.
    pub fn new(options: RowsOptions, writer: &'w mut Writer) -> RowsLoader<'w> {
        RowsLoader {
            writer,
            options,
            guesses: Guesses::default(),
            tables: Vec::new(),
            locations: Locations::default(),
            keeps_mapped: false,
            summary: RowsSummary::default(),
        }
    }

    /// Whether a text, of which the first line is enough, is a table of Locations.
    #[must_use]
    pub fn is_locations(start: &[u8]) -> bool {
        let mut row = Row::default();
        let mut reader = TableReader::new(start, None);
        matches!(reader.read(&mut row), Ok(true))
            && Columns::names_of(&row).is_ok_and(|names| geolite::is_header(&names))
    }

    /// Reads one file; its name may say which layout it has. Returns how many rows with a network
    /// it has, or how many Locations.
    ///
    /// # Errors
    ///
    /// The first wrong row, unless they are passed over; a table whose columns are not known;
    /// input that cannot be read. What came before is in the writer.
    pub fn read(&mut self, name: &str, input: impl Read) -> Result<u64, RowsError> {
        let mut reader = TableReader::new(input, self.options.delimiter);
        let format = match self.options.format {
            Some(format) => format,
            None => match reader.first_byte()? {
                Some(b'{') => RowsFormat::Ndjson,
                Some(b'[') => RowsFormat::Ndjson,
                _ => RowsFormat::Csv,
            },
        };
        let before = self.summary.rows;
        let mut locations = 0;
        match format {
            RowsFormat::Csv => locations = self.read_table(name, &mut reader)?,
            RowsFormat::Ndjson => {
                let is_array = reader.first_byte()? == Some(b'[');
                let input = reader.into_input();
                let take = |line| self.line(name, line);
                if is_array { array::read(input, take) } else { ndjson::read(input, take) }?;
            }
        }
        Ok(self.summary.rows - before + locations)
    }

    /// Makes the records whose types were guessed.
    ///
    /// # Errors
    ///
    /// None that a row caused: those were reported with the row.
    pub fn finish(self) -> Result<RowsSummary, RowsError> {
        let RowsLoader { writer, guesses, tables, locations, mut summary, .. } = self;
        if !locations.is_empty() {
            let metadata = summary.metadata.get_or_insert_default();
            if metadata.languages.is_empty() {
                metadata.languages = locations.languages();
            }
        }
        let types: Vec<CellType> =
            (0..guesses.guesses.len()).map(|index| guesses.cell_type(index)).collect();
        let type_of = |index: usize| types.get(index).copied().unwrap_or(CellType::String);
        for table in tables.iter().filter(|table| table.is_waiting()) {
            for (key, value) in &table.records {
                let Some(value) = value else { continue };
                let row = table.row_of(key);
                let record = table.columns.template.value(&row, table.missing(), &type_of);
                let record = record
                    .map_err(|wrong| table.columns.wrong_cell(&row, wrong.column, wrong.allowed))?;
                let record = record.unwrap_or(Value::Map(Vec::new()));
                writer.fill(*value, &record).map_err(|error| RowsError::refused(1, "", &error))?;
            }
        }
        Ok(summary)
    }

    /// Passes over a wrong row, or not.
    fn skip(&mut self, name: &str, error: RowsError) -> Result<(), RowsError> {
        skip(&mut self.summary, self.options.skips_bad, name, error)
    }

    /// Takes what rows say of the file. The first such line counts, and aliases only in front of the
    /// rows.
    fn metadata(&mut self, metadata: RowsMetadata) {
        if self.summary.metadata.is_none() {
            if metadata.ipv4_aliases == Some(false) && self.summary.rows == 0 {
                self.writer.set_ipv4_aliases(false);
                self.keeps_mapped = true;
            }
            self.summary.metadata = Some(metadata);
        }
    }

    /// Takes a line of NDJSON.
    fn line(&mut self, name: &str, line: Result<Line, RowsError>) -> Result<(), RowsError> {
        let taken = line.and_then(|line| match line {
            Line::Metadata(metadata) => {
                self.metadata(metadata);
                Ok(())
            }
            Line::Row { line, column, span, record } => {
                let span = if self.keeps_mapped { span.as_written() } else { span };
                let refused = |error| RowsError::refused(line, column.to_string(), &error);
                let value = self.writer.store(&record).map_err(refused)?;
                insert(self.writer, span, value).map_err(refused)?;
                self.summary.rows += 1;
                Ok(())
            }
        });
        taken.or_else(|error| self.skip(name, error))
    }

    fn read_table<R: Read>(
        &mut self,
        name: &str,
        reader: &mut TableReader<R>,
    ) -> Result<u64, RowsError> {
        let mut row = Row::default();
        if !reader.read(&mut row)? {
            let allowed = "a first line that names the columns";
            return Err(RowsError::new(1, "", "no header", allowed));
        }
        if let Some(metadata) = ndjson::metadata_in(reader.comment()) {
            self.metadata(metadata);
        }
        if self.options.columns.is_empty() && self.options.header != Header::No {
            let names = Columns::names_of(&row).unwrap_or_default();
            if geolite::is_header(&names) {
                let (summary, skips_bad) = (&mut self.summary, self.options.skips_bad);
                let pass = |error| skip(summary, skips_bad, name, error);
                return self.locations.read(&names, reader, pass);
            }
            let is_delegated = match &self.options.layout {
                Some(layout) => layout.name == "delegated",
                None => delegated::is_first_row(&row),
            };
            if is_delegated {
                return self.delegated(name, reader, &mut row).map(|()| 0);
            }
        }
        let (mut table, first) = self.table(name, &row, reader)?;
        let read = self.rows(name, reader, &mut table, &mut row, matches!(first, First::Data));
        // Its records are made at the end, also those in front of a fault.
        self.tables.push(table);
        read.map(|()| 0)
    }

    /// Reads the statistics of a regional registry, whose first row is at hand.
    fn delegated<R: Read>(
        &mut self,
        name: &str,
        reader: &mut TableReader<R>,
        row: &mut Row,
    ) -> Result<(), RowsError> {
        let mut is_row = true;
        loop {
            if is_row && let Err(error) = self.delegation(row) {
                self.skip(name, error)?;
            }
            match reader.read(row) {
                Ok(true) => is_row = true,
                Ok(false) => return Ok(()),
                Err(error) => {
                    is_row = false;
                    self.skip(name, error)?;
                    reader.skip_line()?;
                }
            }
        }
    }

    fn delegation(&mut self, row: &Row) -> Result<(), RowsError> {
        let Some((span, country)) = delegated::range_of(row)? else { return Ok(()) };
        let refused = |error| RowsError::refused(row.line, "start", &error);
        let code = Value::String(country.to_ascii_uppercase());
        let country = Value::Map(vec![("iso_code".to_string(), code)]);
        let record = Value::Map(vec![("country".to_string(), country)]);
        let value = self.writer.store(&record).map_err(refused)?;
        insert(self.writer, span, value).map_err(refused)?;
        self.summary.rows += 1;
        Ok(())
    }

    /// Reads the rows of a table; the one at hand is the first of them if `is_row`.
    fn rows<R: Read>(
        &mut self,
        name: &str,
        reader: &mut TableReader<R>,
        table: &mut Table,
        row: &mut Row,
        mut is_row: bool,
    ) -> Result<(), RowsError> {
        loop {
            if is_row && let Err(error) = self.row(table, row) {
                self.skip(name, error)?;
            }
            match reader.read(row) {
                Ok(true) => is_row = true,
                Ok(false) => return Ok(()),
                Err(error) => {
                    is_row = false;
                    self.skip(name, error)?;
                    reader.skip_line()?;
                }
            }
        }
    }

    /// Finds what the columns of a table are, from its first row.
    fn table<R: Read>(
        &mut self,
        name: &str,
        row: &Row,
        reader: &TableReader<R>,
    ) -> Result<(Table, First), RowsError> {
        let header = self.options.header;
        let has_network = |names: &[String]| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            !matches!(NetworkColumns::find(&names), Ok(None))
        };
        let names = match header {
            Header::No => Vec::new(),
            Header::Auto | Header::Yes => Columns::names_of(row)?,
        };
        let is_header = header == Header::Yes || has_network(&names);
        let first = if is_header { First::Header } else { First::Data };
        if !self.options.columns.is_empty() {
            let columns = self.columns(self.options.columns.clone(), row.line)?;
            let is_data =
                header == Header::No || header == Header::Auto && columns.network.span(row).is_ok();
            let first = if is_data { First::Data } else { First::Header };
            return Ok((Table::new(columns, None), first));
        }
        if let Some(layout) = self.options.layout.clone() {
            let columns = self.columns(layout.column_names(), row.line)?;
            return Ok((Table::new(columns, Some(layout)), first));
        }
        if is_header {
            let columns = self.columns(names, row.line)?;
            return Ok((self.table_or_blocks(columns, name), first));
        }
        let comment = Row::of_line(reader.comment(), row.line);
        let names_in_comment = Columns::names_of(&comment).unwrap_or_default();
        if names_in_comment.len() == row.len() && has_network(&names_in_comment) {
            let columns = self.columns(names_in_comment, row.line)?;
            return Ok((Table::new(columns, None), First::Data));
        }
        let layout = Layout::of_file(name).or_else(|| geofeed_of(row));
        if let Some(layout) = layout.filter(|layout| layout.fits(row)) {
            let columns = self.columns(layout.column_names(), row.line)?;
            return Ok((Table::new(columns, Some(layout)), First::Data));
        }
        let Some(network) = NetworkColumns::of_row(row) else {
            // The fault of this header.
            return Err(self.columns(Columns::names_of(row)?, row.line).err().unwrap_or_else(
                || RowsError::new(row.line, "", "no network", super::columns::ALLOWED),
            ));
        };
        let names = Columns::names_without_header(row, &network);
        if let Some(named) = names.iter().find(|name| name.starts_with("column")) {
            let file = if name.is_empty() { "rows" } else { name };
            self.summary.remarks.push(format!(
                "{file}: has no header: its fields are named {named} and so on; --columns with {} \
                 names gives others",
                names.len()
            ));
        }
        let columns = self.columns(names, row.line)?;
        Ok((Table::new(columns, None), First::Data))
    }

    fn columns(&mut self, names: Vec<String>, line: u64) -> Result<Columns, RowsError> {
        let guesses = self.options.guesses_types.then_some(&mut self.guesses);
        Columns::new(names, line, guesses)
    }

    /// A table with a header, which may be Blocks.
    fn table_or_blocks(&mut self, columns: Columns, name: &str) -> Table {
        let blocks = Blocks::new(&columns);
        let mut table = Table::new(columns, None);
        if self.locations.is_empty() {
            if blocks.is_some() {
                let remark = "has numbers of places (geoname_id); with the Locations file as \
                              another input the records have their names";
                self.summary.remarks.push(format!("{name}: {remark}"));
            }
        } else {
            self.locations.number_levels();
            table.blocks = blocks;
        }
        table
    }

    /// Takes a row of a table.
    fn row(&mut self, table: &mut Table, row: &mut Row) -> Result<(), RowsError> {
        table.check_count(row)?;
        if table.layout.as_ref().is_some_and(|layout| layout.name == "geofeed") {
            as_geofeed(table, row)?;
        }
        table.without_zero_place(row);
        let row = &*row;
        let span =
            table.columns.network.span(row).map_err(|(column, allowed)| {
                table.columns.wrong_cell(row, column, allowed.into())
            })?;
        let span = if self.keeps_mapped { span.as_written() } else { span };
        if let Some(value) = self.record(table, row)? {
            insert(self.writer, span, value).map_err(|error| table.refused(row, &error))?;
            self.summary.rows += 1;
        } else if table.layout.as_ref().is_some_and(|layout| layout.name == "geofeed") {
            // RFC 8805, 2.1.1: such a prefix shall not be located, whatever is said around it.
            let nothing = self.writer.store_nothing();
            let stored = nothing.and_then(|nothing| insert(self.writer, span, nothing));
            stored.map_err(|error| table.refused(row, &error))?;
        }
        Ok(())
    }

    /// The record of a row: one that is known, or a new one.
    fn record(&mut self, table: &mut Table, row: &Row) -> Result<Option<StoredValue>, RowsError> {
        table.set_key(row);
        if let Some(known) = table.records.get(table.key.as_slice()) {
            return Ok(*known);
        }
        let value = self.new_record(table, row)?;
        let key_bytes = table.key.len();
        if !table.is_waiting() && table.known_bytes + key_bytes > MAX_KNOWN_BYTES {
            table.records.clear();
            table.known_bytes = 0;
        }
        table.known_bytes += key_bytes;
        table.records.insert(table.key.as_slice().into(), value);
        Ok(value)
    }

    fn new_record(&mut self, table: &Table, row: &Row) -> Result<Option<StoredValue>, RowsError> {
        let columns = &table.columns;
        // Until their type is known, cells are text.
        let value = match &table.blocks {
            Some(blocks) => blocks.value(row, &self.locations).map(Some),
            None => columns.template.value(row, table.missing(), &|_| CellType::String),
        };
        let value = value.map_err(|wrong| columns.wrong_cell(row, wrong.column, wrong.allowed))?;
        if value.is_none() && table.layout.as_ref().is_some_and(|layout| layout.skips_empty) {
            return Ok(None);
        }
        let value = value.unwrap_or(Value::Map(Vec::new()));
        let refused = |error| table.refused(row, &error);
        if !table.is_waiting() {
            return self.writer.store(&value).map(Some).map_err(refused);
        }
        Writer::check(&value).map_err(refused)?;
        for (column, guess) in &columns.fields {
            let text = std::str::from_utf8(row.cell(*column)).unwrap_or_default();
            if let Some(guess) = guess
                && !text.is_empty()
                && !table.missing().contains(&text)
            {
                self.guesses.note(*guess, text);
            }
        }
        self.writer.reserve().map(Some).map_err(refused)
    }
}

impl Table {
    fn new(columns: Columns, layout: Option<Layout>) -> Table {
        let find = |wanted: &str| columns.names.iter().position(|name| name == wanted);
        let place = find("location.latitude:double").zip(find("location.longitude:double"));
        let zero_place = place.filter(|_| layout.is_some());
        Table {
            columns,
            layout,
            zero_place,
            blocks: None,
            records: HashMap::new(),
            known_bytes: 0,
            key: Vec::new(),
        }
    }

    /// Empties the cells of the place where latitude and longitude are both 0: published tables
    /// have these in rows without a place, and no country is there.
    fn without_zero_place(&self, row: &mut Row) {
        let Some((latitude, longitude)) = self.zero_place else { return };
        let is_zero = |column| {
            let text = std::str::from_utf8(row.cell(column)).unwrap_or_default();
            text.parse() == Ok(0.0)
        };
        if is_zero(latitude) && is_zero(longitude) {
            let names = &self.columns.names;
            let is_place = |column| {
                names.get(column).is_some_and(|name: &String| name.starts_with("location."))
            };
            let cells = row.cells().enumerate();
            let cells = cells.map(|(column, cell)| if is_place(column) { &[][..] } else { cell });
            let line = row.line;
            *row = Row::of_cells(cells);
            row.line = line;
        }
    }

    fn missing(&self) -> &'static [&'static str] {
        self.layout.as_ref().map_or(&[], |layout| layout.missing)
    }

    /// Whether its records are made at the end.
    fn is_waiting(&self) -> bool {
        self.blocks.is_none() && self.columns.is_guessing()
    }

    fn refused(&self, row: &Row, error: &crate::error::MmdbError) -> RowsError {
        let column = match self.columns.network {
            NetworkColumns::One { column, .. } => column,
            NetworkColumns::Bounds { first, .. } => first,
            NetworkColumns::WithLength { address, .. } => address,
        };
        let name = self.columns.names.get(column).map_or("", String::as_str);
        RowsError::refused(row.line, name, error)
    }

    fn check_count(&self, row: &Row) -> Result<(), RowsError> {
        let count = self.columns.names.len();
        if row.len() == count {
            return Ok(());
        }
        if self.layout.as_ref().is_some_and(|layout| layout.is_short) {
            let is_bare = |column| row.cell(column).is_empty();
            if row.len() < count || (count..row.len()).all(is_bare) {
                return Ok(());
            }
        }
        let allowed = format!("{count}, one for each column");
        Err(RowsError::new(row.line, "", format!("{} cells", row.len()), allowed))
    }

    /// Puts the cells of the record behind each other, each with its length.
    fn set_key(&mut self, row: &Row) {
        self.key.clear();
        for (column, _) in &self.columns.fields {
            let cell = row.cell(*column);
            // A row has less than 4 GiB.
            self.key.extend_from_slice(&(cell.len() as u32).to_ne_bytes());
            self.key.extend_from_slice(cell);
        }
    }

    /// The row with the cells of a key.
    fn row_of(&self, key: &[u8]) -> Row {
        let mut rest = key;
        let mut fields = self.columns.fields.iter().map(|(column, _)| *column).peekable();
        let cells = (0..self.columns.names.len()).map(|column| {
            if fields.next_if_eq(&column).is_none() {
                return &[][..];
            }
            let (length, behind) = rest.split_first_chunk().unwrap_or((&[0; 4], &[]));
            let length = u32::from_ne_bytes(*length) as usize;
            let (cell, behind) = behind.split_at_checked(length).unwrap_or_default();
            rest = behind;
            cell
        });
        Row::of_cells(cells)
    }
}

/// Passes over a wrong row, or not.
fn skip(
    summary: &mut RowsSummary,
    skips_bad: bool,
    name: &str,
    error: RowsError,
) -> Result<(), RowsError> {
    if !skips_bad {
        return Err(error);
    }
    summary.skipped += 1;
    summary.first_skipped.get_or_insert_with(|| (name.to_string(), error));
    Ok(())
}

/// Gives all addresses of a span a value. A range gives way where it crosses a range that leads to
/// the IPv4 networks, as a wider prefix does.
fn insert(
    writer: &mut Writer,
    span: Span,
    value: StoredValue,
) -> Result<(), crate::error::MmdbError> {
    let is_inside_alias =
        span.is_prefix() || span.prefixes().all(|prefix| writer.leads_to_ipv4(prefix));
    for prefix in span.prefixes() {
        if is_inside_alias || !writer.leads_to_ipv4(prefix) {
            writer.insert_stored(prefix, value)?;
        }
    }
    Ok(())
}

/// RFC 8805, where a row without a header looks like it: a prefix, a country, and its subdivision.
fn geofeed_of(row: &Row) -> Option<Layout> {
    let cell = |column| std::str::from_utf8(row.cell(column)).ok();
    let (country, region) = cell(1).zip(cell(2))?;
    let is_country = country.len() == 2 && country.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_region = region.strip_prefix(country).is_some_and(|rest| rest.starts_with('-'));
    let fits = (4..=5).contains(&row.len()) && is_country && is_region;
    Span::parse(cell(0)?).ok()?;
    fits.then(|| Layout::from_name("geofeed")).flatten()
}

/// Brings the codes of a geofeed's row into the form that databases have.
fn as_geofeed(table: &Table, row: &mut Row) -> Result<(), RowsError> {
    let wrong = |row: &Row, column: usize, allowed: &str| {
        Err(table.columns.wrong_cell(row, column, allowed.to_string()))
    };
    let cells: Vec<String> =
        row.cells().map(|cell| String::from_utf8_lossy(cell).into_owned()).collect();
    let text = |column: usize| cells.get(column).map_or("", String::as_str);
    let country = text(1).to_ascii_uppercase();
    let is_letters = country.bytes().all(|byte| byte.is_ascii_alphabetic());
    if !matches!((country.len(), is_letters), (0, _) | (2, true)) {
        return wrong(row, 1, "countries as two letters (ISO 3166-1)");
    }
    let region = match text(2) {
        "" => "",
        text => match subdivision_code(text) {
            Some(code) => code,
            None => return wrong(row, 2, "subdivisions such as US-AL (ISO 3166-2)"),
        },
    };
    if cells.iter().any(|cell| cell.contains('\u{fffd}')) {
        // The template says which one, from the row as it is.
        return Ok(());
    }
    let region = region.to_ascii_uppercase();
    let line = row.line;
    *row = Row::of_cells(cells.iter().enumerate().map(|(column, cell)| match column {
        1 => country.as_bytes(),
        2 => region.as_bytes(),
        _ => cell.as_bytes(),
    }));
    row.line = line;
    Ok(())
}

#[cfg(test)]
#[path = "loader_tests.rs"]
mod tests;
