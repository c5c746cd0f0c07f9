//! Changes of one nf_tables table that others make, for a table that `nft` itself writes.
//!
//! For: noticing that rules, maps or sets of the table were changed, or that it is gone. Not for:
//! what the table shall hold; sets that something else keeps in step (`watch`).
//!
//! ```text
//! generation 7 ──► nft -f (ours) ──► generation 8: announcements so far are ours
//!                                    generation 9: somebody else was there, too
//! ```
//!
//! Where several transactions were at the same time, those of one socket are ours.
//!
//! Invariant: a change of the table by somebody else is seen, or the table counts as touched.
//! Cost: one read at each look.

use std::io;

use super::netlink::{self, Fault, Listener, Messages, Netlink};
use crate::error::ConnectError;

// Kinds of messages, and attributes, of linux/netfilter/nf_tables.h.
const GET_GENERATION: u16 = 16;
const GENERATION_ID: u16 = 1;
/// From this kind on messages are about other things, but for those that destroy.
const LAST_OF_ELEMENTS: u16 = 14;
const DESTROY: std::ops::RangeInclusive<u16> = 26..=30;
/// About sets and their elements.
const OF_SETS: [u16; 6] = [9, 11, 12, 14, 29, 30];
/// The table's name is the first attribute of all of these, a set's the second.
const TABLE: u16 = 1;
const SET: u16 = 2;

/// A port that no socket has.
const NOBODY: u32 = u32::MAX;

/// A table that is watched.
pub struct TableWatch {
    listener: Listener,
    socket: Netlink,
    family: u8,
    table: String,
    /// Sets that something else keeps in step.
    others: Vec<String>,
}

impl TableWatch {
    /// Watches a table from now on; `family` is nft's word.
    ///
    /// # Errors
    ///
    /// If the system has no nf_tables, or does not permit it.
    pub fn open(family: &str, table: &str) -> Result<TableWatch, ConnectError> {
        let fail = |error: io::Error| wrong(family, table, &error);
        Ok(TableWatch {
            listener: Listener::open(NOBODY).map_err(fail)?,
            socket: Netlink::open().map_err(fail)?,
            family: number_of(family),
            table: table.to_owned(),
            others: Vec::new(),
        })
    }

    /// Looks at the table of this family, but for these sets.
    pub fn look_at(&mut self, family: &str, others: Vec<String>) {
        (self.family, self.others) = (number_of(family), others);
    }

    /// The number of the ruleset, which is another one after each transaction.
    ///
    /// # Errors
    ///
    /// If the kernel does not answer.
    pub fn generation(&mut self) -> Result<u32, ConnectError> {
        let mut question = Messages::default();
        question.begin(GET_GENERATION, 0, 0);
        let answer = self.socket.ask(question).map_err(|fault| match fault {
            Fault::Refused(refusal) => {
                ConnectError::new(io::Error::from_raw_os_error(refusal.errno).to_string())
            }
            Fault::Socket(error) => ConnectError::new(error.to_string()),
        })?;
        let id = netlink::attributes(&answer).find(|(kind, _)| *kind == GENERATION_ID);
        let octets = id.and_then(|(_, octets)| octets.try_into().ok());
        octets
            .map(u32::from_be_bytes)
            .ok_or_else(|| ConnectError::new("the kernel gives its ruleset no number".to_owned()))
    }

    /// Whether the table was touched since the last look.
    ///
    /// # Errors
    ///
    /// The socket's.
    pub fn was_touched(&mut self) -> Result<bool, ConnectError> {
        Ok(self.writers()? != Some(0))
    }

    /// How many sockets have touched the table since the last look; `None` if that were too many
    /// changes to be told.
    ///
    /// # Errors
    ///
    /// The socket's.
    pub fn writers(&mut self) -> Result<Option<usize>, ConnectError> {
        let mut ports: Vec<u32> = Vec::new();
        let (family, table, others) = (self.family, self.table.as_bytes(), &self.others);
        let is_whole = self.listener.drain(|announcement| {
            let is_new = !ports.contains(&announcement.port);
            if is_new && touches(announcement, family, table, others) {
                ports.push(announcement.port);
            }
        });
        let is_whole = is_whole.map_err(|error| ConnectError::new(error.to_string()))?;
        Ok(is_whole.then_some(ports.len()))
    }
}

/// The number of a family of tables, of those that rules are compiled to.
pub(super) fn number_of(family: &str) -> u8 {
    match family {
        "ip" => 2,
        "ip6" => 10,
        _ => 1,
    }
}

fn wrong(family: &str, table: &str, error: &io::Error) -> ConnectError {
    let what = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "not permitted; allowed: root, or CAP_NET_ADMIN in the network namespace".to_owned()
        }
        Some(libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT) => {
            "this system has no nf_tables".to_owned()
        }
        _ => error.to_string(),
    };
    ConnectError::new(format!("nft table {family} {table}: {what}"))
}

/// Whether an announcement is about the table, and not about elements of a set of others.
fn touches(
    announcement: &netlink::Announcement<'_>,
    family: u8,
    table: &[u8],
    others: &[String],
) -> bool {
    let kind = announcement.kind;
    let name = |wanted: u16| {
        let found = netlink::attributes(announcement.attributes).find(|(one, _)| *one == wanted);
        found.map(|(_, text)| text.strip_suffix(&[0]).unwrap_or(text))
    };
    if announcement.family != family || !(kind <= LAST_OF_ELEMENTS || DESTROY.contains(&kind)) {
        return false;
    }
    let is_others = || {
        let set = name(SET);
        OF_SETS.contains(&kind) && others.iter().any(|one| set == Some(one.as_bytes()))
    };
    name(TABLE) == Some(table) && !is_others()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_the_table_count_and_those_of_sets_of_others_do_not() {
        let about = |kind: u16, family: u8, table: &str, second: &str| {
            let mut messages = Messages::default();
            messages.begin(kind, 0, family);
            messages.text(TABLE, table);
            messages.text(SET, second);
            let others = ["live_v4".to_owned()];
            let mut found = Vec::new();
            netlink::announcements(messages.bytes(), |it| {
                found.push(touches(it, 1, b"w", &others));
            });
            assert_eq!(found.len(), 1);
            found[0]
        };
        for kind in [0, 2, 3, 5, 6, 8, 9, 11, 12, 14, 26, 27, 28, 29, 30] {
            assert!(about(kind, 1, "w", "whered_1"), "{kind}");
            assert!(!about(kind, 2, "w", "whered_1"), "another family");
            assert!(!about(kind, 1, "v", "whered_1"), "another table");
        }
        assert!(!about(12, 1, "w", "live_v4") && !about(14, 1, "w", "live_v4"));
        assert!(about(6, 1, "w", "live_v4"), "a rule of a chain of that name");
        assert!(!about(15, 1, "w", ""), "the end of a transaction");
    }
}
