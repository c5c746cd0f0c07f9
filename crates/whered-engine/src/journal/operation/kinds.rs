//! Each kind of operation as bytes, encoded and decoded; the layout is drawn at the head of
//! `operation`. The kinds of rulesets are in `rules.rs`.
//!
//! Invariant: what is encoded is exactly `Operation::size_bytes` long. Cost: encoding copies the
//! bytes; decoded lists are collected once.

use std::borrow::Cow;

use whered_geo::{Cell, Place};

use super::{
    ADD_POINTS_KIND, BATCH_KIND, DELETE_SETS_KIND, DISCARD_ZONE_KIND, Decoder, Encoder,
    FORGET_POSITION_KIND, KeyPair, LOAD_MEMBERS_KIND, MIXED_BATCH_KIND, Operation, PROMOTE_KIND,
    REMOVE_RANGES_KIND, SET_CHALLENGE_KIND, SET_IMPORTS_KIND, Scores, VERSION, is_of_keyspace,
    push_to_batch,
};
use crate::journal::imports::{SLOTS, SlotImport};
use crate::journal::numbers::link_of;
use crate::journal::stream::{ReplicationId, StreamPosition};

impl Operation<'_> {
    pub(super) fn encode_first_kinds(&self, out: &mut Encoder) {
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
            Operation::AddPrefixes { set, expires_at_millis, value, blocks } => {
                out.bytes(set.as_bytes());
                out.attribute(*value, *expires_at_millis);
                blocks.iter().for_each(|block| out.block(block));
            }
            Operation::RemovePrefixes { set, blocks } => {
                out.bytes(set.as_bytes());
                blocks.iter().for_each(|block| out.block(block));
            }
            Operation::LoadMembers { set, replaces, members } => {
                out.bytes(set.as_bytes());
                out.u8(u8::from(*replaces));
                out.members(members);
            }
            Operation::DeleteSets { sets } => {
                sets.iter().for_each(|set| out.bytes(set.as_bytes()));
            }
            Operation::PutSite { pool, site, place, healthy, addresses } => {
                out.bytes(pool.as_bytes());
                out.bytes(site.as_bytes());
                // Commands put sites with places only; one without is at no place that can be read.
                let nowhere = Place { longitude_degrees: f64::NAN, latitude_degrees: f64::NAN };
                out.place(&place.unwrap_or(nowhere));
                out.u8(u8::from(*healthy));
                addresses.iter().for_each(|address| out.address(*address));
            }
            Operation::MoveSite { pool, site, place } => {
                out.bytes(pool.as_bytes());
                out.bytes(site.as_bytes());
                out.place(place);
            }
            Operation::OverrideSite { pool, site, code } => {
                out.bytes(pool.as_bytes());
                out.bytes(site.as_bytes());
                out.u8(*code);
            }
            Operation::RemoveSite { pool, site } => {
                out.bytes(pool.as_bytes());
                out.bytes(site.as_bytes());
            }
            _ => {}
        }
    }

    /// Operations on challenges and zones.
    pub(super) fn encode_names(&self, out: &mut Encoder) {
        match self {
            Operation::SetChallenge { owner, token, expires_at_millis } => {
                out.bytes(owner.as_bytes());
                out.bytes(token.as_bytes());
                out.u64(*expires_at_millis);
            }
            Operation::RemoveChallenge { owner, token } => {
                out.bytes(owner.as_bytes());
                out.u8(u8::from(token.is_some()));
                token.iter().for_each(|token| out.bytes(token.as_bytes()));
            }
            Operation::ChangeZone { zone, parts } => {
                out.bytes(zone.as_bytes());
                out.bytes(parts);
            }
            Operation::DiscardZone { zone } => out.bytes(zone.as_bytes()),
            _ => {}
        }
    }

    /// Operations on what is followed from other servers.
    pub(super) fn encode_links(&self, out: &mut Encoder) {
        match self {
            Operation::SetPosition { link, number, stream } => {
                out.bytes(link.as_bytes());
                out.u8(*number);
                out.0.extend_from_slice(stream.replication_id.as_str().as_bytes());
                out.u64(stream.offset as u64);
                out.u32(stream.database);
            }
            Operation::ForgetPosition { link, number } => {
                out.bytes(link.as_bytes());
                out.u8(*number);
            }
            Operation::Promote { number, database } => {
                out.u8(*number);
                out.u8(*database);
            }
            Operation::SetImports { number, imports } => {
                out.u8(*number);
                for import in imports.iter() {
                    out.bytes(&import.name);
                    out.u32(import.ranges.len() as u32);
                    for (first, last) in &import.ranges {
                        out.0.extend_from_slice(&first.to_le_bytes());
                        out.0.extend_from_slice(&last.to_le_bytes());
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn encode_values(&self, out: &mut Encoder) {
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
}

impl<'a> Decoder<'a> {
    pub(super) fn keyspace_operation(&mut self) -> Result<Operation<'a>, String> {
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

    pub(super) fn value_operation(&mut self) -> Result<Operation<'a>, String> {
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

    pub(crate) fn scores(&mut self) -> Result<Scores<'a>, String> {
        let scores = self.list(|input| {
            let score = f64::from_bits(input.u64()?);
            if score.is_nan() {
                return Err(input.wrong("a score that is no number"));
            }
            Ok((input.bytes()?, score))
        })?;
        Ok(scores.into())
    }

    pub(super) fn challenge_operation(&mut self) -> Result<Operation<'a>, String> {
        let owner = self.text()?.into();
        if self.kind == SET_CHALLENGE_KIND {
            let (token, expires_at_millis) = (self.text()?, self.u64()?);
            return Ok(Operation::SetChallenge { owner, token, expires_at_millis });
        }
        let token = if self.u8()? == 1 { Some(self.text()?) } else { None };
        Ok(Operation::RemoveChallenge { owner, token })
    }

    pub(super) fn zone_operation(&mut self) -> Result<Operation<'a>, String> {
        let zone = self.text()?;
        if self.kind == DISCARD_ZONE_KIND {
            return Ok(Operation::DiscardZone { zone });
        }
        Ok(Operation::ChangeZone { zone: zone.into(), parts: self.bytes()?.into() })
    }

    pub(super) fn link_operation(&mut self) -> Result<Operation<'a>, String> {
        if self.kind == PROMOTE_KIND {
            let (number, database) = (self.served_number()?, self.number(false)?);
            return Ok(Operation::Promote { number, database });
        }
        if self.kind == SET_IMPORTS_KIND {
            let number = self.served_number()?;
            return Ok(Operation::SetImports { number, imports: self.list(Self::import)?.into() });
        }
        let (link, number) = (self.text()?, self.served_number()?);
        if self.kind == FORGET_POSITION_KIND {
            return Ok(Operation::ForgetPosition { link, number });
        }
        let replication_id = ReplicationId::from_bytes(self.array()?)
            .ok_or_else(|| self.wrong("a replication id that is not of hexadecimal digits"))?;
        let offset = self.u64()? as i64;
        let stream = StreamPosition { replication_id, offset, database: self.u32()? };
        Ok(Operation::SetPosition { link, number, stream })
    }

    fn import(&mut self) -> Result<SlotImport, String> {
        let name = self.bytes()?.to_vec();
        let mut ranges = Vec::new();
        for _ in 0..self.u32()? {
            let (first, last) = (self.u16()?, self.u16()?);
            if first > last || last >= SLOTS {
                return Err(self.wrong(&format!("slots {first} to {last}; allowed: 0 to 16383")));
            }
            ranges.push((first, last));
        }
        Ok(SlotImport { name, ranges })
    }

    /// The number of the database that holds what a link serves.
    fn served_number(&mut self) -> Result<u8, String> {
        let number = self.u8()?;
        match link_of(number) {
            Some(_) => Ok(number),
            None => Err(self.wrong(&format!("database number {number}, which is no link's"))),
        }
    }

    pub(super) fn batch(&mut self) -> Result<Operation<'a>, String> {
        let operations = self.list(|input| {
            let kind = input.u16()?;
            let is_batch = matches!(kind, BATCH_KIND | MIXED_BATCH_KIND);
            if is_batch || (input.kind == BATCH_KIND && !is_of_keyspace(kind)) {
                return Err(input.wrong(&format!("an operation of kind {kind} in a batch")));
            }
            let payload = input.bytes()?;
            Operation::decode(kind, payload).map_err(|reason| input.wrong(&reason))
        })?;
        Ok(Operation::Batch(operations))
    }

    pub(super) fn prefix_operation(&mut self) -> Result<Operation<'a>, String> {
        if self.kind == DELETE_SETS_KIND {
            return Ok(Operation::DeleteSets { sets: self.list(Self::text)?.into() });
        }
        let set = self.text()?;
        if self.kind == LOAD_MEMBERS_KIND {
            let replaces = self.u8()? == 1;
            return Ok(Operation::LoadMembers {
                set,
                replaces,
                members: Cow::Owned(self.members()?),
            });
        }
        if matches!(self.kind, 6 | REMOVE_RANGES_KIND) {
            return Ok(Operation::RemovePrefixes { set, blocks: self.list(Self::block)?.into() });
        }
        let (value, expires_at_millis) = self.attribute()?;
        let blocks = self.list(Self::block)?.into();
        Ok(Operation::AddPrefixes { set, expires_at_millis, value, blocks })
    }

    pub(super) fn site_operation(&mut self) -> Result<Operation<'a>, String> {
        let pool = self.text()?;
        let site = self.text()?;
        Ok(match self.kind {
            7 => {
                let place = self.place()?;
                let healthy = self.u8()? == 1;
                let addresses = self.list(Self::address)?.into();
                Operation::PutSite { pool, site, place: Some(place), healthy, addresses }
            }
            8 => Operation::MoveSite { pool, site, place: self.place()? },
            9 => {
                let code = self.u8()?;
                if code > 2 {
                    return Err(self.wrong("an override that is none of 0, 1, 2"));
                }
                Operation::OverrideSite { pool, site, code }
            }
            _ => Operation::RemoveSite { pool, site },
        })
    }
}

