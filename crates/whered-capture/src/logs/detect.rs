//! Which log format the first lines of an input are of.
//!
//! Not for tables and JSON. A format is found if most of the lines are of it; a header is found
//! whatever the other lines are.

use super::{Columns, LogFormat, prefix};

/// How many lines are looked at.
pub const DETECTED_LINES: usize = 100;

/// What the first lines of a log say of its columns; nothing if they are of no known format.
///
/// ```
/// use whered_capture::logs::detect;
/// let lines: [&[u8]; 2] = [b"#Fields: date c-ip", b"2026-11-20 192.0.2.1"];
/// assert_eq!(detect(&lines).unwrap().names(), ["date", "c-ip"]);
/// ```
#[must_use]
pub fn detect(lines: &[&[u8]]) -> Option<Columns> {
    if let Some(columns) = by_header(lines) {
        return Some(columns);
    }
    let records: Vec<&[u8]> = lines.iter().copied().filter(|line| !line.is_empty()).collect();
    let prefixes: Vec<Option<prefix::Prefix>> =
        records.iter().map(|line| prefix::of(line)).collect();
    // How many lines a format knows as they are, and how many behind a prefix.
    let scores = |format: LogFormat| {
        let behind = |(line, prefix): &(&&[u8], &Option<prefix::Prefix>)| {
            let Some(prefix) = prefix else { return false };
            let program = line.get(prefix.program.clone()).unwrap_or_default();
            format.knows(line.get(prefix.message..).unwrap_or_default(), program)
        };
        let pairs = records.iter().zip(&prefixes);
        let behind_count = pairs.clone().filter(behind).count();
        let plain = pairs.filter(|pair| !behind(pair) && format.knows(pair.0, b""));
        (plain.count(), behind_count)
    };
    let mut best = (0, false, LogFormat::Sshd);
    for format in LogFormat::DETECTED {
        let (plain, behind) = scores(format);
        if plain + behind > best.0 {
            best = (plain + behind, behind > 0, format);
        }
    }
    let (found, has_prefix, format) = best;
    if 2 * found > records.len() {
        return Some(Columns::named(format, has_prefix));
    }
    // Lines of several programs: the address is somewhere in their text.
    let has_program = |prefix: &&Option<prefix::Prefix>| {
        prefix.as_ref().is_some_and(|prefix| !prefix.program.is_empty())
    };
    let of_programs = prefixes.iter().filter(has_program).count();
    (2 * of_programs > records.len()).then(|| Columns::named(LogFormat::Sshd, true))
}

/// The columns of a format that is named by its user; syslog's prefix may precede some lines.
#[must_use]
pub fn named(format: LogFormat, lines: &[&[u8]]) -> Columns {
    let is_behind = |line: &&[u8]| {
        let is_known = format != LogFormat::Netfilter && format.knows(line, b"");
        let prefix = prefix::of(line).filter(|_| !is_known);
        prefix.is_some_and(|prefix| {
            let program = line.get(prefix.program.clone()).unwrap_or_default();
            !program.is_empty()
                || format.knows(line.get(prefix.message..).unwrap_or_default(), program)
        })
    };
    Columns::named(format, format != LogFormat::Anywhere && lines.iter().any(is_behind))
}

/// The header of W3C, CloudFront, Zeek or flow logs.
#[must_use]
pub fn by_header(lines: &[&[u8]]) -> Option<Columns> {
    let mut separator = None;
    for line in lines {
        if let Some(text) = line.strip_prefix(b"#separator ") {
            separator = match text {
                [b'\\', b'x', digits @ ..] => {
                    let digits = std::str::from_utf8(digits).ok();
                    digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())
                }
                [byte] => Some(*byte),
                _ => None,
            };
        }
        if let Some(columns) = Columns::of_header(line, separator) {
            // CloudFront has tabs between the values and blanks between the names.
            let first = lines.iter().find(|line| !line.is_empty() && line.first() != Some(&b'#'));
            let has_tabs = separator.is_none() && first.is_some_and(|line| line.contains(&b'\t'));
            return Some(if has_tabs { columns.between_tabs() } else { columns });
        }
        if !line.is_empty() && line.first() != Some(&b'#') {
            return None;
        }
    }
    None
}

/// Whether a line names the columns of a VPC flow log.
pub(super) fn is_flow_header(line: &[u8]) -> bool {
    let mut names = line.split(|&byte| byte == b' ');
    let has = |wanted: &[u8]| line.split(|&byte| byte == b' ').any(|name| name == wanted);
    let is_name = |name: &[u8]| {
        !name.is_empty()
            && name.iter().all(|byte| byte.is_ascii_lowercase() || b"-_0123456789".contains(byte))
    };
    has(b"srcaddr") && has(b"dstaddr") && names.all(is_name)
}

impl Columns {
    /// Takes tabs between the values.
    fn between_tabs(mut self) -> Columns {
        if let super::Kind::Header { separator, .. } = &mut self.kind {
            *separator = b'\t';
        }
        self
    }
}
