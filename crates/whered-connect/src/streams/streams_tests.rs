//! A consumer between a scripted source and a spool that fails on demand.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::*;

/// A source whose entries stand in a list; every third connection breaks.
struct Scripted {
    entries: Vec<Entry>,
    at: usize,
    fetches: VecDeque<Result<usize, ()>>,
}

fn entry(number: usize, bytes: Result<&str, &str>) -> Entry {
    Entry {
        position: number.to_string().into_bytes(),
        name: format!("entry {number}"),
        bytes: bytes.map(|bytes| bytes.as_bytes().to_vec()).map_err(str::to_owned),
    }
}

impl UploadSource for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn open(&mut self, after: Option<&[u8]>) -> Result<(), ConnectError> {
        let place = after.map(|after| {
            self.entries.iter().position(|entry| entry.position == after).expect("is one of ours")
        });
        self.at = place.map_or(0, |place| place + 1);
        Ok(())
    }

    fn fetch(&mut self, _longest: Duration) -> Result<FetchResult, ConnectError> {
        let count = self.fetches.pop_front().unwrap_or(Ok(usize::MAX));
        let count = count.map_err(|()| ConnectError::new("scripted: broken"))?;
        let end = self.entries.len().min(self.at.saturating_add(count));
        let entries = self.entries[self.at..end].to_vec();
        self.at = end;
        Ok(FetchResult { entries, gap: None })
    }
}

/// A spool that fails on demand and tells the test when it has everything.
struct Spool<'a> {
    uploads: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    /// How many of them are durable.
    durable: RefCell<usize>,
    refusals: RefCell<VecDeque<Option<Refusal>>>,
    waits: RefCell<VecDeque<Result<(), String>>>,
    stop: &'a Stop,
    last: Vec<u8>,
}

impl Intake for Spool<'_> {
    type Ticket = usize;

    fn position(&self, _source: &str) -> Option<Vec<u8>> {
        // A crash takes what was not durable.
        let durable = *self.durable.borrow();
        self.uploads.borrow_mut().truncate(durable);
        self.uploads.borrow().last().map(|(position, _)| position.clone())
    }

    fn push(&self, _source: &str, position: &[u8], bytes: &[u8]) -> Result<usize, Refusal> {
        if let Some(refusal) = self.refusals.borrow_mut().pop_front().flatten() {
            return Err(refusal);
        }
        if bytes.windows(3).any(|three| three == b"bad") {
            return Err(Refusal::Never("no upload".to_owned()));
        }
        self.uploads.borrow_mut().push((position.to_vec(), bytes.to_vec()));
        Ok(self.uploads.borrow().len())
    }

    fn wait(&self, ticket: usize) -> Result<(), String> {
        self.waits.borrow_mut().pop_front().unwrap_or(Ok(()))?;
        *self.durable.borrow_mut() = ticket;
        if self.uploads.borrow()[ticket - 1].0 == self.last {
            self.stop.stop();
        }
        Ok(())
    }
}

fn consume(
    entries: Vec<Entry>,
    joins: bool,
    fetches: Vec<Result<usize, ()>>,
    refusals: Vec<Option<Refusal>>,
    waits: Vec<Result<(), String>>,
) -> (Vec<String>, StreamStatus) {
    let stop = Stop::default();
    let last = entries.last().expect("there are some").position.clone();
    let spool = Spool {
        uploads: RefCell::default(),
        durable: RefCell::default(),
        refusals: RefCell::new(refusals.into()),
        waits: RefCell::new(waits.into()),
        stop: &stop,
        last,
    };
    let source = Scripted { entries, at: 0, fetches: fetches.into() };
    let mut told = StreamStatus::default();
    let mut report = |status: &StreamStatus| told = status.clone();
    Consumer::new(source, &spool, joins, &stop, &mut report).run();
    let uploads = spool.uploads.into_inner().into_iter();
    let texts = uploads.map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned()).collect();
    (texts, told)
}

#[test]
fn each_entry_becomes_one_upload_over_broken_connections_and_failed_groups() {
    let entries: Vec<Entry> = (0..20).map(|number| entry(number, Ok("x"))).collect();
    let fetches = vec![Ok(3), Err(()), Ok(4), Ok(2), Err(()), Ok(5)];
    let waits = vec![Ok(()), Err("the disk".to_owned()), Ok(())];
    let full = Some(Refusal::Full(Duration::from_millis(1)));
    let failed = Some(Refusal::Failed("poisoned".to_owned()));
    let refusals = vec![None, full, None, None, None, failed];
    let (uploads, status) = consume(entries, false, fetches, refusals, waits);
    assert_eq!(uploads, vec!["x"; 20]);
    assert_eq!((status.state, status.passed_over), (StreamState::Stopped, 0));
}

#[test]
fn lines_are_joined_and_a_bad_one_spoils_only_itself() {
    let entries = vec![
        entry(0, Ok("a")),
        entry(1, Ok("b\n")),
        entry(2, Err("it has no field")),
        entry(3, Ok("c")),
        entry(4, Ok("bad")),
        entry(5, Ok("\u{1f}\u{8b}")),
        entry(6, Ok("d")),
    ];
    let mut packed = entries.clone();
    packed[5].bytes = Ok(vec![0x1f, 0x8b, 8]);
    let (uploads, status) = consume(packed, true, Vec::new(), Vec::new(), Vec::new());
    assert_eq!(uploads, ["a\nb\n", "c", "\u{1f}\u{fffd}\u{8}", "d"]);
    assert_eq!((status.entries, status.uploads, status.passed_over), (7, 4, 2));
    assert_eq!(status.passed_over_why.as_deref(), Some("entry 4: no upload"));
}

#[test]
fn joined_uploads_stay_below_their_limit() {
    let half = "y".repeat(JOINED_BYTES_MAX / 2);
    let entries: Vec<Entry> = (0..5).map(|number| entry(number, Ok(&half))).collect();
    let (uploads, _) = consume(entries, true, Vec::new(), Vec::new(), Vec::new());
    assert_eq!(uploads.len(), 5);
}
