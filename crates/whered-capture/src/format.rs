//! The formats, and how the first bytes tell them apart.
//!
//! Not for: names of files, compression (a compressed source is an error that says so).
//!
//! Binary formats have numbers to know them by. Of texts the first line decides that is neither
//! empty nor a comment: `{` begins JSON lines, an address begins lines of packets, and a line with
//! a comma, semicolon or tab is the header of a table.

use std::fmt;
use std::io::Read;

use crate::error::{CaptureError, ErrorKind, Place, quoted};
use crate::source::Source;

/// A format that [`crate::Capture`] reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// pcap as libpcap writes it, in microseconds or nanoseconds, of either byte order.
    Pcap,
    /// pcapng.
    PcapNg,
    /// Zeek's `conn.log` with tabs and `#fields`.
    ZeekTsv,
    /// Zeek's `conn.log` with a JSON object a line.
    ZeekJson,
    /// A table with a header, and commas, semicolons or tabs.
    Csv,
    /// `SRC DST PROTO SPORT DPORT` a line.
    Lines,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] = [
        Format::Pcap,
        Format::PcapNg,
        Format::ZeekTsv,
        Format::ZeekJson,
        Format::Csv,
        Format::Lines,
    ];

    /// The name in lower case, as a flag has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Pcap => "pcap",
            Format::PcapNg => "pcapng",
            Format::ZeekTsv => "zeek",
            Format::ZeekJson => "zeek-json",
            Format::Csv => "csv",
            Format::Lines => "lines",
        }
    }

    /// The format of a source that begins so, if it is one: text without a packet's line yet is
    /// none.
    #[must_use]
    pub fn of_head(head: &[u8]) -> Option<Format> {
        let binary = binary_format(head).ok().flatten();
        binary.or_else(|| text_format(head, true).ok().flatten())
    }

    /// The format of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Format> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const ALLOWED: &str = "pcap, pcapng, Zeek's conn.log, CSV with a header, or lines of \
     SRC DST PROTO SPORT DPORT";

/// How much of a text is looked at in search of its first line.
const HEAD_SIZE_MAX: usize = 64 << 10;

/// The format of what lies ahead; takes nothing away. An empty source is lines, none of them.
pub(crate) fn detect<R: Read>(source: &mut Source<R>) -> Result<Format, CaptureError> {
    let unreadable = |error| CaptureError::unreadable(Place::Offset(0), &error);
    let mut wanted = 4;
    loop {
        let head = source.fill(wanted).map_err(unreadable)?;
        let is_whole = head.len() < wanted || wanted >= HEAD_SIZE_MAX;
        if let Some(format) = binary_format(head)? {
            return Ok(format);
        }
        if let Some(format) = text_format(head, is_whole)? {
            return Ok(format);
        }
        if is_whole {
            // Nothing but comments and empty lines so far.
            return Ok(Format::Lines);
        }
        wanted = head.len() + 1;
    }
}

fn binary_format(head: &[u8]) -> Result<Option<Format>, CaptureError> {
    let compressed = match head {
        [0x1f, 0x8b, ..] => "gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        [b'B', b'Z', b'h', ..] => "bzip2",
        [0xfd, b'7', b'z', b'X', ..] => "xz",
        _ => "",
    };
    if !compressed.is_empty() {
        let found = format!("bytes compressed by {compressed}");
        let kind = ErrorKind::UnknownFormat;
        return Err(CaptureError::new(kind, Place::Offset(0), found, "uncompressed bytes"));
    }
    let Some(&magic) = head.first_chunk::<4>() else { return Ok(None) };
    Ok(match magic {
        [0x0a, 0x0d, 0x0d, 0x0a] => Some(Format::PcapNg),
        _ if crate::pcap::Magic::of(magic).is_some() => Some(Format::Pcap),
        _ => None,
    })
}

/// None where more bytes are needed.
fn text_format(head: &[u8], is_whole: bool) -> Result<Option<Format>, CaptureError> {
    let mut rest = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest);
        let line = &rest[..end.unwrap_or(rest.len())];
        if end.is_none() && !is_whole && line.len() < HEAD_SIZE_MAX {
            // A binary file is told before a line of it ends.
            return if line.contains(&0) { Err(unknown(line)) } else { Ok(None) };
        }
        let line = line.trim_ascii();
        if line.starts_with(b"#separator") || line.starts_with(b"#fields") {
            return Ok(Some(Format::ZeekTsv));
        }
        if !line.is_empty() && !line.starts_with(b"#") {
            return format_of_line(line).map(Some);
        }
        rest = rest.get(end.map_or(rest.len(), |end| end + 1)..).unwrap_or(&[]);
    }
    Ok(None)
}

fn format_of_line(line: &[u8]) -> Result<Format, CaptureError> {
    let mut words = line.split(|byte| byte.is_ascii_whitespace() || b",;".contains(byte));
    if line.contains(&0) {
        Err(unknown(line))
    } else if line.starts_with(b"{") {
        Ok(Format::ZeekJson)
    } else if words.next().is_some_and(|word| whered_ip::text::parse(word).is_some()) {
        Ok(Format::Lines)
    } else if line.iter().any(|byte| b",;\t".contains(byte)) {
        Ok(Format::Csv)
    } else {
        Err(unknown(line))
    }
}

fn unknown(line: &[u8]) -> CaptureError {
    CaptureError::new(ErrorKind::UnknownFormat, Place::Offset(0), quoted(line), ALLOWED)
}
