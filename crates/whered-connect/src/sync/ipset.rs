//! An ipset, written by the program `ipset`.
//!
//! For: `hash:net` and `hash:ip`, with or without timeouts. Not for: the other types.
//!
//! ```text
//! replace   create NAME.new ...; add ... ; swap NAME.new NAME; destroy NAME.new
//! change    add ... (new and renewed)  and only then  del ...
//! ```
//!
//! Invariants: ipset has no transactions. A swap is one moment; a change adds before it removes, so
//! that a member is never missing, though one that goes may stay some milliseconds longer.
//! Cost: a program start, and some 1 us a prefix.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::program;
use super::{Content, Difference, Family, Piece, ReadBack, Sink, Transaction, now_millis};
use crate::error::ConnectError;

/// The kernel counts timeouts in milliseconds of 32 bits.
const TIMEOUT_SECONDS_MAX: u64 = 2_147_483;
/// What a set made by us can hold at least.
const ROOM_MIN: usize = 65_536;
const NAME_MAX: usize = 31;
/// Members that end as near as this to now may be counted by the kernel or not.
const NEAR_MILLIS: u64 = 2_000;

/// An ipset by its name.
pub struct Ipset {
    name: String,
    family: Family,
    create: bool,
    kind: Kind,
    has_timeouts: bool,
    /// How many elements it can hold.
    room: usize,
    /// Words of its making that another one like it needs too.
    options: String,
    /// The set that was written last, as [`identity`] tells it.
    identity: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Net,
    Address,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Net => "hash:net",
            Kind::Address => "hash:ip",
        }
    }
}

impl Ipset {
    pub(super) fn new(name: &str, family: Family, create: bool) -> Ipset {
        Ipset {
            name: name.to_owned(),
            family,
            create,
            kind: Kind::Net,
            has_timeouts: true,
            room: ROOM_MIN,
            options: " timeout 0".to_owned(),
            identity: String::new(),
        }
    }

    fn wrong(&self, what: &str) -> ConnectError {
        ConnectError::new(format!("{}: {what}", self.name()))
    }

    fn run(&self, arguments: &[&str], input: &[u8]) -> Result<String, ConnectError> {
        program::run("ipset", arguments, input).map_err(|what| {
            if what.contains("Operation not permitted") {
                let allowed = "root, or CAP_NET_ADMIN in the set's network namespace";
                return self.wrong(&format!("not permitted; allowed: {allowed}"));
            }
            if what.contains("does not exist") {
                let family = family_name(self.family);
                return self.wrong(&format!(
                    "there is no such set; allowed: --create, or ipset create {} hash:net family \
                     {family} timeout 0",
                    self.name
                ));
            }
            self.wrong(&what)
        })
    }

    /// The line that makes a set like this one with room for `count` members.
    fn creation(&self, name: &str, count: usize) -> String {
        let room = self.room.max((count + count / 4).next_power_of_two());
        let hashes = (count / 4).next_power_of_two().max(1024);
        let (kind, family) = (self.kind.name(), family_name(self.family));
        format!(
            "create {name} {kind} family {family} hashsize {hashes} maxelem {room}{}\n",
            self.options
        )
    }

    /// The name of the set that is filled beside the old one.
    fn new_name(&self) -> String {
        let kept: String = self.name.chars().take(NAME_MAX - ".new".len()).collect();
        format!("{kept}.new")
    }

