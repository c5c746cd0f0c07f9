//! Writes a reply: rrsets are copied whole, their pointers are set, the limit is kept.
//!
//! Not for: what belongs into the reply (`answer.rs`).
//!
//! ```text
//! header 12 | question as it was asked | answer | authority | additional | OPT
//!             ^ 12                                                          room is kept for it
//! ```
//!
//! Truncation (RFC 2181, 9): rrsets are written whole and in order; the first one that does not fit
//! sets TC, and nothing follows but OPT. A single rrset that is too large leaves its section empty.
//! Invariants: the reply is never longer than the limit; pointers point backwards, below 16384.
//! Cost: one copy per rrset, one 2-byte write per pointer. No allocation once the vector has grown.
#![deny(clippy::indexing_slicing)]

use crate::code::{Rcode, RecordType};
use crate::request::{HEADER_SIZE, Request};
use crate::zone::{RECORD_HEAD_SIZE, Rrset};

/// Where the question's name stands in every reply.
pub(crate) const QUESTION_OFFSET: usize = HEADER_SIZE;
const POINTER_OFFSET_MAX: usize = 0x3fff;
const OPT_SIZE: usize = 11;
const SERVER_ID_SIZE_MAX: usize = 128;

/// The sections after the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Answer,
    Authority,
    Additional,
}

/// A reply that is being written.
pub(crate) struct Reply<'r, 'q> {
    bytes: &'r mut Vec<u8>,
    request: &'r Request<'q>,
    server_id: &'r [u8],
    size_max: usize,
    answer_count: u16,
    authority_count: u16,
    additional_count: u16,
    truncated: bool,
}

impl<'r, 'q> Reply<'r, 'q> {
    /// Starts with room for the header, and the question if there is one.
    pub(crate) fn begin(
        bytes: &'r mut Vec<u8>,
        request: &'r Request<'q>,
        server_id: &'r [u8],
        size_max: usize,
    ) -> Reply<'r, 'q> {
        bytes.clear();
        bytes.extend_from_slice(&[0; HEADER_SIZE]);
        if let Some(question) = &request.question {
            bytes.extend_from_slice(question.bytes);
        }
        let fits = (1..=SERVER_ID_SIZE_MAX).contains(&server_id.len());
        let wanted = request.edns.is_some_and(|edns| edns.wants_server_id);
        let mut reply = Reply {
            bytes,
            request,
            server_id: if fits && wanted { server_id } else { &[] },
            size_max,
            answer_count: 0,
            authority_count: 0,
            additional_count: 0,
            truncated: false,
        };
        reply.size_max -= reply.opt_size();
        reply
    }

    fn opt_size(&self) -> usize {
        let Some(edns) = &self.request.edns else {
            return 0;
        };
        let subnet = edns.subnet.map_or(0, |subnet| subnet.size());
        let server_id = if self.server_id.is_empty() { 0 } else { 4 + self.server_id.len() };
        OPT_SIZE + subnet + server_id
    }

    /// Appends an rrset whose owner stands at `owner` and whose zone's origin at `origin` in the
    /// reply. Gives where its wire begins; none when it did not fit, now or before.
    pub(crate) fn put(
        &mut self,
        section: Section,
        rrset: &Rrset,
        owner: usize,
        origin: usize,
    ) -> Option<usize> {
        let start = self.bytes.len();
        let reachable = owner.max(origin) <= POINTER_OFFSET_MAX;
        if self.truncated || !reachable || start + rrset.wire.len() > self.size_max {
            self.truncated = true;
            return None;
        }
        self.bytes.extend_from_slice(&rrset.wire);
        let wire = self.bytes.get_mut(start..)?;
        for &point in &rrset.points {
            set_pointer(wire, point as usize, origin);
        }
        if owner != QUESTION_OFFSET {
            let mut at = 0;
            while let Some(head) = wire.get(at..).and_then(|rest| rest.first_chunk()) {
                let head: &[u8; RECORD_HEAD_SIZE] = head;
                let [.., high, low] = *head;
                set_pointer(wire, at, owner);
                at += RECORD_HEAD_SIZE + usize::from(u16::from_be_bytes([high, low]));
            }
        }
        match section {
            Section::Answer => self.answer_count += rrset.count,
            Section::Authority => self.authority_count += rrset.count,
            Section::Additional => self.additional_count += rrset.count,
        }
        Some(start)
    }

    /// Appends OPT and writes the header.
    pub(crate) fn finish(self, rcode: Rcode, authoritative: bool, scope_length_bits: u8) {
        let mut additional_count = self.additional_count;
        if let Some(edns) = &self.request.edns {
            additional_count += 1;
            let size = self.opt_size() - OPT_SIZE;
            let [extended, _] = (rcode.0 << 4).to_be_bytes();
            self.bytes.push(0);
            self.bytes.extend_from_slice(&RecordType::OPT.0.to_be_bytes());
            self.bytes.extend_from_slice(&SERVER_UDP_SIZE.to_be_bytes());
            self.bytes.extend_from_slice(&[extended, 0, u8::from(edns.dnssec_ok) << 7, 0]);
            self.bytes.extend_from_slice(&(size as u16).to_be_bytes());
            if let Some(subnet) = edns.subnet {
                subnet.write(scope_length_bits, self.bytes);
            }
            if !self.server_id.is_empty() {
                self.bytes.extend_from_slice(&[0, 3]);
                self.bytes.extend_from_slice(&(self.server_id.len() as u16).to_be_bytes());
                self.bytes.extend_from_slice(self.server_id);
            }
        }
        let header = &self.request.header;
        let flags = header.reply_flags()
            | u16::from(authoritative) << 10
            | u16::from(self.truncated) << 9
            | (rcode.0 & 15);
        let words = [
            header.id,
            flags,
            self.request.question.is_some().into(),
            self.answer_count,
            self.authority_count,
            additional_count,
        ];
        for (place, word) in self.bytes.chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }
}

/// The size of UDP queries that this server is ready to take.
const SERVER_UDP_SIZE: u16 = 1232;

fn set_pointer(wire: &mut [u8], at: usize, target: usize) {
    if let Some(place) = wire.get_mut(at..at + 2) {
        place.copy_from_slice(&(0xc000 | target as u16).to_be_bytes());
    }
}
