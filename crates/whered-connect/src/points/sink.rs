//! Where points go: GEOADD of 100 points, ten commands at once; and where bad records are counted.
//!
//! Not for reading. Coordinates are checked here, for all formats alike.
//!
//! ```text
//! window n     being filled          100 points a command, 10 commands
//! window n-1   sent, not answered    its replies are taken before window n is sent
//! ```
//!
//! Invariant: replies are counted, so that `written` is what the server acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Cmd, Value};
use whered_geo::Place;

use super::repeats::Repeats;
use super::{LoadOptions, LoadSummary, MemberChoice, Spot};
use crate::error::ConnectError;
use crate::{Progress, Server};

const COMMAND_POINTS: usize = 100;
const WINDOW_COMMANDS: usize = 10;

/// Takes one point: longitude, latitude, member.
pub(super) type OnPoint<'a> = &'a mut dyn FnMut(f64, f64, &[u8]);

/// Where points go.
pub(super) enum Target<'a> {
    Server(&'a mut Server),
    Closure(OnPoint<'a>),
}

/// An input as messages and the progress have it.
pub(super) struct Source {
    pub(super) name: String,
    /// Grows while the input is read.
    pub(super) read_bytes: Arc<AtomicU64>,
    pub(super) size_bytes: Option<u64>,
}

/// Takes records, good and bad.
pub(super) struct Sink<'a> {
    target: Target<'a>,
    on_bad: &'a mut dyn FnMut(&str),
    watch: &'a mut dyn FnMut(Progress),
    key: &'a [u8],
    is_strict: bool,
    source: Source,
    command: Cmd,
    /// Points of the command that is being made.
    points: usize,
    packed: Vec<u8>,
    /// Points of each command that is packed and of each that is sent.
    waiting: Vec<usize>,
    sent: Vec<usize>,
    records: u64,
    /// None where members cannot repeat.
    repeats: Option<Repeats>,
    loaded: LoadSummary,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        target: Target<'a>,
        options: &'a LoadOptions,
        source: Source,
        on_bad: &'a mut dyn FnMut(&str),
        watch: &'a mut dyn FnMut(Progress),
    ) -> Sink<'a> {
        Sink {
            target,
            on_bad,
            watch,
            key: &options.key,
            is_strict: options.strict,
            source,
            command: Cmd::new(),
            points: 0,
            packed: Vec::new(),
            waiting: Vec::new(),
            sent: Vec::new(),
            records: 0,
            repeats: Some(Repeats::default()),
            loaded: LoadSummary::default(),
        }
    }

    /// A point; a bad record if no collection can hold its place.
    pub(super) fn point(
        &mut self,
        longitude_degrees: f64,
        latitude_degrees: f64,
        member: &[u8],
        spot: Spot,
    ) -> Result<(), ConnectError> {
        let place = match Place::new(longitude_degrees, latitude_degrees) {
            Ok(place) => place,
            Err(error) => return self.bad(spot, &error.to_string()),
        };
        if member.is_empty() {
            return self.bad(spot, "its member is empty");
        }
        if let Some(repeats) = &mut self.repeats {
            repeats.note(member, place);
        }
        self.records += 1;
        if let Target::Closure(on_point) = &mut self.target {
            on_point(longitude_degrees, latitude_degrees, member);
            self.loaded.written += 1;
            return Ok(());
        }
        if self.points == 0 {
            self.command = redis::cmd("GEOADD");
            self.command.arg(self.key);
        }
        // The shortest text that reads as the same number again.
        self.command.arg(longitude_degrees.to_string()).arg(latitude_degrees.to_string());
        self.command.arg(member);
        self.points += 1;
        if self.points == COMMAND_POINTS {
            self.end_command();
            if self.waiting.len() == WINDOW_COMMANDS {
                self.send_window()?;
            }
        }
        Ok(())
    }

    /// What names the members, unless that is known.
    pub(super) fn note_members(&mut self, what: impl FnOnce() -> String) {
        if self.loaded.member.is_empty() {
            self.loaded.member = what();
        }
    }

    /// What names the members where that is no usual column or field, or in the place of it.
    pub(super) fn note_choice(&mut self, what: String, has_usual: bool) {
        let choice = if has_usual { MemberChoice::Instead } else { MemberChoice::Unusual };
        (self.loaded.member, self.loaded.choice) = (what, choice);
    }

    /// Members are numbers that no two records have.
    pub(super) fn expect_no_repeats(&mut self) {
        self.repeats = None;
    }

    /// A bad record; with `strict` the end.
    pub(super) fn bad(&mut self, spot: Spot, what: &str) -> Result<(), ConnectError> {
        let line = format!("{}: {spot}: {what}", self.source.name);
        self.records += 1;
        self.loaded.bad += 1;
        if self.is_strict {
            return Err(ConnectError::new(line));
        }
        (self.on_bad)(&line);
        Ok(())
    }

    /// A record that was not asked for. Only nodes are chosen among.
    #[cfg(feature = "osm")]
    pub(super) fn leave_out(&mut self) {
        self.records += 1;
        self.loaded.left_out += 1;
    }

    /// Sends what is left and takes all replies.
    pub(super) fn finish(mut self) -> Result<LoadSummary, ConnectError> {
        // A connection that an error has ended gives no replies.
        if let Target::Server(server) = &self.target
            && server.is_open()
        {
            self.end_command();
            self.send_window()?;
            self.take_replies()?;
        }
        if let Some(repeats) = self.repeats {
            self.loaded.repeated_members = repeats.members;
            self.loaded.replaced = repeats.records;
            self.loaded.repeats_are_part = repeats.is_part;
        }
        Ok(self.loaded)
    }

    fn end_command(&mut self) {
        if self.points > 0 {
            self.command.write_packed_command(&mut self.packed);
            self.waiting.push(self.points);
            self.points = 0;
        }
    }

    fn send_window(&mut self) -> Result<(), ConnectError> {
        self.take_replies()?;
        if let Target::Server(server) = &mut self.target {
            server.send(&self.packed)?;
        }
        self.packed.clear();
        std::mem::swap(&mut self.sent, &mut self.waiting);
        let done = self.source.read_bytes.load(Ordering::Relaxed);
        (self.watch)(Progress { done, total: self.source.size_bytes, records: self.records });
        Ok(())
    }

    fn take_replies(&mut self) -> Result<(), ConnectError> {
        let mut taken = Ok(());
        let Target::Server(server) = &mut self.target else { return Ok(()) };
        for points in self.sent.drain(..) {
            match server.receive() {
                Ok(Value::Int(added)) => {
                    self.loaded.written += points as u64;
                    self.loaded.added += u64::try_from(added).unwrap_or_default();
                }
                Ok(_) => taken = Err(ConnectError::new("a reply to GEOADD that is no number")),
                Err(error) if error.is_refusal() => taken = taken.and(Err(error)),
                Err(error) => return Err(error),
            }
        }
        taken
    }
}
