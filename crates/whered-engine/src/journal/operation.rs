//! The engine's own journal operations, typed and versioned, as bytes.
//!
//! Not raw commands: what is kept is the effect (members with their cells, absolute expiry
//! times), so that replaying never depends on a command's syntax or on the clock.
//!
//! ```text
//! frame kind u16 = which operation; payload:
//!   version u8 (1)
//!   AddPoints       number u8 | key | { cell u64 | member }*
//!   RemoveMembers   number u8 | key | { member }*
//!   DeleteKeys      number u8 | { key }*
//!   Flush           number u8 (255: all sixteen)
//!   AddPrefixes     set | expires_at_millis u64 (0: never) | has_value u8 [value] | { prefix }*
//!   RemovePrefixes  set | { prefix }*
//!   PutSite         pool | site | longitude f64 | latitude f64 | healthy u8 | { address }*
//!   MoveSite        pool | site | longitude f64 | latitude f64
//!   OverrideSite    pool | site | override u8 (0: down, 1: up, 2: as probes say)
//!   RemoveSite      pool | site
//!   AddScores       number u8 | key | { score f64 | member }*
//!   RemoveRanks     number u8 | key | first u64 | end u64
//!   SetText         number u8 | key | expires_at_millis u64 (0: never) | text
//!   StoreScores     number u8 | key | { score f64 | member }*      in the place of what was there
//!   SetExpiry       number u8 | key | expires_at_millis u64 (0: never)
//!   Rename, Copy    from_number u8 | to_number u8 | from key | to key
//!   SwapNumbers     number u8 | other number u8
//!   SetRules        ruleset | format u8 | next_number u32 (0: numbers go by the text) | text | { number u32 }*
//!   UnsetRules      ruleset
//!   InsertRule      ruleset | number u32 | chain u32 | next u32 (0: last) | text
//!   DeleteRule      ruleset | number u32
//!   ReplaceRule     ruleset | number u32 | text
//!   SetChallenge    owner | token | expires_at_millis u64
//!   RemoveChallenge owner | has_token u8 [token]
//!   ChangeZone      zone | parts of its overlay
//!   DiscardZone     zone
//!   SetPosition     link | number u8 | 40 digits of an id | offset u64 | database u32
//!   ForgetPosition  link | number u8          the keys of the link's numbers go, too
//!   SetImports      number u8 | { name | count u32 | { first slot u16 | last slot u16 }* }*
//!   Promote         number u8 | database u8   all keys of one number go to the other
//!   Batch           { kind u16 | payload as bytes }*               all or nothing, of kinds 1 to 4 and 11 to 18
//!   Batch           (kind 20) as above, of any kinds but batches and feeds
//!   AddPrefixes     (kind 24) as above with { block }*, where some are ranges; RemovePrefixes (25), too
//!   LoadMembers     set | replaces u8 | count u32 | { expires_at_millis u64 | has_value u8 [value] }*
//!                   | { attribute u32, unless count is 1 | block }*      all members at once
//!   DeleteSets      (kind 27) { set }*
//! kinds 40 and 41   what a feed is made of, and a batch of it: feeds/entry.rs says how they look
//! text and bytes = length u32 | bytes;  address = 4 or 6 u8 | octets;  prefix = address | length u8
//! block = prefix, or 14 or 16 u8 | octets of the first and of the last address
//! ```
//! All numbers are little endian. A reader refuses what it does not know, naming kind and offset.

use std::borrow::Cow;
use std::net::IpAddr;

use whered_geo::{Cell, Place};
use whered_ip::{Block, MemberList};
use whered_rules::{Format, Spot};

use super::imports::SlotImport;
use super::stream::StreamPosition;

pub(crate) use bytes::{Decoder, Encoder};
pub(crate) use kinds::{AddedPoints, AddedPointsEncoder};

mod bytes;
mod kinds;
mod rules;

const VERSION: u8 = 1;
/// The `number` of a [`Operation::Flush`] that empties every numbered database.
pub(crate) const ALL_NUMBERS: u8 = 255;

