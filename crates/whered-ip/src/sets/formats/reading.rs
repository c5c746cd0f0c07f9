//! How a text of a set is read: its format, one set of it, and where its blocks are.
//!
//! For: the one set of options that commands, feeds, configurations and flags have.
//! Not for: finding out the format (`guess`), reading one (its own file).
//!
//! Invariant: what no format of the text can use is refused, never passed over.

use super::csv::{self, Columns};
use super::json::{self, Layout};
use super::named::{Groups, Sets};
use super::{
    BlockColumns, Column, JsonPaths, SetEntry, SetFormat, SetTextError, access, bgpdump, dshield,
    guess, hosts, ipset, nft, peers, plain, rir,
};

/// How a text is read.
///
/// # Examples
///
/// ```
/// use whered_ip::{SetEntry, SetReading};
///
/// let dump = b"create a hash:ip\ncreate b hash:ip\nadd a 192.0.2.1\nadd b 192.0.2.2\n";
/// let mut blocks = Vec::new();
/// let reading = SetReading { set: Some("b".to_owned()), ..SetReading::default() };
/// reading.read(dump, |entry: SetEntry<'_>| blocks.push(entry.block.to_string()))?;
/// assert_eq!(blocks, ["192.0.2.2/32"]);
///
/// let error = SetReading::default().read(dump, |_| ()).unwrap_err();
/// assert_eq!(error.allowed(), "one set, or the name of one of several: a, b");
///
/// let path = Some("nets[].cidr".parse().unwrap());
/// let reading = SetReading { path, ..SetReading::default() };
/// blocks.clear();
/// reading.read(br#"{"nets": [{"cidr": "10.0.0.0/8"}]}"#, |entry| {
///     blocks.push(entry.block.to_string());
/// })?;
/// assert_eq!(blocks, ["10.0.0.0/8"]);
/// # Ok::<(), whered_ip::SetTextError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SetReading {
    /// The format; without it, the text says so.
    pub format: Option<SetFormat>,
    /// The one set of a text that has several: `blocked`, or `inet/filter/blocked` where nft has
    /// more than one of that name; in lists whose values name parts of them, one of these.
    pub set: Option<String>,
    /// Where the blocks are in JSON.
    pub path: Option<JsonPaths>,
    /// Where their values are in JSON.
    pub value_path: Option<JsonPaths>,
    /// The column, or the two columns, of the blocks in a table.
    pub column: Option<BlockColumns>,
    /// The column of the values in a table.
    pub value_column: Option<Column>,
    /// What stands between the fields of a table: `,`, `;`, a tab or `|`.
    pub delimiter: Option<u8>,
}

/// An option of [`SetReading`], by its name in commands, files and flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetOption {
    /// `format`
    Format,
    /// `source_set`
    Set,
    /// `path`
    Path,
    /// `value_path`
    ValuePath,
    /// `column`
    Column,
    /// `value_column`
    ValueColumn,
    /// `delimiter`
    Delimiter,
}

impl SetReading {
    /// The reading of a named format.
    #[must_use]
    pub fn of(format: SetFormat) -> SetReading {
        SetReading { format: Some(format), ..SetReading::default() }
    }

    /// Sets an option from its text.
    ///
    /// # Errors
    ///
    /// What is wrong with the text, and what is allowed.
    pub fn set_option(&mut self, option: SetOption, text: &str) -> Result<(), String> {
        match option {
            SetOption::Format => self.format = Some(text.parse()?),
            SetOption::Set => self.set = Some(text.to_owned()),
            SetOption::Path => self.path = Some(text.parse()?),
            SetOption::ValuePath => self.value_path = Some(text.parse()?),
            SetOption::Column => self.column = Some(text.parse()?),
            SetOption::ValueColumn => self.value_column = Some(text.parse()?),
            SetOption::Delimiter => self.delimiter = Some(csv::delimiter(text)?),
        }
        Ok(())
    }

