//! Whether a user may give a request: its command, and all that its arguments name.
//!
//! For: `admission` and `ACL DRYRUN`. Not for: the user's own rules (`resp/users`, `acl`).
//! Cost: nothing for a user who may do everything; otherwise a comparison for each name.

use super::command::Flag;
use super::named;
use super::registry::Entry;
use crate::resp::protocol::Args;
use crate::resp::reply::Failure;
use crate::resp::session::Session;
use crate::resp::users::{NameKind, User};

/// A command, key or channel that a user has no right to.
pub(super) enum Denial<'a> {
    Command(&'static str),
    Key(&'a [u8]),
    Name(NameKind),
    Channel(&'a [u8]),
}

impl Denial<'_> {
    /// The error of a request.
    pub(super) fn failure(&self) -> Failure {
        let what = match self {
            Denial::Command(name) => {
                return Failure::made(format!(
                    "NOPERM this user has no permissions to run the '{name}' command"
                ));
            }
            Denial::Key(_) => "keys",
            Denial::Name(kind) => kind.list(),
            Denial::Channel(_) => "channels",
        };
        Failure::made(format!(
            "NOPERM this user has no permissions to access one of the {what} used as arguments"
        ))
    }

    /// What `ACL DRYRUN` says.
    pub(super) fn text(&self) -> Vec<u8> {
        let access = b"This user has no permissions to access ";
        match self {
            Denial::Command(name) => {
                format!("This user has no permissions to run the '{name}' command").into_bytes()
            }
            Denial::Key(key) => [&access[..], b"the '", key, b"' key"].concat(),
            Denial::Channel(channel) => [&access[..], b"the '", channel, b"' channel"].concat(),
            Denial::Name(kind) => [&access[..], b"one of the ", kind.list().as_bytes()].concat(),
        }
    }
}

/// The first right that a user lacks for a request, if any.
pub(super) fn denied<'a>(
    session: &Session,
    user: &User,
    entry: &'static Entry,
    args: Args<'a>,
) -> Option<Denial<'a>> {
    let command = entry.command;
    if user.may_all() || command.has(Flag::NoAuth) {
        return None;
    }
    if !user.may_run(entry.number) {
        return Some(Denial::Command(command.name));
    }
    if let Some((key, _)) = command.keys_of(args).find(|(key, _)| !user.may_touch(key)) {
        return Some(Denial::Key(key));
    }
    if let Some(kind) = named::denied(session, user, command, args) {
        return Some(Denial::Name(kind));
    }
    let mut channels = command.channels.of(args);
    let channel =
        channels.find(|(channel, is_pattern)| !user.may_use_channel(channel, *is_pattern));
    channel.map(|(channel, _)| Denial::Channel(channel))
}
