//! Clients that send uploads by HTTP, each over one connection that stays open.
//!
//! For: as fast as they are taken, or at a steady pace; the time until each `202`.
//! Not for: retrying; whatever is not a `202` ends the run, so that a wrong server cannot win.
//!
//! Cost: one thread for each client. At a pace, a time counts from when the upload was due and not
//! from when a free client got to it; a server that stalls cannot hide that.

use std::io::{BufRead, BufReader, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::measure::wait_until;

/// How long one answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// An answer of an HTTP door.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Such as 202.
    pub status: u16,
    /// What came with it.
    pub body: Vec<u8>,
}

/// A connection that stays open.
#[derive(Debug)]
pub struct HttpConnection {
    stream: BufReader<TcpStream>,
}

impl HttpConnection {
    /// Connects.
    ///
    /// # Errors
    ///
    /// The server refuses.
    pub fn connect(address: SocketAddr) -> Result<HttpConnection, String> {
        let fault = |error: std::io::Error| format!("{address}: {error}");
        let stream = TcpStream::connect(address).map_err(fault)?;
        stream.set_nodelay(true).map_err(fault)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(fault)?;
        Ok(HttpConnection { stream: BufReader::new(stream) })
    }

    /// Sends a request and reads its answer.
    ///
    /// # Errors
    ///
    /// The connection breaks, or what comes is no HTTP/1.1 with a length or in chunks.
    pub fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Answer, String> {
        self.exchange(method, path, body).map_err(|error| format!("{method} {path}: {error}"))
    }

    fn exchange(&mut self, method: &str, path: &str, body: &[u8]) -> std::io::Result<Answer> {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
        );
        write_both(self.stream.get_mut(), head.as_bytes(), body)?;
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| wrong(&first))?;
        let (mut size, mut is_chunked) = (0, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                size = value.trim().parse().map_err(|_| wrong(&line))?;
            }
            is_chunked |= line.starts_with("transfer-encoding:") && line.contains("chunked");
        }
        let mut answer = Vec::new();
        if !is_chunked {
            self.take(size, &mut answer)?;
            return Ok(Answer { status, body: answer });
        }
        loop {
            let line = self.line()?;
            let size = usize::from_str_radix(line.trim(), 16).map_err(|_| wrong(&line))?;
            self.take(size, &mut answer)?;
            self.line()?;
            if size == 0 {
                return Ok(Answer { status, body: answer });
            }
        }
    }

    fn take(&mut self, size: usize, into: &mut Vec<u8>) -> std::io::Result<()> {
        let before = into.len();
        (&mut self.stream).take(size as u64).read_to_end(into)?;
        if into.len() == before + size { Ok(()) } else { Err(wrong("the connection ended")) }
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if (&mut self.stream).take(64 << 10).read_line(&mut line)? == 0 {
            return Err(wrong("the connection ended"));
        }
        Ok(line.trim_end().to_owned())
    }
}

/// Writes head and body with one call where the socket has room: the other side is then woken once.
fn write_both(socket: &mut impl Write, head: &[u8], body: &[u8]) -> std::io::Result<()> {
    let written = match socket.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
        Err(error) if error.kind() == ErrorKind::Interrupted => 0,
        written => written?,
    };
    let of_head = written.min(head.len());
    socket.write_all(&head[of_head..])?;
    socket.write_all(&body[written - of_head..])
}

fn wrong(what: &str) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

/// What sending took.
#[derive(Clone, Debug)]
pub struct Sent {
    /// From the first byte to the last answer.
    pub seconds: f64,
    /// The milliseconds until each upload was acknowledged.
    pub acknowledged_millis: Vec<f64>,
}

/// Sends all uploads by that number of clients; at a pace of uploads a second, or as fast as it
/// goes.
///
/// # Errors
///
/// An answer is not a `202`, or a connection breaks.
pub fn send(
    address: SocketAddr,
    path: &str,
    uploads: &[impl AsRef<[u8]> + Sync],
    clients: usize,
    pace: Option<f64>,
) -> Result<Sent, String> {
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let results: Vec<Result<Vec<f64>, String>> = std::thread::scope(|scope| {
        let client = || client(address, path, uploads, &next, start, pace);
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err("a client has panicked".to_owned()))
        });
        joined.collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut acknowledged_millis = Vec::with_capacity(uploads.len());
    for result in results {
        acknowledged_millis.extend(result?);
    }
    Ok(Sent { seconds, acknowledged_millis })
}

fn client(
    address: SocketAddr,
    path: &str,
    uploads: &[impl AsRef<[u8]> + Sync],
    next: &AtomicUsize,
    start: Instant,
    pace: Option<f64>,
) -> Result<Vec<f64>, String> {
    let mut connection = HttpConnection::connect(address)?;
    let mut times = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(upload) = uploads.get(number) else { return Ok(times) };
        let due = match pace {
            None => Instant::now(),
            Some(pace) => start + Duration::from_secs_f64(number as f64 / pace),
        };
        wait_until(due);
        let answer = connection.ask("POST", path, upload.as_ref())?;
        if answer.status != 202 {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            return Err(format!("upload {number}: {} {text}", answer.status));
        }
        times.push(due.elapsed().as_secs_f64() * 1e3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has room for so many bytes at a time.
    struct Narrow(usize, Vec<u8>);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let count = bytes.len().min(self.0);
            self.1.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> std::io::Result<usize> {
            let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
            self.write(&all)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn head_and_body_are_written_whole_whatever_room_there_is() {
        for (head, body) in [("head", "body and more"), ("head", ""), ("", "body")] {
            for room in 1..=head.len() + body.len() + 1 {
                let mut socket = Narrow(room, Vec::new());
                write_both(&mut socket, head.as_bytes(), body.as_bytes()).unwrap();
                assert_eq!(socket.1, format!("{head}{body}").into_bytes());
            }
        }
    }
}
