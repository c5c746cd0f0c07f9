//! Writes a reply: rrsets are copied whole, their pointers are set, the limit is kept.
//!
//! Not for: what belongs into the reply (`resolve`).
//!
//! ```text
//! header 12 | question as it was asked | answer | authority | additional | OPT
//!             ^ 12                                                          room is kept for it
//! ```
//!
//! Truncation (RFC 2181, 9): rrsets are written whole and in order; the first one that does not fit
//! sets TC, and nothing follows but OPT. A single rrset that is too large leaves its section empty.
//! Invariants: the reply is never longer than the limit, nor than the room; pointers point
//! backwards, below 16384.
//! Cost: one copy per rrset. An rrset is compiled for the place behind a question for its owner;
//! only elsewhere its pointers are written, one by one. No allocation.
#![deny(clippy::indexing_slicing)]

use crate::code::{ExtendedError, Rcode, RecordType};
use crate::cookie::OPTION_SIZE as COOKIE_SIZE;
use crate::request::{COMPACT_OK, HEADER_SIZE, OPTION_KEEPALIVE, Request};
use crate::zone::Rrset;
use crate::zone::layout::{RECORD_HEAD_SIZE, TTL_AT};

/// Where the question's name stands in every reply.
pub(crate) const QUESTION_OFFSET: usize = HEADER_SIZE;
const POINTER_OFFSET_MAX: usize = 0x3fff;
/// How far into an rrset its own pointers may point; `compile.rs` keeps to it.
const OWN_POINTER_MAX: usize = POINTER_OFFSET_MAX / 8;
pub(crate) const OPT_SIZE: usize = 11;
/// Where the upper byte of the flags stands in OPT.
const OPT_FLAGS_AT: usize = 7;
const SERVER_ID_SIZE_MAX: usize = 128;
const OPTION_EXTENDED_ERROR: u16 = 15;
/// An option with a value of two bytes.
const SHORT_OPTION_SIZE: usize = 6;
/// The size of UDP queries that this server is ready to take.
const SERVER_UDP_SIZE: u16 = 1232;

/// The sections after the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Answer,
    Authority,
    Additional,
}

/// Where an rrset's names stand in the reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    /// The name of its owner.
    pub(crate) owner: usize,
    /// Its zone's origin.
    pub(crate) origin: usize,
    /// The size of the owner for which it was compiled, in wire form.
    pub(crate) owner_length: usize,
}

/// The owner of a record that is written on its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Owner<'a> {
    /// The name that stands there.
    At(usize),
    /// These labels, and the origin that stands there.
    Named { labels: &'a [u8], origin: usize },
}

/// The fields of OPT other than the response code.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options<'a> {
    pub(crate) server_id: &'a [u8],
    pub(crate) cookie: Option<[u8; COOKIE_SIZE]>,
    /// For how long an idle connection is kept, in tenths of a second.
    pub(crate) keepalive: Option<u16>,
}

/// A reply that is being written.
pub(crate) struct Reply<'r, 'q> {
    room: &'r mut [u8],
    at: usize,
    request: &'r Request<'q>,
    options: Options<'r>,
    size_max: usize,
    counts: [u16; 3],
    truncated: bool,
    extended_error: Option<ExtendedError>,
    compact_ok: bool,
}

impl<'r, 'q> Reply<'r, 'q> {
    /// Starts with room for the header, and the question if there is one.
    #[inline]
    pub(crate) fn begin(
        room: &'r mut [u8],
        request: &'r Request<'q>,
        mut options: Options<'r>,
        size_max: usize,
    ) -> Reply<'r, 'q> {
        if let Some(edns) = &request.edns {
            let fits = (1..=SERVER_ID_SIZE_MAX).contains(&options.server_id.len());
            if !fits || !edns.wants_server_id {
                options.server_id = &[];
            }
            let is_told = |timeout: &u16| *timeout == 0 || edns.wants_keepalive;
            options.keepalive = options.keepalive.filter(is_told);
        }
        let size_max = size_max.min(room.len());
        let mut reply = Reply {
            room,
            at: HEADER_SIZE,
            request,
            options,
            size_max,
            counts: [0; 3],
            truncated: false,
            extended_error: None,
            compact_ok: false,
        };
        reply.size_max = size_max.saturating_sub(reply.opt_size());
        if let Some(question) = &request.question {
            reply.append(question.bytes);
        }
        reply
    }

    fn opt_size(&self) -> usize {
        let Some(edns) = &self.request.edns else {
            return 0;
        };
        let subnet = edns.subnet.map_or(0, |subnet| subnet.size());
        let server_id = match self.options.server_id.len() {
            0 => 0,
            length => 4 + length,
        };
        let keepalive = self.options.keepalive.map_or(0, |_| SHORT_OPTION_SIZE);
        let explained = self.extended_error.map_or(0, |_| SHORT_OPTION_SIZE);
        let cookie = self.options.cookie.map_or(0, |cookie| cookie.len());
        OPT_SIZE + subnet + server_id + keepalive + explained + cookie
    }

