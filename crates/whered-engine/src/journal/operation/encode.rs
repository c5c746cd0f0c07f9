//! Operations to bytes; the layout is drawn at the head of `operation`.
//!
//! Invariant: what is written is exactly `Operation::size_bytes` long. Cost: a copy of the bytes.

use std::net::IpAddr;

use whered_geo::Place;
use whered_ip::{Block, MemberList};

use super::{Operation, push_to_batch};

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

/// Collects the bytes of a payload.
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A length and the bytes. The journal refuses frames above its limit, far below 4 GiB.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("reserve() refuses payloads of this size");
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn address(&mut self, address: IpAddr) {
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

    pub(super) fn block(&mut self, block: &Block) {
        match (block.as_prefix(), block.first(), block.last()) {
            (Some(prefix), ..) => {
                self.address(prefix.address());
                self.u8(prefix.length_bits());
            }
            (None, IpAddr::V4(first), IpAddr::V4(last)) => {
                self.u8(14);
                self.0.extend_from_slice(&first.octets());
                self.0.extend_from_slice(&last.octets());
            }
            (None, IpAddr::V6(first), IpAddr::V6(last)) => {
                self.u8(16);
                self.0.extend_from_slice(&first.octets());
                self.0.extend_from_slice(&last.octets());
            }
            // A block has one family.
            _ => {}
        }
    }

    fn attribute(&mut self, value: Option<&[u8]>, expires_at_millis: Option<u64>) {
        self.u64(expires_at_millis.unwrap_or(0));
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            self.bytes(value);
        }
    }

    fn members(&mut self, members: &MemberList) {
        let attributes = members.attributes();
        let count = u32::try_from(attributes.len()).expect("a list has fewer than 2^32 attributes");
        self.0.extend_from_slice(&count.to_le_bytes());
        attributes.for_each(|(value, expires)| self.attribute(value, expires));
        for (block, attribute) in members.iter() {
            if count > 1 {
                self.0.extend_from_slice(&attribute.to_le_bytes());
            }
            self.block(&block);
        }
    }

    pub(super) fn place(&mut self, place: &Place) {
        self.u64(place.longitude_degrees.to_bits());
        self.u64(place.latitude_degrees.to_bits());
    }
}
