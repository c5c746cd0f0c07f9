//! The usual query and its usual answer, from bytes to bytes in one straight line.
//!
//! For: what nearly all queries are: one question of class IN without or with an empty OPT, answered
//! by one rrset: the one that was asked for, the servers of a delegation without glue, or the SOA
//! that says no; and by the one address that a blocklist gives. Not for: anything else (`answer.rs`),
//! which [`Usual::read`] and [`Usual::answer`] leave alone.
//!
//! ```text
//! query  [ header | name, type, class           | OPT ]
//!            │       copied as it is                │ its size and DO
//! reply  [ header | name, type, class | one rrset | OPT ]
//!                        ▲ delta ▲                 each pointer of the rrset leads so many bytes
//!                        12     its owner          further than it was compiled to: none for hits
//! ```
//!
//! Invariant: an answer is the same, byte by byte, as that of `answer.rs`; a test compares them.
//! Concurrency: none inside. Cost: one copy of the question and one of the rrset, no allocation.
#![deny(clippy::indexing_slicing)]

use crate::answer::{Context, Outcome, size_max};
use crate::code::{Rcode, RecordType};
use crate::lower::LowerName;
use crate::reply::{OPT_SIZE, opt_record};
use crate::request::HEADER_SIZE;
use crate::resolve::DATA;
use crate::reversed::{Reversed, Synthesised};
use crate::zone::Rrset;
use crate::zone::layout::{HAS_ALIAS, HAS_DNAME, HAS_WILDCARD, RECORD_HEAD_SIZE};
use crate::zones::{Located, Zones};

/// Such a query.
pub(crate) struct Usual<'q> {
    /// Header and question.
    head: &'q [u8],
    record_type: RecordType,
    /// The size that OPT tells.
    edns_size: Option<u16>,
    dnssec_ok: bool,
}

/// What such an answer says.
struct Said<'z> {
    rcode: Rcode,
    authoritative: bool,
    /// The counts of the header for the answer and the authority section.
    counts: [u16; 2],
    rrset: Rrset<'z>,
    /// The size of the rrset's owner, which ends the question's name, in wire form.
    owner_length: usize,
}

