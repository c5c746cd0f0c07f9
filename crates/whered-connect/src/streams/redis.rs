//! A stream of a stock Redis or Valkey as a source of uploads.
//!
//! For: `XREAD` without groups: the position is ours, not the server's. Not for: adding, trimming.
//!
//! ```text
//! MULTI  XRANGE s P P COUNT 1   XINFO STREAM s   XREAD COUNT n STREAMS s P  EXEC
//! nothing came: XREAD BLOCK ms COUNT 1 STREAMS s P, and again
//! position = ID [INDEX]        INDEX: how many entries were added to the stream up to this one
//! ```
//!
//! **What was trimmed.** Trimming takes entries from the front. While the entry that we read last
//! is still there, nothing behind it is gone. If it is not, the number of entries ever added (Redis
//! 7) less those that are left tells the index of the first; where that is not ours plus one, there
//! is a gap. Entries that were deleted one by one count as trimmed, hence "at most". An older
//! server does not say, and then a gap is possible. Fewer entries ever added than were read: it is
//! another stream of the same name. All in one transaction, so that nothing is trimmed between. The
//! same goes for what was trimmed before a first entry was read: its place is 0-0, with the index
//! of the first start.
//!
//! Invariant: a stream that is gone or went back (its server lost its end) is told of and waited
//! for, never read from its beginning again: that could apply entries twice.

use std::time::Duration;

use redis::{Cmd, Value};

use super::{Entry, FetchResult, UploadSource};
use crate::Server;
use crate::error::ConnectError;

/// About how much one reply may take, and between which counts that is tried.
const REPLY_BYTES: u64 = 8 << 20;
const COUNT: (u64, u64) = (4, 1_000);

/// A stream, and where in it we are.
pub struct RedisStream {
    url: String,
    stream: String,
    field: String,
    from_start: bool,
    name: String,
    server: Option<Server>,
    at: Place,
    /// How many entries are asked for.
    count: u64,
    /// Whether it was told that the stream went back.
    told_behind: bool,
}

/// An entry of the stream, and how many were added up to it, where that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Place {
    id: (u64, u64),
    index: Option<u64>,
}

/// What the server says of the stream.
struct Info {
    length: u64,
    last: (u64, u64),
    added: Option<u64>,
}

impl RedisStream {
    /// The entries of a stream, whose uploads are in this field; from its first entry on, or from
    /// those that come after the first connection.
    ///
    /// # Errors
    ///
    /// One line: the URL is none.
    pub fn new(
        name: &str,
        url: &str,
        stream: &str,
        field: &str,
        from_start: bool,
    ) -> Result<RedisStream, ConnectError> {
        Server::check_url(url)?;
        Ok(RedisStream {
            url: url.to_owned(),
            stream: stream.to_owned(),
            field: field.to_owned(),
            from_start,
            name: name.to_owned(),
            server: None,
            at: Place::default(),
            count: COUNT.0,
            told_behind: false,
        })
    }

    fn wrong(&self, what: &str) -> ConnectError {
        let server = self.server.as_ref().map_or("redis", |server| server.name());
        ConnectError::new(format!("{server}: stream {}: {what}", self.stream))
    }

    fn server(&mut self) -> Result<&mut Server, ConnectError> {
        self.server.as_mut().ok_or_else(|| ConnectError::new("the stream was not opened"))
    }

