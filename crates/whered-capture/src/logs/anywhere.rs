//! The addresses in a line of any text.
//!
//! Not for lines whose layout is known. A candidate is a run of the characters that addresses
//! consist of, so that neither `1.2.3.4.5` nor a time holds one. A dot or colon behind it is left
//! out.

use std::net::IpAddr;
use std::ops::Range;

use whered_ip::text::{is_public, read};

/// Whether addresses have such a byte.
fn is_part(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || byte == b'.' || byte == b':'
}

/// The first public address of a line; if there is none, the first address.
pub(super) fn find(line: &[u8]) -> Option<Range<usize>> {
    let mut first = None;
    let mut at = 0;
    while let Some(start) = line.get(at..)?.iter().position(|&byte| is_part(byte)) {
        let start = at + start;
        let length = line.get(start..)?.iter().position(|&byte| !is_part(byte));
        let end = length.map_or(line.len(), |length| start + length);
        at = end;
        // `ip10.0.0.1` and `10.0.0.1abc` are names.
        let is_name = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        let before = start.checked_sub(1).and_then(|before| line.get(before));
        if is_name(before) || is_name(line.get(end)) {
            continue;
        }
        let Some((place, address)) = candidate(line, start..end) else { continue };
        if is_public(address) {
            return Some(place);
        }
        first = first.or(Some(place));
    }
    first
}

fn candidate(line: &[u8], run: Range<usize>) -> Option<(Range<usize>, IpAddr)> {
    let text = line.get(run.clone())?;
    // The shortest are `::1` and `1.1.1.1`.
    let has = |wanted: u8| text.iter().filter(|&&byte| byte == wanted).count();
    if has(b'.') < 3 && has(b':') < 2 {
        return None;
    }
    let kept = text.len() - text.iter().rev().take_while(|byte| b".:".contains(byte)).count();
    for end in [text.len(), kept] {
        if let Some(address) = text.get(..end).and_then(read) {
            return Some((run.start..run.start + end, address));
        }
    }
    None
}

/// The address behind the last ` from `, behind `rhost=`, or the first one: as sshd writes it. A
/// name that a client has sent may hold an address as well, and precedes it.
pub(super) fn of_sshd(message: &[u8]) -> Option<Range<usize>> {
    for mark in [b" from ".as_slice(), b"rhost=", b" port "] {
        let is_before = mark == b" port ";
        let Some(at) = memchr::memmem::rfind(message, mark) else { continue };
        let word = if is_before {
            let start = message.get(..at)?.iter().rposition(|&byte| byte == b' ');
            start.map_or(0, |start| start + 1)..at
        } else {
            let start = at + mark.len();
            let length = message.get(start..)?.iter().position(|&byte| byte == b' ');
            start..length.map_or(message.len(), |length| start + length)
        };
        let text = message.get(word.clone())?;
        let kept = text.len() - text.iter().rev().take_while(|byte| b".:,".contains(byte)).count();
        for end in [text.len(), kept] {
            if read(text.get(..end)?).is_some() {
                return Some(word.start..word.start + end);
            }
        }
    }
    find(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_public_address_is_found_and_no_part_of_a_name_or_number() {
        let found = |line: &'static str| find(line.as_bytes()).map(|place| &line[place]);
        for (line, expected) in [
            ("from 10.0.0.1 via 8.8.8.8, ok", Some("8.8.8.8")),
            ("from 10.0.0.1.", Some("10.0.0.1")),
            ("peer [2001:4860::1]:443 x", Some("2001:4860::1")),
            ("at 12:13:14 8.8.8.8:53 said", Some("8.8.8.8:53")),
            ("client=8.8.8.8", Some("8.8.8.8")),
            ("ip8.8.8.8 8.8.8.8x 1.2.3.4.5 v1.2.3", None),
            ("8.8.8.8: gone", Some("8.8.8.8")),
            ("12:13:14 and aa:bb:cc:dd:ee:ff", None),
            ("", None),
        ] {
            assert_eq!(found(line), expected, "{line}");
        }
    }

    #[test]
    fn a_name_that_looks_like_an_address_is_not_that_of_the_client_of_sshd() {
        let found = |line: &'static str| of_sshd(line.as_bytes()).map(|place| &line[place]);
        for (line, expected) in [
            ("Failed password for invalid user 9.9.9.9 from 1.2.3.4 port 22 ssh2", "1.2.3.4"),
            ("Invalid user from 8.8.8.8 from 1.2.3.4 port 22", "1.2.3.4"),
            ("Connection closed by authenticating user root 1.2.3.4 port 22 [preauth]", "1.2.3.4"),
            ("Received disconnect from 1.2.3.4: 11: Bye", "1.2.3.4"),
            ("authentication failure; logname= uid=0 rhost=1.2.3.4  user=root", "1.2.3.4"),
            ("Connection from 2001:db8::1 port 5 on 10.0.0.1 port 22", "2001:db8::1"),
            ("Did not receive identification string from 1.2.3.4", "1.2.3.4"),
        ] {
            assert_eq!(found(line), Some(expected), "{line}");
        }
    }
}