/// One change of the engine's data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation<'a> {
    AddPoints {
        number: u8,
        key: &'a [u8],
        points: Cow<'a, [(&'a [u8], Cell)]>,
    },
    RemoveMembers {
        number: u8,
        key: &'a [u8],
        members: Cow<'a, [&'a [u8]]>,
    },
    DeleteKeys {
        number: u8,
        keys: Cow<'a, [&'a [u8]]>,
    },
    Flush {
        number: u8,
    },
    AddPrefixes {
        set: &'a str,
        expires_at_millis: Option<u64>,
        value: Option<&'a [u8]>,
        blocks: Cow<'a, [Block]>,
    },
    RemovePrefixes {
        set: &'a str,
        blocks: Cow<'a, [Block]>,
    },
    /// Puts these members into a set, or into the place of all that it had.
    LoadMembers {
        set: &'a str,
        replaces: bool,
        members: Cow<'a, MemberList>,
    },
    /// Deletes whole prefix sets, their names too.
    DeleteSets {
        sets: Cow<'a, [&'a str]>,
    },
    /// Puts a site into a pool, or in the place of one of its name.
    PutSite {
        pool: &'a str,
        site: &'a str,
        place: Option<Place>,
        healthy: bool,
        addresses: Cow<'a, [IpAddr]>,
    },
    MoveSite {
        pool: &'a str,
        site: &'a str,
        place: Place,
    },
    OverrideSite {
        pool: &'a str,
        site: &'a str,
        /// 0: down, 1: up, 2: as probes say.
        code: u8,
    },
    RemoveSite {
        pool: &'a str,
        site: &'a str,
    },
    /// Adds members with scores, or gives them these scores; makes the key when it is absent.
    AddScores {
        number: u8,
        key: &'a [u8],
        scores: Scores<'a>,
    },
    /// Removes the members that have these ranks at that moment.
    RemoveRanks {
        number: u8,
        key: &'a [u8],
        first: u64,
        end: u64,
    },
    /// Puts a text in the place of whatever the key held.
    SetText {
        number: u8,
        key: &'a [u8],
        expires_at_millis: Option<u64>,
        text: &'a [u8],
    },
    /// Puts a sorted set in the place of whatever the key held, without an expiry time.
    StoreScores {
        number: u8,
        key: &'a [u8],
        scores: Scores<'a>,
    },
    SetExpiry {
        number: u8,
        key: &'a [u8],
        expires_at_millis: Option<u64>,
    },
    /// Moves a key with its expiry time to where another may have been.
    Rename(KeyPair<'a>),
    /// Copies a key with its expiry time to where another may have been.
    Copy(KeyPair<'a>),
    SwapNumbers {
        number: u8,
        other: u8,
    },
    /// Puts a whole ruleset in the place of whatever had the name.
    SetRules {
        ruleset: &'a str,
        format: Format,
        text: Cow<'a, str>,
        /// Numbers by the order of the text, and the next one; `None`: they are counted from 1.
        numbers: Option<(Cow<'a, [u32]>, u32)>,
    },
    UnsetRules {
        ruleset: &'a str,
    },
    InsertRule {
        ruleset: &'a str,
        /// The number it gets: one that was given already makes the operation one of the past.
        number: u32,
        spot: Spot,
        text: &'a str,
    },
    DeleteRule {
        ruleset: &'a str,
        number: u32,
    },
    ReplaceRule {
        ruleset: &'a str,
        number: u32,
        text: &'a str,
    },
    /// Adds a token of an ACME challenge, or gives it a new end.
    SetChallenge {
        owner: Cow<'a, str>,
        token: &'a str,
        expires_at_millis: u64,
    },
    /// Removes one token of an owner, or all.
    RemoveChallenge {
        owner: Cow<'a, str>,
        token: Option<&'a str>,
    },
    /// Puts what updates have made of some owners of a zone in the place of what was there.
    ChangeZone {
        zone: Cow<'a, str>,
        parts: Cow<'a, [u8]>,
    },
    /// Forgets all that updates have made of a zone.
    DiscardZone {
        zone: &'a str,
    },
    /// Keeps how far a link is whose keys this number has.
    SetPosition {
        link: &'a str,
        number: u8,
        stream: StreamPosition,
    },
    /// Forgets a link with its keys, the loaded ones too.
    ForgetPosition {
        link: &'a str,
        number: u8,
    },
    /// Keeps which slots the primary of a link imports whose keys this number has.
    SetImports {
        number: u8,
        imports: Cow<'a, [SlotImport]>,
    },
    /// Moves all keys of a link's number to a client's, in the place of those of the same names.
    Promote {
        number: u8,
        database: u8,
    },
    /// Operations that are found together or not at all.
    Batch(Vec<Operation<'a>>),
}

/// Members with their scores.
pub(crate) type Scores<'a> = Cow<'a, [(&'a [u8], f64)]>;

/// Where a key comes from and where it goes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KeyPair<'a> {
    pub(crate) from_number: u8,
    pub(crate) to_number: u8,
    pub(crate) from: &'a [u8],
    pub(crate) to: &'a [u8],
}

/// The frame kind of [`Operation::AddPoints`].
pub(crate) const ADD_POINTS_KIND: u16 = 1;
/// The frame kind of a batch of the keyspace's operations.
const BATCH_KIND: u16 = 19;
/// The frame kind of a batch in which there are others.
const MIXED_BATCH_KIND: u16 = 20;

/// The frame kinds of operations on prefix sets in which there are ranges, and of a load.
const ADD_RANGES_KIND: u16 = 24;
const REMOVE_RANGES_KIND: u16 = 25;
const LOAD_MEMBERS_KIND: u16 = 26;
const DELETE_SETS_KIND: u16 = 27;

/// The frame kinds of operations on ACME challenges.
const SET_CHALLENGE_KIND: u16 = 48;
const REMOVE_CHALLENGE_KIND: u16 = 49;

/// The frame kinds of changes of zones.
const CHANGE_ZONE_KIND: u16 = 50;
const DISCARD_ZONE_KIND: u16 = 51;

/// The frame kinds of operations on what is followed from other servers.
const SET_POSITION_KIND: u16 = 60;
const FORGET_POSITION_KIND: u16 = 61;
const PROMOTE_KIND: u16 = 62;
const SET_IMPORTS_KIND: u16 = 63;

/// The frame kind of a batch with an operation of this kind, or without any: the larger of two
/// where there are several.
pub(crate) fn batch_kind(of: Option<u16>) -> u16 {
    if of.is_none_or(is_of_keyspace) { BATCH_KIND } else { MIXED_BATCH_KIND }
}

fn is_of_keyspace(kind: u16) -> bool {
    matches!(kind, 1..=4 | 11..=18)
}

/// The beginning of a batch's payload.
pub(crate) fn batch_head() -> Vec<u8> {
    vec![VERSION]
}

/// Appends an encoded operation to a batch's payload.
pub(crate) fn push_to_batch(batch: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    let mut out = Encoder(std::mem::take(batch));
    out.0.extend_from_slice(&kind.to_le_bytes());
    out.bytes(payload);
    *batch = out.0;
}

fn has_ranges(blocks: &[Block]) -> bool {
    blocks.iter().any(|block| block.as_prefix().is_none())
}

/// How many bytes a block takes in a payload.
fn block_bytes(block: &Block) -> usize {
    match (block.is_ipv4(), block.as_prefix().is_some()) {
        (true, true) => 6,
        (false, true) => 18,
        (true, false) => 9,
        (false, false) => 33,
    }
}

impl<'a> Operation<'a> {
    /// The frame kind; numbers are for ever.
    pub(crate) fn kind(&self) -> u16 {
        match self {
            Operation::AddPoints { .. } => ADD_POINTS_KIND,
            Operation::RemoveMembers { .. } => 2,
            Operation::DeleteKeys { .. } => 3,
            Operation::Flush { .. } => 4,
            Operation::AddPrefixes { blocks, .. } if has_ranges(blocks) => ADD_RANGES_KIND,
            Operation::AddPrefixes { .. } => 5,
            Operation::RemovePrefixes { blocks, .. } if has_ranges(blocks) => REMOVE_RANGES_KIND,
            Operation::RemovePrefixes { .. } => 6,
            Operation::LoadMembers { .. } => LOAD_MEMBERS_KIND,
            Operation::DeleteSets { .. } => DELETE_SETS_KIND,
            Operation::PutSite { .. } => 7,
            Operation::MoveSite { .. } => 8,
            Operation::OverrideSite { .. } => 9,
            Operation::RemoveSite { .. } => 10,
            Operation::AddScores { .. } => 11,
            Operation::RemoveRanks { .. } => 12,
            Operation::SetText { .. } => 13,
            Operation::StoreScores { .. } => 14,
            Operation::SetExpiry { .. } => 15,
            Operation::Rename(_) => 16,
            Operation::Copy(_) => 17,
            Operation::SwapNumbers { .. } => 18,
            Operation::Batch(operations) => {
                let kinds = operations.iter().map(|operation| batch_kind(Some(operation.kind())));
                kinds.max().unwrap_or(BATCH_KIND)
            }
            Operation::SetRules { .. } => 32,
            Operation::UnsetRules { .. } => 33,
            Operation::InsertRule { .. } => 34,
            Operation::DeleteRule { .. } => 35,
            Operation::ReplaceRule { .. } => 36,
            Operation::SetChallenge { .. } => SET_CHALLENGE_KIND,
            Operation::RemoveChallenge { .. } => REMOVE_CHALLENGE_KIND,
            Operation::ChangeZone { .. } => CHANGE_ZONE_KIND,
            Operation::DiscardZone { .. } => DISCARD_ZONE_KIND,
            Operation::SetPosition { .. } => SET_POSITION_KIND,
            Operation::ForgetPosition { .. } => FORGET_POSITION_KIND,
            Operation::Promote { .. } => PROMOTE_KIND,
            Operation::SetImports { .. } => SET_IMPORTS_KIND,
        }
    }

    /// The payload's exact size, for the reservation.
    pub(crate) fn size_bytes(&self) -> usize {
        let listed = |items: &[&[u8]]| items.iter().map(|item| 4 + item.len()).sum::<usize>();
        1 + match self {
            Operation::AddPoints { key, points, .. } => {
                5 + key.len() + points.iter().map(|(m, _)| 12 + m.len()).sum::<usize>()
            }
            Operation::RemoveMembers { key, members, .. } => 5 + key.len() + listed(members),
            Operation::DeleteKeys { keys, .. } => 1 + listed(keys),
            Operation::Flush { .. } => 1,
            Operation::AddPrefixes { set, value, blocks, .. } => {
                let value = value.map_or(0, |v| 4 + v.len());
                4 + set.len() + 8 + 1 + value + blocks.iter().map(block_bytes).sum::<usize>()
            }
            Operation::RemovePrefixes { set, blocks } => {
                4 + set.len() + blocks.iter().map(block_bytes).sum::<usize>()
            }
            Operation::LoadMembers { set, members, .. } => {
                let attributes = members.attributes();
                let number_bytes = if attributes.len() == 1 { 0 } else { 4 };
                let values = attributes.map(|(value, _)| 9 + value.map_or(0, |v| 4 + v.len()));
                let blocks = members.iter().map(|(block, _)| number_bytes + block_bytes(&block));
                4 + set.len() + 5 + values.sum::<usize>() + blocks.sum::<usize>()
            }
            Operation::DeleteSets { sets } => sets.iter().map(|set| 4 + set.len()).sum(),
            Operation::PutSite { pool, site, addresses, .. } => {
                let addresses = addresses.iter().map(|a| if a.is_ipv4() { 5 } else { 17 });
                8 + pool.len() + site.len() + 17 + addresses.sum::<usize>()
            }
            Operation::MoveSite { pool, site, .. } => 8 + pool.len() + site.len() + 16,
            Operation::OverrideSite { pool, site, .. } => 8 + pool.len() + site.len() + 1,
            Operation::RemoveSite { pool, site } => 8 + pool.len() + site.len(),
            Operation::AddScores { key, scores, .. }
            | Operation::StoreScores { key, scores, .. } => {
                5 + key.len() + scores.iter().map(|(m, _)| 12 + m.len()).sum::<usize>()
            }
            Operation::RemoveRanks { key, .. } => 5 + key.len() + 16,
            Operation::SetText { key, text, .. } => 5 + key.len() + 8 + 4 + text.len(),
            Operation::SetExpiry { key, .. } => 5 + key.len() + 8,
            Operation::Rename(pair) | Operation::Copy(pair) => 10 + pair.from.len() + pair.to.len(),
            Operation::SwapNumbers { .. } => 2,
            Operation::Batch(operations) => {
                operations.iter().map(|operation| 6 + operation.size_bytes()).sum()
            }
            Operation::SetRules { .. }
            | Operation::UnsetRules { .. }
            | Operation::InsertRule { .. }
            | Operation::DeleteRule { .. }
            | Operation::ReplaceRule { .. } => self.rules_size_bytes(),
            Operation::SetChallenge { owner, token, .. } => 8 + owner.len() + token.len() + 8,
            Operation::RemoveChallenge { owner, token } => {
                4 + owner.len() + 1 + token.map_or(0, |token| 4 + token.len())
            }
            Operation::ChangeZone { zone, parts } => 8 + zone.len() + parts.len(),
            Operation::DiscardZone { zone } => 4 + zone.len(),
            Operation::SetPosition { link, .. } => 4 + link.len() + 1 + 40 + 8 + 4,
            Operation::ForgetPosition { link, .. } => 4 + link.len() + 1,
            Operation::Promote { .. } => 2,
            Operation::SetImports { imports, .. } => {
                let bytes = |it: &SlotImport| 8 + it.name.len() + 4 * it.ranges.len();
                1 + imports.iter().map(bytes).sum::<usize>()
            }
        }
    }

    /// The payload.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder(Vec::with_capacity(self.size_bytes()));
        out.u8(VERSION);
        if rules::KINDS.contains(&self.kind()) {
            self.encode_rules(&mut out);
        } else if (11..=MIXED_BATCH_KIND).contains(&self.kind()) {
            self.encode_values(&mut out);
        } else if self.kind() >= SET_POSITION_KIND {
            self.encode_links(&mut out);
        } else if self.kind() >= SET_CHALLENGE_KIND {
            self.encode_names(&mut out);
        } else {
            self.encode_first_kinds(&mut out);
        }
        debug_assert_eq!(out.0.len(), self.size_bytes(), "size_bytes must be exact");
        out.0
    }

    /// Reads a payload of the given kind.
    ///
    /// # Errors
    /// Unknown kind or version, or bytes that do not fit: the text names kind and byte offset.
    pub(crate) fn decode(kind: u16, payload: &'a [u8]) -> Result<Operation<'a>, String> {
        let mut input = Decoder { bytes: payload, offset: 0, kind };
        let version = input.u8()?;
        if version != VERSION {
            return Err(format!(
                "operation of kind {kind} has version {version}; this program reads version {VERSION}"
            ));
        }
        let operation = match kind {
            1..=4 => input.keyspace_operation(),
            5 | 6 | ADD_RANGES_KIND..=DELETE_SETS_KIND => input.prefix_operation(),
            7..=10 => input.site_operation(),
            11..=18 => input.value_operation(),
            BATCH_KIND | MIXED_BATCH_KIND => input.batch(),
            32..=36 => input.rules_operation(),
            SET_CHALLENGE_KIND | REMOVE_CHALLENGE_KIND => input.challenge_operation(),
            CHANGE_ZONE_KIND | DISCARD_ZONE_KIND => input.zone_operation(),
            SET_POSITION_KIND..=SET_IMPORTS_KIND => input.link_operation(),
            _ => Err(format!(
                "operation of unknown kind {kind}; this program knows 1 to {MIXED_BATCH_KIND}, \
                 {ADD_RANGES_KIND} to {DELETE_SETS_KIND}, 32 to 36, {SET_CHALLENGE_KIND} to \
                 {DISCARD_ZONE_KIND}, and {SET_POSITION_KIND} to {SET_IMPORTS_KIND}"
            )),
        }?;
        let left = payload.len() - input.offset;
        if left > 0 { Err(input.wrong(&format!("{left} bytes too many"))) } else { Ok(operation) }
    }
}

#[cfg(test)]
#[path = "operation_tests.rs"]
mod tests;
