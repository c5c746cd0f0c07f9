//! RESP2 replies as values, and a blocking connection that reads them.
//!
//! Not for measuring: every reply is taken apart. The connection gives an error instead of waiting
//! for ever, so that a server that hangs is found out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::geo::push_command;

/// Far beyond any answer, the stalled disk's included.
const REPLY_LIMIT: Duration = Duration::from_secs(30);
const ELEMENTS_MAX: usize = 1 << 20;

/// A reply. Bytes that are no text appear escaped: only comparisons are made with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(String),
    Array(Vec<Value>),
    Null,
}

impl Value {
    pub(super) fn ok() -> Value {
        Value::Simple("OK".to_owned())
    }

    pub(super) fn count(count: usize) -> Value {
        Value::Integer(count as i64)
    }

    /// The text of a string.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Simple(text) | Value::Bulk(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of an array.
    pub(super) fn elements(&self) -> Option<&[Value]> {
        match self {
            Value::Array(elements) => Some(elements),
            _ => None,
        }
    }
}

/// A connection.
pub(super) struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Result<Client, String> {
        let fault = |error: std::io::Error| format!("connecting to {address}: {error}");
        let stream = TcpStream::connect(address).map_err(fault)?;
        stream.set_nodelay(true).map_err(fault)?;
        stream.set_read_timeout(Some(REPLY_LIMIT)).map_err(fault)?;
        Ok(Client { reader: BufReader::new(stream) })
    }

    pub(super) fn send(&mut self, requests: &[Vec<String>]) -> Result<(), Broken> {
        let mut bytes = Vec::new();
        for request in requests {
            let words: Vec<&[u8]> = request.iter().map(String::as_bytes).collect();
            push_command(&mut bytes, &words);
        }
        self.reader.get_mut().write_all(&bytes).map_err(|error| Broken::of(&error))
    }

    pub(super) fn reply(&mut self) -> Result<Value, Broken> {
        let line = self.line()?;
        let (mark, rest) = line.split_at_checked(1).ok_or_else(|| Broken::Odd(line.clone()))?;
        let number = || rest.parse::<i64>().map_err(|_| Broken::Odd(line.clone()));
        Ok(match mark {
            "+" => Value::Simple(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            ":" => Value::Integer(number()?),
            "$" | "*" if number()? < 0 => Value::Null,
            "$" => {
                let mut bytes = vec![0; number()? as usize + 2];
                self.reader.read_exact(&mut bytes).map_err(|error| Broken::of(&error))?;
                bytes.truncate(bytes.len() - 2);
                Value::Bulk(text_of(&bytes))
            }
            "*" if number()? as usize <= ELEMENTS_MAX => {
                let elements = (0..number()?).map(|_| self.reply());
                Value::Array(elements.collect::<Result<_, _>>()?)
            }
            _ => return Err(Broken::Odd(line)),
        })
    }

    /// Asks one thing; an error reply is a value.
    pub(super) fn ask(&mut self, words: &[&str]) -> Result<Value, String> {
        let request = words.iter().map(|word| (*word).to_owned()).collect();
        let asked = self.send(&[request]).and_then(|()| self.reply());
        asked.map_err(|broken| format!("{}: {broken}", words[0]))
    }

    fn line(&mut self) -> Result<String, Broken> {
        let mut bytes = Vec::new();
        self.reader.read_until(b'\n', &mut bytes).map_err(|error| Broken::of(&error))?;
        match bytes.strip_suffix(b"\r\n") {
            Some(line) => Ok(text_of(line)),
            None if bytes.is_empty() || !bytes.ends_with(b"\n") => Err(Broken::Closed),
            None => Err(Broken::Odd(text_of(&bytes))),
        }
    }
}

fn text_of(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.escape_ascii().to_string(),
    }
}

/// Why a connection cannot be used any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The server has gone, which is what these tests do to it.
    Closed,
    /// It is there and does not answer.
    Silent,
    /// What came is no RESP2.
    Odd(String),
}

impl Broken {
    fn of(error: &std::io::Error) -> Broken {
        match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => Broken::Silent,
            _ => Broken::Closed,
        }
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Closed => formatter.write_str("the server closed the connection"),
            Broken::Silent => write!(formatter, "no answer in {} seconds", REPLY_LIMIT.as_secs()),
            Broken::Odd(what) => write!(formatter, "found {what:?}, which is no RESP2 reply"),
        }
    }
}
