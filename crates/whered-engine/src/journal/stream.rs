//! Places in the streams of commands that primaries send to their replicas.
//!
//! Source: Redis's documentation of replication, "How Redis replication works".

use std::fmt;
use std::str::FromStr;

/// The name of a primary's history: forty hexadecimal digits, as a Redis server makes them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReplicationId([u8; 40]);

impl ReplicationId {
    /// Forty zeros.
    pub(crate) const NONE: ReplicationId = ReplicationId([b'0'; 40]);

    /// The id of a history that no primary has, for data that are of no one place of a stream.
    pub const LOST: ReplicationId = ReplicationId([b'f'; 40]);

    pub(crate) fn from_bytes(digits: [u8; 40]) -> Option<ReplicationId> {
        digits.iter().all(u8::is_ascii_hexdigit).then_some(ReplicationId(digits))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for ReplicationId {
    type Err = String;

    /// # Errors
    /// The text does not have forty hexadecimal digits.
    fn from_str(text: &str) -> Result<ReplicationId, String> {
        let digits = <[u8; 40]>::try_from(text.as_bytes()).ok();
        digits.and_then(ReplicationId::from_bytes).ok_or_else(|| {
            let shown: String = text.chars().take(50).flat_map(char::escape_debug).collect();
            format!("'{shown}' is no replication id; one has 40 hexadecimal digits")
        })
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

/// A place in a primary's stream of commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPosition {
    /// The history that the offset is of.
    pub replication_id: ReplicationId,
    /// How many bytes of it are applied.
    pub offset: i64,
    /// The database that the stream has selected there.
    pub database: u32,
}
