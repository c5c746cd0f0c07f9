//! One key of a primary, read while its stream goes on, and the offset that the copy is of.
//!
//! ```text
//! TYPE, ZCARD ─ few members? ─> MULTI, CONFIG GET import-mode, TYPE, DUMP, PEXPIRETIME,
//!                               INFO replication, EXEC
//! ```
//!
//! A primary carries a transaction out between two commands of its stream. So the offset that
//! `INFO` gives in one is the end of all commands that the copy has, and none has come since.
//!
//! A Valkey in import mode hides keys whose time is over and keeps them, so that nobody can tell
//! whether there is one: then there are no copies.
//!
//! Not for: large keys. `DUMP` keeps a primary busy as long as it takes, and its reply is in memory
//! as a whole: see [`COPY_MEMBERS_MAX`]. Facts: `multi.c` and `replication.c` of Redis and Valkey.

use crate::connection::Connection;
use crate::error::LinkError;
use crate::psync::ReplicationId;
use crate::reply::Reply;

/// The most members that a sorted set may have, to be copied.
pub const COPY_MEMBERS_MAX: i64 = 50_000;
const RIGHTS: &str =
    "allowed: a user with +multi +exec +select +config|get +type +zcard +dump +pexpiretime +info";

/// A key as it was at an offset of its primary's stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyCopy {
    /// The history that the offset is of.
    pub id: ReplicationId,
    /// The offset behind all that the copy has.
    pub offset: i64,
    /// What the key holds.
    pub content: KeyContent,
}

/// What a copied key holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyContent {
    /// The key does not exist.
    Absent,
    /// A sorted set.
    SortedSet {
        /// As `DUMP` gives it.
        payload: Vec<u8>,
        /// When its time is over, in milliseconds since 1970.
        expires_at_millis: Option<i64>,
    },
    /// A plain set.
    Set,
    /// Another type.
    Other,
}

impl Connection {
    /// Copies a key of a numbered database.
    ///
    /// # Errors
    /// The connection ends; the user may not read the key; the server is no primary, or is in
    /// import mode; a sorted set has more than [`COPY_MEMBERS_MAX`] members or takes more than
    /// [`REPLY_BYTES_MAX`].
    ///
    /// # Cost
    /// Two round trips, sometimes four. The primary is busy as long as `DUMP` takes.
    ///
    /// [`REPLY_BYTES_MAX`]: crate::REPLY_BYTES_MAX
    pub fn copy_key(&mut self, database: u32, key: &[u8]) -> Result<KeyCopy, LinkError> {
        if database > 0 {
            let number = database.to_string();
            self.expect(&[vec![b"SELECT", number.as_bytes()]])?;
        }
        let mut dumps = false;
        for _ in 0..2 {
            let replies = self.request_all(&[vec![b"TYPE", key], vec![b"ZCARD", key]])?;
            match &replies[..] {
                [Reply::Text(kind), Reply::Integer(count)] => {
                    if *count > COPY_MEMBERS_MAX {
                        let what =
                            format!("has {count} members there; allowed: {COPY_MEMBERS_MAX}");
                        return Err(LinkError::refusal(self.name(), what));
                    }
                    dumps |= kind == b"zset";
                }
                [Reply::Text(_), Reply::Error(error)] if error.starts_with("WRONGTYPE") => {}
                [Reply::Text(_), other] => return Err(self.unexpected("ZCARD", other)),
                [other, ..] => return Err(self.unexpected("TYPE", other)),
                [] => {}
            }
            if let Some(copy) = self.copy_at_once(key, dumps)? {
                return Ok(copy);
            }
            // It has become a sorted set, and may be none when it is looked at once more.
            dumps = true;
        }
        Err(LinkError::new(self.name(), "answers TYPE in two ways"))
    }