    /// Takes over what the program says of the set.
    fn take(&mut self, about: &str) -> Result<(), ConnectError> {
        let field = |name: &str| about.lines().find_map(|line| line.strip_prefix(name));
        let kind = field("Type:").unwrap_or_default().trim();
        self.kind = match kind {
            "hash:net" => Kind::Net,
            "hash:ip" => Kind::Address,
            _ => {
                return Err(self.wrong(&format!("found type {kind}; allowed: hash:net, hash:ip")));
            }
        };
        let header = field("Header:").unwrap_or_default();
        self.options.clear();
        self.has_timeouts = false;
        let mut words = header.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "family" if words.next() == Some("inet6") => self.family = Family::Ipv6,
                "family" => self.family = Family::Ipv4,
                "maxelem" => {
                    let room = words.next().and_then(|word| word.parse().ok());
                    self.room = room.unwrap_or(ROOM_MIN);
                }
                "timeout" => {
                    self.has_timeouts = true;
                    let default = words.next().unwrap_or("0");
                    let _written = write!(self.options, " timeout {default}");
                }
                "netmask" | "bitmask" => {
                    return Err(self.wrong(&format!("found {word}; allowed: a set without it")));
                }
                "counters" | "comment" | "skbinfo" | "forceadd" => {
                    let _written = write!(self.options, " {word}");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `add NAME 10.0.0.0/8 timeout 5`.
    fn add(
        &self,
        name: &str,
        piece: &Piece,
        now_millis: u64,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Some(block) = piece.block(self.family) else { return Ok(()) };
        write!(out, "add {name} {block}")?;
        if self.has_timeouts {
            let seconds = self.timeout_seconds(piece, now_millis);
            // Zero is for ever, whatever the set's own timeout is.
            write!(out, " timeout {}", seconds.unwrap_or(0))?;
        }
        writeln!(out)
    }

    /// What the set is told; nothing where it cannot count so far.
    fn timeout_seconds(&self, piece: &Piece, now_millis: u64) -> Option<u64> {
        let seconds = piece.left_millis(now_millis)?.div_ceil(1000).max(1);
        (seconds <= TIMEOUT_SECONDS_MAX).then_some(seconds)
    }

    fn text(&self, what: Transaction<'_>, now_millis: u64) -> Result<Vec<u8>, ConnectError> {
        let mut text = Vec::new();
        let written = self.write(what, now_millis, &mut text);
        written.map(|()| text).map_err(|error| self.wrong(&error.to_string()))
    }
}

/// What stays the same of a set as long as it is the same one: its type and header, which has a
/// random number of its making; not its size, which grows with its elements.
fn identity(about: &str) -> String {
    let lines = about.lines().filter(|it| it.starts_with("Type:") || it.starts_with("Header:"));
    let mut kept = String::new();
    let mut words = lines.flat_map(str::split_whitespace);
    while let Some(word) = words.next() {
        if word == "hashsize" {
            words.next();
        } else {
            kept.push_str(word);
            kept.push(' ');
        }
    }
    kept
}

/// What `ipset save` says of a set.
fn content(text: &str, has_timeouts: bool, now_millis: u64) -> Content {
    let longest_millis = has_timeouts.then_some((TIMEOUT_SECONDS_MAX - 10) * 1000);
    let mut content = Content { pieces: Vec::new(), foreign: 0, longest_millis };
    for line in text.lines().filter(|line| line.starts_with("add ")) {
        match piece(line, now_millis) {
            Some(piece) => content.pieces.push(piece),
            None => content.foreign += 1,
        }
    }
    content
}

/// A line `add NAME 10.0.0.0/8 timeout 5`. None for what we never write: `nomatch`, ports.
fn piece(line: &str, now_millis: u64) -> Option<Piece> {
    let mut words = line.split_whitespace().skip(2);
    let block: whered_ip::Block = words.next()?.parse().ok()?;
    let mut until_millis = None;
    while let Some(word) = words.next() {
        match word {
            "nomatch" => return None,
            "timeout" => {
                let seconds: u64 = words.next()?.parse().ok()?;
                let millis = seconds.saturating_mul(1000);
                until_millis = (seconds > 0).then(|| now_millis.saturating_add(millis));
            }
            // The rest counts packets or remarks on the element.
            "comment" => break,
            _ => {}
        }
    }
    let number = |address| match address {
        std::net::IpAddr::V4(v4) => u128::from(v4.to_bits()),
        std::net::IpAddr::V6(v6) => v6.to_bits(),
    };
    Some(Piece { first: number(block.first()), last: number(block.last()), until_millis })
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "inet",
        Family::Ipv6 => "inet6",
    }
}

impl Sink for Ipset {
    fn name(&self) -> String {
        format!("ipset {}", self.name)
    }

    fn family(&self) -> Family {
        self.family
    }

    fn prepare(&mut self) -> Result<(), ConnectError> {
        let ask = ["list", "-terse", self.name.as_str()];
        let about = match self.run(&ask, b"") {
            Err(error) if self.create && error.to_string().contains("no such set") => {
                let creation = self.creation(&self.name, 0);
                self.run(&["restore"], creation.as_bytes())?;
                self.run(&ask, b"")?
            }
            other => other?,
        };
        self.take(&about)
    }

    /// An ipset holds prefixes, and none of length zero.
    fn shape(&self, pieces: Vec<Piece>) -> Result<Vec<Piece>, ConnectError> {
        let mut shaped = Vec::with_capacity(pieces.len());
        for piece in pieces {
            if piece.is_single() {
                shaped.push(piece);
                continue;
            }
            let Some(block) = piece.block(self.family) else { continue };
            if self.kind == Kind::Address {
                return Err(self.wrong(&format!("cannot hold {block}; allowed: a set of hash:net")));
            }
            let Some(prefix) = block.as_prefix().filter(|prefix| prefix.length_bits() > 0) else {
                split(&piece, self.family, &mut shaped);
                continue;
            };
            debug_assert_eq!(whered_ip::Block::from(prefix), block);
            shaped.push(piece);
        }
        Ok(shaped)
    }

    fn ends_itself(&self, _piece: &Piece, _now_millis: u64) -> bool {
        // One that it could not count up to was told to stay for ever; removing one that has ended
        // already is no error.
        false
    }