/// The points of an [`Operation::AddPoints`] one after the other, for a caller that has millions of
/// such operations and needs no list of any.
pub(crate) struct AddedPoints<'a> {
    pub(crate) number: u8,
    pub(crate) key: &'a [u8],
    input: Decoder<'a>,
}

impl<'a> AddedPoints<'a> {
    /// Reads a payload; `None` if it is of another kind, or of a version that
    /// [`Operation::decode`] refuses.
    #[inline]
    pub(crate) fn decode(kind: u16, payload: &'a [u8]) -> Option<Result<AddedPoints<'a>, String>> {
        if kind != ADD_POINTS_KIND || payload.first() != Some(&VERSION) {
            return None;
        }
        let mut input = Decoder { bytes: payload, offset: 1, kind };
        let mut head = || Ok((input.number(false)?, input.bytes()?));
        let head = head();
        Some(head.map(|(number, key)| AddedPoints { number, key, input }))
    }

    /// The next member and its cell.
    ///
    /// # Errors
    /// The rest is not that of an operation; the text is that of [`Operation::decode`].
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(&'a [u8], Cell)>, String> {
        if self.input.at_end() {
            return Ok(None);
        }
        let cell = self.input.cell()?;
        Ok(Some((self.input.bytes()?, cell)))
    }
}

/// The payload of an [`Operation::AddPoints`] that is made point by point, for a caller that has no
/// list of them.
pub(crate) struct AddedPointsEncoder {
    out: Encoder,
    head_bytes: usize,
}

impl AddedPointsEncoder {
    pub(crate) fn new(number: u8, key: &[u8]) -> AddedPointsEncoder {
        let mut out = Encoder(Vec::new());
        out.u8(VERSION);
        out.u8(number);
        out.bytes(key);
        let head_bytes = out.0.len();
        AddedPointsEncoder { out, head_bytes }
    }

    /// The frame kind.
    pub(crate) fn kind(&self) -> u16 {
        ADD_POINTS_KIND
    }

    #[inline]
    pub(crate) fn push(&mut self, member: &[u8], cell: Cell) {
        self.out.u64(cell.bits());
        self.out.bytes(member);
    }

    /// Size of the points in the payload.
    pub(crate) fn len_bytes(&self) -> usize {
        self.out.0.len() - self.head_bytes
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.out.0
    }

    /// Forgets the points and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.out.0.truncate(self.head_bytes);
    }
}
