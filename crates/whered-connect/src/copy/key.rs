//! One key: its pages from the source into the target.
//!
//! Not for: which keys, and what is remembered of them (`mod`, `state`).
//!
//! Invariants: a page is noted in the state file only after the target has acknowledged all of it;
//! a key of the target is written only if it was not there before, or was to be replaced, or the
//! state file says that it is ours. A key that turns out to be no GEO key is removed again.

use redis::Value;
use whered_geo::Cell;

use super::state::State;
use super::{CopyOptions, Outcome, Route};
use crate::Server;
use crate::error::ConnectError;

/// Members that a page of the source has, more or less.
const PAGE_MEMBERS: usize = 1000;
/// Members of one command to the target.
const COMMAND_MEMBERS: usize = 100;

/// How members are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pairs {
    /// `ZADD key score member ...`
    Scores,
    /// `GEOADD key longitude latitude member ...`, with the centres of the cells.
    Places,
}

/// A key that is to be copied.
pub(super) struct KeyCopy<'a> {
    pub(super) route: Route,
    pub(super) key: &'a [u8],
    pub(super) pairs: Pairs,
    pub(super) has_pexpire: bool,
    pub(super) options: &'a CopyOptions,
}

/// A reply to ZSCAN: where it goes on, and members with their scores in turn.
type Page = (Vec<u8>, Vec<Vec<u8>>);

/// What the pages came to.
enum Pages {
    All(u64),
    Other(Outcome),
}

impl KeyCopy<'_> {
    /// Copies, and tells `advance` of members as they are acknowledged.
    pub(super) fn run(
        &self,
        source: &mut Server,
        target: &mut Server,
        state: &mut State,
        advance: &mut dyn FnMut(u64),
    ) -> Result<Outcome, ConnectError> {
        source.select(self.route.0)?;
        target.select(self.route.1)?;
        if !state.is_begun(self.route, self.key) {
            let exists: u64 = target.query(redis::cmd("EXISTS").arg(self.key))?;
            if exists > 0 && !self.options.replace {
                return Ok(Outcome::Exists);
            }
            // Begun is noted before the first write: what is there afterwards is ours.
            if exists > 0 {
                target.query::<Value>(redis::cmd("DEL").arg(self.key))?;
            }
            state.begin(self.route, self.key)?;
        }
        match self.pages(source, target, state, advance)? {
            Pages::All(members) => self.expiry(source, target, state, members),
            // What is there now is somebody else's.
            Pages::Other(outcome @ Outcome::Refused(_)) => Ok(outcome),
            Pages::Other(outcome) => {
                target.query::<Value>(redis::cmd("DEL").arg(self.key))?;
                Ok(outcome)
            }
        }
    }

    /// All pages from the noted cursor on.
    fn pages(
        &self,
        source: &mut Server,
        target: &mut Server,
        state: &mut State,
        advance: &mut dyn FnMut(u64),
    ) -> Result<Pages, ConnectError> {
        let (cursor, mut members) = state.position();
        advance(members);
        self.ask(source, &cursor)?;
        loop {
            let page = match source.receive() {
                Ok(value) => value,
                Err(error) if error.is_wrong_type() => return Ok(Pages::Other(Outcome::Gone)),
                Err(error) => return Err(error),
            };
            let (next, pairs): Page = redis::from_redis_value(page).map_err(|_| {
                ConnectError::new(format!("{}: its reply to ZSCAN is none", source.name()))
            })?;
            let commands = self.commands(&pairs)?;
            // The next page comes while this one is written.
            let is_last = next == b"0" || commands.is_err();
            if !is_last {
                self.ask(source, &next)?;
            }
            let (packed, count) = match commands {
                Ok(commands) => commands,
                Err(outcome) => return Ok(Pages::Other(outcome)),
            };
            if let Err(error) = write(target, &packed, count) {
                if !error.is_wrong_type() {
                    return Err(error);
                }
                if !is_last {
                    // Its reply is on the way, and is not the next request's.
                    source.receive().map(drop).or_else(ConnectError::unless_refusal)?;
                }
                return Ok(Pages::Other(Outcome::Refused(error.to_string())));
            }
            let written = pairs.len() as u64 / 2;
            members += written;
            advance(written);
            if is_last {
                return Ok(Pages::All(members));
            }
            state.advance(&next, members)?;
        }
    }

    fn ask(&self, source: &mut Server, cursor: &[u8]) -> Result<(), ConnectError> {
        let mut scan = redis::cmd("ZSCAN");
        scan.arg(self.key).arg(cursor).arg("COUNT").arg(PAGE_MEMBERS);
        source.send(&scan.get_packed_command())
    }

    /// The page as packed commands and their number; or what is wrong with the key.
    fn commands(
        &self,
        pairs: &[Vec<u8>],
    ) -> Result<Result<(Vec<u8>, usize), Outcome>, ConnectError> {
        let mut packed = Vec::with_capacity(pairs.len() * 32);
        let mut count = 0;
        for chunk in pairs.chunks(2 * COMMAND_MEMBERS) {
            let name = if self.pairs == Pairs::Scores { "ZADD" } else { "GEOADD" };
            let mut command = redis::cmd(name);
            command.arg(self.key);
            for pair in chunk.chunks_exact(2) {
                let (member, score) = (&pair[0], &pair[1]);
                match (cell(score), self.pairs) {
                    (Some(cell), Pairs::Scores) => command.arg(cell.bits()),
                    (Some(cell), Pairs::Places) => {
                        let place = exact_place(cell)?;
                        command.arg(place.0).arg(place.1)
                    }
                    (None, _) if self.options.all_sorted_sets => command.arg(score),
                    (None, _) => {
                        let score = super::state::shown(score);
                        let member = super::state::shown(member);
                        return Ok(Err(Outcome::NotCells { score, member }));
                    }
                };
                command.arg(member);
            }
            command.write_packed_command(&mut packed);
            count += 1;
        }
        Ok(Ok((packed, count)))
    }

    /// Gives the target's key the time that the source's has left.
    fn expiry(
        &self,
        source: &mut Server,
        target: &mut Server,
        state: &mut State,
        members: u64,
    ) -> Result<Outcome, ConnectError> {
        let left_milliseconds: i64 = source.query(redis::cmd("PTTL").arg(self.key))?;
        let outcome = match left_milliseconds {
            -1 => Outcome::Copied,
            -2 => {
                target.query::<Value>(redis::cmd("DEL").arg(self.key))?;
                return Ok(Outcome::Gone);
            }
            _ if !self.has_pexpire => Outcome::WithoutExpiry,
            left => {
                // Left, not until when: the two machines' clocks need not agree.
                let mut expire = redis::cmd("PEXPIRE");
                target.query::<Value>(expire.arg(self.key).arg(left.max(1)))?;
                Outcome::Copied
            }
        };
        state.finish_key(members, outcome == Outcome::Copied)?;
        Ok(outcome)
    }
}

