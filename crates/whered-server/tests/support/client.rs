//! A client that sends requests and takes replies apart, keeping their bytes.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One reply, taken apart.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    Double(Vec<u8>),
    Verbatim(Vec<u8>),
    /// Arrays and sets.
    Array(Vec<Value>),
    /// What answers no request.
    Push(Vec<Value>),
    /// Keys and values in turn.
    Map(Vec<Value>),
    Null,
}

/// A reply and its bytes.
#[derive(Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) value: Value,
    pub(crate) bytes: Vec<u8>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes.escape_ascii())
    }
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
    at: usize,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("the server accepts");
        // Far beyond any answer: a hanging server fails the test instead of hanging it.
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).expect("a timeout can be set");
        stream.set_nodelay(true).expect("the option can be set");
        Client { stream, input: Vec::new(), at: 0 }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Sends a request of words and gives the bytes of its reply.
    pub(crate) fn ask(&mut self, words: &[&str]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.send(&request(&words));
        String::from_utf8_lossy(&self.reply().bytes).into_owned()
    }

    /// The next reply.
    pub(crate) fn reply(&mut self) -> Reply {
        self.input.drain(..self.at);
        self.at = 0;
        let value = self.value();
        Reply { value, bytes: self.input[..self.at].to_vec() }
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = self.input.split_off(self.at);
        self.input.clear();
        self.at = 0;
        // A reset is an end as well: the server has closed with bytes unread.
        let _ = self.stream.read_to_end(&mut rest);
        rest
    }

    fn value(&mut self) -> Value {
        let line = self.line();
        let rest = &line[1..];
        let count = || -> i64 {
            std::str::from_utf8(rest).ok().and_then(|text| text.parse().ok()).expect("a count")
        };
        match line[0] {
            b'+' => Value::Simple(rest.to_vec()),
            b'-' => Value::Error(rest.to_vec()),
            b':' => Value::Integer(count()),
            b',' => Value::Double(rest.to_vec()),
            b'_' => Value::Null,
            b'$' | b'*' if count() < 0 => Value::Null,
            b'$' => Value::Bulk(self.bulk(count())),
            b'=' => Value::Verbatim(self.bulk(count())),
            b'*' | b'~' => Value::Array((0..count()).map(|_| self.value()).collect()),
            b'>' => Value::Push((0..count()).map(|_| self.value()).collect()),
            b'%' => Value::Map((0..2 * count()).map(|_| self.value()).collect()),
            other => panic!("a reply begins with {:?}", char::from(other)),
        }
    }

    fn line(&mut self) -> Vec<u8> {
        let mut searched = self.at;
        loop {
            let end = self.input[searched..].windows(2).position(|pair| pair == b"\r\n");
            if let Some(end) = end.map(|end| end + searched) {
                let line = self.input[self.at..end].to_vec();
                self.at = end + 2;
                return line;
            }
            searched = self.input.len().saturating_sub(1).max(self.at);
            self.read();
        }
    }

    fn bulk(&mut self, len: i64) -> Vec<u8> {
        let end = self.at + usize::try_from(len).expect("a length");
        while self.input.len() < end + 2 {
            self.read();
        }
        let bytes = self.input[self.at..end].to_vec();
        self.at = end + 2;
        bytes
    }

    fn read(&mut self) {
        let mut room = [0; 16 * 1024];
        let count = loop {
            match self.stream.read(&mut room) {
                // A stopped process that goes on; nothing was read.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.expect("the server answers"),
            }
        };
        assert!(count > 0, "the server has closed; so far: {}", self.input.escape_ascii());
        self.input.extend_from_slice(&room[..count]);
    }
}

/// The bytes of a request.
pub(crate) fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// So many moves of one key, a request each, to the east of each other.
pub(crate) fn moves(key: &str, latitude: &str, count: usize) -> Vec<u8> {
    let one = |n: usize| {
        let (longitude, name) = (n.to_string(), format!("m{n}"));
        request(&["GEOADD", key, &longitude, latitude, &name].map(str::as_bytes))
    };
    (0..count).flat_map(one).collect()
}