    fn info(&mut self) -> Result<Option<Info>, ConnectError> {
        let mut command = redis::cmd("XINFO");
        command.arg("STREAM").arg(&self.stream);
        match self.server()?.query::<Value>(&command) {
            Ok(value) => {
                info(&value).map(Some).ok_or_else(|| self.wrong("XINFO STREAM says nothing"))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The reading command.
    fn read(&self, count: u64, block: Option<Duration>) -> Cmd {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(count);
        if let Some(longest) = block {
            // Zero would be for ever.
            command.arg("BLOCK").arg(longest.as_millis().max(1) as u64);
        }
        command.arg("STREAMS").arg(&self.stream).arg(text(self.at.id));
        command
    }

    /// What is behind our place, and what is missing in front of it.
    fn fetch_now(&mut self) -> Result<FetchResult, ConnectError> {
        let id = text(self.at.id);
        let mut there = redis::cmd("XRANGE");
        there.arg(&self.stream).arg(&id).arg(&id).arg("COUNT").arg(1);
        let mut about = redis::cmd("XINFO");
        about.arg("STREAM").arg(&self.stream);
        let read = self.read(self.count, None);
        let (begin, end) = (redis::cmd("MULTI"), redis::cmd("EXEC"));
        let mut packed = Vec::new();
        for command in [&begin, &there, &about, &read, &end] {
            packed.extend_from_slice(&command.get_packed_command());
        }
        let server = self.server()?;
        server.send(&packed)?;
        for _ in 0..4 {
            server.receive()?;
        }
        let answers = match server.receive() {
            Ok(Value::Array(answers)) => answers,
            Ok(_) => return Err(self.wrong("EXEC gave no answers")),
            Err(error) if is_absent(&error) => {
                let behind = self.at.id > (0, 0);
                return Ok(FetchResult {
                    gap: self.gone_back(behind, "it is gone"),
                    ..FetchResult::default()
                });
            }
            Err(error) => return Err(error),
        };
        let [found, about, read] = &answers[..] else {
            return Err(self.wrong("EXEC gave other answers than asked for"));
        };
        let about = info(about).ok_or_else(|| self.wrong("XINFO STREAM says nothing"))?;
        let is_there = matches!(found, Value::Array(entries) if !entries.is_empty());
        let gap = self.gap(is_there, &about);
        let entries = self.entries(read)?;
        Ok(FetchResult { entries, gap })
    }

    /// Compares our place with what the stream holds.
    fn gap(&mut self, is_there: bool, about: &Info) -> Option<(String, u64)> {
        if about.last < self.at.id {
            let last = format!("it ends at {}", text(about.last));
            return self.gone_back(true, &last);
        }
        let is_told = std::mem::take(&mut self.told_behind);
        if is_there || about.last == self.at.id {
            return None;
        }
        // How many were added in front of the first that is left.
        let before = about.added.map(|added| added.saturating_sub(about.length));
        let (known, from) = (self.at.index, self.at.id);
        if let (Some(read), Some(added), Some(before)) = (known, about.added, before)
            && added < read
        {
            self.at.index = Some(before);
            let stream = &self.stream;
            let what = format!(
                "stream {stream}: it was made anew after {} was read, and entries may be missing",
                text(from)
            );
            // That the old one is gone was told already.
            return (!is_told || before > 0).then_some((what, before));
        }
        self.at.index = before.max(known);
        match (known, before) {
            // An older server, and nothing was read yet.
            (None, _) if from == (0, 0) => None,
            (Some(read), Some(before)) if before > read => {
                let count = before - read;
                let what = format!(
                    "stream {}: up to {count} entries after {} were trimmed before they were read",
                    self.stream,
                    text(from)
                );
                Some((what, count))
            }
            (Some(_), Some(_)) => None,
            _ => {
                let what = format!(
                    "stream {}: {} is trimmed, and entries after it may be; this server does not say",
                    self.stream,
                    text(from)
                );
                Some((what, 0))
            }
        }
    }

    /// Tells once that the stream does not reach our place any more.
    fn gone_back(&mut self, is_behind: bool, how: &str) -> Option<(String, u64)> {
        if !is_behind || std::mem::replace(&mut self.told_behind, true) {
            return None;
        }
        let (stream, id) = (&self.stream, text(self.at.id));
        Some((format!("stream {stream}: {how}, and was read up to {id}; waiting for later ids"), 0))
    }

    /// The entries of an answer to XREAD; our place moves behind them.
    fn entries(&mut self, answer: &Value) -> Result<Vec<Entry>, ConnectError> {
        // RESP2: [[stream, entries]]; RESP3: {stream: entries}.
        let found = match answer {
            Value::Nil => return Ok(Vec::new()),
            Value::Array(streams) => match streams.first() {
                Some(Value::Array(pair)) => pair.get(1),
                _ => None,
            },
            Value::Map(streams) => streams.first().map(|(_, entries)| entries),
            _ => None,
        };
        let Some(Value::Array(found)) = found else {
            return Err(self.wrong("XREAD gave no entries"));
        };
        let mut entries = Vec::with_capacity(found.len());
        let mut size_bytes = 0;
        for entry in found {
            let id = match entry {
                Value::Array(pair) => pair.first().and_then(bytes).and_then(id),
                _ => None,
            };
            let Some(id) = id else { return Err(self.wrong("XREAD gave an entry without an id")) };
            let index = self.at.index.map(|index| index + 1);
            self.at = Place { id, index };
            let upload = self.upload(entry);
            size_bytes += upload.as_ref().map_or(0, Vec::len) as u64;
            let name = format!("stream {}, entry {}", self.stream, text(id));
            entries.push(Entry { position: self.at.to_bytes(), name, bytes: upload });
        }
        if let Some(average) = size_bytes.checked_div(entries.len() as u64) {
            self.count = (REPLY_BYTES / average.max(1)).clamp(COUNT.0, COUNT.1);
        }
        Ok(entries)
    }

    fn upload(&self, entry: &Value) -> Result<Vec<u8>, String> {
        let fields = match entry {
            Value::Array(pair) => match pair.get(1) {
                Some(Value::Array(fields)) => fields.as_slice(),
                _ => &[],
            },
            _ => &[],
        };
        let found =
            fields.chunks_exact(2).find(|pair| bytes(&pair[0]) == Some(self.field.as_bytes()));
        let upload = found.and_then(|pair| bytes(&pair[1])).map(<[u8]>::to_vec);
        upload.ok_or_else(|| format!("it has no field '{}'", self.field))
    }
}

impl UploadSource for RedisStream {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&mut self, after: Option<&[u8]>) -> Result<(), ConnectError> {
        self.server = None;
        self.server = Some(Server::open(&self.url)?);
        self.at = match after {
            Some(position) => Place::from_bytes(position).ok_or_else(|| {
                let shown = String::from_utf8_lossy(position).into_owned();
                self.wrong(&format!("'{shown}' is no position of a stream"))
            })?,
            None => self.info()?.map_or(Place { id: (0, 0), index: Some(0) }, |about| {
                // What was trimmed before we first came is nobody's loss.
                let before = about.added.map(|added| added.saturating_sub(about.length));
                if self.from_start {
                    Place { id: (0, 0), index: before }
                } else {
                    Place { id: about.last, index: about.added }
                }
            }),
        };
        Ok(())
    }

    fn begins_at(&self) -> Option<Vec<u8>> {
        Some(self.at.to_bytes())
    }

    fn fetch(&mut self, longest: Duration) -> Result<FetchResult, ConnectError> {
        let fetched = self.fetch_now()?;
        if !fetched.entries.is_empty() || fetched.gap.is_some() {
            return Ok(fetched);
        }
        let read = self.read(1, Some(longest));
        match self.server()?.query::<Value>(&read)? {
            Value::Nil => Ok(FetchResult::default()),
            _ => self.fetch_now(),
        }
    }
}

impl Place {
    fn to_bytes(self) -> Vec<u8> {
        let index = self.index.map_or(String::new(), |index| format!(" {index}"));
        format!("{}{index}", text(self.id)).into_bytes()
    }

    fn from_bytes(position: &[u8]) -> Option<Place> {
        let position = std::str::from_utf8(position).ok()?;
        let (first, index) = match position.split_once(' ') {
            Some((first, index)) => (first, Some(index.parse().ok()?)),
            None => (position, None),
        };
        Some(Place { id: id(first.as_bytes())?, index })
    }
}

fn text((millis, sequence): (u64, u64)) -> String {
    format!("{millis}-{sequence}")
}

fn id(text: &[u8]) -> Option<(u64, u64)> {
    let (millis, sequence) = std::str::from_utf8(text).ok()?.split_once('-')?;
    Some((millis.parse().ok()?, sequence.parse().ok()?))
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// What XINFO STREAM says, as a list or as a map.
fn info(value: &Value) -> Option<Info> {
    let pairs: Vec<(&Value, &Value)> = match value {
        Value::Array(flat) => flat.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
        _ => return None,
    };
    let find = |name: &[u8]| {
        pairs.iter().find(|(key, _)| bytes(key) == Some(name)).map(|(_, value)| *value)
    };
    let number = |name| match find(name) {
        Some(Value::Int(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    let last = find(b"last-generated-id").and_then(bytes).and_then(id)?;
    Some(Info { length: number(b"length")?, last, added: number(b"entries-added") })
}

/// Whether a server said that there is no such stream.
fn is_absent(error: &ConnectError) -> bool {
    error.is_refusal() && error.to_string().contains("no such key")
}
