//! Keys that are read anew, each by itself, because a command needs what is not here.
//!
//! ```text
//! RENAME outside fleet:a ─> pending ─ the link copies it ─> due at an offset ─ there ─> placed
//! ```
//!
//! Invariant: from the command on until the copy is placed, what the key holds here is of no worth.
//! No command that reads it is carried out: the keys that it would write are read anew as well.
//! Commands that only write it may be carried out or not, since the copy replaces everything.
//!
//! Not for: copying (`crate::replica`), and what a copy becomes here (the executor).

use std::collections::BTreeMap;

use whered_replication::{KeyContent, KeyCopy};

/// The most keys that are read anew at the same time; beyond that a dump is taken.
const KEYS_MAX: usize = 64;

/// The keys, and what is known of each.
#[derive(Default)]
pub(super) struct Rereads {
    keys: BTreeMap<Box<[u8]>, State>,
}

enum State {
    /// Nobody has read it yet. This command has made it necessary.
    Pending(String),
    /// The copy is to be placed at its offset.
    Due(KeyCopy),
}

impl Rereads {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
    }

    /// A key is to be read. One that was read already stays so: its copy has every command before
    /// its offset. Gives `false` when there are too many.
    #[must_use]
    pub(super) fn request(&mut self, key: &[u8], why: &str) -> bool {
        if !self.has(key) {
            self.keys.insert(key.into(), State::Pending(why.to_owned()));
        }
        self.keys.len() <= KEYS_MAX
    }

    /// A key that nobody has read yet, and why it is to be read.
    pub(super) fn next_pending(&self) -> Option<(&[u8], &str)> {
        self.keys.iter().find_map(|(key, state)| match state {
            State::Pending(why) => Some((&key[..], &why[..])),
            State::Due(_) => None,
        })
    }

    /// A copy was made.
    pub(super) fn provide(&mut self, key: &[u8], copy: KeyCopy) {
        self.keys.insert(key.into(), State::Due(copy));
    }

    /// The offset at which the next copy is due.
    pub(super) fn next_due(&self) -> Option<i64> {
        let due = self.keys.values().filter_map(|state| match state {
            State::Pending(_) => None,
            State::Due(copy) => Some(copy.offset),
        });
        due.min()
    }

    /// Takes out a copy that is due at an offset.
    pub(super) fn take_due(&mut self, offset: i64) -> Option<(Box<[u8]>, KeyContent)> {
        let is_due = |state: &State| matches!(state, State::Due(copy) if copy.offset == offset);
        let (key, _) = self.keys.iter().find(|(_, state)| is_due(state))?;
        let key = key.clone();
        match self.keys.remove(&key)? {
            State::Due(copy) => Some((key, copy.content)),
            State::Pending(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whered_replication::ReplicationId;

    fn copy(offset: i64) -> KeyCopy {
        let id = ReplicationId::parse(&"a".repeat(40)).expect("it is one");
        KeyCopy { id, offset, content: KeyContent::Absent }
    }

    #[test]
    fn a_key_is_pending_then_due_and_then_absent() {
        let mut rereads = Rereads::default();
        assert!(rereads.request(b"k", "RENAME a") && rereads.request(b"l", "COPY b"));
        assert_eq!(rereads.next_pending(), Some((&b"k"[..], "RENAME a")));
        rereads.provide(b"k", copy(7));
        assert_eq!(rereads.next_pending(), Some((&b"l"[..], "COPY b")));
        assert_eq!((rereads.next_due(), rereads.take_due(6)), (Some(7), None));
        assert_eq!(rereads.take_due(7), Some((b"k"[..].into(), KeyContent::Absent)));
        assert!(rereads.has(b"l") && !rereads.has(b"k"));
    }

    #[test]
    fn a_copy_has_every_command_before_its_offset() {
        let mut rereads = Rereads::default();
        assert!(rereads.request(b"k", "RENAME a"));
        rereads.provide(b"k", copy(7));
        assert!(rereads.request(b"k", "RENAME b"));
        assert_eq!((rereads.next_pending(), rereads.next_due()), (None, Some(7)));
    }

    #[test]
    fn there_are_not_more_keys_than_a_dump_is_worth() {
        let mut rereads = Rereads::default();
        let request = |number: usize| rereads.request(number.to_string().as_bytes(), "");
        assert_eq!((0..=KEYS_MAX).map(request).filter(|is_right| !is_right).count(), 1);
    }
}
