//! Packets that the kernel's packet filter logs: LOG of iptables, `log` of nft, NFLOG by ulogd's
//! LOGEMU, and what ufw and firewalld have them write.
//!
//! Not for syslog's prefix. The words are those of the kernel (`net/ipv4/netfilter/nf_log_ipv4.c`).
//! An ICMP error quotes the packet that it is about in brackets, which is left out. Of two words
//! with one name the first counts: that of the IP header.
//!
//! ```text
//! [  12.345] [UFW BLOCK] IN=eth0 OUT= MAC=... SRC=192.0.2.1 DST=192.0.2.2 ... PROTO=TCP ...
//!            log_prefix
//! ```

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem::{Finder, FinderRev};

use super::tokens::word_length;
use super::{ABSENT, LogFault};

// Making a finder costs as much as its search in a line.
static OUT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" OUT="));
static IN: LazyLock<FinderRev<'static>> = LazyLock::new(|| FinderRev::new(b"IN="));
static URGENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" URGP="));

/// The columns: the text before the packet, the kernel's words, and the flags of TCP.
pub(super) const COLUMNS: &[&str] = &[
    "log_prefix",
    "IN",
    "OUT",
    "PHYSIN",
    "PHYSOUT",
    "MAC",
    "SRC",
    "DST",
    "LEN",
    "TOS",
    "PREC",
    "TC",
    "TTL",
    "HOPLIMIT",
    "ID",
    "FRAG",
    "PROTO",
    "SPT",
    "DPT",
    "TYPE",
    "CODE",
    "MARK",
    "UID",
    "GID",
    "flags",
];

/// The column of the flags.
const FLAGS: usize = COLUMNS.len() - 1;

/// Which column a word's name is.
fn column(name: &[u8]) -> Option<usize> {
    Some(match name {
        b"PHYSIN" => 3,
        b"PHYSOUT" => 4,
        b"MAC" => 5,
        b"SRC" => 6,
        b"DST" => 7,
        b"LEN" => 8,
        b"TOS" => 9,
        b"PREC" => 10,
        b"TC" => 11,
        b"TTL" => 12,
        b"HOPLIMIT" => 13,
        b"ID" => 14,
        b"PROTO" => 16,
        b"SPT" => 17,
        b"DPT" => 18,
        b"TYPE" => 19,
        b"CODE" => 20,
        b"MARK" => 21,
        b"UID" => 22,
        b"GID" => 23,
        _ => return None,
    })
}

/// The column of a fragment's offset, which is written with a colon.
const FRAGMENT: usize = 15;
const SOURCE: usize = 6;
const DESTINATION: usize = 7;

/// Appends the places of the columns, `start` added.
pub(super) fn split(
    line: &[u8],
    start: usize,
    parts: &mut Vec<Range<usize>>,
) -> Result<(), LogFault> {
    let out = OUT.find(line).ok_or(LogFault::NotALogLine)?;
    let head = line.get(..out).unwrap_or_default();
    let input = IN.rfind(head).ok_or(LogFault::NotALogLine)?;
    let base = parts.len();
    parts.resize(base + COLUMNS.len(), ABSENT);
    let Some(columns) = parts.get_mut(base..) else { return Err(LogFault::NotALogLine) };
    let mut set = |column: usize, place: Range<usize>| {
        if let Some(known) = columns.get_mut(column).filter(|known| **known == ABSENT) {
            *known = start + place.start..start + place.end;
        }
    };
    let prefix = behind_clock(line, input)..input;
    if !prefix.is_empty() {
        set(0, prefix);
    }
    set(1, input + 3..out);
    let mut at = out + 1;
    while at < line.len() {
        let rest = line.get(at..).unwrap_or_default();
        let size = word_length(rest);
        let word = rest.get(..size).unwrap_or_default();
        if word.first() == Some(&b'[') {
            break;
        }
        match word.iter().position(|byte| *byte == b'=') {
            Some(3) if word.starts_with(b"OUT") => set(2, at + 4..at + size),
            Some(length) => {
                let name = word.get(..length).unwrap_or_default();
                if let Some(column) = column(name) {
                    set(column, at + length + 1..at + size);
                } else if name == b"RES" {
                    set(FLAGS, flags(line, at + size));
                }
            }
            None if word.starts_with(b"FRAG:") => set(FRAGMENT, at + 5..at + size),
            None => {}
        }
        at += size + 1;
    }
    let is_here = |column: usize| columns.get(column).is_some_and(|place| *place != ABSENT);
    if is_here(SOURCE) && is_here(DESTINATION) {
        return Ok(());
    }
    parts.truncate(base);
    Err(LogFault::NotALogLine)
}