impl<'q> Usual<'q> {
    /// Reads a query whose question's name has so many bytes; none if it is not a usual one.
    #[inline(always)]
    pub(crate) fn read(query: &'q [u8], name_length: usize) -> Option<Usual<'q>> {
        let (head, rest) = query.split_at_checked(HEADER_SIZE + name_length + 4)?;
        let &[_, _, flags, _, counts @ ..] = head.first_chunk::<HEADER_SIZE>()?;
        let &[t0, t1, c0, c1] = head.last_chunk()?;
        let (edns_size, dnssec_ok) = match (counts, rest) {
            ([0, 1, 0, 0, 0, 0, 0, 0], []) => (None, false),
            ([0, 1, 0, 0, 0, 0, 0, 1], &[0, 0, 41, s0, s1, _, 0, flags, _, 0, 0]) => {
                (Some(u16::from_be_bytes([s0, s1])), flags & 0x80 != 0)
            }
            _ => return None,
        };
        let record_type = RecordType(u16::from_be_bytes([t0, t1]));
        // Responses and other opcodes, other classes, types that mean something else than an rrset.
        let is_odd = flags & 0xf8 != 0
            || [c0, c1] != [0, 1]
            || matches!(record_type.0, 0 | 43 | 249..=255 | u16::MAX);
        (!is_odd).then_some(Usual { head, record_type, edns_size, dnssec_ok })
    }

    /// Answers for a name that was found there. None, and nothing is written, if the answer is not
    /// a usual one.
    #[inline(always)]
    pub(crate) fn answer(
        &self,
        zones: &Zones,
        name: &LowerName,
        located: &Located<'_>,
        context: &Context<'_>,
        room: &mut [u8],
    ) -> Option<(usize, Outcome)> {
        // A token of ACME's may stand beside the zone's own records, or where it has no name.
        if context.challenges.is_some() {
            return None;
        }
        let mut address = Address::default();
        let said = match zones.is_reversed(located.zone) {
            false => self.say(zones, name, located)?,
            true => self.say_reversed(zones, name, located, context, &mut address)?,
        };
        let (middle, end) = (self.head.len(), self.head.len() + said.rrset.wire.len());
        let size = end + self.edns_size.map_or(0, |_| OPT_SIZE);
        if size > size_max(self.edns_size, context) {
            return None;
        }
        let reply = room.get_mut(..size)?;
        let (head, rest) = reply.split_at_mut_checked(middle)?;
        let (wire, opt) = rest.split_at_mut_checked(end - middle)?;
        head.copy_from_slice(self.head);
        wire.copy_from_slice(said.rrset.wire);
        let delta = name.as_wire().len() - said.owner_length;
        if delta > 0 {
            shift(wire, &said.rrset, delta as u16);
        }
        if self.edns_size.is_some() {
            opt.copy_from_slice(&opt_record(said.rcode, self.dnssec_ok, 0));
        }
        let header = head.first_chunk_mut::<HEADER_SIZE>()?;
        let [i0, i1, flags, ..] = *header;
        let flags = 0x80 | (flags & 1) | u8::from(said.authoritative) << 2;
        let [[a0, a1], [n0, n1]] = said.counts.map(u16::to_be_bytes);
        let additional = u8::from(self.edns_size.is_some());
        *header = [i0, i1, flags, said.rcode.0 as u8, 0, 1, a0, a1, n0, n1, 0, additional];
        let outcome = Outcome::Answered {
            rcode: said.rcode,
            question_type: Some(self.record_type),
            pool: None,
            zone: Some(located.zone as usize),
            has_cookie: false,
        };
        Some((size, outcome))
    }

    /// What is to be said of an address in a reversed zone that has nothing of its own there: the
    /// record that the caller gives, which is written into `record`, or the SOA.
    #[inline(never)]
    fn say_reversed<'z>(
        &self,
        zones: &'z Zones,
        name: &LowerName,
        located: &Located<'z>,
        context: &Context<'_>,
        record: &'z mut Address,
    ) -> Option<Said<'z>> {
        let node = located.place.node?;
        let is_plain = node.cut().is_none()
            && !node.has(HAS_WILDCARD | HAS_DNAME)
            && !zones.has_overlay(located.zone);
        if located.is_exact || !is_plain || self.record_type != RecordType::A {
            return None;
        }
        let origin_length = zones.zone_at(located.zone).lower_origin().len();
        let labels = name.as_wire().len().checked_sub(origin_length)?;
        let reversed = Reversed::read(name.as_wire().get(..labels)?)?;
        let (source, asked) = (context.synthesise?, reversed.address?);
        let mut data = DATA.take();
        data.clear();
        let found = source.synthesise(located.zone as usize, asked, self.record_type, &mut data);
        let said = match (found, data.first_chunk()) {
            (Synthesised::Record { ttl_seconds }, Some(octets)) if data.len() == octets.len() => {
                let rrset = record.write(ttl_seconds, *octets);
                let (rcode, counts) = (Rcode::NOERROR, [1, 0]);
                let owner_length = name.as_wire().len();
                Some(Said { rcode, authoritative: true, counts, rrset, owner_length })
            }
            (Synthesised::Absent, _) if !reversed.is_partial => {
                let (rcode, rrset) = (Rcode::NXDOMAIN, zones.negative_soa(located.zone));
                let counts = [0, rrset.count];
                let owner_length = origin_length;
                Some(Said { rcode, authoritative: true, counts, rrset, owner_length })
            }
            _ => None,
        };
        DATA.set(data);
        said
    }

    /// What is to be said; as `resolve`, for what can be said by one rrset.
    #[inline(always)]
    fn say<'z>(
        &self,
        zones: &'z Zones,
        name: &LowerName,
        located: &Located<'z>,
    ) -> Option<Said<'z>> {
        let node = located.place.node?;
        if located.place.pool.is_some() {
            return None;
        }
        let zone = zones.zone_at(located.zone);
        let origin_length = zone.lower_origin().len();
        if let Some(cut) = node.cut() {
            let cut = zone.node(cut);
            if cut.glue().next().is_some() {
                return None;
            }
            let rrset = cut.rrset(RecordType::NS)?;
            let owner_length = cut.owner().len() + origin_length;
            let (rcode, counts) = (Rcode::NOERROR, [0, rrset.count]);
            return Some(Said { rcode, authoritative: false, counts, rrset, owner_length });
        }
        let rcode = if located.is_exact { Rcode::NOERROR } else { Rcode::NXDOMAIN };
        if !located.is_exact {
            if node.has(HAS_WILDCARD | HAS_DNAME) || zones.has_overlay(located.zone) {
                return None;
            }
        } else if self.record_type == RecordType::NS && node.glue().next().is_some() {
            return None;
        } else if let Some(rrset) = node.rrset(self.record_type) {
            let counts = [rrset.count, 0];
            let owner_length = name.as_wire().len();
            return Some(Said { rcode, authoritative: true, counts, rrset, owner_length });
        } else if node.has(HAS_ALIAS) {
            return None;
        }
        let rrset = zone.negative_soa();
        let counts = [0, rrset.count];
        Some(Said { rcode, authoritative: true, counts, rrset, owner_length: origin_length })
    }
}

/// An address record at the question's name, in wire form.
#[derive(Default)]
struct Address([u8; RECORD_HEAD_SIZE + 4]);

impl Address {
    fn write(&mut self, ttl_seconds: u32, [a, b, c, d]: [u8; 4]) -> Rrset<'_> {
        let [t0, t1, t2, t3] = ttl_seconds.to_be_bytes();
        let name = HEADER_SIZE as u8;
        self.0 = [0xc0, name, 0, 1, 0, 1, t0, t1, t2, t3, 0, 4, a, b, c, d];
        Rrset::of_address(&self.0)
    }
}

/// Moves every pointer of an rrset that stands behind a question for a name below its owner.
#[inline]
fn shift(wire: &mut [u8], rrset: &Rrset<'_>, delta: u16) {
    let mut at = 0;
    while let Some(head) = wire.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        let head: &mut [u8; RECORD_HEAD_SIZE] = head;
        let [high, low, .., length_high, length_low] = head;
        [*high, *low] = (u16::from_be_bytes([*high, *low]) + delta).to_be_bytes();
        at += RECORD_HEAD_SIZE + usize::from(u16::from_be_bytes([*length_high, *length_low]));
    }
    for point in rrset.points() {
        if let Some(place) = wire.get_mut(point..).and_then(<[u8]>::first_chunk_mut::<2>) {
            *place = (u16::from_be_bytes(*place) + delta).to_be_bytes();
        }
    }
}
