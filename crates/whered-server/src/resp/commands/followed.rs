//! Keys that are followed from another server: which commands they take.
//!
//! For: the refusals of a replica, before a command runs or is queued. Not for: where these keys
//! lie, and the refusal of whatever comes around this (the engine).
//!
//! | a key that is followed | its link has data | it has none yet |
//! | --- | --- | --- |
//! | is written to | `READONLY`, or `MOVED` to the owner of its slot | the same |
//! | is read as a string | an error: only sorted sets are followed | the same |
//! | is read otherwise | runs | `LOADING` |
//!
//! After `READONLY` a key of the cluster that is not here is `MOVED`.
//!
//! Cost: without followed keys one relaxed load; with them a pattern match for each key.

use whered_engine::{KeyRole, WriteError};

use super::{Command, Failure, Flag, cluster};
use crate::resp::protocol::Args;
use crate::resp::session::Session;

/// The family of the commands on strings.
const STRINGS: &str = "string";

const LOADING: Failure =
    Failure::text("LOADING this key is followed from another server, whose data has not come yet");
const NO_STRING: Failure = Failure::text(
    "ERR this key is followed from another server: only its sorted sets are here, no strings",
);

/// Asks whether a command may have its keys.
///
/// # Errors
/// The first reason against it.
pub(super) fn check(
    session: &Session,
    command: &'static Command,
    args: Args<'_>,
) -> Result<(), Failure> {
    let keyspace = session.engine().keyspace();
    if !keyspace.has_routes() {
        return Ok(());
    }
    let number = session.number;
    for (key, access) in command.keys_of(args) {
        match keyspace.role_of(number, key) {
            KeyRole::Own => {
                if let Some(moved) = cluster::moved(session, key) {
                    return Err(moved);
                }
            }
            _ if access.writes() => {
                let owner = keyspace.slot_owner(number, key);
                return Err(match owner {
                    Some((slot, address)) => Failure::made(format!("MOVED {slot} {address}")),
                    None => Failure::from(WriteError::Followed),
                });
            }
            _ if command.group == STRINGS => {
                return Err(cluster::moved(session, key).unwrap_or(NO_STRING));
            }
            KeyRole::Awaited => return Err(LOADING),
            KeyRole::Followed => {}
        }
    }
    if command.has(Flag::ListsKeys) && keyspace.is_awaited(number) {
        return Err(LOADING);
    }
    Ok(())
}
