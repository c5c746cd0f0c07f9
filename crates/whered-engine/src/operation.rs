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
//!   SetSiteHealthy  pool | site | healthy u8
//!   RemoveSite      pool | site
//!   AddScores       number u8 | key | { score f64 | member }*
//!   RemoveRanks     number u8 | key | first u64 | end u64
//!   SetText         number u8 | key | expires_at_millis u64 (0: never) | text
//!   StoreScores     number u8 | key | { score f64 | member }*      in the place of what was there
//!   SetExpiry       number u8 | key | expires_at_millis u64 (0: never)
//!   Rename, Copy    from_number u8 | to_number u8 | from key | to key
//!   SwapNumbers     number u8 | other number u8
//!   Batch           { kind u16 | payload as bytes }*               all or nothing
//! text and bytes = length u32 | bytes;  address = 4 or 6 u8 | octets;  prefix = address | length u8
//! ```
//! All numbers are little endian. A reader refuses what it does not know, naming kind and offset.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use whered_geo::{Cell, Place};
use whered_ip::Prefix;

use crate::pool::Site;

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
        prefixes: Cow<'a, [Prefix]>,
    },
    RemovePrefixes {
        set: &'a str,
        prefixes: Cow<'a, [Prefix]>,
    },
    PutSite {
        pool: &'a str,
        site: Cow<'a, Site>,
    },
    MoveSite {
        pool: &'a str,
        site: &'a str,
        place: Place,
    },
    SetSiteHealthy {
        pool: &'a str,
        site: &'a str,
        healthy: bool,
    },
    RemoveSite {
        pool: &'a str,
        site: &'a str,
    },
    /// Adds members with scores, or gives them these scores; makes the key when it is absent.
    AddScores {
        number: u8,
        key: &'a [u8],
        scores: Cow<'a, [(&'a [u8], f64)]>,
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
        scores: Cow<'a, [(&'a [u8], f64)]>,
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
    /// Operations of the keyspace that are found together or not at all.
    Batch(Vec<Operation<'a>>),
}

/// Where a key comes from and where it goes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KeyPair<'a> {
    pub(crate) from_number: u8,
    pub(crate) to_number: u8,
    pub(crate) from: &'a [u8],
    pub(crate) to: &'a [u8],
}

/// The frame kind of a batch.
pub(crate) const BATCH_KIND: u16 = 19;

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

impl<'a> Operation<'a> {
    /// The frame kind; numbers are for ever.
    pub(crate) fn kind(&self) -> u16 {
        match self {
            Operation::AddPoints { .. } => 1,
            Operation::RemoveMembers { .. } => 2,
            Operation::DeleteKeys { .. } => 3,
            Operation::Flush { .. } => 4,
            Operation::AddPrefixes { .. } => 5,
            Operation::RemovePrefixes { .. } => 6,
            Operation::PutSite { .. } => 7,
            Operation::MoveSite { .. } => 8,
            Operation::SetSiteHealthy { .. } => 9,
            Operation::RemoveSite { .. } => 10,
            Operation::AddScores { .. } => 11,
            Operation::RemoveRanks { .. } => 12,
            Operation::SetText { .. } => 13,
            Operation::StoreScores { .. } => 14,
            Operation::SetExpiry { .. } => 15,
            Operation::Rename(_) => 16,
            Operation::Copy(_) => 17,
            Operation::SwapNumbers { .. } => 18,
            Operation::Batch(_) => BATCH_KIND,
        }
    }

