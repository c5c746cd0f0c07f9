//! The ways in, each under load until its server is gone: HTTP, FEED.PUSH, a drop folder, a stream.
//!
//! Not for judging what is there afterwards (`lane.rs`). A connection that breaks ends a sender
//! without a fault; an answer that is none of those allowed is a violation.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::super::pause;
use super::super::value::{Client, Value};
use super::FEED;
use super::lane::Lane;

/// The key of the stream, without the number of its data directory.
pub(super) const STREAM: &str = "uploads";
/// Far beyond any answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// What all senders of a round tell.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) acknowledged: AtomicU64,
    /// Answers that an upload was sent before.
    pub(super) repeated: AtomicU64,
    /// Uploads that were sent while nobody waited for the answer.
    pub(super) deserted: AtomicU64,
    /// The feed was full.
    pub(super) refused: AtomicU64,
    pub(super) stop: AtomicBool,
}

impl Progress {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn acknowledge(&self, lane: &mut Lane, place: usize) {
        lane.sent[place].acknowledged = true;
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

/// A way in.
#[derive(Clone, Debug)]
pub(super) enum Door {
    Http(SocketAddr),
    Resp(SocketAddr),
    Folder(PathBuf),
    /// A Redis and the stream's key.
    Stream(SocketAddr, String),
}

impl Door {
    /// Sends until the server goes or the round is over.
    pub(super) fn drive(&self, lane: &mut Lane, progress: &Progress) -> Result<(), String> {
        match self {
            Door::Http(address) => by_http(*address, lane, progress),
            Door::Resp(address) => by_resp(*address, lane, progress),
            Door::Folder(folder) => by_folder(folder, lane, progress),
            Door::Stream(address, key) => by_stream(*address, key, lane, progress),
        }
    }
}

fn by_http(address: SocketAddr, lane: &mut Lane, progress: &Progress) -> Result<(), String> {
    let mut connection: Option<BufReader<TcpStream>> = None;
    while !progress.is_over() {
        let place = lane.next();
        let (request, is_deserted) = request(lane, place);
        let opened = match connection.take() {
            Some(open) => Ok(open),
            None => TcpStream::connect(address).and_then(|stream| {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(ANSWER_LIMIT))?;
                Ok(BufReader::new(stream))
            }),
        };
        let Ok(mut open) = opened else { return Ok(()) };
        if open.get_mut().write_all(&request).is_err() {
            return Ok(());
        }
        if is_deserted {
            // A client that goes before its 202; one with a key comes again.
            let _ = open.get_mut().shutdown(Shutdown::Both);
            progress.deserted.fetch_add(1, Ordering::Relaxed);
            if lane.sent[place].has_key {
                lane.again.push(place);
            }
            continue;
        }
        let (status, body) = match answer(&mut open) {
            Ok(answer) => answer,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err(format!("no answer in {} seconds", ANSWER_LIMIT.as_secs()));
            }
            Err(_) => return Ok(()),
        };
        match status {
            202 => {
                progress.acknowledge(lane, place);
                let is_repeated = body.contains("\"repeated\":true");
                progress.repeated.fetch_add(u64::from(is_repeated), Ordering::Relaxed);
            }
            429 => {
                progress.refused.fetch_add(1, Ordering::Relaxed);
                lane.again.push(place);
                pause(Duration::from_millis(5));
            }
            // The server is ending: it may be kept.
            503 => return Ok(()),
            other => return Err(format!("{}: {other} {body}", lane.sent[place].upload.mark)),
        }
        connection = (!lane.random.chance(0.1)).then_some(open);
    }
    Ok(())
}

