//! The command table as one list: every command and subcommand with a number, found by its name.
//!
//! For: dispatch, and whatever keeps something for each command (statistics, permissions).
//! Not for: what a command is (the files beside this one).
//!
//! ```text
//! name ──hash──> slots[512] ──> entries: [auth] [client, client|getname, client|id ...] [echo] ...
//!                                          a container is followed by its subcommands
//! ```
//!
//! Cost: finding a command is one hash of its name and usually one comparison; finding a
//! subcommand is a search of its container's few names.

use std::sync::LazyLock;

use super::{Action, Command, FAMILIES, Flag};

/// One command or subcommand, and what dispatch asks of it for every request.
pub(crate) struct Entry {
    /// Its place in the list.
    pub(crate) number: usize,
    pub(crate) command: &'static Command,
    /// Whether it changes data.
    pub(crate) writes: bool,
    /// Whether it is refused when the memory is used up.
    pub(crate) grows: bool,
    /// Whether it is so short that reading the clock for it alone would be felt.
    pub(crate) short: bool,
    /// How many entries behind it are its subcommands.
    subcommands: usize,
}

struct Table {
    entries: Vec<Entry>,
    slots: Box<[u16]>,
}

/// A power of two, several times the number of commands.
const SLOT_COUNT: usize = 512;
/// A slot without a command.
const NOBODY: u16 = u16::MAX;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table { entries: Vec::new(), slots: vec![NOBODY; SLOT_COUNT].into() };
    for command in all() {
        let mut slot = hash(command.name.as_bytes());
        while table.slots[slot] != NOBODY {
            slot = (slot + 1) % SLOT_COUNT;
        }
        table.slots[slot] = table.entries.len() as u16;
        table.add(command, command.subcommands().len());
        command.subcommands().iter().for_each(|subcommand| table.add(subcommand, 0));
    }
    table
});

impl Table {
    fn add(&mut self, command: &'static Command, subcommands: usize) {
        let named = ["geoadd", "geohash", "geopos", "zmscore"].contains(&command.name);
        self.entries.push(Entry {
            number: self.entries.len(),
            command,
            writes: command.has(Flag::Write),
            grows: command.denies_oom(),
            short: named
                || ((command.has(Flag::Fast) || command.cost == "O(1)") && command.is_data()),
            subcommands,
        });
    }
}

impl Entry {
    /// Whether its second argument names what it does.
    pub(crate) fn has_subcommands(&self) -> bool {
        self.subcommands > 0
    }

    /// The subcommand of that name, in any case.
    pub(crate) fn subcommand(&self, name: &[u8]) -> Option<&'static Entry> {
        let own_name =
            |entry: &Entry| &entry.command.name.as_bytes()[self.command.name.len() + 1..];
        self.subcommands().iter().find(|entry| own_name(entry).eq_ignore_ascii_case(name))
    }

    /// Its subcommands.
    pub(crate) fn subcommands(&self) -> &'static [Entry] {
        &TABLE.entries[self.number + 1..self.number + 1 + self.subcommands]
    }
}

impl Command {
    /// Whether it is about data: such commands come in great numbers.
    fn is_data(&self) -> bool {
        matches!(self.action, Action::Run(_)) && !self.has(Flag::Admin)
    }
}

/// Every command, without subcommands.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// Every command and subcommand, by number.
pub(crate) fn entries() -> &'static [Entry] {
    &TABLE.entries
}

/// How many commands and subcommands there are.
pub(crate) fn count() -> usize {
    TABLE.entries.len()
}

/// The name of a number.
pub(crate) fn name_of(number: usize) -> &'static str {
    TABLE.entries[number].command.name
}

/// The entry of a command, in any case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Entry> {
    let table = &*TABLE;
    let mut slot = hash(name);
    while let Some(entry) = table.entries.get(usize::from(table.slots[slot])) {
        if entry.command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(entry);
        }
        slot = (slot + 1) % SLOT_COUNT;
    }
    None
}

/// The entry of a command or, as `container|name`, of a subcommand.
pub(crate) fn find_any(name: &[u8]) -> Option<&'static Entry> {
    match name.iter().position(|byte| *byte == b'|') {
        Some(end) => find(&name[..end])?.subcommand(&name[end + 1..]),
        None => find(name),
    }
}

/// The command of that name, in any case.
pub(crate) fn by_name(name: &[u8]) -> Option<&'static Command> {
    find(name).map(|entry| entry.command)
}

/// FNV-1a over small letters.
fn hash(name: &[u8]) -> usize {
    let step = |hash: u32, byte: &u8| {
        (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    };
    name.iter().take(64).fold(0x811c_9dc5, step) as usize % SLOT_COUNT
}
