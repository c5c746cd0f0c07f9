//! A query or its answer as a message of dnstap, written as protocol buffers.
//!
//! Not for: how messages are sent (`frames.rs`). The fields' numbers are those of `dnstap.proto`.
//!
//! ```text
//! Dnstap   1 identity | 2 version | 14 message | 15 type: MESSAGE
//! Message  1 type | 2 family | 3 protocol | 4 client | 6 its port
//!          8, 9 time of the query | 10 query          AUTH_QUERY, AUTH_RESPONSE
//!          12, 13 time of the answer | 14 answer      AUTH_RESPONSE
//! ```

use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use whered_dns::Transport;

const MESSAGE: u64 = 1;
const AUTH_QUERY: u64 = 1;
const AUTH_RESPONSE: u64 = 2;

/// Who serves, as each message says it; empty: not said.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    pub(super) identity: Vec<u8>,
    pub(super) version: Vec<u8>,
}

/// A query, and its answer if the message is of that.
pub(super) struct TapMessage<'a> {
    pub(super) transport: Transport,
    /// Port 0: nobody knows it.
    pub(super) client: SocketAddr,
    pub(super) query: &'a [u8],
    pub(super) asked_at: SystemTime,
    pub(super) answer: Option<(&'a [u8], SystemTime)>,
}

impl TapMessage<'_> {
    /// Appends a frame of data with the message; `body` is a buffer.
    pub(super) fn append(&self, server: &Server, body: &mut Vec<u8>, out: &mut Vec<u8>) {
        body.clear();
        let kind = if self.answer.is_some() { AUTH_RESPONSE } else { AUTH_QUERY };
        number(body, 1, kind);
        let protocol = match self.transport {
            Transport::Udp => 1,
            Transport::Tcp => 2,
        };
        match self.client.ip().to_canonical() {
            IpAddr::V4(address) => {
                number(body, 2, 1);
                number(body, 3, protocol);
                bytes(body, 4, &address.octets());
            }
            IpAddr::V6(address) => {
                number(body, 2, 2);
                number(body, 3, protocol);
                bytes(body, 4, &address.octets());
            }
        }
        if self.client.port() != 0 {
            number(body, 6, self.client.port().into());
        }
        time(body, 8, self.asked_at);
        bytes(body, 10, self.query);
        if let Some((answer, answered_at)) = self.answer {
            time(body, 12, answered_at);
            bytes(body, 14, answer);
        }
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        for (field, value) in [(1, &server.identity), (2, &server.version)] {
            if !value.is_empty() {
                bytes(out, field, value);
            }
        }
        bytes(out, 14, body);
        number(out, 15, MESSAGE);
        let size = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&size.to_be_bytes());
    }
}

/// Seconds as a number and nanoseconds in four bytes, in two fields.
fn time(out: &mut Vec<u8>, field: u64, at: SystemTime) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    number(out, field, since.as_secs());
    const FIXED_32: u64 = 5;
    variable(out, (field + 1) << 3 | FIXED_32);
    out.extend_from_slice(&since.subsec_nanos().to_le_bytes());
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    variable(out, field << 3);
    variable(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    const LENGTH_DELIMITED: u64 = 2;
    variable(out, field << 3 | LENGTH_DELIMITED);
    variable(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Seven bits a byte, the lowest first.
fn variable(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_message_has_the_bytes_of_protocol_buffers() {
        let server = Server { identity: b"a".to_vec(), version: Vec::new() };
        let message = TapMessage {
            transport: Transport::Udp,
            client: "192.0.2.1:300".parse().unwrap(),
            query: b"q",
            asked_at: UNIX_EPOCH + Duration::new(300, 5),
            answer: Some((b"answer", UNIX_EPOCH + Duration::new(301, 6))),
        };
        let (mut body, mut out) = (Vec::new(), Vec::new());
        message.append(&server, &mut body, &mut out);
        let message = [
            &[8, 2, 16, 1, 24, 1, 34, 4, 192, 0, 2, 1, 48, 172, 2][..],
            &[64, 172, 2, 77, 5, 0, 0, 0, 82, 1, b'q'],
            &[96, 173, 2, 109, 6, 0, 0, 0, 114, 6],
            b"answer",
        ]
        .concat();
        let dnstap = [&[10, 1, b'a', 114, message.len() as u8][..], &message, &[120, 1]].concat();
        assert_eq!(out, [&(dnstap.len() as u32).to_be_bytes()[..], &dnstap].concat());
    }
}