    fn replace(&mut self, pieces: &[Piece], now_millis: u64) -> Result<(), ConnectError> {
        // What a run that was killed has left behind.
        let _none = program::run("ipset", &["destroy", &self.new_name()], b"");
        let text = self.text(Transaction::Replace(pieces), now_millis)?;
        self.run(&["restore"], &text)?;
        let about = self.run(&["list", "-terse", self.name.as_str()], b"")?;
        self.identity = identity(&about);
        Ok(())
    }

    fn change(&mut self, difference: &Difference, now_millis: u64) -> Result<(), ConnectError> {
        let text = self.text(Transaction::Change(difference), now_millis)?;
        self.run(&["-exist", "restore"], &text).map(drop)
    }

    fn is_intact(&mut self, held: &[Piece], now_millis: u64) -> Result<bool, ConnectError> {
        let Ok(about) = self.run(&["list", "-terse", self.name.as_str()], b"") else {
            return Ok(false);
        };
        if identity(&about) != self.identity {
            return Ok(false);
        }
        let count = about.lines().find_map(|line| line.strip_prefix("Number of entries:"));
        let Some(count) = count.and_then(|count| count.trim().parse::<usize>().ok()) else {
            return Ok(true);
        };
        let lasting = |until: u64| {
            held.iter().filter(|it| it.until_millis.is_none_or(|end| end > until)).count()
        };
        let fewest = lasting(now_millis.saturating_add(NEAR_MILLIS));
        // Older kernels count elements that have ended until they are swept.
        Ok((fewest..=held.len()).contains(&count))
    }

    fn announces_changes(&self) -> bool {
        false
    }

    fn read_back(&self) -> ReadBack {
        let (name, shown, has_timeouts) = (self.name.clone(), self.name(), self.has_timeouts);
        Box::new(move || {
            let text = program::run("ipset", &["save", &name], b"");
            let text = text.map_err(|what| ConnectError::new(format!("{shown}: {what}")))?;
            Ok(Some(content(&text, has_timeouts, now_millis())))
        })
    }

    fn write(&self, what: Transaction<'_>, now_millis: u64, out: &mut dyn Write) -> io::Result<()> {
        match what {
            Transaction::Replace(pieces) => {
                let (name, new) = (&self.name, self.new_name());
                out.write_all(self.creation(&new, pieces.len()).as_bytes())?;
                for piece in pieces {
                    self.add(&new, piece, now_millis, out)?;
                }
                writeln!(out, "swap {new} {name}\ndestroy {new}")
            }
            Transaction::Change(difference) => {
                for piece in difference.add.iter().chain(&difference.renew) {
                    self.add(&self.name, piece, now_millis, out)?;
                }
                let gone = difference.remove.iter().filter_map(|piece| piece.block(self.family));
                for block in gone {
                    writeln!(out, "del {} {block}", self.name)?;
                }
                Ok(())
            }
        }
    }
}

/// The prefixes of a piece, in order.
fn split(piece: &Piece, family: Family, into: &mut Vec<Piece>) {
    let middle = family.highest() / 2;
    let parts = if piece.first == 0 && piece.last == family.highest() {
        vec![Piece { last: middle, ..*piece }, Piece { first: middle + 1, ..*piece }]
    } else {
        vec![*piece]
    };
    for part in parts {
        let prefixes = part.block(family).into_iter().flat_map(|block| block.prefixes());
        let mut first = part.first;
        for prefix in prefixes {
            let free_bits = family.bits() - u32::from(prefix.length_bits());
            let last = first | 1_u128.checked_shl(free_bits).map_or(u128::MAX, |size| size - 1);
            into.push(Piece { first, last, ..*piece });
            first = last.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_told_by_its_making_and_not_by_its_size() {
        let about = |hashsize: u32, made: &str| {
            identity(&format!(
                "Name: s\nType: hash:net\nHeader: family inet hashsize {hashsize} maxelem 65536 \
                 initval {made}\nReferences: 0\nNumber of entries: 2\n"
            ))
        };
        assert_eq!(about(1024, "0x1"), about(2048, "0x1"));
        assert_ne!(about(1024, "0x1"), about(1024, "0x2"));
    }

    #[test]
    fn saved_elements_are_read_back_and_foreign_ones_counted() {
        let text = "create s hash:net family inet\nadd s 1.2.3.4 timeout 0 comment \"timeout 5\"\n\
                    add s 10.0.0.0/8 timeout 49\nadd s 10.1.0.0/16 nomatch\nadd s 1.2.3.4,80\n";
        let found = content(text, true, 1_000);
        assert_eq!(found.foreign, 2);
        let ends: Vec<_> = found.pieces.iter().map(|piece| piece.until_millis).collect();
        assert_eq!(ends, [None, Some(50_000)]);
        assert_eq!(found.pieces[1].last - found.pieces[1].first, (1 << 24) - 1);
    }
}