    /// The payload's exact size, for the reservation.
    pub(crate) fn size_bytes(&self) -> usize {
        let listed = |items: &[&[u8]]| items.iter().map(|item| 4 + item.len()).sum::<usize>();
        let prefix = |prefix: &Prefix| if prefix.is_ipv4() { 6 } else { 18 };
        1 + match self {
            Operation::AddPoints { key, points, .. } => {
                5 + key.len() + points.iter().map(|(m, _)| 12 + m.len()).sum::<usize>()
            }
            Operation::RemoveMembers { key, members, .. } => 5 + key.len() + listed(members),
            Operation::DeleteKeys { keys, .. } => 1 + listed(keys),
            Operation::Flush { .. } => 1,
            Operation::AddPrefixes { set, value, prefixes, .. } => {
                let value = value.map_or(0, |v| 4 + v.len());
                4 + set.len() + 8 + 1 + value + prefixes.iter().map(prefix).sum::<usize>()
            }
            Operation::RemovePrefixes { set, prefixes } => {
                4 + set.len() + prefixes.iter().map(prefix).sum::<usize>()
            }
            Operation::PutSite { pool, site } => {
                let addresses = site.addresses.iter().map(|a| if a.is_ipv4() { 5 } else { 17 });
                8 + pool.len() + site.name.len() + 17 + addresses.sum::<usize>()
            }
            Operation::MoveSite { pool, site, .. } => 8 + pool.len() + site.len() + 16,
            Operation::SetSiteHealthy { pool, site, .. } => 8 + pool.len() + site.len() + 1,
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
        }
    }

    /// The payload.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder(Vec::with_capacity(self.size_bytes()));
        out.u8(VERSION);
        if (11..=BATCH_KIND).contains(&self.kind()) {
            self.encode_values(&mut out);
        } else {
            self.encode_first_kinds(&mut out);
        }
        debug_assert_eq!(out.0.len(), self.size_bytes(), "size_bytes must be exact");
        out.0
    }

    fn encode_first_kinds(&self, out: &mut Encoder) {
        match self {
            Operation::AddPoints { number, key, points } => {
                out.u8(*number);
                out.bytes(key);
                for (member, cell) in points.iter() {
                    out.u64(cell.bits());
                    out.bytes(member);
                }
            }
            Operation::RemoveMembers { number, key, members } => {
                out.u8(*number);
                out.bytes(key);
                members.iter().for_each(|member| out.bytes(member));
            }
            Operation::DeleteKeys { number, keys } => {
                out.u8(*number);
                keys.iter().for_each(|key| out.bytes(key));
            }
            Operation::Flush { number } => out.u8(*number),
            Operation::AddPrefixes { set, expires_at_millis, value, prefixes } => {
                out.bytes(set.as_bytes());
                out.u64(expires_at_millis.unwrap_or(0));
                out.u8(u8::from(value.is_some()));
                if let Some(value) = value {
                    out.bytes(value);
                }
                prefixes.iter().for_each(|prefix| out.prefix(prefix));
            }
            Operation::RemovePrefixes { set, prefixes } => {
                out.bytes(set.as_bytes());
                prefixes.iter().for_each(|prefix| out.prefix(prefix));
            }
            Operation::PutSite { pool, site } => out.site(pool, site),
            Operation::MoveSite { pool, site, place } => {
                out.bytes(pool.as_bytes());
                out.bytes(site.as_bytes());
                out.place(place);
            }
            Operation::SetSiteHealthy { pool, site, healthy } => {
                out.bytes(pool.as_bytes());
                out.bytes(site.as_bytes());
                out.u8(u8::from(*healthy));
            }
            Operation::RemoveSite { pool, site } => {
                out.bytes(pool.as_bytes());
                out.bytes(site.as_bytes());
            }
            _ => {}
        }
    }

    fn encode_values(&self, out: &mut Encoder) {
        match self {
            Operation::AddScores { number, key, scores }
            | Operation::StoreScores { number, key, scores } => {
                out.u8(*number);
                out.bytes(key);
                for (member, score) in scores.iter() {
                    out.u64(score.to_bits());
                    out.bytes(member);
                }
            }
            Operation::RemoveRanks { number, key, first, end } => {
                out.u8(*number);
                out.bytes(key);
                out.u64(*first);
                out.u64(*end);
            }
            Operation::SetText { number, key, expires_at_millis, text } => {
                out.u8(*number);
                out.bytes(key);
                out.u64(expires_at_millis.unwrap_or(0));
                out.bytes(text);
            }
            Operation::SetExpiry { number, key, expires_at_millis } => {
                out.u8(*number);
                out.bytes(key);
                out.u64(expires_at_millis.unwrap_or(0));
            }
            Operation::Rename(pair) | Operation::Copy(pair) => {
                out.u8(pair.from_number);
                out.u8(pair.to_number);
                out.bytes(pair.from);
                out.bytes(pair.to);
            }
            Operation::SwapNumbers { number, other } => {
                out.u8(*number);
                out.u8(*other);
            }
            Operation::Batch(operations) => {
                for operation in operations {
                    push_to_batch(&mut out.0, operation.kind(), &operation.encode());
                }
            }
            _ => {}
        }
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
            5 | 6 => input.prefix_operation(),
            7..=10 => input.site_operation(),
            11..=18 => input.value_operation(),
            BATCH_KIND => input.batch(),
            _ => Err(format!(
                "operation of unknown kind {kind}; this program knows 1 to {BATCH_KIND}"
            )),
        }?;
        let left = payload.len() - input.offset;
        if left > 0 { Err(input.wrong(&format!("{left} bytes too many"))) } else { Ok(operation) }
    }
}

