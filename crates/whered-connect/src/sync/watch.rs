//! Changes of one nf_tables set that others make, as the kernel announces them.
//!
//! For: noticing that a set was flushed, deleted, declared anew or given other elements, without
//! reading its elements. Not for: changes that packets make (`add @set { ip saddr }` in a rule),
//! which the kernel does not announce; a whole comparison finds those.
//!
//! ```text
//! nft -f, another writer ──► the kernel ──► group NFTABLES ──► filter: not ours ──► touches the set?
//! our own socket ─────────►     "                 "              dropped
//! ```
//!
//! Invariants: announcements of a transaction are queued before its writer gets the answer, so a
//! look after a change sees it. Where the queue was too short for what happened, the set counts as
//! touched.
//! Cost: one read at each look. Our own transactions are dropped by a filter in the kernel: half a
//! million elements of ours would overflow the queue each time.

use std::io;

use super::netlink::{self, Announcement, Listener};

// Kinds of messages, and attributes, of linux/netfilter/nf_tables.h.
const DELETE_TABLE: u16 = 2;
const NEW_SET: u16 = 9;
const DELETE_SET: u16 = 11;
const NEW_ELEMENTS: u16 = 12;
const DELETE_ELEMENTS: u16 = 14;
const DESTROY_TABLE: u16 = 26;
const DESTROY_SET: u16 = 29;
const DESTROY_ELEMENTS: u16 = 30;
/// The table's name is the first attribute of all of these, the set's the second.
const TABLE: u16 = 1;
const SET: u16 = 2;

/// A set that is watched.
pub(super) struct Watch {
    listener: Listener,
    /// The socket whose transactions are ours.
    port: u32,
    table_family: u8,
    table: String,
    set: String,
}

impl Watch {
    /// Watches a set; transactions of the socket with this port are passed over.
    pub(super) fn open(port: u32, table_family: u8, table: &str, set: &str) -> io::Result<Watch> {
        let listener = Listener::open(port)?;
        let (table, set) = (table.to_owned(), set.to_owned());
        Ok(Watch { listener, port, table_family, table, set })
    }

    /// Whether the socket with this port is the one whose transactions are passed over.
    pub(super) fn is_of(&self, port: u32) -> bool {
        self.port == port
    }

    /// Whether somebody else has touched the set since the last look.
    pub(super) fn was_touched(&mut self) -> io::Result<bool> {
        let mut is_touched = false;
        let (family, table, set) = (self.table_family, &self.table, &self.set);
        let is_whole = self.listener.drain(|announcement| {
            is_touched |= touches(announcement, family, table, set);
        })?;
        Ok(is_touched || !is_whole)
    }
}

/// Whether an announcement is about the set.
fn touches(announcement: &Announcement<'_>, family: u8, table: &str, set: &str) -> bool {
    let has = |wanted: u16, name: &str| {
        netlink::attributes(announcement.attributes)
            .find(|(kind, _)| *kind == wanted)
            .is_some_and(|(_, text)| text.strip_suffix(&[0]).unwrap_or(text) == name.as_bytes())
    };
    match announcement.kind {
        _ if announcement.family != family => false,
        DELETE_TABLE | DESTROY_TABLE => has(TABLE, table),
        NEW_SET | DELETE_SET | DESTROY_SET | NEW_ELEMENTS | DELETE_ELEMENTS | DESTROY_ELEMENTS => {
            has(TABLE, table) && has(SET, set)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::netlink::Messages;

    #[test]
    fn announcements_about_other_sets_and_tables_are_passed_over() {
        let about = |kind: u16, family: u8, table: &str, set: &str| {
            let mut messages = Messages::default();
            messages.begin(kind, 0, family);
            messages.text(TABLE, table);
            messages.text(SET, set);
            let mut found = Vec::new();
            netlink::announcements(messages.bytes(), |it| found.push(touches(it, 1, "t", "s")));
            assert_eq!(found.len(), 1);
            found[0]
        };
        let kinds =
            [NEW_SET, DELETE_SET, DESTROY_SET, NEW_ELEMENTS, DELETE_ELEMENTS, DESTROY_ELEMENTS];
        for kind in kinds {
            assert!(about(kind, 1, "t", "s"));
            assert!(!about(kind, 2, "t", "s"), "another family");
            assert!(!about(kind, 1, "u", "s"), "another table");
            assert!(!about(kind, 1, "t", "s2"), "another set");
        }
        assert!(about(DELETE_TABLE, 1, "t", ""));
        assert!(!about(6, 1, "t", "s"), "a rule");
    }
}
