//! The last part of a primary's stream, for those who follow this server.
//!
//! For: bytes by their offsets, in bounded memory; who waits for more is woken. Not for: sending
//! (`follower`), nor what the bytes mean.
//!
//! ```text
//! pieces:   zadd ...│ set big ..│░░ 40 MB of zeros ░░│ zadd ...      ░ only counted
//!           ^ start                                            ^ end
//! ```
//!
//! A long argument that this server has passed over is gone; zeros of the same length stand for it,
//! since a follower passes over it as well.
//!
//! Invariants: pieces follow each other without a gap; together they take at most as much memory as
//! was allowed, or more while a follower takes a dump, and one piece more. Nothing is kept before
//! somebody has asked. A history that was begun makes all who read another one end.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use whered_engine::{ReplicationId, sync};
use whered_replication::Piece;

/// A piece that is kept.
enum Segment {
    Bytes(Box<[u8]>),
    PassedOver(u64),
}

impl Segment {
    fn len(&self) -> u64 {
        match self {
            Segment::Bytes(bytes) => bytes.len() as u64,
            Segment::PassedOver(count) => *count,
        }
    }

    fn memory_bytes(&self) -> usize {
        let own = size_of::<Segment>();
        match self {
            Segment::Bytes(bytes) => own + bytes.len(),
            Segment::PassedOver(_) => own,
        }
    }
}

/// How much memory the stream may take while a follower takes a dump, so that it can go on behind
/// that.
const PINNED_BYTES_MAX: usize = 256 << 20;

/// Whose stream it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct History {
    id: ReplicationId,
    /// What it was called up to an offset, before its primary was replaced.
    before: Option<(ReplicationId, i64)>,
    /// Counts the histories and their names.
    version: u64,
}

/// See the file's header.
pub(crate) struct Backlog {
    state: Mutex<State>,
    grown: Condvar,
}

struct State {
    bytes_max: usize,
    history: Option<History>,
    versions: u64,
    is_kept: bool,
    is_closed: bool,
    /// The link has no connection to its primary: nobody may take this for the present state.
    is_suspended: bool,
    /// How many followers take a dump.
    pins: usize,
    /// Each with the offset of the last byte before it.
    pieces: VecDeque<(i64, Segment)>,
    memory_bytes: usize,
    /// The offset of the last byte before the first piece, and that of the last byte of all.
    start: i64,
    end: i64,
}

/// A place in the stream that somebody reads from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cursor {
    version: u64,
    /// The offset of the last byte that was read.
    pub(crate) offset: i64,
}

/// What there is to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Read {
    /// This was put into the buffer.
    Some,
    /// Nothing has come in the time.
    Nothing,
    /// There is no going on: the place is not kept any more, or the history has ended.
    Lost,
}

impl Backlog {
    /// A backlog that takes about this much memory.
    pub(crate) fn new(bytes_max: usize) -> Backlog {
        let state = State {
            bytes_max,
            history: None,
            versions: 0,
            is_kept: false,
            is_closed: false,
            is_suspended: false,
            pins: 0,
            pieces: VecDeque::new(),
            memory_bytes: 0,
            start: 0,
            end: 0,
        };
        Backlog { state: Mutex::new(state), grown: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }

    /// The stream goes on from here: after a full synchronization, or at a start.
    pub(crate) fn begin(&self, id: ReplicationId, offset: i64) {
        let mut state = self.state();
        let version = state.next_version();
        state.history = Some(History { id, before: None, version });
        state.is_suspended = false;
        state.empty(offset);
        drop(state);
        self.grown.notify_all();
    }

    /// The stream goes on from an offset; `id` is what its history is called from now on.
    pub(crate) fn go_on(&self, id: ReplicationId, offset: i64) {
        let mut state = self.state();
        let Some(history) = state.history.filter(|_| state.end == offset) else {
            drop(state);
            return self.begin(id, offset);
        };
        state.is_suspended = false;
        if history.id != id {
            let version = state.next_version();
            state.history = Some(History { id, before: Some((history.id, offset)), version });
            drop(state);
            self.grown.notify_all();
        }
    }

    /// The link has lost its primary: all who read end, until it goes on or begins anew.
    pub(crate) fn suspend(&self) {
        self.state().is_suspended = true;
        self.grown.notify_all();
    }

    /// Keeps what comes while a follower takes a dump, up to [`PINNED_BYTES_MAX`].
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.state().pins += 1;
        Pin { backlog: self }
    }

