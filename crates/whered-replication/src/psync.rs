//! The beginning of replication: who we are, and from where on the primary is to send (PSYNC).
//!
//! ```text
//! PING ─> REPLCONF listening-port, version, capa eof, capa psync2, follows ─> PSYNC id offset
//!    ─> +FULLRESYNC id offset: a dump follows       ─> +CONTINUE [id]: the stream goes on
//! ```
//!
//! A primary that does not know an option of REPLCONF says so, which changes nothing. `version`
//! makes a Valkey send its own format, in which every hash can be written.
//! Facts: `replication.c` of Redis 7.0 and Valkey 9, and what they were seen to send.

use std::fmt;

use crate::connection::Connection;
use crate::error::LinkError;

/// The version that we say we have: a Valkey sends its newest format to that.
const STATED_VERSION: &str = "9.1.0";

/// The option of REPLCONF by which a whered says which keys it follows: `REPLCONF whered-follows
/// database pattern ...`.
pub const FOLLOWS_OPTION: &str = "whered-follows";

/// The id of a history of changes: 40 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicationId([u8; 40]);

impl ReplicationId {
    /// Reads an id; `None` for other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<ReplicationId> {
        let bytes: [u8; 40] = text.as_bytes().try_into().ok()?;
        bytes.iter().all(u8::is_ascii_hexdigit).then_some(ReplicationId(bytes))
    }

    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Only digits get in.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Its digits.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 40] {
        &self.0
    }
}

impl fmt::Display for ReplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ReplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a replica says of itself.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Introduction {
    /// The port where it listens, which the primary shows in `INFO`.
    pub listening_port: Option<u16>,
    /// Whether it wants one dump and no stream behind it.
    pub wants_dump_only: bool,
    /// Which keys it follows, for a primary that is a whered and has no others.
    pub follows: Option<Follows>,
}

/// Keys of one database that a replica follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Follows {
    /// The database.
    pub database: u32,
    /// Glob patterns of keys.
    pub patterns: Vec<Vec<u8>>,
}

/// What a primary sends after PSYNC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resync {
    /// A dump, which holds all changes up to an offset of a history.
    Full {
        /// The history.
        id: ReplicationId,
        /// The offset behind the dump's last change.
        offset: i64,
    },
    /// The changes behind the position that was asked from; the history may have a new id.
    Continue {
        /// The new id; `None`: as before.
        id: Option<ReplicationId>,
    },
}

impl Connection {
    /// Says who we are.
    ///
    /// # Errors
    /// The connection ends, or the primary lets this user do nothing.
    pub fn introduce(&mut self, introduction: &Introduction) -> Result<(), LinkError> {
        let reply = self.ask(&["PING"])?;
        // One that wants a password, or that has lost its own primary, says so; so does PSYNC.
        if reply.starts_with("-NOAUTH") {
            return Err(self.refusal("wants a password", &reply));
        }
        let port = introduction.listening_port.map(|port| port.to_string());
        let port = port.iter().map(|port| ("listening-port", port.as_str()));
        let options = [("version", STATED_VERSION), ("capa", "eof")];
        let last = match introduction.wants_dump_only {
            true => ("rdb-only", "1"),
            false => ("capa", "psync2"),
        };
        for (option, value) in port.chain(options).chain([last]) {
            let reply = self.ask(&["REPLCONF", option, value])?;
            if reply.starts_with("-NO") {
                return Err(self.refusal("refuses REPLCONF", &reply));
            }
        }
        if let Some(follows) = &introduction.follows {
            // Only a whered knows it, and refuses PSYNC where it has not all of these keys.
            let database = follows.database.to_string();
            let words = [&b"REPLCONF"[..], FOLLOWS_OPTION.as_bytes(), database.as_bytes()];
            let patterns = follows.patterns.iter().map(Vec::as_slice);
            self.ask_bytes(words.into_iter().chain(patterns))?;
        }
        Ok(())
    }

    /// Asks for what follows a position, or for everything.
    ///
    /// # Errors
    /// The connection ends, or the primary gives nothing: it is loading, has lost its own primary,
    /// does not let this user, or is none.
    pub fn synchronize(
        &mut self,
        position: Option<(ReplicationId, i64)>,
    ) -> Result<Resync, LinkError> {
        let reply = match position {
            Some((id, offset)) => {
                let next = offset.saturating_add(1).to_string();
                self.ask(&["PSYNC", id.as_str(), &next])?
            }
            None => self.ask(&["PSYNC", "?", "-1"])?,
        };
        if reply.starts_with('-') {
            return Err(self.refusal("gives no replication", &reply));
        }
        let mut words = reply.split_ascii_whitespace();
        let (verb, id, offset) = (words.next(), words.next(), words.next());
        let known = id.and_then(ReplicationId::parse);
        match (verb, known, offset.and_then(|offset| offset.parse::<i64>().ok())) {
            (Some("+FULLRESYNC"), Some(id), Some(offset)) if offset >= 0 => {
                Ok(Resync::Full { id, offset })
            }
            (Some("+CONTINUE"), known, None)
                if position.is_some() && known.is_some() == id.is_some() =>
            {
                Ok(Resync::Continue { id: known })
            }
            _ => Err(self.refusal("answers PSYNC with what is no answer to it", &reply)),
        }
    }

    /// Tells the primary up to which offset everything is here.
    ///
    /// # Errors
    /// The connection ends.
    pub fn acknowledge(&mut self, offset: i64) -> Result<(), LinkError> {
        self.send(&["REPLCONF", "ACK", &offset.to_string()])
    }
}
