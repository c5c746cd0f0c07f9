//! The query log: one line of JSON for each query, or for every so manieth.
//!
//! Not for: counting (`counters`).
//!
//! ```text
//! DNS threads ─try_send─> [ bounded queue ] ─> one writer ─> file or standard output
//!                  └ full: dropped, counted
//! ```
//!
//! A thread that answers never waits for the writer nor for a disk. The writer looks once a second
//! whether the file was renamed or removed and opens it anew then, so that it can be rotated.
//! Cost of a query that is not logged: one addition; of one that is: one allocation.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use whered_dns::{Name, Outcome, Query};
use whered_engine::Generation;

/// Entries that may wait for the writer.
const QUEUE_SIZE: usize = 8192;
/// How long a line may stay in memory, and how often the file is looked after.
const FLUSH_TIME: Duration = Duration::from_secs(1);
const HEADER_SIZE: usize = 12;

/// Where the log goes and what of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryLogOptions {
    /// The file; `-` is standard output.
    pub path: PathBuf,
    /// One query of this many is logged; 1: all.
    pub sample: u64,
}

/// One query that was answered.
pub(super) struct Entry {
    client: IpAddr,
    question: Vec<u8>,
    outcome: Outcome,
    reply_size: usize,
    zone: Option<String>,
    pool: Option<String>,
    at: SystemTime,
    transport: &'static str,
}

impl Entry {
    pub(super) fn new(
        query: &Query<'_>,
        outcome: &Outcome,
        reply_size: usize,
        generation: &Generation,
    ) -> Entry {
        let (zone, pool) = match *outcome {
            Outcome::Answered { zone, pool, .. } => (zone, pool),
            Outcome::Silent | Outcome::Deferred => (None, None),
        };
        let zone = zone.and_then(|index| generation.zones().zones().nth(index));
        let pool = pool.and_then(|index| generation.pools().get(index));
        Entry {
            client: query.source,
            question: query.bytes.get(HEADER_SIZE..).unwrap_or_default().to_vec(),
            outcome: *outcome,
            reply_size,
            zone: zone.map(|zone| zone.origin().to_string()),
            pool: pool.map(|pool| pool.name.clone()),
            at: SystemTime::now(),
            transport: "",
        }
    }

    fn to_line(&self) -> String {
        let since = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (rcode, question_type) = match self.outcome {
            Outcome::Answered { rcode, question_type, .. } => (Some(rcode), question_type),
            Outcome::Silent | Outcome::Deferred => (None, None),
        };
        let name = question_name(&self.question);
        json!({
            "time": since.as_millis() as u64,
            "client": self.client.to_string(),
            "transport": self.transport,
            "name": name,
            "type": question_type.map(|of| of.to_string()),
            "rcode": rcode.map(|of| of.to_string()),
            "zone": self.zone,
            "pool": self.pool,
            "reply_bytes": self.reply_size,
        })
        .to_string()
    }
}

/// The name of an uncompressed question.
fn question_name(question: &[u8]) -> Option<String> {
    let mut end = 0;
    loop {
        match question.get(end)? {
            0 => break,
            length @ 1..=63 => end += 1 + usize::from(*length),
            _ => return None,
        }
    }
    Name::from_wire(&question[..=end]).ok().map(|name| name.to_string())
}

/// The way to the writer.
pub(crate) struct QueryLog {
    entries: SyncSender<Entry>,
    sample: u64,
    seen: AtomicU64,
    dropped: Arc<AtomicU64>,
}

impl QueryLog {
    /// Opens the file and starts the writer, which ends when the log is dropped.
    ///
    /// # Errors
    /// The file cannot be opened; the text names it.
    pub(super) fn start(
        options: &QueryLogOptions,
        dropped: Arc<AtomicU64>,
    ) -> io::Result<(QueryLog, JoinHandle<()>)> {
        let sink = Sink::open(&options.path)?;
        let (entries, received) = sync_channel(QUEUE_SIZE);
        let writer = Builder::new().name("whered-dns-log".to_owned());
        let writer = writer.spawn(move || write_all(sink, &received))?;
        let (sample, seen) = (options.sample.max(1), AtomicU64::new(0));
        Ok((QueryLog { entries, sample, seen, dropped }, writer))
    }

    /// Logs a query if it is its turn and there is room.
    pub(super) fn put(&self, transport: &'static str, entry: impl FnOnce() -> Entry) {
        if self.sample > 1 && !self.seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.sample)
        {
            return;
        }
        let entry = Entry { transport, ..entry() };
        if self.entries.try_send(entry).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_all(mut sink: Sink, received: &Receiver<Entry>) {
    let mut looked = SystemTime::now();
    loop {
        let written = match received.recv_timeout(FLUSH_TIME) {
            Ok(entry) => writeln!(sink.out, "{}", entry.to_line()),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let kept = written.and_then(|()| {
            if looked.elapsed().is_ok_and(|since| since < FLUSH_TIME) {
                return Ok(());
            }
            looked = SystemTime::now();
            sink.out.flush()?;
            sink.follow()
        });
        if let Err(error) = kept {
            tracing::error!("the query log {}: {error}", sink.path.display());
        }
    }
    if let Err(error) = sink.out.flush() {
        tracing::error!("the query log {}: {error}", sink.path.display());
    }
}

/// Where lines go.
struct Sink {
    path: PathBuf,
    out: BufWriter<Box<dyn Write + Send>>,
    /// Which file it is; `None` for standard output.
    identity: Option<(u64, u64)>,
}

impl Sink {
    fn open(path: &Path) -> io::Result<Sink> {
        let path = path.to_owned();
        if path == Path::new("-") {
            let out = BufWriter::new(Box::new(io::stdout()) as Box<dyn Write + Send>);
            return Ok(Sink { path, out, identity: None });
        }
        // Addresses of clients are not for everybody on the machine.
        let open = OpenOptions::new().create(true).append(true).mode(0o640).open(&path);
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file = open.map_err(named)?;
        let identity = identity(&file.metadata()?);
        let out = BufWriter::new(Box::new(file) as Box<dyn Write + Send>);
        Ok(Sink { path, out, identity: Some(identity) })
    }

    /// Opens the file anew when another one, or none, has its name.
    fn follow(&mut self) -> io::Result<()> {
        let Some(own) = self.identity else { return Ok(()) };
        let is_own = std::fs::metadata(&self.path).is_ok_and(|found| identity(&found) == own);
        if !is_own {
            *self = Sink::open(&self.path)?;
        }
        Ok(())
    }
}

fn identity(metadata: &std::fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_from_a_question_and_rubbish_has_none() {
        let question = b"\x03www\x07Example\x03com\0\0\x01\0\x01";
        assert_eq!(question_name(question).as_deref(), Some("www.Example.com."));
        assert_eq!(question_name(b"\0\0\x01\0\x01").as_deref(), Some("."));
        for rubbish in [&b""[..], b"\x03ww", b"\xc0\x0c", b"\x03www"] {
            assert_eq!(question_name(rubbish), None);
        }
    }

    #[test]
    fn a_new_log_is_closed_to_other_users() {
        let path = std::env::temp_dir().join(format!("whered-query-log-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let sink = Sink::open(&path).expect("it is made");
        let mode = std::fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o137, 0, "{mode:o}");
        drop(sink);
        let _ = std::fs::remove_file(&path);
    }
}