    /// Refuses options that no text can use together.
    ///
    /// # Errors
    ///
    /// Which of them, and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let of_json = self.path.is_some() || self.value_path.is_some();
        let of_table = self.has_columns();
        let is_path_of_provider =
            self.path.is_some() && matches!(self.format, Some(SetFormat::Provider(_)));
        let refusal = match self.format {
            _ if of_json && of_table => "a path is for JSON, a column for tables: allowed is one",
            _ if is_path_of_provider => {
                "this format has its own paths: allowed is json with a path"
            }
            Some(format) if of_json && !format.is_json() => {
                "a path is for JSON: allowed are the formats json and ndjson"
            }
            Some(format) if of_table && format != SetFormat::Csv => {
                "columns and delimiters are for tables: allowed is the format csv"
            }
            Some(SetFormat::Json | SetFormat::Ndjson) | None
                if self.value_path.is_some() && self.path.is_none() && self.format.is_some() =>
            {
                "a value path needs a path to the blocks"
            }
            _ => return Ok(()),
        };
        Err(refusal.to_owned())
    }

    fn has_columns(&self) -> bool {
        self.column.is_some() || self.value_column.is_some() || self.delimiter.is_some()
    }

    /// The format of a text: the one that is named, or the one that the text begins like.
    ///
    /// # Errors
    ///
    /// Where a text may be of several formats, with their names.
    pub fn format_of(&self, text: &[u8]) -> Result<SetFormat, SetTextError> {
        match self.format {
            Some(format) => Ok(format),
            None if self.has_columns() => Ok(SetFormat::Csv),
            None if self.path.is_some() => guess::json_form(text),
            None => guess::format(text),
        }
    }

    /// Reads all entries of a text, in its order. In lists, a block inside `::ffff:0:0/96` is the
    /// IPv4 block that it stands for.
    ///
    /// # Errors
    ///
    /// At the first mistake, with its place; for options that the text cannot use; where the text
    /// has no such set, or several and none is named: then with all names.
    pub fn read<'a>(
        &self,
        text: &'a [u8],
        mut each: impl FnMut(SetEntry<'a>),
    ) -> Result<(), SetTextError> {
        // Some editors put a mark before a text, which says nothing.
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        if matches!(text, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
            let allowed = "UTF-8: this is UTF-16 (iconv -f UTF-16 -t UTF-8)";
            return Err(SetTextError::at(text, 0, 2, allowed));
        }
        let misuse = |what: String| SetTextError::at(text, 0, 1, what);
        self.check().map_err(misuse)?;
        let format = self.format_of(text)?;
        SetReading { format: Some(format), ..self.clone() }.check().map_err(misuse)?;
        let wanted = self.set.as_deref();
        let (mut sets, mut groups) = (Sets::new(wanted), Groups::new(wanted));
        // The kernel's own formats say what the kernel has; lists mean the IPv4 addresses.
        let is_list = format.is_list();
        let mut each = |entry: SetEntry<'a>| {
            let block = if is_list { entry.block.to_canonical() } else { entry.block };
            each(SetEntry { block, ..entry });
        };
        let each = &mut each;
        let is_at_path =
            matches!(format, SetFormat::Provider(_)) || format.is_json() && self.path.is_some();
        match format {
            SetFormat::Plain => plain::read(text, each),
            SetFormat::Ipset => ipset::read(text, &mut sets, each),
            SetFormat::Nft => nft::read(text, &mut sets, each),
            SetFormat::NftJson => json::read_nft(text, &mut sets, each),
            SetFormat::Csv => {
                let (block, value) = (self.column.as_ref(), self.value_column.as_ref());
                csv::read(text, &Columns { block, value, delimiter: self.delimiter }, each)
            }
            SetFormat::Provider(provider) => {
                let layout = provider.layout(self.value_path.clone());
                json::read_at(text, &layout, &mut groups, each)
            }
            SetFormat::Json | SetFormat::Ndjson => match &self.path {
                Some(path) => {
                    let is_lines = format == SetFormat::Ndjson;
                    let layout = Layout::new(path.clone(), self.value_path.clone(), is_lines);
                    json::read_at(text, &layout, &mut groups, each)
                }
                None if format == SetFormat::Json => json::read(text, each),
                None => json::read_lines(text, each),
            },
            SetFormat::Dshield => dshield::read(text, each),
            SetFormat::P2p => peers::read_p2p(text, each),
            SetFormat::Dat => peers::read_dat(text, each),
            SetFormat::Rir => rir::read(text, &mut groups, each),
            SetFormat::Bgpdump => bgpdump::read(text, each),
            SetFormat::Hosts => hosts::read(text, each),
            SetFormat::Nginx => access::read_nginx(text, &mut sets, each),
            SetFormat::Apache => access::read_apache(text, &mut sets, each),
        }?;
        if is_at_path || format == SetFormat::Rir { groups.end(text) } else { sets.end(text) }
    }
}

/// Reads all entries of a text in a named format, in its order.
///
/// # Errors
///
/// As [`SetReading::read`].
///
/// # Examples
///
/// ```
/// use whered_ip::{SetFormat, read_set};
///
/// let mut blocks = Vec::new();
/// let text = b"# two of them\n192.0.2.0/24\n192.0.2.5-192.0.2.9\n";
/// read_set(SetFormat::Plain, text, |entry| blocks.push(entry.block.to_string()))?;
/// assert_eq!(blocks, ["192.0.2.0/24", "192.0.2.5-192.0.2.9"]);
///
/// let error = read_set(SetFormat::Plain, b"192.0.2.0/33", |_| ()).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "line 1, column 11: found \"33\": allowed is a length of 0 to 32 bits"
/// );
/// # Ok::<(), whered_ip::SetTextError>(())
/// ```
pub fn read_set<'a>(
    format: SetFormat,
    text: &'a [u8],
    each: impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    SetReading::of(format).read(text, each)
}