/// Writes a page and takes its replies; the first refusal is the error, after all of them.
fn write(target: &mut Server, packed: &[u8], count: usize) -> Result<(), ConnectError> {
    target.send(packed)?;
    let mut written = Ok(());
    for _ in 0..count {
        match target.receive() {
            Ok(_) => {}
            Err(error) if error.is_refusal() => written = written.and(Err(error)),
            Err(error) => return Err(error),
        }
    }
    written
}

/// The cell that a score is, if it is one.
pub(super) fn cell(score: &[u8]) -> Option<Cell> {
    let score: f64 = std::str::from_utf8(score).ok()?.parse().ok()?;
    let is_whole = score >= 0.0 && score <= Cell::MAX.bits() as f64 && score.fract() == 0.0;
    // -0 is a score of its own text and no cell's.
    (is_whole && score.is_sign_positive()).then(|| Cell::from_bits(score as u64)).flatten()
}

/// The centre of a cell as text that gives the same cell again.
fn exact_place(cell: Cell) -> Result<(String, String), ConnectError> {
    let place = cell.place();
    if Cell::from_place(place) != cell {
        let bits = cell.bits();
        return Err(ConnectError::new(format!(
            "cell {bits} has no centre that GEOADD gives it for"
        )));
    }
    Ok((place.longitude_degrees.to_string(), place.latitude_degrees.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_told_from_other_scores() {
        for (score, bits) in [
            ("3479099956230698", Some(3479099956230698)),
            ("3.479099956230698e+15", Some(3479099956230698)),
            ("13510798882111488", Some(Cell::MAX.bits())),
            ("0", Some(0)),
            ("-0", None),
            ("-1", None),
            ("1.5", None),
            ("inf", None),
            ("nan", None),
            ("13510798882111492", None),
            ("x", None),
        ] {
            assert_eq!(cell(score.as_bytes()).map(Cell::bits), bits, "{score}");
        }
    }

    #[test]
    fn the_centres_text_gives_the_cell_again() {
        for bits in [0, 1, 3479099956230698, (1 << 52) - 1, 1 << 53, Cell::MAX.bits()] {
            let cell = Cell::from_bits(bits).unwrap();
            let (longitude, latitude) = exact_place(cell).unwrap();
            let place =
                whered_geo::Place::new(longitude.parse().unwrap(), latitude.parse().unwrap())
                    .unwrap();
            assert_eq!(Cell::from_place(place), cell);
        }
    }
}