struct Encoder(Vec<u8>);

impl Encoder {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A length and the bytes. The journal refuses frames above its limit, far below 4 GiB.
    fn bytes(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("reserve() refuses payloads of this size");
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(v4) => {
                self.u8(4);
                self.0.extend_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                self.u8(6);
                self.0.extend_from_slice(&v6.octets());
            }
        }
    }

    fn prefix(&mut self, prefix: &Prefix) {
        self.address(prefix.address());
        self.u8(prefix.length_bits());
    }

    fn place(&mut self, place: &Place) {
        self.u64(place.longitude_degrees.to_bits());
        self.u64(place.latitude_degrees.to_bits());
    }

    fn site(&mut self, pool: &str, site: &Site) {
        self.bytes(pool.as_bytes());
        self.bytes(site.name.as_bytes());
        self.place(&site.place);
        self.u8(u8::from(site.healthy));
        site.addresses.iter().for_each(|address| self.address(*address));
    }
}

struct Decoder<'a> {
    bytes: &'a [u8],
    offset: usize,
    kind: u16,
}

impl<'a> Decoder<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.offset.checked_add(count).filter(|end| *end <= self.bytes.len());
        let taken = end.and_then(|end| self.bytes.get(self.offset..end));
        let taken = taken.ok_or_else(|| {
            let left = self.bytes.len() - self.offset;
            self.wrong(&format!("{count} bytes expected, {left} left"))
        })?;
        self.offset += count;
        Ok(taken)
    }

    fn wrong(&self, what: &str) -> String {
        format!("operation of kind {}, byte {}: {what}", self.kind, self.offset)
    }

    fn at_end(&self) -> bool {
        self.offset == self.bytes.len()
    }

    fn u8(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("take() returns as many bytes as asked for"))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = u32::from_le_bytes(self.array()?);
        self.take(length as usize)
    }

    fn text(&mut self) -> Result<&'a str, String> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.wrong("a name that is not UTF-8"))
    }

    fn number(&mut self, all_allowed: bool) -> Result<u8, String> {
        let number = self.u8()?;
        if number < 16 || (all_allowed && number == ALL_NUMBERS) {
            Ok(number)
        } else {
            Err(self.wrong(&format!("database number {number}; allowed: 0 to 15")))
        }
    }

    fn cell(&mut self) -> Result<Cell, String> {
        let bits = self.u64()?;
        Cell::from_bits(bits).ok_or_else(|| self.wrong(&format!("cell {bits} has over 52 bits")))
    }

    fn address(&mut self) -> Result<IpAddr, String> {
        match self.u8()? {
            4 => Ok(Ipv4Addr::from(self.array::<4>()?).into()),
            6 => Ok(Ipv6Addr::from(self.array::<16>()?).into()),
            other => Err(self.wrong(&format!("address family {other}; allowed: 4, 6"))),
        }
    }

    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        while !self.at_end() {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn keyspace_operation(&mut self) -> Result<Operation<'a>, String> {
        let number = self.number(self.kind == 4)?;
        Ok(match self.kind {
            1 => {
                let key = self.bytes()?;
                let points = self.list(|input| {
                    let cell = input.cell()?;
                    Ok((input.bytes()?, cell))
                })?;
                Operation::AddPoints { number, key, points: points.into() }
            }
            2 => {
                let key = self.bytes()?;
                Operation::RemoveMembers { number, key, members: self.list(Self::bytes)?.into() }
            }
            3 => Operation::DeleteKeys { number, keys: self.list(Self::bytes)?.into() },
            _ => Operation::Flush { number },
        })
    }

    fn value_operation(&mut self) -> Result<Operation<'a>, String> {
        let number = self.number(false)?;
        if self.kind >= 16 {
            return self.pair_operation(number);
        }
        let key = self.bytes()?;
        Ok(match self.kind {
            11 => Operation::AddScores { number, key, scores: self.scores()? },
            12 => {
                let (first, end) = (self.u64()?, self.u64()?);
                Operation::RemoveRanks { number, key, first, end }
            }
            13 => {
                let expires_at_millis = self.expiry()?;
                Operation::SetText { number, key, expires_at_millis, text: self.bytes()? }
            }
            14 => Operation::StoreScores { number, key, scores: self.scores()? },
            _ => Operation::SetExpiry { number, key, expires_at_millis: self.expiry()? },
        })
    }

    fn pair_operation(&mut self, from_number: u8) -> Result<Operation<'a>, String> {
        let to_number = self.number(false)?;
        if self.kind == 18 {
            return Ok(Operation::SwapNumbers { number: from_number, other: to_number });
        }
        let (from, to) = (self.bytes()?, self.bytes()?);
        let pair = KeyPair { from_number, to_number, from, to };
        Ok(if self.kind == 16 { Operation::Rename(pair) } else { Operation::Copy(pair) })
    }

    fn scores(&mut self) -> Result<Cow<'a, [(&'a [u8], f64)]>, String> {
        let scores = self.list(|input| {
            let score = f64::from_bits(input.u64()?);
            if score.is_nan() {
                return Err(input.wrong("a score that is no number"));
            }
            Ok((input.bytes()?, score))
        })?;
        Ok(scores.into())
    }

    fn expiry(&mut self) -> Result<Option<u64>, String> {
        Ok(Some(self.u64()?).filter(|at| *at != 0))
    }

    fn batch(&mut self) -> Result<Operation<'a>, String> {
        let operations = self.list(|input| {
            let kind = u16::from_le_bytes(input.array()?);
            if !matches!(kind, 1..=4 | 11..=18) {
                return Err(input.wrong(&format!("an operation of kind {kind} in a batch")));
            }
            let payload = input.bytes()?;
            Operation::decode(kind, payload).map_err(|reason| input.wrong(&reason))
        })?;
        Ok(Operation::Batch(operations))
    }

    fn prefixes(&mut self) -> Result<Cow<'a, [Prefix]>, String> {
        let prefixes = self.list(|input| {
            let address = input.address()?;
            let length_bits = input.u8()?;
            Prefix::new(address, length_bits).map_err(|error| input.wrong(&error.to_string()))
        })?;
        Ok(prefixes.into())
    }

    fn prefix_operation(&mut self) -> Result<Operation<'a>, String> {
        let set = self.text()?;
        if self.kind == 6 {
            return Ok(Operation::RemovePrefixes { set, prefixes: self.prefixes()? });
        }
        let expires_at_millis = Some(self.u64()?).filter(|at| *at != 0);
        let value = if self.u8()? == 1 { Some(self.bytes()?) } else { None };
        Ok(Operation::AddPrefixes { set, expires_at_millis, value, prefixes: self.prefixes()? })
    }

    fn site_operation(&mut self) -> Result<Operation<'a>, String> {
        let pool = self.text()?;
        let site = self.text()?;
        Ok(match self.kind {
            7 => {
                let place = self.place()?;
                let healthy = self.u8()? == 1;
                let addresses = self.list(Self::address)?;
                let site = Site { name: site.to_owned(), place, addresses, healthy };
                Operation::PutSite { pool, site: Cow::Owned(site) }
            }
            8 => Operation::MoveSite { pool, site, place: self.place()? },
            9 => Operation::SetSiteHealthy { pool, site, healthy: self.u8()? == 1 },
            _ => Operation::RemoveSite { pool, site },
        })
    }

    fn place(&mut self) -> Result<Place, String> {
        let longitude_degrees = f64::from_bits(self.u64()?);
        let latitude_degrees = f64::from_bits(self.u64()?);
        Place::new_geographic(longitude_degrees, latitude_degrees)
            .map_err(|error| self.wrong(&error.to_string()))
    }
}

#[cfg(test)]
#[path = "operation_tests.rs"]
mod tests;
