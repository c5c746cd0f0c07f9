//! The quick way to read the data of the types that most records have.
//!
//! Not for: mistakes. Whatever is not plainly right is left to `rdata.rs` and with it to the
//! `domain` crate, whose judgement and whose words count; what is taken here reads the same there,
//! which a test compares. This way takes a tenth of the time, and a zone of a million names is
//! little else than these types.

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
    if token.raw.contains(&b'\\') {
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
