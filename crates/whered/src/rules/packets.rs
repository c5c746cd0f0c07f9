//! Where the packets of `whered match` come from: lines of words or of CSV.
//!
//! For: [`PacketSource`], which other sources (captures, flow logs) can stand behind as well.
//! Not for: deciding, printing.
//!
//! ```text
//! 10.1.2.3 192.0.2.1 tcp 40000 22           words: SRC DST PROTO [SPORT DPORT]
//! 10.1.2.3 192.0.2.1 icmp 3/1               of ICMP: [TYPE[/CODE]]
//!
//! time,source,destination,dport,in          CSV: the first line names columns; others than those
//! 12:01,10.1.2.3,192.0.2.1,22,eth0          of packets are left alone, which is told
//! ```
//!
//! Invariants: both addresses of a packet are of one family; a wrong line is one item of the
//! source, and the next item is the next line.
//! Cost: linear; a line is at most [`LINE_BYTES_MAX`] bytes.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use whered_rules::unknown::Fields;
use whered_rules::{Detail, Packet, cases, names};

use crate::addresses::skip_line;
use crate::outcome::{Failure, complain};

/// The longest line that is read; what is longer is no packet.
const LINE_BYTES_MAX: usize = 4000;
/// The most characters of a wrong text that are shown.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// The columns that packets have, by the names that cases use, and their short names.
const COLUMNS: [(&str, &str); 13] = [
    ("source", "src"),
    ("destination", "dst"),
    ("protocol", "proto"),
    ("source_port", "sport"),
    ("destination_port", "dport"),
    ("icmp", "icmp"),
    ("flags", "flags"),
    ("state", "state"),
    ("in", "in"),
    ("out", "out"),
    ("dscp", "dscp"),
    ("mark", "mark"),
    ("bytes", "bytes"),
];

/// A packet that owns its texts, and where it came from.
pub(super) struct Record {
    /// The line, or the number of the packet in a capture, from 1.
    pub(super) number: u64,
    pub(super) packet: Packet<'static>,
    /// The fields that its source does not tell, which are none of a packet that people write.
    pub(super) unknown: Fields,
    pub(super) input: Option<Arc<str>>,
    pub(super) output: Option<Arc<str>>,
    /// What else is known of it.
    pub(super) details: Vec<(Detail, u64)>,
    /// Its bytes, or those of a flow, where they are told.
    pub(super) bytes: Option<u64>,
}

impl Record {
    pub(super) fn packet(&self) -> Packet<'_> {
        let [input, output] = [&self.input, &self.output].map(|it| it.as_deref().unwrap_or(""));
        Packet { input, output, details: &self.details, ..self.packet }
    }

    /// Adds details that are not known of it.
    pub(super) fn assume(&mut self, details: &[(Detail, u64)]) {
        for (detail, value) in details {
            if self.details.iter().all(|(known, _)| known != detail) {
                self.details.push((detail.clone(), *value));
            }
        }
    }
}

/// One item of a source.
pub(super) enum Item {
    Packet(Record),
    /// Not a packet: one line that says where and what.
    Wrong(String),
}

/// Gives packets one after the other.
pub(super) trait PacketSource: Send {
    /// The next item; `None` at the end.
    fn next(&mut self) -> Result<Option<Item>, Failure>;

    /// Whether the next item may have to be waited for, so that answers should not wait with it.
    fn may_wait(&self) -> bool;

    /// What is to be told at the end.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What a line holds.
enum Layout {
    Words,
    /// For each cell its column, or nothing for one that is left alone.
    Columns(Vec<Option<Column>>),
}

/// What a column is about.
#[derive(PartialEq)]
enum Column {
    Field(&'static str),
    Detail(Detail),
}

/// Packets as lines of text.
pub(super) struct Lines<R> {
    name: String,
    input: io::BufReader<R>,
    layout: Option<Layout>,
    number: u64,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(name: String, input: R) -> Lines<R> {
        let input = io::BufReader::with_capacity(1 << 16, input);
        Lines { name, input, layout: None, number: 0 }
    }

    /// The next line without the blanks around it; `None` at the end.
    fn line(&mut self) -> Result<Option<Result<String, &'static str>>, Failure> {
        let mut line = Vec::new();
        let fail = |error: io::Error| Failure::Message(format!("{}: {error}", self.name));
        let limit = LINE_BYTES_MAX as u64 + 1;
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut line).map_err(fail)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if !line.ends_with(b"\n") && line.len() > LINE_BYTES_MAX {
            skip_line(&mut self.input).map_err(fail)?;
            return Ok(Some(Err("found a line of more than 4000 bytes: allowed is a packet")));
        }
        let line = String::from_utf8(line).map(|line| line.trim().to_owned());
        Ok(Some(line.map_err(|_| "found bytes that are no text: allowed is UTF-8")))
    }

