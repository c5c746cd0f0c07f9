//! Reading arguments, and the errors that many commands share, in the words of Redis 7.0.15.
//!
//! For: numbers, names and addresses of a request. Not for: options of one command.

use std::net::IpAddr;

use whered_engine::DATABASE_COUNT;

use crate::resp::number;
use crate::resp::protocol::Args;
use crate::resp::reply::Failure;

pub(super) const SYNTAX_ERROR: Failure = Failure::text("ERR syntax error");
pub(super) const NOT_AN_INTEGER: Failure =
    Failure::text("ERR value is not an integer or out of range");
pub(super) const NOT_A_FLOAT: Failure = Failure::text("ERR value is not a valid float");

pub(super) const WRONG_KIND: Failure =
    Failure::text("WRONGTYPE Operation against a key holding the wrong kind of value");

/// How much of a client's words an error repeats.
pub(super) const REPEATED_BYTES: usize = 128;

pub(super) fn wrong_arity(name: &str) -> Failure {
    Failure::made(format!("ERR wrong number of arguments for '{name}' command"))
}

pub(super) fn unknown_or_wrong_arity(name: &[u8], container: &str) -> Failure {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend_from_slice(cut(name, REPEATED_BYTES));
    text.extend_from_slice(format!("'. Try {container} HELP.").as_bytes());
    Failure::made(text)
}

/// A client's words as an error repeats them.
pub(super) fn cut(words: &[u8], limit: usize) -> &[u8] {
    let words = number::until_zero(words);
    &words[..words.len().min(limit)]
}

pub(super) fn integer(text: &[u8]) -> Result<i64, Failure> {
    number::integer(text).ok_or(NOT_AN_INTEGER)
}

pub(super) fn float(text: &[u8]) -> Result<f64, Failure> {
    number::float(text).ok_or(NOT_A_FLOAT)
}

/// A numbered database, as `MOVE` and `COPY` name it.
pub(super) fn database_number(text: &[u8]) -> Result<usize, Failure> {
    let index = integer(text)?;
    if i32::try_from(index).is_err() {
        return Err(Failure::made(format!(
            "ERR value is out of range, value must between {} and {}",
            i32::MIN,
            i32::MAX
        )));
    }
    let number = usize::try_from(index).ok().filter(|number| *number < DATABASE_COUNT);
    number.ok_or(Failure::text("ERR DB index is out of range"))
}

/// A name of ours: databases, sets, pools and sites are named in UTF-8.
pub(super) fn name(text: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(text).map_err(|_| Failure::text("ERR a name must be UTF-8"))
}

/// An address as people write it; one that is IPv4-mapped is the IPv4 address.
pub(super) fn address(text: &[u8]) -> Result<IpAddr, Failure> {
    whered_engine::ip::text::read(text).ok_or_else(|| {
        let shown = cut(text, REPEATED_BYTES).escape_ascii();
        Failure::made(format!("ERR '{shown}' is not an IP address"))
    })
}

pub(super) fn no_such(what: &str, name: &str) -> Failure {
    Failure::made(format!("ERR no such {what} '{name}'"))
}

/// Whether a request ends with `EXPLAIN`, and the request without it.
pub(super) fn explained(args: Args<'_>, least: usize) -> (Args<'_>, bool) {
    let asked = args.len() > least && args.is(args.len() - 1, "explain");
    (if asked { args.without_last() } else { args }, asked)
}
