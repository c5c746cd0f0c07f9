//! Fetching what a pipeline's next requests will read, all of it together.
//!
//! For: bringing the memory that lookups by name will touch into the cache before the first of them
//! waits for it. A lookup in a large collection is three or four reads that depend on each other;
//! those of thirty-two requests can be under way at once.
//! Not for: answers. Whatever happens between this and the commands, they look again by themselves.
//!
//! Cost: the lookups' own instructions a second time; nothing for small collections, which are in
//! the cache anyway.

use super::by_name;
use crate::resp::protocol::Args;
use crate::resp::session::Session;

/// Fetches for all of these requests. Neighbours with the same key are fetched together.
pub(crate) fn warm<'a>(session: &Session, requests: impl Iterator<Item = Args<'a>>) {
    let mut key: &[u8] = &[];
    let mut members = Vec::with_capacity(64);
    for args in requests {
        let Some(command) = by_name(args.at(0)) else {
            continue;
        };
        let named = command.members.of(args);
        if named.len() == 0 {
            continue;
        }
        if args.at(1) != key {
            fetch(session, key, &mut members);
            key = args.at(1);
        }
        members.extend(named);
    }
    fetch(session, key, &mut members);
}

fn fetch(session: &Session, key: &[u8], members: &mut Vec<&[u8]>) {
    if members.len() > 1 {
        session.engine().keyspace().warm(session.number, key, members);
    }
    members.clear();
}