    /// Whether somebody can still go on from a place.
    pub(crate) fn has(&self, cursor: Cursor) -> bool {
        let state = self.state();
        !state.is_closed && state.is_readable(cursor)
    }

    /// Nobody is to read any more.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.grown.notify_all();
    }

    /// Whether nobody is to read any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Appends what was applied; `end` is the offset behind it.
    pub(crate) fn push<'a>(&self, pieces: impl IntoIterator<Item = Piece<'a>>, end: i64) {
        let mut state = self.state();
        if state.history.is_none() {
            return;
        }
        if !state.is_kept {
            state.empty(end);
            return;
        }
        for piece in pieces {
            state.append(piece);
        }
        if state.end != end {
            // What came is not all of it: whoever reads must begin anew.
            state.empty(end);
        }
        state.trim();
        drop(state);
        self.grown.notify_all();
    }

    /// Where somebody goes on who has everything up to an offset of a history, and what the history
    /// is called now. `None`: only with a full synchronization. From now on the stream is kept.
    pub(crate) fn resume(&self, id: ReplicationId, offset: i64) -> Option<(ReplicationId, Cursor)> {
        let mut state = self.state();
        state.is_kept = true;
        let history = state.history.filter(|_| !state.is_suspended)?;
        let is_known = match history.before {
            Some((before, until)) if before == id => offset <= until,
            _ => history.id == id,
        };
        let is_here = (state.start..=state.end).contains(&offset);
        let cursor = Cursor { version: history.version, offset };
        (is_known && is_here && !state.is_closed).then_some((history.id, cursor))
    }

    /// The history and the place where the stream is. From now on it is kept.
    pub(crate) fn here(&self) -> Option<(ReplicationId, Cursor)> {
        let mut state = self.state();
        state.is_kept = true;
        let history = state.history.filter(|_| !state.is_closed && !state.is_suspended)?;
        Some((history.id, Cursor { version: history.version, offset: state.end }))
    }

    /// Puts what follows a place into the buffer, about `bytes_max` of it, and moves the place on;
    /// waits so long at most.
    pub(crate) fn read(
        &self,
        cursor: &mut Cursor,
        into: &mut Vec<u8>,
        bytes_max: usize,
        longest: Duration,
    ) -> Read {
        let state = self.state();
        let waits = |state: &mut State| {
            state.is_readable(*cursor) && state.end == cursor.offset && !state.is_closed
        };
        let waited = self.grown.wait_timeout_while(state, longest, waits);
        let (state, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        if !state.is_readable(*cursor) || state.is_closed {
            return Read::Lost;
        }
        if state.end == cursor.offset {
            return Read::Nothing;
        }
        let taken = state.copy(cursor.offset, into, bytes_max);
        cursor.offset += taken as i64;
        Read::Some
    }
}

/// A follower that takes a dump; see [`Backlog::pin`].
pub(crate) struct Pin<'a> {
    backlog: &'a Backlog,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let mut state = self.backlog.state();
        state.pins -= 1;
        state.trim();
    }
}

impl State {
    fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    fn empty(&mut self, offset: i64) {
        self.pieces.clear();
        self.memory_bytes = 0;
        (self.start, self.end) = (offset, offset);
    }

    fn append(&mut self, piece: Piece<'_>) {
        let segment = match piece {
            Piece::Bytes([]) | Piece::PassedOver(0) => return,
            Piece::Bytes(bytes) => Segment::Bytes(bytes.into()),
            Piece::PassedOver(count) => Segment::PassedOver(count),
        };
        let start = self.end;
        self.end += segment.len() as i64;
        self.memory_bytes += segment.memory_bytes();
        self.pieces.push_back((start, segment));
    }