    /// Says why, in a reply that has no records.
    #[cold]
    pub(crate) fn explain(&mut self, error: ExtendedError) {
        if self.counts == [0; 3] {
            self.extended_error = Some(error);
        }
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        if let Some(place) = self.room.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
            self.at += bytes.len();
        }
    }

    /// Says that the flag CO was understood.
    pub(crate) fn acknowledge_compact_ok(&mut self) {
        self.compact_ok = true;
    }

    /// Sets TC: nothing follows but OPT.
    pub(crate) fn truncate(&mut self) {
        self.truncated = true;
    }

    /// Appends an rrset. Gives where its wire begins; none when it did not fit, now or before.
    #[inline]
    pub(crate) fn put(
        &mut self,
        section: Section,
        rrset: &Rrset<'_>,
        names: Names,
    ) -> Option<usize> {
        let start = self.at;
        let in_reach = || {
            let origin = names.origin <= POINTER_OFFSET_MAX;
            rrset.points().next().is_none()
                || (origin && start <= POINTER_OFFSET_MAX - OWN_POINTER_MAX)
        };
        let fits = start + rrset.wire.len() <= self.size_max;
        if self.truncated || !fits || names.owner > POINTER_OFFSET_MAX || !in_reach() {
            self.truncated = true;
            return None;
        }
        self.append(rrset.wire);
        let compiled_for = QUESTION_OFFSET + names.owner_length + 4;
        if names.owner != QUESTION_OFFSET || start != compiled_for {
            let wire = self.room.get_mut(start..self.at)?;
            adapt(wire, rrset, names, start);
        }
        if let Some(count) = self.counts.get_mut(section as usize) {
            *count += rrset.count;
        }
        Some(start)
    }

    /// Changes the TTL of the record that begins there.
    pub(crate) fn set_ttl(&mut self, start: usize, ttl_seconds: u32) {
        if let Some(place) = self.room.get_mut(start + TTL_AT..start + TTL_AT + 4) {
            place.copy_from_slice(&ttl_seconds.to_be_bytes());
        }
    }

    /// Appends an rrset to the additional section if there is room for it: it is not missed
    /// otherwise.
    pub(crate) fn put_if_it_fits(&mut self, rrset: &Rrset<'_>, names: Names) -> bool {
        self.fits(rrset.wire.len()) && self.put(Section::Additional, rrset, names).is_some()
    }

    /// Whether N more bytes fit.
    pub(crate) fn fits(&self, size: usize) -> bool {
        self.at + size <= self.size_max
    }

    /// Appends one record of class IN. Gives where its owner begins; none when it did not fit, now
    /// or before.
    pub(crate) fn put_data(
        &mut self,
        section: Section,
        record_type: RecordType,
        ttl_seconds: u32,
        owner: Owner<'_>,
        data: &[u8],
    ) -> Option<usize> {
        let start = self.at;
        let (labels, target): (&[u8], usize) = match owner {
            Owner::At(place) => (&[], place),
            Owner::Named { labels, origin } => (labels, origin),
        };
        let size = labels.len() + RECORD_HEAD_SIZE + data.len();
        let is_far = target > POINTER_OFFSET_MAX || start > POINTER_OFFSET_MAX;
        if self.truncated || is_far || start + size > self.size_max {
            self.truncated = true;
            return None;
        }
        self.append(labels);
        let ([p0, p1], [y0, y1]) = (pointer(target), record_type.0.to_be_bytes());
        let ([t0, t1, t2, t3], [l0, l1]) =
            (ttl_seconds.to_be_bytes(), (data.len() as u16).to_be_bytes());
        self.append(&[p0, p1, y0, y1, 0, 1, t0, t1, t2, t3, l0, l1]);
        self.append(data);
        if let Some(count) = self.counts.get_mut(section as usize) {
            *count += 1;
        }
        Some(start)
    }

    /// Appends one record to the answer section whose data are written as they are.
    pub(crate) fn put_record(
        &mut self,
        record_type: RecordType,
        ttl_seconds: u32,
        owner: usize,
        data: &[u8],
    ) -> Option<usize> {
        self.put_record_of(1, record_type, ttl_seconds, owner, data)
    }

    /// Answers a question of class CHAOS by one text.
    pub(crate) fn put_chaos(&mut self, data: &[u8]) {
        self.put_record_of(3, RecordType::TXT, 0, QUESTION_OFFSET, data);
    }

    fn put_record_of(
        &mut self,
        class: u8,
        record_type: RecordType,
        ttl_seconds: u32,
        owner: usize,
        data: &[u8],
    ) -> Option<usize> {
        let start = self.at;
        let size = RECORD_HEAD_SIZE + data.len();
        if self.truncated || owner > POINTER_OFFSET_MAX || start + size > self.size_max {
            self.truncated = true;
            return None;
        }
        self.append(&pointer(owner));
        self.append(&record_type.0.to_be_bytes());
        self.append(&[0, class]);
        self.append(&ttl_seconds.to_be_bytes());
        self.append(&(data.len() as u16).to_be_bytes());
        self.append(data);
        let [answers, ..] = &mut self.counts;
        *answers += 1;
        Some(start)
    }

    /// Appends OPT and writes the header. Gives the reply's size.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        rcode: Rcode,
        authoritative: bool,
        scope_length_bits: u8,
    ) -> usize {
        let request = self.request;
        if let Some(edns) = &request.edns {
            let size = self.opt_size() - OPT_SIZE;
            let mut opt = opt_record(rcode, edns.dnssec_ok, size as u16);
            if self.compact_ok {
                opt[OPT_FLAGS_AT] |= COMPACT_OK;
            }
            self.append(&opt);
            if size > 0 {
                self.append_options(scope_length_bits);
            }
        }
        let header = &self.request.header;
        let flags = header.reply_flags()
            | u16::from(authoritative) << 10
            | u16::from(self.truncated) << 9
            | (rcode.0 & 15);
        let [answers, authorities, additionals] = self.counts;
        let additionals = additionals + u16::from(self.request.edns.is_some());
        let questions = u16::from(self.request.question.is_some());
        let words = [header.id, flags, questions, answers, authorities, additionals];
        let [[i0, i1], [f0, f1], [q0, q1], [a0, a1], [n0, n1], [r0, r1]] =
            words.map(u16::to_be_bytes);
        if let Some(head) = self.room.first_chunk_mut() {
            *head = [i0, i1, f0, f1, q0, q1, a0, a1, n0, n1, r0, r1];
        }
        self.at
    }

    #[cold]
    fn append_options(&mut self, scope_length_bits: u8) {
        if let Some(subnet) = self.request.edns.as_ref().and_then(|edns| edns.subnet) {
            self.append(&subnet.head(scope_length_bits));
            self.append(subnet.address);
        }
        if !self.options.server_id.is_empty() {
            self.append(&[0, 3]);
            self.append(&(self.options.server_id.len() as u16).to_be_bytes());
            self.append(self.options.server_id);
        }
        if let Some(cookie) = self.options.cookie {
            self.append(&cookie);
        }
        for (option, value) in [
            (OPTION_KEEPALIVE, self.options.keepalive),
            (OPTION_EXTENDED_ERROR, self.extended_error.map(|error| error as u16)),
        ] {
            if let Some(value) = value {
                let ([o0, o1], [v0, v1]) = (option.to_be_bytes(), value.to_be_bytes());
                self.append(&[o0, o1, 0, 2, v0, v1]);
            }
        }
    }
}

