//! One HTTP request and what its answer says.
//!
//! Not for: following redirects, keeping connections. HTTP/1.1 with `Connection: close`.
//! Bounds: a head of 16 KiB and 64 headers, 64 KiB of the body; time is the caller's.

use std::io;

use super::check::HttpTarget;
use super::tls::Stream;

const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Asks, and gives what is wrong with the answer.
pub(super) async fn ask(stream: &mut Stream, target: &HttpTarget) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    stream.send(request(target).as_bytes()).await.map_err(failed)?;
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(head) = Head::read(&bytes)? {
            // An interim answer such as 103 stands before the one that counts.
            if !(100..200).contains(&head.status) {
                break head;
            }
            bytes.drain(..head.size_bytes);
            continue;
        }
        if bytes.len() > HEAD_BYTES_MAX {
            return Err("the answer's head is too long".to_owned());
        }
        if stream.receive(&mut bytes).await.map_err(failed)? == 0 {
            return Err("the connection was closed before an answer".to_owned());
        }
    };
    if !target.statuses.contains(&head.status) {
        return Err(format!("status {}", head.status));
    }
    let Some(wanted) = &target.body else {
        return Ok(());
    };
    bytes.drain(..head.size_bytes);
    loop {
        let (body, is_whole) = head.body(&bytes)?;
        if contains(&body, wanted.as_bytes()) {
            return Ok(());
        }
        if is_whole || body.len() >= BODY_BYTES_MAX || bytes.len() >= 2 * BODY_BYTES_MAX {
            return Err(format!("the body has no '{wanted}'"));
        }
        if stream.receive(&mut bytes).await.map_err(failed)? == 0 {
            return Err(format!("the body ends without '{wanted}'"));
        }
    }
}

fn request(target: &HttpTarget) -> String {
    let HttpTarget { is_https, host, port, path, name, .. } = target;
    let shown = name.as_ref().unwrap_or(host);
    let bracketed = if shown.contains(':') { format!("[{shown}]") } else { shown.clone() };
    let usual = if *is_https { 443 } else { 80 };
    let port = if *port == usual { String::new() } else { format!(":{port}") };
    format!(
        "GET {path} HTTP/1.1\r\nHost: {bracketed}{port}\r\nUser-Agent: whered/{}\r\n\
         Accept: */*\r\nConnection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// What the head of an answer says.
struct Head {
    status: u16,
    size_bytes: usize,
    is_chunked: bool,
    length: Option<usize>,
}

impl Head {
    /// The head, if it is all there.
    fn read(bytes: &[u8]) -> Result<Option<Head>, String> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(bytes).map_err(|error| format!("no HTTP answer: {error}"))?;
        let (httparse::Status::Complete(size_bytes), Some(status)) = (parsed, response.code) else {
            return Ok(None);
        };
        let value = |name: &str| {
            let header = response.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name))?;
            std::str::from_utf8(header.value).ok().map(str::trim)
        };
        let coding = value("transfer-encoding").unwrap_or("");
        Ok(Some(Head {
            status,
            size_bytes,
            is_chunked: coding.to_ascii_lowercase().ends_with("chunked"),
            length: value("content-length").and_then(|length| length.parse().ok()),
        }))
    }

    /// The body so far, and whether that is all of it.
    fn body(&self, bytes: &[u8]) -> Result<(Vec<u8>, bool), String> {
        if self.is_chunked {
            return chunks(bytes);
        }
        let length = self.length.unwrap_or(usize::MAX);
        Ok((bytes[..bytes.len().min(length)].to_vec(), bytes.len() >= length))
    }
}

/// The content of chunks as far as it is there.
fn chunks(mut bytes: &[u8]) -> Result<(Vec<u8>, bool), String> {
    let mut body = Vec::new();
    loop {
        let parsed = httparse::parse_chunk_size(bytes).map_err(|_| "a wrong chunk in the body")?;
        let httparse::Status::Complete((head, size)) = parsed else {
            return Ok((body, false));
        };
        if size == 0 {
            return Ok((body, true));
        }
        bytes = &bytes[head..];
        let here = usize::try_from(size).unwrap_or(usize::MAX).min(bytes.len());
        body.extend_from_slice(&bytes[..here]);
        // Two bytes of line end follow.
        match bytes.get(here + 2..) {
            Some(rest) => bytes = rest,
            None => return Ok((body, false)),
        }
    }
}

fn contains(body: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || body.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunked_bodies_are_put_together_however_much_of_them_is_there() {
        let whole = b"4\r\nabcd\r\n3;x=y\r\nefg\r\n0\r\n\r\n";
        assert_eq!(chunks(whole), Ok((b"abcdefg".to_vec(), true)));
        for end in 0..whole.len() - 4 {
            let (body, is_whole) = chunks(&whole[..end]).expect("a beginning");
            assert!(b"abcdefg".starts_with(&body[..]), "{end}");
            assert!(!is_whole || body.len() == 7, "{end}");
        }
        assert!(chunks(b"zz\r\n").is_err());
        assert!(!chunks(b"ffffffffffffffff\r\nab").expect("a huge chunk has begun").1);
    }

    #[test]
    fn heads_tell_how_long_the_body_is() {
        let head = Head::read(b"HTTP/1.1 204 No\r\ncontent-length: 3\r\n\r\nabcd");
        let head = head.expect("it is one").expect("it is whole");
        assert_eq!((head.status, head.body(b"abcd")), (204, Ok((b"abc".to_vec(), true))));
        assert!(Head::read(b"HTTP/1.1 2").expect("a beginning").is_none());
        assert!(Head::read(b"SSH-2.0-x\r\n").is_err());
    }
}
