//! The quick way to read the data of the types that most records have.
//!
//! Not for: mistakes. Whatever is not plainly right is left to `data.rs`, whose judgement and whose
//! words count; what is taken here reads the same there, which a test compares. A zone of a million
//! names has little else than these types.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::lexer::Token;
use crate::code::RecordType;
use crate::name::append_text;

/// Appends the wire form of the data to `wire`, if it is plain. Otherwise rubbish may follow.
pub(super) fn read(
    record_type: RecordType,
    tokens: &[Token<'_>],
    origin: &[u8],
    wire: &mut Vec<u8>,
) -> Option<()> {
    let apart = |token: &Token<'_>| token.spaced && !token.quoted && !token.raw.starts_with(b"\\");
    if !tokens.iter().all(apart) {
        return if record_type == RecordType::TXT { text(tokens, wire) } else { None };
    }
    match (record_type, tokens) {
        (RecordType::A, [address]) => {
            let address: Ipv4Addr = address.utf8()?.parse().ok()?;
            wire.extend_from_slice(&address.octets());
        }
        (RecordType::AAAA, [address]) => {
            let address: Ipv6Addr = address.utf8()?.parse().ok()?;
            wire.extend_from_slice(&address.octets());
        }
        (RecordType::NS | RecordType::CNAME | RecordType::PTR | RecordType::DNAME, [target]) => {
            name(target, origin, wire)?;
        }
        (RecordType::MX, [preference, exchange]) => {
            wire.extend_from_slice(&number::<u16>(preference)?.to_be_bytes());
            name(exchange, origin, wire)?;
        }
        (RecordType::SRV, [priority, weight, port, target]) => {
            for token in [priority, weight, port] {
                wire.extend_from_slice(&number::<u16>(token)?.to_be_bytes());
            }
            name(target, origin, wire)?;
        }
        (RecordType::DS, [tag, algorithm, kind, digest]) => {
            wire.extend_from_slice(&number::<u16>(tag)?.to_be_bytes());
            wire.push(number(algorithm)?);
            wire.push(number(kind)?);
            hexadecimal(digest, wire)?;
        }
        (RecordType::TXT, _) => return text(tokens, wire),
        _ => return None,
    }
    Some(())
}

fn name(token: &Token<'_>, origin: &[u8], wire: &mut Vec<u8>) -> Option<()> {
    if token.raw == b"@" {
        wire.extend_from_slice(origin);
        return Some(());
    }
    if token.raw.contains(&b'\\') || !token.raw.is_ascii() {
        return None;
    }
    append_text(token.raw, origin, wire).ok()
}

/// A decimal number without a zero in front.
fn number<N: std::str::FromStr>(token: &Token<'_>) -> Option<N> {
    match token.raw {
        [b'0'] | [b'1'..=b'9', ..] => token.utf8()?.parse().ok(),
        _ => None,
    }
}

fn hexadecimal(token: &Token<'_>, wire: &mut Vec<u8>) -> Option<()> {
    let (pairs, []) = token.raw.as_chunks::<2>() else {
        return None;
    };
    for [high, low] in pairs {
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        wire.push((digit(high)? << 4 | digit(low)?) as u8);
    }
    (!pairs.is_empty()).then_some(())
}

/// Strings without escapes.
fn text(tokens: &[Token<'_>], wire: &mut Vec<u8>) -> Option<()> {
    for token in tokens {
        if !token.spaced || token.raw.contains(&b'\\') {
            return None;
        }
        wire.push(u8::try_from(token.raw.len()).ok()?);
        wire.extend_from_slice(token.raw);
    }
    (!tokens.is_empty()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::super::data;
    use super::super::lexer::Lexer;
    use super::super::rdata::check;
    use super::*;
    use crate::name::Name;

    /// Every text of few pieces, by either way.
    #[test]
    fn what_is_taken_here_reads_the_same_part_by_part() {
        let pieces = [
            "0",
            "1",
            "01",
            "65535",
            "65536",
            "+1",
            "-1",
            "256",
            "www",
            "www.",
            "@",
            ".",
            "*",
            "a..b",
            "1.2.3.4",
            "1.2.3",
            "01.2.3.4",
            "1.2.3.4.",
            "::",
            "::1",
            "::ffff:1.2.3.4",
            "1:2:3:4:5:6:7:8",
            "0aF0",
            "0a0",
            "xx",
            "\\#",
            "\\065",
            "a\\.b",
            "\"q\"",
            "\"\"",
            "\"a b\"",
            "\"@\"",
            "\"x\"y",
        ];
        let types = [1, 2, 5, 12, 39, 15, 16, 28, 33, 43].map(RecordType);
        let origin: Name = "example.com".parse().unwrap();
        let mut taken = 0;
        let mut compare = |text: &str| {
            let mut tokens = Vec::new();
            let text = format!("x {text}");
            assert!(Lexer::new(text.as_bytes()).next_entry(&mut tokens).unwrap());
            for record_type in types {
                let mut wire = Vec::new();
                if read(record_type, &tokens[1..], origin.as_wire(), &mut wire).is_some() {
                    let mut expected = Vec::new();
                    let read =
                        data::read(record_type, &tokens[1..], origin.as_wire(), &mut expected);
                    assert_eq!(read.ok(), Some(None), "{record_type} {text}");
                    assert_eq!(expected, wire, "{record_type} {text}");
                    assert_eq!(check(record_type, &wire), Ok(()));
                    taken += 1;
                }
            }
        };
        for a in pieces {
            compare(a);
            for b in pieces {
                compare(&format!("{a} {b}"));
                compare(&format!("{a} 1 2 {b}"));
                compare(&format!("1 {a} 2 {b}"));
            }
        }
        assert!(taken > 1000, "{taken}");
    }
}
