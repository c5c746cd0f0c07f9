//! The fast path: nearly all queries, from bytes to bytes in one straight line.
//!
//! For: one question of class IN with no OPT or an empty one, answered by one RRset. That is the
//! requested RRset, the servers of a delegation without glue, the SOA of a negative answer, or the
//! one address that a blocklist gives. Not for: anything else; [`FastQuery::parse`] and
//! [`FastQuery::answer`] return `None` and `answer.rs` answers.
//!
//! ```text
//! query  [ header | name, type, class           | OPT ]
//!            │       copied                         │ its size and DO
//! reply  [ header | name, type, class | one RRset | OPT ]
//!                        ▲ delta ▲                 delta is added to each pointer of the RRset,
//!                        12     its owner          which was compiled for offset 12: 0 for hits
//! ```
//!
//! Invariant: an answer is the same, byte by byte, as that of `answer.rs`; a test compares them.
//! Concurrency: none inside. Cost: one copy of the question and one of the RRset, no allocation.
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
use crate::zones::{ZoneLocation, Zones};

/// A query that the fast path may answer.
pub(crate) struct FastQuery<'q> {
    /// Header and question.
    head: &'q [u8],
    record_type: RecordType,
    /// The size limit of OPT.
    edns_size: Option<u16>,
    dnssec_ok: bool,
}

/// The contents of an answer.
struct Content<'z> {
    rcode: Rcode,
    authoritative: bool,
    /// The counts of the header for the answer and the authority section.
    counts: [u16; 2],
    rrset: Rrset<'z>,
    /// The size of the rrset's owner, which ends the question's name, in wire form.
    owner_length: usize,
}

impl<'q> FastQuery<'q> {
    /// Parses a query whose question's name has `name_length` bytes; `None` if it needs the slow
    /// path.
    #[inline(always)]
    pub(crate) fn parse(query: &'q [u8], name_length: usize) -> Option<FastQuery<'q>> {
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
        // Responses and other opcodes, other classes, types that do not mean one RRset.
        let is_slow = flags & 0xf8 != 0
            || [c0, c1] != [0, 1]
            || matches!(record_type.0, 0 | 43 | 128..=255 | u16::MAX);
        (!is_slow).then_some(FastQuery { head, record_type, edns_size, dnssec_ok })
    }

    /// Answers for a name that was found at `located`. Returns `None` and writes nothing if the
    /// answer needs the slow path.
    #[inline(always)]
    pub(crate) fn answer(
        &self,
        zones: &Zones,
        name: &LowerName,
        located: &ZoneLocation<'_>,
        context: &Context<'_>,
        room: &mut [u8],
    ) -> Option<(usize, Outcome)> {
        // A token of an ACME challenge may be next to the zone's own records, or where it has no
        // name.
        if context.challenges.is_some() {
            return None;
        }
        let mut record = Address::default();
        let content = match zones.is_plain(located.zone) {
            true => self.content(zones, name, located)?,
            false => self.reversed_content(zones, name, located, context, &mut record)?,
        };
        let (middle, end) = (self.head.len(), self.head.len() + content.rrset.wire.len());
        let size = end + self.edns_size.map_or(0, |_| OPT_SIZE);
        if size > size_max(self.edns_size, context) {
            return None;
        }
        let reply = room.get_mut(..size)?;
        let (head, rest) = reply.split_at_mut_checked(middle)?;
        let (wire, opt) = rest.split_at_mut_checked(end - middle)?;
        head.copy_from_slice(self.head);
        wire.copy_from_slice(content.rrset.wire);
        let delta = name.as_wire().len() - content.owner_length;
        if delta > 0 {
            shift(wire, &content.rrset, delta as u16);
        }
        if self.edns_size.is_some() {
            opt.copy_from_slice(&opt_record(content.rcode, self.dnssec_ok, 0));
        }
        let header = head.first_chunk_mut::<HEADER_SIZE>()?;
        let [i0, i1, flags, ..] = *header;
        let flags = 0x80 | (flags & 1) | u8::from(content.authoritative) << 2;
        let [[a0, a1], [n0, n1]] = content.counts.map(u16::to_be_bytes);
        let additional = u8::from(self.edns_size.is_some());
        *header = [i0, i1, flags, content.rcode.0 as u8, 0, 1, a0, a1, n0, n1, 0, additional];
        let outcome = Outcome::Answered {
            rcode: content.rcode,
            question_type: Some(self.record_type),
            pool: None,
            zone: Some(located.zone as usize),
            has_cookie: false,
        };
        Some((size, outcome))
    }

    /// The content for an address in a reversed zone without records of its own there. It is the
    /// record that the caller gives, written into `record`, or the SOA.
    #[inline(never)]
    fn reversed_content<'z>(
        &self,
        zones: &'z Zones,
        name: &LowerName,
        located: &ZoneLocation<'z>,
        context: &Context<'_>,
        record: &'z mut Address,
    ) -> Option<Content<'z>> {
        if !zones.is_reversed(located.zone) {
            return None;
        }
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
        let (source, address) = (context.synthesise?, reversed.address?);
        let mut data = DATA.take();
        data.clear();
        let found = source.synthesise(located.zone as usize, address, self.record_type, &mut data);
        let content = match (found, data.first_chunk()) {
            (Synthesised::Record { ttl_seconds }, Some(octets)) if data.len() == octets.len() => {
                let rrset = record.write(ttl_seconds, *octets);
                let (rcode, counts) = (Rcode::NOERROR, [1, 0]);
                let owner_length = name.as_wire().len();
                Some(Content { rcode, authoritative: true, counts, rrset, owner_length })
            }
            (Synthesised::Absent, _) if !reversed.is_partial => {
                let (rcode, rrset) = (Rcode::NXDOMAIN, zones.negative_soa(located.zone));
                let counts = [0, rrset.count];
                let owner_length = origin_length;
                Some(Content { rcode, authoritative: true, counts, rrset, owner_length })
            }
            _ => None,
        };
        DATA.set(data);
        content
    }

    /// The content as `resolve` finds it, if one RRset is all of it.
    #[inline(always)]
    fn content<'z>(
        &self,
        zones: &'z Zones,
        name: &LowerName,
        located: &ZoneLocation<'z>,
    ) -> Option<Content<'z>> {
        let node = located.place.node?;
        if located.place.pool.is_some() {
            return None;
        }
        let zone = zones.zone_at(located.zone);
        if self.dnssec_ok && zone.signed().is_some() {
            return None;
        }
        let origin_length = zone.lower_origin().len();
        if let Some(cut) = node.cut() {
            let cut = zone.node(cut);
            if cut.glue().next().is_some() {
                return None;
            }
            let rrset = cut.rrset(RecordType::NS)?;
            let owner_length = cut.owner().len() + origin_length;
            let (rcode, counts) = (Rcode::NOERROR, [0, rrset.count]);
            return Some(Content { rcode, authoritative: false, counts, rrset, owner_length });
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
            return Some(Content { rcode, authoritative: true, counts, rrset, owner_length });
        } else if node.has(HAS_ALIAS) {
            return None;
        }
        let rrset = zone.negative_soa();
        let counts = [0, rrset.count];
        Some(Content { rcode, authoritative: true, counts, rrset, owner_length: origin_length })
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

/// Adds `delta` to every pointer of an RRset, for a question whose name is below the RRset's owner.
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
        if let Some(pointer) = wire.get_mut(point..).and_then(<[u8]>::first_chunk_mut::<2>) {
            *pointer = (u16::from_be_bytes(*pointer) + delta).to_be_bytes();
        }
    }
}
