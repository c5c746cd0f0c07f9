//! PROXY protocol, version 2 (HAProxy's `proxy-protocol.txt`, section 2.2): who a balancer such as
//! dnsdist asks for.
//!
//! Not for: whom to believe (the configuration's `proxy_from`), version 1.
//!
//! ```text
//! signature 12 | version 2, command | family, protocol | length u16 | addresses, ports, TLVs | rest
//! ```
//!
//! A message without a right header from somebody who is to send one is no message: guessing would
//! let a client choose its own address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const HEAD_SIZE: usize = 16;
/// More than this is no header of anybody's.
const LENGTH_MAX: usize = 2048;

/// What stands at the beginning of a stream or datagram.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// A whole header: for whom, if it says so, and its size.
    Whole { source: Option<IpAddr>, size_bytes: usize },
    /// The beginning of one.
    Unfinished,
    /// Something else.
    Wrong,
}

/// Reads a header.
pub(super) fn read(bytes: &[u8]) -> Header {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Header::Wrong;
    }
    let Some(head) = bytes.first_chunk::<HEAD_SIZE>() else {
        return Header::Unfinished;
    };
    let [.., command, family, high, low] = *head;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if command >> 4 != 2 || command & 15 > 1 || length > LENGTH_MAX {
        return Header::Wrong;
    }
    let Some(rest) = bytes[HEAD_SIZE..].get(..length) else {
        return Header::Unfinished;
    };
    let size_bytes = HEAD_SIZE + length;
    // LOCAL: the balancer itself asks, such as for our health.
    if command & 15 == 0 {
        return Header::Whole { source: None, size_bytes };
    }
    let source = match family >> 4 {
        1 if length >= 12 => rest.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes).into()),
        2 if length >= 36 => rest.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes).into()),
        0 => return Header::Whole { source: None, size_bytes },
        _ => return Header::Wrong,
    };
    Header::Whole { source, size_bytes }
}

/// The message behind a datagram's header and who asked; no bytes when the header is wrong, which
/// is a message that gets no answer.
pub(super) fn of_datagram(payload: &[u8], peer: IpAddr) -> (IpAddr, &[u8]) {
    match read(payload) {
        Header::Whole { source, size_bytes } => (source.unwrap_or(peer), &payload[size_bytes..]),
        Header::Unfinished | Header::Wrong => (peer, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = (rest.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[0x20 | command, family], &length, rest].concat()
    }

    #[test]
    fn both_families_local_and_unknown_are_read_and_every_prefix_is_unfinished() {
        let v4 = header(1, 0x12, &[192, 0, 2, 7, 127, 0, 0, 1, 1, 2, 3, 4]);
        let mut address = [0; 36];
        address[..16].copy_from_slice(&"2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        let v6 = header(1, 0x22, &address);
        let (local, unknown) = (header(0, 0, &[]), header(1, 0, &[1, 2, 3]));
        let cases =
            [(v4, Some("192.0.2.7")), (v6, Some("2001:db8::7")), (local, None), (unknown, None)];
        for (bytes, source) in cases {
            let source = source.map(|text| text.parse().unwrap());
            let whole = Header::Whole { source, size_bytes: bytes.len() };
            assert_eq!(read(&bytes), whole);
            assert_eq!(read(&[&bytes[..], b"query"].concat()), whole);
            for length in 0..bytes.len() {
                assert_eq!(read(&bytes[..length]), Header::Unfinished);
            }
        }
    }

    #[test]
    fn what_is_no_header_is_no_message() {
        let short = header(1, 0x12, &[192, 0, 2, 7]);
        let version = [&SIGNATURE[..], &[0x11, 0x12, 0, 0]].concat();
        let long = [&SIGNATURE[..], &[0x21, 0x12, 0xff, 0xff]].concat();
        let peer = "127.0.0.1".parse().unwrap();
        for bytes in [&short[..], &version, &long, b"query", b"\r\n\r\nquery"] {
            assert_eq!(read(bytes), Header::Wrong, "{bytes:?}");
            assert_eq!(of_datagram(bytes, peer), (peer, &[][..]));
        }
    }
}