    fn header(&self, line: &str) -> Result<Layout, Failure> {
        let columns: Vec<Option<Column>> = cells(line).map(named).collect();
        let wrong = |what: String| {
            let allowed: Vec<&str> = COLUMNS.iter().map(|(long, _)| *long).collect();
            let place = format!("{}:{}", self.name, self.number);
            let allowed = allowed.join(", ");
            Err(Failure::Message(format!(
                "{place}: {what}: allowed is a line that names {allowed}"
            )))
        };
        for wanted in ["source", "destination"] {
            if !columns.contains(&Some(Column::Field(wanted))) {
                return wrong(format!("found no column {wanted}"));
            }
        }
        for (place, column) in columns.iter().enumerate() {
            let name = match column {
                None => continue,
                Some(Column::Field(name)) => name,
                Some(Column::Detail(detail)) => detail.name(),
            };
            if columns[..place].contains(column) {
                return wrong(format!("found the column {name} twice"));
            }
        }
        let others = cells(line).zip(&columns).filter(|(_, name)| name.is_none());
        let others: Vec<String> = others.map(|(cell, _)| shortened(cell)).collect();
        if !others.is_empty() {
            let others = others.join(", ");
            complain(&format!(
                "{}: columns that are no packet's are left alone: {others}",
                self.name
            ));
        }
        Ok(Layout::Columns(columns))
    }

    fn item(&self, line: &str, layout: &Layout) -> Item {
        let read = match layout {
            Layout::Words => of_words(line),
            Layout::Columns(columns) => of_cells(line, columns),
        };
        match read {
            Ok(parsed) => {
                let PacketLine { packet, input, output, details, bytes } = parsed;
                let (number, unknown) = (self.number, Fields::NONE);
                Item::Packet(Record { number, packet, unknown, input, output, details, bytes })
            }
            Err(what) => Item::Wrong(format!("{}:{}: {what}", self.name, self.number)),
        }
    }
}

impl<R: Read + Send> PacketSource for Lines<R> {
    fn next(&mut self) -> Result<Option<Item>, Failure> {
        while let Some(line) = self.line()? {
            let line = match line {
                Ok(line) if line.is_empty() || line.starts_with('#') => continue,
                Ok(line) => line,
                Err(what) => {
                    let wrong = format!("{}:{}: {what}", self.name, self.number);
                    return Ok(Some(Item::Wrong(wrong)));
                }
            };
            match self.layout.take() {
                Some(layout) => {
                    let item = self.item(&line, &layout);
                    self.layout = Some(layout);
                    return Ok(Some(item));
                }
                None if line.contains(',') => self.layout = Some(self.header(&line)?),
                None => {
                    let item = self.item(&line, &Layout::Words);
                    self.layout = Some(Layout::Words);
                    return Ok(Some(item));
                }
            }
        }
        Ok(None)
    }

    fn may_wait(&self) -> bool {
        self.input.buffer().is_empty()
    }
}

/// A packet, the interfaces it came in and leaves by, and its bytes.
#[derive(Default)]
struct PacketLine {
    packet: Packet<'static>,
    input: Option<Arc<str>>,
    output: Option<Arc<str>>,
    details: Vec<(Detail, u64)>,
    bytes: Option<u64>,
}

/// The column of this name.
fn named(cell: &str) -> Option<Column> {
    let find = |(long, short): &&(&str, &str)| cell == *long || cell == *short;
    let field = COLUMNS.iter().find(find).map(|(long, _)| Column::Field(long));
    field.or_else(|| Detail::of_column(cell).map(Column::Detail))
}

/// Whether a first line is one of words, or a header that names both addresses: then nothing else
/// is looked for.
pub(super) fn is_packet_line(line: &str) -> bool {
    let line = line.trim();
    if !line.contains(',') {
        return of_words(line).is_ok();
    }
    let has = |wanted| cells(line).any(|cell| named(cell) == Some(Column::Field(wanted)));
    has("source") && has("destination")
}

fn of_words(line: &str) -> Result<PacketLine, String> {
    const ALLOWED: &str = "SRC DST PROTO [SPORT DPORT], or of ICMP [TYPE/CODE]";
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_icmp = |name: &str| matches!(names::protocol_number(name), Some(1 | 58));
    let fields: &[&str] = match words.as_slice() {
        [_, _, _] => &[],
        [_, _, protocol, _] if is_icmp(protocol) => &["icmp"],
        [_, _, _, _, _] => &["source_port", "destination_port"],
        _ => return Err(found(line, ALLOWED)),
    };
    let mut packet = Packet::default();
    let fields = ["source", "destination", "protocol"].iter().chain(fields);
    for (field, word) in fields.zip(words) {
        cases::set_field(&mut packet, field, word).map_err(|allowed| found(word, allowed))?;
    }
    checked(PacketLine { packet, ..PacketLine::default() })
}

