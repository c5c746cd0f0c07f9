//! The slots of a Redis cluster: which one a key has, and which link follows it.
//!
//! For: looking a followed key up where its slot's owner puts it, and `CLUSTER KEYSLOT`. Not for:
//! how the owners are learned (the server's links).
//!
//! Source: the Redis cluster specification, "Key distribution model" and "Hash tags".
//! Cost: a slot is one table step a byte; an owner is one relaxed load.

use std::sync::RwLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::LINKS_MAX;
pub use crate::journal::imports::SLOTS;
use crate::sync;

/// The byte of a slot that no link follows.
const NOBODY: u8 = u8::MAX;

const _: () = assert!(LINKS_MAX <= 64, "a link's number is a byte, and a bit of 64");

/// Which link follows the owner of each slot, and where clients find that owner. It may be changed
/// while it is read.
#[derive(Debug)]
pub struct SlotOwners {
    links: Box<[AtomicU8]>,
    /// A bit for each link: it may only have keys of slots whose owner it follows.
    only_own: AtomicU64,
    /// By link: host and port.
    addresses: RwLock<[Option<String>; LINKS_MAX]>,
}

impl Default for SlotOwners {
    fn default() -> SlotOwners {
        SlotOwners {
            links: (0..SLOTS).map(|_| AtomicU8::new(NOBODY)).collect(),
            only_own: AtomicU64::new(0),
            addresses: RwLock::new([const { None }; LINKS_MAX]),
        }
    }
}

impl SlotOwners {
    /// Says which link follows the owner of a slot; `None` for none.
    ///
    /// # Panics
    /// When the slot is not below [`SLOTS`], or the link not below [`LINKS_MAX`].
    pub fn set(&self, slot: u16, link: Option<usize>) {
        let byte = link.map_or(NOBODY, |link| {
            assert!(link < LINKS_MAX, "a link's number is below {LINKS_MAX}");
            link as u8
        });
        self.links[usize::from(slot)].store(byte, Ordering::Relaxed);
    }

    /// Which link follows the owner of a slot.
    ///
    /// # Panics
    /// When the slot is not below [`SLOTS`].
    pub fn link(&self, slot: u16) -> Option<usize> {
        let byte = self.links[usize::from(slot)].load(Ordering::Relaxed);
        (byte != NOBODY).then_some(usize::from(byte))
    }

    /// Says whether a link counts for no other slots than those whose owner it follows: as long as
    /// it is down it does not know what has moved away.
    ///
    /// # Panics
    /// When the link is not below [`LINKS_MAX`].
    pub fn set_only_own(&self, link: usize, only_own: bool) {
        assert!(link < LINKS_MAX, "a link's number is below {LINKS_MAX}");
        match only_own {
            true => self.only_own.fetch_or(1 << link, Ordering::Relaxed),
            false => self.only_own.fetch_and(!(1 << link), Ordering::Relaxed),
        };
    }

    /// Whether a link may have keys of slots whose owner another one follows.
    pub(super) fn may_have_others(&self, link: usize) -> bool {
        self.only_own.load(Ordering::Relaxed) & 1 << link == 0
    }

    /// Says where clients find the primary that a link follows: `host:port`.
    ///
    /// # Panics
    /// When the link is not below [`LINKS_MAX`].
    pub fn set_address(&self, link: usize, address: Option<String>) {
        sync::write(&self.addresses)[link] = address;
    }

    /// Where clients find the owner of a slot, if it is known.
    ///
    /// # Panics
    /// When the slot is not below [`SLOTS`].
    pub fn address(&self, slot: u16) -> Option<String> {
        sync::read(&self.addresses)[self.link(slot)?].clone()
    }
}

/// The slot of a key: the CRC16 of it, or of what is between its first `{` and the next `}`, if
/// there is something.
pub fn key_slot(key: &[u8]) -> u16 {
    crc16(hashed_part(key)) % SLOTS
}

fn hashed_part(key: &[u8]) -> &[u8] {
    let open = key.iter().position(|byte| *byte == b'{');
    let tag = open.and_then(|open| {
        let behind = &key[open + 1..];
        let close = behind.iter().position(|byte| *byte == b'}')?;
        Some(&behind[..close])
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3, "the check value of the specification");
        // As a Redis 7.0 cluster answers CLUSTER KEYSLOT.
        for (key, slot) in [("foo", 12182), ("bar", 5061), ("hello", 866), ("", 0)] {
            assert_eq!(key_slot(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn only_a_tag_with_something_in_it_is_hashed() {
        let same = |key: &str, tag: &str| {
            assert_eq!(key_slot(key.as_bytes()), crc16(tag.as_bytes()) % SLOTS, "{key}");
        };
        same("{user1000}.following", "user1000");
        same("foo{}{bar}", "foo{}{bar}");
        same("foo{{bar}}zap", "{bar");
        same("foo{bar}{zap}", "bar");
        same("foo{bar", "foo{bar");
        same("foo}{bar}", "bar");
    }

    #[test]
    fn a_link_that_is_down_has_keys_of_its_own_slots_alone() {
        let owners = SlotOwners::default();
        assert!(owners.may_have_others(63));
        owners.set_only_own(63, true);
        assert!(!owners.may_have_others(63) && owners.may_have_others(62));
        owners.set_only_own(63, false);
        assert!(owners.may_have_others(63));
    }

    #[test]
    fn an_owner_is_the_one_that_was_said_last() {
        let owners = SlotOwners::default();
        assert_eq!(owners.link(7), None);
        owners.set(7, Some(LINKS_MAX - 1));
        owners.set(8, Some(0));
        assert_eq!([owners.link(7), owners.link(8)], [Some(LINKS_MAX - 1), Some(0)]);
        owners.set(7, None);
        assert_eq!(owners.link(7), None);
        owners.set_address(0, Some("192.0.2.1:6379".to_owned()));
        assert_eq!(owners.address(8).as_deref(), Some("192.0.2.1:6379"));
        assert_eq!(owners.address(7), None);
    }
}
