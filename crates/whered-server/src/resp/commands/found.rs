//! What a search has found as a reply, at once or in parts.
//!
//! For: the members of a collection as they lie in its leaves, and what is told beside each.
//! Not for: plain sorted sets, whose searches are short (`geosearch` writes them).
//!
//! ```text
//! few hits    leaves ──copy──► reply
//! many hits   held leaves + spans ──► reply.rest ──pieces as they lie──► socket ──► next part
//!             with more beside each member, or TLS: ──copy──► 256 KiB ──► socket ──► next part
//! ```
//!
//! A long reply so takes little memory and little time at once, however slow its client is: other
//! clients have their turns between the parts, and writers never wait. While it is under way, writers
//! copy those of its leaves that they change, or any leaf if a whole view is kept for it (`geo_later`).
//! Cost: for members alone no copy but the kernel's own.

use std::cell::Cell;
use std::io::IoSlice;

use whered_engine::geo::{Found, FoundCursor, Place, Tree};

use super::geo::write_place;
use crate::resp::reply::{Reply, Rest};

/// A reply with more hits is given in parts.
pub(super) const MOST_HITS_AT_ONCE: usize = 4096;
/// The most bytes that are told beside a member, for the limit of a part.
const MOST_BESIDE_BYTES: usize = 160;

/// What is told beside each member.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyFields {
    pub(super) distance: bool,
    pub(super) hash: bool,
    pub(super) place: bool,
    /// What distances are divided by.
    pub(super) unit_meters: f64,
}

impl Default for ReplyFields {
    /// Nothing; distances in meters.
    fn default() -> ReplyFields {
        ReplyFields { distance: false, hash: false, place: false, unit_meters: 1.0 }
    }
}

impl ReplyFields {
    fn count(self) -> usize {
        [self.distance, self.hash, self.place].iter().filter(|with| **with).count()
    }

    /// Writes one hit; `member` writes its name, `distance` its distance in units of that many
    /// meters.
    pub(super) fn write(
        self,
        reply: &mut Reply,
        member: impl FnOnce(&mut Reply),
        distance: impl FnOnce(&mut Reply, f64),
        hash: i64,
        place: impl FnOnce() -> Place,
    ) {
        let extras = self.count();
        if extras > 0 {
            reply.array(1 + extras);
        }
        member(reply);
        if self.distance {
            distance(reply, self.unit_meters);
        }
        if self.hash {
            reply.integer(hash);
        }
        if self.place {
            write_place(reply, place());
        }
    }
}

/// Writes all hits behind the array's header.
pub(super) fn write_all(beside: ReplyFields, points: &Tree, found: &Found, reply: &mut Reply) {
    write_part(beside, points, found, &mut FoundCursor::default(), reply, usize::MAX);
}

/// Writes all hits, or leaves them to be sent in parts if they are many. `view` is immutable.
pub(super) fn write_in_parts(beside: ReplyFields, view: Tree, found: Found, reply: &mut Reply) {
    if found.len() <= MOST_HITS_AT_ONCE {
        return write_all(beside, &view, &found, reply);
    }
    reply.rest = Some(Box::new(HitStream {
        beside,
        view,
        found,
        cursor: FoundCursor::default(),
        begun: 0,
        offered: Cell::default(),
        protocol: reply.beside(),
    }));
}

/// Writes hits until the part has about the size asked for.
fn write_part(
    beside: ReplyFields,
    view: &Tree,
    found: &Found,
    cursor: &mut FoundCursor,
    reply: &mut Reply,
    wanted_bytes: usize,
) {
    let end = reply.out.len().saturating_add(wanted_bytes);
    if beside.count() == 0 {
        while reply.out.len() < end
            && let Some(bulks) = found.next_bulks(view, cursor)
        {
            reply.out.extend_from_slice(bulks);
        }
        return;
    }
    while reply.out.len() < end.saturating_sub(MOST_BESIDE_BYTES)
        && let Some(hit) = found.next_hit(view, cursor)
    {
        let member = |reply: &mut Reply| reply.out.extend_from_slice(hit.bulk());
        let hash = hit.cell().bits() as i64;
        let distance = |reply: &mut Reply, unit: f64| {
            let (least, most) = hit.distance_bounds_meters();
            reply.distance_within(least / unit, most / unit, || hit.distance_meters() / unit);
        };
        beside.write(reply, member, distance, hash, || hit.place());
    }
}

/// The hits of a long reply that have not been written yet.
struct HitStream {
    beside: ReplyFields,
    view: Tree,
    found: Found,
    cursor: FoundCursor,
    /// How many bytes of the piece at the cursor have been sent.
    begun: usize,
    /// The pieces that were asked for last: how many bytes, and the cursor behind them.
    offered: Cell<Option<(usize, FoundCursor)>>,
    /// Says which protocol the client speaks; its buffer is borrowed from the connection.
    protocol: Reply,
}

impl HitStream {
    /// The pieces from the cursor on, the first without what was sent of it, each with the cursor
    /// behind it.
    fn pieces_from_here(&self) -> impl Iterator<Item = (&[u8], FoundCursor)> {
        let (mut cursor, mut begun) = (self.cursor, self.begun);
        std::iter::from_fn(move || {
            let piece = self.found.next_bulks(&self.view, &mut cursor)?;
            Some((&piece[std::mem::take(&mut begun)..], cursor))
        })
    }
}

impl Rest for HitStream {
    fn append(&mut self, out: &mut Vec<u8>, wanted_bytes: usize) {
        if self.begun > 0
            && let Some(piece) = self.found.next_bulks(&self.view, &mut self.cursor)
        {
            out.extend_from_slice(&piece[std::mem::take(&mut self.begun)..]);
        }
        std::mem::swap(out, &mut self.protocol.out);
        let wanted_bytes = wanted_bytes.max(2 * MOST_BESIDE_BYTES);
        let (found, cursor) = (&self.found, &mut self.cursor);
        write_part(self.beside, &self.view, found, cursor, &mut self.protocol, wanted_bytes);
        std::mem::swap(out, &mut self.protocol.out);
    }

    fn has_pieces(&self) -> bool {
        self.beside.count() == 0
    }

    fn pieces<'a>(
        &'a self,
        pieces: &mut Vec<IoSlice<'a>>,
        wanted_bytes: usize,
        most_pieces: usize,
    ) {
        let (mut bytes, mut reached) = (0, self.cursor);
        for (piece, behind) in self.pieces_from_here() {
            bytes += piece.len();
            reached = behind;
            pieces.push(IoSlice::new(piece));
            if bytes >= wanted_bytes || pieces.len() >= most_pieces {
                break;
            }
        }
        self.offered.set(Some((bytes, reached)));
    }

    fn sent(&mut self, bytes: usize) {
        if let Some((offered_bytes, behind)) = self.offered.take()
            && bytes == offered_bytes
        {
            (self.cursor, self.begun) = (behind, 0);
            return;
        }
        let (mut left, mut reached, mut begun) = (bytes, self.cursor, self.begun);
        for (piece, behind) in self.pieces_from_here() {
            if left < piece.len() {
                break;
            }
            left -= piece.len();
            (reached, begun) = (behind, 0);
        }
        (self.cursor, self.begun) = (reached, begun + left);
    }

    fn is_finished(&self) -> bool {
        self.cursor.hits() == self.found.len()
    }

    fn size_bytes(&self) -> usize {
        self.found.memory_bytes()
    }
}

#[cfg(test)]
#[path = "found_tests.rs"]
mod tests;