fn of_cells(line: &str, columns: &[Option<Column>]) -> Result<PacketLine, String> {
    let count = cells(line).count();
    if count != columns.len() {
        return Err(format!("found {count} cells: allowed are {}", columns.len()));
    }
    let mut parsed = PacketLine::default();
    for (cell, column) in cells(line).zip(columns) {
        let field = match column {
            None => continue,
            Some(Column::Detail(_)) if cell.is_empty() => continue,
            Some(Column::Detail(detail)) => {
                let value = detail.parse(cell).ok_or_else(|| found(cell, "a number or a name"))?;
                parsed.details.push((detail.clone(), value));
                continue;
            }
            Some(Column::Field(field)) => *field,
        };
        match field {
            "source" | "destination" if cell.is_empty() => {
                return Err(found(cell, "an IPv4 or IPv6 address"));
            }
            _ if cell.is_empty() => {}
            "in" => parsed.input = Some(Arc::from(cell)),
            "out" => parsed.output = Some(Arc::from(cell)),
            "bytes" => {
                let bytes = cell.parse().map_err(|_| found(cell, "a number of bytes"))?;
                parsed.bytes = Some(bytes);
            }
            field => {
                let set = cases::set_field(&mut parsed.packet, field, cell);
                set.map_err(|allowed| found(cell, allowed))?;
            }
        }
    }
    checked(parsed)
}

fn checked(parsed: PacketLine) -> Result<PacketLine, String> {
    let Packet { source, destination, .. } = parsed.packet;
    if source.is_ipv4() != destination.is_ipv4() {
        return Err(found(&destination.to_string(), "an address of the source's family"));
    }
    Ok(parsed)
}

/// The cells of a line of CSV; no value of a packet holds a comma or a quote.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|cell| {
        let cell = cell.trim();
        cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"')).unwrap_or(cell)
    })
}

fn found(text: &str, allowed: &str) -> String {
    if text.is_empty() {
        return format!("found nothing: allowed is {allowed}");
    }
    format!("found '{}': allowed is {allowed}", shortened(text))
}

fn shortened(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    let cut = if shown.len() < text.len() { "..." } else { "" };
    format!("{}{cut}", shown.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<(u64, String), String>> {
        let mut lines = Lines::new("f".to_owned(), text.as_bytes());
        let mut items = Vec::new();
        while let Ok(Some(item)) = lines.next() {
            items.push(match item {
                Item::Packet(record) => {
                    let Packet { source, source_port, destination_port, .. } = record.packet;
                    let icmp = record.packet.icmp_type;
                    let text = format!(
                        "{source} {source_port} {destination_port} {icmp} {}",
                        record.packet().input
                    );
                    Ok((record.number, text))
                }
                Item::Wrong(what) => Err(what),
            });
        }
        items
    }

    #[test]
    fn words_and_csv_are_read_and_wrong_lines_keep_their_numbers() {
        let words = "# who\n\n10.0.0.1 10.0.0.2 tcp 4 22\n10.0.0.1 ::1 tcp\n1.1.1.1 2.2.2.2 icmp 8\n\
            1.1.1.1 2.2.2.2 tcp 8\n";
        let found = read(words);
        assert_eq!(found[0], Ok((3, "10.0.0.1 4 22 0 ".to_owned())));
        let wrong = "f:4: found '::1': allowed is an address of the source's family";
        assert_eq!(found[1], Err(wrong.to_owned()));
        assert_eq!(found[2], Ok((5, "1.1.1.1 0 0 8 ".to_owned())));
        assert!(
            matches!(&found[3], Err(what) if what.starts_with("f:6: found '1.1.1.1 2.2.2.2 tcp 8'"))
        );
        let found =
            read("dst,src,dport,in\n::2,::1,22,\"eth0\"\n::2,,22,\n::2,::1\n::2,::3,99999,\n");
        assert_eq!(found[0], Ok((2, "::1 0 22 0 eth0".to_owned())));
        assert_eq!(
            found[1],
            Err("f:3: found nothing: allowed is an IPv4 or IPv6 address".to_owned())
        );
        assert_eq!(found[2], Err("f:4: found 2 cells: allowed are 4".to_owned()));
        assert!(matches!(&found[3], Err(what) if what.starts_with("f:5: found '99999': allowed")));
    }

    #[test]
    fn a_line_without_end_takes_no_memory_and_the_next_one_is_read() {
        let text = format!("1.1.1.1 2.2.2.2 6\n{}\n1.1.1.1 2.2.2.2 17\n", "x".repeat(1_000_000));
        let found = read(&text);
        assert!(matches!(&found[1], Err(what) if what.starts_with("f:2: found a line of more")));
        assert!(matches!(&found[2], Ok((3, _))));
    }
}