/// OPT before its options, which have `options_size` bytes.
#[inline]
pub(crate) fn opt_record(rcode: Rcode, dnssec_ok: bool, options_size: u16) -> [u8; OPT_SIZE] {
    let [extended, _] = (rcode.0 << 4).to_be_bytes();
    let [u0, u1] = SERVER_UDP_SIZE.to_be_bytes();
    let [s0, s1] = options_size.to_be_bytes();
    [0, 0, 41, u0, u1, extended, 0, u8::from(dnssec_ok) << 7, 0, s0, s1]
}

/// Writes the pointers of an rrset anew that stands elsewhere than it was compiled for.
fn adapt(wire: &mut [u8], rrset: &Rrset<'_>, names: Names, start: usize) {
    let owner_end = QUESTION_OFFSET + names.owner_length;
    for point in rrset.points() {
        let Some(place) = wire.get_mut(point..point + 2).and_then(<[u8]>::first_chunk_mut) else {
            continue;
        };
        let compiled = usize::from(u16::from_be_bytes(*place)) & POINTER_OFFSET_MAX;
        *place = pointer(match compiled {
            QUESTION_OFFSET => names.owner,
            _ if compiled < owner_end => names.origin,
            _ => compiled - (owner_end + 4) + start,
        });
    }
    if names.owner == QUESTION_OFFSET {
        return;
    }
    let mut at = 0;
    while let Some(head) = wire.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        let head: &mut [u8; RECORD_HEAD_SIZE] = head;
        let [high, low, .., length_high, length_low] = head;
        [*high, *low] = pointer(names.owner);
        at += RECORD_HEAD_SIZE + usize::from(u16::from_be_bytes([*length_high, *length_low]));
    }
}

#[inline]
fn pointer(target: usize) -> [u8; 2] {
    (0xc000 | target as u16).to_be_bytes()
}