/// The bytes of a request, and whether nobody is to wait for its answer.
fn request(lane: &mut Lane, place: usize) -> (Vec<u8>, bool) {
    let sent = &lane.sent[place];
    let text = sent.upload.text();
    let (encoding, body) = match lane.random.below(4) {
        0 => ("Content-Encoding: gzip\r\n", gzip(text.as_bytes())),
        // A level that is there cannot fail in memory; without it the text goes as it is.
        1 => match zstd::encode_all(text.as_bytes(), 1) {
            Ok(packed) => ("Content-Encoding: zstd\r\n", packed),
            Err(_) => ("", text.into_bytes()),
        },
        _ => ("", text.into_bytes()),
    };
    let mark = &sent.upload.mark;
    let key = if sent.has_key { format!("Idempotency-Key: {mark}\r\n") } else { String::new() };
    let head = format!(
        "POST /v1/feeds/{FEED} HTTP/1.1\r\nHost: localhost\r\n{encoding}{key}\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    ([head.as_bytes(), &body].concat(), lane.random.chance(0.03))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).and_then(|()| packer.finish()).expect("memory takes every write")
}

/// Status and body of an answer with a length.
fn answer(open: &mut BufReader<TcpStream>) -> std::io::Result<(u16, String)> {
    let gone = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let mut line = String::new();
    let mut status = None;
    let mut length = 0;
    loop {
        line.clear();
        if open.read_line(&mut line)? == 0 {
            return Err(gone());
        }
        let text = line.trim_end().to_ascii_lowercase();
        if text.is_empty() {
            break;
        }
        if status.is_none() {
            status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        }
        if let Some(value) = text.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(|_| gone())?;
        }
    }
    let mut body = vec![0; length];
    open.read_exact(&mut body)?;
    Ok((status.ok_or_else(gone)?, String::from_utf8_lossy(&body).into_owned()))
}

fn by_resp(address: SocketAddr, lane: &mut Lane, progress: &Progress) -> Result<(), String> {
    let Ok(mut client) = Client::connect(address) else { return Ok(()) };
    while !progress.is_over() {
        let places: Vec<usize> = (0..1 + lane.random.below(8)).map(|_| lane.next()).collect();
        let push = |place: &usize| {
            let sent = &lane.sent[*place];
            let mut words = vec!["FEED.PUSH".to_owned(), FEED.to_owned()];
            if sent.has_key {
                words.extend(["KEY".to_owned(), sent.upload.mark.clone()]);
            }
            words.push(sent.upload.text());
            words
        };
        let requests: Vec<_> = places.iter().map(push).collect();
        if client.send(&requests).is_err() {
            return Ok(());
        }
        for place in places {
            match client.reply() {
                Ok(Value::Integer(_)) => progress.acknowledge(lane, place),
                Ok(Value::Error(text)) if text.contains("wait in the spool") => {
                    progress.refused.fetch_add(1, Ordering::Relaxed);
                    lane.again.push(place);
                }
                Ok(Value::Error(text)) if text.contains("may be") => {}
                Ok(other) => {
                    return Err(format!("{}: FEED.PUSH: {other:?}", lane.sent[place].upload.mark));
                }
                Err(_) => return Ok(()),
            }
        }
    }
    Ok(())
}

/// One file at a time; it is acknowledged when it lies in `done`.
fn by_folder(folder: &Path, lane: &mut Lane, progress: &Progress) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("{}: {error}", folder.display());
    lane.again.clear();
    while !progress.is_over() {
        let place = lane.next();
        let sent = &mut lane.sent[place];
        // The folder's own key is for all files.
        sent.has_key = false;
        let mark = sent.upload.mark.clone();
        let hidden = folder.join(format!(".{mark}"));
        fs::write(&hidden, sent.upload.text()).map_err(fault)?;
        fs::rename(&hidden, folder.join(&mark)).map_err(fault)?;
        let done = folder.join("done").join(&mark);
        while !done.exists() {
            if progress.is_over() {
                return Ok(());
            }
            pause(Duration::from_micros(500));
        }
        progress.acknowledge(lane, place);
    }
    Ok(())
}

/// Entries of a stream are acknowledged by the Redis that has them.
fn by_stream(
    address: SocketAddr,
    key: &str,
    lane: &mut Lane,
    progress: &Progress,
) -> Result<(), String> {
    let Ok(mut client) = Client::connect(address) else { return Ok(()) };
    lane.again.clear();
    while !progress.is_over() {
        let places: Vec<usize> = (0..1 + lane.random.below(4)).map(|_| lane.next()).collect();
        let mut requests = Vec::new();
        for place in &places {
            let sent = &mut lane.sent[*place];
            sent.has_key = false;
            let words = ["XADD", key, "*", "body", &sent.upload.text()];
            requests.push(words.map(str::to_owned).to_vec());
        }
        if client.send(&requests).is_err() {
            return Ok(());
        }
        for place in places {
            match client.reply() {
                Ok(Value::Bulk(_)) => progress.acknowledge(lane, place),
                Ok(other) => return Err(format!("XADD: {other:?}")),
                Err(_) => return Ok(()),
            }
        }
        pause(Duration::from_millis(2));
    }
    Ok(())
}
