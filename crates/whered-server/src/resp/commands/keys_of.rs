//! The keys and channels of a request, and what is done to them.
//!
//! For: permissions, watched keys, `COMMAND GETKEYS` and `COMMAND GETKEYSANDFLAGS`.
//! Not for: checking the request: one that is wrong may have fewer keys than it seems.

use super::{Command, Flag};
use crate::resp::protocol::Args;

/// What a command does to one of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// Asks for what is known of it, not for what is in it.
    Look,
    /// Reads it.
    Read,
    /// Changes what is there.
    Update,
    /// Puts something in its place, whatever was there.
    Overwrite,
    /// Takes something out of it.
    Shorten,
    /// Takes it away.
    Delete,
    /// Takes it away and uses what was in it.
    Move,
}

/// The keys of a request in order.
pub(super) fn keys_of<'a>(command: &Command, args: Args<'a>) -> Vec<(&'a [u8], Access)> {
    let (first, last, step) = command.keys;
    if first <= 0 || step <= 0 {
        return Vec::new();
    }
    let count = args.len() as i32;
    let last = if last < 0 { count + last } else { last }.min(count - 1);
    let places = (first..=last).step_by(step.unsigned_abs() as usize);
    let mut keys: Vec<_> = places
        .enumerate()
        .map(|(order, place)| (args.at(place as usize), access(command, order)))
        .collect();
    // The key that a search stores into stands behind a word.
    if matches!(command.name, "georadius" | "georadiusbymember") {
        let from = if command.name == "georadius" { 6 } else { 5 };
        if let Some((_, own)) = keys.first_mut() {
            *own = Access::Read;
        }
        if let Some(target) = stored_key(args, from) {
            keys.push((target, Access::Overwrite));
        }
    }
    keys
}

/// Of several targets the last one is stored into. (Redis 7.0.15 names the first of each word here
/// but stores as Valkey 9 and we do; permissions and watched keys need what is stored into.)
fn stored_key(args: Args<'_>, from: usize) -> Option<&[u8]> {
    let (mut at, mut target) = (from, None);
    while at + 1 < args.len() {
        if args.is(at, "store") || args.is(at, "storedist") {
            at += 1;
            target = Some(args.at(at));
        }
        at += 1;
    }
    target
}

fn access(command: &Command, order: usize) -> Access {
    match (command.name, order) {
        ("set" | "geosearchstore" | "zrangestore", 0) | ("copy" | "rename" | "renamenx", 1) => {
            Access::Overwrite
        }
        ("geosearchstore" | "zrangestore", 1) | ("copy", 0) => Access::Read,
        ("rename" | "renamenx", 0) => Access::Move,
        ("zrem" | "zremrangebyrank" | "zremrangebyscore" | "zremrangebylex", _) => Access::Shorten,
        (
            "exists" | "memory|usage" | "object|encoding" | "pttl" | "ttl" | "type" | "watch"
            | "zcard",
            _,
        ) => Access::Look,
        ("del" | "unlink", _) => Access::Delete,
        _ if command.has(Flag::Write) => Access::Update,
        _ => Access::Read,
    }
}

/// The channels of a request; `true` beside those that are patterns.
pub(super) fn channels_of<'a>(
    command: &Command,
    args: Args<'a>,
) -> impl Iterator<Item = (&'a [u8], bool)> + use<'a> {
    let (count, is_pattern) = match command.name {
        "publish" => (1, false),
        "subscribe" => (usize::MAX, false),
        "psubscribe" => (usize::MAX, true),
        _ => (0, false),
    };
    args.from(1).take(count).map(move |channel| (channel, is_pattern))
}
