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
//! Cost: finding a command is one multiplication and usually one comparison of sixteen bytes; finding a
//! subcommand is a search of its container's few names.

use super::command::{Action, Command, Flag};

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
    /// The beginning of its name, and the bits by which capitals differ from it.
    word: Word,
    letters: u128,
}

/// Every command and subcommand.
pub(crate) struct CommandTable {
    families: &'static [&'static [Command]],
    entries: Vec<Entry>,
    slots: Box<[u16]>,
}

/// A power of two, several times the number of commands.
const SLOT_COUNT: usize = 512;
/// A slot without a command.
const NOBODY: u16 = u16::MAX;

impl CommandTable {
    /// A table of these commands and their subcommands.
    pub(super) fn new(families: &'static [&'static [Command]]) -> CommandTable {
        let slots = vec![NOBODY; SLOT_COUNT].into();
        let mut table = CommandTable { families, entries: Vec::new(), slots };
        for command in families.iter().flat_map(|family| family.iter()) {
            let mut slot = Word::of(command.name.as_bytes()).slot();
            while table.slots[slot] != NOBODY {
                slot = (slot + 1) % SLOT_COUNT;
            }
            table.slots[slot] = table.entries.len() as u16;
            table.add(command, command.subcommands().len());
            command.subcommands().iter().for_each(|subcommand| table.add(subcommand, 0));
        }
        table
    }

    fn add(&mut self, command: &'static Command, subcommands: usize) {
        self.entries.push(Entry {
            number: self.entries.len(),
            command,
            writes: command.has(Flag::Write),
            grows: command.denies_oom(),
            short: command.has(Flag::Short)
                || ((command.has(Flag::Fast) || command.cost == "O(1)") && command.is_data()),
            subcommands,
            word: Word::of(command.name.as_bytes()),
            letters: Word::letters(command.name.as_bytes()),
        });
    }

    /// Every command, without subcommands.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Command> + use<> {
        self.families.iter().flat_map(|family| family.iter())
    }

    /// Every command and subcommand, by number.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of a command, in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&Entry> {
        let word = Word::of(name);
        let mut slot = word.slot();
        while let Some(entry) = self.entries.get(usize::from(self.slots[slot])) {
            if entry.is_named(name, word) {
                return Some(entry);
            }
            slot = (slot + 1) % SLOT_COUNT;
        }
        None
    }

    /// The entry of a command or, as `container|name`, of a subcommand.
    pub(crate) fn find_any(&self, name: &[u8]) -> Option<&Entry> {
        match name.iter().position(|byte| *byte == b'|') {
            Some(end) => self.subcommand(self.find(&name[..end])?, &name[end + 1..]),
            None => self.find(name),
        }
    }

    /// The command of that name, in any case.
    pub(crate) fn by_name(&self, name: &[u8]) -> Option<&'static Command> {
        self.find(name).map(|entry| entry.command)
    }

    /// A container's subcommand of that name, in any case.
    pub(crate) fn subcommand(&self, container: &Entry, name: &[u8]) -> Option<&Entry> {
        let prefix_len = container.command.name.len() + 1;
        let own_name = |entry: &Entry| &entry.command.name.as_bytes()[prefix_len..];
        let subcommands = self.subcommands(container);
        subcommands.iter().find(|entry| own_name(entry).eq_ignore_ascii_case(name))
    }

    /// A container's subcommands.
    pub(crate) fn subcommands(&self, container: &Entry) -> &[Entry] {
        let first = container.number + 1;
        &self.entries[first..first + container.subcommands]
    }
}

impl Entry {
    /// Whether this is its name, in any case; `word` is the beginning of it.
    #[inline]
    fn is_named(&self, name: &[u8], word: Word) -> bool {
        let own = self.command.name.as_bytes();
        (word.0 ^ self.word.0) & !self.letters == 0
            && own.len() == name.len()
            && (own.len() <= 16 || own.eq_ignore_ascii_case(name))
    }

    /// Whether its second argument names what it does.
    pub(crate) fn has_subcommands(&self) -> bool {
        self.subcommands > 0
    }
}

impl Command {
    /// Whether it is about data: such commands come in great numbers.
    fn is_data(&self) -> bool {
        matches!(self.action, Action::Run(_)) && !self.has(Flag::Admin)
    }
}

/// The first sixteen bytes of a name, of which nearly all names have no more.
#[derive(Clone, Copy)]
struct Word(u128);

/// What small letters have and capitals have not, in each byte of a word.
const SMALL: u128 = 0x2020_2020_2020_2020_2020_2020_2020_2020;

impl Word {
    fn of(name: &[u8]) -> Word {
        let mut bytes = [0; 16];
        let count = name.len().min(16);
        bytes[..count].copy_from_slice(&name[..count]);
        Word(u128::from_le_bytes(bytes))
    }

    /// The bits that its capitals may have or lack.
    fn letters(name: &[u8]) -> u128 {
        let case = |byte: &u8| if byte.is_ascii_lowercase() { 0x20 } else { 0 };
        let cases: Vec<u8> = name.iter().map(case).collect();
        Word::of(&cases).0
    }

    /// The slot of a name, whatever its case.
    fn slot(self) -> usize {
        let small = self.0 | SMALL;
        let mixed = small as u64 ^ ((small >> 64) as u64).rotate_left(29);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % SLOT_COUNT
    }
}