    /// Copies it in one transaction; `None` where it is a sorted set and was not dumped.
    fn copy_at_once(&mut self, key: &[u8], dumps: bool) -> Result<Option<KeyCopy>, LinkError> {
        let import_mode = vec![&b"CONFIG"[..], b"GET", b"import-mode"];
        let mut requests = vec![vec![&b"MULTI"[..]], import_mode, vec![b"TYPE", key]];
        if dumps {
            requests.extend([vec![&b"DUMP"[..], key], vec![b"PEXPIRETIME", key]]);
        }
        requests.extend([vec![&b"INFO"[..], b"replication"], vec![b"EXEC"]]);
        let reply = self.expect(&requests)?;
        let Some([mode, kind, value @ .., info]) = reply.array() else {
            return Err(self.unexpected("EXEC", &reply));
        };
        if let Some(error @ Reply::Error(_)) = reply.array().into_iter().flatten().find(is_error) {
            return Err(self.unexpected("EXEC", error));
        }
        if mode.field("import-mode").is_some_and(|mode| mode.text() != Some("no")) {
            return Err(LinkError::refusal(self.name(), "is in import mode"));
        }
        let (id, offset) = position(info)
            .ok_or_else(|| LinkError::refusal(self.name(), "does not say that it is a primary"))?;
        let content = match (kind.text(), value) {
            (Some("none"), _) => KeyContent::Absent,
            (Some("set"), _) => KeyContent::Set,
            (Some("zset"), [Reply::Text(payload), Reply::Integer(at)]) => KeyContent::SortedSet {
                payload: payload.clone(),
                expires_at_millis: Some(*at).filter(|at| *at >= 0),
            },
            (Some("zset"), []) => return Ok(None),
            (Some(_), _) if kind.text() != Some("zset") => KeyContent::Other,
            _ => return Err(self.unexpected("EXEC", &reply)),
        };
        Ok(Some(KeyCopy { id, offset, content }))
    }

    /// The last of several replies of which none is an error.
    fn expect(&mut self, requests: &[Vec<&[u8]>]) -> Result<Reply, LinkError> {
        let mut replies = self.request_all(requests)?;
        let is_wrong = |(_, reply): &(&Vec<&[u8]>, &Reply)| matches!(reply, Reply::Error(_));
        match requests.iter().zip(&replies).find(is_wrong) {
            Some((words, reply)) => Err(self.unexpected(&String::from_utf8_lossy(words[0]), reply)),
            None => Ok(replies.pop().unwrap_or(Reply::Null)),
        }
    }

    fn unexpected(&self, command: &str, reply: &Reply) -> LinkError {
        let what = match reply {
            Reply::Error(error) if error.starts_with("NOPERM") => {
                format!("refuses {command} ({error}); {RIGHTS}")
            }
            Reply::Error(error) => format!("refuses {command} ({error})"),
            _ => format!("answers {command} as no Redis does"),
        };
        LinkError::refusal(self.name(), what)
    }
}

fn is_error(reply: &&Reply) -> bool {
    matches!(reply, Reply::Error(_))
}

/// The history and the offset in what `INFO replication` of a primary says.
fn position(info: &Reply) -> Option<(ReplicationId, i64)> {
    let text = info.text()?;
    let field = |name: &str| {
        text.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
    };
    let id = ReplicationId::parse(field("master_replid")?)?;
    let offset = field("master_repl_offset")?.parse().ok()?;
    (field("role")? == "master").then_some((id, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_of_a_primary_is_read_and_that_of_a_replica_is_none() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let info = |role: &str| {
            let text = format!(
                "# Replication\r\nrole:{role}\r\nmaster_replid:{id}\r\nmaster_replid2:{}\r\n\
                 master_repl_offset:4711\r\nsecond_repl_offset:-1\r\n",
                "0".repeat(40)
            );
            Reply::Text(text.into_bytes())
        };
        assert_eq!(position(&info("master")), ReplicationId::parse(id).map(|id| (id, 4711)));
        assert_eq!(position(&info("slave")), None);
        assert_eq!(position(&Reply::Text(b"role:master\r\n".to_vec())), None);
    }
}