    /// Drops the oldest pieces above the allowed memory; the newest stays in any case.
    fn trim(&mut self) {
        let bytes_max = if self.pins > 0 { PINNED_BYTES_MAX } else { self.bytes_max };
        while self.memory_bytes > bytes_max
            && self.pieces.len() > 1
            && let Some((_, oldest)) = self.pieces.pop_front()
        {
            self.memory_bytes -= oldest.memory_bytes();
            self.start += oldest.len() as i64;
        }
    }

    fn is_readable(&self, cursor: Cursor) -> bool {
        !self.is_suspended
            && self.history.is_some_and(|history| history.version == cursor.version)
            && (self.start..=self.end).contains(&cursor.offset)
    }

    /// Appends what follows an offset, and gives how much it was. O(log pieces) and what is copied.
    fn copy(&self, offset: i64, into: &mut Vec<u8>, bytes_max: usize) -> u64 {
        let first =
            self.pieces.partition_point(|(start, piece)| start + piece.len() as i64 <= offset);
        let mut room = bytes_max as u64;
        for (start, piece) in self.pieces.range(first..) {
            let (before, len) = ((offset - start).max(0) as u64, piece.len());
            let taken = (len - before).min(room);
            match piece {
                Segment::Bytes(bytes) => {
                    into.extend_from_slice(&bytes[before as usize..(before + taken) as usize]);
                }
                Segment::PassedOver(_) => into.resize(into.len() + taken as usize, 0),
            }
            room -= taken;
            if room == 0 {
                break;
            }
        }
        bytes_max as u64 - room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    fn id(digit: char) -> ReplicationId {
        digit.to_string().repeat(40).parse().unwrap()
    }

    /// Everything from an offset on, read a few bytes at a time.
    fn rest(backlog: &Backlog, mut cursor: Cursor) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            match backlog.read(&mut cursor, &mut all, 3, SHORT) {
                Read::Some => {}
                Read::Nothing => return Some(all),
                Read::Lost => return None,
            }
        }
    }

    #[test]
    fn what_was_pushed_is_read_from_every_offset_with_zeros_for_what_was_passed_over() {
        let backlog = Backlog::new(1 << 20);
        backlog.begin(id('a'), 100);
        let (_, from) = backlog.here().unwrap();
        backlog.push([Piece::Bytes(b"0123"), Piece::PassedOver(4), Piece::Bytes(b"89")], 110);
        let whole = b"0123\0\0\0\089";
        assert_eq!(rest(&backlog, from).unwrap(), whole);
        for offset in 100..=110 {
            let (name, cursor) = backlog.resume(id('a'), offset).unwrap();
            assert_eq!(name, id('a'));
            assert_eq!(rest(&backlog, cursor).unwrap(), whole[(offset - 100) as usize..]);
        }
        assert!(backlog.resume(id('a'), 99).is_none());
        assert!(backlog.resume(id('a'), 111).is_none());
        assert!(backlog.resume(id('b'), 105).is_none());
    }

    #[test]
    fn nothing_is_kept_before_somebody_asks() {
        let backlog = Backlog::new(1 << 20);
        assert!(backlog.here().is_none());
        backlog.begin(id('a'), 0);
        backlog.push([Piece::Bytes(b"0123")], 4);
        assert!(backlog.state().pieces.len() == 1, "somebody has asked before");
        let fresh = Backlog::new(1 << 20);
        fresh.begin(id('a'), 0);
        fresh.push([Piece::Bytes(b"0123")], 4);
        assert!(fresh.state().pieces.is_empty());
        assert!(fresh.resume(id('a'), 0).is_none());
        assert!(fresh.resume(id('a'), 4).is_some());
    }

    #[test]
    fn the_oldest_goes_when_there_is_too_much_and_who_needs_it_is_told() {
        let backlog = Backlog::new(1000);
        backlog.begin(id('a'), 0);
        let (_, slow) = backlog.here().unwrap();
        for number in 1..=20 {
            backlog.push([Piece::Bytes(&[b'x'; 100])], number * 100);
        }
        assert!(backlog.state().memory_bytes <= 1000);
        assert_eq!(rest(&backlog, slow), None);
        assert!(backlog.resume(id('a'), 0).is_none());
        assert!(backlog.resume(id('a'), 1900).is_some());
        // One piece that is larger than all that is allowed is kept until the next.
        backlog.push([Piece::PassedOver(1 << 40)], 2000 + (1 << 40));
        assert!(backlog.resume(id('a'), 2000).is_some());
    }

    #[test]
    fn a_history_goes_on_under_another_name_from_the_place_where_its_primary_changed() {
        let backlog = Backlog::new(1 << 20);
        backlog.begin(id('a'), 0);
        let (_, old) = backlog.here().unwrap();
        backlog.push([Piece::Bytes(b"0123")], 4);
        backlog.go_on(id('b'), 4);
        assert_eq!(rest(&backlog, old), None, "it has to learn the new name");
        backlog.push([Piece::Bytes(b"4567")], 8);
        let (name, cursor) = backlog.resume(id('a'), 2).unwrap();
        assert_eq!(name, id('b'));
        assert_eq!(rest(&backlog, cursor).unwrap(), b"234567");
        assert!(backlog.resume(id('a'), 5).is_none(), "the old history went elsewhere");
        assert!(backlog.resume(id('b'), 5).is_some());
        backlog.begin(id('c'), 50);
        assert_eq!(rest(&backlog, cursor), None);
        assert!(backlog.resume(id('b'), 8).is_none());
    }

    #[test]
    fn what_comes_while_a_follower_takes_a_dump_is_kept_for_it() {
        let backlog = Backlog::new(1000);
        backlog.begin(id('a'), 0);
        let (_, cursor) = backlog.here().unwrap();
        let pin = backlog.pin();
        for number in 1..=100 {
            backlog.push([Piece::Bytes(&[b'x'; 100])], number * 100);
        }
        assert!(backlog.has(cursor));
        assert_eq!(rest(&backlog, cursor).unwrap().len(), 10_000);
        drop(pin);
        assert!(!backlog.has(cursor));
        assert!(backlog.state().memory_bytes <= 1000);
    }

    #[test]
    fn nobody_reads_while_the_link_has_no_primary() {
        let backlog = Backlog::new(1000);
        backlog.begin(id('a'), 0);
        let (_, cursor) = backlog.here().unwrap();
        backlog.suspend();
        assert_eq!(rest(&backlog, cursor), None);
        assert!(backlog.here().is_none());
        assert!(backlog.resume(id('a'), 0).is_none());
        backlog.go_on(id('a'), 0);
        assert!(backlog.resume(id('a'), 0).is_some());
    }

    #[test]
    fn a_gap_in_what_comes_makes_everybody_begin_anew() {
        let backlog = Backlog::new(1 << 20);
        backlog.begin(id('a'), 0);
        let (_, cursor) = backlog.here().unwrap();
        backlog.push([Piece::Bytes(b"0123")], 5);
        assert_eq!(rest(&backlog, cursor), None);
        assert!(backlog.resume(id('a'), 5).is_some());
    }

    #[test]
    fn who_waits_is_woken_by_bytes_and_by_the_end() {
        let backlog = Backlog::new(1 << 20);
        backlog.begin(id('a'), 0);
        let (_, mut cursor) = backlog.here().unwrap();
        let long = Duration::from_secs(60);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut all = Vec::new();
                while backlog.read(&mut cursor, &mut all, 100, long) == Read::Some {}
                all
            });
            for number in 1..=50 {
                backlog.push([Piece::Bytes(b"ab")], number * 2);
            }
            // It has read all by now, or the end comes before the rest: both are as they should.
            backlog.close();
            let all = reader.join().unwrap();
            assert_eq!(all, b"ab".repeat(50)[..all.len()]);
        });
    }
}
