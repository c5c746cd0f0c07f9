//! Bytes to operations; the layout is drawn at the head of `operation`.
//!
//! Nothing read is trusted: what does not fit is an error that names the kind and the byte.
//! Cost: texts are borrowed from the payload; lists are collected once.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use whered_geo::{Cell, Place};
use whered_ip::{Block, MemberList, Prefix};

use super::{
    ADD_POINTS_KIND, ADD_RANGES_KIND, ALL_NUMBERS, BATCH_KIND, DELETE_SETS_KIND, KeyPair,
    LOAD_MEMBERS_KIND, MIXED_BATCH_KIND, Operation, REMOVE_RANGES_KIND, SET_CHALLENGE_KIND, Scores,
    VERSION, is_of_keyspace,
};

/// Reads a payload from its beginning.
pub(crate) struct Decoder<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) offset: usize,
    pub(crate) kind: u16,
}

impl<'a> Decoder<'a> {
    #[inline]
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

    pub(crate) fn wrong(&self, what: &str) -> String {
        format!("operation of kind {}, byte {}: {what}", self.kind, self.offset)
    }

    pub(crate) fn at_end(&self) -> bool {
        self.offset == self.bytes.len()
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("take() returns as many bytes as asked for"))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, String> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    #[inline]
    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, String> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.wrong("a name that is not UTF-8"))
    }

    #[inline]
    pub(crate) fn number(&mut self, all_allowed: bool) -> Result<u8, String> {
        let number = self.u8()?;
        if number < 16 || (all_allowed && number == ALL_NUMBERS) {
            Ok(number)
        } else {
            Err(self.wrong(&format!("database number {number}; allowed: 0 to 15")))
        }
    }

    #[inline]
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

    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        while !self.at_end() {
            items.push(item(self)?);
        }
        Ok(items)
    }

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

    pub(crate) fn expiry(&mut self) -> Result<Option<u64>, String> {
        Ok(Some(self.u64()?).filter(|at| *at != 0))
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

    /// A member. What an older version kept as an IPv4-mapped one is the IPv4 member it stands for:
    /// addresses are looked up that way.
    fn block(&mut self) -> Result<Block, String> {
        self.written_block().map(Block::to_canonical)
    }

    fn written_block(&mut self) -> Result<Block, String> {
        let (first, last) = match self.bytes.get(self.offset) {
            Some(14) if self.kind >= ADD_RANGES_KIND => {
                self.u8()?;
                let [first, last] = [self.array::<4>()?, self.array::<4>()?];
                (IpAddr::from(first), IpAddr::from(last))
            }
            Some(16) if self.kind >= ADD_RANGES_KIND => {
                self.u8()?;
                let [first, last] = [self.array::<16>()?, self.array::<16>()?];
                (IpAddr::from(first), IpAddr::from(last))
            }
            _ => {
                let address = self.address()?;
                let length_bits = self.u8()?;
                let prefix = Prefix::new(address, length_bits);
                return prefix.map(Block::from).map_err(|error| self.wrong(&error.to_string()));
            }
        };
        Block::from_ends(first, last).map_err(|error| self.wrong(&error.to_string()))
    }

    fn attribute(&mut self) -> Result<(Option<&'a [u8]>, Option<u64>), String> {
        let expires_at_millis = self.expiry()?;
        let value = if self.u8()? == 1 { Some(self.bytes()?) } else { None };
        Ok((value, expires_at_millis))
    }

    fn members(&mut self) -> Result<MemberList, String> {
        let count = self.u32()?;
        let mut members = MemberList::new();
        let mut numbers = Vec::new();
        for _ in 0..count {
            let (value, expires_at_millis) = self.attribute()?;
            numbers.push(members.attribute(value, expires_at_millis));
        }
        while !self.at_end() {
            let place = if count > 1 { self.u32()? } else { 0 };
            let Some(number) = numbers.get(place as usize) else {
                return Err(self.wrong(&format!("attribute {place} of {count}")));
            };
            members.push_with(self.block()?, *number);
        }
        Ok(members)
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

    fn place(&mut self) -> Result<Place, String> {
        let longitude_degrees = f64::from_bits(self.u64()?);
        let latitude_degrees = f64::from_bits(self.u64()?);
        Place::new_geographic(longitude_degrees, latitude_degrees)
            .map_err(|error| self.wrong(&error.to_string()))
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
