//! Replies of a server to questions: texts, integers, arrays, errors (RESP2).
//!
//! For: what a cluster and Sentinels say about themselves. Not for: dumps and the stream.
//!
//! Bounds: a reply has at most [`REPLY_BYTES_MAX`], comes within [`Patience::silence`], and
//! takes memory for what has come, not for what it claims. Cost: each read parses the reply anew.
//!
//! [`Patience::silence`]: crate::Patience::silence

use std::time::Instant;

use crate::connection::Connection;
use crate::error::{LinkError, one_line};

/// The longest reply. What a cluster of 1000 nodes says of itself takes a tenth of it.
pub const REPLY_BYTES_MAX: usize = 4 << 20;
/// How deep arrays may be in each other.
const DEPTH_MAX: usize = 8;
/// The longest line before a text: a letter, twenty digits and the end.
const HEADER_BYTES_MAX: usize = 64;

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A text of either form.
    Text(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// An error, with its code.
    Error(String),
    /// Some replies.
    Array(Vec<Reply>),
    /// No text, or no array.
    Null,
}

impl Reply {
    /// The text, if it is one and UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Reply::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    #[must_use]
    pub fn array(&self) -> Option<&[Reply]> {
        match self {
            Reply::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The integer.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self {
            Reply::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The value behind a key, where keys and values take turns.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&Reply> {
        let mut pairs = self.array()?.chunks_exact(2);
        pairs.find(|pair| pair[0].text() == Some(key)).map(|pair| &pair[1])
    }
}

impl Connection {
    /// Sends words and takes the reply.
    ///
    /// # Errors
    /// The connection ends, the reply does not come in time or is no reply. An error of the
    /// server is a reply.
    pub fn request(&mut self, words: &[&str]) -> Result<Reply, LinkError> {
        self.send(words)?;
        self.reply()
    }

    /// Sends several requests, whose words may be no text, and takes their replies.
    pub(crate) fn request_all(&mut self, requests: &[Vec<&[u8]>]) -> Result<Vec<Reply>, LinkError> {
        for words in requests {
            self.send_bytes(words.iter().copied())?;
        }
        requests.iter().map(|_| self.reply()).collect()
    }

    fn reply(&mut self) -> Result<Reply, LinkError> {
        let until = Instant::now() + self.patience().silence;
        loop {
            match parse(self.waiting(), 0) {
                Ok(Some((reply, used))) => {
                    self.take(used);
                    return Ok(reply);
                }
                Ok(None) if self.waiting().len() > REPLY_BYTES_MAX => {
                    let what = format!("sends a reply of more than {REPLY_BYTES_MAX} bytes");
                    return Err(LinkError::new(self.name(), what));
                }
                Ok(None) => {}
                Err(ReplyFault::TooLong) => {
                    let what = format!("has a reply of more than {REPLY_BYTES_MAX} bytes");
                    return Err(LinkError::refusal(self.name(), what));
                }
                Err(ReplyFault::NotAReply) => {
                    return Err(LinkError::new(
                        self.name(),
                        "does not answer as a Redis does; allowed: the RESP port of a Redis or Valkey",
                    ));
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.fill(left)? {
                return Err(LinkError::new(self.name(), "does not answer in time"));
            }
        }
    }
}

#[derive(Debug)]
enum ReplyFault {
    NotAReply,
    /// It says that a text is longer than [`REPLY_BYTES_MAX`].
    TooLong,
}

use ReplyFault::NotAReply;

/// A reply and its length; `None` while it is not whole.
fn parse(bytes: &[u8], depth: usize) -> Result<Option<(Reply, usize)>, ReplyFault> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        let is_line = matches!(bytes.first(), None | Some(b'+' | b'-'));
        return if is_line || bytes.len() <= HEADER_BYTES_MAX { Ok(None) } else { Err(NotAReply) };
    };
    let Some((kind, line)) = bytes[..end].split_first() else { return Err(NotAReply) };
    let behind = end + 2;
    let number = || std::str::from_utf8(line).ok().and_then(|text| text.parse::<i64>().ok());
    let number = |_: ()| number().ok_or(NotAReply);
    Ok(Some(match kind {
        b'+' => (Reply::Text(line.to_vec()), behind),
        b'-' => (Reply::Error(one_line(&String::from_utf8_lossy(line), 300)), behind),
        b':' => (Reply::Integer(number(())?), behind),
        b'$' | b'*' if number(())? == -1 => (Reply::Null, behind),
        b'$' => {
            let length = usize::try_from(number(())?).map_err(|_| NotAReply)?;
            if length > REPLY_BYTES_MAX {
                return Err(ReplyFault::TooLong);
            }
            let Some(text) = bytes.get(behind..behind + length + 2) else { return Ok(None) };
            let text = text.strip_suffix(b"\r\n").ok_or(NotAReply)?;
            (Reply::Text(text.to_vec()), behind + length + 2)
        }
        b'*' => {
            let count = usize::try_from(number(())?).map_err(|_| NotAReply)?;
            if depth == DEPTH_MAX || count > REPLY_BYTES_MAX {
                return Err(NotAReply);
            }
            let (mut elements, mut used) = (Vec::new(), behind);
            for _ in 0..count {
                let Some((element, length)) = parse(&bytes[used..], depth + 1)? else {
                    return Ok(None);
                };
                elements.push(element);
                used += length;
            }
            (Reply::Array(elements), used)
        }
        _ => return Err(NotAReply),
    }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A whole reply.
    pub(crate) fn reply_of(bytes: &[u8]) -> Reply {
        let (reply, used) = parse(bytes, 0).expect("a reply").expect("it is whole");
        assert_eq!(used, bytes.len());
        reply
    }

    #[test]
    fn a_reply_is_read_when_all_of_it_has_come() {
        let bytes = b"*6\r\n+OK\r\n:-7\r\n$4\r\na\r\nb\r\n*0\r\n$-1\r\n-ERR no\x01\r\n";
        let elements = vec![
            Reply::Text(b"OK".to_vec()),
            Reply::Integer(-7),
            Reply::Text(b"a\r\nb".to_vec()),
            Reply::Array(Vec::new()),
            Reply::Null,
            Reply::Error("ERR no ".to_owned()),
        ];
        assert_eq!(reply_of(bytes), Reply::Array(elements));
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end], 0).expect("a beginning").is_none(), "{end}");
        }
    }

    #[test]
    fn what_is_no_reply_or_claims_too_much_is_refused() {
        let deep = b"*1\r\n".repeat(DEPTH_MAX + 1);
        let long = [b'*'; HEADER_BYTES_MAX + 1];
        let wrong: [&[u8]; 10] = [
            b"HTTP/1.1 200 OK\r\n",
            b"\r\n",
            b"$x\r\n",
            b"$-2\r\n",
            b"$99999999999\r\n",
            b"*99999999999\r\n",
            b":1 \r\n",
            b"$1\r\nabc",
            &deep,
            &long,
        ];
        for bytes in wrong {
            assert!(parse(bytes, 0).is_err(), "{}", bytes.escape_ascii());
        }
    }
}