/// The words of the flags, which are between `RES=` and `URGP=`; empty if none is set.
fn flags(line: &[u8], from: usize) -> Range<usize> {
    let rest = line.get(from..).unwrap_or_default();
    let Some(end) = URGENT.find(rest) else { return from..from };
    let first = from + usize::from(end > 0);
    first..from + end
}

/// Behind the kernel's clock, `[ 12.345678] `.
fn behind_clock(line: &[u8], end: usize) -> usize {
    let head = line.get(..end).unwrap_or_default();
    let Some(close) = memchr(b']', head).filter(|_| head.first() == Some(&b'[')) else { return 0 };
    let clock = head.get(1..close).unwrap_or_default();
    let is_clock = clock.contains(&b'.')
        && clock.iter().all(|byte| byte.is_ascii_digit() || b" .".contains(byte));
    if is_clock && head.get(close + 1) == Some(&b' ') { close + 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(line: &str) -> Result<Vec<(&str, &str)>, LogFault> {
        let mut parts = Vec::new();
        split(line.as_bytes(), 0, &mut parts)?;
        let named = COLUMNS.iter().zip(parts).filter(|(_, place)| *place != ABSENT);
        Ok(named.map(|(name, place)| (*name, &line[place])).collect())
    }

    #[test]
    fn the_words_of_the_kernel_are_columns_and_the_quoted_packet_of_an_error_is_none() {
        let line = "[ 12.345678] [UFW BLOCK] IN=eth0 OUT= MAC=aa SRC=192.0.2.1 DST=192.0.2.2 LEN=60 TOS=0x00 \
            PREC=0x00 TTL=64 ID=7 DF PROTO=TCP SPT=40000 DPT=22 WINDOW=29200 RES=0x00 CWR ACK URGP=0 MARK=0x1 ";
        let found = columns(line).unwrap();
        for part in [
            ("log_prefix", "[UFW BLOCK] "),
            ("IN", "eth0"),
            ("OUT", ""),
            ("SRC", "192.0.2.1"),
            ("DPT", "22"),
            ("flags", "CWR ACK"),
            ("MARK", "0x1"),
        ] {
            assert!(found.contains(&part), "{part:?} in {found:?}");
        }
        let line = "DROP:IN= OUT=eth1 SRC=::1 DST=::2 LEN=96 TC=0 HOPLIMIT=1 FLOWLBL=0 PROTO=ICMPv6 TYPE=1 CODE=3 \
            [SRC=::9 DST=::8 PROTO=UDP SPT=1 DPT=2 LEN=8 ]";
        let found = columns(line).unwrap();
        assert!(found.contains(&("log_prefix", "DROP:")) && found.contains(&("SRC", "::1")));
        assert!(found.contains(&("CODE", "3")) && !found.iter().any(|(name, _)| *name == "SPT"));
        for line in
            ["", "x", "IN=eth0 OUT=", " OUT= SRC=1.1.1.1 DST=2.2.2.2", "IN= OUT= SRC=1.1.1.1"]
        {
            assert_eq!(columns(line), Err(LogFault::NotALogLine), "{line}");
        }
    }
}
